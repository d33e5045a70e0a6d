//! Segments, on their way out and in.

use weft_base::{Gather, MessageNumber, Stag};
use weft_wire::ddp;
use weft_wire::rdmap::{AtomicRequest, AtomicResponse, Opcode, ReadRequest, Receipt};
use weft_wire::terminate::Terminate;

use crate::request::RequestFlags;
use crate::violation::Context;

/// The smallest ULPDU that a stream below may request: with fewer bytes the messages that fit into one segment would
/// not (RFC 5044 section 5.1: a MULPDU is never less than 128). Less is taken for this.
pub const MIN_ULPDU: u32 = 128;

/// A DDP segment to be sent.
#[derive(Debug)]
pub struct Segment<'a> {
    /// Its first bytes: the DDP header, and what RDMAP puts behind it.
    pub header: &'a [u8],
    /// The rest.
    pub payload: SegmentPayload<'a>,
    /// Bytes of both together.
    pub length: u32,
    /// It ends a message whose completion the application may wait for, or much is in flight: the sooner it is known to
    /// be in place the better.
    pub is_awaited: bool,
    /// What its request demands of the order of placement.
    pub request: SegmentOf,
}

/// What a segment to be sent says of the order of placement, for a lower layer that may change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentOf {
    /// Of the request, if it is a request's.
    pub flags: RequestFlags,
    /// It is the first of the request.
    pub is_first: bool,
    /// It is the last of the request.
    pub is_last: bool,
    /// It is a Write's: flags are for these.
    pub is_write: bool,
}

/// What the sender demands of the order in which a segment of a Write is placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderConstraint {
    /// It may be placed as it comes, though Writes are ordered otherwise
    /// ([`StreamConfig::ordered_writes`](crate::StreamConfig)).
    pub unordered: bool,
    /// All positions below this are in place before it is. No more than where the segment starts.
    pub after: u64,
}

/// The payload of a segment.
#[derive(Clone, Copy, Debug)]
pub enum SegmentPayload<'a> {
    /// None.
    None,
    /// In memory, pinned until [`Stream::handle_sent`](crate::Stream::handle_sent).
    Gather(Gather),
    /// As `Gather`, but the bytes may change until they are sent: a layer that sums them up copies them in the same
    /// pass.
    Exposed(Gather),
    /// Carried by the request. To be copied now.
    Inline(&'a [u8]),
}

/// A segment's place in the order of the stream below: from `start` up to, but not including, `end`. The first segment
/// starts at 0, and each starts where the one before it ends. Byte positions will do, and so will running numbers.
/// Where segments may come again cut in other places ([`LowerTraits::cuts_again`](crate::LowerTraits)), and where
/// Writes are ordered ([`StreamConfig::ordered_writes`](crate::StreamConfig)), a position is a byte of payload, and a
/// segment with the DDP Last flag has one more: position `start + n` is byte `n` of the payload. Where segments keep
/// their bounds a segment may have further positions behind these, of what the layer below adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Where it starts.
    pub start: u64,
    /// Where the next one starts.
    pub end: u64,
}

impl Arrival {
    /// Whether they have a position in common.
    pub(crate) const fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// What is to be done with a segment.
#[derive(Debug)]
#[must_use = "a segment without a placement may not be placed"]
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once, and a box would be allocated per segment")]
pub enum Verdict {
    /// It is good, or a part of it is that was missing: bring the payload to its place.
    Place(Placement),
    /// All of it was placed before. Nothing is to be touched, and it is to be acknowledged again.
    Drop,
    /// It can't be taken now, and leaves no trace. To be brought again.
    Later(Later),
    /// It breaks a rule, or the stream takes nothing any more: nothing is to be placed. A violation with a
    /// [`code`](crate::Violation::code) has ended the stream: its Terminate comes from
    /// [`Stream::poll_transmit`](crate::Stream::poll_transmit). If the CRC of the segment turns out bad, say so by
    /// [`Stream::fail`](crate::Stream::fail): its Terminate takes the place of this one.
    Fatal(crate::Violation),
}

/// Why a segment can't be taken now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Later {
    /// Its turn has not come, and what comes before it may make it right; or as many early ones as may be are kept; or
    /// some of it is being placed just now; or it would change bytes that another one waits to change before it; or
    /// it is to be placed behind others that are missing.
    Early,
    /// No receive is posted for it.
    NotReady,
    /// Completions must be polled first.
    Unpolled,
}

