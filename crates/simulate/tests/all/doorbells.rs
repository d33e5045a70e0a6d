//! Queue pairs that batch doorbells: short requests wait for each other while others are in flight.

use core::time::Duration;

use weft_base::{Edge, Gather, Iwarp, Slice};
use weft_memory::Access;
use weft_rdmap::{Operation, Payload, RemoteTarget, RequestFlags, SendRequest};
use weft_simulate::{Behaviour, Pair, PairOptions, World};

const REQUESTS: usize = 60;

/// Posts writes one by one between two turns of the NICs. Returns the packets that left before the first turn, and
/// those that all took.
fn packets(batches_from: usize) -> (u64, u64) {
    let world = World::new(3, Behaviour::default());
    let options = PairOptions::default();
    let pair = Pair::<Edge>::unconnected(&world, &options);
    assert!(pair.connect(&options), "{:?}", pair.active.queue_pair.error());
    pair.active.queue_pair.batch_doorbells(batches_from);
    let registry = |end: &weft_simulate::End<Edge>, access| {
        end.nic.registry().register(end.domain, vec![7; 8 * REQUESTS], access, 0).unwrap()
    };
    let window = registry(&pair.passive, Access::LOCAL_WRITE | Access::REMOTE_WRITE);
    let source = registry(&pair.active, Access::LOCAL_READ);
    let before = world.packet_statistics().0.sent;
    for number in 0..REQUESTS {
        let offset = 8 * number as u64;
        let payload = Payload::Gather(Gather::from(Slice { region: source.id(), offset, length: 8 }));
        let target = RemoteTarget { stag: window.stag(), offset: window.base() + offset };
        let operation = Operation::Write { payload, target };
        let request = SendRequest { id: offset, operation, signaled: true, fence: false, flags: RequestFlags::NONE };
        pair.active.nic.post_one(&pair.active.queue_pair, &request).unwrap();
    }
    let at_once = world.packet_statistics().0.sent - before;
    let mut completions = Vec::new();
    let is_done = pair.run(Duration::from_secs(1), || {
        pair.active.take_sends(&mut completions);
        completions.len() == REQUESTS
    });
    assert!(is_done, "{} of {REQUESTS} have completed", completions.len());
    (at_once, world.packet_statistics().0.sent - before)
}

#[test]
fn short_requests_wait_for_each_other_while_others_are_under_way() {
    let (at_once, alone) = packets(usize::MAX);
    assert!(at_once >= REQUESTS as u64, "{at_once} packets, where each request goes out at once");
    let (at_once, together) = packets(8);
    // Eight alone, and three batches of sixteen; the last four wait for the turn.
    assert!((11..=14).contains(&at_once), "{at_once} packets of eight requests and three batches");
    assert!(together * 2 < alone, "{together} packets with batches, {alone} without");
}

/// Requests that are not signaled request no receipt, so they are in flight until more is posted, and bring no turn:
/// one that is posted behind them is sent at once. Behind a signaled one it waits.
#[test]
fn what_ends_only_when_more_is_posted_keeps_no_request_waiting() {
    let world = World::new(4, Behaviour::default());
    let mut options = PairOptions { depth: 64, ..PairOptions::default() };
    for offer in [&mut options.active, &mut options.passive] {
        offer.mpa.extensions.receipts = true;
    }
    let pair = Pair::<Iwarp>::unconnected(&world, &options);
    assert!(pair.connect(&options), "{:?}", pair.active.queue_pair.error());
    let queue_pair = &pair.active.queue_pair;
    queue_pair.batch_doorbells(8);
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let window = pair.passive.nic.registry().register(pair.passive.domain, vec![0; 8], access, 0).unwrap();
    let source = pair.active.nic.registry().register(pair.active.domain, vec![7; 8], Access::LOCAL_READ, 0).unwrap();
    let post = |id, signaled| {
        let payload = Payload::Gather(Gather::from(Slice { region: source.id(), offset: 0, length: 8 }));
        let operation =
            Operation::Write { payload, target: RemoteTarget { stag: window.stag(), offset: window.base() } };
        let request = SendRequest { id, operation, signaled, fence: false, flags: RequestFlags::NONE };
        let before = pair.active.nic.counters().sent_wire_bytes;
        pair.active.nic.post_one(queue_pair, &request).unwrap();
        pair.active.nic.counters().sent_wire_bytes > before
    };
    (0..8).for_each(|id| assert!(post(id, false)));
    pair.run(Duration::from_secs(1), || false);
    assert_eq!(queue_pair.sends_under_way(), 8, "no thread has asked what has become of them");
    assert!(post(8, true), "nothing else would bring a turn");
    assert!(!post(9, true), "the one before it does");
    let mut completions = Vec::new();
    let is_done = pair.run(Duration::from_secs(1), || {
        pair.active.take_sends(&mut completions);
        completions.len() == 2
    });
    assert!(is_done && queue_pair.sends_under_way() == 0, "{completions:?}");
}
