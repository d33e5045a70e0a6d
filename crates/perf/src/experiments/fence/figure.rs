//! What ranks tell of their fences.

use std::fmt;
use std::io::{self, IsTerminal};

use serde::{Deserialize, Serialize};
use weft_command::output::complain;

use crate::experiments::fence::load::Load;

/// A figure of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) who: String,
    pub(crate) load: String,
    pub(crate) value: f64,
    /// How many fences it is of.
    pub(crate) fences: u64,
    /// Processor time of all ranks for one of them, in the unit of the figure where that is a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cpu: Option<f64>,
}

/// The figures of all runs with this many ranks.
pub(crate) struct Case {
    pub(crate) ranks: usize,
    pub(crate) figures: Vec<Figure>,
}

impl Case {
    /// The contestants, in the order in which they came.
    pub(crate) fn who(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for figure in &self.figures {
            if !names.contains(&&*figure.who) {
                names.push(&figure.who);
            }
        }
        names
    }

    pub(crate) fn values(&self, who: &str, load: Load) -> Vec<f64> {
        self.of(who, load).map(|figure| figure.value).collect()
    }

    pub(crate) fn of(&self, who: &str, load: Load) -> impl Iterator<Item = &Figure> {
        let load = load.to_string();
        self.figures.iter().filter(move |figure| figure.who == who && figure.load == load)
    }
}

/// Says how far the measurement is, on a terminal.
pub(crate) fn say(text: impl fmt::Display) {
    if io::stderr().is_terminal() {
        complain(text);
    }
}
