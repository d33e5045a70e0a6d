//! All that was seen, not medians alone: which share was at most this long, and which share was longer.

use super::super::case::{axis, facets, flag, flag_in_words};
use super::super::contestant::is_bound;
use super::super::quantity::{case_number, percent, quantity, words};
use super::axis::Axis;
use super::panel::{Panel, Point, Shape};
use super::picture::{Key, Picture};
use super::style::{Style, Styles};
use super::title::{axis_title, title};
use crate::result::{Histogram, Row};

/// From the left edge to the axes.
const LEFT: f64 = 86.0;

/// The heights of the two panels.
const HEIGHTS: [f64; 2] = [230.0, 190.0];

/// Fewer samples than this make no distribution: the table has them.
const LEAST_SAMPLES: u64 = 5;

/// About the most points of a line; smaller steps are drawn as one.
const MOST_POINTS: usize = 240;

/// Percentiles that have a note.
const TOLD: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// For each facet of these rows the distributions at the least and at the largest value of the axis. Rows with and
/// without something are in one picture, those without it with thinner lines.
pub(super) fn draw(rows: &[&Row], styles: &Styles) -> Vec<Picture> {
    let is_kept = |row: &&Row| !is_bound(&row.contestant) && row.histogram().is_some_and(|all| samples(&all) > 0);
    let kept: Vec<&Row> = rows.iter().copied().filter(is_kept).collect();
    if kept.iter().all(|row| row.histogram().is_none_or(|all| samples(&all) < LEAST_SAMPLES)) {
        return Vec::new();
    }
    let (key, flag) = (axis(&kept), flag(&kept));
    let along: Vec<&str> = [key, flag].into_iter().flatten().collect();
    let mut pictures = Vec::new();
    for facet in facets(&kept, &along) {
        let place = |row: &Row| row.case.get(key?)?.as_f64();
        let mut places: Vec<f64> = facet.rows.iter().filter_map(|row| place(row)).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let ends = [places.first(), places.last()].into_iter().flatten().take(places.len());
        for at in ends {
            let here: Vec<&Row> = facet.rows.iter().copied().filter(|row| place(row) == Some(*at)).collect();
            let case = key.map(|key| format!("{} {}", words(key), case_number(key, *at)));
            let label: Vec<String> = case.into_iter().chain([facet.label()]).filter(|part| !part.is_empty()).collect();
            pictures.extend(picture(&here, &label.join(", "), flag, styles));
        }
        if places.is_empty() {
            pictures.extend(picture(&facet.rows, &facet.label(), flag, styles));
        }
    }
    pictures
}

/// A line of a picture: what it is called, how it is drawn, and of what.
type Line<'a> = (String, Style, &'a Row, Histogram);

fn picture(rows: &[&Row], label: &str, flag: Option<&str>, styles: &Styles) -> Option<Picture> {
    let line = |(name, style): (&str, Style)| {
        let of_name = rows.iter().filter(move |row| row.contestant == name);
        let lines = of_name.filter_map(move |row| {
            let is_so = flag.and_then(|key| Some((key, row.case.get(key)?.as_bool()?)));
            let (name, style) = match is_so {
                None => (name.to_owned(), style.clone()),
                Some((key, true)) => (format!("{name}, {}", flag_in_words(key, true)), style.clone()),
                Some((key, false)) => (format!("{name}, {}", flag_in_words(key, false)), style.thin()),
            };
            Some((name, Style { mark: None, ..style }, *row, merged(&row.histogram()?)))
        });
        lines.collect::<Vec<_>>()
    };
    let lines: Vec<Line> = styles.all().flat_map(line).collect();
    let (_, _, first, _) = lines.first()?;
    let x = horizontal(first, &lines)?;
    let whole = |(_, style, row, histogram): &Line| Shape::Line {
        style: style.clone(),
        points: told(row, shares(histogram)),
        is_stepped: true,
    };
    let tail = |(_, style, _, histogram): &Line| Shape::Line {
        style: style.clone(),
        points: above(histogram),
        is_stepped: true,
    };
    let least = lines.iter().flat_map(|(_, _, _, histogram)| above(histogram)).map(|point| point.y).fold(0.5, f64::min);
    let rarest = Axis::decades("", least, 1.0, |_| String::new());
    let panel = |title: &str, height, x, y, shapes| Panel { title: title.to_owned(), height, left: LEFT, x, y, shapes };
    Some(Picture {
        title: title(first, label, ", distribution"),
        legend: lines.iter().map(|(name, style, _, _)| Key { name: name.clone(), style: style.clone() }).collect(),
        panels: vec![
            panel(
                "share at or below",
                HEIGHTS[0],
                x.without_labels(),
                Axis::of_shares(""),
                lines.iter().map(whole).collect(),
            ),
            panel("share above", HEIGHTS[1], x, as_shares(rarest), lines.iter().map(tail).collect()),
        ],
        notes: vec![format!("All that was seen in all launches: {}.", seen(&lines))],
    })
}

