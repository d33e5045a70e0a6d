//! Queue pairs that batch doorbells: short requests wait for each other while others are under way.

use core::time::Duration;

use weft_base::{Edge, Gather, Slice};
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
