//! What a shaped link does to frames.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weft_emulate::{Chance, Delayed, Loss, Queue, Settings};

use crate::error::LabError;
use crate::limits::{BitsPerSecond, RATE};

/// How long a shape may hold a frame: delay, jitter, or what a reordered one takes more.
pub const DELAY: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(10);

/// How many bytes a shape's queue may hold: a large frame at least.
pub const QUEUE: RangeInclusive<u64> = 66_000..=1_000_000_000;

/// How long bursts of loss may be on average, in frames.
pub const BURST: RangeInclusive<u32> = 1..=10_000;

/// How many bits of a corrupted frame may be flipped.
pub const FLIPS: RangeInclusive<u8> = 1..=4;

/// What a link does to the frames that it carries in one direction. [`Default`]: nothing.
///
/// Of the frames, the share that is named is meant, in millionths, of each frame by chance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Shape {
    /// What it carries, bytes counted from the Ethernet header on: one of [`RATE`]. `None`: no limit of its own.
    pub rate: Option<BitsPerSecond>,
    /// What waits for that, in bytes: one of [`QUEUE`]. More is dropped. `None`: 500 000. Without a rate nothing waits.
    pub queue_bytes: Option<u64>,
    /// How long each frame takes: one of [`DELAY`].
    #[serde(rename = "delay_ns", with = "nanos")]
    pub delay: Duration,
    /// Up to how much longer, by chance, in order: one of [`DELAY`].
    #[serde(rename = "jitter_ns", with = "nanos")]
    pub jitter: Duration,
    /// Frames that are lost.
    pub loss_millionths: u32,
    /// How many of them in a row, on average: one of [`BURST`]. `None`: as chance has it.
    pub burst: Option<u32>,
    /// Frames that others overtake.
    pub reorder_millionths: u32,
    /// Up to how much later they come: one of [`DELAY`].
    #[serde(rename = "reorder_by_ns", with = "nanos")]
    pub reorder_by: Duration,
    /// Frames that come twice, the copy at once.
    pub duplicate_millionths: u32,
    /// Frames in which bits are flipped.
    pub corrupt_millionths: u32,
    /// How many in a frame, at most: one of [`FLIPS`]. `None`: four. More than one can cancel out in the checksum of
    /// TCP.
    pub corrupt_bits: Option<u8>,
}

