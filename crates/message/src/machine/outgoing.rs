//! Outgoing messages and calls.

use weft_base::PeerId;
use weft_wire::message::{Envelope, Outcome, Parts, Record};

use slotmap::KeyData;

use super::Machine;
use super::keys::{CallKey, SendKey, write_ticket};
use super::peer::{Link, Queued};
use super::record::{Call, Outgoing};
use super::stage::{Event, Stage, Step};
use super::terms::{Send, Violation};
use crate::host::{Failure, Host, Ticket};

impl<H: Host> Machine<H> {
    /// Sends a message. It is queued when it cannot be sent at once; [`Host::sent`] reports its completion.
    pub fn send(&mut self, send: Send<H::Send>, host: &mut H) {
        let Send { peer, tag, data, length, delivery, user } = send;
        self.order += 1;
        let key = self.outgoing.insert(Outgoing {
            peer,
            envelope: Envelope { tag, data },
            length,
            delivery,
            order: self.order,
            stage: Stage::Queued,
            user,
        });
        self.enqueue(peer, Queued::Message(key), host);
    }

    /// Calls a peer's NIC: `body` is at most [`crate::Settings::short_bytes`] long. Answered by [`Host::answered`].
    pub fn call(&mut self, peer: PeerId, ticket: Ticket, body: &[u8], host: &mut H) {
        let body = Some(self.pool.take(body));
        let key = self.calls.insert(Call { peer, ticket, body });
        self.enqueue(peer, Queued::Call(key), host);
    }

    fn enqueue(&mut self, peer: PeerId, queued: Queued, host: &mut H) {
        let entry = self.peers.at(peer);
        entry.queue.push_back(queued);
        entry.under_way += 1;
        self.connect_if_needed(peer, host);
        self.peers.wake(peer);
    }

    /// Requests a connection if there is none and something waits for it.
    pub(super) fn connect_if_needed(&mut self, peer: PeerId, host: &mut H) {
        let entry = self.peers.at(peer);
        if entry.link == Link::Apart && !entry.queue.is_empty() {
            entry.link = Link::Connecting;
            host.connect(peer);
        }
    }

    /// Cancels the oldest send for which `is_it` holds and of which nothing was sent. Returns whether there was one.
    /// Walks all sends.
    pub fn cancel_send(&mut self, mut is_it: impl FnMut(&H::Send) -> bool, host: &mut H) -> bool {
        let fitting = self.outgoing.iter().filter(|(_, send)| send.stage == Stage::Queued && is_it(&send.user));
        let Some((key, peer)) = fitting.min_by_key(|(_, send)| send.order).map(|(key, send)| (key, send.peer)) else {
            return false;
        };
        self.peers.at(peer).queue.retain(|queued| *queued != Queued::Message(key));
        self.complete_send(key, Err(Failure::Canceled), host);
        true
    }

    pub(super) fn complete_send(&mut self, key: SendKey, outcome: Result<(), Failure>, host: &mut H) {
        if let Some(outgoing) = self.outgoing.remove(key) {
            self.peers.at(outgoing.peer).under_way -= 1;
            host.sent(outgoing.user, outcome);
        }
    }

    fn find_send(&self, peer: PeerId, id: u64) -> Result<SendKey, Violation> {
        let key = SendKey::from(KeyData::from_ffi(id));
        let known = self.outgoing.get(key).is_some_and(|outgoing| outgoing.peer == peer);
        if known { Ok(key) } else { Err(Violation("a record names a message that this side does not send")) }
    }

    /// The peer tells where to write a message.
    pub(super) fn on_clear(
        &mut self,
        peer: PeerId,
        id: u64,
        sink_id: u64,
        sink: &Parts,
        host: &mut H,
    ) -> Result<(), Violation> {
        let key = self.find_send(peer, id)?;
        let outgoing = &mut self.outgoing[key];
        let writes = sink.iter().filter(|part| part.length > 0).count();
        let step = outgoing.stage.on(Event::Clear { writes }, outgoing.delivery)?;
        if total(sink).is_none_or(|total| total > outgoing.length) {
            return Err(Violation("a message is cleared for more bytes than it has"));
        }
        let mut position = 0;
        for part in sink.iter().filter(|part| part.length > 0) {
            host.write(peer, write_ticket(key), &mut outgoing.user, position, *part);
            position += part.length;
        }
        self.peers.answer(peer, Record::Written { sink_id }, Vec::new());
        self.follow(key, step, host);
        Ok(())
    }

    /// One of the writes of a message has ended.
    pub(super) fn on_written(&mut self, key: SendKey, outcome: Result<(), Failure>, host: &mut H) {
        // A write may end after its message was lost.
        if self.outgoing.contains_key(key) {
            self.advance(key, Event::Written(outcome), host).expect("the table refuses no write of this side");
        }
    }

    /// The peer has received a message, or never will.
    pub(super) fn on_taken(&mut self, peer: PeerId, id: u64, outcome: Outcome, host: &mut H) -> Result<(), Violation> {
        let key = self.find_send(peer, id)?;
        self.advance(key, Event::Taken(outcome), host)
    }

    /// What follows from an event for a message that is still here.
    pub(super) fn advance(&mut self, key: SendKey, event: Event, host: &mut H) -> Result<(), Violation> {
        let outgoing = &self.outgoing[key];
        let step = outgoing.stage.on(event, outgoing.delivery)?;
        self.follow(key, step, host);
        Ok(())
    }

    fn follow(&mut self, key: SendKey, step: Step, host: &mut H) {
        match step {
            Step::To(stage) => self.outgoing[key].stage = stage,
            Step::Complete(outcome) => self.complete_send(key, outcome, host),
        }
    }

    /// The answer to a call.
    pub(super) fn on_answer(
        &mut self,
        peer: PeerId,
        id: u64,
        answer: Result<&[u8], Failure>,
        host: &mut H,
    ) -> Result<(), Violation> {
        let key = CallKey::from(KeyData::from_ffi(id));
        if self.calls.get(key).is_none_or(|call| call.peer != peer || call.body.is_some()) {
            return Err(Violation("an answer to a call that was not made"));
        }
        self.complete_call(key, answer, host);
        Ok(())
    }

    pub(super) fn complete_call(&mut self, key: CallKey, answer: Result<&[u8], Failure>, host: &mut H) {
        if let Some(call) = self.calls.remove(key) {
            self.peers.at(call.peer).under_way -= 1;
            call.body.into_iter().for_each(|body| self.pool.give_back(body));
            host.answered(call.ticket, answer);
        }
    }
}

/// Total length of the parts. `None` if that, or an end of a part, overflows.
pub(super) fn total(parts: &Parts) -> Option<u64> {
    parts.iter().try_fold(0_u64, |total, part| {
        part.offset.checked_add(part.length)?;
        total.checked_add(part.length)
    })
}
