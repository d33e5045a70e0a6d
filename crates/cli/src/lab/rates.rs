//! What links carry, as it is typed: one rate for all, none, or one for each rail.

use std::str::FromStr;

use weft_lab::BitsPerSecond;

/// A rate, or none; or one for each rail.
#[derive(Clone, Debug)]
pub(super) struct Rates {
    pub(super) all: Option<BitsPerSecond>,
    pub(super) each: Vec<BitsPerSecond>,
}

impl FromStr for Rates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self { all: None, each: Vec::new() });
        }
        let each = text.split(',').map(str::parse).collect::<Result<Vec<BitsPerSecond>, _>>()?;
        Ok(match each[..] {
            [one] => Self { all: Some(one), each: Vec::new() },
            _ => Self { all: None, each },
        })
    }
}

impl Rates {
    /// Whether there is one for each rail, where there is more than one.
    pub(super) fn check(&self, links: usize) -> Result<(), String> {
        if self.each.is_empty() || self.each.len() == links {
            return Ok(());
        }
        Err(format!("rate names {} rates, for {links} links of each host", self.each.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_may_be_none_or_one_for_each_rail() {
        let megabits = |count: u64| BitsPerSecond(count * 1_000_000);
        let rates = |text: &str| text.parse::<Rates>().map(|rates| (rates.all, rates.each));
        assert_eq!(rates("none"), Ok((None, vec![])));
        assert_eq!(rates("10M"), Ok((Some(megabits(10)), vec![])));
        assert_eq!(rates("10M,20M"), Ok((None, vec![megabits(10), megabits(20)])));
        for text in ["fast", "10M,", "none,10M"] {
            assert!(rates(text).is_err(), "{text}");
        }
        let two: Rates = "10M,20M".parse().unwrap();
        assert!(two.check(2).is_ok() && two.check(3).unwrap_err().contains("2 rates, for 3 links"));
    }
}
