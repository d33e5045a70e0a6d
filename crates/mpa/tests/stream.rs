//! What a framer sends, a deframer receives, however the stream is cut; and nothing else.

use proptest::prelude::*;
use weft_base::Digest;
use weft_mpa::{Deframer, FrameError, FramePiece, Framer, MarkerSpacing, Peek, check_tail};
use weft_wire::Crc32c;
use weft_wire::terminate::TerminateCode;

const STANDARD: Option<MarkerSpacing> = Some(MarkerSpacing::Standard);
/// Without markers, and with markers of every spacing.
const MARKERS: [Option<MarkerSpacing>; 4] =
    [None, STANDARD, Some(MarkerSpacing::Kilobyte), Some(MarkerSpacing::TwoKilobytes)];

fn markers() -> impl Strategy<Value = Option<MarkerSpacing>> {
    prop::sample::select(&MARKERS)
}

/// A stream built word by word, as the standard's text says it, without any arithmetic on lengths.
struct Model {
    markers: Option<MarkerSpacing>,
    crc: bool,
    stream: Vec<u8>,
}

impl Model {
    fn new(markers: Option<MarkerSpacing>, crc: bool) -> Self {
        Self { markers, crc, stream: Vec::new() }
    }

    fn push(&mut self, ulpdu: &[u8]) {
        let mut words = (ulpdu.len() as u16).to_be_bytes().to_vec();
        words.extend(ulpdu);
        words.resize(words.len().next_multiple_of(4), 0);
        let covered_from = self.stream.len();
        let mut length_at = None;
        for word in words.chunks(4) {
            self.mark(length_at);
            length_at.get_or_insert(self.stream.len());
            self.stream.extend(word);
        }
        self.mark(length_at);
        let crc = if self.crc { Crc32c::of(&self.stream[covered_from..]) } else { 0 };
        self.stream.extend(crc.to_le_bytes());
    }

    fn mark(&mut self, length_at: Option<usize>) {
        if self.markers.is_some_and(|spacing| self.stream.len().is_multiple_of(spacing.bytes() as usize)) {
            let pointer = length_at.map_or(0, |at| self.stream.len() - at);
            self.stream.extend([0, 0]);
            self.stream.extend((pointer as u16).to_be_bytes());
        }
    }
}

fn sent(ulpdus: &[Vec<u8>], header_length: usize, markers: Option<MarkerSpacing>, crc: bool) -> Vec<u8> {
    let mut framer = Framer::new(markers, crc);
    let mut stream = Vec::new();
    for ulpdu in ulpdus {
        let layout = framer.frame(ulpdu.len() as u32);
        let at = stream.len();
        assert_eq!(layout.start().0, at as u64);
        stream.resize(at + layout.length(), 0xa5);
        let (header, mut payload) = ulpdu.split_at(header_length.min(ulpdu.len()));
        let Ok(()) = layout.write(header, &mut payload, &mut stream[at..]);
    }
    assert_eq!(framer.position().0, stream.len() as u64);
    stream
}

/// Receives as a NIC does: bytes come in pieces, frames go out. Gives what was received before the error, too.
fn received(
    stream: &[u8],
    cuts: &[usize],
    markers: Option<MarkerSpacing>,
    crc: bool,
) -> (Vec<Vec<u8>>, Option<FrameError>) {
    let mut deframer = Deframer::new(markers, crc);
    let mut frames = Vec::new();
    let mut there = 0;
    let mut cuts = cuts.iter().cycle();
    while there < stream.len() {
        there = (there + cuts.next().copied().unwrap_or(usize::MAX).max(1)).min(stream.len());
        if let Some(error) = take(&mut deframer, &stream[..there], &mut frames) {
            return (frames, Some(error));
        }
    }
    (frames, None)
}

