//! Edge between hosts that are 100 ms apart, in virtual time: what is short takes one round trip, on a connection that
//! is used the first time or has been used for long, and long messages wait for none.

use core::time::Duration;
use std::sync::{Arc, Mutex};

use weft_base::{Edge, Gather, Slice};
use weft_emulate::Settings as Links;
use weft_memory::Access;
use weft_nic::{
    Completed, Completions, EndpointAttributes, Event, MessageEndpoint, Progress, ReceivePost, SendPost, Settings,
};
use weft_rdmap::{Operation, Payload, RemoteTarget, RequestFlags, SendRequest, Status};
use weft_simulate::{
    Behaviour, PacketBehaviour, Pair, PairOptions, SimulatedClock, SimulatedNetwork, SimulatedNic, World,
};

const WAY: Duration = Duration::from_millis(50);
const LIMIT: Duration = Duration::from_secs(20);

fn world() -> World {
    let world = World::new(3, Behaviour::default());
    let links = Links { delay: WAY, ..PacketBehaviour::default().links };
    world.set_packets(PacketBehaviour { links, ..PacketBehaviour::default() });
    world
}

/// How many times the one-way delay has passed since then.
fn ways(world: &World, since: weft_base::Time) -> f64 {
    world.now().since(since).as_secs_f64() / WAY.as_secs_f64()
}

/// Its completion is the peer's acknowledgement.
#[test]
fn each_short_write_takes_one_round_trip() {
    for length in [8, 4096, 8192] {
        let (world, options) = (world(), PairOptions::default());
        let pair = Pair::<Edge>::unconnected(&world, &options);
        assert!(pair.connect(&options), "{:?}", pair.active.queue_pair.error());
        let (here, there) = (pair.active.nic.registry(), pair.passive.nic.registry());
        let source = here.register(pair.active.domain, vec![1; length as usize], Access::LOCAL_READ, 0).unwrap();
        let sink = there.register(pair.passive.domain, vec![0; length as usize], Access::REMOTE_WRITE, 0).unwrap();
        let payload = Payload::Gather(Gather::from(Slice { region: source.id(), offset: 0, length }));
        let target = RemoteTarget { stag: sink.stag(), offset: sink.base() };
        let (operation, flags) = (Operation::Write { payload, target }, RequestFlags::NONE);
        for round in 0..40 {
            let (begun, mut completed) = (world.now(), Vec::new());
            let request = SendRequest { id: round, operation, signaled: true, fence: false, flags };
            pair.active.nic.post_send(&pair.active.queue_pair, [request]).unwrap();
            assert!(pair.run(LIMIT, || {
                pair.active.take_sends(&mut completed);
                !completed.is_empty()
            }));
            assert_eq!(completed[0].status, Status::Success);
            let took = ways(&world, begun);
            assert!(took <= 2.1, "{length} bytes, write {round}: {took} ways");
        }
    }
}

/// What has completed.
#[derive(Default)]
struct Inbox(Mutex<Vec<Event>>);

impl Completions for Inbox {
    fn complete(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

struct Side {
    nic: SimulatedNic<Edge>,
    endpoint: MessageEndpoint<SimulatedNetwork<Edge>, SimulatedClock>,
    inbox: Arc<Inbox>,
}

impl Side {
    fn open(world: &World, number: u8) -> Self {
        let nic = world.nic_over::<Edge>(Settings { progress: Progress::Caller, ..Settings::default() }, &[]);
        let domain = nic.registry().allocate_domain().unwrap();
        let attributes = EndpointAttributes::at(([10, 0, 0, number], 500).into());
        let inbox = Arc::new(Inbox::default());
        let completions = Arc::clone(&inbox) as Arc<dyn Completions>;
        let identity = (u64::from(number), 7);
        let endpoint = MessageEndpoint::open(&nic, domain, &attributes, identity, completions).unwrap();
        Self { nic, endpoint, inbox }
    }

    /// Whether a message has been received since the last time.
    fn has_received(&self) -> bool {
        let events = core::mem::take(&mut *self.inbox.0.lock().unwrap());
        assert!(events.iter().all(|event| event.outcome == Ok(())), "{events:?}");
        events.iter().any(|event| event.completed == Completed::Receive)
    }
}

/// A message that is too long to be streamed between neighbours, and sent alone: its receiver reads it, which takes a
/// round trip more, until the sender knows how far away it is, and has a window for it.
#[test]
fn a_long_message_waits_for_no_round_trip_once_the_distance_is_known() {
    let world = world();
    let [here, there] = [1, 2].map(|number| Side::open(&world, number));
    let peer = here.endpoint.peer(there.endpoint.address()).unwrap();
    let length = 200 * 1024;
    let mut took = Vec::new();
    for _ in 0..16 {
        there.endpoint.receive(ReceivePost::new(vec![0; length])).unwrap();
        let begun = world.now();
        here.endpoint.send(SendPost::new(peer, vec![5; length])).unwrap();
        assert!(world.run(&[&here.nic, &there.nic], LIMIT, || there.has_received()));
        took.push(ways(&world, begun));
        world.run(&[&here.nic, &there.nic], 3 * WAY, || false);
        here.has_received();
    }
    println!("{took:?}");
    assert!(took[12..].iter().all(|ways| *ways <= 3.0), "{took:?}");
}
