//! Receipts: Sends wait at their sender until the peer has a receive for them, and requests complete when they are in
//! place at the peer.

use crate::pair::{Pair, Rights, Side, config, gather, inline, send, target};
use weft_base::{MessageNumber, Random, Stag};
use weft_rdmap::{
    Action, AtomicCode, Closed, Operation, ReadyKind, RequestFlags, Role, SendRequest, State, Status, StreamConfig,
    StreamError, Violation,
};
use weft_wire::ddp::{Header, Target, UNTAGGED_LENGTH};
use weft_wire::rdmap::{ASKS_RECEIPT, Control, Opcode, Receipt, queue};
use weft_wire::terminate::TerminateCode as Code;

fn both(role: Role) -> StreamConfig {
    StreamConfig { receipts: true, ..config(role) }
}

fn pair() -> Pair {
    Pair::with(both(Role::Initiator), both(Role::Responder))
}

fn opcode(bytes: &[u8]) -> Opcode {
    Control::parse(Header::parse(bytes).unwrap().control).unwrap().opcode
}

/// Carries a segment, and has the receiver promise what it can. Returns its opcode.
fn step(from: &mut Side, to: &mut Side) -> Option<Opcode> {
    from.stream.grant(&mut from.receives);
    let flying = from.transmit(500)?;
    let taken = to.take(&flying);
    assert_eq!(taken, Ok(()), "{:?}", opcode(&flying.bytes));
    from.stream.handle_sent(1);
    from.poll();
    Some(opcode(&flying.bytes))
}

/// Carries segments both ways until there are none. Returns the opcodes of those from `a` to `b`.
fn run(pair: &mut Pair) -> Vec<Opcode> {
    let mut opcodes = Vec::new();
    loop {
        let there = step(&mut pair.a, &mut pair.b);
        let back = step(&mut pair.b, &mut pair.a);
        opcodes.extend(there);
        if there.is_none() && back.is_none() {
            return opcodes;
        }
    }
}

fn write(area: &crate::pair::Area, payload: &[u8]) -> Operation {
    Operation::Write { payload: inline(payload), target: target(area.stag, area.base) }
}

#[test]
fn a_send_waits_at_its_sender_for_a_receive() {
    let mut pair = pair();
    let (window, inbox) = (pair.area(64, Rights::Write), pair.area(64, Rights::Local));
    pair.a.post(1, write(&window, b"before"));
    pair.a.post(2, send(inline(b"waits")));
    pair.a.post(3, write(&window, b"behind"));
    assert_eq!(run(&mut pair), [Opcode::Write, Opcode::Receipt], "nothing that waits is in the stream");
    assert_eq!(pair.a.sent_ids(), [(1, Status::Success)]);
    assert_eq!(&window.bytes()[..6], b"before", "the order of posting is kept");
    assert_eq!(pair.a.stream.awaits_credit(), Some(1));
    assert!(pair.b.stream.owes_credit());
    pair.b.post_receive(7, inbox.whole());
    assert_eq!(run(&mut pair), [Opcode::Send, Opcode::Write]);
    assert_eq!(pair.a.sent_ids(), [1, 2, 3].map(|id| (id, Status::Success)));
    assert_eq!(pair.b.received_ids(), [(7, Status::Success)]);
    assert_eq!((&inbox.bytes()[..5], &window.bytes()[..6]), (&b"waits"[..], &b"behind"[..]));
    assert_eq!((pair.a.stream.awaits_credit(), pair.b.stream.owes_credit()), (None, false));
}

