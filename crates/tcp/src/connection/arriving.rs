//! What a segment brings, in the order of RFC 9293 section 3.10.7.4, with the checks of RFC 5961 and RFC 7323.

use weft_base::Time;

use super::{Connection, ConnectionError};
use crate::receiver::{Incoming, Sink};
use crate::segment::Segment;
use crate::sender::Ack;
use crate::state::{Event, State};

impl Connection {
    /// Takes a segment of this connection. What it answers is ready to leave afterwards
    /// ([`Connection::poll_transmit`]). `sink` is shown data with [`ReceivePolicy::Place`](crate::ReceivePolicy), and
    /// is not used otherwise.
    pub fn handle(&mut self, segment: &Segment, payload: &[u8], sink: &mut impl Sink, now: Time) {
        self.counters.received += 1;
        match self.state {
            State::Closed => (),
            State::SynSent => self.handle_opening(segment, payload, sink, now),
            _ => self.handle_opened(segment, payload, sink, now),
        }
    }

    fn handle_opened(&mut self, segment: &Segment, payload: &[u8], sink: &mut impl Sink, now: Time) {
        let Some(start) = self.judge_place(segment, payload, now) else { return };
        if segment.flags.rst {
            self.handle_reset(start, now);
            return;
        }
        if segment.flags.syn {
            // RFC 5961 section 4.2: whatever its number. A peer that has restarted answers with a reset.
            self.challenge(now);
            return;
        }
        if !segment.flags.ack {
            return;
        }
        if !self.handle_acknowledgement(segment, start, payload.is_empty(), now) {
            // RFC 5961 section 5.2: such a segment is dropped whole. An attacker that does not see the connection could
            // otherwise set the clock forward, and all that the peer sends would be too old (RFC 7323 section 5.3).
            return;
        }
        if let Some(stamps) = segment.options.timestamps.filter(|_| self.stamps) {
            self.receiver.note_stamp(stamps, start, now);
        }
        (self.heard, self.probes) = (now, 0);
        self.take_data(start, segment, payload, sink, now);
    }

    /// The position of a segment, if it is acceptable; the sender of another gets an acknowledgement that says what is
    /// expected.
    fn judge_place(&mut self, segment: &Segment, payload: &[u8], now: Time) -> Option<u64> {
        let length = segment.sequence_length(payload.len());
        let start = self.receiver.position(segment.sequence);
        if !self.judge_stamps(segment, now) {
            return None;
        }
        self.handle_late_fin(segment, start, payload, now);
        if let Some(start) = start.filter(|start| self.receiver.accepts(*start, length)) {
            return Some(start);
        }
        self.counters.unacceptable += 1;
        if segment.flags.rst {
            return None;
        }
        if start == Some(0) && segment.flags.syn && self.state == State::SynReceived {
            self.handle_crossed(segment, now);
            return None;
        }
        self.answer_unacceptable(start, payload, now);
        // A window that is shut takes nothing, but what the peer acknowledges counts.
        if start == Some(self.receiver.next()) && segment.flags.ack && !segment.flags.syn {
            self.handle_acknowledgement(segment, self.receiver.next(), false, now);
        }
        None
    }

    /// Both have called, and the peer has answered (RFC 9293 figure 7), or it repeats itself.
    fn handle_crossed(&mut self, segment: &Segment, now: Time) {
        if segment.flags.ack && self.sender.ack_position(segment.acknowledgement) == Some(1) {
            self.handle_acknowledgement(segment, 0, false, now);
            // The window of a SYN is never shifted (RFC 7323 section 2.2).
            self.sender.handle_window(0, segment.window);
            self.receiver.owe_now();
        } else {
            self.sender.repeat_syn();
        }
    }

    /// A peer that retransmits bytes which were received gets an acknowledgement with a D-SACK block each time (RFC
    /// 2883 section 4). The rate of answers to other unacceptable segments is limited.
    fn answer_unacceptable(&mut self, start: Option<u64>, payload: &[u8], now: Time) {
        let end = start.map(|start| start + payload.len() as u64);
        match start.zip(end) {
            Some((start, end)) if start < end && end <= self.receiver.next() => {
                self.receiver.note_duplicate(start, end);
                self.receiver.owe_now();
            }
            _ => self.challenge(now),
        }
    }

