//! What is to be sent, what of it is in flight, and when it is given up for lost.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use weft_base::Time;
use weft_congestion::{RoundTrip, RoundTripSettings};

use crate::numbering::Numbering;
use crate::ring::Ring;
use crate::settings::{Congestion, MIN_MSS, Settings};

mod acks;
mod board;
mod rack;
mod spurious;
mod tail;
#[cfg(test)]
mod tests;
mod timers;
mod trains;
mod window;

pub(crate) use acks::Ack;
use board::{Fate, Scoreboard};
use rack::{Paths, Rack};
use spurious::Spurious;
use tail::TailProbe;
use timers::Timers;
use trains::Trains;
use window::CongestionWindow;

/// The sending half. Position 0 is the SYN; the FIN is behind the last byte.
#[derive(Debug)]
pub(crate) struct Sender {
    numbering: Numbering,
    una: u64,
    next: u64,
    /// The end of what was written.
    written: u64,
    fin: bool,
    ring: Ring,
    /// Where units end that are not to be cut when they fit in a segment.
    units: VecDeque<u64>,
    /// Bytes of payload of a segment.
    mss: u64,
    shift: u8,
    /// Where the peer's window ends, which segment announced it, and the largest window so far.
    edge: u64,
    said_by: (u64, u64),
    largest_window: u64,
    board: Scoreboard,
    rack: Rack,
    tail: TailProbe,
    round_trip: RoundTrip,
    algorithm: Congestion,
    congestion: CongestionWindow,
    /// A round trip ends when this is acknowledged.
    round_end: u64,
    spurious: Spurious,
    trains: Trains,
    timers: Timers,
    /// The end of the recovery that is in progress.
    recovery: Option<u64>,
    /// It began with a time-out, so slow start continues in it.
    timed_out: bool,
    /// One segment goes out whatever the congestion window says.
    force: bool,
    /// One segment goes out whatever the peer's window says.
    probe: bool,
    sack: bool,
    /// Acknowledgements that say nothing new, where there is no SACK.
    duplicates: u32,
    pub(crate) retransmitted: u64,
    pub(crate) undone: u64,
}

/// A segment that is to be sent now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Its sequence space, SYN and FIN included.
    pub(crate) range: Range<u64>,
    /// What of it is payload.
    pub(crate) payload: Range<u64>,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    /// Nothing waits behind it.
    pub(crate) push: bool,
}

impl Sender {
    pub(crate) fn new(settings: &Settings, initial: u32, now: Time) -> Self {
        let round_trip = RoundTripSettings { granularity: Duration::from_millis(1), ..RoundTripSettings::default() };
        Self {
            numbering: Numbering::new(initial),
            una: 0,
            next: 0,
            written: 1,
            fin: false,
            ring: Ring::new(settings.send_buffer as usize),
            units: VecDeque::new(),
            mss: u64::from(settings.mss),
            shift: 0,
            edge: 1,
            said_by: (0, 0),
            largest_window: 0,
            board: Scoreboard::new(settings.segments),
            rack: Rack::new(),
            tail: TailProbe::new(),
            round_trip: RoundTrip::new(round_trip),
            algorithm: settings.congestion,
            congestion: CongestionWindow::new(settings.congestion, u64::from(settings.mss)),
            round_end: 0,
            spurious: Spurious::default(),
            trains: Trains::default(),
            timers: Timers::new(settings, now),
            recovery: None,
            timed_out: false,
            force: false,
            probe: false,
            sack: false,
            duplicates: 0,
            retransmitted: 0,
            undone: 0,
        }
    }

    /// What the SYNs agreed on: bytes of payload, SACK, the shift of the peer's windows.
    pub(crate) fn agree(&mut self, mss: u64, sack: bool, shift: u8, now: Time) {
        self.mss = mss;
        (self.sack, self.shift) = (sack, shift);
        self.congestion = CongestionWindow::new(self.algorithm, mss);
        if self.board.iter().any(|sent| sent.times > 1) {
            // RFC 5681 section 3.1: a SYN was lost.
            self.congestion.handle_timeout(0, now);
            self.timers.handle_lost_syn();
        }
    }

