//! NAS parallel benchmarks, as the papers on MPI-BIP measured them: over Weft beside what else carries MPI.

use crate::contestants::mpi::Mpi;
use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::contestant::Entry;
use crate::model::job::Kind;
use crate::model::size::Size;
use crate::mpi::nas::Built;
use crate::runner::plan::{Plan, Results};
use crate::runner::registry;

pub(crate) struct NasBenchmarks;

/// Ranks, all on this host.
pub(crate) const RANKS: [usize; 3] = [2, 4, 8];

impl Design for NasBenchmarks {
    fn contestants(&self) -> Vec<String> {
        ["weft", "weft-iwarp", "weft-edge", "libfabric-tcp", "ucx"].map(|it| format!("{}:{it}", Mpi::NAME)).into()
    }

    /// Every name is what carries MPI.
    fn entry(&self, name: &str) -> Result<Entry, String> {
        let of_mpi = name.split(':').next() == Some(Mpi::NAME);
        registry::parse(&if of_mpi { name.to_owned() } else { format!("{}:{name}", Mpi::NAME) })
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let case = |built: &Built| {
            let case = basis.case_of(Kind::Nas, Size(1), 1).with(|job| {
                (job.mpi, job.mpi_ranks) = (Some(built.library.clone()), built.ranks);
                job.nas = Some(built.nas.clone());
            });
            let case = case.label_with("benchmark", built.nas.benchmark.name());
            let case = case.label_with("class", built.nas.class.name());
            case.label_with("library", built.library.library.name()).label_with("ranks", built.ranks)
        };
        basis.choices.benchmarks.iter().map(case).collect()
    }

    fn afterword(&self, _: &Plan, _: &Results) -> String {
        "\nMop/s: what the benchmark tells itself, all ranks together. A run whose verification is not SUCCESSFUL has \
         failed.\n"
            .into()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::experiments::design::Choices;
    use crate::model::installation::{Installation, Library};
    use crate::model::job::tests::job;
    use crate::model::nas::{Benchmark, Class, Nas};

    #[test]
    fn each_program_is_a_case() {
        let built = |ranks| Built {
            library: Installation::by_itself(Library::Debian),
            ranks,
            nas: Nas { benchmark: Benchmark::Cg, class: Class::W, executable: "/somewhere/cg.W.x".into() },
        };
        let choices = Choices { benchmarks: RANKS.map(built).into(), ..Choices::default() };
        let basis = Basis { template: job(), choices: &choices, libraries: Vec::new(), round_trip: Duration::ZERO };
        let cases = NasBenchmarks.cases(&basis);
        let label = |name: &str| cases.iter().map(|case| case.label(name).unwrap()).collect::<Vec<_>>();
        assert_eq!(label("ranks"), ["2", "4", "8"]);
        assert_eq!([label("benchmark")[0].as_str(), &label("class")[0], &label("library")[0]], ["cg", "W", "debian"]);
        assert!(cases.iter().all(|case| case.job.check().is_ok() && case.job.nas.is_some()));
        for name in NasBenchmarks.contestants() {
            let entry = NasBenchmarks.entry(&name).unwrap();
            assert_eq!(entry.to_string(), name);
        }
        assert_eq!(NasBenchmarks.entry("ucx").unwrap().to_string(), "mpi:ucx");
    }
}
