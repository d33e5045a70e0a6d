//! Packets in a row, from when they are sent until they are settled: one record for all of them, and bits for what has
//! become of each.

use core::ops::Range;
use core::time::Duration;

use weft_base::Time;
use weft_congestion::Stamp;

/// Bytes of a segment's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) length: u32,
}

/// The contents of a packet that must arrive, or of packets in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// The first segment's serial.
    pub(crate) first: u64,
    /// Number of consecutive segments.
    pub(crate) count: u16,
    /// Set if it holds only this part of the one segment.
    pub(crate) part: Option<Span>,
    /// Frames, as bits of [`crate::connection::control`].
    pub(crate) controls: u8,
    /// An MTU probe: it only tests whether a datagram of its size passes.
    pub(crate) is_probe: bool,
}

/// A packet that is being sent, or the first of packets in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Leaving {
    pub(crate) now: Time,
    /// Estimated time of arrival, and how much later each further one of a row arrives.
    pub(crate) arrives: Time,
    pub(crate) apart: Duration,
    /// Bytes of each. 0 when it will not be acknowledged.
    pub(crate) bytes: u32,
    /// Each further one of a row has the next part of the segment, of the same length.
    pub(crate) contents: Contents,
    /// Whether it is sent with ECT.
    pub(crate) ect: bool,
    pub(crate) stamp: Stamp,
}

/// A packet that was sent; or packets in a row that were acknowledged together, none of which was thought lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// Of the last one.
    pub(crate) number: u64,
    pub(crate) count: u32,
    pub(crate) sent: Time,
    /// Bytes of each.
    pub(crate) bytes: u32,
    /// Of all together.
    pub(crate) contents: Contents,
    /// Whether it was declared lost before it was acknowledged.
    pub(crate) was_lost: bool,
    /// Whether it was sent with ECT.
    pub(crate) ect: bool,
    /// How much had been delivered when it was sent.
    pub(crate) stamp: Stamp,
}

impl Packet {
    /// The numbers of all.
    pub(crate) const fn numbers(&self) -> Range<u64> {
        self.number + 1 - self.count as u64..self.number + 1
    }

    /// Bytes of all.
    pub(crate) const fn all_bytes(&self) -> u64 {
        self.bytes as u64 * self.count as u64
    }
}

/// The record.
#[derive(Debug)]
pub(crate) struct Row {
    /// Of the first packet.
    pub(crate) number: u64,
    pub(crate) count: u32,
    leaving: Leaving,
    /// What has become of the packets, as bits: a packet that is in none of the first three is settled.
    flying: u64,
    lost: u64,
    /// Their rail was demoted or closed.
    left: u64,
    /// Their contents were retransmitted over a faster rail.
    overtaken: u64,
}

impl Row {
    /// At most 64 packets, that are sent now.
    pub(crate) fn new(number: u64, leaving: &Leaving, count: u32) -> Self {
        Self { number, count, leaving: *leaving, flying: bits(0, count), lost: 0, left: 0, overtaken: 0 }
    }

    /// The number after the last one.
    pub(crate) fn end(&self) -> u64 {
        self.number + u64::from(self.count)
    }

    pub(crate) const fn sent(&self) -> Time {
        self.leaving.now
    }

    /// Bytes of each.
    pub(crate) const fn bytes(&self) -> u32 {
        self.leaving.bytes
    }

    /// Whether all packets are settled.
    pub(crate) const fn is_settled(&self) -> bool {
        self.flying | self.lost | self.left == 0
    }

    /// Whether a packet waits for its acknowledgement.
    pub(crate) const fn is_flying(&self) -> bool {
        self.flying != 0
    }

    /// Those of the packets that have these numbers, as bits.
    pub(crate) fn within(&self, low: u64, high: u64) -> u64 {
        let from = low.saturating_sub(self.number).min(self.count.into()) as u32;
        let to = (high + 1).saturating_sub(self.number).min(self.count.into()) as u32;
        bits(from, to)
    }

