//! What has arrived when, and what follows from it.

use weft_lab::Plan;

use crate::experiments::links::side::{Account, Carrier, Counts, PIECE, STEP};
use crate::model::bound::{TCP_HEADERS, payload_rate};
use crate::result::{Histogram, Late};

/// What is left out at the beginning of the times around a cut: connections are made, windows grow.
const WARM_UP_STEPS: u64 = 500;
/// A stream is at full speed again when it has been so for this long.
const FULL_FOR_STEPS: usize = 100;
/// Of the speed before.
const FULL: f64 = 0.95;
/// A pause after a cut is looked for during this.
const PAUSE_WITHIN_STEPS: u64 = 1000;
/// Steps of a point of the series.
const POINT_STEPS: usize = 10;
/// The time of a point, in milliseconds: a step is one.
pub(crate) const POINT_MS: f64 = POINT_STEPS as f64;

/// IPv4 and UDP around a datagram of Edge, and Edge's own and DDP's headers in it.
const EDGE_HEADERS: f64 = 20.0 + 8.0 + 47.0;

/// When a link was cut and mended, in steps since the machine's start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moments {
    pub(crate) cut: u64,
    pub(crate) mended: u64,
}

/// What a run has come to.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) bytes_per_s: f64,
    /// What the carrier's headers leave of the links.
    pub(crate) possible_bytes_per_s: f64,
    /// Processor time of both sides.
    pub(crate) cpu_s_per_gb: f64,
    /// System calls of both sides that sent and that received something, and times that a thread was woken.
    pub(crate) sends_per_gb: f64,
    pub(crate) receives_per_gb: f64,
    pub(crate) wake_ups_per_gb: f64,
    /// Of the segments that came, those that were placed before their turn.
    pub(crate) early_share: Option<f64>,
    /// Bytes that were kept until their turn, of each byte that arrived.
    pub(crate) kept_share: f64,
    /// Processors that both sides kept busy.
    pub(crate) cpu_share: f64,
    /// Frames beyond those that the payload needs, of each of these; `None` where they are not counted.
    pub(crate) extra_frames: Option<f64>,
    /// Half of each round trip in microseconds, of a ping-pong.
    pub(crate) half_round_trips: Option<Histogram>,
    /// Of what this and the stream beside it have brought, if there is one.
    pub(crate) share: Option<f64>,
    /// How late the emulator of the links was, where there is one.
    pub(crate) lateness: Option<Late>,
    pub(crate) cut: Option<CutSummary>,
    /// Bytes per second, in steps of 10 ms.
    pub(crate) series: Vec<f64>,
}

/// What a cut has done.
#[derive(Clone, Debug)]
pub(crate) struct CutSummary {
    /// When, in milliseconds since the first byte.
    pub(crate) cut_ms: u64,
    pub(crate) mended_ms: u64,
    /// The longest time without an arrival in the second after the cut.
    pub(crate) pause_ms: f64,
    /// Bytes per second before, while the link was cut (without the first half second), and until full speed was
    /// reached again after it was mended.
    pub(crate) before: f64,
    pub(crate) during: f64,
    pub(crate) full_after_ms: Option<f64>,
}

/// Headers of this carrier in each frame, but for Ethernet's.
fn headers(carrier: Carrier) -> f64 {
    if carrier == Carrier::Edge { EDGE_HEADERS } else { TCP_HEADERS }
}

/// What a full frame has of this carrier's payload.
fn room(plan: &Plan, carrier: Carrier) -> f64 {
    f64::from(plan.mtu) - headers(carrier)
}

/// What all links carry together of this carrier's payload, in bytes per second.
pub(crate) fn possible(plan: &Plan, carrier: Carrier) -> f64 {
    let rates = (0..plan.links).filter_map(|rail| plan.rate_of(rail));
    rates.map(|rate| payload_rate(rate, plan.mtu, headers(carrier))).sum()
}

