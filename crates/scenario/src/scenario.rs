//! What both directions of a network do over time.

use core::fmt;

use weft_base::{Random, Time as At};
use weft_emulate::{Link, Profile};

use crate::conditions::Conditions;

/// One of the two directions of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the first host to the second; from this machine out.
    Forward,
    /// From the second to the first; from outside to this machine.
    Reverse,
}

/// Conditions of both directions, from some times on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// From which what happens by chance comes.
    pub seed: u64,
    /// From when on what is so, in order; the first from the start.
    steps: Vec<Step>,
}

/// What is so from a time on, since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) at: core::time::Duration,
    pub(crate) conditions: [Conditions; 2],
}

impl Direction {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Forward, Self::Reverse];

    const fn index(self) -> usize {
        match self {
            Self::Forward => 0,
            Self::Reverse => 1,
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forward => "forward",
            Self::Reverse => "reverse",
        })
    }
}

impl Scenario {
    /// One that stays as it is.
    #[must_use]
    pub fn constant(seed: u64, forward: Conditions, reverse: Conditions) -> Self {
        let at = core::time::Duration::ZERO;
        Self { seed, steps: vec![Step { at, conditions: [forward, reverse] }] }
    }

    pub(crate) const fn from_steps(seed: u64, steps: Vec<Step>) -> Self {
        Self { seed, steps }
    }

    /// What a direction does from the start.
    ///
    /// # Panics
    /// Never: there is a first step.
    #[must_use]
    pub fn conditions(&self, direction: Direction) -> &Conditions {
        &self.steps[0].conditions[direction.index()]
    }

    /// What a direction does, from each of these times on, counted from the start.
    pub fn changes(&self, direction: Direction) -> impl Iterator<Item = (core::time::Duration, &Conditions)> {
        self.steps.iter().map(move |step| (step.at, &step.conditions[direction.index()]))
    }

    /// Whether what it does is about single packets, at any time.
    #[must_use]
    pub fn needs_single_packets(&self) -> bool {
        self.any(|profile| profile.needs_single_packets())
    }

    /// Whether it changes packets, at any time.
    #[must_use]
    pub fn changes_packets(&self) -> bool {
        self.any(|profile| profile.changes_packets())
    }

    /// Whether it makes copies of packets, at any time.
    #[must_use]
    pub fn copies_packets(&self) -> bool {
        self.any(|profile| profile.settings.duplication.chance > weft_emulate::Chance::NEVER)
    }

    fn any(&self, is: impl Fn(&Profile) -> bool) -> bool {
        self.steps.iter().flat_map(|step| &step.conditions).any(|conditions| is(&conditions.profile(0)))
    }

    /// A direction, as the emulator's link. The scenario starts at `start`. Packets have this many bytes beside those
    /// that are handed in, up to the header of IP.
    ///
    /// Links of the same scenario do the same to the same packets, sent at the same times after the start.
    #[must_use]
    pub fn link<T: Clone>(&self, direction: Direction, start: At, header_bytes: u32) -> Link<T> {
        let mut seeds = Random::new(self.seed);
        let mut randoms = [seeds.fork(), seeds.fork()];
        let mut link = Link::new(Profile::default(), randoms[direction.index()].fork());
        let changes = self.changes(direction);
        link.set_changes(changes.map(|(at, conditions)| (start + at, conditions.profile(header_bytes))));
        let mut cut_from = None;
        for (at, conditions) in self.changes(direction) {
            match (conditions.is_cut, cut_from) {
                (true, None) => cut_from = Some(start + at),
                (false, Some(from)) => {
                    link.cut(from..start + at);
                    cut_from = None;
                }
                _ => (),
            }
        }
        if let Some(from) = cut_from {
            link.cut(from..At::from_nanos(u64::MAX));
        }
        link
    }
}
