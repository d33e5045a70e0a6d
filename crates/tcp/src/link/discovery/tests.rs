use std::net::{Ipv4Addr, SocketAddr};

use proptest::prelude::*;

use super::*;
use crate::link::{ETHERNET, FRAME_OVERHEAD};
use crate::segment::{Checksum, Flags, Flow, MAX_HEADER, Segment};

const IP: usize = ETHERNET;
const ICMP: usize = FRAME_OVERHEAD;
/// The place of the target of a question or an answer, and of the option behind it.
const TARGET: usize = ICMP + 8;
const OPTION: usize = TARGET + 16;

fn ip(host: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0x12, host)
}

fn link(host: u8) -> EthernetLink {
    EthernetLink::new([2, 0, 0, 0, 0, host], ip(host.into()), 4)
}

/// Two that know each other.
fn pair() -> (EthernetLink, EthernetLink) {
    let (mut one, mut other) = (link(1), link(2));
    let Arrived::Answer(answer) = parse(&mut other, &one.question(ip(2))) else { panic!("no answer") };
    assert_eq!(parse(&mut one, &answer), Arrived::Neighbour(ip(2).into()));
    assert_eq!(other.hardware_of(ip(1)), Some(one.hardware), "who asks has said so too");
    (one, other)
}

fn parse(link: &mut EthernetLink, frame: &[u8]) -> Arrived {
    link.parse(frame, Checksum::Verify)
}

