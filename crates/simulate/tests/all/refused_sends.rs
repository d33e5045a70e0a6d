//! Sends for which the peer has posted no receive, over Edge in virtual time: the peer's requests, and the end of the
//! connection, do not wait for them. A failure names its case.

use core::time::Duration;

use weft_base::{Edge, Gather, Slice, Stag};
use weft_emulate::Settings;
use weft_memory::{Access, Region};
use weft_nic::{ConnectionError, Rails, WorkCompletion};
use weft_rdmap::{
    AtomicCode, Closed, Operation, Payload, ReceiveRequest, RemoteTarget, RequestFlags, SendRequest, Status,
    StreamError,
};
use weft_simulate::{Behaviour, End, PacketBehaviour, Pair, PairOptions, World};

const LIMIT: Duration = Duration::from_secs(60);
/// [`weft_nic::Settings::close_timeout`], and what its end takes.
const CLOSED: Duration = Duration::from_secs(6);
const BYTES: usize = 400_000;
const MESSAGE: u32 = 3000;

/// The active end sends, and the passive end has posted no receive.
struct Bench {
    pair: Pair<Edge>,
    here: Region,
    there: Region,
}

impl Bench {
    fn new(seed: u64, packets: PacketBehaviour, networks: usize) -> Self {
        let world = World::new(seed, Behaviour::default());
        world.set_packets(packets);
        let mut options = PairOptions { depth: 256, networks, ..PairOptions::default() };
        options.settings.rails = if networks > 1 { Rails::All { flows: 1 } } else { Rails::One };
        options.settings.start_timeout = Duration::from_secs(60);
        let pair = Pair::unconnected(&world, &options);
        assert!(pair.connect(&options), "seed {seed}: {:?}", pair.active.queue_pair.error());
        let register = |end: &End<Edge>| {
            let region = end.nic.registry().register(end.domain, vec![0; BYTES], Access::all(), 0).unwrap();
            region.fill_with(|at| (at % 251) as u8).unwrap();
            region
        };
        let (here, there) = (register(&pair.active), register(&pair.passive));
        Self { pair, here, there }
    }

    fn good() -> Self {
        Self::new(1, PacketBehaviour::default(), 0)
    }

    fn send(&self, length: u32) {
        let payload = Payload::Gather(Gather::from(Slice { region: self.here.id(), offset: 0, length }));
        post(&self.pair.active, Operation::Send { payload, solicited: false, invalidate: None });
    }

    fn receive(&self, length: u32) {
        let end = &self.pair.passive;
        let sink = Gather::from(Slice { region: self.there.id(), offset: 0, length });
        end.nic.post_receive(&end.queue_pair, ReceiveRequest { id: 0, sink }).unwrap();
    }

    /// The passive end reads.
    fn read(&self, offset: u64, length: u32) {
        let sink = Gather::from(Slice { region: self.there.id(), offset, length });
        let source = RemoteTarget { stag: self.here.stag(), offset: self.here.base() + offset };
        post(&self.pair.passive, Operation::Read { sink, source });
    }

    /// The passive end adds 1 to a word.
    fn add(&self, offset: u64) {
        let sink = Slice { region: self.there.id(), offset: 0, length: 8 };
        let target = RemoteTarget { stag: self.here.stag(), offset: self.here.base() + offset };
        let (data, mask, compare, compare_mask) = (1, 0, 0, 0);
        let code = AtomicCode::FetchAdd;
        post(&self.pair.passive, Operation::Atomic { code, data, mask, compare, compare_mask, sink, target });
    }

    /// Lets both work until the passive end has completed this many requests.
    fn complete(&self, count: usize, what: &str) -> Vec<WorkCompletion> {
        let mut done = Vec::new();
        let finished = self.pair.run(LIMIT, || {
            self.pair.passive.take_sends(&mut done);
            done.len() == count
        });
        assert!(finished, "{what}: {} of {count} requests have completed", done.len());
        done
    }

    /// Lets both work until both have ended.
    fn end(&self) -> (Option<ConnectionError>, Option<ConnectionError>) {
        let (active, passive) = (&self.pair.active.queue_pair, &self.pair.passive.queue_pair);
        let ended = self.pair.run(2 * CLOSED, || active.state().has_ended() && passive.state().has_ended());
        assert!(ended, "{:?}, {:?}", active.state(), passive.state());
        (active.error(), passive.error())
    }
}

fn post(end: &End<Edge>, operation: Operation) {
    let request = SendRequest { id: 0, operation, signaled: true, fence: false, flags: RequestFlags::NONE };
    end.nic.post_send(&end.queue_pair, [request]).unwrap();
}

