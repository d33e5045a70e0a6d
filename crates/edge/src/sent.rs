//! Sent packets of a rail that are not settled: which are acknowledged, which are lost (RFC 9002 section 6.1).

use core::time::Duration;
use std::collections::VecDeque;

use weft_base::Time;
use weft_congestion::Stamp;

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

/// The contents of a packet that must arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// The first segment's serial.
    pub(crate) first: u64,
    /// Number of consecutive segments.
    pub(crate) count: u16,
    /// Set if it holds only this part of the one segment.
    pub(crate) part: Option<u8>,
    /// Frames, as bits of [`crate::connection::control`].
    pub(crate) controls: u8,
    /// An MTU probe: it only tests whether a datagram of its size passes.
    pub(crate) is_probe: bool,
}

/// A packet that is being sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Leaving {
    pub(crate) now: Time,
    /// Estimated time of arrival.
    pub(crate) arrives: Time,
    /// 0 when it will not be acknowledged.
    pub(crate) bytes: u32,
    pub(crate) contents: Contents,
    /// Whether it is sent with ECT.
    pub(crate) ect: bool,
    pub(crate) stamp: Stamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Flying,
    Lost,
    /// Its rail was demoted or closed.
    Left,
    Done,
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) number: u64,
    pub(crate) sent: Time,
    pub(crate) bytes: u32,
    pub(crate) contents: Contents,
    /// Estimated time of arrival.
    arrives: Time,
    /// Whether it was declared lost before it was acknowledged.
    pub(crate) was_lost: bool,
    /// Whether its rail was demoted or closed since.
    pub(crate) was_left: bool,
    /// Whether it was sent with ECT.
    pub(crate) ect: bool,
    /// Whether its contents were retransmitted over a faster rail.
    is_overtaken: bool,
    /// How much had been delivered when it was sent.
    pub(crate) stamp: Stamp,
    state: State,
}

/// The packets, by number: a ring without gaps.
#[derive(Debug)]
pub(crate) struct Sent {
    packets: VecDeque<Packet>,
    first: u64,
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
    /// Packets below these numbers have been checked for overtaking: when nothing else was to be sent, and in bulk.
    overtaken: [u64; 2],
    /// No packet below this number is in flight.
    settled_to: u64,
}

impl Sent {
    pub(crate) fn new(most: usize) -> Self {
        let most = most.max(2 * RESERVE);
        Self {
            // It grows with the packets in flight.
            packets: VecDeque::new(),
            first: 0,
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
            overtaken: [0; 2],
            settled_to: 0,
        }
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// Whether one more may be sent, with segments or without.
    pub(crate) fn has_room(&self, segments: bool) -> bool {
        self.packets.len() < self.most - if segments { RESERVE } else { 0 }
    }

    /// Frees a slot when none is left. Returns a packet in flight whose contents are to be retransmitted.
    pub(crate) fn make_room(&mut self) -> Option<Packet> {
        if self.has_room(false) {
            return None;
        }
        let lost = self.settle(self.first).filter(|packet| !packet.was_lost && !packet.was_left);
        self.packets.pop_front();
        self.first += 1;
        lost
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
        let Leaving { now, arrives, bytes, contents, ect, stamp } = *leaving;
        let state = if bytes == 0 { State::Done } else { State::Flying };
        let number = self.next_number();
        let packet = Packet {
            number,
            sent: now,
            bytes,
            contents,
            arrives,
            was_lost: false,
            was_left: false,
            ect,
            is_overtaken: false,
            stamp,
            state,
        };
        self.packets.push_back(packet);
        if bytes > 0 {
            self.flying += 1;
            self.in_flight += u64::from(bytes);
            self.last_sent = now;
        }
        self.pass_settled();
        self.pop_settled(now, Duration::MAX);
    }

    /// Skips the next number. There must be a slot for it.
    pub(crate) fn skip(&mut self, now: Time) {
        self.push(&Leaving { now, ..Leaving::default() });
    }

    /// The peer acknowledges this range; newly acknowledged packets are put into `settled`. Returns false when one was
    /// never sent.
    pub(crate) fn acknowledge(&mut self, low: u64, high: u64, settled: &mut Vec<Packet>) -> bool {
        if high >= self.next_number() {
            return false;
        }
        for number in (low.max(self.first)..=high).rev() {
            settled.extend(self.settle(number));
        }
        self.largest_acked = self.largest_acked.max(Some(high));
        true
    }

    /// An unacknowledged packet, by the low 32 bits of its number. There are never enough packets for two to share
    /// these.
    pub(crate) fn unsettled(&self, number: u32) -> Option<&Packet> {
        let index = number.wrapping_sub(self.first as u32);
        self.packets.get(index as usize).filter(|packet| packet.state != State::Done)
    }

    /// Whether a packet without an acknowledgement had this number, or none: as far as it is not forgotten.
    pub(crate) fn was_unasked(&self, number: u64) -> bool {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        index.and_then(|index| self.packets.get(index)).is_some_and(|packet| packet.bytes == 0)
    }

    /// Removes a packet, in flight or declared lost.
    pub(crate) fn settle(&mut self, number: u64) -> Option<Packet> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let packet = self.packets.get_mut(index)?;
        match core::mem::replace(&mut packet.state, State::Done) {
            State::Done => return None,
            State::Lost => packet.was_lost = true,
            State::Left => packet.was_left = true,
            State::Flying => {
                self.flying -= 1;
                self.in_flight -= u64::from(packet.bytes);
            }
        }
        let packet = *packet;
        self.pass_settled();
        Some(packet)
    }

