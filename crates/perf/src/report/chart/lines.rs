//! Figures along a number: one line for each contestant, a band for its intervals; processor time beneath.

use super::super::case::{Facet, bounds, describe, is_far, main_metrics, metrics, rows_of};
use super::super::contestant::{bound_label, is_bound};
use super::super::quantity::{Scale, quantity};
use super::axis::Axis;
use super::panel::{Panel, Point, Shape};
use super::picture::{Key, Picture};
use super::style::{Style, Styles, bound};
use super::title::{axis_title, interval_note, title, with_interval};
use crate::result::{Better, Case, Document, Row};

/// From the left edge to the axes: the widest label of a tick.
const LEFT: f64 = 86.0;

/// The heights of the panel that a chart is about, and of those beneath it.
const HEIGHTS: [f64; 2] = [300.0, 120.0];

/// The most panels beneath.
const MOST_BENEATH: usize = 2;

/// The chart of a facet along this key.
pub(super) fn draw(document: &Document, facet: &Facet, key: &str, styles: &Styles) -> Picture {
    let beneath = beneath(document, facet, key, styles);
    let own = Lines::of(&facet.rows, key, styles);
    let x = Axis::of_case(key, &own.along());
    let mut panels: Vec<Panel> = Vec::new();
    panels.extend(own.panel(x.clone(), HEIGHTS[0]));
    panels.extend(beneath.iter().filter_map(|rows| Lines::of(rows, key, styles).panel(x.clone(), HEIGHTS[1])));
    let last = panels.len().saturating_sub(1);
    panels.iter_mut().take(last).for_each(|panel| panel.x = panel.x.without_labels());
    Picture {
        title: facet.rows.first().map_or_else(String::new, |row| {
            title(row, &facet.label(), &format!(" by {}", super::super::quantity::words(key)))
        }),
        legend: own.legend(),
        notes: vec![format!("Lines: medians. {}", interval_note(own.measured(), "Bands"))],
        panels,
    }
}

/// Rows of the same cases along this key that tell the processor time, by metric: beneath speeds, and beneath what the
/// document is about first.
fn beneath<'a>(document: &'a Document, facet: &Facet, key: &str, styles: &Styles) -> Vec<Vec<&'a Row>> {
    let own = facet.rows.iter().find(|row| !is_bound(&row.contestant));
    let is_first = |row: &&&Row| main_metrics(document).first() == Some(&row.metric.as_str());
    if own.filter(|row| row.better == Better::More || is_first(row)).is_none() {
        return Vec::new();
    }
    let is_time = |unit: &str| unit == "%" || unit.contains("s/");
    let is_cost = |row: &Row| !row.is_main && row.metric.contains("cpu") && is_time(&row.unit);
    let is_along = |row: &&Row| row.case.contains_key(key);
    let is_here = |row: &&Row| is_along(row) && facet.case.iter().all(|(key, value)| row.case.get(key) == Some(value));
    let is_drawn = |row: &&Row| styles.all().any(|(name, _)| name == row.contestant);
    let of = |metric: &str| rows_of(document, metric).into_iter().filter(is_here).filter(is_drawn).collect::<Vec<_>>();
    let all = metrics(document, is_cost).into_iter().map(of).filter(|rows| !rows.is_empty());
    all.take(MOST_BENEATH).collect()
}

/// The rows of one metric as lines.
struct Lines<'a> {
    /// Name, style and rows of each.
    lines: Vec<(String, Style, Vec<&'a Row>)>,
    key: &'a str,
}

impl<'a> Lines<'a> {
    fn of(rows: &[&'a Row], key: &'a str, styles: &Styles) -> Self {
        let of = |name: &str| rows.iter().copied().filter(|row| row.contestant == name).collect::<Vec<&Row>>();
        let mut lines: Vec<_> = styles.all().map(|(name, style)| (name.to_owned(), style, of(name))).collect();
        lines.extend(bounds(rows).iter().enumerate().map(|(at, name)| ((*name).to_owned(), bound(at), of(name))));
        lines.retain(|(_, _, rows)| rows.iter().any(|row| row.median.is_some()));
        Self { lines, key }
    }

    /// The rows of contestants.
    fn measured(&self) -> impl Iterator<Item = &'a Row> {
        let measured = self.lines.iter().filter(|(name, _, _)| !is_bound(name));
        measured.flat_map(|(_, _, rows)| rows.iter().copied()).collect::<Vec<_>>().into_iter()
    }

