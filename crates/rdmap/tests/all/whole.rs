//! Sends that pass the queues by: what they may pass, and what they may be taken for.

use crate::pair::{Flying, Pair, Rights, Side, carry, config, gather, inline, send, target};
use proptest::prelude::*;
use weft_base::{Gather, MessageNumber, Stag};
use weft_rdmap::{
    Action, Arrival, Closed, Operation, ReadyKind, RequestFlags, Role, SendRequest, Status, StreamConfig,
};
use weft_wire::ddp::{Header, Target};
use weft_wire::rdmap::{Control, Opcode, queue};

/// Gives out a Send of one segment past the queues.
fn give(side: &mut Side, payload: &[u8]) -> Flying {
    assert!(side.stream.can_send_whole());
    let bytes = [side.stream.send_whole(), payload].concat();
    side.given += 1;
    Flying { arrival: Arrival { start: side.given - 1, end: side.given }, bytes }
}

/// Takes a segment past the queues, if it can be, and returns its payload.
fn take_whole(side: &mut Side, flying: &Flying) -> Option<Vec<u8>> {
    let start = side.stream.find_whole_send(flying.arrival, &flying.bytes)?;
    side.stream.take_whole_send(flying.arrival);
    side.poll();
    Some(flying.bytes[start..].to_vec())
}

proptest! {
    #[test]
    fn they_are_numbered_with_all_others_on_both_sides(ways in prop::collection::vec(any::<[bool; 2]>(), 1..40)) {
        let mut pair = Pair::new();
        let mut expected = Vec::new();
        for (id, [past_ours, past_theirs]) in (0..).zip(ways) {
            let payload = [id as u8; 5];
            let flying = if past_ours {
                give(&mut pair.a, &payload)
            } else {
                pair.a.post(id, send(inline(&payload)));
                pair.a.transmit(128).unwrap()
            };
            pair.a.stream.handle_sent(1);
            let taken = if past_theirs {
                take_whole(&mut pair.b, &flying).unwrap()
            } else {
                let area = pair.area(8, Rights::Local);
                pair.b.post_receive(id, area.whole());
                pair.b.take(&flying).unwrap();
                expected.push((id, Status::Success));
                area.bytes()[..5].to_vec()
            };
            prop_assert_eq!(taken, payload);
            prop_assert_eq!(pair.b.receives.len(), 0);
        }
        prop_assert_eq!(
            pair.b.received_ids(),
            expected,
            "a receive request for each message that was not taken past them, in order"
        );
    }
}

#[test]
fn nothing_that_was_posted_or_has_begun_is_passed_by() {
    let mut pair = Pair::new();
    let area = pair.area(300, Rights::All);
    pair.a.post(1, send(gather(area.whole())));
    assert!(!pair.a.stream.can_send_whole(), "a request waits");
    assert!(pair.a.transmit(200).is_some());
    assert!(!pair.a.stream.can_send_whole(), "its message has begun");
    assert!(pair.a.transmit(200).is_some());
    assert!(pair.a.stream.can_send_whole(), "it has been given out, sent or not");

    // The answer to a read is a message too.
    let mut pair = Pair::new();
    let area = pair.area(300, Rights::All);
    let place = pair.area(300, Rights::Local);
    let sink = Gather::from(place.whole());
    pair.b.post(2, Operation::Read { sink, source: target(area.stag, area.base) });
    assert!(carry(&mut pair.b, &mut pair.a, 128));
    assert!(pair.a.stream.can_send_whole(), "it has not begun");
    assert!(pair.a.transmit(200).is_some());
    assert!(!pair.a.stream.can_send_whole());
    assert!(pair.a.transmit(200).is_some());
    assert!(pair.a.stream.can_send_whole());
}

#[test]
fn a_stream_that_may_not_send_gives_none_out() {
    let ready = |role, kind| StreamConfig { ready_to_receive: Some(kind), ..config(role) };
    let responder = StreamConfig { responder_waits: true, ..ready(Role::Responder, ReadyKind::Write) };
    let mut pair = Pair::with(ready(Role::Initiator, ReadyKind::Write), responder);
    assert!(!pair.a.stream.can_send_whole(), "it has yet to say that it is ready");
    assert!(!pair.b.stream.can_send_whole(), "the peer has to speak first");
    assert!(carry(&mut pair.a, &mut pair.b, 128));
    assert!(pair.a.stream.can_send_whole() && pair.b.stream.can_send_whole());
    pair.a.stream.close();
    assert!(!pair.a.stream.can_send_whole(), "it is closing");
    pair.b.close_below(Closed::Reset);
    assert!(!pair.b.stream.can_send_whole(), "it is closed");
}

