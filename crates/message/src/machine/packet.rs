//! Building packets.

use weft_base::{PeerId, Time};
use weft_wire::message::{Class, MAX_RECORDS, PACKET_HEADER_LENGTH, PacketHeader, Parts, Record, UNASKED_BYTES};

use super::Machine;
use super::keys::{CallKey, SendKey, id};
use super::peer::Queued;
use super::stage::{Event, Stage};
use crate::host::{Failure, Host};
use crate::settings::Settings;

/// A packet being built.
struct Draft<'a> {
    bytes: &'a mut [u8],
    /// Bytes written.
    length: usize,
    records: usize,
}

impl Draft<'_> {
    fn has_room(&self, length: usize) -> bool {
        self.records < MAX_RECORDS && length <= self.bytes.len() - self.length
    }

    /// Whether less than half of the packet is used.
    fn is_roomy(&self) -> bool {
        self.length <= self.bytes.len() / 2
    }

    /// Writes a record's head. Returns the place of its body, for which [`Draft::has_room`] must have been checked too.
    fn push(&mut self, record: &Record) -> &mut [u8] {
        let head = record.emit(&mut self.bytes[self.length..]);
        let body = self.length + head;
        self.length = body + record.body_length();
        self.records += 1;
        &mut self.bytes[body..self.length]
    }
}

/// The result of packing a message.
enum Packed {
    Yes,
    /// It has failed, or was canceled.
    Gone,
    /// There is no room left.
    Later,
}

/// With at most this many requests to a peer under way, each counts as alone ([`crate::Settings::alone_bytes`]).
const ALONE: usize = 2;

impl<H: Host> Machine<H> {
    /// A peer to which a packet can be sent, or for which there is a credit that [`Machine::reserve_packet`] was
    /// refused. It is returned once: a caller that cannot send to it now calls [`Machine::poll_packet`] later. After a
    /// packet it is returned again if there is more.
    pub fn next_ready(&mut self) -> Option<PeerId> {
        self.peers.next_ready()
    }

    /// Whether a packet to a peer may wait for a moment, to be sent along with a message: it only acknowledges
    /// messages, or returns credits.
    pub fn is_patient(&mut self, peer: PeerId) -> bool {
        self.peers.at(peer).is_patient()
    }

    /// Writes the next packet to a connected peer into `out`, which has room for one of the peer's size. Returns its
    /// length; `None` when nothing is to be sent, or nothing may be. Sends in it that need no answer have completed
    /// then.
    pub fn poll_packet(&mut self, peer: PeerId, out: &mut [u8], now: Time, host: &mut H) -> Option<usize> {
        let entry = self.peers.at(peer);
        let room = out.len().min(entry.packet_bytes as usize);
        if !entry.is_connected() || room < PACKET_HEADER_LENGTH {
            return None;
        }
        let may_send_data = entry.can_send_data();
        let may_send_control = entry.can_send_control();
        let mut draft = Draft { bytes: &mut out[..room], length: PACKET_HEADER_LENGTH, records: 0 };
        if may_send_data || may_send_control {
            self.pack_controls(peer, &mut draft);
        }
        let controls = draft.records;
        if may_send_data {
            self.pack_queue(peer, &mut draft, host);
        }
        let class = match (draft.records > controls, controls > 0) {
            (true, _) => Class::Data,
            (false, true) if may_send_control => Class::Control,
            (false, true) => Class::Data,
            (false, false) if self.peers.at(peer).is_word_due() => Class::Credits,
            (false, false) => return None,
        };
        let length = draft.length;
        self.hand_calls_on(peer, host);
        self.seal(peer, class, now).emit(out);
        self.peers.wake(peer);
        Some(length)
    }

    /// Takes the packet's credit, and adds the returned ones.
    fn seal(&mut self, peer: PeerId, class: Class, now: Time) -> PacketHeader {
        let entry = self.peers.at(peer);
        match class {
            Class::Data => entry.data.take(now),
            Class::Control => entry.control.take(now),
            Class::Credits => {}
        }
        if class != Class::Credits {
            entry.last_active = now;
        }
        let (waited, doubled) = (entry.data.ask(), entry.data_debt.announce_growth());
        let data_credits = if entry.gives_data_back() { entry.data_debt.give_back() } else { 0 };
        let control_credits = entry.control_debt.give_back();
        PacketHeader { class, data_credits, control_credits, scarce: self.budget.is_scarce(), waited, doubled }
    }