/// How much was seen of each.
fn seen(lines: &[Line]) -> String {
    let of = |(name, _, _, histogram): &Line| format!("{name} {}", samples(histogram));
    lines.iter().map(of).collect::<Vec<_>>().join(", ")
}

fn samples(histogram: &Histogram) -> u64 {
    histogram.counts.iter().sum()
}

fn horizontal(row: &Row, lines: &[Line]) -> Option<Axis> {
    let values = || lines.iter().flat_map(|(_, _, _, histogram)| histogram.values.iter().copied());
    let high = values().reduce(f64::max)?;
    // Zero has no place on a logarithmic axis: it is drawn at its left end.
    let low = values().filter(|value| *value > 0.0).reduce(f64::min).unwrap_or(1.0);
    let axis_title = |unit: &str| axis_title(row, unit);
    Some(if high > low {
        Axis::decades(&row.unit, low, high, axis_title)
    } else {
        Axis::of_values(&row.unit, values(), axis_title)
    })
}

fn as_shares(axis: Axis) -> Axis {
    Axis { format: Axis::of_shares("").format, ..axis }
}

/// Equal values of several launches as one, and neighbours as one until a line has about [`MOST_POINTS`].
fn merged(histogram: &Histogram) -> Histogram {
    let mut merged = Histogram::default();
    let all: u64 = histogram.counts.iter().sum();
    let share = (all / MOST_POINTS as u64).max(1);
    let mut before = 0;
    for (value, count) in histogram.values.iter().zip(&histogram.counts) {
        let is_equal = merged.values.last() == Some(value);
        // The rare ones at the upper end are all kept.
        let is_small = before + count < share && all - merged.counts.iter().sum::<u64>() > share;
        match merged.counts.last_mut() {
            Some(last) if is_equal => *last += count,
            Some(last) if is_small => {
                *last += count;
                *merged.values.last_mut().expect("there is a count for it") = *value;
            }
            _ => {
                merged.values.push(*value);
                merged.counts.push(*count);
                before = 0;
            }
        }
        before += count;
    }
    merged
}

/// The share that is at most each value.
fn shares(histogram: &Histogram) -> Vec<Point> {
    let all = histogram.counts.iter().sum::<u64>() as f64;
    let begin = histogram.values.first().map(|value| Point { x: *value, y: 0.0, interval: None, note: None });
    let mut seen = 0;
    let steps = histogram.values.iter().zip(&histogram.counts).map(|(value, count)| {
        seen += count;
        Point { x: *value, y: seen as f64 / all, interval: None, note: None }
    });
    begin.into_iter().chain(steps).collect()
}

/// The share that is above each value; the largest, above which there is nothing, ends the line.
fn above(histogram: &Histogram) -> Vec<Point> {
    let points = shares(histogram);
    let mut all: Vec<Point> = points.iter().map(|point| Point { y: 1.0 - point.y, ..point.clone() }).collect();
    let count = histogram.counts.iter().sum::<u64>() as f64;
    if let Some(last) = all.last_mut() {
        last.y = 1.0 / count;
    }
    all
}

/// Adds what percentiles are to the points at which they are reached.
fn told(row: &Row, mut points: Vec<Point>) -> Vec<Point> {
    for share in TOLD {
        if let Some(point) = points.iter_mut().find(|point| point.y >= share) {
            let text = format!("{}: {} within {}", row.contestant, percent(share), quantity(point.x, &row.unit));
            point.note.get_or_insert(text);
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{Better, Case, Launch};

    #[test]
    fn a_long_histogram_becomes_a_short_line_that_keeps_its_end() {
        let values: Vec<f64> = (0..100_000).map(|at| 1.0 + f64::from(at) / 100.0).collect();
        let histogram = Histogram { counts: vec![1; values.len()], values };
        let merged = merged(&histogram);
        assert!(merged.values.len() < 3 * MOST_POINTS, "{}", merged.values.len());
        assert_eq!(merged.counts.iter().sum::<u64>(), 100_000);
        assert_eq!(merged.values.last(), histogram.values.last());
        assert!((merged.quantile(0.5).unwrap() / histogram.quantile(0.5).unwrap() - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_few_samples_are_no_distribution() {
        let drawn = |count: u64| {
            let histogram = Some(Histogram { values: vec![1.0, 2.0], counts: vec![1, count - 1] });
            let launch = Launch { histogram, ..Launch::of(0, 1.0) };
            let row = Row::new("edge", Case::new(), ("pause", "ms", Better::Less), vec![launch]);
            draw(&[&row], &Styles::of(&["edge"])).len()
        };
        assert_eq!([drawn(2), drawn(LEAST_SAMPLES)], [0, 1]);
    }

    #[test]
    fn shares_go_from_nothing_to_all() {
        let histogram = Histogram { values: vec![1.0, 2.0, 4.0], counts: vec![1, 2, 1] };
        assert_eq!(shares(&histogram).iter().map(|point| point.y).collect::<Vec<_>>(), [0.0, 0.25, 0.75, 1.0]);
        assert_eq!(above(&histogram).iter().map(|point| point.y).collect::<Vec<_>>(), [1.0, 0.75, 0.25, 0.25]);
    }
}
