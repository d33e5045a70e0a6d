//! The rails of a connection: how they are offered, opened, validated, demoted and closed, which of them share a
//! socket's buffer or grow their congestion windows together, and their state. Which rail sends a datagram is decided
//! in `connection::striping`; whether a silent one is demoted, in `liveness`.

use core::time::Duration;
use std::net::SocketAddr;

use arrayvec::ArrayVec;
use weft_base::Time;
use weft_congestion::Coupling;
use weft_wire::edge::addresses::{Addresses, MAX_ADDRESSES_LENGTH, MAX_RAILS, pack_address};
use weft_wire::edge::frame::Frame;
use weft_wire::edge::packet::Packet;

use crate::connection::{Confirmation, Connection, Meta, control};
use crate::pairing::RailAddress;
use crate::phase::{Event, Phase};
use crate::rail::{Candidate, PathAddress, Rail};
use crate::rail_state::{Out, RailInfo, RailState};
use crate::silence::{self, Silence};

impl Connection {
    /// The rails, by number.
    pub fn rails(&self) -> impl Iterator<Item = RailInfo> + '_ {
        self.rails.iter().map(Rail::info)
    }

    /// Whether only the first rail was opened.
    #[must_use]
    pub const fn has_one_rail(&self) -> bool {
        self.rails.len() == 1
    }

    /// Sets this side's addresses: up to 16, that of rail 0 among them if it may serve further rails. They replace the
    /// previous ones: rails from other local addresses are closed, except rail 0.
    ///
    /// The called side sends them to the peer; the caller pairs its own addresses with those of the peer by rails, each
    /// of which carries data only when both sides have answered a challenge over it. It has no effect where one side
    /// has [`Settings::rails`](crate::Settings::rails) 1.
    ///
    /// # Panics
    /// When there are more than 16 addresses, or one has a `local` above 15: bugs of the caller.
    pub fn offer(&mut self, addresses: &[RailAddress], now: Time) {
        assert!(addresses.len() <= MAX_RAILS, "{} addresses are too many: at most 16 can be used", addresses.len());
        let high = addresses.iter().find(|address| usize::from(address.local) >= MAX_RAILS);
        assert!(high.is_none(), "{high:?} has a local number that is too high: at most 15");
        self.pairing.set_locals(addresses, now);
        // A rail with no other on its IP address grows alone.
        self.rails.iter_mut().for_each(|rail| rail.window.couple(None));
        self.offered += 1;
        self.close_lost_rails();
        self.queue_addresses();
    }

    /// Sets how many datagrams the socket of a local address has dropped in all because its buffer was full, and how
    /// many bytes the peer may have in flight to it from now on. Its rails share them.
    ///
    /// # Panics
    /// When `local` is above 15.
    pub fn set_rail_socket(&mut self, local: u8, overflows: u32, credit: u32) {
        let socket = &mut self.sockets[usize::from(local)];
        (socket.overflows, socket.credit) = (overflows, credit);
    }

    /// The rail grows together with the others of its IP address, from their present windows on.
    pub(crate) fn couple(&mut self, index: usize) {
        if self.rails.len() == 1 {
            return;
        }
        let siblings = self.pairing.siblings(self.rails[index].local());
        if !self.settings.couples || siblings.count_ones() < 2 {
            return;
        }
        let is_sibling = |rail: &&Rail| rail.answers() && siblings & 1 << rail.local() != 0;
        let flows = self.rails.iter().filter(is_sibling).map(|rail| (rail.window.bytes(), rail.trip.smoothed()));
        let coupling = Coupling::of(flows);
        self.rails[index].window.couple(coupling);
    }

    /// Sets which local addresses have a socket without room, as bits by [`RailAddress::local`]: no segments are sent
    /// from them.
    pub fn set_blocked(&mut self, locals: u16) {
        self.blocked = locals;
    }

    pub(crate) fn is_blocked(&self, index: usize) -> bool {
        self.blocked != 0 && self.blocked & 1 << (self.rails[index].local() % 16) != 0
    }

    /// Bytes that the peer may have in flight on a rail.
    pub(crate) fn credit_of(&self, index: usize) -> u32 {
        if let [rail] = &self.rails[..] {
            return self.sockets[usize::from(rail.local()) % MAX_RAILS].credit;
        }
        let local = self.rails[index].local();
        let sharing = self.rails.iter().filter(|rail| rail.is_used() && rail.local() == local).count() as u32;
        self.sockets[usize::from(local) % MAX_RAILS].credit / sharing.max(1)
    }

    pub(crate) fn overflows_of(&self, index: usize) -> u32 {
        self.sockets[usize::from(self.rails[index].local()) % MAX_RAILS].overflows
    }

    /// Sends this side's addresses to the peer, if the peer opens rails.
    pub(crate) fn queue_addresses(&mut self) {
        let tells = !self.opens && self.most_rails > 1 && self.offered > 0;
        if tells && self.phase == Phase::Open && self.confirmation == Confirmation::Done {
            self.pending |= control::ADDRESSES;
        }
    }

    pub(crate) fn own_addresses<'a>(&self, packed: &'a mut ArrayVec<u8, MAX_ADDRESSES_LENGTH>) -> Addresses<'a> {
        self.pairing.locals.iter().for_each(|local| pack_address(local.address, packed));
        Addresses::packed(self.offered, packed).unwrap_or(Addresses::none(self.offered))
    }

    pub(crate) fn on_addresses(&mut self, addresses: &Addresses<'_>, now: Time) {
        // An overtaken list is outdated.
        if self.opens && addresses.serial > self.peer_offered {
            self.peer_offered = addresses.serial;
            let peer = self.peer_address();
            self.pairing.set_remotes(addresses.iter().filter(|to| may_lead_to(peer, *to)), now);
            self.close_lost_rails();
        }
    }

    /// Whether this side may open rails now.
    pub(crate) fn may_open(&self) -> bool {
        let is_proved = self.confirmation == Confirmation::Done && self.phase == Phase::Open;
        self.opens && self.most_rails > 1 && is_proved
    }

    /// Opens the rails that are worth it, if it is time.
    pub(crate) fn open_rails(&mut self, now: Time) {
        if !self.may_open() || !self.pairing.start(now) {
            return;
        }
        while let Some(index) = self.free_rail() {
            let used: ArrayVec<PathAddress, MAX_RAILS> = self.rails.iter().filter_map(Rail::leads_to).collect();
            let Some(place) = self.pairing.next(&used) else {
                self.pairing.retry_later(now);
                return;
            };
            if index == self.rails.len() {
                self.add_rail();
            }
            self.doubt(index, place, now);
        }
    }

    /// The number of a rail that may be opened.
    fn free_rail(&self) -> Option<usize> {
        let closed = self.rails.iter().position(|rail| !rail.is_used());
        closed.or(Some(self.rails.len())).filter(|index| *index < self.most_rails)
    }

    fn add_rail(&mut self) {
        let id = self.rails.len() as u8;
        self.rails.push(Rail::new(id, self.limit, self.peer_credit, &self.settings));
    }

    /// Whether the packet is the first on a rail that the peer opens, which is created here.
    pub(crate) fn is_opened_by(&mut self, packet: &Packet<'_>) -> bool {
        let asks = packet.frames().any(|frame| matches!(frame, Frame::Challenge(_)));
        let opened = asks && !self.opens && self.confirmation == Confirmation::Done && self.phase == Phase::Open;
        while opened && self.rails.len() <= usize::from(packet.header.rail) {
            self.add_rail();
        }
        opened
    }

    /// A packet of `bytes` was received from another address: the rail moves there only when a challenge was answered
    /// from there. An old one starts no challenge.
    pub(crate) fn seen_elsewhere(&mut self, index: usize, place: PathAddress, packet: (bool, usize), now: Time) {
        let (is_newest, bytes) = packet;
        // One at a time: a sender with many source addresses triggers no more challenges than one. A peer that has
        // moved on before the first was answered is not kept waiting for all of them (RFC 9000 section 8.2.4).
        let rail = &self.rails[index];
        let has_moved_on = |old: Candidate| rail.is_live() && old.is_overdue() && old.place != place;
        let asks = is_newest && rail.candidate.is_none_or(has_moved_on) && self.phase == Phase::Open;
        let asks = asks && may_lead_to(self.peer_address(), place.to);
        // A packet that was in flight when its address was withdrawn does not bring it back.
        if asks && (index == 0 || self.is_offered(place)) {
            self.doubt(index, place, now);
            self.rails[index].candidate.iter_mut().for_each(Candidate::limit);
        }
        self.rails[index].candidate.iter_mut().for_each(|candidate| candidate.on_packet(place, bytes));
    }

    fn doubt(&mut self, index: usize, place: PathAddress, now: Time) {
        let challenge = self.challenges.challenge(self.random.next_u64());
        self.rails[index].candidate = Some(Candidate::new(place, challenge, self.settings.initial_round_trip, now));
    }

    /// The address of another path is proved. A second challenge, as large as the least datagram, shows whether the
    /// path carries it (RFC 9000 section 8.2.1: the first must not be large, since any host could have named the
    /// address).
    fn doubt_size(&mut self, index: usize, place: PathAddress, now: Time) {
        self.doubt(index, place, now);
        if let Some(candidate) = &mut self.rails[index].candidate {
            candidate.is_full = true;
        }
    }

    pub(crate) fn on_response(&mut self, bytes: &[u8; 8], index: usize, meta: &Meta) {
        let place = PathAddress { local: meta.local, to: meta.from };
        let rail = &mut self.rails[index];
        let proved = rail.candidate.filter(|asked| asked.place == place && asked.challenge == *bytes);
        let Some(candidate) = proved else {
            self.counters.false_frames += 1;
            return;
        };
        rail.candidate = None;
        if !candidate.is_full && !rail.place.is_some_and(|before| is_same_path(before, place)) {
            return self.doubt_size(index, place, meta.now);
        }
        let before = rail.place.replace(place);
        self.on_path(index, before, place);
        let rail = &mut self.rails[index];
        if let Some(asked) = candidate.asked.filter(|_| !rail.trip.is_known()) {
            rail.on_round_trip(meta.now.since(asked), Duration::ZERO);
        }
        if index == 0 {
            self.report(Event::Moved(meta.from));
        }
    }

    /// Rail 0 has a new local address. Nothing is known of that path (RFC 9000 section 9.4). The peer is sent a packet
    /// at once: it sees the new address, and adopts it when a challenge was answered from there.
    pub fn begin_path(&mut self) {
        if self.phase == Phase::Open && self.rails[0].is_live() {
            self.rails[0].begin_anew(self.limit, &self.settings);
            self.probe_rail(0);
        }
    }

    /// The path of a rail has changed.
    fn on_path(&mut self, index: usize, before: Option<PathAddress>, now: PathAddress) {
        let Some(before) = before else {
            self.rails[index].begin_anew(self.limit, &self.settings);
            self.counters.rails_opened += 1;
            return;
        };
        self.counters.moves += 1;
        if is_same_path(before, now) {
            // It may treat marks differently all the same (RFC 9000 section 13.4.2).
            let rail = &mut self.rails[index];
            rail.ecn.restart(rail.sent.next_number());
        } else {
            // Packets in flight went to the peer's old address.
            self.leave_rail(index);
            self.rails[index].begin_anew(self.limit, &self.settings);
        }
    }

    /// All challenges of a rail were unanswered.
    pub(crate) fn on_unanswered(&mut self, index: usize, now: Time) {
        let rail = &mut self.rails[index];
        let candidate = rail.candidate.take();
        rail.closed = candidate.map(|candidate| (Out::Unanswered, candidate.place));
        if let Some(candidate) = candidate.filter(|_| self.opens && rail.place.is_none()) {
            self.pairing.fail(candidate.place, now);
        }
    }

    /// Closes rails whose addresses were withdrawn. Rail 0, which set-up has validated, stays.
    fn close_lost_rails(&mut self) {
        for index in 1..self.rails.len() {
            let Some(place) = self.rails[index].leads_to() else { continue };
            if !self.is_offered(place) {
                self.close_rail(index);
            }
        }
    }

    /// Whether further rails may use these addresses. The caller's address is seen by the called side only.
    fn is_offered(&self, place: PathAddress) -> bool {
        let leaves = self.pairing.locals.iter().any(|local| local.local == place.local);
        leaves && (!self.opens || self.pairing.remotes.contains(&place.to))
    }

    /// Closes a rail. Its packets in flight are retransmitted on others.
    fn close_rail(&mut self, index: usize) {
        let rail = &mut self.rails[index];
        rail.closed = rail.leads_to().map(|place| (Out::Withdrawn, place));
        (rail.place, rail.candidate, rail.response) = (None, None, None);
        self.leave_rail(index);
        self.rails[index].begin_anew(self.limit, &self.settings);
    }

    /// A rail has failed: its packets in flight are retransmitted on those that answer. They may still arrive.
    pub(crate) fn send_elsewhere(&mut self, index: usize) {
        let mut flying = core::mem::take(&mut self.scratch);
        flying.clear();
        flying.extend(self.rails[index].sent.flying());
        flying.iter().for_each(|packet| self.send_again(packet));
        let rail = &mut self.rails[index];
        rail.silence = rail.silence.on(silence::Event::Left);
        self.scratch = flying;
        self.counters.rails_left += 1;
    }

    /// Declares all packets of a rail lost. When it answers again its window starts over.
    pub(crate) fn leave_rail(&mut self, index: usize) {
        let mut left = core::mem::take(&mut self.scratch);
        left.clear();
        let rail = &mut self.rails[index];
        rail.sent.leave(&mut left);
        rail.mtu.forget_probe();
        rail.window.restart(self.settings.initial_window, rail.sent.next_number());
        left.iter().for_each(|packet| self.send_again(packet));
        self.scratch = left;
    }
}