/// Frames beyond those that the payload needs, of each of these: one for each full part of a message, and one for its
/// rest. Negative where messages share frames. MultiEdge (Karlsson et al., IPDPS 2007) counts acknowledgements and
/// repetitions so.
pub(crate) fn extra_frames(frames: u64, payload: u64, size: Option<usize>, plan: &Plan, carrier: Carrier) -> f64 {
    let (size, payload) = (size.unwrap_or(PIECE) as f64, payload as f64);
    let needed = payload / size * (size / room(plan, carrier)).ceil();
    (frames as f64 - needed) / needed
}

/// What both sides together have taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    pub(crate) cpu_s: f64,
    pub(crate) counts: Counts,
}

/// The time of a stream in seconds, and what of it the throughput leaves out at the beginning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) seconds: f64,
    pub(crate) omitted: f64,
}

impl Span {
    /// # Errors
    /// Nothing is left of the stream: its throughput would be none.
    pub(crate) fn new(seconds: f64, omitted: f64) -> Result<Self, String> {
        let is_left = omitted < seconds;
        is_left
            .then_some(Self { seconds, omitted })
            .ok_or_else(|| format!("--omit {omitted}: nothing is left of streams of {seconds} s"))
    }
}

/// Sums up a run.
pub(crate) fn sum_up(
    arrivals: &Account,
    Costs { cpu_s, counts }: &Costs,
    span: Span,
    possible_bytes_per_s: f64,
    moments: Option<Moments>,
) -> Summary {
    let at = |step: u64| step.saturating_sub(arrivals.first_step);
    let all: u64 = arrivals.bytes.iter().sum();
    let gb = all as f64 / 1e9;
    let series = arrivals.bytes.chunks(POINT_STEPS).map(mean).collect();
    Summary {
        bytes_per_s: speed(arrivals, span),
        possible_bytes_per_s,
        cpu_s_per_gb: cpu_s / gb,
        sends_per_gb: counts.sends as f64 / gb,
        receives_per_gb: counts.receives as f64 / gb,
        wake_ups_per_gb: counts.wake_ups as f64 / gb,
        early_share: (counts.segments > 0).then(|| counts.early_segments as f64 / counts.segments as f64),
        kept_share: counts.kept_bytes as f64 / all as f64,
        cpu_share: cpu_s / span.seconds,
        extra_frames: None,
        half_round_trips: arrivals.half_round_trips.clone(),
        share: None,
        lateness: None,
        cut: moments.map(|moments| cut(&arrivals.bytes, at(moments.cut), at(moments.mended))),
        series,
    }
}

/// Bytes of `own` over the bytes of both streams, in the last two thirds of the time of the stream that began.
/// `None`: neither has delivered any.
pub(crate) fn share(own: &Account, other: &Account, seconds: f64) -> Option<f64> {
    let steps = steps(seconds);
    let began = own.first_step.min(other.first_step);
    let bytes = |one: &Account| {
        let at = |step: u64| (began + step).saturating_sub(one.first_step);
        part(&one.bytes, at(steps / 3), at(steps)).iter().sum::<u64>() as f64
    };
    let (own, other) = (bytes(own), bytes(other));
    (own + other > 0.0).then(|| own / (own + other))
}

/// Bytes per second, without the beginning.
fn speed(arrivals: &Account, Span { seconds, omitted }: Span) -> f64 {
    mean(part(&arrivals.bytes, steps(omitted), steps(seconds)))
}

fn steps(seconds: f64) -> u64 {
    (seconds / STEP.as_secs_f64()).round() as u64
}

fn cut(bytes: &[u64], cut: u64, mended: u64) -> CutSummary {
    let before = mean(part(bytes, WARM_UP_STEPS, cut));
    let after = part(bytes, mended, bytes.len() as u64);
    let full = after.windows(FULL_FOR_STEPS).position(|window| mean(window) >= FULL * before);
    CutSummary {
        cut_ms: cut,
        mended_ms: mended,
        pause_ms: longest_gap(part(bytes, cut, cut + PAUSE_WITHIN_STEPS)) as f64,
        before,
        during: mean(part(bytes, cut + WARM_UP_STEPS, mended)),
        full_after_ms: full.map(|steps| steps as f64),
    }
}

