//! Endpoints over real TCP: messages of every size and protocol, one-sided transfers, atomics, and how they fail.

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

#[test]
fn a_peer_that_cannot_be_reached_is_an_error_that_names_the_path() {
    let group = Group::new(Kind::plain(Progress::Hybrid), 1);
    let end = &group.ends[0];
    let (free, _kept) = refusing();
    let nobody = end.endpoint.peer(&Address::from(free)).unwrap();
    end.endpoint.send(SendPost::new(nobody, vec![1]).tag(1).context(1)).unwrap();
    let place = RemotePlace { stag: weft::endpoint::Stag(1), offset: 0 };
    end.endpoint.write(TransferPost::new(nobody, vec![1], place).context(2)).unwrap();
    for _ in 0..2 {
        let event = end.next();
        let text = event.outcome.unwrap_err().to_string();
        assert!(text.contains(&free.to_string()) && text.contains("refused"), "{text}");
        assert!(text.contains("the peer has offered the loopback alone"), "{text}");
    }
}

#[test]
fn somebody_else_at_the_address_is_not_taken_for_the_peer() {
    let kind = Kind::plain(Progress::Hybrid);
    let group = Group::new(kind, 2);
    let [a, b] = &group.ends[..] else { panic!() };
    let path: SocketAddr = b.endpoint.address().paths[0];
    let ghost = Address { id: b.endpoint.address().id ^ 1, ..Address::from(path) };
    let context = kind.context();
    let domain = context.allocate_protection_domain().unwrap();
    let other = End::open(&context, &domain, &EndpointAttributes::at(kind.any()));
    let ghost = other.endpoint.peer(&ghost).unwrap();
    other.endpoint.send(SendPost::new(ghost, vec![1]).context(1)).unwrap();
    let text = other.next().outcome.unwrap_err().to_string();
    assert!(text.contains("another endpoint listens there"), "{text}");
    // A peer of which only the place is known is the endpoint that is there.
    let known = other.endpoint.peer(&Address::from(path)).unwrap();
    other.endpoint.send(SendPost::new(known, vec![1]).context(2)).unwrap();
    b.endpoint.receive(ReceivePost::new(vec![0; 1]).context(3)).unwrap();
    b.done(3);
    drop(a.events.poll());
}

#[test]
fn of_several_ways_the_one_that_answers_is_taken() {
    let kind = Kind::plain(Progress::Hybrid);
    let group = Group::new(kind, 1);
    let there = group.ends[0].endpoint.address();
    let context = kind.context();
    let domain = context.allocate_protection_domain().unwrap();
    let end = End::open(&context, &domain, &EndpointAttributes::at(kind.any()));
    let mut address = there.clone();
    let (refused, _kept) = refusing();
    address.paths.insert(0, refused);
    let peer = end.endpoint.peer(&address).unwrap();
    group.ends[0].endpoint.receive(ReceivePost::new(vec![0; 4]).context(1)).unwrap();
    end.endpoint.send(SendPost::new(peer, b"weft".to_vec()).context(2)).unwrap();
    assert_eq!(&group.ends[0].done(1).buffer.unwrap()[..], b"weft");
}

#[test]
fn a_peer_that_comes_again_is_reached_again() {
    let kind = Kind::plain(Progress::Hybrid);
    let group = Group::new(kind, 1);
    let end = &group.ends[0];
    let mut bind: SocketAddr = kind.any();
    for round in 0..3u8 {
        let context = kind.context();
        let domain = context.allocate_protection_domain().unwrap();
        let other = End::open(&context, &domain, &EndpointAttributes::at(bind));
        bind = other.endpoint.address().paths[0];
        // Known by its place alone, as with sockaddr.
        let peer = end.endpoint.peer(&Address::from(bind)).unwrap();
        end.endpoint.send(SendPost::new(peer, vec![round]).context(1)).unwrap();
        other.endpoint.receive(ReceivePost::new(vec![9]).context(2)).unwrap();
        assert_eq!(other.done(2).buffer.unwrap()[..], [round]);
        end.done(1);
        // And it answers.
        end.endpoint.receive(ReceivePost::new(vec![9]).context(3)).unwrap();
        let back = other.endpoint.peer(&end.endpoint.address()).unwrap();
        other.endpoint.send(SendPost::new(back, vec![round + 10]).context(4)).unwrap();
        assert_eq!(end.done(3).buffer.unwrap()[..], [round + 10]);
        other.done(4);
    }
}

