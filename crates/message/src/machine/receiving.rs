//! Receives, and the messages that match them.

use weft_base::PeerId;
use weft_wire::message::{Outcome, Record};

use super::Machine;
use super::body::{Body, Event, Step};
use super::keys::{IncomingKey, ReceiveKey};
use super::record::{Destination, Incoming, Receiving};
use super::terms::{Peek, Receive};
use crate::host::{Failure, Host, Received};
use crate::matching::{Match, PostedId};

impl<H: Host> Machine<H> {
    /// Posts a receive, which takes the oldest message that matches: a kept one, or the next one.
    pub fn receive(&mut self, receive: Receive<H::Receive>, host: &mut H) {
        let (source, matching) = (receive.source, receive.matching);
        let key = self.begin_receive(receive);
        self.take_or_post(key, source, matching, host);
    }

    fn begin_receive(&mut self, receive: Receive<H::Receive>) -> ReceiveKey {
        self.receives.insert(Receiving {
            posted: None,
            length: receive.length,
            least: receive.many.map_or(u64::MAX, |least| least.max(1)),
            used: 0,
            pending: 0,
            is_full: false,
            failure: None,
            user: receive.user,
        })
    }

    /// The receive takes kept messages, and is posted if it takes more.
    fn take_or_post(&mut self, key: ReceiveKey, source: Option<PeerId>, matching: Option<Match>, host: &mut H) {
        while let Some(found) = self.matcher.find_unexpected(source, matching) {
            let Some(incoming) = self.matcher.take(found) else { break };
            let (destination, is_full) = self.assign(key, self.incoming[incoming].length);
            self.land(incoming, destination, host);
            if is_full {
                return;
            }
        }
        let posted = self.matcher.post(source, matching, key);
        self.receives[key].posted = Some(posted);
    }

    /// Assigns the next place in a receive to a message of this length. Returns whether the receive is full now.
    fn assign(&mut self, key: ReceiveKey, length: u64) -> (Destination, bool) {
        let receive = &mut self.receives[key];
        let destination = Destination { receive: key, offset: receive.used, room: receive.length - receive.used };
        receive.used += destination.fitting(length);
        receive.pending += 1;
        receive.is_full = receive.length - receive.used < receive.least;
        (destination, receive.is_full)
    }

    /// As [`Machine::assign`], for a posted receive, which is removed if it is full.
    pub(super) fn assign_posted(&mut self, posted: PostedId, length: u64) -> Destination {
        let key = *self.matcher.posted(posted).expect("it was found just now");
        let (destination, is_full) = self.assign(key, length);
        if is_full {
            self.matcher.unpost(posted);
            self.receives[key].posted = None;
        }
        destination
    }

    /// A message has matched its receive.
    pub(super) fn land(&mut self, key: IncomingKey, destination: Destination, host: &mut H) {
        let incoming = &mut self.incoming[key];
        incoming.place = None;
        incoming.destination = Some(destination);
        let fitting = destination.fitting(incoming.length);
        let receive = &mut self.receives[destination.receive].user;
        match incoming.body.on(Event::Match).expect("any message can be matched") {
            Step::Place(bytes) => {
                host.place(receive, destination.offset, &bytes[..fitting as usize]);
                self.finish(key, Ok(()), host);
            }
            Step::PlacePart(bytes) => {
                let fitting = fitting.min(bytes.len() as u64);
                host.place(receive, destination.offset, &bytes[..fitting as usize]);
                self.drop_partial(key);
            }
            Step::Unload(buffer) => {
                host.unload(buffer, receive, destination.offset, fitting);
                self.finish(key, Ok(()), host);
            }
            Step::Clear => {
                self.stop_keeping(key);
                self.clear_direct(key, destination, host);
            }
            Step::Read => {
                self.peers.at(incoming.peer).arriving += 1;
                self.stop_keeping(key);
                self.read_on(key, host);
            }
            Step::Fail => self.finish(key, Err(Failure::PeerLost), host),
            Step::Wait => {}
            _ => self.finish(key, Ok(()), host),
        }
    }

    /// A message is in its receive's memory, or never will be. It is removed, and the sender is notified if it
    /// requested that.
    pub(super) fn finish(&mut self, key: IncomingKey, outcome: Result<(), Failure>, host: &mut H) {
        let Some(incoming) = self.forget(key, host) else { return };
        self.fetch_ahead(host);
        if let Some(id) = incoming.acknowledge {
            let outcome = if outcome.is_ok() { Outcome::Done } else { Outcome::Refused };
            self.peers.answer_in_place(incoming.peer, Record::Taken { id, outcome }, incoming.has_place);
        } else {
            self.release_places(incoming.has_place.into());
        }
        let Some(destination) = incoming.destination else { return };
        match outcome {
            Ok(()) => self.report(&incoming, destination, host),
            Err(failure) => self.report_failure(&incoming, destination, failure, host),
        }
    }

