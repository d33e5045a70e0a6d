//! Event channels: one thread, one descriptor, and everything that happens to connections and queues.

use core::sync::atomic::Ordering;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;

use crate::common::{ALL, Kind, PATIENCE, each_kind, refusing};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weft::verbs::{
    Arm, ChannelEvent, Closed, CompletionQueue, ConnectOptions, ConnectionError, Context, Error, EventChannel,
    EventKind, ListenOptions, Listener, PortError, Progress, ProtectionDomain, QueuePair, QueuePairOptions,
    StartReason, Status, StreamError, Transport, WorkRequest,
};

const LISTENER: u64 = 1 << 32;
const ACTIVE: u64 = 100;
const PASSIVE: u64 = 200;

fn is_readable(channel: &EventChannel, timeout: PollTimeout) -> bool {
    let mut descriptors = [PollFd::new(channel.as_fd(), PollFlags::POLLIN)];
    poll(&mut descriptors, timeout).unwrap() == 1
}

/// The loop that the documentation describes.
fn next(channel: &EventChannel) -> ChannelEvent {
    loop {
        channel.arm();
        if let Some(event) = channel.poll() {
            return event;
        }
        assert!(is_readable(channel, PollTimeout::from(60_000u16)), "an event in time");
    }
}

/// The next event, which must be of this source.
fn next_of(channel: &EventChannel, token: u64) -> EventKind {
    let event = next(channel);
    assert_eq!(event.token, token, "{event:?}");
    event.kind
}

/// One end: a listener, and queue pairs on a channel.
struct Host {
    context: Context,
    channel: EventChannel,
    domain: ProtectionDomain,
    completions: CompletionQueue,
}

impl Host {
    fn new(kind: Kind) -> Self {
        let context = kind.context();
        let channel = context.create_event_channel().unwrap();
        let domain = context.allocate_protection_domain().unwrap();
        let completions = context.create_completion_queue(1024).unwrap();
        Self { context, channel, domain, completions }
    }

    fn listen(&self, kind: Kind, options: &ListenOptions) -> Listener {
        let listener = self.context.listen(kind.any(), options).unwrap();
        listener.set_events(&self.channel, LISTENER).unwrap();
        listener
    }

    fn queue_pair(&self, token: u64) -> QueuePair {
        let queue_pair = self.domain.create_queue_pair(&self.completions, &QueuePairOptions::default()).unwrap();
        queue_pair.set_events(&self.channel, token).unwrap();
        queue_pair
    }

    /// A queue pair that calls this listener.
    fn call(&self, listener: &Listener, token: u64, transport: Transport) -> QueuePair {
        let queue_pair = self.queue_pair(token);
        let mut options = ConnectOptions::default();
        options.offer.transport = transport;
        queue_pair.start_connect(listener.local_address(), &options).unwrap();
        queue_pair
    }
}

fn listen_by(transport: Transport) -> ListenOptions {
    let mut options = ListenOptions::default();
    options.offer.transport = transport;
    options
}

/// Two NICs with a connection between them, whose events of the set-up were read.
fn connected(kind: Kind, transport: Transport) -> ((Host, QueuePair), (Host, QueuePair)) {
    let (caller, server) = (Host::new(kind), Host::new(kind));
    let listener = server.listen(kind, &listen_by(transport));
    let active = caller.call(&listener, ACTIVE, transport);
    assert_eq!(next_of(&server.channel, LISTENER), EventKind::Requested);
    let passive = server.queue_pair(PASSIVE);
    listener.try_accept().unwrap().unwrap().accept(&passive, &[]).unwrap();
    assert_eq!(next_of(&caller.channel, ACTIVE), EventKind::Established);
    assert_eq!(next_of(&server.channel, PASSIVE), EventKind::Established);
    ((caller, active), (server, passive))
}

