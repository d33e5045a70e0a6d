//! The task that sums up what was woven and fills the holes.

use std::collections::VecDeque;

use weft_mpa::Tally;
use weft_wire::mpa::CRC_LENGTH;

use super::block::Block;
use crate::counters::Counters;

/// CRCs of the frames that go by. A frame may reach over several blocks.
#[derive(Default)]
pub(super) struct Checksum {
    tally: Option<Tally>,
}

impl Checksum {
    /// Sums up a block and fills the CRC fields in it. Appends the length of each frame that begins there.
    pub(super) fn pass(&mut self, block: &mut Block, lengths: &mut VecDeque<u32>, counters: &mut Counters) {
        let (frames, mut rest) = block.parts();
        let mut frames = frames.iter();
        loop {
            let tally = match &mut self.tally {
                Some(tally) => tally,
                None => {
                    let Some(frame) = frames.next() else { break };
                    let length = frame.layout.as_ref().map_or(0, weft_mpa::Layout::length);
                    // A frame has at most 2^16 bytes and what MPA adds.
                    lengths.push_back(length as u32);
                    counters.sent_copied_bytes += u64::from(frame.payload);
                    let Some(layout) = &frame.layout else { continue };
                    counters.sent_frames += 1;
                    self.tally.insert(Tally::of_layout(layout))
                }
            };
            let covered = (tally.left() - CRC_LENGTH).min(rest.len());
            let (bytes, after) = rest.split_at_mut(covered);
            tally.feed(bytes);
            rest = after;
            if tally.left() > CRC_LENGTH {
                break;
            }
            let Some((field, after)) = rest.split_first_chunk_mut::<CRC_LENGTH>() else { break };
            *field = tally.finish();
            rest = after;
            self.tally = None;
        }
        debug_assert!(frames.next().is_none(), "a frame begins behind the bytes of its block");
    }

    pub(super) fn clear(&mut self) {
        self.tally = None;
    }
}
