//! The inputs of a machine, and its terms with a peer.

use weft_base::PeerId;

use crate::matching::Match;

/// Receive requests that a connection needs besides those for [`Terms::data_credits`] and [`Terms::control_credits`]:
/// packets that only return credits cost none, and this many of them may be in flight: two of each class, one that
/// requests more credits and one that grants them.
pub const RESERVED_PACKETS: u16 = 6;

/// A message to send.
#[derive(Debug)]
pub struct Send<S> {
    /// The receiver.
    pub peer: PeerId,
    /// Its tag; `None` for an untagged message.
    pub tag: Option<u64>,
    /// Immediate data.
    pub data: Option<u64>,
    /// Length in bytes.
    pub length: u64,
    /// Whether it completes only when it is in the memory of a receive.
    pub delivery: bool,
    /// The NIC's data.
    pub user: S,
}

/// A receive.
#[derive(Debug)]
pub struct Receive<R> {
    /// The sender; `None`: any.
    pub source: Option<PeerId>,
    /// Its tags; `None`: untagged messages.
    pub matching: Option<Match>,
    /// Bytes of memory.
    pub length: u64,
    /// Accepts one message after another, until fewer bytes than this are left.
    pub many: Option<u64>,
    /// The NIC's data.
    pub user: R,
}

/// The result of [`Machine::peek`](crate::Machine::peek): a message that no receive has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek {
    /// Its sender.
    pub source: PeerId,
    /// Its tag; 0 for an untagged message.
    pub tag: u64,
    /// Immediate data.
    pub data: Option<u64>,
    /// Length of the message in bytes.
    pub length: u64,
}

/// A peer's grants when it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The maximum length of a packet to it. At least [`weft_wire::message::MIN_PACKET_BYTES`].
    pub packet_bytes: u32,
    /// Packets with messages that may be in flight to it. At least 1.
    pub data_credits: u16,
    /// Other packets that may be in flight to it. At least 1.
    pub control_credits: u16,
}

/// A peer has violated the protocol: its connection must be aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation(pub &'static str);
