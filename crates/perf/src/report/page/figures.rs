//! The figures of a document as tables: one for each metric, with what may be said of each beside each peer.

use super::super::case::{describe, keys, main_metrics, metrics, rows_of};
use super::super::contestant::is_bound;
use super::super::markup::{Head, cell, details, element, escape, head, number, table};
use super::super::quantity::{Scale, chance, number as digits, of_case, percent, quantity, words};
use crate::result::{Better, Comparison, Document, Row, Verdict};

/// Tables with more rows are closed at first.
const MOST_OPEN: usize = 12;

/// All tables, those of what the measurement is about first.
pub(super) fn tables(document: &Document) -> String {
    let main = main_metrics(document);
    let others = metrics(document, |row| !main.contains(&row.metric.as_str()));
    let main_tables = main.iter().map(|metric| of(document, metric, true));
    main_tables.chain(others.iter().map(|metric| of(document, metric, false))).collect()
}

fn of(document: &Document, metric: &str, is_main: bool) -> String {
    let rows = rows_of(document, metric);
    let keys = keys(&rows);
    let comparisons: Vec<&Comparison> = document.comparisons.iter().filter(|one| one.metric == metric).collect();
    let peers = peers(&comparisons);
    let figures = ["median", "interval", "p99", "worst", "launches"].map(Head::number);
    let beside = peers.iter().map(|peer| Head::number(format!("ratio to {peer}")));
    let contestant = [Head::words("contestant")];
    let heads: Vec<Head> =
        keys.iter().map(|key| Head::number(words(key))).chain(contestant).chain(figures).chain(beside).collect();
    let lines: Vec<Vec<String>> = rows.iter().map(|row| line(row, &keys, &peers, &comparisons)).collect();
    let caption = format!("{}{}", words(metric), direction(&rows));
    let summary = format!("Figures: {} ({} rows)", words(metric), rows.len());
    details(is_main && rows.len() <= MOST_OPEN, &summary, &table(&caption, &heads, &lines))
}

fn direction(rows: &[&Row]) -> &'static str {
    match rows.first().map(|row| row.better) {
        Some(Better::Less) => ", less is better",
        Some(Better::More) => ", more is better",
        _ => "",
    }
}

/// Whose ratios there are, each once.
fn peers<'a>(comparisons: &[&'a Comparison]) -> Vec<&'a str> {
    let mut peers: Vec<&str> = Vec::new();
    for comparison in comparisons {
        if !peers.contains(&comparison.peer.as_str()) {
            peers.push(&comparison.peer);
        }
    }
    peers
}

fn line(row: &Row, keys: &[&str], peers: &[&str], comparisons: &[&Comparison]) -> Vec<String> {
    let case = keys.iter().map(|key| number(&row.case.get(*key).map_or_else(String::new, |value| of_case(key, value))));
    let scale = Scale::of(&row.unit, row.median.unwrap_or(0.0));
    let of = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| quantity(value, &row.unit));
    let interval = row.interval.map_or_else(
        || "-".to_owned(),
        |interval| {
            let [low, high] = [interval.low, interval.high].map(|end| scale.number(end));
            format!("{low} to {high} ({})", percent(interval.coverage))
        },
    );
    let figures = [
        head(&row.contestant),
        number(&of(row.median)),
        number(&interval),
        number(&of(row.p99)),
        number(&of(row.worst)),
        number(&launches(row)),
    ];
    let ratios = peers.iter().map(|peer| {
        let is_it = |one: &&&Comparison| one.contestant == row.contestant && one.peer == *peer && one.case == row.case;
        comparisons.iter().find(is_it).map_or_else(|| cell(""), |one| ratio(one))
    });
    case.chain(figures).chain(ratios).collect()
}

/// How many there are, and in how many the link was late.
fn launches(row: &Row) -> String {
    match (row.launches.len(), row.late_launches()) {
        (all, 0) => all.to_string(),
        (all, late) => format!("{all}, late in {late}"),
    }
}

fn ratio(comparison: &Comparison) -> String {
    let (class, word) = match comparison.verdict {
        _ if is_bound(&comparison.peer) => ("equal", ""),
        Verdict::Ahead => ("ahead", "ahead, "),
        Verdict::Behind => ("behind", "behind, "),
        Verdict::Equal => ("equal", "not told apart, "),
    };
    let ratio = comparison.ratio.map_or_else(|| "-".to_owned(), digits);
    element("td", &format!("class=\"number {class}\""), &escape(&format!("{ratio} ({word}p {})", chance(comparison.p))))
}

/// The value of each launch, a line for each row.
pub(super) fn samples(document: &Document) -> String {
    let line = |row: &Row| {
        let values: Vec<String> = row.launches.iter().map(|launch| launch.value.to_string()).collect();
        let case = describe(&row.case);
        let case = if case.is_empty() { String::new() } else { format!(", {case}") };
        format!("{}, {}{case} ({}): {}\n", row.metric, row.contestant, row.unit, values.join(" "))
    };
    document.rows.iter().map(line).collect()
}
