//! Endpoints over real TCP: messages of every size and protocol, one-sided transfers, atomics, and how they fail.

mod peers;
mod queues;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Kind, PATIENCE, each_kind, refusing};
use weft::endpoint::{
    Address, AtomicPost, Combine, Completed, Element, Endpoint, EndpointAttributes, EndpointError, EndpointFailure,
    Event, EventQueue, IoBuffer, Level, Match, MessageSettings, PeerId, ReceivePost, RemotePlace, SendPost,
    TransferPost,
};
use weft::verbs::laboratory::{Coupling, Split};
use weft::verbs::{Access, Context, Progress, ProtectionDomain};

/// Endpoints of one NIC, that all know each other.
struct Group {
    context: Context,
    domain: ProtectionDomain,
    ends: Vec<End>,
}

struct End {
    endpoint: Endpoint,
    events: EventQueue,
    peers: Vec<PeerId>,
}

impl Group {
    fn new(kind: Kind, count: usize) -> Self {
        Self::with(kind, count, &EndpointAttributes::at(kind.any()))
    }

    fn with(kind: Kind, count: usize, attributes: &EndpointAttributes) -> Self {
        let context = kind.context();
        let domain = context.allocate_protection_domain().unwrap();
        let mut ends: Vec<End> = (0..count).map(|_| End::open(&context, &domain, attributes)).collect();
        let addresses: Vec<Address> = ends.iter().map(|end| end.endpoint.address()).collect();
        for end in &mut ends {
            end.peers = end.endpoint.peers(&addresses).unwrap();
        }
        Self { context, domain, ends }
    }
}

impl End {
    fn open(context: &Context, domain: &ProtectionDomain, attributes: &EndpointAttributes) -> Self {
        let events = EventQueue::new(context).unwrap();
        let endpoint = Endpoint::open(domain, attributes, Arc::new(events.clone())).unwrap();
        Self { endpoint, events, peers: Vec::new() }
    }

    fn next(&self) -> Event {
        self.events.wait(PATIENCE).expect("a completion in time")
    }

    fn done(&self, context: u64) -> Event {
        let event = self.next();
        assert!(event.context == context && event.outcome.is_ok(), "{event:?} instead of {context}");
        event
    }
}

/// Two ends that share nothing, each on a NIC of its own.
fn two_contexts(kind: Kind) -> Vec<(Context, End)> {
    let one = || {
        let context = kind.context();
        let domain = context.allocate_protection_domain().unwrap();
        let end = End::open(&context, &domain, &EndpointAttributes::at(kind.any()));
        (context, end)
    };
    vec![one(), one()]
}

fn bytes(length: usize, seed: u64) -> Vec<u8> {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9e37_79b9).wrapping_add(seed * 31) >> 7) as u8).collect()
}

fn exactly(tag: u64) -> Match {
    Match { tag, ignore: 0 }
}

/// Around every threshold: empty, inline, one packet, three-way, one and several fragments.
const LENGTHS: [usize; 17] = [
    0,
    1,
    8,
    64,
    65,
    128,
    2048,
    4096,
    16_383,
    16_384,
    16_385,
    65_536,
    131_072,
    131_073,
    1 << 20,
    (1 << 20) + 1,
    5_000_000,
];

