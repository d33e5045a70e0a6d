//! Sent packets of a rail that are not settled: which are acknowledged, which are lost (RFC 9002 section 6.1).

use core::time::Duration;
use std::collections::VecDeque;

use weft_base::Time;

use crate::row::Row;
pub(crate) use crate::row::{Contents, Leaving, Packet};

#[cfg(test)]
mod model;

/// The initial reordering threshold: a packet this far behind an acknowledged one is lost (RFC 9002 section 6.1.1).
const REORDERING: u64 = 3;
/// It grows up to this, where packets declared lost turn out to be late.
const MAX_REORDERING: u64 = 256;
/// The maximum additional patience in time: eighths of a round trip (RFC 8985 section 6.2 step 4: up to one).
const MAX_PATIENCE: u32 = 8;
/// After this many recoveries without a late packet, both thresholds are reset (RFC 8985 section 6.2 step 4,
/// RACK.reo_wnd_persist).
const PATIENT_RECOVERIES: u32 = 16;
/// After this many packets without a loss the path is assumed to keep order: after twice as many each time,
const ORDERLY_AFTER: u64 = 64;
/// up to this.
const MAX_ORDERLY_AFTER: u64 = 1 << 16;
/// Slots that only packets without segments may use.
const RESERVE: usize = 16;
/// Packets for which an idle rail keeps its memory.
pub(crate) const IDLE_PACKETS: usize = 4;

/// The packets, by number: those that were sent in a row are one record.
#[derive(Debug)]
pub(crate) struct Sent {
    rows: VecDeque<Row>,
    /// The number of the next packet.
    next: u64,
    most: usize,
    flying: usize,
    in_flight: u64,
    largest_acked: Option<u64>,
    reordering: u64,
    patience: u32,
    /// Recoveries after which both are reset.
    patient_for: u32,
    loss_at: Option<Time>,
    last_sent: Time,
    /// The first packet that is far enough from the last loss.
    orderly_from: u64,
    /// How far that is, next time.
    orderly_after: u64,
    /// Packets below this number have been checked for overtaking.
    overtaken: u64,
    /// No packet below this number is in flight.
    settled_to: u64,
}

