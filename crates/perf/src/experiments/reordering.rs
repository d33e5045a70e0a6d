//! Late and lost packets of a link: iWARP that places what comes early, over Weft's own TCP, beside iWARP that does
//! not, Edge, and the kernel's TCP. On real packets, where `disorder` is in virtual time: the paper on out-of-order
//! iWARP measured with all in order alone.

use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::job::Kind;
use crate::model::size::Size;
use crate::runner::plan::{Plan, Results};

pub(crate) struct Reordering;

/// Messages of a stream, which are 13 MB by default: half a second without faults.
const STREAM: u64 = 200;
/// Messages one by one, of which some wait for a time-out.
const ONE_BY_ONE: u64 = 200;

impl Design for Reordering {
    fn contestants(&self) -> Vec<String> {
        ["iwarp:raw=on:markers=on", "iwarp:raw=on", "iwarp", "edge:raw=on", "edge", "sockets"].map(str::to_owned).into()
    }

    fn wants_lab(&self) -> bool {
        true
    }

    /// Each packet is late or lost by itself.
    fn needs_real_packets(&self) -> bool {
        true
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let messages = |usual: u64| if basis.quick() { usual / 10 } else { usual };
        let case = |kind, size: Size, count| basis.case_of(kind, size, messages(count));
        let streams = basis.sizes("64K").into_iter().map(|size| case(Kind::Bandwidth, size, STREAM));
        let latency = case(Kind::Latency, Size(64), ONE_BY_ONE);
        streams.chain([latency]).collect()
    }

    fn afterword(&self, _: &Plan, _: &Results) -> String {
        "\nraw=on: over Weft's own TCP, or in Edge's own frames; with markers iWARP places what comes early, without \
         them it keeps it until its turn, as the kernel's TCP does for iwarp and sockets.\n"
            .into()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::experiments::design::Choices;
    use crate::model::job::tests::job;

    #[test]
    fn goodput_and_latency_are_measured() {
        let kinds = |quick| {
            let choices = Choices { quick, ..Choices::default() };
            let basis = Basis { template: job(), choices: &choices, libraries: Vec::new(), round_trip: Duration::ZERO };
            let cases = Reordering.cases(&basis);
            cases.iter().map(|case| (case.job.kind, case.job.size, case.job.iterations)).collect::<Vec<_>>()
        };
        assert_eq!(kinds(false), [(Kind::Bandwidth, 65536, 200), (Kind::Latency, 64, 200)]);
        assert_eq!(kinds(true), [(Kind::Bandwidth, 65536, 20), (Kind::Latency, 64, 20)]);
    }
}