    /// A message that was complete in its packet is in its receive's memory.
    pub(super) fn complete(&mut self, incoming: &Incoming, destination: Destination, host: &mut H) {
        if let Some(id) = incoming.acknowledge {
            self.peers.answer(incoming.peer, Record::Taken { id, outcome: Outcome::Done }, Vec::new());
        }
        self.report(incoming, destination, host);
    }

    /// Frees the resources of a message: its memory, its part of the budget, its packet's credit; but not its place.
    pub(super) fn forget(&mut self, key: IncomingKey, host: &mut H) -> Option<Incoming> {
        self.stop_keeping(key);
        let mut incoming = self.incoming.remove(key)?;
        self.peers.at(incoming.peer).messages -= 1;
        match core::mem::replace(&mut incoming.body, Body::Empty) {
            Body::Short(bytes) | Body::Partial { bytes, .. } => self.pool.give_back(bytes),
            Body::Buffer { buffer, .. } => host.free(buffer),
            _ => {}
        }
        Some(incoming)
    }

    /// Takes the cost of a message: within the budget, or otherwise beyond it as far as its peer may. Returns whether
    /// it can be kept.
    pub(super) fn take_budget(&mut self, key: IncomingKey) -> bool {
        let incoming = &mut self.incoming[key];
        let cost = incoming.cost();
        if !self.budget.has_place() {
            return false;
        }
        if self.budget.take(cost) {
            incoming.kept = cost;
        } else {
            let entry = self.peers.at(incoming.peer);
            let window = self.settings.window(entry.extra_credits);
            if entry.beyond.saturating_add(cost) > window || !self.budget.take_beyond(cost) {
                return false;
            }
            entry.beyond += cost;
            incoming.beyond = cost;
        }
        self.budget.take_place();
        incoming.has_place = true;
        true
    }

    /// The bytes of a message are no longer kept: its part of the budget, or its packets' credits, are returned. It
    /// keeps its place as long as it is recorded.
    pub(super) fn stop_keeping(&mut self, key: IncomingKey) {
        let Some(incoming) = self.incoming.get_mut(key) else { return };
        let waited = incoming.waits_for_budget();
        let kept = core::mem::take(&mut incoming.kept);
        let beyond = core::mem::take(&mut incoming.beyond);
        let packets = core::mem::take(&mut incoming.packets);
        let left_behind = core::mem::take(&mut incoming.left_behind);
        let peer = incoming.peer;
        if waited {
            self.budget.leave();
            self.peers.at(peer).beyond -= beyond;
            self.budget.release_beyond(beyond);
            packets.into_iter().for_each(|packet| self.release_packet(packet));
        }
        if left_behind > 0 {
            self.peers.at(peer).left_behind -= left_behind;
            self.budget.release_left_behind(left_behind);
        }
        if kept > 0 {
            self.budget.release(kept);
            self.use_budget();
        }
    }

    /// Frees places in the budget.
    pub(super) fn release_places(&mut self, count: usize) {
        if count > 0 {
            self.budget.release_places(count);
            self.use_budget();
        }
    }

    /// Moves messages that are kept beyond the budget, or in place of a credit, into it, as far as it goes. One that
    /// does not fit moves behind the others.
    fn use_budget(&mut self) {
        for _ in 0..self.budget.checks() {
            let Some(key) = self.budget.next_waiting() else { break };
            let Some(incoming) = self.incoming.get_mut(key).filter(|incoming| incoming.waits_for_budget()) else {
                continue;
            };
            let was_beyond = incoming.beyond;
            let moves = was_beyond > 0 && self.budget.take(was_beyond);
            if moves {
                incoming.kept = was_beyond;
                incoming.beyond = 0;
                self.peers.at(incoming.peer).beyond -= was_beyond;
                self.budget.release_beyond(was_beyond);
            } else if was_beyond > 0 || !self.take_budget(key) {
                self.budget.wait_on(key);
                continue;
            }
            let incoming = &mut self.incoming[key];
            let packets = core::mem::take(&mut incoming.packets);
            if incoming.beyond > 0 {
                self.budget.wait_on(key);
            } else {
                self.budget.leave();
            }
            packets.into_iter().for_each(|packet| self.release_packet(packet));
        }
        let incoming = &self.incoming;
        self.budget.compact(|key| incoming.get(key).is_some_and(Incoming::waits_for_budget));
    }

    /// Reports that a message is in its receive's memory.
    fn report(&mut self, incoming: &Incoming, destination: Destination, host: &mut H) {
        let length = destination.fitting(incoming.length);
        let outcome =
            if length < incoming.length { Err(Failure::Truncated { length: incoming.length }) } else { Ok(()) };
        self.report_as(incoming, destination, length, outcome, host);
    }

