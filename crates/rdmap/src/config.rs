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

/// The message with which an initiator says that it is ready to receive (RFC 6581 section 9.2). Each has length zero.
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
    /// Whether both sides agreed to use the operations of RFC 7306. Without, they are never sent, and taken for errors when they come.
    pub extensions: bool,
    /// The most segments that are placed before their turn. At the limit further ones are refused ([`Violation::Deferred`](crate::Violation)).
    pub reorder_limit: usize,
    /// The ready-to-receive message that was agreed (RFC 6581). An initiator sends it first; a responder takes it for what it is.
    pub ready_to_receive: Option<ReadyKind>,
    /// Whether nothing is sent before the first segment of the peer has been placed: what a responder owes an initiator that has
    /// just read the MPA reply (RFC 5044 section 7.1.2).
    pub responder_waits: bool,
}
