//! MPI programs: latency, bandwidth, message rate and overlap of two ranks, collectives and the start of many, over
//! Weft beside what else carries their messages.

use crate::contestants::mpi::Mpi;
use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::contestant::Entry;
use crate::model::job::{Job, Kind};
use crate::model::test::Part;
use crate::runner::plan::{Plan, Results};
use crate::runner::registry;

pub(crate) struct MpiPrograms;

/// What two ranks do, which is what is measured by default.
const USUAL: [Part; 4] = [Part::Latency, Part::Bandwidth, Part::Rate, Part::Overlap];

/// Contestants that may be beside MPI programs: what the same path carries without an MPI library. Every other name is
/// what carries MPI.
const WITHOUT_MPI: [&str; 4] = ["sockets", "mptcp", "iwarp", "libfabric"];

/// Transfers before those that count, at least: the length of the computation is settled by them.
const LEAST_WARMUP: u64 = 5;

/// Messages beside computation: whether both ranks send one, and what that is called.
const DIRECTIONS: [(bool, &str); 2] = [(false, "one way"), (true, "both ways")];

fn beside_computation(basis: &Basis<'_>, case: Case, (both_ways, direction): (bool, &str)) -> Case {
    let set = |job: &mut Job| {
        job.both_ways = both_ways;
        let least = if basis.choices.warmup.is_none() { LEAST_WARMUP } else { 1 };
        job.warmup = job.warmup.max(least);
    };
    case.with(set).label_with("direction", direction)
}

impl Design for MpiPrograms {
    fn contestants(&self) -> Vec<String> {
        ["weft", "libfabric-tcp", "ucx"].map(|carrier| format!("{}:{carrier}", Mpi::NAME)).to_vec()
    }

    fn wants_lab(&self) -> bool {
        true
    }

    fn entry(&self, name: &str) -> Result<Entry, String> {
        let whose = name.split(':').next().unwrap_or_default();
        if whose == Mpi::NAME || WITHOUT_MPI.contains(&whose) {
            return registry::parse(name);
        }
        registry::parse(&format!("{}:{name}", Mpi::NAME))
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let parts: &[Part] = match &basis.choices.part {
            parts if parts.is_empty() => &USUAL,
            parts => parts,
        };
        let mut cases = Vec::new();
        for part in parts {
            for size in basis.sizes(part.sizes(basis.quick())) {
                for installation in &basis.libraries {
                    let case = match part {
                        // One all-to-all, for the start is what takes the time.
                        Part::Start => basis.case_of(part.kind(), size, 1),
                        _ => basis.case(part.kind(), size, 1.0),
                    };
                    let case = case.with(|job| job.mpi = Some(installation.clone()));
                    let case = case.label_with("library", installation.library.name());
                    match part.ranks() {
                        _ if *part == Part::Overlap => {
                            cases
                                .extend(DIRECTIONS.map(|direction| beside_computation(basis, case.clone(), direction)));
                        }
                        Some(usual) => cases.extend(basis.processes(usual).into_iter().map(|ranks| {
                            let job = |job: &mut Job| job.mpi_ranks = ranks;
                            case.clone().with(job).label_with("ranks", ranks)
                        })),
                        None => cases.push(case),
                    }
                }
            }
        }
        cases
    }

    fn afterword(&self, plan: &Plan, _: &Results) -> String {
        if plan.cases.iter().all(|case| case.job.kind != Kind::Hiding) {
            return String::new();
        }
        "\ntransfer: one rank sends and the other receives a message (both ways: both do both), and they wait.\n\
         compute: a computation of 1.25 times that, alone, on both. both: send and receive without waiting, compute, wait.\n\
         hidden: (transfer + compute - both) / the shorter of transfer and compute, each until both ranks are done (100: all of it)\n"
            .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_carrier_or_somebody_without_mpi() {
        let entry = |name| MpiPrograms.entry(name).unwrap().to_string();
        for (name, found) in [
            ("weft", "mpi:weft"),
            ("mpi:weft", "mpi:weft"),
            ("libfabric-tcp", "mpi:libfabric-tcp"),
            ("ucx", "mpi:ucx"),
            ("sockets:crc", "sockets:crc"),
            ("libfabric:tcp", "libfabric:tcp"),
        ] {
            assert_eq!(entry(name), found);
        }
    }
}