impl Sent {
    pub(crate) fn new(most: usize) -> Self {
        let most = most.max(2 * RESERVE);
        Self {
            // It grows with the packets in flight.
            rows: VecDeque::new(),
            next: 0,
            most,
            flying: 0,
            in_flight: 0,
            largest_acked: None,
            reordering: REORDERING,
            patience: 0,
            patient_for: 0,
            loss_at: None,
            last_sent: Time::ZERO,
            orderly_from: 0,
            orderly_after: ORDERLY_AFTER,
            overtaken: 0,
            settled_to: 0,
        }
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    /// The slots in use: one for each number from the first that is not settled.
    fn used(&self) -> usize {
        (self.next - self.first()) as usize
    }

    /// The lowest number that is not settled; the next one if all are.
    pub(crate) fn first(&self) -> u64 {
        self.rows.front().map_or(self.next, |row| row.number)
    }

    /// Whether one more may be sent, with segments or without.
    pub(crate) fn has_room(&self, segments: bool) -> bool {
        self.used() < self.most - if segments { RESERVE } else { 0 }
    }

    /// How many more with segments may be sent.
    pub(crate) fn room(&self) -> usize {
        (self.most - RESERVE).saturating_sub(self.used())
    }

    /// Frees slots when none is left. Returns packets in a row some of which are in flight: what they hold and is not
    /// acknowledged is to be retransmitted.
    pub(crate) fn make_room(&mut self) -> Option<Packet> {
        if self.has_room(false) {
            return None;
        }
        let row = self.rows.pop_front()?;
        self.on_gone(row.flying().count() as u32, row.bytes());
        row.is_flying().then(|| row.all())
    }

    /// Packets of `bytes` bytes each are in flight no more.
    fn on_gone(&mut self, packets: u32, bytes: u32) {
        self.flying -= packets as usize;
        self.in_flight -= u64::from(packets) * u64::from(bytes);
    }

    /// Bytes in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Whether any packet waits for its acknowledgement.
    pub(crate) fn is_flying(&self) -> bool {
        self.flying > 0
    }

    /// When the last packet was sent that is to be acknowledged.
    pub(crate) fn last_sent(&self) -> Time {
        self.last_sent
    }

    /// When the next packet is declared lost, if nothing happens before.
    pub(crate) fn loss_at(&self) -> Option<Time> {
        self.loss_at
    }

    /// Records a sent packet.
    pub(crate) fn push(&mut self, leaving: &Leaving) {
        self.push_row(leaving, 1);
    }

    /// Records `count` packets that are sent in a row, at most 64.
    pub(crate) fn push_row(&mut self, leaving: &Leaving, count: u32) {
        if leaving.bytes > 0 {
            self.rows.push_back(Row::new(self.next, leaving, count));
            self.flying += count as usize;
            self.in_flight += u64::from(count) * u64::from(leaving.bytes);
            self.last_sent = leaving.now;
        }
        // `settled_to` stays: a new record is in flight, or there is none.
        self.next += u64::from(count);
        self.pop_settled(leaving.now, Duration::MAX);
    }

    /// Skips the next number. There must be a slot for it.
    pub(crate) fn skip(&mut self, now: Time) {
        self.push(&Leaving { now, ..Leaving::default() });
    }

    /// The peer acknowledges this range; newly acknowledged packets are put into `settled`, the newest first. Returns
    /// false when one was never sent.
    pub(crate) fn acknowledge(&mut self, low: u64, high: u64, settled: &mut Vec<Packet>) -> bool {
        if high >= self.next {
            return false;
        }
        let from = self.rows.partition_point(|row| row.end() <= low);
        let to = self.rows.partition_point(|row| row.number <= high);
        for at in (from..to).rev() {
            let row = &mut self.rows[at];
            let (flew, bytes) = (row.settle(row.within(low, high), settled), row.bytes());
            self.on_gone(flew, bytes);
        }
        self.largest_acked = self.largest_acked.max(Some(high));
        self.pass_settled();
        true
    }

    /// The record of a number.
    fn find(&self, number: u64) -> Option<usize> {
        let at = self.rows.partition_point(|row| row.end() <= number);
        self.rows.get(at).filter(|row| row.number <= number).map(|_| at)
    }

    /// An unacknowledged packet, by the low 32 bits of its number. There are never enough packets for two to share
    /// these.
    pub(crate) fn unsettled(&self, number: u32) -> Option<Packet> {
        let first = self.first();
        let number = first + u64::from(number.wrapping_sub(first as u32));
        self.rows[self.find(number)?].unsettled(number)
    }

    /// Whether a packet without an acknowledgement had this number, or none: as far as it is not forgotten.
    pub(crate) fn was_unasked(&self, number: u64) -> bool {
        (self.first()..self.next).contains(&number) && self.find(number).is_none()
    }

    /// Removes a packet, in flight or declared lost.
    pub(crate) fn settle(&mut self, number: u64) -> Option<Packet> {
        let at = self.find(number)?;
        let row = &mut self.rows[at];
        let packet = row.unsettled(number)?;
        let (flew, bytes) = (row.remove(row.within(number, number)), row.bytes());
        self.on_gone(flew, bytes);
        self.pass_settled();
        Some(packet)
    }

    /// The contents of the oldest packet in flight that has segments and arrives later than `soon`. Each packet is
    /// returned once, and those before it are not checked again.
    pub(crate) fn overtaken(&mut self, soon: Time) -> Option<Contents> {
        let done = &mut self.overtaken;
        let from = self.rows.partition_point(|row| row.end() <= *done);
        for row in self.rows.range_mut(from..) {
            if let Some((number, contents)) = row.overtake(*done, soon) {
                *done = number + 1;
                return Some(contents);
            }
            *done = row.end();
        }
        None
    }

    /// The packets in flight.
    pub(crate) fn flying(&self) -> impl Iterator<Item = Packet> {
        self.rows.iter().flat_map(Row::flying)
    }

    /// The rail is demoted or closed: puts all packets in flight into `left`. They may still turn out to have arrived.
    pub(crate) fn leave(&mut self, left: &mut Vec<Packet>) {
        self.rows.iter_mut().for_each(|row| row.leave(left));
        (self.flying, self.in_flight, self.loss_at) = (0, 0, None);
        self.pass_settled();
    }

    /// A packet declared lost was late: the thresholds grow.
    pub(crate) fn on_spurious(&mut self, number: u64) {
        let behind = self.largest_acked.map_or(0, |largest| largest.saturating_sub(number));
        self.reordering = self.reordering.max(behind + 1).min(MAX_REORDERING);
        self.patience = (self.patience + 1).min(MAX_PATIENCE);
        self.patient_for = PATIENT_RECOVERIES;
    }

    /// Packets are lost, and a recovery begins.
    pub(crate) fn on_recovery(&mut self) {
        self.patient_for = self.patient_for.saturating_sub(1);
        if self.patient_for == 0 {
            (self.reordering, self.patience) = (REORDERING, 0);
        }
    }

    /// Whether packets arrive in the order in which they are sent, as far as is known.
    pub(crate) fn keeps_order(&self) -> bool {
        self.patience == 0 && self.next_number() >= self.orderly_from
    }

    /// Additional eighths of a round trip that a packet may be late.
    pub(crate) fn patience(&self) -> u32 {
        self.patience
    }

    /// Puts packets that are lost into `lost`: by number, or because a younger one has arrived and `delay` is over.
    pub(crate) fn detect(&mut self, now: Time, delay: Duration, lost: &mut Vec<Packet>) {
        self.loss_at = None;
        let Some(largest) = self.largest_acked.filter(|largest| *largest > 0) else { return };
        if !self.is_flying_before(largest) {
            return;
        }
        let before = lost.len();
        let from = self.rows.partition_point(|row| row.end() <= self.settled_to);
        for at in from..self.rows.partition_point(|row| row.number < largest) {
            let row = &mut self.rows[at];
            let older = row.flying_of(row.within(0, largest - 1));
            let due = row.sent() + delay;
            let far = largest.checked_sub(self.reordering).map_or(0, |far| row.within(0, far));
            let gone = if due <= now { older } else { older & far };
            if older & !gone != 0 && self.loss_at.is_none_or(|at| due < at) {
                self.loss_at = Some(due);
            }
            if gone != 0 {
                let (packets, bytes) = (row.lose(gone, lost), row.bytes());
                self.on_gone(packets, bytes);
            }
        }
        if lost.len() > before {
            self.orderly_from = self.next + self.orderly_after;
            self.orderly_after = (self.orderly_after * 2).min(MAX_ORDERLY_AFTER);
        }
        self.pass_settled();
    }

    /// Whether a packet below this number may be in flight. A quick check, called for each acknowledgement.
    fn is_flying_before(&self, number: u64) -> bool {
        // Mostly the first record is the oldest one in flight.
        let oldest = self.rows.front().map_or(self.next, |front| front.number.max(self.settled_to));
        self.flying > 0 && oldest < number
    }

    /// The oldest packet in flight.
    pub(crate) fn oldest(&self) -> Option<Packet> {
        self.oldest_ones().next()
    }

    /// The oldest packet in flight that is not an MTU probe, which may have been too large.
    pub(crate) fn oldest_content(&self) -> Option<Packet> {
        self.oldest_ones().find(|packet| !packet.contents.is_probe)
    }

    fn oldest_ones(&self) -> impl Iterator<Item = Packet> {
        let from = self.rows.partition_point(|row| row.end() <= self.settled_to);
        self.rows.range(from..).flat_map(Row::flying)
    }

    /// Moves `settled_to` on to the oldest record with packets in flight: each is passed once.
    fn pass_settled(&mut self) {
        let from = self.rows.partition_point(|row| row.end() <= self.settled_to);
        let settled = self.rows.range(from..).take_while(|row| !row.is_flying());
        self.settled_to = settled.last().map_or(self.settled_to, Row::end);
    }

    /// Releases memory that no packet in flight needs.
    pub(crate) fn shrink(&mut self) {
        self.rows.shrink_to(IDLE_PACKETS);
    }

    /// Forgets settled packets. Those declared lost stay a while: an acknowledgement may show that the loss was
    /// spurious.
    #[inline]
    pub(crate) fn pop_settled(&mut self, now: Time, keep: Duration) {
        if self.rows.front().is_some_and(|front| !front.is_flying()) {
            self.pop_front(now, keep);
        }
    }

    fn pop_front(&mut self, now: Time, keep: Duration) {
        let crowded = self.used() > self.most / 2;
        while let Some(front) = self.rows.front() {
            let is_over = front.is_settled() || !front.is_flying() && (crowded || front.sent() + keep < now);
            if !is_over {
                return;
            }
            self.rows.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Span;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn sent(count: u64) -> Sent {
        let mut sent = Sent::new(64);
        (0..count).for_each(|ms| sent.push(&Leaving { now: at(ms), bytes: 100, ..Leaving::default() }));
        sent
    }

    #[test]
    fn lost_by_number_then_by_time() {
        let mut sent = sent(6);
        let (mut settled, mut lost) = (vec![], vec![]);
        assert!(sent.acknowledge(4, 4, &mut settled));
        sent.detect(at(10), Duration::from_millis(9), &mut lost);
        assert_eq!(lost.iter().map(|packet| packet.number).collect::<Vec<_>>(), [0, 1]);
        assert_eq!((sent.in_flight(), sent.loss_at()), (300, Some(at(11))));
        sent.detect(at(11), Duration::from_millis(9), &mut lost);
        assert_eq!(lost.len(), 3);
        assert_eq!(sent.oldest().map(|packet| packet.number), Some(3));
    }

    #[test]
    fn a_late_acknowledgement_makes_it_patient() {
        let mut sent = sent(10);
        let (mut settled, mut lost) = (vec![], vec![]);
        sent.acknowledge(9, 9, &mut settled);
        sent.detect(at(10), Duration::from_secs(1), &mut lost);
        assert_eq!(lost.len(), 7);
        settled.clear();
        sent.acknowledge(0, 0, &mut settled);
        assert!(settled[0].was_lost);
        sent.on_spurious(0);
        assert_eq!(sent.reordering, 10);
    }

    #[test]
    fn patience_is_forgotten_after_recoveries_of_which_nothing_was_late() {
        let mut sent = sent(10);
        sent.acknowledge(9, 9, &mut vec![]);
        let patient = |sent: &Sent| (sent.reordering, sent.patience());
        sent.on_spurious(2);
        (0..15).for_each(|_| sent.on_recovery());
        assert_eq!(patient(&sent), (8, 1));
        sent.on_spurious(5);
        (0..15).for_each(|_| sent.on_recovery());
        assert_eq!(patient(&sent), (8, 2), "a late packet restarts the count");
        sent.on_recovery();
        assert_eq!(patient(&sent), (REORDERING, 0));
        sent.on_recovery();
        assert_eq!(patient(&sent), (REORDERING, 0));
    }

    #[test]
    fn never_sent_and_acknowledged_twice() {
        let mut sent = sent(3);
        let mut settled = vec![];
        assert!(!sent.acknowledge(0, 3, &mut settled) && settled.is_empty());
        assert!(sent.acknowledge(0, 2, &mut settled) && sent.acknowledge(0, 2, &mut settled));
        assert_eq!((settled.len(), sent.in_flight(), sent.is_flying()), (3, 0, false));
        sent.push(&Leaving { now: at(9), ..Leaving::default() });
        assert_eq!((sent.next_number(), sent.rows.len()), (4, 0), "it is never acknowledged");
    }

    #[test]
    fn one_that_is_not_acknowledged_is_found_by_the_low_bits_of_its_number() {
        let mut sent = Sent { next: (1 << 32) - 2, ..Sent::new(64) };
        (0..4).for_each(|ms| sent.push(&Leaving { now: at(ms), bytes: 100, ..Leaving::default() }));
        let find = |sent: &Sent, low| sent.unsettled(low).map(|packet| packet.number);
        assert_eq!([find(&sent, u32::MAX - 2), find(&sent, 2)], [None; 2], "never sent");
        assert_eq!([find(&sent, u32::MAX), find(&sent, 1)], [Some((1 << 32) - 1), Some((1 << 32) + 1)]);
        sent.acknowledge(1 << 32, 1 << 32, &mut vec![]);
        assert_eq!(find(&sent, 0), None, "it is acknowledged");
    }

    #[test]
    fn what_arrives_soon_is_not_overtaken_and_nothing_twice() {
        let mut sent = Sent::new(64);
        let contents = |first| Contents { first, count: 1, ..Contents::default() };
        for serial in 0..6 {
            let contents = if serial == 3 { Contents::default() } else { contents(serial) };
            let arrives = at(10 + serial);
            sent.push(&Leaving { now: at(0), arrives, bytes: 100, contents, ..Leaving::default() });
        }
        sent.acknowledge(4, 4, &mut vec![]);
        assert_eq!(sent.overtaken(at(11)), Some(contents(2)));
        assert_eq!(sent.overtaken(at(11)), Some(contents(5)), "the fourth has no segments, and the fifth has arrived");
        assert_eq!((sent.overtaken(at(11)), sent.overtaken(at(0))), (None, None), "each is returned once");
    }

    #[test]
    fn packets_of_a_demoted_rail_may_still_arrive() {
        let mut sent = sent(3);
        let (mut settled, mut left) = (vec![], vec![]);
        sent.acknowledge(0, 0, &mut settled);
        sent.leave(&mut left);
        assert_eq!((left.len(), sent.in_flight(), sent.is_flying()), (2, 0, false));
        settled.clear();
        sent.acknowledge(1, 2, &mut settled);
        assert!(settled.iter().all(|packet| !packet.was_lost) && settled.len() == 2);
    }

    #[test]
    fn full() {
        let sent = sent(48);
        assert!(!sent.has_room(true) && sent.has_room(false));
    }
    #[test]
    fn of_a_row_single_packets_are_lost() {
        let mut sent = sent(2);
        let contents = Contents { count: 1, part: Some(Span { start: 0, length: 90 }), ..Contents::default() };
        sent.push_row(&Leaving { now: at(2), bytes: 100, contents, ..Leaving::default() }, 8);
        sent.skip(at(2));
        assert_eq!((sent.next_number(), sent.in_flight(), sent.used()), (11, 1000, 11));
        let (mut settled, mut lost) = (vec![], vec![]);
        assert!(sent.acknowledge(0, 4, &mut settled) && sent.acknowledge(7, 7, &mut settled));
        let numbers = |packets: &[Packet]| packets.iter().map(Packet::numbers).collect::<Vec<_>>();
        assert_eq!(numbers(&settled), [2..5, 1..2, 0..1, 7..8]);
        // Three behind the seventh is the fourth, which has come.
        sent.detect(at(3), Duration::from_millis(9), &mut lost);
        assert_eq!((lost.len(), sent.loss_at(), sent.in_flight()), (0, Some(at(11)), 400));
        assert!(sent.acknowledge(8, 8, &mut settled));
        sent.detect(at(4), Duration::from_millis(9), &mut lost);
        assert_eq!(lost.iter().map(|packet| packet.number).collect::<Vec<_>>(), [5]);
        assert_eq!(lost[0].contents.part, Some(Span { start: 270, length: 90 }));
        assert_eq!(sent.unsettled(5).map(|packet| packet.was_lost), Some(true));
        settled.clear();
        assert!(sent.acknowledge(5, 9, &mut settled));
        assert_eq!(numbers(&settled), [9..10, 6..7, 5..6]);
        assert_eq!((sent.in_flight(), sent.is_flying()), (0, false));
        sent.pop_settled(at(5), Duration::from_millis(36));
        assert_eq!(sent.used(), 0);
    }

    #[test]
    fn where_all_slots_are_taken_the_oldest_row_makes_room() {
        let mut sent = Sent::new(64);
        sent.push_row(&Leaving { bytes: 100, ..Leaving::default() }, 60);
        assert!(sent.make_room().is_none() && sent.has_room(false) && sent.room() == 0);
        sent.push_row(&Leaving { bytes: 100, ..Leaving::default() }, 4);
        assert_eq!(sent.make_room().map(|packet| packet.numbers()), Some(0..60));
        assert_eq!((sent.in_flight(), sent.used()), (400, 4));
    }
}
