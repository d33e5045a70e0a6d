//! Cases in order: which key is the axis of a chart, and which keys make charts of their own.

use serde_json::Value;

use super::contestant::is_bound;
use super::quantity::{of_case, words};
use crate::result::{Better, Case, Document, Row};

/// Keys that are an axis before others, where several have as many values.
const PREFERRED: [&str; 6] = ["size_bytes", "links", "ranks", "processes", "round_trip_ms", "loss_percent"];

/// Rows that share a chart, or a panel of one.
#[derive(Clone, Debug)]
pub(super) struct Facet<'a> {
    /// What tells them from the other facets; empty where there is one.
    pub(super) case: Case,
    pub(super) rows: Vec<&'a Row>,
}

impl Facet<'_> {
    /// In words: `target silent, cache cold`.
    pub(super) fn label(&self) -> String {
        describe(&self.case)
    }
}

/// A case in words: `size 4 KiB, links 2`.
pub(crate) fn describe(case: &Case) -> String {
    let part = |(key, value): (&String, &Value)| match value.as_bool() {
        Some(is_so) => flag_in_words(key, is_so),
        None => format!("{} {}", words(key), of_case(key, value)),
    };
    case.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// What a key that is true or false says: `with cut`, `without cut`; `pinned`, `not pinned`.
pub(super) fn flag_in_words(key: &str, is_so: bool) -> String {
    match (words(key), is_so) {
        (text, true) => text,
        (text, false) => {
            text.strip_prefix("with ").map_or_else(|| format!("not {text}"), |what| format!("without {what}"))
        }
    }
}

/// The key that is true in some rows and false in others, if there is one: what happens, and the same without it.
pub(super) fn flag<'a>(rows: &[&'a Row]) -> Option<&'a str> {
    let has = |key: &str, wanted: bool| values(rows, key).iter().any(|value| value.as_bool() == Some(wanted));
    keys(rows).into_iter().find(|key| has(key, true) && has(key, false))
}

/// Metrics that the charts are of, in the order of the rows: those that the experiment is about; where it names none,
/// those with a good direction.
pub(super) fn main_metrics(document: &Document) -> Vec<&str> {
    let named = metrics(document, |row| row.is_main);
    let judged = metrics(document, |row| row.better != Better::Neither);
    [named, judged].into_iter().find(|all| !all.is_empty()).unwrap_or_else(|| metrics(document, |_| true))
}

/// All metrics for which this holds, each once.
pub(super) fn metrics(document: &Document, is_wanted: impl Fn(&Row) -> bool) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for row in document.rows.iter().filter(|row| is_wanted(row)) {
        if !all.contains(&row.metric.as_str()) {
            all.push(&row.metric);
        }
    }
    all
}

/// The rows of a metric.
pub(super) fn rows_of<'a>(document: &'a Document, metric: &str) -> Vec<&'a Row> {
    document.rows.iter().filter(|row| row.metric == metric).collect()
}

/// Keys of these rows, in order.
pub(super) fn keys<'a>(rows: &[&'a Row]) -> Vec<&'a str> {
    let mut keys: Vec<&str> = rows.iter().flat_map(|row| row.case.keys().map(String::as_str)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// A bound this many times above all that was measured is stated and not drawn: it would leave the rest no room.
const FAR: f64 = 2.0;

/// Whether a row is a bound far above those of these that were measured.
pub(super) fn is_far(row: &Row, rows: &[&Row]) -> bool {
    let measured = rows.iter().filter(|row| !is_bound(&row.contestant)).filter_map(|row| row.median);
    let most = measured.fold(0.0, f64::max);
    is_bound(&row.contestant) && row.better == Better::More && row.median.is_some_and(|bound| bound > FAR * most)
}

/// Names of the bounds among these rows, each once.
pub(super) fn bounds<'a>(rows: &[&'a Row]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|row| is_bound(&row.contestant)) {
        if !names.contains(&row.contestant.as_str()) {
            names.push(&row.contestant);
        }
    }
    names
}

