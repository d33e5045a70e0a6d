use arrayvec::ArrayVec;
use proptest::prelude::*;

use super::*;

fn flow(v6: bool) -> Flow {
    let address = |v4: &str, v6_: &str| if v6 { v6_.parse().unwrap() } else { v4.parse().unwrap() };
    Flow { local: address("192.0.2.1:7", "[2001:db8::1]:7"), remote: address("192.0.2.2:9", "[2001:db8::2]:9") }
}

fn emitted(segment: &Segment, flow: &Flow, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0xa5; MAX_HEADER + payload.len()];
    let length = segment.emit(flow, payload, &mut out).unwrap();
    assert_eq!(length, segment.header_length() + payload.len());
    out.truncate(length);
    out
}

fn parsed(bytes: &[u8], flow: &Flow) -> Result<(Segment, Range<usize>), SegmentError> {
    Segment::parse(bytes, flow.local.ip(), flow.remote.ip(), Checksum::Verify)
}

fn with_options(options: &[u8]) -> Result<Options, SegmentError> {
    let mut bytes = emitted(&Segment::default(), &flow(false), &[]);
    bytes[12] = (((20 + options.len()) / 4) << 4) as u8;
    bytes.extend(options);
    let (source, to) = (flow(false).local.ip(), flow(false).remote.ip());
    Segment::parse(&bytes, source, to, Checksum::Trusted).map(|(segment, _)| segment.options)
}

fn options() -> impl Strategy<Value = Options> {
    let timestamps = any::<Option<(u32, u32)>>();
    let sack = prop::collection::vec(any::<(u32, u32)>(), 0..4);
    (any::<Option<u16>>(), prop::option::of(0..=14u8), any::<bool>(), timestamps, sack).prop_map(
        |(mss, window_scale, sack_permitted, timestamps, sack)| {
            let timestamps = timestamps.map(|(value, echo)| Timestamps { value, echo });
            // On a SYN there are no blocks.
            let is_syn = mss.is_some() || window_scale.is_some() || sack_permitted;
            let sack = if is_syn { ArrayVec::default() } else { sack.into_iter().collect() };
            Options { mss, window_scale, sack_permitted, timestamps, sack }
        },
    )
}

proptest! {
    #[test]
    fn there_and_back(
        ports: (u16, u16), numbers: (u32, u32), bits: [bool; 4], window: u16, options in options(),
        payload in prop::collection::vec(any::<u8>(), 0..100), v6: bool,
    ) {
        let [syn, fin, rst, psh] = bits;
        let segment = Segment {
            source: ports.0, destination: ports.1, sequence: numbers.0, acknowledgement: numbers.1,
            flags: Flags { syn, ack: true, fin, rst, psh }, window, options,
        };
        let bytes = emitted(&segment, &flow(v6), &payload);
        let (read, range) = parsed(&bytes, &flow(v6)).unwrap();
        prop_assert_eq!(read, segment);
        prop_assert_eq!(&bytes[range], &payload[..]);
    }

    #[test]
    fn a_flipped_bit_is_found(
        payload in prop::collection::vec(any::<u8>(), 0..100), at: prop::sample::Index, v6: bool,
    ) {
        let mut bytes = emitted(&Segment::default(), &flow(v6), &payload);
        let bit = at.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(parsed(&bytes, &flow(v6)).is_err());
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = Segment::parse(&bytes, flow(false).local.ip(), flow(false).remote.ip(), Checksum::Trusted);
    }
}

#[test]
fn unknown_options_are_passed_over() {
    let options = with_options(&[254, 4, 1, 2, 1, 77, 2, 2, 4, 5, 0xb4, 0]).unwrap();
    assert_eq!(options.mss, Some(1460));
    assert_eq!(with_options(&[0, 2, 1, 9]).unwrap(), Options::default(), "nothing behind the end is read");
    assert_eq!(with_options(&[3, 3, 99, 0]).unwrap().window_scale, Some(14));
}

#[test]
fn options_cut_short_are_refused() {
    for (bytes, kind, length) in [
        (&[2, 4, 5, 0][..], 0, 0),
        (&[1, 1, 1, 2], 2, 0),
        (&[2, 0, 0, 0], 2, 0),
        (&[77, 1, 0, 0], 77, 1),
        (&[77, 9, 0, 0], 77, 9),
        (&[2, 3, 5, 0], 2, 3),
        (&[4, 3, 0, 0], 4, 3),
        (&[5, 2, 0, 0], 5, 2),
        (&[5, 6, 0, 0, 0, 0, 0, 0], 5, 6),
        (&[8, 6, 0, 0, 0, 0, 0, 0], 8, 6),
    ] {
        let expected = if kind == 0 { None } else { Some(SegmentError::Option(OptionError { kind, length })) };
        assert_eq!(with_options(bytes).err(), expected, "{bytes:?}");
    }
}

#[test]
fn headers_that_lie_are_refused() {
    let bytes = emitted(&Segment::default(), &flow(false), &[]);
    assert_eq!(parsed(&bytes[..19], &flow(false)), Err(SegmentError::Short(19)));
    let mut short = bytes.clone();
    short[12] = 0x40;
    assert_eq!(parsed(&short, &flow(false)), Err(SegmentError::Offset(4)));
    short[12] = 0x60;
    assert_eq!(parsed(&short, &flow(false)), Err(SegmentError::Short(20)));
    let mixed = Segment::parse(&bytes, flow(false).local.ip(), flow(true).remote.ip(), Checksum::Verify);
    assert_eq!(mixed, Err(SegmentError::Addresses));
}

#[test]
fn a_segment_without_a_connection_is_refused_by_the_standard() {
    let with =
        |flags| Segment { source: 1, destination: 2, sequence: 100, acknowledgement: 70, flags, ..Segment::default() };
    assert_eq!(with(Flags { rst: true, ..Flags::default() }).refusal(0), None);
    let data = with(Flags { ack: true, ..Flags::default() }).refusal(5).unwrap();
    assert_eq!((data.source, data.destination, data.sequence, data.flags.ack), (2, 1, 70, false));
    let syn = Segment { acknowledgement: 0, ..with(Flags { syn: true, fin: true, ..Flags::default() }) };
    let refusal = syn.refusal(5).unwrap();
    assert_eq!((refusal.sequence, refusal.acknowledgement, refusal.flags.ack), (0, 107, true));
}
