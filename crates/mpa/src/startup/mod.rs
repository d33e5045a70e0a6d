//! How a connection begins: one MPA Request Frame, one MPA Reply Frame (RFC 5044 section 7.1, RFC 6581).
//!
//! Each side gives an [`Offer`] of what it wants. The [`Initiator`] sends a request at once and waits for the reply;
//! the [`Responder`] waits for the request and then [accepts](Request::accept) or [rejects](Request::reject) it. Each
//! state is consumed and gives the next, and the bytes stay with the caller, which brings *all* that have come and are
//! not consumed yet, from the first, each time. Deadlines are the caller's too (RFC 5044 section 7.1.2, rules 8 and 10:
//! both sides should have one).
//!
//! # What is agreed
//! - **Markers**, per direction: the receiver decides, and the sender obeys (M). They are 512 bytes apart, or, by the
//!   record below, further.
//! - **CRC**, for both directions: on when either side wants it (C).
//! - **Revision**: the responder answers in that of the request, 0, 1 or 2. An initiator takes a reply of a lower
//!   revision, never one of a higher.
//! - **Read depths** (IRD and ORD), only in revision 2 with S: each side ends with an ORD of at most the other's IRD.
//!   In other revisions, and where a side sends [`NOT_NEGOTIATED`], they are what each side has set.
//! - **Peer-to-peer**, only in revision 2 with S: the initiator opens with a [`ReadyKind`], which the responder chooses
//!   among those that the initiator has named. Without it the initiator's application must send first: in either case
//!   no FPDU of the responder's comes before the first one of the initiator's ([`Agreement::responder_must_wait`]).
//! - **Extensions** that only Weft knows, by the record below.
//!
//! # The private data, and the Weft record
//! ```text
//! | 4 bytes: IRD, ORD, flags (revision 2 with S) | the application's data | 12 bytes: Weft record |
//! ```
//! The record is at the very end, so that the application of a peer that knows nothing of Weft still finds its data at
//! the start. All integers are big-endian:
//!
//! | bytes | content |
//! |---|---|
//! | 0-7 | `f7` and then, as ASCII, `WeftReq` in a request, `WeftRep` in a reply: an application that sends back what it got is not taken for Weft |
//! | 8 | version of the record, 1. A later version keeps the meaning of what is here |
//! | 9 | features: bit 0 atomic and immediate operations (RFC 7306), bit 1 FPDUs larger than the path's packets, bit 2 markers at other spacings than 512 bytes: 1 KB and 2 KB |
//! | 9, bits 3-4 | the spacing that the sender wants in what it receives: 0 512 bytes, 1 1 KB, 2 2 KB. A responder sends another one than 0 only if bit 2 is set in both records |
//! | 9, bits 5-6 | reply: the spacing that the responder keeps in what it sends: that of bits 3-4 of the request if it can, else 0. Request: zero |
//! | 9, bit 7 | feature: receipts, by which Sends wait for receives and requests complete in place at the peer |
//! | 10-11 | PD_Length of the frame: the record is one only if it ends where the private data ends |
//!
//! An initiator sends it when its offer has [`Extensions`]. A responder takes a record off what its application sees,
//! and answers with one of its own only if it saw one and has extensions to offer. What both name is agreed
//! ([`Agreement::extensions`]). A rejection holds no record. A plain peer sends none, so nothing is agreed with it, and
//! it is never sent what it does not know. The record takes 12 bytes from what the application may send; without
//! extensions it takes none.
//!
//! A spacing other than the standard's is used only when both records have it: that of what the responder sends in the
//! request as wanted and in the reply as kept; that of what the initiator sends in the reply as wanted, after bit 2 of
//! the request. A record in which these bits are zero means 512 bytes, as does a spacing without a meaning.

mod agreement;
mod errors;
mod frame;
mod initiator;
mod record;
mod responder;

pub use agreement::{Agreement, Role};
pub use errors::{Framing, Incompatible, Malformed, Rejection, StartFailure, StartMisuse};
pub use frame::{MAX_START_FRAME, StartFrame};
pub use initiator::Initiator;
pub use responder::{Request, Responder};
use weft_wire::mpa::{DEPTH_NOT_NEGOTIATED, ENHANCED_LENGTH, MAX_PRIVATE_DATA, MarkerSpacing};

