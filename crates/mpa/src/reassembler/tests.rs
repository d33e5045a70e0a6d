use proptest::prelude::*;
use weft_base::Random;

use super::*;
use crate::Framer;

const STANDARD: Option<MarkerSpacing> = Some(MarkerSpacing::Standard);
const LIMITS: ReassemblerLimits = ReassemblerLimits { bytes: 1 << 20, ranges: 10_000 };

/// A stream of FPDUs, and where each of them ends. What an FPDU carries depends on its position.
fn stream(lengths: &[u32], markers: Option<MarkerSpacing>, crc: bool) -> (Vec<u8>, Vec<Range<u64>>) {
    let mut framer = Framer::new(markers, crc);
    let (mut stream, mut frames) = (Vec::new(), Vec::new());
    for length in lengths {
        let layout = framer.frame(*length);
        let start = layout.start().0;
        let ulpdu = ulpdu(start, *length);
        stream.resize(stream.len() + layout.length(), 0);
        let Ok(()) = layout.write(&[], &mut &ulpdu[..], &mut stream[start as usize..]);
        frames.push(start..start + layout.length() as u64);
    }
    (stream, frames)
}

fn ulpdu(start: u64, length: u32) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    Random::new(start).fill(&mut bytes);
    bytes
}

/// What was handed up, in that order.
struct Receiver {
    reassembler: Reassembler,
    found: Vec<Range<u64>>,
}

impl Receiver {
    fn new(markers: Option<MarkerSpacing>, crc: bool, limits: ReassemblerLimits) -> Self {
        Self { reassembler: Reassembler::new(markers, crc, limits), found: Vec::new() }
    }

    fn take(&mut self, stream: &[u8], range: Range<u64>) -> Result<bool, FrameError> {
        let found = &mut self.found;
        let bytes = &stream[range.start as usize..range.end as usize];
        self.reassembler.take(StreamPosition(range.start), bytes, &mut |range, frame| {
            let got: Vec<u8> = frame.ulpdu().flatten().copied().collect();
            assert!(got == ulpdu(range.start.0, frame.ulpdu_length()), "not what was sent");
            found.push(range.start.0..range.end.0);
        })
    }
}

/// All of a stream, cut.
fn pieces(length: u64, cuts: &[u64]) -> Vec<Range<u64>> {
    let mut cuts = cuts.iter().cycle();
    let mut at = 0;
    core::iter::from_fn(|| {
        let start = at;
        at = (at + cuts.next().copied().unwrap_or(length).max(1)).min(length);
        (start < length).then_some(start..at)
    })
    .collect()
}

fn shuffle<T>(list: &mut [T], random: &mut Random) {
    for index in (1..list.len()).rev() {
        list.swap(index, random.below(index as u64 + 1) as usize);
    }
}

#[test]
fn a_segment_with_a_marker_is_placed_before_all_others() {
    let (stream, frames) = stream(&[1442; 4], STANDARD, true);
    let mut receiver = Receiver::new(STANDARD, true, LIMITS);
    for index in [3, 1, 2, 0] {
        assert_eq!(receiver.take(&stream, frames[index].clone()), Ok(true));
        assert_eq!(receiver.found.last(), Some(&frames[index]), "at once");
        assert_eq!(receiver.reassembler.held(), 0);
    }
    assert_eq!(receiver.reassembler.position().0, stream.len() as u64);
    assert_eq!((receiver.reassembler.early(), receiver.reassembler.is_complete()), (3, true));
}

#[test]
fn one_marker_finds_all_that_follow_it_and_nothing_before() {
    // The third begins behind the marker at 512.
    let (stream, frames) = stream(&[200; 6], STANDARD, true);
    let mut receiver = Receiver::new(STANDARD, true, LIMITS);
    receiver.take(&stream, frames[1].start..frames[5].end).unwrap();
    let first = frames.iter().position(|range| range.end > 512).unwrap();
    assert!(first > 1);
    assert_eq!(receiver.found, frames[first..]);
    assert_eq!(receiver.reassembler.held() as u64, frames[first].start - frames[1].start);
    receiver.take(&stream, frames[0].clone()).unwrap();
    assert!(receiver.reassembler.is_complete());
}

