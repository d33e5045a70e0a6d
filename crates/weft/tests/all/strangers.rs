//! Callers with a forged identity: what they get from an endpoint, and that its peers notice nothing of them.
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::common::{Kind, PATIENCE};
use socket2::{Domain, Socket, Type};
use weft::endpoint::{
    Address, Endpoint, EndpointAttributes, Event, EventQueue, JobKey, PeerId, ReceivePost, RemotePlace, SendPost,
    TransferPost,
};
use weft::verbs::laboratory::Split;
use weft::verbs::{
    CompletionQueue, ConnectOptions, ConnectionError, ConnectionInfo, Context, Error, ListenOptions, Progress,
    ProtectionDomain, QueuePair, QueuePairOptions, ReadyKind, ReadyKinds, Settings, StartError, StartReason,
};
use weft_wire::message::{Confirmation, Hello, MAX_HELLO_LENGTH, Refusal};

struct End {
    endpoint: Endpoint,
    events: EventQueue,
    domain: ProtectionDomain,
    _context: Context,
}

impl End {
    fn open(attributes: &EndpointAttributes) -> Self {
        let context = kind().context();
        let domain = context.allocate_protection_domain().unwrap();
        let events = EventQueue::new(&context).unwrap();
        let endpoint = Endpoint::open(&domain, attributes, Arc::new(events.clone())).unwrap();
        Self { endpoint, events, domain, _context: context }
    }

    fn peer(&self, other: &Self) -> PeerId {
        self.endpoint.peer(&other.endpoint.address()).unwrap()
    }

    fn done(&self, context: u64) -> Event {
        let event = self.events.wait_for(|event| event.context == context, PATIENCE).expect("a completion in time");
        assert!(event.outcome.is_ok(), "{event:?}");
        event
    }

    /// A message to another one, which receives it from this one and from no other.
    fn tell(&self, other: &Self, content: &[u8]) {
        other.endpoint.receive(ReceivePost::new(vec![0; 64]).from(other.peer(self)).context(1)).unwrap();
        self.endpoint.send(SendPost::new(self.peer(other), content.to_vec()).context(2)).unwrap();
        let received = other.done(1);
        assert_eq!(&received.buffer.unwrap()[..received.length as usize], content);
        self.done(2);
    }
}

/// The NIC's thread does the work, so that each side makes progress while the other waits.
fn kind() -> Kind {
    Kind::plain(Progress::Thread)
}

fn attributes() -> EndpointAttributes {
    EndpointAttributes::at(kind().any())
}

/// A peer that speaks the protocol and sends any message.
struct Stranger {
    context: Context,
    domain: ProtectionDomain,
    completions: CompletionQueue,
    queue_pair: QueuePair,
}

impl Stranger {
    fn new() -> Self {
        let context = kind().context();
        let domain = context.allocate_protection_domain().unwrap();
        let completions = context.create_completion_queue(64).unwrap();
        let queue_pair = domain.create_queue_pair(&completions, &QueuePairOptions::default()).unwrap();
        Self { context, domain, completions, queue_pair }
    }

    /// Says this to an endpoint.
    fn start(&self, to: &End, hello: &Hello) {
        let mut private_data = vec![0; MAX_HELLO_LENGTH];
        let length = hello.emit(&mut private_data);
        private_data.truncate(length);
        let mut options = ConnectOptions { private_data, ..ConnectOptions::default() };
        options.offer.mpa.ready_to_receive = Some(ReadyKinds::only(ReadyKind::Write));
        self.queue_pair.start_connect(to.endpoint.address().paths[0], &options).unwrap();
    }

    /// What it is answered.
    fn answer(&self) -> Result<Arc<ConnectionInfo>, Refusal> {
        match self.queue_pair.wait_connected(PATIENCE) {
            Ok(info) => Ok(info),
            Err(Error::Connection(ConnectionError::Start(StartError {
                reason: StartReason::Rejected { private_data },
                ..
            }))) => Err(Refusal::parse(&private_data).expect("a refusal")),
            Err(error) => panic!("{error}"),
        }
    }

    fn call(&self, to: &End, hello: &Hello) -> Result<Arc<ConnectionInfo>, Refusal> {
        self.start(to, hello);
        self.answer()
    }
}