#[test]
fn one_thread_connects_and_accepts_by_one_descriptor() {
    const PAIRS: u64 = 8;
    each_kind(|kind| {
        let host = Host::new(kind);
        let channel = &host.channel;
        let listener = host.listen(kind, &ListenOptions::default());
        let active: Vec<_> = (0..PAIRS).map(|n| host.call(&listener, ACTIVE + n, Transport::Iwarp)).collect();
        let (mut passive, mut established) = (Vec::new(), BTreeSet::new());
        while established.len() < 2 * active.len() {
            let event = next(channel);
            match event.kind {
                EventKind::Requested => {
                    assert_eq!(event.token, LISTENER);
                    while let Some(request) = listener.try_accept().unwrap() {
                        let queue_pair = host.queue_pair(PASSIVE + passive.len() as u64);
                        request.accept(&queue_pair, &[]).unwrap();
                        passive.push(queue_pair);
                    }
                }
                EventKind::Established => assert!(established.insert(event.token), "{event:?} came twice"),
                other => panic!("{}: {other}", event.token),
            }
        }
        active.iter().for_each(QueuePair::start_disconnect);
        let mut ended = BTreeSet::new();
        while ended.len() < 2 * active.len() {
            let event = next(channel);
            assert_eq!(event.kind, EventKind::Disconnected);
            assert!(ended.insert(event.token), "{event:?} came twice");
        }
        assert_eq!(ended, established);
        assert!(channel.is_empty());
        if [Progress::Hybrid, Progress::Thread].contains(&kind.progress) {
            assert!(!is_readable(channel, PollTimeout::ZERO), "readable without an event");
        }
    });
}

#[test]
fn a_call_that_comes_to_nothing_is_an_event_with_the_reason() {
    let kind = Kind::plain(Progress::Hybrid);
    let host = Host::new(kind);
    let (address, _held) = refusing();
    let alone = host.queue_pair(1);
    alone.start_connect(address, &ConnectOptions::default()).unwrap();
    let event = next_of(&host.channel, 1);
    let wanted = |error: &ConnectionError| matches!(error, ConnectionError::Connect { error: PortError::Refused, .. });
    assert!(matches!(&event, EventKind::NotConnected(error) if wanted(error)), "{event:?}");
    assert_eq!(event, EventKind::NotConnected(alone.error().unwrap()));

    let listener = host.listen(kind, &ListenOptions::default());
    let _rejected = host.call(&listener, 2, Transport::Iwarp);
    assert_eq!(next_of(&host.channel, LISTENER), EventKind::Requested);
    listener.try_accept().unwrap().unwrap().reject(b"not today").unwrap();
    let event = next_of(&host.channel, 2);
    let EventKind::NotConnected(ConnectionError::Start(error)) = &event else { panic!("{event:?}") };
    assert_eq!(error.reason, StartReason::Rejected { private_data: b"not today"[..].into() });
    assert!(event.to_string().starts_with("not connected: "), "{event}");
}

#[test]
fn a_listener_that_is_full_says_so_and_goes_on_when_there_is_room() {
    let kind = Kind::plain(Progress::Hybrid);
    let host = Host::new(kind);
    let listener = host.listen(kind, &ListenOptions { backlog: 2, ..ListenOptions::default() });
    let mut calls = vec![host.call(&listener, ACTIVE, Transport::Iwarp)];
    assert_eq!(next_of(&host.channel, LISTENER), EventKind::Requested);
    assert!(host.channel.is_empty(), "there is one more place");
    // Its last place is taken before the caller has said what it wants.
    calls.push(host.call(&listener, ACTIVE + 1, Transport::Iwarp));
    assert_eq!(next_of(&host.channel, LISTENER), EventKind::Full { backlog: 2 });
    assert_eq!(next_of(&host.channel, LISTENER), EventKind::Requested);
    // A third one waits in the operating system until there is room.
    calls.push(host.call(&listener, ACTIVE + 2, Transport::Iwarp));
    let (mut accepted, mut established) = (Vec::new(), BTreeSet::new());
    while established.len() < 2 * calls.len() {
        while let Some(request) = listener.try_accept().unwrap() {
            accepted.push(host.queue_pair(PASSIVE + accepted.len() as u64));
            request.accept(accepted.last().unwrap(), &[]).unwrap();
        }
        let event = next(&host.channel);
        match event.kind {
            // With the second one, which is not accepted yet, the third takes the last place again.
            EventKind::Requested | EventKind::Full { .. } => assert_eq!(event.token, LISTENER),
            EventKind::Established => assert!(established.insert(event.token)),
            other => panic!("{}: {other}", event.token),
        }
    }
    assert_eq!(accepted.len(), calls.len());
}

