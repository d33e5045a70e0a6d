//! The tasks of the way in, for a frame that is still coming: its CRC, and, decoupled, taking the markers out.

use weft_mpa::{CrcDigest, FrameError, FrameHead, MarkerStripper};

/// A frame that is being received, as far as it is here.
pub(super) struct Incoming {
    crc_digest: CrcDigest,
    marker_stripper: MarkerStripper,
    fed: usize,
}

impl Incoming {
    /// Nothing of it has been read.
    pub(super) fn new(head: &FrameHead, crc: bool) -> Self {
        Self { crc_digest: CrcDigest::of_head(head, crc), marker_stripper: MarkerStripper::new(head), fed: 0 }
    }

    /// Takes what is new: `frame` are the bytes of the frame that are here, from its start. The ULPDU goes to `flat`
    /// without the markers, if there is such a place.
    pub(super) fn advance(&mut self, frame: &[u8], flat: Option<&mut Vec<u8>>) {
        let new = &frame[self.fed..];
        self.fed = frame.len();
        self.crc_digest.feed(new);
        match flat {
            Some(flat) => self.marker_stripper.strip_markers(new, |bytes| flat.extend_from_slice(bytes)),
            None => self.marker_stripper.strip_markers(new, |_| {}),
        };
    }

    /// All of it is here: whether it is good.
    pub(super) fn check(&self) -> Result<(), FrameError> {
        self.crc_digest.check()?;
        self.marker_stripper.check()
    }
}
