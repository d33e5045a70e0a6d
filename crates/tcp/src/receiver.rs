//! The receive direction of a connection: received ranges, and the acknowledgements and window that report them.

use core::ops::Range;

use arrayvec::ArrayVec;
use weft_base::{StreamPosition, Time};

use crate::numbering::Numbering;
use crate::ranges::Ranges;
use crate::ring::Ring;
use crate::segment::{MAX_SACK_BLOCKS, Timestamps};
use crate::settings::{ReceivePolicy, Settings};

mod debt;
#[cfg(test)]
mod tests;

use debt::AckDebt;

/// An acknowledged clock of the peer is not believed after it was silent for this long (RFC 7323 section 5.5).
const STAMP_LIFE: core::time::Duration = core::time::Duration::from_secs(24 * 24 * 3600);

/// What was kept is shown in pieces of this many bytes.
const SHOWN_AT_ONCE: usize = 4096;

/// Takes segments as they arrive, with [`ReceivePolicy::Place`].
pub trait Sink {
    /// Shows bytes that are shown for the first time, and their position in the stream. True: they are kept, will be
    /// acknowledged, and are never shown again. False: they are treated as if they had not come, and come again.
    fn show(&mut self, position: StreamPosition, bytes: &[u8]) -> bool;
}

impl<F: FnMut(StreamPosition, &[u8]) -> bool> Sink for F {
    fn show(&mut self, position: StreamPosition, bytes: &[u8]) -> bool {
        self(position, bytes)
    }
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Receiver {
    numbering: Numbering,
    policy: ReceivePolicy,
    /// The first position that is missing.
    next: u64,
    /// What is there beyond it.
    beyond: Ranges,
    /// The first position that has not been read; with `Place`, `next`.
    unread: u64,
    ring: Ring,
    /// How much may come, and how much of it was offered: a right edge never goes back.
    room: u64,
    edge: u64,
    shift: Option<u8>,
    /// The position of the FIN.
    fin: Option<u64>,
    /// The positions of the segments that came last, for the order of SACK blocks.
    recent: ArrayVec<u64, MAX_SACK_BLOCKS>,
    /// What came twice, to be reported once (RFC 2883).
    duplicate: Option<Range<u64>>,
    debt: AckDebt,
    /// The last position that was acknowledged.
    acknowledged: u64,
    /// What a segment on the wire has at most; and the largest that came, of which devices may have joined several.
    mss: u64,
    largest_payload: u64,
    stamp: Option<(u32, Time)>,
    pub(crate) dropped: u64,
}

/// A segment of the peer, in positions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    pub(crate) start: u64,
    pub(crate) payload: &'a [u8],
    pub(crate) fin: bool,
}

impl Receiver {
    pub(crate) fn new(settings: &Settings) -> Self {
        let room = u64::from(settings.receive_window);
        let buffered = settings.policy != ReceivePolicy::Place;
        Self {
            numbering: Numbering::new(0),
            policy: settings.policy,
            next: 0,
            beyond: Ranges::new(settings.ranges),
            unread: 1,
            ring: Ring::new(if buffered { room as usize } else { 0 }),
            room,
            edge: 1 + room,
            shift: None,
            fin: None,
            recent: ArrayVec::new(),
            duplicate: None,
            debt: AckDebt::new(settings.ack_delay),
            acknowledged: 0,
            mss: u64::from(settings.mss),
            largest_payload: 0,
            stamp: None,
            dropped: 0,
        }
    }

    /// The peer's SYN has come.
    pub(crate) const fn synchronise(&mut self, initial: u32) {
        self.numbering = Numbering::new(initial);
        self.next = 1;
    }

    /// Window scaling was agreed on (RFC 7323 section 2.2).
    pub(crate) const fn set_shift(&mut self, shift: u8) {
        self.shift = Some(shift);
    }

    /// Whether windows are scaled.
    pub(crate) const fn scales(&self) -> bool {
        self.shift.is_some()
    }

    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    pub(crate) const fn next_number(&self) -> u32 {
        self.numbering.number(self.next)
    }

    pub(crate) const fn position(&self, number: u32) -> Option<u64> {
        self.numbering.position(number, self.next)
    }

