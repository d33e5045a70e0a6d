//! What goes along the stages: blocks of the stream, and between two stages a block ring of them.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::VecDeque;

use weft_lock::{Mutex, Rank};
use weft_mpa::Layout;

/// Bytes of a block: small enough that what one stage leaves in the cache is still there for the next. A block may end
/// anywhere in a frame, in a field of it too.
pub(super) const BLOCK_BYTES: usize = 16 * 1024;
/// Blocks that one block ring has. A stage that finds none free waits for those behind it.
const BLOCKS: usize = 16;
/// Frames that begin in one block, at most.
pub(super) const FRAMES_PER_BLOCK: usize = 256;
/// Frames that can be on the way from a block ring to the port.
pub(super) const FRAMES: usize = BLOCKS * FRAMES_PER_BLOCK;

/// A frame that begins in a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameRecord {
    /// `None`: a frame that came to nothing. It counts as sent with the one before it.
    pub(super) layout: Option<Layout>,
    /// Bytes of its payload.
    pub(super) payload: u32,
}

/// Bytes of the stream, and the frames that begin among them.
#[derive(Debug)]
pub(super) struct Block {
    bytes: Box<[u8]>,
    filled: usize,
    taken: usize,
    frames: Vec<FrameRecord>,
}

impl Block {
    fn new() -> Self {
        let bytes = vec![0; BLOCK_BYTES].into_boxed_slice();
        Self { bytes, filled: 0, taken: 0, frames: Vec::with_capacity(FRAMES_PER_BLOCK) }
    }

    /// Where the next bytes go.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.filled..]
    }

    /// `count` bytes were written at the start of the room.
    pub(super) fn fill(&mut self, count: usize) {
        self.filled += count;
    }

    /// A frame begins at the start of the room.
    pub(super) fn begin(&mut self, frame: FrameRecord) {
        self.frames.push(frame);
    }

    /// Whether nothing more can be added.
    pub(super) fn is_full(&self) -> bool {
        self.filled == self.bytes.len() || self.frames.len() == FRAMES_PER_BLOCK
    }

    /// Whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        self.filled == 0 && self.frames.is_empty()
    }

    /// The frames that begin in it, and its bytes.
    pub(super) fn parts(&mut self) -> (&[FrameRecord], &mut [u8]) {
        (&self.frames, &mut self.bytes[..self.filled])
    }

    /// The bytes that the present stage has not taken.
    pub(super) fn left(&self) -> &[u8] {
        &self.bytes[self.taken..self.filled]
    }

    /// The present stage has taken this many more.
    pub(super) fn take(&mut self, count: usize) {
        self.taken += count;
        assert!(self.taken <= self.filled, "a stage took more than there was");
    }

    fn clear(&mut self) {
        (self.filled, self.taken) = (0, 0);
        self.frames.clear();
    }
}

/// A bounded ring of blocks between two stages, which may run on different threads, and the free blocks that go back.
#[derive(Debug)]
pub(super) struct BlockRing {
    ends: Mutex<Ends>,
    /// The next stage was rung, for there is something, and has not polled yet.
    rung: AtomicBool,
}

#[derive(Debug, Default)]
struct Ends {
    free: Vec<Block>,
    made: bool,
    full: VecDeque<Block>,
}

impl Default for BlockRing {
    fn default() -> Self {
        Self { ends: Mutex::new(Rank::BlockRing, Ends::default()), rung: AtomicBool::new(false) }
    }
}

impl BlockRing {
    /// A block to fill, if one is free.
    pub(super) fn take_free(&self) -> Option<Block> {
        let mut ends = self.ends.lock();
        if !ends.made {
            // All at once, so that none has to be made while data moves. The operating system gives memory to those
            // that are used.
            ends.made = true;
            ends.full.reserve(BLOCKS);
            ends.free.extend((0..BLOCKS).map(|_| Block::new()));
        }
        ends.free.pop()
    }

    /// A block that has been filled moves to the next stage; an empty one goes back.
    pub(super) fn push(&self, block: Block) {
        if block.is_empty() {
            return self.give_back(block);
        }
        self.ends.lock().full.push_back(block);
    }

    /// The oldest full block.
    pub(super) fn pop(&self) -> Option<Block> {
        self.ends.lock().full.pop_front()
    }

    /// Whether a full block is there.
    pub(super) fn has_full(&self) -> bool {
        !self.ends.lock().full.is_empty()
    }

    /// Whether a block could be filled.
    pub(super) fn has_free(&self) -> bool {
        let ends = self.ends.lock();
        !ends.free.is_empty() || !ends.made
    }

    /// A block is done with.
    pub(super) fn give_back(&self, mut block: Block) {
        block.clear();
        self.ends.lock().free.push(block);
    }

    /// Whether the next stage must be rung, for there is something.
    pub(super) fn ring(&self) -> bool {
        !self.rung.swap(true, Ordering::SeqCst)
    }

    /// The next stage polls.
    pub(super) fn answer(&self) {
        self.rung.store(false, Ordering::SeqCst);
    }

    /// Throws away what is on it.
    pub(super) fn clear(&self) {
        while let Some(block) = self.pop() {
            self.give_back(block);
        }
    }
}
