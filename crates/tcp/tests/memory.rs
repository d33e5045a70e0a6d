//! What connections weigh, in bytes that are allocated: next to nothing until there is something in their buffers, and
//! next to nothing again when they are idle. Each thread counts for itself.

use core::time::Duration;

use weft_base::{StreamPosition, Time};
use weft_tcp::{Answer, Connection, Flow, InitialNumbers, Listener, Settings};
use weft_testing::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// What a connection may weigh that has nothing in its buffers: itself, and memory for a few segments.
const IDLE_BYTES: i64 = 8192;

/// Two ends of a connection, and no network between them.
struct Pair {
    ends: [Box<Connection>; 2],
    now: Time,
}

impl Pair {
    /// The second end is taken at a listener.
    fn new(listener: &mut Listener, port: u16, now: Time) -> Self {
        let (caller, called) = (([10, 0, 0, 1], port).into(), ([10, 0, 0, 2], 80).into());
        let flow = Flow { local: caller, remote: called };
        let back = Flow { local: called, remote: caller };
        let mut caller = Box::new(Connection::connect(flow, Settings::default(), u32::from(port), now).unwrap());
        let syn = caller.poll_transmit(now).unwrap().segment;
        let Answer::Reply(answer) = listener.handle(&back, &syn, 0, now) else { panic!("no answer") };
        caller.handle(&answer, &[], &mut no_sink, now);
        let last = caller.poll_transmit(now).unwrap().segment;
        let Answer::Accepted(mut called) = listener.handle(&back, &last, 0, now) else { panic!("no connection") };
        called.handle(&last, &[], &mut no_sink, now);
        Self { ends: [caller, called], now }
    }

    /// Carries what there is to be sent, and lets `read` read at the second end after each segment.
    fn carry(&mut self, mut read: impl FnMut(&mut Connection)) {
        let (mut is_quiet, mut segment) = (false, [0; 2000]);
        while !is_quiet {
            is_quiet = true;
            for from in 0..2 {
                while let Some(outgoing) = self.ends[from].poll_transmit(self.now) {
                    is_quiet = false;
                    let payload = &mut segment[..outgoing.payload_length()];
                    self.ends[from].copy_payload(&outgoing.payload, payload);
                    self.ends[1 - from].handle(&outgoing.segment, payload, &mut no_sink, self.now);
                    read(&mut self.ends[1]);
                }
            }
        }
    }

    /// Bytes go from the first end to the second.
    fn send(&mut self, bytes: &[u8]) {
        let (mut sent, mut buffer) = (0, [0; 5000]);
        while sent < bytes.len() {
            sent += self.ends[0].write(&bytes[sent..]);
            self.carry(|end| while end.read(&mut buffer) > 0 {});
            self.pass(Duration::from_millis(50));
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.ends.iter_mut().for_each(|end| end.handle_timeout(self.now));
    }
}

fn no_sink(_: StreamPosition, _: &[u8]) -> bool {
    panic!("nothing is shown that is buffered")
}

fn listener() -> Listener {
    Listener::new(Settings::default(), InitialNumbers::new(&[7; 32]), 16).unwrap()
}

#[test]
fn a_connection_weighs_little_before_its_first_byte_and_when_it_is_idle() {
    let mut listener = listener();
    let bytes = vec![7; 3_000_000];
    let before = ALLOCATOR.bytes();
    let mut pairs: Vec<_> = (0..100).map(|port| Pair::new(&mut listener, port, Time::ZERO)).collect();
    let young = (ALLOCATOR.bytes() - before) / 200;
    assert!(young < IDLE_BYTES, "{young} bytes for each end that has sent nothing");
    for pair in &mut pairs {
        pair.send(&bytes);
    }
    let busy = (ALLOCATOR.bytes() - before) / 200;
    assert!(busy > IDLE_BYTES, "they keep buffers for a while: {busy} bytes");
    for pair in &mut pairs {
        let latest = pair.ends.iter().filter_map(|end| end.next_timeout()).max();
        assert!(latest.is_some_and(|at| at <= pair.now + Duration::from_secs(1)), "who owns it is told when");
        pair.pass(Duration::from_secs(2));
    }
    let idle = (ALLOCATOR.bytes() - before) / 200;
    assert!(idle < IDLE_BYTES, "{idle} bytes for each end that is idle");
    // And they work as before.
    pairs[0].send(&bytes);
}

#[test]
fn a_thousand_connections_come_and_go_ten_times() {
    let mut listener = listener();
    let bytes = vec![7; 50_000];
    let before = ALLOCATOR.bytes();
    let mut peaks = Vec::new();
    for round in 0..10 {
        ALLOCATOR.forget_most();
        let mut pairs: Vec<_> =
            (0..1000).map(|port| Pair::new(&mut listener, port, Time::from_nanos(round * 100_000_000_000))).collect();
        for pair in &mut pairs {
            pair.send(&bytes);
        }
        drop(pairs);
        peaks.push(ALLOCATOR.most() - before);
    }
    assert!(peaks.iter().all(|peak| *peak < 2 * peaks[0]), "{peaks:?}");
    assert!(peaks[0] < 2000 * 200_000, "what 50 KB take and no more: {peaks:?}");
    let left = ALLOCATOR.bytes() - before;
    assert!(left < 100_000, "{left} bytes are left");
}

#[test]
fn a_busy_connection_allocates_nothing() {
    let mut pair = Pair::new(&mut listener(), 1, Time::ZERO);
    let bytes = vec![7; 4_000_000];
    // The window grows for some time, and what is kept of segments with it.
    (0..4).for_each(|_| pair.send(&bytes));
    let before = ALLOCATOR.calls();
    pair.send(&bytes);
    assert_eq!(ALLOCATOR.calls() - before, 0);
}
