//! Where everything of an FPDU stands: the one place that does the arithmetic of markers.
//!
//! FPDUs and markers are multiples of four bytes long, and a stream begins with one of them, so every four-byte word of the stream
//! is wholly a marker or wholly part of an FPDU. So a marker splits neither the length field, nor the pad, nor the CRC. It can stand
//! before the length field, anywhere between the words of the ULPDU (its first two bytes stay with the length field), and before the CRC.

use core::ops::Range;

use weft_base::StreamPosition;
use weft_wire::mpa::{CRC_LENGTH, LENGTH_FIELD, MARKER_LENGTH, MAX_MULPDU, MarkerSpacing, pad_length};

const MARKER: u32 = MARKER_LENGTH as u32;
const LENGTH: u32 = LENGTH_FIELD as u32;
const CRC: u32 = CRC_LENGTH as u32;
/// "No marker comes": further away than any FPDU is long.
const NEVER: u32 = u32::MAX;
/// The last distance that an FPDUPTR can say; its two low bits are zero (RFC 5044 section 4.2).
const FARTHEST: u32 = 0xfffc;

/// Where the markers of one direction of a stream stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    markers: Option<MarkerSpacing>,
}

impl Grid {
    pub(crate) const fn new(markers: Option<MarkerSpacing>) -> Self {
        Self { markers }
    }

    pub(crate) const fn markers(self) -> Option<MarkerSpacing> {
        self.markers
    }

    /// The FPDU that begins at `start` and carries `ulpdu_length` bytes.
    pub(crate) const fn shape(self, start: StreamPosition, ulpdu_length: u32) -> Shape {
        let bare = LENGTH + ulpdu_length + pad_length(ulpdu_length) + CRC;
        let unmarked = Shape { start, ulpdu_length, wire_length: bare, first_marker: NEVER, spacing: 0 };
        let Some(spacing) = self.markers else { return unmarked };
        let spacing = spacing.bytes();
        let first_marker = until_marker(start, spacing);
        // A marker right after the CRC belongs to the next FPDU (RFC 5044 section 4.3).
        if first_marker >= bare {
            return unmarked;
        }
        let markers = (bare - first_marker).div_ceil(spacing - MARKER);
        Shape { start, ulpdu_length, wire_length: bare + MARKER * markers, first_marker, spacing }
    }
}

/// Bytes from `position` to the next marker; zero when it stands right there. The spacing is a power of two.
const fn until_marker(position: StreamPosition, spacing: u32) -> u32 {
    let mask = spacing - 1;
    (position.0 as u32 & mask).wrapping_neg() & mask
}

/// Where everything of one FPDU stands. Offsets are in bytes from its start, which is its leading marker if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) start: StreamPosition,
    pub(crate) ulpdu_length: u32,
    pub(crate) wire_length: u32,
    first_marker: u32,
    spacing: u32,
}

/// A part of an FPDU, in the order of the stream. The CRC field is none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    Marker(usize),
    Length(usize),
    Ulpdu { at: usize, length: usize },
    Pad { at: usize, length: usize },
}

impl Span {
    pub(crate) const fn range(self) -> Range<usize> {
        match self {
            Self::Marker(at) => at..at + MARKER_LENGTH,
            Self::Length(at) => at..at + LENGTH_FIELD,
            Self::Ulpdu { at, length } | Self::Pad { at, length } => at..at + length,
        }
    }
}

impl Shape {
    pub(crate) const fn has_markers(&self) -> bool {
        self.first_marker != NEVER
    }

    pub(crate) const fn end(&self) -> StreamPosition {
        StreamPosition(self.start.0 + self.wire_length as u64)
    }

    /// Where the length field stands.
    pub(crate) const fn length_offset(&self) -> usize {
        if self.first_marker == 0 { MARKER_LENGTH } else { 0 }
    }

    /// Where the ULPDU begins, unless a marker stands there.
    pub(crate) const fn ulpdu_offset(&self) -> usize {
        self.length_offset() + LENGTH_FIELD
    }

    pub(crate) const fn pad_length(&self) -> usize {
        pad_length(self.ulpdu_length) as usize
    }

    pub(crate) const fn crc_offset(&self) -> usize {
        self.wire_length as usize - CRC_LENGTH
    }

    /// The parts in the order of the stream.
    pub(crate) const fn spans(&self) -> Spans {
        Spans {
            at: 0,
            next_marker: self.first_marker,
            spacing: self.spacing,
            length_due: true,
            ulpdu_left: self.ulpdu_length,
            pad_left: pad_length(self.ulpdu_length),
        }
    }

    /// Where the markers stand.
    pub(crate) fn markers(&self) -> impl Iterator<Item = usize> + use<> {
        let end = if self.has_markers() { self.wire_length } else { 0 };
        let first = self.first_marker.min(end);
        (first..end).step_by(self.spacing.max(1) as usize).map(|at| at as usize)
    }

    /// What the marker at `offset` must say: the distance back to the length field, or zero when it stands before it
    /// (RFC 5044 section 4.3). `None` when no FPDUPTR can say it.
    pub(crate) fn pointer(&self, offset: usize) -> Option<u16> {
        let distance = offset.saturating_sub(self.length_offset());
        (distance <= FARTHEST as usize).then_some(distance as u16)
    }

    /// Whether each marker can point back to the length field: up to [`MAX_MULPDU`] always, above it by where the markers stand.
    pub(crate) fn can_be_marked(&self) -> bool {
        self.ulpdu_length <= MAX_MULPDU || self.markers().last().is_none_or(|last| self.pointer(last).is_some())
    }
}