#[test]
fn messages_of_all_lengths_arrive_expected_and_unexpected() {
    each_kind(|kind| {
        let group = Group::new(kind, 2);
        let [a, b] = &group.ends[..] else { panic!() };
        for (number, length) in LENGTHS.into_iter().enumerate() {
            let tag = number as u64;
            let content = bytes(length, tag);
            for expected in [true, false] {
                let receive = || {
                    let post = ReceivePost::new(vec![0; length]).matching(exactly(tag)).context(100 + tag);
                    b.endpoint.receive(post).unwrap();
                };
                if expected {
                    receive();
                }
                a.endpoint.send(SendPost::new(a.peers[1], content.clone()).tag(tag).context(tag)).unwrap();
                if !expected {
                    let start = Instant::now();
                    while b.endpoint.peek(None, Some(exactly(tag)), None).unwrap().is_none() {
                        assert!(Some(start.elapsed()) < PATIENCE, "{length} bytes never came");
                        a.endpoint.progress();
                        b.endpoint.progress();
                    }
                    receive();
                }
                let received = b.events.wait_for(|event| event.context == 100 + tag, PATIENCE).unwrap();
                assert_eq!((received.tag, received.length as usize, received.peer), (tag, length, Some(b.peers[0])));
                assert!(received.buffer.unwrap()[..] == content[..], "{length} bytes, expected: {expected}");
                let sent = a.events.wait_for(|event| event.context == tag && event.length as usize == length, PATIENCE);
                assert_eq!(sent.unwrap().completed, Completed::Send);
            }
        }
    });
}

#[test]
fn an_endpoint_can_send_to_itself() {
    let group = Group::new(Kind::plain(Progress::Hybrid), 1);
    let end = &group.ends[0];
    let me = end.peers[0];
    for length in LENGTHS {
        let content = bytes(length, 5);
        end.endpoint.send(SendPost::new(me, content.clone()).tag(1).context(1).level(Level::Delivered)).unwrap();
        end.endpoint.receive(ReceivePost::new(vec![0; length]).matching(exactly(1)).from(me).context(2)).unwrap();
        let mut left = vec![1, 2];
        while !left.is_empty() {
            let event = end.next();
            assert!(event.outcome.is_ok(), "{event:?}");
            left.retain(|context| *context != event.context);
            if event.context == 2 {
                assert!(event.buffer.unwrap()[..] == content[..]);
            }
        }
    }
    let region = group.domain.allocate(64, Access::all()).unwrap();
    let place = RemotePlace { stag: region.stag(), offset: region.base() };
    end.endpoint.write(TransferPost::new(me, b"to myself".to_vec(), place).context(3)).unwrap();
    end.done(3);
    end.endpoint.read(TransferPost::new(me, vec![0; 9], place).context(4)).unwrap();
    assert_eq!(&end.done(4).buffer.unwrap()[..], b"to myself");
}

#[test]
fn everybody_to_everybody_in_order() {
    const ENDS: usize = 6;
    const MESSAGES: u64 = 60;
    for progress in [Progress::Hybrid, Progress::Thread] {
        let group = Group::new(Kind::plain(progress), ENDS);
        let length = |number: u64| [3usize, 700, 20_000, 90_000][number as usize % 4];
        for number in 0..MESSAGES {
            for (from, end) in group.ends.iter().enumerate() {
                for to in 0..ENDS {
                    let content = bytes(length(number), number * 100 + from as u64);
                    end.endpoint.send(SendPost::new(end.peers[to], content).tag(3).context(1_000_000)).unwrap();
                }
            }
        }
        for end in &group.ends {
            for from in 0..ENDS {
                for number in 0..MESSAGES {
                    let context = from as u64 * MESSAGES + number;
                    let post = ReceivePost::new(vec![0; length(number)]).matching(exactly(3)).context(context);
                    end.endpoint.receive(post.from(end.peers[from])).unwrap();
                }
            }
        }
        for end in &group.ends {
            let mut received = 0;
            let mut sent = 0;
            while received < ENDS as u64 * MESSAGES || sent < ENDS as u64 * MESSAGES {
                let event = end.next();
                assert!(event.outcome.is_ok(), "{event:?}");
                if event.completed == Completed::Send {
                    sent += 1;
                    continue;
                }
                received += 1;
                let (from, number) = (event.context / MESSAGES, event.context % MESSAGES);
                assert!(event.buffer.unwrap()[..] == bytes(length(number), number * 100 + from)[..], "{from} {number}");
            }
        }
    }
}

