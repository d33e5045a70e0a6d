//! Handling of received packets.

use slotmap::KeyData;
use weft_base::{PeerId, Time};
use weft_wire::message::{Class, Envelope, MAX_RECORDS, Outcome, PACKET_HEADER_LENGTH, PacketHeader, Parts, Record};

use super::Machine;
use super::body::{Body, Reading};
use super::keys::{AnswerKey, IncomingKey, PacketKey, id};
use super::outgoing::total;
use super::record::{Called, Held, Incoming};
use super::terms::Violation;
use crate::host::{CallId, Failure, Host};

/// The packet being handled, which is held if a record of it must be.
pub(super) struct Arrival {
    pub(super) peer: PeerId,
    class: Class,
    held: Option<PacketKey>,
}

impl<H: Host> Machine<H> {
    /// Handles a packet of a peer.
    ///
    /// # Errors
    /// The peer violated the protocol: its connection must be aborted. Earlier records of the packet were handled.
    pub fn handle_packet(&mut self, peer: PeerId, packet: &[u8], now: Time, host: &mut H) -> Result<(), Violation> {
        let header = PacketHeader::parse(packet).map_err(|_| Violation("a packet with an invalid header"))?;
        self.charge(peer, &header, packet.len(), now)?;
        let mut arrival = Arrival { peer, class: header.class, held: None };
        let outcome = self.take_records(&mut arrival, &packet[PACKET_HEADER_LENGTH..], host);
        // The packet may have ended the connection, and its credits with it.
        if self.peers.at(peer).is_connected() {
            if header.class == Class::Data && arrival.held.is_none() {
                self.peers.at(peer).data_debt.release();
            }
            self.widen(peer, host);
        }
        self.peers.wake(peer);
        outcome
    }

    /// Prepares twice as many data credits for a peer whose messages have waited for them for long, as far as there are
    /// any left for all peers together, and unless its unexpected messages exceed the memory for them already.
    fn widen(&mut self, peer: PeerId, host: &mut H) {
        let debt = &mut self.peers.at(peer).data_debt;
        let more = debt.granted();
        let all = self.extra_credits + u32::from(more);
        if debt.may_grow() && all <= self.settings.extra_credits && !self.budget.is_scarce() {
            debt.prepare();
            self.extra_credits = all;
            self.peers.at(peer).extra_credits += u32::from(more);
            host.make_room(peer, more);
        }
    }

    /// The receive requests that [`Host::make_room`] wants are posted, or can't be.
    pub fn handle_room(&mut self, peer: PeerId, is_there: bool) {
        let entry = self.peers.at(peer);
        let more = entry.data_debt.granted();
        if entry.data_debt.grow(is_there) == Some(0) {
            entry.extra_credits -= u32::from(more);
            self.extra_credits -= u32::from(more);
        }
        self.peers.wake(peer);
    }

    /// Takes the packet's credit from the peer, and the credits that it returns to us.
    fn charge(&mut self, peer: PeerId, header: &PacketHeader, length: usize, now: Time) -> Result<(), Violation> {
        let entry = self.peers.at(peer);
        if !entry.is_connected() {
            return Err(Violation("a packet without a connection"));
        }
        if length > self.settings.packet_bytes as usize {
            return Err(Violation("a packet is longer than agreed"));
        }
        let had_credit = match header.class {
            Class::Data => entry.data_debt.charge(),
            Class::Control => entry.control_debt.charge(),
            Class::Credits => length == PACKET_HEADER_LENGTH,
        };
        if !had_credit {
            return Err(Violation("a packet for which the peer had no credit"));
        }
        if header.class == Class::Control {
            entry.control_debt.release();
        }
        entry.is_scarce = header.scarce;
        if header.class != Class::Credits {
            entry.last_active = now;
        }
        if !entry.data.refill(header.data_credits) || !entry.control.refill(header.control_credits) {
            return Err(Violation("more credits are returned than were used"));
        }
        if header.doubled && !entry.data.double() {
            return Err(Violation("more credits are granted than were wanted"));
        }
        entry.data.note_refilled(entry.reserving || !entry.queue.is_empty(), now);
        if header.waited {
            entry.data_debt.want();
        }
        Ok(())
    }

