//! Two streams that talk over segments carried as values, with real memory.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use weft_base::{DomainId, Gather, NoDigest, Slice, Stag};
use weft_memory::{LocalRight, Registry};
use weft_rdmap::{
    Action, Arrival, Closed, Completion, HEAD_LENGTH, Later, LowerTraits, Operation, OrderConstraint, Payload,
    Placement, PostError, ReceiveQueue, ReceiveRequest, RemoteTarget, RequestFlags, Role, SegmentPayload, SendRequest,
    Status, Stream, StreamConfig, Verdict, Violation,
};
use weft_wire::terminate::TerminateCode;

pub(crate) mod memory;
pub(crate) use memory::{Area, Rights};

pub(crate) const DOMAIN: DomainId = memory::DOMAIN;

/// Why a segment was not taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Refused {
    Drop,
    Later(Later),
    Violation(Violation),
}

impl From<Violation> for Refused {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

impl Refused {
    /// What the peer is told; `None`: nothing, and the stream goes on.
    pub(crate) fn code(&self) -> Option<TerminateCode> {
        match self {
            Self::Violation(violation) => violation.code(),
            _ => None,
        }
    }
}

/// What most tests start with.
pub(crate) fn config(role: Role) -> StreamConfig {
    StreamConfig {
        domain: DOMAIN,
        role,
        send_depth: 32,
        receive_depth: 32,
        ird: 4,
        ord: 4,
        extensions: true,
        receipts: false,
        lower: LowerTraits::default(),
        reorder_limit: 64,
        ordered_writes: false,
        ready_to_receive: None,
        responder_waits: false,
    }
}

/// A segment on its way: all its bytes.
#[derive(Clone, Debug)]
pub(crate) struct Flying {
    pub(crate) arrival: Arrival,
    pub(crate) bytes: Vec<u8>,
}

/// One stream, its memory, and what came out of it.
pub(crate) struct Side {
    pub(crate) registry: Registry,
    pub(crate) stream: Stream,
    pub(crate) receives: ReceiveQueue,
    pub(crate) sent: Vec<Completion>,
    pub(crate) received: Vec<Completion>,
    pub(crate) actions: Vec<Action>,
    /// Segments given out so far.
    pub(crate) given: u64,
}

impl Side {
    pub(crate) fn new(registry: &Registry, config: StreamConfig) -> Self {
        Self {
            registry: registry.clone(),
            stream: Stream::new(config, registry.clone(), 0x5eed),
            receives: ReceiveQueue::new(64),
            sent: Vec::new(),
            received: Vec::new(),
            actions: Vec::new(),
            given: 0,
        }
    }

    pub(crate) fn post(&mut self, id: u64, operation: Operation) {
        self.try_post(SendRequest { id, operation, signaled: true, fence: false, flags: RequestFlags::NONE }).unwrap();
    }

    pub(crate) fn try_post(&mut self, request: SendRequest) -> Result<(), PostError> {
        let (memory, right) = match &request.operation {
            Operation::Read { sink, .. } => (*sink, LocalRight::Write),
            Operation::Atomic { sink, .. } => (Gather::from(*sink), LocalRight::Write),
            Operation::Send { payload, .. }
            | Operation::SendImmediate { payload, .. }
            | Operation::Write { payload, .. }
            | Operation::WriteImmediate { payload, .. } => match payload {
                Payload::Gather(gather) => (*gather, LocalRight::Read),
                Payload::Inline(_) => (Gather::empty(), LocalRight::Read),
            },
            Operation::Immediate { .. } => (Gather::empty(), LocalRight::Read),
        };
        self.registry.pin_all(DOMAIN, memory.slices(), right).unwrap();
        let posted = self.stream.post(request);
        if posted.is_err() {
            self.registry.unpin_all(memory.slices());
        }
        posted
    }

    pub(crate) fn post_receive(&mut self, id: u64, sink: Slice) {
        let sink = Gather::from(sink);
        self.registry.pin_all(DOMAIN, sink.slices(), LocalRight::Write).unwrap();
        self.receives.post(ReceiveRequest { id, sink }).unwrap();
    }

    /// The next segment, all bytes of it. It counts as sent only when the test says so.
    pub(crate) fn transmit(&mut self, max_ulpdu: u32) -> Option<Flying> {
        let can = self.stream.can_transmit();
        let Some(segment) = self.stream.poll_transmit(max_ulpdu) else {
            assert!(!can, "can_transmit promised a segment");
            return None;
        };
        assert!(can, "a segment that can_transmit knew nothing of");
        let mut bytes = segment.header.to_vec();
        match segment.payload {
            SegmentPayload::None => {}
            SegmentPayload::Gather(gather) | SegmentPayload::Exposed(gather) => {
                bytes.extend(read_gather(&self.registry, &gather))
            }
            SegmentPayload::Inline(inline) => bytes.extend(inline),
        }
        assert_eq!(segment.length as usize, bytes.len());
        assert!(bytes.len() <= max_ulpdu.max(weft_rdmap::MIN_ULPDU) as usize, "a segment longer than was allowed");
        let arrival = Arrival { start: self.given, end: self.given + 1 };
        self.given += 1;
        Some(Flying { arrival, bytes })
    }