/// A peer may post its receive only when it has the answer to its own read.
#[test]
fn what_waits_holds_up_neither_answers_nor_messages_of_the_peer() {
    let mut pair = pair();
    let (memory, sink, inbox) =
        (pair.area(64, Rights::All), pair.area(64, Rights::Local), pair.area(64, Rights::Local));
    memory.fill(3);
    pair.a.post(1, send(inline(b"waits")));
    run(&mut pair);
    pair.b.post(2, Operation::Read { sink: sink.whole().into(), source: target(memory.stag, memory.base) });
    pair.b.post(3, write(&memory, b"written"));
    pair.a.post_receive(4, inbox.whole());
    pair.b.post(5, send(inline(b"sent")));
    run(&mut pair);
    assert_eq!(pair.b.sent_ids(), [2, 3, 5].map(|id| (id, Status::Success)));
    assert_eq!((&sink.bytes()[7..], &memory.bytes()[..7]), (&memory.bytes()[7..], &b"written"[..]));
    assert_eq!(pair.a.received_ids(), [(4, Status::Success)]);
    assert_eq!(pair.a.sent_ids(), []);
}

#[test]
fn immediate_data_wait_with_their_write() {
    let mut pair = pair();
    let window = pair.area(64, Rights::Write);
    let target = target(window.stag, window.base);
    pair.a.post(1, Operation::WriteImmediate { payload: inline(b"both"), target, immediate: 9, solicited: false });
    pair.a.post(2, Operation::Immediate { immediate: 10, solicited: false });
    assert_eq!(run(&mut pair), [Opcode::Receipt]);
    assert_eq!(window.bytes(), vec![0; 64]);
    for id in 0..2 {
        pair.b.post_receive(id, window.slice(0, 0));
    }
    assert_eq!(run(&mut pair), [Opcode::Write, Opcode::Immediate, Opcode::Immediate]);
    assert_eq!(pair.a.sent_ids(), [(1, Status::Success), (2, Status::Success)]);
    assert_eq!(pair.b.received.iter().map(|one| one.immediate).collect::<Vec<_>>(), [Some(9), Some(10)]);
}

#[test]
fn after_the_first_demand_receives_are_promised_as_they_are_posted() {
    let mut pair = pair();
    let inbox = pair.area(64, Rights::Local);
    for id in 0..10 {
        pair.b.post_receive(id, inbox.whole());
    }
    pair.a.post(0, send(inline(b"first")));
    assert_eq!(run(&mut pair), [Opcode::Receipt, Opcode::Send]);
    for id in 1..40 {
        pair.a.post(id, send(inline(b"next")));
        pair.b.post_receive(id + 10, inbox.whole());
        assert_eq!(run(&mut pair), [Opcode::Send], "{id}");
    }
    assert_eq!(pair.b.received.len(), 40);
}

/// The stream below has taken everything; where it goes is another matter.
#[test]
fn a_request_completes_when_it_is_in_place_at_the_peer() {
    let mut pair = pair();
    let window = pair.area(64, Rights::Write);
    pair.a.post(1, write(&window, b"one"));
    let flying = pair.a.transmit(500).unwrap();
    pair.a.stream.handle_sent(1);
    pair.a.poll();
    assert_eq!(pair.a.sent_ids(), []);
    pair.b.take(&flying).unwrap();
    step(&mut pair.b, &mut pair.a);
    assert_eq!(pair.a.sent_ids(), [(1, Status::Success)]);
}

#[test]
fn one_receipt_acknowledges_all_that_is_in_place() {
    let mut pair = pair();
    let window = pair.area(64, Rights::Write);
    for id in 0..10 {
        pair.a.post(id, write(&window, b"word"));
    }
    while let Some(flying) = pair.a.transmit(500) {
        assert!(Header::parse(&flying.bytes).unwrap().control & ASKS_RECEIPT != 0);
        pair.b.take(&flying).unwrap();
        pair.a.stream.handle_sent(1);
    }
    assert_eq!(step(&mut pair.b, &mut pair.a), Some(Opcode::Receipt));
    assert_eq!(step(&mut pair.b, &mut pair.a), None);
    assert_eq!(pair.a.sent.len(), 10);
}

