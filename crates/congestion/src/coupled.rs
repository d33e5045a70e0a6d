//! Several flows that may share a bottleneck grow together as one would (RFC 6356, "LIA").
//!
//! Flows of one connection over one interface meet where that interface leads. Each on its own would take as much as
//! a flow of somebody else, so that four took four parts of five. Coupled they take about one part together, on
//! whichever of them has the least loss, and what one of them loses is cut on that one alone.

use core::time::Duration;

/// Quotients of windows and round trips have so many bits below the unit. Squares of sums must fit 128 bits.
const FRACTION: u32 = 20;

/// How flows grow that are taken for one: made of the windows and round trips of all of them, and given to each with
/// [`Controller::set_coupling`](crate::Controller::set_coupling) as they change, once in a round trip or oftener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coupling {
    /// The largest window by the square of its round trip.
    best: u128,
    /// The square of the sum of windows by round trips.
    sum_squared: u128,
}

impl Coupling {
    /// From the windows (bytes) and round trips of flows that share a bottleneck. `None` for less than two: one flow
    /// is fair by itself.
    #[must_use]
    pub fn of(flows: impl Iterator<Item = (u64, Duration)>) -> Option<Self> {
        let (mut count, mut best, mut sum) = (0, 0, 0);
        for (window, round_trip) in flows {
            let window = u128::from(window.min(crate::MAX_WINDOW));
            // 1 us to 17 minutes.
            let micros = round_trip.as_micros().clamp(1, 1 << 30);
            count += 1;
            best = best.max((window << (2 * FRACTION)) / (micros * micros));
            sum += (window << FRACTION) / micros;
        }
        // More than 64 flows are grown for as 64.
        let sum = sum.min(1u128 << 60);
        (count > 1 && sum > 0).then_some(Self { best, sum_squared: sum * sum })
    }

    /// RFC 6356 section 3: by how many bytes a window of `window` grows when `acked` bytes of it were acknowledged,
    /// with `fraction` bits below the byte. Never more than that of a flow that is alone.
    pub(crate) fn step(&self, acked: u64, datagram: u32, window: u64, fraction: u32) -> u64 {
        let grown = u128::from(acked.min(1 << 34)) * u128::from(datagram);
        let alone = (grown << fraction) / u128::from(window.max(1));
        // `grown` has 50 bits at most, and a quotient at most as many as the fraction of two windows: it fits.
        let together = (grown << fraction).checked_mul(self.best).map_or(u128::MAX, |over| over / self.sum_squared);
        u64::try_from(alone.min(together)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const FRACTION: u32 = 16;

    #[test]
    fn one_flow_is_none_and_like_ones_share_a_step() {
        assert_eq!(Coupling::of([(100_000, MS)].into_iter()), None);
        for flows in [2u64, 4, 16] {
            let coupling = Coupling::of((0..flows).map(|_| (100_000, 10 * MS))).unwrap();
            let alone = (1200 * 1200) << FRACTION;
            let step = coupling.step(1200, 1200, 100_000, FRACTION);
            // Each has its part of the acknowledgements; all together grow as one flow with all of the window would.
            let expected = alone / 100_000 / (flows * flows);
            assert!(step.abs_diff(expected) <= expected / 100, "{flows}: {step}, {expected}");
        }
    }

    /// The flow with the shorter round trip would have grown faster: RFC 6356 section 2, second goal, gives both
    /// together as much as the better one.
    #[test]
    fn none_grows_faster_than_alone() {
        let coupling = Coupling::of([(10_000, MS), (1_000_000, 100 * MS)].into_iter()).unwrap();
        for window in [2400, 10_000, 1_000_000] {
            let alone = ((1200u64 * 1200) << FRACTION) / window;
            assert!(coupling.step(1200, 1200, window, FRACTION) <= alone, "{window}");
        }
    }

    #[test]
    fn no_number_overflows() {
        for flows in [
            vec![(u64::MAX, Duration::ZERO); 1000],
            vec![(2, Duration::MAX); 2],
            vec![(u64::MAX, Duration::ZERO), (0, Duration::MAX)],
        ] {
            let Some(coupling) = Coupling::of(flows.iter().copied()) else { continue };
            for (acked, window) in [(u64::MAX, 0), (u64::MAX, u64::MAX), (0, 0), (1, 1 << 34)] {
                let _ = coupling.step(acked, u32::MAX, window, FRACTION);
            }
        }
        assert_eq!(Coupling::of([(0, MS), (0, MS)].into_iter()), None);
    }
}
