//! Every way in which a segment can be wrong, and the exact Terminate that answers it. One test for each row of the
//! table in
//! `docs/conformance.md`.

use crate::pair::{Area, DOMAIN, Flying, Refused, Rights, Side, config, inline, memory, send, target};
use weft_base::{MessageNumber, Stag};
use weft_rdmap::{
    Action, Arrival, AtomicCode, Closed, Later, Operation, ReadyKind, Role, State, Status, StreamConfig, StreamError,
    Violation,
};
use weft_wire::ddp::{Header, Target};
use weft_wire::rdmap::{AtomicRequest, AtomicResponse, Control, Opcode, ReadRequest, queue};
use weft_wire::terminate::{Terminate, TerminateCode as Code, TerminatedSegment};

const SINK: Stag = Stag(0x51);

/// A stream under attack.
struct Victim {
    side: Side,
    position: u64,
}

impl Victim {
    fn new() -> Self {
        Self::with(config(Role::Responder))
    }

    fn with(config: StreamConfig) -> Self {
        Self { side: Side::new(&memory::registry(), config), position: 0 }
    }

    fn area(&self, length: u32, rights: Rights) -> Area {
        Area::new(&self.side.registry, length, rights)
    }

    /// The next segment in order.
    fn feed(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        let arrival = Arrival { start: self.position, end: self.position + 1 };
        self.position += 1;
        self.side.take(&Flying { arrival, bytes: bytes.to_vec() })
    }

    fn accept(&mut self, bytes: &[u8]) {
        self.feed(bytes).unwrap();
    }

    /// This segment is answered by a Terminate of this code, which repeats the DDP header (RFC 5040 figure 10).
    #[track_caller]
    fn refuse(&mut self, bytes: &[u8], code: Code) -> Violation {
        let header = Header::parse(bytes).unwrap();
        let segment = TerminatedSegment { length: bytes.len() as u16, header, read_request: None };
        self.refuse_with(bytes, Terminate { code, segment: Some(segment) })
    }

    #[track_caller]
    fn refuse_read(&mut self, bytes: &[u8], code: Code) {
        let header = Header::parse(bytes).unwrap();
        let read_request = Some(ReadRequest::parse(bytes[18..46].try_into().unwrap()));
        let segment = TerminatedSegment { length: bytes.len() as u16, header, read_request };
        self.refuse_with(bytes, Terminate { code, segment: Some(segment) });
    }

    #[track_caller]
    fn refuse_with(&mut self, bytes: &[u8], expected: Terminate) -> Violation {
        let refused = self.feed(bytes).expect_err("the segment was taken");
        let Refused::Violation(violation) = refused else { panic!("{refused:?}") };
        assert_eq!(violation.code(), Some(expected.code), "{violation}");
        assert!(!violation.to_string().is_empty());
        self.check_terminate(expected);
        assert_eq!(self.side.stream.error(), Some(StreamError::Violation(violation)));
        violation
    }

    /// The stream tells the peer, once, and then nothing (RFC 5040 section 5.4).
    #[track_caller]
    fn check_terminate(&mut self, expected: Terminate) {
        assert_eq!(self.side.stream.state(), State::Terminating);
        let flying = self.side.transmit(1500).expect("a Terminate");
        let header = Header::parse(&flying.bytes).unwrap();
        let target = Target::Untagged { word: 0, queue: queue::TERMINATE, number: MessageNumber::FIRST, offset: 0 };
        assert_eq!(header, Header { last: true, control: Control { opcode: Opcode::Terminate }.emit(), target });
        assert_eq!(Terminate::parse(&flying.bytes[18..]), Some(expected));
        assert!(self.side.transmit(1500).is_none(), "nothing follows a Terminate");
        assert!(self.side.actions.is_empty());
        self.side.stream.handle_sent(1);
        self.side.poll();
        assert_eq!(self.side.actions, [Action::CloseSend]);
        assert_eq!(self.side.stream.state(), State::Failed);
        assert!(self.side.transmit(1500).is_none());
        // RFC 5041 section 7.1: whatever comes later is dropped.
        let after = self.feed(&untagged(Opcode::Send, queue::SEND, 1, 0, b""));
        assert_eq!(after, Err(Refused::Violation(Violation::NotReceiving(State::Failed))));
    }
}

fn tagged(opcode: Opcode, stag: Stag, offset: u64, payload: &[u8]) -> Vec<u8> {
    emit(opcode, true, Target::Tagged { stag, offset }, payload)
}

fn untagged(opcode: Opcode, queue: u32, number: u32, offset: u32, payload: &[u8]) -> Vec<u8> {
    emit(opcode, true, Target::Untagged { word: 0, queue, number: MessageNumber(number), offset }, payload)
}