#[test]
fn both_connect_at_once_and_one_connection_stands() {
    for progress in [Progress::Hybrid, Progress::Thread, Progress::Caller] {
        for _ in 0..20 {
            let kind = Kind::plain(progress);
            let ends = two_contexts(kind);
            let finished = AtomicUsize::new(0);
            let finished = &finished;
            let mut others = [1, 0].map(|other: usize| ends[other].1.endpoint.address()).into_iter();
            std::thread::scope(|scope| {
                // Each closes its own: a thread that closes one after the other waits for a NIC that no thread runs.
                for ((context, here), there) in ends.into_iter().zip(&mut others) {
                    scope.spawn(move || {
                        let (_context, here) = (context, here);
                        let peer = here.endpoint.peer(&there).unwrap();
                        here.endpoint.receive(ReceivePost::new(vec![0; 8]).context(1)).unwrap();
                        here.endpoint.send(SendPost::new(peer, bytes(8, 3)).context(2)).unwrap();
                        for _ in 0..2 {
                            let event = here.next();
                            assert!(event.outcome.is_ok(), "{event:?}");
                        }
                        // What the peer still waits for makes progress while a thread runs this NIC.
                        finished.fetch_add(1, Ordering::AcqRel);
                        let start = Instant::now();
                        while finished.load(Ordering::Acquire) < 2 {
                            assert!(Some(start.elapsed()) < PATIENCE, "the peer waits in vain");
                            here.endpoint.wait_until(Some(Duration::from_millis(1)), || false);
                        }
                    });
                }
            });
        }
    }
}

#[test]
fn the_end_of_a_peer_fails_what_waits_for_it() {
    let kind = Kind::plain(Progress::Hybrid);
    let group = Group::new(kind, 1);
    let end = &group.ends[0];
    let context = kind.context();
    let domain = context.allocate_protection_domain().unwrap();
    let other = End::open(&context, &domain, &EndpointAttributes::at(kind.any()));
    let peer = end.endpoint.peer(&other.endpoint.address()).unwrap();
    // A long message for which no receive is posted waits at the sender.
    end.endpoint.send(SendPost::new(peer, vec![1; 1 << 20]).tag(1).context(1)).unwrap();
    while other.endpoint.peek(None, Some(exactly(1)), None).unwrap().is_none() {
        end.endpoint.progress();
        other.endpoint.progress();
    }
    drop(other);
    let event = end.next();
    assert!(matches!(event.outcome, Err(EndpointFailure::Lost(_))), "{event:?}");
    assert_eq!(event.buffer.map(|buffer| buffer.len()), Some(1 << 20), "the memory comes back");
}

#[test]
fn a_peer_that_is_flooded_slows_the_sender_down_and_loses_nothing() {
    let kind = Kind::plain(Progress::Hybrid);
    let mut attributes = EndpointAttributes::at(kind.any());
    attributes.settings.messages = MessageSettings { unexpected_bytes: 100_000, ..MessageSettings::default() };
    let group = Group::with(kind, 2, &attributes);
    let [a, b] = &group.ends[..] else { panic!() };
    const MESSAGES: u64 = 2000;
    for number in 0..MESSAGES {
        a.endpoint.send(SendPost::new(a.peers[1], bytes(1000, number)).tag(number).context(1)).unwrap();
    }
    // The other direction continues.
    a.endpoint.receive(ReceivePost::new(vec![0; 300_000]).matching(exactly(1)).context(2)).unwrap();
    b.endpoint.send(SendPost::new(b.peers[0], bytes(300_000, 1)).tag(1).context(3)).unwrap();
    let mut sent = 0;
    let mut answered = false;
    while !answered {
        let event = a.next();
        assert!(event.outcome.is_ok());
        answered = event.context == 2;
        sent += u64::from(event.context == 1);
    }
    assert!(sent < MESSAGES, "{sent} of {MESSAGES} went out though nobody took them");
    b.done(3);
    for number in (0..MESSAGES).rev() {
        b.endpoint.receive(ReceivePost::new(vec![0; 1000]).matching(exactly(number)).context(number)).unwrap();
    }
    for _ in 0..MESSAGES {
        let event = b.next();
        assert!(event.buffer.unwrap()[..] == bytes(1000, event.context)[..]);
    }
}