    fn pack_controls(&mut self, peer: PeerId, draft: &mut Draft<'_>) {
        let entry = self.peers.at(peer);
        let mut places = 0;
        while let Some(control) = entry.controls.front() {
            if !draft.has_room(control.record.length() + control.body.len()) {
                break;
            }
            draft.push(&control.record).copy_from_slice(&control.body);
            if let Some(sent) = entry.pop_control() {
                places += usize::from(sent.has_place);
                self.pool.give_back(sent.body);
            }
        }
        self.release_places(places);
    }

    fn pack_queue(&mut self, peer: PeerId, draft: &mut Draft<'_>, host: &mut H) {
        while let Some(queued) = self.peers.at(peer).queue.front().copied() {
            let packed = match queued {
                Queued::Message(key) => self.pack_message(key, draft, host),
                Queued::Call(key) => self.pack_call(key, draft, host),
            };
            if let Packed::Later = packed {
                break;
            }
            self.peers.at(peer).queue.pop_front();
        }
    }

    fn pack_message(&mut self, key: SendKey, draft: &mut Draft<'_>, host: &mut H) -> Packed {
        let Some(outgoing) = self.outgoing.get(key) else { return Packed::Gone };
        let (peer, length) = (outgoing.peer, outgoing.length);
        let is_unasked = length <= UNASKED_BYTES || !self.peers.at(peer).is_scarce;
        if is_unasked && length <= u64::from(self.settings.short_bytes) {
            let acknowledge = outgoing.delivery.then(|| id(key));
            let record = Record::Short { envelope: outgoing.envelope, acknowledge, length: length as u32 };
            let whole = record.length() + record.body_length();
            if draft.has_room(whole) {
                host.fetch(&outgoing.user, 0, draft.push(&record));
                self.on_whole_sent(key, host);
                return Packed::Yes;
            }
            if PACKET_HEADER_LENGTH + whole <= draft.bytes.len() {
                return Packed::Later;
            }
        }
        let has_begun = matches!(outgoing.stage, Stage::Streaming { .. });
        let is_streamed = has_begun || is_unasked && length <= self.settings.stream_bytes;
        if !is_streamed && is_unasked && self.is_streamed_afar(peer, length) {
            return self.pack_piece(key, draft, host);
        }
        if !is_streamed {
            let waits = length > self.settings.eager_bytes;
            return self.pack_request(key, waits, draft, host);
        }
        let is_alone = length <= self.settings.alone_bytes || self.peers.at(peer).under_way <= ALONE;
        if has_begun || is_alone {
            self.pack_piece(key, draft, host)
        } else {
            self.pack_request(key, true, draft, host)
        }
    }

    /// Whether a message that is longer than streamed ones is streamed all the same: to a peer that is far away, so
    /// that a round trip takes longer than a copy, while no more than two requests are under way, if there are credits
    /// for all of it. If there are not, it requests more.
    fn is_streamed_afar(&mut self, peer: PeerId, length: u64) -> bool {
        let entry = self.peers.at(peer);
        if !entry.is_far || length > self.settings.far_bytes || entry.under_way > ALONE {
            return false;
        }
        let payload = u64::from(entry.packet_bytes.saturating_sub(Settings::PACKET_OVERHEAD).max(1));
        // The first packet may have something else in it.
        let fits = length.div_ceil(payload) < u64::from(entry.data.left());
        if !fits {
            entry.data.want_more();
        }
        fits
    }

