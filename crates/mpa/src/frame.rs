//! A received FPDU, whole.

use weft_base::Digest;
use weft_wire::Crc32c;
use weft_wire::mpa::{LENGTH_FIELD, MARKER_LENGTH, marker_pointer};

use crate::shape::{BLOCK, Field, Shape};
use crate::{CrcDigest, FrameError, FrameHead, MarkerStripper};

/// A received FPDU, whole but not verified.
///
/// Either [`Frame::verify`] it and then take the [pieces](Frame::pieces); or take the pieces, feed each to a [`Crc32c`]
/// while copying, and [`Frame::check`] at the end.
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

    /// All its bytes on the wire.
    #[must_use]
    pub const fn wire_length(&self) -> usize {
        self.bytes.len()
    }

    /// The ULPDU, where no marker splits it.
    #[must_use]
    #[inline]
    pub fn contiguous(&self) -> Option<&'a [u8]> {
        if !self.shape.has_markers() {
            return Some(&self.bytes[LENGTH_FIELD..][..self.shape.ulpdu_length as usize]);
        }
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
        let bytes = self.bytes;
        self.shape.parts().map(move |(field, range)| match field {
            Field::Ulpdu => FramePiece::Ulpdu(&bytes[range]),
            _ => FramePiece::Overhead(&bytes[range]),
        })
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
        self.shape.check_crc(Crc32c::of(covered), field)?;
        self.check_markers()
    }

    /// As [`Frame::verify`], with a CRC that has been fed all [pieces](Frame::pieces). It is not checked when CRCs are
    /// off.
    ///
    /// # Errors
    /// The first thing that is wrong.
    #[inline]
    pub fn check(&self, crc: &Crc32c) -> Result<(), FrameError> {
        if self.crc {
            self.shape.check_crc(crc.value(), &self.bytes[self.shape.crc_offset()..])?;
        }
        self.check_markers()
    }

    /// Gives `place` the pieces of the ULPDU, in order, and checks CRC and markers, all in one pass: each block of a
    /// few KiB is summed up and then given away while it is in the cache. So what `place` gets is not verified yet.
    ///
    /// # Errors
    /// The first thing that is wrong, as [`Frame::verify`] says it. `place` has had all pieces then, too.
    #[inline]
    pub fn strip_markers(&self, mut place: impl FnMut(&[u8])) -> Result<(), FrameError> {
        let (mut crc_digest, mut marker_stripper) =
            (CrcDigest::of(self.shape, self.crc), MarkerStripper::of(self.shape));
        let (first, rest) = self.bytes.split_at(self.bytes.len().min(self.shape.first_block()));
        for block in core::iter::once(first).chain(rest.chunks(BLOCK)) {
            crc_digest.feed(block);
            marker_stripper.strip_markers(block, &mut place);
        }
        crc_digest.check()?;
        marker_stripper.check()
    }

    /// RFC 5044 section 8, error code 3: each marker agrees with the length fields on where the FPDU begins.
    fn check_markers(&self) -> Result<(), FrameError> {
        for at in self.shape.markers() {
            let Some(bytes) = self.bytes[at..].first_chunk::<MARKER_LENGTH>() else { continue };
            self.shape.check_marker(at, marker_pointer(*bytes))?;
        }
        Ok(())
    }
}

/// Checks an FPDU without markers whose payload was read straight into its place. `crc` has been fed everything before
/// the pad: length field, header, payload. `tail` is what came after it: [`FrameHead::tail_length`] bytes, pad and CRC
/// field. RFC 5044 section 4.1: the pad counts for the CRC and for nothing else.
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
    head.shape.check_crc(crc.value(), field)
}
