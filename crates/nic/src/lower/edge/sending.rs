//! What a connection sends: the segments of its stream, and whatever else is due.

use std::collections::VecDeque;

use weft_base::{Gather, Time};
use weft_edge::{Options, Segment, Source};
use weft_memory::{MemoryError, Registry};
use weft_rdmap::SegmentPayload;

use super::fences::Fences;
use super::outbox::{self, GsoBatch, Outbox, Paths, Waiting};
use super::state::{Edge, Phase, Running};
use super::wire::COPY_ALL;
use crate::lower::{Io, SendError, SendFailure, Sent, StreamGuard, StreamSink};

/// The longest segment of one datagram, with room for the headers before it.
const MOST: u32 = 60 * 1024;

/// Where nothing is on the way yet so few datagrams leave first, then twice as many: the peer takes them while more are
/// made.
const FIRST: usize = 24;

/// Nothing to send.
struct Nothing;

impl Source for Nothing {
    fn next(&mut self, _: u32) -> Option<Segment<'_>> {
        None
    }
}

/// The segments of a stream, and where each ends in the order of the connection.
struct Segments<'a> {
    stream: StreamGuard<'a>,
    ends: &'a mut VecDeque<u64>,
    /// Where the next one starts.
    next: &'a mut u64,
    frames: u64,
    registry: &'a Registry,
    /// If the peer keeps them.
    fences: Option<&'a mut Fences>,
    acknowledged: u64,
}

impl Segments<'_> {
    /// Bytes that the next segment's options may take.
    #[inline]
    fn reserve(&self) -> u32 {
        let Some(fences) = &self.fences else { return 0 };
        let has_options = fences.are_up(self.acknowledged) || self.stream.has_flags();
        if has_options { Options::MAX_LENGTH as u32 } else { 0 }
    }
}

impl Segments<'_> {
    /// The next segment, and the bytes of payload in each of its packets, as [`Source::next_run`].
    fn give(&mut self, budget: u32, most: u32, mid_message: u32) -> Option<(Segment<'_>, u32)> {
        let budget = (budget - self.reserve()).min(MOST);
        let segment = self.stream.poll_transmit_run(budget, most, mid_message)?;
        let control = segment.header[0];
        let header = weft_wire::edge::frame::ddp_header_length(control) as u32;
        let (payload, part) = (segment.length - header, budget - header);
        let takes = u64::from(payload) + u64::from(control & 0x40 != 0);
        let start = *self.next;
        *self.next += takes;
        let fences = self.fences.as_mut();
        let options = fences.map(|fences| fences.pass(segment.request, start..start + takes, self.acknowledged));
        let is_fence = segment.request.is_last && segment.request.flags.has_fence();
        self.ends.push_back(*self.next);
        self.frames += u64::from(payload.div_ceil(part).max(1));
        let is_steady = matches!(segment.payload, SegmentPayload::Gather(_));
        let (bytes, gather): (&[u8], Gather) = match segment.payload {
            SegmentPayload::None => (&[], Gather::empty()),
            // It was checked just now, and is pinned: it may have to be sent again when the peer's right has ended.
            SegmentPayload::Gather(gather) | SegmentPayload::Exposed(gather) => (&[], self.registry.as_pinned(&gather)),
            SegmentPayload::Inline(bytes) => (bytes, Gather::empty()),
        };
        let (header, ack_now, options) = (segment.header, segment.is_awaited || is_fence, options.unwrap_or_default());
        Some((Segment { header, bytes, gather, is_steady, ack_now, options }, part))
    }
}

impl Source for Segments<'_> {
    fn next(&mut self, budget: u32) -> Option<Segment<'_>> {
        self.give(budget, 1, 1).map(|(segment, _)| segment)
    }

    fn next_run(&mut self, budget: u32, most: u32, mid_message: u32) -> Option<(Segment<'_>, u32)> {
        self.give(budget, most, mid_message)
    }

    fn may_have(&self) -> bool {
        self.stream.can_transmit()
    }

    fn hold_requests(&mut self, hold: bool) -> bool {
        self.stream.hold_requests(hold);
        true
    }
}

