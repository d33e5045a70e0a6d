//! Errors of the stream below, and what must not be taken for errors.

use super::*;

#[test]
fn error_below_is_told_without_headers() {
    let mut victim = Victim::new();
    victim.side.stream.fail(Code::MpaCrc);
    victim.check_terminate(bare(Code::MpaCrc));
    assert_eq!(victim.side.stream.error(), Some(StreamError::Below(Code::MpaCrc)));
}

#[test]
fn bad_crc_takes_the_place_of_the_violation_it_explains() {
    let mut victim = Victim::new();
    victim.feed(&tagged(Opcode::Write, Stag(1), 0, b"x")).unwrap_err();
    victim.side.stream.fail(Code::MpaCrc);
    victim.check_terminate(bare(Code::MpaCrc));
    assert_eq!(victim.side.stream.error(), Some(StreamError::Below(Code::MpaCrc)));
}

#[test]
fn first_error_is_the_one_that_is_told() {
    let mut victim = Victim::new();
    victim.side.stream.fail(Code::MpaMarker);
    victim.side.stream.fail(Code::MpaCrc);
    victim.check_terminate(bare(Code::MpaMarker));
}

#[test]
fn zero_length_segments_need_no_stag() {
    let mut victim = Victim::new();
    victim.accept(&tagged(Opcode::Write, Stag(0xdead_beef), u64::MAX, b""));
    victim.accept(&read(1, Stag(0xdead_beef), u64::MAX, 0));
    let response = victim.side.transmit(1500).unwrap();
    assert_eq!(response.bytes, tagged(Opcode::ReadResponse, SINK, 7, b""));
}

#[test]
fn reserved_bits_are_not_looked_at() {
    let mut victim = Victim::new();
    let mut bytes = tagged(Opcode::Write, Stag(1), 0, b"");
    bytes[0] |= 0x3c;
    bytes[1] |= 0x30;
    victim.accept(&bytes);
}

#[test]
fn duplicate_is_refused_without_an_error_code() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::Write);
    let bytes = tagged(Opcode::Write, area.stag, area.base, b"abcd");
    victim.accept(&bytes);
    victim.position = 0;
    let violation = victim.feed(&tagged(Opcode::Write, area.stag, area.base, b"xxxx")).unwrap_err();
    assert_eq!((violation, violation.code()), (Refused::Drop, None));
    assert_eq!(victim.side.stream.state(), State::Established);
    assert_eq!(&area.bytes()[..4], b"abcd");
}

#[test]
fn early_segments_wait_for_judgement_until_their_turn() {
    let mut victim = Victim::new();
    victim.position = 1;
    let bad = tagged(Opcode::Write, Stag(1), 0, b"x");
    let violation = victim.feed(&bad).unwrap_err();
    assert_eq!((violation, violation.code()), (Refused::Later(Later::Early), None));
    victim.position = 0;
    victim.accept(&tagged(Opcode::Write, Stag(1), 0, b""));
    victim.refuse(&bad, Code::TaggedInvalidStag);
}

#[test]
fn early_response_outside_of_its_sink_is_deferred() {
    for (offset, length) in [(0, 9), (4, 5), (8, 1), (u64::MAX, 1), (1 << 32, 1)] {
        let (mut victim, sink, stag) = reader();
        victim.position = 1;
        let bytes = tagged(Opcode::ReadResponse, stag, offset, &vec![7; length]);
        assert_eq!(victim.feed(&bytes), Err(Refused::Later(Later::Early)));
        assert_eq!(sink.bytes(), [0; 64]);
        victim.position = 0;
        victim.accept(&tagged(Opcode::Write, Stag(0), 0, b""));
        victim.refuse(&bytes, Code::TaggedBounds);
    }
}

#[test]
fn early_send_outside_of_its_receive_is_deferred() {
    for (number, offset, length) in [(1, 0, 6), (1, 5, 1), (1, u32::MAX, 1), (2, 0, 1), (33, 0, 0), (0, 0, 0)] {
        let mut victim = Victim::new();
        let area = victim.area(64, Rights::Local);
        victim.side.post_receive(1, area.slice(0, 5));
        victim.position = 1;
        let bytes = untagged(Opcode::Send, queue::SEND, number, offset, &vec![7; length]);
        assert_eq!(victim.feed(&bytes), Err(Refused::Later(Later::Early)));
        assert_eq!(area.bytes(), [0; 64]);
        assert_eq!(victim.side.stream.state(), State::Established);
    }
}

#[test]
fn more_early_segments_than_the_limit_are_deferred() {
    let mut victim = Victim::with(StreamConfig { reorder_limit: 2, ..config(Role::Responder) });
    let empty = tagged(Opcode::Write, Stag(1), 0, b"");
    victim.position = 1;
    victim.accept(&empty);
    victim.accept(&empty);
    assert_eq!(victim.feed(&empty), Err(Refused::Later(Later::Early)));
    victim.position = 0;
    victim.accept(&empty);
    victim.position = 3;
    victim.accept(&empty);
}

