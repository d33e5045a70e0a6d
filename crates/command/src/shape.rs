//! What a test network does to frames, as options say it, and the program that does it.

use std::env;
use std::time::Duration;

use weft_lab::{BridgeProgram, LabError, Shape};
pub use weft_scenario::{Percent, Time};

/// The name of the command that carries the frames of shaped links.
pub const BRIDGE_COMMAND: &str = "bridge";

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
}