/// Makes the checksum of a message right again.
fn mend(frame: &mut [u8]) {
    frame[ICMP + 2..ICMP + 4].fill(0);
    let pseudo = [&frame[IP + 8..ICMP], &((frame.len() - ICMP) as u32).to_be_bytes()[..], &[0, 0, 0, 58]].concat();
    let bytes = [&pseudo[..], &frame[ICMP..]].concat();
    let sum = bytes.chunks(2).fold(0_u32, |sum, pair| {
        let sum = sum + u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
        (sum & 0xffff) + (sum >> 16)
    });
    frame[ICMP + 2..ICMP + 4].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// The frame, changed, with a right checksum.
fn changed(frame: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut frame = frame.to_vec();
    change(&mut frame);
    let length = (frame.len() - ICMP) as u16;
    frame[IP + 4..IP + 6].copy_from_slice(&length.to_be_bytes());
    mend(&mut frame);
    frame
}

fn flow(one: &EthernetLink, other: &EthernetLink) -> Flow {
    let end = |link: &EthernetLink, port| SocketAddr::new(link.addresses[0], port);
    Flow { local: end(one, 7), remote: end(other, 9) }
}

fn frame(one: &EthernetLink, other: &EthernetLink, payload: &[u8]) -> (Segment, Vec<u8>) {
    let flags = Flags { ack: true, ..Flags::default() };
    let segment = Segment { source: 7, destination: 9, sequence: 5, flags, ..Segment::default() };
    let mut out = vec![0xa5; FRAME_OVERHEAD + MAX_HEADER + payload.len()];
    let length = one.emit(&flow(one, other), &segment, payload, &mut out).unwrap();
    out.truncate(length);
    (segment, out)
}

/// The examples of RFC 4291 section 2.7.1 and RFC 2464 section 7.
#[test]
fn groups_are_those_of_the_standards() {
    let group = solicited_node("4037::01:800:200e:8c6c".parse().unwrap());
    assert_eq!(group, "ff02::1:ff0e:8c6c".parse::<Ipv6Addr>().unwrap());
    assert_eq!(group_hardware(group), [0x33, 0x33, 0xff, 0x0e, 0x8c, 0x6c]);
}

#[test]
fn a_segment_gets_through_and_says_where_it_is_from() {
    let (one, mut other) = pair();
    let (sent, bytes) = frame(&one, &other, b"payload");
    let Arrived::Segment(found, segment, range) = parse(&mut other, &bytes) else { panic!("nothing") };
    assert_eq!((segment, &bytes[range]), (sent, &b"payload"[..]));
    assert_eq!(found, flow(&other, &one).swapped());
    assert_eq!(parse(&mut link(3), &bytes), Arrived::Nothing);
    // For another hardware address it is nothing, whatever IP says.
    let mut elsewhere = bytes.clone();
    elsewhere[5] ^= 4;
    assert_eq!(parse(&mut other, &elsewhere), Arrived::Nothing);
}

impl Flow {
    /// As the test's two ends have their ports.
    fn swapped(mut self) -> Self {
        self.local.set_port(9);
        self.remote.set_port(7);
        self
    }
}

#[test]
fn a_question_goes_to_the_group_and_its_answer_to_the_sender() {
    let (mut one, mut other) = (link(1), link(2));
    let question = one.question(ip(2));
    assert_eq!((&question[..6], &question[12..14]), (&group_hardware(solicited_node(ip(2)))[..], &[0x86, 0xdd][..]));
    assert_eq!(question[IP + 24..IP + 40], solicited_node(ip(2)).octets());
    assert_eq!((question[IP + 7], question[ICMP], question[ICMP + 1]), (255, 135, 0));
    assert_eq!((&question[OPTION..], question.len()), (&[1, 1, 2, 0, 0, 0, 0, 1][..], LEAST_FRAME));
    let Arrived::Answer(answer) = parse(&mut other, &question) else { panic!("no answer") };
    assert_eq!((&answer[..6], &answer[IP + 24..IP + 40]), (&one.hardware[..], &ip(1).octets()[..]));
    // An answer to one, which takes the place of what was known (RFC 4861 section 4.4).
    assert_eq!((answer[ICMP], answer[ICMP + 4], &answer[OPTION..OPTION + 2]), (136, 0x60, &[2, 1][..]));
    // A question to the one address alone is answered too, and what it doesn't say is where its frame came from.
    let bare = changed(&one.ask_ipv6(ip(1), ip(2), Some(other.hardware)), |frame| frame.truncate(OPTION));
    let Arrived::Answer(answer) = parse(&mut other, &bare) else { panic!("no answer") };
    assert_eq!(answer[..6], one.hardware);
    // Of others it says nothing; and a link of the host's own addresses leaves the answers to the host.
    assert_eq!(parse(&mut link(3), &question), Arrived::Nothing);
    let mut silent = link(2).without_answers();
    assert_eq!(parse(&mut silent, &question), Arrived::Neighbour(ip(1).into()));
}

const LEAST_FRAME: usize = ICMP + 8 + 16 + 8;

#[test]
fn messages_that_a_router_has_passed_on_or_that_are_damaged_are_nothing() {
    let (mut one, other) = (link(1), link(2));
    let question = one.question(ip(2));
    let answer = other.advertise(ip(2), ip(1), one.hardware);
    for (what, good) in [("question", &question), ("answer", &answer)] {
        let changes: [(&str, Vec<u8>); 7] = [
            ("hops", changed(good, |frame| frame[IP + 7] = 254)),
            ("code", changed(good, |frame| frame[ICMP + 1] = 1)),
            ("cut", changed(good, |frame| frame.truncate(OPTION - 1))),
            ("an option of no length", changed(good, |frame| frame[OPTION + 1] = 0)),
            ("an option that is too long", changed(good, |frame| frame[OPTION + 1] = 2)),
            ("a group as the target", changed(good, |frame| frame[TARGET..][..16].copy_from_slice(&[0xff; 16]))),
            ("checksum", [&good[..ICMP + 3], &[good[ICMP + 3] ^ 1], &good[ICMP + 4..]].concat()),
        ];
        for (change, bytes) in changes {
            let (mut one, mut other) = (link(1), link(2));
            let _ = one.question(ip(2));
            let link = if what == "question" { &mut other } else { &mut one };
            assert_eq!(parse(link, &bytes), Arrived::Nothing, "{what}: {change}");
            assert!(!link.knows(ip(1)) && !link.knows(ip(2)));
        }
    }
}

#[test]
fn unsolicited_advertisements_are_not_learned_and_override_none() {
    let mut liar = link(66);
    liar.addresses = vec![ip(2).into()];
    let to_all = |link: &EthernetLink| link.advertise(ip(2), Ipv6Addr::UNSPECIFIED, [0; 6]);
    let to_one = |link: &EthernetLink| link.advertise(ip(2), ip(1), [2, 0, 0, 0, 0, 1]);
    let mut one = link(1);
    assert_eq!(parse(&mut one, &to_all(&liar)), Arrived::Nothing);
    assert_eq!(parse(&mut one, &to_one(&liar)), Arrived::Nothing);
    assert!(!one.knows(ip(2)));
    // One that is known keeps its hardware address, whether the lie claims to be solicited or not.
    for lie in [to_all(&liar), to_one(&liar)] {
        let (mut one, mut other) = pair();
        assert_eq!(parse(&mut one, &lie), Arrived::Nothing);
        assert_eq!((one.hardware_of(ip(2)), one.poll_doubted()), (Some(other.hardware), Some(ip(2).into())));
        let Arrived::Answer(truth) = parse(&mut other, &one.confirmation(ip(2)).unwrap()) else { panic!("no answer") };
        assert_eq!(parse(&mut one, &lie), Arrived::Nothing, "while it is asked");
        assert_eq!(parse(&mut one, &truth), Arrived::Neighbour(ip(2).into()));
        assert!(!one.is_doubted(ip(2).into()));
        // Without the flag that says so it doesn't even want to override (RFC 4861 section 7.2.5).
        let meek = changed(&lie, |frame| frame[ICMP + 4] &= 0x5f);
        assert_eq!((parse(&mut one, &meek), one.poll_doubted()), (Arrived::Nothing, None));
    }
    // A group cannot have asked.
    let (mut one, _) = (link(1), link(2));
    let _ = one.question(ip(2));
    let lie = changed(&to_all(&liar), |frame| frame[ICMP + 4] = 0x60);
    assert_eq!(parse(&mut one, &lie), Arrived::Nothing);
    // A hardware address that is a group is none.
    let lie = changed(&to_one(&liar), |frame| frame[OPTION + 2] = 3);
    assert_eq!(parse(&mut one, &lie), Arrived::Nothing);
}

#[test]
fn an_answer_without_an_option_is_known_by_its_frame() {
    let (mut one, other) = pair();
    let bare = changed(&other.advertise(ip(2), ip(1), one.hardware), |frame| frame.truncate(OPTION));
    assert_eq!(parse(&mut one, &bare), Arrived::Neighbour(ip(2).into()));
    let mut stranger = link(1);
    let _ = stranger.question(ip(2));
    assert_eq!(parse(&mut stranger, &bare), Arrived::Nothing, "to a question to all it must say more");
}

#[test]
fn an_address_is_probed_before_it_is_used() {
    let (mut one, mut same) = (link(1), EthernetLink::new([2, 0, 0, 0, 0, 9], ip(1), 4));
    let probe = one.probe(ip(1));
    assert_eq!((&probe[IP + 8..IP + 24], probe.len()), (&[0; 16][..], OPTION), "from nobody, without an option");
    // One that has it says so, to all.
    let Arrived::Answer(answer) = parse(&mut same, &probe) else { panic!("no answer") };
    assert_eq!((&answer[..6], answer[ICMP + 4]), (&group_hardware(ALL_NODES)[..], 0x20));
    assert_eq!(parse(&mut one, &answer), Arrived::Taken(ip(1), same.hardware));
    // One that wants it at the same time.
    assert_eq!(parse(&mut one, &same.probe(ip(1))), Arrived::Taken(ip(1), same.hardware));
    // Its own probe that comes back is ignored, and no host learns of an address that is not one's own yet.
    assert_eq!(parse(&mut one, &probe), Arrived::Nothing);
    let mut asker = link(2);
    assert_eq!(parse(&mut one, &asker.question(ip(1))), Arrived::Nothing);
    one.end_probe();
    assert!(matches!(parse(&mut one, &asker.question(ip(1))), Arrived::Answer(_)));
    // From then on it defends it, and a claim changes nothing.
    assert!(matches!(parse(&mut one, &same.probe(ip(1))), Arrived::Answer(_)));
    assert_eq!(parse(&mut one, &answer), Arrived::Nothing);
    // A probe with an option, or to another group, is none (RFC 4861 section 7.1.1).
    let odd = changed(&probe, |frame| frame.extend_from_slice(&[1, 1, 2, 0, 0, 0, 0, 9]));
    let from_other = |bytes: &[u8]| [&bytes[..11], &[9], &bytes[12..]].concat();
    assert_eq!(parse(&mut one, &from_other(&odd)), Arrived::Nothing);
    let odd = changed(&probe, |frame| frame[IP + 24..ICMP].copy_from_slice(&ALL_NODES.octets()));
    assert_eq!(parse(&mut one, &from_other(&odd)), Arrived::Nothing);
}

#[test]
fn a_question_comes_from_an_address_that_reaches_as_far() {
    let local = |host| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host);
    let mut both = EthernetLink::new([2; 6], ip(1), 4).with(local(1)).with(Ipv4Addr::new(10, 0, 0, 1));
    assert_eq!(both.question(local(2))[IP + 8..IP + 24], local(1).octets());
    assert_eq!(both.question(ip(2))[IP + 8..IP + 24], ip(1).octets());
    assert_eq!(both.question(Ipv4Addr::new(10, 0, 0, 2))[28..32], [10, 0, 0, 1]);
}

