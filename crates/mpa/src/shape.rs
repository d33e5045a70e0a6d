//! The layout of an FPDU: the one place that does the arithmetic of markers.
//!
//! FPDUs and markers are multiples of four bytes long, and a stream begins with one of them, so every four-byte word of
//! the stream is wholly a marker or wholly part of an FPDU. So a marker splits neither the length field, nor the pad,
//! nor the CRC. It can be before the length field, anywhere between the words of the ULPDU (its first two bytes stay
//! with the length field), and before the CRC.

use core::ops::Range;

use weft_base::StreamPosition;
use weft_wire::mpa::{CRC_LENGTH, LENGTH_FIELD, MARKER_LENGTH, MAX_MULPDU, MarkerSpacing, pad_length};

use crate::FrameError;

const MARKER: u32 = MARKER_LENGTH as u32;
const LENGTH: u32 = LENGTH_FIELD as u32;
const CRC: u32 = CRC_LENGTH as u32;
/// "No marker comes": further away than any FPDU is long.
const NEVER: u32 = u32::MAX;
/// The largest distance that fits into an FPDUPTR; its two low bits are zero (RFC 5044 section 4.2).
const FARTHEST: u32 = 0xfffc;

/// Bytes that are touched twice in a row, copied and summed up: few enough to be still in the first-level cache the
/// second time, many enough that the checksum runs at full speed. A multiple of every spacing.
pub(crate) const BLOCK: usize = 8192;

/// The places of the markers of one direction of a stream.
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

    /// Bytes of the markers among `length` bytes of the stream, a multiple of four, from `start` on.
    pub(crate) const fn marker_bytes(self, start: StreamPosition, length: u32) -> u32 {
        let Some(spacing) = self.markers else { return 0 };
        let spacing = spacing.bytes();
        MARKER * length.saturating_sub(until_marker(start, spacing)).div_ceil(spacing)
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

/// Bytes from `position` to the next marker; zero when it is right there. The spacing is a power of two.
const fn until_marker(position: StreamPosition, spacing: u32) -> u32 {
    let mask = spacing - 1;
    (position.0 as u32 & mask).wrapping_neg() & mask
}

/// The layout of one FPDU. Offsets are in bytes from its start, which is its leading marker if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) start: StreamPosition,
    pub(crate) ulpdu_length: u32,
    pub(crate) wire_length: u32,
    first_marker: u32,
    spacing: u32,
}

/// A field of an FPDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Marker,
    Length,
    Ulpdu,
    Pad,
    Crc,
}

/// Bytes of an FPDU that belong together and follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) field: Field,
    /// How many bytes of the field come before.
    pub(crate) from: u32,
    /// How many bytes of it there are until another field follows, or the FPDU ends.
    pub(crate) length: u32,
}

impl Shape {
    pub(crate) const fn has_markers(&self) -> bool {
        self.first_marker != NEVER
    }

    pub(crate) const fn end(&self) -> StreamPosition {
        StreamPosition(self.start.0 + self.wire_length as u64)
    }

    /// Where the length field is.
    pub(crate) const fn length_offset(&self) -> usize {
        if self.first_marker == 0 { MARKER_LENGTH } else { 0 }
    }

    /// Where the ULPDU begins, unless a marker is there.
    pub(crate) const fn ulpdu_offset(&self) -> usize {
        self.length_offset() + LENGTH_FIELD
    }

    pub(crate) const fn pad_length(&self) -> usize {
        pad_length(self.ulpdu_length) as usize
    }

    pub(crate) const fn crc_offset(&self) -> usize {
        self.wire_length as usize - CRC_LENGTH
    }

    /// The part at `at` bytes from the start, which is before the end.
    #[inline]
    pub(crate) const fn part_at(&self, at: u32) -> Part {
        debug_assert!(at < self.wire_length);
        let (markers_before, until_marker) = if at < self.first_marker {
            (0, self.first_marker - at)
        } else {
            // The spacing is a power of two.
            let beyond = at - self.first_marker;
            let phase = beyond & (self.spacing - 1);
            if phase < MARKER {
                return Part { field: Field::Marker, from: phase, length: MARKER - phase };
            }
            ((beyond >> self.spacing.trailing_zeros()) + 1, self.spacing - phase)
        };
        let bare = at - MARKER * markers_before;
        let ulpdu_end = LENGTH + self.ulpdu_length;
        let pad_end = ulpdu_end + pad_length(self.ulpdu_length);
        let (field, start, end) = match bare {
            _ if bare < LENGTH => (Field::Length, 0, LENGTH),
            _ if bare < ulpdu_end => (Field::Ulpdu, LENGTH, ulpdu_end),
            _ if bare < pad_end => (Field::Pad, ulpdu_end, pad_end),
            _ => (Field::Crc, pad_end, pad_end + CRC),
        };
        let left = end - bare;
        Part { field, from: bare - start, length: if left < until_marker { left } else { until_marker } }
    }