    fn take_records(&mut self, arrival: &mut Arrival, mut bytes: &[u8], host: &mut H) -> Result<(), Violation> {
        for _ in 0..MAX_RECORDS {
            if bytes.is_empty() {
                return Ok(());
            }
            if !self.peers.at(arrival.peer).is_connected() {
                return Err(Violation("a record after the end of the connection"));
            }
            let (record, head, body) = Record::parse(bytes).map_err(|_| Violation("an invalid record"))?;
            bytes = &bytes[head + body.len()..];
            self.take_record(arrival, record, body, host)?;
        }
        if bytes.is_empty() { Ok(()) } else { Err(Violation("a packet with too many records")) }
    }

    fn take_record(
        &mut self,
        arrival: &mut Arrival,
        record: Record,
        body: &[u8],
        host: &mut H,
    ) -> Result<(), Violation> {
        let peer = arrival.peer;
        let needs_data = matches!(
            record,
            Record::Short { .. }
                | Record::Start { .. }
                | Record::More { .. }
                | Record::Request { .. }
                | Record::Call { .. }
        );
        if needs_data && arrival.class != Class::Data {
            return Err(Violation("a message in a packet that must not have one"));
        }
        match record {
            Record::Short { envelope, acknowledge, .. } => {
                self.on_short(arrival, envelope, acknowledge, body, host);
                Ok(())
            }
            Record::Start { envelope, acknowledge, whole, .. } => {
                self.on_start(arrival, envelope, acknowledge, whole, body, host)
            }
            Record::More { .. } => self.on_more(arrival, body, host),
            Record::Request { envelope, id, length, delivery, source } => {
                self.on_request(arrival, envelope, id, length, delivery, source, host)
            }
            Record::Clear { id, sink_id, sink } => self.on_clear(peer, id, sink_id, &sink, host),
            Record::Written { sink_id } => self.on_message_written(peer, sink_id, host),
            Record::Taken { id, outcome } => self.on_taken(peer, id, outcome, host),
            Record::Call { id, .. } => {
                self.on_call(arrival, id, body, host);
                Ok(())
            }
            Record::Answer { id, outcome: Outcome::Done, .. } => self.on_answer(peer, id, Ok(body), host),
            Record::Answer { id, outcome: Outcome::Refused, .. } => {
                self.on_answer(peer, id, Err(Failure::Refused), host)
            }
            Record::Close => self.on_close(peer, host),
            Record::CloseAnswer { agreed } => self.on_close_answer(peer, agreed, host),
        }
    }

    fn on_short(
        &mut self,
        arrival: &mut Arrival,
        envelope: Envelope,
        acknowledge: Option<u64>,
        bytes: &[u8],
        host: &mut H,
    ) {
        let incoming = Incoming::new(arrival.peer, envelope, bytes.len() as u64, acknowledge, Body::Empty);
        if let Some(posted) = self.matcher.find_posted(arrival.peer, envelope.tag) {
            let destination = self.assign_posted(posted, incoming.length);
            let receive = &mut self.receives[destination.receive];
            host.place(
                &mut receive.user,
                destination.offset,
                &bytes[..destination.fitting(bytes.len() as u64) as usize],
            );
            self.complete(&incoming, destination, host);
            return;
        }
        let key = self.note(incoming);
        self.incoming[key].body = Body::Short(self.pool.take(bytes));
        self.keep(arrival, key);
    }

    #[expect(clippy::too_many_arguments, reason = "they are the fields of one record")]
    fn on_request(
        &mut self,
        arrival: &mut Arrival,
        envelope: Envelope,
        id: u64,
        length: u64,
        delivery: bool,
        source: Parts,
        host: &mut H,
    ) -> Result<(), Violation> {
        let reads = !source.is_empty();
        if reads && total(&source) != Some(length) {
            return Err(Violation("a message whose parts are not together as long as it is"));
        }
        let acknowledge = (delivery || reads).then_some(id);
        let body = if reads { Body::Source(Reading::new(source)) } else { Body::Asked { id } };
        let key = self.note(Incoming::new(arrival.peer, envelope, length, acknowledge, body));
        if let Some(posted) = self.matcher.find_posted(arrival.peer, envelope.tag) {
            let destination = self.assign_posted(posted, length);
            self.land(key, destination, host);
            return Ok(());
        }
        self.keep(arrival, key);
        self.allocate(key, host);
        self.note_staying(key);
        Ok(())
    }

