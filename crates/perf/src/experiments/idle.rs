//! What quiet connections cost.

use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::job::Kind;
use crate::model::size::Size;

pub(crate) struct Idle;

/// Entries of each work queue of a connection.
const DEPTH: usize = 16;

impl Design for Idle {
    fn contestants(&self) -> Vec<String> {
        ["iwarp:progress=hybrid", "iwarp:progress=thread"].map(str::to_owned).to_vec()
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let quiet_ms =
            basis.choices.seconds.map_or(if basis.quick() { 300 } else { 3000 }, |seconds| (seconds * 1000.0) as u64);
        // Right after the last call, and when nothing has happened for long; with queues of some entries, and of one,
        // which leaves little but what the library needs for itself.
        [("just left", 0, DEPTH), ("for long", quiet_ms.min(1000), DEPTH), ("for long", quiet_ms.min(1000), 1)]
            .map(|(since, settle_ms, depth)| {
                let case = basis.case_of(Kind::Idle, Size(1), 1).with(|job| {
                    (job.quiet_ms, job.settle_ms, job.window) = (quiet_ms.max(1), settle_ms, depth);
                    job.connections = basis.choices.connections;
                });
                let case = case.label_with("connections", basis.choices.connections);
                case.label_with("depth", depth).label_with("quiet", since)
            })
            .to_vec()
    }
}
