//! What markers cost, by their spacing.

use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::job::Kind;

pub(crate) struct Markers;

impl Design for Markers {
    fn contestants(&self) -> Vec<String> {
        ["off", "512", "1K", "2K"].map(|spacing| format!("iwarp:markers={spacing}")).to_vec()
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let (short, long) =
            if basis.quick() { ("1,2K", "1K,256K") } else { ("1,64,256,1K,2K", "1,256,1K,4K,16K,64K,256K") };
        let latency = basis.sizes(short).into_iter().map(|size| basis.case(Kind::Latency, size, 0.3));
        let bandwidth = basis.sizes(long).into_iter().map(|size| basis.case(Kind::Bandwidth, size, 0.3));
        latency.chain(bandwidth).collect()
    }
}
