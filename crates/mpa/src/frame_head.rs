//! What the length field of an FPDU determines.

use weft_base::StreamPosition;
use weft_wire::mpa::{CRC_LENGTH, MARKER_LENGTH};

use crate::shape::{Field, Shape};

/// What the length field of an FPDU determines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of the ULPDU.
    pub ulpdu_length: u32,
    /// All bytes on the wire: leading marker, length field, ULPDU, markers, pad, CRC field.
    pub wire_length: usize,
    /// Where the FPDU begins: at its leading marker if it has one.
    pub start: StreamPosition,
    /// Where the next one begins.
    pub end: StreamPosition,
    pub(crate) shape: Shape,
}

impl FrameHead {
    pub(crate) const fn new(shape: Shape) -> Self {
        Self {
            ulpdu_length: shape.ulpdu_length,
            wire_length: shape.wire_length as usize,
            start: shape.start,
            end: shape.end(),
            shape,
        }
    }

    /// The first bytes of the ULPDU, as many as are there, at most `N`: enough to read its header before all of it has
    /// come. They lie in `bytes` where no marker is between them, else in `scratch`. `bytes` as in
    /// [`Deframer::peek`](crate::Deframer::peek).
    #[inline]
    #[must_use]
    pub fn head<'a, const N: usize>(&self, bytes: &'a [u8], scratch: &'a mut [u8; N]) -> &'a [u8] {
        let from = self.ulpdu_offset();
        let wanted = N.min(self.ulpdu_length as usize);
        if self.shape.markers().find(|at| *at > 0).is_none_or(|at| at >= from + wanted) {
            let end = bytes.len().min(from + wanted);
            return bytes.get(from..end).unwrap_or_default();
        }
        let mut filled = 0;
        for (_, range) in self.shape.parts().filter(|(field, _)| *field == Field::Ulpdu) {
            let end = bytes.len().min(range.start + range.len().min(wanted - filled));
            let there = bytes.get(range.start..end).unwrap_or_default();
            scratch[filled..filled + there.len()].copy_from_slice(there);
            filled += there.len();
            if filled == wanted || there.len() < range.len() {
                break;
            }
        }
        &scratch[..filled]
    }

    /// Bytes after the ULPDU where no marker is in the FPDU: pad and CRC field.
    #[must_use]
    pub const fn tail_length(&self) -> usize {
        self.shape.pad_length() + CRC_LENGTH
    }

    /// Where the ULPDU begins, in bytes from the start of the FPDU: after the leading marker, if there is one, and the
    /// length field. On a stream with markers another marker may be right there.
    #[must_use]
    pub const fn ulpdu_offset(&self) -> usize {
        self.shape.ulpdu_offset()
    }

    /// Whether no marker is in the FPDU, unless before its length field: the ULPDU is in one piece.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        self.wire_length == self.ulpdu_offset() + self.ulpdu_length as usize + self.tail_length()
    }

    /// Bytes of the leading marker: 4 or, mostly, 0.
    #[must_use]
    pub const fn leading_marker_length(&self) -> usize {
        debug_assert!(self.shape.length_offset() == 0 || self.shape.length_offset() == MARKER_LENGTH);
        self.shape.length_offset()
    }
}