#[test]
fn a_caller_that_dies_before_it_was_accepted_is_an_event_and_the_listener_has_the_reason() {
    let kind = Kind::plain(Progress::Hybrid);
    let host = Host::new(kind);
    let listener = host.listen(kind, &ListenOptions::default());
    let mut caller = TcpStream::connect(listener.local_address()).unwrap();
    caller.write_all(b"MPA").unwrap();
    let from = caller.local_addr().unwrap();
    drop(caller);
    assert_eq!(next_of(&host.channel, LISTENER), EventKind::Refused);
    let (refused, more) = listener.take_refused();
    assert_eq!((refused.len(), refused[0].remote, more), (1, from, 0), "{refused:?}");
    assert!(!refused[0].error.to_string().is_empty());
}

/// A caller that speaks MPA and whose process has no NIC of ours.
fn stranger(listener: &Listener) -> TcpStream {
    let mut stream = TcpStream::connect(listener.local_address()).unwrap();
    stream.write_all(b"MPA ID Req Frame\x40\x01\x00\x00").unwrap();
    stream
}

#[test]
fn a_client_that_dies_is_an_event_with_the_reason() {
    let kind = Kind::plain(Progress::Hybrid);
    let host = Host::new(kind);
    let listener = host.listen(kind, &ListenOptions::default());
    // In the middle of a frame, or with a reply that it has not read: the operating system closes the one in order, and
    // resets the other.
    for (token, reason) in [(PASSIVE, Closed::MidFrame), (PASSIVE + 1, Closed::Reset)] {
        let mut client = stranger(&listener);
        assert_eq!(next_of(&host.channel, LISTENER), EventKind::Requested);
        let passive = host.queue_pair(token);
        passive.post_receive(7, &[]).unwrap();
        listener.try_accept().unwrap().unwrap().accept(&passive, &[]).unwrap();
        assert_eq!(next_of(&host.channel, token), EventKind::Established);
        match reason {
            Closed::MidFrame => {
                client.read_exact(&mut [0; 20]).unwrap();
                client.write_all(&[0, 30, 0x40]).unwrap();
            }
            _ => assert_eq!(client.peek(&mut [0; 20]).unwrap(), 20),
        }
        drop(client);
        let error = ConnectionError::Stream(StreamError::Lost(reason));
        assert_eq!(next_of(&host.channel, token), EventKind::Failed(error.clone()));
        assert_eq!(passive.error(), Some(error));
        let flushed = host.completions.wait(PATIENCE).expect("what was posted is flushed");
        assert_eq!((flushed.id, flushed.status), (7, Status::Flushed));
    }
}

const TRANSPORTS: [Transport; 3] = [Transport::Iwarp, Transport::Edge, Transport::SharedMemory];

#[test]
fn a_connection_that_the_peer_breaks_is_an_event_and_what_was_dropped_has_none() {
    for transport in TRANSPORTS {
        println!("{transport:?}");
        let ((caller, active), (server, passive)) = connected(Kind::plain(Progress::Hybrid), transport);
        drop(active);
        let event = next_of(&server.channel, PASSIVE);
        assert_eq!(event, EventKind::Failed(passive.error().expect("a reason")));
        assert!(caller.channel.is_empty());
    }
}

