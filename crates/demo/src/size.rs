//! Amounts of data as people type and read them. K, M, G and T count in steps of 1024.

use std::fmt;
use std::str::FromStr;

/// The most that is made up, in bytes.
const MOST: u64 = 1 << 40;

const UNITS: [(char, u32); 4] = [('T', 40), ('G', 30), ('M', 20), ('K', 10)];

/// An amount of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let upper = text.trim().to_ascii_uppercase();
        let short = upper.strip_suffix("IB").or_else(|| upper.strip_suffix('B')).unwrap_or(&upper);
        let unit = UNITS.iter().find_map(|(letter, shift)| Some((short.strip_suffix(*letter)?, *shift)));
        let (digits, shift) = unit.unwrap_or((short, 0));
        let number: u64 =
            digits.parse().map_err(|_| format!("{text:?} is no size; write for instance 5000, 64M or 2G"))?;
        match number.checked_mul(1 << shift) {
            Some(bytes) if (1..=MOST).contains(&bytes) => Ok(Self(bytes)),
            _ => Err(format!("{text:?} is out of range; from 1 byte to 1T is possible")),
        }
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(_, shift)| self.0 >= 1 << shift) {
            None => write!(f, "{} bytes", self.0),
            Some((letter, shift)) if self.0.is_multiple_of(1 << shift) => write!(f, "{} {letter}iB", self.0 >> shift),
            Some((letter, shift)) => write!(f, "{:.1} {letter}iB", self.0 as f64 / (1_u64 << shift) as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read() {
        for (text, bytes) in [("5000", 5000), ("64M", 64 << 20), ("2gib", 2 << 30), ("1T", 1 << 40), ("3kb", 3072)] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "0", "M", "-1", "2T", "1.5M", "99999999999999999999", "20000000T", "é"] {
            assert!(text.parse::<Bytes>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn amounts_are_written() {
        let texts = [1, 1023, 1024, 1536, 64 << 20, (64 << 20) + 1].map(|bytes| Bytes(bytes).to_string());
        assert_eq!(texts, ["1 bytes", "1023 bytes", "1 KiB", "1.5 KiB", "64 MiB", "64.0 MiB"]);
    }
}