#[test]
fn an_fpdu_that_begins_with_a_marker_waits_for_it() {
    let (stream, frames) = stream(&[502, 1442], STANDARD, true);
    let second = frames[1].clone();
    assert_eq!(second.start, 512);
    let mut receiver = Receiver::new(STANDARD, true, LIMITS);
    // Its second marker points behind the first, which is missing.
    receiver.take(&stream, second.start + 4..second.end).unwrap();
    assert_eq!(receiver.found, []);
    receiver.take(&stream, second.start..second.start + 4).unwrap();
    assert_eq!(receiver.found, [second]);
}

#[test]
fn without_crc_or_markers_nothing_is_early() {
    for (markers, crc) in [(None, true), (STANDARD, false)] {
        let (stream, frames) = stream(&[1442; 3], markers, crc);
        let mut receiver = Receiver::new(markers, crc, LIMITS);
        receiver.take(&stream, frames[2].clone()).unwrap();
        receiver.take(&stream, frames[1].clone()).unwrap();
        assert_eq!(receiver.found, []);
        receiver.take(&stream, frames[0].clone()).unwrap();
        assert_eq!((&receiver.found[..], receiver.reassembler.early()), (&frames[..], 0));
    }
}

#[test]
fn a_marker_that_points_nowhere_only_costs_time() {
    let (mut stream, frames) = stream(&[1442; 3], STANDARD, true);
    // All of the second's markers point to the start of its payload; its CRC is good.
    let (second, third) = (frames[1].clone(), frames[2].clone());
    let mut receiver = Receiver::new(STANDARD, true, LIMITS);
    let marker = second.start.next_multiple_of(512) as usize;
    let was = stream[marker + 2..marker + 4].to_vec();
    stream[marker + 2..marker + 4].copy_from_slice(&20_u16.to_be_bytes());
    receiver.take(&stream, second.start..second.end).unwrap();
    receiver.take(&stream, third.clone()).unwrap();
    assert!(!receiver.found.contains(&second));
    stream[marker + 2..marker + 4].copy_from_slice(&was);
    let error = receiver.take(&stream, frames[0].clone()).unwrap_err();
    assert!(matches!(error, FrameError::Crc { .. }), "its bytes were damaged, and in order that is fatal: {error}");
}

#[test]
fn a_damaged_fpdu_is_not_handed_up_and_ends_the_stream_when_its_turn_comes() {
    let (mut stream, frames) = stream(&[1442; 3], STANDARD, true);
    stream[frames[1].start as usize + 700] ^= 1;
    let mut receiver = Receiver::new(STANDARD, true, LIMITS);
    assert_eq!(receiver.take(&stream, frames[1].clone()), Ok(true));
    assert_eq!(receiver.found, []);
    assert!(matches!(receiver.take(&stream, frames[0].clone()), Err(FrameError::Crc { .. })));
    assert_eq!(receiver.found, [frames[0].clone()]);
}

#[test]
fn lengths_that_reach_over_what_was_found_are_a_contradiction() {
    let (mut stream, frames) = stream(&[600, 1000, 1000], STANDARD, true);
    let mut receiver = Receiver::new(STANDARD, true, LIMITS);
    receiver.take(&stream, frames[1].start..frames[2].end).unwrap();
    assert_eq!(receiver.found, frames[1..]);
    stream[4..6].copy_from_slice(&900_u16.to_be_bytes());
    let error = receiver.take(&stream, 0..20).unwrap_err();
    assert_eq!(error, FrameError::Overlap { start: StreamPosition(0), other: StreamPosition(frames[1].start) });
}

#[test]
fn what_is_kept_is_bounded_and_the_stream_goes_on() {
    let limits = ReassemblerLimits { bytes: 5000, ranges: 8 };
    let (stream, frames) = stream(&[60_000; 12], STANDARD, true);
    let mut receiver = Receiver::new(STANDARD, true, limits);
    let mut waiting: std::collections::VecDeque<_> = pieces(stream.len() as u64, &[1460]).into();
    waiting.make_contiguous().reverse();
    let (mut rounds, mut most) = (0, 0);
    while let Some(piece) = waiting.pop_front() {
        if !receiver.take(&stream, piece.clone()).unwrap() {
            waiting.push_back(piece);
        }
        most = most.max(receiver.reassembler.held());
        rounds += 1;
        assert!(rounds < 100_000, "it does not go on");
    }
    assert_eq!(receiver.found.len(), frames.len());
    assert!(most <= 5000 + LARGEST_FPDU as usize, "{most} bytes were kept");
}