    /// `count` packets, the first of which is the one at `index`.
    fn packets(&self, index: u32, count: u32) -> Packet {
        let Leaving { now, bytes, ect, stamp, .. } = self.leaving;
        let number = self.number + u64::from(index + count - 1);
        let contents = self.contents(index, count);
        Packet { number, count, sent: now, bytes, contents, was_lost: false, ect, stamp }
    }

    /// All of them.
    pub(crate) fn all(&self) -> Packet {
        self.packets(0, self.count)
    }

    fn contents(&self, index: u32, count: u32) -> Contents {
        let part = self
            .leaving
            .contents
            .part
            .map(|Span { start, length }| Span { start: start + index * length, length: count * length });
        Contents { part, ..self.leaving.contents }
    }

    /// The packet with this number, if it is not settled.
    pub(crate) fn unsettled(&self, number: u64) -> Option<Packet> {
        let bit = self.within(number, number);
        let (was_lost, is_open) = (self.lost & bit != 0, (self.flying | self.lost | self.left) & bit != 0);
        is_open.then(|| Packet { was_lost, ..self.packets(bit.trailing_zeros(), 1) })
    }

    /// The packets in flight, the oldest first.
    pub(crate) fn flying(&self) -> impl Iterator<Item = Packet> {
        let mut left = self.flying;
        core::iter::from_fn(move || {
            let index = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some(self.packets(index, 1))
        })
    }

    /// Settles packets, which are put into `settled`, the newest first: those that flew in a row as one. Returns how
    /// many flew.
    pub(crate) fn settle(&mut self, packets: u64, settled: &mut Vec<Packet>) -> u32 {
        let mut open = (self.flying | self.lost | self.left) & packets;
        while open != 0 {
            let last = open.ilog2();
            let flying = (self.flying & open) << (u64::BITS - 1 - last);
            let count = flying.leading_ones().max(1);
            let was_lost = self.lost >> last & 1 == 1;
            settled.push(Packet { was_lost, ..self.packets(last + 1 - count, count) });
            open &= !bits(last + 1 - count, last + 1);
        }
        self.remove(packets)
    }

    /// Settles packets. Returns how many flew.
    pub(crate) fn remove(&mut self, packets: u64) -> u32 {
        let flew = (self.flying & packets).count_ones();
        (self.flying, self.lost, self.left) = (self.flying & !packets, self.lost & !packets, self.left & !packets);
        flew
    }

    /// Declares those of these packets that are in flight lost, and puts each into `lost`. Returns how many.
    pub(crate) fn lose(&mut self, packets: u64, lost: &mut Vec<Packet>) -> u32 {
        let gone = self.flying & packets;
        lost.extend(self.flying().filter(|packet| self.within(packet.number, packet.number) & gone != 0));
        (self.flying, self.lost) = (self.flying & !gone, self.lost | gone);
        gone.count_ones()
    }

    /// Those of these packets that are in flight.
    pub(crate) const fn flying_of(&self, packets: u64) -> u64 {
        self.flying & packets
    }

    /// The rail is demoted or closed: puts packets in flight into `left`.
    pub(crate) fn leave(&mut self, left: &mut Vec<Packet>) {
        left.extend(self.flying());
        (self.flying, self.left) = (0, self.left | self.flying);
    }

    /// The contents of the first packet from `number` on that is in flight, has segments and arrives later than `soon`.
    /// Each is returned once.
    pub(crate) fn overtake(&mut self, number: u64, soon: Time) -> Option<(u64, Contents)> {
        if self.leaving.contents.count == 0 {
            return None;
        }
        let candidates = self.flying & !self.overtaken & self.within(number, u64::MAX - 1);
        let is_late = |index: &u32| self.leaving.arrives + self.leaving.apart * *index > soon;
        let index = (0..self.count).filter(|index| candidates >> index & 1 == 1).find(is_late)?;
        self.overtaken |= 1 << index;
        Some((self.number + u64::from(index), self.contents(index, 1)))
    }
}

