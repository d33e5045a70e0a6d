//! The acknowledgement: which packets of a rail are placed and good, and what the receiver can take.

use core::ops::RangeInclusive;

use super::EdgeError;
use super::reader::Reader;
use crate::bytes::{read_u32, read_u64, write_u32, write_u64};

/// The most ranges beside the first one.
pub const MAX_MORE_RANGES: usize = 31;
/// Bytes of the frame with one range, with the type.
pub const ACK_LENGTH: usize = 39;
/// Bytes of each further range.
pub const RANGE_LENGTH: usize = 8;

/// How many packets came with each ECN codepoint (RFC 3168), since the connection began. They wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// ECT(0).
    pub ect0: u32,
    /// ECT(1).
    pub ect1: u32,
    /// Congestion experienced.
    pub ce: u32,
}

/// An acknowledgement of packets of one rail. What it names is placed, its checksum was good, and it is never
/// withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The rail whose packets these are.
    pub rail: u8,
    /// The highest packet number.
    pub largest: u64,
    /// How many packets right below `largest` are acknowledged too.
    pub first: u32,
    /// How long the acknowledgement of `largest` has waited here, in microseconds.
    pub delay_us: u32,
    /// ECN codepoints seen on this rail.
    pub ecn: EcnCounts,
    /// How many bytes of datagrams the sender may have in flight: its share of the receiver's socket buffer.
    pub credit: u32,
    /// Datagrams that this socket has dropped because its buffer was full. It wraps.
    pub overflows: u32,
    /// Lower ranges, next one first.
    pub more: MoreRanges<'a>,
}

/// The ranges of an acknowledgement below the first, as they are on the wire: pairs of `gap` (packet numbers that are
/// missing, less one) and `length` (acknowledged below them, less one).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MoreRanges<'a>(&'a [u8]);

impl<'a> MoreRanges<'a> {
    /// Of bytes that were made by [`pack_range`].
    ///
    /// # Panics
    /// When it is not a whole number of ranges, or more than [`MAX_MORE_RANGES`].
    #[must_use]
    pub fn packed(bytes: &'a [u8]) -> Self {
        assert!(bytes.len().is_multiple_of(RANGE_LENGTH) && bytes.len() <= MAX_MORE_RANGES * RANGE_LENGTH);
        Self(bytes)
    }

    fn count(self) -> u8 {
        (self.0.len() / RANGE_LENGTH) as u8
    }
}

/// One further range: `gap` numbers are missing (at least one), then `length` are acknowledged (at least one).
#[must_use]
pub fn pack_range(gap: u32, length: u32) -> [u8; RANGE_LENGTH] {
    let mut bytes = [0; RANGE_LENGTH];
    write_u32(&mut bytes, 0, gap - 1);
    write_u32(&mut bytes, 4, length - 1);
    bytes
}

impl<'a> Ack<'a> {
    /// The ranges of packet numbers, highest first.
    pub fn ranges(&self) -> impl Iterator<Item = RangeInclusive<u64>> + use<'a> {
        let first = self.largest - u64::from(self.first)..=self.largest;
        let mut lowest = *first.start();
        let more = self.more.0.chunks_exact(RANGE_LENGTH).map(move |pair| {
            let high = lowest - u64::from(read_u32(pair, 0)) - 2;
            lowest = high - u64::from(read_u32(pair, 4));
            lowest..=high
        });
        core::iter::once(first).chain(more)
    }

    /// Bytes of the frame.
    #[must_use]
    pub fn length(&self) -> usize {
        ACK_LENGTH + self.more.0.len()
    }

    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, EdgeError> {
        // All but the kind: read at once, for this is parsed in nearly every packet.
        let fixed: &[u8; ACK_LENGTH - 1] = reader.chunk()?;
        let word = |index: usize| read_u32(fixed, 9 + 4 * index);
        let mut ack = Self {
            rail: fixed[0],
            largest: read_u64(fixed, 1),
            first: word(0),
            delay_us: word(1),
            ecn: EcnCounts { ect0: word(2), ect1: word(3), ce: word(4) },
            credit: word(5),
            overflows: word(6),
            more: MoreRanges::default(),
        };
        let count = usize::from(fixed[ACK_LENGTH - 2]);
        if count > MAX_MORE_RANGES {
            return Err(EdgeError::Value("the number of ranges"));
        }
        ack.more = MoreRanges(reader.take(count * RANGE_LENGTH)?);
        if ack.is_sound() { Ok(ack) } else { Err(EdgeError::Value("a range of packets")) }
    }

    /// Whether no range reaches below zero.
    fn is_sound(&self) -> bool {
        let below = self.more.0.chunks_exact(RANGE_LENGTH).try_fold(self.largest.checked_sub(u64::from(self.first)), {
            |lowest, pair| {
                let step = u64::from(read_u32(pair, 0)) + 2 + u64::from(read_u32(pair, 4));
                lowest.map(|lowest| lowest.checked_sub(step))
            }
        });
        below.flatten().is_some()
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let mut fixed = [0; ACK_LENGTH - 1];
        fixed[0] = self.rail;
        write_u64(&mut fixed, 1, self.largest);
        let Self { first, delay_us, ecn, credit, overflows, .. } = *self;
        for (index, word) in [first, delay_us, ecn.ect0, ecn.ect1, ecn.ce, credit, overflows].into_iter().enumerate() {
            write_u32(&mut fixed, 9 + 4 * index, word);
        }
        fixed[ACK_LENGTH - 2] = self.more.count();
        out.extend_from_slice(&fixed);
        out.extend_from_slice(self.more.0);
    }
}
