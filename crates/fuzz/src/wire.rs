//! The decoders of `weft-wire`.

use weft_base::{MessageNumber, Stag};
use weft_wire::ddp::{self, Header, Target};
use weft_wire::message::{Confirmation, Hello, MAX_HELLO_LENGTH, Refusal, Verdict};
use weft_wire::mpa::{
    self, ENHANCED_LENGTH, Enhanced, START_HEADER_LENGTH, StartHeader, StartKind, marker, marker_pointer,
};
use weft_wire::rdmap::{AtomicCode, AtomicRequest, AtomicResponse, Control, Opcode, ReadRequest, Receipt};
use weft_wire::terminate::{Terminate, TerminateCode, TerminatedSegment};

/// Reads the bytes as each kind of header. Nothing may panic, and what could be read must read the same after it was
/// written again.
pub fn wire(data: &[u8]) {
    ddp_header(data);
    terminate(data);
    start_frame(data);
    rdmap_messages(data);
    lengths(data);
    hello(data);
    raw(data);
}

fn raw(data: &[u8]) {
    let Ok((header, datagram)) = weft_wire::raw::Header::parse(data) else { return };
    let mut bytes = [0xa5; weft_wire::raw::HEADER_LENGTH_IPV6];
    let length = header.emit(&mut bytes);
    assert_eq!(bytes[..length], data[..length]);
    assert_eq!(datagram.len(), usize::from(header.length));
}

fn ddp_header(data: &[u8]) {
    let Ok(header) = Header::parse(data) else { return };
    let mut bytes = [0xa5; ddp::UNTAGGED_LENGTH];
    let length = header.emit(&mut bytes);
    assert_eq!(length, header.length());
    assert_eq!(Header::parse(&bytes[..length]), Ok(header));
    assert_eq!(bytes[1..length], data[1..length], "all but the reserved bits of the first byte means something");
    if let Ok(control) = Control::parse(header.control) {
        assert_eq!(Control::parse(control.emit()), Ok(control));
        assert_eq!(control.opcode.is_tagged(), control.opcode.queue().is_none());
    }
}

fn terminate(data: &[u8]) {
    let Some(read) = Terminate::parse(data) else { return };
    assert!(!read.code.to_string().is_empty());
    let mut bytes = [0xa5; Terminate::MAX_LENGTH];
    let length = read.emit(&mut bytes);
    let again = Terminate { segment: read.segment.filter(|_| read.code.repeats_segment()), ..read };
    assert_eq!(Terminate::parse(&bytes[..length]), Some(again));
}

fn start_frame(data: &[u8]) {
    for kind in [StartKind::Request, StartKind::Reply] {
        let known = (0..=data.len().min(16)).take_while(|length| StartHeader::key_may_follow(kind, &data[..*length]));
        assert!(known.count() > 0, "no bytes at all may become anything");
    }
    if let Some(header) = data.first_chunk().and_then(|bytes| StartHeader::parse(bytes).ok()) {
        let mut bytes = [0xa5; START_HEADER_LENGTH];
        header.emit(&mut bytes);
        assert_eq!(StartHeader::parse(&bytes), Ok(header));
        assert!(StartHeader::key_may_follow(header.kind, data));
    }
    if let Some(word) = data.first_chunk::<ENHANCED_LENGTH>() {
        let word = Enhanced::parse(word);
        assert_eq!(Enhanced::parse(&word.emit()), word);
        let pointer = marker_pointer(*data.first_chunk().unwrap_or(&[0; 4]));
        assert_eq!(marker_pointer(marker(pointer)), pointer);
    }
}

fn rdmap_messages(data: &[u8]) {
    if let Some(bytes) = data.first_chunk() {
        assert_eq!(ReadRequest::parse(bytes).emit(), *bytes);
    }
    if let Some(bytes) = data.first_chunk() {
        assert_eq!(AtomicResponse::parse(bytes).emit(), *bytes);
    }
    if let Some(bytes) = data.first_chunk() {
        let receipt = Receipt::parse(bytes);
        assert_eq!(Receipt::parse(&receipt.emit()), receipt);
    }
    if let Some(Ok(request)) = data.first_chunk().map(AtomicRequest::parse) {
        assert_eq!(AtomicRequest::parse(&request.emit()), Ok(request));
    }
}

