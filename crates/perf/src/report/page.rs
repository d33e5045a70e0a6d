//! One page of all results: where Weft wins and where it loses, and for each measurement its charts and figures.
//!
//! The page is one file. It needs no network and no script, is light or dark as its reader prefers, and can be read
//! with the keyboard alone.

mod claims;
mod document;
mod figures;
mod origin;
mod verdicts;

use super::chart::STYLE;
use super::claim::Claim;
use super::markup::{element, escape, link, tag};
use super::quantity::words;
use crate::result::Document;
pub use document::Finding;

/// The style of everything but the charts.
const PAGE_STYLE: &str = include_str!("page/style.css");

/// What the page says beyond its documents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beside {
    /// Of each document, in their order. Documents without one have the default.
    pub entries: Vec<Entry>,
    /// What is claimed of these figures.
    pub claims: Vec<Claim>,
}

/// What the page says of one document beyond what it has itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Its name among others of the same test; empty: the test's.
    pub name: String,
    /// What the literature found.
    pub finding: Option<Finding>,
    /// The name of the file beside the page that has all of its samples. Relative; empty for none.
    pub file: String,
}

/// The page of these documents.
#[must_use]
pub fn page(documents: &[Document], beside: &Beside) -> String {
    let ids = ids(documents);
    let none = Entry::default();
    let entry = |at: usize| beside.entries.get(at).unwrap_or(&none);
    let titles: Vec<String> =
        documents.iter().enumerate().map(|(at, document)| title(document, &entry(at).name)).collect();
    let items = titles.iter().zip(&ids).map(|(title, id)| tag("li", &link(&format!("#{id}"), title)));
    let contents = element("nav", "aria-label=\"Contents\"", &tag("ol", &items.collect::<String>()));
    let sections = documents
        .iter()
        .enumerate()
        .map(|(at, document)| document::section(document, &ids[at], &titles[at], entry(at)));
    let claims = claims::section(&beside.claims);
    let body = [
        link("#main", "To the content").replacen("<a ", "<a class=\"skip\" ", 1),
        tag("header", &(tag("h1", "Weft, measured") + &tag("p", &escape(&introduction(documents))) + &contents)),
        element("main", "id=\"main\"", &(verdicts::section(documents, &ids) + &claims + &sections.collect::<String>())),
    ];
    format!("<!DOCTYPE html>\n<html lang=\"en\">\n{}\n<body>\n{}\n</body>\n</html>\n", head(), body.join("\n"))
}

/// `links unlike: what do several links carry together?`
fn title(document: &Document, name: &str) -> String {
    format!("{}: {}", words(if name.is_empty() { &document.test } else { name }), document.question)
}

/// Nothing is loaded from anywhere, and the page forbids browsers to.
fn head() -> String {
    format!(
        "<head>\n<meta charset=\"utf-8\"/>\n<title>Weft, measured</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
         <style>\n{PAGE_STYLE}\n{STYLE}\n</style>\n</head>"
    )
}

fn introduction(documents: &[Document]) -> String {
    let mut commits: Vec<String> =
        documents.iter().map(|document| format!("{} ({})", document.version, document.commit)).collect();
    commits.sort_unstable();
    commits.dedup();
    let (count, rows) = (documents.len(), documents.iter().map(|document| document.rows.len()).sum::<usize>());
    format!(
        "{count} {} with {rows} figures, Weft {}. Two contestants are called different where an exact two-sided \
         rank-sum test over their launches gives p < {}.",
        if count == 1 { "measurement" } else { "measurements" },
        commits.join(", "),
        crate::statistics::SIGNIFICANT
    )
}

/// A place on the page for each document.
fn ids(documents: &[Document]) -> Vec<String> {
    let letters = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    documents.iter().enumerate().map(|(at, document)| format!("test-{}-{}", at + 1, letters(&document.test))).collect()
}
