//! The table of `docs/figures.md`: each experiment of the literature, what repeats it, and what was found.

use std::collections::BTreeSet;
use std::fs;

use clap::{Args, Command, FromArgMatches};

use crate::command::arguments::Arguments;
use crate::figures::catalogue::ALL;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/figures.md");
const COLUMNS: usize = 5;

/// The rows of all tables of experiments, cell by cell.
fn rows() -> Vec<Vec<String>> {
    let page = fs::read_to_string(PAGE).expect("docs/figures.md");
    let mut is_inside = false;
    let mut rows = Vec::new();
    for line in page.lines() {
        let cells: Vec<String> =
            line.trim().trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
        let is_head = cells[..2.min(cells.len())] == ["experiment", "command"];
        is_inside = is_head || (is_inside && line.starts_with('|'));
        if is_inside && !is_head && !line.starts_with("|--") {
            rows.push(cells);
        }
    }
    rows
}

/// What a cell has as code.
fn codes(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn no_cell_is_empty() {
    let rows = rows();
    assert!(rows.len() > 30, "{} rows: the tables were not found", rows.len());
    for row in rows {
        assert!(row.len() == COLUMNS && row.iter().all(|cell| cell.len() > 1), "{row:?}");
    }
}

#[test]
fn each_command_of_the_table_is_a_command_line() {
    let command = Arguments::augment_args(Command::new("perf"));
    for row in rows() {
        assert!(codes(&row[1]).next().is_some(), "no command: {row:?}");
        for line in codes(&row[1]) {
            let words = ["perf"].into_iter().chain(line.split(' '));
            let matches = command.clone().try_get_matches_from(words);
            let read = matches.and_then(|matches| Arguments::from_arg_matches(&matches).map(drop));
            assert!(read.is_ok(), "weft perf {line}: {}", read.unwrap_err());
        }
    }
}

#[test]
fn the_table_has_the_whole_catalogue_and_nothing_else() {
    let rows = rows();
    let named: BTreeSet<&str> = rows.iter().flat_map(|row| codes(&row[2])).collect();
    let known: BTreeSet<&str> = ALL.iter().map(|one| one.name).collect();
    let missing: Vec<_> = known.difference(&named).collect();
    let unknown: Vec<_> = named.difference(&known).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "not in the table: {missing:?}; no experiments: {unknown:?}");
}
