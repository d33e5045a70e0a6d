//! Segments of good form that their queue, number, offset or message does not allow.

use super::*;

#[test]
fn extensions_that_were_not_agreed_are_operation_opcode() {
    let immediates =
        [Opcode::Immediate, Opcode::ImmediateSolicited, Opcode::SendImmediate, Opcode::SendSolicitedImmediate];
    for opcode in immediates.into_iter().chain([Opcode::AtomicRequest, Opcode::AtomicResponse]) {
        let mut victim = Victim::with(StreamConfig { extensions: false, ..config(Role::Responder) });
        let bytes = untagged(opcode, opcode.queue().unwrap(), 1, 0, &[0; 8]);
        assert_eq!(victim.refuse(&bytes, Code::OperationOpcode), Violation::NotAgreed(opcode));
    }
}

#[test]
fn tagged_send_is_operation_opcode() {
    Victim::new().refuse(&tagged(Opcode::Send, Stag(1), 0, b"x"), Code::OperationOpcode);
}

#[test]
fn untagged_write_is_operation_opcode() {
    Victim::new().refuse(&untagged(Opcode::Write, queue::SEND, 1, 0, b"x"), Code::OperationOpcode);
}

#[test]
fn queue_out_of_range_is_untagged_queue() {
    for queue in [4, u32::MAX] {
        Victim::new().refuse(&untagged(Opcode::Send, queue, 1, 0, b"x"), Code::UntaggedQueue);
    }
}

#[test]
fn queue_of_another_opcode_is_untagged_queue() {
    for (opcode, queue) in [
        (Opcode::Send, queue::READ_REQUEST),
        (Opcode::ReadRequest, queue::SEND),
        (Opcode::AtomicResponse, queue::TERMINATE),
        (Opcode::Terminate, queue::SEND),
    ] {
        Victim::new().refuse(&untagged(opcode, queue, 1, 0, &[0; 28]), Code::UntaggedQueue);
    }
}

#[test]
fn send_number_out_of_turn_is_untagged_number_range() {
    for number in [0, 2, 33, 0x8000_0001, u32::MAX] {
        let mut victim = Victim::new();
        let area = victim.area(64, Rights::Local);
        victim.side.post_receive(1, area.whole());
        victim.refuse(&untagged(Opcode::Send, queue::SEND, number, 0, b"x"), Code::UntaggedNumberRange);
        assert_eq!(victim.side.received_ids(), []);
        victim.side.close_below(Closed::Graceful);
        assert_eq!(victim.side.received_ids(), [(1, Status::Flushed)]);
    }
}

#[test]
fn read_number_out_of_turn_is_untagged_number_range() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::Read);
    victim.refuse(&read(2, area.stag, area.base, 8), Code::UntaggedNumberRange);
}

#[test]
fn atomic_response_number_out_of_turn_is_untagged_number_range() {
    let mut victim = Victim::new();
    let sink = victim.area(8, Rights::Local);
    victim.side.post(5, fetch_add(&sink));
    victim.side.transmit(1500).unwrap();
    victim.side.stream.handle_sent(1);
    let response = AtomicResponse { identifier: 0, original: 1 }.emit();
    victim
        .refuse(&untagged(Opcode::AtomicResponse, queue::ATOMIC_RESPONSE, 2, 0, &response), Code::UntaggedNumberRange);
    assert_eq!(victim.side.sent_ids(), [(5, Status::Flushed)]);
}

#[test]
fn second_terminate_number_is_untagged_number_range() {
    Victim::new().refuse(&untagged(Opcode::Terminate, queue::TERMINATE, 2, 0, &[0; 4]), Code::UntaggedNumberRange);
}

#[test]
fn offset_gap_in_send_is_untagged_offset() {
    for offset in [0, 3, 5, u32::MAX] {
        let mut victim = Victim::new();
        let area = victim.area(64, Rights::Local);
        victim.side.post_receive(1, area.whole());
        victim.accept(&part(Opcode::Send, queue::SEND, 1, 0, b"abcd"));
        victim.refuse(&untagged(Opcode::Send, queue::SEND, 1, offset, b"efgh"), Code::UntaggedOffset);
        assert_eq!(area.bytes()[4..], [0; 60]);
        assert_eq!(victim.side.received_ids(), [(1, Status::Flushed)]);
    }
}

#[test]
fn offset_of_read_request_is_untagged_offset() {
    let bytes = untagged(Opcode::ReadRequest, queue::READ_REQUEST, 1, 4, &[0; 28]);
    Victim::new().refuse(&bytes, Code::UntaggedOffset);
}

#[test]
fn opcode_changed_within_message_is_operation_opcode() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::Local);
    victim.side.post_receive(1, area.whole());
    victim.accept(&part(Opcode::Send, queue::SEND, 1, 0, b"abcd"));
    victim.refuse(&untagged(Opcode::SendSolicited, queue::SEND, 1, 4, b"efgh"), Code::OperationOpcode);
}

#[test]
fn no_receive_is_untagged_no_buffer() {
    for payload in [&b""[..], b"x"] {
        Victim::new().refuse(&untagged(Opcode::Send, queue::SEND, 1, 0, payload), Code::UntaggedNoBuffer);
    }
    Victim::new().refuse(&untagged(Opcode::Immediate, queue::SEND, 1, 0, &[0; 8]), Code::UntaggedNoBuffer);
}

