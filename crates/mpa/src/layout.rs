//! Writing an FPDU.

use core::convert::Infallible;

use weft_base::{Digest, NoDigest, StreamPosition};
use weft_wire::Crc32c;
use weft_wire::mpa::{CRC_LENGTH, LENGTH_FIELD};

use crate::MarkerInserter;
use crate::shape::{BLOCK, Shape};

/// Where an FPDU's payload comes from.
pub trait Source {
    /// Why the payload could not be had.
    type Error;

    /// Copies the next `out.len()` bytes of the payload into `out`, and feeds them to the digest.
    ///
    /// # Errors
    /// The payload could not be had. What `out` then holds is of no use.
    fn copy<D: Digest>(&mut self, out: &mut [u8], digest: &mut D) -> Result<(), Self::Error>;
}

/// The bytes from the front. Asking for more than there are is a panic.
impl Source for &[u8] {
    type Error = Infallible;

    #[inline]
    fn copy<D: Digest>(&mut self, out: &mut [u8], digest: &mut D) -> Result<(), Infallible> {
        let (now, rest) = self.split_at(out.len());
        for (to, from) in out.chunks_mut(BLOCK).zip(now.chunks(BLOCK)) {
            to.copy_from_slice(from);
            digest.update(to);
        }
        *self = rest;
        Ok(())
    }
}

/// One FPDU laid out at its place in the stream by [`Framer::frame`](crate::Framer::frame). FPDUs must be sent in the
/// order in which they were laid out.
///
/// [`Layout::write`] works on any stream. Without markers in the FPDU ([`Layout::is_straight`]) its payload can also
/// stay where it is: send what [`Layout::write_head`] writes, then the payload, then what [`Layout::write_tail`]
/// writes. Or it is written where it is to stand before all else, and [`Layout::write_around`] makes the FPDU around
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    shape: Shape,
    crc: bool,
}

impl Layout {
    pub(crate) const fn new(shape: Shape, crc: bool) -> Self {
        Self { shape, crc }
    }

    pub(crate) const fn shape(&self) -> Shape {
        self.shape
    }

    /// Whether its CRC field holds a CRC.
    #[must_use]
    pub const fn crc(&self) -> bool {
        self.crc
    }

