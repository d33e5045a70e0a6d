//! Latency, bandwidth, message rate: the transport beside everybody else.

use super::super::contestant;
use super::super::job::Kind;
use super::{Basis, Case, Design};

/// One kind of run, over sizes.
pub(super) struct Basic {
    kind: Kind,
    sizes: &'static str,
}

pub(super) const LATENCY: Basic = Basic { kind: Kind::Latency, sizes: "8" };
pub(super) const BANDWIDTH: Basic = Basic { kind: Kind::Bandwidth, sizes: "64K..1M" };
pub(super) const RATE: Basic = Basic { kind: Kind::Rate, sizes: "8" };

impl Design for Basic {
    fn contestants(&self) -> Vec<String> {
        contestant::usual().map(|contestant| contestant.name().to_owned()).collect()
    }

    fn runs(&self) -> u32 {
        5
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        basis.sizes(self.sizes).into_iter().map(|size| basis.case(self.kind, size, 1.0)).collect()
    }
}
