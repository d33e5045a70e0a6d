//! What one run measures: the values that all its processes agree on.

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::model::installation::Installation;
use crate::model::nas::Nas;
use crate::model::reach::Reach;
use crate::model::size::LARGEST;
use crate::model::stack::Stack;

/// What a run measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// Half of a round trip; of a read all of it.
    Latency,
    /// Payload per time in one direction.
    Bandwidth,
    /// Small messages per second in one direction.
    Rate,
    /// Both send at the same time, then both wait: the time from one such exchange to the next.
    PingPing,
    /// Payload per time in both directions at once.
    Duplex,
    /// How much computation fits beside one transfer.
    Overlap,
    /// Payload per time with some computation after each message.
    Inserted,
    /// How much of the time of a transfer is computed.
    Ratio,
    /// How much of a message, or of one each way, hides behind computation.
    Hiding,
    /// A fetch from a server whose application computes.
    Fetch,
    /// Computation of a server beside the streams that it carries.
    Carry,
    /// What quiet connections cost.
    Idle,
    /// Each process sends to each other one.
    AllToAll,
    /// What it costs to find the receive of a message, among many.
    Matching,
    /// A stream through the emulator of networks.
    Emulator,
    /// A collective operation of many ranks.
    Collective,
    /// From the start of many ranks to the end of the last.
    Start,
    /// Patterns of an MPI program with ranks in two clusters.
    Patterns,
    /// Connections that are set up one after the other.
    Connect,
    /// The parameters of LogP for messages of a size.
    #[serde(rename = "logp")]
    LogP,
    /// A NAS parallel benchmark of many ranks.
    Nas,
    /// What a stream moves between caches and memory.
    CacheTraffic,
    /// An application that renders the surface in a field which another process sends.
    Isosurface,
}

impl Kind {
    /// Whether many ranks of an MPI program take part, all on this host.
    pub(crate) fn is_of_many(self) -> bool {
        matches!(self, Self::Collective | Self::Start | Self::Nas)
    }
}

/// The RDMA operation that carries the payload, for contestants that have more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operation {
    /// Messages into posted receives
    Send,
    /// RDMA write; in the latency test the target polls memory
    Write,
    /// RDMA write of which the target is notified: it takes a receive there (a notified put)
    Notify,
    /// RDMA read
    Read,
    /// Fetch-and-add of 8 bytes
    Atomic,
}

impl Operation {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Write => "write",
            Self::Notify => "notify",
            Self::Read => "read",
            Self::Atomic => "atomic",
        }
    }
}

/// How sockets and iwarp wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Wait {
    /// Ask again and again: the least latency, a whole core
    Spin,
    /// Sleep in the kernel
    Block,
}

/// What a receive is looked for among, or a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Queue {
    /// Receives that wait for messages.
    Posted,
    /// Unexpected messages.
    Unexpected,
}

/// What a receive says of the message that it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Wanted {
    /// Source and tag.
    Exact,
    /// The tag.
    AnySource,
    /// The source, and bits of the tag.
    SomeBits,
}

/// Which member of a crowd is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Which {
    /// The same one each time; the others are only there.
    One,
    /// Another one each time, at random.
    Any,
}

/// Matching: among what, and how many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Crowd {
    pub(crate) queue: Queue,
    pub(crate) wanted: Wanted,
    pub(crate) which: Which,
    pub(crate) others: u32,
}

/// A field in slices, to be rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Volume {
    /// Points on a side of each slice.
    pub(crate) side: usize,
    /// How many slices there are.
    pub(crate) slices: usize,
    /// Of the surface and its picture as they are without a network.
    pub(crate) digest: u64,
}

impl Volume {
    /// How many slices a field has.
    pub(crate) const SLICES: usize = 8;
    /// The fewest points on a side, and the most: those of the largest data set of the literature.
    pub(crate) const SIDES: std::ops::RangeInclusive<usize> = 16..=8192;
}

impl Wait {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Block => "block",
        }
    }
}

