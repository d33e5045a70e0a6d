//! Message endpoints in virtual time: who connects to whom, in which order things happen, and what becomes of requests
//! when a connection ends.

use core::time::Duration;
use std::net::SocketAddr;

use crate::side::{LIMIT, Side, WINDOW, connect, run};
use weft_base::{MessageNumber, PeerId, Stag};
use weft_memory::{Combine, Element};
use weft_mpa::{Extensions, Initiator, Offer};
use weft_nic::{
    Address, AtomicPost, Completed, ConnectionError, EndpointError, EndpointFailure, EndpointSettings, Event, JobKey,
    Level, Match, ReceivePost, RemotePiece, RemotePlace, SendPost, TransferPost,
};
use weft_simulate::{Behaviour, RawPeer, World};
use weft_wire::ddp::{Header, Target};
use weft_wire::message::Hello;
use weft_wire::rdmap::{Control, Opcode};

fn two(messages: weft_message::Settings) -> (World, Side, Side) {
    let world = World::new(1, Behaviour { delay: Duration::from_micros(10), ..Behaviour::default() });
    let sides = [1, 2].map(|id| Side::open(&world, id, messages.clone()));
    let [here, there] = sides;
    (world, here, there)
}

fn usual() -> (World, Side, Side) {
    two(weft_message::Settings::default())
}

fn atomic(peer: PeerId, place: RemotePlace, operation: Combine, operand: u64, context: u64) -> AtomicPost {
    AtomicPost {
        peer,
        place,
        element: Element::U64,
        operation,
        count: 1,
        operand: operand.to_ne_bytes().to_vec(),
        compare: Vec::new(),
        result: Some(vec![0; 8].into()),
        level: Level::Delivered,
        fence: false,
        context,
        op_flags: 0,
    }
}

#[test]
fn with_a_key_memory_is_reached_both_ways_once_it_is_proved() {
    let world = World::new(1, Behaviour { delay: Duration::from_micros(10), ..Behaviour::default() });
    let key = || Some(JobKey::new(&[7; 32]).unwrap());
    let [here, there] = [1, 2].map(|id| Side::guarded(&world, id, EndpointSettings::default(), key()));
    connect(&world, &here, &there);
    for (from, to) in [(&here, &there), (&there, &here)] {
        let write = TransferPost::new(from.peer(to), vec![3; 8], to.place(0)).level(Level::Delivered);
        from.endpoint.write(write).unwrap();
        assert!(world.run(&[&here.nic, &there.nic], LIMIT, || from.count() > 0));
        assert_eq!(from.take()[0].outcome, Ok(()));
        assert_eq!(to.word(), u64::from_ne_bytes([3; 8]));
    }
}

#[test]
fn packets_for_which_there_was_no_room_follow_though_nothing_comes_from_the_peer() {
    // More than is laid out at a time, and less than what makes the peer give credits back.
    const MESSAGES: usize = 60;
    let (world, here, there) = two(weft_message::Settings { data_credits: 200, ..weft_message::Settings::default() });
    let peer = connect(&world, &here, &there);
    for _ in 0..MESSAGES {
        there.endpoint.receive(ReceivePost::new(vec![0; 16_000])).unwrap();
    }
    for _ in 0..MESSAGES {
        here.endpoint.send(SendPost::new(peer, vec![7; 16_000])).unwrap();
    }
    run(&world, [&here, &there], [MESSAGES, MESSAGES]);
    assert!(here.take().iter().chain(&there.take()).all(|event| event.outcome == Ok(())));
}

#[test]
fn a_transfer_has_as_many_bytes_at_the_peer_as_here_and_ends_within_64_bits() {
    let (world, here, there) = usual();
    let peer = connect(&world, &here, &there);
    let piece = |offset, length| RemotePiece { place: there.place(offset), length };
    let write = |pieces: &[RemotePiece]| {
        let post = TransferPost::new(peer, vec![5; 16], there.place(0)).level(Level::Delivered);
        here.endpoint.write(TransferPost { pieces: pieces.to_vec(), ..post })
    };
    let end = u64::MAX - 7;
    let wrong = [vec![piece(0, 15)], vec![piece(0, 8), piece(8, 9)], vec![piece(0, u64::MAX), piece(8, 17)]];
    for pieces in wrong.iter().chain([&vec![piece(0, 7), piece(end, 9)]]) {
        let refused = write(pieces);
        assert!(matches!(refused, Err(EndpointError::Invalid(_))), "{pieces:?}: {refused:?}");
    }
    let past = here.endpoint.write(TransferPost::new(peer, vec![5; 16], there.place(end)));
    assert!(matches!(past, Err(EndpointError::Invalid(_))), "{past:?}");
    write(&[piece(100, 6), piece(8, 10)]).unwrap();
    run(&world, [&here, &there], [1, 0]);
    assert_eq!(here.take()[0].outcome, Ok(()));
    let bytes = there.window.to_vec();
    let written = |at: usize| (8..18).contains(&at) || (100..106).contains(&at);
    assert!((0..WINDOW).all(|at| bytes[at] == if written(at) { 5 } else { 0 }));
}

