//! The tests of contestants, by name.

use clap::ValueEnum;
use serde::Serialize;

use crate::model::job::Kind;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Test {
    /// Half of a round trip (of a read: all of it), in microseconds: less is better
    Latency,
    /// Payload per time in one direction, in GB/s (10^9 bytes)
    Bandwidth,
    /// Small messages per second in one direction
    Rate,
    /// Both sides send at the same time: time of an exchange, and bandwidth in both directions at once
    PingPing,
    /// How much computation a transfer hides, and bandwidth against inserted computation
    Overlap,
    /// Which part of the time of a transfer is computed, from post to the end of the wait: t1 / t2
    OverlapRatio,
    /// How long a fetch takes from a server whose application computes, and so answers late
    Progress,
    /// By how much the streams that a server carries slow its application down, at the same load for each contestant
    Slowdown,
    /// Which stage runs where: host, offload (coupled, decoupled), assist; with and without markers, in and out of
    /// cache
    Split,
    /// What markers cost, by their spacing
    Markers,
    /// What it costs to be ready for disorder when there is none, on real packets: markers, and TCP in user space,
    /// beside the kernel's
    InOrderTax,
    /// What quiet connections cost: processor time, memory, wake-ups
    Idle,
    /// Many processes, each of which sends to each other one
    AllToAll,
    /// What it costs to match a message with its receive, among many of them
    Match,
    /// By how much the emulator of networks misses what was set: delay, rate, loss, reordering, jitter
    Emulator,
    /// Half of a round trip to a peer on the same host, in the same cluster, and in another cluster: one endpoint,
    /// beside sockets
    Clusters,
    /// MPI programs over Weft, and over what else carries their messages: latency, bandwidth, message rate, overlap; of
    /// many ranks allreduce and start
    Mpi,
    /// What it takes to set a connection up, until a first message is answered, in time and in round trips: queue
    /// pairs, endpoints, Edge with and without a key, TCP
    Connect,
    /// An application: a process sends a field in pieces, another renders its iso-surface meanwhile, over each design
    /// of out-of-order iWARP
    Isosurface,
    /// A put of which the target is notified, beside a message, and a write whose target polls memory: half of a round
    /// trip
    NotifiedPut,
    /// What late and lost packets of a link cost: iWARP that places them early and not, Edge, and the kernel's TCP, on
    /// real packets
    Reordering,
    /// NAS parallel benchmarks (IS, CG, LU, MG) from a folder that you name, over Weft and over what else carries MPI
    Nas,
    /// The parameters of LogP: overheads of sender and receiver, gap, latency, and gap per byte
    #[value(name = "logp")]
    #[serde(rename = "logp")]
    LogP,
    /// An MPI job with four ranks in each of two clusters: ring, all-to-all, halo and bucket sort, over Weft and over
    /// libfabric's tcp, by how far apart the clusters are
    MpiClusters,
    /// What each byte of payload moves between caches and memory at both sides, by design: misses of the last cache,
    /// counted by the processor or by cachegrind (valgrind), and beside them the kernel's copies
    CacheTraffic,
    /// Programs for libibverbs (Debian's perftest) over Weft's library, beside Weft's own client: latency, bandwidth of
    /// writes and reads, rate of atomics
    Verbs,
}

