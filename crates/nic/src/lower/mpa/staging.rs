//! Staging memory: where bytes of the wire wait until it is known where they belong, or until a socket takes them.
//!
//! Buffers come from a pool of the engine and go back when they are empty, so a quiet connection holds none.

use core::ops::Range;

use crate::lower::Scratch;
use crate::lower::mpa::outgoing::Lists;

/// Bytes of one staging buffer.
pub(crate) const BUFFER_BYTES: usize = 256 * 1024;
/// Reads begin at an offset that equals the stream position modulo this: the kernel's pages and ours are then aligned
/// alike, and its copy is up to twice as fast.
pub(crate) const ALIGNMENT: usize = 4096;

/// Buffers, and lists of what is in them, that are not in use.
#[derive(Debug, Default)]
pub struct Pool {
    free: Vec<Box<[u8]>>,
    /// Buffers that exist, those in use included.
    made: usize,
    lists: Vec<Lists>,
    lists_made: usize,
}

impl Pool {
    /// Unused buffers beyond this many are given back to the operating system.
    const KEPT: usize = 64;
    /// A connection has at most one to send from and one to receive into.
    const PER_CONNECTION: usize = 2;

    pub(crate) fn take_lists(&mut self) -> Lists {
        self.lists.pop().unwrap_or_else(|| self.make_lists())
    }

    pub(crate) fn give_lists(&mut self, lists: Lists) {
        if self.lists.len() < Self::KEPT {
            self.lists.push(lists);
        } else {
            self.lists_made = self.lists_made.saturating_sub(1);
        }
    }

    fn make_lists(&mut self) -> Lists {
        self.lists_made += 1;
        Lists::with_room()
    }

    pub(crate) fn take(&mut self) -> Box<[u8]> {
        self.free.pop().unwrap_or_else(|| self.make())
    }

    /// The buffer that [`Pool::take`] would return, for bytes that are not needed after this call.
    #[inline]
    pub(crate) fn shared(&mut self) -> &mut [u8] {
        if self.free.is_empty() {
            let buffer = self.make();
            self.free.push(buffer);
        }
        let last = self.free.len() - 1;
        &mut self.free[last]
    }

    pub(crate) fn give(&mut self, buffer: Box<[u8]>) {
        if self.free.len() < Self::KEPT {
            self.free.push(buffer);
        } else {
            // It may have come with a connection from another engine.
            self.made = self.made.saturating_sub(1);
        }
    }

    fn make(&mut self) -> Box<[u8]> {
        self.made += 1;
        vec![0; BUFFER_BYTES].into_boxed_slice()
    }
}

impl AsMut<Self> for Pool {
    #[inline]
    fn as_mut(&mut self) -> &mut Self {
        self
    }
}

impl Scratch for Pool {
    /// Makes the buffers that this many connections can need at once, as far as they would be kept, so that none has
    /// to be made while data moves. The operating system gives memory to those that are used, not before.
    fn prepare(&mut self, connections: usize) {
        let wanted = connections.saturating_mul(Self::PER_CONNECTION).min(Self::KEPT);
        self.free.reserve(Self::KEPT.saturating_sub(self.free.len()));
        while self.made < wanted {
            let buffer = self.make();
            self.free.push(buffer);
        }
        self.lists.reserve(Self::KEPT.saturating_sub(self.lists.len()));
        while self.lists_made < connections.min(Self::KEPT) {
            let lists = self.make_lists();
            self.lists.push(lists);
        }
    }
}

/// A run of received bytes that have not been understood yet.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    buffer: Option<Box<[u8]>>,
    start: usize,
    end: usize,
    /// Bytes of the stream that came before `end`.
    received: u64,
}

impl Staging {
    /// The bytes that are here.
    pub(crate) fn filled(&self) -> &[u8] {
        self.buffer.as_deref().map_or(&[], |buffer| &buffer[self.start..self.end])
    }

    /// Room for at least `least` more bytes (and as many as there are), after moving what is here to the front if it
    /// must be.
    ///
    /// # Panics
    /// When `least` more bytes can never fit: frames are shorter than half a buffer, so that is a bug.
    pub(crate) fn room(&mut self, least: usize, pool: &mut Pool) -> &mut [u8] {
        let aligned = self.aligned();
        let buffer = self.buffer.get_or_insert_with(|| pool.take());
        if self.start == self.end {
            self.start = aligned;
            self.end = aligned;
        } else if buffer.len() - self.end < least {
            // The first byte kept stood at a position of the stream that is `filled` bytes back.
            let filled = self.end - self.start;
            let front = (aligned + ALIGNMENT - filled % ALIGNMENT) % ALIGNMENT;
            buffer.copy_within(self.start..self.end, front);
            self.start = front;
            self.end = front + filled;
        }
        assert!(buffer.len() - self.end >= least, "a staging buffer has no room for {least} bytes");
        &mut buffer[self.end..]
    }