/// Reads and atomics in turns, some of them long, while Sends wait: then these arrive as well.
fn check_answers(seed: u64, sends: usize, packets: PacketBehaviour, networks: usize) {
    let what = format!("seed {seed}, {sends} Sends, {networks} networks, {packets:?}");
    let bench = Bench::new(seed, packets, networks);
    bench.there.fill_with(|_| 0).unwrap();
    (0..sends).for_each(|_| bench.send(MESSAGE));
    // Some of them are refused before anything else is requested.
    bench.pair.run(Duration::from_millis(seed % 3 * 5), || false);
    let mut expected = bench.here.to_vec();
    let word = BYTES as u64 / 8 * 8 - 8;
    let old = u64::from_ne_bytes(expected[word as usize..][..8].try_into().unwrap());
    expected[word as usize..][..8].copy_from_slice(&(old + 4).to_ne_bytes());
    for (offset, length) in [(8, 8), (100, 5000), (8000, 250_000), (300_000, 64)] {
        bench.read(offset, length);
        bench.add(word);
        let done = bench.complete(2, &what);
        assert!(done.iter().all(|done| done.completion.status == Status::Success), "{what}: {done:?}");
        let range = offset as usize..offset as usize + length as usize;
        assert!(bench.there.to_vec()[range.clone()] == expected[range], "{what}: what was read at {offset}");
    }
    assert!(bench.here.to_vec() == expected, "{what}: the word");
    (0..sends).for_each(|_| bench.receive(MESSAGE));
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    let finished = bench.pair.run(LIMIT, || {
        bench.pair.active.take_sends(&mut sent);
        bench.pair.passive.take_receives(&mut received);
        sent.len() == sends && received.len() == sends
    });
    assert!(finished, "{what}: {} Sends and {} receives have completed", sent.len(), received.len());
    assert!(bench.there.to_vec()[..MESSAGE as usize] == expected[..MESSAGE as usize], "{what}: the message");
}

#[test]
fn answers_do_not_wait_for_sends_that_the_peer_cannot_take() {
    for sends in [1, 3, 100] {
        for seed in 0..3 {
            check_answers(seed, sends, PacketBehaviour::default(), 0);
        }
    }
}

#[test]
fn answers_do_not_wait_for_such_sends_under_all_faults_together() {
    for seed in 0..24 {
        let networks = [0, 2, 3][(seed % 3) as usize];
        check_answers(seed, 1 + (seed % 40) as usize, PacketBehaviour::of_seed(seed), networks);
    }
}

/// Its segments, far more than may be in flight, are not all given out, so that they take no room from answers.
#[test]
fn answers_do_not_wait_for_a_send_that_is_longer_than_what_may_be_under_way() {
    let bench = Bench::good();
    let big = bench.pair.active.nic.registry();
    let long = big.register(bench.pair.active.domain, vec![0; 4 << 20], Access::LOCAL_READ, 0).unwrap();
    let payload = Payload::Gather(Gather::from(Slice { region: long.id(), offset: 0, length: 4 << 20 }));
    post(&bench.pair.active, Operation::Send { payload, solicited: false, invalidate: None });
    for round in 0..40 {
        bench.read(0, 1000);
        bench.add(2000);
        bench.complete(2, &format!("round {round}"));
    }
}

/// Sends that leave in one go, and take all places for segments before the first is refused: answers have some of
/// their own.
#[test]
fn answers_have_room_when_sends_take_all_the_rest() {
    const WARM_UP: usize = 200;
    let links = Settings { delay: Duration::from_millis(5), ..PacketBehaviour::default().links };
    let bench = Bench::new(1, PacketBehaviour { links, ..PacketBehaviour::default() }, 0);
    // The window grows while there are receives.
    (0..WARM_UP).for_each(|_| bench.receive(BYTES as u32));
    let (mut sent, mut posted) = (Vec::new(), 0);
    assert!(bench.pair.run(LIMIT, || {
        bench.pair.active.take_sends(&mut sent);
        while posted < WARM_UP.min(sent.len() + 8) {
            bench.send(BYTES as u32);
            posted += 1;
        }
        sent.len() == WARM_UP
    }));
    let before = bench.pair.active.nic.counters().sent_frames;
    (0..100).for_each(|_| bench.send(BYTES as u32));
    // A round trip later the first refusal is back.
    bench.pair.run(Duration::from_millis(9), || false);
    let sent = bench.pair.active.nic.counters().sent_frames - before;
    assert!(sent >= 1000, "only {sent} segments were given out before the first is refused");
    bench.read(0, 1000);
    bench.complete(1, "behind 100 long Sends");
}