    /// All values of the key.
    fn along(&self) -> Vec<f64> {
        self.measured().filter_map(|row| row.case.get(self.key)?.as_f64()).collect()
    }

    fn legend(&self) -> Vec<Key> {
        let key = |(name, style, rows): &(String, Style, Vec<&Row>)| {
            let name = match level(rows, self.key) {
                _ if !is_bound(name) => name.clone(),
                _ if self.is_far(rows) => format!("{} {}, above", bound_label(name), range(rows)),
                Some((row, value)) => format!("{} {}", bound_label(name), quantity(value, &row.unit)),
                None => bound_label(name),
            };
            Key { name, style: style.clone() }
        };
        self.lines.iter().map(key).collect()
    }

    /// Whether these rows, of a bound, have no place in the panel.
    fn is_far(&self, rows: &[&Row]) -> bool {
        let measured: Vec<&Row> = self.measured().collect();
        rows.iter().any(|row| is_far(row, &measured))
    }

    /// Lines that are drawn.
    fn drawn(&self) -> impl Iterator<Item = &(String, Style, Vec<&'a Row>)> {
        self.lines.iter().filter(|(_, _, rows)| !self.is_far(rows))
    }

    fn panel(&self, x: Axis, height: f64) -> Option<Panel> {
        let row = self.measured().next()?;
        let all = || self.drawn().flat_map(|(_, _, rows)| rows.iter());
        let values = all().filter_map(|row| row.median).chain(all().flat_map(|row| ends(row).into_iter().flatten()));
        // Speeds begin at zero: what matters of them is how close they come to the most.
        let values = values.chain((row.better == Better::More).then_some(0.0));
        let y = Axis::of_values(&row.unit, values, |unit| axis_title(row, unit));
        let shapes = self.drawn().map(|(name, style, rows)| self.shape(name, style, rows)).collect();
        Some(Panel { title: y.title.clone(), height, left: LEFT, x, y, shapes })
    }

    fn shape(&self, name: &str, style: &Style, rows: &[&Row]) -> Shape {
        match level(rows, self.key) {
            Some((_, at)) if is_bound(name) => Shape::Across { style: style.clone(), at },
            _ => {
                let mut points: Vec<Point> = rows.iter().filter_map(|row| point(row, self.key)).collect();
                points.sort_by(|one, other| one.x.total_cmp(&other.x));
                Shape::Line { style: style.clone(), points, is_stepped: false }
            }
        }
    }
}

/// The value of rows that all have the same value, or of one row without the axis in its case.
fn level<'a>(rows: &[&'a Row], key: &str) -> Option<(&'a Row, f64)> {
    let (first, value) = (rows.first()?, rows.first()?.median?);
    let is_flat = rows.iter().all(|row| row.median == Some(value));
    (is_flat && (rows.len() > 1 || !first.case.contains_key(key))).then_some((first, value))
}

/// From the least to the largest value.
fn range(rows: &[&Row]) -> String {
    let values = || rows.iter().filter_map(|row| row.median);
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    let unit = rows.first().map_or("", |row| &row.unit);
    let scale = Scale::of(unit, high);
    let [low, high] = [low, high].map(|value| scale.number(value));
    if low == high { format!("{low} {}", scale.unit) } else { format!("{low} to {high} {}", scale.unit) }
}

fn ends(row: &Row) -> Option<[f64; 2]> {
    row.interval.map(|interval| [interval.low, interval.high])
}

fn point(row: &Row, key: &str) -> Option<Point> {
    let (x, y) = (row.case.get(key)?.as_f64()?, row.median?);
    let interval = ends(row).map(|[low, high]| (low, high));
    let case: Case =
        row.case.iter().filter(|(other, _)| *other == key).map(|(key, value)| (key.clone(), value.clone())).collect();
    Some(Point {
        x,
        y,
        interval,
        note: Some(format!("{}, {}: {}", row.contestant, describe(&case), with_interval(row))),
    })
}
