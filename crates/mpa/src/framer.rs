//! Laying out the FPDUs of a stream, one after the other.

use weft_base::StreamPosition;
use weft_wire::mpa::{MAX_MULPDU, MarkerSpacing, fitting_ulpdu, max_ulpdu};

use crate::Layout;
use crate::shape::Grid;

/// The sending end of one direction of a stream: knows where the next FPDU begins.
#[derive(Clone, Debug)]
pub struct Framer {
    grid: Grid,
    crc: bool,
    next: StreamPosition,
}

impl Framer {
    /// The longest ULPDU that can be laid out, in bytes (RFC 5044 section 3). Every marker in its FPDU can point back
    /// to its length field.
    pub const LARGEST_ULPDU: u32 = MAX_MULPDU;

    /// At the start of the stream, right after the start-up frames. `markers`: the peer wants them (RFC 5044
    /// section 7.1.1, M), so far apart.
    /// `crc`: either side wants CRCs (RFC 5044 section 7.1.1, C).
    #[must_use]
    pub const fn new(markers: Option<MarkerSpacing>, crc: bool) -> Self {
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
        self.grid.markers().is_some()
    }

    /// The spacing of the markers that are inserted. `None`: there are none.
    #[must_use]
    pub const fn marker_spacing(&self) -> Option<MarkerSpacing> {
        self.grid.markers()
    }

    /// Whether CRCs are computed.
    #[must_use]
    pub const fn crc(&self) -> bool {
        self.crc
    }

    /// The longest ULPDU to send, in bytes (MULPDU). By the path: so that its FPDU fits one packet of `emss` payload
    /// bytes (RFC 5044 section 4.5), but at least 128 bytes even when it then doesn't (same section). With `large`,
    /// which only peers that agreed on [large FPDUs](crate::Extensions::large_fpdus) may set, the path does not count:
    /// [`Framer::LARGEST_ULPDU`].
    #[must_use]
    pub const fn max_ulpdu(&self, emss: u32, large: bool) -> u32 {
        if large { Self::LARGEST_ULPDU } else { max_ulpdu(emss, self.marker_spacing()) }
    }

    /// The longest ULPDU to send next, in bytes: as [`Framer::max_ulpdu`], but with the markers that its FPDU has where
    /// it begins, not with the most that one can have. So each FPDU of a stream fills its packet, and all of them are
    /// equally long, as a caller wants them that cuts many of them from one frame. An exception is one at whose end a
    /// marker would be: it is four bytes shorter.
    #[inline]
    #[must_use]
    pub const fn next_ulpdu(&self, emss: u32, large: bool) -> u32 {
        if large || !self.markers() {
            return self.max_ulpdu(emss, large);
        }
        fitting_ulpdu(emss, self.grid.marker_bytes(self.next, emss & !3))
    }

    /// Lays out the next FPDU for a ULPDU of this many bytes.
    ///
    /// # Panics
    /// When the ULPDU is longer than [`Framer::LARGEST_ULPDU`].
    #[inline]
    pub fn frame(&mut self, ulpdu_length: u32) -> Layout {
        assert!(ulpdu_length <= Self::LARGEST_ULPDU, "a ULPDU of {ulpdu_length} bytes fits no FPDU");
        let shape = self.grid.shape(self.next, ulpdu_length);
        self.next = shape.end();
        Layout::new(shape, self.crc)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// With markers of every spacing, and without.
    const MARKERS: [Option<MarkerSpacing>; 4] =
        [None, Some(MarkerSpacing::Standard), Some(MarkerSpacing::Kilobyte), Some(MarkerSpacing::TwoKilobytes)];

    proptest! {
        #[test]
        fn an_fpdu_of_the_longest_ulpdu_fits_the_packet(
            emss in 160..65_483u32,
            markers in prop::sample::select(&MARKERS),
            before in 0..8000u32,
        ) {
            let mut framer = Framer::new(markers, true);
            framer.frame(before);
            let ulpdu = framer.max_ulpdu(emss, false);
            prop_assert!(framer.frame(ulpdu).length() <= emss as usize, "ULPDU of {}", ulpdu);
            // Not wasteful either: the most that alignment and markers can leave.
            prop_assert!(ulpdu == Framer::LARGEST_ULPDU || ulpdu + 6 + 7 + most_markers(markers, emss) >= emss);
        }
    }

    proptest! {
        /// All of them fill their packets, whatever came before, but those whose last word would be a marker: no FPDU
        /// ends with one.
        #[test]
        fn fpdus_of_the_next_ulpdu_are_equally_long(
            emss in 160..64_000u32,
            markers in prop::sample::select(&MARKERS),
            before in 0..8000u32,
        ) {
            let mut framer = Framer::new(markers, true);
            framer.frame(before);
            let full = emss as usize / 4 * 4;
            for _ in 0..64 {
                let ulpdu = framer.next_ulpdu(emss, false);
                prop_assert!(ulpdu >= framer.max_ulpdu(emss, false));
                let last_word = framer.position().0 + full as u64 - 4;
                let is_short = markers.is_some_and(|spacing| last_word.is_multiple_of(spacing.bytes().into()));
                let length = framer.frame(ulpdu).length();
                prop_assert_eq!(length, if is_short { full - 4 } else { full });
            }
        }
    }

    /// Where a packet is one word longer than a whole number of spacings, each FPDU moves on by a word, until one is
    /// short; from there on all are, and equally long.
    #[test]
    fn one_that_is_short_may_be_followed_by_more_of_them() {
        let mut framer = Framer::new(Some(MarkerSpacing::Standard), true);
        framer.frame(5455);
        let lengths: Vec<_> = (0..64).map(|_| framer.frame(framer.next_ulpdu(69 * 512 + 4, false)).length()).collect();
        let (full, short) = lengths.split_at(lengths.iter().position(|length| *length == 69 * 512).unwrap());
        assert!(full.iter().all(|length| *length == 69 * 512 + 4) && full.len() == 31);
        assert!(short.iter().all(|length| *length == 69 * 512));
    }

    fn most_markers(markers: Option<MarkerSpacing>, emss: u32) -> u32 {
        markers.map_or(0, |spacing| 4 * emss.div_ceil(spacing.bytes()))
    }

    #[test]
    fn tiny_packets_and_agreed_large_fpdus() {
        for markers in MARKERS {
            let framer = Framer::new(markers, true);
            assert_eq!(framer.max_ulpdu(0, false), 128);
            assert_eq!(framer.max_ulpdu(100, false), 128);
            assert_eq!(framer.max_ulpdu(100, true), 64_768);
            assert_eq!(framer.max_ulpdu(u32::MAX, false), 64_768);
        }
        assert_eq!(MARKERS.map(|markers| Framer::new(markers, true).max_ulpdu(1448, false)), [1442, 1430, 1434, 1438]);
    }

    #[test]
    #[should_panic(expected = "fits no FPDU")]
    fn a_longer_ulpdu_is_not_laid_out() {
        let _ = Framer::new(None, false).frame(Framer::LARGEST_ULPDU + 1);
    }
}
