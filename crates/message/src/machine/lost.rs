//! Connecting, closing and loss of connections.

use core::time::Duration;

use weft_base::{PeerId, Time};
use weft_wire::message::Record;

use super::Machine;
use super::body::{Body, Event, Step};
use super::credits::LONG_WAIT;
use super::keys::IncomingKey;
use super::peer::Link;
use super::record::Outgoing;
use super::stage::Stage;
use super::terms::{Terms, Violation};
use crate::host::{Failure, Host};
use crate::settings::Settings;

impl<H: Host> Machine<H> {
    /// A connection to a peer is established, by either side. If there was an earlier one, it is lost.
    pub fn handle_connected(&mut self, peer: PeerId, terms: Terms, now: Time, host: &mut H) {
        if self.peers.at(peer).is_connected() {
            self.handle_lost(peer, false, host);
        }
        let (data, control) = (self.settings.data_credits, self.settings.control_credits);
        self.peers.open(peer, terms, data, control, now);
    }

    /// The shortest round trip to a connected peer.
    pub fn note_round_trip(&mut self, peer: PeerId, round_trip: Duration) {
        self.peers.at(peer).is_far = round_trip >= LONG_WAIT;
    }

    /// The connection to a peer is lost, or could not be made: everything under way with it fails. With `abrupt`,
    /// receives that wait for this peer alone fail too. Afterwards the peer is as if it had never been connected. No
    /// transfer with it touches memory any more. If both sides had agreed to close it, queued messages wait for a new
    /// connection.
    pub fn handle_lost(&mut self, peer: PeerId, abrupt: bool, host: &mut H) {
        let by_agreement = matches!(self.peers.at(peer).link, Link::Closing | Link::Agreed);
        let (places, extra_credits) = self.peers.part(peer);
        self.extra_credits -= extra_credits;
        self.packets.retain(|_, held| held.peer != peer);
        self.called.retain(|_, called| called.peer != peer);
        self.release_places(places);
        if !by_agreement {
            self.lose_outgoing(peer, host);
        }
        self.lose_incoming(peer, host);
        if abrupt {
            for posted in self.matcher.posted_for(peer) {
                self.end_receive(posted, Failure::PeerLost, host);
            }
        }
        self.connect_if_needed(peer, host);
    }

    fn lose_outgoing(&mut self, peer: PeerId, host: &mut H) {
        self.peers.at(peer).queue.clear();
        let sends = self.outgoing.iter().filter(|(_, send)| send.peer == peer);
        let mut sends: Vec<_> = sends.map(|(key, send)| (send.order, key)).collect();
        sends.sort_unstable();
        for (_, key) in sends {
            self.complete_send(key, Err(Failure::PeerLost), host);
        }
        let calls: Vec<_> = self.calls.iter().filter(|(_, call)| call.peer == peer).map(|(key, _)| key).collect();
        for key in calls {
            self.complete_call(key, Err(Failure::PeerLost), host);
        }
    }

    /// Complete messages stay. The others are lost, and fail their receive.
    fn lose_incoming(&mut self, peer: PeerId, host: &mut H) {
        let keys: Vec<_> =
            self.incoming.iter().filter(|(_, message)| message.peer == peer).map(|(key, _)| key).collect();
        for key in keys {
            let incoming = &mut self.incoming[key];
            incoming.acknowledge = None;
            let is_whole = incoming.body.on(Event::Lose) == Ok(Step::Keep);
            if is_whole && incoming.destination.is_none() {
                self.leave_behind(key, host);
            } else {
                self.lose_message(key, host);
            }
        }
    }

    /// A complete message stays: where it can be kept without the packets that were held for it, or otherwise within
    /// the limits of what its peer, and all of them, may leave behind.
    fn leave_behind(&mut self, key: IncomingKey, host: &mut H) {
        let incoming = &mut self.incoming[key];
        if core::mem::take(&mut incoming.packets).is_empty() {
            return;
        }
        let is_kept = self.take_budget(key);
        let incoming = &mut self.incoming[key];
        if incoming.beyond == 0 {
            self.budget.leave();
        }
        if is_kept {
            return;
        }
        let cost = incoming.cost().saturating_add(Settings::MESSAGE_BYTES);
        let entry = self.peers.at(incoming.peer);
        let most = self.settings.left_behind();
        if entry.left_behind.saturating_add(cost) <= most && self.budget.leave_behind(cost, most) {
            entry.left_behind += cost;
            incoming.left_behind = cost;
        } else {
            self.lose_message(key, host);
        }
    }

    fn lose_message(&mut self, key: IncomingKey, host: &mut H) {
        let incoming = &mut self.incoming[key];
        if incoming.destination.is_some() {
            if let Body::Direct = incoming.body {
                self.conceal(key, host);
            }
            self.finish(key, Err(Failure::PeerLost), host);
        } else if let Some(place) = incoming.place {
            self.matcher.take(place);
            self.drop_message(key, host);
        } else if incoming.is_discarded {
            self.drop_message(key, host);
        } else {
            // It is claimed: its receive will fail.
            match core::mem::replace(&mut incoming.body, Body::Lost) {
                Body::Buffer { buffer, .. } => host.free(buffer),
                Body::Partial { bytes, .. } => self.pool.give_back(bytes),
                _ => {}
            }
        }
    }

