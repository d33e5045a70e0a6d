//! A sentence with a figure, and whether what was measured agrees with it.

use super::quantity::number;
use crate::result::Better;

/// A claim, and what was measured of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// In words.
    pub text: String,
    /// The figure that shows it, by the name of its experiment.
    pub figure: String,
    /// What measures it again.
    pub command: String,
    /// How many minutes that takes.
    pub minutes: f64,
    /// The value that it was made from.
    pub expected: f64,
    /// How much worse the value may be elsewhere, as a share of it.
    pub tolerance: f64,
    /// In what; empty: a ratio.
    pub unit: String,
    /// Which direction is the good one.
    pub better: Better,
    /// The document that states it, where in it, and the numbers there; empty: none does.
    pub stated_in: String,
    /// The value here; `None`: it was not measured.
    pub measured: Option<f64>,
}

impl Claim {
    /// The worst value with which the claim holds.
    #[must_use]
    pub fn limit(&self) -> f64 {
        match self.better {
            Better::More => self.expected * (1.0 - self.tolerance),
            Better::Less | Better::Neither => self.expected * (1.0 + self.tolerance),
        }
    }

    /// Whether it was measured, and is not worse than the limit.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.measured.is_some_and(|measured| match self.better {
            Better::More => measured >= self.limit(),
            Better::Less | Better::Neither => measured <= self.limit(),
        })
    }

    /// In one word.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        if self.holds() { "PASS" } else { "FAIL" }
    }

    /// `at most 1.25 (1.10 and 14 %)`.
    #[must_use]
    pub fn expectation(&self) -> String {
        let word = if self.better == Better::More { "at least" } else { "at most" };
        let [limit, expected] = [self.limit(), self.expected].map(number);
        match self.tolerance {
            0.0 => format!("{word} {}", self.with_unit(expected)),
            share => format!("{word} {} ({expected} and {:.0} %)", self.with_unit(limit), 100.0 * share),
        }
    }

    /// `1.12`, or that it was not measured.
    #[must_use]
    pub fn measurement(&self) -> String {
        self.measured.map_or_else(|| "not measured".to_owned(), |value| self.with_unit(number(value)))
    }

    fn with_unit(&self, number: String) -> String {
        if self.unit.is_empty() { number } else { format!("{number} {}", self.unit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(better: Better, measured: Option<f64>) -> Claim {
        Claim {
            text: "it is fast".into(),
            figure: "latency".into(),
            command: "weft figures latency".into(),
            minutes: 3.5,
            expected: 2.0,
            tolerance: 0.1,
            unit: "us".into(),
            better,
            stated_in: String::new(),
            measured,
        }
    }

    #[test]
    fn the_tolerance_is_on_the_bad_side() {
        for (better, good, bad) in [(Better::Less, 2.19, 2.21), (Better::More, 1.81, 1.79)] {
            assert!(claim(better, Some(good)).holds() && !claim(better, Some(bad)).holds(), "{better:?}");
            assert!(!claim(better, None).holds());
        }
        assert_eq!(claim(Better::Less, None).expectation(), "at most 2.20 us (2.00 and 10 %)");
        assert_eq!(claim(Better::More, Some(1.5)).measurement(), "1.50 us");
    }
}
