//! What goes past the queues on the way out: short work requests, and packets of message endpoints.

use weft_base::{Gather, NoDigest, Time};
use weft_edge::{MOST_PASSED as MOST_IN_DATAGRAM, Options, Segment};
use weft_rdmap::{Payload, SendRequest};
use weft_wire::ddp::UNTAGGED_LENGTH;

use super::outbox::{self, Outbox};
use super::state::{Edge, Phase, Running};
use crate::lower::{Io, MOST_PASSED, Passed, StreamSink};

const _: () = assert!(
    UNTAGGED_LENGTH + MOST_PASSED as usize <= MOST_IN_DATAGRAM,
    "what may pass the queues fits into every datagram"
);

/// A packet that takes this many datagrams keeps both sides busy for longer than the system call takes that it costs to
/// send it before the next one is written. (Of 64 KiB on a link of 1500 bytes a fifth is saved; on the loopback, where
/// all is one datagram, it costs as much.)
const APART_DATAGRAMS: usize = 4;

impl Edge {
    /// Sends a short request in a datagram of its own, with the acknowledgement that is due. The payload is copied;
    /// what is not acknowledged is retransmitted from the copy. A signaled request completes when it is acknowledged,
    /// and requests an immediate acknowledgement; the others are complete.
    pub(super) fn pass_short<A: StreamSink>(
        &mut self,
        above: &mut A,
        request: &SendRequest,
        io: &mut Io<'_, impl AsMut<Outbox>>,
    ) -> bool {
        let (operation, is_told) = (&request.operation, request.signaled);
        let Some(payload) = operation.short_payload(MOST_PASSED) else { return false };
        let Phase::Running(running) = &mut self.phase else { return false };
        // A request with a fence was sent, and what it is to come before is not acknowledged.
        if running.discards() || running.fences.are_up(running.connection.acknowledged()) {
            return false;
        }
        let mut stream = above.stream();
        let Some(header) = stream.header_to_pass(request) else { return false };
        let length = payload.length();
        let mut gathered: [u8; MOST_PASSED as usize];
        let bytes: &[u8] = match payload {
            Payload::Inline(bytes) => bytes,
            Payload::Gather(gather) => {
                gathered = [0; MOST_PASSED as usize];
                let place = &mut gathered[..length as usize];
                if io.registry.copy_out_gather(gather, 0, place, &mut NoDigest).is_err() {
                    return false;
                }
                place
            }
        };
        let (gather, options) = (Gather::empty(), Options::default());
        let segment = Segment { header, bytes, gather, is_steady: false, ack_now: is_told, options };
        let batch = io.scratch.as_mut().batch_of_one();
        running.connection.pass(&segment, io.now, batch);
        if is_told {
            stream.pass_owed(request, false);
        } else {
            stream.pass(operation, false);
        }
        running.has_passed(io.now);
        running.has_taken_ack_along();
        io.counters.sent_frames += 1;
        io.counters.sent_copied_bytes += u64::from(length);
        self.send_whole(io);
        true
    }

    /// Sends a short packet that was written before, if there is nothing else to send.
    pub(super) fn pass_kept<A: StreamSink>(&mut self, above: &mut A, io: &mut Io<'_, impl AsMut<Outbox>>) -> bool {
        let is_settled = self.waiting.is_empty() && !self.has_other_rails(io);
        let Phase::Running(running) = &mut self.phase else { return false };
        let is_alone = is_settled && running.connection.can_pass_kept(io.now);
        if !is_alone || above.stream().can_transmit() {
            return false;
        }
        let batch = io.scratch.as_mut().batch_of_one();
        if !running.connection.pass_kept(io.now, batch) {
            return false;
        }
        running.has_taken_ack_along();
        self.send_whole(io);
        true
    }

    /// Sends the one datagram of the outbox.
    fn send_whole(&mut self, io: &mut Io<'_, impl AsMut<Outbox>>) {
        let Some(whole) = io.scratch.as_mut().whole() else { return };
        let paths = self.rails.paths((self.port, self.from));
        let mut failure = None;
        let (taken, calls) = outbox::send_whole(paths, whole, &mut self.waiting, (io.datagrams, io.registry), |what| {
            failure = Some(what)
        });
        io.counters.sends += calls;
        io.counters.sent_wire_bytes += taken as u64;
        if failure.is_some() {
            self.take_failures(failure.as_slice(), io.now);
        }
        self.wait_for_room(io);
    }

    /// Has a packet written straight to where it is kept until it is acknowledged.
    pub(super) fn write_packet<A: StreamSink>(
        &mut self,
        above: &mut A,
        most: usize,
        io: &mut Io<'_, impl AsMut<Outbox>>,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Passed {
        if !above.passes_packets() {
            return Passed::Not;
        }
        let Phase::Running(running) = &mut self.phase else { return Passed::Not };
        let mut stream = above.stream();
        let Ok(most) = u32::try_from(most) else { return Passed::Not };
        if running.discards() || !stream.can_send_whole() {
            return Passed::Not;
        }
        // What is sent now sends all else with it, and is taken for all that there is.
        let may_go_apart = self.waiting.is_empty() && running.connection.has_one_rail() && !stream.has_answers();
        match running.connection.write_message(most, write, || stream.send_whole()) {
            None => Passed::Not,
            Some(None) => Passed::Nothing,
            Some(Some(bytes)) => {
                running.has_passed(io.now);
                io.counters.sent_frames += 1;
                io.counters.sent_messages += 1;
                io.counters.passed_packets_sent += 1;
                io.counters.sent_copied_bytes += u64::from(bytes);
                let is_long = bytes as usize >= APART_DATAGRAMS * running.connection.datagram_size();
                if is_long && may_go_apart { Passed::Apart } else { Passed::Yes }
            }
        }
    }

    /// Whether there is something to send, or to wait for, but for the segments of the stream.
    pub(super) fn is_due(&self, io: &Io<'_, impl AsMut<Outbox>>) -> bool {
        let Phase::Running(running) = &self.phase else { return true };
        !self.waiting.is_empty() || running.connection.is_due(io.now) || self.has_other_rails(io)
    }
}

impl Running {
    /// One segment for the stream, and perhaps several of the connection's, went past the source of segments.
    fn has_passed(&mut self, now: Time) {
        self.answers.answered(now);
        self.next = self.connection.next_position();
        self.ends.push_back(self.next);
    }

    /// A datagram has left that takes the acknowledgement along that was held for it.
    fn has_taken_ack_along(&mut self) {
        self.held = None;
        self.connection.hold_acks(false);
    }
}
