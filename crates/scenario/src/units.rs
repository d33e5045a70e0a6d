//! Times, shares and rates, as people write them.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// A time with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

/// A share, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(pub u32);

/// A rate. As people type and read it, K, M and G count in steps of 1000: `500M`, `1G`, `2.5G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BitsPerSecond(pub u64);

/// A number without a sign, an exponent or a name.
pub(crate) fn plain(text: &str) -> Option<f64> {
    let is_plain = text.len() <= 15 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_plain.then(|| text.parse().ok()).flatten()
}

impl FromStr for Time {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
        let read = units.into_iter().find_map(|(unit, factor)| Some(plain(text.strip_suffix(unit)?)? * factor));
        let time = read.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        time.map(Self).ok_or_else(|| format!("{text:?} is no time; write for instance 500us, 10ms or 1.5s"))
    }
}

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share = plain(text.strip_suffix('%').unwrap_or(text)).filter(|percent| *percent <= 100.0);
        let wrong = || format!("{text:?} is no share; write percent from 0 to 100, for instance 0.5");
        share.map(|percent| Self((percent * 10_000.0).round() as u32)).ok_or_else(wrong)
    }
}

const UNITS: [(char, u64); 3] = [('G', 1_000_000_000), ('M', 1_000_000), ('K', 1000)];

impl FromStr for BitsPerSecond {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no rate; write for instance 500M, 1G or 2.5G");
        let upper = text.trim().to_ascii_uppercase();
        let unit = UNITS.iter().find_map(|(letter, factor)| Some((upper.strip_suffix(*letter)?, *factor)));
        let (number, factor) = unit.unwrap_or((&upper, 1));
        let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
        let digits = |text: &str| !text.is_empty() && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit());
        let whole_fits = !whole.is_empty() && whole.bytes().all(|byte| byte.is_ascii_digit());
        if !whole_fits || !digits(part) {
            return Err(wrong());
        }
        let whole: u64 = whole.parse().map_err(|_| wrong())?;
        let (part, scale): (u64, u64) = (part.parse().map_err(|_| wrong())?, 10_u64.pow(part.len() as u32));
        let bits = whole.checked_mul(factor).and_then(|bits| bits.checked_add(part * factor / scale));
        bits.map(Self).ok_or_else(wrong)
    }
}

impl fmt::Display for BitsPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, factor)| self.0 >= *factor) {
            None => write!(f, "{} b/s", self.0),
            Some((letter, factor)) => {
                let letter = if *letter == 'K' { 'k' } else { *letter };
                write!(f, "{} {letter}b/s", self.0 as f64 / *factor as f64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, micros) in [("500us", 500), ("10ms", 10_000), ("1.5s", 1_500_000), ("0.25ms", 250), ("0s", 0)] {
            assert_eq!(text.parse(), Ok(Time(Duration::from_micros(micros))), "{text}");
        }
        for text in ["", "10", "ms", "-1ms", "1e3s", "nans", "infs", "1h", "1.2.3s", "99999999999999999999s"] {
            assert!(text.parse::<Time>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn shares_are_percent() {
        for (text, millionths) in [("0.5", 5000), ("100%", 1_000_000), ("0", 0), ("0.0001", 1)] {
            assert_eq!(text.parse(), Ok(Percent(millionths)), "{text}");
        }
        for text in ["", "%", "101", "-1", "1e1", "NaN", "half"] {
            assert!(text.parse::<Percent>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn rates_are_read_and_written() {
        for (text, bits, shown) in [
            ("1G", 1_000_000_000, "1 Gb/s"),
            ("2.5g", 2_500_000_000, "2.5 Gb/s"),
            ("0.25G", 250_000_000, "250 Mb/s"),
            (" 500M ", 500_000_000, "500 Mb/s"),
            ("100k", 100_000, "100 kb/s"),
            ("7", 7, "7 b/s"),
        ] {
            let rate: BitsPerSecond = text.parse().unwrap();
            assert_eq!((rate, rate.to_string().as_str()), (BitsPerSecond(bits), shown), "{text}");
        }
        for text in ["", "G", "-1G", "1.G", ".5G", "1.5.5G", "1T", "é", "99999999999999999999", "20000000000G"] {
            assert!(text.parse::<BitsPerSecond>().is_err(), "{text:?}");
        }
    }
}