/// What an endpoint with this address would say, and later than that has said anything.
fn as_if(from: &Address, to: &End) -> Hello {
    Hello {
        id: from.id,
        wanted: to.endpoint.address().id,
        serial: u64::MAX,
        packet_bytes: 4096,
        data_credits: 16,
        control_credits: 16,
        addresses: from.paths.clone(),
        host: None,
        nonce: None,
        proof: None,
    }
}

#[test]
fn whoever_says_the_id_of_a_peer_gets_nothing_of_it_while_it_lives() {
    let (a, b) = (End::open(&attributes()), End::open(&attributes()));
    a.tell(&b, b"first");
    let stranger = Stranger::new();
    stranger.start(&b, &as_if(&a.endpoint.address(), &b));
    // While it waits ...
    b.tell(&a, b"second");
    a.tell(&b, b"third");
    assert_eq!(stranger.answer().map(|_| ()), Err(Refusal::Tie));
    // ... and afterwards.
    b.tell(&a, b"fourth");
    a.tell(&b, b"fifth");
}

#[test]
fn whoever_says_the_address_of_a_peer_gets_nothing_of_it_while_it_lives() {
    let (a, b) = (End::open(&attributes()), End::open(&attributes()));
    a.tell(&b, b"first");
    let stranger = Stranger::new();
    let hello = Hello { id: 4711, ..as_if(&a.endpoint.address(), &b) };
    assert_eq!(stranger.call(&b, &hello).map(|_| ()), Err(Refusal::Tie));
    b.tell(&a, b"second");
    a.tell(&b, b"third");
}

#[test]
fn nobody_is_let_in_under_the_id_of_the_endpoint_itself() {
    let b = End::open(&attributes());
    let stranger = Stranger::new();
    assert_eq!(stranger.call(&b, &as_if(&b.endpoint.address(), &b)).map(|_| ()), Err(Refusal::Itself));
    // It still reaches itself.
    b.endpoint.receive(ReceivePost::new(vec![0; 2]).from(b.peer(&b))).unwrap();
    b.endpoint.send(SendPost::new(b.peer(&b), b"me".to_vec())).unwrap();
    for _ in 0..2 {
        assert!(b.events.wait(PATIENCE).expect("a completion in time").outcome.is_ok());
    }
}

#[test]
fn a_peer_that_has_lost_its_connection_is_let_in_as_soon_as_that_has_shown() {
    let b = End::open(&attributes());
    let address = Address { id: 4711, ..Address::from("127.0.0.1:9".parse::<std::net::SocketAddr>().unwrap()) };
    let first = Stranger::new();
    let hello = as_if(&address, &b);
    first.call(&b, &Hello { serial: 1, ..hello.clone() }).expect("a newcomer is welcome");
    let second = Stranger::new();
    second.start(&b, &Hello { serial: 2, ..hello.clone() });
    // It is suspect now, or soon.
    thread::sleep(Duration::from_millis(100));
    drop(first.queue_pair);
    first.context.progress();
    second.answer().expect("the old connection is gone");
    // An old request that comes late is not taken for that.
    let late = Stranger::new();
    assert_eq!(late.call(&b, &Hello { serial: 1, ..hello }).map(|_| ()), Err(Refusal::Tie));
}

#[test]
fn who_answers_under_another_id_than_was_wanted_gets_no_message() {
    let a = End::open(&attributes());
    let impostor = kind().context();
    let listener = impostor.listen(kind().any(), &ListenOptions::default()).unwrap();
    let domain = impostor.allocate_protection_domain().unwrap();
    let completions = impostor.create_completion_queue(64).unwrap();
    let queue_pair = domain.create_queue_pair(&completions, &QueuePairOptions::default()).unwrap();
    let wanted = Address { id: 77, ..Address::from(listener.local_address()) };
    let peer = a.endpoint.peer(&wanted).unwrap();
    a.endpoint.send(SendPost::new(peer, b"a secret".to_vec()).context(1)).unwrap();
    let incoming = listener.accept(PATIENCE).unwrap();
    let mut private_data = vec![0; MAX_HELLO_LENGTH];
    let hello = Hello { id: 78, ..as_if(&wanted, &a) };
    let length = hello.emit(&mut private_data);
    incoming.accept(&queue_pair, &private_data[..length]).unwrap();
    let event = a.events.wait(PATIENCE).expect("an end in time");
    let text = event.outcome.unwrap_err().to_string();
    assert!(text.contains("another endpoint listens there"), "{text}");
}

