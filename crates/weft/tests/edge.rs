//! Edge over the loopback device: the verbs, closing, and what becomes of calls that Edge does not answer.

mod common;

use std::sync::{Arc, mpsc};
use std::thread;

use common::PATIENCE;
use weft::endpoint::{Endpoint, EndpointAttributes, EventQueue, Match, ReceivePost, SendPost};
use weft::verbs::{
    Access, CompletionQueue, ConnectOptions, ConnectionError, Context, Error, ListenOptions, LowerInfo, Offer,
    PortError, Progress, QueuePair, QueuePairOptions, Settings, Status, Transport, WorkRequest,
};

fn offer(transport: Transport) -> Offer {
    Offer { transport, ..ConnectOptions::default().offer }
}

struct End {
    queue_pair: QueuePair,
    completions: CompletionQueue,
    context: Context,
}

fn end() -> End {
    let context = Context::open().unwrap();
    let domain = context.allocate_protection_domain().unwrap();
    let completions = context.create_completion_queue(64).unwrap();
    let queue_pair = domain.create_queue_pair(&completions, &QueuePairOptions::default()).unwrap();
    End { queue_pair, completions, context }
}

/// Two ends, connected, and a listener that takes `listens`.
fn pair(calls: Transport, listens: Transport) -> [End; 2] {
    let [active, passive] = [end(), end()];
    let listen = ListenOptions { offer: offer(listens), ..ListenOptions::default() };
    let listener = passive.context.listen("127.0.0.1:0".parse().unwrap(), &listen).unwrap();
    let connect = ConnectOptions { offer: offer(calls), ..ConnectOptions::default() };
    active.queue_pair.start_connect(listener.local_address(), &connect).unwrap();
    listener.accept(PATIENCE).unwrap().accept(&passive.queue_pair, b"welcome").unwrap();
    active.queue_pair.wait_connected(PATIENCE).unwrap();
    assert_eq!(active.queue_pair.info().unwrap().private_data, b"welcome");
    [active, passive]
}

fn is_edge(end: &End) -> bool {
    end.queue_pair.info().unwrap().lower == LowerInfo::Edge
}

#[test]
fn what_carries_a_connection_is_what_both_can() {
    use Transport::{Auto, Edge, Iwarp};
    for (calls, listens, expected) in
        [(Edge, Edge, true), (Edge, Auto, true), (Auto, Edge, true), (Auto, Iwarp, false), (Iwarp, Auto, false)]
    {
        let ends = pair(calls, listens);
        assert!(ends.iter().all(|end| is_edge(end) == expected), "{calls:?} to {listens:?}");
    }
}

#[test]
fn where_nobody_listens_iwarp_says_so_too() {
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let connect = ConnectOptions { offer: offer(Transport::Auto), ..ConnectOptions::default() };
    let error = end().queue_pair.connect(nowhere, &connect).unwrap_err();
    let Error::Connection(ConnectionError::Connect { remote, error }) = error else { panic!("{error:?}") };
    assert_eq!((remote, error), (nowhere, PortError::Refused));
}

#[test]
fn an_endpoint_closes_at_once() {
    // Nobody asks a peer whether it is there, so what is not sent by itself never is.
    let one = |progress| {
        let context = Context::with_settings(Settings { progress, peer_timeout: None, ..Settings::default() }).unwrap();
        let domain = context.allocate_protection_domain().unwrap();
        let events = EventQueue::new(&context).unwrap();
        let mut attributes = EndpointAttributes::at("127.0.0.1:0".parse().unwrap());
        attributes.settings.transport = Transport::Edge;
        (Endpoint::open(&domain, &attributes, Arc::new(events.clone())).unwrap(), events, context)
    };
    for progress in [Progress::Hybrid, Progress::Thread] {
        let (done, is_done) = mpsc::channel();
        let closing = thread::spawn(move || {
            let [(sender, _, a), (receiver, events, b)] = [one(progress), one(progress)];
            receiver.receive(ReceivePost::new(vec![0; 100]).matching(Match { tag: 1, ignore: 0 })).unwrap();
            let to = sender.peer(&receiver.address()).unwrap();
            sender.send(SendPost::new(to, b"all".to_vec()).tag(1)).unwrap();
            sender.close().unwrap();
            assert!(events.wait(PATIENCE).unwrap().outcome.is_ok());
            receiver.close().unwrap();
            drop((a, b));
            done.send(()).unwrap();
        });
        is_done.recv_timeout(PATIENCE.unwrap()).unwrap_or_else(|_| panic!("{progress:?}: it does not end"));
        closing.join().unwrap();
    }
}

/// The reader is done when the bytes are in place; that may be before its acknowledgement has come. What is sent
/// again then is memory that its owner has taken back.
#[test]
fn memory_may_go_as_soon_as_its_reader_is_done() {
    let [active, passive] = pair(Transport::Edge, Transport::Edge);
    let domains = [&active, &passive].map(|end| end.queue_pair.domain());
    let back = domains[0].allocate(100_000, Access::LOCAL_WRITE).unwrap();
    for id in 0..50 {
        let window = domains[1].allocate(100_000, Access::REMOTE_READ).unwrap();
        active.queue_pair.post(WorkRequest::read(back.slice(..).unwrap(), window.remote(0)).id(id)).unwrap();
        let done = active.completions.wait(PATIENCE).expect("the read in time");
        assert_eq!((done.id, done.status), (id, Status::Success), "{:?}", active.queue_pair.error());
    }
}
