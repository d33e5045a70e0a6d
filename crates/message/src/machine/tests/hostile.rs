//! Peers that violate the protocol.

use proptest::prelude::*;
use weft_base::{PeerId, Stag, Time};
use weft_wire::message::{Class, Envelope, Outcome, PACKET_HEADER_LENGTH, PacketHeader, Parts, Record, RemotePart};

use super::world::{Node, TestHost, World};
use crate::host::{Failure, Ticket};
use crate::machine::{Terms, Violation};
use crate::settings::Settings;

fn settings() -> Settings {
    Settings {
        packet_bytes: 512,
        short_bytes: 256,
        stream_bytes: 0,
        eager_bytes: 2000,
        data_credits: 3,
        control_credits: 2,
        unexpected_bytes: 4000,
        unexpected_messages: 12,
        ..Settings::default()
    }
}

const TERMS: Terms = Terms { packet_bytes: 512, data_credits: 3, control_credits: 2 };
const PEER: PeerId = PeerId(0);
const PLAIN: Envelope = Envelope { tag: Some(1), data: None };

/// One machine, connected with a hostile peer.
fn victim() -> World {
    victim_with(&settings())
}

fn victim_with(settings: &Settings) -> World {
    let mut world = World::pair(settings);
    let Node { machine, host } = &mut world.nodes[1];
    machine.handle_connected(PEER, TERMS, Time::ZERO, host);
    machine.handle_connected(PeerId(2), TERMS, Time::ZERO, host);
    world
}

fn packet(class: Class, credits: (u16, u16), records: &[Record]) -> Vec<u8> {
    let mut bytes = vec![0; PACKET_HEADER_LENGTH];
    let (data_credits, control_credits) = credits;
    let scarce = data_credits % 2 == 1;
    PacketHeader { class, data_credits, control_credits, scarce, waited: false, doubled: false }.emit(&mut bytes);
    for record in records {
        let at = bytes.len();
        bytes.resize(at + record.length() + record.body_length(), 0);
        record.emit(&mut bytes[at..]);
    }
    bytes
}

fn feed(world: &mut World, from: PeerId, bytes: &[u8]) -> Result<(), Violation> {
    let Node { machine, host } = &mut world.nodes[1];
    machine.handle_packet(from, bytes, Time::ZERO, host)
}

fn short() -> Record {
    Record::Short { envelope: PLAIN, acknowledge: None, length: 1 }
}

fn start(whole: u64, length: u32) -> Record {
    Record::Start { envelope: PLAIN, acknowledge: None, whole, length }
}

fn parts(lengths: &[(u64, u64)]) -> Parts {
    lengths.iter().map(|(offset, length)| RemotePart { stag: Stag(9), offset: *offset, length: *length }).collect()
}

fn request(length: u64, source: &[(u64, u64)]) -> Record {
    Record::Request { envelope: PLAIN, id: 5, length, delivery: false, source: parts(source) }
}

