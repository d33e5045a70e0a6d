//! The greatest (or least) value of the recent past, in constant space.

/// The greatest value within a window of the last `window` ticks, from three samples (the filter of Kathleen Nichols,
/// as TCP stacks use it for BBR). Ticks may be nanoseconds or round trips; they must not go back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowedMax {
    window: u64,
    /// Best, second best and third best, from old to new: (tick, value).
    best: [(u64, u64); 3],
}

impl WindowedMax {
    pub(crate) const fn new(window: u64) -> Self {
        Self { window, best: [(0, 0); 3] }
    }

    pub(crate) const fn get(&self) -> u64 {
        self.best[0].1
    }

    /// Forgets everything but this sample.
    pub(crate) const fn reset(&mut self, tick: u64, value: u64) {
        self.best = [(tick, value); 3];
    }

    pub(crate) fn update(&mut self, tick: u64, value: u64) {
        if value >= self.best[0].1 || tick.saturating_sub(self.best[2].0) > self.window {
            return self.reset(tick, value);
        }
        if value >= self.best[1].1 {
            self.best[1] = (tick, value);
            self.best[2] = (tick, value);
        } else if value >= self.best[2].1 {
            self.best[2] = (tick, value);
        }
        self.age(tick, value);
    }

    /// Lets the best go when it has left the window, and takes fresh samples for the later parts of the window.
    fn age(&mut self, tick: u64, value: u64) {
        let age = |sample: (u64, u64)| tick.saturating_sub(sample.0);
        if age(self.best[0]) > self.window {
            self.best = [self.best[1], self.best[2], (tick, value)];
            if age(self.best[0]) > self.window {
                self.best = [self.best[1], self.best[2], (tick, value)];
            }
        } else if self.best[1].0 == self.best[0].0 && age(self.best[0]) > self.window / 4 {
            self.best[1] = (tick, value);
            self.best[2] = (tick, value);
        } else if self.best[2].0 == self.best[1].0 && age(self.best[0]) > self.window / 2 {
            self.best[2] = (tick, value);
        }
    }
}

/// The least value within a window; zero ticks and `u64::MAX` before the first sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowedMin(WindowedMax);

impl WindowedMin {
    pub(crate) const fn new(window: u64) -> Self {
        Self(WindowedMax::new(window))
    }

    pub(crate) const fn get(&self) -> u64 {
        !self.0.get()
    }

    pub(crate) fn update(&mut self, tick: u64, value: u64) {
        self.0.update(tick, !value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_stays_for_a_window_and_no_longer() {
        let mut filter = WindowedMax::new(10);
        filter.update(1, 100);
        for tick in 2..=11 {
            filter.update(tick, 50);
            assert_eq!(filter.get(), 100, "tick {tick}");
        }
        filter.update(12, 50);
        assert_eq!(filter.get(), 50);
    }

    #[test]
    fn a_falling_series_is_followed_within_a_window() {
        let mut filter = WindowedMax::new(8);
        for tick in 0..100u64 {
            let value = 1000 - tick;
            filter.update(tick, value);
            assert!(filter.get() >= value && filter.get() <= value + 8, "tick {tick}: {}", filter.get());
        }
    }

    #[test]
    fn the_least_is_the_greatest_upside_down() {
        let mut filter = WindowedMin::new(10);
        assert_eq!(filter.get(), u64::MAX);
        filter.update(1, 7);
        filter.update(2, 9);
        assert_eq!(filter.get(), 7);
        filter.update(20, 9);
        assert_eq!(filter.get(), 9);
    }
}