fn part(opcode: Opcode, queue: u32, number: u32, offset: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = untagged(opcode, queue, number, offset, payload);
    bytes[0] &= !0x40;
    bytes
}

fn emit(opcode: Opcode, last: bool, target: Target, payload: &[u8]) -> Vec<u8> {
    let header = Header { last, control: Control { opcode }.emit(), target };
    let mut bytes = vec![0xa5; header.length()];
    header.emit(&mut bytes);
    bytes.extend(payload);
    bytes
}

fn read(number: u32, source_stag: Stag, source_offset: u64, length: u32) -> Vec<u8> {
    let request = ReadRequest { sink_stag: SINK, sink_offset: 7, length, source_stag, source_offset };
    untagged(Opcode::ReadRequest, queue::READ_REQUEST, number, 0, &request.emit())
}

fn atomic(number: u32, stag: Stag, offset: u64) -> Vec<u8> {
    let request = AtomicRequest {
        code: AtomicCode::FetchAdd,
        identifier: 9,
        stag,
        offset,
        data: 1,
        mask: 0,
        compare: 0,
        compare_mask: 0,
    };
    untagged(Opcode::AtomicRequest, queue::READ_REQUEST, number, 0, &request.emit())
}

fn bare(code: Code) -> Terminate {
    Terminate { code, segment: None }
}

// --- Malformed

#[test]
fn short_header_is_operation_unspecified() {
    for length in [0, 1, 2, 13] {
        let bytes = tagged(Opcode::Write, Stag(1), 0, b"")[..length].to_vec();
        Victim::new().refuse_with(&bytes, bare(Code::OperationUnspecified));
    }
    let bytes = untagged(Opcode::Send, queue::SEND, 1, 0, b"")[..17].to_vec();
    Victim::new().refuse_with(&bytes, bare(Code::OperationUnspecified));
}

#[test]
fn ddp_version_of_tagged_segment_is_tagged_version() {
    let mut bytes = tagged(Opcode::Write, Stag(1), 0, b"x");
    bytes[0] ^= 0x03;
    Victim::new().refuse_with(&bytes, bare(Code::TaggedVersion));
}

#[test]
fn ddp_version_of_untagged_segment_is_untagged_version() {
    let mut bytes = untagged(Opcode::Send, queue::SEND, 1, 0, b"x");
    bytes[0] &= !0x03;
    Victim::new().refuse_with(&bytes, bare(Code::UntaggedVersion));
}

#[test]
fn rdmap_version_is_operation_version() {
    let mut bytes = untagged(Opcode::Send, queue::SEND, 1, 0, b"x");
    bytes[1] = bytes[1] & 0x3f | 0x80;
    Victim::new().refuse(&bytes, Code::OperationVersion);
}

#[test]
fn unknown_opcode_is_operation_opcode() {
    for code in 12..16 {
        let mut bytes = untagged(Opcode::Send, queue::SEND, 1, 0, b"x");
        bytes[1] = bytes[1] & 0xf0 | code;
        Victim::new().refuse(&bytes, Code::OperationOpcode);
    }
}

#[test]
fn short_read_request_is_operation_unspecified() {
    let bytes = untagged(Opcode::ReadRequest, queue::READ_REQUEST, 1, 0, &[0; 27]);
    Victim::new().refuse(&bytes, Code::OperationUnspecified);
}

#[test]
fn long_read_request_is_untagged_too_long() {
    let bytes = untagged(Opcode::ReadRequest, queue::READ_REQUEST, 1, 0, &[0; 29]);
    Victim::new().refuse(&bytes, Code::UntaggedTooLong);
}

#[test]
fn read_request_without_last_flag_is_untagged_too_long() {
    let bytes = part(Opcode::ReadRequest, queue::READ_REQUEST, 1, 0, &[0; 28]);
    Victim::new().refuse(&bytes, Code::UntaggedTooLong);
}

#[test]
fn short_atomic_request_is_operation_unspecified() {
    let bytes = untagged(Opcode::AtomicRequest, queue::READ_REQUEST, 1, 0, &[0; 51]);
    Victim::new().refuse(&bytes, Code::OperationUnspecified);
}

#[test]
fn unknown_atomic_code_is_operation_opcode() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::Atomic);
    let mut bytes = atomic(1, area.stag, area.base);
    bytes[18 + 3] = 5;
    assert_eq!(victim.refuse(&bytes, Code::OperationOpcode), Violation::AtomicCode(5));
    assert_eq!(area.bytes(), [0; 64]);
}