#[test]
fn what_no_program_waits_for_is_acknowledged_when_the_queue_is_half_full_and_at_the_end() {
    let mut pair = pair();
    let window = pair.area(64, Rights::Write);
    let unsignaled = |pair: &mut Pair, id| {
        let request = SendRequest {
            id,
            operation: write(&window, b"x"),
            signaled: false,
            fence: false,
            flags: RequestFlags::NONE,
        };
        pair.a.try_post(request).unwrap();
    };
    for id in 0..15 {
        unsignaled(&mut pair, id);
        run(&mut pair);
        assert_eq!(pair.a.stream.take_silent(), 0);
    }
    unsignaled(&mut pair, 15);
    run(&mut pair);
    assert_eq!(pair.a.stream.take_silent(), 16, "half of 32");
    unsignaled(&mut pair, 16);
    run(&mut pair);
    pair.a.stream.close();
    assert_eq!(run(&mut pair), [Opcode::Receipt]);
    assert_eq!((pair.a.stream.take_silent(), &pair.a.actions[..]), (1, &[Action::CloseSend][..]));
}

/// While more than half of the queue is taken a quarter of it goes out with one question.
#[test]
fn a_full_queue_asks_once_in_a_quarter_of_it() {
    let mut pair = pair();
    let window = pair.area(64, Rights::Write);
    let depth = config(Role::Initiator).send_depth as u64;
    let mut questions = 0;
    for id in 0..10 * depth {
        let operation = write(&window, b"x");
        let request = SendRequest { id, operation, signaled: false, fence: false, flags: RequestFlags::NONE };
        while pair.a.try_post(request).is_err() {
            // The peer answers what it is asked, and never anything else.
            let told = pair.b.transmit(500).expect("the queue is full, and no question was asked");
            let receipt = Receipt::parse(told.bytes[UNTAGGED_LENGTH..].try_into().unwrap());
            assert!(receipt.placed > 0);
            pair.b.stream.handle_sent(1);
            pair.a.take(&told).unwrap();
        }
        let flying = pair.a.transmit(500).unwrap();
        questions += u64::from(flying.bytes[1] & ASKS_RECEIPT != 0);
        pair.a.stream.handle_sent(1);
        pair.b.take(&flying).unwrap();
    }
    assert!((20..=40).contains(&questions), "{questions} questions for {} messages", 10 * depth);
}

/// No receipt is asked for what has no completion of its own, and an answer is none.
#[test]
fn an_answer_acknowledges_what_was_sent_before_its_request() {
    let mut pair = pair();
    let (memory, sink) = (pair.area(64, Rights::All), pair.area(64, Rights::Local));
    let source = target(memory.stag, memory.base);
    let read = Operation::Read { sink: sink.whole().into(), source };
    let atomic = Operation::Atomic {
        code: AtomicCode::FetchAdd,
        data: 1,
        mask: 0,
        compare: 0,
        compare_mask: 0,
        sink: sink.slice(0, 8),
        target: source,
    };
    for (id, answered) in [(1, read), (4, atomic)] {
        let operation = write(&memory, b"unasked!");
        let request = SendRequest { id, operation, signaled: false, fence: false, flags: RequestFlags::NONE };
        pair.a.try_post(request).unwrap();
        pair.a.post(id + 1, answered);
        pair.a.try_post(SendRequest { id: id + 2, ..request }).unwrap();
        run(&mut pair);
    }
    assert_eq!(pair.a.sent_ids(), [(2, Status::Success), (5, Status::Success)]);
    assert_eq!(pair.a.stream.take_silent(), 3, "the last one is behind the answer");
    assert_eq!(&sink.bytes()[..8], b"unasked!");
}

/// A peer that closes has told before what it has in place.
#[test]
fn an_orderly_end_of_the_peer_leaves_nothing_open() {
    let mut pair = pair();
    let window = pair.area(64, Rights::Write);
    let operation = write(&window, b"x");
    let request = SendRequest { id: 1, operation, signaled: false, fence: false, flags: RequestFlags::NONE };
    pair.a.try_post(request).unwrap();
    run(&mut pair);
    pair.b.stream.close();
    run(&mut pair);
    assert_eq!(pair.b.actions, [Action::CloseSend]);
    pair.a.close_below(Closed::Graceful);
    assert_eq!((pair.a.sent_ids(), pair.a.stream.take_silent(), pair.a.stream.error()), (vec![], 1, None));
}

