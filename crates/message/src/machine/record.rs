//! What a machine remembers of messages, calls and receives.

use weft_base::PeerId;
use weft_wire::message::{Envelope, Outcome, UNASKED_BYTES};

use super::keys::{PacketKey, ReceiveKey};
use super::terms::Peek;
use crate::host::{BufferId, Failure, Parts, Ticket};
use crate::matching::{PostedId, UnexpectedId};
use crate::pool;

/// A data packet whose credit is kept back.
pub(super) struct Held {
    pub(super) peer: PeerId,
    /// What it brought and is still there.
    pub(super) records: usize,
}

/// A peer's call that was not answered.
pub(super) struct Called {
    pub(super) peer: PeerId,
    pub(super) id: u64,
    pub(super) packet: PacketKey,
    /// Until it is handed on.
    pub(super) body: Option<Vec<u8>>,
}

/// A message that has not completed.
pub(super) struct Outgoing<S> {
    pub(super) peer: PeerId,
    pub(super) envelope: Envelope,
    pub(super) length: u64,
    pub(super) delivery: bool,
    /// Which of two is older.
    pub(super) order: u64,
    pub(super) stage: Stage,
    pub(super) user: S,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Queued,
    /// Bytes up to this position have gone out. The others follow.
    Streaming {
        position: u64,
    },
    /// The peer has it whole, and will say when it is delivered.
    Delivering,
    /// The peer will say where to write it.
    Asked,
    Writing {
        under_way: usize,
        failed: Option<Failure>,
        taken: Option<Outcome>,
    },
    /// The peer reads it.
    Exposed,
}

/// A call that was not answered.
pub(super) struct Call {
    pub(super) peer: PeerId,
    pub(super) ticket: Ticket,
    /// Until it is sent.
    pub(super) body: Option<Vec<u8>>,
}

/// A receive that is not over.
pub(super) struct Receiving<R> {
    pub(super) posted: Option<PostedId>,
    pub(super) length: u64,
    /// It takes no more messages when fewer bytes than this are left.
    pub(super) least: u64,
    pub(super) used: u64,
    /// Messages that are on their way into it.
    pub(super) pending: usize,
    /// It takes no more messages.
    pub(super) is_full: bool,
    /// It ends like this, when no message is on its way into it any more.
    pub(super) failure: Option<Failure>,
    pub(super) user: R,
}

/// Where in a receive a message goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Destination {
    pub(super) receive: ReceiveKey,
    pub(super) offset: u64,
    pub(super) room: u64,
}

impl Destination {
    /// Bytes of a message that fit.
    pub(super) fn fitting(&self, length: u64) -> u64 {
        self.room.min(length)
    }
}

/// A message that has come, or that a peer wants to send.
pub(super) struct Incoming {
    pub(super) peer: PeerId,
    pub(super) envelope: Envelope,
    pub(super) length: u64,
    /// The sender's id of it, if it wants to know when it is in the receive's memory.
    pub(super) acknowledge: Option<u64>,
    pub(super) body: Body,
    /// It has a place in the budget.
    pub(super) has_place: bool,
    /// Bytes that it costs of the budget.
    pub(super) kept: u64,
    /// Bytes that it costs beyond the budget.
    pub(super) beyond: u64,
    /// What it costs apart from all that, since its connection was lost while packets were held for it.
    pub(super) left_behind: u64,
    /// Those that brought it, while they are held for it because it can't be kept.
    pub(super) packets: Vec<PacketKey>,
    /// While no receive has taken it.
    pub(super) place: Option<UnexpectedId>,
    /// Since one has.
    pub(super) destination: Option<Destination>,
    /// It goes nowhere, once it is here.
    pub(super) is_discarded: bool,
}

/// The bytes of a message.
pub(super) enum Body {
    /// They were in the packet.
    Empty,
    Short(Vec<u8>),
    /// Some of them have come (`here`). Those that came before the message met its receive are kept.
    Partial {
        bytes: Vec<u8>,
        here: u64,
    },
    /// The sender waits for a place to write them.
    Asked {
        id: u64,
    },
    /// The sender writes them into a buffer.
    Buffer {
        buffer: BufferId,
        is_written: bool,
    },
    /// The sender writes them into the receive's memory.
    Direct,
    /// We read them.
    Source(Reading),
    /// The sender was lost before they came.
    Lost,
}

/// How far reading is.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) source: Parts,
    /// The part that is read next, and what of it.
    pub(super) part: usize,
    pub(super) part_offset: u64,
    /// Bytes of the message before that.
    pub(super) position: u64,
    pub(super) under_way: usize,
    pub(super) failure: Option<Failure>,
}

impl Reading {
    pub(super) const fn new(source: Parts) -> Self {
        Self { source, part: 0, part_offset: 0, position: 0, under_way: 0, failure: None }
    }
}

impl Incoming {
    pub(super) const fn new(
        peer: PeerId,
        envelope: Envelope,
        length: u64,
        acknowledge: Option<u64>,
        body: Body,
    ) -> Self {
        Self {
            peer,
            envelope,
            length,
            acknowledge,
            body,
            has_place: false,
            kept: 0,
            beyond: 0,
            left_behind: 0,
            packets: Vec::new(),
            place: None,
            destination: None,
            is_discarded: false,
        }
    }

    /// Bytes that it costs to keep it, beside its place and a buffer. What is sent without asking at any time is part
    /// of the place.
    pub(super) fn cost(&self) -> u64 {
        match &self.body {
            Body::Short(bytes) if self.length > UNASKED_BYTES => bytes.capacity() as u64,
            Body::Partial { .. } if self.length > UNASKED_BYTES => pool::capacity(self.length),
            _ => 0,
        }
    }

    /// Whether packets are held for it.
    pub(super) const fn is_held(&self) -> bool {
        !self.packets.is_empty()
    }

    /// Whether it stays with its sender until this side says where to write it, and no receive waits for it.
    pub(super) const fn stays(&self) -> bool {
        matches!(self.body, Body::Asked { .. }) && self.destination.is_none() && !self.is_discarded
    }

    pub(super) const fn waits_for_budget(&self) -> bool {
        self.is_held() || self.beyond > 0
    }

    pub(super) const fn peek(&self) -> Peek {
        let tag = match self.envelope.tag {
            Some(tag) => tag,
            None => 0,
        };
        Peek { source: self.peer, tag, data: self.envelope.data, length: self.length }
    }
}