    fn report_failure(&mut self, incoming: &Incoming, destination: Destination, failure: Failure, host: &mut H) {
        self.report_as(incoming, destination, 0, Err(failure), host);
    }

    fn report_as(
        &mut self,
        incoming: &Incoming,
        destination: Destination,
        length: u64,
        outcome: Result<(), Failure>,
        host: &mut H,
    ) {
        let Peek { source, tag, data, .. } = incoming.peek();
        let receive = &mut self.receives[destination.receive];
        receive.pending -= 1;
        let is_over = receive.is_full && receive.pending == 0;
        let failure = receive.failure.filter(|_| is_over);
        let what = Received { source, tag, data, offset: destination.offset, length };
        host.received(&mut receive.user, Some(what), outcome, is_over && failure.is_none());
        if let Some(failure) = failure {
            host.received(&mut receive.user, None, Err(failure), true);
        }
        if is_over {
            self.receives.remove(destination.receive);
        }
    }

    /// A posted receive accepts no more messages, and ends with this failure.
    pub(super) fn end_receive(&mut self, posted: PostedId, failure: Failure, host: &mut H) {
        let Some(key) = self.matcher.unpost(posted) else { return };
        let receive = &mut self.receives[key];
        receive.posted = None;
        receive.is_full = true;
        receive.failure = Some(failure);
        if receive.pending == 0 {
            host.received(&mut receive.user, None, Err(failure), true);
            self.receives.remove(key);
        }
    }

    /// Cancels the oldest posted receive for which `is_it` holds and that no message has matched (of a receive of many
    /// messages: that accepts more of them). Returns whether there was one. Walks all of them.
    pub fn cancel_receive(&mut self, mut is_it: impl FnMut(&H::Receive) -> bool, host: &mut H) -> bool {
        let receives = &self.receives;
        let found = self.matcher.find_posted_by(|key| is_it(&receives[*key].user));
        if let Some(posted) = found {
            self.end_receive(posted, Failure::Canceled, host);
        }
        found.is_some()
    }

    /// The oldest unexpected message that matches. With `claim` it is set aside under that number, for
    /// [`Machine::receive_claimed`] or [`Machine::discard_claimed`]. A number in use finds nothing.
    pub fn peek(&mut self, source: Option<PeerId>, matching: Option<Match>, claim: Option<u64>) -> Option<Peek> {
        let found = self.matcher.find_unexpected(source, matching)?;
        let key = *self.matcher.unexpected(found)?;
        if let Some(claim) = claim {
            if self.claimed.contains_key(&claim) {
                return None;
            }
            self.matcher.take(found);
            self.incoming[key].place = None;
            self.claimed.insert(claim, key);
        }
        Some(self.incoming[key].peek())
    }

    /// Discards the oldest message that matches. Returns its description. To its sender it is delivered.
    pub fn discard(&mut self, source: Option<PeerId>, matching: Option<Match>, host: &mut H) -> Option<Peek> {
        let found = self.matcher.find_unexpected(source, matching)?;
        let key = self.matcher.take(found)?;
        let peek = self.incoming[key].peek();
        self.throw_away(key, host);
        Some(peek)
    }

    /// Receives a message that was set aside. Returns the receive when there is no such message.
    ///
    /// # Errors
    /// No message was set aside under this number.
    pub fn receive_claimed(
        &mut self,
        claim: u64,
        receive: Receive<H::Receive>,
        host: &mut H,
    ) -> Result<(), Receive<H::Receive>> {
        let Some(incoming) = self.claimed.remove(&claim) else { return Err(receive) };
        let (source, matching) = (receive.source, receive.matching);
        let key = self.begin_receive(receive);
        let (destination, is_full) = self.assign(key, self.incoming[incoming].length);
        self.land(incoming, destination, host);
        if !is_full {
            self.take_or_post(key, source, matching, host);
        }
        Ok(())
    }

    /// Discards a message that was set aside. Returns its description, if there was one. To its sender it is delivered.
    pub fn discard_claimed(&mut self, claim: u64, host: &mut H) -> Option<Peek> {
        let key = self.claimed.remove(&claim)?;
        let peek = self.incoming[key].peek();
        self.throw_away(key, host);
        Some(peek)
    }

    fn throw_away(&mut self, key: IncomingKey, host: &mut H) {
        let incoming = &mut self.incoming[key];
        incoming.place = None;
        incoming.is_discarded = true;
        match incoming.body.on(Event::Discard).expect("any message can be discarded") {
            Step::Wait => {}
            Step::Drop => self.drop_partial(key),
            Step::Answer(id) => {
                incoming.acknowledge = Some(id);
                self.finish(key, Ok(()), host);
            }
            _ => self.finish(key, Ok(()), host),
        }
    }
}
