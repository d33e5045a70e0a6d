//! Receipts that wait for an answer, and short requests with receipts that pass the queues.

use crate::pair::{Flying, Pair, Rights, Side, config, inline, send, target};
use weft_base::MessageNumber;
use weft_rdmap::{
    Action, Arrival, Operation, Payload, RequestFlags, Role, SendRequest, Status, StreamConfig, Violation,
};
use weft_wire::ddp::{Header, UNTAGGED_LENGTH};
use weft_wire::rdmap::{ASKS_RECEIPT, Control, Opcode};

fn pair() -> Pair {
    let both = |role| StreamConfig { receipts: true, ..config(role) };
    Pair::with(both(Role::Initiator), both(Role::Responder))
}

/// One of which each side has promised receives to the other.
fn willing_pair(receives: u64) -> Pair {
    let mut pair = pair();
    let inbox = pair.area(64, Rights::Local);
    for id in 0..receives {
        pair.a.post_receive(1000 + id, inbox.whole());
        pair.b.post_receive(2000 + id, inbox.whole());
    }
    pair.a.post(100, send(inline(b"first")));
    pair.b.post(200, send(inline(b"first")));
    run(&mut pair);
    assert_eq!((pair.a.sent_ids(), pair.b.sent_ids()), (vec![(100, Status::Success)], vec![(200, Status::Success)]));
    for side in [&mut pair.a, &mut pair.b] {
        side.sent.clear();
        side.received.clear();
    }
    pair
}

fn run(pair: &mut Pair) {
    loop {
        pair.a.stream.grant(&mut pair.a.receives);
        pair.b.stream.grant(&mut pair.b.receives);
        let there = crate::pair::carry(&mut pair.a, &mut pair.b, 500);
        let back = crate::pair::carry(&mut pair.b, &mut pair.a, 500);
        if !there && !back {
            return;
        }
    }
}

fn opcode(flying: &Flying) -> Opcode {
    Control::parse(Header::parse(&flying.bytes).unwrap().control).unwrap().opcode
}

fn asks(flying: &Flying) -> bool {
    flying.bytes[1] & ASKS_RECEIPT != 0
}

/// What goes out now, without that the other side gets it.
fn opcodes(side: &mut Side) -> Vec<Opcode> {
    core::iter::from_fn(|| side.transmit(500)).map(|flying| opcode(&flying)).collect()
}

/// Sends from `a` to `b`, which has a receipt due then.
fn send_one(pair: &mut Pair, id: u64) {
    pair.a.post(id, send(inline(b"question")));
    assert!(crate::pair::carry(&mut pair.a, &mut pair.b, 500));
    assert!(pair.b.stream.may_hold_receipt());
}

#[test]
fn a_receipt_that_waits_goes_out_in_front_of_the_answer() {
    let mut pair = willing_pair(10);
    send_one(&mut pair, 1);
    pair.b.stream.hold_receipt(true);
    assert!(!pair.b.stream.can_transmit() && !pair.b.stream.is_quiet());
    pair.b.post(2, send(inline(b"answer")));
    assert_eq!(opcodes(&mut pair.b), [Opcode::Receipt, Opcode::Send]);
    assert!(!pair.b.stream.may_hold_receipt());
    pair.b.stream.handle_sent(2);
    // It has waited once: the next one is asked about anew.
    send_one(&mut pair, 3);
    assert_eq!(opcodes(&mut pair.b), [Opcode::Receipt]);
}

#[test]
fn a_receipt_that_has_waited_goes_out_alone_or_at_the_end() {
    let mut pair = willing_pair(10);
    send_one(&mut pair, 1);
    pair.b.stream.hold_receipt(true);
    assert_eq!(opcodes(&mut pair.b), []);
    pair.b.stream.hold_receipt(false);
    run(&mut pair);
    assert_eq!(pair.a.sent_ids(), [(1, Status::Success)]);
    assert!(pair.a.stream.is_quiet() && pair.b.stream.is_quiet());
    send_one(&mut pair, 2);
    pair.b.stream.hold_receipt(true);
    pair.b.stream.close();
    run(&mut pair);
    assert_eq!(pair.a.sent_ids(), [(1, Status::Success), (2, Status::Success)]);
    assert_eq!(pair.b.actions, [Action::CloseSend]);
}

/// A peer that waits for a promise may have no more to send than that.
#[test]
fn what_the_peer_waits_for_does_not_wait() {
    let mut pair = willing_pair(1);
    pair.a.post(1, send(inline(b"waits")));
    assert!(crate::pair::carry(&mut pair.a, &mut pair.b, 500), "the demand");
    let inbox = pair.area(64, Rights::Local);
    pair.b.post_receive(9, inbox.whole());
    pair.b.stream.hold_receipt(true);
    pair.b.stream.grant(&mut pair.b.receives);
    assert!(!pair.b.stream.may_hold_receipt());
    assert_eq!(opcodes(&mut pair.b), [Opcode::Receipt]);
    // Nor does a demand of its own.
    let mut pair = willing_pair(1);
    pair.b.stream.hold_receipt(true);
    pair.b.post(2, send(inline(b"waits")));
    assert_eq!(opcodes(&mut pair.b), [Opcode::Receipt]);
}

fn request(id: u64, payload: Payload, signaled: bool) -> SendRequest {
    let operation = send(payload);
    SendRequest { id, operation, signaled, fence: false, flags: RequestFlags::NONE }
}