/// A router's word to the first host that a frame was too big.
fn too_big(mtu: u32, cause: &[u8]) -> Vec<u8> {
    let head = link(254).icmp(Icmpv6Type::PacketTooBig { mtu }, ip(254), ip(1), link(1).hardware, &[]);
    changed(&head, |frame| frame.extend_from_slice(&cause[ETHERNET..]))
}

#[test]
fn a_packet_that_was_too_big_is_named_by_its_flow_and_number() {
    let (mut one, other) = pair();
    let (_, sent) = frame(&one, &other, &[7; 1200]);
    let expected = |mtu| Arrived::TooBig { flow: flow(&one, &other), sequence: 5, mtu };
    let [least, larger] = [1280, 1400].map(expected);
    assert_eq!(parse(&mut one, &too_big(1280, &sent)), least);
    // No more of the packet than the numbers is needed.
    assert_eq!(parse(&mut one, &too_big(1400, &sent[..FRAME_OVERHEAD + 8])), larger);
    // No path of IPv6 is that narrow.
    for mtu in [0, 68, 576, 1279] {
        assert_eq!(parse(&mut one, &too_big(mtu, &sent)), Arrived::Nothing, "{mtu}");
    }
    // Cut too short, of another host, of another protocol, damaged.
    assert_eq!(parse(&mut one, &too_big(1280, &sent[..FRAME_OVERHEAD + 7])), Arrived::Nothing);
    let (_, others) = frame(&other, &one, &[7; 1200]);
    assert_eq!(parse(&mut one, &too_big(1280, &others)), Arrived::Nothing);
    let mut datagram = sent.clone();
    datagram[IP + 6] = 17;
    assert_eq!(parse(&mut one, &too_big(1280, &datagram)), Arrived::Nothing);
    let mut damaged = too_big(1280, &sent);
    damaged[ICMP + 7] ^= 1;
    assert_eq!(parse(&mut one, &damaged), Arrived::Nothing);
}

