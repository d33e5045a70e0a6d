//! What a machine is told, and what it agrees on with a peer.

use weft_base::PeerId;

use crate::matching::Match;

/// Receive requests that a connection needs beside those for [`Terms::data_credits`] and [`Terms::control_credits`]:
/// packets that only give credits back cost none, and this many of them may be under way, two of each class.
pub const RESERVED_PACKETS: u16 = 4;

/// A message to send.
#[derive(Debug)]
pub struct Send<S> {
    /// To whom.
    pub peer: PeerId,
    /// Its tag; `None` for an untagged message.
    pub tag: Option<u64>,
    /// Immediate data.
    pub data: Option<u64>,
    /// Bytes.
    pub length: u64,
    /// It completes only when it is in the memory of a receive.
    pub delivery: bool,
    /// What the NIC keeps for it.
    pub user: S,
}

/// A receive.
#[derive(Debug)]
pub struct Receive<R> {
    /// From whom; `None`: from anybody.
    pub source: Option<PeerId>,
    /// Which tags; `None`: untagged messages.
    pub matching: Option<Match>,
    /// Bytes of memory.
    pub length: u64,
    /// Takes one message after another, until fewer bytes than this are left.
    pub many: Option<u64>,
    /// What the NIC keeps for it.
    pub user: R,
}

/// What [`Machine::peek`](crate::Machine::peek) found: a message that no receive has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek {
    /// Its sender.
    pub source: PeerId,
    /// Its tag; 0 for an untagged message.
    pub tag: u64,
    /// Immediate data.
    pub data: Option<u64>,
    /// Bytes of the message.
    pub length: u64,
}

/// What a peer grants when it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The most bytes of a packet to it. At least [`weft_wire::message::MIN_PACKET_BYTES`].
    pub packet_bytes: u32,
    /// Packets with messages that may be under way to it. At least 1.
    pub data_credits: u16,
    /// Other packets that may be under way to it. At least 1.
    pub control_credits: u16,
}

/// A peer has broken the rules of the protocol: its connection must be broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation(pub &'static str);
