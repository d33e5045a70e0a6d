use proptest::prelude::*;

use super::*;
use crate::segment::{Flags, MAX_HEADER};

fn link(host: u8) -> EthernetLink {
    EthernetLink::new([2, 0, 0, 0, 0, host], Ipv4Addr::new(10, 0, 0, host), 2)
}

/// Its address.
fn address(link: &EthernetLink) -> IpAddr {
    link.addresses[0]
}

/// Two that know each other.
fn pair() -> (EthernetLink, EthernetLink) {
    let (mut one, mut other) = (link(1), link(2));
    let Arrived::Answer(answer) = other.parse(&one.question(address(&other)), Checksum::Verify) else {
        panic!("no answer")
    };
    assert_eq!(one.parse(&answer, Checksum::Verify), Arrived::Neighbour(address(&other)));
    (one, other)
}

fn frame(one: &EthernetLink, other: &EthernetLink, payload: &[u8]) -> (Segment, Vec<u8>) {
    let end = |link: &EthernetLink, port| SocketAddr::new(address(link), port);
    let flow = Flow { local: end(one, 7), remote: end(other, 9) };
    let flags = Flags { ack: true, ..Flags::default() };
    let segment = Segment { source: 7, destination: 9, sequence: 5, flags, ..Segment::default() };
    let mut out = vec![0; FRAME_OVERHEAD + MAX_HEADER + payload.len()];
    let length = one.emit(&flow, &segment, payload, &mut out).unwrap();
    out.truncate(length);
    (segment, out)
}

#[test]
fn a_segment_gets_through_and_says_where_it_is_from() {
    let (one, mut other) = pair();
    let (sent, bytes) = frame(&one, &other, b"payload");
    let Arrived::Segment(flow, segment, range) = other.parse(&bytes, Checksum::Verify) else { panic!("nothing") };
    assert_eq!((segment, &bytes[range]), (sent, &b"payload"[..]));
    assert_eq!((flow.local.to_string(), flow.remote.to_string()), ("10.0.0.2:9".into(), "10.0.0.1:7".into()));
    // Ethernet fills up short frames.
    let padded = [&bytes[..], &[0; 20]].concat();
    assert!(matches!(other.parse(&padded, Checksum::Verify), Arrived::Segment(_, _, range) if range.len() == 7));
}

#[test]
fn a_frame_can_be_made_before_its_neighbour_is_known() {
    let (one, mut other) = pair();
    let (segment, known) = frame(&one, &other, b"");
    let flow = Flow { local: SocketAddr::new(address(&one), 7), remote: SocketAddr::new(address(&other), 9) };
    let mut unknown = link(1).emit_unaddressed(&flow, &segment).unwrap();
    unknown[..6].copy_from_slice(&other.hardware);
    assert_eq!(unknown, known);
    assert!(matches!(other.parse(&unknown, Checksum::Verify), Arrived::Segment(..)));
}

#[test]
fn what_is_for_others_is_nothing() {
    let (mut one, other) = pair();
    let (_, bytes) = frame(&one, &other, b"payload");
    assert_eq!(link(3).parse(&bytes, Checksum::Verify), Arrived::Nothing);
    assert_eq!(link(3).parse(&one.question(address(&other)), Checksum::Verify), Arrived::Nothing);
    let own = address(&one);
    assert_eq!(link(1).parse(&one.question(own), Checksum::Verify), Arrived::Nothing, "from itself");
}

#[test]
fn neighbours_are_bounded_and_the_unknown_are_named() {
    let mut one = link(1);
    for host in 2..5 {
        let own = address(&one);
        one.parse(&link(host).question(own), Checksum::Verify);
    }
    assert_eq!(one.neighbours.len(), 2);
    let flow = Flow { local: ([10, 0, 0, 1], 1).into(), remote: ([10, 0, 0, 2], 1).into() };
    let error = one.emit(&flow, &Segment::default(), &[], &mut [0; 100]).unwrap_err();
    assert_eq!(error.to_string(), "no answer yet with the hardware address of 10.0.0.2");
}

#[test]
fn a_reserved_bit_of_the_header_is_covered_too() {
    let (one, mut other) = pair();
    let (_, mut bytes) = frame(&one, &other, b"payload");
    bytes[14 + 6] ^= 0x80;
    assert_eq!(other.parse(&bytes, Checksum::Verify), Arrived::Nothing);
}

/// The operating system answers for the host's own addresses; neighbours are learned all the same.
#[test]
fn a_link_without_answers_only_listens() {
    let (mut host, mut other) = (link(1).without_answers(), link(2));
    let (own, theirs) = (address(&host), address(&other));
    assert_eq!(host.parse(&other.question(own), Checksum::Verify), Arrived::Neighbour(theirs));
    assert!(host.knows(theirs));
}

/// What a liar says of an address that is known costs a question, and changes nothing before the neighbour is gone.
#[test]
fn another_hardware_address_is_not_believed_while_the_neighbour_answers() {
    let (mut one, mut other) = pair();
    let theirs = address(&other);
    let mut liar = EthernetLink::new([2, 0, 0, 0, 0, 66], theirs, 2);
    let own = address(&one);
    // By a question, and by what announces itself.
    for asked in [own, theirs] {
        let lie = liar.ask(asked, None);
        let told = one.parse(&lie, Checksum::Verify);
        assert!(matches!(told, Arrived::Nothing | Arrived::Answer(_)), "{told:?}");
        assert_eq!(one.hardware_of(theirs), Some(other.hardware));
    }
    assert_eq!((one.poll_doubted(), one.poll_doubted(), one.is_doubted(theirs)), (Some(theirs), None, true));
    let question = one.confirmation(theirs).unwrap();
    assert_eq!(question[..6], other.hardware, "it is asked where it is known to be");
    let Arrived::Answer(lie) = liar.parse(&question, Checksum::Verify) else { panic!("no lie") };
    assert_eq!(one.parse(&lie, Checksum::Verify), Arrived::Nothing);
    let Arrived::Answer(truth) = other.parse(&question, Checksum::Verify) else { panic!("no answer") };
    assert_eq!(one.parse(&truth, Checksum::Verify), Arrived::Neighbour(theirs));
    assert!(!one.is_doubted(theirs));
    // A neighbour that does not answer is forgotten, and then another may have its address.
    one.parse(&liar.question(own), Checksum::Verify);
    one.forget(theirs);
    let _ = one.question(theirs);
    assert_eq!(one.parse(&lie, Checksum::Verify), Arrived::Neighbour(theirs));
    assert_eq!((one.hardware_of(theirs), one.confirmation(own)), (Some(liar.hardware), None));
}

proptest! {
    #[test]
    fn a_flipped_bit_never_gets_through_as_a_segment(
        payload in prop::collection::vec(any::<u8>(), 0..50), at: prop::sample::Index,
    ) {
        let (one, mut other) = pair();
        let (_, mut bytes) = frame(&one, &other, &payload);
        // The first twelve bytes are addresses, of which only the device's check sequence takes care.
        let bit = 12 * 8 + at.index((bytes.len() - 12) * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(other.parse(&bytes, Checksum::Verify), Arrived::Nothing);
    }

    #[test]
    fn any_frame_is_survived(mut bytes in prop::collection::vec(any::<u8>(), 0..120), ip: bool, cut in 0..60usize) {
        let (one, mut other) = pair();
        if ip {
            let (_, good) = frame(&one, &other, &bytes);
            bytes = good[..good.len() - cut.min(good.len())].to_vec();
        }
        let _ = other.parse(&bytes, Checksum::Trusted);
    }
}