    /// All bytes on the wire: leading marker, length field, ULPDU, markers, pad, CRC field.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.shape.wire_length as usize
    }

    /// Bytes of the ULPDU.
    #[must_use]
    pub const fn ulpdu_length(&self) -> u32 {
        self.shape.ulpdu_length
    }

    /// Where in the stream it begins.
    #[must_use]
    pub const fn start(&self) -> StreamPosition {
        self.shape.start
    }

    /// Whether no marker stands in it: length field, ULPDU, pad and CRC follow one another.
    #[must_use]
    pub const fn is_straight(&self) -> bool {
        !self.shape.has_markers()
    }

    /// Writes the whole FPDU to the first [`Layout::length`] bytes of `out`. The ULPDU is `header` and then as many
    /// payload bytes as are missing to [`Layout::ulpdu_length`].
    ///
    /// # Errors
    /// Those of the source.
    ///
    /// # Panics
    /// When `out` is too short, or `header` is longer than the ULPDU.
    #[inline]
    pub fn write<S: Source>(&self, header: &[u8], payload: &mut S, out: &mut [u8]) -> Result<(), S::Error> {
        let (covered, field) = out[..self.length()].split_at_mut(self.shape.crc_offset());
        let checksum = if self.shape.has_markers() {
            self.insert_markers(header, payload, covered)?
        } else {
            self.lay_straight(header, payload, covered)?
        };
        field.copy_from_slice(&checksum);
        Ok(())
    }

    /// Makes an FPDU around a payload that stands in `out` already, behind the place of the length field and of
    /// `header`: writes these, the pad and the CRC field, so that the first [`Layout::length`] bytes of `out` are the
    /// whole FPDU.
    ///
    /// # Panics
    /// When the FPDU is not [straight](Layout::is_straight), `out` is too short, or `header` is longer than the ULPDU.
    pub fn write_around(&self, header: &[u8], out: &mut [u8]) {
        self.write_head(header, out);
        let (covered, field) = out[..self.length()].split_at_mut(self.shape.crc_offset());
        let pad = covered.len() - self.shape.pad_length();
        if pad < covered.len() {
            covered[pad..].fill(0);
        }
        let checksum = if self.crc { Crc32c::of(covered).to_le_bytes() } else { [0; CRC_LENGTH] };
        field.copy_from_slice(&checksum);
    }

    /// Writes everything before the CRC field where no marker stands in it, and returns the field.
    #[inline]
    fn lay_straight<S: Source>(
        &self,
        header: &[u8],
        payload: &mut S,
        covered: &mut [u8],
    ) -> Result<[u8; CRC_LENGTH], S::Error> {
        let ulpdu_end = LENGTH_FIELD + self.shape.ulpdu_length as usize;
        // RFC 5044 section 4.1: the pad is zero. The whole last word is, until the ULPDU takes its part of it: that is
        // one store.
        if let Some(last_word) = covered.last_chunk_mut::<4>() {
            *last_word = [0; 4];
        }
        let (before, rest) = covered.split_at_mut(LENGTH_FIELD + header.len());
        before[..LENGTH_FIELD].copy_from_slice(&self.shape.length_field());
        before[LENGTH_FIELD..].copy_from_slice(header);
        let (body, pad) = rest.split_at_mut(ulpdu_end - before.len());
        if !self.crc {
            payload.copy(body, &mut NoDigest)?;
            return Ok([0; CRC_LENGTH]);
        }
        if body.len() <= BLOCK {
            payload.copy(body, &mut NoDigest)?;
            return Ok(Crc32c::of(covered).to_le_bytes());
        }
        let mut crc = Crc32c::new();
        crc.update(before);
        payload.copy(body, &mut crc)?;
        crc.update(pad);
        Ok(crc.wire_bytes())
    }

    /// Writes everything before the CRC field with the markers worked in, and returns the field: in blocks, each of
    /// which is summed up while it is in the cache.
    fn insert_markers<S: Source>(
        &self,
        header: &[u8],
        payload: &mut S,
        covered: &mut [u8],
    ) -> Result<[u8; CRC_LENGTH], S::Error> {
        let mut marker_inserter = MarkerInserter::new(self);
        if !self.crc {
            marker_inserter.insert_markers(header, payload, covered)?;
            return Ok([0; CRC_LENGTH]);
        }
        let mut crc = Crc32c::new();
        let (first, rest) = covered.split_at_mut(covered.len().min(self.shape.first_block()));
        for block in core::iter::once(first).chain(rest.chunks_mut(BLOCK)) {
            marker_inserter.insert_markers(header, payload, block)?;
            crc.update(block);
        }
        Ok(crc.wire_bytes())
    }

    /// Writes length field and `header` at the start of `out` and returns how many bytes that is.
    ///
    /// # Panics
    /// When the FPDU is not [straight](Layout::is_straight), `out` is too short, or `header` is longer than the ULPDU.
    pub fn write_head(&self, header: &[u8], out: &mut [u8]) -> usize {
        assert!(self.is_straight(), "an FPDU with markers in it cannot be gathered");
        assert!(
            header.len() <= self.shape.ulpdu_length as usize,
            "the header is longer than the ULPDU that was laid out"
        );
        let end = LENGTH_FIELD + header.len();
        out[..LENGTH_FIELD].copy_from_slice(&self.shape.length_field());
        out[LENGTH_FIELD..end].copy_from_slice(header);
        end
    }

    /// Writes what follows the payload, pad and CRC field, at the start of `out` and returns how many bytes that is (4
    /// to 7). `crc` has been fed what [`Layout::write_head`] wrote, and the payload; the pad is fed here. With CRCs off
    /// it is not looked at, and the field is zero.
    ///
    /// # Panics
    /// When the FPDU is not [straight](Layout::is_straight).
    pub fn write_tail(&self, crc: &Crc32c, out: &mut [u8; 8]) -> usize {
        assert!(self.is_straight(), "an FPDU with markers in it cannot be gathered");
        let pad = self.shape.pad_length();
        *out = [0; 8];
        if self.crc {
            let checksum = if pad == 0 {
                crc.wire_bytes()
            } else {
                let mut crc = crc.clone();
                crc.update(&[0; 3][..pad]);
                crc.wire_bytes()
            };
            out[pad..pad + CRC_LENGTH].copy_from_slice(&checksum);
        }
        pad + CRC_LENGTH
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Framer, MarkerSpacing};

    const STANDARD: Option<MarkerSpacing> = Some(MarkerSpacing::Standard);

    /// The DDP header of both examples of RFC 5044 section 4.4; the payload is 24 zero bytes.
    const fn header(message: u8) -> [u8; 18] {
        [0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, message, 0, 0, 0, 0]
    }

    fn written(layout: &Layout, header: &[u8], mut payload: &[u8]) -> Vec<u8> {
        let mut out = vec![0xa5; layout.length() + 3];
        let Ok(()) = layout.write(header, &mut payload, &mut out);
        assert!(payload.is_empty());
        assert_eq!(out.split_off(layout.length()), [0xa5; 3], "written beyond the FPDU");
        out
    }

    fn gathered(layout: &Layout, header: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut head = [0xa5; 64];
        let length = layout.write_head(header, &mut head);
        let mut crc = Crc32c::new();
        crc.update(&head[..length]);
        crc.update(payload);
        let mut tail = [0xa5; 8];
        let tail_length = layout.write_tail(&crc, &mut tail);
        [&head[..length], payload, &tail[..tail_length]].concat()
    }

    fn written_around(layout: &Layout, header: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut out = vec![0xa5; layout.length() + 3];
        let start = LENGTH_FIELD + header.len();
        out[start..start + payload.len()].copy_from_slice(payload);
        layout.write_around(header, &mut out);
        assert_eq!(out.split_off(layout.length()), [0xa5; 3], "written beyond the FPDU");
        out
    }

    #[test]
    fn first_example_of_the_standard() {
        let layout = Framer::new(STANDARD, true).frame(42);
        let mut expected = vec![0, 0, 0, 0, 0, 0x2a];
        expected.extend(header(1));
        expected.extend([0; 24]);
        expected.extend([0x52, 0x23, 0x99, 0x83]);
        assert_eq!(written(&layout, &header(1), &[0; 24]), expected);
    }

    #[test]
    fn second_example_of_the_standard() {
        let mut framer = Framer::new(STANDARD, true);
        // A first FPDU of 492 bytes: leading marker, length field, 482 bytes of ULPDU, CRC.
        assert_eq!(framer.frame(482).length(), 492);
        assert_eq!(framer.position(), StreamPosition(0x1ec));
        let layout = framer.frame(42);
        let mut expected = vec![0, 0x2a];
        expected.extend(header(2));
        expected.extend([0, 0, 0, 0x14]);
        expected.extend([0; 24]);
        expected.extend([0x84, 0x92, 0x58, 0x98]);
        assert_eq!(written(&layout, &header(2), &[0; 24]), expected);
    }

    #[test]
    fn without_crc_the_field_is_zero() {
        let layout = Framer::new(None, false).frame(3);
        assert_eq!(written(&layout, &[1], &[2, 3]), [0, 3, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(gathered(&layout, &[1], &[2, 3]), [0, 3, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn an_empty_ulpdu_has_a_frame() {
        let layout = Framer::new(None, true).frame(0);
        assert_eq!(layout.length(), 8);
        assert_eq!(written(&layout, &[], &[])[..4], [0; 4]);
    }

    proptest! {
        #[test]
        fn all_ways_of_writing_give_the_same(
            header in prop::collection::vec(any::<u8>(), 0..40),
            payload in prop::collection::vec(any::<u8>(), 0..20_000),
            crc: bool,
        ) {
            let layout = Framer::new(None, crc).frame((header.len() + payload.len()) as u32);
            let whole = written(&layout, &header, &payload);
            prop_assert_eq!(&gathered(&layout, &header, &payload), &whole);
            prop_assert_eq!(&written_around(&layout, &header, &payload), &whole);
        }
    }

    struct Broken;

    impl Source for Broken {
        type Error = &'static str;

        fn copy<D: Digest>(&mut self, _: &mut [u8], _: &mut D) -> Result<(), &'static str> {
            Err("gone")
        }
    }

    #[test]
    fn the_sources_error_is_the_writers() {
        for markers in [None, STANDARD] {
            let layout = Framer::new(markers, true).frame(9000);
            assert_eq!(layout.write(&[], &mut Broken, &mut [0; 10_000]), Err("gone"));
        }
    }

    #[test]
    #[should_panic(expected = "cannot be gathered")]
    fn nothing_is_written_around_a_payload_with_markers() {
        Framer::new(STANDARD, true).frame(10).write_around(&[], &mut [0; 24]);
    }

    #[test]
    #[should_panic(expected = "cannot be gathered")]
    fn an_fpdu_with_markers_is_not_gathered() {
        let _ = Framer::new(STANDARD, true).frame(10).write_head(&[], &mut [0; 8]);
    }
}
