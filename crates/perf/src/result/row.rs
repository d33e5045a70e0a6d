//! One figure of one contestant in one case: its launches, and what follows from them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::late::Late;
use crate::statistics::{self, Interval, SIGNIFICANT};

/// What tells a case from others of its experiment: `size_bytes`, `links`, `target`.
pub type Case = BTreeMap<String, Value>;

/// Which direction of a figure is the good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Times, costs.
    Less,
    /// Speeds, shares that are hidden.
    More,
    /// It only explains others.
    Neither,
}

/// One launch: the processes started anew, and measured once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// Which launch of the contestant in this case it was, from 0, in the order in which they were made.
    pub launch: u32,
    /// The figure: of what is measured many times in a launch, the median.
    pub value: f64,
    /// Of these many: the 99th percentile (of a speed: what 99 of 100 parts of the launch reach).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// And the worst.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<f64>,
    /// And all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Histogram>,
    /// The figure over the time of the launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    /// How far apart the cores of the processes were: a cache line's way and back, in nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores_apart_ns: Option<f64>,
    /// How late the emulator of the link was, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Late>,
}

impl Launch {
    /// A launch that tells its figure alone.
    #[must_use]
    pub fn of(launch: u32, value: f64) -> Self {
        Self {
            launch,
            value,
            p99: None,
            worst: None,
            histogram: None,
            series: None,
            cores_apart_ns: None,
            lateness: None,
        }
    }
}

/// How often which value was seen, in the unit of the row. Ascending; a value represents all that round up to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Histogram {
    /// Values.
    pub values: Vec<f64>,
    /// How often each of them was seen; as many as values.
    pub counts: Vec<u64>,
}

/// Values in equal steps of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// The length of a step.
    pub step_ms: f64,
    /// The value in each step, in the unit of the row.
    pub values: Vec<f64>,
    /// What happened in the meantime: milliseconds since the first step, and a word ("cut", "mended").
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<(f64, String)>,
}

/// A figure of a contestant in a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Whose it is, as the command line names it: `iwarp`, `sockets`, `libfabric:tcp`.
    pub contestant: String,
    /// In which case.
    pub case: Case,
    /// What it is: `half_round_trip`.
    pub metric: String,
    /// In what: `us`.
    pub unit: String,
    /// Which direction is the good one.
    pub better: Better,
    /// Whether it is what the experiment is about; others explain it.
    pub is_main: bool,
    /// Each launch.
    pub launches: Vec<Launch>,
    /// Median over the launches.
    pub median: Option<f64>,
    /// Mean over the launches.
    pub mean: Option<f64>,
    /// Median of the launches' 99th percentiles.
    pub p99: Option<f64>,
    /// The worst of all launches.
    pub worst: Option<f64>,
    /// Where the median lies, with which certainty.
    pub interval: Option<Interval>,
}

impl Row {
    /// The row of these launches, with what follows from them.
    #[must_use]
    pub fn new(
        contestant: impl Into<String>,
        case: Case,
        (metric, unit, better): (impl Into<String>, impl Into<String>, Better),
        launches: Vec<Launch>,
    ) -> Self {
        let values: Vec<f64> = launches.iter().map(|launch| launch.value).collect();
        let p99: Vec<f64> = launches.iter().filter_map(|launch| launch.p99).collect();
        let bad = if better == Better::More { f64::min } else { f64::max };
        let worst = launches.iter().map(|launch| launch.worst.unwrap_or(launch.value)).reduce(bad);
        Self {
            contestant: contestant.into(),
            case,
            metric: metric.into(),
            unit: unit.into(),
            better,
            is_main: false,
            median: statistics::median(&values),
            mean: statistics::mean(&values),
            p99: statistics::median(&p99),
            worst,
            interval: statistics::interval(&values),
            launches,
        }
    }

    /// The same, as what its experiment is about.
    #[must_use]
    pub fn as_main(self) -> Self {
        Self { is_main: true, ..self }
    }

    /// The value of each launch.
    #[must_use]
    pub fn values(&self) -> Vec<f64> {
        self.launches.iter().map(|launch| launch.value).collect()
    }

    /// In how many launches the emulator of the link was too late for its delay.
    #[must_use]
    pub fn late_launches(&self) -> usize {
        self.launches.iter().filter_map(|launch| launch.lateness).filter(Late::is_late).count()
    }

    /// All that was seen in all launches, as one histogram; `None` when the launches tell their medians alone.
    #[must_use]
    pub fn histogram(&self) -> Option<Histogram> {
        let parts = self.launches.iter().filter_map(|launch| launch.histogram.as_ref());
        let mut all: Vec<(f64, u64)> =
            parts.flat_map(|part| part.values.iter().copied().zip(part.counts.iter().copied())).collect();
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        (!all.is_empty()).then(|| Histogram {
            values: all.iter().map(|(value, _)| *value).collect(),
            counts: all.iter().map(|(_, count)| *count).collect(),
        })
    }
}

