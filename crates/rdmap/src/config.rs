//! What is agreed before a stream begins.

use weft_base::DomainId;

/// Which end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It connected (sent the MPA request).
    Initiator,
    /// It accepted.
    Responder,
}

/// The message with which an initiator announces that it is ready to receive (RFC 6581 section 9.2). Each has length
/// zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyKind {
    /// A Send.
    Send,
    /// An RDMA Write.
    Write,
    /// An RDMA Read.
    Read,
}

/// What is agreed before a stream begins.
#[derive(Clone, Copy, Debug)]
pub struct StreamConfig {
    /// The stream reaches regions of this protection domain and no other.
    pub domain: DomainId,
    /// Which end this is.
    pub role: Role,
    /// The most requests posted and not completed.
    pub send_depth: usize,
    /// The most receive requests the stream holds at once: taken from the source, and not yet polled as completions.
    pub receive_depth: usize,
    /// The most reads and atomics that the peer may have outstanding here (IRD). One more ends the stream.
    pub ird: u16,
    /// The most reads and atomics that are outstanding at the peer (ORD). Further ones wait.
    pub ord: u16,
    /// Whether both sides agreed to use the operations of RFC 7306. Without, they are never sent, and taken for errors
    /// when they come.
    pub extensions: bool,
    /// Whether both sides agreed to announce to each other which messages have a receive and which are in place
    /// ([`weft_wire::rdmap::Receipt`]). Then a Send or immediate data waits here, in the queue of requests, until the
    /// peer has promised a receive ([`Stream::grant`](crate::Stream::grant)), and requests that are not answered
    /// complete when the peer has acknowledged them. For a stream below that keeps the order of segments or brings it
    /// about again.
    pub receipts: bool,
    /// The most segments that are placed before their turn. At the limit further ones wait
    /// ([`Later::Early`](crate::Later)).
    pub reorder_limit: usize,
    /// Whether the final contents of memory are those of Writes and atomics of the peer that arrive in order, and a
    /// flag is never seen before what was written earlier, whatever the order of arrival. A late Write then leaves out
    /// what newer ones have placed, and Writes of at most 8 bytes, which may be polled, wait for their turn as atomics
    /// do. Positions count bytes of payload ([`Arrival`](crate::Arrival)).
    ///
    /// Bytes are identified by their addresses, so it is no matter which STags of the same memory name them. Two
    /// limits: memory that is mapped at two addresses is not seen to be the same; and an atomic whose word a newer
    /// Write has placed already answers with what that left. Where that was a part of the word only, the rest of it is
    /// made of the new bytes too.
    pub ordered_writes: bool,
    /// What else the lower layer does to segments.
    pub lower: LowerTraits,
    /// The ready-to-receive message that was agreed (RFC 6581). An initiator sends it first; a responder takes it for
    /// what it is.
    pub ready_to_receive: Option<ReadyKind>,
    /// Whether nothing is sent before the first segment of the peer has been placed: what a responder owes an initiator
    /// that has just read the MPA reply (RFC 5044 section 7.1.2).
    pub responder_waits: bool,
}

/// What a lower layer does to segments, beyond losing their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowerTraits {
    /// The most placements that are out at a time. With 1 the next one makes the one before worthless; with more each
    /// is to be handed back ([`Stream::handle_placed`](crate::Stream::handle_placed),
    /// [`Stream::abandon`](crate::Stream::abandon)). At least 1.
    pub placements: usize,
    /// A segment may come again cut in other places: positions count bytes of payload
    /// ([`Arrival`](crate::Arrival)), and of a segment that overlaps only what is missing is placed.
    pub cuts_again: bool,
    /// A Send for which no receive is posted waits below ([`Later::NotReady`](crate::Later)), where it would end the
    /// stream else (RFC 5041 section 7.1).
    pub holds_back: bool,
}

impl Default for LowerTraits {
    /// Those of MPA: none.
    fn default() -> Self {
        Self { placements: 1, cuts_again: false, holds_back: false }
    }
}
