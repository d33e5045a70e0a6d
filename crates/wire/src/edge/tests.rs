use proptest::prelude::*;

use super::ack::{Ack, EcnCounts, MoreRanges, pack_range};
use super::addresses::{Addresses, MAX_ADDRESSES_LENGTH, MAX_RAILS, pack_address};
use super::frame::{self, Close, Frame, NotReady, Segment, SegmentOptions};
use super::packet::{self, Builder, Header, Packet};
use super::setup::{self, Accept, Hello, Message, Offer, Offers, Reject, Setup, Terms, Versions};
use super::{BASE_DATAGRAM, ConnectionId, Destination, EdgeError, destination, packets_in_row};
use crate::Crc32c;

fn header(number: u64) -> Header {
    Header { ack_now: true, key_phase: false, rail: 2, destination: ConnectionId(0x0102_0304_0506_0708), number }
}

/// A tagged DDP header.
const TAGGED: [u8; 14] = [0xc1, 0x40, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0x10, 0];
/// An untagged one.
const UNTAGGED: [u8; 18] = [0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];

fn ack(more: &[u8]) -> Ack<'_> {
    let ecn = EcnCounts { ect0: 5, ect1: 6, ce: 7 };
    let more = MoreRanges::packed(more);
    Ack { rail: 1, largest: 1 << 40, first: 3, delay_us: 25, ecn, credit: 65536, overflows: 2, more }
}

/// A packet with one of each frame.
fn everything(number: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![];
    let more = [pack_range(1, 2), pack_range(5, 1)].concat();
    let mut builder = Builder::new(&mut out, &header(number));
    builder.frame(&Frame::Ack(ack(&more)));
    builder.frame(&Frame::Ping);
    builder.frame(&Frame::NotReady(NotReady { rail: 0, number: 77, position: 1 << 50, round: 3 }));
    builder.frame(&Frame::GoOn { round: 4 });
    builder.frame(&Frame::Close(Close { abortive: true, end: 99, reason: b"why" }));
    builder.frame(&Frame::CloseAck);
    builder.frame(&Frame::Challenge([1; 8]));
    builder.frame(&Frame::Response([2; 8]));
    builder.frame(&Frame::Confirm([3; 32]));
    builder.segment(5, Some((UNTAGGED.len() + payload.len()) as u16), &SegmentOptions::NONE, &UNTAGGED);
    builder.payload(payload);
    builder.segment(1 << 47, None, &SegmentOptions::NONE, &TAGGED);
    builder.payload(payload);
    builder.finish();
    out
}

/// A full data packet has at most 48 bytes above UDP beside its payload, 56 when a tag of 16 bytes takes the place of
/// both checks.
#[test]
fn overhead_of_a_full_data_packet() {
    // Options are for what is tagged.
    let fence = SegmentOptions { unordered: true, fence: Some(7) };
    for (ddp, options) in [
        (&TAGGED[..], SegmentOptions::NONE),
        (&UNTAGGED[..], SegmentOptions::NONE),
        (&TAGGED[..], SegmentOptions { unordered: true, fence: None }),
        (&TAGGED[..], fence),
    ] {
        let mut out = vec![];
        let mut builder = Builder::new(&mut out, &header(1));
        builder.segment(0, None, &options, ddp);
        builder.payload(&[0; 1000]);
        builder.finish();
        let overhead = out.len() - 1000;
        assert_eq!(overhead, packet::HEADER_LENGTH + frame::SEGMENT_OVERHEAD + options.length() + ddp.len());
        assert!(overhead <= 48, "{overhead}");
        assert!(overhead - 8 + 16 <= 56, "{overhead}");
    }
}

/// The vector of `docs/wire.md`.
#[test]
fn a_packet_byte_by_byte() {
    let mut out = vec![0xa5; 3];
    let mut builder = Builder::new(&mut out, &header(0x1_0000_0009));
    builder.segment(0x0a0b_0c0d_0e0f, None, &SegmentOptions::NONE, &TAGGED);
    builder.payload(b"123456789");
    builder.finish();
    let check = Crc32c::of(
        &[
            &[3, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f][..],
            &TAGGED,
            &[0, 0, 0, 1, 0, 0, 0, 9],
            &[0x49, 2, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9],
        ]
        .concat(),
    );
    let expected = [
        &[0x49, 2, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9][..],
        &check.to_be_bytes(),
        &[3, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f],
        &TAGGED,
        b"123456789",
        &[0xe3, 0x06, 0x92, 0x83],
    ]
    .concat();
    assert_eq!(out[3..], expected);
    assert_eq!(check, 0xab94_117f, "{check:#010x}");
}