#[test]
fn no_more_are_given_out_than_the_ledger_holds() {
    let mut pair = Pair::with(StreamConfig { send_depth: 200, ..config(Role::Initiator) }, config(Role::Responder));
    let mut given = 0;
    while pair.a.stream.can_send_whole() {
        give(&mut pair.a, b"x");
        pair.a.post(given, send(inline(b"y")));
        given += 1 + u64::from(pair.a.transmit(128).is_some());
        assert!(given < 400, "there is no end of them");
    }
    assert!(!pair.a.stream.can_transmit(), "nor are requests");
    pair.a.stream.handle_sent(given as usize);
    pair.a.poll();
    assert!(pair.a.stream.can_send_whole());
}

/// Gives out a short request that completes later past the queues.
fn pass_owed(side: &mut Side, id: u64) {
    let operation = send(inline(b"owed"));
    let request = SendRequest { id, operation, signaled: true, fence: false, flags: RequestFlags::NONE };
    assert!(side.stream.can_pass() && side.stream.header_to_pass(&request).is_some());
    side.stream.pass_owed(&request, false);
    side.given += 1;
    side.poll();
}

#[test]
fn one_that_is_owed_completes_when_its_segment_has_left_and_in_its_turn() {
    let mut pair = Pair::new();
    pass_owed(&mut pair.a, 9);
    assert!(pair.a.sent_ids().is_empty() && !pair.a.stream.can_pass(), "it is under way");
    pair.a.post(10, send(inline(b"after")));
    let after = pair.a.transmit(128).unwrap();
    let Header { target: Target::Untagged { number, .. }, .. } = Header::parse(&after.bytes).unwrap() else { panic!() };
    assert_eq!(number, MessageNumber::FIRST.next(), "they are numbered together");
    pair.a.stream.handle_sent(1);
    pair.a.poll();
    assert_eq!(pair.a.sent_ids(), [(9, Status::Success)]);
    pair.a.stream.handle_sent(1);
    pair.a.poll();
    assert_eq!(pair.a.sent_ids(), [(9, Status::Success), (10, Status::Success)]);
    assert!(pair.a.stream.can_pass());
}

#[test]
fn one_that_is_owed_is_flushed_when_the_stream_below_ends_before() {
    let mut pair = Pair::new();
    pass_owed(&mut pair.a, 9);
    pair.a.close_below(Closed::Reset);
    pair.a.poll();
    assert_eq!(pair.a.sent_ids(), [(9, Status::Flushed)]);
}

#[test]
fn a_stream_that_closes_waits_until_they_have_left() {
    let mut pair = Pair::new();
    give(&mut pair.a, b"last words");
    pair.a.stream.close();
    pair.a.poll();
    assert!(pair.a.actions.is_empty());
    pair.a.stream.handle_sent(1);
    pair.a.poll();
    assert_eq!(pair.a.actions, [Action::CloseSend]);
}

/// The ULPDU of a message with this header.
fn ulpdu(opcode: Opcode, last: bool, target: Target) -> Vec<u8> {
    let header = Header { last, control: Control { opcode }.emit(), target };
    let mut bytes = vec![0; header.length() + 4];
    header.emit(&mut bytes);
    bytes
}

const fn first(queue: u32, number: u32, offset: u32) -> Target {
    Target::Untagged { word: 0, queue, number: MessageNumber(number), offset }
}

const NEXT: Arrival = Arrival { start: 0, end: 1 };

#[test]
fn only_a_plain_send_whose_turn_has_come_is_found() {
    let pair = Pair::new();
    let find = |bytes: &[u8]| pair.b.stream.find_whole_send(NEXT, bytes);
    let good = ulpdu(Opcode::Send, true, first(queue::SEND, 1, 0));
    assert_eq!(find(&good), Some(18));
    assert_eq!(find(&good[..18]), Some(18), "a message of length zero");
    for (bytes, what) in [
        (good[..17].to_vec(), "cut short"),
        (ulpdu(Opcode::Send, false, first(queue::SEND, 1, 0)), "the first of several segments"),
        (ulpdu(Opcode::Send, true, first(queue::SEND, 1, 4)), "the last of several segments"),
        (ulpdu(Opcode::Send, true, first(queue::SEND, 2, 0)), "a message too early"),
        (ulpdu(Opcode::Send, true, first(queue::SEND, 0, 0)), "a message too late"),
        (ulpdu(Opcode::Send, true, first(queue::READ_REQUEST, 1, 0)), "another queue"),
        (ulpdu(Opcode::SendSolicited, true, first(queue::SEND, 1, 0)), "a solicited event"),
        (ulpdu(Opcode::SendInvalidate, true, first(queue::SEND, 1, 0)), "an STag to be invalidated"),
        (ulpdu(Opcode::Immediate, true, first(queue::SEND, 1, 0)), "immediate data"),
        (ulpdu(Opcode::SendImmediate, true, first(queue::SEND, 1, 0)), "a message with immediate data"),
        (ulpdu(Opcode::Write, true, Target::Tagged { stag: Stag(1), offset: 0 }), "a write"),
        (vec![0; 22], "another version"),
    ] {
        assert_eq!(find(&bytes), None, "{what}");
    }
    assert_eq!(
        pair.b.stream.find_whole_send(Arrival { start: 1, end: 2 }, &good),
        None,
        "something is missing before it"
    );
    assert_eq!(pair.b.stream.find_whole_send(Arrival { start: 0, end: 0 }, &good), None, "no segment at all");
}

