//! The task that sums up what was woven and fills the holes.

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use weft_mpa::CrcDigest;
use weft_wire::mpa::CRC_LENGTH;

use super::block::Block;
use crate::counters::Counters;

/// CRCs of the frames that go by. A frame may reach over several blocks, and so may its CRC.
#[derive(Default)]
pub(super) struct Checksum {
    crc_digest: Option<CrcDigest>,
    /// What of a CRC has no place yet.
    unwritten: ArrayVec<u8, CRC_LENGTH>,
}

impl Checksum {
    /// Sums up a block and fills the CRC fields in it. Appends the length of each frame that begins there.
    pub(super) fn pass(&mut self, block: &mut Block, lengths: &mut VecDeque<u32>, counters: &mut Counters) {
        let (frames, mut rest) = block.parts();
        let mut frames = frames.iter();
        rest = self.write(rest);
        while self.unwritten.is_empty() {
            let crc_digest = match &mut self.crc_digest {
                Some(crc_digest) => crc_digest,
                None => {
                    let Some(frame) = frames.next() else { break };
                    let length = frame.layout.as_ref().map_or(0, weft_mpa::Layout::length);
                    // A frame has at most 2^16 bytes and what MPA adds.
                    lengths.push_back(length as u32);
                    counters.sent_copied_bytes += u64::from(frame.payload);
                    let Some(layout) = &frame.layout else { continue };
                    counters.sent_frames += 1;
                    self.crc_digest.insert(CrcDigest::of_layout(layout))
                }
            };
            let covered = (crc_digest.left() - CRC_LENGTH).min(rest.len());
            let (bytes, after) = rest.split_at_mut(covered);
            crc_digest.feed(bytes);
            rest = after;
            if crc_digest.left() > CRC_LENGTH {
                break;
            }
            self.unwritten = crc_digest.finish().into();
            self.crc_digest = None;
            rest = self.write(rest);
        }
        debug_assert!(frames.next().is_none(), "a frame begins behind the bytes of its block");
    }

    /// Fills a hole as far as it is here. Returns the bytes behind it.
    fn write<'a>(&mut self, bytes: &'a mut [u8]) -> &'a mut [u8] {
        let length = self.unwritten.len().min(bytes.len());
        let (hole, after) = bytes.split_at_mut(length);
        hole.copy_from_slice(&self.unwritten[..length]);
        self.unwritten.drain(..length);
        after
    }

    pub(super) fn clear(&mut self) {
        self.crc_digest = None;
        self.unwritten.clear();
    }
}

#[cfg(test)]
mod tests {
    use weft_mpa::Framer;

    use super::super::block::{BlockRing, FrameRecord};
    use super::*;

    /// Two frames, of which the first block has this many bytes, are summed up as they are in one piece.
    #[test]
    fn a_block_may_end_anywhere() {
        for crc in [false, true] {
            let mut framer = Framer::new(None, crc);
            let layouts = [6, 9].map(|length| framer.frame(length));
            let (mut expected, mut with_holes) = (Vec::new(), Vec::new());
            for layout in &layouts {
                let mut frame = vec![0xa5; layout.length()];
                let Ok(()) = layout.write(b"header", &mut &b"abc"[..layout.ulpdu_length() as usize - 6], &mut frame);
                expected.extend_from_slice(&frame);
                frame[layout.length() - CRC_LENGTH..].fill(0);
                with_holes.extend_from_slice(&frame);
            }
            let second = layouts[0].length();
            for cut in 1..with_holes.len() {
                let (ring, mut checksum) = (BlockRing::default(), Checksum::default());
                let (mut lengths, mut counters, mut summed) = (VecDeque::new(), Counters::default(), Vec::new());
                for range in [0..cut, cut..with_holes.len()] {
                    let mut block = ring.take_free().unwrap();
                    for (start, layout) in [0, second].into_iter().zip(layouts) {
                        if range.contains(&start) {
                            block.begin(FrameRecord { layout: Some(layout), payload: 0 });
                        }
                    }
                    block.room()[..range.len()].copy_from_slice(&with_holes[range.clone()]);
                    block.fill(range.len());
                    checksum.pass(&mut block, &mut lengths, &mut counters);
                    summed.extend_from_slice(block.left());
                }
                assert_eq!(summed, expected, "cut at {cut}, crc {crc}");
                assert_eq!(lengths, layouts.map(|layout| layout.length() as u32));
            }
        }
    }
}
