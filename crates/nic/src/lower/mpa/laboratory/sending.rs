//! The last task: finished blocks go to the port.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use weft_base::{Piece, Port, PortError};

use super::block::{Block, BlockRing, FRAMES};

/// Blocks that one call hands to the port.
const BLOCKS_PER_SEND: usize = 16;
/// This many bytes are worth a call, though more are on their way.
const ENOUGH_BYTES: usize = 64 * 1024;

/// Blocks that are finished.
pub(super) struct Sending {
    blocks: VecDeque<Block>,
    waiting_bytes: usize,
    /// Bytes left of each frame that has not gone out whole.
    pub(super) frames: VecDeque<u32>,
}

impl Default for Sending {
    fn default() -> Self {
        Self {
            blocks: VecDeque::with_capacity(BLOCKS_PER_SEND),
            waiting_bytes: 0,
            frames: VecDeque::with_capacity(FRAMES),
        }
    }
}

impl Sending {
    /// Nothing waits, not even the end of a frame that came to nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Whether enough waits that sending should not wait for more.
    pub(super) fn has_enough(&self) -> bool {
        self.waiting_bytes >= ENOUGH_BYTES
    }

    pub(super) fn add(&mut self, block: Block) {
        self.waiting_bytes += block.left().len();
        self.blocks.push_back(block);
    }

    /// Sends as much as the port takes in one call. Returns the bytes taken and how many frames have now gone out
    /// whole.
    pub(super) fn send<P: Port>(&mut self, port: &mut P, block_ring: &BlockRing) -> Result<(usize, usize), PortError> {
        let mut pieces = ArrayVec::<Piece<'_>, BLOCKS_PER_SEND>::new();
        for block in self.blocks.iter().take(BLOCKS_PER_SEND).filter(|block| !block.left().is_empty()) {
            pieces.push(Piece::Bytes(block.left()));
        }
        let taken = if pieces.is_empty() { 0 } else { port.send(&pieces)? };
        drop(pieces);
        self.forget(taken, block_ring);
        Ok((taken, self.count_frames(taken)))
    }

    fn forget(&mut self, mut taken: usize, block_ring: &BlockRing) {
        self.waiting_bytes -= taken;
        while let Some(block) = self.blocks.front_mut() {
            let now = taken.min(block.left().len());
            block.take(now);
            taken -= now;
            if !block.left().is_empty() {
                break;
            }
            if let Some(block) = self.blocks.pop_front() {
                block_ring.give_back(block);
            }
        }
    }

    fn count_frames(&mut self, mut taken: usize) -> usize {
        let mut whole = 0;
        while let Some(left) = self.frames.front_mut() {
            if *left as usize > taken {
                *left -= taken as u32;
                break;
            }
            taken -= *left as usize;
            self.frames.pop_front();
            whole += 1;
        }
        whole
    }

    pub(super) fn clear(&mut self, block_ring: &BlockRing) {
        self.blocks.drain(..).for_each(|block| block_ring.give_back(block));
        self.frames.clear();
        self.waiting_bytes = 0;
    }
}
