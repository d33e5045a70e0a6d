//! How a NIC is set up: which thread runs it, how it places, and its limits by name.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use self::laboratory::{Laboratory, Split};
use crate::key::JobKey;

pub mod laboratory;

/// Which thread runs the event loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Progress {
    /// The calling thread, while it posts, polls or waits. Nothing moves while the application computes: over
    /// [Edge](crate::Transport::Edge), where no kernel answers in its stead, nothing is acknowledged, sent again or
    /// closed either, and a program that does not call for twice the peer's [`Settings::peer_timeout`] is held to be
    /// gone.
    Caller,
    /// A thread of the NIC: it spins while there is work and callers wait for it, then sleeps until packets or the
    /// application wake it.
    Thread,
    /// The calling thread while it posts, polls or waits, and no packet wakes a thread meanwhile. When it has been away
    /// for a while ([`Settings::away`]) a thread of the NIC carries on, woken by packets and timers, until the caller
    /// comes back.
    #[default]
    Hybrid,
}

impl Progress {
    /// Whether calling threads run the event loop.
    #[must_use]
    pub const fn caller_runs(self) -> bool {
        !matches!(self, Self::Thread)
    }

    /// Whether the NIC has threads of its own.
    #[must_use]
    pub const fn has_thread(self) -> bool {
        !matches!(self, Self::Caller)
    }

    /// Whether packets and timers are seen to while no calling thread is in the NIC.
    #[must_use]
    pub const fn is_automatic(self) -> bool {
        matches!(self, Self::Thread | Self::Hybrid)
    }
}

/// When the payload of a frame is copied to its final place, relative to the check of the frame's CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Verify {
    /// Always after: nothing is written before the whole frame was seen and its CRC was good (RFC 5044 section 6).
    /// Large frames are staged too, and cost a copy.
    BeforePlace,
    /// Staged frames as in `BeforePlace`; the rest of a large frame is read straight into its final place and its CRC
    /// checked there. Until the CRC was good such bytes count for nothing, and a bad one ends the stream.
    #[default]
    LargeInPlace,
}

