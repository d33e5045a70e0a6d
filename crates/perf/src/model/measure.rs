//! Watches, and what becomes of their readings.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::result::Histogram;

/// What one process saw in one run. What another one knows better is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// What the run is about, in the unit of `metric::metrics`: the median of times, or a speed.
    pub(crate) value: Option<f64>,
    /// Of times: what 99 of 100 stay below. Of speeds: what 99 of 100 parts of the run reach.
    pub(crate) p99: Option<f64>,
    /// The worst: of times the longest, of speeds the slowest part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) worst: Option<f64>,
    /// All of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) histogram: Option<Histogram>,
    /// Processor time that this process used for each GB of payload, in seconds.
    pub(crate) cpu_s_per_gb: Option<f64>,
    /// Processor time that it used in each second.
    pub(crate) cpu_share: Option<f64>,
    /// How often it copied each byte of payload in user space.
    pub(crate) copies: Option<f64>,
    /// What only some kinds of runs tell.
    pub(crate) figures: BTreeMap<Figure, f64>,
}

/// What only some kinds of runs tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Figure {
    /// Overlap: a transfer with nothing beside it, in microseconds.
    CommunicationUs,
    /// Overlap: of computation as long as a transfer, the share that lengthens nothing.
    Hidden,
    /// Overlap: how long such a computation takes beside the transfer, over what it takes with nothing beside it.
    Stretch,
    /// Of MPI's exchange beside computation: the computation alone, in microseconds.
    ComputationUs,
    /// And both together.
    TotalUs,
    /// Processor time of a match with nothing else in the queues, in nanoseconds.
    AloneNs,
    /// And among others.
    AmongNs,
    /// How late half of the packets left an emulator, in microseconds.
    LateP50Us,
    /// And 99 of 100.
    LateP99Us,
    /// Processor seconds for each GB of payload, of the rank that sends.
    SenderCpu,
    /// And of the one that receives.
    ReceiverCpu,
    /// Computation over the whole time (t1 / t2).
    Computing,
    /// Idle: resident memory of a connection, in bytes.
    ConnectionBytes,
    /// Idle: times per second that a thread was woken.
    WakeUps,
    /// All to all: when it began, on the clock that all processes of a machine share, in seconds.
    Began,
    /// And when it ended.
    Ended,
    /// Processor time in each second in which nothing happened.
    QuietCpu,
    /// Carry: processor time that streams cost a server, in each second.
    StreamsCpu,
    /// Carry: what the client has sent while streams flowed, in Mb/s.
    Load,
    /// Patterns of many MPI ranks: a round of a ring, in microseconds.
    RingUs,
    /// Of an all-to-all.
    AllToAllUs,
    /// Of a halo.
    HaloUs,
    /// Of a bucket sort.
    SortUs,
    /// Connections: until one is established, in microseconds.
    ConnectedUs,
    /// And how many round trips that takes before the first message.
    RoundTrips,
    /// LogP: the call that sends, with nothing to wait for, in microseconds.
    SendOverheadUs,
    /// The call that receives what is there already.
    ReceiveOverheadUs,
    /// From one message of a burst to the next.
    GapUs,
    /// Half a round trip of the shortest message, less its gap.
    LatencyUs,
    /// A round trip of a message and the shortest answer.
    RoundTripUs,
    /// What each byte adds to the gap, in nanoseconds.
    GapPerByteNs,
    /// A NAS benchmark: how long it took, in seconds.
    Seconds,
    /// Rendering: computation of a pass, in milliseconds.
    DrawingMs,
    /// Triangles of a surface.
    Triangles,
    /// Of a stream: bytes of lines that missed the last cache, for each byte of payload.
    CacheTraffic,
    /// Of a stream: bytes that went through calls of the kernel that copy, for each byte of payload.
    ThroughKernel,
    /// Of a stream of messages: GB/s from the first message on, those before the ones that are measured included.
    WithStart,
}

/// The reading at position `share` of the sorted readings (0.5: the median; of an even count the mean of the two in the
/// middle).
///
/// # Panics
/// When there are no readings.
pub(crate) fn percentile(sorted: &[f64], share: f64) -> f64 {
    let position = (sorted.len() - 1) as f64 * share;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    below + (above - below) * position.fract()
}

/// The median of readings in any order; `None` without readings.
pub(crate) fn median(readings: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = readings.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    (!sorted.is_empty()).then(|| percentile(&sorted, 0.5))
}

/// Times of round trips that follow each other without a gap, so that nothing a contestant does between two is left
/// out.
#[derive(Debug)]
pub(crate) struct RoundTrips {
    warmup: u64,
    last: Instant,
    nanoseconds: Vec<u32>,
}

impl RoundTrips {
    /// Ready for `warmup` round trips that do not count and `iterations` that do; allocates once, here.
    pub(crate) fn new(warmup: u64, iterations: u64) -> Self {
        let mut nanoseconds = vec![0; usize::try_from(iterations).unwrap_or(usize::MAX)];
        nanoseconds.clear();
        Self { warmup, last: Instant::now(), nanoseconds }
    }