    /// Where in a buffer the next byte of the stream lies best.
    #[inline]
    pub(crate) const fn aligned(&self) -> usize {
        (self.received % ALIGNMENT as u64) as usize
    }

    /// `count` bytes of the stream were read into [`Pool::shared`], of which these are left. Only after
    /// [`Staging::release`], while nothing is here.
    pub(crate) fn adopt(&mut self, left: Range<usize>, count: usize, pool: &mut Pool) {
        debug_assert!(self.buffer.is_none(), "it has a buffer already");
        self.buffer = Some(pool.take());
        (self.start, self.end) = (left.start, left.end);
        self.received += count as u64;
    }

    /// `count` bytes were written at the start of the room.
    pub(crate) fn fill(&mut self, count: usize) {
        self.end += count;
        self.received += count as u64;
    }

    /// Whether nothing is here.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// `count` bytes of the stream went elsewhere, past this buffer. Only while it is empty.
    pub(crate) fn bypass(&mut self, count: usize) {
        debug_assert!(count == 0 || self.start == self.end, "bytes went past others that are still here");
        self.received += count as u64;
    }

    /// The first `count` bytes are done with.
    pub(crate) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start);
        self.start += count;
    }

    /// Gives the buffer back when nothing is in it.
    #[inline]
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        if self.buffer.is_some() && self.start == self.end {
            self.give_back(pool);
        }
    }

    fn give_back(&mut self, pool: &mut Pool) {
        if let Some(buffer) = self.buffer.take() {
            pool.give(buffer);
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        self.start = self.end;
        self.release(pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(staging: &mut Staging, pool: &mut Pool, bytes: &[u8]) {
        staging.room(bytes.len(), pool)[..bytes.len()].copy_from_slice(bytes);
        staging.fill(bytes.len());
    }

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let (mut staging, mut pool) = (Staging::default(), Pool::default());
        let mut expected = 0u32;
        let mut written = 0u32;
        for round in 0..2000u32 {
            let count = 100 + round % 400;
            let bytes: Vec<u8> = (0..count).flat_map(|k| (written + k).to_le_bytes()).collect();
            written += count;
            push(&mut staging, &mut pool, &bytes);
            let take = staging.filled().len() / 8 * 4;
            for word in staging.filled()[..take].chunks(4) {
                assert_eq!(word, expected.to_le_bytes());
                expected += 1;
            }
            staging.consume(take);
        }
        assert!(expected > 100_000);
    }

    #[test]
    fn a_read_begins_where_the_stream_stands_modulo_a_page() {
        let (mut staging, mut pool) = (Staging::default(), Pool::default());
        push(&mut staging, &mut pool, &[1; 5000]);
        staging.consume(5000);
        staging.room(1, &mut pool);
        assert_eq!(staging.end, 5000 % 4096);
        staging.bypass(100);
        staging.room(1, &mut pool);
        assert_eq!(staging.end, 5100 % 4096);
        push(&mut staging, &mut pool, &[2; 200_000]);
        staging.consume(199_000);
        staging.room(100_000, &mut pool);
        assert_eq!(staging.filled(), [2; 1000]);
        assert_eq!(staging.end % 4096, (5100 + 200_000) % 4096, "also after the rest was moved to the front");
    }

    #[test]
    fn buffers_are_there_before_they_are_needed() {
        let mut pool = Pool::default();
        pool.prepare(2);
        assert_eq!(pool.free.len(), 4);
        let taken = [pool.take(), pool.take(), pool.take()];
        pool.prepare(2);
        assert_eq!((pool.free.len(), pool.made), (1, 4), "those in use count");
        taken.into_iter().for_each(|buffer| pool.give(buffer));
        pool.prepare(usize::MAX);
        assert_eq!((pool.free.len(), pool.made), (Pool::KEPT, Pool::KEPT));
        let last = pool.take();
        let more = (0..Pool::KEPT).map(|_| pool.take()).collect::<Vec<_>>();
        assert_eq!(pool.made, Pool::KEPT + 1);
        more.into_iter().chain([last]).for_each(|buffer| pool.give(buffer));
        assert_eq!((pool.free.len(), pool.made), (Pool::KEPT, Pool::KEPT), "the rest is given back");
    }

    #[test]
    fn an_empty_buffer_goes_back_to_the_pool() {
        let (mut staging, mut pool) = (Staging::default(), Pool::default());
        push(&mut staging, &mut pool, &[1; 10]);
        staging.release(&mut pool);
        assert!(pool.free.is_empty(), "not while bytes are in it");
        staging.consume(10);
        staging.release(&mut pool);
        assert_eq!(pool.free.len(), 1);
    }
}
