//! Axes: which range they have, how they are spaced, and what their ticks say.

use std::fmt;
use std::sync::Arc;

use super::super::quantity::{Scale, case_number, short_number, short_quantity};

/// Values that lie farther apart than this are on a logarithmic axis.
const WIDE: f64 = 20.0;
/// The same for two powers of two: sizes, depths.
const WIDE_BINARY: f64 = 8.0;

/// The least value of a logarithmic axis, and how many times as large its largest one may be.
const LEAST: f64 = 1e-9;
const WIDEST: f64 = 1e12;

/// What is farther from zero than this is no measurement, and drawn at the edge.
const MOST: f64 = 1e18;

/// The most labels that fit along the axis.
const MOST_LABELS: f64 = 11.0;

/// Writes the label of a tick.
type Format = Arc<dyn Fn(f64) -> String + Send + Sync>;

/// How values become places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Spacing {
    /// By their size.
    Even,
    /// By their decimal logarithm.
    Decades,
    /// By their binary logarithm; zero, which has none, is where this says.
    Doublings {
        /// The place of zero.
        zero: f64,
        /// The place of the least value above zero. Between the two there is nothing.
        least: f64,
    },
}

/// One axis of a panel.
#[derive(Clone)]
pub(super) struct Axis {
    pub(super) title: String,
    /// Its least and its largest place.
    pub(super) range: (f64, f64),
    pub(super) spacing: Spacing,
    /// The distance of its ticks, where that is not left to the chart.
    pub(super) step: Option<f64>,
    pub(super) format: Format,
    /// Words at the places 1, 2, 3, ..., instead of numbers.
    pub(super) names: Vec<String>,
}

impl fmt::Debug for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Axis").field("title", &self.title).field("range", &self.range).finish_non_exhaustive()
    }
}

impl Axis {
    /// Of the metric of a case: message sizes, links, ranks.
    pub(super) fn of_case(key: &str, values: &[f64]) -> Self {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        sorted.dedup();
        let spacing = spacing(&sorted);
        let places: Vec<f64> = sorted.iter().map(|value| place(spacing, *value)).collect();
        let (low, high) = (places.first().copied().unwrap_or(0.0), places.last().copied().unwrap_or(1.0));
        let key = key.to_owned();
        Self {
            title: super::super::quantity::axis_title(&key),
            range: padded(spacing, low, high),
            step: step(spacing, &places),
            format: Arc::new(move |at| value(spacing, at).map_or_else(String::new, |value| case_number(&key, value))),
            spacing,
            names: Vec::new(),
        }
    }

    /// Of figures in this unit: from zero on, or logarithmic where they are far apart. `title` gets the
    /// unit of the axis.
    pub(super) fn of_values(unit: &str, values: impl Iterator<Item = f64>, title: impl Fn(&str) -> String) -> Self {
        let (low, high) = extremes(values);
        if low > 0.0 && high > LEAST && high / low > WIDE && unit != "%" {
            return Self::decades(unit, low, high, title);
        }
        let (low, high) = (low.min(0.0), if high > low { high } else { low.max(0.0) + 1.0 });
        let scale = Scale::of(unit, high);
        Self {
            title: title(&scale.unit),
            range: (low * 1.05, high * 1.06),
            spacing: Spacing::Even,
            step: None,
            format: Arc::new(move |at| trimmed(&scale.number(at))),
            names: Vec::new(),
        }
    }

    /// Of figures that are all above zero, by their logarithm.
    pub(super) fn decades(unit: &str, low: f64, high: f64, title: impl Fn(&str) -> String) -> Self {
        let high = high.clamp(10.0 * LEAST, MOST);
        let low = low.clamp(LEAST.max(high / WIDEST), high / 1.5);
        let (from, to) = (Scale::of(unit, low).unit, Scale::of(unit, high).unit);
        let label = if from == to { from } else { format!("{from} to {to}") };
        let unit = unit.to_owned();
        let is_mixed = label.contains(" to ");
        let scale = Scale::of(&unit, high);
        Self {
            title: title(&label),
            range: (round_down(low), round_up(high)),
            spacing: Spacing::Decades,
            step: None,
            format: if is_mixed {
                Arc::new(move |at| short_quantity(at, &unit))
            } else {
                Arc::new(move |at| trimmed(&scale.number(at)))
            },
            names: Vec::new(),
        }
    }

