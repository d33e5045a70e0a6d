//! Queue pairs that are destroyed while their peer's program is stopped, where messages are acknowledged: what they
//! have received is acknowledged all the same, nothing waits for the peer, and the connection is gone after a time that
//! is given.

use core::time::Duration;

use weft_base::{Gather, IwarpOrEdge};
use weft_memory::{Access, Region};
use weft_nic::{Error, Limits, Offer, QueuePairAttributes, Settings, Transport, WorkCompletion};
use weft_rdmap::{Operation, Payload, RemoteTarget, RequestFlags, SendRequest, Status};
use weft_simulate::{End, Pair};

use crate::answers::{ALL_CARRIERS, LIMIT, Program, connected_with, exchange};

/// [`Settings::close_timeout`], and what the end takes.
const CLOSED: Duration = Duration::from_secs(6);
/// Of a NIC.
const CONNECTIONS: u32 = 4;
const WRITES: u64 = 40;
const BYTES: u32 = 64 << 10;

/// The program of the server has received a message that is not acknowledged yet, and that of the client is stopped.
/// `is_full`: the server writes as well, more than the way to a client that takes nothing holds.
struct Bench {
    pair: Pair<IwarpOrEdge>,
    posted: u64,
    completed: u64,
    what: String,
}

impl Bench {
    fn new(transport: Transport, is_full: bool) -> Self {
        let limits = Limits { connections: CONNECTIONS, ..Limits::default() };
        let settings = Settings { limits, ..Settings::default() };
        let pair = connected_with(transport, settings);
        let (mut client, mut server) = (Program::new(&pair.active), Program::new(&pair.passive));
        exchange(&pair, &mut client, &mut server, 100);
        client.send();
        while !server.take() {
            pair.world.run(&[&pair.active.nic], Duration::from_micros(1), || false);
            pair.passive.nic.progress();
        }
        let (posted, completed) = (client.posted, client.sent);
        assert_eq!(completed, posted - 1, "{transport:?}: the message is acknowledged");
        let bench = Self { posted, completed, what: format!("{transport:?}, full: {is_full}"), pair };
        if is_full {
            bench.fill();
        }
        bench
    }

    fn fill(&self) {
        let (here, there) = (&self.pair.passive, &self.pair.active);
        let [from, to] = [here, there].map(region);
        let payload = || Payload::Gather(Gather::from(from.slice(..).unwrap()));
        let target = RemoteTarget { stag: to.stag(), offset: to.base() };
        for id in 0..WRITES {
            let operation = Operation::Write { payload: payload(), target };
            let request = SendRequest { id, operation, signaled: true, fence: false, flags: RequestFlags::NONE };
            here.nic.post_one(&here.queue_pair, &request).unwrap();
        }
        self.run_alone(Duration::from_millis(50));
        assert!(taken(here).is_empty(), "{}: the client makes no call, and has nothing in place", self.what);
    }

    /// Destroys the server's queue pair. What was posted is flushed, and its memory free, when that returns.
    fn destroy(&self, flushed: u64) {
        let (end, now) = (&self.pair.passive, self.pair.world.now());
        end.nic.destroy_queue_pair(&end.queue_pair);
        assert_eq!(self.pair.world.now(), now, "{}: it waits for something", self.what);
        let taken = taken(end);
        assert!(taken.iter().all(|one| one.completion.status == Status::Flushed), "{}: {taken:?}", self.what);
        assert_eq!(taken.len() as u64, flushed, "{}", self.what);
        assert!(end.queue_pair.state().has_ended(), "{}", self.what);
    }

    /// Time passes, and only the server's NIC runs.
    fn run_alone(&self, time: Duration) {
        self.pair.world.run(&[&self.pair.passive.nic], time, || false);
    }

    /// Whether the server's NIC still has the connection: it has no room for as many more as it may have then.
    fn is_left(&self) -> bool {
        let passive = &self.pair.passive;
        let attributes = QueuePairAttributes {
            domain: passive.domain,
            send_completions: passive.sends.clone(),
            receive_completions: passive.receives.clone(),
            send_depth: 1,
            receive_depth: 1,
            shared_receives: None,
        };
        let others: Vec<_> = (0..CONNECTIONS).map(|_| passive.nic.create_queue_pair(&attributes).unwrap()).collect();
        // Calls by datagrams to a port at which nothing listens stay until their time is up.
        let offer = Offer { transport: Transport::Edge, ..Offer::default() };
        let begun =
            others.iter().map(|other| passive.nic.connect(other, "127.0.0.1:9".parse().unwrap(), None, offer, &[]));
        let begun: Vec<_> = begun.collect();
        others.iter().for_each(|other| passive.nic.destroy_queue_pair(other));
        let last = begun.last().unwrap();
        assert!(begun[..begun.len() - 1].iter().all(Result::is_ok), "{begun:?}");
        assert!(matches!(last, Ok(()) | Err(Error::Limit { name: "connections", .. })), "{last:?}");
        last.is_err()
    }
}

fn region(end: &End<IwarpOrEdge>) -> Region {
    end.nic.registry().register(end.domain, vec![7; BYTES as usize], Access::all(), 0).unwrap()
}

fn taken(end: &End<IwarpOrEdge>) -> Vec<WorkCompletion> {
    let mut taken = Vec::new();
    end.take_sends(&mut taken);
    taken
}

/// Over Edge the connection is aborted at once, for what is acknowledged is never taken back.
#[test]
fn a_peer_that_never_goes_on_is_waited_for_no_longer_than_the_close_time_out() {
    for transport in ALL_CARRIERS {
        for is_full in [false, true] {
            let bench = Bench::new(transport, is_full);
            bench.destroy(if is_full { WRITES } else { 0 });
            bench.run_alone(Settings::default().close_timeout - Duration::from_millis(1));
            let drains = transport != Transport::Edge;
            assert_eq!(bench.is_left(), drains, "{}: before its time", bench.what);
            bench.run_alone(Duration::from_secs(1));
            assert!(!bench.is_left(), "{}: it is still there", bench.what);
            assert!(taken(&bench.pair.passive).is_empty(), "{}: completed twice", bench.what);
        }
    }
}

/// Behind the last bytes of a full way the acknowledgement has no place: then the message fails, as it may where a
/// queue pair is destroyed, though it is in place.
#[test]
fn a_peer_that_goes_on_in_time_has_its_acknowledgement_and_sees_the_end() {
    for transport in ALL_CARRIERS {
        for is_full in [false, true] {
            let bench = Bench::new(transport, is_full);
            bench.destroy(if is_full { WRITES } else { 0 });
            bench.run_alone(Duration::from_secs(2));
            let client = &bench.pair.active;
            let mut all = Vec::new();
            let ended = bench.pair.run(LIMIT, || {
                client.take_sends(&mut all);
                client.queue_pair.state().has_ended()
            });
            client.take_sends(&mut all);
            assert!(ended, "{}: {:?}", bench.what, client.queue_pair.state());
            let [one] = &all[..] else { panic!("{}: {all:?}", bench.what) };
            assert_eq!(bench.completed + 1, bench.posted);
            assert!(is_full || one.completion.status == Status::Success, "{}: {one:?}", bench.what);
            bench.run_alone(CLOSED);
            assert!(!bench.is_left(), "{}: it is still there", bench.what);
        }
    }
}
