//! A machine's records of messages, calls and receives.

use weft_base::PeerId;
use weft_wire::message::{Envelope, UNASKED_BYTES};

use super::body::Body;
use super::keys::{PacketKey, ReceiveKey};
use super::stage::Stage;
use super::terms::Peek;
use crate::host::{Failure, Ticket};
use crate::matching::{PostedId, UnexpectedId};
use crate::pool;

/// A data packet whose credit is withheld.
pub(super) struct Held {
    pub(super) peer: PeerId,
    /// The number of its records that are still there.
    pub(super) records: usize,
}

/// A peer's call that was not answered.
pub(super) struct Called {
    pub(super) peer: PeerId,
    pub(super) id: u64,
    pub(super) packet: PacketKey,
    /// Until it is passed on.
    pub(super) body: Option<Vec<u8>>,
}

/// A message that has not completed.
pub(super) struct Outgoing<S> {
    pub(super) peer: PeerId,
    pub(super) envelope: Envelope,
    pub(super) length: u64,
    pub(super) delivery: bool,
    /// Decides which of two is older.
    pub(super) order: u64,
    pub(super) stage: Stage,
    pub(super) user: S,
}

/// A call that was not answered.
pub(super) struct Call {
    pub(super) peer: PeerId,
    pub(super) ticket: Ticket,
    /// Until it is sent.
    pub(super) body: Option<Vec<u8>>,
}

/// A receive that is not complete.
pub(super) struct Receiving<R> {
    pub(super) posted: Option<PostedId>,
    pub(super) length: u64,
    /// It accepts no more messages when fewer bytes than this are left.
    pub(super) least: u64,
    pub(super) used: u64,
    /// Messages in transfer into it.
    pub(super) pending: usize,
    /// It accepts no more messages.
    pub(super) is_full: bool,
    /// Its failure, reported when no message is in transfer into it any more.
    pub(super) failure: Option<Failure>,
    pub(super) user: R,
}

/// The destination of a message in a receive.
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

/// A message that was received, or that a peer wants to send.
pub(super) struct Incoming {
    pub(super) peer: PeerId,
    pub(super) envelope: Envelope,
    pub(super) length: u64,
    /// The sender's id of it, if it requests an acknowledgement of delivery.
    pub(super) acknowledge: Option<u64>,
    pub(super) body: Body,
    /// Whether it has a place in the budget.
    pub(super) has_place: bool,
    /// Its cost within the budget, in bytes.
    pub(super) kept: u64,
    /// Its cost beyond the budget, in bytes.
    pub(super) beyond: u64,
    /// Its cost outside both, since its connection was lost while packets were held for it.
    pub(super) left_behind: u64,
    /// Its packets, while they are held for it because it cannot be kept.
    pub(super) packets: Vec<PacketKey>,
    /// While no receive has taken it.
    pub(super) place: Option<UnexpectedId>,
    /// Since one has.
    pub(super) destination: Option<Destination>,
    /// Whether it is discarded when it is complete.
    pub(super) is_discarded: bool,
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

    /// Bytes that it costs to keep it, besides its place and a buffer. Small messages are part of the place.
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

    /// Whether it stays with its sender until this side tells where to write it, and no receive waits for it.
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
