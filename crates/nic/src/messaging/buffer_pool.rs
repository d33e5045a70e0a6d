//! Memory of unexpected messages, kept for the next ones: fresh memory costs a page fault every 4 KiB, and
//! three-way eager messages of 256 KiB then take four times as long.

use weft_memory::Buffer;

/// This many buffers are kept at most,
const MOST_BUFFERS: usize = 64;
/// and this many bytes in all of them.
pub(super) const MOST_BYTES: usize = 16 << 20;

/// Buffers that are not used now, the longest unused first, with the id of the peer that has written to them; 0:
/// unknown.
#[derive(Debug, Default)]
pub(super) struct BufferPool(Vec<(u64, Buffer)>);

impl BufferPool {
    /// One of exactly this size, if there is one. Its bytes are zeros, or this peer's own: what it does not write of it
    /// and says that it has is given to the application as its message (RFC 5042 section 6.3.2).
    pub(super) fn take(&mut self, size: usize, peer: u64) -> Option<Buffer> {
        // The one that was used last is the warmest.
        let of = |of_peer: bool| {
            self.0.iter().rposition(|(id, buffer)| buffer.len() == size && (!of_peer || *id == peer && peer != 0))
        };
        let found = of(true).or_else(|| of(false))?;
        let (id, mut buffer) = self.0.remove(found);
        if id != peer || peer == 0 {
            buffer.fill(0);
        }
        Some(buffer)
    }

    /// Keeps one to which this peer may have written, in the place of those that have been unused for longer.
    pub(super) fn keep(&mut self, buffer: Buffer, peer: u64) {
        if buffer.len() > MOST_BYTES {
            return;
        }
        let mut bytes = buffer.len() + self.0.iter().map(|(_, buffer)| buffer.len()).sum::<usize>();
        let mut gone = 0;
        while bytes > MOST_BYTES || self.0.len() - gone >= MOST_BUFFERS {
            bytes -= self.0[gone].1.len();
            gone += 1;
        }
        self.0.drain(..gone);
        self.0.push((peer, buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(pages: usize) -> Buffer {
        Buffer::zeroed(pages * Buffer::PAGE).unwrap()
    }

    fn pages(pool: &BufferPool) -> Vec<usize> {
        pool.0.iter().map(|(_, buffer)| buffer.len() / Buffer::PAGE).collect()
    }

    #[test]
    fn a_buffer_of_the_size_is_found_and_no_other() {
        let mut pool = BufferPool::default();
        [1, 2, 1].into_iter().for_each(|pages| pool.keep(buffer(pages), 5));
        assert!(pool.take(3 * Buffer::PAGE, 5).is_none());
        assert_eq!(pool.take(Buffer::PAGE, 5).map(|buffer| buffer.len()), Some(Buffer::PAGE));
        assert_eq!(pages(&pool), [1, 2]);
    }

    #[test]
    fn no_peer_gets_the_bytes_of_others() {
        let mut pool = BufferPool::default();
        let written = |pool: &mut BufferPool, peer| {
            let mut buffer = buffer(1);
            buffer.fill(peer as u8);
            pool.keep(buffer, peer);
        };
        for (keeper, taker, byte) in [(5, 6, 0), (5, 5, 5), (0, 5, 0), (5, 0, 0), (0, 0, 0)] {
            written(&mut pool, keeper);
            let buffer = pool.take(Buffer::PAGE, taker).unwrap();
            assert!(buffer.iter().all(|found| *found == byte), "{taker} has what {keeper} has written");
        }
        // One's own is taken before others, though they are warmer.
        [5, 6].into_iter().for_each(|peer| written(&mut pool, peer));
        assert_eq!(pool.take(Buffer::PAGE, 5).unwrap()[0], 5);
        assert_eq!(pool.take(Buffer::PAGE, 5).unwrap()[0], 0);
    }

    #[test]
    fn the_longest_unused_go_when_there_are_too_many_or_too_much() {
        let mut pool = BufferPool::default();
        pool.keep(buffer(2), 5);
        (0..MOST_BUFFERS).for_each(|_| pool.keep(buffer(1), 5));
        assert_eq!(pages(&pool), [1; MOST_BUFFERS]);

        let half = MOST_BYTES / Buffer::PAGE / 2;
        pool.keep(buffer(half), 5);
        assert_eq!(pool.0.len(), MOST_BUFFERS, "one has gone for it");
        pool.keep(buffer(half), 5);
        assert_eq!(pages(&pool), [half, half]);
        pool.keep(buffer(2 * half + 1), 5);
        assert_eq!(pages(&pool), [half, half], "what is too long by itself is not kept");
        pool.keep(buffer(2 * half), 5);
        assert_eq!(pages(&pool), [2 * half]);
    }
}
