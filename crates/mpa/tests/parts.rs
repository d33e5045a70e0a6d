//! An FPDU that is written and taken apart in parts is the same as one that is written and read whole, however it is
//! cut.

use core::convert::Infallible;

use proptest::prelude::*;
use weft_base::Digest;
use weft_mpa::{
    CrcDigest, Deframer, FrameError, FrameHead, Framer, Layout, MarkerInserter, MarkerSpacing, MarkerStripper, Peek,
    Piece, Source,
};
use weft_wire::Crc32c;

/// Without markers, and with markers of every spacing.
const MARKERS: [Option<MarkerSpacing>; 4] =
    [None, Some(MarkerSpacing::Standard), Some(MarkerSpacing::Kilobyte), Some(MarkerSpacing::TwoKilobytes)];

fn markers() -> impl Strategy<Value = Option<MarkerSpacing>> {
    prop::sample::select(&MARKERS)
}

fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![2 => 0..64usize, 2 => 400..600usize, 2 => 1400..5000usize, 1 => 0..64_769usize]
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![1..8usize, 1..600usize, 500..5000usize, Just(usize::MAX)], 1..20)
}

/// A layout somewhere in a stream.
fn laid_out(before: u32, length: usize, markers: Option<MarkerSpacing>, crc: bool) -> Layout {
    let mut framer = Framer::new(markers, crc);
    framer.frame(before);
    framer.frame(length as u32)
}

fn ulpdu(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8 + 1).collect()
}

fn whole(layout: &Layout, ulpdu: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xa5; layout.length()];
    let Ok(()) = layout.write(ulpdu, &mut &[][..], &mut bytes);
    bytes
}

/// The head of the FPDU behind one of `before` bytes of ULPDU.
fn head_of(before: u32, bytes: &[u8], markers: Option<MarkerSpacing>, crc: bool) -> (Deframer, FrameHead) {
    let first = whole(&Framer::new(markers, crc).frame(before), &ulpdu(before as usize));
    let mut deframer = Deframer::new(markers, crc);
    let Ok(Peek::Head(head)) = deframer.peek(&first) else { panic!("no head") };
    deframer.advance(&head);
    let Ok(Peek::Head(head)) = deframer.peek(bytes) else { panic!("no head") };
    (deframer, head)
}

/// Calls `step` with the ranges that the cuts make of so many bytes.
fn each_cut(length: usize, cuts: &[usize], mut step: impl FnMut(core::ops::Range<usize>)) {
    let (mut at, mut cuts) = (0, cuts.iter().cycle());
    while at < length {
        let end = at.saturating_add(*cuts.next().unwrap_or(&usize::MAX)).min(length);
        step(at..end);
        at = end;
    }
}