#[test]
fn a_target_that_never_calls_in_is_served() {
    let kind = Kind::plain(Progress::Hybrid);
    let group = Group::new(kind, 1);
    let end = &group.ends[0];
    let context = kind.context();
    let domain = context.allocate_protection_domain().unwrap();
    let other = End::open(&context, &domain, &EndpointAttributes::at(kind.any()));
    other.endpoint.receive(ReceivePost::new(vec![0; 1 << 20]).matching(exactly(1)).context(1)).unwrap();
    let peer = end.endpoint.peer(&other.endpoint.address()).unwrap();
    // Matched, fetched, acknowledged: by the other's NIC alone.
    let content = bytes(1 << 20, 4);
    end.endpoint.send(SendPost::new(peer, content.clone()).tag(1).context(2).level(Level::Delivered)).unwrap();
    end.done(2);
    assert!(other.events.poll().unwrap().buffer.unwrap()[..] == content[..]);
}

#[test]
fn wrong_requests_are_refused_with_the_reason() {
    let group = Group::new(Kind::plain(Progress::Hybrid), 1);
    let end = &group.ends[0];
    let stranger = PeerId(77);
    assert_eq!(end.endpoint.send(SendPost::new(stranger, vec![1])), Err(EndpointError::UnknownPeer(stranger)));
    let mut injected = SendPost::new(end.peers[0], vec![0; 1 << 20]);
    injected.inject = true;
    assert!(matches!(end.endpoint.send(injected), Err(EndpointError::TooLong { .. })));
    let claimed = end.endpoint.receive_claimed(5, ReceivePost::new(IoBuffer::empty()));
    assert_eq!(claimed, Err(EndpointError::NotClaimed(5)));
    end.endpoint.close().unwrap();
    assert_eq!(end.endpoint.send(SendPost::new(end.peers[0], vec![1])), Err(EndpointError::Closed));
}

#[test]
fn a_fenced_message_waits_for_the_write_before_it() {
    let group = Group::new(Kind::plain(Progress::Hybrid), 2);
    let [a, b] = &group.ends[..] else { panic!() };
    let region = group.domain.allocate(1 << 20, Access::all()).unwrap();
    let place = RemotePlace { stag: region.stag(), offset: region.base() };
    for round in 0..20 {
        let content = bytes(1 << 20, round);
        b.endpoint.receive(ReceivePost::new(vec![0; 1]).context(1)).unwrap();
        a.endpoint.write(TransferPost::new(a.peers[1], content.clone(), place).context(2)).unwrap();
        let mut post = SendPost::new(a.peers[1], vec![1]).context(3);
        post.fence = round % 2 == 0;
        a.endpoint.send(post).unwrap();
        b.done(1);
        let mut there = vec![0; content.len()];
        region.read(0, &mut there).unwrap();
        assert!(there == content);
        let mut done = [a.next(), a.next()].map(|event| (event.context, event.outcome));
        done.sort_by_key(|(context, _)| *context);
        assert_eq!(done, [(2, Ok(())), (3, Ok(()))]);
    }
}

#[test]
fn a_crowd_connects_all_to_all_at_once() {
    const ENDS: usize = 24;
    let kind = Kind::plain(Progress::Hybrid);
    let ends: Vec<(Context, End)> = (0..ENDS)
        .map(|_| {
            let context = kind.context();
            let domain = context.allocate_protection_domain().unwrap();
            let end = End::open(&context, &domain, &EndpointAttributes::at(kind.any()));
            (context, end)
        })
        .collect();
    let addresses: Vec<Address> = ends.iter().map(|(_, end)| end.endpoint.address()).collect();
    let (addresses, barrier) = (&addresses, &std::sync::Barrier::new(ENDS));
    std::thread::scope(|scope| {
        for (_, end) in &ends {
            scope.spawn(move || {
                let peers = end.endpoint.peers(addresses).unwrap();
                barrier.wait();
                for peer in &peers {
                    end.endpoint.receive(ReceivePost::new(vec![0; 4096]).from(*peer).context(1)).unwrap();
                    end.endpoint.send(SendPost::new(*peer, bytes(4096, 3)).context(2)).unwrap();
                }
                for _ in 0..2 * ENDS {
                    let event = end.next();
                    assert!(event.outcome.is_ok(), "{event:?}");
                }
                // No thread leaves before all have what they wait for.
                barrier.wait();
            });
        }
    });
}