/// The vector of `docs/wire.md`, and what later versions may add: options that must be understood are not read over.
#[test]
fn options_of_a_segment() {
    let write = |options: SegmentOptions, counted: Option<u16>| {
        let mut out = vec![];
        let mut builder = Builder::new(&mut out, &header(1));
        builder.segment(0x0a0b_0c0d_0e0f, counted, &options, &TAGGED);
        builder.payload(b"123456789");
        builder.finish();
        out
    };
    let fence = SegmentOptions { unordered: true, fence: Some(0x1234) };
    let to_end = write(fence, None);
    let head = [0x0d, 0x03, 0, 0, 0x12, 0x34, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f];
    assert_eq!(to_end[packet::HEADER_LENGTH..][..head.len()], head);
    let unordered = write(SegmentOptions { unordered: true, fence: None }, Some(23));
    assert_eq!(unordered[packet::HEADER_LENGTH..][..10], [0x0e, 0x01, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0, 23]);
    for (options, counted) in [(fence, None), (fence, Some(23)), (SegmentOptions { unordered: false, ..fence }, None)] {
        let bytes = write(options, counted);
        let packet = Packet::parse(&bytes).unwrap().verify(0).unwrap();
        let ulpdu = [&TAGGED[..], b"123456789"].concat();
        let (position, crc) = (0x0a0b_0c0d_0e0f, Crc32c::of(b"123456789"));
        let segment = Segment { position, ulpdu: &ulpdu, crc, options };
        assert_eq!(packet.frames().collect::<Vec<_>>(), [Frame::Segment(segment)]);
    }
    for bit in 0..8 {
        let mut later = write(SegmentOptions { unordered: true, fence: None }, None);
        later[packet::HEADER_LENGTH + 1] |= 1 << bit;
        packet::reseal(&mut later, 1);
        let read = Packet::parse(&later).unwrap().verify(0);
        match bit {
            0 | 4.. => assert!(read.is_ok(), "bit {bit}"),
            // The distance of a fence would be the first half of the position.
            1 => assert!(read.is_err() || read.unwrap().frames().count() == 1),
            _ => assert_eq!(read, Err(EdgeError::Value("an option of a segment")), "bit {bit}"),
        }
    }
}

#[test]
fn what_was_written_is_read() {
    let number = 0x7_8000_0001;
    let bytes = everything(number, b"payload");
    assert_eq!(destination(&bytes), Ok(Destination::Connection(header(0).destination)));
    let packet = Packet::parse(&bytes).unwrap().verify(number - 1000).unwrap();
    assert_eq!(packet.header, header(number));
    let frames: Vec<Frame<'_>> = packet.frames().collect();
    let more = [pack_range(1, 2), pack_range(5, 1)].concat();
    assert_eq!(frames[0], Frame::Ack(ack(&more)));
    let ranges: Vec<_> = ack(&more).ranges().collect();
    let top = 1u64 << 40;
    assert_eq!(ranges, [top - 3..=top, top - 6..=top - 5, top - 12..=top - 12]);
    assert_eq!(frames[2], Frame::NotReady(NotReady { rail: 0, number: 77, position: 1 << 50, round: 3 }));
    assert_eq!(frames[4], Frame::Close(Close { abortive: true, end: 99, reason: b"why" }));
    assert_eq!(frames[8], Frame::Confirm([3; 32]));
    let ulpdu = [&UNTAGGED[..], b"payload"].concat();
    assert_eq!(
        frames[9],
        Frame::Segment(Segment {
            position: 5,
            ulpdu: &ulpdu,
            crc: Crc32c::of(b"payload"),
            options: SegmentOptions::NONE
        })
    );
    assert!(matches!(frames[10], Frame::Segment(Segment { position: 0x8000_0000_0000, .. })));
    assert_eq!(frames.len(), 11);
    let wants: Vec<bool> = frames.iter().map(Frame::wants_ack).collect();
    assert_eq!(wants, [false, true, false, true, true, true, true, true, true, true, true]);
}

