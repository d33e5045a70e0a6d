//! How an endpoint is closed: what was accepted is delivered, however long the peer takes, or the program gets an
//! error.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::common::{Kind, PATIENCE, refusing};
use weft::endpoint::{
    Address, Endpoint, EndpointAttributes, EndpointFailure, EventQueue, Match, PeerId, ReceivePost, SendPost,
};
use weft::verbs::{Context, Progress, Settings, Transport};

/// An endpoint on a NIC of its own.
struct End {
    endpoint: Endpoint,
    events: EventQueue,
    _context: Context,
}

impl End {
    /// A NIC that does not wait long for anything that has a clock.
    fn new(progress: Progress, linger: Option<Duration>) -> Self {
        Self::over(Transport::Iwarp, progress, linger)
    }

    fn over(transport: Transport, progress: Progress, linger: Option<Duration>) -> Self {
        let close_timeout = Duration::from_millis(20);
        Self::with(Settings { progress, close_timeout, ..Settings::default() }, transport, linger)
    }

    fn with(settings: Settings, transport: Transport, linger: Option<Duration>) -> Self {
        let progress = settings.progress;
        let context = Context::with_settings(settings).unwrap();
        let domain = context.allocate_protection_domain().unwrap();
        let events = EventQueue::new(&context).unwrap();
        let mut attributes = EndpointAttributes::at(Kind::plain(progress).any());
        attributes.settings.linger = linger;
        attributes.settings.transport = transport;
        let endpoint = Endpoint::open(&domain, &attributes, Arc::new(events.clone())).unwrap();
        Self { endpoint, events, _context: context }
    }

    fn peer(&self, other: &Self) -> PeerId {
        self.endpoint.peer(&other.endpoint.address()).unwrap()
    }

    fn receive(&self, tag: u64) -> Vec<u8> {
        let post = ReceivePost::new(vec![0; 8192]).matching(Match { tag, ignore: 0 }).context(tag);
        self.endpoint.receive(post).unwrap();
        let event = self.events.wait_for(|event| event.context == tag, PATIENCE).expect("the message in time");
        assert_eq!(event.outcome, Ok(()), "message {tag}");
        event.buffer.unwrap()[..event.length as usize].to_vec()
    }
}

fn content(tag: u64, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u64 * 7 + tag) as u8).collect()
}

#[test]
fn what_was_sent_before_the_connection_stood_is_delivered() {
    for (transport, progress) in [
        (Transport::Iwarp, Progress::Hybrid),
        (Transport::Iwarp, Progress::Thread),
        (Transport::Edge, Progress::Hybrid),
        (Transport::Edge, Progress::Thread),
    ] {
        for round in 0..20 {
            let [sender, receiver] = [(); 2].map(|()| End::over(transport, progress, PATIENCE));
            let mut post = SendPost::new(sender.peer(&receiver), content(round, 4)).tag(round);
            post.inject = round % 2 == 0;
            sender.endpoint.send(post).unwrap();
            assert_eq!(sender.endpoint.close(), Ok(()), "{transport:?}, {progress:?}, round {round}");
            assert_eq!(receiver.receive(round), content(round, 4));
        }
    }
}

/// The receiver's NIC runs only while its program calls it: as if the program were stopped.
#[test]
fn a_receiver_that_is_silent_for_long_gets_everything() {
    for (transport, connected) in
        [(Transport::Iwarp, false), (Transport::Iwarp, true), (Transport::Edge, false), (Transport::Edge, true)]
    {
        let sender = End::over(transport, Progress::Hybrid, PATIENCE);
        let receiver = End::over(transport, Progress::Caller, None);
        let peer = sender.peer(&receiver);
        let send = |tag: u64| sender.endpoint.send(SendPost::new(peer, content(tag, 4000)).tag(tag)).unwrap();
        if connected {
            send(1000);
            assert_eq!(receiver.receive(1000), content(1000, 4000));
        }
        // More than there are credits for.
        (0..100).for_each(send);
        thread::scope(|scope| {
            let closing = scope.spawn(|| sender.endpoint.close());
            // Far longer than any of the sender's clocks.
            thread::sleep(Duration::from_millis(400));
            for tag in 0..100 {
                assert_eq!(receiver.receive(tag), content(tag, 4000), "{transport:?}, connected before: {connected}");
            }
            while !closing.is_finished() {
                receiver.endpoint.progress();
            }
            assert_eq!(closing.join().unwrap(), Ok(()));
        });
    }
}

/// The sender is gone long before the receiver polls: what its host has taken is not reset.
#[test]
fn what_the_peers_host_has_taken_outlives_the_sender() {
    let (sender, receiver) = (End::new(Progress::Hybrid, PATIENCE), End::new(Progress::Caller, None));
    let peer = sender.peer(&receiver);
    sender.endpoint.send(SendPost::new(peer, content(9, 4000)).tag(9)).unwrap();
    assert_eq!(receiver.receive(9), content(9, 4000));
    (0..8).for_each(|tag| sender.endpoint.send(SendPost::new(peer, content(tag, 4000)).tag(tag)).unwrap());
    assert_eq!(sender.endpoint.close(), Ok(()));
    drop(sender);
    for tag in 0..8 {
        assert_eq!(receiver.receive(tag), content(tag, 4000));
    }
}

