//! The body of a call that requests an atomic operation that RFC 7306 does not have from a peer's NIC, and of its
//! answer.
//!
//! ```text
//! call:   | operation u8 | element u8 | flags u8: bit 0 the result is wanted | 0 | count u32 | STag u32
//!         | tagged offset u64 | operands | values to compare with |
//! answer: | status u8: 0 done, 1 no access, 2 no such operation | result |
//! ```
//! The numbers of operations and elements are those of `weft_memory::{Combine, Element}`. Operands, values and results
//! are elements one after the other, as they are in memory: both machines must have the same byte order, as for
//! everything that is written or read one-sided.

use weft_base::Stag;

/// The head of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicCall {
    /// What is done.
    pub operation: u8,
    /// To what.
    pub element: u8,
    /// Whether the elements as they were are wanted.
    pub wants_result: bool,
    /// How many elements.
    pub count: u32,
    /// Where they are.
    pub stag: Stag,
    /// The tagged offset of the first.
    pub offset: u64,
}

impl AtomicCall {
    /// Bytes.
    pub const LENGTH: usize = 20;

    /// The bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[0] = self.operation;
        bytes[1] = self.element;
        bytes[2] = u8::from(self.wants_result);
        bytes[4..8].copy_from_slice(&self.count.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.stag.0.to_be_bytes());
        bytes[12..].copy_from_slice(&self.offset.to_be_bytes());
        bytes
    }

    /// The head, and what follows it. `None`: too short.
    #[must_use]
    pub fn parse(body: &[u8]) -> Option<(Self, &[u8])> {
        let (head, rest) = body.split_first_chunk::<{ Self::LENGTH }>()?;
        let [operation, element, flags, _, c0, c1, c2, c3, s0, s1, s2, s3, offset @ ..] = *head;
        let call = Self {
            operation,
            element,
            wants_result: flags & 1 != 0,
            count: u32::from_be_bytes([c0, c1, c2, c3]),
            stag: Stag(u32::from_be_bytes([s0, s1, s2, s3])),
            offset: u64::from_be_bytes(offset),
        };
        Some((call, rest))
    }
}

/// The status of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AtomicStatus {
    /// It was done; the result follows, if it was wanted.
    Done = 0,
    /// No such region, right or range.
    NoAccess = 1,
    /// No such operation on such elements, or an address that is not a multiple of their size.
    NoOperation = 2,
}

impl AtomicStatus {
    /// The status with this number.
    #[must_use]
    pub const fn of(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Done),
            1 => Some(Self::NoAccess),
            2 => Some(Self::NoOperation),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_these_bytes() {
        let call = AtomicCall {
            operation: 3,
            element: 9,
            wants_result: true,
            count: 0x0102_0304,
            stag: Stag(0xa1a2_a3a4),
            offset: 0x1112_1314_1516_1718,
        };
        let mut bytes = call.emit().to_vec();
        assert_eq!(
            bytes,
            [3, 9, 1, 0, 1, 2, 3, 4, 0xa1, 0xa2, 0xa3, 0xa4, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]
        );
        bytes.push(7);
        assert_eq!(AtomicCall::parse(&bytes), Some((call, &[7][..])));
        assert_eq!(AtomicCall::parse(&bytes[..19]), None);
    }
}
