//! Charts as SVG: lines with intervals, bars, distributions, and figures over time.
//!
//! A chart adapts to light and dark by itself: its colours are CSS variables, which change with
//! `prefers-color-scheme`, in a file of its own ([`Chart::svg`]) as well as in a page
//! ([`Chart::inline`] with [`STYLE`]).
//! Contestants differ in colour, dashes and marks, so that a chart can be read without colour.

mod axis;
mod bars;
mod distribution;
mod label;
mod lines;
mod panel;
mod picture;
mod series;
mod style;
mod title;

use super::case::{axis, facets, main_metrics, rows_of};
use super::contestant::{drawn, left_out};
use crate::result::Document;
pub use picture::Chart;
use picture::Picture;
pub use style::STYLE;
use style::Styles;

/// All charts of a document: for each metric that it is about lines or bars, then distributions and figures over time
/// where they were kept.
#[must_use]
pub fn charts(document: &Document) -> Vec<Chart> {
    let names = drawn(document);
    let styles = Styles::of(&names);
    let mut charts: Vec<Chart> = Vec::new();
    for metric in main_metrics(document) {
        let rows = rows_of(document, metric);
        let mut pictures = match axis(&rows) {
            Some(key) => facets(&rows, &[key]).iter().map(|facet| lines::draw(document, facet, key, &styles)).collect(),
            None => vec![bars::draw(&facets(&rows, &[]), &styles)],
        };
        pictures.extend(distribution::draw(&rows, &styles));
        pictures.extend(series::draw(&rows, &styles));
        charts.extend(pictures.into_iter().filter(|picture| !picture.panels.is_empty()).map(Picture::draw));
    }
    let left_out = left_out(document);
    for (at, chart) in charts.iter_mut().enumerate() {
        chart.name = format!("{}-{}-{}", name(&document.test), at + 1, name(&chart.title));
        if !left_out.is_empty() {
            chart.notes.push(format!("In the table only: {}.", left_out.join(", ")));
        }
    }
    charts
}

/// The letters and digits of a text, hyphens between them.
fn name(text: &str) -> String {
    let parts = text.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_lowercase()
}
