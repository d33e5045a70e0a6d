//! Reads and atomics of the peer that have yet to be answered.

use std::collections::VecDeque;

use weft_base::{MessageNumber, Slice};
use weft_wire::ddp::{self, Target};
use weft_wire::rdmap::{AtomicResponse, Control, Opcode, ReadRequest, queue};

use crate::FIRST_PLACES;
use crate::violation::{Context, Violation};

/// A request of the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Inbound {
    /// What is left of a read: offsets and length move on while it is answered.
    Read { number: MessageNumber, rest: ReadRequest },
    /// An atomic. It is done; its answer waits.
    Atomic(AtomicResponse),
}

/// The requests of the peer, in the order of delivery, which is the order of the answers (RFC 5040 section 5.2.2, RFC
/// 7306 section 5.2.2).
#[derive(Debug)]
pub(crate) struct Responder {
    waiting: VecDeque<Inbound>,
    ird: u16,
    /// The request that is next on the queue.
    number: MessageNumber,
    /// The memory of the read that is being answered, pinned.
    pinned: Option<Slice>,
    /// The application does not change it meanwhile.
    is_steady: bool,
}

impl Responder {
    pub(crate) fn new(ird: u16) -> Self {
        let (waiting, number) = (VecDeque::with_capacity(usize::from(ird).min(FIRST_PLACES)), MessageNumber::FIRST);
        Self { waiting, ird, number, pinned: None, is_steady: false }
    }

    /// Whether a request of this number may come now. RFC 5040 section 6.1: never more than were agreed; the peer finds
    /// no buffer on the queue then (RFC 5041 section 7.1, check 2).
    pub(crate) fn check(&self, number: MessageNumber) -> Result<(), Violation> {
        if number != self.number {
            return Err(Violation::Number { queue: queue::READ_REQUEST, number, expected: self.number });
        }
        if self.waiting.len() >= usize::from(self.ird) {
            return Err(Violation::TooManyRequests { ird: self.ird });
        }
        Ok(())
    }

    /// A request was delivered.
    pub(crate) fn push(&mut self, inbound: Inbound) {
        self.number = self.number.next();
        self.waiting.push_back(inbound);
    }

    pub(crate) fn front(&self) -> Option<Inbound> {
        self.waiting.front().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn pinned(&self) -> Option<Slice> {
        self.pinned
    }

    /// Whether that memory does not change while it is read.
    pub(crate) fn is_steady(&self) -> bool {
        self.is_steady
    }

    pub(crate) fn on_pinned(&mut self, slice: Slice, is_steady: bool) {
        self.pinned = Some(slice);
        self.is_steady = is_steady;
    }

    /// `bytes` bytes of the oldest read were given out. When it was the rest, returns the memory whose last segment
    /// that was.
    pub(crate) fn on_read_given(&mut self, bytes: u32) -> Option<Slice> {
        let Some(Inbound::Read { rest, .. }) = self.waiting.front_mut() else { return None };
        rest.length -= bytes;
        // Sink offsets are the peer's to choose: they may wrap, and this matters to the peer alone (RFC 5040 section
        // 4.4).
        rest.sink_offset = rest.sink_offset.wrapping_add(u64::from(bytes));
        rest.source_offset = rest.source_offset.wrapping_add(u64::from(bytes));
        if rest.length > 0 {
            return None;
        }
        self.waiting.pop_front();
        self.pinned.take()
    }

    /// The answer of the oldest atomic was given out.
    pub(crate) fn on_atomic_given(&mut self) {
        self.waiting.pop_front();
    }

    /// Nothing is answered any more. Returns memory that is still pinned.
    pub(crate) fn abandon(&mut self) -> Option<Slice> {
        self.waiting.clear();
        self.pinned.take()
    }
}

/// What a Terminate says about a read that fails while it is answered: the header it came with.
pub(crate) fn read_context(number: MessageNumber) -> Context {
    let control = Control { opcode: Opcode::ReadRequest }.emit();
    let target = Target::Untagged { word: 0, queue: queue::READ_REQUEST, number, offset: 0 };
    Context {
        header: Some(ddp::Header { last: true, control, target }),
        length: (ddp::UNTAGGED_LENGTH + ReadRequest::LENGTH) as u32,
    }
}
