//! Memory of messages that nobody waited for, kept for the next ones: fresh memory costs a page fault every 4 KiB, and three-way eager messages of 256 KiB then take four times as long.

use weft_memory::Buffer;

/// So many buffers are kept at most,
const MOST_BUFFERS: usize = 64;
/// and so many bytes in all of them.
const MOST_BYTES: usize = 16 << 20;

/// Buffers that are not used now, the longest unused first.
#[derive(Debug, Default)]
pub(super) struct Spare(Vec<Buffer>);

impl Spare {
    /// One of exactly this size, if there is one.
    pub(super) fn take(&mut self, size: usize) -> Option<Buffer> {
        // The one that was used last is the warmest.
        let found = self.0.iter().rposition(|buffer| buffer.len() == size)?;
        Some(self.0.remove(found))
    }

    /// Keeps one, in the place of those that have been unused for longer.
    pub(super) fn keep(&mut self, buffer: Buffer) {
        if buffer.len() > MOST_BYTES {
            return;
        }
        let mut bytes = buffer.len() + self.0.iter().map(|buffer| buffer.len()).sum::<usize>();
        let mut gone = 0;
        while bytes > MOST_BYTES || self.0.len() - gone >= MOST_BUFFERS {
            bytes -= self.0[gone].len();
            gone += 1;
        }
        self.0.drain(..gone);
        self.0.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(pages: usize) -> Buffer {
        Buffer::zeroed(pages * Buffer::PAGE).unwrap()
    }

    fn pages(spare: &Spare) -> Vec<usize> {
        spare.0.iter().map(|buffer| buffer.len() / Buffer::PAGE).collect()
    }

    #[test]
    fn a_buffer_of_the_size_is_found_and_no_other() {
        let mut spare = Spare::default();
        [1, 2, 1].into_iter().for_each(|pages| spare.keep(buffer(pages)));
        assert!(spare.take(3 * Buffer::PAGE).is_none());
        assert_eq!(spare.take(Buffer::PAGE).map(|buffer| buffer.len()), Some(Buffer::PAGE));
        assert_eq!(pages(&spare), [1, 2]);
    }

    #[test]
    fn the_longest_unused_go_when_there_are_too_many_or_too_much() {
        let mut spare = Spare::default();
        spare.keep(buffer(2));
        (0..MOST_BUFFERS).for_each(|_| spare.keep(buffer(1)));
        assert_eq!(pages(&spare), [1; MOST_BUFFERS]);

        let half = MOST_BYTES / Buffer::PAGE / 2;
        spare.keep(buffer(half));
        assert_eq!(spare.0.len(), MOST_BUFFERS, "one has gone for it");
        spare.keep(buffer(half));
        assert_eq!(pages(&spare), [half, half]);
        spare.keep(buffer(2 * half + 1));
        assert_eq!(pages(&spare), [half, half], "what is too long by itself is not kept");
        spare.keep(buffer(2 * half));
        assert_eq!(pages(&spare), [2 * half]);
    }
}
