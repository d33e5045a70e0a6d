//! What leaves.

use core::ops::Range;

use weft_base::Time;

use super::Connection;
use crate::segment::{Flags, Options, Segment, SegmentError, Timestamps};
use crate::sender::Plan;
use crate::state::State;

/// A segment that leaves now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its header.
    pub segment: Segment,
    /// Its payload, to be taken from the connection before the next call that is not a question:
    /// [`Connection::copy_payload`].
    pub payload: Range<u64>,
}

impl Outgoing {
    /// Bytes of payload.
    #[must_use]
    pub const fn payload_length(&self) -> usize {
        (self.payload.end - self.payload.start) as usize
    }
}

impl Connection {
    /// The next segment that leaves now, if there is one. To be polled until there is none, after each
    /// [`Connection::handle`], [`Connection::handle_timeout`], write, read and close.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Outgoing> {
        let outgoing = self.next_outgoing(now)?;
        self.counters.sent += 1;
        Some(outgoing)
    }

    fn next_outgoing(&mut self, now: Time) -> Option<Outgoing> {
        if let Some(segment) = self.reset.take() {
            return Some(Outgoing { segment, payload: 0..0 });
        }
        if matches!(self.state, State::Closed | State::TimeWait) && !self.receiver.owes(now) {
            return None;
        }
        if self.state == State::Closed {
            return None;
        }
        // What the peer must know of gaps goes by itself where data has no room for it.
        if self.owes_blocks(now) {
            return Some(self.bare(now, self.sender.next()));
        }
        if let Some(plan) = self.sender.next_segment(self.state.is_synchronised(), now) {
            return Some(self.planned(plan, now));
        }
        if self.state == State::SynSent {
            return None;
        }
        if core::mem::take(&mut self.probe_due) {
            return Some(self.bare(now, self.sender.next() - 1));
        }
        self.receiver.owes(now).then(|| self.bare(now, self.sender.next()))
    }

    fn owes_blocks(&self, now: Time) -> bool {
        self.state.is_synchronised() && self.receiver.owes(now) && self.receiver.has_blocks()
    }

    /// Writes a segment, header and payload, at the start of `out`; how many bytes that is.
    ///
    /// # Errors
    /// The addresses of the connection are of different versions of IP.
    ///
    /// # Panics
    /// When `out` has no room for [`MAX_HEADER`](crate::MAX_HEADER) and the payload.
    pub fn emit(&self, outgoing: &Outgoing, out: &mut [u8]) -> Result<usize, SegmentError> {
        let header = outgoing.segment.header_length();
        let length = outgoing.payload_length();
        let (head, body) = out.split_at_mut(header);
        self.copy_payload(&outgoing.payload, &mut body[..length]);
        outgoing.segment.emit_header(&self.flow, &body[..length], head)?;
        Ok(header + length)
    }

    fn planned(&mut self, plan: Plan, now: Time) -> Outgoing {
        let answers = self.state != State::SynSent;
        let flags = Flags { syn: plan.syn, ack: answers, fin: plan.fin, psh: plan.push, rst: false };
        let mut segment = self.segment(flags, plan.range.start, now);
        if plan.syn {
            let timestamps = segment.options.timestamps;
            segment.options = Options { timestamps, ..self.syn_options(answers) };
        }
        Outgoing { segment, payload: plan.payload }
    }

    /// An acknowledgement and nothing else.
    fn bare(&mut self, now: Time, position: u64) -> Outgoing {
        let mut segment = self.segment(Flags { ack: true, ..Flags::default() }, position, now);
        if self.settings.sack && self.sender.uses_sack() {
            segment.options.sack = self.receiver.sack_blocks(segment.options.sack_room());
        }
        Outgoing { segment, payload: 0..0 }
    }

    fn segment(&mut self, flags: Flags, position: u64, now: Time) -> Segment {
        let timestamps = self.stamps.then(|| Timestamps { value: self.stamp(now), echo: self.receiver.echo() });
        let segment = Segment {
            source: self.flow.local.port(),
            destination: self.flow.remote.port(),
            sequence: self.sender.number(position),
            acknowledgement: if flags.ack { self.receiver.next_number() } else { 0 },
            flags,
            window: self.receiver.window(flags.syn),
            options: Options { timestamps, ..Options::default() },
        };
        if flags.ack {
            self.receiver.handle_acknowledged();
        }
        segment
    }

    pub(super) fn reset_segment(&self) -> Segment {
        Segment {
            source: self.flow.local.port(),
            destination: self.flow.remote.port(),
            sequence: self.sender.number(self.sender.next()),
            acknowledgement: self.receiver.next_number(),
            flags: Flags { rst: true, ack: true, ..Flags::default() },
            ..Segment::default()
        }
    }
}
