//! Which design a test has.

use crate::experiments::design::Design;
use crate::experiments::{
    all_to_all, basic, cache_traffic, clusters, connect, emulator, idle, in_order_tax, isosurface, logp, markers,
    matching, mpi, mpi_clusters, nas, notified_put, overlap, ping_ping, progress, reordering, slowdown, split, verbs,
};
use crate::model::test::Test;

/// How it is done.
pub(crate) fn design(test: Test) -> &'static dyn Design {
    match test {
        Test::Latency => &basic::LATENCY,
        Test::Bandwidth => &basic::BANDWIDTH,
        Test::Rate => &basic::RATE,
        Test::PingPing => &ping_ping::PingPing,
        Test::Overlap => &overlap::Overlap,
        Test::OverlapRatio => &overlap::Ratio,
        Test::Progress => &progress::Lateness,
        Test::Slowdown => &slowdown::Slowdown,
        Test::Split => &split::Split,
        Test::Markers => &markers::Markers,
        Test::InOrderTax => &in_order_tax::InOrderTax,
        Test::Idle => &idle::Idle,
        Test::AllToAll => &all_to_all::AllToAll,
        Test::Match => &matching::Matching,
        Test::Emulator => &emulator::Emulation,
        Test::Clusters => &clusters::Clusters,
        Test::Mpi => &mpi::MpiPrograms,
        Test::Connect => &connect::Connect,
        Test::LogP => &logp::LogP,
        Test::Nas => &nas::NasBenchmarks,
        Test::Reordering => &reordering::Reordering,
        Test::NotifiedPut => &notified_put::NotifiedPut,
        Test::Isosurface => &isosurface::Isosurface,
        Test::MpiClusters => &mpi_clusters::MpiClusters,
        Test::CacheTraffic => &cache_traffic::CacheTraffic,
        Test::Verbs => &verbs::Verbs,
    }
}
