//! Both ends of a stream of RDMA writes in one thread: how many instructions does a packet take at each end?
//!
//! `valgrind --tool=callgrind --collect-atstart=no --toggle-collect='bulk::send' target/release/examples/bulk 400 64
//! edge://127.0.0.1` (writes, KiB of each, and what carries them), less what 200 take, are those of the sender;
//! `bulk::receive` are the receiver's. Where the loopback has an MTU of 1500 (`ip link set lo mtu 1500` in a network
//! namespace) the packets are those of Ethernet.

use std::error::Error;
use std::thread;
use std::time::Instant;

use weft::verbs::{
    Access, CompletionQueue, ConnectOptions, Context, ListenOptions, Listener, MemoryRegion, Offer, PeerAddress,
    Progress, QueuePair, QueuePairOptions, RemoteMemory, Settings, Status, Transport, WorkRequest,
};

/// Writes under way.
const WINDOW: u32 = 48;

struct End {
    queue_pair: QueuePair,
    completions: CompletionQueue,
    memory: MemoryRegion,
    context: Context,
}

impl End {
    fn new(size: usize) -> Result<Self, Box<dyn Error>> {
        let context = Context::with_settings(Settings { progress: Progress::Caller, ..Settings::default() })?;
        let domain = context.allocate_protection_domain()?;
        let completions = context.create_completion_queue(2 * WINDOW as usize)?;
        let options = QueuePairOptions { send_depth: WINDOW, ..QueuePairOptions::default() };
        let queue_pair = domain.create_queue_pair(&completions, &options)?;
        let memory = domain.allocate(size, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        Ok(Self { queue_pair, completions, memory, context })
    }
}

/// The writes of one end to the memory of the other.
struct Writes {
    target: RemoteMemory,
    all: u64,
    posted: u64,
    completed: u64,
}

/// Posts as many writes as may be under way, and takes what is complete.
#[inline(never)]
fn send(end: &End, writes: &mut Writes) -> Result<(), Box<dyn Error>> {
    while writes.posted < writes.all.min(writes.completed + u64::from(WINDOW)) {
        end.queue_pair.post(WorkRequest::write(end.memory.slice(..)?, writes.target))?;
        writes.posted += 1;
    }
    while let Some(completion) = end.completions.poll() {
        assert_eq!(completion.status, Status::Success, "a write that goes nowhere else");
        writes.completed += 1;
    }
    Ok(())
}

#[inline(never)]
fn receive(end: &End) {
    end.completions.poll();
}

fn connect(active: &End, passive: &End, listener: &Listener, connect: &ConnectOptions) -> Result<(), Box<dyn Error>> {
    thread::scope(|scope| {
        let accepted = scope.spawn(|| {
            listener.accept(None)?.accept(&passive.queue_pair, &[])?;
            passive.queue_pair.wait_connected(None)
        });
        active.queue_pair.connect(listener.local_address(), connect)?;
        accepted.join().expect("the other end is accepted without a panic")?;
        Ok(())
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |usual: u64| arguments.next().map_or(Ok(usual), |text| text.parse());
    let (all, size) = (number(10_000)?, number(64)? as usize * 1024);
    let address: PeerAddress = arguments.next().as_deref().unwrap_or("edge://127.0.0.1").parse()?;
    let offer = Offer { transport: address.transport.unwrap_or(Transport::Iwarp), ..Offer::default() };
    let (active, passive) = (End::new(size)?, End::new(size)?);
    let options = ListenOptions { offer, ..ListenOptions::default() };
    let listener = passive.context.listen(address.resolve(0)?, &options)?;
    connect(&active, &passive, &listener, &ConnectOptions { offer, ..ConnectOptions::default() })?;
    let mut writes = Writes { target: passive.memory.remote(0), all, posted: 0, completed: 0 };
    let (start, before) = (Instant::now(), active.context.counters());
    while writes.completed < all {
        send(&active, &mut writes)?;
        receive(&passive);
    }
    let (seconds, after) = (start.elapsed().as_secs_f64(), active.context.counters());
    let megabytes = (all * size as u64) as f64 / 1e6;
    let (packets, calls) = (after.sent_frames - before.sent_frames, after.sends - before.sends);
    println!("{megabytes} MB in {seconds:.3} s, {packets} packets in {calls} calls");
    Ok(())
}
