//! What one run gave.

use crate::model::measure::{Figure, Measured};
use crate::result::{Histogram, Late};

/// What one run gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Run {
    /// What each process saw. Of two, the first is passive.
    pub(crate) sides: Vec<Measured>,
    /// How far two cores were apart, in nanoseconds of a cache line's way there and back: the most of before and after.
    pub(crate) cores_apart_ns: Option<f64>,
    /// How late the emulator of the link was, where there was one.
    pub(crate) lateness: Option<Late>,
}

impl Run {
    /// What the run is about; of two processes the active one knows best.
    pub(crate) fn value(&self) -> Option<f64> {
        self.sides.iter().rev().find_map(|side| side.value)
    }

    /// Its 99th percentile.
    pub(crate) fn p99(&self) -> Option<f64> {
        self.sides.iter().rev().find_map(|side| side.p99)
    }

    /// The worst of what it measured many times.
    pub(crate) fn worst(&self) -> Option<f64> {
        self.sides.iter().rev().find_map(|side| side.worst)
    }

    /// All that it measured many times.
    pub(crate) fn histogram(&self) -> Option<&Histogram> {
        self.sides.iter().rev().find_map(|side| side.histogram.as_ref())
    }

    /// The passive of two processes.
    pub(crate) fn passive(&self) -> Option<&Measured> {
        self.sides.first()
    }

    /// The active of two processes.
    pub(crate) fn active(&self) -> Option<&Measured> {
        self.sides.get(1)
    }

    /// A figure, as each process that has it saw it.
    pub(crate) fn figures(&self, figure: Figure) -> impl Iterator<Item = f64> {
        self.sides.iter().filter_map(move |side| side.figures.get(&figure).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_active_side_knows_best() {
        let side = |value| Measured { value, ..Measured::default() };
        let run = |passive, active| Run { sides: vec![side(passive), side(active)], ..Run::default() };
        assert_eq!(run(Some(1.0), Some(2.0)).value(), Some(2.0));
        assert_eq!(run(Some(1.0), None).value(), Some(1.0));
        assert_eq!(run(None, None).value(), None);
    }
}
