//! What is to be checked.

use std::ops::RangeInclusive;
use std::time::Duration;

use weft_lab::Carrier as Kind;

use super::case::{Case, Traffic, all};
use crate::error::WanError;

/// How far a case has come, for people that wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckProgress {
    /// How many cases are done.
    pub done: usize,
    /// Of how many.
    pub of: usize,
    /// What is done now: carrier and case.
    pub now: String,
    /// How long all that is left takes, about.
    pub left: Duration,
}

/// What is to be checked.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckPlan {
    /// Carriers, in this order.
    pub carriers: Vec<Kind>,
    /// Names of cases; empty: all.
    pub only: Vec<String>,
    /// Packets of each paced stream, of which 10 000 are sent in a second.
    pub packets: u32,
    /// How long each stream of TCP and each one at full rate is measured.
    pub lasts: Duration,
    /// From which what happens by chance comes.
    pub seed: u64,
    /// By this each tolerance is multiplied: 1 as they are stated.
    pub tolerance: f64,
}

/// Packets that a paced stream sends in a second.
pub const CHECK_PACKETS_PER_S: u32 = 10_000;
/// Packets that a paced stream may have: enough for a burst, and what fits into memory.
pub const CHECK_PACKETS: RangeInclusive<u32> = 100..=1_000_000;
/// How long it takes to make a lab, start programs in it, and take it down, about.
const SET_UP: Duration = Duration::from_millis(1200);

impl CheckPlan {
    /// What takes minutes, or under a minute if it is quick.
    #[must_use]
    pub fn usual(is_quick: bool) -> Self {
        let (packets, seconds) = if is_quick { (8000, 3) } else { (40_000, 12) };
        Self {
            carriers: vec![Kind::Queue, Kind::Rings],
            only: Vec::new(),
            packets,
            lasts: Duration::from_secs(seconds),
            seed: 1,
            tolerance: 1.0,
        }
    }

    /// Names of all cases, and what each is about.
    #[must_use]
    pub fn names() -> Vec<(&'static str, &'static str)> {
        all().iter().map(|case| (case.name, case.what)).collect()
    }

    /// The cases that are wanted, and by which carrier.
    pub(crate) fn cases(&self) -> Result<Vec<(Kind, Case)>, WanError> {
        let all = all();
        if let Some(unknown) = self.only.iter().find(|name| all.iter().all(|case| case.name != **name)) {
            let names = all.iter().map(|case| case.name).collect::<Vec<_>>().join(", ");
            return Err(WanError::Impossible(format!("there is no case {unknown:?}; the cases are {names}")));
        }
        if !CHECK_PACKETS.contains(&self.packets) {
            let (least, most) = (CHECK_PACKETS.start(), CHECK_PACKETS.end());
            let words = format!("{} packets are out of range; a stream has {least} to {most}", self.packets);
            return Err(WanError::Impossible(words));
        }
        let is_wanted = |case: &&Case| self.only.is_empty() || self.only.iter().any(|name| name == case.name);
        let of = |kind: Kind| all.iter().filter(is_wanted).filter(move |case| case.goes_by(kind));
        let cases: Vec<_> =
            self.carriers.iter().flat_map(|kind| of(*kind).map(move |case| (*kind, case.clone()))).collect();
        if cases.is_empty() {
            let words = "nothing is left to check: copies go by rings alone, and damage by queue alone".to_owned();
            return Err(WanError::Impossible(words));
        }
        Ok(cases)
    }

    /// How long a case takes, about.
    pub(crate) fn takes(&self, case: &Case) -> Duration {
        let streams = match case.traffic {
            Traffic::Paced { .. } => Duration::from_secs_f64(f64::from(self.packets) / f64::from(CHECK_PACKETS_PER_S)),
            Traffic::Tcp { .. } | Traffic::Full { .. } => self.lasts,
        };
        streams + SET_UP
    }
}
