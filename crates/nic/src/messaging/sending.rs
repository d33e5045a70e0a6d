//! What an endpoint's queue pairs are to send: packets of the messages' machine, and work requests of transfers, in
//! their order.

use weft_base::{Clock, PeerId, Time};
use weft_rdmap::{RequestFlags, SendRequest};

use super::Engine;
use super::core::Core;
use super::host::{NicHost, send_of};
use super::link::{Link, Purpose};
use super::phase::Phase;
use super::request::EndpointFailure;
use super::transfer::{Transfer, Work};
use super::unique_queue::UniqueQueue;
use crate::ids::LinkKey;
use crate::lower::{Carrier, Passed};

impl Core {
    /// Posts what is to be posted, and has the engine send it.
    pub(super) fn flush<N: Carrier, C: Clock>(&mut self, engine: &mut Engine<N, C>) -> bool {
        let mut any = false;
        loop {
            let mut progress = self.host.has_asked() && self.follow(engine);
            progress |= !self.host.listed.is_empty() && self.pump_listed(engine.now());
            progress |= self.send_packets(engine);
            any |= progress;
            if !progress {
                break;
            }
        }
        self.host.counts.move_to(&mut engine.counters);
        while let Some(key) = self.rung.pop() {
            let Some(link) = self.links.get_mut(key.0) else { continue };
            link.is_rung = false;
            if let Some(place) = link.queue_pair.connection() {
                engine.send_posted(place.key);
            }
        }
        any
    }

    /// Does what the messages' machine has requested.
    fn follow<N: Carrier, C: Clock>(&mut self, engine: &mut Engine<N, C>) -> bool {
        let mut any = false;
        // A peer may be both: the old connection makes way for the new one.
        while let Some(peer) = self.host.to_disconnect.pop() {
            any = true;
            self.disconnect(peer, engine);
        }
        while let Some(peer) = self.host.to_connect.pop() {
            any = true;
            self.open(peer, engine);
        }
        while let Some((peer, packets)) = self.host.to_widen.pop() {
            any = true;
            let key = self.host.peers.get(peer).and_then(|known| known.link);
            let is_there = key.and_then(|key| self.links.get_mut(key.0)).is_some_and(|link| link.add_receives(packets));
            self.machine.handle_room(peer, is_there);
        }
        while let Some(peer) = self.host.to_break.pop() {
            any = true;
            if let Some(key) = self.host.peers.get(peer).and_then(|known| known.link) {
                self.break_link(key);
            }
        }
        while let Some(ticket) = self.host.failed.pop() {
            any = true;
            self.machine.handle_transferred(ticket, Err(weft_message::Failure::NoMemory), &mut self.host);
        }
        for called in core::mem::take(&mut self.host.calls) {
            any = true;
            self.host.counts.endpoint_calls += 1;
            let answer = super::atomic::execute(&self.host.registry, self.host.domain, self.address.id, &called.body);
            self.machine.answer(called.call, &answer, &mut self.host);
        }
        for answered in core::mem::take(&mut self.host.answers) {
            any = true;
            self.finish_call(answered);
        }
        any
    }

    fn pump_listed(&mut self, now: Time) -> bool {
        let mut any = false;
        for _ in 0..self.host.listed.len() {
            let Some(peer) = self.host.listed.pop_front() else { break };
            any |= self.pump(peer, now);
            let Some(known) = self.host.peers.get_mut(peer) else { continue };
            if known.work.is_empty() {
                known.is_listed = false;
            } else {
                self.host.listed.push_back(peer);
            }
        }
        any
    }

