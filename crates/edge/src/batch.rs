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
    /// All of a row: in each datagram a head, and behind it the next part of the payload, with its CRC-32C as in
    /// [`Piece::Payload`].
    Row {
        /// Index of the first byte of the heads, which are bytes of the batch, one behind the other.
        start: u32,
        /// Bytes of all heads.
        length: u32,
        /// Bytes of each.
        head: u32,
        /// The payload of all datagrams.
        gather: Gather,
        /// Bytes of it in each datagram.
        part: u32,
        /// As in [`Piece::Payload`].
        in_place: bool,
    },
}

impl Piece {
    /// The pieces of datagram `index` of a row. `None`: this is no row, or it has no such datagram.
    #[must_use]
    pub fn of_row(&self, index: u32) -> Option<[Self; 2]> {
        let Self::Row { start, length, head, gather, part, in_place } = *self else { return None };
        let gather = (index < length / head).then(|| gather.part(index * part, part))?;
        let payload = Self::Payload { start: 0, length: 0, gather, in_place };
        Some([Self::Bytes { start: start + index * head, length: head }, payload])
    }
}

/// A datagram of a batch, or a row of datagrams: those have equal length, and one [`Piece::Row`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Destination.
    pub to: SocketAddr,
    /// The local address that sends it ([`RailAddress::local`](crate::RailAddress::local)).
    pub local: u8,
    /// Its pieces, in [`Batch::pieces`].
    pub pieces: Range<usize>,
    /// Bytes above UDP, of each datagram of a row.
    pub length: usize,
    /// The number of datagrams: more than 1 in a row.
    pub count: u32,
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
    /// The datagrams, and rows of them.
    pub datagrams: Vec<Datagram>,
    most: usize,
    /// Datagrams in rows, without the first of each.
    in_rows: usize,
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
            in_rows: 0,
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
        self.in_rows = 0;
    }

    /// The number of datagrams.
    fn count(&self) -> usize {
        self.datagrams.len() + self.in_rows
    }

    /// Adds a row. There must be room for it.
    pub(crate) fn push_row(&mut self, row: Datagram) {
        self.in_rows += row.count as usize - 1;
        self.datagrams.push(row);
    }

    /// Whether a datagram of this many bytes certainly does not fit.
    pub(crate) fn is_full(&self, length: usize) -> bool {
        self.count() >= self.most
            || self.bytes.capacity() - self.bytes.len() < length + 1024
            || self.pieces.capacity() - self.pieces.len() < 2 * crate::outgoing::MOST_IN_PACKET + 2
    }
    /// How many more datagrams certainly fit that have at most two pieces and `bytes` bytes of the batch each.
    pub(crate) fn room(&self, bytes: usize) -> usize {
        let of_bytes = (self.bytes.capacity() - self.bytes.len()).saturating_sub(1024) / bytes.max(1);
        let of_pieces = (self.pieces.capacity() - self.pieces.len()) / 2;
        self.most.saturating_sub(self.count()).min(of_bytes).min(of_pieces)
    }
}