fn lengths() -> impl Strategy<Value = Vec<u32>> {
    let length = prop_oneof![4 => 0..64u32, 3 => 400..600u32, 4 => 1400..1500u32, 1 => 0..30_000u32];
    prop::collection::vec(length, 1..12)
}

fn markers() -> impl Strategy<Value = Option<MarkerSpacing>> {
    (0..=MarkerSpacing::ALL.len()).prop_map(|choice| MarkerSpacing::ALL.get(choice).copied())
}

proptest! {
    #[test]
    fn any_cut_in_any_order_with_anything_twice_gives_each_fpdu_once(
        lengths in lengths(),
        cuts in prop::collection::vec(prop_oneof![1..20u64, 1..600u64, 1..3000u64], 1..20),
        markers in markers(),
        crc: bool,
        seed: u64,
        reach in 1..40usize,
    ) {
        let (stream, frames) = stream(&lengths, markers, crc);
        let mut random = Random::new(seed);
        let mut pieces = pieces(stream.len() as u64, &cuts);
        // Some come again, with others around them.
        for _ in 0..random.below(10) {
            let start = random.below(stream.len() as u64);
            pieces.push(start..(start + random.below(4000)).min(stream.len() as u64));
        }
        if random.one_in(2) {
            shuffle(&mut pieces, &mut random);
        } else {
            pieces.chunks_mut(reach).for_each(|chunk| shuffle(chunk, &mut random));
        }
        let mut receiver = Receiver::new(markers, crc, LIMITS);
        for piece in pieces {
            prop_assert_eq!(receiver.take(&stream, piece), Ok(true));
        }
        receiver.found.sort_by_key(|range| range.start);
        prop_assert_eq!(&receiver.found, &frames);
        prop_assert!(receiver.reassembler.is_complete());
        prop_assert_eq!(receiver.reassembler.position().0, stream.len() as u64);
    }

    /// One wrong byte is never handed up; all else may be, until the stream has come to it.
    #[test]
    fn damage_is_never_handed_up(
        lengths in lengths(), cut in 1..3000u64, markers in markers(),
        at: prop::sample::Index, flip in 1..=255u8, seed: u64,
    ) {
        let (mut stream, frames) = stream(&lengths, markers, true);
        let at = at.index(stream.len());
        stream[at] ^= flip;
        let mut pieces = pieces(stream.len() as u64, &[cut]);
        shuffle(&mut pieces, &mut Random::new(seed));
        let mut receiver = Receiver::new(markers, true, LIMITS);
        for piece in pieces {
            if receiver.take(&stream, piece).is_err() {
                break;
            }
        }
        prop_assert!(receiver.found.iter().all(|range| frames.contains(range) && !range.contains(&(at as u64))));
    }

    #[test]
    fn arbitrary_bytes_in_any_order_do_no_harm(
        bytes in prop::collection::vec(prop_oneof![2 => Just(0u8), 1 => any::<u8>()], 1..4000), cut in 1..900u64,
        markers in markers(), crc: bool, seed: u64, ranges in 3..20usize,
    ) {
        let mut pieces = pieces(bytes.len() as u64, &[cut, 5, 40]);
        shuffle(&mut pieces, &mut Random::new(seed));
        let limits = ReassemblerLimits { bytes: 1000, ranges };
        let mut reassembler = Reassembler::new(markers, crc, limits);
        for piece in pieces {
            let there = &bytes[piece.start as usize..piece.end as usize];
            let far = StreamPosition(piece.start);
            if reassembler.take(far, there, &mut |_, _| ()).is_err() {
                break;
            }
        }
        prop_assert!(reassembler.held() <= bytes.len());
    }
}