#[test]
fn an_atomic_has_as_many_bytes_of_each_kind_as_its_elements() {
    let (world, here, there) = usual();
    let (peer, place) = (connect(&world, &here, &there), there.place(0));
    let right = |operation, compares: bool| AtomicPost {
        count: 2,
        operand: vec![1; 16],
        compare: vec![1; if compares { 16 } else { 0 }],
        result: Some(vec![0; 16].into()),
        ..atomic(peer, place, operation, 0, 1)
    };
    let wrong: [&dyn Fn(&mut AtomicPost); 6] = [
        &|post| post.operand.truncate(15),
        &|post| post.operand.push(0),
        &|post| post.compare.push(0),
        &|post| post.result = Some(vec![0; 8].into()),
        &|post| post.result = Some(vec![0; 24].into()),
        &|post| post.count = 3,
    ];
    for (operation, compares) in [(Combine::Sum, false), (Combine::SwapIfEqual, true)] {
        for change in wrong {
            let mut post = right(operation, compares);
            change(&mut post);
            let refused = here.endpoint.atomic(post);
            assert!(matches!(refused, Err(EndpointError::Invalid(_))), "{operation:?}: {refused:?}");
        }
        here.endpoint.atomic(right(operation, compares)).unwrap();
        here.endpoint.atomic(AtomicPost { result: None, ..right(operation, compares) }).unwrap();
    }
    let read = AtomicPost { operand: Vec::new(), ..right(Combine::Read, false) };
    here.endpoint.atomic(read).unwrap();
    let with_operand = here.endpoint.atomic(right(Combine::Read, false));
    assert!(matches!(with_operand, Err(EndpointError::Invalid(_))), "{with_operand:?}");
}

fn result(event: &Event) -> u64 {
    u64::from_ne_bytes(event.buffer.as_ref().expect("it comes back")[..].try_into().unwrap())
}

/// RFC 7306 has a sum and an exchange, but no maximum: that is a call, which may wait for credit.
#[test]
fn atomics_are_done_in_the_order_in_which_they_were_asked_for() {
    let few = weft_message::Settings { data_credits: 1, control_credits: 1, ..weft_message::Settings::default() };
    for messages in [weft_message::Settings::default(), few] {
        let (world, here, there) = two(messages);
        let (peer, place) = (connect(&world, &here, &there), there.place(0));
        const CALLS: u64 = 40;
        for round in 0..3 {
            let base = round * 1000;
            for call in 1..=CALLS {
                here.endpoint.atomic(atomic(peer, place, Combine::Max, base + call, call)).unwrap();
            }
            here.endpoint.atomic(atomic(peer, place, Combine::Sum, 100, CALLS + 1)).unwrap();
            here.endpoint.atomic(atomic(peer, place, Combine::Write, base, CALLS + 2)).unwrap();
            here.endpoint.atomic(atomic(peer, place, Combine::Max, base + 5, CALLS + 3)).unwrap();
            run(&world, [&here, &there], [CALLS as usize + 3, 0]);
            let mut events = here.take();
            events.sort_by_key(|event| event.context);
            for event in &events {
                let before = match event.context {
                    1 => {
                        if round == 0 {
                            0
                        } else {
                            base - 1000 + 5
                        }
                    }
                    call if call <= CALLS + 1 => base + call - 1,
                    call if call == CALLS + 2 => base + CALLS + 100,
                    _ => base,
                };
                assert_eq!((event.outcome.clone(), result(event)), (Ok(()), before), "request {}", event.context);
            }
            assert_eq!(there.word(), base + 5);
        }
    }
}

