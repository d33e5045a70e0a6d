//! How much may be in flight: the congestion window, by CUBIC (RFC 9438) or Reno (RFC 5681), from RFC 6928 on.

use core::time::Duration;

use weft_base::Time;
use weft_congestion::{ControllerSettings, Cubic, Feedback, MAX_WINDOW};

use crate::settings::Congestion;

/// Segments that may be in flight before anything is known, and the bytes that they may have (RFC 6928 section 2).
const INITIAL: (u64, u64) = (10, 14_600);

/// What an acknowledgement means for the window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrival {
    /// Bytes that make it grow: none in a recovery.
    pub(crate) bytes: u64,
    pub(crate) round_trip: Option<Duration>,
    /// It is the first of a round trip.
    pub(crate) is_round: bool,
    /// The window was what had limited the sender (RFC 7661: what isn't used doesn't grow).
    pub(crate) is_full: bool,
}

/// The congestion window.
#[derive(Debug)]
pub(crate) struct CongestionWindow {
    mss: u64,
    kind: Kind,
    /// After a time-out it is one segment (RFC 5681 section 3.1); a controller's least are two.
    single: bool,
}

#[derive(Debug)]
enum Kind {
    Cubic(Box<Cubic>),
    Reno(Reno),
}

impl CongestionWindow {
    pub(crate) fn new(congestion: Congestion, mss: u64) -> Self {
        let bytes = (INITIAL.0 * mss).min(INITIAL.1.max(2 * mss));
        let kind = match congestion {
            Congestion::Cubic => Kind::Cubic(Box::new(Cubic::new(ControllerSettings {
                datagram: mss as u32,
                initial_window: bytes,
                max_window: MAX_WINDOW,
                paced: false,
            }))),
            Congestion::Reno => Kind::Reno(Reno { bytes, threshold: u64::MAX, credit: 0, before: None }),
        };
        Self { mss, kind, single: false }
    }

    pub(crate) const fn bytes(&self) -> u64 {
        match &self.kind {
            _ if self.single => self.mss,
            Kind::Cubic(cubic) => cubic.window(),
            Kind::Reno(reno) => reno.bytes,
        }
    }

    /// The segments of the path have another size.
    pub(crate) fn set_mss(&mut self, mss: u64) {
        self.mss = mss;
        match &mut self.kind {
            Kind::Cubic(cubic) => cubic.set_datagram(mss as u32),
            Kind::Reno(reno) => reno.bytes = reno.bytes.max(2 * mss),
        }
    }

    /// Something arrived.
    pub(crate) fn handle_arrival(&mut self, arrival: Arrival, now: Time) {
        if self.single && arrival.bytes > 0 {
            // From one segment to the two that the controller has.
            self.single = false;
            return;
        }
        let Arrival { bytes, round_trip, is_round, is_full } = arrival;
        match &mut self.kind {
            Kind::Cubic(cubic) => {
                let feedback =
                    Feedback { now, acked_bytes: bytes, rtt: round_trip, round: is_round, ..Feedback::default() };
                cubic.on_feedback(&feedback, is_full);
            }
            Kind::Reno(reno) if is_full => reno.grow(bytes, self.mss),
            Kind::Reno(_) => {}
        }
    }

    /// Something was lost with this many bytes in flight: once in a recovery.
    pub(crate) fn handle_loss(&mut self, flying: u64, now: Time) {
        match &mut self.kind {
            Kind::Cubic(cubic) => {
                cubic.on_feedback(&Feedback { now, congested: true, ..Feedback::default() }, true);
            }
            Kind::Reno(reno) => reno.cut(flying, self.mss),
        }
    }

    /// Nothing was lost after all: the last cut is taken back, and what has grown since stays.
    pub(crate) fn undo(&mut self, now: Time) {
        match &mut self.kind {
            Kind::Cubic(cubic) => cubic.on_feedback(&Feedback { now, undo: true, ..Feedback::default() }, false),
            Kind::Reno(reno) => reno.undo(),
        }
    }