/// What the passive side does while it is written to or read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Target {
    /// It sleeps, and never calls in
    Silent,
    /// It computes, and calls in once a millisecond
    Computing,
    /// It does nothing but call in
    Polling,
}

impl Target {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Computing => "computing",
            Self::Polling => "polling",
        }
    }
}

/// Where the payload comes from and goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Cache {
    /// The same buffers again and again
    In,
    /// Buffers that follow each other through more memory than the caches hold
    Out,
}

/// A host of a test network, as a program in another of its hosts reaches it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) address: String,
    /// A process there.
    pub(crate) process: u32,
}

/// The part that a process plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Waits for the other, echoes or receives.
    Passive,
    /// Connects, sends, and holds the watch.
    Active,
}

/// One process's share of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The version of the command that asks: all processes must be equal.
    pub(crate) version: String,
    /// The contestant, see `contestant::Entry`.
    pub(crate) contestant: String,
    pub(crate) variant: Option<String>,
    /// Which process this is. Of two, the first is passive.
    pub(crate) rank: usize,
    /// How many there are.
    pub(crate) ranks: usize,
    pub(crate) kind: Kind,
    /// `None`: what the contestant is best at.
    pub(crate) operation: Option<Operation>,
    /// Bytes of a message.
    pub(crate) size: usize,
    /// Messages that are measured, or rounds.
    pub(crate) iterations: u64,
    /// Messages before them that are not.
    pub(crate) warmup: u64,
    /// Messages that may be in flight at once, except in the latency test; of quiet connections, entries of each work
    /// queue.
    pub(crate) window: usize,
    pub(crate) wait: Wait,
    pub(crate) cache: Cache,
    /// What the passive side does meanwhile, where the active one computes.
    pub(crate) target: Target,
    /// Computation after each message, in microseconds; of a server before each answer, or beside streams.
    pub(crate) computation_us: u32,
    /// Beside the computation of MPI programs both ranks send a message; else one does, and the other receives it.
    pub(crate) both_ways: bool,
    /// Ranks of an MPI program: two sides start them, whatever their number.
    pub(crate) mpi_ranks: usize,
    /// Connections that are kept quiet, or that carry streams beside a computation.
    pub(crate) connections: usize,
    /// What all streams together carry beside a computation.
    pub(crate) load_bits_per_s: u64,
    /// For how long nothing happens, in milliseconds.
    pub(crate) quiet_ms: u64,
    /// How long nothing has happened already when that begins.
    pub(crate) settle_ms: u64,
    pub(crate) stack: Stack,
    /// What is matched among what, if it is.
    pub(crate) crowd: Option<Crowd>,
    /// The case of `weft wan check`, if it is one.
    pub(crate) check_case: Option<String>,
    /// What is rendered, if something is.
    pub(crate) volume: Option<Volume>,
    /// The MPI library that is measured, if it is one.
    pub(crate) mpi: Option<Installation>,
    /// The benchmark that its ranks run, if it is one of NAS.
    pub(crate) nas: Option<Nas>,
    /// What the network adds to a round trip, in microseconds, for those that count round trips.
    pub(crate) round_trip_us: u64,
    /// When to give up, in seconds.
    pub(crate) limit_s: u64,
    /// The address to listen at, or to come from; `None` when the way to the peer decides.
    pub(crate) local: Option<String>,
    /// The host of the passive side.
    pub(crate) host: String,
    /// The raw link of this process, as `--link` takes it.
    pub(crate) link: Option<String>,
    /// The core to stay on.
    pub(crate) core: Option<usize>,
    /// The hosts of the ranks of an MPI program, where it has one in each host of a network of clusters.
    pub(crate) members: Vec<Member>,
    /// How far apart the two sides are in a network of clusters, if they are in one.
    pub(crate) reach: Option<Reach>,
}