proptest! {
    #[test]
    fn weaving_in_any_cuts_gives_the_fpdu_with_a_hole(
        before in 0..3000u32,
        length in lengths(),
        header in 0..100usize,
        cuts in cuts(),
        markers in markers(),
        crc: bool,
    ) {
        let layout = laid_out(before, length, markers, crc);
        let ulpdu = ulpdu(length);
        let expected = whole(&layout, &ulpdu);
        let (header, mut payload) = ulpdu.split_at(header.min(length));
        let mut marker_inserter = MarkerInserter::new(&layout);
        let mut crc_digest = CrcDigest::of_layout(&layout);
        let mut bytes = vec![0xa5; layout.length() + 5];
        each_cut(layout.length(), &cuts, |range| {
            let left = layout.length() - range.start;
            assert_eq!((marker_inserter.written(), marker_inserter.left()), (range.start, left));
            let Ok(written) = marker_inserter.insert_markers(header, &mut payload, &mut bytes[range.clone()]);
            assert_eq!(written, range.len());
            crc_digest.feed(&bytes[range]);
        });
        prop_assert!(marker_inserter.is_done() && payload.is_empty());
        let Ok(beyond) = marker_inserter.insert_markers(header, &mut payload, &mut [0xa5; 8]);
        prop_assert_eq!(beyond, 0);
        prop_assert_eq!(bytes.split_off(layout.length()), [0xa5; 5]);
        let hole = layout.length() - 4;
        prop_assert_eq!(&bytes[hole..], [0; 4]);
        bytes[hole..].copy_from_slice(&crc_digest.finish());
        prop_assert!(bytes == expected);
    }

    #[test]
    fn pieces_in_any_cuts_give_the_fpdu(
        before in 0..3000u32, length in lengths(), cuts in cuts(), markers in markers(),
    ) {
        let layout = laid_out(before, length, markers, false);
        let ulpdu = ulpdu(length);
        let mut marker_inserter = MarkerInserter::new(&layout);
        let mut bytes = Vec::new();
        let mut cuts = cuts.iter().cycle();
        while let Some(piece) = marker_inserter.next_piece(*cuts.next().unwrap_or(&usize::MAX)) {
            prop_assert!(piece.length() > 0);
            match piece {
                Piece::Marker(part) | Piece::Length(part) => bytes.extend(part),
                Piece::Ulpdu { from, length } => bytes.extend(&ulpdu[from..from + length]),
                Piece::Pad { length } | Piece::CrcHole { length } => bytes.resize(bytes.len() + length, 0),
            }
        }
        prop_assert!(marker_inserter.is_done());
        prop_assert!(bytes == whole(&layout, &ulpdu));
    }

    /// A stage that is given the ULPDU bit by bit never asks for more than there is, and is never stuck when there is
    /// more.
    #[test]
    fn weaving_goes_as_far_as_the_ulpdu_that_is_there(
        before in 0..3000u32, length in lengths(), cuts in cuts(), markers in markers(),
    ) {
        let layout = laid_out(before, length, markers, false);
        let ulpdu = ulpdu(length);
        let mut marker_inserter = MarkerInserter::new(&layout);
        let mut bytes = vec![0xa5; layout.length()];
        let mut payload = Window { ulpdu: &ulpdu, given: 0, there: 0 };
        each_cut(length, &cuts, |range| {
            payload.there = range.end;
            let (start, reach) = (marker_inserter.written(), marker_inserter.reach(range.end));
            let Ok(written) = marker_inserter.insert_markers(&[], &mut payload, &mut bytes[start..start + reach]);
            assert_eq!(written, reach);
            assert_eq!(payload.given, range.end, "all that was there is written");
            assert_eq!(marker_inserter.reach(range.end), 0);
        });
        if length > 0 {
            prop_assert!(marker_inserter.is_done());
            prop_assert!(bytes == whole(&layout, &ulpdu));
        } else {
            prop_assert_eq!(marker_inserter.reach(0), layout.length());
        }
    }

    #[test]
    fn unweaving_in_any_cuts_gives_the_ulpdu(
        before in 0..3000u32, length in lengths(), cuts in cuts(), markers in markers(), crc: bool,
    ) {
        let ulpdu = ulpdu(length);
        let bytes = whole(&laid_out(before, length, markers, crc), &ulpdu);
        let (deframer, head) = head_of(before, &bytes, markers, crc);
        let (mut marker_stripper, mut crc_digest) = (MarkerStripper::new(&head), CrcDigest::of_head(&head, crc));
        let mut placed = Vec::new();
        each_cut(bytes.len(), &cuts, |range| {
            assert_eq!((marker_stripper.taken(), marker_stripper.left()), (range.start, bytes.len() - range.start));
            crc_digest.feed(&bytes[range.clone()]);
            let piece = &bytes[range.clone()];
            assert_eq!(marker_stripper.strip_markers(piece, |part| placed.extend_from_slice(part)), range.len());
        });
        prop_assert!(placed == ulpdu);
        prop_assert!(marker_stripper.is_done());
        prop_assert_eq!(marker_stripper.strip_markers(&[1, 2, 3], |_| panic!("of another FPDU")), 0);
        prop_assert_eq!((crc_digest.check(), marker_stripper.check()), (Ok(()), Ok(())));
        // And in one go.
        let mut placed = Vec::new();
        let frame = deframer.frame(&head, &bytes).expect("whole");
        prop_assert_eq!(frame.strip_markers(|piece| placed.extend_from_slice(piece)), Ok(()));
        prop_assert!(placed == ulpdu);
    }

    /// Three ways to judge one FPDU, damaged anywhere, come to the same; the CRC field and the markers are anywhere
    /// too.
    #[test]
    fn damage_is_seen_alike_in_parts_and_in_whole(
        before in 0..3000u32, length in lengths(), cuts in cuts(), markers in markers(), crc: bool,
        at: prop::sample::Index, flip in 1..=255u8, mended: bool,
    ) {
        let mut bytes = whole(&laid_out(before, length, markers, crc), &ulpdu(length));
        let (deframer, head) = head_of(before, &bytes, markers, crc);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        let field = bytes.len() - 4;
        if mended && crc {
            // A good CRC over what is wrong: then a marker can be.
            let good = Crc32c::of(&bytes[..field]).to_le_bytes();
            bytes[field..].copy_from_slice(&good);
        }
        let frame = deframer.frame(&head, &bytes).expect("whole");
        let expected = frame.verify();
        prop_assert_eq!(frame.strip_markers(|_| ()), expected);
        prop_assert_eq!(in_parts(&head, crc, &bytes, &cuts), expected);
        prop_assert!(expected.is_err() || !crc || mended);
    }
}

fn in_parts(head: &FrameHead, crc: bool, bytes: &[u8], cuts: &[usize]) -> Result<(), FrameError> {
    let (mut marker_stripper, mut crc_digest) = (MarkerStripper::new(head), CrcDigest::of_head(head, crc));
    each_cut(bytes.len(), cuts, |range| {
        crc_digest.feed(&bytes[range.clone()]);
        marker_stripper.strip_markers(&bytes[range], |_| ());
    });
    crc_digest.check()?;
    marker_stripper.check()
}

/// A ULPDU of which only the first bytes are there.
struct Window<'a> {
    ulpdu: &'a [u8],
    given: usize,
    there: usize,
}

impl Source for Window<'_> {
    type Error = Infallible;

    fn copy<D: Digest>(&mut self, out: &mut [u8], _: &mut D) -> Result<(), Infallible> {
        let end = self.given + out.len();
        assert!(end <= self.there, "bytes that are not there yet");
        out.copy_from_slice(&self.ulpdu[self.given..end]);
        self.given = end;
        Ok(())
    }
}

