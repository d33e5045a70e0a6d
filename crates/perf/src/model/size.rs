//! Sizes as people type and read them: `8`, `64K`, `8..4K`, `64K,1M`. K, M and G count in steps of 1024.

use std::fmt;
use std::str::FromStr;

/// The largest message that is measured, in bytes.
pub(crate) const LARGEST: usize = 1 << 30;

/// A message size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) usize);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no size; write for instance 8, 64K or 1M");
        let upper = text.trim().to_ascii_uppercase();
        let short = upper.strip_suffix("IB").or_else(|| upper.strip_suffix('B')).unwrap_or(&upper);
        let (digits, shift) = match short.char_indices().next_back() {
            Some((at, 'K')) => (&short[..at], 10),
            Some((at, 'M')) => (&short[..at], 20),
            Some((at, 'G')) => (&short[..at], 30),
            _ => (short, 0),
        };
        let number: usize = digits.trim().parse().map_err(|_| wrong())?;
        let bytes = number.checked_mul(1 << shift).ok_or_else(wrong)?;
        if !(1..=LARGEST).contains(&bytes) {
            return Err(format!("{text:?} is out of range; a message has from 1 byte to 1G"));
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => write!(f, "{}M", bytes >> 20),
            bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => write!(f, "{}K", bytes >> 10),
            bytes => write!(f, "{bytes}"),
        }
    }
}

/// One or several sizes: a list with commas, whose members may be ranges in powers of two (`8..4K`: 8, 16, ... 4096).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sizes(pub(crate) Vec<Size>);

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut sizes = Vec::new();
        for part in text.split(',') {
            match part.split_once("..") {
                None => sizes.push(part.parse()?),
                Some((first, last)) => sizes.extend(doublings(first.parse()?, last.parse()?)?),
            }
        }
        Ok(Self(sizes))
    }
}

fn doublings(first: Size, last: Size) -> Result<impl Iterator<Item = Size>, String> {
    if first > last {
        return Err(format!("the range {first}..{last} is empty; write the smaller size first"));
    }
    Ok(std::iter::successors(Some(first), |size| Some(Size(size.0 * 2))).take_while(move |size| *size <= last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Result<Vec<usize>, String> {
        Ok(text.parse::<Sizes>()?.0.into_iter().map(|size| size.0).collect())
    }

    #[test]
    fn sizes_are_read() {
        assert_eq!(sizes("8"), Ok(vec![8]));
        assert_eq!(sizes("64K,1m"), Ok(vec![65536, 1 << 20]));
        assert_eq!(sizes("64KB,2MiB,1G"), Ok(vec![65536, 2 << 20, 1 << 30]));
        assert_eq!(sizes("8..64"), Ok(vec![8, 16, 32, 64]));
        assert_eq!(sizes("6..20,1"), Ok(vec![6, 12, 1]));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "x", "-1", "0", "2G", "99999999999999999999", "20000000000G", "64K..8", "8..", "8,,9", "é"] {
            assert!(sizes(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn sizes_are_written_as_they_are_read() {
        for text in ["1", "1000", "1K", "1025", "64K", "1M", "1025K", "1024M"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
    }
}
