//! Laying out the FPDUs of a stream, one after the other.

use weft_base::StreamPosition;
use weft_wire::mpa::max_ulpdu;

use crate::Layout;
use crate::shape::Grid;

/// RFC 5044 section 4.5: however small the packets of a path are, a ULPDU may be this long, in bytes.
const LEAST_MAX_ULPDU: u32 = 128;

/// The sending end of one direction of a stream: knows where the next FPDU begins.
#[derive(Clone, Debug)]
pub struct Framer {
    grid: Grid,
    crc: bool,
    next: StreamPosition,
}

impl Framer {
    /// At the start of the stream, right after the start-up frames. `markers`: the peer wants them (RFC 5044 section 7.1.1, M).
    /// `crc`: either side wants CRCs (RFC 5044 section 7.1.1, C).
    #[must_use]
    pub const fn new(markers: bool, crc: bool) -> Self {
        Self { grid: Grid::new(markers), crc, next: StreamPosition(0) }
    }

    /// Where the next FPDU begins.
    #[must_use]
    pub const fn position(&self) -> StreamPosition {
        self.next
    }

    /// Whether markers are worked in.
    #[must_use]
    pub const fn markers(&self) -> bool {
        self.grid.has_markers()
    }

    /// Whether CRCs are computed.
    #[must_use]
    pub const fn crc(&self) -> bool {
        self.crc
    }

    /// The longest ULPDU to send, in bytes. By the path: so that its FPDU fits one packet of `emss` payload bytes (RFC 5044 section 4.5),
    /// but at least 128 bytes even when it then doesn't (same section). With `large`, which only peers that agreed on
    /// [large FPDUs](crate::Extensions::large_fpdus) may set, the path does not count: [`Framer::largest_ulpdu`].
    #[must_use]
    pub fn max_ulpdu(&self, emss: u32, large: bool) -> u32 {
        let largest = self.largest_ulpdu();
        if large { largest } else { max_ulpdu(emss, self.markers()).clamp(LEAST_MAX_ULPDU, largest) }
    }

    /// The longest ULPDU that can be laid out, in bytes: 65534 without markers (what the length field says, without pad), 65022 with them
    /// (so that each marker can point back to the length field).
    #[must_use]
    pub const fn largest_ulpdu(&self) -> u32 {
        self.grid.largest_ulpdu()
    }

    /// Lays out the next FPDU for a ULPDU of this many bytes.
    ///
    /// # Panics
    /// When the ULPDU is longer than [`Framer::largest_ulpdu`].
    #[inline]
    pub fn frame(&mut self, ulpdu_length: u32) -> Layout {
        assert!(ulpdu_length <= self.largest_ulpdu(), "a ULPDU of {ulpdu_length} bytes fits no FPDU");
        let shape = self.grid.shape(self.next, ulpdu_length);
        self.next = shape.end();
        Layout::new(shape, self.crc)
    }
}
