//! What a test network does to frames, as options say it, and the program that does it.

use std::env;
use std::str::FromStr;
use std::time::Duration;

use weft_lab::{BridgeProgram, LabError, Shape};

/// The name of the command that carries the frames of shaped links.
pub const BRIDGE_COMMAND: &str = "bridge";

/// A time with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub Duration);

/// A share, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(pub u32);

/// A number without a sign, an exponent or a name.
fn plain(text: &str) -> Option<f64> {
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

/// The shape that a word like `delay=2ms,loss=1,reorder=5` names: the options of the command without their dashes.
pub fn shape_of_word(word: &str) -> Result<Shape, String> {
    let mut shape = Shape::default();
    let mut reorder_by = None;
    for part in word.split(',') {
        let (name, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is no NAME=VALUE"))?;
        let time = || value.parse::<Time>().map(|time| time.0);
        let share = || value.parse::<Percent>().map(|share| share.0);
        match name {
            "delay" => shape.delay = time()?,
            "jitter" => shape.jitter = time()?,
            "loss" => shape.loss_millionths = share()?,
            "burst" => shape.burst = Some(value.parse().map_err(|_| format!("{value:?} is no number of frames"))?),
            "reorder" => shape.reorder_millionths = share()?,
            "reorder-by" => reorder_by = Some(time()?),
            "duplicate" => shape.duplicate_millionths = share()?,
            "queue" => shape.queue_bytes = Some(value.parse().map_err(|_| format!("{value:?} is no number of bytes"))?),
            _ => {
                let words = "there are delay, jitter, loss, burst, reorder, reorder-by, duplicate, queue";
                return Err(format!("{name:?} is nothing that is done to frames; {words}"));
            }
        }
    }
    if shape.reorder_millionths > 0 {
        shape.reorder_by = reorder_by.unwrap_or(Duration::from_millis(1));
    }
    Ok(shape)
}

/// This program, as the bridge.
pub fn bridge_program() -> Result<BridgeProgram, LabError> {
    let program = env::current_exe().map_err(|error| LabError::Bridge(format!("cannot find weft: {error}")))?;
    let arguments = ["lab", BRIDGE_COMMAND].map(Into::into).to_vec();
    Ok(BridgeProgram { program, arguments, environment: Vec::new() })
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
    fn a_word_is_a_shape() {
        let shape = shape_of_word("delay=2ms,loss=1%,reorder=5").unwrap();
        let (delay, reorder_by) = (Duration::from_millis(2), Duration::from_millis(1));
        let wanted =
            Shape { delay, loss_millionths: 10_000, reorder_millionths: 50_000, reorder_by, ..Shape::default() };
        assert_eq!(shape, wanted);
        for wrong in ["", "delay", "delay=2", "lose=1", "loss=101", "queue=much"] {
            assert!(shape_of_word(wrong).is_err(), "{wrong:?}");
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
}
