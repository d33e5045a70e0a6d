//! Two message endpoints that send each other long messages, at the same time or in turns.

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use weft_base::{Edge, Iwarp};
use weft_message::Settings as MessageSettings;
use weft_nic::{Completions, EndpointAttributes, Event, MessageEndpoint, Progress, ReceivePost, SendPost, Settings};
use weft_simulate::{Behaviour, PacketBehaviour, SimulatedClock, SimulatedNetwork, SimulatedNic, Tag, World};

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

struct Side<T: Tag> {
    nic: SimulatedNic<T>,
    endpoint: MessageEndpoint<SimulatedNetwork<T>, SimulatedClock>,
    inbox: Arc<Inbox>,
}

impl<T: Tag> Side<T> {
    fn open(world: &World, port: u16) -> Self {
        Self::open_with(world, port, MessageSettings::default())
    }

    fn open_with(world: &World, port: u16, messages: MessageSettings) -> Self {
        let nic = world.nic_over(Settings { progress: Progress::Caller, ..Settings::default() }, &[]);
        let domain = nic.registry().allocate_domain().unwrap();
        let inbox = Arc::new(Inbox::default());
        let mut attributes = EndpointAttributes::at(SocketAddr::from(([10, 0, 0, 1], port)));
        attributes.settings.messages = messages;
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

/// A side that was away finds a message's notice together with the requests for its own message. It asks before it
/// answers: both messages are in flight at once, and neither waits for a part of the other.
#[test]
fn long_messages_go_both_ways_at_once() {
    let behaviour = Behaviour { delay: Duration::from_micros(1), capacity: 64 * 1024, ..Behaviour::default() };
    let world = World::new(1, behaviour);
    let (here, away) = (Side::<Iwarp>::open(&world, 501), Side::open(&world, 502));
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

/// No request waits for an unrequested acknowledgement: it may take a millisecond.
#[test]
fn long_messages_take_no_longer_than_they_have_to() {
    [1500, 9000, 65_535].into_iter().for_each(take_turns);
}

fn take_turns(interface_mtu: u32) {
    let world = World::new(1, Behaviour { delay: Duration::from_micros(1), ..Behaviour::default() });
    world.set_packets(PacketBehaviour { interface_mtu, ..PacketBehaviour::default() });
    // All that is longer than a packet is read.
    let usual = MessageSettings::default();
    let least = u64::from(usual.short_bytes);
    let messages = MessageSettings { stream_bytes: least, alone_bytes: least, eager_bytes: least, ..usual };
    let (here, away) = (Side::<Edge>::open_with(&world, 501, messages.clone()), Side::open_with(&world, 502, messages));
    let both = [&here.nic, &away.nic];
    let pass = |from: &Side<Edge>, to: &Side<Edge>, length| {
        let begun = world.now();
        let before = [from, to].map(|side| side.inbox.0.lock().len());
        let (peer, other) = (from.endpoint.peer(to.endpoint.address()), to.endpoint.peer(from.endpoint.address()));
        to.endpoint.receive(ReceivePost::new(vec![0; length]).from(other.unwrap())).unwrap();
        from.endpoint.send(SendPost::new(peer.unwrap(), vec![1; length])).unwrap();
        let done = || from.has_completed(before[0] + 1) && to.has_completed(before[1] + 1);
        assert!(world.run(&both, LIMIT, done));
        world.now().since(begun)
    };
    for length in [1, 20_000, 40_000, 60_000, 100_000, 200_000, 300_000, 500_000] {
        for round in 0..8 {
            let took = pass(&here, &away, length) + pass(&away, &here, length);
            assert!(
                round < 2 || took < Duration::from_micros(900),
                "MTU {interface_mtu}, {length} bytes there and back: {took:?}"
            );
        }
    }
}
