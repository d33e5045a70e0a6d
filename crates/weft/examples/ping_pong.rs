//! Both ends of a ping-pong in one thread: how many instructions does a message take?
//!
//! `valgrind --tool=callgrind target/release/examples/ping_pong 10000 shm://127.0.0.1`, or as a plain measurement of
//! latency without a second core. Without an address it goes by iWARP. A third argument, `signaled`: each Send has a
//! completion, which is taken with what comes next.

use std::error::Error;
use std::time::Instant;

use weft::verbs::{
    Access, CompletionKind, CompletionQueue, ConnectOptions, Context, ListenOptions, Offer, PeerAddress, Progress,
    QueuePair, QueuePairOptions, Settings, Transport, WorkRequest,
};

struct End {
    queue_pair: QueuePair,
    completions: CompletionQueue,
}

fn main() -> Result<(), Box<dyn Error>> {
    let rounds: u32 = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    let address: PeerAddress = std::env::args().nth(2).as_deref().unwrap_or("127.0.0.1").parse()?;
    let is_signaled = std::env::args().nth(3).as_deref() == Some("signaled");
    let offer = Offer { transport: address.transport.unwrap_or(Transport::Iwarp), ..Offer::default() };
    let context = Context::with_settings(Settings { progress: Progress::Caller, ..Settings::default() })?;
    let domain = context.allocate_protection_domain()?;
    let end = || -> Result<End, Box<dyn Error>> {
        let completions = context.create_completion_queue(64)?;
        let queue_pair = domain.create_queue_pair(&completions, &QueuePairOptions::default())?;
        Ok(End { queue_pair, completions })
    };
    let (active, passive) = (end()?, end()?);
    let listener = context.listen(address.resolve(0)?, &ListenOptions { offer, ..ListenOptions::default() })?;
    let connect = ConnectOptions { offer, ..ConnectOptions::default() };
    active.queue_pair.start_connect(listener.local_address(), &connect)?;
    listener.accept(None)?.accept(&passive.queue_pair, &[])?;
    active.queue_pair.wait_connected(None)?;
    passive.queue_pair.wait_connected(None)?;
    let memory = domain.allocate(8, Access::LOCAL_WRITE)?;
    let start = Instant::now();
    for _ in 0..rounds {
        for (from, to) in [(&active, &passive), (&passive, &active)] {
            to.queue_pair.post_receive(1, &[memory.slice(..)?])?;
            let send = WorkRequest::send_inline(&[7; 8])?.id(2);
            from.queue_pair.post(if is_signaled { send } else { send.unsignaled() })?;
            while to.completions.poll().is_none_or(|completion| completion.kind != CompletionKind::Receive) {}
        }
    }
    let half = start.elapsed() / (2 * rounds);
    println!("{rounds} round trips, {half:?} for one way");
    Ok(())
}
