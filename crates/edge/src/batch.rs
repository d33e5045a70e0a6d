//! Datagrams to be sent, as pieces to gather.

use core::ops::Range;
use std::net::SocketAddr;

use weft_base::Gather;

/// A piece of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes of the batch, unchanged.
    Bytes {
        /// Index of the first.
        start: u32,
        /// Number of bytes.
        length: u32,
    },
    /// Payload: these bytes of the batch, then the gathered bytes, then the CRC-32C of both (4 bytes, big-endian),
    /// which the gathering code computes.
    Payload {
        /// Index of the first.
        start: u32,
        /// Number of bytes, mostly 0.
        length: u32,
        /// The rest of the payload.
        gather: Gather,
        /// Whether gathered bytes may be checksummed and sent in place: if they change in between, the segment arrives
        /// damaged and is retransmitted from a copy. If false they are copied first.
        in_place: bool,
    },
}

/// A datagram of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Destination.
    pub to: SocketAddr,
    /// The local address that sends it ([`RailAddress::local`](crate::RailAddress::local)).
    pub local: u8,
    /// Its pieces, in [`Batch::pieces`].
    pub pieces: Range<usize>,
    /// All its bytes above UDP.
    pub length: usize,
    /// The two ECN bits (RFC 3168) to set.
    pub ecn: u8,
    /// The rail that carries it.
    pub rail: u8,
}

/// Datagrams to be sent, in order. Consecutive ones of equal length and address can be sent in one call (GSO).
#[derive(Debug)]
pub struct Batch {
    /// The bytes that pieces refer to.
    pub bytes: Vec<u8>,
    /// The pieces of all datagrams.
    pub pieces: Vec<Piece>,
    /// The datagrams.
    pub datagrams: Vec<Datagram>,
    most: usize,
}

impl Batch {
    /// A batch for this many datagrams. Allocates nothing later.
    ///
    /// # Panics
    /// When `bytes` is less than 128 KiB: the largest datagram must fit whatever it holds.
    #[must_use]
    pub fn new(datagrams: usize, bytes: usize) -> Self {
        assert!(bytes >= 128 << 10, "a batch of {bytes} bytes is too small, it needs 131072");
        Self {
            bytes: Vec::with_capacity(bytes),
            pieces: Vec::with_capacity(datagrams * 8),
            datagrams: Vec::with_capacity(datagrams),
            most: datagrams,
        }
    }

    /// Limits the number of datagrams, to at most the batch's capacity.
    pub fn set_most(&mut self, most: usize) {
        self.most = most.clamp(1, self.datagrams.capacity());
    }

    /// Lowers the limit to this, if it is higher.
    pub fn limit(&mut self, most: usize) {
        self.most = self.most.min(most.max(1));
    }

    /// Removes all datagrams.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.pieces.clear();
        self.datagrams.clear();
    }

    /// Whether a datagram of this many bytes certainly does not fit.
    pub(crate) fn is_full(&self, length: usize) -> bool {
        self.datagrams.len() >= self.most
            || self.bytes.capacity() - self.bytes.len() < length + 1024
            || self.pieces.capacity() - self.pieces.len() < 2 * crate::outgoing::MOST_IN_PACKET + 2
    }
}
