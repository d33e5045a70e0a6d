//! Bytes of a stream, found by their position, in a buffer that grows up to a fixed size.

use core::ops::Range;

/// The least buffer. It holds what begins a connection, and twice as much is had as soon as it is full.
const LEAST: u64 = 16 << 10;

/// A window of a stream: a byte overwrites the one a capacity earlier. The user says which of the bytes are there, and
/// has room made for others before they are written.
pub(crate) struct Ring {
    bytes: Box<[u8]>,
    capacity: u64,
}

impl core::fmt::Debug for Ring {
    /// What it holds is the user's, and long.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Ring").field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl Ring {
    /// Allocates nothing yet. No capacity holds nothing.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { bytes: Box::default(), capacity: capacity as u64 }
    }

    /// Bytes that it holds at most.
    pub(crate) const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Whether it has memory.
    pub(crate) const fn is_allocated(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Makes room for the bytes up to `end`, where `live` is what has to stay: together no more than the capacity.
    /// While the stream is young it allocates for that; each time twice as much.
    pub(crate) fn make_room(&mut self, live: Range<u64>, end: u64) {
        let wanted = end.max(live.end) - live.start;
        if wanted <= self.bytes.len() as u64 {
            return;
        }
        debug_assert!(wanted <= self.capacity, "{wanted} bytes are more than {}", self.capacity);
        let length = wanted.next_power_of_two().clamp(LEAST, self.capacity.max(LEAST)).min(self.capacity);
        let mut grown = Self { bytes: vec![0; length as usize].into_boxed_slice(), capacity: self.capacity };
        let [first, second] = self.pieces(live.start, (live.end - live.start) as usize);
        grown.write(live.start, first);
        grown.write(live.start + first.len() as u64, second);
        *self = grown;
    }

    /// Gives the memory back: nothing that is there is needed any more.
    pub(crate) fn release(&mut self) {
        self.bytes = Box::default();
    }

    /// Writes `from`, not longer than the ring, at a position.
    pub(crate) fn write(&mut self, position: u64, from: &[u8]) {
        let (first, second) = self.parts(position, from.len());
        let (head, tail) = from.split_at(first.len());
        self.bytes[first].copy_from_slice(head);
        self.bytes[second].copy_from_slice(tail);
    }

    /// Reads the bytes from a position on.
    pub(crate) fn read(&self, position: u64, to: &mut [u8]) {
        let (first, second) = self.parts(position, to.len());
        let (head, tail) = to.split_at_mut(first.len());
        head.copy_from_slice(&self.bytes[first]);
        tail.copy_from_slice(&self.bytes[second]);
    }

    /// The bytes from a position on.
    pub(crate) fn pieces(&self, position: u64, length: usize) -> [&[u8]; 2] {
        let (first, second) = self.parts(position, length);
        [&self.bytes[first], &self.bytes[second]]
    }

    /// Where in the buffer: up to its end, and from its start.
    fn parts(&self, position: u64, length: usize) -> (Range<usize>, Range<usize>) {
        if length == 0 {
            return (0..0, 0..0);
        }
        let start = (position % self.bytes.len() as u64) as usize;
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
            ring.make_room(start..start, start + 8);
            ring.write(start, b"abcdefgh");
            let mut read = [0; 5];
            ring.read(start + 2, &mut read);
            assert_eq!(&read, b"cdefg", "from {start}");
            assert_eq!(ring.pieces(start + 2, 5).concat(), b"cdefg", "from {start}");
        }
        Ring::new(0).read(3, &mut []);
    }

    #[test]
    fn it_grows_with_what_it_holds_and_gives_that_back() {
        let mut ring = Ring::new(50_000);
        assert!(!ring.is_allocated());
        let byte = |at: u64| (at % 251) as u8;
        // From places where the smaller ring wraps and the larger does not, and the other way round.
        for base in [0, 16_000, 33_333, 1 << 40] {
            let (mut from, mut end) = (base, base);
            for (length, drops) in [(10_000, 0), (6000, 3000), (20_000, 100), (17_100, 0), (3000, 3000)] {
                from += drops;
                ring.make_room(from..end, end + length);
                let bytes: Vec<u8> = (end..end + length).map(byte).collect();
                ring.write(end, &bytes);
                end += length;
                let mut read = vec![0; (end - from) as usize];
                ring.read(from, &mut read);
                assert!(read.iter().copied().eq((from..end).map(byte)), "{from} to {end}");
            }
            assert_eq!(ring.bytes.len(), 50_000, "never more than it may");
            ring.release();
            assert!(!ring.is_allocated());
        }
        ring.make_room(7..7, 8);
        assert_eq!(ring.bytes.len() as u64, LEAST);
    }
}