// --- with a job key

fn keyed(key: &str) -> EndpointAttributes {
    EndpointAttributes { key: Some(JobKey::new(key.as_bytes()).unwrap()), ..attributes() }
}

const KEY: &str = "0123456789abcdef, all of us know it";

/// Why a message to it can't be sent.
fn refusal(from: &End, to: &End) -> String {
    from.endpoint.send(SendPost::new(from.peer(to), b"x".to_vec()).context(7)).unwrap();
    let event = from.events.wait(PATIENCE).expect("an end in time");
    event.outcome.unwrap_err().to_string()
}

#[test]
fn endpoints_with_one_key_exchange_messages_and_reach_each_others_memory() {
    for progress in [Progress::Thread, Progress::Hybrid] {
        for split in [Split::Host, Split::Assist] {
            if split == Split::Assist && progress != Progress::Thread {
                continue;
            }
            let context = Kind::plain(progress).with_split(split).context();
            let domain = context.allocate_protection_domain().unwrap();
            let ends = [(); 2].map(|()| {
                let events = EventQueue::new(&context).unwrap();
                (Endpoint::open(&domain, &keyed(KEY), Arc::new(events.clone())).unwrap(), events)
            });
            let [(a, a_events), (b, b_events)] = &ends;
            let (to_a, to_b) = (b.peer(&a.address()).unwrap(), a.peer(&b.address()).unwrap());
            // Both connect at once.
            for (from, to, events) in [(a, to_b, a_events), (b, to_a, b_events)] {
                from.receive(ReceivePost::new(vec![0; 1 << 20]).context(1)).unwrap();
                from.send(SendPost::new(to, vec![7; 1 << 20]).context(2)).unwrap();
                let _ = events;
            }
            for events in [a_events, b_events] {
                for _ in 0..2 {
                    let event = events.wait(PATIENCE).expect("a completion in time");
                    assert!(event.outcome.is_ok(), "{event:?}");
                }
            }
            let region = domain.allocate(64, weft::verbs::Access::all()).unwrap();
            let place = RemotePlace { stag: region.stag(), offset: region.base() };
            a.write(TransferPost::new(to_b, b"there".to_vec(), place).context(3)).unwrap();
            let event = a_events.wait(PATIENCE).expect("a completion in time");
            assert!(event.outcome.is_ok(), "{event:?}");
        }
    }
}

#[test]
fn a_crowd_with_a_key_connects_all_to_all_at_once() {
    const ENDS: usize = 12;
    let ends: Vec<End> = (0..ENDS).map(|_| End::open(&keyed(KEY))).collect();
    let barrier = &std::sync::Barrier::new(ENDS);
    thread::scope(|scope| {
        for end in &ends {
            let ends = &ends;
            scope.spawn(move || {
                let peers: Vec<PeerId> = ends.iter().map(|other| end.peer(other)).collect();
                barrier.wait();
                for peer in &peers {
                    end.endpoint.receive(ReceivePost::new(vec![0; 4096]).from(*peer).context(1)).unwrap();
                    end.endpoint.send(SendPost::new(*peer, vec![3; 4096]).context(2)).unwrap();
                }
                for _ in 0..2 * ENDS {
                    let event = end.events.wait(PATIENCE).expect("a completion in time");
                    assert!(event.outcome.is_ok(), "{event:?}");
                }
                barrier.wait();
            });
        }
    });
}

#[test]
fn whoever_has_another_key_or_none_is_refused_and_told_so() {
    let (a, other, none) =
        (End::open(&keyed(KEY)), End::open(&keyed("another key of the same length ....")), End::open(&attributes()));
    for (from, to, expected) in [
        (&other, &a, "wrong key"),
        (&a, &other, "wrong key"),
        (&none, &a, "wants a job key, and this one has none"),
        (&a, &none, "has no job key"),
    ] {
        let text = refusal(from, to);
        assert!(text.contains(expected) && !text.contains("loopback"), "{text}");
    }
    let b = End::open(&keyed(KEY));
    a.tell(&b, b"we know each other");
}