/// Where the payload of a segment belongs. Nothing has been delivered: give it to
/// [`Stream::handle_placed`](crate::Stream::handle_placed) when the bytes are there and the CRC is good, or to
/// [`Stream::abandon`](crate::Stream::abandon).
#[derive(Debug)]
#[must_use = "a segment that is not handed back counts for nothing"]
pub struct Placement {
    /// Where in the ULPDU the bytes start that are to be placed.
    pub header_length: u32,
    /// Where they go: as many bytes of the ULPDU as it has room for, all that follow unless a part was placed before;
    /// or empty when there is nothing to place.
    pub sink: Gather,
    /// More of the segment is missing behind: bring it again when this is placed.
    pub is_partial: bool,
    pub(crate) serial: u64,
    pub(crate) arrival: Arrival,
    pub(crate) received: Received,
}

/// What is kept of a segment until its turn comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) context: Context,
    pub(crate) effect: Effect,
    /// A Write that the order of Writes leaves out of account.
    pub(crate) unordered: bool,
}

/// The latest Write, if no message of queue 0 has come behind it: immediate data are delivered right behind the Write
/// that they belong to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// Its bytes so far.
    pub(crate) bytes: u32,
    /// More of it comes.
    is_open: bool,
}

impl Written {
    /// Whether it has begun and not ended.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// One more segment of a Write.
    #[inline]
    pub(crate) fn add(&mut self, context: &Context) {
        let before = if self.is_open { self.bytes } else { 0 };
        self.bytes = before.saturating_add(context.length.saturating_sub(ddp::TAGGED_LENGTH as u32));
        self.is_open = context.header.is_some_and(|header| !header.last);
    }
}

/// What a segment does when its turn comes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    /// Nothing: a Write is not delivered (RFC 5040 section 5.1).
    Write {
        /// Of its first byte, if it has one.
        address: u64,
    },
    /// One that has waited for its turn: its bytes are written then.
    SmallWrite(SmallWrite),
    Send(Part),
    Immediate {
        part: Part,
        immediate: u64,
    },
    ReadRequest {
        number: MessageNumber,
        request: ReadRequest,
    },
    AtomicRequest {
        number: MessageNumber,
        request: AtomicRequest,
        /// Of its word, if it may be touched.
        address: Option<u64>,
    },
    ReadResponse(ResponsePart),
    AtomicResponse {
        number: MessageNumber,
        response: AtomicResponse,
    },
    Receipt {
        number: MessageNumber,
        receipt: Receipt,
    },
    Terminate(Terminate),
    /// It has taken effect before its turn.
    Done,
    /// The zero-length Send that says ready-to-receive.
    ReadySend,
}

/// The most bytes of a Write that may be polled as one: a word.
pub(crate) const SMALL: usize = 8;

/// A Write of a few bytes, with its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SmallWrite {
    pub(crate) stag: Stag,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) length: u8,
    pub(crate) bytes: [u8; SMALL],
}

impl SmallWrite {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    pub(crate) fn extent(&self) -> Extent {
        Extent { address: self.address, length: self.length.into() }
    }
}

/// A piece of a message on queue 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) number: MessageNumber,
    pub(crate) opcode: Opcode,
    /// The Invalidate STag field, where a Send with immediate data has these.
    pub(crate) word: u32,
    pub(crate) offset: u32,
    /// Bytes that go to the receive buffer.
    pub(crate) length: u32,
    pub(crate) last: bool,
}

/// A piece of a Read Response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponsePart {
    pub(crate) stag: Stag,
    pub(crate) offset: u64,
    pub(crate) length: u32,
    pub(crate) last: bool,
}

/// Bytes by their addresses, which are the same under whatever STags peers name them. They may end at 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) address: u64,
    /// At least 1.
    pub(crate) length: u64,
}

impl Extent {
    /// Whether they have a byte in common.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.has(other.address) || other.has(self.address)
    }

    pub(crate) fn has(&self, address: u64) -> bool {
        address.wrapping_sub(self.address) < self.length
    }
}