    /// Nothing came for a retransmission time-out.
    pub(crate) fn handle_timeout(&mut self, flying: u64, now: Time) {
        self.single = true;
        match &mut self.kind {
            Kind::Cubic(cubic) => {
                cubic.on_feedback(&Feedback { now, persistent: true, ..Feedback::default() }, true);
            }
            Kind::Reno(reno) => reno.collapse(flying, self.mss),
        }
    }
}

/// RFC 5681.
#[derive(Debug)]
struct Reno {
    bytes: u64,
    threshold: u64,
    /// Bytes acknowledged towards the next step.
    credit: u64,
    /// Window and threshold before the last cut.
    before: Option<(u64, u64)>,
}

impl Reno {
    fn grow(&mut self, bytes: u64, mss: u64) {
        if self.bytes < self.threshold {
            self.bytes = self.bytes.saturating_add(bytes.min(2 * mss)).min(MAX_WINDOW);
            return;
        }
        self.credit += bytes;
        if self.credit >= self.bytes {
            self.credit -= self.bytes;
            self.bytes = (self.bytes + mss).min(MAX_WINDOW);
        }
    }

    fn cut(&mut self, flying: u64, mss: u64) {
        self.before = Some((self.bytes, self.threshold));
        self.threshold = (flying / 2).max(2 * mss);
        (self.bytes, self.credit) = (self.threshold, 0);
    }

    fn collapse(&mut self, flying: u64, mss: u64) {
        self.cut(flying, mss);
        (self.bytes, self.before) = (2 * mss, None);
    }

    fn undo(&mut self) {
        let Some((bytes, threshold)) = self.before.take() else { return };
        (self.bytes, self.threshold) = (self.bytes.max(bytes), threshold);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::ZERO;

    fn arrive(window: &mut CongestionWindow, times: u32) {
        let arrival = Arrival { bytes: 1000, is_full: true, ..Arrival::default() };
        (0..times).for_each(|_| window.handle_arrival(arrival, NOW));
    }

    #[test]
    fn slow_start_then_a_segment_in_a_round_trip() {
        let mut window = CongestionWindow::new(Congestion::Reno, 1000);
        assert_eq!(window.bytes(), 10_000);
        arrive(&mut window, 10);
        assert_eq!(window.bytes(), 20_000);
        window.handle_loss(20_000, NOW);
        arrive(&mut window, 10);
        assert_eq!(window.bytes(), 11_000);
    }

    #[test]
    fn after_a_timeout_it_is_one_segment_then_two() {
        for congestion in [Congestion::Reno, Congestion::Cubic] {
            let mut window = CongestionWindow::new(congestion, 1000);
            arrive(&mut window, 10);
            window.handle_timeout(20_000, NOW);
            let mut seen = vec![window.bytes()];
            seen.extend((0..3).map(|_| {
                arrive(&mut window, 1);
                window.bytes()
            }));
            assert_eq!(seen, [1000, 2000, 3000, 4000], "{congestion:?}");
            window.undo(NOW);
            assert_eq!(window.bytes(), 4000, "{congestion:?}: there is nothing to take back");
        }
    }

    #[test]
    fn a_cut_that_was_wrong_is_taken_back_once() {
        for (congestion, rest) in [(Congestion::Reno, 10_000), (Congestion::Cubic, 14_000)] {
            let mut window = CongestionWindow::new(congestion, 1000);
            arrive(&mut window, 10);
            window.handle_loss(20_000, NOW);
            assert_eq!(window.bytes(), rest, "{congestion:?}");
            window.undo(NOW);
            assert_eq!(window.bytes(), 20_000, "{congestion:?}");
            window.handle_loss(20_000, NOW);
            window.handle_loss(window.bytes(), NOW);
            window.undo(NOW);
            window.undo(NOW);
            assert_eq!(window.bytes(), rest, "{congestion:?}: the last one only");
        }
    }

    #[test]
    fn large_segments_begin_with_fewer() {
        for congestion in [Congestion::Reno, Congestion::Cubic] {
            assert_eq!(CongestionWindow::new(congestion, 8948).bytes(), 17_896);
            assert_eq!(CongestionWindow::new(congestion, 1460).bytes(), 14_600);
        }
    }
}