/// Settings of a NIC.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which thread runs the event loop.
    pub progress: Progress,
    /// How many engines share the connections, each with a thread of its own where [`Settings::progress`] has one: 1 to
    /// [`Settings::MOST_ENGINES`]. A connection belongs to one engine.
    pub engines: usize,
    /// How many of the engines serve the rails of one connection, from 1, its own alone, to [`Settings::engines`]: each
    /// receives, checks, gathers and sends for its share of them, on its own thread. Order, placement and completion
    /// stay with the connection's own. Edge only, and only rails beside the first.
    pub rail_engines: usize,
    /// How long the calling thread may be away before the NIC's thread acts, at most: 10 us to 200 us. Where setting a
    /// timer costs more than 1 us, as in some virtual machines, it can be up to 1 ms for a caller that had come without
    /// a pause before, and up to 8 ms when that was for long; where the processors are oversubscribed, 50 ms.
    /// [`Progress::Hybrid`] takes less where that has paid.
    pub away: Duration,
    /// Whether the NIC learns when to poll, to yield and to take over: from what yields take, from how waits end, and
    /// from how many threads want the processors. If not, a thread that polls never yields, one that waits polls for
    /// [`Settings::spin`], and the NIC's thread acts when the calling thread has been away for [`Settings::away`], no
    /// sooner and no later.
    pub adaptive: bool,
    /// Placement before or after the CRC.
    pub verify: Verify,
    /// Frames whose ULPDU is at least this long, in bytes, are read straight into their final place.
    pub direct_threshold: u32,
    /// Payloads of a segment at least this long, in bytes, are sent from where they are; shorter ones are copied next
    /// to their header.
    pub gather_threshold: u32,
    /// Through shared memory, payloads of a segment at least this long, in bytes, are lent where that is possible: the
    /// peer's engine copies them from this process's memory to their place. Shorter ones go through the ring.
    /// [`u32::MAX`]: all do.
    pub lend_threshold: u32,
    /// How long a waiting thread spins before it sleeps, and with [`Settings::adaptive`] the NIC's thread when it has
    /// found something and no caller is there.
    pub spin: Duration,
    /// How long a connection may take from the first packet to the end of MPA's start-up, before it fails.
    pub start_timeout: Duration,
    /// How long a closing connection waits for the peer to post a receive for what was sent before, since it took the
    /// last message, and how long for the peer to close as well, once the peer's host has acknowledged everything.
    /// Then it is let go of without a reset, so that the peer still gets what its host has. After an error it is
    /// reset.
    pub close_timeout: Duration,
    /// How long an incoming connection waits for the application to accept or reject it, before it is rejected.
    pub decision_timeout: Duration,
    /// How long a peer's host may leave unanswered what it must answer, before the connection is broken
    /// ([`weft_base::PortOptions::peer_timeout`]). `None`: as long as the operating system is patient.
    pub peer_timeout: Option<Duration>,
    /// Over which of this host's interfaces a connection goes beside the one that it is set up on. Edge only.
    pub rails: Rails,
    /// What several flows over one interface may take together, with [`Settings::rails`] that have some.
    pub flow_share: FlowShare,
    /// The job's key: then a connection over Edge stands only when each end has proved to the other that it has it too,
    /// and an end that has none or another one is not let in. Nothing that iWARP knows: where
    /// [`crate::Transport::Auto`] takes that, message endpoints prove their key to each other
    /// ([`crate::EndpointAttributes::key`]), other connections nothing.
    pub key: Option<JobKey>,
    /// Limits.
    pub limits: Limits,
    /// Experiments of the literature, for measurements. By default none is made.
    pub laboratory: Laboratory,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            progress: Progress::default(),
            engines: 1,
            rail_engines: 1,
            away: Self::LONGEST_AWAY,
            adaptive: true,
            verify: Verify::default(),
            direct_threshold: 32 * 1024,
            gather_threshold: 2 * 1024,
            lend_threshold: 32 * 1024,
            spin: Duration::from_micros(50),
            start_timeout: Duration::from_secs(10),
            close_timeout: Duration::from_secs(5),
            decision_timeout: Duration::from_secs(30),
            peer_timeout: Some(Duration::from_secs(60)),
            rails: Rails::ALL,
            flow_share: FlowShare::Coupled,
            key: None,
            limits: Limits::default(),
            laboratory: Laboratory::default(),
        }
    }
}

/// The interfaces that Edge's connections use, and how many flows go over each, up to [`Rails::MOST`] of them in all:
/// each flow is a rail, with a UDP port of its own at both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rails {
    /// Only the one over which the peer was found.
    One,
    /// All that are up, where they reach the peer; the loopback interface is none of them. This many flows over each.
    All {
        /// At least 1.
        flows: u8,
    },
    /// Those with these names, where they are up.
    Named(Vec<NamedRails>),
}

/// An interface, and how many flows go over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRails {
    /// The interface's name.
    pub interface: String,
    /// At least 1.
    pub flows: u8,
}

impl Default for Rails {
    fn default() -> Self {
        Self::ALL
    }
}

impl Rails {
    /// The most rails of a connection.
    pub const MOST: usize = 16;
    /// One over each interface.
    pub const ALL: Self = Self::All { flows: 1 };

    /// One over each of these interfaces.
    pub fn named<'a>(interfaces: impl IntoIterator<Item = &'a str>) -> Self {
        let one = |interface: &str| NamedRails { interface: interface.to_owned(), flows: 1 };
        Self::Named(interfaces.into_iter().map(one).collect())
    }

    /// How many go over an interface.
    #[must_use]
    pub fn flows(&self, interface: &str) -> u8 {
        match self {
            Self::One => 0,
            Self::All { flows } => *flows,
            Self::Named(named) => named.iter().find(|one| one.interface == interface).map_or(0, |one| one.flows),
        }
    }

    /// Whether any goes over an interface.
    #[must_use]
    pub fn has(&self, interface: &str) -> bool {
        self.flows(interface) > 0
    }
}

