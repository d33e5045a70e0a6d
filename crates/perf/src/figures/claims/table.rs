//! All claims.

use crate::figures::claims::claimed::{Case, Claimed, Is, claim};
use crate::result::HEADERS;

const README: &str = "README.md";

/// MPICH over Weft by default, and over libfabric's tcp.
const MPI_WEFT: &str = "mpi:weft";
const MPI_TCP: Option<&str> = Some("mpi:libfabric-tcp");
const MPICH: (&str, Is) = ("library", Is::Word("mpich"));

const MEBIBYTE: Case = &[("size_bytes", Is::Number(1_048_576.0)), MPICH];
const EIGHT_BYTES: Case = &[("size_bytes", Is::Number(8.0))];
const LOSS_AT_A_DISTANCE: Case = &[("round_trip_ms", Is::Number(20.0)), ("loss_percent", Is::Number(0.1))];
pub(super) const LATE: Case = &[("late_ms", Is::Number(64.0))];
const EIGHT_MS_AWAY: Case = &[("size_bytes", Is::Number(16384.0)), ("round_trip_ms", Is::Number(8.0))];
const NEIGHBOURS: Case = &[("ranks", Is::Number(64.0)), ("puts", Is::Number(1.0))];
const POSTED: Case = &[("receive", Is::Word("exact")), ("queue", Is::Word("posted")), ("which", Is::Word("the same"))];