    /// Posts one-sided work with a peer, as far as possible. Returns whether any was.
    fn pump(&mut self, peer: PeerId, now: Time) -> bool {
        let mut any = false;
        loop {
            let Some(known) = self.host.peers.get_mut(peer) else { return any };
            if known.is_self {
                let Some(work) = known.work.pop_front() else { return any };
                self.do_with_self(peer, work);
                any = true;
                continue;
            }
            let Some(link) = known.link.and_then(|key| self.links.get_mut(key.0)) else {
                if !known.work.is_empty() && !known.awaited {
                    self.host.to_connect.push(peer);
                    return true;
                }
                return any;
            };
            if link.phase != Phase::Up || !link.has_place() {
                return any;
            }
            match known.work.front() {
                None => return any,
                // A connection that is about to be closed by agreement takes nothing new; another one will.
                Some(work) if work.is_user() && !self.machine.is_open(peer) => return any,
                // What the application has sent before it goes before it (FI_ORDER_RAS, FI_ORDER_WAS).
                Some(Work::User { .. }) if self.machine.has_queued(peer) => {
                    // Packets may in turn wait for a transfer of a message's own.
                    let Some(own) = known.work.iter().position(|work| !work.is_user()) else { return any };
                    if let Some(own) = known.work.remove(own) {
                        known.work.push_front(own);
                    }
                    continue;
                }
                Some(Work::Protocol { .. }) => {
                    let Some(Work::Protocol { ticket, operation }) = known.work.pop_front() else { return any };
                    let number = self.host.transfers.add(Transfer::Protocol(ticket));
                    let id = Purpose::Transfer(number).id(link.key);
                    let request =
                        SendRequest { id, operation, signaled: true, fence: false, flags: RequestFlags::NONE };
                    let taken = link.post(request);
                    Self::ring(&mut self.rung, link);
                    if !taken {
                        self.host.transfers.remove(number);
                        self.host.failed.push(ticket);
                    }
                }
                Some(Work::Send(post)) => {
                    if post.fence && known.under_way > 0 {
                        return any;
                    }
                    let Some(Work::Send(post)) = known.work.pop_front() else { return any };
                    known.under_way += 1;
                    self.machine.send(send_of(*post), &mut self.host);
                }
                Some(Work::User { number, fence }) => {
                    let (number, fence) = (*number, *fence);
                    if fence && known.under_way > 0 && !self.is_begun(number) {
                        return any;
                    }
                    if !self.post_user(peer, number, now) {
                        return any;
                    }
                }
            }
            any = true;
        }
    }

    fn is_begun(&self, number: u32) -> bool {
        matches!(self.host.transfers.get(number), Some(Transfer::User(transfer)) if transfer.is_begun())
    }

    pub(super) fn ring_for(&mut self, peer: PeerId) {
        let key = self.host.peers.get(peer).and_then(|known| known.link);
        if let Some(link) = key.and_then(|key| self.links.get_mut(key.0)) {
            Self::ring(&mut self.rung, link);
        }
    }

    pub(super) fn ring(rung: &mut UniqueQueue<LinkKey>, link: &mut Link) {
        if link.is_rung {
            rung.push(link.key);
        }
    }

    /// Posts the next work request of the application's transfer or atomic at the head of a peer's work. Returns
    /// whether that made progress.
    fn post_user(&mut self, peer: PeerId, number: u32, now: Time) -> bool {
        match self.host.transfers.get_mut(number) {
            Some(Transfer::User(transfer)) => {
                let (needs_credit, before) = (transfer.needs_credit(), transfer.under_way);
                if needs_credit && !self.machine.reserve_packet(peer, now) {
                    return false;
                }
                let went_on = self.post_transfer(peer, number);
                if needs_credit && !self.is_under_way(number, before) {
                    self.machine.return_packet(peer);
                }
                went_on
            }
            Some(Transfer::Atomic(_)) => self.post_atomic(peer, number),
            _ => {
                self.drop_head(peer);
                true
            }
        }
    }

    /// Whether more work requests of a transfer are under way than `before`.
    fn is_under_way(&self, number: u32, before: u32) -> bool {
        matches!(self.host.transfers.get(number), Some(Transfer::User(transfer)) if transfer.under_way > before)
    }

    /// The work at the head of a peer's list is posted whole, or over.
    pub(super) fn drop_head(&mut self, peer: PeerId) {
        if let Some(known) = self.host.peers.get_mut(peer) {
            known.work.pop_front();
        }
    }

    fn post_transfer(&mut self, peer: PeerId, number: u32) -> bool {
        let Some(known) = self.host.peers.get_mut(peer) else { return false };
        let Some(link) = known.link.and_then(|key| self.links.get_mut(key.0)) else { return false };
        let Some(Transfer::User(transfer)) = self.host.transfers.get_mut(number) else { return false };
        if !transfer.is_begun() {
            known.under_way += 1;
        }
        match transfer.next(&self.host.registry, self.host.domain) {
            Ok(operation) => {
                let id = Purpose::Transfer(number).id(link.key);
                let request = SendRequest { id, operation, signaled: true, fence: false, flags: RequestFlags::NONE };
                if link.post(request) {
                    transfer.under_way += 1;
                } else {
                    transfer.failure.get_or_insert(EndpointFailure::NoMemory);
                }
                Self::ring(&mut self.rung, link);
            }
            Err(failure) => {
                transfer.failure.get_or_insert(failure);
            }
        }
        let over = transfer.failure.is_some();
        if over || transfer.is_posted {
            known.work.pop_front();
        }
        if over && transfer.under_way == 0 {
            self.finish_transfer(number);
        }
        true
    }

