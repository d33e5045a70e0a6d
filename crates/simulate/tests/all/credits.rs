//! Sends that wait at their sender for a receive of the peer, over iWARP and shared memory where receipts were agreed,
//! in virtual time. A failure names its case.

use core::time::Duration;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weft_base::{DomainId, Gather, IwarpOrEdge};
use weft_memory::{Access, Region};
use weft_nic::{
    CompletionQueue, ConnectionError, Listener, Offer, Progress, QueuePair, QueuePairAttributes, ReceiveQueue,
    Settings, State, Transport,
};
use weft_rdmap::{
    Closed, InlineBytes, Operation, Payload, ReceiveRequest, RemoteTarget, RequestFlags, SendRequest, Status,
    StreamError,
};
use weft_simulate::{Behaviour, PairOptions, RingBehaviour, SimulatedNic, World};

const LIMIT: Duration = Duration::from_secs(100);
const CARRIERS: [Transport; 2] = [Transport::Iwarp, Transport::SharedMemory];

/// A NIC with memory that its peers may use.
struct Host {
    nic: SimulatedNic<IwarpOrEdge>,
    domain: DomainId,
    completions: Arc<CompletionQueue>,
    memory: Region,
}

impl Host {
    fn new(world: &World) -> Self {
        let nic = world.nic_over(Settings { progress: Progress::Caller, ..Settings::default() }, &[]);
        let domain = nic.registry().allocate_domain().unwrap();
        let completions = nic.create_completion_queue(1000).unwrap();
        let memory = nic.registry().register(domain, vec![0; 4096], Access::all(), 0).unwrap();
        Self { nic, domain, completions, memory }
    }

    fn queue_pair(&self, shared: Option<&Arc<ReceiveQueue>>) -> Arc<QueuePair> {
        let attributes = QueuePairAttributes {
            domain: self.domain,
            send_completions: Arc::clone(&self.completions),
            receive_completions: Arc::clone(&self.completions),
            send_depth: 64,
            receive_depth: 64,
            shared_receives: shared.cloned(),
        };
        self.nic.create_queue_pair(&attributes).unwrap()
    }

    fn shared_queue(&self) -> Arc<ReceiveQueue> {
        self.nic.create_shared_receive_queue(self.domain, 64, Arc::clone(&self.completions)).unwrap()
    }

    fn post(&self, queue_pair: &Arc<QueuePair>, id: u64, operation: Operation) {
        let request = SendRequest { id, operation, signaled: true, fence: false, flags: RequestFlags::NONE };
        self.nic.post_send(queue_pair, [request]).unwrap();
    }

    fn receive(&self, id: u64) -> ReceiveRequest {
        ReceiveRequest { id, sink: Gather::from(self.memory.slice(0..64).unwrap()) }
    }

    fn write(&self, payload: &[u8]) -> Operation {
        let target = RemoteTarget { stag: self.memory.stag(), offset: self.memory.base() + 1024 };
        Operation::Write { payload: inline(payload), target }
    }

    /// What has completed by now: ids and how they ended.
    fn take(&self) -> Vec<(u64, Status)> {
        let mut taken = Vec::new();
        self.completions.take_into(&mut taken, usize::MAX);
        taken.iter().map(|one| (one.completion.id, one.completion.status)).collect()
    }
}

fn inline(bytes: &[u8]) -> Payload {
    Payload::Inline(InlineBytes::new(bytes).unwrap())
}

fn send(payload: &[u8]) -> Operation {
    Operation::Send { payload: inline(payload), solicited: false, invalidate: None }
}

fn world() -> World {
    let ring = Some(RingBehaviour::default());
    World::new(3, Behaviour { ring, delay: Duration::from_micros(10), ..Behaviour::default() })
}

fn offer(transport: Transport) -> Offer {
    let mut offer = PairOptions::default().active;
    offer.mpa.extensions.receipts = true;
    Offer { transport, ..offer }
}

/// Two hosts, of which the second listens.
struct Bench {
    world: World,
    caller: Host,
    server: Host,
    transport: Transport,
    listener: Listener,
}

impl Bench {
    fn new(transport: Transport) -> Self {
        Self::over(world(), transport)
    }

    fn over(world: World, transport: Transport) -> Self {
        let (caller, server) = (Host::new(&world), Host::new(&world));
        let address = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let listener = server.nic.listen(address, 4, offer(transport)).unwrap();
        Self { world, caller, server, transport, listener }
    }

    fn run(&self, limit: Duration, done: impl FnMut() -> bool) -> bool {
        self.world.run(&[&self.caller.nic, &self.server.nic], limit, done)
    }

    /// Connects a queue pair of the caller with one of the server.
    fn connect(&self, shared: Option<&Arc<ReceiveQueue>>) -> [Arc<QueuePair>; 2] {
        let ends = [self.caller.queue_pair(None), self.server.queue_pair(shared)];
        let address = self.listener.local_address();
        self.caller.nic.connect(&ends[0], address, None, offer(self.transport), &[]).unwrap();
        let stands = self.run(LIMIT, || {
            if let Ok(Some((request, _))) = self.listener.next_request() {
                self.server.nic.accept(request, &ends[1], &[], None).unwrap();
            }
            ends.iter().all(|end| end.state() == State::Ready)
        });
        assert!(stands, "{:?}: {:?}", self.transport, ends[0].error());
        ends
    }