impl Shape {
    /// Whether every value is within its limits.
    ///
    /// # Errors
    /// [`LabError::Shape`] names the one that is not.
    pub fn check(&self) -> Result<(), LabError> {
        let refuse = |what: String| Err(LabError::Shape(what));
        for (name, value) in [("delay", self.delay), ("jitter", self.jitter), ("reorder-by", self.reorder_by)] {
            if !DELAY.contains(&value) {
                return refuse(format!("a {name} of {value:?} is out of range; it is 0 to {:?}", DELAY.end()));
            }
        }
        for (name, value) in self.shares() {
            if value > 1_000_000 {
                return refuse(format!("a {name} of {} % is out of range; it is 0 to 100 %", percent(value)));
            }
        }
        match self {
            Self { rate: Some(rate), .. } if !RATE.contains(rate) => Err(LabError::Rate(*rate)),
            Self { queue_bytes: Some(bytes), .. } if !QUEUE.contains(bytes) => {
                refuse(format!("a queue of {bytes} bytes is out of range; it is {} to {}", QUEUE.start(), QUEUE.end()))
            }
            Self { burst: Some(burst), .. } if !BURST.contains(burst) => refuse(format!(
                "bursts of {burst} frames are out of range; they are {} to {}",
                BURST.start(),
                BURST.end()
            )),
            Self { corrupt_bits: Some(bits), .. } if !FLIPS.contains(bits) => {
                refuse(format!("{bits} corrupted bits are out of range; they are {} to {}", FLIPS.start(), FLIPS.end()))
            }
            Self { corrupt_millionths: 0, corrupt_bits: Some(_), .. } => {
                refuse("corrupted bits need a share of frames that are corrupted".to_owned())
            }
            Self { rate: None, queue_bytes: Some(_), .. } => refuse("a queue needs a rate".to_owned()),
            Self { loss_millionths: 0, burst: Some(_), .. } => refuse("bursts need a loss".to_owned()),
            Self { reorder_millionths: 1.., reorder_by: Duration::ZERO, .. } => {
                refuse("reordering needs a time by which frames come later".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Whether it does nothing.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// What of it takes frames one by one in hand, which the kernel's packet queues do not give; `None`: nothing.
    pub(crate) fn needs_frames(&self) -> Option<&'static str> {
        match self {
            Self { duplicate_millionths: 1.., .. } => Some("make copies of packets (duplicate)"),
            Self { corrupt_millionths: 1.., .. } => Some("flip bits of packets (corrupt)"),
            _ => None,
        }
    }

    /// Whether each packet has a fate of its own, so that super-packets must be cut before.
    pub(crate) fn needs_single_packets(&self) -> bool {
        self.loss_millionths > 0 || self.reorder_millionths > 0 || !self.jitter.is_zero()
    }

    const fn shares(&self) -> [(&'static str, u32); 4] {
        [
            ("loss", self.loss_millionths),
            ("reorder", self.reorder_millionths),
            ("duplicate", self.duplicate_millionths),
            ("corrupt", self.corrupt_millionths),
        ]
    }

    /// As the emulator takes it.
    pub(crate) fn settings(&self) -> Settings {
        let loss = Chance::per_million(self.loss_millionths);
        let queue = self.queue_bytes.map_or_else(Queue::default, |bytes| Queue { bytes, mark_at: None });
        Settings {
            delay: self.delay,
            jitter: self.jitter,
            rate_bits_per_s: self.rate.map(|rate| rate.0),
            queue,
            loss: self.burst.map_or(Loss::Independent(loss), |length| Loss::bursts(loss, length)),
            reordering: Delayed { chance: Chance::per_million(self.reorder_millionths), by: self.reorder_by },
            duplication: Delayed { chance: Chance::per_million(self.duplicate_millionths), by: Duration::ZERO },
            corruption: Chance::per_million(self.corrupt_millionths),
            most_flips: self.corrupt_bits.unwrap_or(*FLIPS.end()),
            // Whole frames are handed in, and the rate counts what the lab's own counts.
            header_bytes: 0,
            frame_bytes: 0,
            ..Settings::default()
        }
    }
}

/// Times as whole nanoseconds.
mod nanos {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_nanos)
    }
}

fn percent(millionths: u32) -> f64 {
    f64::from(millionths) / 10_000.0
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        words.extend(self.rate.map(|rate| format!("rate {rate}")));
        words.extend(self.queue_bytes.map(|bytes| format!("queue {bytes} bytes")));
        for (name, value) in [("delay", self.delay), ("jitter", self.jitter)] {
            words.extend((!value.is_zero()).then(|| format!("{name} {value:?}")));
        }
        words.extend(self.shares().into_iter().filter(|(_, share)| *share > 0).map(|(name, share)| {
            match (name, self.burst) {
                ("loss", Some(burst)) => format!("loss {} % in bursts of {burst}", percent(share)),
                ("reorder", _) => format!("reorder {} % by {:?}", percent(share), self.reorder_by),
                _ => format!("{name} {} %", percent(share)),
            }
        }));
        f.write_str(&if words.is_empty() { "-".to_owned() } else { words.join(", ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_or_means_nothing_is_refused_in_words() {
        let none = Shape::default();
        assert!(none.check().is_ok() && none.is_nothing());
        for (shape, words) in [
            (Shape { delay: Duration::from_secs(11), ..none.clone() }, "a delay of 11s"),
            (Shape { jitter: Duration::from_secs(11), ..none.clone() }, "0 to 10s"),
            (Shape { loss_millionths: 1_000_001, ..none.clone() }, "0 to 100 %"),
            (Shape { rate: Some(BitsPerSecond(1)), ..none.clone() }, "1 b/s"),
            (Shape { queue_bytes: Some(66_000), ..none.clone() }, "needs a rate"),
            (Shape { rate: Some(BitsPerSecond(1_000_000)), queue_bytes: Some(1), ..none.clone() }, "66000"),
            (Shape { burst: Some(3), ..none.clone() }, "need a loss"),
            (Shape { burst: Some(0), loss_millionths: 1, ..none.clone() }, "1 to 10000"),
            (Shape { reorder_millionths: 1, ..none.clone() }, "needs a time"),
            (Shape { corrupt_millionths: 1, corrupt_bits: Some(5), ..none.clone() }, "1 to 4"),
            (Shape { corrupt_bits: Some(1), ..none.clone() }, "need a share"),
        ] {
            let message = shape.check().unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
    }

    #[test]
    fn what_a_shape_needs_of_its_carrier_is_known() {
        let none = Shape::default();
        let delay = Shape { delay: Duration::from_millis(1), ..none.clone() };
        assert!(!delay.needs_single_packets() && delay.needs_frames().is_none());
        for single in [
            Shape { loss_millionths: 1, ..none.clone() },
            Shape { reorder_millionths: 1, ..none.clone() },
            Shape { jitter: Duration::from_nanos(1), ..none.clone() },
        ] {
            assert!(single.needs_single_packets() && single.needs_frames().is_none());
        }
        assert!(Shape { duplicate_millionths: 1, ..none.clone() }.needs_frames().unwrap().contains("duplicate"));
        assert!(Shape { corrupt_millionths: 1, ..none }.needs_frames().unwrap().contains("corrupt"));
    }

    #[test]
    fn a_shape_is_described_and_survives_json() {
        let shape = Shape {
            rate: Some(BitsPerSecond(100_000_000)),
            delay: Duration::from_millis(10),
            loss_millionths: 5000,
            burst: Some(4),
            reorder_millionths: 10_000,
            reorder_by: Duration::from_millis(1),
            ..Shape::default()
        };
        assert_eq!(shape.to_string(), "rate 100 Mb/s, delay 10ms, loss 0.5 % in bursts of 4, reorder 1 % by 1ms");
        assert_eq!(Shape::default().to_string(), "-");
        let text = serde_json::to_string(&shape).unwrap();
        assert_eq!(serde_json::from_str::<Shape>(&text).unwrap(), shape);
    }
}