    /// The parts in the order of the stream, up to the CRC field, and where they are.
    #[inline]
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Field, Range<usize>)> + use<> {
        let (shape, end) = (*self, self.wire_length - CRC);
        let mut at = 0;
        core::iter::from_fn(move || {
            let part = (at < end).then(|| shape.part_at(at))?;
            let start = at as usize;
            at += part.length;
            Some((part.field, start..at as usize))
        })
    }

    /// How many bytes from the start can be written when `ulpdu_there` bytes of the ULPDU are there: the whole FPDU
    /// when they all are.
    pub(crate) const fn reach(&self, ulpdu_there: u32) -> u32 {
        if ulpdu_there >= self.ulpdu_length {
            return self.wire_length;
        }
        let bare = LENGTH + ulpdu_there;
        if bare <= self.first_marker {
            return bare;
        }
        bare + MARKER * (bare - self.first_marker).div_ceil(self.spacing - MARKER)
    }

    /// Whole periods of the grid, a marker and the ULPDU up to the next one, from `at` on within `room` bytes. `None`
    /// when there is none, or no marker is at `at`.
    #[inline]
    pub(crate) fn periods_at(&self, at: u32, room: usize) -> Option<Periods> {
        let beyond = at.checked_sub(self.first_marker)?;
        if beyond & (self.spacing - 1) != 0 {
            return None;
        }
        let marker = self.part_at(at);
        let behind = at + marker.length;
        let ulpdu =
            (behind < self.wire_length).then(|| self.part_at(behind)).filter(|part| part.field == Field::Ulpdu)?;
        let per_period = self.spacing - MARKER;
        let count = ((self.ulpdu_length - ulpdu.from) / per_period).min(room as u32 / self.spacing);
        (count > 0).then_some(Periods {
            spacing: self.spacing as usize,
            count: count as usize,
            ulpdu_from: ulpdu.from as usize,
        })
    }

    /// Where the markers are.
    pub(crate) fn markers(&self) -> impl Iterator<Item = usize> + use<> {
        let end = if self.has_markers() { self.wire_length } else { 0 };
        let first = self.first_marker.min(end);
        (first..end).step_by(self.spacing.max(1) as usize).map(|at| at as usize)
    }

    /// What the marker at `offset` must say: the distance back to the length field, or zero when the marker is before
    /// it (RFC 5044 section 4.3). `None` when it does not fit into an FPDUPTR.
    pub(crate) fn pointer(&self, offset: usize) -> Option<u16> {
        let distance = offset.saturating_sub(self.length_offset());
        (distance <= FARTHEST as usize).then_some(distance as u16)
    }

    /// The bytes of the length field.
    pub(crate) const fn length_field(&self) -> [u8; LENGTH_FIELD] {
        (self.ulpdu_length as u16).to_be_bytes()
    }

    /// RFC 5044 section 8, error code 3: the marker at `offset` agrees with the length fields on where the FPDU begins.
    #[inline]
    pub(crate) fn check_marker(&self, offset: usize, pointer: u16) -> Result<(), FrameError> {
        match self.pointer(offset) {
            Some(distance) if pointer != distance => {
                Err(FrameError::Marker { position: self.start + offset as u64, pointer, distance })
            }
            _ => Ok(()),
        }
    }

    /// Compares with the CRC field (RFC 5044 section 4.4).
    #[inline]
    pub(crate) fn check_crc(&self, computed: u32, field: &[u8]) -> Result<(), FrameError> {
        debug_assert_eq!(field.len(), CRC_LENGTH);
        let mut received = [0; CRC_LENGTH];
        received.copy_from_slice(field);
        let received = u32::from_le_bytes(received);
        if received == computed { Ok(()) } else { Err(FrameError::Crc { start: self.start, computed, received }) }
    }

    /// How long the first block is when an FPDU is worked through in blocks of [`BLOCK`] bytes: so long that the others
    /// begin with markers, and each holds whole periods of the grid.
    pub(crate) const fn first_block(&self) -> usize {
        if self.has_markers() { self.first_marker as usize + BLOCK } else { BLOCK }
    }

    /// Whether each marker can point back to the length field: up to [`MAX_MULPDU`] always, above it depending on where
    /// the markers are.
    pub(crate) fn can_be_marked(&self) -> bool {
        self.ulpdu_length <= MAX_MULPDU || self.markers().last().is_none_or(|last| self.pointer(last).is_some())
    }
}

