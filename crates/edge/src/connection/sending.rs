//! Building of packets, most urgent frames first.

use arrayvec::ArrayVec;
use weft_base::Time;
use weft_congestion::Stamp;
use weft_wire::edge::BASE_DATAGRAM;
use weft_wire::edge::ack::{Ack, MAX_MORE_RANGES, RANGE_LENGTH};
use weft_wire::edge::frame::{
    COUNTED_SEGMENT_OVERHEAD, Close, Frame, MAX_REASON, SEGMENT_OVERHEAD, SegmentOptions, ddp_header_length,
};
use weft_wire::edge::packet::{Builder, HEADER_LENGTH, Header};
use weft_wire::edge::setup::RESET_LENGTH;

use super::striping::{Turn, has};
use super::{Confirmation, Connection, control};
use crate::batch::{Batch, Datagram, Piece};
use crate::outgoing::{MOST_IN_PACKET, Segment, Sendable, Source};
use crate::phase::Phase;
use crate::rail::{PathAddress, Rail};
use crate::received::Packed;
use crate::sent::{Contents, Leaving};

/// With less room than this no further segment is put into a packet, so that bulk is not cut into small segments.
const LEAST_ROOM: usize = 256;
/// The minimum length of a ping: a peer without the connection answers with a reset only if that is shorter.
const LEAST_PING: usize = RESET_LENGTH + 1;
/// The maximum length of an acknowledgement.
pub(super) const MOST_ACK: usize = weft_wire::edge::ack::ACK_LENGTH + MAX_MORE_RANGES * RANGE_LENGTH;

/// The maximum length of a close.
const MOST_CLOSE: usize = 1 + 1 + 8 + 2 + MAX_REASON;

/// Refusals in one packet.
const MOST_REFUSALS: usize = 24;
/// The length of a packet with a challenge or a response alone.
const CHALLENGE_LENGTH: usize = HEADER_LENGTH + 1 + 8;
/// The length of a confirmation.
const CONFIRM_LENGTH: usize = 1 + weft_wire::edge::PROOF_LENGTH;

/// A packet being built.
pub(super) struct Draft<'a> {
    /// The rail that sends it, and its destination.
    rail: usize,
    place: PathAddress,
    builder: Builder<'a>,
    pieces: &'a mut Vec<Piece>,
    /// Where the packet begins in the batch's bytes, and where the bytes begin that are in no piece yet.
    start: usize,
    run: usize,
    /// Bytes to be gathered.
    gathered: usize,
    contents: Contents,
    eliciting: bool,
    /// Whether it requests an immediate acknowledgement.
    asks: bool,
    is_empty: bool,
    to_end: bool,
}

impl<'a> Draft<'a> {
    pub(super) fn new(bytes: &'a mut Vec<u8>, pieces: &'a mut Vec<Piece>, header: &Header, place: PathAddress) -> Self {
        let start = bytes.len();
        let builder = Builder::new(bytes, header);
        Self {
            rail: usize::from(header.rail),
            place,
            builder,
            pieces,
            start,
            run: start,
            gathered: 0,
            contents: Contents::default(),
            eliciting: false,
            asks: false,
            is_empty: true,
            to_end: false,
        }
    }

    fn frame(&mut self, frame: &Frame<'_>) {
        self.builder.frame(frame);
        self.eliciting |= frame.wants_ack();
        self.is_empty = false;
    }

    fn control(&mut self, bit: u8, frame: &Frame<'_>) {
        self.frame(frame);
        self.contents.controls |= bit;
    }

    fn asks(&mut self) {
        self.builder.ack_now();
        self.asks = true;
    }

    /// It holds this segment, which it was the first to hold or the next one.
    fn has_segment(&mut self, serial: u64, ack_now: bool) {
        if ack_now {
            self.asks();
        }
        (self.eliciting, self.is_empty) = (true, false);
        if self.contents.count == 0 {
            self.contents.first = serial;
        }
        self.contents.count += 1;
    }

