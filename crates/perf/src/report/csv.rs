//! All launches of all rows as comma-separated values (RFC 4180): one line for each launch.

use std::collections::BTreeSet;

use crate::result::{Document, Launch, Row};

/// Columns before and after the keys of cases.
const HEAD: [&str; 2] = ["test", "contestant"];
const TAIL: [&str; 6] = ["metric", "unit", "launch", "value", "p99", "worst"];

/// One table of all documents. Between the contestant and the metric is a column for each key of any case; a cell is
/// empty where its case lacks the key. Lines end with CR and LF.
#[must_use]
pub fn csv<'a>(documents: impl IntoIterator<Item = &'a Document> + Clone) -> String {
    let rows =
        || documents.clone().into_iter().flat_map(|document| document.rows.iter().map(move |row| (document, row)));
    let keys: BTreeSet<&str> = rows().flat_map(|(_, row)| row.case.keys().map(String::as_str)).collect();
    let head: Vec<String> = HEAD.into_iter().chain(keys.iter().copied()).chain(TAIL).map(str::to_owned).collect();
    let lines = rows().flat_map(|(document, row)| row.launches.iter().map(move |launch| (document, row, launch)));
    let lines = lines.map(|(document, row, launch)| line(&cells(document, row, launch, &keys)));
    [line(&head)].into_iter().chain(lines).collect()
}

fn cells(document: &Document, row: &Row, launch: &Launch, keys: &BTreeSet<&str>) -> Vec<String> {
    let case = keys.iter().map(|key| match row.case.get(*key) {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::new(),
    });
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let head = [document.test.clone(), row.contestant.clone()];
    let tail = [
        row.metric.clone(),
        row.unit.clone(),
        launch.launch.to_string(),
        launch.value.to_string(),
        number(launch.p99),
        number(launch.worst),
    ];
    head.into_iter().chain(case).chain(tail).collect()
}

fn line(cells: &[String]) -> String {
    cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\r\n"
}

/// In quotation marks, where it would be taken for more than one cell otherwise.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\r', '\n']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
}
