//! What a receiver has seen.

use serde::{Deserialize, Serialize};

/// What came of a paced stream, in the order in which it came. All times are of one clock, the machine's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stream {
    /// Packets that were sent; their numbers are from 0.
    pub(crate) sent: u64,
    /// Of each that came, its number.
    pub(crate) numbers: Vec<u64>,
    /// When it was sent, in nanoseconds.
    pub(crate) sent_ns: Vec<u64>,
    /// When the kernel handed it to the receiver's host, in nanoseconds.
    pub(crate) came_ns: Vec<u64>,
    /// Bytes of IP that each had.
    pub(crate) bytes: u64,
    /// Packets that this machine lost where the emulator does not: the receiver's socket had no room for them.
    pub(crate) missed: u64,
}

impl Stream {
    /// How long each took, in nanoseconds, in the order in which they came.
    pub(crate) fn delays(&self) -> Vec<f64> {
        self.came_ns.iter().zip(&self.sent_ns).map(|(came, sent)| *came as f64 - *sent as f64).collect()
    }

    /// The same for each packet that came, in the order in which they were sent; of those that came twice the first.
    pub(crate) fn delays_as_sent(&self) -> Vec<(u64, f64)> {
        let mut all: Vec<_> = self.numbers.iter().copied().zip(self.delays()).collect();
        all.sort_by_key(|(number, _)| *number);
        all.dedup_by_key(|(number, _)| *number);
        all
    }

    /// Of each that was sent, how often it came.
    pub(crate) fn copies(&self) -> Vec<u32> {
        let mut copies = vec![0; usize::try_from(self.sent).unwrap_or_default()];
        for number in &self.numbers {
            if let Some(count) = usize::try_from(*number).ok().and_then(|number| copies.get_mut(number)) {
                *count += 1;
            }
        }
        copies
    }

    /// Packets of which one came before that was sent later (reordered, RFC 4737 section 3.3).
    pub(crate) fn reordered(&self) -> u64 {
        let mut next = 0;
        let mut reordered = 0;
        for number in &self.numbers {
            reordered += u64::from(*number < next);
            next = next.max(number + 1);
        }
        reordered
    }
}

/// What came of a stream without numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Flow {
    /// Nanoseconds since the first byte, and how many bytes had come by then; a point each 10 ms at most.
    pub(crate) points: Vec<(u64, u64)>,
    /// Bytes of payload in a segment; 0: it has none.
    pub(crate) segment_bytes: u32,
    /// Whether this kernel lacks the congestion control that was wanted.
    pub(crate) lacks_control: bool,
}

impl Flow {
    /// Bits in a second, without the first part of the time, in which TCP learns how fast it may be.
    pub(crate) fn bits_per_s(&self, without: f64) -> Option<f64> {
        let (last, bytes) = *self.points.last()?;
        let from = last as f64 * without;
        let (first, before) = *self.points.iter().find(|(at, _)| *at as f64 >= from)?;
        (last > first).then(|| (bytes - before) as f64 * 8e9 / (last - first) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_late_twice_and_not_at_all_is_told_apart() {
        let numbers = vec![0, 2, 1, 1, 5];
        let stream = Stream { sent: 6, sent_ns: vec![0; 5], came_ns: vec![1; 5], numbers, ..Stream::default() };
        assert_eq!(stream.copies(), [1, 2, 1, 0, 0, 1]);
        assert_eq!(stream.reordered(), 2);
        assert_eq!(stream.delays_as_sent(), [(0, 1.0), (1, 1.0), (2, 1.0), (5, 1.0)]);
    }

    #[test]
    fn the_beginning_of_a_flow_does_not_count() {
        let flow = Flow { points: vec![(0, 100), (500, 200), (1000, 1200)], ..Flow::default() };
        assert_eq!(flow.bits_per_s(0.5), Some(1000.0 * 8e9 / 500.0));
        assert_eq!(Flow::default().bits_per_s(0.5), None);
        assert_eq!(Flow { points: vec![(0, 1)], ..Flow::default() }.bits_per_s(0.0), None);
    }
}
