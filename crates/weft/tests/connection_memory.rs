//! What a connection of an endpoint costs in memory, once a message has gone each way.
//!
//! One test, alone in its process, for the counter counts for all. It prints what it finds:
//! `cargo test -p weft --test connection_memory -- 64 edge` does so for 64 endpoints that all know each other, over
//! Edge.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use weft::endpoint::{Completed, Endpoint, EndpointAttributes, EventQueue, Match, ReceivePost, SendPost};
use weft::verbs::{Context, Progress, Settings, Transport};

/// Blocks that are allocated now, by the power of two that their size does not pass.
static BLOCKS: [AtomicI64; 64] = [const { AtomicI64::new(0) }; 64];
/// And their bytes.
static BYTES: [AtomicI64; 64] = [const { AtomicI64::new(0) }; 64];

struct Counting;

fn count(size: usize, blocks: i64) {
    let class = size.next_power_of_two().trailing_zeros() as usize;
    BLOCKS[class].fetch_add(blocks, Ordering::Relaxed);
    BYTES[class].fetch_add(blocks * size as i64, Ordering::Relaxed);
}

// SAFETY: Everything is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: As for this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: As for this function.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout.size(), -1);
        count(size, 1);
        // SAFETY: As for this function.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: As for this function.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What the process has at one moment.
struct Usage {
    blocks: Vec<i64>,
    bytes: Vec<i64>,
    resident: i64,
}

impl Usage {
    fn now() -> Self {
        let load = |counts: &[AtomicI64; 64]| counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Self { blocks: load(&BLOCKS), bytes: load(&BYTES), resident: resident() }
    }
}

/// Bytes of the process that are in memory: the second field, in pages (proc_pid_statm(5)).
fn resident() -> i64 {
    let fields = std::fs::read_to_string("/proc/self/statm").unwrap();
    fields.split_whitespace().nth(1).unwrap().parse::<i64>().unwrap() * 4096
}

struct Mesh {
    context: Context,
    ends: Vec<(Endpoint, EventQueue)>,
}

impl Mesh {
    fn new(count: usize, transport: Transport) -> Self {
        let settings = Settings { progress: Progress::Caller, ..Settings::default() };
        let context = Context::with_settings(settings).unwrap();
        let domain = context.allocate_protection_domain().unwrap();
        let mut attributes = EndpointAttributes::at("127.0.0.1:0".parse().unwrap());
        attributes.settings.transport = transport;
        let end = |_| {
            let events = EventQueue::new(&context).unwrap();
            (Endpoint::open(&domain, &attributes, Arc::new(events.clone())).unwrap(), events)
        };
        Self { ends: (0..count).map(end).collect(), context }
    }

    /// Each sends a message to each other one.
    fn talk(&self) {
        let addresses: Vec<_> = self.ends.iter().map(|(endpoint, _)| endpoint.address()).collect();
        for (number, (endpoint, _)) in self.ends.iter().enumerate() {
            for address in addresses[..number].iter().chain(&addresses[number + 1..]) {
                endpoint.receive(ReceivePost::new(vec![0; 8]).matching(Match { tag: 7, ignore: 0 })).unwrap();
                endpoint.send(SendPost::new(endpoint.peer(address).unwrap(), vec![7; 8]).tag(7)).unwrap();
            }
        }
        let others = self.ends.len() - 1;
        let mut left: Vec<(usize, usize)> = vec![(others, others); self.ends.len()];
        let done = self.context.wait_until(Some(Duration::from_secs(300)), || {
            for ((_, events), (sends, receives)) in self.ends.iter().zip(&mut left) {
                while let Some(event) = events.poll() {
                    event.outcome.unwrap();
                    *(if event.completed == Completed::Send { &mut *sends } else { &mut *receives }) -= 1;
                }
            }
            left.iter().all(|left| *left == (0, 0))
        });
        assert!(done, "messages are missing: {left:?}");
    }
}

/// Bytes in memory of one end of a connection, at most: twice what it takes, with the buffers that all of a NIC share.
const fn most(transport: Transport) -> i64 {
    match transport {
        Transport::Edge => 256 << 10,
        // The rings, which both ends see, and each counts.
        Transport::SharedMemory => 768 << 10,
        _ => 96 << 10,
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let count = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(12);
    let transports = match arguments.next().as_deref() {
        None => vec![Transport::Iwarp, Transport::Edge, Transport::SharedMemory],
        Some("edge") => vec![Transport::Edge],
        Some("shm") => vec![Transport::SharedMemory],
        Some(_) => vec![Transport::Iwarp],
    };
    for transport in transports {
        let mesh = Mesh::new(count, transport);
        let before = Usage::now();
        mesh.talk();
        let after = Usage::now();
        report(transport, (count * (count - 1)) as i64, &before, &after);
    }
    println!("test result: ok. 1 passed; 0 failed");
}

fn report(transport: Transport, ends: i64, before: &Usage, after: &Usage) {
    let heap = after.bytes.iter().sum::<i64>() - before.bytes.iter().sum::<i64>();
    let resident = after.resident - before.resident;
    println!(
        "{transport:?}: {ends} ends of connections, each {} B of heap, {} B resident",
        heap / ends,
        resident / ends
    );
    for class in 0..64 {
        let (bytes, blocks) = (after.bytes[class] - before.bytes[class], after.blocks[class] - before.blocks[class]);
        if bytes / ends >= 1024 {
            let (bytes, blocks) = (bytes / ends, blocks as f64 / ends as f64);
            println!("  up to {} B: {bytes} B in {blocks:.1} blocks", 1u64 << class);
        }
    }
    let (each, most) = (resident / ends, most(transport));
    assert!(each <= most, "{transport:?}: an end of a connection takes {each} B of memory, {most} are the most");
}