    pub(super) fn length(&self) -> usize {
        self.builder.at() - self.start + self.gathered
    }

    /// Puts the bytes that are in no piece yet into one.
    fn end_run(&mut self) {
        let at = self.builder.at();
        if at > self.run {
            self.pieces.push(Piece::Bytes { start: self.run as u32, length: (at - self.run) as u32 });
            self.run = at;
        }
    }
}

/// Larger datagrams are probed once this many bytes were sent: many connections never send more than a few messages.
const PROBE_FROM: u64 = 16 << 10;

impl Connection {
    /// Writes datagrams that may be sent now to the end of `out`, with segments of `source` as far as rails have room.
    /// Returns true when there are more for the next batch; otherwise the rest waits for an acknowledgement, or for
    /// [`Connection::next_timeout`].
    ///
    /// Pieces must be gathered before the source, or this connection, learns of further acknowledgements.
    pub fn transmit(&mut self, source: &mut impl Source, now: Time, out: &mut Batch) -> bool {
        if self.phase == Phase::Over {
            return false;
        }
        source.hold_requests(self.outgoing.is_refused());
        for index in 0..self.rails.len() {
            self.challenge(index, now, out);
            self.respond(index, now, out);
        }
        let mut burst = None;
        while !out.is_full(self.datagram_size()) {
            let turn = self.turn(&mut burst, now);
            if self.send_run(&turn, burst.as_ref(), source, now, out) {
                continue;
            }
            let goes_on = self.datagram(&turn, source, now, out) || turn.segments && self.overtake(turn.rail, now);
            if !goes_on {
                if turn.segments {
                    self.on_nothing_to_send();
                } else {
                    self.on_paced(source);
                }
                (0..self.rails.len()).for_each(|index| self.probe_path(index, now, out));
                return false;
            }
        }
        true
    }

    pub(super) fn header(&self, index: usize) -> Header {
        let rail = &self.rails[index];
        let number = rail.sent.next_number();
        Header { ack_now: false, key_phase: false, rail: rail.id, destination: self.remote, number }
    }

    /// Writes one datagram. Returns false when there is nothing to send.
    fn datagram(&mut self, turn: &Turn, source: &mut impl Source, now: Time, out: &mut Batch) -> bool {
        // Nothing is sent to a caller before it has confirmed: its address may be false.
        if !self.is_confirmed() {
            return false;
        }
        let index = turn.rail;
        let is_alone = self.rails.len() == 1;
        self.see_order();
        if is_alone && !self.is_word_due(0, now) && !(turn.segments && self.may_have_segments(source)) {
            return false;
        }
        let Some(place) = self.rails[index].place else { return false };
        self.make_room(index);
        let size = self.rails[index].mtu.current();
        let header = self.header(index);
        let Batch { bytes, pieces, .. } = out;
        let mut draft = Draft::new(bytes, pieces, &header, place);
        if self.phase == Phase::Aborting {
            self.acknowledge_last(&mut draft, size, now);
        }
        // A rail that may be dead gets only probes.
        if has(turn.trusted, index) {
            // Refusals first: otherwise the peer would declare the unacknowledged packets lost.
            self.controls(&mut draft);
        }
        for rail in (0..self.rails.len()).filter(|rail| turn.acknowledges(*rail)) {
            if self.is_ack_due(rail, now) && self.refusals.is_empty() && draft.length() + MOST_ACK <= size {
                self.acknowledge(rail, &mut draft, now);
            }
        }
        if !is_alone && self.rails[index].probes > 0 && !self.rails.iter().any(Rail::answers) {
            self.acknowledge_others(index, &mut draft, size, now);
        }
        if turn.segments {
            self.segments(source, &mut draft, size);
            self.close_if_done(&mut draft);
        }
        if self.rails[index].probes > 0 && !draft.eliciting {
            draft.control(control::PING, &Frame::Ping);
        }
        // A packet that is sent anyway carries the acknowledgement, if there is room.
        let pending = self.takes_ack_along(index, now) && self.refusals.is_empty();
        let pending = pending && turn.acknowledges(index);
        if pending && !draft.is_empty && !draft.to_end && draft.length() + MOST_ACK <= size {
            self.acknowledge(index, &mut draft, now);
        }
        if draft.is_empty {
            out.bytes.truncate(out.bytes.len() - HEADER_LENGTH);
            return false;
        }
        self.finish(draft, now, &mut out.datagrams)
    }

