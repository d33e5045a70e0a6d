//! What a check says, as text and as JSON.

use serde::{Deserialize, Serialize};
use weft_lab::Carrier as Kind;

use super::plan::CheckPlan;
use crate::report::Report;

/// What the JSON of a check says of its form.
pub const SCHEMA: &str = "weft-wan-check 1";

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checks {
    /// [`SCHEMA`].
    pub schema: String,
    /// From which what happens by chance comes.
    pub seed: u64,
    /// Packets of each paced stream.
    pub packets: u32,
    /// By this the tolerances are multiplied that are stated.
    pub tolerance_factor: f64,
    /// Whether all cases were done that were wanted.
    pub is_whole: bool,
    /// Whether nothing has failed.
    pub passed: bool,
    /// What came of each case.
    pub cases: Vec<CheckedCase>,
}

/// What came of a case by one carrier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckedCase {
    /// By what packets were carried: `queue` or `rings`.
    pub carrier: String,
    /// Which case it was.
    pub name: String,
    /// Its scenario, without the seed.
    pub scenario: String,
    /// What the scenario says, and the results.
    pub rows: Vec<Row>,
    /// What the emulator says of itself, its lateness with it.
    pub report: Report,
}

/// One value of the scenario, and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What.
    pub what: String,
    /// In which unit; empty: a number alone.
    pub unit: String,
    /// What the scenario says; `None`: as much as possible.
    pub asked: Option<f64>,
    /// What was got; `None`: there is nothing to say it of.
    pub got: Option<f64>,
    /// By how much they may differ, in the same unit.
    pub tolerance: Option<f64>,
    /// How unlikely what was got is, in standard deviations, where chance has a hand in it.
    pub z: Option<f64>,
    /// What that means.
    pub verdict: Verdict,
    /// What is to be known of it.
    pub note: Option<String>,
}

/// Whether a result is what the scenario says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is, within its tolerance.
    Pass,
    /// It is not.
    Fail,
    /// It is reported, and not judged.
    Reported,
}

/// How many deviations a count may be from what is expected: of two million that are as they should be one is not.
const Z: f64 = 5.0;

impl Row {
    /// What may differ by `tolerance`, times `by`.
    pub(crate) fn judged(what: &str, unit: &str, [asked, got]: [f64; 2], tolerance: f64, by: f64) -> Self {
        let tolerance = tolerance * by;
        let is_met = (got - asked).abs() <= tolerance;
        Self {
            tolerance: Some(tolerance),
            verdict: if is_met { Verdict::Pass } else { Verdict::Fail },
            asked: Some(asked),
            ..Self::reported(what, unit, Some(got).filter(|got| got.is_finite()))
        }
    }

    /// What comes by chance, with this standard deviation.
    pub(crate) fn by_chance(what: &str, unit: &str, [asked, got]: [f64; 2], deviation: f64, by: f64) -> Self {
        let z = (got - asked) / deviation;
        Self { z: Some(z).filter(|z| z.is_finite()), ..Self::judged(what, unit, [asked, got], Z * deviation, by) }
    }

    /// What is only reported.
    pub(crate) fn reported(what: &str, unit: &str, got: Option<f64>) -> Self {
        Self {
            what: what.to_owned(),
            unit: unit.to_owned(),
            asked: None,
            got,
            tolerance: None,
            z: None,
            verdict: Verdict::Reported,
            note: None,
        }
    }

    pub(crate) fn note(self, note: Option<String>) -> Self {
        Self { note, ..self }
    }

    const fn has_failed(&self) -> bool {
        matches!(self.verdict, Verdict::Fail)
    }
}

impl CheckedCase {
    pub(crate) fn new(kind: Kind, name: &str, scenario: &str, rows: Vec<Row>, report: Report) -> Self {
        let (name, scenario) = (name.to_owned(), scenario.to_owned());
        Self { carrier: kind.to_string(), name, scenario, rows, report }
    }

    /// Whether a result in it is not what the scenario says.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.rows.iter().any(Row::has_failed)
    }
}

impl Checks {
    pub(crate) fn new(plan: &CheckPlan) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            seed: plan.seed,
            packets: plan.packets,
            tolerance_factor: plan.tolerance,
            is_whole: false,
            passed: false,
            cases: Vec::new(),
        }
    }

    /// All that was wanted is done.
    pub(crate) fn whole(self) -> Self {
        let passed = !self.cases.iter().any(CheckedCase::has_failed);
        Self { is_whole: true, passed, ..self }
    }

    /// Rows that have passed, have failed, and are only reported.
    #[must_use]
    pub fn counts(&self) -> [usize; 3] {
        let rows = || self.cases.iter().flat_map(|case| &case.rows);
        [Verdict::Pass, Verdict::Fail, Verdict::Reported]
            .map(|verdict| rows().filter(|row| row.verdict == verdict).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_its_tolerance_fails() {
        let row = |got, by| Row::judged("p50", "ms", [4.0, got], 0.05, by).verdict;
        assert_eq!((row(4.049, 1.0), row(3.951, 1.0)), (Verdict::Pass, Verdict::Pass));
        assert_eq!((row(4.051, 1.0), row(4.051, 2.0), row(4.001, 0.0)), (Verdict::Fail, Verdict::Pass, Verdict::Fail));
        assert_eq!(row(f64::NAN, 1.0), Verdict::Fail, "of no packet nothing is as it should be");
        let row = Row::by_chance("lost", "%", [2.0, 2.6], 0.1, 1.0);
        assert!(row.verdict == Verdict::Fail && (row.z.unwrap() - 6.0).abs() < 1e-9, "{row:?}");
        assert_eq!(Row::by_chance("lost", "%", [0.0, 0.0], 0.0, 1.0).verdict, Verdict::Pass);
    }

    #[test]
    fn one_row_that_fails_is_all_that_it_takes() {
        let case = |verdict| {
            let row = Row { verdict, ..Row::reported("rate", "Gb/s", Some(1.0)) };
            let report = Report::new("queue", Default::default(), Default::default(), Default::default());
            CheckedCase::new(Kind::Queue, "rate", "", vec![row], report)
        };
        let checks = |verdicts: &[Verdict]| {
            let cases = verdicts.iter().map(|verdict| case(*verdict)).collect();
            Checks { cases, ..Checks::new(&CheckPlan::usual(true)) }.whole()
        };
        assert!(checks(&[Verdict::Pass, Verdict::Reported]).passed);
        let failed = checks(&[Verdict::Pass, Verdict::Fail, Verdict::Reported, Verdict::Pass]);
        assert!(!failed.passed);
        assert_eq!(failed.counts(), [2, 1, 1]);
        let text = serde_json::to_string(&failed).unwrap();
        assert_eq!(serde_json::from_str::<Checks>(&text).unwrap(), failed);
    }
}