/// Every packet that is cut short, or has one bit changed outside of payload and its CRC, is refused before a frame
/// is acted on.
#[test]
fn damage_outside_of_payload_never_passes() {
    let bytes = everything(9, b"1234");
    let good = |bytes: &[u8]| Packet::parse(bytes).and_then(|packet| packet.verify(8)).is_ok();
    assert!(good(&bytes));
    // Two payloads of 4 bytes with their CRCs: the packet's last 8 bytes, and those before the last segment's head.
    let last = bytes.len() - 8;
    let first = last - 7 - TAGGED.len() - 8;
    for length in 0..bytes.len() {
        // The last segment reaches to the end: what is cut from it is found by the payload's CRC.
        assert_eq!(good(&bytes[..length]), length >= last + 4, "cut to {length}");
    }
    for bit in 0..8 * bytes.len() {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let payload = (first..first + 8).contains(&(bit / 8)) || bit / 8 >= last;
        assert_eq!(good(&damaged), payload, "bit {bit}");
    }
}

#[test]
fn padding_and_frames_of_later_versions_are_passed_over() {
    let mut out = vec![];
    let mut builder = Builder::new(&mut out, &header(1));
    builder.frame(&Frame::Ping);
    builder.pad(BASE_DATAGRAM);
    builder.finish();
    assert_eq!(out.len(), BASE_DATAGRAM);
    let packet = Packet::parse(&out).unwrap().verify(0).unwrap();
    assert!(packet.frames().eq([Frame::Ping, Frame::Padding]));
    assert_eq!(frame::split(&[0x90, 0, 2, 1, 2, 1]).unwrap().0, Frame::Skipped(0x90));
    assert_eq!(frame::split(&[0x7f]), Err(EdgeError::Frame(0x7f)));
}

#[test]
fn ranges_below_zero_and_too_many_ranges_are_refused() {
    let mut bytes = vec![0x02, 0];
    bytes.extend_from_slice(&5u64.to_be_bytes());
    bytes.extend_from_slice(&6u32.to_be_bytes());
    bytes.extend_from_slice(&[0; 25]);
    assert_eq!(frame::split(&bytes), Err(EdgeError::Value("a range of packets")));
    let last = bytes.len() - 1;
    bytes[last] = 32;
    assert_eq!(frame::split(&bytes), Err(EdgeError::Value("the number of ranges")));
}

#[test]
fn numbers_are_made_whole_near_what_is_expected() {
    // RFC 9000 appendix A.3.
    assert_eq!(frame::expand(0x9b32, 0xa82f_30eb, 16), 0xa82f_9b32);
    assert_eq!(frame::expand(0, 0, 32), 0);
    assert_eq!(frame::expand(0xffff_ffff, 0x1_0000_0000, 32), 0xffff_ffff);
    assert_eq!(frame::expand(0, 0xffff_ffff, 32), 0x1_0000_0000);
    assert_eq!(frame::expand_position(0, 0xffff_ffff_ffff), 1 << 48);
}

#[test]
fn addresses_there_and_back() {
    let all = (0..MAX_RAILS as u16).map(|port| match port % 2 {
        0 => std::net::SocketAddr::from(([192, 0, 2, 7], port + 1)),
        _ => std::net::SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 7], port + 1)),
    });
    let mut packed = vec![];
    all.clone().for_each(|address| pack_address(address, &mut packed));
    assert!(packed.len() < MAX_ADDRESSES_LENGTH);
    let frame = Frame::Addresses(Addresses::packed(5, &packed).unwrap());
    let mut out = vec![0xa5; 3];
    let mut builder = Builder::new(&mut out, &header(1));
    builder.frame(&frame);
    builder.finish();
    let packet = Packet::parse(&out[3..]).unwrap().verify(0).unwrap();
    let Some(Frame::Addresses(read)) = packet.frames().next() else { panic!("no addresses") };
    assert_eq!((read.serial, read.length()), (5, out.len() - 3 - packet::HEADER_LENGTH));
    assert!(read.iter().eq(all) && frame.wants_ack());
    for length in 0..packed.len() {
        let whole = length % 26 == 0 || length % 26 == 7;
        assert_eq!(Addresses::packed(5, &packed[..length]).is_ok(), whole, "cut to {length}");
    }
    pack_address(([192, 0, 2, 7], 99).into(), &mut packed);
    assert_eq!(Addresses::packed(5, &packed), Err(EdgeError::Value("the number of addresses")));
}

#[test]
fn an_address_is_one_host() {
    for (bytes, what) in [
        ([4, 10, 0, 0, 1, 0, 0], "the port of an address"),
        ([4, 0, 0, 0, 0, 0, 9], "an address"),
        ([4, 224, 0, 0, 1, 0, 9], "an address"),
        ([4, 255, 255, 255, 255, 0, 9], "an address"),
        ([5, 10, 0, 0, 1, 0, 9], "the kind of an address"),
    ] {
        assert_eq!(Addresses::packed(1, &bytes), Err(EdgeError::Value(what)), "{bytes:?}");
    }
}

