//! Writing an FPDU in parts, as it comes: for senders whose stages each do a part of the work.

use arrayvec::ArrayVec;
use weft_base::NoDigest;
use weft_wire::mpa::{MARKER_LENGTH, marker};

use crate::shape::{Field, Periods, Shape};
use crate::{Layout, Source};

/// One FPDU on its way into memory: how far it is written, and what comes next. Neither header nor payload is kept, so
/// it can wait beside a connection until more of them is there or there is more room.
///
/// The CRC field becomes a hole of zeros. [`CrcDigest`](crate::CrcDigest) gives what belongs there.
#[derive(Clone, Debug)]
pub struct MarkerInserter {
    shape: Shape,
    at: u32,
}

/// What comes next in an FPDU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes of a marker: all four, unless they are cut.
    Marker(ArrayVec<u8, 4>),
    /// These bytes of the length field: both, unless they are cut.
    Length(ArrayVec<u8, 4>),
    /// Bytes of the ULPDU.
    Ulpdu {
        /// How many of its bytes come before.
        from: usize,
        /// How many these are.
        length: usize,
    },
    /// Zeros.
    Pad {
        /// Bytes.
        length: usize,
    },
    /// Bytes of the CRC field: zeros for now.
    CrcHole {
        /// Bytes.
        length: usize,
    },
}

impl Piece {
    /// Bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        match self {
            Self::Marker(bytes) | Self::Length(bytes) => bytes.len(),
            Self::Ulpdu { length, .. } | Self::Pad { length } | Self::CrcHole { length } => *length,
        }
    }
}

impl MarkerInserter {
    /// At the start of the FPDU.
    #[must_use]
    pub const fn new(layout: &Layout) -> Self {
        Self { shape: layout.shape(), at: 0 }
    }

    /// Bytes of the FPDU that are written.
    #[must_use]
    pub const fn written(&self) -> usize {
        self.at as usize
    }

    /// Bytes of the FPDU that are not written yet.
    #[must_use]
    pub const fn left(&self) -> usize {
        (self.shape.wire_length - self.at) as usize
    }

    /// Whether the whole FPDU is written.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.left() == 0
    }

    /// How many more bytes can be written when the first `ulpdu_there` bytes of the ULPDU, its header included, are
    /// there: for a stage that works on what the one before it has done so far.
    #[must_use]
    pub fn reach(&self, ulpdu_there: usize) -> usize {
        let ulpdu_there = u32::try_from(ulpdu_there).unwrap_or(u32::MAX);
        self.shape.reach(ulpdu_there).saturating_sub(self.at) as usize
    }

    /// Advances past the next piece, by at most `at_most` bytes: for callers that write piece by piece. `None` when the
    /// FPDU is done, or `at_most` is zero.
    #[inline]
    pub fn next_piece(&mut self, at_most: usize) -> Option<Piece> {
        if self.is_done() || at_most == 0 {
            return None;
        }
        let part = self.shape.part_at(self.at);
        let (from, length) = (part.from as usize, at_most.min(part.length as usize));
        let word = |bytes: &[u8]| bytes[from..from + length].iter().copied().collect();
        let piece = match part.field {
            // RFC 5044 section 4.3: each marker points to the length field of the FPDU that contains it.
            Field::Marker => Piece::Marker(word(&self.marker(self.at - part.from))),
            Field::Length => Piece::Length(word(&self.shape.length_field())),
            Field::Ulpdu => Piece::Ulpdu { from, length },
            Field::Pad => Piece::Pad { length },
            Field::Crc => Piece::CrcHole { length },
        };
        self.at += length as u32;
        Some(piece)
    }

    /// Fills `out` with the next bytes of the FPDU and returns how many: all of `out`, unless the FPDU ends. The ULPDU
    /// is `header`, which is the same each time, and then what `payload` gives, which continues where it was.
    ///
    /// # Errors
    /// Those of the source. The FPDU is of no use then.
    ///
    /// # Panics
    /// When `header` is longer than the ULPDU.
    pub fn insert_markers<S: Source>(
        &mut self,
        header: &[u8],
        payload: &mut S,
        out: &mut [u8],
    ) -> Result<usize, S::Error> {
        assert!(
            header.len() <= self.shape.ulpdu_length as usize,
            "the header is longer than the ULPDU that was laid out"
        );
        let length = out.len().min(self.left());
        let mut rest = &mut out[..length];
        while !rest.is_empty() {
            let taken = match self.shape.periods_at(self.at, rest.len()) {
                Some(periods) if periods.ulpdu_from >= header.len() => self.weave_periods(&periods, payload, rest)?,
                _ => self.weave_piece(header, payload, rest)?,
            };
            rest = &mut rest[taken..];
        }
        Ok(length)
    }

    /// The bulk of a large FPDU: a marker and payload, again and again.
    #[inline]
    fn weave_periods<S: Source>(
        &mut self,
        periods: &Periods,
        payload: &mut S,
        out: &mut [u8],
    ) -> Result<usize, S::Error> {
        let length = periods.spacing * periods.count;
        for (at, period) in (self.at..).step_by(periods.spacing).zip(out[..length].chunks_exact_mut(periods.spacing)) {
            let (first, rest) = period.split_at_mut(MARKER_LENGTH);
            first.copy_from_slice(&self.marker(at));
            payload.copy(rest, &mut NoDigest)?;
        }
        self.at += length as u32;
        Ok(length)
    }

    #[inline]
    fn weave_piece<S: Source>(&mut self, header: &[u8], payload: &mut S, out: &mut [u8]) -> Result<usize, S::Error> {
        let Some(piece) = self.next_piece(out.len()) else { return Ok(0) };
        let out = &mut out[..piece.length()];
        match &piece {
            Piece::Marker(bytes) | Piece::Length(bytes) => out.copy_from_slice(bytes),
            Piece::Ulpdu { from, length } => {
                let header = header.get(*from..).unwrap_or_default();
                let header = &header[..header.len().min(*length)];
                let (first, rest) = out.split_at_mut(header.len());
                first.copy_from_slice(header);
                if !rest.is_empty() {
                    payload.copy(rest, &mut NoDigest)?;
                }
            }
            // RFC 5044 section 4.1: the pad is zero.
            Piece::Pad { .. } | Piece::CrcHole { .. } => out.fill(0),
        }
        Ok(out.len())
    }

    #[inline]
    fn marker(&self, at: u32) -> [u8; MARKER_LENGTH] {
        // The framer lays out no FPDU that is too long for its markers.
        marker(self.shape.pointer(at as usize).unwrap_or(0))
    }
}
