//! An MPI job with ranks in two clusters: a ring, an all-to-all, a halo and a bucket sort, over Weft beside libfabric's
//! tcp, by the delay between the clusters.

use crate::contestants::mpi::Mpi;
use crate::experiments::design::{Basis, Design};
use crate::model::case::Case;
use crate::model::contestant::Entry;
use crate::model::installation::Installation;
use crate::model::job::{Job, Kind};
use crate::model::reach::Reach;
use crate::runner::plan::{Plan, Results};
use crate::runner::registry;

pub(crate) struct MpiClusters;

/// Hosts in each of the two clusters, each with one rank.
const HOSTS: usize = 4;
/// Rounds of each pattern take about this time of waiting for the link between the clusters, in seconds; there are at
/// least [`LEAST`] of them.
const WAITING_S: f64 = 0.2;
const LEAST: u64 = 3;

impl Design for MpiClusters {
    fn contestants(&self) -> Vec<String> {
        ["weft", "weft-edge", "libfabric-tcp"].map(|carrier| format!("{}:{carrier}", Mpi::NAME)).into()
    }

    fn hosts_in_clusters(&self) -> Option<usize> {
        Some(HOSTS)
    }

    /// Every name is what carries MPI.
    fn entry(&self, name: &str) -> Result<Entry, String> {
        let of_mpi = name.split(':').next() == Some(Mpi::NAME);
        registry::parse(&if of_mpi { name.to_owned() } else { format!("{}:{name}", Mpi::NAME) })
    }

    fn cases(&self, basis: &Basis<'_>) -> Vec<Case> {
        let rounds = rounds(basis);
        let case = |size, installation: &Installation| {
            let case = basis.case_of(Kind::Patterns, size, rounds).with(|job| {
                (job.mpi, job.mpi_ranks, job.reach) = (Some(installation.clone()), 2 * HOSTS, Some(Reach::Across));
            });
            case.label_with("library", installation.library.name())
        };
        let sizes = basis.sizes("4K").into_iter();
        sizes.flat_map(|size| basis.libraries.iter().map(move |library| case(size, library))).collect()
    }

    fn afterword(&self, _: &Plan, _: &Results) -> String {
        "\neight ranks, each in a host of its own, four in each cluster; weft is iWARP between hosts.\n\
         ring: a message goes round all ranks. all-to-all: one from each rank to each other one. halo: one to each \
         neighbour in the ring. sort: examples/bucketsort.c, an allreduce, an all-to-all and an all-to-allv.\n"
            .into()
    }
}

/// How many rounds of each pattern a launch has.
fn rounds(basis: &Basis<'_>) -> u64 {
    let usual = Job::default_iterations(Kind::Patterns, 0);
    let usual = if basis.quick() { usual / 10 } else { usual };
    if basis.round_trip.is_zero() {
        return usual;
    }
    ((WAITING_S / basis.round_trip.as_secs_f64()) as u64).clamp(LEAST, usual)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::experiments::design::Choices;
    use crate::model::job::tests::job;

    #[test]
    fn there_are_fewer_rounds_the_longer_one_takes() {
        let of = |ms, quick| {
            let choices = Choices { quick, ..Choices::default() };
            let round_trip = Duration::from_millis(ms);
            rounds(&Basis { template: job(), choices: &choices, libraries: Vec::new(), round_trip })
        };
        assert_eq!([0, 1, 16, 100].map(|ms| of(ms, false)), [50, 50, 12, 3]);
        assert_eq!([0, 100].map(|ms| of(ms, true)), [5, 3]);
    }

    #[test]
    fn every_name_is_a_carrier() {
        let entry = |name| MpiClusters.entry(name).map(|entry| entry.to_string());
        assert_eq!(entry("weft-edge"), Ok("mpi:weft-edge".to_owned()));
        assert_eq!(entry("mpi:libfabric-tcp"), Ok("mpi:libfabric-tcp".to_owned()));
    }
}
