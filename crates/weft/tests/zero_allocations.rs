//! The data path allocates nothing once it is warm.
//!
//! This file is one test, alone in its process and without the threads of a test harness: the counter counts for all.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use common::{End, Kind, Pair};
use weft::verbs::{
    ConnectOptions, Context, ListenOptions, MarkerSpacing, MemoryRegion, Progress, Settings, Status, Transport, Verify,
    WorkCompletion, WorkRequest,
};

struct Counting;

static WATCHED: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

/// Counts an allocation, and says where the first one is.
fn count() {
    if WATCHED.load(Ordering::Relaxed) && ALLOCATIONS.fetch_add(1, Ordering::Relaxed) == 0 {
        // To say so allocates, too.
        WATCHED.store(false, Ordering::Relaxed);
        eprintln!("allocated at\n{}", Backtrace::force_capture());
        WATCHED.store(true, Ordering::Relaxed);
    }
}

// SAFETY: Everything is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: As for this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: As for this function.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: As for this function.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: As for this function.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Inline, copied, gathered, read straight into place, many frames.
const SIZES: [usize; 7] = [0, 8, 500, 4000, 40_000, 65_536, 1_000_000];
const WARM_UP: usize = 5;
const ROUNDS: usize = 20;

fn main() {
    the_data_path_allocates_nothing_once_it_is_warm();
    println!("test result: ok. 1 passed; 0 failed");
}

fn the_data_path_allocates_nothing_once_it_is_warm() {
    let plain = [Progress::Hybrid, Progress::Thread].map(Kind::plain);
    for kind in plain.into_iter().chain(Kind::paths()) {
        for (verify, markers, transport) in [
            (Verify::LargeInPlace, None, Transport::Iwarp),
            (Verify::LargeInPlace, Some(MarkerSpacing::Standard), Transport::Iwarp),
            (Verify::BeforePlace, Some(MarkerSpacing::Standard), Transport::Iwarp),
            (Verify::LargeInPlace, None, Transport::SharedMemory),
        ] {
            let context = Context::with_settings(Settings { verify, ..kind.settings() }).unwrap();
            let mut connect = ConnectOptions::default();
            connect.offer.mpa.markers = markers;
            connect.offer.transport = transport;
            let mut listen = ListenOptions::default();
            listen.offer.mpa.markers = markers;
            listen.offer.transport = transport;
            let work = Work::new(Pair::with(context, kind, &connect, &listen));
            for size in SIZES {
                let mut batch = Vec::with_capacity(64);
                (0..WARM_UP).for_each(|_| work.round(size, &mut batch));
                ALLOCATIONS.store(0, Ordering::Relaxed);
                WATCHED.store(true, Ordering::Relaxed);
                (0..ROUNDS).for_each(|_| work.round(size, &mut batch));
                WATCHED.store(false, Ordering::Relaxed);
                let count = ALLOCATIONS.load(Ordering::Relaxed);
                assert_eq!(count, 0, "{size} bytes, {kind:?}, {verify:?}, markers {markers:?}, {transport:?}");
            }
        }
    }
}

/// What is done again and again.
struct Work {
    pair: Pair,
    from: MemoryRegion,
    to: MemoryRegion,
    word: MemoryRegion,
}

impl Work {
    fn new(pair: Pair) -> Self {
        let (from, to, word) = (pair.filled(1_000_000), pair.empty(1_000_000), pair.empty(8));
        Self { pair, from, to, word }
    }

    fn round(&self, size: usize, batch: &mut Vec<WorkCompletion>) {
        let Pair { active, passive, .. } = &self.pair;
        let [from, to] = [&self.from, &self.to].map(|region| region.slice(..size as u64).unwrap());
        // Messages in both directions, eight at a time.
        for (sender, receiver) in [(active, passive), (passive, active)] {
            for id in 0..8 {
                receiver.queue_pair.post_receive(id, &[to]).unwrap();
            }
            sender.queue_pair.post_list((0..8).map(|id| WorkRequest::send(from).id(id))).unwrap();
            take(sender, 8, batch);
            take(receiver, 8, batch);
        }
        // Writes, with and without completions, of memory and inline; reads and atomics behind them.
        let target = self.to.remote(0);
        let queue_pair = &active.queue_pair;
        queue_pair.post_list((0..8).map(|_| WorkRequest::write(from, target).unsignaled())).unwrap();
        queue_pair.post(WorkRequest::write_inline(b"inline", target).unwrap().id(1)).unwrap();
        queue_pair.post(WorkRequest::read(to, self.from.remote(0)).id(2)).unwrap();
        queue_pair.post(WorkRequest::fetch_add(self.word.slice(..).unwrap(), self.word.remote(0), 1).id(3)).unwrap();
        take(active, 3, batch);
        passive.queue_pair.post_receive(4, &[]).unwrap();
        queue_pair.post(WorkRequest::immediate(7).id(4)).unwrap();
        take(active, 1, batch);
        take(passive, 1, batch);
    }
}

/// Takes this many completions, all of them successes.
fn take(end: &End, count: usize, batch: &mut Vec<WorkCompletion>) {
    let mut taken = 0;
    while taken < count {
        end.completions.poll_into(batch, 64);
        taken += batch.len();
        for completion in batch.drain(..) {
            assert_eq!(completion.status, Status::Success);
        }
    }
}
