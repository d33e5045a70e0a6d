//! What is to be measured: the values that both sides of a measurement agree on.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::size::LARGEST;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Test {
    /// Half of a round trip (of a read: all of it), in microseconds: less is better
    Latency,
    /// Payload per time in one direction, in GB/s (10^9 bytes)
    Bandwidth,
    /// Small messages per second in one direction
    Rate,
}

/// The RDMA operation that carries the payload, for contestants that have more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operation {
    /// Messages into posted receives
    Send,
    /// RDMA write; in the latency test the target polls memory
    Write,
    /// RDMA read
    Read,
}

/// How sockets wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Wait {
    /// Ask again and again: the least latency, a whole core
    Spin,
    /// Sleep in the kernel
    Block,
}

/// A feature that is on or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Switch {
    /// It is used
    On,
    /// It is not
    Off,
}

/// When a frame's payload goes to its place, relative to the check of its CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verify {
    /// After it, always
    BeforePlace,
    /// Large frames are read into place and checked there
    LargeInPlace,
    /// The same, and small frames are copied and checked in one pass
    InOnePass,
}

/// How long frames may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Fpdu {
    /// As long as the length field allows
    Large,
    /// No longer than a packet of the path
    Path,
}

/// Who runs the event loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Progress {
    /// The thread that posts and polls
    Caller,
    /// A thread of its own, the other one sleeps
    Thread,
}

/// The part that a process plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Waits for the other, echoes or receives.
    Passive,
    /// Connects, sends, and holds the watch.
    Active,
}

/// One side of one measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    /// The version of the command that asks: both sides must be equal.
    pub(crate) version: String,
    /// Who is measured, see `contestant::Entry`.
    pub(crate) contestant: String,
    pub(crate) variant: Option<String>,
    pub(crate) role: Role,
    pub(crate) test: Test,
    /// `None`: what the contestant is best at.
    pub(crate) operation: Option<Operation>,
    /// Bytes of a message.
    pub(crate) size: usize,
    /// Messages that are measured.
    pub(crate) iterations: u64,
    /// Messages before them that are not.
    pub(crate) warmup: u64,
    /// Messages that may be under way at once, except in the latency test.
    pub(crate) window: usize,
    pub(crate) wait: Wait,
    pub(crate) crc: Switch,
    pub(crate) markers: Switch,
    pub(crate) verify: Verify,
    pub(crate) fpdu: Fpdu,
    pub(crate) progress: Progress,
    /// The address to listen at, or to come from; `None` when the way to the peer decides.
    pub(crate) local: Option<String>,
    /// The host of the passive side.
    pub(crate) host: String,
    /// The core to stay on.
    pub(crate) core: Option<usize>,
}

/// The most messages in flight.
pub(crate) const LARGEST_WINDOW: usize = 4096;
/// The most messages in one run.
pub(crate) const MOST_MESSAGES: u64 = 100_000_000;
/// Bytes that may be in flight in buffers of their own: more only empties the caches, of whoever is measured.
const BYTES_IN_FLIGHT: usize = 4 << 20;

impl Job {
    /// Refuses what no coordinator of ours would ask for: a job may come over the network, and sizes become allocations.
    pub(crate) fn check(&self) -> Result<(), String> {
        let version = env!("CARGO_PKG_VERSION");
        if self.version != version {
            return Err(format!("this side is weft {version}, the other {}; use the same on both", self.version));
        }
        let within = |what, value, most: u64| {
            if (1..=most).contains(&value) { Ok(()) } else { Err(format!("{what} {value} is not in 1..={most}")) }
        };
        within("size", self.size as u64, LARGEST as u64)?;
        within("window", self.window as u64, LARGEST_WINDOW as u64)?;
        within("iterations", self.iterations, MOST_MESSAGES)?;
        within("warmup", self.warmup, MOST_MESSAGES)
    }

    /// Messages in flight, given that each has a buffer: the window, less for large messages, but at least 4.
    pub(crate) fn buffers(&self) -> usize {
        self.window.min((BYTES_IN_FLIGHT / self.size).max(4))
    }

    /// Bytes that are measured.
    pub(crate) fn bytes(&self) -> u64 {
        self.iterations * self.size as u64
    }

    /// The part of a round trip that the latency test states: half of it, but a read is one round trip.
    pub(crate) fn share_of_round_trip(&self) -> f64 {
        if self.operation == Some(Operation::Read) { 1.0 } else { 0.5 }
    }

    /// How many messages make a run of about a second or less, unless told otherwise.
    pub(crate) fn default_iterations(test: Test, size: usize) -> u64 {
        let size = size as u64;
        match test {
            Test::Latency => ((1 << 30) / (size * 4)).clamp(200, 50_000),
            Test::Bandwidth => ((1 << 30) / size).clamp(64, 200_000),
            Test::Rate => ((1 << 30) / size).clamp(64, 400_000),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A job that is fine.
    pub(crate) fn job() -> Job {
        Job {
            version: env!("CARGO_PKG_VERSION").into(),
            contestant: "sockets".into(),
            variant: None,
            role: Role::Active,
            test: Test::Latency,
            operation: None,
            size: 8,
            iterations: 10,
            warmup: 1,
            window: 64,
            wait: Wait::Spin,
            crc: Switch::On,
            markers: Switch::Off,
            verify: Verify::LargeInPlace,
            fpdu: Fpdu::Large,
            progress: Progress::Caller,
            local: None,
            host: "127.0.0.1".into(),
            core: None,
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
        assert!(Job { version: "0.0.0".into(), ..job() }.check().unwrap_err().contains("0.0.0"));
    }

    #[test]
    fn buffers_stay_in_the_caches() {
        assert_eq!(job().buffers(), 64);
        assert_eq!(Job { size: 1 << 20, ..job() }.buffers(), 4);
        assert_eq!(Job { size: 1 << 18, ..job() }.buffers(), 16);
    }
}
