//! How delays are spread around their mean.

use core::time::Duration;
use std::fmt;

use weft_base::Random;

use crate::Chance;
use crate::math::{exp, ln, quantile, share_below};

/// How much longer, or shorter, than [`Settings::delay`](crate::Settings::delay) each packet takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// Not at all.
    #[default]
    None,
    /// A normal distribution around the delay. What would be less than no delay is none.
    Normal {
        /// The standard deviation.
        deviation: Duration,
    },
    /// A Pareto distribution (of the second type, Lomax): most packets take little longer, and few much. The mean of
    /// what they take longer is `scale / (shape - 1)`; half of them take at most `scale * (2^(1 / shape) - 1)`.
    Pareto {
        /// In which it is measured.
        scale: Duration,
        /// The smaller, the longer its tail: in thousandths, above 1000.
        shape_thousandths: u32,
    },
}

/// No packet takes longer by more than this, whatever is drawn.
pub const LONGEST_SPREAD: Duration = Duration::from_secs(60);

/// Delays, as they were measured somewhere: each is drawn as often as it is there, and what lies between two neighbours
/// as often as they.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayTable(Vec<u64>);

/// Delays that a table may have.
pub const TABLE_DELAYS: usize = 1_000_000;

/// Why a text is no table of delays, or no trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileError {
    /// A line is no number, or one that is out of range.
    Line {
        /// Which one, from 1.
        number: usize,
        /// What it says, the beginning of it.
        text: String,
        /// What it has to be.
        wanted: &'static str,
    },
    /// It has no number.
    Empty,
    /// It has more lines than this.
    TooLong(usize),
    /// The times of a trace run backwards in this line, from 1.
    Backwards(usize),
    /// All times of a trace are 0: nothing would ever say how fast it is.
    NoTime,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { number, text, wanted } => write!(f, "line {number} says {text:?}; {wanted}"),
            Self::Empty => f.write_str("it has no line with a number"),
            Self::TooLong(most) => write!(f, "it has more than {most} lines; cut a part out of it"),
            Self::Backwards(number) => {
                write!(f, "line {number} is earlier than the one before; the times of a trace never run backwards")
            }
            Self::NoTime => f.write_str("all its times are 0; the last one is the length of the trace"),
        }
    }
}

impl std::error::Error for FileError {}

/// The lines of a text with numbers: not those that are empty or begin with `#`. Each with its number.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// That a line is not what is wanted.
pub(crate) fn wrong_line(number: usize, text: &str, wanted: &'static str) -> FileError {
    FileError::Line { number, text: text.chars().take(40).collect(), wanted }
}

impl DelayTable {
    /// Reads a text with a delay in each line, in milliseconds: `0.25`, `12`. Empty lines, and those that begin with
    /// `#`, are none.
    ///
    /// # Errors
    /// A line is no delay between 0 and [`LONGEST_SPREAD`]; there is none; there are more than [`TABLE_DELAYS`].
    pub fn parse(text: &str) -> Result<Self, FileError> {
        const WANTED: &str = "a delay is a number of milliseconds from 0 to 60000, for instance 12.5";
        let mut delays = Vec::new();
        for (number, line) in lines(text) {
            let is_plain = line.len() <= 15 && line.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            let milliseconds = is_plain.then(|| line.parse::<f64>().ok()).flatten();
            let nanos = milliseconds.map(|milliseconds| milliseconds * 1e6);
            let nanos = nanos.filter(|nanos| *nanos <= LONGEST_SPREAD.as_nanos() as f64);
            delays.push(nanos.ok_or_else(|| wrong_line(number, line, WANTED))?.round() as u64);
            if delays.len() > TABLE_DELAYS {
                return Err(FileError::TooLong(TABLE_DELAYS));
            }
        }
        delays.sort_unstable();
        if delays.is_empty() { Err(FileError::Empty) } else { Ok(Self(delays)) }
    }

    /// Below which delay a share of them lies, in nanoseconds.
    fn quantile(&self, share: f64) -> f64 {
        let at = share * (self.0.len() - 1) as f64;
        let below = (at as usize).min(self.0.len() - 1);
        let above = (below + 1).min(self.0.len() - 1);
        let (low, high) = (self.0[below] as f64, self.0[above] as f64);
        low + (high - low) * (at - below as f64)
    }
}

/// Draws from spreads, and remembers what the next is to be like.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drawer {
    /// The last number of a normal distribution, if they are correlated.
    last: f64,
}