#[test]
fn both_connect_at_once_and_one_connection_stands() {
    for seed in 0..50 {
        let world = World::new(seed, Behaviour::default());
        let sides = [1, 2].map(|id| Side::open(&world, id, weft_message::Settings::default()));
        let [here, there] = &sides;
        for (from, to) in [(here, there), (there, here)] {
            from.endpoint.receive(ReceivePost::new(vec![0; 8]).from(from.peer(to)).context(1)).unwrap();
            from.endpoint.send(SendPost::new(from.peer(to), vec![seed as u8; 8]).context(2)).unwrap();
        }
        run(&world, [here, there], [2, 2]);
        world.run(&[&here.nic, &there.nic], LIMIT, || false);
        for side in &sides {
            let mut events = side.take();
            events.sort_by_key(|event| event.context);
            assert!(events.iter().all(|event| event.outcome == Ok(())), "seed {seed}: {events:?}");
            assert_eq!(events[0].buffer.as_ref().map(|buffer| buffer.to_vec()), Some(vec![seed as u8; 8]));
            assert_eq!(events.len(), 2, "each once");
        }
        let opened = || [here, there].map(|side| side.nic.counters().connections);
        let before = opened();
        connect(&world, here, there);
        connect(&world, there, here);
        assert_eq!(opened(), before, "seed {seed}: one stands, for both");
    }
}

/// What was sent before the peer's answer to us came is not news of it: it is refused at once, and the connection that
/// stands is not even asked whether it lives.
#[test]
fn an_old_hello_of_a_peer_that_answered_since_is_refused_at_once() {
    for (serial, is_old) in [(1, true), (1000, false)] {
        let (world, here, there) = usual();
        connect(&world, &here, &there);
        let mut raw = RawPeer::connect(&world, here.endpoint.address().paths[0]).unwrap();
        let bytes = hello(&here, there.endpoint.address(), serial);
        let (_, request) = Initiator::start(Offer::default(), &bytes).unwrap();
        let before = world.now();
        raw.send(&here.nic, &request);
        assert!(raw.sees_end(&here.nic), "it is refused");
        let took = world.now().since(before);
        assert_eq!(took < Duration::from_millis(100), is_old, "serial {serial}: {took:?}");
        // The connection that stood still does.
        connect(&world, &here, &there);
    }
}

/// What an endpoint with this address says when it connects to `here`.
fn hello(here: &Side, address: &Address, serial: u64) -> Vec<u8> {
    let hello = Hello {
        id: address.id,
        wanted: here.endpoint.address().id,
        serial,
        packet_bytes: 16_512,
        data_credits: 16,
        control_credits: 8,
        addresses: address.paths.clone(),
        host: None,
        nonce: None,
        proof: None,
    };
    let mut bytes = vec![0; hello.length()];
    hello.emit(&mut bytes);
    bytes
}

/// What its NIC gave up when a peer broke the protocol is over, and is not taken for what was asked for since.
#[test]
fn a_peer_that_breaks_the_protocol_ends_each_request_once() {
    let world = World::new(3, Behaviour { delay: Duration::from_micros(10), ..Behaviour::default() });
    let here = Side::open(&world, 1, weft_message::Settings::default());
    let address = Address { id: 77, ..Address::from(SocketAddr::from(([10, 0, 0, 1], 599))) };
    let peer = here.endpoint.peer(&address).unwrap();
    const EACH: u64 = 30;
    for round in 1..=20 {
        let mut raw = RawPeer::connect(&world, here.endpoint.address().paths[0]).unwrap();
        let words = hello(&here, &address, round);
        let offer = Offer { extensions: Extensions::all(), ..Offer::default() };
        raw.start_saying(&here.nic, offer, &words, || ()).expect("it is let in");
        // Who connected says something first.
        raw.send_segment(&here.nic, &write_of_nothing());
        for context in 0..EACH {
            let place = RemotePlace { stag: Stag(0x1234_5600), offset: 0 };
            match context % 3 {
                0 => here.endpoint.read(TransferPost::new(peer, vec![0; 100], place).context(context)),
                1 => here
                    .endpoint
                    .write(TransferPost::new(peer, vec![0; 9], place).level(Level::Delivered).context(context)),
                _ => here.endpoint.atomic(atomic(peer, place, Combine::Sum, 1, context)),
            }
            .unwrap();
        }
        world.run(&[&here.nic], Duration::from_millis(10), || false);
        assert_eq!(here.count(), 0, "it has answered nothing");
        // No packet begins like that.
        raw.send_segment(&here.nic, &send(1, &[0xff; 40]));
        assert!(world.run(&[&here.nic], LIMIT, || here.count() as u64 == EACH), "round {round}: {}", here.count());
        let mut events = here.take();
        events.sort_by_key(|event| event.context);
        assert_eq!(events.iter().map(|event| event.context).collect::<Vec<_>>(), (0..EACH).collect::<Vec<_>>());
        for event in &events {
            assert_eq!(event.outcome, Err(EndpointFailure::Lost(ConnectionError::Protocol)), "round {round}");
        }
    }
}