#[test]
fn writes_reads_and_atomics() {
    each_kind(|kind| {
        let group = Group::new(kind, 2);
        let a = &group.ends[0];
        let region = group.domain.allocate(6 << 20, Access::all()).unwrap();
        let place = |offset| RemotePlace { stag: region.stag(), offset: region.base() + offset };
        for length in LENGTHS {
            let content = bytes(length, 9);
            for level in [Level::TransmitComplete, Level::Delivered] {
                region.fill_with(|_| 0).unwrap();
                let post = TransferPost::new(a.peers[1], content.clone(), place(8)).context(1).level(level);
                a.endpoint.write(post).unwrap();
                a.done(1);
                if level == Level::Delivered {
                    let mut there = vec![0; length];
                    region.read(8, &mut there).unwrap();
                    assert!(there == content, "{length} bytes are there when it says so");
                }
                a.endpoint.read(TransferPost::new(a.peers[1], vec![0; length], place(8)).context(2)).unwrap();
                assert!(a.done(2).buffer.unwrap()[..] == content[..], "{length} bytes");
            }
        }
        let atomic = |operation, element: Element, operand: &[u8], compare: &[u8], count: u32| AtomicPost {
            peer: a.peers[1],
            place: place(0),
            element,
            operation,
            count,
            operand: operand.to_vec(),
            compare: compare.to_vec(),
            result: Some(vec![0; count as usize * element.size()].into()),
            level: Level::TransmitComplete,
            fence: false,
            context: 7,
            op_flags: 0,
        };
        region.store_u64(0, 40, std::sync::atomic::Ordering::SeqCst).unwrap();
        let number = |event: Event| u64::from_ne_bytes(event.buffer.unwrap()[..].try_into().unwrap());
        let word = |value: u64| value.to_ne_bytes();
        a.endpoint.atomic(atomic(Combine::Sum, Element::U64, &word(2), &[], 1)).unwrap();
        assert_eq!(number(a.done(7)), 40);
        a.endpoint.atomic(atomic(Combine::SwapIfEqual, Element::U64, &word(50), &word(42), 1)).unwrap();
        assert_eq!(number(a.done(7)), 42);
        a.endpoint.atomic(atomic(Combine::Max, Element::U64, &word(60), &[], 1)).unwrap();
        assert_eq!(number(a.done(7)), 50);
        a.endpoint.atomic(atomic(Combine::Write, Element::U64, &word(70), &[], 1)).unwrap();
        assert_eq!(number(a.done(7)), 60);
        a.endpoint.atomic(atomic(Combine::Read, Element::U64, &[], &[], 1)).unwrap();
        assert_eq!(number(a.done(7)), 70);
        region.write(0, &[1.5f32, 2.5].map(f32::to_ne_bytes).concat()).unwrap();
        let two = [10f32, 20.0].map(f32::to_ne_bytes).concat();
        a.endpoint.atomic(atomic(Combine::Sum, Element::F32, &two, &[], 2)).unwrap();
        a.done(7);
        let mut sums = [0; 8];
        region.read(0, &mut sums).unwrap();
        assert_eq!(sums.to_vec(), [11.5f32, 22.5].map(f32::to_ne_bytes).concat());
        let wrong = a.endpoint.atomic(atomic(Combine::BitAnd, Element::F32, &two, &[], 2));
        assert!(matches!(wrong, Err(EndpointError::Invalid(_))), "{wrong:?}");
    });
}

#[test]
fn a_write_with_immediate_data_is_seen_when_it_is_there() {
    each_kind(|kind| {
        let group = Group::new(kind, 2);
        let [a, b] = &group.ends[..] else { panic!() };
        let region = group.domain.allocate(1 << 17, Access::all()).unwrap();
        let place = RemotePlace { stag: region.stag(), offset: region.base() };
        for round in 0..60 {
            let content = bytes(100_000, round);
            a.endpoint.write(TransferPost::new(a.peers[1], content.clone(), place).data(round).context(1)).unwrap();
            a.done(1);
            let event = b.next();
            assert_eq!(
                (event.completed, event.data, event.length, event.peer),
                (Completed::RemoteWrite, Some(round), 100_000, Some(b.peers[0]))
            );
            let mut there = vec![0; content.len()];
            region.read(0, &mut there).unwrap();
            assert!(there == content);
        }
    });
}

