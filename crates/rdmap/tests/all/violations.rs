//! Every way in which a segment can be wrong, and the exact Terminate that answers it. One test for each row of the
//! table in `docs/conformance.md`.

mod below;
mod malformed;
mod not_granted;
mod out_of_place;

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
