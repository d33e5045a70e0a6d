//! What can be wrong with a received FPDU.

use core::fmt;

use weft_base::StreamPosition;
use weft_wire::terminate::TerminateCode;

/// What is wrong with a received FPDU. It and all that follow on the stream must not be delivered (RFC 5044 section 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// The CRC does not fit the bytes.
    Crc {
        /// Where the FPDU begins.
        start: StreamPosition,
        /// What the bytes give.
        computed: u32,
        /// The content of the CRC field.
        received: u32,
    },
    /// A marker points to another place than the length field of the FPDU that contains it.
    Marker {
        /// Where the marker is.
        position: StreamPosition,
        /// The distance in it, in bytes.
        pointer: u16,
        /// The distance there is.
        distance: u16,
    },
    /// The length field is so large that the markers in the FPDU cannot point back to it.
    TooLongForMarkers {
        /// Where the FPDU begins.
        start: StreamPosition,
        /// Bytes of ULPDU by its length field.
        ulpdu_length: u32,
    },
    /// The length field is so large that the FPDU overlaps another one, which a marker had pointed to and whose CRC was
    /// good.
    Overlap {
        /// Where the FPDU begins.
        start: StreamPosition,
        /// Where the other one begins.
        other: StreamPosition,
    },
}

impl FrameError {
    /// What a Terminate message says about it (RFC 5044 section 8).
    #[must_use]
    pub const fn terminate_code(&self) -> TerminateCode {
        match self {
            Self::Crc { .. } => TerminateCode::MpaCrc,
            // Marker and length field cannot agree on the start of the FPDU: error code 3 as well.
            Self::Marker { .. } | Self::TooLongForMarkers { .. } | Self::Overlap { .. } => TerminateCode::MpaMarker,
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crc { start, computed, received } => write!(
                f,
                "the FPDU at stream position {} is damaged: its CRC field says {received:#010x}, its bytes give \
                 {computed:#010x}",
                start.0
            ),
            Self::Marker { position, pointer, distance } => write!(
                f,
                "the marker at stream position {} points back {pointer} bytes, but its FPDU begins {distance} bytes \
                 before it",
                position.0
            ),
            Self::TooLongForMarkers { start, ulpdu_length } => write!(
                f,
                "the FPDU at stream position {} says that it carries {ulpdu_length} bytes, too many for markers to \
                 point back",
                start.0
            ),
            Self::Overlap { start, other } => write!(
                f,
                "the FPDU at stream position {} reaches over the one that a marker has found at {}",
                start.0, other.0
            ),
        }
    }
}

impl std::error::Error for FrameError {}