    /// Of time since the beginning, in milliseconds.
    pub(super) fn of_time(end_ms: f64) -> Self {
        let scale = Scale::of("ms", end_ms);
        Self {
            title: format!("time ({})", scale.unit),
            range: (0.0, end_ms),
            spacing: Spacing::Even,
            step: None,
            format: Arc::new(move |at| trimmed(&scale.number(at))),
            names: Vec::new(),
        }
    }

    /// Of shares, as percentages.
    pub(super) fn of_shares(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            range: (0.0, 1.0),
            spacing: Spacing::Even,
            step: Some(0.25),
            format: Arc::new(|at| format!("{} %", short_number(100.0 * at))),
            names: Vec::new(),
        }
    }

    /// Of the chart itself, without ticks.
    pub(super) fn of_pixels(width: f64) -> Self {
        Self {
            title: String::new(),
            range: (0.0, width),
            spacing: Spacing::Even,
            step: None,
            format: Arc::new(short_number),
            names: Vec::new(),
        }
    }

    /// Of words, from the top to the bottom.
    pub(super) fn of_names(names: &[&str]) -> Self {
        Self {
            title: String::new(),
            range: (0.5, names.len() as f64 + 0.5),
            spacing: Spacing::Even,
            step: None,
            format: Arc::new(short_number),
            names: names.iter().rev().map(|name| (*name).to_owned()).collect(),
        }
    }

    /// Where a value is, in the numbers that the chart is given; what is outside is at the edge.
    pub(super) fn place(&self, value: f64) -> f64 {
        place(self.spacing, value).clamp(self.range.0, self.range.1)
    }

    /// The same axis without labels, above one that has them.
    pub(super) fn without_labels(&self) -> Self {
        Self { title: String::new(), format: Arc::new(|_| String::new()), ..self.clone() }
    }
}

/// Logarithmic where the values are spaced more evenly then, or are two that are far apart.
fn spacing(sorted: &[f64]) -> Spacing {
    let above: Vec<f64> = sorted.iter().copied().filter(|value| *value > 0.0).collect();
    let logs: Vec<f64> = above.iter().map(|value| value.log2()).collect();
    let is_wide = match sorted {
        [low, high] => *low > 0.0 && (high / low > WIDE || is_binary(&logs) && high / low >= WIDE_BINARY),
        _ => above.len() >= 3 && sorted[0] >= 0.0 && unevenness(&logs) < unevenness(sorted),
    };
    if !is_wide {
        return Spacing::Even;
    }
    if is_binary(&logs) || above.len() < sorted.len() {
        let step = doublings(logs[logs.len() - 1] - logs[0]);
        Spacing::Doublings { zero: ((logs[0] / step).floor() - 1.0) * step, least: logs[0] }
    } else {
        Spacing::Decades
    }
}

/// Whether most of these binary logarithms are whole.
fn is_binary(logs: &[f64]) -> bool {
    logs.iter().filter(|log| log.fract() == 0.0).count() * 2 > logs.len()
}

/// The widest gap over the narrowest.
fn unevenness(sorted: &[f64]) -> f64 {
    let gaps = || sorted.windows(2).map(|pair| pair[1] - pair[0]);
    gaps().fold(0.0, f64::max) / gaps().fold(f64::INFINITY, f64::min)
}

fn place(spacing: Spacing, value: f64) -> f64 {
    match spacing {
        Spacing::Even | Spacing::Decades => value,
        Spacing::Doublings { zero, .. } if value <= 0.0 => zero,
        Spacing::Doublings { .. } => value.log2(),
    }
}

/// What is at a place; `None` where nothing can be.
fn value(spacing: Spacing, place: f64) -> Option<f64> {
    match spacing {
        Spacing::Even | Spacing::Decades => Some(place),
        Spacing::Doublings { zero, .. } if place <= zero => Some(0.0),
        Spacing::Doublings { least, .. } => Some(place.exp2()).filter(|_| place >= least.floor()),
    }
}

/// A range with some room at both ends.
fn padded(spacing: Spacing, low: f64, high: f64) -> (f64, f64) {
    if spacing == Spacing::Decades {
        return (low / 1.2, high * 1.2);
    }
    let room = if high > low { 0.03 * (high - low) } else { 0.5 };
    (low - room, high + room)
}