/// Gives out a short request past the queues, behind the receipt that is due.
fn pass(side: &mut Side, request: &SendRequest, payload: &[u8]) -> Option<Vec<Flying>> {
    assert!(side.stream.can_pass());
    let mut all: Vec<Vec<u8>> = side.stream.receipt_to_pass().map(<[u8]>::to_vec).into_iter().collect();
    let header = side.stream.header_to_pass(request)?;
    all.push([header, payload].concat());
    if all.len() > 1 {
        side.stream.pass_receipt(true);
    }
    side.stream.pass_owed(request, true);
    side.poll();
    let flying = all.into_iter().map(|bytes| {
        side.given += 1;
        Flying { arrival: Arrival { start: side.given - 1, end: side.given }, bytes }
    });
    Some(flying.collect())
}

/// Takes segments: receipts, and Sends whole.
fn take(side: &mut Side, all: &[Flying]) {
    for flying in all {
        let Some(start) = side.stream.find_whole_send(flying.arrival, &flying.bytes) else {
            side.take(flying).unwrap();
            continue;
        };
        let done = side.stream.receive_whole_send(flying.arrival, &flying.bytes, start, &mut side.receives);
        side.received.push(done.expect("it has a receive"));
    }
    side.poll();
}

#[test]
fn questions_and_answers_take_one_turn_each_past_the_queues() {
    let mut pair = willing_pair(40);
    for id in 0..20 {
        let there = pass(&mut pair.a, &request(id, inline(b"question"), true), b"question").unwrap();
        // The first has nothing to acknowledge.
        let expected = if id == 0 { vec![Opcode::Send] } else { vec![Opcode::Receipt, Opcode::Send] };
        assert_eq!(there.iter().map(opcode).collect::<Vec<_>>(), expected);
        assert!(asks(there.last().unwrap()));
        take(&mut pair.b, &there);
        pair.b.stream.hold_receipt(true);
        assert!(!pair.b.stream.can_transmit());
        let back = pass(&mut pair.b, &request(id, inline(b"answer"), true), b"answer").unwrap();
        assert_eq!(back.iter().map(opcode).collect::<Vec<_>>(), [Opcode::Receipt, Opcode::Send]);
        take(&mut pair.a, &back);
        pair.a.stream.hold_receipt(true);
        assert_eq!(pair.a.sent_ids().last(), Some(&(id, Status::Success)));
        assert_eq!((pair.a.sent.len() as u64, pair.b.sent.len() as u64), (id + 1, id), "in place, and not before");
    }
    assert_eq!((pair.a.received.len(), pair.b.received.len()), (20, 20));
    // What was promised and not used is given back.
    pair.b.stream.abort();
    pair.b.poll();
    assert_eq!(pair.b.stream.take_promised(), 40 - 21);
}

#[test]
fn no_request_passes_without_a_receive_of_the_peer() {
    let mut pair = pair();
    assert_eq!(pass(&mut pair.a, &request(1, inline(b"x"), true), b"x").map(|all| all.len()), None);
    let window = pair.area(64, Rights::Write);
    let operation = Operation::Write { payload: inline(b"x"), target: target(window.stag, window.base) };
    let write = SendRequest { operation, ..request(2, inline(b"x"), false) };
    let flying = pass(&mut pair.a, &write, b"x").expect("a Write takes none");
    assert!(!asks(&flying[0]), "no program waits for it");
    pair.b.take(&flying[0]).unwrap();
    assert!(!pair.a.stream.can_pass(), "it is under way until the peer has acknowledged it");
    assert_eq!(pair.a.stream.take_silent(), 0);
    pair.a.stream.close();
    run(&mut pair);
    pair.a.poll();
    assert_eq!((pair.a.stream.take_silent(), pair.a.stream.error()), (1, None));
}

/// Without the question the only place would stay taken.
#[test]
fn a_request_that_takes_half_of_a_short_queue_asks_in_passing() {
    for (send_depth, expected) in [(1, true), (2, true), (3, false), (32, false)] {
        let both = |role| StreamConfig { receipts: true, send_depth, ..config(role) };
        let mut pair = Pair::with(both(Role::Initiator), both(Role::Responder));
        let window = pair.area(64, Rights::Write);
        let operation = Operation::Write { payload: inline(b"x"), target: target(window.stag, window.base) };
        let write = SendRequest { operation, ..request(1, inline(b"x"), false) };
        let flying = pass(&mut pair.a, &write, b"x").unwrap();
        assert_eq!(asks(&flying[0]), expected, "a queue of {send_depth}");
        pair.b.take(&flying[0]).unwrap();
        run(&mut pair);
        assert_eq!(pair.a.stream.take_silent(), usize::from(expected), "a queue of {send_depth}");
    }
}

#[test]
fn a_whole_send_without_a_credit_is_judged_as_all_others_are() {
    let mut pair = pair();
    let inbox = pair.area(64, Rights::Local);
    pair.b.post_receive(1, inbox.whole());
    let mut bytes = vec![0; UNTAGGED_LENGTH];
    let number = MessageNumber::FIRST;
    let target = weft_wire::ddp::Target::Untagged { word: 0, queue: 0, number, offset: 0 };
    Header { last: true, control: Control { opcode: Opcode::Send }.emit(), target }.emit(&mut bytes);
    let flying = Flying { arrival: Arrival { start: 0, end: 1 }, bytes };
    assert_eq!(pair.b.stream.find_whole_send(flying.arrival, &flying.bytes), None);
    let refused = pair.b.take(&flying).expect_err("no receive was promised");
    assert_eq!(refused, crate::pair::Refused::Violation(Violation::NoCredit { number, limit: number }));
}