#[test]
fn too_many_unpolled_receives_defer() {
    let mut victim = Victim::with(StreamConfig { receive_depth: 1, ..config(Role::Responder) });
    let area = victim.area(64, Rights::Local);
    victim.side.post_receive(1, area.whole());
    victim.side.post_receive(2, area.whole());
    let placed = |victim: &mut Victim, number: u32| {
        let arrival = Arrival { start: victim.position, end: victim.position + 1 };
        let bytes = untagged(Opcode::Send, queue::SEND, number, 0, b"");
        let placement = victim.side.locate(&Flying { arrival, bytes })?;
        victim.position += 1;
        Ok::<_, Refused>(victim.side.stream.handle_placed(&placement)?)
    };
    placed(&mut victim, 1).unwrap();
    assert_eq!(placed(&mut victim, 2), Err(Refused::Later(Later::Unpolled)));
    victim.side.poll();
    placed(&mut victim, 2).unwrap();
}

#[test]
fn ready_send_uses_up_no_receive() {
    let ready = StreamConfig { ready_to_receive: Some(ReadyKind::Send), ..config(Role::Responder) };
    let mut victim = Victim::with(ready);
    let area = victim.area(64, Rights::Local);
    victim.accept(&untagged(Opcode::Send, queue::SEND, 1, 0, b""));
    victim.side.post_receive(1, area.whole());
    victim.accept(&untagged(Opcode::Send, queue::SEND, 2, 0, b""));
    assert_eq!(victim.side.received_ids(), [(1, Status::Success)]);
    // Nor is any other message without bytes taken for it.
    let mut victim = Victim::with(ready);
    victim.side.post_receive(1, area.slice(0, 0));
    victim.accept(&untagged(Opcode::SendSolicited, queue::SEND, 1, 0, b""));
    assert_eq!(victim.side.received_ids(), [(1, Status::Success)]);
    // A peer that does not keep to the agreement, and begins with a message of its own, is understood.
    let mut victim = Victim::with(ready);
    victim.side.post_receive(1, area.slice(0, 0));
    victim.side.post_receive(2, area.slice(0, 0));
    victim.accept(&tagged(Opcode::Write, Stag(1), 0, b""));
    victim.accept(&untagged(Opcode::Send, queue::SEND, 1, 0, b""));
    assert_eq!(victim.side.received_ids(), [(1, Status::Success)]);
}

#[test]
fn error_after_closing_breaks_the_stream_below() {
    let mut victim = Victim::new();
    victim.side.stream.close();
    victim.side.poll();
    assert_eq!(victim.side.actions, [Action::CloseSend]);
    victim.feed(&tagged(Opcode::Write, Stag(1), 0, b"x")).unwrap_err();
    victim.side.poll();
    assert_eq!(victim.side.actions, [Action::CloseSend, Action::Abort]);
    assert!(victim.side.transmit(1500).is_none());
}

#[test]
fn a_terminate_that_names_a_request_decides_its_status() {
    let (mut victim, _, stag) = reader();
    victim.side.post(4, send(inline(b"later")));
    let number = MessageNumber::FIRST;
    let target = Target::Untagged { word: 0, queue: queue::READ_REQUEST, number, offset: 0 };
    let header = Header { last: true, control: Control { opcode: Opcode::ReadRequest }.emit(), target };
    let request = ReadRequest { sink_stag: stag, sink_offset: 0, length: 8, source_stag: Stag(1), source_offset: 0 };
    let segment = TerminatedSegment { length: 46, header, read_request: Some(request) };
    let terminate = Terminate { code: Code::ProtectionRights, segment: Some(segment) };
    let mut bytes = [0; Terminate::MAX_LENGTH];
    let length = terminate.emit(&mut bytes);
    victim.accept(&untagged(Opcode::Terminate, queue::TERMINATE, 1, 0, &bytes[..length]));
    assert_eq!(victim.side.sent_ids(), [(3, Status::RemoteAccess), (4, Status::Flushed)]);
    assert_eq!(victim.side.stream.error(), Some(StreamError::Peer(terminate)));
    assert_eq!(victim.side.actions, [Action::CloseSend]);
    assert!(victim.side.transmit(1500).is_none(), "nothing is sent after a Terminate came");
}

#[test]
fn a_terminate_may_name_a_send_or_a_write() {
    let registry = memory::registry();
    for (operation, code, status, blamed) in [
        (
            send(inline(b"abc")),
            Code::UntaggedNoBuffer,
            Status::RemoteInvalidRequest,
            untagged(Opcode::Send, queue::SEND, 1, 0, b"abc"),
        ),
        (
            Operation::Write { payload: inline(b"abc"), target: target(Stag(8), 100) },
            Code::TaggedBounds,
            Status::RemoteAccess,
            tagged(Opcode::Write, Stag(8), 100, b"abc"),
        ),
    ] {
        let mut victim = Victim { side: Side::new(&registry, config(Role::Responder)), position: 0 };
        victim.side.post(6, operation);
        let flying = victim.side.transmit(1500).unwrap();
        assert_eq!(flying.bytes, blamed);
        let header = Header::parse(&blamed).unwrap();
        let segment = TerminatedSegment { length: blamed.len() as u16, header, read_request: None };
        let mut bytes = [0; Terminate::MAX_LENGTH];
        let length = Terminate { code, segment: Some(segment) }.emit(&mut bytes);
        victim.accept(&untagged(Opcode::Terminate, queue::TERMINATE, 1, 0, &bytes[..length]));
        assert_eq!(victim.side.sent_ids(), [], "the stream below may still read it");
        victim.side.stream.handle_sent(1);
        victim.side.poll();
        assert_eq!(victim.side.sent_ids(), [(6, status)]);
    }
}
