//! Why a connection does not begin, sorted by whose fault it is.

use core::fmt;
use core::time::Duration;

use weft_wire::mpa::{MAX_PRIVATE_DATA, MarkerSpacing, StartKind};
use weft_wire::terminate::TerminateCode;

use super::{NOT_NEGOTIATED, ReadyKinds, StartFrame};
use crate::Framer;

/// The caller requests what is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartMisuse {
    /// The application's private data does not fit the frame.
    PrivateDataTooLong {
        /// Bytes given.
        given: usize,
        /// Bytes that fit: what the frame's limit, IRD and ORD, and the Weft record leave.
        limit: usize,
    },
    /// There is no such MPA revision.
    UnknownRevision(u8),
    /// Peer-to-peer is requested in a revision that does not know it.
    PeerToPeerNeedsRevision2 {
        /// The revision of the offer.
        revision: u8,
    },
    /// Peer-to-peer is requested, with no kind of message to open with.
    NoReadyKind,
}

impl fmt::Display for StartMisuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PrivateDataTooLong { given, limit } => {
                write!(
                    f,
                    "private data of {given} bytes is too long: at most {limit} bytes fit this connection's start-up \
                     frame"
                )
            }
            Self::UnknownRevision(revision) => write!(f, "there is no MPA revision {revision}: use 0, 1 or 2"),
            Self::PeerToPeerNeedsRevision2 { revision } => {
                write!(f, "peer-to-peer cannot be asked for in MPA revision {revision}: use revision 2")
            }
            Self::NoReadyKind => {
                f.write_str("peer-to-peer needs a kind of message to open with: allow send, write or read")
            }
        }
    }
}

impl std::error::Error for StartMisuse {}

/// Why a connection did not begin. It must be closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartFailure {
    /// The peer's fault: what it sent is no start-up frame, or not the one that is due.
    Malformed(Malformed),
    /// No side is at fault: both are right and do not fit.
    Incompatible(Incompatible),
    /// The peer does not want the connection.
    Rejected(Box<Rejection>),
    /// The responder wants to have more reads under way than this side takes (RFC 6581 section 9.1).
    NotEnoughResources {
        /// The responder's ORD.
        needed: u16,
        /// The IRD that this side can have.
        limit: u16,
        /// How to frame the Terminate.
        framing: Framing,
    },
    /// There is no way to open the connection that both sides know (RFC 6581 section 9.2).
    NoReadyToReceive {
        /// What this side can open with. `None`: it did not request peer-to-peer.
        ours: Option<ReadyKinds>,
        /// What the responder takes. `None`: it does not do peer-to-peer.
        theirs: Option<ReadyKinds>,
        /// How to frame the Terminate.
        framing: Framing,
    },
    /// The peer's frame did not come in the time that the caller gave it (RFC 5044 section 7.1.2, rules 8 and 10).
    TimedOut {
        /// How long that was.
        waited_for: Duration,
    },
    /// The peer closed the connection before its frame was there.
    ClosedEarly,
    /// The initiator sent more before it had its reply, though it could not know yet the format of FPDUs (RFC 5044
    /// section 7.1.2, rules 2 and 3). Found by the caller, which has the bytes.
    TalkedEarly,
}

impl StartFailure {
    /// The Terminate message to send to the peer before closing (RFC 6581 section 8). `None`: nothing may be sent (RFC
    /// 5044 section 7.1.2: close).
    #[must_use]
    pub const fn terminate_code(&self) -> Option<TerminateCode> {
        match self {
            Self::NotEnoughResources { .. } => Some(TerminateCode::MpaInsufficientResources),
            Self::NoReadyToReceive { .. } => Some(TerminateCode::MpaNoReadyToReceive),
            _ => None,
        }
    }

    /// Frames that Terminate message, which is the first FPDU of the stream.
    #[must_use]
    pub const fn terminate_framer(&self) -> Option<Framer> {
        match self {
            Self::NotEnoughResources { framing, .. } | Self::NoReadyToReceive { framing, .. } => {
                Some(Framer::new(framing.send_markers, framing.crc))
            }
            _ => None,
        }
    }

    /// A rejecting reply to send before closing.
    #[must_use]
    pub fn reply(&self) -> Option<&StartFrame> {
        match self {
            Self::Incompatible(Incompatible::PeerToPeer { reply, .. }) => Some(reply),
            _ => None,
        }
    }
}

/// The format of this side's FPDUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// With markers, so far apart.
    pub send_markers: Option<MarkerSpacing>,
    /// With CRCs.
    pub crc: bool,
}