/// The receiver's program does not poll, so its side of the connection is not closed. The sender does not wait for that
/// longer than it lingers, and leaves the bytes with the receiver's host all the same.
#[test]
fn an_endpoint_that_closes_without_an_answer_takes_nothing_back() {
    let linger = Some(Duration::from_millis(50));
    let sender = End::with(Settings::default(), Transport::Iwarp, linger);
    let receiver = End::new(Progress::Caller, None);
    let peer = sender.peer(&receiver);
    sender.endpoint.send(SendPost::new(peer, content(9, 4000)).tag(9)).unwrap();
    assert_eq!(receiver.receive(9), content(9, 4000));
    (0..8).for_each(|tag| sender.endpoint.send(SendPost::new(peer, content(tag, 4000)).tag(tag)).unwrap());
    assert_eq!(sender.endpoint.close(), Ok(()));
    drop(sender);
    for tag in 0..8 {
        assert_eq!(receiver.receive(tag), content(tag, 4000));
    }
}

#[test]
fn closing_says_what_was_not_delivered() {
    let (refused, _kept) = refusing();
    // The refusal would end the request before the close if a thread of the NIC's found it first.
    let end = End::new(Progress::Caller, None);
    let nobody = Address { id: 77, paths: [refused].into_iter().collect(), transport: None };
    let peer = end.endpoint.peer(&nobody).unwrap();
    end.endpoint.send(SendPost::new(peer, vec![1; 4]).tag(1)).unwrap();
    let undelivered = end.endpoint.close().expect_err("nobody is there");
    assert_eq!(undelivered.requests, 1);
    assert!(matches!(undelivered.reason, Some(EndpointFailure::Unreachable(_))), "{undelivered:?}");
    assert!(undelivered.to_string().starts_with("closed with 1 request not delivered: "), "{undelivered}");
}

#[test]
fn what_only_waits_for_a_receive_does_not_keep_an_endpoint_open_for_ever() {
    let (sender, receiver) =
        (End::new(Progress::Hybrid, Some(Duration::from_millis(50))), End::new(Progress::Hybrid, None));
    let peer = sender.peer(&receiver);
    sender.endpoint.send(SendPost::new(peer, vec![1; 1 << 20]).tag(1)).unwrap();
    let undelivered = sender.endpoint.close().expect_err("nobody receives it");
    assert_eq!(undelivered.requests, 1);
    let reason = undelivered.reason.expect("a reason");
    assert!(matches!(reason, EndpointFailure::Closed | EndpointFailure::Lost(_)), "{reason:?}");
}

/// The receiver's program never answers: the connection to it is still being set up. It makes no difference whether the
/// closing thread or the NIC's thread finds that first.
#[test]
fn what_closing_cuts_off_before_it_is_connected_was_closed() {
    let receiver = End::new(Progress::Caller, None);
    for round in 0..50 {
        let sender = End::new(Progress::Hybrid, Some(Duration::from_millis(5)));
        sender.endpoint.send(SendPost::new(sender.peer(&receiver), vec![1; 64])).unwrap();
        let undelivered = sender.endpoint.close().expect_err("nobody has answered");
        let expected = (1, Some(EndpointFailure::Closed));
        assert_eq!((undelivered.requests, undelivered.reason), expected, "round {round}");
    }
}

/// The peer lives, runs its NIC and has posted no receive: flow control holds back most of this, for any time.
#[test]
fn a_peer_that_receives_nothing_does_not_keep_an_endpoint_open() {
    for (transport, linger) in [(Transport::Iwarp, None), (Transport::Edge, Some(Duration::from_millis(100)))] {
        let sender = End::over(transport, Progress::Hybrid, linger);
        let receiver = End::over(transport, Progress::Thread, None);
        let peer = sender.peer(&receiver);
        for tag in 0..4000 {
            let mut post = SendPost::new(peer, content(tag, 10_000)).tag(tag);
            post.inject = true;
            sender.endpoint.send(post).unwrap();
        }
        let (done, closed) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            let endpoint = &sender.endpoint;
            scope.spawn(move || done.send(endpoint.close()).unwrap());
            let undelivered = closed.recv_timeout(PATIENCE.unwrap()).unwrap_or_else(|_| {
                // Lets the other thread end.
                receiver.endpoint.close().unwrap();
                panic!("{transport:?}, {linger:?}: closing does not end");
            });
            let undelivered = undelivered.expect_err("nobody receives it");
            assert!(undelivered.requests > 100, "{transport:?}: {undelivered:?}");
        });
    }
}

/// A caller of whom the program knows nothing takes its bytes, and does not keep it from closing.
#[test]
fn a_stranger_does_not_keep_an_endpoint_open() {
    let linger = Some(Duration::from_millis(50));
    let (end, stranger) = (End::new(Progress::Hybrid, None), End::new(Progress::Caller, linger));
    let peer = stranger.peer(&end);
    // It asks again and again, and never reads an answer, so that the answers to it pile up.
    for tag in 0..400 {
        stranger.endpoint.send(SendPost::new(peer, content(tag, 4000)).tag(tag)).unwrap();
    }
    while end.endpoint.peek(None, Some(Match { tag: 0, ignore: 0 }), None).unwrap().is_none() {
        stranger.endpoint.progress();
    }
    (0..4).for_each(|tag| assert_eq!(end.receive(tag), content(tag, 4000)));
    let (done, is_done) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = end.endpoint.close();
            done.send(()).unwrap();
        });
        is_done.recv_timeout(PATIENCE.unwrap()).expect("the endpoint is closed");
    });
}