/// `all`, `one`, or names of interfaces separated by commas; behind `all` and each name there may be a number of flows:
/// `eth0*4,eth1`.
impl FromStr for Rails {
    type Err = ParseRailsError;

    fn from_str(text: &str) -> Result<Self, ParseRailsError> {
        let wrong = |why| ParseRailsError { text: text.to_owned(), why };
        if text.trim().eq_ignore_ascii_case("one") {
            return Ok(Self::One);
        }
        let mut named = Vec::<NamedRails>::new();
        for part in text.split(',') {
            let (interface, flows) = flows(part.trim()).map_err(wrong)?;
            if interface.is_empty() || interface.contains(char::is_whitespace) {
                return Err(wrong(WrongRails::Name));
            }
            if named.iter().any(|one| one.interface == interface) {
                return Err(wrong(WrongRails::Twice(interface.to_owned())));
            }
            named.push(NamedRails { interface: interface.to_owned(), flows });
        }
        let sum: usize = named.iter().map(|one| usize::from(one.flows)).sum();
        match &named[..] {
            _ if sum > Self::MOST => Err(wrong(WrongRails::TooMany(sum))),
            [NamedRails { interface, flows }] if interface.eq_ignore_ascii_case("all") => {
                Ok(Self::All { flows: *flows })
            }
            _ => Ok(Self::Named(named)),
        }
    }
}

/// A name, and the number of flows behind it.
fn flows(part: &str) -> Result<(&str, u8), WrongRails> {
    let Some((name, number)) = part.rsplit_once('*') else { return Ok((part, 1)) };
    let flows = number.trim().parse().ok().filter(|flows| (1..=Rails::MOST as u8).contains(flows));
    Ok((name.trim(), flows.ok_or_else(|| WrongRails::Flows(number.to_owned()))?))
}

/// A text that names no rails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseRailsError {
    text: String,
    why: WrongRails,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum WrongRails {
    Name,
    Twice(String),
    Flows(String),
    TooMany(usize),
}

impl fmt::Display for ParseRailsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, most) = (&self.text, Rails::MOST);
        match &self.why {
            WrongRails::Name => write!(
                f,
                "{text:?} names no interface: write all, one, or up to {most} names separated by commas, each with *N \
                 behind it for N flows"
            ),
            WrongRails::Twice(name) => {
                write!(f, "{text:?} names {name:?} twice: write {name}*2 for two flows over it")
            }
            WrongRails::Flows(number) => {
                write!(f, "{text:?} requests {number:?} flows: the number behind the * is 1 to {most}")
            }
            WrongRails::TooMany(sum) => {
                write!(f, "{text:?} asks for {sum} rails in all: a connection has {most} at most")
            }
        }
    }
}

impl core::error::Error for ParseRailsError {}

/// What several flows over one interface may take together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FlowShare {
    /// As much as one flow would: they meet on the way (RFC 6356).
    #[default]
    Coupled,
    /// As much as each gets by itself: the network caps every flow, as clouds do.
    Capped,
}

/// `coupled` or `capped`.
impl FromStr for FlowShare {
    type Err = ParseFlowShareError;

    fn from_str(text: &str) -> Result<Self, ParseFlowShareError> {
        match text.trim().to_ascii_lowercase().as_str() {
            "coupled" => Ok(Self::Coupled),
            "capped" => Ok(Self::Capped),
            _ => Err(ParseFlowShareError(text.to_owned())),
        }
    }
}

/// A text that says nothing of flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseFlowShareError(String);

impl fmt::Display for ParseFlowShareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} says nothing of flows: write coupled or capped", self.0)
    }
}

impl core::error::Error for ParseFlowShareError {}