#[test]
fn send_longer_than_receive_is_untagged_too_long() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::Local);
    victim.side.post_receive(1, area.slice(0, 5));
    victim.side.post_receive(2, area.slice(32, 5));
    victim.accept(&part(Opcode::Send, queue::SEND, 1, 0, b"abcd"));
    victim.refuse(&untagged(Opcode::Send, queue::SEND, 1, 4, b"ef"), Code::UntaggedTooLong);
    assert_eq!(area.bytes()[4..], [0; 60], "nothing of the segment was placed");
    victim.side.close_below(Closed::Graceful);
    assert_eq!(victim.side.received_ids(), [(1, Status::LocalLength), (2, Status::Flushed)]);
}

#[test]
fn one_request_more_than_ird_is_untagged_no_buffer() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::Read);
    for number in 1..=4 {
        victim.accept(&read(number, area.stag, area.base, 8));
    }
    victim.refuse(&read(5, area.stag, area.base, 8), Code::UntaggedNoBuffer);
}

#[test]
fn unrequested_response_is_tagged_invalid_stag() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::All);
    victim.refuse(&tagged(Opcode::ReadResponse, area.stag, area.base, b"x"), Code::TaggedInvalidStag);
    assert_eq!(area.bytes(), [0; 64]);
    Victim::new().refuse(&tagged(Opcode::ReadResponse, Stag(0), 0, b""), Code::TaggedInvalidStag);
}

#[test]
fn response_to_wrong_stag_is_tagged_invalid_stag() {
    let (mut victim, sink, stag) = reader();
    victim.refuse(&tagged(Opcode::ReadResponse, Stag(stag.0 ^ 1), 0, &[7; 8]), Code::TaggedInvalidStag);
    assert_eq!(sink.bytes(), [0; 64]);
    assert_eq!(victim.side.sent_ids(), [(3, Status::Flushed)]);
}

#[test]
fn write_to_the_sink_of_a_read_is_tagged_invalid_stag() {
    let (mut victim, sink, stag) = reader();
    victim.refuse(&tagged(Opcode::Write, stag, 0, &[7; 8]), Code::TaggedInvalidStag);
    assert_eq!(sink.bytes(), [0; 64]);
}

#[test]
fn response_out_of_place_is_tagged_bounds() {
    for offset in [1, 8, u64::MAX] {
        let (mut victim, sink, stag) = reader();
        victim.refuse(&tagged(Opcode::ReadResponse, stag, offset, &[7; 4]), Code::TaggedBounds);
        assert_eq!(sink.bytes(), [0; 64]);
    }
}

#[test]
fn response_longer_than_asked_is_tagged_bounds() {
    let (mut victim, sink, stag) = reader();
    victim.refuse(&tagged(Opcode::ReadResponse, stag, 0, &[7; 9]), Code::TaggedBounds);
    assert_eq!(sink.bytes(), [0; 64]);
}

#[test]
fn response_shorter_than_asked_is_operation_unspecified() {
    for payload in [&[7; 7][..], &[]] {
        let (mut victim, sink, stag) = reader();
        victim.refuse(&tagged(Opcode::ReadResponse, stag, 0, payload), Code::OperationUnspecified);
        assert_eq!(sink.bytes(), [0; 64]);
        assert_eq!(victim.side.sent_ids(), [(3, Status::Flushed)]);
    }
}

#[test]
fn response_without_last_flag_at_its_end_is_operation_unspecified() {
    let (mut victim, _, stag) = reader();
    let mut bytes = tagged(Opcode::ReadResponse, stag, 0, &[7; 8]);
    bytes[0] &= !0x40;
    victim.refuse(&bytes, Code::OperationUnspecified);
}

fn fetch_add(sink: &Area) -> Operation {
    Operation::Atomic {
        code: AtomicCode::FetchAdd,
        data: 1,
        mask: 0,
        compare: 0,
        compare_mask: 0,
        sink: sink.slice(0, 8),
        target: target(Stag(1), 0),
    }
}

#[test]
fn unrequested_atomic_response_is_untagged_no_buffer() {
    let response = AtomicResponse { identifier: 0, original: 1 }.emit();
    let bytes = untagged(Opcode::AtomicResponse, queue::ATOMIC_RESPONSE, 1, 0, &response);
    Victim::new().refuse(&bytes, Code::UntaggedNoBuffer);
}

#[test]
fn atomic_response_to_another_request_is_operation_unspecified() {
    let mut victim = Victim::new();
    let sink = victim.area(8, Rights::Local);
    victim.side.post(5, fetch_add(&sink));
    let flying = victim.side.transmit(1500).unwrap();
    victim.side.stream.handle_sent(1);
    let identifier = u32::from_be_bytes(flying.bytes[22..26].try_into().unwrap());
    let response = AtomicResponse { identifier: identifier ^ 1, original: 1 }.emit();
    victim
        .refuse(&untagged(Opcode::AtomicResponse, queue::ATOMIC_RESPONSE, 1, 0, &response), Code::OperationUnspecified);
    assert_eq!(sink.bytes(), [0; 8]);
}