#[test]
fn what_waited_before_a_listener_was_attached_is_told_at_once() {
    let kind = Kind::plain(Progress::Hybrid);
    let host = Host::new(kind);
    let listener = host.listen(kind, &ListenOptions::default());
    let _active = host.call(&listener, ACTIVE, Transport::Iwarp);
    assert_eq!(next_of(&host.channel, LISTENER), EventKind::Requested);
    let other = host.context.create_event_channel().unwrap();
    listener.set_events(&other, 9).unwrap();
    assert!(!other.is_empty());
    assert_eq!(next_of(&other, 9), EventKind::Requested);
    // It may be attached again, and then has no events where it was.
    let _active = host.call(&listener, ACTIVE + 1, Transport::Iwarp);
    assert_eq!(next_of(&other, 9), EventKind::Requested);
    assert!(host.channel.is_empty());
}

#[test]
fn one_channel_serves_many_completion_queues() {
    const QUEUES: u64 = 5;
    for progress in [Progress::Hybrid, Progress::Thread, Progress::Caller] {
        let host = Host::new(Kind::plain(progress));
        let channel = &host.channel;
        let kind = Kind::plain(progress);
        let listener = host.listen(kind, &ListenOptions::default());
        let mut ends = Vec::new();
        for number in 0..QUEUES {
            let completions = host.context.create_completion_queue_on(channel, number, 16).unwrap();
            let passive = host.domain.create_queue_pair(&completions, &QueuePairOptions::default()).unwrap();
            let active = host.call(&listener, ACTIVE, Transport::Iwarp);
            assert_eq!(next_of(channel, LISTENER), EventKind::Requested);
            listener.try_accept().unwrap().unwrap().accept(&passive, &[]).unwrap();
            assert_eq!(next_of(channel, ACTIVE), EventKind::Established);
            passive.post_receive(number, &[]).unwrap();
            completions.arm(Arm::Any);
            assert!(completions.poll().is_none());
            ends.push((completions, passive, active));
        }
        // The last one is not armed, and is no event.
        let (last, _, _) = ends.last().unwrap();
        for (number, (_, _, active)) in (0..).zip(&ends).take(ends.len() - 1) {
            active.post(WorkRequest::send_inline(&[]).unwrap().unsignaled()).unwrap();
            assert_eq!(next_of(channel, number), EventKind::Completions);
            let (completions, passive, _) = &ends[number as usize];
            assert_eq!(completions.poll().map(|completion| completion.id), Some(number));
            // An event comes once for each time that it is armed.
            passive.post_receive(number, &[]).unwrap();
            active.post(WorkRequest::send_inline(&[]).unwrap().unsignaled()).unwrap();
            assert_eq!(completions.wait(PATIENCE).map(|completion| completion.id), Some(number));
            assert!(channel.is_empty());
        }
        assert!(last.is_empty());
    }
}

