//! What the laboratory is set to: experiments of the literature, which are here for measurements. The default is none,
//! and the NIC asks about it where a NIC, a thread or a connection begins, not where data moves.

use core::fmt;

use super::{Progress, SettingsError};

/// The experiments. By default none is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Laboratory {
    /// Which stage of the iWARP path runs on which thread. Other than [`Split::Host`] only with [`Progress::Thread`].
    pub split: Split,
    /// When something has waited for longer than [`Settings::away`](super::Settings::away) while the caller was away,
    /// the NIC's thread calls for it ([`Nic::set_summons`](crate::Nic::set_summons)), and does no more: the selective
    /// interrupt that MPI-BIPng (Prylli, Geoffray, Tourancheau, Westrelin) weighed against matching on the NIC. Only
    /// with [`Progress::Caller`].
    pub selective_interrupt: bool,
    /// Placement before or after what comes late.
    pub out_of_order: OutOfOrder,
}

impl Laboratory {
    /// Whether the experiments go together with what else is set.
    pub(super) fn check(self, progress: Progress) -> Result<(), SettingsError> {
        if self.split != Split::Host && progress != Progress::Thread {
            return Err(SettingsError::SplitNeedsThread { split: self.split, progress });
        }
        if self.selective_interrupt && progress != Progress::Caller {
            return Err(SettingsError::InterruptNeedsCaller { progress });
        }
        Ok(())
    }
}

/// Which stages of the iWARP path run on the calling thread, and which on the NIC's (Balaji et al., SC 2007:
/// host-based, host-offloaded, host-assisted). The operating system's TCP/IP stands for that of the NIC in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Split {
    /// All of it on whichever thread runs the event loop, in as few passes over the bytes as there can be.
    #[default]
    Host,
    /// The caller posts descriptors and takes completions; DDP, markers, CRC and the system calls are the NIC thread's.
    Offload(Coupling),
    /// The caller segments and works in the markers, in one copy that leaves holes for the CRCs, and takes completions.
    /// The CRCs, the system calls, demultiplexing and placement are the NIC thread's.
    Assist,
}

impl Split {
    /// All of them, in the order of the papers' table.
    pub const ALL: [Self; 4] =
        [Self::Host, Self::Offload(Coupling::Coupled), Self::Offload(Coupling::Decoupled), Self::Assist];
}

/// How an offloading NIC gets the bytes and works in the markers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coupling {
    /// At once: the piece up to the next marker is fetched, then the marker written, then the next piece fetched.
    Coupled,
    /// One after the other: a run of payload is fetched whole into memory of the NIC, and copied from there between the
    /// markers.
    Decoupled,
}

/// In the words in which commands take it.
impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::Offload(Coupling::Coupled) => "coupled",
            Self::Offload(Coupling::Decoupled) => "decoupled",
            Self::Assist => "assist",
        })
    }
}

/// What becomes of a segment that comes before others that stand before it in the order of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OutOfOrder {
    /// It is placed at once.
    #[default]
    Place,
    /// It is kept until all that stands before it is in place, and copied to its place then, which is one more copy of
    /// it: what a receiver has to do that cannot place what comes out of order. Up to 1024 segments of a connection are
    /// kept; what comes beyond that is left to come again. Edge only.
    Copy,
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::*;

    const PROGRESS: [Progress; 3] = [Progress::Caller, Progress::Thread, Progress::Hybrid];

    #[test]
    fn the_stages_of_a_nic_need_its_thread() {
        for split in Split::ALL {
            for progress in PROGRESS {
                let laboratory = Laboratory { split, ..Laboratory::default() };
                let settings = Settings { laboratory, progress, ..Settings::default() };
                let goes = split == Split::Host || progress == Progress::Thread;
                assert_eq!(settings.check().is_ok(), goes, "{split:?} {progress:?}");
            }
        }
    }

    #[test]
    fn only_callers_are_interrupted_and_a_thread_does_it() {
        for progress in PROGRESS {
            let laboratory = Laboratory { selective_interrupt: true, ..Laboratory::default() };
            let settings = Settings { laboratory, progress, ..Settings::default() };
            assert!(settings.has_thread());
            match settings.check() {
                Ok(()) => assert_eq!(progress, Progress::Caller),
                Err(error) => assert!(error.to_string().ends_with(&format!("progress is {progress}")), "{error}"),
            }
        }
        assert!(!Settings { progress: Progress::Caller, ..Settings::default() }.has_thread());
    }
}