/// The values of a key, each once, in the order of the rows.
fn values<'a>(rows: &[&'a Row], key: &str) -> Vec<&'a Value> {
    let mut values: Vec<&Value> = Vec::new();
    for value in rows.iter().filter(|row| !is_bound(&row.contestant)).filter_map(|row| row.case.get(key)) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

/// The key along which the rows are lines: numbers alone, and more of them than any other key has.
pub(super) fn axis<'a>(rows: &[&'a Row]) -> Option<&'a str> {
    let count = |key: &&str| {
        let values = values(rows, key);
        if values.iter().all(|value| value.is_number()) { values.len() } else { 0 }
    };
    let rank = |key: &str| PREFERRED.iter().position(|other| *other == key).unwrap_or(PREFERRED.len());
    let keys = keys(rows).into_iter().filter(|key| count(key) > 1);
    keys.max_by_key(|key| (count(key), std::cmp::Reverse(rank(key))))
}

/// Groups of rows that differ in these keys and the contestant alone, in the order of the rows. Bounds are in each
/// group whose case theirs does not contradict.
pub(super) fn facets<'a>(rows: &[&'a Row], along: &[&str]) -> Vec<Facet<'a>> {
    let differing: Vec<&str> =
        keys(rows).into_iter().filter(|key| !along.contains(key) && values(rows, key).len() > 1).collect();
    let mut facets: Vec<Facet> = Vec::new();
    for row in rows.iter().filter(|row| !is_bound(&row.contestant)) {
        let part = |key: &&str| Some(((*key).to_owned(), row.case.get(*key)?.clone()));
        let case: Case = differing.iter().filter_map(part).collect();
        match facets.iter_mut().find(|facet| facet.case == case) {
            Some(facet) => facet.rows.push(row),
            None => facets.push(Facet { case, rows: vec![row] }),
        }
    }
    for facet in &mut facets {
        let fits = |row: &&&Row| row.case.iter().all(|(key, value)| facet.case.get(key).is_none_or(|own| own == value));
        facet.rows.extend(rows.iter().filter(|row| is_bound(&row.contestant)).filter(fits));
    }
    facets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(contestant: &str, case: &[(&str, Value)]) -> Row {
        let case = case.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        Row::new(contestant, case, ("time", "us", Better::Less), Vec::new())
    }

    #[test]
    fn the_axis_is_the_number_with_most_values() {
        let all: Vec<Row> = [0, 1, 8]
            .iter()
            .flat_map(|puts| {
                [8, 16, 32, 64].map(|ranks| row("ri", &[("puts", (*puts).into()), ("ranks", ranks.into())]))
            })
            .collect();
        let rows: Vec<&Row> = all.iter().collect();
        assert_eq!(axis(&rows), Some("ranks"));
        let facets = facets(&rows, &["ranks"]);
        assert_eq!(facets.iter().map(Facet::label).collect::<Vec<_>>(), ["puts 0", "puts 1", "puts 8"]);
        assert!(facets.iter().all(|facet| facet.rows.len() == 4));
    }

    #[test]
    fn a_flag_tells_with_and_without() {
        let all = [true, false].map(|with| row("edge", &[("way", "silent".into()), ("with_cut", with.into())]));
        let rows: Vec<&Row> = all.iter().collect();
        assert_eq!(flag(&rows), Some("with_cut"));
        assert_eq!(flag(&rows[..1]), None);
        assert_eq!(describe(&rows[0].case), "way silent, with cut");
        assert_eq!(describe(&rows[1].case), "way silent, without cut");
        assert_eq!(flag_in_words("pinned", false), "not pinned");
    }

    #[test]
    fn words_are_no_axis_and_bounds_are_everywhere() {
        let all = [
            row("iwarp", &[("target", "silent".into())]),
            row("iwarp", &[("target", "polling".into())]),
            row("bound:copy", &[]),
            row("bound:wire", &[("target", "polling".into())]),
        ];
        let rows: Vec<&Row> = all.iter().collect();
        assert_eq!(axis(&rows), None);
        let facets = facets(&rows, &[]);
        assert_eq!(facets.iter().map(|facet| facet.rows.len()).collect::<Vec<_>>(), [2, 3]);
    }
}
