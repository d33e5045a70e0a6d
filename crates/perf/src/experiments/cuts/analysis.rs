//! What follows from the times at which messages were delivered in order, in microseconds, ascending.

/// A window in which a pause is looked for, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from_us: u64,
    pub(crate) to_us: u64,
}

/// The speed before an instant is taken from this time before it.
pub(crate) const BEFORE_US: u64 = 500_000;
/// A stream is at full speed when it has been for this long.
pub(crate) const FULL_FOR_US: u64 = 100_000;
/// Of the speed before.
pub(crate) const FULL: f64 = 0.95;

/// The longest time between two deliveries, of those times that touch the window, each from its beginning to its end
/// wherever these are. `None` where there is no delivery before the end of the window. A time that has not ended with
/// the log counts to the end of the window, or of the log.
pub(crate) fn longest_pause_us(deliveries: &[u64], window: Window) -> Option<u64> {
    let after = deliveries.partition_point(|time| *time <= window.from_us);
    let first = after.saturating_sub(1);
    let end = deliveries.partition_point(|time| *time < window.to_us);
    let last = end.min(deliveries.len().checked_sub(1)?);
    if *deliveries.get(first)? >= window.to_us {
        return None;
    }
    let ended = deliveries[first..=last].windows(2).map(|pair| pair[1] - pair[0]).max();
    let open = (end == deliveries.len()).then(|| window.to_us - deliveries[last]);
    ended.max(open)
}

/// Deliveries per second from one instant to another.
pub(crate) fn speed(deliveries: &[u64], window: Window) -> f64 {
    let seconds = window.to_us.saturating_sub(window.from_us) as f64 / 1e6;
    count(deliveries, window) as f64 / seconds.max(1e-6)
}

fn count(deliveries: &[u64], window: Window) -> usize {
    let before = |limit: u64| deliveries.partition_point(|time| *time < limit);
    before(window.to_us).saturating_sub(before(window.from_us))
}

/// Deliveries per second in the half second before an instant.
pub(crate) fn speed_before(deliveries: &[u64], instant_us: u64) -> f64 {
    speed(deliveries, Window { from_us: instant_us.saturating_sub(BEFORE_US), to_us: instant_us })
}

/// How long after `mended_us` the tenth of a second begins in which deliveries reach 95 % of `full` (per second) for
/// the first time; `None` while they have not.
pub(crate) fn recovery_us(deliveries: &[u64], mended_us: u64, full: f64) -> Option<u64> {
    let needed = ((FULL * full * FULL_FOR_US as f64 / 1e6).ceil() as usize).max(1);
    let begin = deliveries.partition_point(|time| *time < mended_us);
    let after = &deliveries[begin..];
    // The window that begins at the mending itself, then those that begin at a delivery.
    let is_full = |from_us: u64, first: usize| {
        let last = after.get(first + needed - 1)?;
        (*last < from_us + FULL_FOR_US).then_some(from_us - mended_us)
    };
    is_full(mended_us, 0).or_else(|| after.iter().enumerate().find_map(|(first, time)| is_full(*time, first)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1000;

    /// A delivery each `step` from `from` to before `to`.
    fn steady(from: u64, to: u64, step: u64) -> impl Iterator<Item = u64> {
        (from..to).step_by(step as usize)
    }

    fn pause(deliveries: &[u64], from_us: u64, to_us: u64) -> Option<u64> {
        longest_pause_us(deliveries, Window { from_us, to_us })
    }

    #[test]
    fn the_longest_pause_is_whole_wherever_it_begins_and_ends() {
        let mut log: Vec<u64> = steady(0, 1000 * MS, 10).collect();
        log.extend(steady(1030 * MS, 3000 * MS, 10));
        let hole = 30 * MS + 10;
        assert_eq!(pause(&log, 900 * MS, 1900 * MS), Some(hole), "within");
        assert_eq!(pause(&log, 1010 * MS, 2010 * MS), Some(hole), "it began before the window");
        assert_eq!(pause(&log, 500 * MS, 1010 * MS), Some(hole), "it ended behind the window");
        assert_eq!(pause(&log, 1010 * MS, 1020 * MS), Some(hole), "it is longer than the window");
        assert_eq!(pause(&log, 0, 900 * MS), Some(10));
        assert_eq!(pause(&log, 1500 * MS, 2500 * MS), Some(10), "to the microsecond");
    }

    #[test]
    fn a_pause_that_has_not_ended_counts_so_far() {
        let log: Vec<u64> = steady(0, 1000, 10).collect();
        assert_eq!(pause(&log, 500, 5990), Some(5000));
        assert_eq!(pause(&log, 2000, 5990), Some(5000), "it began before the window");
        assert_eq!(pause(&[], 0, 10), None);
        assert_eq!(pause(&[20], 0, 10), None, "nothing was delivered yet");
        assert_eq!(pause(&[5], 0, 10), Some(5));
    }

    #[test]
    fn speed_is_of_its_window() {
        let mut log: Vec<u64> = steady(0, 1000 * MS, 1000).collect();
        log.extend(steady(1000 * MS, 2000 * MS, 2000));
        assert!((speed_before(&log, 1000 * MS) - 1000.0).abs() < 1.0);
        assert!((speed_before(&log, 2000 * MS) - 500.0).abs() < 1.0);
        assert!(speed(&log, Window { from_us: 5, to_us: 5 }) < 1.0, "an empty window has none");
    }

    #[test]
    fn recovery_is_when_full_speed_begins() {
        // Half speed for 300 ms after the mending, then full.
        let mut log: Vec<u64> = steady(0, 1000 * MS, 100).collect();
        log.extend(steady(1000 * MS, 1300 * MS, 200));
        log.extend(steady(1300 * MS, 2000 * MS, 100));
        let recovery = recovery_us(&log, 1000 * MS, 10_000.0).unwrap();
        // The window may begin where a twentieth of full speed is missing: 10 ms at half speed.
        assert!((289 * MS..=291 * MS).contains(&recovery), "{recovery}");
        assert_eq!(recovery_us(&log, 1400 * MS, 10_000.0), Some(0));
        assert_eq!(recovery_us(&log, 1000 * MS, 20_000.0), None, "never");
        assert_eq!(recovery_us(&log, 1950 * MS, 10_000.0), None, "not for long enough yet");
    }

    #[test]
    fn a_burst_is_no_recovery() {
        // What was held back arrives at once, 5 ms of full speed, and nothing behind it.
        let mut log: Vec<u64> = steady(0, 1000 * MS, 100).collect();
        log.extend(std::iter::repeat_n(1400 * MS, 50));
        log.extend(steady(1900 * MS, 3000 * MS, 100));
        assert_eq!(recovery_us(&log, 1000 * MS, 10_000.0), Some(900 * MS));
    }
}
