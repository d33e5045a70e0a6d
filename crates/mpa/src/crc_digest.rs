//! The CRC of an FPDU that comes in parts.

use weft_base::Digest;
use weft_wire::Crc32c;
use weft_wire::mpa::CRC_LENGTH;

use crate::shape::Shape;
use crate::{FrameError, FrameHead, Layout};

/// The CRC of one FPDU, which is fed all bytes of it in the order of the stream, in any cuts. It knows where the CRC
/// field is, and that markers and pad count (RFC 5044 section 4.4). With CRCs off it does nothing and finds everything
/// good.
#[derive(Clone, Debug)]
pub struct CrcDigest {
    shape: Shape,
    crc: Option<Crc32c>,
    at: u32,
    field: [u8; CRC_LENGTH],
}

impl CrcDigest {
    /// For an FPDU to be sent.
    #[must_use]
    pub fn of_layout(layout: &Layout) -> Self {
        Self::of(layout.shape(), layout.crc())
    }

    /// For an FPDU that is being received. `crc`: either side wants CRCs.
    #[must_use]
    pub fn of_head(head: &FrameHead, crc: bool) -> Self {
        Self::of(head.shape, crc)
    }

    pub(crate) fn of(shape: Shape, crc: bool) -> Self {
        Self { shape, crc: crc.then(Crc32c::new), at: 0, field: [0; CRC_LENGTH] }
    }

    /// Bytes of the FPDU that are still to come.
    #[must_use]
    pub const fn left(&self) -> usize {
        (self.shape.wire_length - self.at) as usize
    }

    /// Takes the next bytes of the FPDU, as many as there are. The content of the CRC field is not summed up but kept.
    ///
    /// # Panics
    /// When they reach past the end of the FPDU.
    #[inline]
    pub fn feed(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.left(), "the bytes reach past the end of the FPDU");
        let at = self.at as usize;
        self.at += bytes.len() as u32;
        let Some(crc) = &mut self.crc else { return };
        let field_at = self.shape.crc_offset();
        let (covered, field) = bytes.split_at(bytes.len().min(field_at.saturating_sub(at)));
        if !covered.is_empty() {
            crc.update(covered);
        }
        if !field.is_empty() {
            let from = at.max(field_at) - field_at;
            self.field[from..from + field.len()].copy_from_slice(field);
        }
    }

    /// What belongs into the CRC field: zeros when CRCs are off.
    ///
    /// # Panics
    /// When bytes before the field are missing.
    #[must_use]
    pub fn finish(&self) -> [u8; CRC_LENGTH] {
        assert!(self.left() <= CRC_LENGTH, "{} bytes of the FPDU are missing", self.left());
        self.crc.as_ref().map_or([0; CRC_LENGTH], Crc32c::wire_bytes)
    }

    /// Compares with the CRC field that has come.
    ///
    /// # Errors
    /// The CRC does not fit.
    ///
    /// # Panics
    /// When bytes are missing.
    pub fn check(&self) -> Result<(), FrameError> {
        assert!(self.left() == 0, "{} bytes of the FPDU are missing", self.left());
        match &self.crc {
            Some(crc) => self.shape.check_crc(crc.value(), &self.field),
            None => Ok(()),
        }
    }
}