/// See [`Shape::periods_at`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Periods {
    pub(crate) spacing: usize,
    pub(crate) count: usize,
    /// How many bytes of the ULPDU come before the first period.
    pub(crate) ulpdu_from: usize,
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

    /// The same, word by word: a marker is due wherever the position is a multiple of the spacing and the FPDU
    /// continues.
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
        fn lengths_and_markers_are_those_of_a_walk(
            start in 0..5000u64,
            ulpdu_length in 0..=65_535u32,
            grid in grids(),
        ) {
            let shape = grid.shape(StreamPosition(start * 4), ulpdu_length);
            let (length, found) = by_walking(start * 4, ulpdu_length, grid);
            prop_assert_eq!(shape.wire_length, length);
            prop_assert_eq!(shape.markers().collect::<Vec<_>>(), found);
        }

        #[test]
        fn parts_tile_the_fpdu(start in 0..5000u64, ulpdu_length in 0..=65_535u32, grid in grids()) {
            let shape = grid.shape(StreamPosition(start * 4), ulpdu_length);
            let (mut at, mut ulpdu) = (0, 0);
            for (field, range) in shape.parts() {
                prop_assert_eq!(range.start, at);
                at = range.end;
                prop_assert!(!range.is_empty());
                if field == Field::Ulpdu {
                    ulpdu += range.len();
                }
            }
            prop_assert_eq!(at, shape.crc_offset());
            prop_assert_eq!(ulpdu, ulpdu_length as usize);
            prop_assert_eq!(shape.part_at(at as u32), Part { field: Field::Crc, from: 0, length: 4 });
        }

        /// Byte for byte: each is the next of its field.
        #[test]
        fn a_part_can_be_entered_anywhere(start in 0..1000u64, ulpdu_length in 0..6000u32, grid in grids()) {
            let shape = grid.shape(StreamPosition(start * 4), ulpdu_length);
            let mut seen = [0; 5];
            for at in 0..shape.wire_length {
                let part = shape.part_at(at);
                if part.field == Field::Marker {
                    seen[Field::Marker as usize] %= 4;
                }
                prop_assert_eq!(part.from, seen[part.field as usize], "at {}", at);
                prop_assert!(part.length > 0);
                if part.field == Field::Ulpdu {
                    prop_assert!(shape.reach(part.from) <= at && shape.reach(part.from + 1) > at);
                }
                seen[part.field as usize] += 1;
            }
            prop_assert_eq!(&seen[1..], [2, ulpdu_length, pad_length(ulpdu_length), 4]);
            prop_assert_eq!(shape.reach(ulpdu_length), shape.wire_length);
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

    /// RFC 5044 section 4.3: where TCP's sequence number wraps, markers keep their places and their values.
    #[test]
    fn nothing_changes_where_32_bits_of_the_position_wrap() {
        const WRAP: u64 = 1 << 32;
        for spacing in MarkerSpacing::ALL {
            let grid = Grid::new(Some(spacing));
            for start in (WRAP - 4096..WRAP + 4096).step_by(4) {
                for ulpdu_length in [0, 8, 500, 1448, 4000, 5001] {
                    let shape = grid.shape(StreamPosition(start), ulpdu_length);
                    let (length, markers) = by_walking(start, ulpdu_length, grid);
                    assert_eq!(shape.wire_length, length, "{start:#x} {ulpdu_length}");
                    assert_eq!(shape.markers().collect::<Vec<_>>(), markers);
                    assert_eq!(shape.end().0, start + u64::from(length), "{start:#x} {ulpdu_length}");
                    // As anywhere else in the stream.
                    let early = grid.shape(StreamPosition(start % 8192), ulpdu_length);
                    for at in shape.markers() {
                        assert_eq!(shape.pointer(at), early.pointer(at), "{start:#x} {ulpdu_length}");
                    }
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