    /// RFC 7323 section 5.3 (PAWS), and section 3.2: a peer that agreed on timestamps sends them.
    fn judge_stamps(&mut self, segment: &Segment, now: Time) -> bool {
        if !self.stamps || segment.flags.rst {
            return true;
        }
        let is_old = match segment.options.timestamps {
            Some(stamps) => self.receiver.is_old(stamps, now),
            None => return self.state == State::SynReceived && segment.flags.syn,
        };
        if is_old {
            self.counters.unacceptable += 1;
            self.challenge(now);
        }
        !is_old
    }

    /// RFC 9293 section 3.10.7.4: of all that comes in TIME-WAIT only the peer's FIN, again, begins the time anew: the
    /// last acknowledgement was lost. Both numbers identify this FIN.
    fn handle_late_fin(&mut self, segment: &Segment, start: Option<u64>, payload: &[u8], now: Time) {
        let end = start.map(|start| start + payload.len() as u64 + 1);
        let is_it = segment.flags.fin && !segment.flags.syn && !segment.flags.rst && end == Some(self.receiver.next());
        let acknowledges_all = segment.flags.ack && segment.acknowledgement == self.sender.number(self.sender.next());
        if self.state == State::TimeWait && is_it && acknowledges_all {
            self.waits_until = Some(now + self.settings.time_wait);
        }
    }

    /// RFC 5961 section 3.2: only a reset exactly at the next expected byte is one.
    fn handle_reset(&mut self, start: u64, now: Time) {
        if start == self.receiver.next() {
            // RFC 1337: nothing ends a connection early that only waits for its end.
            if self.state != State::TimeWait {
                self.end(self.reset_error());
            }
        } else if self.receiver.is_in_window(start) {
            self.challenge(now);
        }
    }

    /// What a reset means now. A peer that has closed and forgotten the connection answers the last FIN with one.
    fn reset_error(&self) -> Option<ConnectionError> {
        let is_over = matches!(self.state, State::Closing | State::LastAck) && self.unacknowledged() == 0;
        match self.state {
            _ if is_over => None,
            State::SynReceived => Some(ConnectionError::Refused),
            _ => Some(ConnectionError::Reset),
        }
    }

    /// False when it is not to be believed, and neither is the rest of the segment.
    fn handle_acknowledgement(&mut self, segment: &Segment, start: u64, is_empty: bool, now: Time) -> bool {
        let Some(position) = self.sender.ack_position(segment.acknowledgement) else {
            self.counters.unacceptable += 1;
            if self.state == State::SynReceived {
                self.reset = segment.refusal(0);
            } else {
                self.challenge(now);
            }
            return false;
        };
        if self.state == State::SynReceived {
            if position == 0 {
                return false;
            }
            self.synchronised();
        }
        let ack = Ack {
            start,
            position,
            window: segment.window,
            sack: segment.options.sack.clone(),
            echo: segment.options.timestamps.filter(|_| self.stamps).map(|stamps| self.echoed(stamps, now)),
            is_pure: is_empty && !segment.flags.fin,
        };
        self.sender.handle_ack(&ack, now);
        if self.sender.is_finished() {
            self.go(Event::FinAcknowledged);
            self.note_end(now);
        }
        true
    }

    pub(super) fn take_data(&mut self, start: u64, segment: &Segment, payload: &[u8], sink: &mut impl Sink, now: Time) {
        if payload.is_empty() && !segment.flags.fin {
            return;
        }
        if matches!(self.state, State::Established | State::FinWait1 | State::FinWait2) {
            self.receiver.take(&Incoming { start, payload, fin: segment.flags.fin }, sink, now);
            if self.receiver.is_finished() {
                self.go(Event::FinReceived);
                self.note_end(now);
            }
        } else {
            // Nothing comes behind a FIN that was taken.
            self.receiver.owe_now();
        }
    }

    fn note_end(&mut self, now: Time) {
        if self.state == State::TimeWait && self.waits_until.is_none() {
            self.waits_until = Some(now + self.settings.time_wait);
        }
    }

    /// Tells the peer what is expected, as often as that is allowed.
    fn challenge(&mut self, now: Time) {
        self.counters.challenges += 1;
        if self.challenges.take(now) {
            self.receiver.owe_now();
        }
    }
}