/// A stranger that has no key, but has a nonce as if it had, is answered: what it gets by that.
#[test]
fn who_proves_nothing_is_no_peer_reaches_no_memory_and_replaces_nobody() {
    let (a, b) = (End::open(&keyed(KEY)), End::open(&keyed(KEY)));
    a.tell(&b, b"first");
    // The stranger knows where the memory is.
    let region = b.domain.allocate(64, weft::verbs::Access::all()).unwrap();
    let hello = Hello { nonce: Some([7; 16]), ..as_if(&a.endpoint.address(), &b) };
    let request = |stranger: &Stranger, post: weft::verbs::WorkRequest| {
        let info = stranger.call(&b, &hello).expect("who has a nonce is answered");
        let reply = Hello::parse(&info.private_data).unwrap();
        assert!(reply.nonce.is_some() && reply.proof.is_some());
        stranger.queue_pair.post(post).unwrap();
        // The connection is ended for it.
        let completion = stranger.completions.wait(PATIENCE).expect("an end in time");
        assert!(completion.status != weft::verbs::Status::Success, "{completion:?}");
    };
    let memory = |stranger: &Stranger| stranger.domain.register(vec![5; 64], weft::verbs::Access::all()).unwrap();
    let there = weft::verbs::RemoteMemory { stag: region.stag(), offset: region.base() };
    let stranger = Stranger::new();
    let own = memory(&stranger);
    request(&stranger, weft::verbs::WorkRequest::read(own.slice(..).unwrap(), there));
    let mut bytes = [0; 64];
    region.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 64]);
    // A packet, and a proof that is none.
    for packet in [vec![1, 0, 0, 0, 0, 0, 0, 0], Confirmation([9; 32]).emit().to_vec(), vec![0; 4000]] {
        let stranger = Stranger::new();
        let length = packet.len();
        let own = stranger.domain.register(packet, weft::verbs::Access::all()).unwrap();
        let sink = memory(&stranger);
        stranger.queue_pair.post_receive(9, &[sink.slice(..).unwrap()]).unwrap();
        stranger.call(&b, &hello).expect("who has a nonce is answered");
        stranger.queue_pair.post(weft::verbs::WorkRequest::send(own.slice(..length as u64).unwrap())).unwrap();
        let ended = (0..2).map(|_| stranger.completions.wait(PATIENCE).expect("an end in time"));
        assert!(ended.filter(|completion| completion.id == 9).all(|end| end.status != weft::verbs::Status::Success));
    }
    a.tell(&b, b"second");
    b.tell(&a, b"third");
}

#[test]
fn callers_that_prove_nothing_keep_nobody_out() {
    let b = End::open(&keyed(KEY));
    let strangers: Vec<Stranger> = (0..80).map(|_| Stranger::new()).collect();
    for (number, stranger) in strangers.iter().enumerate() {
        let address = Address { id: number as u64 + 1, ..b.endpoint.address() };
        stranger.start(&b, &Hello { nonce: Some([number as u8; 16]), ..as_if(&address, &b) });
    }
    let a = End::open(&keyed(KEY));
    a.tell(&b, b"in time");
}

// --- callers that connect and say nothing

#[test]
fn a_good_client_is_served_though_all_places_are_taken_by_callers_that_say_nothing() {
    // No caller is given up for being slow.
    let settings = Settings { start_timeout: Duration::from_secs(3600), ..kind().settings() };
    let context = Context::with_settings(settings.clone()).unwrap();
    let listener = context.listen(kind().any(), &ListenOptions { backlog: 8, ..ListenOptions::default() }).unwrap();
    let silent: Vec<Socket> = (0..100).map(|_| connecting(listener.local_address())).collect();
    let other = Context::with_settings(settings).unwrap();
    let [active, passive] = [&other, &context].map(|context| {
        let domain = context.allocate_protection_domain().unwrap();
        let completions = context.create_completion_queue(64).unwrap();
        domain.create_queue_pair(&completions, &QueuePairOptions::default()).unwrap()
    });
    active.start_connect(listener.local_address(), &ConnectOptions::default()).unwrap();
    listener.accept(Some(weft_testing::PATIENCE)).expect("a request").accept(&passive, &[]).unwrap();
    active.wait_connected(PATIENCE).unwrap();
    drop(silent);
}

/// A stream that is being opened, whether it is accepted or not.
fn connecting(to: std::net::SocketAddr) -> Socket {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM.nonblocking(), None).unwrap();
    match socket.connect(&to.into()) {
        Ok(()) => {}
        Err(error) => assert_eq!(error.raw_os_error(), Some(nix::libc::EINPROGRESS), "{error}"),
    }
    socket
}
