//! The tasks of the way in, for a frame that is still coming: its CRC, and, decoupled, taking the markers out.

use weft_mpa::{FrameError, FrameHead, Tally, Unweaver};

/// A frame that is being received, as far as it is here.
pub(in crate::connection) struct Incoming {
    tally: Tally,
    unweaver: Unweaver,
    fed: usize,
}

impl Incoming {
    /// Nothing of it has been looked at.
    pub(in crate::connection) fn new(head: &FrameHead, crc: bool) -> Self {
        Self { tally: Tally::of_head(head, crc), unweaver: Unweaver::new(head), fed: 0 }
    }

    /// Takes what is new: `frame` are the bytes of the frame that are here, from its start. The ULPDU goes to `flat` without the markers, if there is
    /// such a place.
    pub(in crate::connection) fn advance(&mut self, frame: &[u8], flat: Option<&mut Vec<u8>>) {
        let new = &frame[self.fed..];
        self.fed = frame.len();
        self.tally.feed(new);
        match flat {
            Some(flat) => self.unweaver.unweave(new, |bytes| flat.extend_from_slice(bytes)),
            None => self.unweaver.unweave(new, |_| {}),
        };
    }

    /// All of it is here: whether it is good.
    pub(in crate::connection) fn check(&self) -> Result<(), FrameError> {
        self.tally.check()?;
        self.unweaver.check()
    }
}