/// Whether another address may be the peer's as well, which it names or is seen at. Services at the loopback address
/// often trust whoever can reach them, and a peer elsewhere cannot be there (RFC 9000 section 21.5.6).
fn may_lead_to(peer: SocketAddr, to: SocketAddr) -> bool {
    let is_loopback = |address: SocketAddr| address.ip().to_canonical().is_loopback();
    is_loopback(peer) || !is_loopback(to)
}

/// Whether only the peer's port differs: that is caused by a NAT on the same path (RFC 9000 section 9.4).
fn is_same_path(before: PathAddress, now: PathAddress) -> bool {
    (before.local, before.to.ip()) == (now.local, now.to.ip())
}

impl Rail {
    /// Its path, or the one being validated.
    fn leads_to(&self) -> Option<PathAddress> {
        self.place.or(self.candidate.map(|candidate| candidate.place))
    }

    /// Its local address.
    fn local(&self) -> u8 {
        self.leads_to().map_or(0, |place| place.local)
    }

    fn info(&self) -> RailInfo {
        let state = match (self.place, self.candidate) {
            (Some(_), _) if self.backoff > 0 => RailState::Silent,
            (Some(_), _) => RailState::Live,
            (None, Some(_)) => RailState::Proving,
            (None, None) => RailState::Closed,
        };
        let out = match (state, self.silence) {
            (RailState::Live, _) => None,
            (RailState::Proving, _) => Some(Out::Asked),
            (RailState::Silent, Silence::Failed) => Some(Out::Silent),
            (RailState::Silent, _) => Some(Out::PeerSilent),
            (RailState::Closed, _) => self.closed.map(|(out, _)| out),
        };
        let place = self.leads_to().or(self.closed.map(|(_, place)| place));
        RailInfo {
            id: self.id,
            state,
            out,
            silent_since: (state == RailState::Silent).then_some(self.heard_at),
            place: place.map(|place| (place.local, place.to)),
            rate: self.window.rate(),
            round_trip: self.trip.is_known().then(|| self.trip.smoothed()),
            window: self.limit(),
            in_flight: self.sent.in_flight(),
            datagram_size: self.mtu.current(),
            sent_packets: self.tally.sent_packets,
            sent_bytes: self.tally.sent_bytes,
            lost_packets: self.tally.lost_packets,
            received_packets: self.tally.received_packets,
            received_bytes: self.tally.received_bytes,
        }
    }
}