    /// A round trip is done.
    pub(crate) fn lap(&mut self) {
        let now = Instant::now();
        let elapsed = now - self.last;
        self.last = now;
        if self.warmup > 0 {
            self.warmup -= 1;
        } else {
            self.nanoseconds.push(u32::try_from(elapsed.as_nanos()).unwrap_or(u32::MAX));
        }
    }

    /// Median and 99th percentile of this share of a round trip, in microseconds.
    pub(crate) fn finish(self, share: f64) -> Measured {
        spread(self.nanoseconds.into_iter().map(|whole| f64::from(whole) * share / 1000.0).collect())
    }
}

/// Median, 99th percentile, worst and distribution of times in any order; nothing of none.
pub(crate) fn spread(mut times: Vec<f64>) -> Measured {
    times.sort_by(f64::total_cmp);
    if times.is_empty() {
        return Measured::default();
    }
    Measured {
        value: Some(percentile(&times, 0.5)),
        p99: Some(percentile(&times, 0.99)),
        worst: times.last().copied(),
        histogram: Some(Histogram::of(&times)),
        ..Measured::default()
    }
}

/// Speeds of the parts of a transfer, as its receiver sees them.
#[derive(Debug)]
pub(crate) struct Parts {
    step: u64,
    next: u64,
    last: (Instant, u64),
    per_second: Vec<f64>,
}

impl Parts {
    /// A transfer is measured in this many parts.
    const COUNT: u64 = 100;

    /// The transfer of `total` units (bytes, messages) starts now.
    pub(crate) fn start(total: u64) -> Self {
        let step = total.div_ceil(Self::COUNT).max(1);
        let per_second = Vec::with_capacity(Self::COUNT as usize + 1);
        Self { step, next: step, last: (Instant::now(), 0), per_second }
    }

    /// `done` units have arrived so far.
    pub(crate) fn reach(&mut self, done: u64) {
        if done < self.next {
            return;
        }
        let now = Instant::now();
        let (before, had) = self.last;
        self.per_second.push((done - had) as f64 / seconds(now - before));
        self.last = (now, done);
        self.next = done + self.step;
    }

    /// The units per second that 99 of 100 parts reach; `None` without parts.
    pub(crate) fn slow(mut self) -> Option<f64> {
        self.per_second.sort_by(f64::total_cmp);
        (!self.per_second.is_empty()).then(|| percentile(&self.per_second, 0.01))
    }
}

/// Wall time and this process's processor time since a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    start: Instant,
    cpu: Duration,
}

impl Watch {
    /// From now on.
    pub(crate) fn start() -> Self {
        Self { cpu: own_cpu(), start: Instant::now() }
    }

    /// Seconds of wall time.
    pub(crate) fn seconds(&self) -> f64 {
        seconds(self.start.elapsed())
    }

    /// Processor seconds of all threads of this process.
    pub(crate) fn cpu(&self) -> Duration {
        own_cpu().saturating_sub(self.cpu)
    }

    /// Processor seconds of all threads of this process in each second.
    pub(crate) fn cpu_share(&self) -> f64 {
        self.cpu().as_secs_f64() / self.seconds()
    }

    /// Processor seconds of all threads of this process, for each GB of `bytes`.
    pub(crate) fn cpu_s_per_gb(&self, bytes: u64) -> f64 {
        per_gb(self.cpu(), bytes)
    }
}

/// Processor seconds for each GB of `bytes`.
pub(crate) fn per_gb(cpu: Duration, bytes: u64) -> f64 {
    cpu.as_secs_f64() / (bytes.max(1) as f64 / 1e9)
}

/// Processor time of children that have ended and been waited for.
pub(crate) fn childrens_cpu() -> Duration {
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(Duration::ZERO, |usage| {
        let microseconds = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        Duration::from_micros(microseconds.unsigned_abs())
    })
}

/// Seconds on the clock that all processes of this machine share.
pub(crate) fn shared_clock() -> f64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0.0, |now| Duration::from(now).as_secs_f64())
}

fn own_cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

/// Never zero, so that it can be divided by.
fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let sorted: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!(percentile(&sorted, 0.5), 50.0);
        assert_eq!(percentile(&sorted, 0.99), 99.0);
        assert_eq!(percentile(&[7.0], 0.99), 7.0);
        assert_eq!(median([3.0, 1.0, 2.0, 10.0]), Some(2.5));
        assert_eq!(median([]), None);
    }

    #[test]
    fn warm_up_does_not_count() {
        let mut trips = RoundTrips::new(2, 3);
        for _ in 0..5 {
            trips.lap();
        }
        assert_eq!(trips.nanoseconds.len(), 3);
        let half = RoundTrips { nanoseconds: vec![2000, 4000, 6000], ..RoundTrips::new(0, 3) }.finish(0.5);
        assert_eq!(half.value, Some(2.0));
        assert_eq!(RoundTrips::new(2, 3).finish(0.5), Measured::default(), "nothing measured, nothing claimed");
    }

    #[test]
    fn parts_cover_the_transfer() {
        let mut parts = Parts::start(1000);
        for done in 0..=1000 {
            parts.reach(done);
        }
        assert_eq!(parts.per_second.len(), 100);
        assert!(parts.slow().unwrap() > 0.0);
        let mut few = Parts::start(3);
        few.reach(3);
        assert_eq!(few.per_second.len(), 1);
        assert_eq!(Parts::start(5).slow(), None);
    }
}
