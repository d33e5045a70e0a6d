//! Whether the claims have all figures of the documents.

use std::fs;
use std::path::{Path, PathBuf};

use weft_testing::{Number, numbers};

use crate::figures::claims::claimed::Claimed;
use crate::figures::claims::table::CLAIMS;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// How far what is expected may be from what a document states: its numbers are rounded.
const ROUNDING: f64 = 0.02;

/// Reference pages that have no figures, and cannot say so where a reader does not see it: the numbers of a manual page
/// are options and their defaults, those of the page on verbs timers of the interface.
const REFERENCE: [&str; 2] = ["packaging/fi_weft.7", "docs/verbs.md"];
const NO_FIGURES: &str = "<!-- no figures: a reference -->\n";

/// Each document with the figures in it, but for the lab book, whose pages are dated.
fn documents() -> Vec<(String, Vec<Number>)> {
    let mut paths: Vec<PathBuf> = ["", "docs", "docs/mpi"].iter().flat_map(|folder| markdown(folder)).collect();
    paths.sort();
    paths.push(Path::new(ROOT).join("packaging/fi_weft.7"));
    let read = |path: PathBuf| {
        let name = path.strip_prefix(ROOT).expect("below the root").display().to_string();
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        let text = if REFERENCE.contains(&name.as_str()) { format!("{NO_FIGURES}{text}") } else { text };
        let found = numbers(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, found)
    };
    paths.into_iter().map(read).collect()
}

fn markdown(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(ROOT).join(folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.expect("an entry of a folder").path());
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "md")).collect()
}

/// Whether a claim states this figure, whose paragraph or row may begin with the marks of a list or table.
fn covers(claim: &Claimed, document: &str, number: &Number) -> bool {
    let paragraph = number.paragraph.trim_start_matches(['|', '-', '*', ' ']);
    claim.stated.is_some_and(|stated| {
        stated.document == document
            && paragraph.starts_with(stated.place)
            && stated.numbers.contains(&number.text.as_str())
    })
}

#[test]
fn each_figure_of_a_document_is_claimed() {
    let documents = documents();
    assert!(documents.len() > 20 && documents.iter().any(|(_, found)| !found.is_empty()), "{}", documents.len());
    let mut wrong = Vec::new();
    for (document, found) in &documents {
        for number in found.iter().filter(|number| !CLAIMS.iter().any(|claim| covers(claim, document, number))) {
            wrong.push(format!("{document}:{}: {}", number.line, number.text));
        }
    }
    assert!(
        wrong.is_empty(),
        "\n{}\n\nA document has no measured figure without a row in crates/perf/src/figures/claims/table.rs: take it \
         out and link to the page of docs/lab-book that has it, or add the row. Where a section's numbers are settings \
         or limits, it says so: see \"Figures\" in CONTRIBUTING.md.\n",
        wrong.join("\n")
    );
}

#[test]
fn each_stated_claim_is_in_its_document() {
    let documents = documents();
    for claim in CLAIMS.iter().filter(|claim| claim.stated.is_some()) {
        let stated = claim.stated.expect("it was asked for");
        let found = documents.iter().find(|(name, _)| name == stated.document);
        let (_, found) = found.unwrap_or_else(|| panic!("{}: there is no {}", claim.text, stated.document));
        for text in stated.numbers {
            let is_there = found.iter().any(|number| number.text == *text && covers(claim, stated.document, number));
            assert!(is_there, "{}: no {text} at {:?} in {}", claim.text, stated.place, stated.document);
        }
        let values: Vec<f64> = stated.numbers.iter().map(|text| value(text)).collect();
        let value = match values[..] {
            [one] => one,
            [one, peer] => one / peer,
            _ => panic!("{}: a figure, or one and that of its peer", claim.text),
        };
        let is_expected = (value / claim.expected - 1.0).abs() <= ROUNDING;
        assert!(is_expected, "{}: {} states {value}, {} is expected", claim.text, stated.document, claim.expected);
    }
}

/// The number before the unit.
fn value(text: &str) -> f64 {
    let (number, _) = text.split_once(' ').expect("a unit follows");
    number.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"))
}
