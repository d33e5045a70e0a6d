//! Received packets of a rail: which are acknowledged, and when.

use core::ops::RangeInclusive;
use core::time::Duration;

use arrayvec::ArrayVec;
use weft_base::Time;
use weft_wire::edge::ack::{Ack, EcnCounts, MAX_MORE_RANGES, MoreRanges, RANGE_LENGTH, pack_range};

/// The maximum number of remembered ranges. Numbers below the lowest count as received.
const MAX_RANGES: usize = MAX_MORE_RANGES + 1;
/// A range is acknowledged this many times after it has grown, in case acknowledgements are lost.
const REPEATS: u8 = 4;
/// A gap this far back is acknowledged at once (RFC 9002 section 6.1.1).
const REORDERING: u64 = 3;
/// A sender of this many packets without an acknowledgement or an answer has more to send, and waits for it: an
/// acknowledgement that was held for an answer let small buffers overflow (`incast` of the simulator).
const BULK: u32 = 2;

/// Room for the packed ranges of one acknowledgement.
pub(crate) type Packed = ArrayVec<u8, { MAX_MORE_RANGES * RANGE_LENGTH }>;

#[derive(Clone, Copy, Debug)]
struct Range {
    low: u64,
    high: u64,
    repeats: u8,
}

/// Why an acknowledgement is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckRequest {
    pub(crate) at_once: bool,
    pub(crate) every: u32,
    pub(crate) delay: Duration,
}

/// The received packets of a rail.
#[derive(Clone, Debug, Default)]
pub(crate) struct Received {
    /// Lowest first.
    ranges: ArrayVec<Range, { MAX_RANGES + 1 }>,
    /// Packets below this are no longer accepted.
    floor: u64,
    /// One more than the highest number seen.
    next: u64,
    largest_at: Time,
    ecn: EcnCounts,
    unacknowledged: u32,
    /// Packets received since the last acknowledgement or answer.
    row: u32,
    /// The same before that.
    last_row: u32,
    due: Option<Time>,
    /// The last gap that was acknowledged at once.
    acknowledged_gap: u64,
}

impl Received {
    /// The expected number of the next packet.
    pub(crate) fn expected(&self) -> u64 {
        self.next
    }

    /// Whether a packet was accepted before, or is too old to tell.
    pub(crate) fn is_repeat(&self, number: u64) -> bool {
        number < self.floor || self.ranges.iter().any(|range| (range.low..=range.high).contains(&number))
    }

    /// A packet was received, accepted or not.
    pub(crate) fn see(&mut self, number: u64) {
        self.next = self.next.max(number + 1);
    }

    /// Accepts a packet, all of which is placed. `ecn`: the two bits of its IP header.
    pub(crate) fn take(&mut self, number: u64, ecn: u8, now: Time) {
        self.take_all(&(number..=number), ecn, now);
    }

    /// Accepts packets in a row, all of which are placed and none of which was accepted before. `ecn`: the two bits of
    /// their IP headers.
    pub(crate) fn take_all(&mut self, numbers: &RangeInclusive<u64>, ecn: u8, now: Time) {
        let count = (numbers.end() - numbers.start() + 1) as u32;
        match ecn & 3 {
            1 => self.ecn.ect1 = self.ecn.ect1.wrapping_add(count),
            2 => self.ecn.ect0 = self.ecn.ect0.wrapping_add(count),
            3 => self.ecn.ce = self.ecn.ce.wrapping_add(count),
            _ => {}
        }
        if self.ranges.last().is_none_or(|last| *numbers.end() > last.high) {
            self.largest_at = now;
        }
        self.insert(*numbers.start(), *numbers.end());
    }

    fn insert(&mut self, low: u64, high: u64) {
        let above = self.ranges.iter().rposition(|range| range.low <= low).map_or(0, |index| index + 1);
        let joins_below = above > 0 && self.ranges[above - 1].high + 1 == low;
        let joins_above = self.ranges.get(above).is_some_and(|range| range.low == high + 1);
        match (joins_below, joins_above) {
            (true, true) => {
                let upper = self.ranges.remove(above);
                self.grow(above - 1, self.ranges[above - 1].low, upper.high);
            }
            (true, false) => self.grow(above - 1, self.ranges[above - 1].low, high),
            (false, true) => self.grow(above, low, self.ranges[above].high),
            (false, false) => self.ranges.insert(above, Range { low, high, repeats: REPEATS }),
        }
        if self.ranges.len() > MAX_RANGES {
            self.floor = self.ranges.remove(0).high + 1;
        }
    }

    fn grow(&mut self, index: usize, low: u64, high: u64) {
        self.ranges[index] = Range { low, high, repeats: REPEATS };
    }

    /// The sender requests an acknowledgement of packet `number`.
    pub(crate) fn request(&mut self, number: u64, request: AckRequest, now: Time) {
        self.request_for(&(number..=number), request, now);
    }

    /// The sender requests an acknowledgement of these packets.
    pub(crate) fn request_for(&mut self, numbers: &RangeInclusive<u64>, request: AckRequest, now: Time) {
        let count = (numbers.end() - numbers.start() + 1) as u32;
        self.unacknowledged += count;
        self.row = self.row.saturating_add(count);
        let late = numbers.end() + 1 < self.next;
        if request.at_once || late || self.unacknowledged >= request.every || self.has_new_gap() {
            self.due = Some(now);
        } else if self.due.is_none() {
            self.due = Some(now + request.delay);
        }
    }

