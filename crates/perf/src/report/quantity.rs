//! Numbers with their units, as people read them: 3.45 us, 1.20 ms, 4 KiB, 2.1 M/s.

use serde_json::Value;

/// Times in ascending order, each with its length in nanoseconds.
const TIMES: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];

/// A unit, and what a value of a row is divided by to be in it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    divisor: f64,
    /// The unit that is left.
    pub(super) unit: String,
}

impl Scale {
    /// The unit in which a value of this size is read best.
    pub(super) fn of(unit: &str, value: f64) -> Self {
        let value = value.abs();
        if let Some((_, length)) = TIMES.iter().find(|(name, _)| *name == unit) {
            let ns = value * length;
            let at = TIMES.iter().rposition(|(_, other)| ns >= *other).unwrap_or(0);
            // Nothing is gained by nanoseconds of what was measured in microseconds.
            let own = TIMES.iter().position(|(name, _)| *name == unit).unwrap_or(0);
            let (name, other) = TIMES[if value == 0.0 { own } else { at.max(own.min(1)) }];
            return Self { divisor: other / length, unit: name.to_owned() };
        }
        match unit {
            "1/s" if value >= 1e6 => Self { divisor: 1e6, unit: "M/s".to_owned() },
            "1/s" if value >= 1e3 => Self { divisor: 1e3, unit: "k/s".to_owned() },
            "GB/s" if value > 0.0 && value < 1.0 => Self { divisor: 1e-3, unit: "MB/s".to_owned() },
            _ => Self { divisor: 1.0, unit: unit.to_owned() },
        }
    }

    /// A value of the row in this unit, without its name.
    pub(super) fn number(&self, value: f64) -> String {
        number(value / self.divisor)
    }
}

/// Three significant digits, and all digits before the point.
pub(super) fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => return "0".to_owned(),
        small if small < 0.001 => return format!("{value:.2e}"),
        all if all >= 100.0 => 0,
        tens if tens >= 10.0 => 1,
        ones if ones >= 1.0 => 2,
        tenths if tenths >= 0.1 => 3,
        _ => 4,
    };
    format!("{value:.digits$}")
}

/// The same without zeros that end a fraction.
pub(super) fn short_number(value: f64) -> String {
    let text = number(value);
    if text.contains('.') && !text.contains('e') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// A value with its unit.
pub(super) fn quantity(value: f64, unit: &str) -> String {
    let scale = Scale::of(unit, value);
    join(&scale.number(value), &scale.unit)
}

/// The same for the label of a tick.
pub(super) fn short_quantity(value: f64, unit: &str) -> String {
    let scale = Scale::of(unit, value);
    join(&short_number(value / scale.divisor), &scale.unit)
}

fn join(number: &str, unit: &str) -> String {
    format!("{number} {unit}").trim_end().to_owned()
}

/// A number of bytes: 64 B, 4 KiB, 1.5 MiB.
pub(super) fn bytes(value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let at = (0..units.len()).rev().find(|at| value.abs() >= 1024_f64.powi(*at as i32)).unwrap_or(0);
    join(&short_number(value / 1024_f64.powi(at as i32)), units[at])
}

/// What a value of a case is read as; the end of its key says the unit (`size_bytes`, `delay_ms`).
pub(super) fn of_case(key: &str, value: &Value) -> String {
    match (value, value.as_f64()) {
        (_, Some(number)) => case_number(key, number),
        (Value::String(text), _) => text.clone(),
        _ => value.to_string(),
    }
}

/// The same of a number.
pub(super) fn case_number(key: &str, value: f64) -> String {
    match unit_of(key) {
        Some("bytes") => bytes(value),
        Some("percent") => join(&short_number(value), "%"),
        Some(unit) => short_quantity(value, unit),
        None => short_number(value),
    }
}

/// The key of a case or the name of a metric in words: `half_round_trip` is half round trip, `size_bytes` is size.
pub(super) fn words(key: &str) -> String {
    let without = unit_of(key).map_or(key, |unit| key[..key.len() - unit.len()].trim_end_matches('_'));
    let all = without.split('_').map(|word| if word == "cpu" { "CPU" } else { word });
    all.collect::<Vec<_>>().join(" ")
}

/// The key of a case as the title of an axis: size (bytes).
pub(super) fn axis_title(key: &str) -> String {
    unit_of(key).map_or_else(|| words(key), |unit| format!("{} ({unit})", words(key)))
}

/// The unit at the end of a key.
fn unit_of(key: &str) -> Option<&'static str> {
    let (name, end) = key.rsplit_once('_')?;
    let known = ["bytes", "percent", "ns", "us", "ms", "s"].into_iter().find(|unit| *unit == end);
    known.filter(|_| !name.is_empty())
}

/// How often chance alone would do it.
pub(super) fn chance(p: f64) -> String {
    match p {
        small if small < 0.0001 => "< 0.0001".to_owned(),
        small if small < 0.1 => format!("{small:.4}"),
        large => format!("{large:.2}"),
    }
}

/// A share as a percentage.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_the_unit_of_their_size() {
        assert_eq!(quantity(3.449, "us"), "3.45 us");
        assert_eq!(quantity(1200.0, "us"), "1.20 ms");
        assert_eq!(quantity(0.25, "us"), "0.250 us");
        assert_eq!(quantity(250.0, "ns"), "250 ns");
        assert_eq!(quantity(0.0, "ms"), "0 ms");
        assert_eq!(quantity(2.5e6, "1/s"), "2.50 M/s");
        assert_eq!(quantity(0.05, "GB/s"), "50.0 MB/s");
        assert_eq!(quantity(0.5, ""), "0.500");
        assert_eq!(short_quantity(100_000.0, "us"), "100 ms");
        assert_eq!(number(-1234.5), "-1234");
        assert_eq!(number(1e-5), "1.00e-5");
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(
            ["0", "64", "4096", "1048576", "1536"].map(|size| bytes(size.parse().unwrap())),
            ["0 B", "64 B", "4 KiB", "1 MiB", "1.5 KiB"]
        );
    }

    #[test]
    fn keys_say_their_units() {
        assert_eq!((words("size_bytes"), axis_title("size_bytes")), ("size".into(), "size (bytes)".into()));
        assert_eq!((words("half_round_trip"), axis_title("links")), ("half round trip".into(), "links".into()));
        assert_eq!(of_case("delay_ms", &Value::from(4)), "4 ms");
        assert_eq!(of_case("target", &Value::from("silent")), "silent");
        assert_eq!(of_case("links", &Value::from(8)), "8");
        assert_eq!(of_case("is_two_way", &Value::from(true)), "true");
    }

    #[test]
    fn chances_keep_what_matters_of_them() {
        assert_eq!([2.0 / 924.0, 0.000_01, 0.42].map(chance), ["0.0022", "< 0.0001", "0.42"]);
    }
}
