//! Finding the FPDUs of a stream, one after the other, by their lengths (RFC 5044 section 6, way 1).

use weft_base::StreamPosition;
use weft_wire::mpa::{CRC_LENGTH, LENGTH_FIELD, MARKER_LENGTH, MarkerSpacing};

use crate::shape::{Field, Grid, Shape};
use crate::{Frame, FrameError};

/// The receiving end of one direction of a stream: knows where the next FPDU begins. The caller keeps the bytes.
///
/// For each FPDU: [`Deframer::peek`] until it gives a [`FrameHead`]; [`Deframer::frame`] until it gives a [`Frame`],
/// and verify that; then [`Deframer::advance`], which relies on the CRC having been good (RFC 5044 section 6: only then
/// the length field names the beginning of the next FPDU).
#[derive(Clone, Debug)]
pub struct Deframer {
    grid: Grid,
    crc: bool,
    next: StreamPosition,
}

/// What [`Deframer::peek`] sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek {
    /// The length field is not there yet.
    More {
        /// Bytes from the current position on that are needed, in all.
        at_least: usize,
    },
    /// How long the FPDU is.
    Head(FrameHead),
}

impl Deframer {
    /// At the start of the stream, right after the start-up frames. `markers`: this side asked for them (RFC 5044
    /// section 7.1.1, M), so far apart.
    /// `crc`: either side wants CRCs (RFC 5044 section 7.1.1, C).
    #[must_use]
    pub const fn new(markers: Option<MarkerSpacing>, crc: bool) -> Self {
        Self { grid: Grid::new(markers), crc, next: StreamPosition(0) }
    }

    /// Where an FPDU begins somewhere in the stream.
    pub(crate) const fn at(grid: Grid, crc: bool, next: StreamPosition) -> Self {
        Self { grid, crc, next }
    }

    /// Where the next FPDU begins.
    #[must_use]
    pub const fn position(&self) -> StreamPosition {
        self.next
    }

    /// Whether the stream has markers.
    #[must_use]
    pub const fn markers(&self) -> bool {
        self.grid.markers().is_some()
    }

    /// How far apart the markers of the stream stand. `None`: there are none.
    #[must_use]
    pub const fn marker_spacing(&self) -> Option<MarkerSpacing> {
        self.grid.markers()
    }

    /// Whether CRCs are checked.
    #[must_use]
    pub const fn crc(&self) -> bool {
        self.crc
    }

    /// Looks for the length field of the next FPDU. `bytes` are the stream's bytes from the current position on, as
    /// many as are there. Nothing is verified yet: what the length says may be damaged.
    ///
    /// # Errors
    /// The length cannot be that of an FPDU on a stream with markers, or the stream does not begin with the marker that
    /// was asked for: a peer that sends none would have its header taken for a length, and bytes waited for that never
    /// come.
    #[inline]
    pub fn peek(&self, bytes: &[u8]) -> Result<Peek, FrameError> {
        let empty = self.grid.shape(self.next, 0);
        let at = empty.length_offset();
        let Some(&[high, low]) = bytes.get(at..at + LENGTH_FIELD) else {
            return Ok(Peek::More { at_least: at + LENGTH_FIELD });
        };
        let shape = self.grid.shape(self.next, u32::from(u16::from_be_bytes([high, low])));
        if self.next == StreamPosition(0) && at > 0 {
            // The first marker stands right before its FPDU (RFC 5044 section 4.3), whose CRC can't be seen before the
            // length is believed.
            let pointer = u16::from_be_bytes([bytes[at - 2], bytes[at - 1]]);
            if pointer != 0 {
                return Err(FrameError::Marker { position: self.next, pointer, distance: 0 });
            }
        }
        if !shape.can_be_marked() {
            return Err(FrameError::TooLongForMarkers { start: shape.start, ulpdu_length: shape.ulpdu_length });
        }
        Ok(Peek::Head(FrameHead::new(shape)))
    }

    /// The FPDU of `head`, when all of it is there. `bytes` as in [`Deframer::peek`].
    #[inline]
    #[must_use]
    pub fn frame<'a>(&self, head: &FrameHead, bytes: &'a [u8]) -> Option<Frame<'a>> {
        debug_assert_eq!(head.start, self.next, "the head is of another FPDU");
        Some(Frame::new(head.shape, self.crc, bytes.get(..head.wire_length)?))
    }

    /// Goes past the FPDU of `head`.
    #[inline]
    pub fn advance(&mut self, head: &FrameHead) {
        debug_assert_eq!(head.start, self.next, "the head is of another FPDU");
        self.next = head.end;
    }
}

/// What the length field of an FPDU tells.
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
    const fn new(shape: Shape) -> Self {
        Self {
            ulpdu_length: shape.ulpdu_length,
            wire_length: shape.wire_length as usize,
            start: shape.start,
            end: shape.end(),
            shape,
        }
    }

    /// The first bytes of the ULPDU, as many as are there, at most `N`: enough to read its header before all of it has
    /// come. They lie in `bytes` where no marker stands between them, else in `scratch`. `bytes` as in
    /// [`Deframer::peek`].
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

    /// Bytes after the ULPDU where no marker stands in the FPDU: pad and CRC field.
    #[must_use]
    pub const fn tail_length(&self) -> usize {
        self.shape.pad_length() + CRC_LENGTH
    }

    /// Where the ULPDU begins, in bytes from the start of the FPDU: after the leading marker, if there is one, and the
    /// length field. On a stream with markers another marker may stand right there.
    #[must_use]
    pub const fn ulpdu_offset(&self) -> usize {
        self.shape.ulpdu_offset()
    }

    /// Whether no marker stands in the FPDU, unless before its length field: the ULPDU is in one piece.
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