    /// Whether the newest gap is far enough back to be loss rather than reordering, and was not acknowledged yet.
    fn has_new_gap(&mut self) -> bool {
        let Some(last) = self.ranges.last() else { return false };
        let is_new = last.low > self.floor && last.low > self.acknowledged_gap && self.next >= last.low + REORDERING;
        if is_new {
            self.acknowledged_gap = last.low;
        }
        is_new
    }

    /// When an acknowledgement is to be sent.
    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Whether the sender is in a bulk transfer.
    pub(crate) fn is_bulk(&self) -> bool {
        self.last_row.max(self.row) >= BULK
    }

    /// Segments are sent, perhaps the answer to what was received.
    pub(crate) fn answer(&mut self) {
        if self.row > 0 {
            (self.last_row, self.row) = (self.row, 0);
        }
    }

    /// Whether anything is not acknowledged yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.unacknowledged > 0
    }

    /// The acknowledgement to send now.
    pub(crate) fn acknowledge<'a>(
        &mut self,
        rail: u8,
        credit: u32,
        now: Time,
        packed: &'a mut Packed,
    ) -> Option<Ack<'a>> {
        let largest = *self.ranges.last()?;
        (self.last_row, self.row, self.unacknowledged, self.due) = (self.row, 0, 0, None);
        packed.clear();
        let mut low = first_low(&largest);
        for range in self.ranges.iter_mut().rev().filter(|range| range.repeats > 0) {
            range.repeats -= 1;
            let (gap, length) = (low.saturating_sub(range.high + 1), range.high - range.low + 1);
            if range.high == largest.high {
                continue;
            }
            let (Ok(gap), Ok(length)) = (u32::try_from(gap), u32::try_from(length)) else { break };
            if packed.try_extend_from_slice(&pack_range(gap, length)).is_err() {
                break;
            }
            low = range.low;
        }
        Some(Ack {
            rail,
            largest: largest.high,
            first: (largest.high - first_low(&largest)) as u32,
            delay_us: u32::try_from(now.since(self.largest_at).as_micros()).unwrap_or(u32::MAX),
            ecn: self.ecn,
            credit,
            overflows: 0,
            more: MoreRanges::packed(packed),
        })
    }
}

/// The lowest number of the first range that fits into its field.
fn first_low(range: &Range) -> u64 {
    range.low.max(range.high.saturating_sub(u64::from(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(numbers: &[u64]) -> Received {
        let mut received = Received::default();
        for number in numbers {
            received.see(*number);
            received.take(*number, 2, Time::ZERO);
        }
        received
    }

    fn acknowledged(received: &mut Received) -> Vec<(u64, u64)> {
        let mut packed = Packed::new();
        let ack = received.acknowledge(0, 0, Time::ZERO, &mut packed).unwrap();
        ack.ranges().map(|range| (*range.start(), *range.end())).collect()
    }

    #[test]
    fn ranges_join() {
        let mut received = received(&[0, 2, 1, 7, 5, 4, 9]);
        assert_eq!(acknowledged(&mut received), [(9, 9), (7, 7), (4, 5), (0, 2)]);
        assert!(received.is_repeat(5) && !received.is_repeat(6) && !received.is_repeat(10));
    }

    #[test]
    fn a_range_is_acknowledged_a_limited_number_of_times() {
        let mut received = received(&[0, 2, 4]);
        (0..REPEATS).for_each(|_| assert_eq!(acknowledged(&mut received).len(), 3));
        assert_eq!(acknowledged(&mut received), [(4, 4)]);
        received.take(1, 0, Time::ZERO);
        assert_eq!(acknowledged(&mut received), [(4, 4), (0, 2)]);
    }

    #[test]
    fn what_is_forgotten_is_not_taken_again() {
        let numbers: Vec<u64> = (0..100).map(|n| 2 * n).collect();
        let mut received = received(&numbers);
        assert_eq!(acknowledged(&mut received).len(), MAX_RANGES);
        assert!(received.is_repeat(1) && received.is_repeat(133) && !received.is_repeat(137));
    }

    #[test]
    fn packets_in_a_row_are_bulk_and_answered_ones_are_not() {
        let request = AckRequest { at_once: false, every: 100, delay: Duration::from_millis(1) };
        let mut received = Received::default();
        let mut number = 0;
        let mut come = |received: &mut Received| {
            received.see(number);
            received.take(number, 0, Time::ZERO);
            received.request(number, request, Time::ZERO);
            number += 1;
        };
        for _ in 0..5 {
            come(&mut received);
            assert!(!received.is_bulk());
            received.answer();
        }
        come(&mut received);
        come(&mut received);
        assert!(received.is_bulk());
        received.answer();
        come(&mut received);
        assert!(received.is_bulk(), "it was until just now");
        received.answer();
        come(&mut received);
        assert!(!received.is_bulk());
        come(&mut received);
        acknowledged(&mut received);
        come(&mut received);
        assert!(received.is_bulk(), "an acknowledgement is no answer");
    }

    #[test]
    fn at_once_for_a_gap_else_later() {
        let mut received = Received::default();
        let request = AckRequest { at_once: false, every: 8, delay: Duration::from_millis(1) };
        let now = Time::from_nanos(5_000_000);
        for (number, at_once) in [(0, false), (1, false), (3, false), (4, false), (5, true)] {
            received.see(number);
            received.take(number, 0, now);
            received.request(number, request, now);
            assert_eq!(received.due() == Some(now), at_once, "{number}");
        }
        acknowledged(&mut received);
        for number in 6..14 {
            assert_eq!(received.due(), (number > 6).then_some(now + request.delay));
            received.see(number);
            received.take(number, 0, now);
            received.request(number, request, now);
        }
        assert_eq!(received.due(), Some(now), "every eighth");
    }
}
