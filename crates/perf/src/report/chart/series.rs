//! Figures over the time of a launch, and what happened in the meantime: a panel for each contestant.

use super::super::case::facets;
use super::axis::Axis;
use super::label::{WIDTH, text_width};
use super::panel::{Panel, Point, RIGHT, Shape};
use super::picture::Picture;
use super::style::{Style, Styles};
use super::title::{axis_title, title};
use crate::result::{Launch, Row, Series};

/// From the left edge to the axes.
const LEFT: f64 = 86.0;

/// The height of each panel.
const HEIGHT: f64 = 110.0;

/// Between two words, in pixels; and how long words that are near each other may become together, in letters.
const GAP: f64 = 12.0;
const LONGEST: usize = 24;

/// The most parts of a line, in each of which the least and the most are kept.
const MOST_PARTS: usize = 320;

/// For each facet of these rows the launch in the middle of each contestant.
pub(super) fn draw(rows: &[&Row], styles: &Styles) -> Vec<Picture> {
    let kept: Vec<&Row> = rows.iter().copied().filter(|row| middle(row).is_some()).collect();
    facets(&kept, &[]).iter().filter_map(|facet| picture(&facet.rows, &facet.label(), styles)).collect()
}

fn picture(rows: &[&Row], label: &str, styles: &Styles) -> Option<Picture> {
    let lines: Vec<(&str, Style, &Launch, &Series)> = styles
        .all()
        .filter_map(|(name, style)| {
            let (launch, series) = middle(rows.iter().find(|row| row.contestant == name)?)?;
            Some((name, style, launch, series))
        })
        .collect();
    let row = rows.first()?;
    let end = lines.iter().map(|(_, _, _, series)| series.step_ms * series.values.len() as f64).reduce(f64::max)?;
    let values = lines.iter().flat_map(|(_, _, _, series)| series.values.iter().copied());
    let mut y = Axis::of_values("", values.chain([0.0]), |_| String::new());
    // Room for the words of what happened.
    y.range.1 *= 1.25;
    let x = Axis::of_time(end);
    let last = lines.len().saturating_sub(1);
    let panel = |(at, (name, style, launch, series)): (usize, &(&str, Style, &Launch, &Series))| Panel {
        title: format!("{name}, launch {}: {}", launch.launch + 1, axis_title(row, &row.unit)),
        height: HEIGHT,
        left: LEFT,
        x: if at < last { x.without_labels() } else { x.clone() },
        y: y.clone(),
        shapes: shapes(style, series, end),
    };
    Some(Picture {
        title: title(row, label, " over time"),
        legend: Vec::new(),
        panels: lines.iter().enumerate().map(panel).collect(),
        notes: vec!["Of each contestant the launch whose figure is nearest to the median of all.".to_owned()],
    })
}

/// The launch that is nearest to the median, of those that kept their figures over time.
fn middle(row: &Row) -> Option<(&Launch, &Series)> {
    let median = row.median?;
    let kept = row.launches.iter().filter_map(|launch| Some((launch, launch.series.as_ref()?)));
    let away = |launch: &Launch| (launch.value - median).abs();
    kept.filter(|(_, series)| !series.values.is_empty())
        .min_by(|(one, _), (other, _)| away(one).total_cmp(&away(other)))
}

fn shapes(style: &Style, series: &Series, end_ms: f64) -> Vec<Shape> {
    let line = Shape::Line {
        style: Style { mark: None, dash: None, width: 1.5, ..style.clone() },
        points: parts(series),
        is_stepped: false,
    };
    events(&series.marks, end_ms).into_iter().chain([line]).collect()
}

/// What happened, in order. A word that has no place before the next one takes that one along.
fn events(marks: &[(f64, String)], end_ms: f64) -> Vec<Shape> {
    let pixels_per_ms = (WIDTH - LEFT - RIGHT) / end_ms;
    let mut sorted: Vec<&(f64, String)> = marks.iter().collect();
    sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
    // Where the last word begins, and which event has it.
    let mut last: Option<(f64, usize)> = None;
    let mut events: Vec<(f64, String)> = Vec::new();
    for (at, word) in sorted {
        let room = |begin: f64| (at - begin) * pixels_per_ms;
        match last.filter(|(begin, event)| room(*begin) < text_width(&events[*event].1) + GAP) {
            Some((_, event)) => {
                if events[event].1.chars().count() < LONGEST {
                    events[event].1.push_str(&format!(", {word}"));
                }
                events.push((*at, String::new()));
            }
            None => {
                last = Some((*at, events.len()));
                events.push((*at, word.clone()));
            }
        }
    }
    events.into_iter().map(|(at, word)| Shape::Event { at, word }).collect()
}

/// The values in the order of time. Of many that fall into one part, the least and the most, so that no pause and no
/// peak is lost.
fn parts(series: &Series) -> Vec<Point> {
    let size = series.values.len().div_ceil(MOST_PARTS).max(1);
    let point = |at: usize| Point { x: series.step_ms * at as f64, y: series.values[at], interval: None, note: None };
    let mut points = Vec::new();
    for begin in (0..series.values.len()).step_by(size) {
        let part = || begin..(begin + size).min(series.values.len());
        let by_value = |one: &usize, other: &usize| series.values[*one].total_cmp(&series.values[*other]);
        let mut ends: Vec<usize> = part().min_by(by_value).into_iter().chain(part().max_by(by_value)).collect();
        ends.sort_unstable();
        ends.dedup();
        points.extend(ends.into_iter().map(point));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_near_each_other_are_one() {
        let marks = |all: &[(f64, &str)]| all.iter().map(|(at, word)| (*at, (*word).to_owned())).collect::<Vec<_>>();
        let words = |all: &[(f64, &str)]| {
            let word = |event| match event {
                Shape::Event { word, .. } => word,
                _ => unreachable!("nothing but events"),
            };
            events(&marks(all), 1000.0).into_iter().map(word).collect::<Vec<_>>()
        };
        assert_eq!(words(&[(500.0, "mended"), (100.0, "cut")]), ["cut", "mended"]);
        assert_eq!(words(&[(100.0, "cut"), (110.0, "mended"), (800.0, "cut")]), ["cut, mended", "", "cut"]);
        let many: Vec<(f64, &str)> = (0..200).map(|at| (f64::from(at), "cut")).collect();
        assert_eq!(words(&many).len(), 200);
    }

    #[test]
    fn no_pause_is_lost_in_a_long_series() {
        let mut values = vec![9.0; 20_000];
        values[12_345] = 0.0;
        let points = parts(&Series { step_ms: 1.0, values, marks: Vec::new() });
        assert!(points.len() <= 2 * MOST_PARTS);
        assert!(points.iter().any(|point| point.y == 0.0 && point.x == 12_345.0));
        assert!(points.windows(2).all(|pair| pair[0].x < pair[1].x));
    }
}