impl Test {
    /// As it is typed.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
            Self::Rate => "rate",
            Self::PingPing => "ping-ping",
            Self::Overlap => "overlap",
            Self::OverlapRatio => "overlap-ratio",
            Self::Progress => "progress",
            Self::Slowdown => "slowdown",
            Self::Split => "split",
            Self::Markers => "markers",
            Self::InOrderTax => "in-order-tax",
            Self::Idle => "idle",
            Self::AllToAll => "all-to-all",
            Self::Match => "match",
            Self::Emulator => "emulator",
            Self::Clusters => "clusters",
            Self::Mpi => "mpi",
            Self::Connect => "connect",
            Self::LogP => "logp",
            Self::Nas => "nas",
            Self::Reordering => "reordering",
            Self::NotifiedPut => "notified-put",
            Self::Isosurface => "isosurface",
            Self::MpiClusters => "mpi-clusters",
            Self::CacheTraffic => "cache-traffic",
            Self::Verbs => "verbs",
        }
    }

    /// What it asks.
    pub(crate) fn question(self) -> &'static str {
        match self {
            Self::Latency => "How long does a message take to its receiver?",
            Self::Bandwidth => "How much payload crosses in a second, and at which cost in processor time?",
            Self::Rate => "How many small messages cross in a second?",
            Self::PingPing => "What do both directions at once cost each other?",
            Self::Overlap => "How much computation fits beside a transfer without lengthening it?",
            Self::OverlapRatio => "Which part of the time of a transfer is computed?",
            Self::Progress => "How long does a fetch take from a server whose application computes?",
            Self::Slowdown => "By how much do the streams of a server slow its application down?",
            Self::Split => "Which stage of iWARP belongs on which thread?",
            Self::Markers => "What do markers cost, by their spacing?",
            Self::InOrderTax => "What does readiness for disorder cost when everything arrives in order?",
            Self::Idle => "What do connections cost on which nothing moves?",
            Self::AllToAll => "How much do many processes exchange together?",
            Self::Match => "What does it cost to match a message with its receive, among many?",
            Self::Emulator => "By how much do delays, rates and losses of an emulated network miss what was set?",
            Self::Clusters => "How long does a message take inside a cluster and between two, through one interface?",
            Self::Mpi => "How fast are MPI programs over Weft, beside what else carries their messages?",
            Self::Isosurface => "How long does it take to render the surface in a field that another process sends?",
            Self::NotifiedPut => "How long until the target of a put knows of it?",
            Self::Reordering => "What do late and lost packets of a link cost, by what the receiver does with them?",
            Self::Nas => "How fast are the NAS parallel benchmarks over Weft, beside what else carries MPI?",
            Self::LogP => "What does a message cost its sender, its receiver, and the next message?",
            Self::Connect => "What does it take to set a connection up?",
            Self::CacheTraffic => "How much does a byte of payload move between caches and memory?",
            Self::MpiClusters => "What does an MPI job lose when its ranks are in two clusters?",
            Self::Verbs => "What does an unmodified program for libibverbs get of what Weft's own client gets?",
        }
    }
}

/// A part of [`Test::Mpi`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Half of the round trip of a ping-pong
    Latency,
    /// A stream with a window
    Bandwidth,
    /// Small messages with a window
    Rate,
    /// A message beside computation, one way and both ways at once
    Overlap,
    /// An allreduce of many ranks on this host; on request
    Allreduce,
    /// Many ranks start on this host, do an all-to-all, and end; on request
    Start,
}

impl Part {
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Latency => Kind::Latency,
            Self::Bandwidth => Kind::Bandwidth,
            Self::Rate => Kind::Rate,
            Self::Overlap => Kind::Hiding,
            Self::Allreduce => Kind::Collective,
            Self::Start => Kind::Start,
        }
    }

    /// Whether many ranks take part, all on this host.
    pub(crate) fn is_of_many(self) -> bool {
        self.kind().is_of_many()
    }

    /// How many ranks, each number a case; `None`: two, which need no word.
    pub(crate) fn ranks(self) -> Option<&'static [usize]> {
        match self {
            Self::Allreduce => Some(&[16]),
            Self::Start => Some(&[64]),
            Self::Latency | Self::Bandwidth | Self::Rate | Self::Overlap => None,
        }
    }

    pub(crate) fn sizes(self, quick: bool) -> &'static str {
        match (self, quick) {
            (Self::Latency, false) => "8,512,4K",
            (Self::Latency | Self::Rate | Self::Allreduce | Self::Start, _) => "8",
            (Self::Bandwidth, false) => "64K,1M",
            (Self::Bandwidth, true) => "64K",
            (Self::Overlap, _) => "1M",
        }
    }
}