/// The IRD or ORD of a side that does not negotiate it (RFC 6581 section 9.1).
pub const NOT_NEGOTIATED: u16 = DEPTH_NOT_NEGOTIATED;
/// The highest MPA revision: that of RFC 6581.
pub const HIGHEST_REVISION: u8 = 2;
/// The revision in which the start-up frames can be enhanced (RFC 6581 section 6).
const ENHANCED_REVISION: u8 = 2;

/// What one side wants of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The peer shall put markers into what it sends to this side, at this spacing. Other spacings than
    /// [`MarkerSpacing::Standard`] need a peer that agrees to [`Extensions::marker_spacing`]; from any other peer the
    /// standard's are requested.
    pub receive_markers: Option<MarkerSpacing>,
    /// CRCs shall be used, in both directions. Off only on an administrator's request (RFC 5044 section 4.4); then they
    /// are off if the peer wants none either.
    pub crc: bool,
    /// Initiator: the revision of the request. Responder: the highest to answer. 0, 1 or 2; higher ones count as 2 for
    /// a responder.
    pub revision: u8,
    /// How many read requests of the peer this side takes at a time, at most. Above 16382 it counts as 16382 where it
    /// is negotiated.
    pub ird: u16,
    /// How many read requests this side has under way at a time, at most. Above 16382 it counts as 16382 where it is
    /// negotiated.
    pub ord: u16,
    /// Whether IRD and ORD are negotiated in revision 2. If not, [`NOT_NEGOTIATED`] is sent, and both are what is set
    /// here.
    pub negotiate_depths: bool,
    /// Initiator: peer-to-peer is requested, and it can open with these kinds. Responder: the kinds it can take. A
    /// responder with `None` refuses requests for peer-to-peer.
    pub ready_to_receive: Option<ReadyKinds>,
    /// What may be agreed by the Weft record. With none, no record is sent.
    pub extensions: Extensions,
    /// The most private data to put into a frame, in bytes, everything included. The standard's limit is 512; Linux siw
    /// closes the connection above 256.
    pub max_private_data: u16,
}

impl Default for Offer {
    /// Revision 2 with CRC, without markers (RFC 5044 section 4.4: CRCs are on by default), 16 reads each way,
    /// peer-to-peer neither requested nor accepted, no extensions.
    fn default() -> Self {
        Self {
            receive_markers: None,
            crc: true,
            revision: HIGHEST_REVISION,
            ird: 16,
            ord: 16,
            negotiate_depths: true,
            ready_to_receive: None,
            extensions: Extensions::none(),
            max_private_data: MAX_PRIVATE_DATA as u16,
        }
    }
}

impl Offer {
    /// The most private data that the application of an initiator with this offer can send, in bytes: what the IRD and
    /// ORD and the record leave.
    #[must_use]
    pub fn private_data_limit(&self) -> usize {
        self.room(self.revision == ENHANCED_REVISION, self.extensions.any())
    }

    /// What is left of the private data for the application.
    fn room(&self, enhanced: bool, record: bool) -> usize {
        let enhanced = if enhanced { ENHANCED_LENGTH } else { 0 };
        let record = if record { record::LENGTH } else { 0 };
        usize::from(self.max_private_data).min(MAX_PRIVATE_DATA).saturating_sub(enhanced + record)
    }

    /// IRD and ORD as they can be negotiated.
    fn depths(&self) -> (u16, u16) {
        (self.ird.min(NOT_NEGOTIATED - 1), self.ord.min(NOT_NEGOTIATED - 1))
    }
}

/// What may open a peer-to-peer connection: the initiator's first message, which says that it is ready to receive
/// (RFC 6581 section 9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyKind {
    /// A Send without payload. It takes no receive of the responder's application.
    Send,
    /// A Write of length zero.
    Write,
    /// A Read of length zero.
    Read,
}

impl ReadyKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