impl Settings {
    /// The most engines of one NIC.
    pub const MOST_ENGINES: usize = 64;
    /// The shortest [`Settings::away`]: below, the timer would cost more than it saves.
    pub const SHORTEST_AWAY: Duration = Duration::from_micros(10);
    /// The longest [`Settings::away`].
    pub const LONGEST_AWAY: Duration = Duration::from_micros(200);

    /// Whether the NIC has threads of its own: for all of its work, a part of it, or to interrupt callers.
    #[must_use]
    pub const fn has_thread(&self) -> bool {
        self.progress.has_thread() || self.laboratory.selective_interrupt
    }

    /// Whether what acknowledges a message may wait for the answer of the application, where that pays: a thread sends
    /// it when callers are away, and [`Settings::adaptive`] is on.
    pub(crate) const fn lets_acknowledgements_wait(&self) -> bool {
        self.adaptive && self.progress.is_automatic()
    }

    /// Whether the settings go together.
    ///
    /// # Errors
    /// What does not, and what would.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.laboratory.check(self.progress)?;
        if self.engines > 1 && !self.progress.is_automatic() {
            return Err(SettingsError::EnginesNeedThreads { engines: self.engines, progress: self.progress });
        }
        if self.engines == 0 || self.engines > Self::MOST_ENGINES {
            return Err(SettingsError::Engines { asked: self.engines });
        }
        if self.rail_engines == 0 || self.rail_engines > self.engines {
            return Err(SettingsError::RailEngines { asked: self.rail_engines, engines: self.engines });
        }
        if !(Self::SHORTEST_AWAY..=Self::LONGEST_AWAY).contains(&self.away) {
            return Err(SettingsError::Away { asked: self.away });
        }
        Ok(())
    }
}

/// Settings that do not go together: the application's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsError {
    /// The NIC's stages of this split need a thread that is always there.
    SplitNeedsThread {
        /// The split.
        split: Split,
        /// The setting that was requested with it.
        progress: Progress,
    },
    /// The NIC's thread interrupts callers that run the NIC, and only those.
    InterruptNeedsCaller {
        /// What was asked for beside it.
        progress: Progress,
    },
    /// A caller runs one engine; others need threads.
    EnginesNeedThreads {
        /// The engines.
        engines: usize,
        /// The setting that was requested with them.
        progress: Progress,
    },
    /// Futures wait for the NIC, and no thread of it runs it meanwhile.
    WaitingNeedsThread {
        /// Which threads run it.
        progress: Progress,
    },
    /// Not this many engines.
    Engines {
        /// The value that was requested.
        asked: usize,
    },
    /// Not that many of them can serve a connection's rails.
    RailEngines {
        /// The value that was requested.
        asked: usize,
        /// The engines.
        engines: usize,
    },
    /// Too short or too long.
    Away {
        /// The value that was requested.
        asked: Duration,
    },
}

/// In the words in which commands and variables of the environment take it.
impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Caller => "caller",
            Self::Thread => "thread",
            Self::Hybrid => "hybrid",
        })
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SplitNeedsThread { split, progress } => write!(
                f,
                "split {split} needs progress thread, for its stages on the NIC run on a thread of their own; progress \
                 is {progress}"
            ),
            Self::InterruptNeedsCaller { progress } => write!(
                f,
                "selective interrupts need progress caller, for the NIC's thread only interrupts callers; progress is \
                 {progress}"
            ),
            Self::EnginesNeedThreads { engines, progress } => write!(
                f,
                "{engines} engines need progress thread or hybrid, for each runs on a thread of its own; progress is \
                 {progress}"
            ),
            Self::WaitingNeedsThread { progress } => write!(
                f,
                "futures need progress thread or hybrid, for the NIC must run while their tasks wait; progress is \
                 {progress}"
            ),
            Self::Engines { asked } => {
                write!(f, "{asked} engines: a NIC has 1 to {}", Settings::MOST_ENGINES)
            }
            Self::RailEngines { asked, engines } => {
                write!(f, "{asked} engines for a connection's rails: of the NIC's {engines} it may be 1 to {engines}")
            }
            Self::Away { asked } => {
                write!(f, "away is {asked:?}: it must be {:?} to {:?}", Settings::SHORTEST_AWAY, Settings::LONGEST_AWAY)
            }
        }
    }
}