fn take(deframer: &mut Deframer, stream: &[u8], frames: &mut Vec<Vec<u8>>) -> Option<FrameError> {
    loop {
        let bytes = &stream[deframer.position().0 as usize..];
        let head = match deframer.peek(bytes) {
            Err(error) => return Some(error),
            Ok(Peek::More { at_least }) => {
                assert!(at_least > bytes.len());
                return None;
            }
            Ok(Peek::Head(head)) => head,
        };
        let mut scratch = [0xa5; 18];
        let start_of_ulpdu = head.head(bytes, &mut scratch).to_vec();
        assert!(start_of_ulpdu.len() <= 18.min(head.ulpdu_length as usize));
        let frame = deframer.frame(&head, bytes)?;
        let verified = frame.verify();
        let (mut ulpdu, mut fed) = (Vec::new(), Crc32c::new());
        for piece in frame.pieces() {
            match piece {
                FramePiece::Overhead(bytes) => fed.update(bytes),
                FramePiece::Ulpdu(bytes) => {
                    fed.update(bytes);
                    ulpdu.extend(bytes);
                }
            }
        }
        assert_eq!(frame.check(&fed), verified, "two ways to check one frame");
        if let Err(error) = verified {
            return Some(error);
        }
        assert_eq!(ulpdu.len(), head.ulpdu_length as usize);
        assert_eq!(start_of_ulpdu, ulpdu[..ulpdu.len().min(18)]);
        assert_eq!(frame.contiguous().is_some(), head.is_contiguous() || frame.ulpdu().count() < 2);
        assert!(frame.contiguous().is_none_or(|whole| whole == ulpdu));
        frames.push(ulpdu);
        deframer.advance(&head);
    }
}

fn ulpdus() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let length = prop_oneof![4 => 0..64usize, 3 => 400..600usize, 2 => 1400..1500usize, 1 => 0..64_769usize];
    let ulpdu = (length, any::<u8>())
        .prop_map(|(length, first)| (0..length).map(|at| first.wrapping_add((at % 251) as u8)).collect::<Vec<_>>());
    prop::collection::vec(ulpdu, 0..12)
}

proptest! {
    #[test]
    fn a_stream_is_what_the_standard_says(ulpdus in ulpdus(), header in 0..20usize, markers in markers(), crc: bool) {
        let mut model = Model::new(markers, crc);
        ulpdus.iter().for_each(|ulpdu| model.push(ulpdu));
        prop_assert!(sent(&ulpdus, header, markers, crc) == model.stream);
    }

    #[test]
    fn any_cut_of_a_stream_gives_the_same_frames(
        ulpdus in ulpdus(),
        cuts in prop::collection::vec(prop_oneof![1..20usize, 1..3000usize], 1..20),
        markers in markers(),
        crc: bool,
    ) {
        let stream = sent(&ulpdus, 14, markers, crc);
        let (frames, error) = received(&stream, &cuts, markers, crc);
        prop_assert_eq!(error, None);
        prop_assert!(frames == ulpdus);
    }

    /// One wrong byte is never accepted: either the frame in which it is is refused, or (in a length field) it never
    /// ends.
    #[test]
    fn a_damaged_byte_is_never_accepted(
        ulpdus in ulpdus(),
        markers in markers(),
        at: prop::sample::Index,
        flip in 1..=255u8,
    ) {
        let mut stream = sent(&ulpdus, 14, markers, true);
        prop_assume!(!stream.is_empty());
        let at = at.index(stream.len());
        stream[at] ^= flip;
        let (frames, error) = received(&stream, &[usize::MAX / 2], markers, true);
        prop_assert!(frames.len() < ulpdus.len());
        prop_assert!(frames[..] == ulpdus[..frames.len()]);
        if let Some(error) = error {
            // What the first marker points to is looked at before anything else is believed.
            let is_first = (2..4).contains(&at) && matches!(error, FrameError::Marker { .. });
            let is_other = matches!(error, FrameError::Crc { .. } | FrameError::TooLongForMarkers { .. });
            prop_assert!(is_first || is_other, "{error}");
        }
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(
        stream in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..3000),
        cuts in prop::collection::vec(1..600usize, 1..5),
        markers in markers(),
        crc: bool,
    ) {
        let _ = received(&stream, &cuts, markers, crc);
    }

    /// The header comes out right from every number of bytes, and never reaches beyond them.
    #[test]
    fn a_head_is_as_long_as_what_is_there(before in 0..2500usize, length in 0..700usize, markers in markers()) {
        let ulpdu: Vec<u8> = (0..length).map(|at| at as u8).collect();
        let stream = sent(&[vec![1; before], ulpdu.clone()], 0, markers, true);
        let mut deframer = Deframer::new(markers, true);
        let Ok(Peek::Head(first)) = deframer.peek(&stream) else { panic!("no head") };
        deframer.advance(&first);
        let bytes = &stream[first.wire_length..];
        let mut longest = 0;
        for there in 0..=bytes.len() {
            let Ok(Peek::Head(head)) = deframer.peek(&bytes[..there]) else { continue };
            let mut scratch = [0xa5; 530];
            let seen = head.head(&bytes[..there], &mut scratch);
            prop_assert!(seen.len() >= longest);
            longest = seen.len();
            prop_assert_eq!(seen, &ulpdu[..longest]);
        }
        prop_assert_eq!(longest, length.min(530));
    }
}