#[test]
fn none_is_found_while_a_receive_request_waits_to_be_filled_or_reported() {
    let mut pair = Pair::new();
    let area = pair.area(300, Rights::Local);
    pair.b.post_receive(7, area.whole());
    pair.a.post(1, send(gather(area.whole())));
    let (begin, end) = (pair.a.transmit(200).unwrap(), pair.a.transmit(200).unwrap());
    let next = give(&mut pair.a, b"next");
    pair.b.take(&begin).unwrap();
    assert_eq!(take_whole(&mut pair.b, &next), None, "half a message is there");
    let placement = pair.b.locate(&end).unwrap();
    pair.b.place(&end, &placement);
    pair.b.stream.handle_placed(&placement).unwrap();
    assert_eq!(take_whole(&mut pair.b, &next), None, "its completion was not polled");
    pair.b.poll();
    assert_eq!(take_whole(&mut pair.b, &next).as_deref(), Some(&b"next"[..]));
    assert_eq!(pair.b.received_ids(), [(7, Status::Success)]);
}

/// Has a segment fill the receive request that is next. Returns the request's id.
fn fill(side: &mut Side, flying: &Flying) -> Option<u64> {
    let start = side.stream.find_whole_send(flying.arrival, &flying.bytes)?;
    let completion = side.stream.receive_whole_send(flying.arrival, &flying.bytes, start, &mut side.receives)?;
    assert_eq!((completion.status, completion.length as usize), (Status::Success, flying.bytes.len() - start));
    Some(completion.id)
}

#[test]
fn a_whole_send_fills_the_request_that_is_next() {
    let mut pair = Pair::new();
    let areas = [10, 4000, 0].map(|length| pair.area(length, Rights::Local));
    for (id, area) in (1..).zip(&areas) {
        pair.b.post_receive(id, area.whole());
    }
    // The second is longer than what is copied while the queue is held.
    for (id, length) in [(1, 10), (2, 3000), (3, 0)] {
        let payload = vec![id as u8; length];
        let flying = give(&mut pair.a, &payload);
        assert_eq!(fill(&mut pair.b, &flying), Some(id));
        assert_eq!(areas[id as usize - 1].bytes()[..length], payload);
        assert_eq!(pair.b.receives.len() as u64, 3 - id);
    }
    let flying = give(&mut pair.a, b"one more");
    assert_eq!(fill(&mut pair.b, &flying), None, "there is no request");
}

#[test]
fn a_whole_send_that_is_too_long_for_the_request_takes_the_way_of_all_others() {
    let mut pair = Pair::new();
    let area = pair.area(4, Rights::Local);
    pair.b.post_receive(1, area.whole());
    let flying = give(&mut pair.a, b"12345");
    assert_eq!(fill(&mut pair.b, &flying), None);
    assert!(pair.b.take(&flying).is_err());
    assert_eq!(area.bytes(), [0; 4]);
    assert_eq!(pair.b.received_ids(), [(1, Status::LocalLength)]);
}

#[test]
fn a_stream_that_may_not_speak_before_its_peer_is_not_quiet() {
    let waits = StreamConfig { responder_waits: true, ..config(Role::Responder) };
    let mut pair = Pair::with(config(Role::Initiator), waits);
    assert!(pair.a.stream.is_quiet() && !pair.b.stream.is_quiet());
    let flying = give(&mut pair.a, b"hello");
    assert!(take_whole(&mut pair.b, &flying).is_some());
    assert!(pair.b.stream.is_quiet(), "it has nothing to say");
}

#[test]
fn none_is_found_before_the_ready_send_and_after_the_end() {
    let ready = |role| StreamConfig { ready_to_receive: Some(ReadyKind::Send), ..config(role) };
    let mut pair = Pair::with(ready(Role::Initiator), ready(Role::Responder));
    let readiness = pair.a.transmit(128).unwrap();
    assert_eq!(take_whole(&mut pair.b, &readiness), None, "it is none of the user's");
    pair.b.take(&readiness).unwrap();
    let flying = give(&mut pair.a, b"one");
    assert_eq!(take_whole(&mut pair.b, &flying).as_deref(), Some(&b"one"[..]));
    let flying = give(&mut pair.a, b"two");
    pair.b.close_below(Closed::Reset);
    assert_eq!(take_whole(&mut pair.b, &flying), None);
}
