//! A received FPDU, whole.

use weft_base::Digest;
use weft_wire::Crc32c;
use weft_wire::mpa::{CRC_LENGTH, MARKER_LENGTH, marker_pointer};

use crate::shape::{Shape, Span, Spans};
use crate::{FrameError, FrameHead};

/// A received FPDU, whole but not verified.
///
/// Either [`Frame::verify`] it and then take the [pieces](Frame::pieces); or take the pieces, feed each to a [`Crc32c`] while copying,
/// and [`Frame::check`] at the end.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    shape: Shape,
    crc: bool,
    bytes: &'a [u8],
}

/// A piece of an FPDU, in the order of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramePiece<'a> {
    /// Length field, marker or pad: part of what the CRC covers, but no payload.
    Overhead(&'a [u8]),
    /// The next bytes of the ULPDU.
    Ulpdu(&'a [u8]),
}

impl<'a> Frame<'a> {
    /// `bytes` are exactly the FPDU's.
    pub(crate) const fn new(shape: Shape, crc: bool, bytes: &'a [u8]) -> Self {
        debug_assert!(bytes.len() == shape.wire_length as usize);
        Self { shape, crc, bytes }
    }

    /// Bytes of the ULPDU.
    #[must_use]
    pub const fn ulpdu_length(&self) -> u32 {
        self.shape.ulpdu_length
    }

    /// The ULPDU, where no marker splits it.
    #[must_use]
    pub fn contiguous(&self) -> Option<&'a [u8]> {
        let mut pieces = self.ulpdu();
        match (pieces.next(), pieces.next()) {
            (None, _) => Some(&[]),
            (piece, None) => piece,
            _ => None,
        }
    }

    /// Everything the CRC covers, in pieces.
    #[inline]
    pub fn pieces(&self) -> impl Iterator<Item = FramePiece<'a>> + use<'a> {
        Pieces { bytes: self.bytes, spans: self.shape.spans() }
    }

    /// The ULPDU, in pieces.
    #[inline]
    pub fn ulpdu(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.pieces().filter_map(|piece| match piece {
            FramePiece::Ulpdu(bytes) => Some(bytes),
            FramePiece::Overhead(_) => None,
        })
    }

    /// Checks the CRC, when CRCs are on, and then the markers.
    ///
    /// # Errors
    /// The first thing that is wrong.
    #[inline]
    pub fn verify(&self) -> Result<(), FrameError> {
        // RFC 5044 section 8: a marker is an error of its own only where the CRC is good.
        if !self.crc {
            return self.check_markers();
        }
        let (covered, field) = self.bytes.split_at(self.shape.crc_offset());
        check_crc(&self.shape, Crc32c::of(covered), field)?;
        self.check_markers()
    }

    /// As [`Frame::verify`], with a CRC that has been fed all [pieces](Frame::pieces). It is not looked at when CRCs are off.
    ///
    /// # Errors
    /// The first thing that is wrong.
    #[inline]
    pub fn check(&self, crc: &Crc32c) -> Result<(), FrameError> {
        if self.crc {
            check_crc(&self.shape, crc.value(), &self.bytes[self.shape.crc_offset()..])?;
        }
        self.check_markers()
    }

    /// RFC 5044 section 8, error code 3: each marker agrees with the length fields on where the FPDU begins.
    fn check_markers(&self) -> Result<(), FrameError> {
        for at in self.shape.markers() {
            let Some(bytes) = self.bytes[at..].first_chunk::<MARKER_LENGTH>() else { continue };
            let pointer = marker_pointer(*bytes);
            let Some(distance) = self.shape.pointer(at) else { continue };
            if pointer != distance {
                return Err(FrameError::Marker { position: self.shape.start + at as u64, pointer, distance });
            }
        }
        Ok(())
    }
}

/// Checks an FPDU without markers whose payload was read straight into its place. `crc` has been fed everything before the pad: length field, header,
/// payload. `tail` is what came after it: [`FrameHead::tail_length`] bytes, pad and CRC field. RFC 5044 section 4.1: the pad counts for the CRC and for nothing else.
///
/// # Errors
/// The CRC does not fit.
///
/// # Panics
/// When `tail` has another length, or the FPDU holds markers.
pub fn check_tail(mut crc: Crc32c, crc_on: bool, head: &FrameHead, tail: &[u8]) -> Result<(), FrameError> {
    assert!(!head.shape.has_markers(), "an FPDU with markers cannot be read straight into its place");
    assert_eq!(tail.len(), head.tail_length(), "pad and CRC field");
    if !crc_on {
        return Ok(());
    }
    let (pad, field) = tail.split_at(head.shape.pad_length());
    if !pad.is_empty() {
        crc.update(pad);
    }
    check_crc(&head.shape, crc.value(), field)
}

/// Compares with the CRC field (RFC 5044 section 4.4).
#[inline]
fn check_crc(shape: &Shape, computed: u32, field: &[u8]) -> Result<(), FrameError> {
    debug_assert_eq!(field.len(), CRC_LENGTH);
    let mut received = [0; CRC_LENGTH];
    received.copy_from_slice(field);
    let received = u32::from_le_bytes(received);
    if received == computed { Ok(()) } else { Err(FrameError::Crc { start: shape.start, computed, received }) }
}

/// See [`Frame::pieces`].
struct Pieces<'a> {
    bytes: &'a [u8],
    spans: Spans,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = FramePiece<'a>;

    #[inline]
    fn next(&mut self) -> Option<FramePiece<'a>> {
        let span = self.spans.next()?;
        let bytes = &self.bytes[span.range()];
        Some(if matches!(span, Span::Ulpdu { .. }) { FramePiece::Ulpdu(bytes) } else { FramePiece::Overhead(bytes) })
    }
}