fn write_of_nothing() -> Vec<u8> {
    segment(Opcode::Write, Target::Tagged { stag: Stag(0), offset: 0 }, &[])
}

fn send(number: u32, payload: &[u8]) -> Vec<u8> {
    let target = Target::Untagged { word: 0, queue: 0, number: MessageNumber(number), offset: 0 };
    segment(Opcode::Send, target, payload)
}

#[test]
fn a_peer_that_is_gone_is_an_error_for_each_request_once() {
    for operation in 0..4 {
        let (world, here, there) = usual();
        let (peer, place) = (connect(&world, &here, &there), there.place(0));
        const EACH: u64 = 10;
        for context in 0..EACH {
            let posted = match operation {
                // Nobody receives it, and it is too long to be kept.
                0 => here.endpoint.send(SendPost::new(peer, vec![1; 1 << 20]).tag(1).context(context)),
                1 => here
                    .endpoint
                    .write(TransferPost::new(peer, vec![1; WINDOW], place).level(Level::Delivered).context(context)),
                2 => here.endpoint.read(TransferPost::new(peer, vec![1; WINDOW], place).context(context)),
                _ => here.endpoint.atomic(atomic(peer, place, Combine::Max, 1, context)),
            };
            posted.unwrap();
        }
        // It has not heard of any of that, and ends.
        drop(there);
        assert!(
            world.run(&[&here.nic], LIMIT, || here.count() as u64 == EACH),
            "operation {operation}: {}",
            here.count()
        );
        world.run(&[&here.nic], LIMIT, || false);
        let mut events = here.take();
        events.sort_by_key(|event| event.context);
        let contexts: Vec<_> = events.iter().map(|event| event.context).collect();
        assert_eq!(contexts, (0..EACH).collect::<Vec<_>>(), "operation {operation}");
        for event in &events {
            assert!(event.outcome.is_err(), "operation {operation}: {event:?}");
            assert!(event.buffer.is_some() || operation == 3, "the memory comes back: {event:?}");
        }
        // Nothing is left behind.
        let Side { nic, domain, endpoint, window, .. } = here;
        let _ = endpoint.close();
        world.run(&[&nic], Duration::from_secs(5), || false);
        drop((endpoint, window, events));
        let released = nic.registry().release_domain(domain);
        assert_eq!(released, Ok(()), "operation {operation}");
    }
}

#[test]
fn where_no_program_listens_each_request_says_so_and_a_later_one_tries_again() {
    let (world, here, there) = usual();
    let address = there.endpoint.address().clone();
    drop(there);
    let peer = here.endpoint.peer(&address).unwrap();
    for _ in 0..40 {
        here.endpoint.send(SendPost::new(peer, vec![1; 8])).unwrap();
        assert!(world.run(&[&here.nic], LIMIT, || here.count() == 1));
        let [event] = &here.take()[..] else { panic!("one") };
        assert!(matches!(event.outcome, Err(EndpointFailure::Unreachable(_))), "{event:?}");
    }
    // All that the attempts had was given back.
    let again = Side::open(&world, 2, weft_message::Settings::default());
    connect(&world, &here, &again);
}

#[test]
fn idle_connections_are_closed_and_opened_again() {
    let messages =
        weft_message::Settings { idle_timeout: Some(Duration::from_millis(1)), ..weft_message::Settings::default() };
    let (world, here, there) = two(messages);
    for round in 1..=5 {
        connect(&world, &here, &there);
        assert_eq!(here.nic.counters().connections, round, "a new one");
        assert!(world.run(&[&here.nic, &there.nic], LIMIT, || here.endpoint.is_idle() && there.endpoint.is_idle()));
        world.run(&[&here.nic, &there.nic], Duration::from_millis(50), || false);
        assert!(here.count() == 0 && there.count() == 0, "nobody is told");
    }
}