#[test]
fn short_immediate_is_operation_unspecified() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::Local);
    victim.side.post_receive(1, area.whole());
    victim.refuse(&untagged(Opcode::Immediate, queue::SEND, 1, 0, &[0; 7]), Code::OperationUnspecified);
}

#[test]
fn long_immediate_is_untagged_too_long() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::Local);
    victim.side.post_receive(1, area.whole());
    victim.refuse(&untagged(Opcode::Immediate, queue::SEND, 1, 0, &[0; 9]), Code::UntaggedTooLong);
}

#[test]
fn short_terminate_is_operation_unspecified() {
    let bytes = untagged(Opcode::Terminate, queue::TERMINATE, 1, 0, &[0; 2]);
    Victim::new().refuse(&bytes, Code::OperationUnspecified);
}

// --- Out of place

#[test]
fn extensions_that_were_not_agreed_are_operation_opcode() {
    for opcode in [Opcode::Immediate, Opcode::ImmediateSolicited, Opcode::AtomicRequest, Opcode::AtomicResponse] {
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
fn response_that_nobody_asked_for_is_tagged_invalid_stag() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::All);
    victim.refuse(&tagged(Opcode::ReadResponse, area.stag, area.base, b"x"), Code::TaggedInvalidStag);
    assert_eq!(area.bytes(), [0; 64]);
    Victim::new().refuse(&tagged(Opcode::ReadResponse, Stag(0), 0, b""), Code::TaggedInvalidStag);
}

/// A victim with a read of 8 bytes outstanding, and the STag of its sink.
fn reader() -> (Victim, Area, Stag) {
    let mut victim = Victim::new();
    let sink = victim.area(64, Rights::Local);
    let source = target(Stag(1), 0);
    victim.side.post(3, Operation::Read { sink: sink.slice(8, 8).into(), source });
    let flying = victim.side.transmit(1500).unwrap();
    victim.side.stream.handle_sent(1);
    let request = ReadRequest::parse(flying.bytes[18..46].try_into().unwrap());
    assert_eq!((request.sink_offset, request.length), (0, 8));
    (victim, sink, request.sink_stag)
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
fn atomic_response_that_nobody_asked_for_is_untagged_no_buffer() {
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

// --- Not granted

#[test]
fn write_to_unknown_stag_is_tagged_invalid_stag() {
    Victim::new().refuse(&tagged(Opcode::Write, Stag(0xdead_beef), 0, b"x"), Code::TaggedInvalidStag);
}

#[test]
fn write_to_invalidated_stag_is_tagged_invalid_stag() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::Write);
    area.invalidate();
    victim.refuse(&tagged(Opcode::Write, area.stag, area.base, b"x"), Code::TaggedInvalidStag);
    assert_eq!(area.bytes(), [0; 64]);
}

#[test]
fn write_without_right_is_tagged_invalid_stag() {
    for rights in [Rights::Read, Rights::Atomic] {
        let mut victim = Victim::new();
        let area = victim.area(64, rights);
        victim.refuse(&tagged(Opcode::Write, area.stag, area.base, b"x"), Code::TaggedInvalidStag);
        assert_eq!(area.bytes(), [0; 64]);
    }
}

#[test]
fn write_to_another_domain_is_tagged_not_associated() {
    let mut victim = Victim::new();
    let domain = memory::other_domain(&victim.side.registry);
    assert_ne!(domain, DOMAIN);
    let area = Area::in_domain(&victim.side.registry, domain, 64, Rights::Write);
    victim.refuse(&tagged(Opcode::Write, area.stag, area.base, b"x"), Code::TaggedNotAssociated);
    assert_eq!(area.bytes(), [0; 64]);
}

#[test]
fn write_out_of_bounds_is_tagged_bounds() {
    for (offset, payload) in [(61, &b"abcd"[..]), (64, b"a"), (1 << 40, b"a")] {
        let mut victim = Victim::new();
        let area = victim.area(64, Rights::Write);
        victim.refuse(&tagged(Opcode::Write, area.stag, area.base + offset, payload), Code::TaggedBounds);
        assert_eq!(area.bytes(), [0; 64]);
    }
}

#[test]
fn write_past_the_last_offset_is_tagged_offset_wrap() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::Write);
    victim.refuse(&tagged(Opcode::Write, area.stag, u64::MAX - 1, b"abcd"), Code::TaggedOffsetWrap);
}

#[test]
fn read_of_unknown_stag_is_protection_invalid_stag() {
    Victim::new().refuse_read(&read(1, Stag(0xdead_beef), 0, 8), Code::ProtectionInvalidStag);
}

#[test]
fn read_without_right_is_protection_rights() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::Write);
    victim.refuse_read(&read(1, area.stag, area.base, 8), Code::ProtectionRights);
}

