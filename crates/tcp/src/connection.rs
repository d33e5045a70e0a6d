//! A connection: both halves, and the state between them.

use core::fmt;
use core::ops::Range;
use core::time::Duration;

use weft_base::{StreamPosition, Time};

use crate::initial::Initial;
use crate::receiver::{Receiver, Sink};
use crate::segment::{Flow, Segment, Timestamps};
use crate::sender::Sender;
use crate::settings::{MIN_MSS, SettingError, Settings};
use crate::state::{Event, State};
use crate::time_wait::TimeWait;

mod arriving;
mod challenges;
mod leaving;
mod opening;
mod timing;

pub(crate) use challenges::Challenges;
pub use leaving::Outgoing;
pub(crate) use opening::Heard;

/// Bytes of the timestamps option with its padding.
const STAMPS: u64 = 12;
/// What a peer takes that does not say how much (RFC 9293 section 3.7.1).
const DEFAULT_MSS: u16 = 536;

/// The timestamp of a clock that began with this one.
pub(crate) const fn stamp(offset: u32, now: Time) -> u32 {
    offset.wrapping_add((now.as_nanos() / 1_000_000) as u32)
}

/// Why a connection ended otherwise than by both sides closing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionError {
    /// No process listens at the peer's port.
    Refused,
    /// The peer has reset the connection.
    Reset,
    /// The peer has acknowledged nothing for this long.
    TimedOut(Duration),
    /// This side has aborted it.
    Aborted,
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => write!(f, "the peer refuses the connection: no listener at that port"),
            Self::Reset => write!(f, "the peer has reset the connection"),
            Self::TimedOut(time) => write!(f, "the peer has not answered for {time:?}: check the path to it"),
            Self::Aborted => write!(f, "the connection was aborted by this side"),
        }
    }
}

impl std::error::Error for ConnectionError {}

/// What a connection did, in segments unless it says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sent, of all kinds.
    pub sent: u64,
    /// Of those, retransmitted.
    pub retransmitted: u64,
    /// Trains, not segments, that left: as one frame, which a device was to cut.
    pub trains: u64,
    /// Cuts of the congestion window, not segments, that were taken back: nothing had been lost.
    pub undone: u64,
    /// Received, of all kinds.
    pub received: u64,
    /// Of those, dropped because they came too early for the policy, the window or the bound of ranges, or were not
    /// kept.
    pub dropped: u64,
    /// Received where none may be: out of the window, too old, or an acknowledgement of what was never sent.
    pub unacceptable: u64,
    /// Challenge acknowledgements that were requested (RFC 5961); not all are sent.
    pub challenges: u64,
}

/// A TCP connection. The [crate]'s page says how to drive it.
#[derive(Debug)]
pub struct Connection {
    settings: Settings,
    flow: Flow,
    state: State,
    error: Option<ConnectionError>,
    sender: Sender,
    receiver: Receiver,
    /// Timestamps are used, and what the clock of this side begins with.
    stamps: bool,
    stamp_offset: u32,
    /// A segment that goes out before all others, and is the last one.
    reset: Option<Segment>,
    /// The SYN has to be answered again.
    challenges: Challenges,
    probe_due: bool,
    /// Keep-alive: when something came from the peer last, and probes since.
    heard: Time,
    probes: u32,
    waits_until: Option<Time>,
    counters: Counters,
}

impl Connection {
    /// Opens a connection: a SYN is ready to leave. `initial` has the first sequence number and where the clock of
    /// timestamps begins, from [`InitialNumbers`](crate::InitialNumbers).
    ///
    /// # Errors
    /// The first setting that no connection can have.
    pub fn connect(
        flow: Flow,
        settings: Settings,
        initial: impl Into<Initial>,
        now: Time,
    ) -> Result<Self, SettingError> {
        settings.check()?;
        Ok(Self::new(flow, settings, initial.into(), State::SynSent, now))
    }