fn terms<'a>(private_data: &'a [u8], offers: &'a [u8]) -> Terms<'a> {
    Terms {
        nonce: [1; 16],
        reset_token: [2; 16],
        credit: 3,
        peer_timeout_ms: 4,
        max_ack_delay_us: 5,
        max_datagram: 6,
        inbound_reads: 7,
        outbound_reads: 8,
        rails: 9,
        private_data,
        offers: Offers::packed(offers).unwrap(),
    }
}

fn setups<'a>(private: &'a [u8], offers: &'a [u8], cookie: &'a [u8]) -> Vec<Message<'a>> {
    vec![
        Message::Hello(Hello { terms: terms(private, offers), versions: Versions::OURS, cookie, proof: None }),
        Message::Hello(Hello {
            terms: terms(private, offers),
            versions: Versions::OURS,
            cookie,
            proof: Some(&[8; 48]),
        }),
        Message::Accept(Accept { terms: terms(private, offers), proof: None }),
        Message::Accept(Accept { terms: terms(private, offers), proof: Some(&[9; 80]) }),
        Message::Reject { reason: Reject::OtherKey, private_data: private },
        Message::Reject { reason: Reject::Other(700), private_data: private },
        Message::Retry { cookie },
        Message::Versions(Versions::OURS),
        Message::Wait,
    ]
}

#[test]
fn setup_there_and_back_and_every_damage() {
    let mut offers = vec![];
    Offer { kind: 3, must_understand: true, value: b"value" }.emit(&mut offers);
    Offer { kind: 4, must_understand: false, value: b"" }.emit(&mut offers);
    let private = [7; setup::MAX_PRIVATE_DATA];
    for message in setups(&private, &offers, &[5; setup::MAX_COOKIE]) {
        let packet = Setup { destination: ConnectionId(1), source: ConnectionId(2), message };
        let mut bytes = vec![];
        packet.emit(&mut bytes, 0);
        assert!(bytes.len() <= BASE_DATAGRAM);
        assert_eq!(Setup::parse(&bytes), Ok(packet));
        let ids = Destination::Setup { destination: packet.destination, source: packet.source };
        assert_eq!(destination(&bytes), Ok(ids));
        for length in 0..bytes.len() {
            assert!(Setup::parse(&bytes[..length]).is_err());
            let mut damaged = bytes.clone();
            damaged[length] ^= 0x10;
            assert!(Setup::parse(&damaged).is_err());
        }
    }
    let read: Vec<Offer<'_>> = Offers::packed(&offers).unwrap().iter().collect();
    assert_eq!(read[0], Offer { kind: 3, must_understand: true, value: b"value" });
    assert_eq!(read[1], Offer { kind: 4, must_understand: false, value: b"" });
    assert!(Offers::packed(&offers[..offers.len() - 1]).is_err());
}

/// What a proof covers does not change with the cookie, the check and the proof itself; with all else it does.
#[test]
fn a_proof_covers_all_but_cookie_check_and_itself() {
    let hello = Hello { terms: terms(b"private", &[]), versions: Versions::OURS, cookie: &[], proof: None };
    let setup = |message| Setup { destination: ConnectionId(1), source: ConnectionId(2), message };
    let covered = setup(Message::Hello(hello)).covered();
    let mut whole = vec![];
    setup(Message::Hello(hello)).emit(&mut whole, 0);
    assert_eq!(covered, [&whole[..21], &whole[25..whole.len() - 1]].concat());
    let later = Hello { cookie: b"cookie", proof: Some(&[4; 48]), ..hello };
    assert_eq!(setup(Message::Hello(later)).covered(), covered);
    let other = Hello { versions: Versions::packed(&[]).unwrap(), ..hello };
    assert_ne!(setup(Message::Hello(other)).covered(), covered);
    let accept = Accept { terms: terms(b"private", &[]), proof: Some(&[4; 80]) };
    whole.clear();
    setup(Message::Accept(accept)).emit(&mut whole, 0);
    assert_eq!(setup(Message::Accept(accept)).covered(), [&whole[..21], &whole[25..whole.len() - 81]].concat());
}

