//! Figures of cases that words distinguish, or of one case: a bar for each contestant, a panel for each case.

use std::sync::Arc;

use super::super::case::{Facet, bounds, is_far};
use super::super::contestant::{bound_label, is_bound};
use super::super::quantity::{Scale, quantity};
use super::axis::{Axis, Spacing};
use super::label::{WIDTH, text_width};
use super::panel::{Bar, Panel, RIGHT, Shape};
use super::picture::{Key, Picture};
use super::style::{Styles, bound};
use super::title::{axis_title, interval_note, title, with_interval};
use crate::result::Row;

/// The height of a bar with what separates it from the next.
const BAR: f64 = 30.0;

/// The widest name of a contestant beside its bar.
const WIDEST: f64 = 320.0;

/// From the end of a bar to its value and on to the edge, in pixels.
const GAP: f64 = 16.0;

/// What bars have at least, in pixels.
const NARROWEST: f64 = 120.0;
/// The most room for values, over that for bars. A value of hundreds of digits would take an axis beyond all numbers.
const MOST_ROOM: f64 = 4.0;

/// One chart of all facets.
pub(super) fn draw(facets: &[Facet], styles: &Styles) -> Picture {
    let all: Vec<&Row> = facets.iter().flat_map(|facet| facet.rows.iter().copied()).collect();
    let bounds = bounds(&all);
    let rows: Vec<&Row> = all.iter().copied().filter(|row| !is_far(row, &all)).collect();
    let Some(first) = rows.iter().find(|row| !is_bound(&row.contestant)) else { return Picture::empty() };
    let left = styles.all().map(|(name, _)| text_width(&shortened(name))).fold(60.0, f64::max).min(WIDEST) + 28.0;
    let x = horizontal(first, &rows, WIDTH - RIGHT - left);
    let panels: Vec<Panel> =
        facets.iter().filter_map(|facet| panel(facet, styles, (&bounds, &all), &x, left)).collect();
    let last = panels.len().saturating_sub(1);
    let labelled = |(at, panel): (usize, Panel)| {
        if at < last { Panel { x: panel.x.without_labels(), ..panel } } else { panel }
    };
    Picture {
        title: title(first, "", ""),
        legend: legend(&all, &bounds),
        panels: panels.into_iter().enumerate().map(labelled).collect(),
        notes: vec![format!(
            "{}: medians. {}",
            if x.spacing == Spacing::Even { "Bars" } else { "Points" },
            interval_note(rows.iter().copied().filter(|row| !is_bound(&row.contestant)), "Whiskers")
        )],
    }
}

/// The axis, with room for values at the ends of bars. `width` is that of the panel in pixels.
fn horizontal(first: &Row, rows: &[&Row], width: f64) -> Axis {
    let labels = rows.iter().filter_map(|row| Some(text_width(&bar(row, "")?.label)));
    let label = labels.fold(0.0, f64::max) + GAP;
    let room = (label / (width - label).max(NARROWEST)).min(MOST_ROOM);
    let ends = rows.iter().filter_map(|row| row.interval).flat_map(|interval| [interval.low, interval.high]);
    let values = rows.iter().filter_map(|row| row.median).chain(ends);
    let mut x = Axis::of_values(&first.unit, values, |unit| axis_title(first, unit));
    let (low, high) = x.range;
    let format = x.format;
    x.format = Arc::new(move |at| if at > high { String::new() } else { format(at) });
    x.range.1 = match x.spacing {
        Spacing::Decades => high * (high / low).powf(room),
        _ => high + room * (high - low),
    };
    x
}

fn panel(facet: &Facet, styles: &Styles, (bounds, all): (&[&str], &[&Row]), x: &Axis, left: f64) -> Option<Panel> {
    let of = |name: &str| facet.rows.iter().copied().find(|row| row.contestant == name && row.median.is_some());
    let bars: Vec<(String, Bar)> =
        styles.all().filter_map(|(name, style)| Some((shortened(name), bar(of(name)?, style.color)?))).collect();
    let names: Vec<&str> = bars.iter().map(|(name, _)| name.as_str()).collect();
    let y = Axis::of_names(&names);
    let lines = bounds
        .iter()
        .enumerate()
        .filter_map(|(at, name)| Some((at, of(name).filter(|row| !is_far(row, all))?.median?)))
        .map(|(style, at)| Shape::Upright { style: bound(style), at });
    let shapes = lines.chain([Shape::Bars(bars.iter().map(|(_, bar)| bar.clone()).collect())]).collect();
    let height = BAR * bars.len() as f64;
    (!bars.is_empty()).then(|| Panel { title: facet.label(), height, left, x: x.clone(), y, shapes })
}

fn bar(row: &Row, color: &'static str) -> Option<Bar> {
    let value = row.median?;
    let interval = row.interval.map(|interval| (interval.low, interval.high));
    let scale = Scale::of(&row.unit, value);
    let spread =
        interval.map(|(low, high)| format!(" ({} to {})", scale.number(low), scale.number(high))).unwrap_or_default();
    let note = format!("{}: {}", row.contestant, with_interval(row));
    Some(Bar { color, value, interval, label: format!("{}{spread}", quantity(value, &row.unit)), note })
}

fn legend(rows: &[&Row], bounds: &[&str]) -> Vec<Key> {
    let key = |(at, name): (usize, &&str)| {
        let mut values = rows.iter().filter(|row| row.contestant == **name).filter_map(|row| Some((row, row.median?)));
        let value = values.next().filter(|_| values.next().is_none());
        let place = |row: &Row| if is_far(row, rows) { ", above" } else { "" };
        let value =
            value.map(|(row, value)| format!(" {}{}", quantity(value, &row.unit), place(row))).unwrap_or_default();
        Key { name: format!("{}{value}", bound_label(name)), style: bound(at) }
    };
    bounds.iter().enumerate().map(key).collect()
}

/// A name that fits beside its bar: without its middle, since variants differ at the end. The tables have all of it.
fn shortened(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let most = (WIDEST / text_width("n")) as usize;
    if letters.len() <= most {
        return name.to_owned();
    }
    let (head, tail) = (most / 2, letters.len() - (most - most / 2 - 1));
    letters[..head].iter().chain(&['…']).chain(&letters[tail..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_loses_its_middle() {
        let name = |end: &str| format!("iwarp:split=host-offloaded:markers=512:crc=on:window={end}");
        let short = shortened(&name("64"));
        assert!(short.starts_with("iwarp:split=host") && short.ends_with("window=64"), "{short}");
        assert!(text_width(&short) <= WIDEST && short != shortened(&name("32")));
        assert_eq!(shortened("iwarp"), "iwarp");
    }
}