    /// Where the last packet may be overtaken, the peer would put a fenced segment off, as after a loss: it is sent
    /// later.
    pub(super) fn see_order(&mut self) {
        self.outgoing.holds_fenced = self.rails.len() > 1 || !self.rails[0].sent.keeps_order();
    }

    /// Whether there may be segments to send, or the close that follows them.
    fn may_have_segments(&self, source: &impl Source) -> bool {
        self.outgoing.is_waiting() || self.is_close_due() || source.may_have()
    }

    /// Nothing more may be sent now. Where the pacer delays segments, the sender is not app-limited: the window counts
    /// as used (RFC 9002 section 7.8) if [`Rail::is_well_used`].
    fn on_paced(&mut self, source: &impl Source) {
        let is_paced = |rail: &Rail| rail.paced_until.is_some() && rail.is_well_used();
        if !self.rails.iter().any(is_paced) || !self.has_segments(source) {
            return;
        }
        self.rails.iter_mut().filter(|rail| is_paced(rail)).for_each(|rail| rail.was_full = true);
    }

    /// Whether a segment may be sent now, or there is room to take one from the source, which may have one.
    fn has_segments(&mut self, source: &impl Source) -> bool {
        let budget = self.datagram_size() as u32;
        self.outgoing.next_waiting(0).is_some() || source.may_have() && self.outgoing.has_room(budget)
    }

    /// Whether anything but a segment is to be sent on a rail.
    pub(super) fn is_word_due(&self, index: usize, now: Time) -> bool {
        let says = self.pending != 0 || self.owes_close_ack || !self.refusals.is_empty();
        says || self.rails[index].probes > 0 || self.is_ack_due(index, now)
    }

    /// Whether everything is acknowledged and nothing more follows, so that the close is to be sent.
    pub(super) fn is_close_due(&self) -> bool {
        self.closing.wanted && !self.closing.is_sent && self.outgoing.is_empty()
    }

    /// When all packet slots are used, declares the oldest packet lost: there must always be room for control frames.
    fn make_room(&mut self, index: usize) {
        if let Some(packet) = self.rails[index].sent.make_room() {
            if packet.contents.is_probe {
                self.rails[index].mtu.forget_probe();
            }
            self.send_again(&packet);
        }
    }

    pub(super) fn may_send_segments(&mut self, index: usize, now: Time) -> bool {
        let is_blocked = self.is_blocked(index);
        let rail = &mut self.rails[index];
        rail.paced_until = None;
        if self.phase != Phase::Open || is_blocked || !rail.sent.has_room(true) {
            rail.pacer.on_other_limit();
            return false;
        }
        if !rail.window_is_open() {
            rail.was_full = true;
            rail.pacer.on_other_limit();
            return false;
        }
        if rail.probes == 0 {
            rail.see_quiet(now);
            rail.paced_until = rail.pacer.stops_until(rail.burst(self.settings.batch_time), now);
        }
        rail.paced_until.is_none()
    }

    /// Whether a pending acknowledgement is to be sent with a packet that leaves now. Where another packet follows
    /// before the acknowledgement is due, it waits for that one: then it covers several packets, and each side sends
    /// and parses fewer. In bulk the peer waits for each.
    pub(super) fn takes_ack_along(&self, index: usize, now: Time) -> bool {
        let rail = &self.rails[index];
        let next = now + 2 * now.since(rail.sent.last_sent());
        // Before the first round trip is measured nothing is delayed: the peer may not have measured one either.
        let waits = rail.trip.is_known() && !rail.received.is_bulk();
        rail.received.is_pending() && !(waits && rail.received.due().is_some_and(|due| due > next))
    }