    /// Records a message, until it is forgotten.
    pub(super) fn note(&mut self, incoming: Incoming) -> IncomingKey {
        self.peers.at(incoming.peer).messages += 1;
        self.incoming.insert(incoming)
    }

    /// An unexpected message: it is kept, as far as the budget allows, otherwise in place of the packet's credit.
    pub(super) fn keep(&mut self, arrival: &mut Arrival, key: IncomingKey) {
        let is_kept = self.take_budget(key);
        if !is_kept {
            let packet = self.hold_packet(arrival);
            self.incoming[key].packets.push(packet);
        }
        let incoming = &self.incoming[key];
        if incoming.waits_for_budget() {
            self.budget.wait(key, incoming.cost());
        }
        let place = self.matcher.keep(incoming.peer, incoming.envelope.tag, key);
        self.incoming[key].place = Some(place);
    }

    pub(super) fn hold_packet(&mut self, arrival: &mut Arrival) -> PacketKey {
        let packets = &mut self.packets;
        let peer = arrival.peer;
        let key = *arrival.held.get_or_insert_with(|| packets.insert(Held { peer, records: 0 }));
        packets[key].records += 1;
        key
    }

    /// A record of a packet is gone. With the last, its credit is returned.
    pub(super) fn release_packet(&mut self, key: PacketKey) {
        let Some(held) = self.packets.get_mut(key) else { return };
        held.records -= 1;
        if held.records == 0 {
            let peer = held.peer;
            self.packets.remove(key);
            self.peers.at(peer).data_debt.release();
            self.peers.wake(peer);
        }
    }

    fn on_call(&mut self, arrival: &mut Arrival, call: u64, body: &[u8], host: &mut H) {
        let packet = self.hold_packet(arrival);
        let peer = arrival.peer;
        let key = self.called.insert(Called { peer, id: call, packet, body: None });
        let entry = self.peers.at(peer);
        if entry.calls.is_empty() && entry.may_call() {
            entry.answering += 1;
            host.called(peer, CallId(id(key)), body);
        } else {
            entry.calls.push_back(key);
            self.called[key].body = Some(self.pool.take(body));
        }
    }

    /// Passes on calls of a peer that have waited for room for their answers.
    pub(super) fn hand_calls_on(&mut self, peer: PeerId, host: &mut H) {
        let entry = self.peers.at(peer);
        while entry.may_call() {
            let Some(key) = entry.calls.pop_front() else { return };
            let Some(body) = self.called.get_mut(key).and_then(|called| called.body.take()) else { continue };
            entry.answering += 1;
            host.called(peer, CallId(id(key)), &body);
            self.pool.give_back(body);
        }
    }

    /// Answers a peer's call. `body` is at most [`crate::Settings::short_bytes`] long; if it is longer than the peer's
    /// packets, the peer gets a failure.
    pub fn answer(&mut self, call: CallId, body: &[u8], host: &mut H) {
        let Some(called) = self.called.remove(AnswerKey::from(KeyData::from_ffi(call.0))) else { return };
        let record = Record::Answer { id: called.id, outcome: Outcome::Done, length: body.len() as u32 };
        let fits = PACKET_HEADER_LENGTH + record.length() + body.len();
        if fits <= self.peers.at(called.peer).packet_bytes as usize {
            let body = self.pool.take(body);
            self.peers.answer(called.peer, record, body);
        } else {
            let record = Record::Answer { id: called.id, outcome: Outcome::Refused, length: 0 };
            self.peers.answer(called.peer, record, Vec::new());
        }
        self.peers.at(called.peer).answering -= 1;
        self.release_packet(called.packet);
        self.hand_calls_on(called.peer, host);
    }

    /// An operation other than a packet has used up one of our receive requests, for which the peer has taken a credit.
    ///
    /// # Errors
    /// It had none.
    pub fn handle_other_packet(&mut self, peer: PeerId) -> Result<(), Violation> {
        let entry = self.peers.at(peer);
        if !entry.data_debt.charge() {
            return Err(Violation("a packet for which the peer had no credit"));
        }
        entry.data_debt.release();
        self.peers.wake(peer);
        Ok(())
    }
}