    /// Lets everything happen that can.
    fn settle(&self) {
        self.run(Duration::from_millis(100), || false);
    }
}

#[test]
fn a_send_waits_for_a_receive_and_the_stream_for_nothing() {
    for transport in CARRIERS {
        let bench = Bench::new(transport);
        let (caller, server) = (&bench.caller, &bench.server);
        let [a, b] = bench.connect(None);
        caller.post(&a, 1, send(b"waits"));
        caller.post(&a, 2, server.write(b"behind"));
        bench.settle();
        assert_eq!((caller.take(), server.take()), (vec![], vec![]), "{transport:?}");
        let mut before = [0; 6];
        server.memory.read(1024, &mut before).unwrap();
        assert_eq!(before, [0; 6], "the order of posting is kept");
        // What the other side wants meanwhile is done.
        caller.memory.write(0, b"answer").unwrap();
        let source = RemoteTarget { stag: caller.memory.stag(), offset: caller.memory.base() };
        server.post(&b, 3, Operation::Read { sink: server.memory.slice(512..518).unwrap().into(), source });
        server.post(&b, 4, caller.write(b"there"));
        bench.settle();
        assert_eq!(server.take(), [(3, Status::Success), (4, Status::Success)], "{transport:?}");
        assert_eq!(caller.take(), []);
        server.nic.post_receive(&b, server.receive(5)).unwrap();
        bench.settle();
        assert_eq!(caller.take(), [(1, Status::Success), (2, Status::Success)], "{transport:?}");
        assert_eq!(server.take(), [(5, Status::Success)]);
        server.memory.read(1024, &mut before).unwrap();
        assert_eq!(&before, b"behind");
    }
}

/// A Send that gets no receive ends the connection after the time that its queue pair waits, and not before.
#[test]
fn a_send_fails_when_its_time_is_over() {
    for transport in CARRIERS {
        let bench = Bench::new(transport);
        let [a, b] = bench.connect(None);
        let wait = Duration::from_millis(500);
        a.set_receive_wait(Some(wait));
        bench.server.nic.post_receive(&b, bench.server.receive(0)).unwrap();
        for id in 1..4 {
            bench.caller.post(&a, id, send(b"x"));
        }
        let began = bench.world.now();
        assert!(bench.run(LIMIT, || a.state() == State::Failed), "{transport:?}");
        let took = bench.world.now().since(began);
        // As long again where a message was taken meanwhile.
        assert!((wait..3 * wait).contains(&took), "{transport:?}: {took:?}");
        let sent = [(1, Status::Success), (2, Status::NoReceive), (3, Status::Flushed)];
        assert_eq!(bench.caller.take(), sent, "{transport:?}");
        assert_eq!(a.error(), Some(ConnectionError::Stream(StreamError::Lost(Closed::NoReceive))));
    }
}

#[test]
fn an_orderly_end_gives_up_what_gets_no_receive() {
    for transport in CARRIERS {
        let bench = Bench::new(transport);
        let [a, _b] = bench.connect(None);
        bench.caller.post(&a, 1, send(b"x"));
        bench.settle();
        bench.caller.nic.close(&a);
        assert!(bench.run(LIMIT, || a.state().has_ended()), "{transport:?}");
        assert_eq!(bench.caller.take(), [(1, Status::NoReceive)]);
    }
}

/// One after the other, with fewer receives than Sends.
#[test]
fn all_sends_complete_with_few_receives() {
    for (transport, receives) in CARRIERS.into_iter().flat_map(|transport| [1, 2, 5].map(|few| (transport, few))) {
        let bench = Bench::new(transport);
        let [a, b] = bench.connect(None);
        for id in 0..receives {
            bench.server.nic.post_receive(&b, bench.server.receive(id)).unwrap();
        }
        for id in 0..60 {
            bench.caller.post(&a, id, send(&[id as u8; 16]));
        }
        let (mut sent, mut received) = (0, 0);
        let done = bench.run(LIMIT, || {
            sent += bench.caller.take().iter().filter(|(_, status)| *status == Status::Success).count();
            for (id, status) in bench.server.take() {
                assert_eq!(status, Status::Success);
                received += 1;
                bench.server.nic.post_receive(&b, bench.server.receive(id)).unwrap();
            }
            sent == 60 && received == 60
        });
        assert!(done, "{transport:?}, {receives} receives: {sent} sent, {received} received");
    }
}

