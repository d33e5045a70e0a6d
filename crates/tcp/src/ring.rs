//! Bytes of a stream, found by their position, in a buffer of fixed size.

use core::ops::Range;

/// A window of a stream: what stands at a position is overwritten by what stands a capacity later. Who uses it says
/// which of the bytes are there.
pub(crate) struct Ring {
    bytes: Box<[u8]>,
}

impl core::fmt::Debug for Ring {
    /// What it holds is the user's, and long.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Ring").field("capacity", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl Ring {
    /// Allocated now, once. No capacity holds nothing.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity].into_boxed_slice() }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Writes `from`, not longer than the ring, at a position.
    pub(crate) fn write(&mut self, position: u64, from: &[u8]) {
        let (first, second) = self.parts(position, from.len());
        let (head, tail) = from.split_at(first.len());
        self.bytes[first].copy_from_slice(head);
        self.bytes[second].copy_from_slice(tail);
    }

    /// Reads what stands from a position on.
    pub(crate) fn read(&self, position: u64, to: &mut [u8]) {
        let (first, second) = self.parts(position, to.len());
        let (head, tail) = to.split_at_mut(first.len());
        head.copy_from_slice(&self.bytes[first]);
        tail.copy_from_slice(&self.bytes[second]);
    }

    /// What stands from a position on.
    pub(crate) fn pieces(&self, position: u64, length: usize) -> [&[u8]; 2] {
        let (first, second) = self.parts(position, length);
        [&self.bytes[first], &self.bytes[second]]
    }

    /// Where in the buffer: up to its end, and from its start.
    fn parts(&self, position: u64, length: usize) -> (Range<usize>, Range<usize>) {
        if length == 0 {
            return (0..0, 0..0);
        }
        let start = (position % self.capacity()) as usize;
        let first = length.min(self.bytes.len() - start);
        (start..start + first, 0..length - first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_by_position() {
        let mut ring = Ring::new(8);
        for start in [0, 5, 7, 8, 1 << 40] {
            ring.write(start, b"abcdefgh");
            let mut read = [0; 5];
            ring.read(start + 2, &mut read);
            assert_eq!(&read, b"cdefg", "from {start}");
            assert_eq!(ring.pieces(start + 2, 5).concat(), b"cdefg", "from {start}");
        }
        Ring::new(0).read(3, &mut []);
    }
}