#[test]
fn requests_before_the_one_that_is_blamed_have_succeeded() {
    let mut pair = pair();
    let window = pair.area(64, Rights::Write);
    pair.a.post(1, write(&window, b"good"));
    pair.a.post(2, Operation::Write { payload: inline(b"bad"), target: target(Stag(0x77), 0) });
    pair.a.post(3, write(&window, b"late"));
    for _ in 0..3 {
        let flying = pair.a.transmit(500).unwrap();
        let _ = pair.b.take(&flying);
        pair.a.stream.handle_sent(1);
    }
    assert_eq!(pair.b.stream.state(), State::Terminating);
    assert_eq!(step(&mut pair.b, &mut pair.a), Some(Opcode::Receipt));
    assert_eq!(step(&mut pair.b, &mut pair.a), Some(Opcode::Terminate));
    assert_eq!(pair.a.sent_ids(), [(1, Status::Success), (2, Status::RemoteAccess), (3, Status::Flushed)]);
}

#[test]
fn a_send_that_gets_no_receive_is_the_one_that_fails() {
    let mut pair = pair();
    let inbox = pair.area(64, Rights::Local);
    pair.b.post_receive(0, inbox.whole());
    for id in 1..4 {
        pair.a.post(id, send(inline(b"x")));
    }
    run(&mut pair);
    pair.a.close_below(Closed::NoReceive);
    assert_eq!(pair.a.sent_ids(), [(1, Status::Success), (2, Status::NoReceive), (3, Status::Flushed)]);
}

#[test]
fn promises_that_were_not_used_are_given_back_once() {
    let mut pair = pair();
    let inbox = pair.area(64, Rights::Local);
    for id in 0..5 {
        pair.b.post_receive(id, inbox.whole());
    }
    pair.a.post(1, send(inline(b"x")));
    pair.a.post(2, send(inline(b"x")));
    run(&mut pair);
    pair.b.stream.abort();
    pair.b.poll();
    assert_eq!((pair.b.stream.take_promised(), pair.b.stream.take_promised()), (3, 0));
}

/// The Send that says ready-to-receive takes no receive, and needs no promise; a responder says nothing before it.
#[test]
fn the_message_that_says_ready_needs_no_receive() {
    for kind in [ReadyKind::Send, ReadyKind::Write, ReadyKind::Read] {
        let ready = |role| StreamConfig { ready_to_receive: Some(kind), responder_waits: true, ..both(role) };
        let mut pair = Pair::with(ready(Role::Initiator), ready(Role::Responder));
        let inbox = pair.area(64, Rights::Local);
        pair.b.post(1, send(inline(b"first")));
        assert!(!pair.b.stream.can_transmit());
        pair.a.post(2, send(inline(b"second")));
        pair.a.post_receive(3, inbox.slice(0, 32));
        pair.b.post_receive(4, inbox.slice(32, 32));
        run(&mut pair);
        assert_eq!((pair.a.sent_ids(), pair.b.sent_ids()), (vec![(2, Status::Success)], vec![(1, Status::Success)]));
        assert_eq!((pair.a.received_ids(), pair.b.received_ids().len()), (vec![(3, Status::Success)], 1));
    }
}

