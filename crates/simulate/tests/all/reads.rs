//! RDMA Reads over Edge in virtual time: they take no longer than their answers do. Unrequested acknowledgements may
//! take a millisecond.

use core::time::Duration;

use weft_base::{Edge, Gather, Slice};
use weft_emulate::Settings;
use weft_memory::{Access, Region};
use weft_rdmap::{Operation, Payload, RemoteTarget, RequestFlags, SendRequest, Status};
use weft_simulate::{Behaviour, PacketBehaviour, Pair, PairOptions, World};

const LIMIT: Duration = Duration::from_secs(1);
/// Room for everything that may take a while but an unrequested acknowledgement.
const SOON: Duration = Duration::from_micros(700);
/// Too long to pass the queues, and one datagram.
const BYTES: u32 = 500;
const MANY: u16 = 15;

struct Bench {
    pair: Pair<Edge>,
    here: Region,
    there: Region,
}

impl Bench {
    fn new() -> Self {
        let mut options = PairOptions::default();
        (options.active.ord, options.passive.ird) = (MANY, MANY);
        let world = World::new(5, Behaviour::default());
        let links = Settings { delay: Duration::from_micros(5), ..PacketBehaviour::default().links };
        world.set_packets(PacketBehaviour { links, ..PacketBehaviour::default() });
        let pair = Pair::unconnected(&world, &options);
        assert!(pair.connect(&options), "{:?}", pair.active.queue_pair.error());
        let register = |end: &weft_simulate::End<Edge>, access| {
            end.nic.registry().register(end.domain, vec![0; BYTES as usize], access, 0).unwrap()
        };
        let here = register(&pair.active, Access::LOCAL_READ | Access::LOCAL_WRITE);
        let there = register(&pair.passive, Access::REMOTE_READ | Access::REMOTE_WRITE);
        Self { pair, here, there }
    }

    /// Posts requests at a time, which leave in one datagram.
    fn post(&self, requests: impl IntoIterator<Item = SendRequest>) {
        self.pair.active.nic.post_send(&self.pair.active.queue_pair, requests).unwrap();
    }

    fn request(&self, is_read: bool, length: u32) -> SendRequest {
        let local = Gather::from(Slice { region: self.here.id(), offset: 0, length });
        let target = RemoteTarget { stag: self.there.stag(), offset: 0 };
        let operation = if is_read {
            Operation::Read { sink: local, source: target }
        } else {
            Operation::Write { payload: Payload::Gather(local), target }
        };
        SendRequest { id: 0, operation, signaled: is_read, fence: false, flags: RequestFlags::NONE }
    }

    /// How long it takes until this many have completed.
    fn complete(&self, count: usize) -> Duration {
        let (begun, mut completed) = (self.pair.world.now(), Vec::new());
        assert!(self.pair.run(LIMIT, || {
            self.pair.active.take_sends(&mut completed);
            completed.len() == count
        }));
        assert!(completed.iter().all(|completion| completion.status == Status::Success));
        self.pair.world.now().since(begun)
    }
}

#[test]
fn a_read_waits_for_its_answer_alone() {
    let bench = Bench::new();
    for round in 0..400 {
        bench.post([bench.request(true, 8)]);
        let took = bench.complete(1);
        assert!(took < SOON, "round {round}: {took:?}");
    }
}

#[test]
fn a_read_behind_a_write_that_nobody_waits_for_does_not_wait_for_it_long() {
    let bench = Bench::new();
    for round in 0..400 {
        bench.post([bench.request(false, BYTES), bench.request(true, 8)]);
        let took = bench.complete(1);
        assert!(took < SOON, "round {round}: {took:?}");
    }
}

/// Their requests are given out by the hundred before one is acknowledged.
#[test]
fn many_reads_at_a_time_do_not_use_up_what_may_be_under_way() {
    let bench = Bench::new();
    for round in 0..400 {
        bench.post((0..MANY).map(|_| bench.request(true, 8)));
        let took = bench.complete(MANY.into());
        assert!(took < SOON, "round {round}: {took:?}");
    }
}
