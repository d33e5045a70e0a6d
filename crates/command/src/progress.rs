//! Which thread does the work of the iWARP path, as commands take it on their command line.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use weft::verbs;
use weft::verbs::laboratory::{self, Coupling, Laboratory};

/// The thread that runs the event loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Progress {
    /// The thread that posts and polls
    Caller,
    /// A thread of its own, the other one sleeps
    Thread,
    /// The thread that posts and polls; a thread of its own while that one is away
    Hybrid,
    /// The thread that posts and polls, called for by a thread of its own when something waits
    Summon,
}

/// Which stages run on the calling thread, and which on the NIC's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// All on the thread that runs the event loop
    Host,
    /// All but posting on the NIC's; pieces are fetched between the markers
    Coupled,
    /// The same; payload is fetched whole, then copied between the markers
    Decoupled,
    /// Segments and markers on the caller's, CRC and system calls on the NIC's
    Assist,
}

impl Split {
    /// The thread that runs the event loop: the one that was `named`, or else the one that this split needs; `None`:
    /// the library decides.
    pub fn progress(self, named: Option<Progress>) -> Option<Progress> {
        named.or((self != Self::Host).then_some(Progress::Thread))
    }

    /// What the NIC's laboratory is set to, with this split and who was `named`.
    pub fn laboratory(self, named: Option<Progress>) -> Laboratory {
        let selective_interrupt = named == Some(Progress::Summon);
        Laboratory { split: self.into(), selective_interrupt, ..Laboratory::default() }
    }
}

impl From<Progress> for verbs::Progress {
    fn from(progress: Progress) -> Self {
        match progress {
            Progress::Caller | Progress::Summon => Self::Caller,
            Progress::Thread => Self::Thread,
            Progress::Hybrid => Self::Hybrid,
        }
    }
}

impl From<Split> for laboratory::Split {
    fn from(split: Split) -> Self {
        match split {
            Split::Host => Self::Host,
            Split::Coupled => Self::Offload(Coupling::Coupled),
            Split::Decoupled => Self::Offload(Coupling::Decoupled),
            Split::Assist => Self::Assist,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_split_and_progress_of_the_library_has_a_name() {
        let splits: Vec<laboratory::Split> = Split::value_variants().iter().map(|split| (*split).into()).collect();
        assert_eq!(splits, laboratory::Split::ALL);
        let progress: Vec<verbs::Progress> = Progress::value_variants().iter().map(|one| (*one).into()).collect();
        assert!(progress.contains(&verbs::Progress::default()), "{progress:?}");
    }

    #[test]
    fn a_split_brings_its_thread() {
        assert_eq!(Split::Host.progress(None), None);
        assert_eq!(Split::Host.laboratory(None), Laboratory::default());
        assert!(Split::Host.laboratory(Some(Progress::Summon)).selective_interrupt);
        assert_eq!(Split::Assist.progress(None), Some(Progress::Thread));
        let refused = Split::Assist.progress(Some(Progress::Hybrid));
        assert_eq!(refused, Some(Progress::Hybrid), "for the library to refuse");
    }
}
