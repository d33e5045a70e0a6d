//! Retransmission, tail probe, reordering, persistence: which of them is next, and what it does.

use core::time::Duration;

use weft_base::Time;
use weft_congestion::RoundTrip;

use super::Sender;
use crate::settings::Settings;

/// Before anything was measured (RFC 6298 section 2.1, RFC 8985 section 7.2), and when a SYN was lost (section 5.7).
const INITIAL_RTO: Duration = Duration::from_secs(1);
const INITIAL_RTO_AFTER_LOSS: Duration = Duration::from_secs(3);
/// How long a peer may put off its acknowledgement of a single segment (RFC 8985 section 7.2, TLP.max_ack_delay).
const TAIL_ACK_DELAY: Duration = Duration::from_millis(200);
/// The least wait for a tail probe: a host is busy for this long now and then.
const TAIL_LEAST: Duration = Duration::from_millis(2);

/// From when each timer runs.
#[derive(Debug)]
pub(crate) struct Timers {
    least: Duration,
    most: Duration,
    unmeasured: Duration,
    backoff: u32,
    persist_backoff: u32,
    /// The retransmission timer and the one of the tail probe run from then.
    retransmit_from: Time,
    tail_from: Time,
    reorder: Option<Time>,
    persist_from: Time,
    /// The peer has done something for the connection.
    progress: Time,
}

/// Which of the sender's timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    Reorder,
    Tail,
    Retransmit,
    Persist,
}

impl Timers {
    pub(crate) fn new(settings: &Settings, now: Time) -> Self {
        Self {
            least: settings.min_rto,
            most: settings.max_rto.max(settings.min_rto),
            unmeasured: INITIAL_RTO,
            backoff: 0,
            persist_backoff: 0,
            retransmit_from: now,
            tail_from: now,
            reorder: None,
            persist_from: now,
            progress: now,
        }
    }

    /// When something was last sent, or acknowledged.
    pub(crate) const fn last_active(&self) -> Time {
        self.tail_from
    }

    pub(crate) const fn handle_lost_syn(&mut self) {
        (self.unmeasured, self.backoff) = (INITIAL_RTO_AFTER_LOSS, 0);
    }

    pub(crate) const fn handle_sent(&mut self, is_first: bool, now: Time) {
        if is_first {
            self.retransmit_from = now;
            self.progress = now;
        }
        (self.tail_from, self.persist_from) = (now, now);
    }

    /// The peer has acknowledged something new. Only when it is known which copy it had is a time-out that has been
    /// backed off one again that was computed (Karn's algorithm, RFC 6298 section 5).
    pub(crate) const fn handle_progress(&mut self, is_measured: bool, now: Time) {
        (self.retransmit_from, self.tail_from, self.progress) = (now, now, now);
        if is_measured {
            self.backoff = 0;
        }
    }

    /// The peer has announced its window. While that is zero, it is enough that it answers (RFC 9293 section 3.8.6.1).
    pub(crate) const fn handle_answer(&mut self, is_shut: bool, now: Time) {
        if is_shut {
            self.progress = now;
        } else {
            self.persist_backoff = 0;
        }
    }

    pub(crate) const fn handle_opened(&mut self) {
        self.backoff = 0;
    }

    pub(crate) const fn set_reorder(&mut self, at: Option<Time>) {
        self.reorder = at;
    }

    /// The retransmission time-out without back-off (RFC 6298 section 2).
    pub(crate) fn rto(&self, round_trip: &RoundTrip) -> Duration {
        if !round_trip.is_known() {
            return self.unmeasured.clamp(self.least, self.most);
        }
        let slack = (4 * round_trip.variation()).max(round_trip.granularity());
        (round_trip.smoothed() + slack).clamp(self.least, self.most)
    }

    fn backed_off(&self, round_trip: &RoundTrip, backoff: u32) -> Duration {
        self.rto(round_trip).saturating_mul(1 << backoff.min(16)).min(self.most)
    }
}