/// See [`Shape::spans`].
#[derive(Clone, Debug)]
pub(crate) struct Spans {
    at: u32,
    next_marker: u32,
    spacing: u32,
    length_due: bool,
    ulpdu_left: u32,
    pad_left: u32,
}

impl Iterator for Spans {
    type Item = Span;

    #[inline]
    fn next(&mut self) -> Option<Span> {
        let at = self.at as usize;
        if self.at == self.next_marker {
            self.at += MARKER;
            self.next_marker += self.spacing;
            return Some(Span::Marker(at));
        }
        if self.length_due {
            self.length_due = false;
            self.at += LENGTH;
            return Some(Span::Length(at));
        }
        if self.ulpdu_left > 0 {
            let length = self.ulpdu_left.min(self.next_marker - self.at);
            self.ulpdu_left -= length;
            self.at += length;
            return Some(Span::Ulpdu { at, length: length as usize });
        }
        if self.pad_left > 0 {
            let length = core::mem::take(&mut self.pad_left);
            self.at += length;
            return Some(Span::Pad { at, length: length as usize });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STANDARD: Grid = Grid::new(Some(MarkerSpacing::Standard));

    /// With markers of every spacing, and without.
    fn grids() -> impl Strategy<Value = Grid> {
        (0..=MarkerSpacing::ALL.len()).prop_map(|choice| Grid::new(MarkerSpacing::ALL.get(choice).copied()))
    }

    /// The same, word by word: a marker is due wherever the position is a multiple of the spacing and the FPDU goes on.
    fn by_walking(start: u64, ulpdu_length: u32, grid: Grid) -> (u32, Vec<usize>) {
        let words = (2 + ulpdu_length).div_ceil(4) + 1;
        let mut at = 0;
        let mut found = Vec::new();
        for _ in 0..words {
            if grid.markers().is_some_and(|spacing| (start + at).is_multiple_of(spacing.bytes().into())) {
                found.push(at as usize);
                at += 4;
            }
            at += 4;
        }
        (at as u32, found)
    }

    proptest! {
        #[test]
        fn lengths_and_markers_are_those_of_a_walk(start in 0..5000u64, ulpdu_length in 0..=65_535u32, grid in grids()) {
            let shape = grid.shape(StreamPosition(start * 4), ulpdu_length);
            let (length, found) = by_walking(start * 4, ulpdu_length, grid);
            prop_assert_eq!(shape.wire_length, length);
            prop_assert_eq!(shape.markers().collect::<Vec<_>>(), found);
        }

        #[test]
        fn spans_tile_the_fpdu(start in 0..5000u64, ulpdu_length in 0..=65_535u32, grid in grids()) {
            let shape = grid.shape(StreamPosition(start * 4), ulpdu_length);
            let (mut at, mut ulpdu) = (0, 0);
            for span in shape.spans() {
                prop_assert_eq!(span.range().start, at);
                at = span.range().end;
                if let Span::Ulpdu { length, .. } = span {
                    prop_assert!(length > 0);
                    ulpdu += length;
                }
            }
            prop_assert_eq!(at, shape.crc_offset());
            prop_assert_eq!(ulpdu, ulpdu_length as usize);
        }
    }

    #[test]
    fn every_boundary_of_the_grid_is_met() {
        for spacing in MarkerSpacing::ALL {
            let grid = Grid::new(Some(spacing));
            let spacing = spacing.bytes();
            for start in (0..u64::from(spacing)).step_by(4) {
                for ulpdu_length in (0..8).chain(spacing - 20..spacing + 20).chain(2 * spacing - 20..2 * spacing + 20) {
                    let shape = grid.shape(StreamPosition(start), ulpdu_length);
                    assert_eq!(shape.wire_length, by_walking(start, ulpdu_length, grid).0, "{start} {ulpdu_length}");
                }
            }
        }
    }

    /// RFC 5044 section 3: up to 64768 bytes. So no marker of a conforming FPDU is too far from its length field.
    #[test]
    fn the_largest_ulpdu_can_be_marked_wherever_it_begins() {
        for spacing in MarkerSpacing::ALL {
            for start in (0..u64::from(spacing.bytes())).step_by(4) {
                let shape = Grid::new(Some(spacing)).shape(StreamPosition(start), MAX_MULPDU);
                assert!(shape.markers().all(|at| shape.pointer(at).is_some()), "{spacing}, at {start}");
            }
        }
        let beyond = STANDARD.shape(StreamPosition(508), 65_535);
        assert!(!beyond.can_be_marked());
    }

    #[test]
    fn a_marker_after_the_crc_is_the_next_fpdus() {
        // Length field, 6 bytes of ULPDU, CRC: 12 bytes, up to position 512.
        let shape = STANDARD.shape(StreamPosition(500), 6);
        assert_eq!((shape.wire_length, shape.has_markers()), (12, false));
        let next = STANDARD.shape(shape.end(), 6);
        assert_eq!((next.wire_length, next.length_offset(), next.pointer(0)), (16, 4, Some(0)));
    }

    #[test]
    fn a_marker_before_the_crc_is_this_fpdus() {
        let shape = STANDARD.shape(StreamPosition(504), 6);
        assert_eq!(shape.markers().collect::<Vec<_>>(), [8]);
        assert_eq!((shape.wire_length, shape.pointer(8)), (16, Some(8)));
    }
}