proptest! {
    #[test]
    fn a_flipped_bit_never_makes_a_neighbour(at: prop::sample::Index) {
        let (mut one, other) = (link(1), link(2));
        let _ = one.question(ip(2));
        let mut bytes = other.advertise(ip(2), ip(1), one.hardware).to_vec();
        // The hardware addresses are the device's to check; traffic class and flow label say nothing.
        let first = (IP + 4) * 8;
        let bit = first + at.index(bytes.len() * 8 - first);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(parse(&mut one, &bytes), Arrived::Nothing);
        prop_assert!(!one.knows(ip(2)));
    }

    #[test]
    fn any_message_is_survived(
        kind in prop_oneof![Just(2_u8), Just(135), Just(136), any::<u8>()],
        body in prop::collection::vec(any::<u8>(), 0..120), to_group: bool, probing: bool,
    ) {
        let mut one = link(1);
        if probing {
            let _ = one.probe(ip(1));
        }
        let to = if to_group { solicited_node(ip(1)) } else { ip(1) };
        let head = link(2).icmp(Icmpv6Type::NeighborSolicitation, ip(2), to, one.hardware, &[]);
        let bytes = changed(&head, |frame| {
            frame[ICMP] = kind;
            frame.extend_from_slice(&body);
        });
        let _ = parse(&mut one, &bytes);
        let _ = parse(&mut one, &bytes[..bytes.len() - body.len() / 2]);
    }
}
