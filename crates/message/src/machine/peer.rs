//! The state of each peer, and the queue of those with something to send.

use std::collections::VecDeque;

use weft_base::{PeerId, Time};
use weft_wire::message::Record;

use super::credits::{Allowance, CreditsOwed};
use super::keys::{AnswerKey, CallKey, IncomingKey, SendKey};
use super::terms::Terms;

/// While this many records wait for control credits, a peer gets no data credits back, for with them it could make us
/// queue more.
pub(crate) const CONTROL_BACKLOG: usize = 512;

/// The maximum number of a peer's calls being answered. Others wait, in their packets,
const ANSWERED_AT_A_TIME: usize = 32;
/// also while this many bytes of answers wait to be sent: a call may be much shorter than its answer.
const ANSWER_BYTES: usize = 64 * 1024;

/// A queue of records that has become longer than this is freed when it is empty.
const RECORDS_KEPT: usize = 1024;

/// The maximum bytes of answers queued for one peer, when each has at most `longest`.
pub(crate) const fn most_answer_bytes(longest: u32) -> u64 {
    (ANSWER_BYTES + ANSWERED_AT_A_TIME * longest as usize) as u64
}

/// At most this many answers wait for a packet that can carry them.
const PATIENT_ANSWERS: usize = 8;

/// The state of a peer's connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Link {
    #[default]
    Apart,
    Connecting,
    Open,
    /// We have asked to close it, and send nothing new until the peer has answered.
    Closing,
    /// We have agreed to close it: the peer will.
    Agreed,
}

/// A message or call that waits for a data credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queued {
    Message(SendKey),
    Call(CallKey),
}

/// A record that waits for a control credit, and its body.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) record: Record,
    pub(super) body: Vec<u8>,
    /// Whether it has the place in the budget of the message that it is about.
    pub(super) has_place: bool,
}

pub(super) struct Peer {
    /// The id of the peer at this place.
    pub(super) id: PeerId,
    pub(super) link: Link,
    pub(super) packet_bytes: u32,
    pub(super) data: Allowance,
    pub(super) control: Allowance,
    pub(super) data_debt: CreditsOwed,
    pub(super) control_debt: CreditsOwed,
    /// Data credits that were granted to it, or are about to be, beyond those of its terms.
    pub(super) extra_credits: u32,
    /// Whether a round trip to it takes longer than copies of long messages.
    pub(super) is_far: bool,
    /// Whether it is short of memory for unexpected messages.
    pub(super) is_scarce: bool,
    pub(super) queue: VecDeque<Queued>,
    pub(super) controls: VecDeque<Control>,
    /// Its waiting calls, oldest first.
    pub(super) calls: VecDeque<AnswerKey>,
    /// The number of its calls being answered.
    pub(super) answering: usize,
    /// Bytes of answers that wait to be sent.
    pub(super) answer_bytes: usize,
    /// Whether [`super::Machine::reserve_packet`] waits for a data credit.
    pub(super) reserving: bool,
    /// Sends and calls of ours that have not completed, and the count of [`super::Machine::hold`].
    pub(super) under_way: usize,
    /// Its messages in transfer to our memory.
    pub(super) arriving: usize,
    /// Its messages recorded here, wherever their bytes are.
    pub(super) messages: usize,
    /// The message whose packets are being received, if any.
    pub(super) streaming: Option<IncomingKey>,
    /// Bytes of its messages kept beyond the budget, whether it is connected or not.
    pub(super) beyond: u64,
    /// Bytes of messages that its lost connections have left behind.
    pub(super) left_behind: u64,
    pub(super) last_active: Time,
    /// Whether it is in the queue of peers that can send.
    flagged: bool,
}

impl Peer {
    fn new(id: PeerId) -> Self {
        Self {
            id,
            link: Link::Apart,
            packet_bytes: 0,
            data: Allowance::default(),
            control: Allowance::default(),
            data_debt: CreditsOwed::default(),
            control_debt: CreditsOwed::default(),
            extra_credits: 0,
            is_far: false,
            is_scarce: false,
            queue: VecDeque::new(),
            controls: VecDeque::new(),
            calls: VecDeque::new(),
            answering: 0,
            answer_bytes: 0,
            reserving: false,
            under_way: 0,
            arriving: 0,
            messages: 0,
            streaming: None,
            beyond: 0,
            left_behind: 0,
            last_active: Time::ZERO,
            flagged: false,
        }
    }

    /// Whether nothing refers to it.
    fn is_over(&self) -> bool {
        self.link == Link::Apart && !self.is_busy() && self.messages == 0 && self.calls.is_empty() && !self.flagged
    }

    pub(super) const fn is_connected(&self) -> bool {
        matches!(self.link, Link::Open | Link::Closing | Link::Agreed)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.under_way > 0 || self.arriving > 0 || !self.queue.is_empty() || !self.controls.is_empty()
    }

    /// Whether a data packet can be sent. The last credit is left to a reservation.
    pub(super) fn can_send_data(&self) -> bool {
        self.link == Link::Open && !self.queue.is_empty() && self.data.left() > u16::from(self.reserving)
    }

    pub(super) fn can_send_control(&self) -> bool {
        !self.controls.is_empty() && self.control.left() > 0
    }

    pub(super) fn can_reserve(&self) -> bool {
        self.reserving && self.link == Link::Open && self.data.left() > 0
    }

    /// Whether another of its calls may be passed on.
    pub(super) fn may_call(&self) -> bool {
        self.answering < ANSWERED_AT_A_TIME && self.answer_bytes < ANSWER_BYTES
    }