    /// Acknowledges the packets of a rail, not necessarily the one that the packet is sent on.
    pub(super) fn acknowledge(&mut self, index: usize, draft: &mut Draft<'_>, now: Time) {
        let (credit, overflows) = (self.credit_of(index), self.overflows_of(index));
        let rail = &mut self.rails[index];
        let mut packed = Packed::new();
        if let Some(ack) = rail.received.acknowledge(rail.id, credit, now, &mut packed) {
            draft.frame(&Frame::Ack(Ack { overflows, ..ack }));
        }
    }

    /// No rail answers, so packets may pass to the peer over another rail than from it: a probe repeats the
    /// acknowledgements of the other rails. Those that are due leave as if it had not.
    fn acknowledge_others(&mut self, index: usize, draft: &mut Draft<'_>, size: usize, now: Time) {
        for other in (0..self.rails.len()).filter(|other| *other != index) {
            if draft.length() + MOST_ACK > size {
                return;
            }
            let before = self.rails[other].received.clone();
            self.acknowledge(other, draft, now);
            self.rails[other].received = before;
        }
    }

    /// Nothing counts behind an abort, which may be the last packet of this side: before it all that was received is
    /// acknowledged, due or not. To the peer it was not sent otherwise.
    fn acknowledge_last(&mut self, draft: &mut Draft<'_>, size: usize, now: Time) {
        for rail in 0..self.rails.len() {
            let is_pending = self.rails[rail].received.is_pending();
            if is_pending && draft.length() + MOST_ACK + MOST_CLOSE + CONFIRM_LENGTH <= size {
                self.acknowledge(rail, draft, now);
            }
        }
    }

    fn controls(&mut self, draft: &mut Draft<'_>) {
        let mut pending = core::mem::take(&mut self.pending);
        if self.phase == Phase::Aborting {
            // The rest of the packet has the last acknowledgements.
            pending &= control::CLOSE | control::CONFIRM;
            self.refusals.clear();
        }
        // The rest is sent with the next packet.
        let fit = self.refusals.len().min(MOST_REFUSALS);
        for refused in self.refusals.drain(..fit) {
            draft.frame(&Frame::NotReady(refused));
        }
        if core::mem::take(&mut self.owes_close_ack) {
            draft.frame(&Frame::CloseAck);
        }
        if pending & control::GO_ON != 0 {
            draft.control(control::GO_ON, &Frame::GoOn { round: self.round });
        }
        if pending & control::CLOSE != 0 {
            self.put_close(draft);
        }
        if pending & control::PING != 0 {
            draft.control(control::PING, &Frame::Ping);
        }
        if pending & control::ADDRESSES != 0 {
            draft.control(control::ADDRESSES, &Frame::Addresses(self.own_addresses(&mut ArrayVec::new())));
        }
        // Each packet carries it until one is acknowledged, since a packet without it would be dropped. Alone it is
        // sent when it is due.
        if pending & control::CONFIRM != 0 || !draft.is_empty {
            self.put_confirm(draft);
        }
    }

    fn put_confirm(&self, draft: &mut Draft<'_>) {
        if let Confirmation::Say(proof) = self.confirmation
            && draft.contents.controls & control::CONFIRM == 0
        {
            draft.control(control::CONFIRM, &Frame::Confirm(proof));
        }
    }

    fn put_close(&self, draft: &mut Draft<'_>) {
        let abortive = self.phase == Phase::Aborting;
        let close = Close { abortive, end: self.outgoing.end(), reason: &self.closing.reason };
        draft.control(control::CLOSE, &Frame::Close(close));
    }

