//! What the two ends of a connection offer each other and agree on, in words that hold for every lower layer. What only
//! one of them knows is in a part of its own: [`MpaOffer`], [`LowerInfo`], [`LowerStartError`].

use core::fmt;
use core::time::Duration;
use std::net::SocketAddr;

use weft_wire::message::Refusal;

pub use weft_mpa::startup::{Incompatible, Malformed, NOT_NEGOTIATED};
pub use weft_mpa::{
    Extensions, MarkerSpacing, ReadyKind, ReadyKinds, Role, StartFailure as MpaStartError,
    StartMisuse as MpaStartMisuse,
};

/// What carries a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// iWARP: MPA over TCP, which every iWARP peer speaks.
    #[default]
    Iwarp,
    /// Edge, over UDP: only a peer that is Weft too speaks it.
    Edge,
    /// Memory that two processes of one user share, on the same host and in the same network namespace: iWARP's
    /// segments in a ring each way, without CRC and markers. To listen: TCP as well.
    SharedMemory,
    /// To connect: shared memory where a program listens for that and can take it; else iWARP. To listen: both, at the
    /// same port number.
    SharedMemoryOrIwarp,
    /// To connect: shared memory where a program listens for that; else Edge, and iWARP beside it if there is no answer
    /// within 250 ms; the first that is established is kept. Where shared memory is declined, iWARP follows. To listen:
    /// all of them, at the same port number.
    SharedMemoryOrEdge,
    /// For endpoints: [`Self::SharedMemoryOrEdge`] to a host that shares two or more links with this one, and otherwise
    /// [`Self::SharedMemoryOrIwarp`]; a host without two links listens as the latter. For queue pairs, which know one
    /// address of a peer: as [`Self::SharedMemoryOrEdge`].
    Auto,
}

/// The text for a caller whose peer has no descriptors for it ([`Refusal::Exhausted`]).
pub(crate) const NO_DESCRIPTORS: &str =
    "the process there has no file descriptors left for another connection: raise its limit (`ulimit -n`)";

impl Transport {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Iwarp, Self::Edge, Self::SharedMemory, Self::SharedMemoryOrIwarp, Self::SharedMemoryOrEdge, Self::Auto];

    /// Its name, as users write it (`FI_WEFT_TRANSPORT`).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Iwarp => "iwarp",
            Self::Edge => "edge",
            Self::SharedMemory => "shm",
            Self::SharedMemoryOrIwarp => "shm+iwarp",
            Self::SharedMemoryOrEdge => "shm+edge",
            Self::Auto => "auto",
        }
    }

    /// The one with this name, in letters of either case.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|transport| transport.name().eq_ignore_ascii_case(name))
    }

    /// Whether a caller by this one may find a listener by `theirs`.
    #[must_use]
    pub const fn finds(self, theirs: Self) -> bool {
        match self {
            // Those that listen for shared memory listen for TCP as well.
            Self::Iwarp | Self::SharedMemoryOrIwarp => !matches!(theirs, Self::Edge),
            Self::Edge => matches!(theirs, Self::Edge | Self::SharedMemoryOrEdge | Self::Auto),
            Self::SharedMemory => !matches!(theirs, Self::Edge | Self::Iwarp),
            Self::SharedMemoryOrEdge | Self::Auto => true,
        }
    }
}

/// What one side wants of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// What carries it, where the network has a choice.
    pub transport: Transport,
    /// Reads and atomics of the peer that are answered at a time, at most. StreamSink 16382 it counts as 16382.
    pub ird: u16,
    /// Reads and atomics to have under way at a time, at most. StreamSink 16382 it counts as 16382.
    pub ord: u16,
    /// What matters only where MPA carries the connection.
    pub mpa: MpaOffer,
}

impl Offer {
    /// Reads and atomics under way at a time, unless something else is wanted. What they read bounds what a way carries
    /// in each round trip: 128 of 8 KiB fill 1 Gb/s over 8 ms. More Linux siw does not answer at a time, and it refuses
    /// a reply that has more.
    pub const READS: u16 = 128;
}

impl Default for Offer {
    /// [`Offer::READS`] each way, over MPA as the standard has it.
    fn default() -> Self {
        Self { transport: Transport::default(), ird: Self::READS, ord: Self::READS, mpa: MpaOffer::default() }
    }
}