/// Receives of a shared queue are for any connection that sends: connections that say nothing hold none of them back.
#[test]
fn a_shared_queue_serves_those_that_send() {
    for transport in CARRIERS {
        let bench = Bench::new(transport);
        let queue = bench.server.shared_queue();
        let ends: Vec<_> = (0..4).map(|_| bench.connect(Some(&queue))).collect();
        for id in 0..3 {
            bench.server.nic.post_shared_receive(&queue, bench.server.receive(id)).unwrap();
        }
        // Each has sent once, and could send again.
        for [a, _] in &ends[..3] {
            bench.caller.post(a, 0, send(b"one"));
        }
        bench.settle();
        assert_eq!((bench.caller.take().len(), bench.server.take().len(), queue.len()), (3, 3, 0), "{transport:?}");
        // Three for the one that says all, none for the others.
        for id in 0..8 {
            bench.caller.post(&ends[3][0], id, send(b"many"));
        }
        bench.settle();
        for id in 3..11 {
            bench.server.nic.post_shared_receive(&queue, bench.server.receive(id)).unwrap();
        }
        bench.settle();
        assert_eq!(bench.caller.take(), (0..8).map(|id| (id, Status::Success)).collect::<Vec<_>>(), "{transport:?}");
        assert_eq!((bench.server.take().len(), queue.len()), (8, 0));
    }
}

/// More connections want receives than there are: each receive goes to one of them, and all come to an end.
#[test]
fn connections_that_want_more_than_there_is_share_a_queue() {
    for transport in CARRIERS {
        let bench = Bench::new(transport);
        let queue = bench.server.shared_queue();
        let ends: Vec<_> = (0..5).map(|_| bench.connect(Some(&queue))).collect();
        for [a, _] in &ends {
            for id in 0..20 {
                bench.caller.post(a, id, send(b"x"));
            }
        }
        let (mut sent, mut received) = (0, 0);
        let done = bench.run(LIMIT, || {
            let ended = bench.caller.take();
            assert!(ended.iter().all(|(_, status)| *status == Status::Success), "{transport:?}: {ended:?}");
            sent += ended.len();
            received += bench.server.take().len();
            while queue.len() < 3 {
                bench.server.nic.post_shared_receive(&queue, bench.server.receive(0)).unwrap();
            }
            sent == 100
        });
        assert!(done, "{transport:?}: {sent} sent, {received} received");
    }
}

/// What was promised to a peer that has gone is for others.
#[test]
fn promises_to_a_connection_that_ends_are_given_to_others() {
    for transport in CARRIERS {
        let bench = Bench::new(transport);
        let queue = bench.server.shared_queue();
        let [[a, _ended], [other, _b]] = [(); 2].map(|()| bench.connect(Some(&queue)));
        // It wants two, and is gone before it has used any.
        bench.caller.post(&a, 1, send(b"x"));
        bench.caller.post(&a, 2, send(b"x"));
        bench.settle();
        for id in 0..2 {
            bench.server.nic.post_shared_receive(&queue, bench.server.receive(id)).unwrap();
        }
        bench.world.run(&[&bench.server.nic], Duration::from_millis(100), || false);
        bench.caller.nic.destroy_queue_pair(&a);
        bench.settle();
        bench.caller.take();
        for id in 0..2 {
            bench.caller.post(&other, id, send(b"y"));
        }
        bench.settle();
        assert_eq!(bench.caller.take(), [(0, Status::Success), (1, Status::Success)], "{transport:?}");
    }
}

/// A receiver that posts nothing for a long time costs few wake-ups.
#[test]
fn a_peer_that_waits_for_a_receive_wakes_up_seldom() {
    // In a world with shared memory each turn takes time.
    let bench = Bench::over(World::new(3, Behaviour::default()), Transport::Iwarp);
    let [a, b] = bench.connect(None);
    bench.caller.post(&a, 1, send(b"x"));
    let mut times = BTreeSet::new();
    bench.run(Duration::from_secs(2), || {
        times.insert(bench.world.now());
        false
    });
    assert!(times.len() < 200, "{} wake-ups in two seconds", times.len());
    bench.server.nic.post_receive(&b, bench.server.receive(0)).unwrap();
    let posted = bench.world.now();
    assert!(bench.run(LIMIT, || !bench.caller.completions.is_empty()));
    assert!(bench.world.now().since(posted) < Duration::from_millis(30), "{:?}", bench.world.now().since(posted));
}

/// One side alone cannot have it: the connection is as without.
#[test]
fn both_sides_have_to_want_receipts() {
    let bench = Bench::new(Transport::Iwarp);
    let ends = [bench.caller.queue_pair(None), bench.server.queue_pair(None)];
    let plain = PairOptions::default().active;
    bench.caller.nic.connect(&ends[0], bench.listener.local_address(), None, plain, &[]).unwrap();
    let stands = bench.run(LIMIT, || {
        if let Ok(Some((request, _))) = bench.listener.next_request() {
            bench.server.nic.accept(request, &ends[1], &[], None).unwrap();
        }
        ends.iter().all(|end| end.state() == State::Ready)
    });
    assert!(stands);
    assert!(!ends[0].info().unwrap().mpa().unwrap().extensions.receipts);
    bench.caller.post(&ends[0], 1, send(b"x"));
    assert!(bench.run(LIMIT, || ends[0].state() == State::Failed), "RFC 5041 section 7.1");
}