impl Sender {
    /// Since when the peer has done nothing for what it was sent; none while it owes nothing.
    pub(crate) fn waiting_since(&self) -> Option<Time> {
        (!self.board.is_empty() || self.is_blocked()).then_some(self.timers.progress)
    }

    /// The next timer.
    pub(crate) fn timer(&self) -> Option<(Time, Timer)> {
        let timers = &self.timers;
        if self.board.is_empty() {
            let wait = timers.backed_off(&self.round_trip, timers.persist_backoff);
            return self.is_blocked().then(|| (timers.persist_from + wait, Timer::Persist));
        }
        if let Some(at) = timers.reorder {
            return Some((at, Timer::Reorder));
        }
        let wait = timers.backed_off(&self.round_trip, timers.backoff);
        let retransmit = timers.retransmit_from + wait;
        match self.tail_at() {
            Some(at) if at < retransmit => Some((at, Timer::Tail)),
            _ => Some((retransmit, Timer::Retransmit)),
        }
    }

    /// RFC 8985 section 7.2: when a probe is due, if one may be sent.
    fn tail_at(&self) -> Option<Time> {
        let may = self.sack
            && self.una > 0
            && !self.tail.is_under_way()
            && self.recovery.is_none()
            && self.board.sacked() == 0
            // A shut window has probes of its own.
            && self.edge > self.una
            && !self.board.has_lost();
        if !may {
            return None;
        }
        if !self.round_trip.is_known() {
            return Some(self.timers.tail_from + INITIAL_RTO);
        }
        let alone = if self.board.len() == 1 { TAIL_ACK_DELAY } else { Duration::ZERO };
        Some(self.timers.tail_from + (2 * self.round_trip.smoothed()).max(TAIL_LEAST) + alone)
    }

    /// A timer that was due.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        match self.timer().filter(|(at, _)| *at <= now) {
            Some((_, Timer::Reorder)) => self.detect(false, now),
            Some((_, Timer::Tail)) => self.probe_tail(now),
            Some((_, Timer::Retransmit)) => self.retransmit(now),
            Some((_, Timer::Persist)) => {
                self.timers.persist_backoff += 1;
                self.timers.persist_from = now;
                self.probe = true;
            }
            None => (),
        }
    }

    /// RFC 8985 section 7.3: something new if there is, else the last segment again. The time-out begins anew.
    fn probe_tail(&mut self, now: Time) {
        self.timers.retransmit_from = now;
        self.force = true;
        let is_new = self.end_of_new().is_some() && self.board.has_room();
        self.tail.begin(self.next, !is_new);
        if !is_new {
            // A report that it was there twice is not to be taken for one about something else.
            self.spurious.forget();
            let last = self.board.len() - 1;
            self.board.mark_lost(|index, _| index == last);
        }
    }

    /// RFC 6298 section 5.4 to 5.6.
    fn retransmit(&mut self, now: Time) {
        self.timers.backoff += 1;
        (self.timers.retransmit_from, self.timers.reorder) = (now, None);
        self.tail.forget();
        self.spurious.forget();
        if self.board.is_reneged() {
            self.board.forget_sacks();
        }
        let flying = self.board.flying();
        if self.sack {
            let paths = self.paths();
            self.rack.mark_timed_out(&mut self.board, paths, now);
        } else {
            self.board.mark_lost(|_, _| true);
        }
        self.note_lost_trains(now);
        self.force = true;
        self.duplicates = 0;
        // A probe of a shut window that the peer did not keep says nothing about congestion.
        if self.edge > self.una {
            // RFC 5681 section 4.3: one collapse, not one for each time the same segment is lost.
            if self.timers.backoff == 1 {
                self.congestion.handle_timeout(flying, now);
            }
            (self.recovery, self.timed_out) = (Some(self.next), true);
        }
    }
}
