//! How much may be under way, and how fast it leaves: a window that grows by what is acknowledged and is cut once per
//! round
//! trip by loss (RFC 9002 section 7), and a pacer. A cut that was made for a loss which was none is taken back.

use core::time::Duration;

use weft_base::Time;
use weft_wire::edge::BASE_DATAGRAM;

const LEAST: u64 = 2 * BASE_DATAGRAM as u64;

/// The window of a rail.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    bytes: u64,
    threshold: u64,
    /// Packets sent before this belong to a loss that has been answered.
    recovery: Option<Time>,
    /// What was before the last cut, and how many packets were held to be lost for it.
    before: Option<(u64, u64, u32)>,
}

impl Window {
    pub(crate) fn new(datagrams: u32) -> Self {
        let bytes = u64::from(datagrams) * BASE_DATAGRAM as u64;
        Self { bytes: bytes.max(LEAST), threshold: u64::MAX, recovery: None, before: None }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A packet of `bytes` sent at `sent` is acknowledged. `full`: the window was what held the sender back.
    pub(crate) fn on_ack(&mut self, bytes: u64, sent: Time, datagram: u64, full: bool) {
        if !full || self.recovery.is_some_and(|recovery| sent <= recovery) {
            return;
        }
        if self.bytes < self.threshold {
            self.bytes += bytes;
        } else {
            self.bytes += (datagram * bytes / self.bytes).max(1);
        }
    }

    /// A packet that was sent at `sent` is lost, or came with a mark.
    pub(crate) fn on_congestion(&mut self, sent: Time, now: Time) {
        if self.recovery.is_some_and(|recovery| sent <= recovery) {
            if let Some((_, _, packets)) = &mut self.before {
                *packets += 1;
            }
            return;
        }
        self.before = Some((self.bytes, self.threshold, 1));
        self.recovery = Some(now);
        self.bytes = (self.bytes * 7 / 10).max(LEAST);
        self.threshold = self.bytes;
    }

    /// A packet that was held to be lost has arrived after all. When all of them have, the cut was for nothing.
    pub(crate) fn on_spurious(&mut self, sent: Time) {
        if self.recovery.is_none_or(|recovery| sent > recovery) {
            return;
        }
        if let Some((bytes, threshold, packets)) = &mut self.before {
            *packets -= 1;
            if *packets == 0 {
                self.bytes = self.bytes.max(*bytes);
                self.threshold = *threshold;
                self.before = None;
            }
        }
    }

    /// Nothing arrives any more.
    pub(crate) fn collapse(&mut self, now: Time) {
        self.bytes = LEAST;
        self.recovery = Some(now);
        self.before = None;
    }
}

/// Spreads packets over the round trip.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pacer {
    /// When what has left would have left at an even rate.
    due: Time,
}

impl Pacer {
    /// The time from which on something may leave: at most `burst` ahead of the even rate.
    pub(crate) fn free_at(&self, burst: Duration) -> Time {
        Time::from_nanos(self.due.as_nanos().saturating_sub(burst.as_nanos() as u64))
    }

    /// `bytes` leave now, of a window of `window` bytes per `round_trip`. 5/4 of that rate, so that pacing is not
    /// what limits
    /// (RFC 9002 section 7.7).
    pub(crate) fn on_sent(&mut self, bytes: u64, window: u64, round_trip: Duration, now: Time) {
        let nanos = round_trip.as_nanos() as u64 * 4 / 5;
        let takes = u128::from(nanos) * u128::from(bytes) / u128::from(window.max(1));
        self.due = self.due.max(now) + Duration::from_nanos(takes as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn one_cut_per_round_trip_and_back_when_it_was_for_nothing() {
        let mut window = Window::new(100);
        window.on_congestion(at(1), at(10));
        window.on_congestion(at(2), at(11));
        assert_eq!(window.bytes(), 84_000);
        window.on_spurious(at(1));
        assert_eq!(window.bytes(), 84_000);
        window.on_spurious(at(2));
        assert_eq!(window.bytes(), 120_000);
        window.on_spurious(at(2));
        (0..100).for_each(|n| window.on_congestion(at(20 + n), at(20 + n)));
        assert_eq!(window.bytes(), LEAST);
    }

    #[test]
    fn it_doubles_and_then_grows_by_a_datagram() {
        let mut window = Window::new(10);
        (0..10).for_each(|_| window.on_ack(1200, at(1), 1200, true));
        assert_eq!(window.bytes(), 24_000);
        window.on_ack(1200, at(1), 1200, false);
        assert_eq!(window.bytes(), 24_000, "not used to the full");
        window.on_congestion(at(2), at(3));
        let cut = window.bytes();
        (0..14).for_each(|_| window.on_ack(1200, at(4), 1200, true));
        assert!((cut + 1100..=cut + 1200).contains(&window.bytes()));
    }

    #[test]
    fn a_burst_then_an_even_rate() {
        let mut pacer = Pacer::default();
        let burst = Duration::from_millis(1);
        assert_eq!(pacer.free_at(burst), Time::ZERO);
        (0..10).for_each(|_| pacer.on_sent(1000, 10_000, Duration::from_millis(10), at(100)));
        assert_eq!(pacer.free_at(burst), at(107));
    }
}