/// All claims. They expect what a quiet virtual machine of two cores measured; the tolerance is room for another one.
pub(super) const CLAIMS: [Claimed; 32] = [
    claim("Over one link Edge takes eight times TCP's processor time")
        .of("links", "edge", Some("tcp"))
        .when("cpu", &[("links", Is::Number(1.0))])
        .at_most(8.04, 0.3, "")
        .stated(README, "processor time of a GB over one gigabit link, Edge", &["4.5 s/GB", "0.56 s/GB"]),
    claim("1 MiB through MPICH takes half as long again as over libfabric's tcp")
        .of("mpi", MPI_WEFT, MPI_TCP)
        .when("half_round_trip", MEBIBYTE)
        .at_most(1.56, 0.25, "")
        .stated(README, "MPICH, two hosts, 1 MiB, half a round trip", &["142 us", "91 us"]),
    claim("Forty streams over Edge slow a server's application more than on sockets")
        .of("slowdown", "edge", Some("sockets"))
        .when("slowdown", &[("size_bytes", Is::Number(1024.0)), ("round_trip_ms", Is::Number(0.0))])
        .at_most(2.38, 0.25, "")
        .stated(README, "40 streams of 1 KiB messages, Edge", &["81 %", "34 %"]),
    claim("Both ways at once iWARP carries less than plain TCP")
        .of("ping-ping", "iwarp", Some("sockets"))
        .when("duplex_throughput", &[("size_bytes", Is::Number(65536.0))])
        .at_least(0.594, 0.25, "")
        .stated(README, "RDMA writes of 64 KiB both ways at once, iWARP", &["1.9 GB/s", "3.2 GB/s"]),
    claim("1 MiB through MPICH on one host: MPICH's own shared memory carries more")
        .of("mpi-shm", "mpi:weft-shm", Some("mpi:shm"))
        .when("throughput", MEBIBYTE)
        .at_least(0.618, 0.25, "")
        .stated(README, "MPICH, one host, messages of 1 MiB", &["6.8 GB/s", "11 GB/s"]),
    claim("8 bytes over iWARP take little longer than through a plain socket")
        .of("latency", "iwarp", Some("sockets"))
        .when("half_round_trip", EIGHT_BYTES)
        .at_most(1.18, 0.25, "")
        .stated(README, "8 bytes, half a round trip, iWARP", &["4.5 us", "3.8 us"]),
    claim("Messages of 1 MiB through MPICH carry nine tenths of what libfabric's tcp carries")
        .of("mpi", MPI_WEFT, MPI_TCP)
        .when("throughput", MEBIBYTE)
        .at_least(0.897, 0.2, "")
        .stated(README, "MPICH, two hosts, messages of 1 MiB", &["6.1 GB/s", "6.8 GB/s"]),
    claim("4 KiB through MPICH take less time than over libfabric's tcp")
        .of("mpi", MPI_WEFT, MPI_TCP)
        .when("half_round_trip", &[("size_bytes", Is::Number(4096.0)), MPICH])
        .at_most(0.687, 0.3, "")
        .stated(README, "MPICH, two hosts, 4 KiB, half a round trip", &["5.7 us", "8.3 us"]),
    claim("Most of a long message through MPICH is hidden behind computation")
        .of("mpi-rate", MPI_WEFT, MPI_TCP)
        .when("hidden", &[("direction", Is::Word("one way")), MPICH])
        .at_least(2.14, 0.3, "")
        .stated(README, "MPICH, 1 MiB over a gigabit link hidden behind computation", &["92 %", "43 %"]),
    claim("Several times as many messages of 8 bytes through MPICH as over libfabric's tcp")
        .of("mpi-rate", MPI_WEFT, MPI_TCP)
        .when("message_rate", &[("size_bytes", Is::Number(8.0)), MPICH])
        .at_least(5.95, 0.3, "")
        .stated(README, "MPICH, two hosts, messages of 8 bytes", &["1.25 M/s", "0.21 M/s"]),
    claim("8 bytes through shared memory take a tenth of the time that a plain socket takes")
        .of("latency-shm", "shm", Some("sockets"))
        .when("half_round_trip", EIGHT_BYTES)
        .at_most(0.113, 0.5, "")
        .stated(README, "8 bytes, half a round trip, shared memory", &["0.43 us", "3.8 us"]),
    claim("A silent cut of one of four links holds Edge up a tenth of the time that it holds multipath TCP up")
        .of("cuts", "edge", Some("mptcp"))
        .when("longest_pause", &[("way", Is::Word("silent")), ("with_cut", Is::Flag(true))])
        .at_most(0.102, 1.0, "")
        .stated(README, "pause after a silent cut of one of four links", &["18 ms", "177 ms"]),
    claim("A read does not wait for an application that computes for 64 ms; a socket does")
        .of("progress", "iwarp", Some("sockets"))
        .when("fetch_time", &[("late_ms", Is::Number(64.0)), ("round_trip_ms", Is::Number(0.0))])
        .at_most(0.000_672, 1.0, "")
        .stated(README, "1 KiB fetched from a server that computes", &["0.045 ms", "67 ms"]),
    claim("8 bytes over iWARP take less time than over libfabric's tcp")
        .of("latency", "iwarp", Some("libfabric"))
        .when("half_round_trip", EIGHT_BYTES)
        .at_most(0.8, 0.25, ""),
    claim("8 bytes over Edge and one link take about as long as through a plain socket")
        .of("latency-edge", "edge", Some("sockets"))
        .when("half_round_trip", EIGHT_BYTES)
        .at_most(1.05, 0.25, ""),
    claim("8 bytes through shared memory take a tenth of the time that they take through the loopback")
        .of("latency-shm", "shm", Some("iwarp"))
        .when("half_round_trip", EIGHT_BYTES)
        .at_most(0.1, 0.5, ""),
    claim("Messages of 64 KiB with CRC carry as much as a plain socket")
        .of("bandwidth", "iwarp", Some("sockets"))
        .when("throughput", &[("size_bytes", Is::Number(65536.0))])
        .at_least(1.1, 0.25, ""),
    claim("Several times as many messages of 8 bytes as over libfabric's tcp")
        .of("rate", "iwarp", Some("libfabric"))
        .when("message_rate", EIGHT_BYTES)
        .at_least(7.0, 0.3, ""),
    claim("Four links of 1 Gb/s carry all that four of them can")
        .of("links", "edge", None)
        .when("share_of_links", &[("links", Is::Number(4.0))])
        .at_least(100.0, 0.02, "%"),
    claim("Four unlike links carry all that they can together")
        .of("links-unlike", "edge", None)
        .when("share_of_links", &[])
        .at_least(100.0, 0.05, "%"),
    claim("At a distance and with loss Edge carries more than TCP with cubic")
        .of("distance", "edge", Some("tcp:cubic"))
        .when("throughput", LOSS_AT_A_DISTANCE)
        .at_least(2.0, 0.5, ""),
    claim("A read over iWARP takes no longer from a server that computes, at each distance")
        .of("progress", "iwarp", None)
        .when("fetch_time", LATE)
        .against("late_ms", 0.0)
        .at_most(1.0, 0.1, ""),
    claim("A read over Edge takes no longer from a server that computes, at each distance")
        .of("progress", "edge", None)
        .when("fetch_time", LATE)
        .against("late_ms", 0.0)
        .at_most(1.0, 0.1, ""),
    claim("Over a way of 8 ms iWARP carries what headers leave of 1 Gb/s")
        .of("bandwidth-far", "iwarp", Some(HEADERS))
        .when("throughput", EIGHT_MS_AWAY)
        .at_least(1.0, 0.05, ""),
    claim("Over a way of 8 ms iWARP carries as much as a plain socket")
        .of("bandwidth-far", "iwarp", Some("sockets"))
        .when("throughput", EIGHT_MS_AWAY)
        .at_least(1.0, 0.02, ""),
    claim("After a cut, whichever way it is made, half of all pauses are short")
        .of("cuts", "edge", None)
        .when("longest_pause", &[("with_cut", Is::Flag(true))])
        .at_most(30.0, 1.0, "ms"),
    claim("Cuts lose nothing").of("cuts", "edge", None).when("lost_bytes", &[]).at_most(0.0, 0.0, "bytes"),
    claim("Each atomic operation counts once, whatever is cut")
        .of("cuts", "edge", None)
        .when("miscounted_operations", &[])
        .at_most(0.0, 0.0, "operations"),
    claim("Segments that come early are in place, and nothing is buffered")
        .of("disorder", "place", None)
        .when("most_buffered", &[])
        .at_most(0.0, 0.0, "B"),
    claim("The fence between neighbours does not grow with the ranks")
        .of("fences-simulated", "simulated neighbour", Some("simulated one-sided"))
        .when("put_and_fence_time", NEIGHBOURS)
        .at_most(0.08, 0.25, ""),
    claim("A posted receive is found among 100 000 as fast as alone")
        .of("match", "matcher", None)
        .when("added_cpu", POSTED)
        .at_most(50.0, 1.0, "ns"),
    claim("A hundred quiet connections cost next to nothing")
        .of("idle", "iwarp:progress=hybrid", None)
        .when("cpu", &[("quiet", Is::Word("for long"))])
        .at_most(0.05, 1.0, "%"),
];