/// Sends a message until the peer has seen its request. Returns its id on the wire.
fn ask(world: &mut World, length: u64) -> u64 {
    world.send(1, 0, Some(1), length, false);
    let Node { machine, host } = &mut world.nodes[1];
    let mut out = vec![0; 512];
    let length = machine.poll_packet(PEER, &mut out, Time::ZERO, host).expect("it sends");
    match Record::parse(&out[PACKET_HEADER_LENGTH..length]) {
        Ok((Record::Request { id, .. }, ..)) => id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_breaks_the_rules_is_a_violation() {
    let data = |records: &[Record]| packet(Class::Data, (0, 0), records);
    let control = |records: &[Record]| packet(Class::Control, (0, 0), records);
    let too_many =
        vec![Record::Short { envelope: Envelope { tag: None, data: None }, acknowledge: None, length: 0 }; 257];
    for (bytes, text) in [
        (vec![], "header"),
        (vec![9; 8], "header"),
        (vec![0; 513], "header"),
        ([packet(Class::Data, (0, 0), &[]), vec![0; 505]].concat(), "longer"),
        ([packet(Class::Data, (0, 0), &[]), vec![1, 0, 0]].concat(), "record"),
        (packet(Class::Credits, (0, 0), &[Record::Close]), "no credit"),
        (packet(Class::Data, (1, 0), &[]), "returned"),
        (packet(Class::Control, (0, 1), &[]), "returned"),
        (packet(Class::Credits, (u16::MAX, u16::MAX), &[]), "returned"),
        (control(&[short()]), "must not have"),
        (control(&[request(1, &[])]), "must not have"),
        (control(&[Record::Call { id: 1, length: 0 }]), "must not have"),
        (control(&[start(9, 1)]), "must not have"),
        (control(&[Record::More { length: 1 }]), "must not have"),
        (data(&[start(9, 10)]), "than it has"),
        (data(&[start(9, 1), Record::More { length: 9 }]), "than it has"),
        (data(&[start(9, 1), start(9, 1)]), "is complete"),
        (data(&[Record::More { length: 0 }]), "not begun"),
        (data(&[start(9, 9), Record::More { length: 0 }]), "not begun"),
        (data(&[request(10, &[(0, 9)])]), "together"),
        (data(&[request(10, &[(0, 11)])]), "together"),
        (data(&[request(u64::MAX, &[(0, u64::MAX), (0, 1)])]), "together"),
        (data(&[request(2, &[(u64::MAX, 2)])]), "together"),
        (control(&[Record::Clear { id: 1, sink_id: 1, sink: Parts::new() }]), "does not send"),
        (control(&[Record::Taken { id: u64::MAX, outcome: Outcome::Done }]), "does not send"),
        (control(&[Record::Written { sink_id: 0 }]), "does not wait"),
        (control(&[Record::Answer { id: 1, outcome: Outcome::Done, length: 0 }]), "not made"),
        (control(&[Record::CloseAnswer { agreed: true }]), "not asked"),
        (control(&[Record::Close, Record::Close]), "twice"),
    ] {
        let violation = feed(&mut victim(), PEER, &bytes).expect_err(text);
        assert!(violation.0.contains(text), "{violation:?} is not about {text:?}");
    }
    let many = Settings { packet_bytes: 4096, ..settings() };
    let mut world = World::pair(&many);
    let Node { machine, host } = &mut world.nodes[1];
    machine.handle_connected(PEER, TERMS, Time::ZERO, host);
    assert_eq!(feed(&mut world, PEER, &data(&too_many[1..])), Ok(()));
    assert!(feed(&mut world, PEER, &data(&too_many)).expect_err("too many").0.contains("too many"));
    assert!(
        feed(&mut World::pair(&settings()), PEER, &data(&[])).expect_err("apart").0.contains("without a connection")
    );
}

#[test]
fn ids_are_good_for_their_peer_only_and_for_what_is_due() {
    let stages: [fn(u64) -> Record; 2] = [
        |id| Record::Clear { id, sink_id: 7, sink: parts(&[(0, 2000)]) },
        |id| Record::Taken { id, outcome: Outcome::Refused },
    ];
    for record in stages {
        let mut world = victim();
        let id = ask(&mut world, 2000);
        let bytes = packet(Class::Control, (1, 0), &[record(id)]);
        let stranger = packet(Class::Control, (0, 0), &[record(id)]);
        assert!(feed(&mut world, PeerId(2), &stranger).expect_err("a stranger").0.contains("does not send"));
        assert_eq!(feed(&mut world, PEER, &bytes), Ok(()));
        let again = packet(Class::Control, (0, 0), &[record(id)]);
        feed(&mut world, PEER, &again).expect_err("it came twice");
    }
    let mut world = victim();
    let id = ask(&mut world, 2000);
    let long = Record::Clear { id, sink_id: 7, sink: parts(&[(0, 2000), (0, 1)]) };
    assert!(
        feed(&mut world, PEER, &packet(Class::Control, (0, 0), &[long])).expect_err("long").0.contains("more bytes")
    );
}

#[test]
fn a_packet_without_credit_is_refused_and_an_unreceived_message_returns_none() {
    let mut world = victim();
    for _ in 0..3 {
        assert_eq!(feed(&mut world, PEER, &packet(Class::Data, (0, 0), &[short()])), Ok(()));
    }
    assert!(feed(&mut world, PEER, &packet(Class::Data, (0, 0), &[])).expect_err("no credit").0.contains("no credit"));
    assert!(world.nodes[1].machine.handle_other_packet(PEER).is_err());
    // There are places for 12 of them: the others keep their credit.
    let mut world = victim();
    let mut come = 0;
    loop {
        if feed(&mut world, PEER, &packet(Class::Data, (0, 0), &[short()])).is_err() {
            break;
        }
        come += 1;
        let Node { machine, host } = &mut world.nodes[1];
        machine.poll_packet(PEER, &mut [0; 512], Time::ZERO, host);
    }
    assert_eq!(come, 12 + 3);
    assert_eq!(world.nodes[1].machine.packets.len(), 3);
}

#[test]
fn records_that_wait_for_control_credits_are_bounded() {
    let mut world = victim();
    world.receive(1, None, Some(crate::Match { tag: 1, ignore: 0 }), 1, Some(1));
    let wants = Record::Short { envelope: PLAIN, acknowledge: Some(3), length: 0 };
    let records = vec![wants; 20];
    let mut come = 0;
    while feed(&mut world, PEER, &packet(Class::Data, (0, 0), &records)).is_ok() {
        come += 1;
        assert!(come < 1000, "it accepts them forever");
        let Node { machine, host } = &mut world.nodes[1];
        while machine.poll_packet(PEER, &mut [0; 512], Time::ZERO, host).is_some() {}
    }
    // Once the control credits are returned, the others are returned too.
    let credits = packet(Class::Credits, (0, 2), &[]);
    let Node { machine, host } = &mut world.nodes[1];
    let mut given = 0;
    for _ in 0..100 {
        let before = machine.handle_packet(PEER, &credits, Time::ZERO, host);
        let mut out = [0; 512];
        let mut control = 0;
        while machine.poll_packet(PEER, &mut out, Time::ZERO, host).is_some() {
            let header = PacketHeader::parse(&out).expect("good");
            given += header.data_credits;
            control += usize::from(header.class == Class::Control);
        }
        if control < 2 {
            break;
        }
        assert_eq!(before, Ok(()));
    }
    assert!(given >= 2, "{given} {come} {}", machine.peers.at(PEER).controls.len());
}

#[test]
fn answers_that_a_peer_does_not_take_are_few_and_all_come_when_it_does() {
    // Each call is short, and has an answer that fills a packet.
    const CALLS: usize = 200;
    let big = Settings { packet_bytes: 8000, short_bytes: 7000, ..settings() };
    let terms = Terms { packet_bytes: 8000, ..TERMS };
    let mut world = World::pair(&big);
    let Node { machine, host } = &mut world.nodes[1];
    machine.handle_connected(PEER, terms, Time::ZERO, host);
    let records: Vec<_> = (0..CALLS as u64).map(|id| Record::Call { id, length: 4 }).collect();
    let mut most = 0;
    let mut answers = Vec::new();
    assert_eq!(feed(&mut world, PEER, &packet(Class::Data, (0, 0), &records)), Ok(()));
    // Each round has as many answers as credits, and the peer returns one of them.
    for _ in 0..CALLS {
        let Node { machine, host } = &mut world.nodes[1];
        for _ in 0..CALLS {
            let calls = core::mem::take(&mut host.called);
            for (_, call, body) in calls {
                assert_eq!(body, [0; 4]);
                machine.answer(call, &[7; 6000], host);
            }
            let waiting: usize = machine.peers.at(PEER).controls.iter().map(|control| control.body.len()).sum();
            assert_eq!(waiting, machine.peers.at(PEER).answer_bytes);
            most = most.max(waiting);
            let mut out = [0; 8000];
            let Some(length) = machine.poll_packet(PEER, &mut out, Time::ZERO, host) else { break };
            let bytes = &out[PACKET_HEADER_LENGTH..length];
            if let Ok((Record::Answer { id, .. }, ..)) = Record::parse(bytes) {
                answers.push(id);
            }
        }
        assert_eq!(feed(&mut world, PEER, &packet(Class::Credits, (0, 1), &[])), Ok(()));
    }
    assert_eq!(answers, (0..CALLS as u64).collect::<Vec<_>>());
    assert!(most as u64 <= crate::machine::peer::most_answer_bytes(6000), "{most} bytes of answers are kept");
    let machine = &mut world.nodes[1].machine;
    assert!(machine.packets.is_empty() && machine.called.is_empty() && machine.peers.at(PEER).answering == 0);
}

#[test]
fn calls_are_handed_on_until_64_kib_of_answers_wait() {
    let big = Settings { packet_bytes: 8000, short_bytes: 7000, ..settings() };
    let mut world = World::pair(&big);
    let Node { machine, host } = &mut world.nodes[1];
    machine.handle_connected(PEER, Terms { packet_bytes: 8000, ..TERMS }, Time::ZERO, host);
    let records: Vec<_> = (0..200).map(|id| Record::Call { id, length: 4 }).collect();
    assert_eq!(feed(&mut world, PEER, &packet(Class::Data, (0, 0), &records)), Ok(()));
    let Node { machine, host } = &mut world.nodes[1];
    let mut answered = 0;
    while let Some((_, call, _)) = host.called.pop() {
        machine.answer(call, &[7; 1024], host);
        answered += 1;
    }
    // 31 others were being answered when the last byte was.
    assert_eq!((answered, machine.peers.at(PEER).answer_bytes), (64 + 31, (64 + 31) * 1024));
}

#[test]
fn a_peer_that_comes_and_goes_leaves_no_more_than_it_may() {
    // By places and by bytes: 7 of 512 bytes are within the budget, and 6 in its window.
    for (length, each, places, most) in [(1, 20, 12, 12), (300, 1, 12, 12), (300, 1, 1000, 13)] {
        let mut world = victim_with(&Settings { unexpected_messages: places, ..settings() });
        for _ in 0..3000 {
            for _ in 0..3 {
                let records = vec![Record::Short { envelope: PLAIN, acknowledge: None, length }; each];
                assert_eq!(feed(&mut world, PEER, &packet(Class::Data, (0, 0), &records)), Ok(()));
            }
            let Node { machine, host } = &mut world.nodes[1];
            machine.handle_connected(PEER, TERMS, Time::ZERO, host);
        }
        let machine = &world.nodes[1].machine;
        // A message left behind takes as much as another place.
        let place = Settings::MESSAGE_BYTES as usize;
        let most = most + 3 * (2 * 512 + 256 * place) / if length == 1 { place } else { place + 512 };
        assert_eq!((machine.incoming.len(), machine.packets.len()), (most, 0));
        for _ in 0..most {
            world.receive(1, Some(0), Some(crate::Match { tag: 1, ignore: 0 }), 300, None);
        }
        let machine = &mut world.nodes[1].machine;
        assert_eq!((machine.incoming.len(), machine.peers.at(PEER).beyond), (0, 0));
        assert_eq!(machine.peers.at(PEER).left_behind, 0);
        assert_eq!((machine.budget.used(), machine.budget.beyond(), machine.budget.taken()), (0, 0, 0));
        assert!(!machine.budget.is_scarce());
    }
}

/// More callers than there are places, one after the other at the same one.
#[test]
fn callers_that_are_forgotten_leave_nothing() {
    let mut world = victim();
    let mut caller = PeerId(3);
    for number in 0..70_000 {
        let Node { machine, host } = &mut world.nodes[1];
        machine.handle_connected(caller, TERMS, Time::ZERO, host);
        assert!(!machine.forget_peer(caller), "it is connected");
        assert_eq!(feed(&mut world, caller, &packet(Class::Data, (0, 0), &[short(), request(300, &[])])), Ok(()));
        let Node { machine, host } = &mut world.nodes[1];
        while machine.next_ready().is_some() {}
        machine.handle_lost(caller, number % 2 == 0, host);
        assert!(!machine.forget_peer(caller), "a message of it is kept");
        let tag = Some(crate::Match { tag: 1, ignore: 0 });
        assert_eq!(machine.discard(Some(caller), tag, host).map(|found| found.length), Some(1));
        assert!(machine.forget_peer(caller));
        let gone = caller;
        caller = gone.next();
        assert_eq!(caller.place(), gone.place());
        assert!(!machine.is_busy(gone) && machine.peers.get(gone).is_none());
        assert_eq!((machine.incoming.len(), machine.packets.len(), machine.peers.iter().count()), (0, 0, 4));
    }
}

fn record() -> impl Strategy<Value = Record> {
    // Ids of first keys, so that some of them are known.
    let id = || prop_oneof![Just((1 << 32) | 1_u64), Just((1 << 32) | 2), Just((3 << 32) | 1), any::<u64>()];
    let envelope =
        || (proptest::option::of(0..3_u64), any::<Option<u64>>()).prop_map(|(tag, data)| Envelope { tag, data });
    let piece = (any::<u32>(), 0..3000_u64, 0..3000_u64).prop_map(|(stag, offset, length)| RemotePart {
        stag: Stag(stag),
        offset,
        length,
    });
    let pieces =
        || proptest::collection::vec(piece.clone(), 0..3).prop_map(|parts| parts.into_iter().collect::<Parts>());
    let outcome = || prop_oneof![Just(Outcome::Done), Just(Outcome::Refused)];
    prop_oneof![
        2 => (envelope(), proptest::option::of(id()), prop_oneof![0..200_u64, any::<u64>()], 0..50_u32)
            .prop_map(|(envelope, acknowledge, whole, length)| Record::Start { envelope, acknowledge, whole, length }),
        3 => (0..50_u32).prop_map(|length| Record::More { length }),
        3 => (envelope(), proptest::option::of(id()), 0..50_u32)
            .prop_map(|(envelope, acknowledge, length)| Record::Short { envelope, acknowledge, length }),
        2 => (envelope(), id(), 0..4000_u64, any::<bool>())
            .prop_map(|(envelope, id, length, delivery)| {
                Record::Request { envelope, id, length, delivery, source: Parts::new() }
            }),
        2 => (envelope(), id(), pieces()).prop_map(|(envelope, id, source)| {
            let length = source.iter().map(|part| part.length).sum();
            Record::Request { envelope, id, length, delivery: false, source }
        }),
        2 => (id(), id(), pieces()).prop_map(|(id, sink_id, sink)| Record::Clear { id, sink_id, sink }),
        2 => id().prop_map(|sink_id| Record::Written { sink_id }),
        2 => (id(), outcome()).prop_map(|(id, outcome)| Record::Taken { id, outcome }),
        1 => (id(), 0..50_u32).prop_map(|(id, length)| Record::Call { id, length }),
        1 => (id(), outcome(), 0..50_u32).prop_map(|(id, outcome, length)| Record::Answer { id, outcome, length }),
        1 => Just(Record::Close),
        1 => any::<bool>().prop_map(|agreed| Record::CloseAnswer { agreed }),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Packet { data: bool, credits: (u16, u16), records: Vec<Record>, cut: Option<usize> },
    Bytes(Vec<u8>),
    Poll,
    Send(u64, bool),
    Receive(u64, Option<u64>),
    Discard,
    Call,
    Transferred(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let credits = prop_oneof![6 => Just((0, 0)), 2 => Just((1, 0)), 1 => (any::<u16>(), any::<u16>())];
    prop_oneof![
        8 => (
            any::<bool>(),
            credits,
            proptest::collection::vec(record(), 0..4),
            proptest::option::weighted(0.1, 0..200_usize),
        )
            .prop_map(|(data, credits, records, cut)| Step::Packet { data, credits, records, cut }),
        1 => proptest::collection::vec(any::<u8>(), 0..100).prop_map(Step::Bytes),
        3 => Just(Step::Poll),
        2 => (0..4000_u64, any::<bool>()).prop_map(|(length, delivery)| Step::Send(length, delivery)),
        2 => (0..4000_u64, proptest::option::of(0..100_u64)).prop_map(|(length, many)| Step::Receive(length, many)),
        1 => Just(Step::Discard),
        1 => Just(Step::Call),
        1 => prop_oneof![Just((1 << 32) | 1_u64), Just((1 << 32) | (1 << 31) | 1), any::<u64>()]
            .prop_map(Step::Transferred),
    ]
}

fn take(world: &mut World, step: Step) -> Result<(), Violation> {
    match step {
        Step::Packet { data, credits, records, cut } => {
            let mut bytes = packet(if data { Class::Data } else { Class::Control }, credits, &records);
            bytes.truncate(cut.unwrap_or(bytes.len()));
            return feed(world, PEER, &bytes);
        }
        Step::Bytes(bytes) => return feed(world, PEER, &bytes),
        Step::Send(length, delivery) => {
            world.send(1, 0, Some(length % 3), length, delivery);
        }
        Step::Receive(length, many) => {
            world.receive(1, None, Some(crate::Match { tag: length % 3, ignore: 0 }), length, many);
        }
        _ => {}
    }
    let Node { machine, host } = &mut world.nodes[1];
    match step {
        Step::Poll => {
            machine.poll_packet(PEER, &mut [0; 512], Time::ZERO, host);
        }
        Step::Discard => {
            machine.discard(None, None, host);
        }
        Step::Call => machine.call(PEER, Ticket(1), b"call", host),
        Step::Transferred(ticket) => machine.handle_transferred(Ticket(ticket), Err(Failure::NoMemory), host),
        _ => {}
    }
    Ok(())
}

fn lose(world: &mut World) {
    let Node { machine, host } = &mut world.nodes[1];
    machine.handle_lost(PEER, true, host);
    let TestHost { connects, disconnects, items, written, .. } = host;
    connects.clear();
    disconnects.clear();
    items.clear();
    written.clear();
    machine.handle_connected(PEER, TERMS, Time::ZERO, host);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]
    #[test]
    fn whatever_a_peer_sends_nothing_breaks(steps in proptest::collection::vec(step(), 1..60)) {
        let mut world = victim();
        world.nodes[1].host.most_buffers = 3;
        for step in steps {
            if take(&mut world, step).is_err() {
                lose(&mut world);
            }
            world.nodes[1].host.items.clear();
            world.nodes[1].host.disconnects.clear();
            let machine = &world.nodes[1].machine;
            prop_assert!(machine.budget.used() <= 4000);
            prop_assert!(machine.packets.len() <= 3);
        }
        // If it was closed by agreement, sends stay until the next connection is lost.
        lose(&mut world);
        lose(&mut world);
        let Node { machine, host } = &mut world.nodes[1];
        while machine.cancel_receive(|_| true, host) {}
        prop_assert!(machine.outgoing.is_empty() && machine.receives.is_empty() && machine.calls.is_empty());
        prop_assert!(!machine.is_busy(PEER));
    }
}
