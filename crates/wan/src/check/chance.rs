//! How far counts and distributions may be from what they come from.

use super::case::{Markov, Shape};

/// By how much in the critical value of Kolmogorov and Smirnov, of samples without number: one of 10 000 tests of what
/// is as it should be is above (Smirnov 1948).
const KOLMOGOROV: f64 = 2.23;

impl Markov {
    /// Each packet by itself.
    pub(crate) const fn single(share: f64) -> Self {
        Self { worsens: 0.0, mends: 1.0, in_good: share, in_bad: share }
    }

    /// For how much of the packets the way is bad, in the long run.
    fn bad(self) -> f64 {
        self.worsens / (self.worsens + self.mends)
    }

    /// Which share it loses, in the long run.
    pub(crate) fn share(self) -> f64 {
        self.in_good + self.bad() * (self.in_bad - self.in_good)
    }

    /// The standard deviation of the share of this many packets that are lost. What happens to a packet says something
    /// of those behind it: the covariance over a distance of `k` is that of good and bad, `(1 - worsens - mends)^k`.
    pub(crate) fn deviation(self, packets: f64) -> f64 {
        let (share, bad) = (self.share(), self.bad());
        let memory = 1.0 - self.worsens - self.mends;
        let covariances = (self.in_bad - self.in_good).powi(2) * bad * (1.0 - bad) * memory / (1.0 - memory);
        ((share * (1.0 - share) + 2.0 * covariances) / packets).sqrt()
    }
}

impl Shape {
    /// Which share of packets takes at most this much longer than the delay, in nanoseconds.
    pub(crate) fn share_below(self, ns: f64) -> f64 {
        match self {
            Self::Even { up_to } => (ns / up_to).clamp(0.0, 1.0),
            Self::Normal { deviation } => normal_share(ns / deviation),
            Self::Pareto { scale, shape } => 1.0 - (1.0 + ns.max(0.0) / scale).powf(-shape),
        }
    }

    /// By how much a share may be off where each packet may be late by `late_ns`.
    fn slack(self, late_ns: f64) -> f64 {
        let points = (-4000..8000).map(|point| f64::from(point) * late_ns / 10.0);
        points.map(|at| self.share_below(at + late_ns) - self.share_below(at)).fold(0.0, f64::max)
    }
}

/// The share of a normal distribution below this many deviations (Abramowitz and Stegun 7.1.26; off by 1e-7 at most).
fn normal_share(z: f64) -> f64 {
    let x = z.abs() / core::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let factors = [0.254_829_592, -0.284_496_736, 1.421_413_741, -1.453_152_027, 1.061_405_429];
    let polynomial = factors.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    let above = polynomial * (-x * x).exp() / 2.0;
    if z > 0.0 { 1.0 - above } else { above }
}

/// The largest difference between the shares of these values and those of a distribution (Kolmogorov 1933), and how
/// large it may be where each value may be more by `late_ns`.
pub(crate) fn distance(values: &[f64], shape: Shape, late_ns: f64) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len().max(1) as f64;
    let at = |(index, value): (usize, &f64)| {
        let (share, index) = (shape.share_below(*value), index as f64);
        (share - index / count).abs().max((share - (index + 1.0) / count).abs())
    };
    let largest = sorted.iter().enumerate().map(at).fold(0.0, f64::max);
    (largest, KOLMOGOROV / count.sqrt() + shape.slack(late_ns))
}

/// Below which value a share of them lies.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (share * sorted.len() as f64) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// How much a value says of the next one.
pub(crate) fn correlation(pairs: &[(f64, f64)]) -> f64 {
    let count = pairs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (first, second) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let both: f64 = pairs.iter().map(|(a, b)| (a - first) * (b - second)).sum();
    let squares =
        |of: fn(&(f64, f64)) -> f64, mean: f64| pairs.iter().map(|pair| (of(pair) - mean).powi(2)).sum::<f64>();
    both / (squares(|pair| pair.0, first) * squares(|pair| pair.1, second)).sqrt()
}

/// How long each run of what did not come was.
pub(crate) fn runs(copies: &[u32]) -> Vec<u32> {
    let mut runs = vec![0];
    for copies in copies {
        match (copies, runs.last_mut()) {
            (0, Some(run)) => *run += 1,
            (_, Some(0)) => (),
            _ => runs.push(0),
        }
    }
    runs.retain(|run| *run > 0);
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_base::Random;

    fn even(random: &mut Random) -> f64 {
        random.below(1 << 40) as f64 / (1u64 << 40) as f64
    }

    #[test]
    fn normal_shares_are_those_of_tables() {
        for (z, share) in [(0.0, 0.5), (1.0, 0.841_344_7), (-1.959_964, 0.025), (3.0, 0.998_650_1)] {
            assert!((normal_share(z) - share).abs() < 1e-6, "{z}: {}", normal_share(z));
        }
    }

    #[test]
    fn a_count_of_a_way_with_memory_varies_as_it_is_said_to() {
        const PACKETS: usize = 4000;
        let way = Markov { worsens: 0.01, mends: 0.2, in_good: 0.005, in_bad: 0.5 };
        let mut random = Random::new(3);
        let mut share = || {
            let mut is_bad = false;
            let lost = (0..PACKETS).filter(|_| {
                is_bad ^= even(&mut random) < if is_bad { way.mends } else { way.worsens };
                even(&mut random) < if is_bad { way.in_bad } else { way.in_good }
            });
            lost.count() as f64 / PACKETS as f64
        };
        let shares: Vec<f64> = (0..400).map(|_| share()).collect();
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        let deviation = (shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / shares.len() as f64).sqrt();
        let said = way.deviation(PACKETS as f64);
        assert!((mean - way.share()).abs() < 4.0 * said / 20.0, "{mean} and {}", way.share());
        assert!((deviation / said - 1.0).abs() < 0.15, "{deviation} and {said}");
    }

    #[test]
    fn a_distribution_is_told_from_another() {
        let mut random = Random::new(5);
        let values: Vec<f64> = (0..5000).map(|_| even(&mut random) * 4e6).collect();
        let (own, most) = distance(&values, Shape::Even { up_to: 4e6 }, 0.0);
        assert!(own < most, "{own} and {most}");
        for other in [Shape::Even { up_to: 4.4e6 }, Shape::Normal { deviation: 1e6 }] {
            let (distance, most) = distance(&values, other, 0.0);
            assert!(distance > most, "{other:?}: {distance} and {most}");
        }
        let late: Vec<f64> = values.iter().map(|value| value + 50_000.0).collect();
        let (distance, most) = distance(&late, Shape::Even { up_to: 4e6 }, 50_000.0);
        assert!(distance < most && most < 0.05, "{distance} and {most}");
        let slow = Shape::Pareto { scale: 1.0, shape: 3.0 };
        assert!((slow.share_below(1.0) - 0.875).abs() < 1e-12);
    }

    #[test]
    fn runs_of_losses_have_their_lengths() {
        assert_eq!(runs(&[0, 0, 1, 2, 0, 1, 1, 0]), [2, 1, 1]);
        assert!(runs(&[1, 1]).is_empty() && runs(&[]).is_empty());
    }

    #[test]
    fn a_correlation_is_that_of_the_values() {
        let line: Vec<_> = (0..100).map(|x| (f64::from(x), f64::from(3 * x))).collect();
        assert!((correlation(&line) - 1.0).abs() < 1e-9);
        let mut random = Random::new(7);
        let none: Vec<_> = (0..20_000).map(|_| (even(&mut random), even(&mut random))).collect();
        assert!(correlation(&none).abs() < 0.03);
    }
}