    /// Puts segments into the packet: retransmissions first, then new ones.
    fn segments(&mut self, source: &mut impl Source, draft: &mut Draft<'_>, size: usize) {
        while usize::from(draft.contents.count) < MOST_IN_PACKET && !draft.to_end {
            let count = draft.contents.count;
            let reserve = self.confirm_length(draft);
            let room = size.saturating_sub(draft.length() + reserve);
            if count > 0 && room < LEAST_ROOM {
                return;
            }
            let next = draft.contents.first + u64::from(count);
            let may_take = count == 0 || next == self.outgoing.end_serial();
            let Some((serial, part)) = self.next_segment(source, room, may_take) else { return };
            let follows = count == 0 || (serial == next && part.is_none());
            if !follows || !self.put_segment(serial, part, draft, room) {
                return;
            }
            // The record of a packet can name the part of one segment only.
            if draft.contents.part.is_some() {
                return;
            }
        }
    }

    /// Bytes of a confirmation that is still to be added to the packet.
    fn confirm_length(&self, draft: &Draft<'_>) -> usize {
        let missing =
            matches!(self.confirmation, Confirmation::Say(_)) && draft.contents.controls & control::CONFIRM == 0;
        if missing { CONFIRM_LENGTH } else { 0 }
    }

    /// The next segment that may be sent, taken from the source if none is queued.
    fn next_segment(&mut self, source: &mut impl Source, room: usize, may_take: bool) -> Option<(u64, Option<u8>)> {
        loop {
            if let Some(found) = self.outgoing.next_waiting(0) {
                return Some(found);
            }
            let budget = u32::try_from(room.checked_sub(SEGMENT_OVERHEAD)?).ok()?;
            if !may_take || budget < LEAST_ROOM as u32 / 2 || !self.outgoing.has_room_for_answer(budget) {
                return None;
            }
            self.take_segment(source, budget)?;
        }
    }

    /// Takes a segment from the source: only an answer when the places for requests are full.
    fn take_segment(&mut self, source: &mut impl Source, budget: u32) -> Option<()> {
        let is_full = !self.outgoing.has_places();
        if is_full && !source.hold_requests(true) {
            return None;
        }
        let taken = source.next(budget).map(|segment| self.outgoing.push(&segment));
        if is_full {
            source.hold_requests(self.outgoing.is_refused());
        }
        taken
    }

    /// Writes one segment, or a part of it. Returns false when it does not fit.
    pub(super) fn put_segment(&mut self, serial: u64, part: Option<u8>, draft: &mut Draft<'_>, room: usize) -> bool {
        let mut part = part;
        if SEGMENT_OVERHEAD + self.outgoing.length(serial, part) > room {
            // It was made for a larger datagram. With acknowledgements before it there may be just too little room now.
            let confirms = if draft.contents.controls & control::CONFIRM == 0 { 0 } else { CONFIRM_LENGTH };
            if draft.length() > HEADER_LENGTH + confirms {
                return false;
            }
            part = self.outgoing.cut(serial);
        }
        self.put_confirm(draft);
        let stored = self.outgoing.get(serial);
        let ack_now = stored.ack_now;
        let sendable = self.outgoing.sendable(serial, part);
        let ulpdu = sendable.ddp.len() + sendable.inline.len() + sendable.gather.length() as usize;
        let length = ulpdu + sendable.options.length();
        if SEGMENT_OVERHEAD + length > room {
            return false;
        }
        draft.to_end = COUNTED_SEGMENT_OVERHEAD + length > room;
        let counted = (!draft.to_end).then_some(ulpdu as u16);
        draft.builder.segment(sendable.position, counted, &sendable.options, &sendable.ddp);
        draft.payload(&sendable);
        draft.has_segment(serial, ack_now);
        draft.contents.part = part.map(|part| self.outgoing.span(serial, part));
        self.counters.segments_sent += 1;
        self.counters.segments_repeated += u64::from(self.outgoing.on_sent(serial, part));
        true
    }