    fn new(flow: Flow, settings: Settings, initial: Initial, state: State, now: Time) -> Self {
        Self {
            flow,
            state,
            error: None,
            sender: Sender::new(&settings, initial.number, now),
            receiver: Receiver::new(&settings),
            stamps: settings.timestamps,
            stamp_offset: initial.stamp,
            reset: None,
            challenges: Challenges::new(settings.challenges),
            probe_due: false,
            heard: now,
            probes: 0,
            waits_until: None,
            counters: Counters::default(),
            settings,
        }
    }

    /// Its two ends.
    #[must_use]
    pub const fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Its state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Why it ended, when it did not end well.
    #[must_use]
    pub const fn error(&self) -> Option<ConnectionError> {
        self.error
    }

    /// What it did.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let Sender { retransmitted, undone, .. } = self.sender;
        let trains = self.sender.trains().count();
        Counters { retransmitted, trains, undone, dropped: self.receiver.dropped, ..self.counters }
    }

    /// Bytes of payload that a segment carries, on this path, to this peer.
    #[must_use]
    pub const fn segment_size(&self) -> u64 {
        self.sender.mss()
    }

    /// The smoothed round trip, once there was one.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        let round_trip = self.sender.round_trip();
        round_trip.is_known().then(|| round_trip.smoothed())
    }

    /// Whether the stream may be written to.
    const fn takes_data(&self) -> bool {
        use State::{CloseWait, Established, SynReceived, SynSent};
        matches!(self.state, SynSent | SynReceived | Established | CloseWait) && !self.sender.is_finishing()
    }

    /// Takes bytes to send, as many as there is room for; none after [`Connection::close`].
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        if self.takes_data() { self.sender.write(bytes) } else { 0 }
    }

    /// Takes all of `bytes`, or nothing when there is no room for all. They go in one segment, when one can carry
    /// them, perhaps with others before and behind: so an FPDU fits a segment (RFC 5044 section 4.5). After a change
    /// of the path that may be different; a receiver never relies on it.
    pub fn write_unit(&mut self, bytes: &[u8]) -> bool {
        self.takes_data() && self.sender.write_unit(bytes)
    }

    /// What was written since the last unit ended is a unit, as if it had been written by [`Connection::write_unit`].
    /// It may have been sent in part already: write all of it before the connection is polled.
    pub fn end_unit(&mut self) {
        self.sender.end_unit();
    }

    /// Bytes that [`Connection::write`] has room for.
    #[must_use]
    pub fn room(&self) -> u64 {
        if self.takes_data() { self.sender.room() } else { 0 }
    }

    /// Bytes of the stream that were written and that the peer has not acknowledged.
    #[must_use]
    pub fn unacknowledged(&self) -> u64 {
        self.sender.unacknowledged()
    }

    /// Reads in order what is buffered; nothing with [`ReceivePolicy::Place`](crate::ReceivePolicy).
    pub fn read(&mut self, to: &mut [u8]) -> usize {
        self.receiver.read(to)
    }

    /// Bytes that [`Connection::read`] would give.
    #[must_use]
    pub fn readable(&self) -> u64 {
        self.receiver.readable()
    }

    /// Up to where the peer's stream has come without a gap.
    #[must_use]
    pub fn received(&self) -> StreamPosition {
        StreamPosition(self.receiver.in_order())
    }

    /// From now on the policy is [`ReceivePolicy::Place`](crate::ReceivePolicy). Bytes received and not read are
    /// shown first, from before and behind gaps, and must be kept. The memory that it lay in is given back.
    pub fn place(&mut self, sink: &mut impl Sink) {
        self.receiver.place(sink);
    }

    /// Bytes that have come from behind a gap.
    #[must_use]
    pub fn early_bytes(&self) -> u64 {
        self.receiver.early_bytes()
    }

    /// Whether the peer has closed and all that it sent has come.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.receiver.is_finished()
    }

    /// With [`ReceivePolicy::Place`](crate::ReceivePolicy): how many bytes beyond the first missing one may come from
    /// now on. What was offered before still may (RFC 9293 section 3.8.6: a right edge is not taken back).
    pub fn offer(&mut self, bytes: u32) {
        self.receiver.set_room(u64::from(bytes.min(1 << 30)));
    }

    /// The path carries segments of at most `mss` bytes of payload and options from now on: a router says so (RFC 1191,
    /// RFC 8201), or larger ones vanish (RFC 8899). Not below 64. What is in flight and longer is retransmitted, cut to
    /// fit.
    pub fn set_path_mss(&mut self, mss: u16) {
        let stamps = if self.stamps { STAMPS } else { 0 };
        self.sender.set_mss(u64::from(mss.max(MIN_MSS)).min(u64::from(self.settings.mss)) - stamps);
    }

    /// Whether the next segments may leave in a train: as one frame, which a device cuts. Not where trains were lost
    /// while segments that left by themselves arrived.
    #[must_use]
    pub fn may_send_train(&self, now: Time) -> bool {
        self.sender.trains().may_leave(now)
    }

    /// The segments with this payload, which were planned just now, leave in one train.
    pub fn note_train(&mut self, payload: &Range<u64>, now: Time) {
        self.sender.note_train(payload, now);
    }

    /// Since when none may leave, because they were lost. From time to time one is tried again.
    #[must_use]
    pub const fn trains_avoided_since(&self) -> Option<Time> {
        self.sender.trains().avoided_since()
    }

    /// Another connection by the same path has lost trains at that time.
    pub const fn avoid_trains(&mut self, since: Time) {
        self.sender.avoid_trains(since);
    }

    /// Nothing more will be written. What was written is still sent, then the FIN; reading continues.
    pub fn close(&mut self) {
        self.sender.finish();
        self.go(Event::Close);
    }

    /// Ends it at once: what was not acknowledged is lost, and the peer gets a reset, unless it doesn't know of it yet.
    pub fn abort(&mut self) {
        if self.state == State::Closed {
            return;
        }
        if self.state != State::SynSent && self.state != State::TimeWait {
            self.reset = Some(self.reset_segment());
        }
        self.end(Some(ConnectionError::Aborted));
    }

    /// In TIME-WAIT, all of it that is still needed, in a record without buffers. What the user has not read is not in
    /// it. Nothing is to be sent then, if [`Connection::poll_transmit`] has nothing.
    #[must_use]
    pub fn time_wait(&mut self) -> Option<TimeWait> {
        let until = self.waits_until.filter(|_| self.state == State::TimeWait)?;
        Some(TimeWait {
            flow: self.flow,
            next: self.sender.number(self.sender.next()),
            expected: self.receiver.next_number(),
            window: self.receiver.window(false),
            stamps: self.stamps.then(|| (self.stamp_offset, self.receiver.echo())),
            offers_stamps: self.settings.timestamps,
            challenges: Challenges::new(self.settings.challenges),
            until,
            life: self.settings.time_wait,
        })
    }

    fn go(&mut self, event: Event) {
        self.state = self.state.on(event);
    }

    fn end(&mut self, error: Option<ConnectionError>) {
        self.state = State::Closed;
        self.error = self.error.or(error);
    }

    /// Timestamps count milliseconds (RFC 7323 section 5.4).
    const fn stamp(&self, now: Time) -> u32 {
        stamp(self.stamp_offset, now)
    }

    /// The end of the millisecond that the peer echoes.
    fn echoed(&self, stamps: Timestamps, now: Time) -> Time {
        let age = self.stamp(now).wrapping_sub(stamps.echo);
        let millis = (now.as_nanos() / 1_000_000).saturating_sub(u64::from(age));
        Time::from_nanos(millis * 1_000_000 + 999_999)
    }

    /// Whether the payload of a segment that was planned before, if it has one, is still here: the peer has not
    /// acknowledged where it begins meanwhile.
    #[must_use]
    pub fn keeps(&self, payload: &Range<u64>) -> bool {
        payload.is_empty() || self.sender.keeps(payload.start)
    }

    /// The payload of planned segments that follow each other, in at most two pieces. As for
    /// [`Connection::copy_payload`], it must still be here ([`Connection::keeps`]).
    #[must_use]
    pub fn payload(&self, payload: &Range<u64>) -> [&[u8]; 2] {
        self.sender.payload(payload)
    }

    /// Where the payload of a planned segment is copied from.
    pub fn copy_payload(&self, payload: &Range<u64>, to: &mut [u8]) {
        self.sender.copy(payload, to);
    }
}
