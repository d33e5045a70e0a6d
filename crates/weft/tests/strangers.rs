//! Callers who say that they are somebody: what they get from an endpoint, and that its peers notice nothing of them.
#![forbid(unsafe_code)]

mod common;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use common::{Kind, PATIENCE};
use weft::endpoint::{Address, Endpoint, EndpointAttributes, Event, EventQueue, PeerId, ReceivePost, SendPost};
use weft::verbs::{
    ConnectOptions, ConnectionError, ConnectionInfo, Context, Error, Extensions, Progress, QueuePair, QueuePairOptions,
    ReadyKind, ReadyKinds, StartFailure,
};
use weft_wire::message::{Hello, MAX_HELLO_LENGTH, Refusal};

struct End {
    endpoint: Endpoint,
    events: EventQueue,
    _context: Context,
}

impl End {
    fn open(attributes: &EndpointAttributes) -> Self {
        let context = kind().context();
        let domain = context.allocate_protection_domain().unwrap();
        let events = EventQueue::new(&context).unwrap();
        let endpoint = Endpoint::open(&domain, attributes, Arc::new(events.clone())).unwrap();
        Self { endpoint, events, _context: context }
    }

    fn peer(&self, other: &Self) -> PeerId {
        self.endpoint.peer(&other.endpoint.address()).unwrap()
    }

    fn done(&self, context: u64) -> Event {
        let event = self.events.wait_for(|event| event.context == context, PATIENCE).expect("a completion in time");
        assert!(event.outcome.is_ok(), "{event:?}");
        event
    }

    /// A message to another one, which receives it from this one and nobody else.
    fn tell(&self, other: &Self, content: &[u8]) {
        other.endpoint.receive(ReceivePost::new(vec![0; 64]).from(other.peer(self)).context(1)).unwrap();
        self.endpoint.send(SendPost::new(self.peer(other), content.to_vec()).context(2)).unwrap();
        let received = other.done(1);
        assert_eq!(&received.buffer.unwrap()[..received.length as usize], content);
        self.done(2);
    }
}

/// The NIC's thread does the work, so that each side moves whoever waits.
fn kind() -> Kind {
    Kind::plain(Progress::Thread)
}

fn attributes() -> EndpointAttributes {
    EndpointAttributes::at(kind().any())
}

/// Somebody who speaks the protocol and says what it likes.
struct Stranger {
    context: Context,
    queue_pair: QueuePair,
}

impl Stranger {
    fn new() -> Self {
        let context = kind().context();
        let domain = context.allocate_protection_domain().unwrap();
        let completions = context.create_completion_queue(64).unwrap();
        let queue_pair = domain.create_queue_pair(&completions, &QueuePairOptions::default()).unwrap();
        Self { context, queue_pair }
    }

    /// Says this to an endpoint.
    fn start(&self, to: &End, hello: &Hello) {
        let mut private_data = vec![0; MAX_HELLO_LENGTH];
        let length = hello.emit(&mut private_data);
        private_data.truncate(length);
        let options = ConnectOptions {
            private_data,
            ready_to_receive: Some(ReadyKinds::only(ReadyKind::Write)),
            extensions: Extensions::all(),
            ..ConnectOptions::default()
        };
        self.queue_pair.start_connect(to.endpoint.address().ways[0], &options).unwrap();
    }

    /// What it is answered.
    fn answer(&self) -> Result<Arc<ConnectionInfo>, Refusal> {
        match self.queue_pair.wait_connected(PATIENCE) {
            Ok(info) => Ok(info),
            Err(Error::Connection(ConnectionError::Start(StartFailure::Rejected(rejection)))) => {
                Err(Refusal::parse(&rejection.private_data).expect("a refusal"))
            }
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
        addresses: from.ways.clone(),
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
    // It is in doubt now, or soon.
    thread::sleep(Duration::from_millis(100));
    drop(first.queue_pair);
    first.context.progress();
    second.answer().expect("the old connection is gone");
    // An old request that comes late is told from that.
    let late = Stranger::new();
    assert_eq!(late.call(&b, &Hello { serial: 1, ..hello }).map(|_| ()), Err(Refusal::Tie));
}

#[test]
fn who_answers_under_another_id_than_was_wanted_gets_no_message() {
    let a = End::open(&attributes());
    let impostor = kind().context();
    let listener = impostor.listen(kind().any(), &weft::verbs::ListenOptions::default()).unwrap();
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
