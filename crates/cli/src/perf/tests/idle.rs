//! What quiet connections cost.

use super::super::job::Kind;
use super::super::size::Size;
use super::{Basis, Case, Design};

pub(super) struct Idle;

impl Design for Idle {
    fn contestants(&self) -> Vec<String> {
        ["iwarp:progress=hybrid", "iwarp:progress=thread"].map(str::to_owned).to_vec()
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let quiet_ms =
            basis.arguments.seconds.map_or(if basis.quick() { 300 } else { 3000 }, |seconds| (seconds * 1000.0) as u64);
        // Right after the last call, and when nothing has happened for long.
        [("just left", 0), ("for long", quiet_ms.min(1000))]
            .map(|(since, settle_ms)| {
                let case = basis.case_of(Kind::Idle, Size(1), 1).with(|job| {
                    (job.quiet_ms, job.settle_ms) = (quiet_ms.max(1), settle_ms);
                    job.connections = basis.arguments.connections;
                });
                case.label_with("connections", basis.arguments.connections).label_with("quiet", since)
            })
            .to_vec()
    }
}