/// Every byte of a frame damaged once: no luck in choosing the byte.
#[test]
fn every_byte_of_a_frame_counts() {
    for markers in MARKERS {
        let ulpdu = vec![vec![7; 2300]];
        let good = sent(&ulpdu, 14, markers, true);
        for at in 0..good.len() {
            let mut stream = good.clone();
            stream[at] ^= 0x10;
            assert_eq!(received(&stream, &[4096], markers, true).0.len(), 0, "byte {at}, markers {markers:?}");
        }
    }
}

/// The tests above can fail: without CRC the same damage goes through, so it is the CRC that they see.
#[test]
fn without_crc_damage_goes_unseen() {
    let mut stream = sent(&[vec![7; 100]], 14, None, false);
    stream[50] ^= 0x10;
    let (frames, error) = received(&stream, &[7], None, false);
    assert_eq!((frames.len(), error), (1, None));
    assert_ne!(frames[0], vec![7; 100]);
}

/// The comparison with the model can fail: a marker that is one word off is seen.
#[test]
fn a_stream_with_a_misplaced_marker_is_another_stream() {
    let ulpdus = vec![vec![1; 900]];
    let mut model = Model::new(STANDARD, true);
    ulpdus.iter().for_each(|ulpdu| model.push(ulpdu));
    let mut broken = model.stream.clone();
    broken[508..516].rotate_left(4);
    assert_eq!(sent(&ulpdus, 0, STANDARD, true), model.stream);
    assert_ne!(sent(&ulpdus, 0, STANDARD, true), broken);
    assert!(received(&broken, &[4096], STANDARD, true).1.is_some());
}

/// A stream whose CRCs are good and whose second marker points to the wrong place.
fn stream_with_pointer(pointer: u16, crc: bool) -> Vec<u8> {
    let mut stream = sent(&[vec![1; 900]], 0, STANDARD, crc);
    stream[514..516].copy_from_slice(&pointer.to_be_bytes());
    let end = stream.len() - 4;
    if crc {
        let field = Crc32c::of(&stream[..end]).to_le_bytes();
        stream[end..].copy_from_slice(&field);
    }
    stream
}

#[test]
fn a_marker_must_agree_with_the_length_fields() {
    for crc in [false, true] {
        assert_eq!(received(&stream_with_pointer(508, crc), &[9], STANDARD, crc).1, None);
        let error = received(&stream_with_pointer(504, crc), &[9], STANDARD, crc).1.expect("a wrong marker");
        assert_eq!(error.terminate_code(), TerminateCode::MpaMarker);
        assert_eq!(
            error.to_string(),
            "the marker at stream position 512 points back 504 bytes, but its FPDU begins 508 bytes before it"
        );
    }
}

/// RFC 5044 section 4.2: the two low bits of FPDUPTR count as zero, the reserved half of a marker for nothing.
#[test]
fn reserved_bits_of_a_marker_are_not_looked_at() {
    assert_eq!(received(&stream_with_pointer(508 | 3, true), &[9], STANDARD, true).1, None);
    let mut stream = stream_with_pointer(508, false);
    stream[512] = 0xff;
    assert_eq!(received(&stream, &[9], STANDARD, false).1, None);
}