#[test]
fn a_shared_receive_queue_tells_that_it_runs_low_and_which_queue_pair_was_the_last_to_take_from_it() {
    const SHARED: u64 = 7;
    let kind = Kind::plain(Progress::Hybrid);
    let host = Host::new(kind);
    let channel = &host.channel;
    let listener = host.listen(kind, &ListenOptions::default());
    let shared = host.domain.create_shared_receive_queue(&host.completions, 16).unwrap();
    shared.set_events(channel, SHARED).unwrap();
    let options = QueuePairOptions::default();
    let (queue, some) = (&host.completions, Some(&shared));
    let passive = host.domain.create_queue_pair_with(queue, queue, some, &options).unwrap();
    passive.set_events(channel, PASSIVE).unwrap();
    (0..4).for_each(|id| shared.post_receive(id, &[]).unwrap());
    shared.set_low_water(3);
    assert!(channel.is_empty(), "four are left");

    let active = host.call(&listener, ACTIVE, Transport::Iwarp);
    assert_eq!(next_of(channel, LISTENER), EventKind::Requested);
    listener.try_accept().unwrap().unwrap().accept(&passive, &[]).unwrap();
    let up: BTreeSet<_> = (0..2).map(|_| next(channel)).map(|event| (event.token, event.kind.to_string())).collect();
    assert_eq!(up.iter().map(|(token, _)| *token).collect::<Vec<_>>(), [ACTIVE, PASSIVE], "{up:?}");
    let send = |ids: core::ops::Range<u64>| {
        for id in ids {
            active.post(WorkRequest::send_inline(&[]).unwrap().unsignaled()).unwrap();
            assert_eq!(host.completions.wait(PATIENCE).map(|completion| completion.id), Some(id));
        }
    };
    send(0..1);
    assert!(channel.is_empty(), "three are left");
    send(1..3);
    // Once, though one less was left afterwards.
    assert_eq!(next_of(channel, SHARED), EventKind::ReceivesLow { low_water: 3 });
    assert!(channel.is_empty());
    // A mark that is passed already is reported at once; a mark of 0 is none.
    shared.set_low_water(2);
    assert_eq!(channel.poll().map(|event| event.kind), Some(EventKind::ReceivesLow { low_water: 2 }));
    shared.set_low_water(0);
    send(3..4);
    assert!(channel.is_empty());

    active.start_disconnect();
    let mut of_passive = Vec::new();
    while of_passive.len() < 2 {
        let event = next(channel);
        match event.token {
            PASSIVE => of_passive.push(event.kind),
            _ => assert_eq!(event.kind, EventKind::Disconnected),
        }
    }
    assert_eq!(of_passive, [EventKind::Disconnected, EventKind::LastReceive]);
}

#[test]
fn sources_of_another_nic_are_refused() {
    let kind = Kind::plain(Progress::Hybrid);
    let (one, other) = (Host::new(kind), Host::new(kind));
    let foreign = &other.channel;
    let queue_pair = one.queue_pair(1);
    let listener = one.listen(kind, &ListenOptions::default());
    let shared = one.domain.create_shared_receive_queue(&one.completions, 4).unwrap();
    assert_eq!(queue_pair.set_events(foreign, 1), Err(Error::OtherNic));
    assert_eq!(listener.set_events(foreign, 1), Err(Error::OtherNic));
    assert_eq!(shared.set_events(foreign, 1), Err(Error::OtherNic));
    let refused = one.context.create_completion_queue_on(foreign, 1, 4).map(drop);
    assert_eq!(refused, Err(Error::OtherNic));
}

/// Memory that a peer writes is in place when the event of its message is read.
#[test]
fn what_an_event_tells_of_is_there() {
    let host = Host::new(Kind::plain(Progress::Hybrid));
    let kind = Kind::plain(Progress::Hybrid);
    let channel = &host.channel;
    let listener = host.listen(kind, &ListenOptions::default());
    let completions = host.context.create_completion_queue_on(channel, 3, 16).unwrap();
    let passive = host.domain.create_queue_pair(&completions, &QueuePairOptions::default()).unwrap();
    let window = host.domain.allocate(8, ALL).unwrap();
    let active = host.call(&listener, ACTIVE, Transport::Iwarp);
    assert_eq!(next_of(channel, LISTENER), EventKind::Requested);
    listener.try_accept().unwrap().unwrap().accept(&passive, &[]).unwrap();
    assert_eq!(next_of(channel, ACTIVE), EventKind::Established);
    for value in 1..100u64 {
        passive.post_receive(value, &[]).unwrap();
        completions.arm(Arm::Any);
        active.post(WorkRequest::write_inline(&value.to_ne_bytes(), window.remote(0)).unwrap().unsignaled()).unwrap();
        active.post(WorkRequest::send_inline(&[]).unwrap().unsignaled()).unwrap();
        assert_eq!(next_of(channel, 3), EventKind::Completions);
        assert_eq!(completions.poll().map(|completion| completion.id), Some(value));
        assert_eq!(window.load_u64(0, Ordering::Acquire), Ok(value));
    }
}