    /// The contents of the oldest packet in flight that has segments and arrives later than `soon`. Each packet is
    /// returned once; those before it are checked only once in bulk and once otherwise.
    pub(crate) fn overtaken(&mut self, soon: Time, in_bulk: bool) -> Option<Contents> {
        let looked = &mut self.overtaken[usize::from(in_bulk)];
        *looked = (*looked).max(self.first);
        let from = (*looked - self.first) as usize;
        for packet in self.packets.range_mut(from..) {
            *looked = packet.number + 1;
            let is_late = packet.state == State::Flying && packet.contents.count > 0 && packet.arrives > soon;
            if is_late && !core::mem::replace(&mut packet.is_overtaken, true) {
                return Some(packet.contents);
            }
        }
        None
    }

    /// The packets in flight.
    pub(crate) fn flying(&self) -> impl Iterator<Item = &Packet> {
        self.packets.iter().filter(|packet| packet.state == State::Flying)
    }

    /// The rail is demoted or closed: puts all packets in flight into `left`. They may still turn out to have arrived.
    pub(crate) fn leave(&mut self, left: &mut Vec<Packet>) {
        for packet in self.packets.iter_mut().filter(|packet| packet.state == State::Flying) {
            packet.state = State::Left;
            left.push(*packet);
        }
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
        let Some(largest) = self.largest_acked else { return };
        let before = lost.len();
        let from = self.settled_to.saturating_sub(self.first) as usize;
        let older = self.packets.range_mut(from.min(self.packets.len())..).take_while(|packet| packet.number < largest);
        for packet in older.filter(|packet| packet.state == State::Flying) {
            let due = packet.sent + delay;
            if packet.number + self.reordering <= largest || due <= now {
                packet.state = State::Lost;
                self.flying -= 1;
                self.in_flight -= u64::from(packet.bytes);
                lost.push(*packet);
            } else if self.loss_at.is_none_or(|at| due < at) {
                self.loss_at = Some(due);
            }
        }
        if lost.len() > before {
            self.orderly_from = self.next_number() + self.orderly_after;
            self.orderly_after = (self.orderly_after * 2).min(MAX_ORDERLY_AFTER);
        }
        self.pass_settled();
    }

    /// The oldest packet in flight.
    pub(crate) fn oldest(&self) -> Option<&Packet> {
        self.oldest_ones().next()
    }

    /// The oldest packet in flight that is not an MTU probe, which may have been too large.
    pub(crate) fn oldest_content(&self) -> Option<&Packet> {
        self.oldest_ones().find(|packet| !packet.contents.is_probe)
    }

    fn oldest_ones(&self) -> impl Iterator<Item = &Packet> {
        let from = self.settled_to.saturating_sub(self.first) as usize;
        self.packets.range(from.min(self.packets.len())..).filter(|packet| packet.state == State::Flying)
    }

    /// Moves `settled_to` on to the oldest packet in flight: each number is passed once.
    fn pass_settled(&mut self) {
        let from = self.settled_to.max(self.first);
        let settled = self.packets.range((from - self.first) as usize..);
        self.settled_to = from + settled.take_while(|packet| packet.state != State::Flying).count() as u64;
    }

    /// Releases memory that no packet in flight needs.
    pub(crate) fn shrink(&mut self) {
        self.packets.shrink_to(IDLE_PACKETS);
    }

    /// Forgets settled packets. Those declared lost stay a while: an acknowledgement may show that the loss was
    /// spurious.
    pub(crate) fn pop_settled(&mut self, now: Time, keep: Duration) {
        let crowded = self.packets.len() > self.most / 2;
        while let Some(front) = self.packets.front() {
            let settled = match front.state {
                State::Done => true,
                State::Flying => false,
                State::Lost | State::Left => crowded || front.sent + keep < now,
            };
            if !settled {
                return;
            }
            self.packets.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!((sent.next_number(), sent.packets.len()), (4, 0), "it is never acknowledged");
    }

    #[test]
    fn one_that_is_not_acknowledged_is_found_by_the_low_bits_of_its_number() {
        let mut sent = Sent { first: (1 << 32) - 2, ..Sent::new(64) };
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
        assert_eq!(sent.overtaken(at(14), true), Some(contents(5)), "in bulk only packets that arrive much later");
        assert_eq!(sent.overtaken(at(11), false), Some(contents(2)));
        assert_eq!(sent.overtaken(at(11), false), None, "each is returned once");
        assert_eq!((sent.overtaken(at(0), false), sent.overtaken(at(0), true)), (None, None));
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
        assert!(settled.iter().all(|packet| packet.was_left && !packet.was_lost) && settled.len() == 2);
    }

    #[test]
    fn full() {
        let sent = sent(48);
        assert!(!sent.has_room(true) && sent.has_room(false));
    }
}