/// RFC 5044 section 8: where CRC and marker are both wrong, it is the CRC.
#[test]
fn a_bad_crc_comes_before_a_bad_marker() {
    let mut stream = stream_with_pointer(504, true);
    stream[700] ^= 1;
    let error = received(&stream, &[9], STANDARD, true).1.expect("a bad CRC");
    assert_eq!(error.terminate_code(), TerminateCode::MpaCrc);
}

/// A peer that was asked for markers and sends none: what stands where the first one should is its header, and the
/// length that would be read behind it may be more than will ever come.
#[test]
fn a_stream_that_does_not_begin_with_its_marker_is_given_up_at_once() {
    // A Write, as DDP and RDMAP begin, whose STag would be read as a length.
    let ulpdu = [0xc1, 0x40, 0x04, 0x00, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
    let stream = sent(&[ulpdu.to_vec()], 0, None, true);
    for there in 6..=stream.len() {
        let (frames, error) = received(&stream[..there], &[1], STANDARD, true);
        assert!(frames.is_empty());
        assert_eq!(error.expect("no marker").terminate_code(), TerminateCode::MpaMarker);
    }
}

/// RFC 5044 section 4.1: with CRCs off the field may hold anything. The pad may do so, too.
#[test]
fn without_crc_field_and_pad_may_hold_anything() {
    let mut stream = sent(&[vec![7; 9]], 0, None, false);
    let end = stream.len();
    stream[end - 5..].fill(0xee);
    assert_eq!(received(&stream, &[1], None, false), (vec![vec![7; 9]], None));
}

/// A pad that is not zero is no error where the CRC covers it.
#[test]
fn the_pad_counts_for_the_crc_alone() {
    let mut stream = sent(&[vec![7; 9]], 0, None, true);
    let end = stream.len();
    stream[end - 5] = 0xee;
    let field = Crc32c::of(&stream[..end - 4]).to_le_bytes();
    stream[end - 4..].copy_from_slice(&field);
    assert_eq!(received(&stream, &[1], None, true), (vec![vec![7; 9]], None));
}

#[test]
fn a_length_that_no_marker_can_span_is_refused_at_once() {
    let mut deframer = Deframer::new(STANDARD, true);
    let stream = sent(&[vec![0; 498]], 0, STANDARD, true);
    let Ok(Peek::Head(first)) = deframer.peek(&stream) else { panic!("no head") };
    deframer.advance(&first);
    assert_eq!(deframer.position().0, 508);
    let error = deframer.peek(&[0xff, 0xff]).expect_err("65535 bytes of ULPDU");
    assert_eq!(error.terminate_code(), TerminateCode::MpaMarker);
    assert!(Deframer::new(None, true).peek(&[0xff, 0xff]).is_ok());
}

#[test]
fn a_payload_read_into_its_place_is_checked_by_its_tail() {
    for length in 0..40 {
        let ulpdu = vec![3; length];
        let stream = sent(std::slice::from_ref(&ulpdu), 0, None, true);
        let Ok(Peek::Head(head)) = Deframer::new(None, true).peek(&stream) else { panic!("no head") };
        let tail_at = head.ulpdu_offset() + length;
        assert_eq!(tail_at + head.tail_length(), head.wire_length);
        let mut crc = Crc32c::new();
        crc.update(&stream[..tail_at]);
        assert_eq!(check_tail(crc.clone(), true, &head, &stream[tail_at..]), Ok(()));
        for at in tail_at..stream.len() {
            let mut tail = stream[tail_at..].to_vec();
            tail[at - tail_at] ^= 1;
            let error = check_tail(crc.clone(), true, &head, &tail).expect_err("a damaged tail");
            assert_eq!(error.terminate_code(), TerminateCode::MpaCrc);
            assert_eq!(check_tail(Crc32c::new(), false, &head, &tail), Ok(()));
        }
    }
}