    /// Over Edge no round trip is measured yet when a connection is established. So it is noted before each message
    /// whose protocol depends on it.
    pub(super) fn renew_round_trip<N: Carrier, C: Clock>(&mut self, peer: PeerId, engine: &Engine<N, C>) {
        let key = self.host.peers.get(peer).and_then(|known| known.link);
        let place = key.and_then(|key| self.links.get(key.0)).and_then(|link| link.queue_pair.connection());
        if let Some(round_trip) = place.and_then(|place| engine.round_trip_by_now(place.key)) {
            self.machine.note_round_trip(peer, round_trip);
        }
    }

    fn send_packets<N: Carrier, C: Clock>(&mut self, engine: &mut Engine<N, C>) -> bool {
        let mut any = false;
        // Those that stall again are put back behind.
        for _ in 0..self.stalled.len() {
            let Some(peer) = self.stalled.pop() else { break };
            any |= self.send_packet_to(peer, engine);
        }
        while let Some(peer) = self.machine.next_ready() {
            // The application has a message before it now, and may answer it at once.
            if engine.is_visited() && self.machine.is_patient(peer) {
                self.patient.push(peer);
                self.held_back = true;
                continue;
            }
            any |= self.send_packet_to(peer, engine);
        }
        any
    }

    /// Sends one packet to a peer. If there are more, the machine names it again. Returns whether there was one.
    fn send_packet_to<N: Carrier, C: Clock>(&mut self, peer: PeerId, engine: &mut Engine<N, C>) -> bool {
        let now = engine.now();
        let Some(known) = self.host.peers.get(peer) else { return false };
        if known.is_self {
            return self.send_to_self(peer, now);
        }
        let Some(key) = known.link else { return false };
        // A write that is due goes before the next packet.
        let held = self.holds_packets(peer);
        let Some(link) = self.links.get_mut(key.0) else { return false };
        if held || link.phase != Phase::Up {
            return self.stall(peer);
        }
        let (machine, host) = (&mut self.machine, &mut self.host);
        let place = link.queue_pair.connection();
        let passed = place.map_or(Passed::Not, |place| {
            let most = link.slot_bytes as usize;
            engine.pass_packet(place.key, most, |packet| {
                unless_broken(peer, machine.poll_packet(peer, packet, now, host), host)
            })
        });
        match passed {
            Passed::Yes => link.is_rung = true,
            Passed::Apart => {
                if let Some(place) = place {
                    engine.send_posted(place.key);
                }
            }
            Passed::Nothing => return false,
            Passed::Not if !link.has_room() => {
                return self.stall(peer);
            }
            Passed::Not
                if !link.post_packet(&mut self.packet, |packet| {
                    unless_broken(peer, machine.poll_packet(peer, packet, now, host), host)
                }) =>
            {
                return false;
            }
            Passed::Not => {}
        }
        self.host.counts.endpoint_packets += 1;
        Self::ring(&mut self.rung, link);
        true
    }

    /// There is no room for a packet to a peer now, or something goes before it.
    fn stall(&mut self, peer: PeerId) -> bool {
        self.stalled.push(peer);
        false
    }

    fn send_to_self(&mut self, peer: PeerId, now: Time) -> bool {
        let mut any = false;
        let mut packet = core::mem::take(&mut self.packet);
        loop {
            if self.holds_packets(peer) {
                self.stalled.push(peer);
                break;
            }
            let length = self.machine.poll_packet(peer, &mut packet, now, &mut self.host);
            let Some(length) = unless_broken(peer, length, &self.host) else { break };
            any = true;
            // Our own packets are good.
            let _ = self.machine.handle_packet(peer, &packet[..length], now, &mut self.host);
        }
        self.packet = packet;
        any
    }

    /// Whether a write must go before the next packet to a peer.
    fn holds_packets(&self, peer: PeerId) -> bool {
        self.host.peers.get(peer).is_some_and(|known| known.work.iter().any(Work::holds_packets))
    }
}

/// A packet whose content was not there when it was made must not leave: the connection ends in its place.
fn unless_broken<L>(peer: PeerId, length: Option<L>, host: &NicHost) -> Option<L> {
    length.filter(|_| host.to_break.is_empty() || !host.to_break.contains(peer))
}