/// The peer's Terminate is not kept waiting either.
#[test]
fn a_terminate_does_not_wait_for_such_a_send() {
    let bench = Bench::good();
    bench.send(100);
    bench.pair.run(Duration::from_millis(5), || false);
    let sink = Gather::from(Slice { region: bench.there.id(), offset: 0, length: 8 });
    let source = RemoteTarget { stag: Stag(bench.here.stag().0 ^ 1), offset: 0 };
    post(&bench.pair.passive, Operation::Read { sink, source });
    let begun = bench.pair.world.now();
    let done = bench.complete(1, "a read of nothing");
    assert_eq!(done[0].completion.status, Status::RemoteAccess);
    assert!(bench.pair.world.now().since(begun) < Duration::from_millis(50));
}

#[test]
fn a_close_gives_up_a_send_that_the_peer_does_not_take() {
    let bench = Bench::good();
    bench.send(100);
    bench.pair.run(Duration::from_millis(5), || false);
    let begun = bench.pair.world.now();
    bench.pair.active.nic.close(&bench.pair.active.queue_pair);
    let (active, passive) = bench.end();
    let no_receive = ConnectionError::Stream(StreamError::Lost(Closed::NoReceive)).to_string();
    assert_eq!(active.map(|error| error.to_string()), Some(no_receive));
    assert!(passive.is_some(), "who closes has lost a message");
    assert!(bench.pair.world.now().since(begun) < CLOSED, "{:?}", bench.pair.world.now().since(begun));
    let mut sent = Vec::new();
    bench.pair.active.take_sends(&mut sent);
    assert_eq!(sent.iter().map(|sent| sent.completion.status).collect::<Vec<_>>(), [Status::NoReceive]);
}

/// As `rnr_retry` of libibverbs has it.
#[test]
fn a_queue_pair_that_does_not_wait_for_ever_gives_up_a_send_that_the_peer_does_not_take() {
    let bench = Bench::good();
    bench.pair.active.queue_pair.set_receive_wait(Some(Duration::from_millis(200)));
    // One after another is taken, and each has the whole time.
    (0..5).for_each(|_| bench.send(100));
    for _ in 0..5 {
        bench.pair.run(Duration::from_millis(150), || false);
        bench.receive(100);
    }
    let (mut received, mut sent) = (Vec::new(), Vec::new());
    bench.pair.run(Duration::from_millis(150), || false);
    bench.pair.passive.take_receives(&mut received);
    assert_eq!(received.len(), 5, "{:?}", bench.pair.active.queue_pair.error());
    bench.pair.active.take_sends(&mut sent);
    let begun = bench.pair.world.now();
    (0..2).for_each(|_| bench.send(100));
    let (active, _) = bench.end();
    let no_receive = ConnectionError::Stream(StreamError::Lost(Closed::NoReceive)).to_string();
    assert_eq!(active.map(|error| error.to_string()), Some(no_receive));
    let waited = bench.pair.world.now().since(begun);
    assert!(waited >= Duration::from_millis(200), "{waited:?}");
    let before = sent.len();
    bench.pair.active.take_sends(&mut sent);
    let statuses: Vec<_> = sent[before..].iter().map(|sent| sent.completion.status).collect();
    assert_eq!(statuses, [Status::NoReceive, Status::Flushed]);
}

/// One receive a second is slow, but all of the messages get through.
#[test]
fn a_close_waits_as_long_as_the_peer_takes_one_send_after_another() {
    let bench = Bench::good();
    (0..10).for_each(|_| bench.send(100));
    bench.pair.run(Duration::from_millis(5), || false);
    bench.pair.active.nic.close(&bench.pair.active.queue_pair);
    let mut received = Vec::new();
    for _ in 0..10 {
        bench.pair.run(Duration::from_secs(1), || false);
        bench.receive(100);
    }
    bench.pair.run(Duration::from_secs(1), || false);
    bench.pair.passive.take_receives(&mut received);
    assert_eq!(received.len(), 10, "{:?}", bench.pair.active.queue_pair.error());
    bench.pair.passive.nic.close(&bench.pair.passive.queue_pair);
    let (active, passive) = bench.end();
    assert_eq!((active.map(|error| error.to_string()), passive.map(|error| error.to_string())), (None, None));
}

/// A side that will not receive may close without waiting for what the other has sent.
#[test]
fn who_has_refused_a_send_can_close() {
    let bench = Bench::good();
    bench.send(100);
    bench.pair.run(Duration::from_millis(5), || false);
    let begun = bench.pair.world.now();
    bench.pair.passive.nic.close(&bench.pair.passive.queue_pair);
    let (active, _) = bench.end();
    assert!(active.is_some(), "its message has not arrived");
    assert!(bench.pair.world.now().since(begun) < CLOSED, "{:?}", bench.pair.world.now().since(begun));
}