    /// As much of a message as there is room for. It stays first in the queue until all of it is sent.
    fn pack_piece(&mut self, key: SendKey, draft: &mut Draft<'_>, host: &mut H) -> Packed {
        let outgoing = &mut self.outgoing[key];
        let position = outgoing.stage.position();
        let (left, envelope) = (outgoing.length - position, outgoing.envelope);
        let acknowledge = outgoing.delivery.then(|| id(key));
        let record = |length| match position {
            0 => Record::Start { envelope, acknowledge, whole: left, length },
            _ => Record::More { length },
        };
        let head = record(0).length();
        if !draft.has_room(head) {
            return Packed::Later;
        }
        let piece = left.min((draft.bytes.len() - draft.length - head) as u64);
        if piece < left && !draft.is_roomy() {
            return Packed::Later;
        }
        host.fetch(&outgoing.user, position, draft.push(&record(piece as u32)));
        if piece < left {
            self.step(key, Event::Piece { bytes: piece }, host);
            return Packed::Later;
        }
        self.on_whole_sent(key, host);
        Packed::Yes
    }

    /// All bytes of a message were sent.
    fn on_whole_sent(&mut self, key: SendKey, host: &mut H) {
        self.step(key, Event::Whole, host);
        if let Some(outgoing) = self.outgoing.get_mut(key) {
            host.announced(&mut outgoing.user);
        }
    }

    /// Something of a message was sent.
    fn step(&mut self, key: SendKey, event: Event, host: &mut H) {
        self.advance(key, event, host).expect("the table refuses nothing that this side does");
    }

    /// Requests the transfer of a message: the peer reads it when its receive is posted, or, if the message does not
    /// wait for that, tells where to write it.
    fn pack_request(&mut self, key: SendKey, waits: bool, draft: &mut Draft<'_>, host: &mut H) -> Packed {
        if !draft.has_room(weft_wire::message::MAX_HEAD_LENGTH) {
            return Packed::Later;
        }
        let outgoing = &mut self.outgoing[key];
        let (event, source) = if !waits {
            (Event::Announce, Parts::new())
        } else {
            match host.expose_source(outgoing.peer, &mut outgoing.user) {
                Ok(parts) if parts.is_empty() => (Event::Announce, parts),
                Ok(parts) => (Event::Expose, parts),
                Err(failure) => {
                    self.complete_send(key, Err(failure), host);
                    return Packed::Gone;
                }
            }
        };
        host.announced(&mut outgoing.user);
        draft.push(&Record::Request {
            envelope: outgoing.envelope,
            id: id(key),
            length: outgoing.length,
            delivery: outgoing.delivery,
            source,
        });
        self.step(key, event, host);
        Packed::Yes
    }

    fn pack_call(&mut self, key: CallKey, draft: &mut Draft<'_>, host: &mut H) -> Packed {
        let Some(body) = self.calls.get(key).and_then(|call| call.body.as_ref()) else { return Packed::Gone };
        let record = Record::Call { id: id(key), length: body.len() as u32 };
        let whole = record.length() + body.len();
        if !draft.has_room(whole) {
            if PACKET_HEADER_LENGTH + whole <= draft.bytes.len() {
                return Packed::Later;
            }
            // The peer accepts smaller packets than we do.
            self.complete_call(key, Err(Failure::Refused), host);
            return Packed::Gone;
        }
        draft.push(&record).copy_from_slice(body);
        if let Some(body) = self.calls.get_mut(key).and_then(|call| call.body.take()) {
            self.pool.give_back(body);
        }
        Packed::Yes
    }

    /// Takes the credit of a packet with messages, for another operation that uses up one of the peer's receive
    /// requests: a write with immediate data. Returns whether there was one; otherwise [`Machine::next_ready`] returns
    /// the peer once there is, and reserves the credit until the next packet.
    pub fn reserve_packet(&mut self, peer: PeerId, now: Time) -> bool {
        let entry = self.peers.at(peer);
        let possible = entry.link == super::peer::Link::Open && entry.data.left() > 0;
        if possible {
            entry.data.take(now);
        }
        entry.reserving = !possible;
        possible
    }

    /// Returns the credit that [`Machine::reserve_packet`] has taken: its operation was not posted, so the peer will
    /// never return it.
    pub fn return_packet(&mut self, peer: PeerId) {
        self.peers.at(peer).data.put_back();
        self.peers.wake(peer);
    }
}
