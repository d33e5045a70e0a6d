//! HyStart++ (RFC 9406): slow start ends where round trips begin to grow, before something is lost.

use core::time::Duration;

/// RFC 9406 section 4.3.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u32 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_ROUNDS: u32 = 5;

/// How the window is to grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    SlowStart,
    /// Conservative slow start: round trips have grown, and it may be chance.
    Conservative,
    /// Congestion avoidance is next.
    Over,
}

/// The first slow start of a flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct HyStart {
    last_min: Option<Duration>,
    current_min: Option<Duration>,
    samples: u32,
    /// The least round trip when conservative slow start began, and the rounds that it has had.
    conservative: Option<(Duration, u32)>,
    is_over: bool,
}

impl HyStart {
    /// RFC 9406 section 4.3: a window that is not paced grows by so many datagrams at once, at most.
    pub(crate) const LIMIT: u64 = 8;
    /// RFC 9406 section 4.3.
    pub(crate) const CSS_GROWTH_DIVISOR: u64 = 4;

    /// An acknowledgement has come; `round` when it is the first of a round trip.
    pub(crate) fn on_ack(&mut self, rtt: Option<Duration>, round: bool) -> Phase {
        if round {
            self.begin_round();
        }
        if let Some(rtt) = rtt {
            self.current_min = Some(self.current_min.map_or(rtt, |min| min.min(rtt)));
            self.samples = self.samples.saturating_add(1);
        }
        if self.samples >= N_RTT_SAMPLE {
            self.judge();
        }
        match self.conservative {
            _ if self.is_over => Phase::Over,
            Some(_) => Phase::Conservative,
            None => Phase::SlowStart,
        }
    }

    fn begin_round(&mut self) {
        (self.last_min, self.current_min, self.samples) = (self.current_min.take(), None, 0);
        if let Some((_, rounds)) = &mut self.conservative {
            *rounds += 1;
            self.is_over |= *rounds >= CSS_ROUNDS;
        }
    }

    /// RFC 9406 section 4.2.
    fn judge(&mut self) {
        let Some(current) = self.current_min else { return };
        match self.conservative {
            Some((baseline, _)) if current < baseline => self.conservative = None,
            Some(_) => {}
            None => {
                let Some(last) = self.last_min else { return };
                let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if current >= last.saturating_add(threshold) {
                    self.conservative = Some((current, 0));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// One round of eight samples.
    fn round(hystart: &mut HyStart, rtt: Duration) -> Phase {
        (0..8).map(|sample| hystart.on_ack(Some(rtt), sample == 0)).last().unwrap()
    }

    #[test]
    fn the_thresholds_of_rfc_9406() {
        // An eighth of the last round's least, from 4 ms to 16 ms.
        for (last, grown) in [(10, 14), (64, 72), (400, 416)] {
            let mut hystart = HyStart::default();
            assert_eq!(round(&mut hystart, last * MS), Phase::SlowStart);
            assert_eq!(
                round(&mut hystart, grown * MS - MS / 1000),
                Phase::SlowStart,
                "{last} ms, then less than {grown}"
            );
            let mut hystart = HyStart::default();
            round(&mut hystart, last * MS);
            assert_eq!(round(&mut hystart, grown * MS), Phase::Conservative, "{last} ms, then {grown}");
        }
    }

    #[test]
    fn five_rounds_of_conservative_slow_start_end_it() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 10 * MS);
        assert_eq!(round(&mut hystart, 20 * MS), Phase::Conservative);
        for _ in 0..4 {
            assert_eq!(round(&mut hystart, 20 * MS), Phase::Conservative);
        }
        assert_eq!(round(&mut hystart, 20 * MS), Phase::Over);
    }

    #[test]
    fn a_round_trip_that_falls_back_brings_slow_start_back() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 10 * MS);
        assert_eq!(round(&mut hystart, 20 * MS), Phase::Conservative);
        assert_eq!(round(&mut hystart, 19 * MS), Phase::SlowStart);
    }

    #[test]
    fn seven_samples_say_nothing() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 10 * MS);
        for sample in 0..7 {
            assert_eq!(hystart.on_ack(Some(50 * MS), sample == 0), Phase::SlowStart);
        }
        assert_eq!(hystart.on_ack(Some(50 * MS), false), Phase::Conservative);
    }
}
