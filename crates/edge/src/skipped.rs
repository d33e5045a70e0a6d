//! Packet numbers that are never used, to detect a peer that acknowledges packets that it has not received (RFC 9000
//! section 21.4): it would make this side send faster than the path carries, or treat segments as placed that are not.

use core::ops::RangeInclusive;
use std::collections::VecDeque;

use weft_base::Random;

/// At least this many packets are sent between two skipped numbers, and up to as many more, at random. Each skipped
/// number is a gap, which takes 8 bytes in each of four acknowledgements.
const LEAST_BETWEEN: u64 = 128;
const MOST_MORE: u64 = 1024;
/// The number of remembered ones at least. Those among packets in flight are all remembered: a peer could acknowledge
/// the oldest of many packets before they arrive.
const REMEMBERED: usize = 8;
/// Memory is made for this many at first. It grows with the packets in flight.
const ROOM: usize = 32;

/// The numbers of a rail that are skipped.
#[derive(Debug, Default)]
pub(crate) struct Skipped {
    /// The next one, once it is chosen.
    next: Option<u64>,
    /// The latest ones, the lowest first.
    recent: VecDeque<u64>,
}

impl Skipped {
    /// The next number that is to be skipped, where `number` is the next packet's.
    pub(crate) fn next(&mut self, number: u64, random: &mut Random) -> u64 {
        *self.next.get_or_insert_with(|| after(number, random))
    }

    /// Whether `number`, the next packet's, is to be skipped. Then it is remembered, at least as long as packets in
    /// flight have lower numbers, the lowest of which is `oldest`.
    pub(crate) fn skips(&mut self, number: u64, oldest: u64, random: &mut Random) -> bool {
        if number < self.next(number, random) {
            return false;
        }
        if self.recent.capacity() == 0 {
            self.recent.reserve(ROOM);
        }
        while self.recent.len() >= REMEMBERED && self.recent.front().is_some_and(|first| *first < oldest) {
            self.recent.pop_front();
        }
        self.recent.push_back(number);
        self.next = Some(after(number, random));
        true
    }

    /// Whether one of these numbers was skipped: no honest peer acknowledges it.
    pub(crate) fn has_any(&self, numbers: &RangeInclusive<u64>) -> bool {
        let at = self.recent.partition_point(|number| number < numbers.start());
        self.recent.get(at).is_some_and(|number| number <= numbers.end())
    }
}

fn after(number: u64, random: &mut Random) -> u64 {
    number + LEAST_BETWEEN + random.below(MOST_MORE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_skipped_now_and_then_and_the_latest_are_remembered() {
        let (mut skipped, mut random) = (Skipped::default(), Random::new(5));
        let mut numbers = Vec::new();
        for number in 0..100_000 {
            if skipped.skips(number, number, &mut random) {
                numbers.push(number);
            }
        }
        assert!((100_000 / 1152..=100_000 / 128).contains(&(numbers.len() as u64)), "{}", numbers.len());
        assert!(numbers.windows(2).all(|two| (LEAST_BETWEEN..LEAST_BETWEEN + MOST_MORE).contains(&(two[1] - two[0]))));
        let (old, recent) = numbers.split_at(numbers.len() - REMEMBERED);
        assert!(recent.iter().all(|number| skipped.has_any(&(*number..=*number))));
        assert!(!old.iter().any(|number| skipped.has_any(&(*number..=*number))));
        assert!(!skipped.has_any(&(recent[0] + 1..=recent[1] - 1)));
        assert!(skipped.has_any(&(0..=recent[0])));
    }

    /// RFC 9000 section 21.4.
    #[test]
    fn all_numbers_that_are_skipped_among_packets_in_flight_are_remembered() {
        let (mut skipped, mut random) = (Skipped::default(), Random::new(5));
        // As many as a rail may have in flight, twice.
        let in_flight = crate::Settings::default().sent_packets as u64;
        let numbers: Vec<u64> =
            (0..2 * in_flight).filter(|n| skipped.skips(*n, n.saturating_sub(in_flight), &mut random)).collect();
        let (old, recent) = numbers.split_at(numbers.partition_point(|number| *number < in_flight));
        assert!(recent.len() > 2 * REMEMBERED, "{}", recent.len());
        assert!(recent.iter().all(|number| skipped.has_any(&(*number..=*number))));
        assert!(!skipped.has_any(&(0..=old[old.len() / 2])), "others are forgotten");
    }
}