/// Every single marker that points elsewhere is found, and the first of them is told.
#[test]
fn each_marker_is_compared() {
    for markers in MARKERS.into_iter().flatten() {
        let bytes = whole(&laid_out(0, 9000, Some(markers), false), &ulpdu(9000));
        let (_, head) = head_of(0, &bytes, Some(markers), false);
        let first = (u64::from(markers.bytes()) - head.start.0 % u64::from(markers.bytes())) as usize;
        let places = (first..bytes.len()).step_by(markers.bytes() as usize);
        assert!(places.clone().count() >= 4);
        for at in places {
            let mut bytes = bytes.clone();
            bytes[at + 3] ^= 4;
            for cuts in [vec![1], vec![3, 700], vec![4096], vec![usize::MAX]] {
                let error = in_parts(&head, false, &bytes, &cuts).expect_err("a wrong marker");
                let FrameError::Marker { position, .. } = error else { panic!("{error}") };
                assert_eq!(position, head.start + at as u64);
            }
        }
    }
}

#[test]
fn a_marker_and_a_length_field_can_be_cut() {
    let layout = Framer::new(Some(MarkerSpacing::Standard), true).frame(3);
    let mut marker_inserter = MarkerInserter::new(&layout);
    let mut next = |at_most| marker_inserter.next_piece(at_most).map(|piece| format!("{piece:?}"));
    assert_eq!(next(0), None);
    assert_eq!(next(3).as_deref(), Some("Marker([0, 0, 0])"));
    assert_eq!(next(9).as_deref(), Some("Marker([0])"));
    assert_eq!(next(1).as_deref(), Some("Length([0])"));
    assert_eq!(next(9).as_deref(), Some("Length([3])"));
    assert_eq!(next(2).as_deref(), Some("Ulpdu { from: 0, length: 2 }"));
    assert_eq!(next(2).as_deref(), Some("Ulpdu { from: 2, length: 1 }"));
    assert_eq!(next(9).as_deref(), Some("Pad { length: 3 }"));
    assert_eq!(next(9).as_deref(), Some("CrcHole { length: 4 }"));
    assert_eq!(next(9), None);
}

#[test]
#[should_panic(expected = "longer than the ULPDU")]
fn a_header_that_does_not_fit_is_not_woven() {
    let layout = Framer::new(None, true).frame(3);
    let _ = MarkerInserter::new(&layout).insert_markers(&[1; 4], &mut &[][..], &mut [0; 2]);
}

#[test]
#[should_panic(expected = "3 bytes of the FPDU are missing")]
fn a_tally_of_half_an_fpdu_is_not_compared() {
    let bytes = whole(&Framer::new(None, true).frame(3), &[1, 2, 3]);
    let (_, head) = head_of(0, &bytes, None, true);
    let mut crc_digest = CrcDigest::of_head(&head, true);
    crc_digest.feed(&bytes[..bytes.len() - 3]);
    let _ = crc_digest.check();
}

#[test]
#[should_panic(expected = "past the end")]
fn a_tally_takes_nothing_of_the_next_fpdu() {
    CrcDigest::of_layout(&Framer::new(None, true).frame(3)).feed(&[0; 20]);
}

#[test]
fn without_crc_the_hole_stays() {
    let layout = Framer::new(None, false).frame(3);
    let mut crc_digest = CrcDigest::of_layout(&layout);
    crc_digest.feed(&vec![1; layout.length()]);
    assert_eq!((crc_digest.finish(), crc_digest.check()), ([0; 4], Ok(())));
}

proptest! {
    #[test]
    fn a_straight_fpdu_is_found_whole_and_good_or_not_at_all(
        before in 0..3000u32,
        length in lengths(),
        markers in markers(),
        crc: bool,
        behind in 0..20usize,
        missing in 1..9usize,
        damaged: prop::sample::Index,
    ) {
        let (layout, ulpdu) = (laid_out(before, length, markers, crc), ulpdu(length));
        let mut bytes = whole(&layout, &ulpdu);
        let (mut deframer, head) = head_of(before, &bytes, markers, crc);
        prop_assert_eq!(deframer.straight(&bytes[..bytes.len() - missing.min(bytes.len())]), None);
        bytes.extend(vec![0x5a; behind]);
        let found = deframer.straight(&bytes);
        prop_assert_eq!(found.is_some(), markers.is_none());
        let Some(frame) = found else { return Ok(()) };
        prop_assert_eq!((frame.ulpdu, frame.wire_length), (&ulpdu[..], head.wire_length));
        prop_assert_eq!((frame.start, frame.end), (head.start, head.end));
        let mut changed = bytes.clone();
        // Not the length field, for then it is another FPDU.
        let at = 2 + damaged.index(frame.wire_length - 2);
        changed[at] ^= 1;
        prop_assert_eq!(deframer.straight(&changed).is_some(), !crc);
        deframer.pass(&frame);
        prop_assert_eq!(deframer.position(), head.end);
    }
}
