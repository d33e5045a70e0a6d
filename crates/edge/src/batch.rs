//! What is to be sent.

use core::ops::Range;
use std::net::SocketAddr;

use weft_base::Gather;

/// A piece of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These of the batch's bytes, as they are.
    Bytes {
        /// The first.
        start: u32,
        /// How many.
        length: u32,
    },
    /// Payload: these of the batch's bytes, then what is gathered, then the CRC-32C of both, 4 bytes, big-endian,
    /// which who gathers sums up.
    Payload {
        /// The first.
        start: u32,
        /// How many, mostly none.
        length: u32,
        /// The rest of the payload.
        gather: Gather,
        /// What is gathered may be summed up and sent from where it is: if it changes in between the segment arrives
        /// damaged, and is sent again from a copy. Else it is copied first.
        in_place: bool,
    },
}

/// A datagram of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Where it goes.
    pub to: SocketAddr,
    /// By which of this side's addresses it leaves ([`RailAddress::local`](crate::RailAddress::local)).
    pub local: u8,
    /// Its pieces, in [`Batch::pieces`].
    pub pieces: Range<usize>,
    /// Its bytes above UDP, all of them.
    pub length: usize,
    /// The two ECN bits (RFC 3168) that it gets.
    pub ecn: u8,
    /// The rail that it goes over.
    pub rail: u8,
}

/// Datagrams to be sent, in order. Those that follow each other and have equal length and address can be one call.
#[derive(Debug)]
pub struct Batch {
    /// What the pieces name.
    pub bytes: Vec<u8>,
    /// The pieces of all datagrams.
    pub pieces: Vec<Piece>,
    /// The datagrams.
    pub datagrams: Vec<Datagram>,
    most: usize,
}

impl Batch {
    /// Room for so many datagrams. Nothing is allocated later.
    ///
    /// # Panics
    /// When `bytes` is less than twice 64 KB: the largest datagram must fit, whatever it holds.
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

    /// How many datagrams it takes from now on, at most as many as there is room for: as many calls as can be full.
    pub fn set_most(&mut self, most: usize) {
        self.most = most.clamp(1, self.datagrams.capacity());
    }

    /// Has it take no more than this, of what it takes already.
    pub fn limit(&mut self, most: usize) {
        self.most = self.most.min(most.max(1));
    }

    /// Takes all datagrams out.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.pieces.clear();
        self.datagrams.clear();
    }

    /// Whether a datagram of this many bytes has no room for sure.
    pub(crate) fn is_full(&self, length: usize) -> bool {
        self.datagrams.len() >= self.most
            || self.bytes.capacity() - self.bytes.len() < length + 1024
            || self.pieces.capacity() - self.pieces.len() < 2 * crate::outgoing::MOST_IN_PACKET + 2
    }
}