/// What one side wants of MPA (RFC 5044, RFC 6581).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpaOffer {
    /// CRCs on every frame. They are used when either side wants them.
    pub crc: bool,
    /// Request markers in what the peer sends (RFC 5044 section 4.3). Linux siw rejects that. Other spacings than the
    /// standard's 512 bytes come about only with a peer that is Weft too and agrees to [`Extensions::marker_spacing`];
    /// from any other peer the standard's are requested.
    pub markers: Option<MarkerSpacing>,
    /// Over Weft's own TCP on a raw link: request the standard's markers, so that frames are placed as their segments
    /// come, and not kept until what is missing has come. The final contents of memory are the same as with delivery in
    /// order. Only with `crc`, by which markers are believed. A peer that rejects markers, as Linux siw does, takes the
    /// connection only without this; then frames are placed in order. Other networks pay it no attention.
    pub early: bool,
    /// Active side: the revision of the request. Passive side: the highest to answer. 2 (RFC 6581), 1 (RFC 5044) or 0.
    pub revision: u8,
    /// Whether IRD and ORD are negotiated in revision 2. If not, both are what the offer says.
    pub negotiate_depths: bool,
    /// Peer-to-peer (RFC 6581). Active side: open with a message of one of these kinds, so that the passive side may
    /// send first. Passive side: the kinds that are taken; with `None` peers that request it are rejected.
    pub ready_to_receive: Option<ReadyKinds>,
    /// What to do beyond the standard with a peer that is Weft too. To offer this, 12 bytes are added at the end of the
    /// private data.
    pub extensions: Extensions,
    /// The most private data to put into a start-up frame, in bytes, everything included. The standard's limit is 512;
    /// Linux siw closes the connection above 256.
    pub max_private_data: u16,
}

impl Default for MpaOffer {
    /// Revision 2 with CRC, without markers unless they let frames be placed early, peer-to-peer neither requested nor
    /// accepted, no extensions.
    fn default() -> Self {
        let weft_mpa::Offer {
            receive_markers,
            crc,
            revision,
            negotiate_depths,
            ready_to_receive,
            extensions,
            max_private_data,
            ..
        } = weft_mpa::Offer::default();
        let markers = receive_markers;
        let early = true;
        Self { crc, markers, early, revision, negotiate_depths, ready_to_receive, extensions, max_private_data }
    }
}

/// What the two ends of a connection have agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// The end that began.
    pub role: Role,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Reads and atomics that this end answers at a time.
    pub ird: u16,
    /// Reads and atomics that this end has under way at a time.
    pub ord: u16,
    /// The IRD as the peer stated it, [`NOT_NEGOTIATED`] if it did not.
    pub peer_ird: u16,
    /// The ORD as the peer stated it, [`NOT_NEGOTIATED`] if it did not.
    pub peer_ord: u16,
    /// Whether atomic operations and immediate data (RFC 7306) can be used.
    pub atomics_and_immediates: bool,
    /// Whether requests may have fences among their flags ([`weft_rdmap::RequestFlags`]): always over Edge between
    /// peers of this version, over shared memory, and over iWARP as long as no markers are sent, for then bytes are
    /// placed in the order in which they come. With markers the peer may place them as they come, and cannot be made to
    /// do otherwise.
    pub fences: bool,
    /// The peer application's private data.
    pub private_data: Vec<u8>,
    /// What the lower layer has agreed on.
    pub lower: LowerInfo,
}

impl ConnectionInfo {
    /// What MPA has agreed on, if it carries the connection.
    #[must_use]
    pub const fn mpa(&self) -> Option<&MpaInfo> {
        match &self.lower {
            LowerInfo::Mpa(info) => Some(info),
            LowerInfo::Edge | LowerInfo::Other(_) => None,
        }
    }
}

/// What carries a connection, and what was agreed about that.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LowerInfo {
    /// MPA over a byte stream.
    Mpa(MpaInfo),
    /// Edge over datagrams.
    Edge,
    /// A lower layer that this crate does not know, by its name.
    Other(&'static str),
}

