//! A claim before anything is measured, and what a document has of it.

use std::fmt;

use serde_json::Value;

use crate::result::{Better, Document, Row};

/// A claim before anything is measured.
#[derive(Debug)]
pub(super) struct Claimed {
    pub(super) text: &'static str,
    /// The experiment of the catalogue that measures it.
    pub(super) experiment: &'static str,
    /// Whose figure.
    pub(super) contestant: &'static str,
    /// Beside whose; the value is the ratio of both then.
    pub(super) peer: Option<&'static str>,
    /// Beside which other value of a key of its case; the value is the ratio of both then.
    pub(super) base: Option<(&'static str, Is)>,
    pub(super) metric: &'static str,
    /// What its case has. Of several rows the worst counts.
    pub(super) case: Case,
    pub(super) expected: f64,
    pub(super) tolerance: f64,
    pub(super) unit: &'static str,
    pub(super) better: Better,
    /// Where a document states it, if one does.
    pub(super) stated: Option<Stated>,
}

/// Where a document states a figure of performance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stated {
    /// Its path in the repository.
    pub(super) document: &'static str,
    /// How the row of a table or the paragraph begins.
    pub(super) place: &'static str,
    /// The number as it is written there: what is expected; of a ratio both numbers.
    pub(super) numbers: &'static [&'static str],
}

pub(super) type Case = &'static [(&'static str, Is)];

/// The value of a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Is {
    Number(f64),
    Word(&'static str),
    Flag(bool),
}

pub(super) const fn claim(text: &'static str) -> Claimed {
    Claimed {
        text,
        experiment: "",
        contestant: "",
        peer: None,
        base: None,
        metric: "",
        case: &[],
        expected: 0.0,
        tolerance: 0.0,
        unit: "",
        better: Better::Less,
        stated: None,
    }
}

impl Claimed {
    pub(super) const fn of(
        self,
        experiment: &'static str,
        contestant: &'static str,
        peer: Option<&'static str>,
    ) -> Self {
        Self { experiment, contestant, peer, ..self }
    }

    pub(super) const fn when(self, metric: &'static str, case: Case) -> Self {
        Self { metric, case, ..self }
    }

    /// Measured against itself where this key has this value.
    pub(super) const fn against(self, key: &'static str, value: f64) -> Self {
        Self { base: Some((key, Is::Number(value))), ..self }
    }

    pub(super) const fn at_most(self, expected: f64, tolerance: f64, unit: &'static str) -> Self {
        Self { expected, tolerance, unit, better: Better::Less, ..self }
    }

    pub(super) const fn at_least(self, expected: f64, tolerance: f64, unit: &'static str) -> Self {
        Self { expected, tolerance, unit, better: Better::More, ..self }
    }

    pub(super) const fn stated(
        self,
        document: &'static str,
        place: &'static str,
        numbers: &'static [&'static str],
    ) -> Self {
        Self { stated: Some(Stated { document, place, numbers }), ..self }
    }

    /// The value that a document has of it.
    pub(super) fn measured(&self, document: &Document) -> Option<f64> {
        let worst = if self.better == Better::More { f64::min } else { f64::max };
        let rows = document.rows.iter().filter(|row| self.is_of(row));
        rows.filter_map(|row| self.value(document, row)).reduce(worst)
    }

    fn is_of(&self, row: &Row) -> bool {
        let has = |(key, value): &(&str, Is)| row.case.get(*key).is_some_and(|it| value.is(it));
        row.contestant == self.contestant && row.metric == self.metric && self.case.iter().all(has)
    }

    fn value(&self, document: &Document, row: &Row) -> Option<f64> {
        if self.peer.is_none() && self.base.is_none() {
            return row.median;
        }
        let beside = document.rows.iter().find(|other| self.is_beside(row, other))?.median?;
        Some(row.median? / beside).filter(|ratio| ratio.is_finite())
    }

    /// Whether the other row is what this one is measured against.
    fn is_beside(&self, row: &Row, other: &Row) -> bool {
        let contestant = self.peer.unwrap_or(&row.contestant);
        let mut case = other.case.clone();
        if let Some((key, base)) = self.base {
            let own = row.case.get(key).filter(|_| case.get(key).is_some_and(|it| base.is(it)));
            let Some(own) = own else { return false };
            case.insert(key.to_owned(), own.clone());
        }
        (other.contestant.as_str(), &other.metric, &case) == (contestant, &row.metric, &row.case)
    }
}

/// `README.md, 8 bytes, half a round trip, iWARP: 4.5 us, 3.8 us`.
impl fmt::Display for Stated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}: {}", self.document, self.place, self.numbers.join(", "))
    }
}

impl Is {
    fn is(self, value: &Value) -> bool {
        match self {
            Self::Number(number) => value.as_f64() == Some(number),
            Self::Word(word) => value == word,
            Self::Flag(flag) => value == flag,
        }
    }
}
