//! Segments that name memory which the peer may not use so.

use super::*;

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
