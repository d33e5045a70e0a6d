//! The keys of conditions, the same in a file as among options.

use core::time::Duration;
use std::sync::Arc;

use weft_emulate::{CoDel, DelayTable, RateTrace, Spread};

use crate::conditions::{Conditions, Gilbert};
use crate::units::{Percent, Time, plain};

/// All keys, and what each takes.
pub const KEYS: [(&str, &str); 27] = [
    ("delay", "how long each packet takes: a time"),
    ("jitter", "up to how much longer, each time as likely: a time"),
    ("normal", "the standard deviation of delays around that: a time"),
    ("pareto", "the scale of a Pareto distribution on top: a time"),
    ("pareto-shape", "its shape, above 1 (2.5)"),
    ("delays", "a file of measured delays on top, in milliseconds, one in each line"),
    ("correlation", "how much of a packet's delay the next one has, in percent"),
    ("overtake", "true: packets overtake each other where their delays have it so"),
    ("rate", "what passes in a second: 500M, 1G, 2.5G bits of IP packets"),
    ("trace", "a file that says when packets may leave, as mahimahi has them"),
    ("queue", "what may wait for that, in bytes (500000)"),
    ("mark-at", "bytes that wait when packets that can be are marked"),
    ("codel", "true, or the target: CoDel drops what has waited for longer (5ms)"),
    ("codel-interval", "for how long all must wait longer (100ms)"),
    ("loss", "packets that are lost, in percent"),
    ("burst", "lost packets in a row, on average"),
    ("good-to-bad", "a good way becomes bad, in percent of packets"),
    ("bad-to-good", "a bad way becomes good, in percent of packets"),
    ("loss-in-good", "packets that a good way loses, in percent (0)"),
    ("loss-in-bad", "packets that a bad way loses, in percent (100)"),
    ("reorder", "packets that others overtake, in percent"),
    ("reorder-by", "up to how much later they come: a time (1ms)"),
    ("duplicate", "packets that come twice, in percent"),
    ("corrupt", "packets with bits flipped, in percent"),
    ("corrupt-bits", "how many, at most: 1 to 4 (4)"),
    ("mtu", "the largest packet that passes, in bytes"),
    ("cut", "true: nothing passes"),
];

/// Keys of which only one goes: what is said last replaces the others.
const ONE_OF: [&[&str]; 3] = [&["rate", "trace"], &["normal", "pareto", "delays"], &["loss", "good-to-bad"]];

/// Reads a file that a key names: its text, or why it can't be had.
pub type Files<'a> = &'a mut dyn FnMut(&str) -> Result<String, String>;

/// Whether one of two keys leaves no place for the other.
pub(crate) fn exclude(one: &str, other: &str) -> bool {
    one != other && ONE_OF.iter().any(|group| group.contains(&one) && group.contains(&other))
}

/// All keys, for people.
pub(crate) fn names() -> String {
    KEYS.map(|(name, _)| name).join(", ")
}

impl Conditions {
    /// Says what a key is from now on. `none` is what it was before anything was said.
    ///
    /// # Errors
    /// There is no such key, or its value is none; what is possible, in words. Limits are up to
    /// [`Conditions::check`].
    pub fn set(&mut self, key: &str, value: &str, files: Files<'_>) -> Result<(), String> {
        let has_value = value != "none";
        let time = || value.parse::<Time>().map(|time| time.0);
        let time_or_none = || if has_value { time() } else { Ok(Duration::ZERO) };
        let share = || if has_value { value.parse::<Percent>().map(|share| share.0) } else { Ok(0) };
        match key {
            "delay" => self.delay = time_or_none()?,
            "jitter" => self.jitter = time_or_none()?,
            "normal" | "pareto" | "pareto-shape" | "delays" => self.set_spread(key, value, files)?,
            "correlation" => self.correlation_millionths = share()?,
            "overtake" => self.overtakes = has_value && flag(value)?,
            "rate" => (self.rate, self.trace) = (has_value.then(|| value.parse()).transpose()?, None),
            "trace" if has_value => {
                let trace = RateTrace::parse(&files(value)?).map_err(|error| format!("{value:?} is no trace: {error}"));
                (self.trace, self.rate) = (Some(Arc::new(trace?)), None);
            }
            "trace" => self.trace = None,
            "queue" => self.queue_bytes = number(value, "bytes")?,
            "mark-at" => self.mark_at = number(value, "bytes")?,
            "codel" | "codel-interval" => self.set_codel(key, value)?,
            "loss" => (self.loss_millionths, self.gilbert) = (share()?, None),
            "burst" => self.burst = number(value, "packets")?,
            "good-to-bad" | "bad-to-good" | "loss-in-good" | "loss-in-bad" => self.set_gilbert(key, share()?),
            "reorder" => self.reorder_millionths = share()?,
            "reorder-by" => self.reorder_by = has_value.then(time).transpose()?,
            "duplicate" => self.duplicate_millionths = share()?,
            "corrupt" => self.corrupt_millionths = share()?,
            "corrupt-bits" => self.corrupt_bits = number(value, "bits")?,
            "mtu" => self.mtu = number(value, "bytes")?,
            "cut" => self.is_cut = has_value && flag(value)?,
            _ => return Err(format!("there is no key {key:?}; the keys are {}", names())),
        }
        Ok(())
    }
}

