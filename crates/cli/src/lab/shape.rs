//! `weft lab shape`.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use weft_lab::{BitsPerSecond, Link, Shape};

use super::Lab;
use super::control::{self, Request};
use crate::failure::Failure;
use crate::output::print_line;

/// What can be said on the command line.
#[derive(Args, Debug)]
pub(super) struct Arguments {
    #[command(flatten)]
    lab: Lab,
    /// The link: railL for all that crosses the rail, or H:railL for host H's cable to it, in both directions
    #[arg(value_name = "LINK")]
    link: Link,
    /// What it carries in each direction: 500M, 1G, 2.5G bits per second
    #[arg(long)]
    rate: Option<BitsPerSecond>,
    /// What may wait for that, in bytes; more is dropped [default: 500000]
    #[arg(long, value_name = "BYTES", requires = "rate")]
    queue: Option<u64>,
    /// How long each frame takes in one direction: 500us, 10ms, 1.5s
    #[arg(long, value_name = "TIME", default_value = "0us")]
    delay: Time,
    /// Up to how much longer, by chance; frames stay in order
    #[arg(long, value_name = "TIME", default_value = "0us")]
    jitter: Time,
    /// Frames that are lost, in percent
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    loss: Percent,
    /// Lost frames in a row, on average [default: as chance has it]
    #[arg(long, value_name = "FRAMES", requires = "loss")]
    burst: Option<u32>,
    /// Frames that others overtake, in percent
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    reorder: Percent,
    /// Up to how much later those come
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    reorder_by: Time,
    /// Frames that come twice, in percent
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    duplicate: Percent,
    /// Frames that come with bits flipped, in percent
    #[arg(long, value_name = "PERCENT", default_value = "0")]
    corrupt: Percent,
    /// Bits that are flipped in such a frame, at most: 1 to 4 [default: 4]
    #[arg(long, value_name = "N")]
    corrupt_bits: Option<u8>,
    /// Do nothing to its frames any more
    #[arg(long)]
    off: bool,
}

/// A time with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Time(Duration);

/// A share, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Percent(u32);

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

impl Arguments {
    fn shape(&self) -> Shape {
        Shape {
            rate: self.rate,
            queue_bytes: self.queue,
            delay: self.delay.0,
            jitter: self.jitter.0,
            loss_millionths: self.loss.0,
            burst: self.burst,
            reorder_millionths: self.reorder.0,
            reorder_by: if self.reorder.0 == 0 { Duration::ZERO } else { self.reorder_by.0 },
            duplicate_millionths: self.duplicate.0,
            corrupt_millionths: self.corrupt.0,
            corrupt_bits: self.corrupt_bits,
        }
    }
}

/// The shape that a word like `delay=2ms,loss=1,reorder=5` names: the options of the command without their dashes.
pub(crate) fn of_word(word: &str) -> Result<Shape, String> {
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

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { lab: Lab { name }, link, off, .. } = arguments;
    let shape = arguments.shape();
    match (off, shape.is_nothing()) {
        (false, true) => {
            let words = "say what the link shall do to frames, for instance --delay 10ms --loss 0.5; or --off";
            return Err(Failure::Usage(words.to_owned()));
        }
        (true, false) => return Err(Failure::Usage("--off leaves nothing to do to frames".to_owned())),
        _ => {}
    }
    shape.check()?;
    control::ask(name, &Request::Shape(*link, shape.clone()))?;
    if *off {
        return print_line(format_args!("Link {link} of lab {name} has no shape."));
    }
    print_line(format_args!("Link {link} of lab {name} is shaped: {shape}."))
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
        let shape = of_word("delay=2ms,loss=1%,reorder=5").unwrap();
        let (delay, reorder_by) = (Duration::from_millis(2), Duration::from_millis(1));
        let wanted =
            Shape { delay, loss_millionths: 10_000, reorder_millionths: 50_000, reorder_by, ..Shape::default() };
        assert_eq!(shape, wanted);
        for wrong in ["", "delay", "delay=2", "lose=1", "loss=101", "queue=much"] {
            assert!(of_word(wrong).is_err(), "{wrong:?}");
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
