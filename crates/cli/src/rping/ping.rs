//! What goes over the wire: adverts and data.

use std::ops::RangeInclusive;

use weft::verbs::{MemoryRegion, RemoteMemory, Stag};

/// The bytes that a ping may have. The least holds the longest header.
pub(super) const SIZES: RangeInclusive<i64> = 23..=65535;

/// Names a buffer of the client's: address, STag and length, big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Advert {
    pub(super) memory: RemoteMemory,
    pub(super) size: u32,
}

impl Advert {
    /// Bytes of the message.
    pub(super) const LENGTH: usize = 16;

    /// A whole region of at most 4 GiB.
    pub(super) fn of(region: &MemoryRegion) -> Self {
        Self { memory: region.remote(0), size: u32::try_from(region.length()).unwrap_or(u32::MAX) }
    }

    pub(super) fn emit(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&self.memory.offset.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.memory.stag.0.to_be_bytes());
        bytes[12..].copy_from_slice(&self.size.to_be_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8; Self::LENGTH]) -> Self {
        let (offset, rest) = bytes.split_at(8);
        let (stag, size) = rest.split_at(4);
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let memory = RemoteMemory { stag: Stag(number(stag) as u32), offset: number(offset) };
        Self { memory, size: number(size) as u32 }
    }
}

const FIRST_LETTER: u8 = b'A';
const LETTERS: usize = (b'z' - b'A') as usize + 1;

/// Fills the data of one ping: its number, the letters from `A` to `z` round and round, each ping beginning one
/// further, and a NUL.
pub(super) fn fill(data: &mut [u8], number: u32) {
    let header = format!("rdma-ping-{number}: ");
    let length = header.len().min(data.len());
    data[..length].copy_from_slice(&header.as_bytes()[..length]);
    let first = number as usize % LETTERS;
    for (at, byte) in data[length..].iter_mut().enumerate() {
        *byte = FIRST_LETTER + ((first + at) % LETTERS) as u8;
    }
    if let Some(last) = data.last_mut() {
        *last = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advert_has_these_bytes() {
        let bytes = [0, 0, 0, 1, 2, 3, 4, 5, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0x10, 0];
        let advert = Advert { memory: RemoteMemory { stag: Stag(0xdead_beef), offset: 0x1_0203_0405 }, size: 4096 };
        assert_eq!(advert.emit(), bytes);
        assert_eq!(Advert::parse(&bytes), advert);
    }

    #[test]
    fn pings_have_these_letters() {
        let text = |number, size| {
            let mut data = vec![0xa5; size];
            fill(&mut data, number);
            String::from_utf8(data).unwrap()
        };
        assert_eq!(text(0, 23), "rdma-ping-0: ABCDEFGHI\0");
        assert_eq!(text(1, 23), "rdma-ping-1: BCDEFGHIJ\0");
        assert_eq!(text(57, 23), "rdma-ping-57: zABCDEFG\0");
        assert_eq!(text(58, 23), "rdma-ping-58: ABCDEFGH\0");
        assert_eq!(&text(0, 80)[13..], "ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyzABCDEFGH\0");
        assert_eq!(text(u32::MAX, 23).len(), 23);
    }
}
