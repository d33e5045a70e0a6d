//! Both sides send at the same time: the ping-ping and the full duplex of the MPI-BIP papers.

use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::job::Kind;

pub(crate) struct PingPing;

impl Design for PingPing {
    fn contestants(&self) -> Vec<String> {
        ["iwarp", "sockets", "libfabric"].map(str::to_owned).to_vec()
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let exchanges = basis.sizes("8,1K,64K").into_iter().map(|size| basis.case(Kind::PingPing, size, 0.5));
        let streams = basis.sizes("64K,1M").into_iter().map(|size| basis.case(Kind::Duplex, size, 0.5));
        exchanges.chain(streams).collect()
    }
}