/// Sends the datagrams of the outbox, as far as the ports take them. Returns their bytes.
fn send_batch(
    (paths, name): (Paths<'_>, u64),
    waiting: &mut Waiting,
    runs: &mut Vec<GsoBatch>,
    io: &mut Io<'_, impl AsMut<Outbox>>,
    failures: &mut Vec<SendFailure>,
) -> Result<usize, MemoryError> {
    let is_own = !io.datagrams.any_served();
    let tell = |what| failures.push(what);
    let laid = io.scratch.as_mut();
    if let Some(whole) = laid.whole().filter(|_| is_own) {
        let (taken, calls) = outbox::send_whole(paths, whole, waiting, (io.datagrams, io.registry), tell);
        io.counters.sends += calls;
        io.counters.sent_wire_bytes += taken as u64;
        return Ok(whole.0.len());
    }
    let (posted, posted_bytes) = laid.post(paths, name, io.datagrams);
    // An engine that serves a port for others takes bytes alone.
    let threshold = if is_own { io.settings.gather_threshold } else { COPY_ALL };
    laid.lay_out(posted, io.registry, threshold, runs)?;
    let wire = &laid.wire;
    let (taken, calls) = outbox::send(paths, (wire.parts(), runs), waiting, (io.datagrams, io.registry), tell);
    io.counters.sends += calls;
    io.counters.sent_wire_bytes += taken as u64;
    io.counters.sent_gathered_bytes += wire.gathered_bytes();
    io.counters.sent_copied_bytes += wire.copied_bytes();
    Ok(wire.length() + wire.gathered_bytes() as usize + posted_bytes)
}

impl Edge {
    /// Sends what is due, with segments of a stream if there is one.
    pub(super) fn flush<A: StreamSink>(
        &mut self,
        above: Option<&mut A>,
        most: usize,
        io: &mut Io<'_, impl AsMut<Outbox>>,
    ) -> Result<Sent, SendError> {
        let mut sent = Sent::default();
        if self.is_displaced {
            self.move_on(io);
        }
        self.offer_new_rails(io);
        let port = self.port;
        let mut failures = Vec::new();
        if !self.waiting.is_empty() {
            let paths = self.rails.paths((self.port, self.from));
            sent.progress = self.waiting.flush(paths, io.datagrams, |what| failures.push(what));
        }
        let paths = self.rails.paths((self.port, self.from));
        let mut above = above;
        let mut bytes = 0;
        let is_quiet = matches!(&self.phase, Phase::Running(on) if on.next == on.connection.acknowledged());
        let mut few = is_quiet.then_some(FIRST);
        // One path that is full does not hold up the others.
        while self.waiting.blocked().count_ones() < paths.count() as u32 && bytes < most {
            let Phase::Running(running) = &mut self.phase else { break };
            running.connection.set_blocked(self.waiting.blocked());
            let batch = io.scratch.as_mut().batch(&io.datagrams.limits(port), running.connection.datagram_size());
            if let Some(few) = &mut few {
                batch.limit(*few);
                *few = few.saturating_mul(2);
            }
            let more = match above.as_deref_mut() {
                Some(above) => {
                    let Running { connection, ends, next, fences, answers, .. } = &mut **running;
                    let fences = connection.keeps_options().then_some(fences);
                    let (stream, registry, acknowledged) = (above.stream(), io.registry, connection.acknowledged());
                    let mut source = Segments { stream, ends, next, frames: 0, registry, fences, acknowledged };
                    let more = connection.transmit(&mut source, io.now, batch);
                    io.counters.sent_frames += source.frames;
                    if source.frames > 0 {
                        answers.answered(io.now);
                    }
                    more
                }
                None => running.connection.transmit(&mut Nothing, io.now, batch),
            };
            if batch.datagrams.is_empty() {
                break;
            }
            sent.progress = true;
            let name = running.connection.id().0;
            let Ok(count) = send_batch((paths, name), &mut self.waiting, &mut self.runs, io, &mut failures) else {
                // A part of the message may be on its way, and its place in the order must be filled.
                running.connection.abort(b"memory that was to be sent is gone");
                return Err(SendError::Memory);
            };
            bytes += count;
            if !more {
                break;
            }
        }
        sent.cut_short = bytes >= most;
        self.take_failures(&failures, io.now);
        self.wait_for_room(io);
        Ok(sent)
    }

    /// What the ports did not take is sent when they have room.
    pub(super) fn wait_for_room(&mut self, io: &mut Io<'_, impl AsMut<Outbox>>) {
        if self.waiting.is_empty() {
            return;
        }
        self.blocked_at = io.now;
        let blocked = self.waiting.blocked();
        let Phase::Running(running) = &self.phase else { return };
        let own = running.connection.id().0;
        let paths = self.rails.paths((self.port, self.from));
        let waits = (0..paths.count() as u8).filter(|local| blocked & 1 << local != 0);
        waits.filter_map(|local| paths.get(local)).for_each(|(port, _)| io.datagrams.wait_for_room(port, own));
    }

    pub(super) fn take_failures(&mut self, failures: &[SendFailure], now: Time) {
        let mut is_displaced = false;
        let Some(running) = self.running() else { return };
        for what in failures {
            match what {
                SendFailure::TooLarge(rail, size, limit) => {
                    let passes = limit.map_or(*size as usize - 1, |limit| limit as usize);
                    running.connection.hint_link_carries(*rail, passes, now);
                }
                SendFailure::Unreachable(rail) => running.connection.hint_down(*rail, now),
                SendFailure::SourceGone(rail, local) => {
                    is_displaced |= *local == 0;
                    running.connection.hint_down(*rail, now);
                }
            }
        }
        self.is_displaced |= is_displaced;
    }

    /// Reports to the stream the segments that are acknowledged and whose memory no port uses any more.
    pub(super) fn report_sent<A: StreamSink>(&mut self, above: &mut A, io: &mut Io<'_, impl AsMut<Outbox>>) -> bool {
        let paths = self.rails.paths((self.port, self.from));
        let Phase::Running(running) = &mut self.phase else { return false };
        let (acknowledged, name) = (running.connection.acknowledged(), running.connection.id().0);
        if running.ends.front().is_none_or(|end| *end > acknowledged) && !running.release.is_held() {
            return false;
        }
        let released = running.release.ask(acknowledged, paths, name, io.datagrams, io.now);
        let mut gone = 0;
        while running.ends.front().is_some_and(|end| *end <= released) {
            running.ends.pop_front();
            gone += 1;
        }
        if gone > 0 {
            above.stream().handle_sent(gone);
        }
        gone > 0
    }

    /// What waits at other engines' ports is not sent any more.
    pub(super) fn take_back(&mut self, io: &mut Io<'_, impl AsMut<Outbox>>) {
        if !io.datagrams.any_served() {
            return;
        }
        let paths = self.rails.paths((self.port, self.from));
        if let Phase::Running(running) = &mut self.phase {
            running.release.forget();
            let name = running.connection.id().0;
            paths.all().for_each(|(port, _)| io.datagrams.take_back(port, name));
        }
    }
}
