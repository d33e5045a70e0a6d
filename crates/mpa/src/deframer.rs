//! Finding the FPDUs of a stream, one after the other, by their lengths (RFC 5044 section 6, way 1).

use weft_base::StreamPosition;
use weft_wire::Crc32c;
use weft_wire::mpa::{CRC_LENGTH, LENGTH_FIELD, MarkerSpacing, pad_length};

use crate::shape::Grid;
use crate::{Frame, FrameError, FrameHead};

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

/// An FPDU without markers, whole and good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StraightFrame<'a> {
    /// The ULPDU.
    pub ulpdu: &'a [u8],
    /// All bytes on the wire: length field, ULPDU, pad, CRC field.
    pub wire_length: usize,
    /// Where the FPDU begins.
    pub start: StreamPosition,
    /// Where the next one begins.
    pub end: StreamPosition,
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

    /// The next FPDU, where the stream has no markers, all of it is there and its CRC is good: a short one is read in
    /// one go by this. `None`: the other calls say why. `bytes` as in [`Deframer::peek`].
    #[inline]
    #[must_use]
    pub fn straight<'a>(&self, bytes: &'a [u8]) -> Option<StraightFrame<'a>> {
        let (field, rest) = bytes.split_first_chunk::<LENGTH_FIELD>()?;
        if self.markers() {
            return None;
        }
        let ulpdu_length = u16::from_be_bytes(*field);
        let padded = usize::from(ulpdu_length) + pad_length(u32::from(ulpdu_length)) as usize;
        let field = rest.get(padded..)?.first_chunk::<CRC_LENGTH>()?;
        if self.crc && Crc32c::of(&bytes[..LENGTH_FIELD + padded]) != u32::from_le_bytes(*field) {
            return None;
        }
        let wire_length = LENGTH_FIELD + padded + CRC_LENGTH;
        let end = StreamPosition(self.next.0 + wire_length as u64);
        Some(StraightFrame { ulpdu: &rest[..usize::from(ulpdu_length)], wire_length, start: self.next, end })
    }

    /// Goes past an FPDU of [`Deframer::straight`].
    #[inline]
    pub fn pass(&mut self, frame: &StraightFrame<'_>) {
        debug_assert_eq!(frame.start, self.next, "the frame is another FPDU");
        self.next = frame.end;
    }

    /// Goes past the FPDU of `head`.
    #[inline]
    pub fn advance(&mut self, head: &FrameHead) {
        debug_assert_eq!(head.start, self.next, "the head is of another FPDU");
        self.next = head.end;
    }
}