#[test]
fn read_of_another_domain_is_protection_not_associated() {
    let mut victim = Victim::new();
    let domain = memory::other_domain(&victim.side.registry);
    let area = Area::in_domain(&victim.side.registry, domain, 64, Rights::Read);
    victim.refuse_read(&read(1, area.stag, area.base, 8), Code::ProtectionNotAssociated);
}

#[test]
fn read_out_of_bounds_is_protection_bounds() {
    for (offset, length) in [(60, 5), (64, 1), (0, u32::MAX)] {
        let mut victim = Victim::new();
        let area = victim.area(64, Rights::Read);
        victim.refuse_read(&read(1, area.stag, area.base + offset, length), Code::ProtectionBounds);
    }
}

#[test]
fn read_past_the_last_offset_is_protection_offset_wrap() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::Read);
    victim.refuse_read(&read(1, area.stag, u64::MAX - 1, 8), Code::ProtectionOffsetWrap);
}

#[test]
fn source_revoked_while_it_is_read_ends_with_what_was_left() {
    let mut victim = Victim::new();
    let area = victim.area(4000, Rights::Read);
    victim.accept(&read(1, area.stag, area.base, 3000));
    let first = victim.side.transmit(1014).unwrap();
    assert_eq!(first.bytes.len(), 1014);
    area.invalidate();
    // RFC 5040 section 4.8: offsets and length of what is left.
    let mut header = read(1, area.stag, area.base + 1000, 2000);
    let rest = ReadRequest { sink_offset: 1007, ..ReadRequest::parse(header[18..46].try_into().unwrap()) };
    header.truncate(18);
    let segment = TerminatedSegment { length: 46, header: Header::parse(&header).unwrap(), read_request: Some(rest) };
    let flying = victim.side.transmit(1014).unwrap();
    let terminate = Terminate::parse(&flying.bytes[18..]);
    assert_eq!(terminate, Some(Terminate { code: Code::ProtectionInvalidStag, segment: Some(segment) }));
    assert!(area.pins() > 0, "the first segment may still be read");
    victim.side.stream.handle_sent(2);
    assert_eq!(area.pins(), 0);
}

#[test]
fn atomic_on_unknown_stag_is_protection_invalid_stag() {
    Victim::new().refuse(&atomic(1, Stag(0xdead_beef), 0), Code::ProtectionInvalidStag);
}

#[test]
fn atomic_without_right_is_protection_rights() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::Write);
    victim.refuse(&atomic(1, area.stag, area.base), Code::ProtectionRights);
    assert_eq!(area.bytes(), [0; 64]);
}

#[test]
fn atomic_out_of_bounds_is_protection_bounds() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::Atomic);
    victim.refuse(&atomic(1, area.stag, area.base + 60), Code::ProtectionBounds);
}

#[test]
fn misaligned_atomic_is_operation_stream_catastrophic() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::Atomic);
    victim.refuse(&atomic(1, area.stag, area.base + 4), Code::OperationStreamCatastrophic);
    assert_eq!(area.bytes(), [0; 64]);
}

fn send_invalidate(stag: Stag) -> Vec<u8> {
    let target = Target::Untagged { word: stag.0, queue: queue::SEND, number: MessageNumber::FIRST, offset: 0 };
    emit(Opcode::SendInvalidate, true, target, b"x")
}

#[test]
fn invalidate_of_unknown_stag_is_operation_cannot_invalidate() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::Local);
    victim.side.post_receive(1, area.whole());
    victim.refuse(&send_invalidate(Stag(0xdead_beef)), Code::OperationCannotInvalidate);
    assert_eq!(victim.side.received_ids(), [(1, Status::LocalProtection)]);
}

#[test]
fn invalidate_in_another_domain_is_protection_cannot_invalidate() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::Local);
    let domain = memory::other_domain(&victim.side.registry);
    let other = Area::in_domain(&victim.side.registry, domain, 64, Rights::Write);
    victim.side.post_receive(1, area.whole());
    victim.refuse(&send_invalidate(other.stag), Code::ProtectionCannotInvalidate);
}

#[test]
fn invalidate_of_a_region_without_remote_rights_is_protection_cannot_invalidate() {
    let mut victim = Victim::new();
    let area = victim.area(64, Rights::Local);
    victim.side.post_receive(1, area.whole());
    victim.refuse(&send_invalidate(area.stag), Code::ProtectionCannotInvalidate);
    assert_eq!(victim.side.received_ids(), [(1, Status::LocalProtection)]);
}

// --- Errors of the stream below, and what must not be taken for errors

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
fn duplicate_is_refused_and_blames_nobody() {
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