/// A hello without a proof has a zero where its padding begins: the bytes are those of a hello that knows no proof.
#[test]
fn no_proof_is_padding() {
    let hello = Hello { terms: terms(b"private", &[]), versions: Versions::OURS, cookie: &[], proof: None };
    let setup = Setup { destination: ConnectionId(0), source: ConnectionId(2), message: Message::Hello(hello) };
    let mut bytes = vec![];
    setup.emit(&mut bytes, BASE_DATAGRAM);
    let end = 25 + setup.covered().len() - 21;
    assert_eq!(bytes.len(), BASE_DATAGRAM);
    assert!(bytes[end..].iter().all(|byte| *byte == 0));
    bytes[end] = 1;
    let check = Crc32c::of(&[&bytes[..21], &bytes[25..]].concat());
    bytes[21..25].copy_from_slice(&check.to_be_bytes());
    assert_eq!(Setup::parse(&bytes), Err(EdgeError::Value("the kind of a proof")));
}

#[test]
fn another_version_is_seen_as_such() {
    let mut bytes = vec![];
    Setup { destination: ConnectionId(0), source: ConnectionId(2), message: Message::Wait }.emit(&mut bytes, 0);
    bytes[0] = 0xc1;
    bytes[4] = 9;
    let check = [&bytes[..21], &bytes[25..]].concat();
    bytes[21..25].copy_from_slice(&Crc32c::of(&check).to_be_bytes());
    assert_eq!(Setup::parse(&bytes), Err(EdgeError::Version(9)));
    let invariant = setup::invariant(&bytes).unwrap();
    assert!(invariant.hello && invariant.version == 9 && invariant.source == ConnectionId(2));
}

#[test]
fn a_reset() {
    let bytes = setup::reset(ConnectionId(5), &[6; 16]);
    assert_eq!(destination(&bytes), Ok(Destination::Reset { source: ConnectionId(5) }));
    assert_eq!(setup::reset_token(&bytes), Ok([6; 16]));
    assert_eq!(setup::reset_token(&bytes[..24]), Err(EdgeError::Short));
    assert_eq!(setup::invariant(&bytes), Err(EdgeError::NotEdge));
}

proptest! {
    #[test]
    fn a_number_comes_back(number in 0u64..u64::MAX / 2, off in -(1i64 << 30)..(1 << 30)) {
        let near = number.saturating_add_signed(off);
        prop_assert_eq!(frame::expand(number & 0xffff_ffff, near, 32), number);
        prop_assert_eq!(frame::expand_position(number & 0xffff_ffff_ffff, near), number);
    }

    /// The quick way gives what reading the frame gives, or nothing.
    #[test]
    fn of_a_last_segment_as_much_is_covered_as_when_it_is_read(
        bytes in proptest::collection::vec(any::<u8>(), 0..40),
        kind in 0u8..16,
    ) {
        let bytes = [&[kind][..], &bytes].concat();
        let is_segment = kind == frame::kind::SEGMENT;
        let by_reading = frame::split(&bytes).ok().map(|(_, covered, _)| covered.len());
        prop_assert_eq!(frame::covered_of_last(&bytes), by_reading.filter(|_| is_segment));
    }

    #[test]
    fn packets_in_a_row_are_those_with_one_destination(
        kinds in proptest::collection::vec((proptest::sample::select(vec![0x41_u8, 0x49, 0xc1, 0x01]), 0_u8..2), 1..6),
        cut in 0_usize..12,
    ) {
        let datagram = |(first, id): &(u8, u8)| [*first, 0, 0, 0, 0, 0, 0, 0, 0, *id, 7, 7];
        let datagrams: Vec<u8> = kinds.iter().flat_map(datagram).collect();
        let datagrams = &datagrams[..datagrams.len() - cut];
        let first = destination(&datagrams[..12.min(datagrams.len())]);
        let is_one = |datagram: &&[u8]| {
            let destination = destination(datagram);
            matches!(destination, Ok(Destination::Connection(_))) && destination == first
        };
        prop_assert_eq!(packets_in_row(datagrams, 12), datagrams.chunks(12).take_while(is_one).count());
    }

    #[test]
    fn noise_is_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..200), first in 0u8..16) {
        let _ = destination(&bytes);
        let _ = Setup::parse(&bytes);
        let mut rest = &[&[first][..], &bytes].concat()[..];
        while let Ok((frame, covered, after)) = frame::split(rest) {
            prop_assert!(covered.len() + after.len() <= rest.len());
            if let Frame::Ack(ack) = frame {
                ack.ranges().for_each(drop);
            }
            if after.is_empty() { break }
            rest = after;
        }
    }
}