    /// Takes a segment: checks, places, delivers, and collects what comes of it.
    pub(crate) fn take(&mut self, flying: &Flying) -> Result<(), Refused> {
        let result = self.take_unpolled(flying);
        self.poll();
        result
    }

    fn take_unpolled(&mut self, flying: &Flying) -> Result<(), Refused> {
        loop {
            let placement = self.locate(flying)?;
            self.place(flying, &placement);
            let is_partial = placement.is_partial;
            self.stream.handle_placed(&placement)?;
            if !is_partial {
                return Ok(());
            }
        }
    }

    pub(crate) fn locate(&mut self, flying: &Flying) -> Result<Placement, Refused> {
        self.locate_demanding(flying, OrderConstraint::default())
    }

    pub(crate) fn locate_demanding(
        &mut self,
        flying: &Flying,
        constraint: OrderConstraint,
    ) -> Result<Placement, Refused> {
        let head = &flying.bytes[..flying.bytes.len().min(HEAD_LENGTH)];
        let (arrival, length) = (flying.arrival, flying.bytes.len() as u32);
        match self.stream.handle_demanding(arrival, constraint, length, head, &mut self.receives) {
            Verdict::Place(placement) => Ok(placement),
            Verdict::Drop => Err(Refused::Drop),
            Verdict::Later(why) => Err(Refused::Later(why)),
            Verdict::Fatal(violation) => Err(Refused::Violation(violation)),
        }
    }

    pub(crate) fn place(&self, flying: &Flying, placement: &Placement) {
        let mut payload = &flying.bytes[placement.header_length as usize..];
        let length = placement.sink.length() as usize;
        assert!(length <= payload.len(), "{length} bytes of a payload of {}", payload.len());
        for slice in placement.sink.slices() {
            let (now, later) = payload.split_at(slice.length as usize);
            self.registry.copy_in(slice, now, &mut NoDigest).unwrap();
            payload = later;
        }
    }

    pub(crate) fn poll(&mut self) {
        self.sent.extend(core::iter::from_fn(|| self.stream.poll_send_completion()));
        self.received.extend(core::iter::from_fn(|| self.stream.poll_receive_completion()));
        self.actions.extend(core::iter::from_fn(|| self.stream.poll_action()));
    }

    /// Ends the stream below, and flushes the receives that it has not taken.
    pub(crate) fn close_below(&mut self, how: Closed) {
        self.stream.handle_closed(how);
        self.poll();
        while self.stream.flush_receives(&mut self.receives) {
            self.poll();
        }
    }

    pub(crate) fn sent_ids(&self) -> Vec<(u64, Status)> {
        self.sent.iter().map(|completion| (completion.id, completion.status)).collect()
    }

    pub(crate) fn received_ids(&self) -> Vec<(u64, Status)> {
        self.received.iter().map(|completion| (completion.id, completion.status)).collect()
    }
}

pub(crate) fn read_gather(registry: &Registry, gather: &Gather) -> Vec<u8> {
    gather.slices().iter().flat_map(|slice| memory::read(registry, *slice)).collect()
}

/// Two sides. Segments travel in order, and count as sent at once, unless a test moves them itself.
pub(crate) struct Pair {
    pub(crate) a: Side,
    pub(crate) b: Side,
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self::with(config(Role::Initiator), config(Role::Responder))
    }

    pub(crate) fn with(a: StreamConfig, b: StreamConfig) -> Self {
        let registry = memory::registry();
        Self { a: Side::new(&registry, a), b: Side::new(&registry, b) }
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.a.registry
    }

    pub(crate) fn area(&self, length: u32, rights: Rights) -> Area {
        Area::new(self.registry(), length, rights)
    }

    /// Carries segments both ways until there are none.
    pub(crate) fn run(&mut self, max_ulpdu: u32) {
        while carry(&mut self.a, &mut self.b, max_ulpdu) | carry(&mut self.b, &mut self.a, max_ulpdu) {}
    }
}

/// Carries one segment. False when there is none.
pub(crate) fn carry(from: &mut Side, to: &mut Side, max_ulpdu: u32) -> bool {
    let Some(flying) = from.transmit(max_ulpdu) else { return false };
    let _ = to.take(&flying);
    from.stream.handle_sent(1);
    from.poll();
    true
}

pub(crate) fn gather(slice: Slice) -> Payload {
    Payload::Gather(Gather::from(slice))
}

pub(crate) fn inline(bytes: &[u8]) -> Payload {
    Payload::Inline(weft_rdmap::InlineBytes::new(bytes).unwrap())
}

pub(crate) fn send(payload: Payload) -> Operation {
    Operation::Send { payload, solicited: false, invalidate: None }
}

pub(crate) fn target(stag: Stag, offset: u64) -> RemoteTarget {
    RemoteTarget { stag, offset }
}