    /// Queues a short segment without options, and writes it to the end of a packet: as [`Connection::put_segment`]
    /// would, from where the caller has it.
    pub(super) fn put_new(&mut self, segment: &Segment<'_>, draft: &mut Draft<'_>, room: usize) {
        let (serial, position) = (self.outgoing.end_serial(), self.outgoing.end());
        let (ddp, behind) = segment.header.split_at(ddp_header_length(segment.header[0]));
        let ulpdu = segment.header.len() + segment.bytes.len();
        debug_assert!(SEGMENT_OVERHEAD + ulpdu <= room, "a short segment fits");
        draft.to_end = COUNTED_SEGMENT_OVERHEAD + ulpdu > room;
        let counted = (!draft.to_end).then_some(ulpdu as u16);
        draft.builder.segment(position, counted, &SegmentOptions::NONE, ddp);
        draft.builder.payload_of([behind, segment.bytes]);
        draft.has_segment(serial, segment.ack_now);
        self.counters.segments_sent += 1;
        self.outgoing.push_sent(segment);
    }

    /// When nothing is left to send and all is acknowledged, sends the close.
    fn close_if_done(&mut self, draft: &mut Draft<'_>) {
        if self.is_close_due() && draft.contents.count == 0 {
            self.closing.is_sent = true;
            self.put_close(draft);
            self.put_confirm(draft);
        }
    }

    /// Completes the packet.
    pub(super) fn finish(&mut self, mut draft: Draft<'_>, now: Time, datagrams: &mut Vec<Datagram>) -> bool {
        let is_alone = self.rails.len() == 1;
        let rail = &mut self.rails[draft.rail];
        if !draft.to_end && draft.contents.count == 0 && draft.eliciting {
            draft.builder.pad(LEAST_PING);
        }
        let length = draft.length();
        let in_flight = if draft.eliciting { length as u32 } else { 0 };
        // An MTU probe says nothing of the window or of the rate: mostly the interface refuses the first one, which has
        // the size of a datagram on the loopback.
        let is_mtu_probe = draft.contents.is_probe;
        let limit = rail.limit();
        let fills = !is_mtu_probe && rail.sent.in_flight() + u64::from(in_flight) + length as u64 > limit;
        let is_probe = draft.eliciting && core::mem::take(&mut rail.probes) > 0;
        rail.was_full |= fills;
        if draft.eliciting {
            let closes = draft.contents.controls & control::CLOSE != 0;
            if rail.asks(length as u64, fills) || is_probe || closes {
                draft.asks();
            }
            if draft.asks {
                rail.unasked = 0;
            }
        }
        draft.end_run();
        let Draft { builder, contents, eliciting, .. } = draft;
        builder.finish();
        let marked = eliciting && rail.ecn.marks(now);
        if contents.count > 0 {
            self.given.on_segments(false, now);
            rail.received.answer();
        }
        let stamp = if eliciting { rail.window.on_sent(rail.sent.in_flight(), now) } else { Stamp::default() };
        // No other rail can overtake it.
        let arrives = if is_alone { now } else { now + rail.arrival() };
        let alone = Leaving::default();
        rail.sent.push(&Leaving { now, arrives, bytes: in_flight, contents, ect: marked, stamp, ..alone });
        let next = rail.sent.next_number();
        if rail.sent.has_room(false) && rail.skipped.skips(next, rail.sent.first(), &mut self.random) {
            rail.sent.skip(now);
        }
        if marked {
            rail.ecn.on_sent(rail.trip.probe_timeout() + self.peer_ack_delay, now);
        }
        if eliciting && !is_mtu_probe && rail.trip.is_known() {
            rail.pacer.on_sent(length as u64, limit, rail.trip.smoothed(), now);
        }
        let first = datagrams.last().map_or(0, |last| last.pieces.end);
        let ecn = if marked { 2 } else { 0 };
        let (end, PathAddress { local, to }) = (draft.pieces.len(), draft.place);
        datagrams.push(Datagram { to, local, pieces: first..end, length, count: 1, ecn, rail: rail.id });
        rail.tally.sent_packets += 1;
        rail.tally.sent_bytes += length as u64;
        self.counters.packets_sent += 1;
        true
    }

