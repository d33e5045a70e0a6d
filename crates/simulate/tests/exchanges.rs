//! Two message endpoints that send each other long messages at the same time.

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use weft_nic::{Completions, EndpointAttributes, Event, MessageEndpoint, Progress, ReceivePost, SendPost, Settings};
use weft_simulate::{Behaviour, SimulatedClock, SimulatedNetwork, SimulatedNic, World};

/// Longer than all protocols but the one in which the receiver reads.
const LONG: usize = 1 << 20;
const LIMIT: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Inbox(Mutex<Vec<Event>>);

impl Completions for Inbox {
    fn complete(&self, event: Event) {
        assert_eq!(event.outcome, Ok(()));
        self.0.lock().push(event);
    }
}

struct Side {
    nic: SimulatedNic,
    endpoint: MessageEndpoint<SimulatedNetwork, SimulatedClock>,
    inbox: Arc<Inbox>,
}

impl Side {
    fn open(world: &World, port: u16) -> Self {
        let nic = world.nic(Settings { progress: Progress::Caller, ..Settings::default() });
        let domain = nic.registry().allocate_domain().unwrap();
        let inbox = Arc::new(Inbox::default());
        let attributes = EndpointAttributes::at(SocketAddr::from(([10, 0, 0, 1], port)));
        let identity = (port.into(), port.into());
        let completions = Arc::clone(&inbox) as Arc<dyn Completions>;
        let endpoint = MessageEndpoint::open(&nic, domain, &attributes, identity, completions).unwrap();
        Self { nic, endpoint, inbox }
    }

    fn post(&self, other: &Self, length: usize) {
        let peer = self.endpoint.peer(other.endpoint.address()).unwrap();
        self.endpoint.receive(ReceivePost::new(vec![0; length]).from(peer)).unwrap();
        self.endpoint.send(SendPost::new(peer, vec![1; length])).unwrap();
    }

    fn has_completed(&self, count: usize) -> bool {
        self.inbox.0.lock().len() == count
    }

    fn sent(&self) -> u64 {
        self.nic.counters().sent_wire_bytes
    }
}

/// Who was away finds a message's notice together with the requests for its own message. It asks before it answers: both messages are under way at once, and neither waits for a
/// part of the other.
#[test]
fn long_messages_go_both_ways_at_once() {
    let behaviour = Behaviour { delay: Duration::from_micros(1), capacity: 64 * 1024, ..Behaviour::default() };
    let world = World::new(1, behaviour);
    let (here, away) = (Side::open(&world, 501), Side::open(&world, 502));
    let both = [&here.nic, &away.nic];
    here.post(&away, 1);
    away.post(&here, 1);
    assert!(world.run(&both, LIMIT, || here.has_completed(2) && away.has_completed(2)));

    away.post(&here, LONG);
    here.post(&away, LONG);
    world.run(&[&here.nic], Duration::from_micros(100), || false);
    let begun = (here.sent(), away.sent());
    let mut apart = 0;
    let done = || {
        apart = apart.max((here.sent() - begun.0).abs_diff(away.sent() - begun.1));
        here.has_completed(4) && away.has_completed(4)
    };
    assert!(world.run(&both, LIMIT, done));
    assert!(apart < 150_000, "one side has sent {apart} bytes more than the other");
}
