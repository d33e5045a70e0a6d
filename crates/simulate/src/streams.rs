//! One iWARP stream over Weft's own TCP, in virtual time: what segments that come late or never cost, by what the
//! receiver does with those behind them. Or, in real time, to a TCP that is not simulated, by the same link.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use weft_base::{Ecn, Random, StreamPosition, Time};
use weft_emulate::{Chance, Delayed, Link, Loss, Packet, Settings as LinkSettings};
use weft_mpa::{Framer, MarkerSpacing, Reassembler, ReassemblerLimits};
use weft_tcp::{Answer, Connection, Flow, InitialNumbers, Listener, ReceivePolicy, Segment, Settings, State};

const MARKERS: Option<MarkerSpacing> = Some(MarkerSpacing::Standard);
/// IPv4 and TCP with time stamps.
const HEADERS: u32 = 20 + 32;
/// Bytes that are taken at once from what TCP has put in order.
const PIECE: usize = 32 << 10;
/// Less than the queue of the link holds, so that nothing is lost but what is to be.
pub(crate) const WINDOW: u32 = 512 << 10;
pub(crate) const START: Time = Time::from_nanos(1_000_000_000);
/// Nothing that is not simulated takes this long.
const PATIENCE: Duration = Duration::from_secs(20);

/// What to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamScenario {
    /// All chance comes from it.
    pub seed: u64,
    /// What the receiver does with segments that come too early.
    pub policy: ReceivePolicy,
    /// Segments of a million that are late.
    pub late: u32,
    /// By how much at most.
    pub late_by: Duration,
    /// Segments of a million that are lost, in both directions.
    pub lost: u32,
    /// Segments of a million that a middlebox cuts in two.
    pub cut: u32,
    /// Bits per second of the link.
    pub rate: u64,
    /// One way.
    pub delay: Duration,
    /// FPDUs that are sent, each as long as a segment.
    pub fpdus: u32,
}

