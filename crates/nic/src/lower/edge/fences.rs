//! Fences between Writes, as positions in the order of the connection.

use core::ops::Range;

use weft_edge::Options;
use weft_rdmap::{RequestFlags, SegmentOf};

/// The positions of Writes with fences in the order of the connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fences {
    /// Where the request under way starts.
    start: u64,
    /// Where the last one ends behind which all later ones are to be placed.
    forward: u64,
}

impl Fences {
    /// Whether Writes wait for what is not acknowledged yet, whatever their own flags.
    pub(super) const fn are_up(&self, acknowledged: u64) -> bool {
        self.forward > acknowledged
    }

    /// The options of a segment that takes these positions. It does not wait for what is acknowledged.
    pub(super) fn pass(&mut self, request: SegmentOf, positions: Range<u64>, acknowledged: u64) -> Options {
        let SegmentOf { flags, is_first, is_last, is_write } = request;
        if is_first {
            self.start = positions.start;
        }
        let after = if flags.contains(RequestFlags::BACKWARD_FENCE) { self.start } else { self.forward };
        let after = if after > acknowledged { after } else { 0 };
        if is_last && flags.contains(RequestFlags::FORWARD_FENCE) {
            self.forward = positions.end;
        }
        if is_write {
            Options { unordered: flags.contains(RequestFlags::UNORDERED), after }
        } else {
            Options::default()
        }
    }
}
