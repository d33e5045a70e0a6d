//! Inline payload, kept until it is acknowledged.

/// The smallest ring that is allocated.
const LEAST: usize = 1024;

/// A ring of bytes: runs in order of arrival, each contiguous.
///
/// It has no memory before the first run, and doubles as more is in flight. [`InlineRing::shrink`] releases memory. All
/// its sizes are powers of two, and no run crosses the end of a ring: a run that does not cross the end of a ring does
/// not cross that of a larger one either, so a position stays valid when the ring grows.
#[derive(Debug)]
pub(crate) struct InlineRing {
    bytes: Box<[u8]>,
    most: usize,
    head: u64,
    tail: u64,
}

impl InlineRing {
    /// A ring that grows to `most` bytes, rounded up to a power of two. The longest run must fit twice, for it may have
    /// to start over at the ring's beginning.
    pub(crate) fn new(most: usize) -> Self {
        let most = most.max(4 * LEAST).next_power_of_two();
        Self { bytes: Box::default(), most, head: 0, tail: 0 }
    }

    /// Whether a run of `length` bytes fits.
    pub(crate) fn has_room(&self, length: usize) -> bool {
        self.place_in(self.most, length).is_some()
    }

    /// Where a run of `length` bytes would begin. Grows the ring if it has to.
    pub(crate) fn place(&mut self, length: usize) -> Option<u64> {
        if let Some(place) = self.place_in(self.bytes.len(), length) {
            return Some(place);
        }
        self.place_in(self.most, length)?;
        let mut size = (2 * self.bytes.len()).max(LEAST);
        while self.place_in(size, length).is_none() {
            size *= 2;
        }
        self.resize(size);
        self.place_in(size, length)
    }

    fn place_in(&self, size: usize, length: usize) -> Option<u64> {
        if length == 0 {
            return Some(self.tail);
        }
        let (size, length) = (size as u64, length as u64);
        let to_end = size.checked_sub(self.tail.checked_rem(size)?)?;
        let start = if to_end >= length { self.tail } else { self.tail + to_end };
        (start + length - self.head <= size).then_some(start)
    }

    /// Moves the contents to a ring of another size, which is larger, unless nothing is kept.
    fn resize(&mut self, size: usize) {
        let mut bytes: Box<[u8]> = vec![0; size].into();
        let old = self.bytes.len() as u64;
        let mut from = self.head;
        while from < self.tail {
            let to = self.tail.min(from - from % old + old);
            let (length, here, there) = ((to - from) as usize, (from % old) as usize, (from % size as u64) as usize);
            bytes[there..there + length].copy_from_slice(&self.bytes[here..here + length]);
            from = to;
        }
        self.bytes = bytes;
    }

    /// Releases memory, if nothing is kept.
    pub(crate) fn shrink(&mut self) {
        if self.head == self.tail {
            self.bytes = Box::default();
        }
    }

    /// Appends a run of these two slices.
    ///
    /// # Panics
    /// When there is no room: a bug of the caller.
    pub(crate) fn push(&mut self, one: &[u8], two: &[u8]) -> u64 {
        let length = one.len() + two.len();
        if length == 0 {
            return self.tail;
        }
        let start = self.place(length).expect("the caller has checked for room");
        let run = self.get_mut(start, length as u32);
        run[..one.len()].copy_from_slice(one);
        run[one.len()..].copy_from_slice(two);
        self.take(start, length as u32);
        start
    }

    pub(crate) fn get(&self, start: u64, length: u32) -> &[u8] {
        if length == 0 {
            return &[];
        }
        let at = self.index(start);
        &self.bytes[at..at + length as usize]
    }

    /// The bytes at a position that [`InlineRing::place`] returned.
    pub(crate) fn get_mut(&mut self, place: u64, length: u32) -> &mut [u8] {
        if length == 0 {
            return &mut [];
        }
        let at = self.index(place);
        &mut self.bytes[at..at + length as usize]
    }

    fn index(&self, place: u64) -> usize {
        (place & (self.bytes.len() as u64 - 1)) as usize
    }

    /// Marks a run of this many bytes as used.
    pub(crate) fn take(&mut self, place: u64, length: u32) {
        if length > 0 {
            self.tail = place + u64::from(length);
        }
    }

    /// Frees the oldest run.
    pub(crate) fn free(&mut self, start: u64, length: u32) {
        if length > 0 {
            self.head = start + u64::from(length);
        }
        if self.head == self.tail {
            (self.head, self.tail) = (0, 0);
        }
    }

    /// Frees everything.
    pub(crate) fn clear(&mut self) {
        (self.head, self.tail) = (0, 0);
    }

    /// Bytes of memory.
    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use weft_base::Random;

    use super::*;

    #[test]
    fn a_ring_grows_as_it_is_used_and_gives_its_memory_back() {
        let mut ring = InlineRing::new(64 << 10);
        assert!(ring.size() == 0 && ring.has_room(64 << 10) && !ring.has_room((64 << 10) + 1));
        let first = ring.push(b"head", b"payload");
        assert_eq!((ring.get(first, 11), ring.size()), (&b"headpayload"[..], LEAST));
        let second = ring.push(&[7; 5000], &[]);
        assert_eq!((ring.get(first, 11), ring.get(second, 5000)), (&b"headpayload"[..], &[7; 5000][..]));
        assert_eq!(ring.size(), 8 << 10);
        ring.free(first, 11);
        ring.shrink();
        assert_eq!(ring.size(), 8 << 10, "something is kept");
        ring.free(second, 5000);
        ring.shrink();
        assert_eq!(ring.size(), 0);
        assert_eq!(ring.push(&[], &[]), 0, "nothing takes no memory");
        assert_eq!((ring.get(0, 0), ring.size()), (&[][..], 0));
    }

    #[test]
    fn runs_stay_what_they_were_while_the_ring_grows() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let mut ring = InlineRing::new(16 << 10);
            let mut kept = VecDeque::new();
            for round in 0..2000_u32 {
                let length = 1 + random.below(3000) as usize;
                let byte = round as u8;
                // The number of runs kept grows over time, so that the ring grows with runs on both sides of its end.
                let most = 1 + round as usize / 200;
                if kept.len() >= most || !ring.has_room(length) {
                    let (start, length, byte): (u64, usize, u8) = kept.pop_front().unwrap();
                    assert!(ring.get(start, length as u32).iter().all(|there| *there == byte), "seed {seed}");
                    ring.free(start, length as u32);
                } else {
                    let (one, two) = (vec![byte; length / 2], vec![byte; length - length / 2]);
                    kept.push_back((ring.push(&one, &two), length, byte));
                }
            }
        }
    }
}