/// The most messages in flight.
pub(crate) const LARGEST_WINDOW: usize = 4096;
/// The most messages in one run.
pub(crate) const MOST_MESSAGES: u64 = 100_000_000;
/// The most processes of one run.
pub(crate) const MOST_RANKS: usize = 256;
/// The most connections that are kept quiet.
pub(crate) const MOST_CONNECTIONS: usize = 10_000;
/// The most streams beside a computation.
pub(crate) const MOST_STREAMS: usize = 1000;
/// The most receives or messages among which one is looked for.
pub(crate) const LARGEST_CROWD: u32 = 1_000_000;
/// The most that streams carry beside a computation, in bits per second.
const LARGEST_LOAD: u64 = 1_000_000_000_000;
/// The longest quiet, in milliseconds.
const LONGEST_QUIET_MS: u64 = 600_000;
/// The longest computation after a message, or before an answer.
pub(crate) const LONGEST_COMPUTATION: Duration = Duration::from_secs(1);
/// Bytes that may be in flight in buffers of their own: more only empties the caches of the contestant.
const BYTES_IN_FLIGHT: usize = 4 << 20;

impl Job {
    /// Refuses what no coordinator of ours would ask for: a job may come over the network, and sizes become
    /// allocations.
    pub(crate) fn check(&self) -> Result<(), String> {
        let version = env!("CARGO_PKG_VERSION");
        if self.version != version {
            return Err(format!("this side is weft {version}, the other {}; use the same on both", self.version));
        }
        let within = |what, value, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(format!("{what} {value} is not in {least}..={most}"))
            }
        };
        within("size", self.size as u64, 1, LARGEST as u64)?;
        within("window", self.window as u64, 1, LARGEST_WINDOW as u64)?;
        within("iterations", self.iterations, 1, MOST_MESSAGES)?;
        within("warmup", self.warmup, 1, MOST_MESSAGES)?;
        let least_ranks = if matches!(self.kind, Kind::Matching | Kind::Emulator) { 1 } else { 2 };
        within("number of processes", self.ranks as u64, least_ranks, MOST_RANKS as u64)?;
        within("number of MPI ranks", self.mpi_ranks as u64, 2, MOST_RANKS as u64)?;
        within("number of others", self.crowd.map_or(0, |crowd| crowd.others).into(), 0, LARGEST_CROWD.into())?;
        if let Some(Volume { side, slices, .. }) = self.volume {
            let (least, most) = Volume::SIDES.into_inner();
            within("points on a side", side as u64, least as u64, most as u64)?;
            within("number of slices", slices as u64, 2, Volume::SLICES as u64)?;
        }
        within("rank", self.rank as u64, 0, self.ranks as u64 - 1)?;
        within("number of connections", self.connections as u64, 1, MOST_CONNECTIONS as u64)?;
        within("load in bits per second", self.load_bits_per_s, 1, LARGEST_LOAD)?;
        within("quiet in milliseconds", self.quiet_ms, 1, LONGEST_QUIET_MS)?;
        within("settling in milliseconds", self.settle_ms, 0, LONGEST_QUIET_MS)?;
        let longest_us = LONGEST_COMPUTATION.as_micros() as u64;
        within("computation in microseconds", self.computation_us.into(), 0, longest_us)
    }

    /// The part that this process plays, of two.
    pub(crate) fn role(&self) -> Role {
        if self.rank == 0 { Role::Passive } else { Role::Active }
    }

    /// Messages in flight, given that each has a buffer: the window, less for large messages, but at least 4.
    pub(crate) fn buffers(&self) -> usize {
        self.window.min((BYTES_IN_FLIGHT / self.size).max(4))
    }

    /// Bytes that are measured.
    pub(crate) fn bytes(&self) -> u64 {
        self.iterations * self.size as u64
    }

    /// Bytes that are sent, those of the messages before the measurement included.
    pub(crate) fn bytes_with_start(&self) -> u64 {
        (self.warmup + self.iterations) * self.size as u64
    }

    /// The part of a round trip that is stated: half of it, but a read is one round trip, and so is an exchange.
    pub(crate) fn share_of_round_trip(&self) -> f64 {
        if self.operation == Some(Operation::Read) || self.kind == Kind::PingPing { 1.0 } else { 0.5 }
    }

    /// How many messages make a run of about a second or less, by default.
    pub(crate) fn default_iterations(kind: Kind, size: usize) -> u64 {
        let size = size as u64;
        match kind {
            Kind::Latency | Kind::PingPing => ((1 << 30) / (size * 4)).clamp(200, 50_000),
            Kind::Bandwidth | Kind::Duplex => ((1 << 30) / size).clamp(64, 200_000),
            Kind::Rate => ((1 << 30) / size).clamp(64, 400_000),
            // These read the clock themselves, and stop in time: this often they repeat at most.
            Kind::Overlap => 100,
            Kind::Inserted => 2000,
            Kind::Ratio => 1000,
            Kind::Hiding => 20,
            Kind::Fetch => 1000,
            Kind::Carry => 5,
            Kind::Matching => 100_000,
            // Packets.
            Kind::Emulator => 8000,
            Kind::Idle => 1,
            Kind::AllToAll => 100,
            Kind::Collective => 2000,
            Kind::Start => 1,
            Kind::Patterns => 50,
            Kind::Connect => 100,
            Kind::LogP => 300,
            Kind::Isosurface | Kind::Nas => 1,
            Kind::CacheTraffic => 128,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::model::stack::tests::stack;

    /// A job that is fine.
    pub(crate) fn job() -> Job {
        Job {
            version: env!("CARGO_PKG_VERSION").into(),
            contestant: "sockets".into(),
            variant: None,
            rank: 1,
            ranks: 2,
            kind: Kind::Latency,
            operation: None,
            size: 8,
            iterations: 10,
            warmup: 1,
            window: 64,
            wait: Wait::Spin,
            cache: Cache::In,
            target: Target::Silent,
            computation_us: 0,
            both_ways: false,
            mpi_ranks: 2,
            connections: 1,
            load_bits_per_s: 1,
            quiet_ms: 1,
            settle_ms: 0,
            stack: stack(),
            crowd: None,
            check_case: None,
            volume: None,
            mpi: None,
            nas: None,
            round_trip_us: 0,
            limit_s: 60,
            local: None,
            host: "127.0.0.1".into(),
            link: None,
            core: None,
            members: Vec::new(),
            reach: None,
        }
    }

    #[test]
    fn a_job_without_bounds_is_refused() {
        assert_eq!(job().check(), Ok(()));
        assert!(Job { size: 0, ..job() }.check().is_err());
        assert!(Job { size: LARGEST + 1, ..job() }.check().is_err());
        assert!(Job { window: LARGEST_WINDOW + 1, ..job() }.check().is_err());
        assert!(Job { iterations: u64::MAX, ..job() }.check().is_err());
        assert!(Job { warmup: 0, ..job() }.check().is_err());
        assert!(Job { ranks: 0, ..job() }.check().is_err());
        assert!(Job { rank: 2, ..job() }.check().is_err());
        assert!(Job { mpi_ranks: MOST_RANKS + 1, ..job() }.check().is_err());
        assert!(Job { connections: usize::MAX, ..job() }.check().is_err());
        assert!(Job { load_bits_per_s: 0, ..job() }.check().is_err());
        assert!(Job { quiet_ms: u64::MAX, ..job() }.check().is_err());
        assert!(Job { computation_us: u32::MAX, ..job() }.check().is_err());
        let volume = |side, slices| Some(Volume { side, slices, digest: 0 });
        assert_eq!(Job { volume: volume(1024, 8), ..job() }.check(), Ok(()));
        assert!(Job { volume: volume(1 << 20, 8), ..job() }.check().is_err());
        assert!(Job { volume: volume(1024, 1), ..job() }.check().is_err());
        assert!(Job { version: "0.0.0".into(), ..job() }.check().unwrap_err().contains("0.0.0"));
    }

    #[test]
    fn buffers_stay_in_the_caches() {
        assert_eq!(job().buffers(), 64);
        assert_eq!(Job { size: 1 << 20, ..job() }.buffers(), 4);
        assert_eq!(Job { size: 1 << 18, ..job() }.buffers(), 16);
    }
}