impl Histogram {
    /// Of these values, each of which is rounded up to the next of at most 128 steps for each power of two (0.5 %).
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        for value in values.iter().filter(|value| value.is_finite()) {
            *counts.entry(round_up(value.max(0.0)).to_bits()).or_default() += 1;
        }
        Self {
            values: counts.keys().map(|bits| f64::from_bits(*bits)).collect(),
            counts: counts.into_values().collect(),
        }
    }

    /// The least value that at least this share of all does not exceed.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let all: u64 = self.counts.iter().sum();
        let wanted = ((share * all as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let reached = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        self.values.get(reached?).copied()
    }
}

/// Keeps the exponent and the first seven bits of the fraction of a number that is not negative.
fn round_up(value: f64) -> f64 {
    const DROPPED: u32 = 52 - 7;
    let bits = value.to_bits();
    f64::from_bits(bits.checked_next_multiple_of(1 << DROPPED).unwrap_or(bits))
}

/// What may be said of two contestants in one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// Whose figure is above the line of the ratio.
    pub contestant: String,
    /// Whose is below it.
    pub peer: String,
    /// In which case.
    pub case: Case,
    /// Of which figure.
    pub metric: String,
    /// Median over median.
    pub ratio: Option<f64>,
    /// How often chance alone would set the launches as far apart.
    pub p: f64,
    /// Which of them is ahead.
    pub verdict: Verdict,
}

/// Which of two contestants is ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The contestant.
    Ahead,
    /// Its peer.
    Behind,
    /// The launches do not tell them apart.
    Equal,
}

impl Comparison {
    /// Compares two rows of the same case and metric; `None` when they are not that, or one has no launch.
    #[must_use]
    pub fn of(one: &Row, other: &Row) -> Option<Self> {
        if (&one.case, &one.metric, &one.unit) != (&other.case, &other.metric, &other.unit) {
            return None;
        }
        let p = statistics::rank_sum_test(&one.values(), &other.values())?;
        let (median, peer) = (one.median?, other.median?);
        let verdict = match one.better {
            _ if p >= SIGNIFICANT || median == peer => Verdict::Equal,
            Better::Neither => Verdict::Equal,
            Better::Less if median < peer => Verdict::Ahead,
            Better::More if median > peer => Verdict::Ahead,
            _ => Verdict::Behind,
        };
        Some(Self {
            contestant: one.contestant.clone(),
            peer: other.contestant.clone(),
            case: one.case.clone(),
            metric: one.metric.clone(),
            ratio: Some(median / peer).filter(|ratio| ratio.is_finite()),
            p,
            verdict,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(contestant: &str, better: Better, values: &[f64]) -> Row {
        let launches = values.iter().zip(0..).map(|(value, launch)| Launch::of(launch, *value));
        Row::new(contestant, Case::new(), ("half_round_trip", "us", better), launches.collect())
    }

    #[test]
    fn one_is_ahead_only_where_chance_is_no_explanation() {
        let six = |from: f64| (0..6).map(|step| from + f64::from(step)).collect::<Vec<_>>();
        let verdict = |better, one: &[f64], other: &[f64]| {
            Comparison::of(&row("a", better, one), &row("b", better, other)).unwrap().verdict
        };
        assert_eq!(verdict(Better::Less, &six(0.0), &six(10.0)), Verdict::Ahead);
        assert_eq!(verdict(Better::More, &six(0.0), &six(10.0)), Verdict::Behind);
        assert_eq!(verdict(Better::Neither, &six(0.0), &six(10.0)), Verdict::Equal);
        assert_eq!(verdict(Better::Less, &six(0.0), &six(3.0)), Verdict::Equal, "they overlap");
        assert_eq!(verdict(Better::Less, &[1.0, 2.0, 3.0], &[7.0, 8.0, 9.0]), Verdict::Equal, "too few launches");
    }

    #[test]
    fn the_worst_of_a_speed_is_the_least() {
        assert_eq!(row("a", Better::More, &[2.0, 1.0, 3.0]).worst, Some(1.0));
        assert_eq!(row("a", Better::Less, &[2.0, 1.0, 3.0]).worst, Some(3.0));
    }

    #[test]
    fn launches_with_a_late_link_are_counted() {
        let mut row = row("a", Better::Less, &[1.0, 2.0, 3.0]);
        assert_eq!(row.late_launches(), 0);
        for (launch, p99_ns) in row.launches.iter_mut().zip([100, 101, 5000]) {
            launch.lateness = Some(Late { delay_ns: 1000, p99_ns, ..Late::default() });
        }
        assert_eq!(row.late_launches(), 2);
        let text = serde_json::to_string(&row).unwrap();
        assert_eq!(serde_json::from_str::<Row>(&text).unwrap(), row);
    }

    #[test]
    fn histograms_keep_half_a_per_cent() {
        let values: Vec<f64> = (1..=1000).map(f64::from).collect();
        let histogram = Histogram::of(&values);
        assert_eq!(histogram.counts.iter().sum::<u64>(), 1000);
        for share in [0.5, 0.9, 0.99, 1.0] {
            let exact = share * 1000.0;
            let kept = histogram.quantile(share).unwrap();
            assert!((exact..=exact * 1.008).contains(&kept), "{share}: {kept} for {exact}");
        }
        assert_eq!(Histogram::default().quantile(0.5), None);
        assert_eq!(Histogram::of(&[0.0]).values, [0.0]);
    }
}