impl Default for StreamScenario {
    fn default() -> Self {
        Self {
            seed: 1,
            policy: ReceivePolicy::Place,
            late: 0,
            late_by: Duration::from_micros(200),
            lost: 0,
            cut: 0,
            rate: 1_000_000_000,
            delay: Duration::from_micros(500),
            fpdus: 20_000,
        }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamReport {
    /// Bytes of ULPDUs.
    pub bytes: u64,
    /// From the first byte that left until all were in place.
    pub elapsed: Duration,
    /// From when an FPDU left first until it was in place: of half of them not longer than this.
    pub median: Duration,
    /// The same of 99 in a hundred.
    pub p99: Duration,
    /// Bytes that were kept at the receiver at a time, at most, because something before them was missing.
    pub most_buffered: u64,
    /// FPDUs that were in place before others that come before them.
    pub early: u64,
    /// Segments, or packets, that were retransmitted.
    pub resent: u64,
}

impl StreamReport {
    /// Bits of ULPDUs per second.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

impl StreamScenario {
    /// Sends all of them.
    ///
    /// # Errors
    /// A wrong byte, an FPDU that came twice, or never: a bug, with what was seen.
    pub fn run(&self) -> Result<StreamReport, String> {
        Run::new(self, flow(true), START)?.finish()
    }

    /// Sends all of them to `far`, in the time that `clock` tells. The policy is that end's.
    ///
    /// # Errors
    /// The same, and what `far` says.
    pub fn run_to(&self, far: &mut dyn FarEnd, clock: &mut dyn FnMut() -> Time) -> Result<StreamReport, String> {
        Run::new(self, far.flow(), clock())?.finish_to(far, clock)
    }

    /// How the link treats what has this many bytes of headers: forth, or back.
    pub(crate) fn link(&self, back: bool, header_bytes: u32) -> LinkSettings {
        LinkSettings {
            delay: self.delay,
            rate_bits_per_s: Some(self.rate),
            loss: Loss::Independent(Chance::per_million(self.lost)),
            reordering: if back {
                Delayed::default()
            } else {
                Delayed { chance: Chance::per_million(self.late), by: self.late_by }
            },
            header_bytes,
            ..LinkSettings::default()
        }
    }
}

/// A TCP that receives the stream, somewhere in real time. Errors are text.
pub trait FarEnd {
    /// The two ends of the connection, as the sender sees them.
    fn flow(&self) -> Flow;

    /// A segment has come by the link.
    ///
    /// # Errors
    /// It cannot be handed over.
    fn arrive(&mut self, segment: &Segment, payload: &[u8]) -> Result<(), String>;

    /// The next segment that it sends.
    ///
    /// # Errors
    /// Nothing can be had of it any more.
    fn poll_transmit(&mut self) -> Result<Option<Segment>, String>;

    /// Reads what is in order; 0 when there is nothing.
    ///
    /// # Errors
    /// The stream has ended.
    fn read(&mut self, to: &mut [u8]) -> Result<usize, String>;

    /// Bytes that it keeps, when all has been read that is in order.
    fn kept(&mut self) -> u64;
}

/// The receiver's side above TCP.
struct Placer {
    reassembler: Reassembler,
    /// When each FPDU left first, by where it begins.
    left: BTreeMap<u64, Time>,
    took: Vec<Duration>,
    bytes: u64,
    most_buffered: u64,
    wrong: Option<String>,
}

impl Placer {
    fn take(&mut self, position: StreamPosition, bytes: &[u8], now: Time) -> bool {
        let Self { left, took, bytes: placed, wrong, .. } = self;
        let kept = self.reassembler.take(position, bytes, &mut |range, frame| {
            let start = range.start.0;
            if frame.ulpdu().flatten().any(|byte| *byte != start as u8) {
                wrong.get_or_insert_with(|| format!("the FPDU at {start} has a wrong byte"));
            }
            *placed += frame.ulpdu().map(|piece| piece.len() as u64).sum::<u64>();
            match left.remove(&start) {
                Some(at) => took.push(now.since(at)),
                None => {
                    wrong.get_or_insert_with(|| format!("the FPDU at {start} came twice, or was never sent"));
                }
            }
        });
        kept.unwrap_or_else(|error| {
            self.wrong.get_or_insert_with(|| format!("at {}: {error}", position.0));
            true
        })
    }

    /// Much at once: the reassembler takes as much as a segment may be.
    fn take_in_order(&mut self, position: StreamPosition, bytes: &[u8], now: Time) {
        for (piece, at) in bytes.chunks(PIECE).zip((position.0..).step_by(PIECE)) {
            if !self.take(StreamPosition(at), piece, now) {
                self.wrong.get_or_insert_with(|| format!("{} bytes in order, at {at}, are refused", piece.len()));
            }
        }
    }

    fn note_buffered(&mut self, early: u64) {
        self.most_buffered = self.most_buffered.max(self.reassembler.held() as u64 + early);
    }
}

struct Run {
    now: Time,
    policy: ReceivePolicy,
    caller: Connection,
    listener: Listener,
    callee: Option<Box<Connection>>,
    links: [Link<Segment>; 2],
    random: Random,
    cut: Chance,
    framer: Framer,
    unsent: u32,
    /// Where FPDUs begin that have not left.
    starts: BTreeSet<u64>,
    waiting: Option<Vec<u8>>,
    began: Option<Time>,
    placer: Placer,
}

fn flow(forth: bool) -> Flow {
    let ends = [([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into()];
    Flow { local: ends[usize::from(!forth)], remote: ends[usize::from(forth)] }
}

/// The percentile of sorted times: `percent` in a hundred are shorter.
pub(crate) fn share(sorted: &[Duration], percent: usize) -> Duration {
    sorted.get((sorted.len() * percent / 100).min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

fn stuck(what: impl core::fmt::Display) -> String {
    format!("a setting of TCP: {what}")
}

impl Run {
    fn new(scenario: &StreamScenario, flow: Flow, now: Time) -> Result<Self, String> {
        let settings =
            Settings { policy: scenario.policy, receive_window: WINDOW, send_buffer: WINDOW, ..Settings::default() };
        let mut random = Random::new(scenario.seed);
        let links = [false, true].map(|back| Link::new(scenario.link(back, HEADERS), Random::new(random.next_u64())));
        let placer = Placer {
            reassembler: Reassembler::new(MARKERS, true, ReassemblerLimits::default()),
            left: BTreeMap::new(),
            took: Vec::new(),
            bytes: 0,
            most_buffered: 0,
            wrong: None,
        };
        Ok(Self {
            now,
            policy: scenario.policy,
            caller: Connection::connect(flow, settings, 5, now).map_err(stuck)?,
            listener: Listener::new(settings, InitialNumbers::new(&[3; 32]), 4).map_err(stuck)?,
            callee: None,
            links,
            random,
            cut: Chance::per_million(scenario.cut),
            framer: Framer::new(MARKERS, true),
            unsent: scenario.fpdus,
            starts: BTreeSet::new(),
            waiting: None,
            began: None,
            placer,
        })
    }

    fn finish(mut self) -> Result<StreamReport, String> {
        let all = self.unsent as usize;
        while self.placer.took.len() < all {
            self.write();
            self.transmit();
            self.now = self.next_time().ok_or_else(|| self.stuck())?.max(self.now);
            self.caller.handle_timeout(self.now);
            if let Some(callee) = &mut self.callee {
                callee.handle_timeout(self.now);
            }
            self.deliver();
            self.read();
            let failed = self.caller.error().map(|error| error.to_string());
            if let Some(wrong) = self.placer.wrong.take().or(failed) {
                return Err(wrong);
            }
        }
        Ok(self.report())
    }

    fn finish_to(mut self, far: &mut dyn FarEnd, clock: &mut dyn FnMut() -> Time) -> Result<StreamReport, String> {
        let (all, began) = (self.unsent as usize, self.now);
        let (mut position, mut piece) = (StreamPosition(0), vec![0; PIECE]);
        while self.placer.took.len() < all {
            self.now = clock();
            if self.now.since(began) > PATIENCE {
                return Err(self.stuck());
            }
            self.caller.handle_timeout(self.now);
            self.write();
            self.transmit();
            while let Some(packet) = self.links[0].deliver(self.now) {
                far.arrive(&packet.tag, &packet.bytes)?;
            }
            while let Some(segment) = far.poll_transmit()? {
                self.launch(1, segment, Vec::new());
            }
            self.receive_replies();
            loop {
                let length = far.read(&mut piece)?;
                if length == 0 {
                    break;
                }
                self.placer.take_in_order(position, &piece[..length], clock());
                position.0 += length as u64;
            }
            self.placer.note_buffered(far.kept());
            let failed = self.caller.error().map(|error| error.to_string());
            if let Some(wrong) = self.placer.wrong.take().or(failed) {
                return Err(wrong);
            }
        }
        self.now = clock();
        Ok(self.report())
    }

    fn stuck(&self) -> String {
        let states = [Some(&self.caller), self.callee.as_deref()].map(|one| one.map(Connection::state));
        let (taken, unsent) = (self.placer.took.len(), self.unsent);
        let open = self.caller.unacknowledged();
        let read = self.callee.as_ref().map(|callee| (callee.received().0, callee.readable()));
        format!(
            "nothing happens any more: {states:?}, {taken} FPDUs in place, {unsent} not written, {open} bytes not \
             acknowledged, received and readable {read:?}, kept {}",
            self.placer.reassembler.held()
        )
    }

    fn next_time(&self) -> Option<Time> {
        let timers = [self.caller.next_timeout(), self.callee.as_ref().and_then(|callee| callee.next_timeout())];
        timers.into_iter().chain(self.links.iter().map(Link::next_time)).flatten().min()
    }

    fn report(mut self) -> StreamReport {
        let took = &mut self.placer.took;
        took.sort_unstable();
        StreamReport {
            bytes: self.placer.bytes,
            elapsed: self.began.map_or(Duration::ZERO, |began| self.now.since(began)),
            median: share(took, 50),
            p99: share(took, 99),
            most_buffered: self.placer.most_buffered,
            early: self.placer.reassembler.early(),
            resent: self.caller.counters().retransmitted,
        }
    }

    /// FPDUs as long as a segment carries, each of one byte again and again.
    fn write(&mut self) {
        while self.caller.state().is_synchronised() {
            let Some(fpdu) = self.waiting.take().or_else(|| self.next_fpdu()) else { return };
            if !self.caller.write_unit(&fpdu) {
                self.waiting = Some(fpdu);
                return;
            }
        }
    }

    fn next_fpdu(&mut self) -> Option<Vec<u8>> {
        self.unsent = self.unsent.checked_sub(1)?;
        let largest = self.framer.max_ulpdu(self.caller.segment_size() as u32, false);
        let layout = self.framer.frame(largest);
        let start = layout.start().0;
        self.starts.insert(start);
        let mut fpdu = vec![0; layout.length()];
        let Ok(()) = layout.write(&[], &mut &vec![start as u8; largest as usize][..], &mut fpdu);
        Some(fpdu)
    }

    fn transmit(&mut self) {
        while let Some(outgoing) = self.caller.poll_transmit(self.now) {
            let mut payload = vec![0; outgoing.payload_length()];
            self.caller.copy_payload(&outgoing.payload, &mut payload);
            self.note_left(outgoing.payload.clone());
            self.middlebox(outgoing.segment, payload);
        }
        while let Some(outgoing) = self.callee.as_mut().and_then(|callee| callee.poll_transmit(self.now)) {
            self.launch(1, outgoing.segment, Vec::new());
        }
    }

    fn note_left(&mut self, range: core::ops::Range<u64>) {
        if !range.is_empty() {
            self.began.get_or_insert(self.now);
        }
        while let Some(start) = self.starts.first().copied().filter(|start| *start < range.end) {
            self.starts.remove(&start);
            self.placer.left.insert(start, self.now);
        }
    }

    fn middlebox(&mut self, segment: Segment, mut payload: Vec<u8>) {
        if payload.len() > 1 && self.cut.happens(&mut self.random) {
            let at = 1 + self.random.below(payload.len() as u64 - 1) as usize;
            let rest = payload.split_off(at);
            let second = Segment { sequence: segment.sequence.wrapping_add(at as u32), ..segment.clone() };
            self.launch(0, segment, payload);
            self.launch(0, second, rest);
        } else {
            self.launch(0, segment, payload);
        }
    }

    fn launch(&mut self, link: usize, segment: Segment, payload: Vec<u8>) {
        self.links[link].send(Packet { bytes: payload, ecn: Ecn::NotCapable, tag: segment }, self.now);
    }

    fn deliver(&mut self) {
        while let Some(packet) = self.links[0].deliver(self.now) {
            self.arrive(&packet.tag, &packet.bytes);
        }
        self.receive_replies();
    }

    /// What comes back.
    fn receive_replies(&mut self) {
        while let Some(packet) = self.links[1].deliver(self.now) {
            self.caller.handle(&packet.tag, &packet.bytes, &mut |_: StreamPosition, _: &[u8]| true, self.now);
        }
    }

    fn arrive(&mut self, segment: &Segment, payload: &[u8]) {
        if self.callee.is_none() {
            match self.listener.handle(&flow(false), segment, payload.len(), self.now) {
                Answer::Nothing => return,
                Answer::Reply(reply) => return self.launch(1, reply, Vec::new()),
                Answer::Accepted(callee) => self.callee = Some(callee),
            }
        }
        let (placer, now) = (&mut self.placer, self.now);
        if let Some(callee) = self.callee.as_mut().filter(|callee| callee.state() != State::Closed) {
            let mut sink = |position: StreamPosition, bytes: &[u8]| placer.take(position, bytes, now);
            callee.handle(segment, payload, &mut sink, now);
        }
    }

    /// What TCP has put in order.
    fn read(&mut self) {
        let Some(callee) = &mut self.callee else { return };
        let mut early = 0;
        if self.policy != ReceivePolicy::Place {
            early = callee.early_bytes();
            let position = StreamPosition(callee.received().0 - callee.readable());
            let mut bytes = vec![0; callee.readable() as usize];
            let length = callee.read(&mut bytes);
            self.placer.take_in_order(position, &bytes[..length], self.now);
        }
        self.placer.note_buffered(if self.policy == ReceivePolicy::Buffer { early } else { 0 });
    }
}
