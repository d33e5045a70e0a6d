//! Values as people write them.

use core::ops::RangeInclusive;
use core::str::FromStr;
use core::time::Duration;

use weft_nic::Progress;

/// A number of bytes: `K`, `M` and `G` are powers of 1024.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let text = text.trim_end_matches(['B', 'b']).trim_end_matches('i');
    let (digits, shift) = match text.chars().last()?.to_ascii_uppercase() {
        'K' => (&text[..text.len() - 1], 10),
        'M' => (&text[..text.len() - 1], 20),
        'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A time in seconds, greater than 0.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim_end_matches('s').trim().parse().ok()?;
    let time = Duration::try_from_secs_f64(seconds).ok()?;
    (!time.is_zero()).then_some(time)
}

/// As [`seconds`]; 0 means never.
pub(super) fn seconds_or_never(text: &str) -> Option<Option<Duration>> {
    if text.trim_end_matches('s').trim().parse() == Ok(0.0) { Some(None) } else { seconds(text).map(Some) }
}

/// A port, or a range of them.
pub(super) fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (u16::from_str(first.trim()).ok()?, u16::from_str(last.trim()).ok()?);
    (first > 0 && first <= last).then_some(first..=last)
}

/// Which threads run a NIC.
pub(super) fn progress(text: &str) -> Option<Progress> {
    match text.to_ascii_lowercase().as_str() {
        "hybrid" => Some(Progress::Hybrid),
        "thread" => Some(Progress::Thread),
        "caller" => Some(Progress::Caller),
        _ => None,
    }
}

/// `on` or `off`.
pub(super) fn switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// The value, if it is in the range.
pub(super) fn between<T: PartialOrd + Copy>(value: T, range: RangeInclusive<T>) -> Option<T> {
    range.contains(&value).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_bytes_have_units() {
        let read = ["4096", "100k", "1MiB", "1g", "64 K", "0"].map(bytes);
        assert_eq!(read, [Some(4096), Some(100 << 10), Some(1 << 20), Some(1 << 30), Some(64 << 10), Some(0)]);
        assert_eq!(["", "K", "-1", "1.5K", "17179869184G", "x"].map(bytes), [None; 6]);
    }

    #[test]
    fn times_are_seconds() {
        assert_eq!(["2.5", "3s"].map(seconds), [Some(Duration::from_millis(2500)), Some(Duration::from_secs(3))]);
        assert_eq!(["0", "-1", "nan", "inf", ""].map(seconds), [None; 5]);
        assert_eq!([seconds_or_never("0"), seconds_or_never("0s")], [Some(None); 2]);
        assert_eq!(seconds_or_never("-3"), None);
    }

    #[test]
    fn ports_are_one_or_a_range() {
        assert_eq!(["7", "5000-5009", "5 - 6"].map(ports), [Some(7..=7), Some(5000..=5009), Some(5..=6)]);
        assert!(["0", "70000", "9-8", "0-5", ""].iter().all(|text| ports(text).is_none()));
    }
}
