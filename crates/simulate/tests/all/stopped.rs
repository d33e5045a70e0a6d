//! A peer whose program does nothing for longer than one minute, and then continues; and one that never does. Over
//! Edge, where nothing answers for a program that is stopped, as the kernel does for TCP.

use core::time::Duration;

use weft_base::{Edge, Gather, Slice};
use weft_memory::{Access, Region};
use weft_nic::{ConnectionError, State};
use weft_rdmap::{
    Closed, Operation, Payload, ReceiveRequest, RemoteTarget, RequestFlags, SendRequest, Status, StreamError,
};
use weft_simulate::{Behaviour, End, Pair, PairOptions, World};

const BYTES: u32 = 100_000;
const STOPPED: Duration = Duration::from_secs(75);

fn region(end: &End<Edge>, byte: u8) -> Region {
    end.nic.registry().register(end.domain, vec![byte; BYTES as usize], Access::all(), 0).unwrap()
}

fn whole(region: &Region) -> Gather {
    Gather::from(Slice { region: region.id(), offset: 0, length: BYTES })
}

/// A send, a write and a read of this side, and a receive of each; returns the memory of them.
fn ask_for_everything(pair: &Pair<Edge>) -> [Region; 4] {
    let (active, passive) = (&pair.active, &pair.passive);
    let (mine, theirs) = (region(active, 1), region(passive, 2));
    let (inbox, answer) = (region(passive, 0), region(active, 0));
    passive.nic.post_receive(&passive.queue_pair, ReceiveRequest { id: 9, sink: whole(&inbox) }).unwrap();
    let payload = || Payload::Gather(whole(&mine));
    let target = RemoteTarget { stag: theirs.stag(), offset: 0 };
    let operations = [
        Operation::Read { sink: whole(&answer), source: target },
        Operation::Send { payload: payload(), solicited: false, invalidate: None },
        Operation::Write { payload: payload(), target },
    ];
    for (id, operation) in operations.into_iter().enumerate() {
        let request = SendRequest { id: id as u64, operation, signaled: true, fence: false, flags: RequestFlags::NONE };
        active.nic.post_send(&active.queue_pair, [request]).unwrap();
    }
    [mine, theirs, inbox, answer]
}

fn read(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; BYTES as usize];
    region.read(0, &mut bytes).unwrap();
    bytes
}

fn connected() -> Pair<Edge> {
    let options = PairOptions::default();
    let pair = Pair::<Edge>::unconnected(&World::new(75, Behaviour::default()), &options);
    assert!(pair.connect(&options));
    // The last packets of set-up.
    pair.run(Duration::from_millis(10), || false);
    pair
}

/// Time passes, and only the active side runs.
fn stop(pair: &Pair<Edge>, time: Duration) {
    pair.world.run(&[&pair.active.nic], time, || false);
}

#[test]
fn a_peer_that_is_stopped_for_75_s_goes_on() {
    for is_idle in [false, true] {
        let pair = connected();
        // With requests of every kind in flight when it stops, or none until it runs again.
        let before = (!is_idle).then(|| ask_for_everything(&pair));
        stop(&pair, STOPPED);
        let mut done = Vec::new();
        pair.active.take_sends(&mut done);
        assert!(done.is_empty(), "nobody was there to say so: {done:?}");
        let [_, theirs, inbox, answer] = before.unwrap_or_else(|| ask_for_everything(&pair));
        pair.run(Duration::from_secs(30), || {
            pair.active.take_sends(&mut done);
            done.len() == 3
        });
        assert!(done.iter().all(|completion| completion.status == Status::Success), "idle: {is_idle}, {done:?}");
        assert_eq!(done.len(), 3, "idle: {is_idle}");
        assert_eq!([read(&theirs), read(&inbox), read(&answer)].map(|bytes| bytes[0]), [1, 1, 2]);
        assert_eq!([&pair.active, &pair.passive].map(|end| end.queue_pair.state()), [State::Ready; 2]);
    }
}

/// Twice the peer time-out, which a host is given, and each request ends once.
#[test]
fn a_peer_that_never_goes_on_is_gone_after_the_time_that_is_given() {
    let pair = connected();
    let memory = ask_for_everything(&pair);
    for id in 20..24 {
        pair.active.nic.post_receive(&pair.active.queue_pair, ReceiveRequest { id, sink: whole(&memory[0]) }).unwrap();
    }
    stop(&pair, Duration::from_secs(119));
    assert_eq!(pair.active.queue_pair.state(), State::Ready);
    stop(&pair, Duration::from_secs(4));
    assert_eq!(pair.active.queue_pair.state(), State::Failed);
    let lost = ConnectionError::Stream(StreamError::Lost(Closed::TimedOut));
    assert_eq!(pair.active.queue_pair.error(), Some(lost));
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    pair.active.take_sends(&mut sends);
    pair.active.take_receives(&mut receives);
    assert!(sends.iter().chain(&receives).all(|completion| completion.status == Status::Flushed), "{sends:?}");
    let mut ids: Vec<u64> = sends.iter().chain(&receives).map(|completion| completion.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2, 20, 21, 22, 23]);
}
