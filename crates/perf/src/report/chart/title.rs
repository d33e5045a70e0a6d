//! What charts, axes and points are called.

use super::super::quantity::{percent, quantity, words};
use crate::result::{Better, Row};

/// A metric with the direction that is good, as the title of an axis.
pub(super) fn axis_title(row: &Row, unit: &str) -> String {
    let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
    let better = match row.better {
        Better::Less => ", less is better",
        Better::More => ", more is better",
        Better::Neither => "",
    };
    format!("{}{unit}{better}", words(&row.metric))
}

/// The title of a chart of these rows.
pub(super) fn title(row: &Row, facet: &str, rest: &str) -> String {
    let facet = if facet.is_empty() { String::new() } else { format!(", {facet}") };
    format!("{}{rest}{facet}", words(&row.metric))
}

/// What the intervals of these rows are.
pub(super) fn interval_note<'a>(rows: impl Iterator<Item = &'a Row>, what: &str) -> String {
    let mut coverages: Vec<f64> = rows.filter_map(|row| Some(row.interval?.coverage)).collect();
    coverages.sort_by(f64::total_cmp);
    match (coverages.first(), coverages.last()) {
        (Some(least), Some(most)) if percent(*least) == percent(*most) => {
            format!("{what}: where the median over all launches lies with {}.", percent(*least))
        }
        (Some(least), Some(most)) => {
            format!("{what}: where the median over all launches lies, with {} to {}.", percent(*least), percent(*most))
        }
        _ => "One launch each: there are no intervals.".to_owned(),
    }
}

/// A median with its interval in words.
pub(super) fn with_interval(row: &Row) -> String {
    let median = row.median.map_or_else(|| "nothing".to_owned(), |median| quantity(median, &row.unit));
    row.interval.map_or_else(
        || median.clone(),
        |interval| {
            let [low, high] = [interval.low, interval.high].map(|end| quantity(end, &row.unit));
            format!("{median}, {low} to {high} with {}", percent(interval.coverage))
        },
    )
}