#[test]
fn idle_connections_close_and_open_again() {
    for progress in [Progress::Hybrid, Progress::Thread] {
        let kind = Kind::plain(progress);
        let mut attributes = EndpointAttributes::at(kind.any());
        attributes.settings.messages.idle_timeout = Some(Duration::from_millis(20));
        let group = Group::with(kind, 2, &attributes);
        let [a, b] = &group.ends[..] else { panic!() };
        let region = group.domain.allocate(64, Access::all()).unwrap();
        let place = RemotePlace { stag: region.stag(), offset: region.base() };
        for round in 0..6u64 {
            let before = group.context.counters().connections;
            if round % 2 == 0 {
                b.endpoint.receive(ReceivePost::new(vec![0; 8]).context(1)).unwrap();
                a.endpoint.send(SendPost::new(a.peers[1], bytes(8, round)).context(2)).unwrap();
                assert!(b.done(1).buffer.unwrap()[..] == bytes(8, round)[..]);
            } else {
                a.endpoint.write(TransferPost::new(a.peers[1], bytes(8, round), place).context(2)).unwrap();
            }
            a.done(2);
            assert!(group.context.counters().connections > before, "round {round}: there was a connection still");
            // Long enough for both to find it idle and to agree.
            let start = Instant::now();
            while !(a.endpoint.is_idle() && b.endpoint.is_idle()) {
                assert!(Some(start.elapsed()) < PATIENCE, "round {round}: the connection is not closed");
                a.endpoint.wait_until(Some(Duration::from_millis(5)), || false);
            }
        }
    }
}

#[test]
fn the_message_behind_twenty_thousand_unexpected_ones_arrives() {
    const MESSAGES: u64 = 20_000;
    let kind = Kind::plain(Progress::Hybrid);
    let ends = two_contexts(kind);
    let (sender, receiver) = (&ends[0].1, &ends[1].1);
    let peer = sender.endpoint.peer(&receiver.endpoint.address()).unwrap();
    let take_sent = |event: Event| assert!(event.outcome.is_ok(), "{event:?}");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            receiver.endpoint.receive(ReceivePost::new(vec![0; 3]).matching(exactly(MESSAGES)).context(1)).unwrap();
            receiver.done(1);
            for tag in 0..MESSAGES {
                let post = ReceivePost::new(vec![0; 1000]).matching(exactly(tag)).context(tag);
                receiver.endpoint.receive(post).unwrap();
                assert!(receiver.done(tag).buffer.unwrap()[..] == bytes(1000, tag)[..]);
            }
        });
        let mut left = MESSAGES + 1;
        for tag in 0..=MESSAGES {
            let length = if tag == MESSAGES { 3 } else { 1000 };
            let start = Instant::now();
            loop {
                match sender.endpoint.send(SendPost::new(peer, bytes(length, tag)).tag(tag)) {
                    Ok(()) => break,
                    Err(EndpointError::Again) => {}
                    Err(error) => panic!("{error}"),
                }
                assert!(Some(start.elapsed()) < PATIENCE, "message {tag} can't be sent");
                while let Some(event) = sender.events.poll() {
                    take_sent(event);
                    left -= 1;
                }
            }
        }
        while left > 0 {
            take_sent(sender.next());
            left -= 1;
        }
    });
}

/// Two endpoints that may have few requests in flight, and keep little.
fn two_with_little(announced_depth: u32, injected_bytes: u64) -> Group {
    let kind = Kind::plain(Progress::Hybrid);
    let mut attributes = EndpointAttributes::at(kind.any());
    attributes.settings.send_depth = 64;
    attributes.settings.announced_depth = announced_depth;
    attributes.settings.injected_bytes = injected_bytes;
    attributes.settings.messages = MessageSettings { unexpected_bytes: 1 << 20, ..MessageSettings::default() };
    Group::with(kind, 2, &attributes)
}

/// Sends it as soon as there is room for it.
fn send_when_possible(end: &End, post: impl Fn() -> SendPost) {
    let start = Instant::now();
    while let Err(error) = end.endpoint.send(post()) {
        assert!(error == EndpointError::Again && start.elapsed() < Duration::from_secs(60), "{error}");
        end.endpoint.progress();
    }
}