/// Without it the NIC's thread would sleep through the time at which an idle connection is to be closed.
#[test]
fn what_happens_by_itself_has_its_time() {
    let timeout = Duration::from_secs(1);
    let messages = weft_message::Settings { idle_timeout: Some(timeout), ..weft_message::Settings::default() };
    let (world, here, there) = two(messages);
    connect(&world, &here, &there);
    for side in [&here, &there] {
        let at = side.nic.next_deadline().expect("a time");
        assert!(at <= world.now() + timeout, "{at:?} at {:?}", world.now());
    }
}

#[test]
fn the_end_of_a_request_makes_room_for_another() {
    const DEPTH: usize = 4;
    let world = World::new(1, Behaviour { delay: Duration::from_micros(10), ..Behaviour::default() });
    let here = Side::with(&world, 1, EndpointSettings { send_depth: DEPTH as u32, ..EndpointSettings::default() });
    let there = Side::open(&world, 2, weft_message::Settings::default());
    let peer = connect(&world, &here, &there);
    let write = |context: u64| here.endpoint.write(write(peer, there.place(0), context));
    for round in 0..5 {
        (0..DEPTH).for_each(|number| write(number as u64).unwrap());
        assert_eq!(write(99), Err(EndpointError::Again), "round {round}: one too many");
        run(&world, [&here, &there], [DEPTH, 0]);
        assert!(here.take().iter().all(|event| event.outcome == Ok(())));
    }
}

fn write(peer: PeerId, place: RemotePlace, context: u64) -> TransferPost {
    TransferPost::new(peer, vec![1; 8], place).context(context)
}

#[test]
fn a_fence_waits_for_all_before_it() {
    let (world, here, there) = usual();
    let peer = connect(&world, &here, &there);
    for round in 0..20u8 {
        here.endpoint.read(TransferPost::new(peer, vec![0; WINDOW], there.place(0)).context(1)).unwrap();
        let write = TransferPost::new(peer, vec![round + 1; WINDOW], there.place(0)).context(2);
        here.endpoint.write(TransferPost { fence: true, ..write.level(Level::Delivered) }).unwrap();
        run(&world, [&here, &there], [2, 0]);
        let events = here.take();
        assert_eq!(events.iter().map(|event| event.completed).collect::<Vec<_>>(), [Completed::Read, Completed::Write]);
        assert!(events[0].buffer.as_ref().unwrap().iter().all(|byte| *byte == round), "as it was before the write");
        assert!(there.window.to_vec().iter().all(|byte| *byte == round + 1));
    }
}

/// More than its credits are good for, though nobody receives: what waits is sent when it is received, and in order.
#[test]
fn messages_beyond_the_credits_wait_and_come_in_order() {
    let few = weft_message::Settings {
        data_credits: 2,
        control_credits: 1,
        unexpected_messages: 4,
        ..weft_message::Settings::default()
    };
    let (world, here, there) = two(few);
    let peer = here.peer(&there);
    const MESSAGES: u64 = 100;
    for number in 0..MESSAGES {
        let sent = SendPost::new(peer, number.to_ne_bytes().to_vec()).tag(5).level(Level::Delivered);
        here.endpoint.send(sent.context(number)).unwrap();
    }
    world.run(&[&here.nic, &there.nic], LIMIT, || false);
    assert!(here.count() < MESSAGES as usize, "nobody has received them");
    for _ in 0..MESSAGES {
        let any = Match { tag: 5, ignore: 0 };
        there.endpoint.receive(ReceivePost::new(vec![0; 8]).matching(any)).unwrap();
    }
    run(&world, [&here, &there], [MESSAGES as usize; 2]);
    let received: Vec<_> = there.take().iter().map(result).collect();
    assert_eq!(received, (0..MESSAGES).collect::<Vec<_>>());
    assert!(here.take().iter().all(|event| event.outcome == Ok(())));
}
fn segment(opcode: Opcode, target: Target, payload: &[u8]) -> Vec<u8> {
    let header = Header { last: true, control: Control { opcode }.emit(), target };
    let mut bytes = vec![0; header.length()];
    header.emit(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}
