//! The memory of a connection: allocated on use, released when idle. Virtual time.
//!
//! Allocations are counted per thread, and each test is one thread.

mod world;

use core::time::Duration;

use weft_base::{Gather, Time};
use weft_edge::{Batch, Connection, Meta, Options, Piece, Segment, Settings, Sink, Source, Verdict};
use weft_testing::CountingAllocator;
use world::{address, established};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The maximum heap memory of a connection before it is used, and after one message: with 48 KiB for the queues above
/// it, 64 KiB for all of a connection.
const MOST_IDLE: i64 = 8 << 10;
const MOST_AFTER_A_MESSAGE: i64 = 16 << 10;

/// Untagged messages of one segment each, all of it inline.
struct Messages {
    left: u32,
    bytes: Vec<u8>,
}

impl Source for Messages {
    fn next(&mut self, budget: u32) -> Option<Segment<'_>> {
        self.left = self.left.checked_sub(1)?;
        let most = (budget as usize - 18).min(self.bytes.len());
        let options = Options::default();
        let (header, bytes) = (&[0x40; 18], &self.bytes[..most]);
        Some(Segment { header, bytes, gather: Gather::empty(), is_steady: true, ack_now: false, options })
    }
}

struct Takes;

impl Sink for Takes {
    fn segment(&mut self, _: u64, _: &[u8], _: u32, _: Options) -> Verdict {
        Verdict::Placed
    }
}

struct Pair {
    now: Time,
    ends: [(Connection, Messages); 2],
    batch: Batch,
    under_way: [Vec<Vec<u8>>; 2],
    spare: Vec<Vec<u8>>,
}

impl Pair {
    fn new(settings: &Settings) -> Self {
        let now = Time::from_nanos(1_000_000_000);
        let end = |side| {
            let messages = Messages { left: 0, bytes: vec![7; 1000] };
            (Connection::new(&established(side, settings), settings, now), messages)
        };
        let spare = (0..4096).map(|_| Vec::with_capacity(1500)).collect();
        let under_way = [Vec::with_capacity(4096), Vec::with_capacity(4096)];
        Self { now, ends: [end(0), end(1)], batch: Batch::new(64, 1 << 18), under_way, spare }
    }

    /// Sends all that may be sent.
    fn transmit(&mut self, side: usize) {
        let (connection, messages) = &mut self.ends[side];
        loop {
            self.batch.clear();
            let more = connection.transmit(messages, self.now, &mut self.batch);
            for datagram in &self.batch.datagrams {
                let mut copy = self.spare.pop().expect("a datagram is left");
                for piece in &self.batch.pieces[datagram.pieces.clone()] {
                    let Piece::Bytes { start, length } = piece else { panic!("nothing is gathered") };
                    copy.extend_from_slice(&self.batch.bytes[*start as usize..][..*length as usize]);
                }
                self.under_way[1 - side].push(copy);
            }
            if !more {
                return;
            }
        }
    }

    /// Delivers all packets in flight to a side.
    fn arrive(&mut self, side: usize) {
        let (connection, _) = &mut self.ends[side];
        let meta = Meta { from: address(1 - side), local: 0, ecn: 2, now: self.now };
        for mut datagram in self.under_way[side].drain(..) {
            connection.receive(&datagram, &meta, &mut Takes);
            datagram.clear();
            self.spare.push(datagram);
        }
        while connection.poll_event().is_some() {}
    }

    /// A round trip of 20 ms.
    fn turn(&mut self) {
        for side in 0..2 {
            self.transmit(side);
        }
        self.now = self.now + Duration::from_millis(10);
        for side in 0..2 {
            self.arrive(side);
            if self.ends[side].0.next_timeout().is_some_and(|at| at <= self.now) {
                self.ends[side].0.handle_timeout(self.now);
            }
        }
    }

    /// Sends this many messages each way, and waits until all are acknowledged.
    fn exchange(&mut self, messages: u32) {
        self.ends.iter_mut().for_each(|(_, source)| source.left = messages);
        for _ in 0..10_000 {
            self.turn();
            let is_done = |(connection, messages): &(Connection, Messages)| {
                messages.left == 0 && connection.acknowledged() == connection.next_position()
            };
            if self.ends.iter().all(is_done) {
                return;
            }
        }
        panic!("it takes too long: {:?}", self.ends[0].0.counters());
    }

    /// For this time only the connections' own packets are sent.
    fn rest(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            let next = self.ends.iter().filter_map(|(connection, _)| connection.next_timeout()).min();
            self.now = next.unwrap_or(until).clamp(self.now, until);
            self.turn();
        }
    }
}

/// As much is sent at once as there are slots for.
fn settings() -> Settings {
    Settings { credit: 16 << 20, initial_window: 4096, batch_time: Duration::from_secs(1), ..Settings::default() }
}

/// Bytes that a new connection allocates.
fn of_a_new_one(settings: &Settings) -> i64 {
    let before = ALLOCATOR.bytes();
    let connection = Connection::new(&established(0, settings), settings, Time::ZERO);
    let bytes = ALLOCATOR.bytes() - before;
    drop(connection);
    bytes
}

#[test]
fn memory_is_made_when_it_is_used_and_goes_back() {
    let settings = settings();
    let new = of_a_new_one(&settings);
    assert!(new <= MOST_IDLE, "a connection that was never used has {new} bytes");
    let mut pair = Pair::new(&settings);
    let others = ALLOCATOR.bytes() - 2 * new;
    let each = || (ALLOCATOR.bytes() - others) / 2;

    pair.exchange(1);
    let used = each();
    assert!(used <= MOST_AFTER_A_MESSAGE, "after one message a connection has {used} bytes");
    pair.exchange(5000);
    let grown = each();
    assert!(grown > 8 * used, "{grown} bytes: not enough was under way to see anything");
    pair.rest(settings.peer_timeout);
    let left = each();
    assert!(left <= MOST_AFTER_A_MESSAGE, "of {grown} bytes an idle connection has kept {left}");
    // It works as before.
    pair.exchange(5000);
    assert!(each() > 8 * used);
}

#[test]
fn once_it_has_grown_nothing_is_allocated() {
    let mut pair = Pair::new(&settings());
    pair.exchange(5000);
    let before = ALLOCATOR.calls();
    for messages in [1, 10, 2000, 1] {
        pair.exchange(messages);
        pair.rest(Duration::from_millis(100));
    }
    assert_eq!(ALLOCATOR.calls(), before);
    // The counter counts.
    drop(core::hint::black_box(Box::new(1)));
    assert!(ALLOCATOR.calls() > before);
}

/// It answers for some time yet, and needs no memory for that.
#[test]
fn a_connection_that_is_over_gives_all_back_at_once() {
    let settings = settings();
    let new = of_a_new_one(&settings);
    let mut pair = Pair::new(&settings);
    let others = ALLOCATOR.bytes() - 2 * new;
    pair.exchange(5000);
    pair.ends[0].0.abort(b"");
    (0..2).for_each(|_| pair.turn());
    assert!(!pair.ends[0].0.is_over());
    let left = (ALLOCATOR.bytes() - others) / 2;
    assert!(left <= MOST_AFTER_A_MESSAGE, "it has kept {left}");
}