#[test]
fn what_is_waited_for_passes_more_sends_than_may_be_under_way() {
    const MESSAGES: u64 = 600;
    // Short, injected, streamed, read; MPI asks for delivered ones.
    for (length, inject) in [(8, false), (1000, false), (4000, true), (20_000, false), (150_000, false)] {
        let group = two_with_little(1 << 20, 1 << 30);
        let [a, b] = &group.ends[..] else { panic!() };
        b.endpoint.receive(ReceivePost::new(vec![0; length]).matching(exactly(2)).context(7)).unwrap();
        let content = vec![5; length];
        for number in 0..=MESSAGES {
            let tag = if number == MESSAGES { 2 } else { 1 };
            send_when_possible(a, || {
                let post = SendPost::new(a.peers[1], content.clone()).tag(tag).context(number);
                SendPost { inject, ..post.level(if inject { Level::TransmitComplete } else { Level::Delivered }) }
            });
        }
        b.done(7);
        for number in 0..MESSAGES {
            b.endpoint.receive(ReceivePost::new(vec![0; length]).matching(exactly(1)).context(number)).unwrap();
            assert_eq!(b.done(number).buffer.unwrap()[..], content[..]);
        }
        for _ in 0..=MESSAGES {
            let event = a.next();
            assert!(event.outcome.is_ok(), "{event:?}");
        }
    }
}

#[test]
fn sends_that_wait_for_their_receives_have_limits_of_their_own() {
    // By number, and by the bytes of those that were injected.
    for (announced, injected, inject, most) in [(100, 1 << 30, false, 100 + 64), (1 << 20, 100_000, true, 100)] {
        let group = two_with_little(announced, injected);
        let [a, b] = &group.ends[..] else { panic!() };
        let (length, level) = if inject { (1000, Level::TransmitComplete) } else { (150_000, Level::Delivered) };
        let content = vec![5; length];
        let post = || SendPost { inject, ..SendPost::new(a.peers[1], content.clone()).tag(1).level(level) };
        let (mut sent, mut completed) = (0, 0);
        for _ in 0..100 {
            send_when_possible(a, post);
            sent += 1;
        }
        // Some may still go out whole, those of 1000 bytes for which the peer has room.
        for _ in 0..2000 {
            match a.endpoint.send(post()) {
                Ok(()) => sent += 1,
                Err(error) => assert_eq!(error, EndpointError::Again),
            }
            while a.events.poll().is_some() {
                completed += 1;
            }
            assert!(sent - completed <= most, "{sent} sent, {completed} completed");
        }
        assert!(sent < 2000, "nothing was refused");
        for number in 0..sent {
            b.endpoint.receive(ReceivePost::new(vec![0; length]).matching(exactly(1)).context(number)).unwrap();
            b.done(number);
        }
        send_when_possible(a, post);
    }
}

#[test]
fn an_acknowledgement_goes_with_the_answer() {
    const ROUNDS: u64 = 10;
    let group = Group::new(Kind::plain(Progress::Hybrid), 2);
    let [a, b] = &group.ends[..] else { panic!() };
    let poll = |end: &End| {
        let start = Instant::now();
        loop {
            match end.events.poll() {
                Some(event) if event.completed == Completed::Receive => return,
                _ => assert!(Some(start.elapsed()) < PATIENCE, "nothing came"),
            }
        }
    };
    let one_path = |from: &End, to: &End, peer: usize| {
        to.endpoint.receive(ReceivePost::new(vec![0; 8]).matching(exactly(1))).unwrap();
        from.endpoint.send(SendPost::new(from.peers[peer], bytes(8, 1)).tag(1).level(Level::Delivered)).unwrap();
        poll(to);
    };
    let packets_of_a_batch = || {
        let before = group.context.counters().endpoint_packets;
        for _ in 0..ROUNDS {
            one_path(a, b, 1);
            one_path(b, a, 0);
        }
        group.context.counters().endpoint_packets - before
    };
    // Four packets each round when none waits for another. Where this thread loses its core the NIC's answers for it,
    // so not in each batch.
    let start = Instant::now();
    let mut fewest = u64::MAX;
    while fewest >= 3 * ROUNDS {
        assert!(Some(start.elapsed()) < PATIENCE, "{fewest} packets for {} messages", 2 * ROUNDS);
        fewest = fewest.min(packets_of_a_batch());
    }
}