fn part(bytes: &[u64], from: u64, to: u64) -> &[u64] {
    let end = bytes.len().min(usize::try_from(to).unwrap_or(usize::MAX));
    &bytes[end.min(usize::try_from(from).unwrap_or(usize::MAX))..end]
}

/// Bytes per second.
fn mean(bytes: &[u64]) -> f64 {
    let seconds = bytes.len().max(1) as f64 * STEP.as_secs_f64();
    bytes.iter().sum::<u64>() as f64 / seconds
}

/// Steps without an arrival, one after the other, at most.
fn longest_gap(bytes: &[u64]) -> usize {
    bytes.split(|step| *step > 0).map(<[u64]>::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_seen_in_what_arrives() {
        let mut bytes = vec![100; 1000];
        bytes.extend([0; 30]);
        bytes.extend([50; 970]);
        bytes.extend([60; 200]);
        bytes.extend([100; 500]);
        let cut = cut(&bytes, 1000, 2000);
        assert_eq!((cut.pause_ms, cut.before, cut.during), (30.0, 100_000.0, 50_000.0));
        // Nine steps out of ten must be full for 95 % of the speed, from slightly below it.
        assert_eq!(cut.full_after_ms, Some(188.0));
    }

    #[test]
    fn the_throughput_leaves_out_the_beginning_and_what_comes_after_the_time() {
        let bytes = [vec![1; 300], vec![5; 300], vec![9; 100]].concat();
        let account = Account { bytes, ..Account::default() };
        let speed = |omitted| speed(&account, Span { seconds: 0.6, omitted });
        assert_eq!((speed(0.3), speed(0.0)), (5000.0, 3000.0));
    }

    #[test]
    fn something_is_left_of_a_stream() {
        assert_eq!(Span::new(0.6, 0.5), Ok(Span { seconds: 0.6, omitted: 0.5 }));
        let refused = Err("--omit 0.5: nothing is left of streams of 0.5 s".to_owned());
        assert_eq!(Span::new(0.5, 0.5), refused);
    }

    #[test]
    fn shares_are_of_the_last_two_thirds_of_the_first_streams_time() {
        let account = |first_step, bytes: Vec<u64>| Account { first_step, bytes, ..Account::default() };
        // 600 steps: the second one begins after 100, and continues for 100 when the first has ended.
        let first = account(1000, [vec![9; 200], vec![3; 400]].concat());
        let second = account(1100, [vec![7; 100], vec![1; 400], vec![9; 100]].concat());
        assert_eq!(share(&first, &second, 0.6), Some(0.75));
        assert_eq!(share(&second, &first, 0.6), Some(0.25));
        assert_eq!(share(&account(0, vec![]), &account(0, vec![]), 0.6), None);
    }

    #[test]
    fn acknowledgements_are_extra_frames() {
        let plan = Plan::default();
        let share = |frames, payload, size| extra_frames(frames, payload, size, &plan, Carrier::Edge);
        // 256 KiB are 184 frames of 1425 bytes; each message has two acknowledgements here.
        assert!((share(18_600, 100 << 18, None) - 2.0 / 184.0).abs() < 1e-9);
        assert_eq!(share(200, 400, Some(4)), 1.0, "a frame of its own each, and an acknowledgement");
        assert_eq!(share(50, 400, Some(4)), -0.5, "two in each frame");
    }

    #[test]
    fn headers_leave_what_they_leave() {
        let plan = Plan { links: 2, ..Plan::default() };
        assert!((possible(&plan, Carrier::Edge) / 235.3e6 - 1.0).abs() < 0.001);
        assert!((possible(&plan, Carrier::Tcp) / 239.1e6 - 1.0).abs() < 0.001);
    }
}
