//! Taking an FPDU apart as it comes: for receivers whose stages each do a part of the work.

use weft_wire::mpa::{MARKER_LENGTH, marker_pointer};

use crate::shape::{Field, Periods, Shape};
use crate::{FrameError, FrameHead};

/// One FPDU on its way to its place: how much of it has been parsed. Its bytes may come in any cuts; the pieces of its
/// ULPDU are given as they come. What they say is not verified: a [`CrcDigest`](crate::CrcDigest) that has had all
/// bytes says whether the CRC is good.
///
/// The markers are compared with the length field on the way. [`MarkerStripper::check`] returns the result, when the
/// CRC is known to be good.
#[derive(Clone, Debug)]
pub struct MarkerStripper {
    shape: Shape,
    at: u32,
    /// The received bytes of a marker.
    marker: [u8; MARKER_LENGTH],
    wrong: Option<FrameError>,
}

impl MarkerStripper {
    /// At the start of the FPDU.
    #[must_use]
    pub const fn new(head: &FrameHead) -> Self {
        Self::of(head.shape)
    }

    pub(crate) const fn of(shape: Shape) -> Self {
        Self { shape, at: 0, marker: [0; MARKER_LENGTH], wrong: None }
    }

    /// Bytes of the FPDU that have been taken apart.
    #[must_use]
    pub const fn taken(&self) -> usize {
        self.at as usize
    }

    /// Bytes of the FPDU that are still to come.
    #[must_use]
    pub const fn left(&self) -> usize {
        (self.shape.wire_length - self.at) as usize
    }

    /// Whether the whole FPDU has been taken apart.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.left() == 0
    }

    /// Takes the next bytes of the stream and gives `place` the pieces of the ULPDU in them, in order. Returns how many
    /// bytes that were: all, unless the FPDU ends before. When there are several pieces they go to one place after the
    /// other; a marker separates two of them.
    #[inline]
    pub fn strip_markers(&mut self, bytes: &[u8], mut place: impl FnMut(&[u8])) -> usize {
        let length = bytes.len().min(self.left());
        let mut rest = &bytes[..length];
        while !rest.is_empty() {
            let taken = match self.shape.periods_at(self.at, rest.len()) {
                Some(periods) => self.unweave_periods(&periods, rest, &mut place),
                None => self.unweave_part(rest, &mut place),
            };
            rest = &rest[taken..];
        }
        length
    }

    /// Whether each marker that has come agrees with the length field on where the FPDU begins. Only worth asking when
    /// the CRC is good (RFC 5044 section 8, error code 3).
    ///
    /// # Errors
    /// The first marker that doesn't.
    pub fn check(&self) -> Result<(), FrameError> {
        self.wrong.map_or(Ok(()), Err)
    }

    /// The bulk of a large FPDU: a marker and payload, again and again.
    #[inline]
    fn unweave_periods(&mut self, periods: &Periods, bytes: &[u8], place: &mut impl FnMut(&[u8])) -> usize {
        let length = periods.spacing * periods.count;
        let mut at = self.at;
        for period in bytes[..length].chunks_exact(periods.spacing) {
            let Some((marker, ulpdu)) = period.split_first_chunk() else { continue };
            self.compare(at, *marker);
            place(ulpdu);
            at += periods.spacing as u32;
        }
        self.at = at;
        length
    }

    #[inline]
    fn unweave_part(&mut self, bytes: &[u8], place: &mut impl FnMut(&[u8])) -> usize {
        let part = self.shape.part_at(self.at);
        let bytes = &bytes[..bytes.len().min(part.length as usize)];
        match part.field {
            Field::Ulpdu => place(bytes),
            Field::Marker => {
                let from = part.from as usize;
                self.marker[from..from + bytes.len()].copy_from_slice(bytes);
                if from + bytes.len() == MARKER_LENGTH {
                    self.compare(self.at - part.from, self.marker);
                }
            }
            Field::Length | Field::Pad | Field::Crc => {}
        }
        self.at += bytes.len() as u32;
        bytes.len()
    }

    #[inline]
    fn compare(&mut self, at: u32, marker: [u8; MARKER_LENGTH]) {
        if self.wrong.is_none() {
            self.wrong = self.shape.check_marker(at as usize, marker_pointer(marker)).err();
        }
    }
}
