//! DDP segment headers (RFC 5041 section 4).

use weft_base::{MessageNumber, Stag};

use crate::bytes::{read_u32, read_u64, write_u32, write_u64};

/// Bytes of the header of a tagged segment: control, RDMAP control, STag, tagged offset.
pub const TAGGED_LENGTH: usize = 14;
/// Bytes of the header of an untagged segment: control, RDMAP control, RDMAP word, queue, message number, message offset.
pub const UNTAGGED_LENGTH: usize = 18;
/// The DDP version this module speaks (RFC 5041 section 4.1: 1).
pub const VERSION: u8 = 1;

const TAGGED: u8 = 0x80;
const LAST: u8 = 0x40;
const VERSION_MASK: u8 = 0x03;

/// The header of a DDP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whether this is the last segment of its message.
    pub last: bool,
    /// The byte that DDP keeps for the layer above: RDMAP's control (see [`crate::rdmap::Control`]).
    pub control: u8,
    /// Where the payload goes.
    pub target: Target,
}

/// The two buffer models of DDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A buffer that was announced by its STag.
    Tagged {
        /// The buffer.
        stag: Stag,
        /// Where in it the payload begins (TO).
        offset: u64,
    },
    /// The buffer that waits for this message on a queue.
    Untagged {
        /// The word that DDP keeps for the layer above: RDMAP's Invalidate STag.
        word: u32,
        /// QN.
        queue: u32,
        /// MSN.
        number: MessageNumber,
        /// Where in the message the payload begins (MO).
        offset: u32,
    },
}

/// Why bytes are no DDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// Fewer bytes than the header has: the segment is shorter than its own header.
    Short,
    /// The DDP version is not 1. Whether the segment says it is tagged decides the Terminate code.
    Version {
        /// What stands there.
        version: u8,
        /// The T bit.
        tagged: bool,
    },
}

impl Header {
    /// Reads the header at the start of a segment.
    ///
    /// # Errors
    /// When the segment is too short or of another version. Reserved bits are not looked at (RFC 5041 section 4.1).
    pub fn parse(segment: &[u8]) -> Result<Self, HeaderError> {
        let [first, control, ..] = *segment else { return Err(HeaderError::Short) };
        let tagged = first & TAGGED != 0;
        if first & VERSION_MASK != VERSION {
            return Err(HeaderError::Version { version: first & VERSION_MASK, tagged });
        }
        let target = if tagged { Self::parse_tagged(segment)? } else { Self::parse_untagged(segment)? };
        Ok(Self { last: first & LAST != 0, control, target })
    }

    fn parse_tagged(segment: &[u8]) -> Result<Target, HeaderError> {
        if segment.len() < TAGGED_LENGTH {
            return Err(HeaderError::Short);
        }
        Ok(Target::Tagged { stag: Stag(read_u32(segment, 2)), offset: read_u64(segment, 6) })
    }

    fn parse_untagged(segment: &[u8]) -> Result<Target, HeaderError> {
        if segment.len() < UNTAGGED_LENGTH {
            return Err(HeaderError::Short);
        }
        Ok(Target::Untagged {
            word: read_u32(segment, 2),
            queue: read_u32(segment, 6),
            number: MessageNumber(read_u32(segment, 10)),
            offset: read_u32(segment, 14),
        })
    }

    /// Bytes of this header.
    #[must_use]
    pub const fn length(&self) -> usize {
        match self.target {
            Target::Tagged { .. } => TAGGED_LENGTH,
            Target::Untagged { .. } => UNTAGGED_LENGTH,
        }
    }

    /// Writes the header at the start of `bytes` and returns its length. Reserved bits are zero (RFC 5041 section 4.1).
    ///
    /// # Panics
    /// When `bytes` is shorter than [`Header::length`].
    pub fn emit(&self, bytes: &mut [u8]) -> usize {
        let last = if self.last { LAST } else { 0 };
        bytes[1] = self.control;
        match self.target {
            Target::Tagged { stag, offset } => {
                bytes[0] = TAGGED | last | VERSION;
                write_u32(bytes, 2, stag.0);
                write_u64(bytes, 6, offset);
            }
            Target::Untagged { word, queue, number, offset } => {
                bytes[0] = last | VERSION;
                write_u32(bytes, 2, word);
                write_u32(bytes, 6, queue);
                write_u32(bytes, 10, number.0);
                write_u32(bytes, 14, offset);
            }
        }
        self.length()
    }
}