    /// The size of the MTU probe to send, if one is due.
    pub(super) fn path_probe(&self, index: usize) -> Option<usize> {
        let rail = &self.rails[index];
        let size = rail.mtu.wanted()?;
        let open = self.phase == Phase::Open && matches!(self.confirmation, Confirmation::Done);
        // MTU probes delay nothing else: one is sent only when the peer is known to answer and a larger size is
        // possible.
        let is_time = open && self.outgoing.end() >= PROBE_FROM && rail.peer_largest.is_some() && rail.backoff == 0;
        (is_time && rail.sent.has_room(true)).then_some(size)
    }

    /// Sends an MTU probe.
    fn probe_path(&mut self, index: usize, now: Time, out: &mut Batch) {
        let Some(size) = self.path_probe(index) else { return };
        let Some(place) = self.rails[index].place.filter(|_| !out.is_full(size)) else { return };
        let header = self.header(index);
        let mut draft = Draft::new(&mut out.bytes, &mut out.pieces, &header, place);
        draft.frame(&Frame::Ping);
        draft.builder.pad(size);
        draft.asks();
        draft.contents.is_probe = true;
        draft.to_end = true;
        let probes = self.rails[index].probes;
        self.finish(draft, now, &mut out.datagrams);
        let rail = &mut self.rails[index];
        rail.probes = probes;
        rail.mtu.on_probe_sent(header.number, size);
    }

    /// Challenges the peer's address.
    fn challenge(&mut self, index: usize, now: Time, out: &mut Batch) {
        if out.is_full(BASE_DATAGRAM) {
            return;
        }
        let rail = &mut self.rails[index];
        let wait = rail.trip.probe_timeout();
        let Some(candidate) = rail.candidate.as_mut().filter(|candidate| candidate.due <= now) else { return };
        let (place, frame) = (candidate.place, Frame::Challenge(candidate.challenge));
        let size = candidate.is_full.then_some(BASE_DATAGRAM);
        if candidate.ask(wait, now) {
            self.aside(index, &frame, place, size, now, out);
        } else {
            self.on_unanswered(index, now);
        }
    }

    /// Answers a challenge at the address that sent it.
    fn respond(&mut self, index: usize, now: Time, out: &mut Batch) {
        if let Some((bytes, place)) = self.rails[index].response.take() {
            self.aside(index, &Frame::Response(bytes), place, None, now, out);
        }
    }

    /// Sends one frame to an address in a packet, padded to `size`, that needs no acknowledgement: the peer repeats its
    /// request. Nothing is sent where the address would get more than [`Rail::allows`].
    fn aside(
        &mut self,
        index: usize,
        frame: &Frame<'_>,
        place: PathAddress,
        size: Option<usize>,
        now: Time,
        out: &mut Batch,
    ) {
        let length = size.unwrap_or(CHALLENGE_LENGTH);
        if out.is_full(length) || !self.rails[index].allows(place, length) {
            return;
        }
        self.make_room(index);
        let header = self.header(index);
        let mut draft = Draft::new(&mut out.bytes, &mut out.pieces, &header, place);
        draft.frame(frame);
        if let Some(size) = size {
            draft.builder.pad(size);
            draft.to_end = true;
        }
        draft.eliciting = false;
        debug_assert_eq!(draft.length(), length, "a challenge or a response alone");
        self.finish(draft, now, &mut out.datagrams);
    }
}

impl Draft<'_> {
    /// Payload and its CRC: copied, or to be gathered.
    fn payload(&mut self, sendable: &Sendable<'_>) {
        let Sendable { inline, gather, in_place, .. } = *sendable;
        if gather.is_empty() {
            self.builder.payload(inline);
            return;
        }
        self.end_run();
        let start = self.builder.at();
        self.builder.raw(inline);
        self.run = self.builder.at();
        self.pieces.push(Piece::Payload { start: start as u32, length: inline.len() as u32, gather, in_place });
        self.gathered += gather.length() as usize + weft_wire::edge::frame::CRC_LENGTH;
    }
}