/// What the two ends have agreed on about MPA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpaInfo {
    /// MPA revision.
    pub revision: u8,
    /// Frames carry CRCs.
    pub crc: bool,
    /// Markers in what this end sends, so far apart.
    pub send_markers: Option<MarkerSpacing>,
    /// Markers in what this end receives, so far apart.
    pub receive_markers: Option<MarkerSpacing>,
    /// What only two Weft peers do.
    pub extensions: Extensions,
}

/// What an incoming connection announces of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// The caller.
    pub remote: SocketAddr,
    /// The address that was called.
    pub local: SocketAddr,
    /// MPA revision of the request, if it came by MPA.
    pub mpa_revision: Option<u8>,
    /// The peer's IRD, [`NOT_NEGOTIATED`] when it announces none.
    pub peer_ird: u16,
    /// The peer's ORD, [`NOT_NEGOTIATED`] when it announces none.
    pub peer_ord: u16,
    /// The peer application's private data.
    pub private_data: Vec<u8>,
}

/// The caller requests a connection that is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartMisuse {
    /// The application's private data does not fit.
    PrivateDataTooLong {
        /// Bytes given.
        given: usize,
        /// Bytes that fit.
        limit: usize,
    },
    /// The settings of MPA contradict each other, or MPA does not know them.
    Mpa(MpaStartMisuse),
}

impl From<MpaStartMisuse> for StartMisuse {
    fn from(misuse: MpaStartMisuse) -> Self {
        match misuse {
            MpaStartMisuse::PrivateDataTooLong { given, limit } => Self::PrivateDataTooLong { given, limit },
            other => Self::Mpa(other),
        }
    }
}

impl fmt::Display for StartMisuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::PrivateDataTooLong { given, limit } => MpaStartMisuse::PrivateDataTooLong { given, limit }.fmt(f),
            Self::Mpa(misuse) => misuse.fmt(f),
        }
    }
}

impl std::error::Error for StartMisuse {}

/// Why a connection did not begin: the reason, in words of any lower layer, and what the lower layer says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError {
    /// Why.
    pub reason: StartReason,
    /// What the lower layer says.
    pub lower: LowerStartError,
}

/// The reasons why a connection does not begin, sorted by whose fault it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartReason {
    /// The peer does not want the connection.
    Rejected {
        /// What its application says about it.
        private_data: Box<[u8]>,
    },
    /// The peer does not speak the protocol, or breaks it.
    Malformed,
    /// Both sides are right, and do not fit.
    Incompatible,
    /// The peer wants to have more reads under way than this side takes.
    NotEnoughReads {
        /// What the peer wants.
        needed: u16,
        /// What this side takes.
        limit: u16,
    },
    /// The peer was too slow.
    TimedOut {
        /// How long it was waited for.
        waited_for: Duration,
    },
    /// The peer has closed the connection.
    ClosedEarly,
}

/// What a lower layer says about a connection that did not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LowerStartError {
    /// MPA.
    Mpa(Box<MpaStartError>),
    /// A lower layer that this crate does not know: words for people.
    Other(&'static str),
}

impl From<MpaStartError> for StartError {
    fn from(failure: MpaStartError) -> Self {
        let reason = match &failure {
            MpaStartError::Rejected(rejection) => {
                StartReason::Rejected { private_data: rejection.private_data.clone() }
            }
            MpaStartError::Malformed(_) | MpaStartError::TalkedEarly => StartReason::Malformed,
            MpaStartError::Incompatible(_) | MpaStartError::NoReadyToReceive { .. } => StartReason::Incompatible,
            MpaStartError::NotEnoughResources { needed, limit, .. } => {
                StartReason::NotEnoughReads { needed: *needed, limit: *limit }
            }
            MpaStartError::TimedOut { waited_for } => StartReason::TimedOut { waited_for: *waited_for },
            MpaStartError::ClosedEarly => StartReason::ClosedEarly,
        };
        Self { reason, lower: LowerStartError::Mpa(Box::new(failure)) }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let StartReason::Rejected { private_data } = &self.reason
            && Refusal::parse(private_data) == Ok(Refusal::Exhausted)
        {
            return write!(f, "rejected: {NO_DESCRIPTORS}");
        }
        match &self.lower {
            LowerStartError::Mpa(failure) => failure.fmt(f),
            LowerStartError::Other(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.lower {
            LowerStartError::Mpa(failure) => Some(failure),
            LowerStartError::Other(_) => None,
        }
    }
}