/// The bits from `from` to before `to`.
pub(crate) fn bits(from: u32, to: u32) -> u64 {
    if from >= to { 0 } else { u64::MAX >> (u64::BITS - (to - from)) << from }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets 100 to 107, each with 1000 bytes of segment 5.
    fn row() -> Row {
        let contents =
            Contents { first: 5, count: 1, part: Some(Span { start: 3000, length: 1000 }), ..Contents::default() };
        let (arrives, apart) = (Time::from_nanos(10), Duration::from_nanos(1));
        Row::new(100, &Leaving { bytes: 1050, contents, arrives, apart, ..Leaving::default() }, 8)
    }

    fn spans(packets: &[Packet]) -> Vec<(u64, u32, u32, u32)> {
        let one = |packet: &Packet| {
            let Span { start, length } = packet.contents.part.unwrap();
            (packet.number, packet.count, start, length)
        };
        packets.iter().map(one).collect()
    }

    #[test]
    fn what_is_acknowledged_in_a_row_is_one() {
        let (mut row, mut settled) = (row(), vec![]);
        assert_eq!(row.settle(row.within(90, 102), &mut settled), 3);
        assert_eq!(row.settle(row.within(104, 105), &mut settled), 2);
        assert_eq!(spans(&settled), [(102, 3, 3000, 3000), (105, 2, 7000, 2000)]);
        assert_eq!((settled[0].numbers(), settled[0].all_bytes()), (100..103, 3150));
        assert!(row.unsettled(104).is_none() && row.unsettled(103).is_some() && row.unsettled(108).is_none());
        settled.clear();
        assert_eq!(row.settle(row.within(0, 1000), &mut settled), 3);
        assert_eq!(spans(&settled), [(107, 2, 9000, 2000), (103, 1, 6000, 1000)], "the newest first");
        assert!(row.is_settled() && !row.is_flying());
    }

    #[test]
    fn what_was_thought_lost_is_told_apart_when_it_comes() {
        let (mut row, mut lost, mut settled) = (row(), vec![], vec![]);
        assert_eq!(row.lose(row.within(102, 103), &mut lost), 2);
        assert_eq!(row.lose(row.within(103, 103), &mut lost), 0, "once");
        assert_eq!(spans(&lost), [(102, 1, 5000, 1000), (103, 1, 6000, 1000)]);
        assert_eq!(row.settle(row.within(101, 104), &mut settled), 2);
        let seen: Vec<_> = settled.iter().map(|packet| (packet.number, packet.count, packet.was_lost)).collect();
        assert_eq!(seen, [(104, 1, false), (103, 1, true), (102, 1, true), (101, 1, false)]);
        let mut left = vec![];
        row.leave(&mut left);
        assert_eq!(left.iter().map(|packet| packet.number).collect::<Vec<_>>(), [100, 105, 106, 107]);
        assert!(!row.is_flying() && !row.is_settled());
        assert!(row.unsettled(100).is_some_and(|packet| !packet.was_lost));
    }

    #[test]
    fn each_that_arrives_late_is_overtaken_once() {
        let mut row = row();
        let soon = Time::from_nanos(13);
        let overtaken: Vec<u64> = core::iter::from_fn(|| row.overtake(0, soon)).map(|(number, _)| number).collect();
        assert_eq!(overtaken, [104, 105, 106, 107]);
        assert_eq!(row.overtake(103, Time::ZERO).map(|(number, _)| number), Some(103), "of those from there on");
    }

    #[test]
    fn as_many_as_there_are_bits() {
        let mut row = Row::new(u64::from(u32::MAX) - 7, &Leaving { bytes: 1, ..Leaving::default() }, 64);
        let mut settled = vec![];
        assert_eq!(row.within(0, u64::MAX - 1), u64::MAX);
        assert_eq!(row.settle(u64::MAX, &mut settled), 64);
        assert_eq!((settled.len(), settled[0].count, settled[0].number), (1, 64, row.end() - 1));
    }
}