/// How many packets were sent, how many of them without a work request, and how many came without a receive request,
/// while both sides sent this many messages.
fn packets_of(group: &Group, messages: u64) -> [u64; 3] {
    let counts = || {
        let counters = group.context.counters();
        [counters.endpoint_packets, counters.passed_packets_sent, counters.passed_packets_received]
    };
    let one_path = |from: usize, to: usize, number: u64| {
        let [from_end, to_end] = [&group.ends[from], &group.ends[to]];
        let content = bytes(1000, number);
        to_end.endpoint.receive(ReceivePost::new(vec![0; 1000]).context(number)).unwrap();
        from_end.endpoint.send(SendPost::new(from_end.peers[to], content.clone()).context(number)).unwrap();
        let received = to_end.events.wait_for(|event| event.completed == Completed::Receive, PATIENCE).unwrap();
        assert!(received.context == number && received.buffer.unwrap()[..] == content[..]);
        from_end.done(number);
    };
    // The first ones open the connection.
    one_path(0, 1, 0);
    one_path(1, 0, 0);
    let before = counts();
    for number in 0..messages {
        one_path(0, 1, number);
        one_path(1, 0, number);
    }
    let after = counts();
    core::array::from_fn(|at| after[at] - before[at])
}

#[test]
fn packets_pass_the_queues_by_where_one_thread_does_all_the_work() {
    let [packets, sent, received] = packets_of(&Group::new(Kind::plain(Progress::Caller), 2), 50);
    assert!(packets >= 100, "{packets}");
    // One may be arriving, and one have arrived before.
    assert!(sent == packets && received.abs_diff(packets) <= 1, "{sent} and {received} of {packets}");
}

#[test]
fn packets_go_through_the_queues_where_the_work_is_split() {
    let kind = Kind::plain(Progress::Thread).with_split(Split::Offload(Coupling::Coupled));
    let [packets, sent, received] = packets_of(&Group::new(kind, 2), 50);
    assert!(packets >= 100, "{packets}");
    assert_eq!([sent, received], [0, 0]);
}

/// Threads that sleep for completions of their own are woken by the one that runs the NIC for all of them.
#[test]
fn a_thread_that_sleeps_is_woken_for_a_message_that_another_one_has_received() {
    const ROUNDS: u64 = 100;
    const PAUSE: Duration = Duration::from_millis(20);
    let group = Group::new(Kind::plain(Progress::Caller), 3);
    let [sender, idle, receiver] = &group.ends[..] else { panic!() };
    // How long the receiver has waited; `None` if threads get the processor so late that it says nothing.
    let one_path = |number: u64| {
        receiver.endpoint.receive(ReceivePost::new(vec![0; 8]).context(number)).unwrap();
        let waits = || {
            let start = Instant::now();
            assert_eq!(receiver.next().context, number);
            start.elapsed()
        };
        std::thread::scope(|scope| {
            let start = Instant::now();
            // The first of the two has the engine; the other one sleeps until an event wakes it.
            let runs = scope.spawn(|| idle.events.wait(Some(Duration::from_secs(60))));
            std::thread::sleep(PAUSE);
            let waits = scope.spawn(waits);
            std::thread::sleep(PAUSE);
            sender.endpoint.send(SendPost::new(sender.peers[2], bytes(8, number)).context(number)).unwrap();
            let is_slow = start.elapsed() > 4 * PAUSE;
            let waited = waits.join().unwrap();
            // Lets the first one go.
            sender.endpoint.send(SendPost::new(sender.peers[1], bytes(8, number)).context(number)).unwrap();
            idle.endpoint.receive(ReceivePost::new(vec![0; 8]).context(number)).unwrap();
            assert!(runs.join().unwrap().is_some());
            (!is_slow).then_some(waited)
        })
    };
    // A thread that is not woken polls by itself every half second: all of them wait long. Of those that are woken few
    // do.
    let told: Vec<Duration> = (0..ROUNDS).filter_map(one_path).take(20).collect();
    if told.len() < 20 {
        println!("not judged: threads got the processor too late in all but {} of {ROUNDS} rounds", told.len());
        return;
    }
    let woken = told.iter().filter(|waited| **waited < Duration::from_millis(400)).count();
    assert!(woken >= 3, "woken in {woken} of {} rounds: {told:?}", told.len());
}