/// What endpoints say when they connect.
fn hello(data: &[u8]) {
    if let Ok(hello) = Hello::parse(data) {
        let mut bytes = [0; MAX_HELLO_LENGTH];
        let length = hello.emit(&mut bytes);
        assert_eq!(length, hello.length());
        assert!(length <= data.len() && hello.before_proof(data).len() <= data.len());
        assert_eq!(Hello::parse(&bytes[..length]), Ok(hello));
    }
    if let Ok(refusal) = Refusal::parse(data) {
        assert_eq!(Refusal::parse(&refusal.emit()), Ok(refusal));
    }
    if let Ok(confirmation) = Confirmation::parse(data) {
        assert_eq!(confirmation.emit(), data);
    }
    if let Ok(verdict) = Verdict::parse(data) {
        assert_eq!(Verdict::parse(&verdict.emit()), Ok(verdict));
    }
}

/// Sizes that the peer or the path decides.
fn lengths(data: &[u8]) {
    let Some(bytes) = data.first_chunk() else { return };
    let length = u32::from_be_bytes(*bytes);
    assert_eq!((u64::from(length) + 2 + u64::from(mpa::pad_length(length))) % 4, 0);
    for markers in [None, Some(mpa::MarkerSpacing::Standard), Some(mpa::MarkerSpacing::TwoKilobytes)] {
        assert!((mpa::MIN_MULPDU..=mpa::MAX_MULPDU).contains(&mpa::max_ulpdu(length, markers)));
    }
}

/// One of each.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![Vec::new(), vec![0x02, 0x02, 0, 0]];
    let mut header = |control: Opcode, target| {
        let mut bytes = vec![0; ddp::UNTAGGED_LENGTH];
        let header = Header { last: true, control: Control { opcode: control }.emit(), target };
        let length = header.emit(&mut bytes);
        bytes.truncate(length);
        seeds.push(bytes);
        header
    };
    header(Opcode::Write, Target::Tagged { stag: Stag(0x0102_0304), offset: u64::MAX });
    let read =
        header(Opcode::ReadRequest, Target::Untagged { word: 0, queue: 1, number: MessageNumber(u32::MAX), offset: 0 });
    let request =
        ReadRequest { sink_stag: Stag(1), sink_offset: 2, length: u32::MAX, source_stag: Stag(3), source_offset: 4 };
    seeds.push(request.emit().into());
    let atomic = AtomicRequest {
        code: AtomicCode::CompareSwap,
        identifier: 1,
        stag: Stag(2),
        offset: 3,
        data: 4,
        mask: 5,
        compare: 6,
        compare_mask: 7,
    };
    seeds.push(atomic.emit().into());
    let segment = Some(TerminatedSegment { length: 46, header: read, read_request: Some(request) });
    for code in [TerminateCode::MpaCrc, TerminateCode::TaggedBounds, TerminateCode::ProtectionRights] {
        let mut bytes = [0; Terminate::MAX_LENGTH];
        let length = Terminate { code, segment }.emit(&mut bytes);
        seeds.push(bytes[..length].into());
    }
    let hello = Hello {
        id: 1,
        wanted: 2,
        serial: 3,
        packet_bytes: 4096,
        data_credits: 5,
        control_credits: 6,
        addresses: ["192.0.2.1:7".parse(), "[2001:db8::1]:8".parse()].into_iter().flatten().collect(),
        host: Some(weft_base::HostId { boot: [8; 16], network: 9 }),
        nonce: Some([9; 16]),
        proof: Some([10; 32]),
    };
    let mut bytes = [0; MAX_HELLO_LENGTH];
    let length = hello.emit(&mut bytes);
    seeds.push(bytes[..length].into());
    seeds.push(Verdict::Connected { serial: 11 }.emit().into());
    seeds.push(Confirmation([12; 32]).emit().into());
    for kind in [StartKind::Request, StartKind::Reply] {
        let mut bytes = [0; START_HEADER_LENGTH];
        StartHeader { kind, markers: true, crc: true, reject: false, enhanced: true, revision: 2, private_length: 4 }
            .emit(&mut bytes);
        seeds.push(bytes.into());
    }
    seeds
}
