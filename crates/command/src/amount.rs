//! Counts as people read them.

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Anything without a unit of its own, in steps of 1000.
    Things,
    /// Bytes, in steps of 1024.
    Bytes,
    /// Time, in nanoseconds.
    Nanoseconds,
}

impl Unit {
    /// By its name, which ends with the unit.
    #[must_use]
    pub fn of(name: &str) -> Self {
        if name.ends_with("_bytes") {
            Self::Bytes
        } else if name.ends_with("_ns") {
            Self::Nanoseconds
        } else {
            Self::Things
        }
    }

    /// Three or four digits, with a unit.
    #[must_use]
    pub fn amount(self, value: f64) -> String {
        match self {
            Self::Things => scaled(value, 1000.0, &["", " K", " M", " G", " T"]),
            Self::Bytes => scaled(value, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"]),
            Self::Nanoseconds => scaled(value, 1000.0, &[" ns", " us", " ms", " s"]),
        }
    }

    /// Per second. Of time this is the share of a processor.
    #[must_use]
    pub fn rate(self, value: f64) -> String {
        match self {
            Self::Nanoseconds => share(value / 1e9),
            unit => format!("{}/s", unit.amount(value)),
        }
    }
}

/// Bytes per second, as links count.
#[must_use]
pub fn bits_per_second(bytes: f64) -> String {
    scaled(bytes * 8.0, 1000.0, &[" b/s", " kb/s", " Mb/s", " Gb/s", " Tb/s"])
}

/// A part of 1, in per cent.
#[must_use]
pub fn share(part: f64) -> String {
    format!("{:.1} %", part * 100.0)
}

fn scaled(mut value: f64, step: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // What would be rounded up to a whole step belongs to the next unit.
    while value >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let digits = if unit == 0 && value.fract() == 0.0 || value >= 99.95 { 0 } else { 1 };
    format!("{value:.digits$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts() {
        let table = [
            (Unit::Things, 0.0, "0"),
            (Unit::Things, 0.25, "0.2"),
            (Unit::Things, 999.0, "999"),
            (Unit::Things, 999.7, "1.0 K"),
            (Unit::Things, 12_345.0, "12.3 K"),
            (Unit::Things, 999_960.0, "1.0 M"),
            (Unit::Things, 2e18, "2000000 T"),
            (Unit::Bytes, 1023.0, "1023 B"),
            (Unit::Bytes, 1536.0, "1.5 KiB"),
            (Unit::Bytes, 3.0 * 1024.0 * 1024.0 * 1024.0, "3.0 GiB"),
            (Unit::Nanoseconds, 12_500.0, "12.5 us"),
            (Unit::Nanoseconds, 9e12, "9000 s"),
        ];
        for (unit, value, text) in table {
            assert_eq!(unit.amount(value), text, "{value}");
        }
        assert_eq!(bits_per_second(125e6), "1.0 Gb/s");
        assert_eq!(Unit::Bytes.rate(2048.0), "2.0 KiB/s");
        assert_eq!(Unit::Nanoseconds.rate(5e8), "50.0 %");
    }

    #[test]
    fn units_stand_in_names() {
        let units = ["placed_direct", "placed_direct_bytes", "thread_ns"].map(Unit::of);
        assert_eq!(units, [Unit::Things, Unit::Bytes, Unit::Nanoseconds]);
    }
}