impl Drawer {
    /// The next number of nanoseconds: of the table if there is one, or else of the spread.
    ///
    /// What is drawn is correlated as normal numbers are in a process of first order, each the share of the one before
    /// and the rest anew, and its share below gives the value of the requested distribution. So the distribution is the
    /// same whatever the correlation.
    pub(crate) fn draw(
        &mut self,
        spread: Spread,
        table: Option<&DelayTable>,
        correlation: Chance,
        random: &mut Random,
    ) -> f64 {
        if table.is_none() && spread == Spread::None {
            return 0.0;
        }
        // 53 bits, and half a step, so that neither 0 nor 1 is drawn.
        let mut share = ((random.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let rho = f64::from(correlation.millionths()) / 1e6;
        if rho > 0.0 {
            self.last = rho * self.last + (1.0 - rho * rho).sqrt() * quantile(share);
            share = share_below(self.last).clamp(1e-9, 1.0 - 1e-9);
        }
        let nanos = match (table, spread) {
            (Some(table), _) => table.quantile(share),
            (None, Spread::None) => 0.0,
            (None, Spread::Normal { deviation }) => quantile(share) * deviation.as_nanos() as f64,
            (None, Spread::Pareto { scale, shape_thousandths }) => {
                let shape = f64::from(shape_thousandths.max(1)) / 1000.0;
                scale.as_nanos() as f64 * (exp(-ln(1.0 - share) / shape) - 1.0)
            }
        };
        let longest = LONGEST_SPREAD.as_nanos() as f64;
        nanos.clamp(-longest, longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: usize = 40_000;

    fn draws(spread: Spread, table: Option<&DelayTable>, percent: u32) -> Vec<f64> {
        let (mut drawer, mut random) = (Drawer::default(), Random::new(3));
        (0..COUNT).map(|_| drawer.draw(spread, table, Chance::percent(percent), &mut random) / 1e6).collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    /// How much a value and the next vary together, as a share of how much they vary.
    fn correlation(values: &[f64]) -> f64 {
        let mean = mean(values);
        let both: f64 = values.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
        both / values.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
    }

    fn sorted(mut values: Vec<f64>) -> Vec<f64> {
        values.sort_by(f64::total_cmp);
        values
    }

    #[test]
    fn a_normal_spread_has_its_deviation_whatever_the_correlation() {
        let spread = Spread::Normal { deviation: Duration::from_millis(2) };
        for percent in [0, 50, 90] {
            let values = draws(spread, None, percent);
            let deviation = mean(&values.iter().map(|value| value * value).collect::<Vec<_>>()).sqrt();
            assert!((deviation - 2.0).abs() < 0.1, "{percent} %: {deviation}");
            let found = correlation(&values);
            assert!((found - f64::from(percent) / 100.0).abs() < 0.02, "{percent} %: {found}");
        }
    }

    #[test]
    fn a_pareto_spread_has_its_mean_and_median() {
        let spread = Spread::Pareto { scale: Duration::from_millis(3), shape_thousandths: 4000 };
        let values = sorted(draws(spread, None, 0));
        assert!((mean(&values) - 1.0).abs() < 0.03, "{}", mean(&values));
        let median = 3.0 * (2f64.powf(0.25) - 1.0);
        assert!((values[COUNT / 2] - median).abs() < 0.03, "{}", values[COUNT / 2]);
        assert!(values[0] >= 0.0 && values[COUNT - 1] > 10.0, "{}", values[COUNT - 1]);
        let heaviest = Spread::Pareto { scale: Duration::from_secs(1), shape_thousandths: 0 };
        let longest = draws(heaviest, None, 0).into_iter().fold(0.0, f64::max);
        assert_eq!(longest, LONGEST_SPREAD.as_secs_f64() * 1000.0, "it is bounded");
    }

    #[test]
    fn a_table_gives_what_it_has() {
        let table = DelayTable::parse("# measured\n10\n\n 20.5 \n30\n").unwrap();
        for percent in [0, 80] {
            let values = sorted(draws(Spread::None, Some(&table), percent));
            assert!(values[0] >= 10.0 && values[COUNT - 1] <= 30.0);
            assert!((values[COUNT / 2] - 20.5).abs() < 0.5, "{}", values[COUNT / 2]);
        }
        let one = DelayTable::parse("7").unwrap();
        assert!(draws(Spread::None, Some(&one), 0).iter().all(|value| *value == 7.0));
    }

    #[test]
    fn what_is_no_table_is_refused_with_its_line() {
        for (text, words) in [
            ("", "no line with a number"),
            ("# nothing\n", "no line with a number"),
            ("1\n-2\n", "line 2 says \"-2\""),
            ("1e3", "line 1"),
            ("60001", "from 0 to 60000"),
            ("nan", "line 1"),
        ] {
            let message = DelayTable::parse(text).unwrap_err().to_string();
            assert!(message.contains(words), "{text:?}: {message}");
        }
        assert_eq!(DelayTable::parse(&"1\n".repeat(TABLE_DELAYS + 1)), Err(FileError::TooLong(TABLE_DELAYS)));
    }
}
