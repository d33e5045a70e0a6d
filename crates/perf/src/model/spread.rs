//! The runs of one contestant in one case: how far their figures lie apart, and what can be said for it.

/// With fewer runs nobody knows how far they lie apart.
const FEWEST: usize = 3;

/// The figures of some runs, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    pub(crate) values: Vec<f64>,
}

impl Spread {
    /// Of all that there are.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        Self { values: values.into_iter().collect() }
    }

    /// The least.
    pub(crate) fn min(&self) -> Option<f64> {
        self.values.iter().copied().reduce(f64::min)
    }

    /// The most.
    pub(crate) fn max(&self) -> Option<f64> {
        self.values.iter().copied().reduce(f64::max)
    }

    /// The mean.
    pub(crate) fn mean(&self) -> Option<f64> {
        let mean = self.values.iter().sum::<f64>() / self.values.len() as f64;
        mean.is_finite().then_some(mean)
    }

    /// Whether each figure of the one is above, or below, all of the other's. `None`: there are too few to know.
    pub(crate) fn is_apart(&self, other: &Self) -> Option<bool> {
        if self.values.len().min(other.values.len()) < FEWEST {
            return None;
        }
        Some(self.min() > other.max() || other.min() > self.max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_that_overlap_are_not_apart() {
        let spread = |values: &[f64]| Spread::of(values.iter().copied());
        let usual = spread(&[4.0, 3.0, 5.0]);
        assert_eq!((usual.min(), usual.max(), usual.mean()), (Some(3.0), Some(5.0), Some(4.0)));
        assert_eq!(usual.is_apart(&spread(&[6.0, 5.1, 7.0])), Some(true));
        assert_eq!(usual.is_apart(&spread(&[1.0, 2.9, 2.0])), Some(true));
        assert_eq!(usual.is_apart(&spread(&[1.0, 3.0, 2.0])), Some(false), "one figure of both");
        assert_eq!(usual.is_apart(&spread(&[0.1, 700.0, 9.0])), Some(false), "one run that was disturbed");
        assert_eq!(usual.is_apart(&spread(&[9.0, 9.0])), None);
        assert_eq!(spread(&[]).mean(), None);
    }
}
