//! Cache traffic over network traffic, at both sides (Balaji et al., SC 2007): what each byte of payload moves between
//! the caches and memory in user code, and beside it what the kernel's copies move, by design.

use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::job::{Cache, Kind, Wait};
use crate::model::size::Size;
use crate::runner::counting::Tool;
use crate::runner::plan::{Plan, Results};

pub(crate) struct CacheTraffic;

/// What a run sends, in bytes: a run is slowed down by how its misses are counted.
const BYTES: usize = 8 << 20;
/// The same with `--quick`.
const QUICK_BYTES: usize = 2 << 20;

/// In order and copied; out of order and placed; through memory that both share; where a marker costs a copy, and where
/// it is inserted on the way; plain sockets.
const DESIGNS: [&str; 6] = [
    "iwarp:verify=before-place",
    "edge",
    "shm",
    "iwarp:split=assist:markers=on",
    "iwarp:split=coupled:markers=on",
    "sockets",
];

impl Design for CacheTraffic {
    fn contestants(&self) -> Vec<String> {
        DESIGNS.map(str::to_owned).to_vec()
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let bytes = if basis.quick() { QUICK_BYTES } else { BYTES };
        // Without a tool nothing is measured; then the error says how to get one.
        let tool = Tool::of_this_machine().map_or("none", Tool::name);
        let case = |size: Size| {
            let case = basis.case_of(Kind::CacheTraffic, size, (bytes / size.0).max(2) as u64);
            case.with(|job| (job.cache, job.wait) = (Cache::Out, Wait::Block)).label_with("counted_by", tool)
        };
        let sizes = basis.sizes(if basis.quick() { "64K" } else { "4K,16K,64K,256K,1M" });
        sizes.into_iter().map(case).collect()
    }

    fn afterword(&self, plan: &Plan, _: &Results) -> String {
        let by_counters =
            plan.cases.iter().any(|case| case.label("counted_by").as_deref() == Some(Tool::Counters.name()));
        let how = if by_counters {
            "by the processor's counters: of user code and of the kernel in its name, copies included"
        } else {
            "of user code alone, by cachegrind's model of a last cache of 2 MiB"
        };
        format!(
            "\ncache: bytes of lines that missed the last cache, {how}\n\
             kernel: twice the bytes that went through calls that send and receive, for a copy reads and writes them; \
             calculated, not measured\n\
             Both are for each byte of payload. They can't be added: of what the kernel copies, the caches may hold \
             some.\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::experiments::design::Choices;
    use crate::model::job::tests::job;

    #[test]
    fn each_size_sends_as_much() {
        let choices = Choices::default();
        let basis = Basis { template: job(), choices: &choices, libraries: Vec::new(), round_trip: Duration::ZERO };
        let cases = CacheTraffic.cases(&basis);
        assert_eq!(cases.len(), 5);
        assert!(cases.iter().all(|case| case.job.bytes() == BYTES as u64 && case.job.check().is_ok()));
        let quick = Choices { quick: true, ..Choices::default() };
        let quick_cases = CacheTraffic.cases(&Basis { choices: &quick, ..basis });
        assert_eq!(quick_cases.iter().map(|case| case.job.bytes()).collect::<Vec<_>>(), [QUICK_BYTES as u64]);
    }
}