/// Whole doublings, as few as there are labels for; of even values their own distance where it is the same everywhere.
fn step(spacing: Spacing, places: &[f64]) -> Option<f64> {
    let span = places.last()? - places.first()?;
    // Of one value, only itself.
    if span == 0.0 {
        return places.first().copied().filter(|place| *place > 0.0);
    }
    match spacing {
        Spacing::Doublings { least, .. } => Some(doublings(places.last()? - least)),
        Spacing::Even
            if places.len() > 1 && unevenness(places) < 1.0 + 1e-9 && span / MOST_LABELS < places.len() as f64 =>
        {
            let own = places[1] - places[0];
            Some(own * (span / own / MOST_LABELS).ceil().max(1.0))
        }
        _ => None,
    }
}

/// How many doublings are from one tick to the next.
fn doublings(span: f64) -> f64 {
    (span / MOST_LABELS).ceil().max(1.0)
}

/// The least and the largest of what is finite.
fn extremes(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let finite = values.filter(|value| value.is_finite()).map(|value| value.clamp(-MOST, MOST));
    let (low, high) =
        finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

fn trimmed(number: &str) -> String {
    if number.contains('.') && !number.contains('e') {
        return number.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    number.to_owned()
}

/// The next of 1, 2, 5, 10, ... that is not above.
fn round_down(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|step| step * decade).find(|step| *step <= value * (1.0 + 1e-9)).unwrap_or(decade)
}

/// The next of 1, 2, 5, 10, ... that is not below.
fn round_up(value: f64) -> f64 {
    let decade = 10_f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|step| step * decade)
        .find(|step| *step >= value / (1.0 + 1e-9))
        .unwrap_or(10.0 * decade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_double_links_do_not() {
        let spacing = |values: &[f64]| Axis::of_case("size_bytes", values).spacing;
        assert_eq!(spacing(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]), Spacing::Even);
        assert_eq!(spacing(&[64.0, 512.0, 4096.0, 32768.0]), Spacing::Doublings { zero: 5.0, least: 6.0 });
        assert_eq!(spacing(&[0.0, 8.0, 64.0, 512.0, 4096.0]), Spacing::Doublings { zero: 2.0, least: 3.0 });
        assert_eq!(spacing(&[1.0, 10.0, 100.0, 1000.0]), Spacing::Decades);
        assert_eq!(spacing(&[3.0]), Spacing::Even);
        assert_eq!(spacing(&[4.0, 65536.0]), Spacing::Doublings { zero: 0.0, least: 2.0 });
        assert_eq!(spacing(&[1024.0, 16384.0]), Spacing::Doublings { zero: 9.0, least: 10.0 });
        assert_eq!([spacing(&[1.0, 2.0]), spacing(&[0.0, 5.0]), spacing(&[3.0, 30.0])], [Spacing::Even; 3]);
        assert_eq!(Axis::of_case("depth", &[16.0]).step, Some(16.0), "one value has one tick");
    }

    #[test]
    fn ticks_say_sizes() {
        let axis = Axis::of_case("size_bytes", &[0.0, 64.0, 4096.0, 262_144.0, 16_777_216.0]);
        assert_eq!((axis.format)(axis.place(4096.0)), "4 KiB");
        assert_eq!((axis.format)(axis.place(0.0)), "0 B");
        assert_eq!((axis.format)((axis.place(0.0) + axis.place(64.0)) / 2.0), "", "there are no sizes in between");
        assert_eq!(axis.title, "size (bytes)");
    }

    #[test]
    fn what_is_far_apart_is_logarithmic() {
        let axis = |values: &[f64]| Axis::of_values("us", values.iter().copied(), str::to_owned);
        assert_eq!(axis(&[3.0, 30.0]).spacing, Spacing::Even);
        assert_eq!(axis(&[3.0, 300.0]).spacing, Spacing::Decades);
        assert_eq!((axis(&[3.0, 300.0]).range, axis(&[3.0, 300.0]).title.as_str()), ((2.0, 500.0), "us"));
        assert_eq!(axis(&[3.0, 300_000.0]).title, "us to ms");
        assert_eq!(axis(&[0.0, 300.0]).spacing, Spacing::Even, "zero has no logarithm");
        assert_eq!(axis(&[3000.0, 30000.0]).title, "ms");
        assert!(axis(&[]).range.0 < axis(&[]).range.1);
        assert!(axis(&[0.0]).range.0 < axis(&[0.0]).range.1);
    }
}