/// Whatever both post, and whenever they post receives: everything is done once, in its order, and all is said at the
/// end.
#[test]
fn everything_is_done_once_whatever_is_posted_when() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut pair = pair();
        let (window, inbox) = (pair.area(256, Rights::All), pair.area(1200, Rights::Local));
        let (mut posted, mut receives) = ([0_u64; 2], [0_u64; 2]);
        let mut needed = [0_u64; 2];
        for _ in 0..random.below(200) {
            let at = random.below(2) as usize;
            let (side, other) = if at == 0 { (&mut pair.a, &mut pair.b) } else { (&mut pair.b, &mut pair.a) };
            match random.below(8) {
                0..=2 => {
                    let remote = target(window.stag, window.base);
                    let operation = match random.below(4) {
                        0 => Operation::Write { payload: gather(inbox.slice(0, 200)), target: remote },
                        1 => Operation::Read { sink: inbox.slice(0, 200).into(), source: remote },
                        2 => Operation::WriteImmediate {
                            payload: inline(b"x"),
                            target: remote,
                            immediate: 1,
                            solicited: false,
                        },
                        _ => send(gather(inbox.slice(0, 1200))),
                    };
                    let takes = matches!(operation, Operation::Send { .. } | Operation::WriteImmediate { .. });
                    let fence = random.below(4) == 0;
                    let id = posted[at];
                    let request = SendRequest { id, operation, signaled: true, fence, flags: RequestFlags::NONE };
                    if side.try_post(request).is_ok() {
                        posted[at] += 1;
                        needed[1 - at] += u64::from(takes);
                    }
                }
                3 if receives[at] < needed[at] + 3 && side.receives.len() < 60 => {
                    side.post_receive(receives[at], inbox.whole());
                    receives[at] += 1;
                }
                // What may wait for an answer does, for as long as another die says.
                4 => side.stream.hold_receipt(random.below(2) == 0),
                _ => drop(step(side, other)),
            }
        }
        pair.a.stream.hold_receipt(false);
        pair.b.stream.hold_receipt(false);
        run(&mut pair);
        for at in 0..2 {
            while receives[at] < needed[at] {
                let side = if at == 0 { &mut pair.a } else { &mut pair.b };
                side.post_receive(receives[at], inbox.whole());
                receives[at] += 1;
                run(&mut pair);
            }
        }
        for (at, side) in [&pair.a, &pair.b].into_iter().enumerate() {
            let all: Vec<_> = (0..posted[at]).map(|id| (id, Status::Success)).collect();
            assert_eq!(side.sent_ids(), all, "seed {seed}");
            let all: Vec<_> = (0..needed[at]).map(|id| (id, Status::Success)).collect();
            assert_eq!(side.received_ids(), all, "seed {seed}");
        }
        pair.a.stream.close();
        pair.b.stream.close();
        run(&mut pair);
        pair.a.poll();
        pair.b.poll();
        assert_eq!((&pair.a.actions[..], &pair.b.actions[..]), (&[Action::CloseSend][..], &[Action::CloseSend][..]));
    }
}

// --- hostile peers

fn untagged(opcode: Opcode, queue: u32, number: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; UNTAGGED_LENGTH];
    let target = Target::Untagged { word: 0, queue, number: MessageNumber(number), offset: 0 };
    Header { last: true, control: Control { opcode }.emit(), target }.emit(&mut bytes);
    bytes.extend(payload);
    bytes
}

fn receipt(number: u32, limit: u32, wanted: u32, placed: u64) -> Vec<u8> {
    let receipt = Receipt { asks: false, limit: MessageNumber(limit), wanted: MessageNumber(wanted), placed };
    untagged(Opcode::Receipt, queue::RECEIPT, number, &receipt.emit())
}

struct Victim {
    pair: Pair,
    position: u64,
}

impl Victim {
    fn new() -> Self {
        Self { pair: pair(), position: 0 }
    }

    fn feed(&mut self, bytes: &[u8]) -> Option<Violation> {
        let arrival = weft_rdmap::Arrival { start: self.position, end: self.position + 1 };
        self.position += 1;
        let taken = self.pair.b.take(&crate::pair::Flying { arrival, bytes: bytes.to_vec() });
        taken.err().map(|refused| match refused {
            crate::pair::Refused::Violation(violation) => violation,
            other => panic!("{other:?}"),
        })
    }

    #[track_caller]
    fn refuse(&mut self, bytes: &[u8], code: Code) -> Violation {
        let violation = self.feed(bytes).expect("it was taken");
        assert_eq!(violation.code(), Some(code));
        assert_eq!(self.pair.b.stream.error(), Some(StreamError::Violation(violation)));
        assert!(violation.to_string().len() > 20, "{violation}");
        violation
    }
}

#[test]
fn a_send_without_a_credit_ends_the_stream_though_a_receive_is_posted() {
    let mut victim = Victim::new();
    let inbox = victim.pair.area(64, Rights::Local);
    victim.pair.b.post_receive(1, inbox.whole());
    let violation = victim.refuse(&untagged(Opcode::Send, queue::SEND, 1, b"x"), Code::UntaggedNoBuffer);
    assert_eq!(violation, Violation::NoCredit { number: MessageNumber(1), limit: MessageNumber(1) });
    assert_eq!(inbox.bytes(), vec![0; 64]);
}

