//! What a few measurements allow to say: medians with exact intervals, and whether two of them differ.
//!
//! Nothing here assumes a distribution. The interval of a median is between two order statistics, and its coverage
//! follows from the binomial distribution alone; two samples are compared by the exact distribution of their rank sum.

use serde::{Deserialize, Serialize};

/// Two samples differ when chance alone would set them as far apart less often than this.
pub const SIGNIFICANT: f64 = 0.01;

/// The least coverage of an interval, where there are enough values for it.
const COVERAGE: f64 = 0.95;

/// An interval in which the median of what was sampled lies, with a probability.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// Its lower end, a value of the sample.
    pub low: f64,
    /// Its upper end, a value of the sample.
    pub high: f64,
    /// How often such an interval holds the median, from 0 to 1, whatever the distribution.
    pub coverage: f64,
}

/// The value in the middle, or between the two in the middle; `None` without values.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 0 => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
        _ => Some(sorted[middle]),
    }
}

/// The mean; `None` without values.
#[must_use]
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The least value that at least this share of all does not exceed (`0.99`: the 99th percentile); `None` without
/// values.
#[must_use]
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let sorted = sorted(values);
    let rank = (share.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// The narrowest interval between order statistics that are equally far from the middle and cover the median with 95 %;
/// of fewer than six values all of them, with the coverage that they have. `None` for fewer than two.
#[must_use]
pub fn interval(values: &[f64]) -> Option<Interval> {
    let sorted = sorted(values);
    let count = sorted.len();
    if count < 2 {
        return None;
    }
    // The median is outside when at most `cut` of all values are on one side of it.
    let coverage = |cut: usize| 1.0 - 2.0 * (0..=cut).map(|k| binomial_half(count, k)).sum::<f64>();
    let cut = (0..count / 2).rev().find(|cut| coverage(*cut) >= COVERAGE).unwrap_or(0);
    Some(Interval { low: sorted[cut], high: sorted[count - 1 - cut], coverage: coverage(cut) })
}

/// The chance of exactly `hits` heads in `count` throws.
fn binomial_half(count: usize, hits: usize) -> f64 {
    (0..hits).fold(0.5_f64.powi(count as i32), |chance, k| chance * (count - k) as f64 / (k + 1) as f64)
}

/// How often chance alone would set two samples of these sizes at least as far apart: the exact two-sided rank-sum test
/// (Wilcoxon, Mann and Whitney), where equal values share their ranks. `None` when one of them is empty.
#[must_use]
pub fn rank_sum_test(one: &[f64], other: &[f64]) -> Option<f64> {
    if one.is_empty() || other.is_empty() {
        return None;
    }
    let ranks = doubled_ranks(one, other);
    let found: usize = ranks[..one.len()].iter().sum();
    let total: usize = ranks.iter().sum();
    // ways[k][s]: how many choices of k ranks have the sum s. Shares of all choices, so that nothing overflows.
    let mut ways = vec![vec![0.0_f64; total + 1]; one.len() + 1];
    ways[0][0] = 1.0;
    for (seen, rank) in ranks.iter().enumerate() {
        for chosen in (1..=one.len().min(seen + 1)).rev() {
            let (fewer, more) = ways.split_at_mut(chosen);
            for sum in *rank..=total {
                more[0][sum] += fewer[chosen - 1][sum - rank];
            }
        }
    }
    let all: f64 = ways[one.len()].iter().sum();
    // Twice the distance from the expected sum, in whole numbers.
    let away = |sum: usize| (sum * ranks.len()).abs_diff(total * one.len());
    let extreme = |sum: &usize| away(*sum) >= away(found);
    Some((0..=total).filter(extreme).map(|sum| ways[one.len()][sum]).sum::<f64>() / all)
}

/// Twice the rank of each value among all, those of `one` first: equal values have their mean rank.
fn doubled_ranks(one: &[f64], other: &[f64]) -> Vec<usize> {
    let all: Vec<f64> = one.iter().chain(other).copied().collect();
    let rank = |value: &f64| {
        let less = all.iter().filter(|other| other.total_cmp(value).is_lt()).count();
        let equal = all.iter().filter(|other| other.total_cmp(value).is_eq()).count();
        2 * less + equal + 1
    };
    all.iter().map(rank).collect()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_middle_and_the_percentiles() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!((median(&[]), mean(&[]), quantile(&[], 0.5)), (None, None, None));
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(quantile(&hundred, 0.99), Some(99.0));
        assert_eq!((quantile(&hundred, 0.0), quantile(&hundred, 1.0)), (Some(1.0), Some(100.0)));
    }

    #[test]
    fn intervals_have_the_coverage_of_the_books() {
        let of = |count: u32| interval(&(1..=count).map(f64::from).collect::<Vec<_>>()).unwrap();
        // Conover, Practical Nonparametric Statistics, table A3.
        assert_eq!((of(6).low, of(6).high), (1.0, 6.0));
        assert!((of(6).coverage - 0.968_75).abs() < 1e-12);
        assert_eq!((of(10).low, of(10).high), (2.0, 9.0));
        assert!((of(10).coverage - 0.978_515_625).abs() < 1e-12);
        assert_eq!((of(20).low, of(20).high), (6.0, 15.0));
        // Too few for 95 %: all of them, and what that is worth.
        assert_eq!((of(3).low, of(3).high, of(3).coverage), (1.0, 3.0, 0.75));
        assert_eq!(interval(&[1.0]), None);
    }

    #[test]
    fn the_rank_sum_has_its_exact_distribution() {
        let (low, high) = ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]);
        assert_eq!(rank_sum_test(&low, &high), Some(0.1), "2 of 20 choices");
        let six = |from: u32| (from..from + 6).map(f64::from).collect::<Vec<_>>();
        assert!((rank_sum_test(&six(0), &six(6)).unwrap() - 2.0 / 924.0).abs() < 1e-12);
        assert_eq!(rank_sum_test(&[1.0, 1.0], &[1.0, 1.0]), Some(1.0), "no rank tells them apart");
        assert_eq!(rank_sum_test(&[], &low), None);
        // Of the ranks 1 2 3.5 3.5 5 the pairs that are as far out as (1, 2): itself alone, and (3.5, 5) twice less.
        assert_eq!(rank_sum_test(&[1.0, 2.0], &[3.0, 3.0, 4.0]), Some(0.1));
    }

    proptest! {
        #[test]
        fn chances_are_chances_and_know_no_order(
            one in prop::collection::vec(0_u8..8, 1..9), other in prop::collection::vec(0_u8..8, 1..9)
        ) {
            let [one, other] = [one, other].map(|all| all.into_iter().map(f64::from).collect::<Vec<_>>());
            let p = rank_sum_test(&one, &other).unwrap();
            prop_assert!(p > 0.0 && p <= 1.0 + 1e-12);
            prop_assert!((p - rank_sum_test(&other, &one).unwrap()).abs() < 1e-9);
        }

        #[test]
        fn intervals_hold_the_median_of_the_sample(values in prop::collection::vec(-1e6..1e6_f64, 2..40)) {
            let (found, middle) = (interval(&values).unwrap(), median(&values).unwrap());
            prop_assert!(found.low <= middle && middle <= found.high);
            prop_assert!((0.5 - 1e-12..1.0).contains(&found.coverage));
        }
    }
}
