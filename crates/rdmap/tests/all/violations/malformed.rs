//! Segments with a wrong version, opcode or length.

use super::*;

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
    // A receipt, which was not agreed, and the one that nothing has.
    for code in [12, 15] {
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