#[test]
fn credits_that_are_granted_again_are_the_same_credits() {
    let mut victim = Victim::new();
    for number in 1..100 {
        assert_eq!(victim.feed(&receipt(number, 3, 1, 0)), None);
    }
    for id in 0..3 {
        victim.pair.b.post(id, send(inline(b"x")));
    }
    let sent: Vec<_> = core::iter::from_fn(|| victim.pair.b.transmit(500)).map(|one| opcode(&one.bytes)).collect();
    assert_eq!(sent, [Opcode::Send, Opcode::Send, Opcode::Receipt], "two, and a demand");
}

#[test]
fn credits_that_go_back_or_beyond_half_of_all_numbers_end_the_stream() {
    for limit in [2, 1, 0, 1 << 31 | 1, u32::MAX] {
        let mut victim = Victim::new();
        assert_eq!(victim.feed(&receipt(1, 3, 1, 0)), None);
        let violation = victim.refuse(&receipt(2, limit, 1, 0), Code::OperationUnspecified);
        assert!(matches!(violation, Violation::CreditLimit { .. }), "{violation}");
    }
}

#[test]
fn an_acknowledgement_of_what_was_not_sent_ends_the_stream() {
    let mut victim = Victim::new();
    let window = victim.pair.area(64, Rights::Write);
    victim.pair.b.post(1, write(&window, b"x"));
    victim.pair.b.transmit(500).unwrap();
    victim.pair.b.stream.handle_sent(1);
    assert_eq!(victim.feed(&receipt(1, 1, 1, 1)), None);
    assert_eq!(victim.pair.b.sent_ids(), [(1, Status::Success)]);
    for placed in [0, 2, u64::MAX] {
        let mut again = Victim::new();
        again.pair.b.post(1, write(&window, b"x"));
        again.pair.b.transmit(500).unwrap();
        assert_eq!(again.feed(&receipt(1, 1, 1, 1)), None);
        let violation = again.refuse(&receipt(2, 1, 1, placed), Code::OperationUnspecified);
        assert_eq!(violation, Violation::Acknowledgement { placed, least: 1, most: 1 });
    }
}

/// However many are wanted: no more are promised than are posted.
#[test]
fn a_peer_that_wants_everything_gets_what_is_posted() {
    let mut victim = Victim::new();
    let inbox = victim.pair.area(64, Rights::Local);
    victim.pair.b.post_receive(1, inbox.whole());
    assert_eq!(victim.feed(&receipt(1, 1, (1 << 31) - 1, 0)), None);
    let side = &mut victim.pair.b;
    side.stream.grant(&mut side.receives);
    let told = side.transmit(500).unwrap();
    let told = Receipt::parse(told.bytes[UNTAGGED_LENGTH..].try_into().unwrap());
    assert_eq!(told.limit, MessageNumber(2));
    assert!(side.transmit(500).is_none());
    let violation = victim.refuse(&receipt(2, 1, 0, 0), Code::OperationUnspecified);
    assert!(matches!(violation, Violation::CreditDemand { .. }), "{violation}");
}

#[test]
fn receipts_are_numbered_and_whole_and_agreed() {
    let mut victim = Victim::new();
    let violation = victim.refuse(&receipt(2, 1, 1, 0), Code::UntaggedNumberRange);
    assert!(matches!(violation, Violation::Number { queue: queue::RECEIPT, .. }));
    let mut victim = Victim::new();
    victim.refuse(&receipt(1, 1, 1, 0)[..UNTAGGED_LENGTH + 19], Code::OperationUnspecified);
    let mut victim = Victim { pair: Pair::new(), position: 0 };
    let violation = victim.refuse(&receipt(1, 1, 1, 0), Code::OperationOpcode);
    assert_eq!(violation, Violation::UnknownOpcode(12), "as without us");
}
