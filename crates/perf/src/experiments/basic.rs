//! Latency, bandwidth, message rate: the transport beside everybody else.

use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::job::Kind;
use crate::runner::registry;

/// One kind of run, over sizes.
pub(crate) struct Basic {
    kind: Kind,
    sizes: &'static str,
}

pub(crate) const LATENCY: Basic = Basic { kind: Kind::Latency, sizes: "8" };
pub(crate) const BANDWIDTH: Basic = Basic { kind: Kind::Bandwidth, sizes: "64K..1M" };
pub(crate) const RATE: Basic = Basic { kind: Kind::Rate, sizes: "8" };

impl Design for Basic {
    fn contestants(&self) -> Vec<String> {
        registry::usual().map(|contestant| contestant.name().to_owned()).collect()
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        basis.sizes(self.sizes).into_iter().map(|size| basis.case(self.kind, size, 1.0)).collect()
    }
}