    /// Removes the next record to be sent.
    pub(super) fn pop_control(&mut self) -> Option<Control> {
        let control = self.controls.pop_front()?;
        self.answer_bytes -= control.body.len();
        if self.controls.is_empty() && self.controls.capacity() > RECORDS_KEPT {
            self.controls = VecDeque::new();
        }
        Some(control)
    }

    /// Whether something is to be said of credits, if need be by a packet of its own.
    pub(super) fn is_word_due(&self) -> bool {
        self.data.asks() || self.control_debt.is_due() || (self.gives_data_back() && self.data_debt.is_due())
    }

    pub(super) fn gives_data_back(&self) -> bool {
        self.controls.len() < CONTROL_BACKLOG
    }

    /// Whether the peer waits for none of what can be sent: acknowledgements of messages, and credits.
    pub(super) fn is_patient(&self) -> bool {
        !self.can_send_data()
            && !self.can_reserve()
            && self.controls.len() <= PATIENT_ANSWERS
            && self.controls.iter().all(|control| matches!(control.record, Record::Taken { .. }))
    }

    fn is_ready(&self) -> bool {
        self.is_connected()
            && (self.can_send_data() || self.can_send_control() || self.can_reserve() || self.is_word_due())
    }
}

/// All peers, by their places.
#[derive(Default)]
pub(super) struct Peers {
    slots: Vec<Peer>,
    ready: VecDeque<PeerId>,
}

impl Peers {
    /// A peer, which is not connected if it is new.
    #[inline]
    pub(super) fn at(&mut self, peer: PeerId) -> &mut Peer {
        let index = peer.place();
        if index >= self.slots.len() {
            self.make_room(index);
        }
        let entry = &mut self.slots[index];
        debug_assert_eq!(entry.id, peer, "a peer that was forgotten");
        entry
    }

    #[cold]
    fn make_room(&mut self, index: usize) {
        let new = self.slots.len()..=index;
        self.slots.extend(new.map(|place| Peer::new(PeerId(place as u32))));
    }

    pub(super) fn get(&self, peer: PeerId) -> Option<&Peer> {
        self.slots.get(peer.place()).filter(|entry| entry.id == peer)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (PeerId, &Peer)> {
        self.slots.iter().map(|entry| (entry.id, entry))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (PeerId, &mut Peer)> {
        self.slots.iter_mut().map(|entry| (entry.id, entry))
    }

    /// Reuses its place, if nothing refers to it. Returns whether that was so.
    pub(super) fn forget(&mut self, peer: PeerId) -> bool {
        let entry = self.at(peer);
        let is_over = entry.is_over();
        if is_over {
            *entry = Peer::new(peer.next());
        }
        is_over
    }

    /// The peer's state has changed: perhaps it can send now.
    pub(super) fn wake(&mut self, peer: PeerId) {
        let entry = self.at(peer);
        if !entry.flagged && entry.is_ready() {
            entry.flagged = true;
            self.ready.push_back(peer);
        }
    }

    /// Queues a record for a peer, ahead of all messages.
    pub(super) fn answer(&mut self, peer: PeerId, record: Record, body: Vec<u8>) {
        self.push_control(peer, Control { record, body, has_place: false });
    }

    /// As [`Peers::answer`], for the last record about a message, which may have had a place in the budget. A peer that
    /// does not let it be sent does not get the place back.
    pub(super) fn answer_in_place(&mut self, peer: PeerId, record: Record, has_place: bool) {
        self.push_control(peer, Control { record, body: Vec::new(), has_place });
    }

    fn push_control(&mut self, peer: PeerId, control: Control) {
        let entry = self.at(peer);
        entry.answer_bytes += control.body.len();
        entry.controls.push_back(control);
        self.wake(peer);
    }

    /// Takes the next peer that can send from the queue.
    pub(super) fn next_ready(&mut self) -> Option<PeerId> {
        while let Some(peer) = self.ready.pop_front() {
            let entry = self.at(peer);
            entry.flagged = false;
            if entry.is_ready() {
                // A reservation takes precedence over the next packet.
                if entry.data.left() > 0 {
                    entry.reserving = false;
                }
                return Some(peer);
            }
        }
        None
    }

    /// A connection is established: all credits are available.
    pub(super) fn open(&mut self, peer: PeerId, terms: Terms, data: u16, control: u16, now: Time) {
        let entry = self.at(peer);
        entry.link = Link::Open;
        entry.packet_bytes = terms.packet_bytes;
        entry.data = Allowance::new(terms.data_credits);
        entry.control = Allowance::new(terms.control_credits);
        entry.data_debt = CreditsOwed::new(data);
        entry.control_debt = CreditsOwed::new(control);
        entry.last_active = now;
        self.wake(peer);
    }

    /// The connection is lost. Queued messages stay. Returns the number of budget places of records that are dropped,
    /// and the number of credits that the peer had beyond its terms.
    pub(super) fn part(&mut self, peer: PeerId) -> (usize, u32) {
        let entry = self.at(peer);
        let places = entry.controls.iter().filter(|control| control.has_place).count();
        entry.link = Link::Apart;
        entry.data = Allowance::default();
        entry.control = Allowance::default();
        entry.data_debt = CreditsOwed::default();
        entry.control_debt = CreditsOwed::default();
        // Their memory too: there may be many short-lived peers.
        entry.controls = VecDeque::new();
        entry.calls = VecDeque::new();
        entry.answering = 0;
        entry.answer_bytes = 0;
        entry.reserving = false;
        entry.arriving = 0;
        entry.streaming = None;
        entry.is_far = false;
        entry.is_scarce = false;
        (places, core::mem::take(&mut entry.extra_credits))
    }
}
