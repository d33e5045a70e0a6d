//! The memory of connections that come and go is used again: it does not grow with each that comes.
//!
//! One test, alone in its process, for it measures all the memory that the process has.

mod common;

use common::{End, PATIENCE};
use weft::verbs::{
    ConnectOptions, Context, ListenOptions, Progress, QueuePairOptions, Settings, Transport, WorkRequest,
};

/// Rounds of connections, and connections in each: enough that a few hundred KiB kept of each show beside all that a
/// process has in memory otherwise.
const ROUNDS: usize = 16;
const CONNECTIONS: usize = 64;
/// Connections of Edge that are over answer for three seconds yet: all of the rounds may, both ends, with 16 KiB each.
const LINGERING: i64 = (2 * ROUNDS * CONNECTIONS * (16 << 10)) as i64;

fn main() {
    // Edge first, before anything else has left memory to be used again.
    for transport in [Transport::Edge, Transport::Iwarp, Transport::SharedMemory] {
        let rounds = come_and_go(transport);
        let kilobytes: Vec<_> = rounds.iter().map(|bytes| bytes >> 10).collect();
        println!("{transport:?}: resident after each round of connections, in KiB: {kilobytes:?}");
        let most = 2 * rounds[0] + LINGERING;
        assert!(rounds[ROUNDS - 1] <= most, "{transport:?}: the memory of connections does not go back");
    }
    println!("test result: ok. 1 passed; 0 failed");
}

/// Connections come, a message goes over each, and they go. Returns what is in memory after each round.
fn come_and_go(transport: Transport) -> Vec<i64> {
    let context = Context::with_settings(Settings { progress: Progress::Caller, ..Settings::default() }).unwrap();
    let (mut connect, mut listen) = (ConnectOptions::default(), ListenOptions::default());
    (connect.offer.transport, listen.offer.transport) = (transport, transport);
    let listener = context.listen("127.0.0.1:0".parse().unwrap(), &listen).unwrap();
    let domain = context.allocate_protection_domain().unwrap();
    let end = || {
        let completions = context.create_completion_queue(16).unwrap();
        let queue_pair = domain.create_queue_pair(&completions, &QueuePairOptions::default()).unwrap();
        End { queue_pair, completions }
    };
    let pair = |_| {
        let (active, passive) = (end(), end());
        passive.queue_pair.post_receive(1, &[]).unwrap();
        active.queue_pair.start_connect(listener.local_address(), &connect).unwrap();
        listener.accept(PATIENCE).unwrap().accept(&passive.queue_pair, &[]).unwrap();
        active.queue_pair.wait_connected(PATIENCE).unwrap();
        active.queue_pair.post(WorkRequest::immediate(7).id(2)).unwrap();
        active.done(2);
        (active, passive)
    };
    let round = |_| {
        let pairs: Vec<_> = (0..CONNECTIONS).map(pair).collect();
        let ends = || pairs.iter().flat_map(|(active, passive)| [&active.queue_pair, &passive.queue_pair]);
        ends().for_each(|end| end.start_disconnect());
        assert!(context.wait_until(PATIENCE, || ends().all(|end| end.state().has_ended())));
        drop(pairs);
        resident()
    };
    (0..ROUNDS).map(round).collect()
}

/// Bytes of the process that are in memory: the second field, in pages (proc_pid_statm(5)).
fn resident() -> i64 {
    let fields = std::fs::read_to_string("/proc/self/statm").unwrap();
    fields.split_whitespace().nth(1).unwrap().parse::<i64>().unwrap() * 4096
}