impl Conditions {
    fn set_spread(&mut self, key: &str, value: &str, files: Files<'_>) -> Result<(), String> {
        if value == "none" {
            (self.spread, self.delays) = (Spread::None, None);
            return Ok(());
        }
        match (key, self.spread) {
            ("delays", _) => {
                let table = DelayTable::parse(&files(value)?);
                let table = table.map_err(|error| format!("{value:?} is no file of delays: {error}"))?;
                (self.spread, self.delays) = (Spread::None, Some(Arc::new(table)));
            }
            ("normal", _) => {
                (self.spread, self.delays) = (Spread::Normal { deviation: value.parse::<Time>()?.0 }, None);
            }
            ("pareto", old) => {
                let shape_thousandths = match old {
                    Spread::Pareto { shape_thousandths, .. } => shape_thousandths,
                    _ => 2500,
                };
                let scale = value.parse::<Time>()?.0;
                (self.spread, self.delays) = (Spread::Pareto { scale, shape_thousandths }, None);
            }
            (_, Spread::Pareto { scale, .. }) => {
                let shape = plain(value).filter(|shape| *shape > 1.0 && *shape <= 1000.0);
                let shape = shape.ok_or_else(|| format!("{value:?} is no shape; it is above 1, and at most 1000"))?;
                self.spread = Spread::Pareto { scale, shape_thousandths: (shape * 1000.0).round() as u32 };
            }
            _ => return Err("pareto-shape needs pareto".to_owned()),
        }
        Ok(())
    }

    fn set_codel(&mut self, key: &str, value: &str) -> Result<(), String> {
        let time = || match value.parse::<Time>()?.0 {
            Duration::ZERO => Err(format!("{key} can't be 0; RFC 8289 has 5ms, and 100ms for codel-interval")),
            time => Ok(time),
        };
        match (key, value) {
            ("codel", "none" | "false") => self.codel = None,
            ("codel", "true") => self.codel = Some(self.codel.unwrap_or_default()),
            ("codel", _) => self.codel = Some(CoDel { target: time()?, ..self.codel.unwrap_or_default() }),
            _ => {
                let codel = self.codel.as_mut().ok_or("codel-interval needs codel")?;
                codel.interval = time()?;
            }
        }
        Ok(())
    }

    fn set_gilbert(&mut self, key: &str, share: u32) {
        let fresh = Gilbert { loss_in_bad: 1_000_000, ..Gilbert::default() };
        let gilbert = self.gilbert.get_or_insert(fresh);
        match key {
            "good-to-bad" => gilbert.good_to_bad = share,
            "bad-to-good" => gilbert.bad_to_good = share,
            "loss-in-good" => gilbert.loss_in_good = share,
            _ => gilbert.loss_in_bad = share,
        }
        (self.loss_millionths, self.burst) = (0, None);
        if *gilbert == fresh {
            // Nothing is said of it any more.
            self.gilbert = None;
        }
    }
}

fn flag(value: &str) -> Result<bool, String> {
    value.parse().map_err(|_| format!("{value:?} is neither true nor false"))
}

fn number<T: core::str::FromStr>(value: &str, of: &str) -> Result<Option<T>, String> {
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    match value {
        "none" => Ok(None),
        _ => {
            is_number.then(|| value.parse().ok()).flatten().map(Some).ok_or_else(|| {
                format!("{value:?} is no number of {of} that is possible; write for instance 4, or none")
            })
        }
    }
}

/// In which order keys are set: those that others build on first.
pub(crate) fn order(key: &str) -> usize {
    let late = ["pareto-shape", "codel-interval", "burst"];
    late.iter().position(|name| *name == key).map_or(0, |at| at + 1)
}