impl core::error::Error for SettingsError {}

/// What a NIC will hold at most. At a limit the call that wants more gets [`crate::Error::Limit`], which says which
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Connections in any state, those included that were not accepted yet.
    pub connections: u32,
    /// Listeners.
    pub listeners: u32,
    /// Entries of one completion queue.
    pub completion_queue_entries: u32,
    /// Work requests of one send or receive queue.
    pub queue_depth: u32,
    /// Inbound and outbound reads and atomics of one connection under way at a time (IRD and ORD).
    pub read_depth: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue_pairs: 65_536,
            connections: 65_536,
            listeners: 1024,
            completion_queue_entries: 1 << 22,
            queue_depth: 1 << 16,
            read_depth: 1024,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_refused_with_the_value() {
        let none = Settings { engines: 0, ..Settings::default() }.check().unwrap_err();
        assert_eq!(none.to_string(), "0 engines: a NIC has 1 to 64");
        assert!(Settings { engines: 65, ..Settings::default() }.check().is_err());
        let few = Settings { rail_engines: 2, ..Settings::default() }.check().unwrap_err();
        assert_eq!(few.to_string(), "2 engines for a connection's rails: of the NIC's 1 it may be 1 to 1");
        assert!(Settings { engines: 2, rail_engines: 0, ..Settings::default() }.check().is_err());
        assert!(Settings { engines: 2, rail_engines: 2, ..Settings::default() }.check().is_ok());
        for away in [Duration::from_micros(9), Duration::from_micros(201)] {
            assert!(Settings { away, ..Settings::default() }.check().is_err(), "{away:?}");
        }
    }

    #[test]
    fn rails_are_read_as_they_are_written() {
        let named = |list: &[(&str, u8)]| {
            Rails::Named(
                list.iter().map(|(name, flows)| NamedRails { interface: (*name).into(), flows: *flows }).collect(),
            )
        };
        for (text, rails) in [
            ("one", Rails::One),
            ("ALL", Rails::ALL),
            (" all * 2 ", Rails::All { flows: 2 }),
            ("eth0", Rails::named(["eth0"])),
            ("eth0*4, eth1", named(&[("eth0", 4), ("eth1", 1)])),
            ("eth0*15,eth1", named(&[("eth0", 15), ("eth1", 1)])),
        ] {
            assert_eq!(text.parse(), Ok(rails), "{text}");
        }
        for (text, says) in [
            ("", "names no interface"),
            ("eth0,,eth1", "names no interface"),
            ("*3", "names no interface"),
            ("eth 0", "names no interface"),
            ("eth0*0", "\"0\" flows"),
            ("eth0*17", "\"17\" flows"),
            ("eth0*many", "\"many\" flows"),
            ("eth0*", "\"\" flows"),
            ("eth0*9,eth1*8", "17 rails in all"),
            ("eth0,eth1*2,eth0", "\"eth0\" twice: write eth0*2"),
        ] {
            let error = text.parse::<Rails>().unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
        assert_eq!("Capped".parse(), Ok(FlowShare::Capped));
        assert!("both".parse::<FlowShare>().unwrap_err().to_string().contains("\"both\""));
    }

    #[test]
    fn flows_are_an_interfaces() {
        let rails: Rails = "eth0*4,eth1".parse().unwrap();
        assert_eq!(["eth0", "eth1", "eth2"].map(|name| rails.flows(name)), [4, 1, 0]);
        assert_eq!(Rails::All { flows: 3 }.flows("eth7"), 3);
        assert!(!Rails::One.has("eth0") && Rails::ALL.has("eth0"));
    }
}
