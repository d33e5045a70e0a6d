//! DDP segment headers (RFC 5041 section 4).

use weft_base::{MessageNumber, Stag};

use crate::bytes::{read_u32, read_u64, write_u32, write_u64};

/// Bytes of the header of a tagged segment: control, RDMAP control, STag, tagged offset.
pub const TAGGED_LENGTH: usize = 14;
/// Bytes of the header of an untagged segment: control, RDMAP control, RDMAP word, queue, message number, message
/// offset.
pub const UNTAGGED_LENGTH: usize = 18;
/// The DDP version this module speaks (RFC 5041 section 4.1: 1).
pub const VERSION: u8 = 1;

pub(crate) const TAGGED: u8 = 0x80;
pub(crate) const LAST: u8 = 0x40;
const VERSION_MASK: u8 = 0x03;

/// Where each field begins, in bytes.
mod field {
    pub(super) const DDP_CONTROL: usize = 0;
    pub(super) const RDMAP_CONTROL: usize = 1;
    // Tagged (RFC 5041 figure 4).
    pub(super) const STAG: usize = 2;
    pub(super) const TAGGED_OFFSET: usize = 6;
    // Untagged (RFC 5041 figure 5).
    pub(super) const RDMAP_WORD: usize = 2;
    pub(super) const QUEUE: usize = 6;
    pub(super) const MESSAGE_NUMBER: usize = 10;
    pub(super) const MESSAGE_OFFSET: usize = 14;
}

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
        /// The version in the header.
        version: u8,
        /// The T bit.
        tagged: bool,
    },
}

impl Header {
    /// Reads the header at the start of a segment.
    ///
    /// # Errors
    /// When the segment is too short or of another version. Reserved bits are ignored (RFC 5041 section 4.1).
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
        Ok(Target::Tagged {
            stag: Stag(read_u32(segment, field::STAG)),
            offset: read_u64(segment, field::TAGGED_OFFSET),
        })
    }

    fn parse_untagged(segment: &[u8]) -> Result<Target, HeaderError> {
        if segment.len() < UNTAGGED_LENGTH {
            return Err(HeaderError::Short);
        }
        Ok(Target::Untagged {
            word: read_u32(segment, field::RDMAP_WORD),
            queue: read_u32(segment, field::QUEUE),
            number: MessageNumber(read_u32(segment, field::MESSAGE_NUMBER)),
            offset: read_u32(segment, field::MESSAGE_OFFSET),
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
        bytes[field::RDMAP_CONTROL] = self.control;
        match self.target {
            Target::Tagged { stag, offset } => {
                bytes[field::DDP_CONTROL] = TAGGED | last | VERSION;
                write_u32(bytes, field::STAG, stag.0);
                write_u64(bytes, field::TAGGED_OFFSET, offset);
            }
            Target::Untagged { word, queue, number, offset } => {
                bytes[field::DDP_CONTROL] = last | VERSION;
                write_u32(bytes, field::RDMAP_WORD, word);
                write_u32(bytes, field::QUEUE, queue);
                write_u32(bytes, field::MESSAGE_NUMBER, number.0);
                write_u32(bytes, field::MESSAGE_OFFSET, offset);
            }
        }
        self.length()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WRITE: Header = Header {
        last: true,
        control: 0x40,
        target: Target::Tagged { stag: Stag(0x0102_0304), offset: 0x1112_1314_1516_1718 },
    };
    const WRITE_BYTES: [u8; TAGGED_LENGTH] =
        [0xc1, 0x40, 0x01, 0x02, 0x03, 0x04, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18];

    const SEND: Header = Header {
        last: false,
        control: 0x44,
        target: Target::Untagged {
            word: 0xa1a2_a3a4,
            queue: 0xb1b2_b3b4,
            number: MessageNumber(0xc1c2_c3c4),
            offset: 0xd1d2_d3d4,
        },
    };
    const SEND_BYTES: [u8; UNTAGGED_LENGTH] =
        [0x01, 0x44, 0xa1, 0xa2, 0xa3, 0xa4, 0xb1, 0xb2, 0xb3, 0xb4, 0xc1, 0xc2, 0xc3, 0xc4, 0xd1, 0xd2, 0xd3, 0xd4];

    #[test]
    fn exact_bytes_of_both_headers_both_ways() {
        for (header, expected) in [(WRITE, WRITE_BYTES.as_slice()), (SEND, SEND_BYTES.as_slice())] {
            let mut bytes = [0xa5; 24];
            let length = header.emit(&mut bytes);
            assert_eq!(&bytes[..length], expected);
            assert!(bytes[length..].iter().all(|byte| *byte == 0xa5), "wrote past the header");
            assert_eq!(Header::parse(expected), Ok(header));
            assert_eq!(header.length(), expected.len());
        }
    }

    #[test]
    fn reserved_bits_are_written_zero_and_not_read() {
        let mut bytes = WRITE_BYTES;
        bytes[0] |= 0x3c;
        assert_eq!(Header::parse(&bytes), Ok(WRITE));
        let mut again = [0xa5; TAGGED_LENGTH];
        WRITE.emit(&mut again);
        assert_eq!(again[0] & 0x3c, 0);
    }

    #[test]
    fn a_segment_shorter_than_its_header_is_refused() {
        for bytes in [WRITE_BYTES.as_slice(), SEND_BYTES.as_slice()] {
            for length in 0..bytes.len() {
                assert_eq!(Header::parse(&bytes[..length]), Err(HeaderError::Short));
            }
        }
    }

    #[test]
    fn any_version_but_one_is_refused_and_says_which_buffer_model_it_was() {
        for version in [0, 2, 3] {
            for tagged in [false, true] {
                let first = if tagged { 0x80 } else { 0 } | version;
                let error = Err(HeaderError::Version { version, tagged });
                assert_eq!(Header::parse(&[first, 0]), error);
            }
        }
    }

    fn target() -> impl Strategy<Value = Target> {
        prop_oneof![
            (any::<u32>(), any::<u64>()).prop_map(|(stag, offset)| Target::Tagged { stag: Stag(stag), offset }),
            (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(word, queue, number, offset)| {
                Target::Untagged { word, queue, number: MessageNumber(number), offset }
            }),
        ]
    }

    proptest! {
        #[test]
        fn every_header_survives_the_wire(last: bool, control: u8, target in target()) {
            let header = Header { last, control, target };
            let mut bytes = [0xa5; UNTAGGED_LENGTH];
            let length = header.emit(&mut bytes);
            prop_assert_eq!(Header::parse(&bytes[..length]), Ok(header));
        }

        #[test]
        fn any_bytes_parse_without_panic_and_what_parses_emits_the_same(bytes: Vec<u8>) {
            if let Ok(header) = Header::parse(&bytes) {
                let mut again = [0xa5; UNTAGGED_LENGTH];
                let length = header.emit(&mut again);
                prop_assert_eq!(again[0], bytes[0] & !0x3c);
                prop_assert_eq!(&again[1..length], &bytes[1..length]);
            }
        }
    }
}