/// What is wrong with a start-up frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The peer does not speak MPA: its bytes differ from the key of the frame that is due (RFC 5044 section 7.1.2,
    /// rule 5).
    Key {
        /// The frame that is due.
        expected: StartKind,
        /// Which of its bytes is the first to differ.
        at: usize,
        /// The byte that was found there.
        found: u8,
    },
    /// The peer sent the frame of the other role: both sides are initiators, or both responders (RFC 5044
    /// section 7.1.2, rule 8).
    WrongRole {
        /// The frame that came.
        received: StartKind,
    },
    /// More private data is announced than the standard permits (RFC 5044 section 7.1.1).
    PrivateDataTooLong {
        /// Bytes announced.
        announced: u16,
    },
    /// The frame says that it holds IRD and ORD (S), and is too short to hold them (RFC 6581 section 6).
    NoRoomForDepths {
        /// Bytes of private data.
        private_length: u16,
    },
    /// The reply to an enhanced request is not enhanced (RFC 6581 section 10).
    NotEnhanced,
}

/// Two sides that don't fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incompatible {
    /// The peer speaks a revision that this side does not.
    Revision {
        /// The peer's.
        received: u8,
        /// The highest of this side.
        highest: u8,
    },
    /// The initiator wants peer-to-peer; this side's offer does not allow it.
    PeerToPeer {
        /// What the initiator would open with.
        theirs: ReadyKinds,
        /// The rejection to answer with.
        reply: Box<StartFrame>,
    },
}

/// What a rejecting reply says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The revision of the reply.
    pub revision: u8,
    /// The responder's IRD. [`NOT_NEGOTIATED`] when it announces none.
    pub ird: u16,
    /// The responder's ORD: what it would have needed the initiator's IRD to be (RFC 6581 section 9.1).
    /// [`NOT_NEGOTIATED`] when it announces none.
    pub ord: u16,
    /// The private data of the responder's application.
    pub private_data: Box<[u8]>,
    /// Whether this side had requested markers, which some peers (Linux siw) answer with a rejection.
    pub asked_for_markers: bool,
}

const fn name(kind: StartKind) -> &'static str {
    match kind {
        StartKind::Request => "MPA request",
        StartKind::Reply => "MPA reply",
    }
}

impl fmt::Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = |kinds: &Option<ReadyKinds>| kinds.unwrap_or_default();
        match self {
            Self::Malformed(malformed) => malformed.fmt(f),
            Self::Incompatible(incompatible) => incompatible.fmt(f),
            Self::Rejected(rejection) => rejection.fmt(f),
            Self::NotEnoughResources { needed, limit, .. } => write!(
                f,
                "the peer wants to have {needed} reads under way, this side takes {limit} at a time: raise the IRD to \
                 {needed}"
            ),
            Self::NoReadyToReceive { ours, theirs, .. } => write!(
                f,
                "no ready-to-receive message in common: this side can open with: {}; the peer takes: {}",
                kinds(ours),
                kinds(theirs)
            ),
            Self::TimedOut { waited_for } => {
                write!(f, "timed out: the peer's MPA start-up frame did not come within {waited_for:?}")
            }
            Self::ClosedEarly => f.write_str(
                "the peer closed the connection before its MPA start-up frame was there: does it speak MPA?",
            ),
            Self::TalkedEarly => f.write_str("the peer sent more before its MPA request was answered"),
        }
    }
}

impl std::error::Error for StartFailure {}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key { expected, at, found } => write!(
                f,
                "the peer does not speak MPA: byte {at} of what should be an {} is {found:#04x}; is this the right \
                 port?",
                name(*expected)
            ),
            Self::WrongRole { received: StartKind::Request } => {
                f.write_str("both sides are initiators: an MPA request came where a reply is due; let one side listen")
            }
            Self::WrongRole { received: StartKind::Reply } => {
                f.write_str("both sides are responders: an MPA reply came where a request is due; let one side connect")
            }
            Self::PrivateDataTooLong { announced } => {
                write!(f, "the peer announces {announced} bytes of private data; MPA permits {MAX_PRIVATE_DATA}")
            }
            Self::NoRoomForDepths { private_length } => write!(
                f,
                "the peer's enhanced start-up frame has {private_length} bytes of private data, too few for its IRD \
                 and ORD"
            ),
            Self::NotEnhanced => f.write_str("the reply to an enhanced MPA request (revision 2) is not enhanced"),
        }
    }
}

impl fmt::Display for Incompatible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Revision { received, highest } => {
                write!(f, "the peer speaks MPA revision {received}, this side at most {highest}")
            }
            Self::PeerToPeer { theirs, .. } => write!(
                f,
                "the peer wants a peer-to-peer connection (opened by: {theirs}), which this side was not told to take"
            ),
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the peer rejected the connection, with {} bytes of private data", self.private_data.len())?;
        if self.ord != NOT_NEGOTIATED {
            write!(f, "; it takes {} reads at a time and wants {} under way", self.ird, self.ord)?;
        }
        if self.asked_for_markers {
            f.write_str("; perhaps because markers were asked for")?;
        }
        Ok(())
    }
}