#[test]
fn writes_with_immediate_data_that_cannot_be_posted_use_up_no_credit() {
    let group = Group::new(Kind::plain(Progress::Hybrid), 2);
    let [a, b] = &group.ends[..] else { panic!() };
    let region = group.domain.allocate(4096, Access::all()).unwrap();
    let place = RemotePlace { stag: region.stag(), offset: region.base() };
    // Too long to be copied into the request.
    let write = |context| {
        a.endpoint.write(TransferPost::new(a.peers[1], bytes(1000, 1), place).data(context).context(context)).unwrap();
    };
    write(1);
    a.done(1);
    assert_eq!(b.next().data, Some(1));
    let full: Vec<_> = std::iter::from_fn(|| group.domain.register(vec![0; 1], Access::LOCAL_READ).ok()).collect();
    for context in 2..100 {
        write(context);
        let event = a.next();
        assert_eq!((event.context, event.outcome), (context, Err(EndpointFailure::NoMemory)));
    }
    drop(full);
    write(100);
    a.done(100);
    assert_eq!(b.next().data, Some(100));
}

#[test]
fn a_receive_of_many_takes_one_message_after_the_other() {
    let group = Group::new(Kind::plain(Progress::Hybrid), 2);
    let [a, b] = &group.ends[..] else { panic!() };
    let mut post = ReceivePost::new(vec![0; 100_000]).context(1);
    post.many = Some(30_000);
    b.endpoint.receive(post).unwrap();
    let lengths = [10usize, 20_000, 0, 50_000];
    for (number, length) in lengths.into_iter().enumerate() {
        a.endpoint.send(SendPost::new(a.peers[1], bytes(length, number as u64)).context(2)).unwrap();
    }
    let events: Vec<Event> = lengths.iter().map(|_| b.done(1)).collect();
    let buffer = events.iter().find_map(|event| event.buffer.as_ref()).expect("it comes back at the end");
    assert_eq!(events.iter().filter(|event| event.last).count(), 1);
    assert!(events[3].last);
    let mut offset = 0;
    for (number, length) in lengths.into_iter().enumerate() {
        assert!(
            events.iter().any(|event| (event.offset, event.length) == (offset, length as u64)),
            "{number}: {events:?}"
        );
        let range = offset as usize..offset as usize + length;
        assert!(buffer[range] == bytes(length, number as u64)[..], "{number}");
        offset += length as u64;
    }
}

#[test]
fn what_is_too_long_is_cut_and_said() {
    let group = Group::new(Kind::plain(Progress::Hybrid), 2);
    let [a, b] = &group.ends[..] else { panic!() };
    for length in [100usize, 40_000, 2_000_000] {
        b.endpoint.receive(ReceivePost::new(vec![0; 60]).matching(exactly(1)).context(1)).unwrap();
        a.endpoint.send(SendPost::new(a.peers[1], bytes(length, 1)).tag(1).context(2)).unwrap();
        let event = b.next();
        let expected = EndpointFailure::Truncated { length: length as u64, room: 60 };
        assert_eq!(event.outcome, Err(expected), "{length}");
        assert!(event.buffer.unwrap()[..] == bytes(length, 1)[..60]);
        a.done(2);
    }
}

#[test]
fn receives_can_be_canceled_once() {
    let group = Group::new(Kind::plain(Progress::Hybrid), 1);
    let end = &group.ends[0];
    end.endpoint.receive(ReceivePost::new(vec![0; 8]).matching(exactly(1)).context(5)).unwrap();
    assert!(!end.endpoint.cancel(6));
    assert!(end.endpoint.cancel(5) && !end.endpoint.cancel(5));
    assert_eq!(end.next().outcome, Err(EndpointFailure::Canceled));
}