    /// The path carries segments with as much payload from now on. What is in flight and longer than that has not
    /// passed: it is retransmitted, cut to fit, and says nothing about congestion (RFC 1191 section 6.4).
    pub(crate) fn set_mss(&mut self, mss: u64) {
        let mss = mss.max(u64::from(MIN_MSS));
        if mss < self.mss && self.board.mark_lost(|_, sent| sent.end - sent.start > mss) {
            self.spurious.forget();
            self.force = true;
        }
        self.mss = mss;
        self.congestion.set_mss(self.mss);
    }

    /// The window that a SYN says, which is never shifted (RFC 7323 section 2.2).
    pub(crate) fn handle_window(&mut self, start: u64, window: u16) {
        self.said_by = (start, self.una);
        self.edge = self.una.max(1) + u64::from(window);
        self.largest_window = u64::from(window);
    }

    /// The SYN goes out again.
    pub(crate) fn repeat_syn(&mut self) {
        self.board.mark_lost(|_, sent| sent.start == 0);
        self.force = true;
    }

    pub(crate) const fn uses_sack(&self) -> bool {
        self.sack
    }

    pub(crate) const fn number(&self, position: u64) -> u32 {
        self.numbering.number(position)
    }

    /// What was sent.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    pub(crate) const fn mss(&self) -> u64 {
        self.mss
    }

    pub(crate) const fn is_finishing(&self) -> bool {
        self.fin
    }

    /// Whether the peer has acknowledged the FIN.
    pub(crate) const fn is_finished(&self) -> bool {
        self.fin && self.una > self.written
    }

    /// Bytes of the stream that the peer has not acknowledged.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.written.saturating_sub(self.una.max(1))
    }

    /// When something was last sent, or acknowledged.
    pub(crate) fn last_active(&self) -> Time {
        self.timers.last_active()
    }

    /// Whether it has memory that nothing is in.
    pub(crate) fn has_spare_memory(&self) -> bool {
        self.unacknowledged() == 0 && self.board.is_empty() && (self.ring.is_allocated() || self.board.is_large())
    }

    /// Gives that back.
    pub(crate) fn release_memory(&mut self) {
        if self.has_spare_memory() {
            self.ring.release();
            self.board.shrink();
            self.units = VecDeque::new();
        }
    }

    pub(crate) const fn round_trip(&self) -> &RoundTrip {
        &self.round_trip
    }

    /// Room for as many bytes.
    pub(crate) fn room(&self) -> u64 {
        if self.fin { 0 } else { self.ring.capacity() - self.unacknowledged() }
    }

    /// Takes as much as there is room for.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> usize {
        let length = self.room().min(bytes.len() as u64) as usize;
        let live = self.una.max(1)..self.written;
        self.ring.make_room(live, self.written + length as u64);
        self.ring.write(self.written, &bytes[..length]);
        self.written += length as u64;
        length
    }

    /// Takes all or nothing, and keeps it in one segment if one can carry it and there is room to remember that.
    pub(crate) fn write_unit(&mut self, bytes: &[u8]) -> bool {
        if self.room() < bytes.len() as u64 {
            return false;
        }
        self.write(bytes);
        self.end_unit();
        true
    }

    /// What was written since the last unit is one, if there is room to remember that.
    pub(crate) fn end_unit(&mut self) {
        if self.units.len() < self.board.limit() {
            self.units.push_back(self.written);
        }
    }

    /// Nothing more will be written.
    pub(crate) const fn finish(&mut self) {
        self.fin = true;
    }

    /// Whether a position is not acknowledged.
    pub(crate) fn keeps(&self, position: u64) -> bool {
        self.una.max(1) <= position
    }

    pub(crate) fn payload(&self, payload: &Range<u64>) -> [&[u8]; 2] {
        self.ring.pieces(payload.start, (payload.end - payload.start) as usize)
    }

    pub(crate) fn copy(&self, payload: &Range<u64>, to: &mut [u8]) {
        self.ring.read(payload.start, to);
    }

    /// The next segment that may leave now. It counts as sent.
    pub(crate) fn next_segment(&mut self, is_synchronised: bool, now: Time) -> Option<Plan> {
        let range = self.next_lost(now).or_else(|| self.next_new(is_synchronised, now))?;
        self.force = false;
        Some(self.plan(range))
    }

    pub(crate) const fn trains(&self) -> &Trains {
        &self.trains
    }

    pub(crate) const fn avoid_trains(&mut self, since: Time) {
        self.trains.avoid(since);
    }

    /// Segments that were planned just now leave as one frame.
    pub(crate) fn note_train(&mut self, payload: &Range<u64>, now: Time) {
        let train = self.trains.begin(now);
        self.board.join(payload, train);
    }

    fn note_lost_trains(&mut self, now: Time) {
        let trains = &mut self.trains;
        self.board.lost_trains(|train| trains.handle_lost(train, now));
    }

    fn plan(&self, range: Range<u64>) -> Plan {
        let payload = range.start.max(1).min(self.written)..range.end.min(self.written).max(1);
        let payload = payload.start..payload.end.max(payload.start);
        Plan {
            syn: range.start == 0,
            fin: range.end > self.written,
            push: range.end >= self.written && !payload.is_empty(),
            payload,
            range,
        }
    }

    fn next_lost(&mut self, now: Time) -> Option<Range<u64>> {
        let index = self.board.first_lost()?;
        let length = self.board.length(index, self.mss);
        let fits = self.board.flying() + length <= self.congestion.bytes();
        if !(fits || self.force || self.board.flying() == 0) {
            return None;
        }
        self.timers.handle_sent(false, now);
        self.retransmitted += 1;
        Some(self.board.resend(index, self.mss, now))
    }

    fn next_new(&mut self, is_synchronised: bool, now: Time) -> Option<Range<u64>> {
        if self.board.has_lost() || !self.board.has_room() {
            return None;
        }
        let end = match self.next {
            0 => 1,
            _ if is_synchronised => self.end_of_new()?,
            _ => return None,
        };
        self.probe = false;
        let range = self.next..end;
        self.next = end;
        self.timers.handle_sent(self.board.is_empty(), now);
        self.board.push(range.clone(), now);
        Some(range)
    }

    /// How far the next new segment goes, if there is one that may be sent.
    fn end_of_new(&mut self) -> Option<u64> {
        let last = self.written + u64::from(self.fin);
        let waiting = last - self.next.min(last);
        if waiting == 0 {
            return None;
        }
        let allowed = if self.probe { self.edge.max(self.next + 1) } else { self.edge };
        let whole = self.aligned(waiting.min(self.mss));
        let length = whole.min(allowed.saturating_sub(self.next));
        // RFC 9293 section 3.8.6.2.1: no silly small segments because of a silly small window.
        let is_worth_it = length == whole || length >= self.largest_window.div_ceil(2).min(self.mss) || self.probe;
        let fits = self.board.flying() + length <= self.congestion.bytes() || self.board.flying() == 0 || self.force;
        (length > 0 && is_worth_it && fits).then_some(self.next + length)
    }

    /// As much of `length` as ends where a unit ends; all of it when there is no such place.
    fn aligned(&mut self, length: u64) -> u64 {
        while self.units.front().is_some_and(|end| *end <= self.next) {
            self.units.pop_front();
        }
        let within = self.units.iter().take_while(|end| **end <= self.next + length).last();
        let all = self.next + length >= self.written;
        within.filter(|_| !all).map_or(length, |end| end - self.next)
    }

    /// Whether there is something that only the peer's window keeps back, with nothing in flight.
    fn is_blocked(&self) -> bool {
        self.next > 0 && self.board.is_empty() && self.next < self.written + u64::from(self.fin)
    }

    fn paths(&self) -> Paths {
        Paths {
            least: self.round_trip.min(),
            smoothed: self.round_trip.smoothed(),
            in_recovery: self.recovery.is_some(),
        }
    }
}