    /// Whether all that the peer sends has come, its FIN included.
    pub(crate) fn is_finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin)
    }

    /// Bytes of the stream that came without a gap before them.
    pub(crate) fn in_order(&self) -> u64 {
        self.data_end() - 1
    }

    /// Bytes that are there beyond a gap.
    pub(crate) fn early_bytes(&self) -> u64 {
        self.beyond.bytes()
    }

    fn data_end(&self) -> u64 {
        self.fin.map_or(self.next, |fin| self.next.min(fin)).max(1)
    }

    /// The test of RFC 9293 section 3.10.7.4, but that a segment without sequence space may be right behind the window:
    /// that is where the acknowledgements of a peer are that has filled it.
    pub(crate) const fn accepts(&self, start: u64, length: u64) -> bool {
        if length == 0 {
            return self.next <= start && start <= self.edge;
        }
        self.edge > self.next && start < self.edge && start + length > self.next
    }

    /// Whether a segment is where an in-window reset or SYN may be (RFC 5961 section 3.2).
    pub(crate) const fn is_in_window(&self, start: u64) -> bool {
        self.next <= start && (start < self.edge || start == self.next)
    }

    /// Takes what is new of a segment.
    pub(crate) fn take(&mut self, incoming: &Incoming<'_>, sink: &mut impl Sink, now: Time) {
        let end = incoming.start + incoming.payload.len() as u64;
        let had_gap = !self.beyond.is_empty();
        let before = self.next;
        self.largest_payload = self.largest_payload.max(self.mss.min(incoming.payload.len() as u64));
        self.note_duplicate(incoming.start, end);
        let all_kept = self.store(incoming, end, sink);
        if incoming.fin && all_kept {
            self.note_fin(end);
        }
        self.finish();
        let grown = self.next - before;
        let is_plain = grown > 0 && !had_gap && self.beyond.is_empty() && self.fin.is_none();
        if is_plain {
            self.debt.owe(grown, self.largest_payload, now);
        } else if !incoming.payload.is_empty() || incoming.fin {
            self.debt.owe_now();
        }
    }

    /// RFC 2883 section 4: the first bytes of a segment that were there already.
    pub(crate) fn note_duplicate(&mut self, start: u64, end: u64) {
        let old =
            if start < self.next { self.next } else { self.beyond.holding(start).map_or(start, |range| range.end) };
        if start < old && start < end {
            self.duplicate = Some(start..old.min(end));
        }
    }

    /// False when something of it was not kept.
    fn store(&mut self, incoming: &Incoming<'_>, end: u64, sink: &mut impl Sink) -> bool {
        let last = self.fin.unwrap_or(u64::MAX).min(self.edge);
        let wanted = incoming.start.max(self.next)..end.min(last);
        if wanted.start > self.next && !self.may_be_early(&wanted) {
            self.dropped += 1;
            return false;
        }
        let mut at = wanted.start;
        while at < wanted.end
            && let Some(missing) = self.beyond.first_missing(at..wanted.end)
        {
            let from = (missing.start - incoming.start) as usize;
            let bytes = &incoming.payload[from..(missing.end - incoming.start) as usize];
            if !self.keep(missing.start, bytes, sink) {
                self.dropped += 1;
                return false;
            }
            at = missing.end;
            self.add(missing);
            // What it has filled may have been the first gap of all.
            at = at.max(self.next);
        }
        if wanted.start < wanted.end {
            self.note_recent(wanted.start);
        }
        end <= last
    }

    /// From now on segments are shown as they come ([`ReceivePolicy::Place`]); first what is here and was not read,
    /// which must be kept. Its memory is given back.
    pub(crate) fn place(&mut self, sink: &mut impl Sink) {
        if self.policy == ReceivePolicy::Place {
            return;
        }
        let unread = self.unread..self.data_end();
        let mut piece = [0; SHOWN_AT_ONCE];
        for range in core::iter::once(&unread).chain(self.beyond.iter()) {
            let mut at = range.start;
            while at < range.end {
                let length = (range.end - at).min(SHOWN_AT_ONCE as u64);
                let bytes = &mut piece[..length as usize];
                self.ring.read(at, bytes);
                sink.show(StreamPosition(at - 1), bytes);
                at += length;
            }
        }
        self.policy = ReceivePolicy::Place;
        self.ring = Ring::new(0);
        self.unread = self.data_end();
    }

    fn may_be_early(&self, range: &Range<u64>) -> bool {
        self.policy != ReceivePolicy::Drop && (range.is_empty() || self.beyond.has_room_for(range))
    }

    fn keep(&mut self, position: u64, bytes: &[u8], sink: &mut impl Sink) -> bool {
        if self.policy == ReceivePolicy::Place {
            return sink.show(StreamPosition(position - 1), bytes);
        }
        let live = self.unread..self.beyond.end().unwrap_or(0).max(self.data_end());
        self.ring.make_room(live, position + bytes.len() as u64);
        self.ring.write(position, bytes);
        true
    }

    /// Whether it has memory that nothing is in.
    pub(crate) fn has_spare_memory(&self) -> bool {
        self.ring.is_allocated() && self.readable() == 0 && self.beyond.is_empty()
    }

    /// Gives that back.
    pub(crate) fn release_memory(&mut self) {
        if self.has_spare_memory() {
            self.ring.release();
        }
    }

    fn add(&mut self, range: Range<u64>) {
        if range.start != self.next {
            // `may_be_early` has seen that there is room, and what follows in a segment only joins ranges.
            self.beyond.insert(range);
            return;
        }
        self.next = range.end;
        if let Some(end) = self.beyond.holding(self.next).map(|range| range.end) {
            self.next = end;
        }
        self.beyond.remove_before(self.next);
    }

    fn note_recent(&mut self, position: u64) {
        let Some(block) = self.beyond.holding(position) else { return };
        let next = self.next;
        self.recent.retain(|other| *other >= next && !block.contains(other));
        if self.recent.is_full() {
            self.recent.pop();
        }
        self.recent.insert(0, position);
    }

    /// A FIN before data that came, or at another place than one that was believed, contradicts it, and is not
    /// believed.
    fn note_fin(&mut self, position: u64) {
        let is_last = self.beyond.end().is_none_or(|end| end <= position) && position >= self.next;
        if self.fin.is_none() && is_last {
            self.fin = Some(position);
        }
    }

    /// Takes the FIN when all before it is there.
    fn finish(&mut self) {
        if self.fin == Some(self.next) {
            self.next += 1;
        }
        if self.policy == ReceivePolicy::Place {
            self.unread = self.data_end();
        }
    }

    /// Reads in order; zero with [`ReceivePolicy::Place`], and when there is nothing.
    pub(crate) fn read(&mut self, to: &mut [u8]) -> usize {
        let length = (self.data_end() - self.unread).min(to.len() as u64) as usize;
        self.ring.read(self.unread, &mut to[..length]);
        self.unread += length as u64;
        if self.is_update_due() {
            self.debt.owe_now();
        }
        length
    }

    /// Bytes that [`Receiver::read`] would give.
    pub(crate) fn readable(&self) -> u64 {
        self.data_end() - self.unread
    }

    /// From now on this many bytes may come beyond what is missing, once what was offered before is used up.
    pub(crate) fn set_room(&mut self, room: u64) {
        if self.policy == ReceivePolicy::Place {
            self.room = room;
            if self.is_update_due() {
                self.debt.owe_now();
            }
        }
    }

    /// RFC 9293 section 3.8.6.2.2: small steps of the window are not announced.
    const fn step(&self) -> u64 {
        let (half, one) = (self.room.div_ceil(2), if self.largest_payload > 0 { self.largest_payload } else { 536 });
        if half < one { half } else { one }
    }

    fn is_update_due(&self) -> bool {
        let gain = (self.unread + self.room).saturating_sub(self.edge);
        let left = self.edge.saturating_sub(self.next);
        gain > 0 && (gain >= self.room.div_ceil(2) || (left < self.step() && gain >= self.step()))
    }

    /// The window field of a segment that leaves now. It is never smaller than what was offered before.
    pub(crate) fn window(&mut self, is_syn: bool) -> u16 {
        let edge = self.unread + self.room;
        if edge >= self.edge + self.step() {
            self.edge = edge;
        }
        let shift = if is_syn { 0 } else { self.shift.unwrap_or(0) };
        let left = self.edge.saturating_sub(self.next.max(1)) >> shift;
        u16::try_from(left).unwrap_or(u16::MAX)
    }

    /// Blocks for an acknowledgement that leaves now: what came twice, then what came last, then what came before
    /// (RFC 2018 section 4, RFC 2883 section 4).
    pub(crate) fn sack_blocks(&mut self, room: usize) -> ArrayVec<(u32, u32), MAX_SACK_BLOCKS> {
        let mut blocks = ArrayVec::<Range<u64>, MAX_SACK_BLOCKS>::new();
        blocks.extend(self.duplicate.take());
        let told = blocks.len();
        let beyond = &self.beyond;
        for range in self.recent.iter().filter_map(|position| beyond.holding(*position)) {
            // What came twice is reported again within what is there (RFC 2883 section 4.2).
            if blocks.len() < room && !blocks[told..].contains(range) {
                blocks.push(range.clone());
            }
        }
        blocks.iter().map(|range| (self.numbering.number(range.start), self.numbering.number(range.end))).collect()
    }

    pub(crate) fn has_blocks(&self) -> bool {
        self.duplicate.is_some() || !self.beyond.is_empty()
    }

    /// An acknowledgement has left.
    pub(crate) const fn handle_acknowledged(&mut self) {
        self.acknowledged = self.next;
        self.debt.pay();
    }

    pub(crate) const fn owe_now(&mut self) {
        self.debt.owe_now();
    }

    pub(crate) fn owes(&self, now: Time) -> bool {
        self.debt.is_due(now)
    }

    pub(crate) const fn ack_due(&self) -> Option<Time> {
        self.debt.due()
    }

    /// RFC 7323 section 5.3 R1: whether a segment is older than those received.
    pub(crate) fn is_old(&self, stamps: Timestamps, now: Time) -> bool {
        self.stamp
            .is_some_and(|(last, at)| stamps.value.wrapping_sub(last).cast_signed() < 0 && now.since(at) < STAMP_LIFE)
    }

    /// RFC 7323 section 4.3: the clock of the segment that the next acknowledgement is about.
    pub(crate) fn note_stamp(&mut self, stamps: Timestamps, start: u64, now: Time) {
        if start <= self.acknowledged || self.stamp.is_none() {
            self.stamp = Some((stamps.value, now));
        }
    }

    pub(crate) fn echo(&self) -> u32 {
        self.stamp.map_or(0, |(value, _)| value)
    }
}