    fn drop_message(&mut self, key: IncomingKey, host: &mut H) {
        let had_place = self.forget(key, host).is_some_and(|incoming| incoming.has_place);
        self.release_places(had_place.into());
    }

    /// Forgets an unused peer: it is not connected, nothing is under way with it, and no message of it is kept. From
    /// then on its place is that of [`PeerId::next`]. There must be no receive for it alone. Returns whether it was
    /// forgotten.
    pub fn forget_peer(&mut self, peer: PeerId) -> bool {
        self.peers.forget(peer)
    }

    /// Whether a receive waits for messages of this peer alone. Walks all posted ones.
    #[must_use]
    pub fn has_receives_for(&self, peer: PeerId) -> bool {
        !self.matcher.posted_for(peer).is_empty()
    }

    /// An operation other than a message is under way with a peer, so that its connection is not idle. Undone by
    /// [`Machine::release`].
    pub fn hold(&mut self, peer: PeerId) {
        self.peers.at(peer).under_way += 1;
    }

    /// Undoes [`Machine::hold`].
    pub fn release(&mut self, peer: PeerId) {
        let entry = self.peers.at(peer);
        debug_assert!(entry.under_way > 0, "released more often than held");
        entry.under_way = entry.under_way.saturating_sub(1);
    }

    /// Whether anything is under way with a peer: unfinished or queued.
    #[must_use]
    pub fn is_busy(&self, peer: PeerId) -> bool {
        self.peers.get(peer).is_some_and(super::peer::Peer::is_busy)
    }

    /// Whether any accepted operation with peers that count still needs work here: to be sent, written, answered, or
    /// acknowledged. A message that the peer knows of and that waits for its program does not, unless `is_promised`
    /// says that the application counts it as sent.
    #[must_use]
    pub fn owes(&self, counts: impl Fn(PeerId) -> bool, is_promised: impl Fn(&H::Send) -> bool) -> bool {
        let waits = |send: &Outgoing<H::Send>| match send.stage {
            Stage::Queued | Stage::Streaming { .. } | Stage::Writing(_) => true,
            Stage::Delivering | Stage::Asked | Stage::Exposed => is_promised(&send.user),
        };
        self.calls.values().any(|call| counts(call.peer))
            || self.peers.iter().any(|(id, peer)| !(peer.queue.is_empty() && peer.controls.is_empty()) && counts(id))
            || self.outgoing.values().any(|send| waits(send) && counts(send.peer))
    }

    /// Handles time: closes idle connections. Returns when to call this next.
    pub fn handle_time(&mut self, now: Time, _host: &mut H) -> Option<Time> {
        let timeout = self.settings.idle_timeout?;
        if now < self.deadline {
            return Some(self.deadline);
        }
        self.deadline = now + timeout;
        let mut idle = Vec::new();
        let mut any = false;
        for (peer, entry) in self.peers.iter_mut() {
            any |= entry.link == Link::Open;
            if entry.link == Link::Open && !entry.is_busy() && entry.data_debt.held() == 0 {
                let due = entry.last_active + timeout;
                if due <= now {
                    entry.link = Link::Closing;
                    idle.push(peer);
                } else {
                    self.deadline = self.deadline.min(due);
                }
            }
        }
        for peer in idle {
            self.peers.answer(peer, Record::Close, Vec::new());
        }
        any.then_some(self.deadline)
    }

    /// Whether a connection to a peer was requested and is not established yet.
    #[must_use]
    pub fn is_connecting(&self, peer: PeerId) -> bool {
        self.peers.get(peer).is_some_and(|entry| entry.link == Link::Connecting)
    }

    /// Whether an operation other than a message may begin with a peer: it is connected, and neither side has asked to
    /// close.
    #[must_use]
    pub fn is_open(&self, peer: PeerId) -> bool {
        self.peers.get(peer).is_some_and(|entry| entry.link == Link::Open)
    }

    /// Whether messages or calls to a peer wait for a packet: later operations must wait too.
    #[must_use]
    #[inline]
    pub fn has_queued(&self, peer: PeerId) -> bool {
        self.peers.get(peer).is_some_and(|entry| !entry.queue.is_empty())
    }

    pub(super) fn on_close(&mut self, peer: PeerId, host: &mut H) -> Result<(), Violation> {
        let entry = self.peers.at(peer);
        match entry.link {
            Link::Open => {
                let agreed = !entry.is_busy() && entry.data_debt.held() == 0;
                if agreed {
                    entry.link = Link::Agreed;
                }
                self.peers.answer(peer, Record::CloseAnswer { agreed }, Vec::new());
            }
            // Both have asked.
            Link::Closing => self.close(peer, host),
            _ => return Err(Violation("a peer closes twice")),
        }
        Ok(())
    }

    pub(super) fn on_close_answer(&mut self, peer: PeerId, agreed: bool, host: &mut H) -> Result<(), Violation> {
        let entry = self.peers.at(peer);
        if entry.link != Link::Closing {
            return Err(Violation("an answer to a question that was not asked"));
        }
        if agreed {
            self.close(peer, host);
        } else {
            entry.link = Link::Open;
            self.peers.wake(peer);
        }
        Ok(())
    }

    fn close(&mut self, peer: PeerId, host: &mut H) {
        host.disconnect(peer);
        self.handle_lost(peer, false, host);
    }
}