/// A set of [`ReadyKind`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadyKinds {
    /// [`ReadyKind::Send`].
    pub send: bool,
    /// [`ReadyKind::Write`].
    pub write: bool,
    /// [`ReadyKind::Read`].
    pub read: bool,
}

impl ReadyKinds {
    /// All three.
    #[must_use]
    pub const fn all() -> Self {
        Self { send: true, write: true, read: true }
    }

    /// Just this one.
    #[must_use]
    pub fn only(kind: ReadyKind) -> Self {
        Self { send: kind == ReadyKind::Send, write: kind == ReadyKind::Write, read: kind == ReadyKind::Read }
    }

    /// Whether there is any.
    #[must_use]
    pub const fn any(self) -> bool {
        self.send || self.write || self.read
    }

    /// Those in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { send: self.send && other.send, write: self.write && other.write, read: self.read && other.read }
    }

    /// The one that costs least: a write touches nothing, a read needs an answer, a send a place on the queue.
    #[must_use]
    pub const fn cheapest(self) -> Option<ReadyKind> {
        match self {
            Self { write: true, .. } => Some(ReadyKind::Write),
            Self { read: true, .. } => Some(ReadyKind::Read),
            Self { send: true, .. } => Some(ReadyKind::Send),
            _ => None,
        }
    }
}

impl core::fmt::Display for ReadyKinds {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let kinds = [(self.send, ReadyKind::Send), (self.write, ReadyKind::Write), (self.read, ReadyKind::Read)];
        let mut names = kinds.iter().filter(|(set, _)| *set).map(|(_, kind)| kind.name());
        f.write_str(names.next().unwrap_or("none"))?;
        names.try_for_each(|name| write!(f, ", {name}"))
    }
}

/// What goes beyond RFC 5040 and 5044, and so is done only between peers that both offered it in their Weft records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// Atomic operations and immediate data (RFC 7306: opcodes 8 to 11).
    pub atomics_and_immediates: bool,
    /// FPDUs larger than the path's packets (against RFC 5044 section 4.5), which cost less on kernel TCP.
    pub large_fpdus: bool,
    /// Markers further apart than the 512 bytes of RFC 5044 section 4.3, in the directions whose receivers request
    /// that.
    pub marker_spacing: bool,
    /// Receipts ([`weft_wire::rdmap::Receipt`]): each side announces which messages have a receive, so that a Send
    /// waits at its sender until it has one, and which are in place, so that a Send or Write completes no sooner.
    pub receipts: bool,
}

impl Extensions {
    /// None: plain iWARP, and no record is sent.
    #[must_use]
    pub const fn none() -> Self {
        Self { atomics_and_immediates: false, large_fpdus: false, marker_spacing: false, receipts: false }
    }

    /// All there are.
    #[must_use]
    pub const fn all() -> Self {
        Self { receipts: true, ..Self::usual() }
    }

    /// Those that cost nothing where they are not used: all but receipts, for which each message waits for an
    /// acknowledgement.
    #[must_use]
    pub const fn usual() -> Self {
        Self { atomics_and_immediates: true, large_fpdus: true, marker_spacing: true, receipts: false }
    }

    /// Whether there is any.
    #[must_use]
    pub const fn any(self) -> bool {
        self.atomics_and_immediates || self.large_fpdus || self.marker_spacing || self.receipts
    }

    /// Those in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            atomics_and_immediates: self.atomics_and_immediates && other.atomics_and_immediates,
            large_fpdus: self.large_fpdus && other.large_fpdus,
            marker_spacing: self.marker_spacing && other.marker_spacing,
            receipts: self.receipts && other.receipts,
        }
    }
}

/// What came of the bytes so far.
#[derive(Debug)]
pub enum Step<S, T> {
    /// More bytes are needed: bring all of them again, with those that have come since.
    More(S),
    /// It is done.
    Done(T),
    /// It cannot be done. The connection must be closed, after a [Terminate](StartFailure::terminate_code) or a
    /// [reply](StartFailure::reply) where there is one to send.
    Failed(StartFailure),
}
