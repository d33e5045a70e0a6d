//! Once messages of a kind have been exchanged, further ones allocate nothing.
//!
//! Allocations are counted per thread: the test runner's thread allocates too, at any time.

use weft_base::{PeerId, Time};
use weft_message::{
    BufferId, CallId, Failure, Host, Machine, Match, Parts, Receive, Received, RemotePart, Send, Settings, Terms,
    Ticket,
};
use weft_testing::CountingAllocator;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Counts completions. It has no memory.
#[derive(Default)]
struct Counter {
    sent: usize,
    received: usize,
    answered: usize,
    called: Option<CallId>,
}

impl Host for Counter {
    type Send = ();
    type Receive = ();

    fn connect(&mut self, _: PeerId) {}
    fn disconnect(&mut self, _: PeerId) {}
    fn fetch(&mut self, (): &(), _: u64, out: &mut [u8]) {
        out.fill(7);
    }
    fn place(&mut self, (): &mut (), _: u64, bytes: &[u8]) {
        assert!(bytes.iter().all(|byte| *byte == 7));
    }
    fn expose_source(&mut self, _: PeerId, (): &mut ()) -> Result<Parts, Failure> {
        Err(Failure::NoMemory)
    }
    fn conceal_source(&mut self, (): &mut ()) {}
    fn expose_sink(&mut self, _: PeerId, (): &mut (), _: u64, _: u64) -> Result<Parts, Failure> {
        Err(Failure::NoMemory)
    }
    fn conceal_sink(&mut self, (): &mut (), _: u64) {}
    fn read(&mut self, _: PeerId, _: Ticket, (): &mut (), _: u64, _: RemotePart) {}
    fn write(&mut self, _: PeerId, _: Ticket, (): &mut (), _: u64, _: RemotePart) {}
    fn allocate(&mut self, _: PeerId, _: u64) -> Option<(BufferId, RemotePart)> {
        None
    }
    fn unload(&mut self, _: BufferId, (): &mut (), _: u64, _: u64) {}
    fn free(&mut self, _: BufferId) {}
    fn announced(&mut self, (): &mut ()) {}
    fn sent(&mut self, (): (), outcome: Result<(), Failure>) {
        assert_eq!(outcome, Ok(()));
        self.sent += 1;
    }
    fn received(&mut self, (): &mut (), _: Option<Received>, outcome: Result<(), Failure>, _: bool) {
        assert_eq!(outcome, Ok(()));
        self.received += 1;
    }
    fn called(&mut self, _: PeerId, call: CallId, _: &[u8]) {
        self.called = Some(call);
    }
    fn answered(&mut self, _: Ticket, answer: Result<&[u8], Failure>) {
        assert!(answer.is_ok());
        self.answered += 1;
    }
}

struct End {
    machine: Machine<Counter>,
    host: Counter,
}

/// The only peer of either.
const PEER: PeerId = PeerId(0);

fn end() -> End {
    let settings = Settings::default();
    let terms = Terms {
        packet_bytes: settings.packet_bytes,
        data_credits: settings.data_credits,
        control_credits: settings.control_credits,
    };
    let mut end = End { machine: Machine::new(settings, 1), host: Counter::default() };
    end.machine.handle_connected(PEER, terms, Time::ZERO, &mut end.host);
    end
}

fn receive(at: &mut End, tag: u64) {
    let matching = Some(Match { tag, ignore: 0 });
    at.machine.receive(Receive { source: Some(PEER), matching, length: 5000, many: None, user: () }, &mut at.host);
}

/// Messages of many lengths, expected and not, some to be acknowledged; and a call.
fn exchange(from: &mut End, to: &mut End, packet: &mut [u8]) {
    for tag in 0..32 {
        if tag % 2 == 0 {
            receive(to, tag);
        }
        let send = Send { peer: PEER, tag: Some(tag), data: None, length: tag * 100, delivery: tag % 3 == 0, user: () };
        from.machine.send(send, &mut from.host);
    }
    from.machine.call(PEER, Ticket(1), b"question", &mut from.host);
    carry(from, to, packet);
    for tag in (1..32).step_by(2) {
        receive(to, tag);
    }
    let call = to.host.called.take().expect("it was called");
    to.machine.answer(call, b"answer", &mut to.host);
    carry(to, from, packet);
    carry(from, to, packet);
}

fn carry(from: &mut End, to: &mut End, packet: &mut [u8]) {
    while let Some(peer) = from.machine.next_ready() {
        if let Some(length) = from.machine.poll_packet(peer, packet, Time::ZERO, &mut from.host) {
            to.machine.handle_packet(PEER, &packet[..length], Time::ZERO, &mut to.host).expect("no violation");
        }
    }
}

#[test]
fn short_messages_allocate_nothing_once_warm() {
    let (mut a, mut b) = (end(), end());
    let mut packet = vec![0; 1 << 16];
    for _ in 0..10 {
        exchange(&mut a, &mut b, &mut packet);
        exchange(&mut b, &mut a, &mut packet);
    }
    let before = ALLOCATOR.calls();
    for _ in 0..1000 {
        exchange(&mut a, &mut b, &mut packet);
        exchange(&mut b, &mut a, &mut packet);
    }
    assert_eq!(ALLOCATOR.calls(), before);
    for end in [a, b] {
        assert_eq!((end.host.sent, end.host.received, end.host.answered), (1010 * 32, 1010 * 32, 1010));
    }
    // The counter counts.
    drop(core::hint::black_box(Box::new(1)));
    assert!(ALLOCATOR.calls() > before);
}
