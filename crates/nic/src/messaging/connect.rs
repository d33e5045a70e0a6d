//! How an endpoint's connections come about and end: opened when they are needed, tried one path after the other,
//! accepted from peers, given up.

use core::time::Duration;
use std::net::SocketAddr;

use weft_base::{Clock, PeerId, Stag, Time};
use weft_message::{Decision, Settings as MessageSettings, Standing, Terms, TieBreak};
use weft_rdmap::{Operation, Payload, RemoteTarget, RequestFlags, SendRequest};
use weft_wire::message::{Hello, HelloError, Refusal};

use super::Engine;
use super::by_links::ByLinks;
use super::core::Core;
use super::link::{Link, Parts, Proving, Purpose};
use super::peers::{Caller, Origin};
use super::phase::{Event, Phase};
use super::request::{Address, Attempt, AttemptFailure, EndpointFailure};
use super::waiting::PendingTakeover;
use crate::connection::{Ending, within_limits};
use crate::engine::ConnectTimeout;
use crate::engine::listening::RequestKey;
use crate::error::{ConnectionError, Error};
use crate::ids::LinkKey;
use crate::lower::Route;
use crate::lower::{Carrier, Setup as _};
use crate::offer::{
    ConnectionInfo, Extensions, MpaOffer, Offer, ReadyKind, ReadyKinds, RequestInfo, StartError, StartReason, Transport,
};
use crate::settings::Settings;

/// What this side wants of every connection: what Weft does beyond the standard, and that either side may send first.
pub(crate) fn offer(transport: Transport, settings: &Settings) -> Offer {
    let offer = Offer {
        transport,
        ird: Offer::READS,
        ord: Offer::READS,
        mpa: MpaOffer {
            ready_to_receive: Some(ReadyKinds::only(ReadyKind::Write)),
            extensions: Extensions::usual(),
            ..MpaOffer::default()
        },
    };
    within_limits(&offer, settings)
}

/// When a peer has announced that it is connecting to us, we wait for it for the time for connecting divided by this,
/// and then try again.
const AWAITED_TIMES: u32 = 4;

/// All paths are tried again, each for twice as long, so often; then for no longer.
const MOST_DOUBLINGS: u32 = 3;

/// When another caller wants the place of an established connection, the probe of that connection has the time for
/// connecting divided by this to find it dead.
pub(super) const ASKED_TIMES: u32 = 8;
/// The most callers that want the place of one connection, and of all: those beyond are refused at once.
const MOST_DOUBTED: usize = 4;
const MOST_DOUBTED_OF_ALL: usize = 64;

impl Core {
    // --- opening

    /// A connection to a peer is wanted.
    pub(super) fn open<N: Carrier, C: Clock>(&mut self, peer: PeerId, engine: &mut Engine<N, C>) {
        let terms = self.terms();
        let Some(known) = self.host.peers.get_mut(peer) else { return };
        if known.is_self {
            return self.machine.handle_connected(peer, terms, engine.now(), &mut self.host);
        }
        if known.link.is_some() || known.awaited {
            return;
        }
        known.attempts.clear();
        known.times_awaited = 0;
        known.rounds = 0;
        (known.wanted_since, known.is_lateness_told) = (Some(engine.now()), false);
        self.try_path(peer, 0, engine);
    }

    /// Tries a path to a peer, and then those after it until one does not fail at once.
    pub(super) fn try_path<N: Carrier, C: Clock>(&mut self, peer: PeerId, first: usize, engine: &mut Engine<N, C>) {
        let Some(known) = self.host.peers.get(peer) else { return };
        let paths = known.address.paths.clone();
        let ours = self.settings.transport;
        if let Some(theirs) = known.address.transport.filter(|theirs| !ours.finds(*theirs)) {
            for remote in paths {
                self.note_attempt(peer, None, remote, AttemptFailure::Transport { ours, theirs });
            }
            return self.give_up(peer, engine);
        }
        for (path, remote) in paths.iter().enumerate().skip(first) {
            match self.start(peer, path, *remote, engine) {
                Ok(()) => return,
                Err(error) => self.note_attempt(peer, None, *remote, AttemptFailure::Connection(error)),
            }
        }
        self.give_up(peer, engine);
    }

    /// What a peer is called by.
    fn transport_to<N: Carrier, C: Clock>(&self, peer: PeerId, engine: &mut Engine<N, C>) -> Transport {
        let ours = self.settings.transport;
        let Some(known) = self.host.peers.get(peer) else { return ours };
        let (transport, by_links) = self.own_links.transport_to(&known.address, ours);
        match by_links {
            Some(ByLinks::Several) => engine.counters.calls_over_several_links += 1,
            Some(ByLinks::One) => engine.counters.calls_over_one_link += 1,
            None => {}
        }
        transport
    }

    /// How long one of the paths to a peer is tried: all together get the time that there is for connecting, and more
    /// of it in each further round.
    fn time_for_a_path(&self, peer: PeerId) -> Duration {
        let Some(known) = self.host.peers.get(peer) else { return self.settings.connect_timeout };
        let for_each = self.settings.connect_timeout / known.address.paths.len().max(1) as u32;
        for_each.saturating_mul(1 << known.rounds.min(MOST_DOUBLINGS))
    }

    fn start<N: Carrier, C: Clock>(
        &mut self,
        peer: PeerId,
        path: usize,
        remote: SocketAddr,
        engine: &mut Engine<N, C>,
    ) -> Result<(), ConnectionError> {
        let patience = ConnectTimeout {
            timeout: Some(self.time_for_a_path(peer)),
            // Where there are other paths this one may lead to a host that never answers.
            for_program: self.host.peers.get(peer).is_some_and(|known| known.address.paths.len() == 1),
        };
        let local = |error: Error| ConnectionError::Local(Box::new(error));
        let key = self.add_link(peer, Phase::Opening(path)).map_err(|error| local(error.into()))?;
        let hello = bytes_of(&self.hello(self.host.peers.get(peer).map_or(0, |peer| peer.address.id)));
        let transport = self.transport_to(peer, engine);
        let Some(link) = self.links.get_mut(key.0) else { return Ok(()) };
        let started = N::Lower::prepare(&offer(transport, &engine.settings), &hello)
            .map_err(Error::Start)
            .and_then(|start| engine.connect(&link.queue_pair, Route { local: None, remote }, start, patience));
        let local = match started {
            Ok(local) => local,
            Err(error) => {
                self.links.remove(key.0);
                return Err(match error {
                    Error::Port(error) => ConnectionError::Connect { remote, error },
                    error => ConnectionError::Local(Box::new(error)),
                });
            }
        };
        if self.key.is_some() {
            link.proving = Some(Proving::Asked(hello));
        }
        self.openings.add(link);
        if let Some(known) = self.host.peers.get_mut(peer) {
            known.link = Some(key);
            known.from = local;
        }
        if let Some(at) = self.next_late_check(key, engine.now()) {
            self.late_at = [self.late_at, Some(at)].into_iter().flatten().min();
            self.wake_by(at);
        }
        Ok(())
    }

    pub(super) fn add_link(&mut self, peer: PeerId, phase: Phase) -> Result<LinkKey, weft_memory::MemoryError> {
        let key = LinkKey(self.links.next_number());
        let parts = Parts {
            endpoint: self.number,
            id: self.address.id,
            registry: &self.host.registry,
            domain: self.host.domain,
            completions: &self.completions,
            event_count: &self.event_count,
            settings: &self.settings.messages,
            is_guarded: self.key.is_some(),
        };
        let link = Link::new(peer, key, phase, &parts)?;
        Ok(LinkKey(self.links.add(Box::new(link))))
    }

    /// The hello to the peer with this id; 0: to any.
    pub(super) fn hello(&mut self, wanted: u64) -> Hello {
        self.serial += 1;
        let MessageSettings { packet_bytes, data_credits, control_credits, .. } = self.settings.messages;
        let nonce = self.key.as_ref().map(|key| key.nonce(self.address.id, self.seed, self.serial));
        Hello {
            id: self.address.id,
            wanted,
            serial: self.serial,
            packet_bytes,
            data_credits,
            control_credits,
            addresses: self.address.paths.clone(),
            host: self.host_id,
            nonce,
            proof: None,
        }
    }

    pub(super) fn note_attempt(
        &mut self,
        peer: PeerId,
        local: Option<SocketAddr>,
        remote: SocketAddr,
        failure: AttemptFailure,
    ) {
        if let Some(known) = self.host.peers.get_mut(peer) {
            known.attempts.push(Attempt { local, remote, failure });
        }
    }

    /// A connection that we have opened is established.
    pub(super) fn welcome<N: Carrier, C: Clock>(&mut self, key: LinkKey, engine: &mut Engine<N, C>) {
        let Some(link) = self.links.get(key.0) else { return };
        let (peer, Phase::Opening(path)) = (link.peer, link.phase) else { return };
        let Some(info) = link.queue_pair.info() else { return };
        let origin = Origin { remote: info.remote.ip(), local: info.local.ip(), is_proven: self.key.is_some() };
        match self.judge_answer(key, peer, &info, origin) {
            // The peer decides whether it is established.
            Ok(hello) if self.confirm(key, &hello, &info) => {}
            Ok(hello) => {
                if let Some(link) = self.links.get_mut(key.0) {
                    link.on(Event::Established);
                    link.peer_serial = hello.serial;
                }
                self.connected(peer, &hello, origin, engine);
                self.take_early(key, engine.now());
            }
            Err(failure) => {
                self.end_link(key, engine);
                self.next_path(peer, path, failure, engine);
            }
        }
    }

    /// Whether the peer that has answered is the one that was wanted.
    fn judge_answer(
        &self,
        key: LinkKey,
        peer: PeerId,
        info: &ConnectionInfo,
        origin: Origin,
    ) -> Result<Hello, AttemptFailure> {
        let hello = Hello::parse(&info.private_data).map_err(|error| match error {
            HelloError::Version(theirs) => AttemptFailure::Version { theirs },
            HelloError::Extension(_) => AttemptFailure::Extension,
            HelloError::Foreign | HelloError::Malformed => AttemptFailure::Foreign,
        })?;
        if hello.id == self.address.id {
            return Err(AttemptFailure::Itself);
        }
        self.check_reply(key, &hello, info)?;
        let is_wanted = self.host.peers.may_answer(peer, hello.id, origin);
        if is_wanted { Ok(hello) } else { Err(AttemptFailure::SomebodyElse) }
    }

    /// Ends a link that is not to be established.
    pub(super) fn end_link<N: Carrier, C: Clock>(&mut self, key: LinkKey, engine: &mut Engine<N, C>) {
        self.end_link_by(key, Ending::Abrupt, engine);
    }

    /// Ends a link in this way.
    pub(super) fn end_link_by<N: Carrier, C: Clock>(&mut self, key: LinkKey, by: Ending, engine: &mut Engine<N, C>) {
        let Some(link) = self.links.get_mut(key.0) else { return };
        link.on(Event::Ended);
        if let Some(place) = link.queue_pair.connection() {
            engine.end_connection(place.key, by);
        }
        self.notice_end(key);
    }

    pub(super) fn connected<N: Carrier, C: Clock>(
        &mut self,
        peer: PeerId,
        hello: &Hello,
        origin: Origin,
        engine: &Engine<N, C>,
    ) {
        let now = engine.now();
        self.host.peers.meet(peer, hello.id, origin.remote, origin.is_proven);
        if let Some(known) = self.host.peers.get_mut(peer) {
            known.awaited = false;
            known.wanted_since = None;
            known.attempts.clear();
            known.host = hello.host;
        }
        let terms = Terms {
            packet_bytes: hello.packet_bytes.min(self.settings.messages.packet_bytes),
            data_credits: hello.data_credits,
            control_credits: hello.control_credits,
        };
        self.machine.handle_connected(peer, terms, now, &mut self.host);
        let link = self.host.peers.get(peer).and_then(|known| self.links.get(known.link?.0));
        let place = link.and_then(|link| link.queue_pair.connection());
        if let Some(round_trip) = place.and_then(|place| engine.round_trip(place.key)) {
            self.machine.note_round_trip(peer, round_trip);
        }
        if let Some(at) = self.machine.handle_time(now, &mut self.host) {
            self.wake_by(at);
        }
    }

    /// A connection that we wanted to open has come to nothing.
    pub(super) fn opening_failed<N: Carrier, C: Clock>(&mut self, key: LinkKey, engine: &mut Engine<N, C>) {
        let Some(link) = self.links.remove(key.0) else { return };
        let Phase::Opening(path) = link.phase else { return };
        let peer = link.peer;
        let mut error = link.queue_pair.error().unwrap_or(ConnectionError::Closed);
        if let ConnectionError::NoAnswer { waited_for, .. } = &mut error {
            *waited_for = self.time_for_a_path(peer);
        }
        let refusal = match &error {
            ConnectionError::Start(StartError { reason: StartReason::Rejected { private_data }, .. }) => {
                Some(Refusal::parse(private_data))
            }
            _ => None,
        };
        let failure = match refusal {
            Some(Ok(refusal)) => match AttemptFailure::of(refusal) {
                Some(failure) => failure,
                None => return self.await_peer(peer, engine.now()),
            },
            Some(Err(HelloError::Version(theirs))) => AttemptFailure::Version { theirs },
            Some(Err(_)) => AttemptFailure::Foreign,
            _ => AttemptFailure::Connection(error),
        };
        self.next_path(peer, path, failure, engine);
    }

    pub(super) fn next_path<N: Carrier, C: Clock>(
        &mut self,
        peer: PeerId,
        path: usize,
        failure: AttemptFailure,
        engine: &mut Engine<N, C>,
    ) {
        let Some(known) = self.host.peers.get_mut(peer) else { return };
        known.link = None;
        let Some(remote) = known.address.paths.get(path).copied() else { return self.give_up(peer, engine) };
        let local = known.from.take();
        self.note_attempt(peer, local, remote, failure);
        if self.closing {
            return self.give_up(peer, engine);
        }
        self.try_path(peer, path + 1, engine);
    }

    /// The peer has announced that it is connecting to us.
    pub(super) fn await_peer(&mut self, peer: PeerId, now: Time) {
        let Some(known) = self.host.peers.get_mut(peer) else { return };
        known.link = None;
        known.awaited = true;
        let until = now + self.settings.connect_timeout / AWAITED_TIMES;
        known.awaited_until = until;
        self.awaited.push_back((peer, until));
        self.wake_by(until);
    }

    pub(super) fn wake_by(&mut self, at: Time) {
        self.wake_at = [self.wake_at, Some(at)].into_iter().flatten().min();
    }

    // --- from peers

    /// Decides about peers that want to connect.
    pub(super) fn meet<N: Carrier, C: Clock>(&mut self, engine: &mut Engine<N, C>) -> bool {
        let mut any = self.meet_doubted(engine);
        while self.has_room_for_caller(engine)
            && let Ok(Some((request, info))) = self.waiting.take()
        {
            any = true;
            self.meet_one(request, info, engine);
        }
        any
    }

    fn meet_one<N: Carrier, C: Clock>(&mut self, request: RequestKey, info: RequestInfo, engine: &mut Engine<N, C>) {
        if let Err(refusal) = self.decide(request, info, engine) {
            // When it is gone already there is no caller to answer.
            let _ = engine.reject(request, &refusal.emit());
        }
    }

    fn decide<N: Carrier, C: Clock>(
        &mut self,
        request: RequestKey,
        info: RequestInfo,
        engine: &mut Engine<N, C>,
    ) -> Result<(), Refusal> {
        let hello = Hello::parse(&info.private_data).map_err(|error| match error {
            HelloError::Version(_) => Refusal::Version,
            HelloError::Extension(_) => Refusal::Extension,
            HelloError::Foreign | HelloError::Malformed => Refusal::SomebodyElse,
        })?;
        if self.closing {
            return Err(Refusal::SomebodyElse);
        }
        if hello.id == self.address.id {
            return Err(Refusal::Itself);
        }
        match (&self.key, &hello.nonce) {
            (Some(_), None) => return Err(Refusal::KeyWanted),
            (None, Some(_)) => return Err(Refusal::NoKey),
            _ => {}
        }
        // Where there is a key, the decision assumes that the caller has proved that it has it, and takes no effect
        // until it has.
        let origin = Origin { remote: info.remote.ip(), local: info.local.ip(), is_proven: self.key.is_some() };
        let mut paths = hello.addresses.clone();
        if paths.is_empty() {
            paths.push(info.remote);
        }
        let address = Address { id: hello.id, paths, transport: None };
        let known = match self.host.peers.find_caller(&address, origin) {
            Caller::Known(known) => Some(known),
            Caller::New => None,
            Caller::Elsewhere => return Err(Refusal::Elsewhere),
        };
        match (self.tie_break(known, &hello, origin).decide(), known) {
            (Decision::Reject(refusal), _) => return Err(refusal),
            _ if self.key.is_some() => return self.challenge(request, info, (hello, address, origin), engine),
            (Decision::AskOld, Some(known)) if self.drop_unconfirmed(known, engine) => {}
            (Decision::AskOld, Some(known)) => return self.ask_old(request, info, known, engine.now()),
            (Decision::ReplaceOld, Some(known)) => self.drop_old(known, engine),
            (_, Some(known)) => self.drop_opening(known, engine),
            (_, None) => {}
        }
        let peer = match known {
            Some(known) => known,
            None => self.add_caller(address)?,
        };
        let accepted = self.accept(request, peer, &hello, origin, engine);
        if self.host.peers.get(peer).is_some_and(|known| known.link.is_none()) {
            self.host.peers.leave(peer);
        }
        accepted
    }

    pub(super) fn tie_break(&self, known: Option<PeerId>, hello: &Hello, origin: Origin) -> TieBreak {
        TieBreak {
            own: self.address.id,
            theirs: hello.id,
            wanted: hello.wanted,
            serial: hello.serial,
            standing: known.map_or(Standing::Nothing, |known| self.standing(known)),
            is_proven: origin.is_proven,
            is_full: false,
        }
    }

    /// A call implies that the peer has lost the connection that we have. If so, its host reports that as soon as a
    /// probe comes on it.
    fn ask_old(&mut self, request: RequestKey, info: RequestInfo, peer: PeerId, now: Time) -> Result<(), Refusal> {
        let Some(asked) = self.host.peers.get(peer).and_then(|known| known.link) else { return Err(Refusal::Tie) };
        let so_many = self.doubted.iter().filter(|doubted| doubted.asked == asked).count();
        if so_many >= MOST_DOUBTED || self.doubted.len() >= MOST_DOUBTED_OF_ALL {
            return Err(Refusal::Tie);
        }
        if so_many == 0 {
            self.probe(asked);
        }
        let until = now + self.settings.connect_timeout / ASKED_TIMES;
        self.doubted.push(PendingTakeover { request, info, asked, until });
        self.wake_by(until);
        Ok(())
    }

    /// Sends something that means nothing to the peer: a write of no bytes.
    fn probe(&mut self, key: LinkKey) {
        let Some(link) = self.links.get_mut(key.0).filter(|link| link.has_place()) else { return };
        link.post(SendRequest {
            id: Purpose::Packet(None).id(key),
            operation: Operation::Write {
                payload: Payload::Inline(weft_rdmap::InlineBytes::EMPTY),
                target: RemoteTarget { stag: Stag(0), offset: 0 },
            },
            signaled: false,
            fence: false,
            flags: RequestFlags::NONE,
        });
        Self::ring(&mut self.rung, link);
    }

    /// Decides about those that waited for the end of another connection.
    fn meet_doubted<N: Carrier, C: Clock>(&mut self, engine: &mut Engine<N, C>) -> bool {
        let now = engine.now();
        let mut any = false;
        let mut at = 0;
        while let Some((asked, until)) = self.doubted.get(at).map(|doubted| (doubted.asked, doubted.until)) {
            let lives = self.links.get(asked.0).is_some_and(|link| link.phase == Phase::Up);
            if lives && until > now {
                at += 1;
                continue;
            }
            any = true;
            let PendingTakeover { request, info, .. } = self.doubted.remove(at);
            if lives {
                let _ = engine.reject(request, &Refusal::Tie.emit());
            } else {
                self.meet_one(request, info, engine);
            }
        }
        any
    }

    /// The state of our connection with a peer.
    fn standing(&self, peer: PeerId) -> Standing {
        let Some(known) = self.host.peers.get(peer) else { return Standing::Nothing };
        let Some(key) = known.link else { return Standing::Nothing };
        let Some(link) = self.links.get(key.0) else { return Standing::Nothing };
        let serial = link.peer_serial;
        match link.phase {
            Phase::Opening(_) => Standing::Connecting { wanted: known.address.id },
            Phase::Unconfirmed => {
                let caller = self.unconfirmed.iter().find(|one| one.key == key);
                Standing::Connected { id: caller.map_or(known.id, |one| one.hello.id), serial }
            }
            _ => Standing::Connected { id: known.id, serial },
        }
    }

    /// Our own attempt makes way for the peer's.
    pub(super) fn drop_opening<N: Carrier, C: Clock>(&mut self, peer: PeerId, engine: &mut Engine<N, C>) {
        let Some(key) = self.host.peers.get_mut(peer).and_then(|known| known.link.take()) else { return };
        self.end_opening(key);
        self.end_link(key, engine);
    }

    /// The peer has a new connection, so the old one is dead, though that has not shown yet.
    pub(super) fn drop_old<N: Carrier, C: Clock>(&mut self, peer: PeerId, engine: &mut Engine<N, C>) {
        let Some(key) = self.host.peers.get(peer).and_then(|known| known.link) else { return };
        if let Some(place) = self.links.get(key.0).and_then(|link| link.queue_pair.connection()) {
            engine.end_connection(place.key, Ending::Abrupt);
        }
        self.notice_end(key);
        self.take_completions(engine.now());
        self.reap(engine);
    }

    fn accept<N: Carrier, C: Clock>(
        &mut self,
        request: RequestKey,
        peer: PeerId,
        theirs: &Hello,
        origin: Origin,
        engine: &mut Engine<N, C>,
    ) -> Result<(), Refusal> {
        let key = self.add_link(peer, Phase::Unconfirmed).map_err(|_| Refusal::Full)?;
        let hello = bytes_of(&self.hello(theirs.id));
        let Some(link) = self.links.get_mut(key.0) else { return Err(Refusal::Full) };
        link.peer_serial = theirs.serial;
        let queue_pair = std::sync::Arc::clone(&link.queue_pair);
        if engine.accept(request, &queue_pair, &hello, None).is_err() {
            // It has gone: no peer is left to answer.
            self.links.remove(key.0);
            return Ok(());
        }
        if let Some(known) = self.host.peers.get_mut(peer) {
            known.link = Some(key);
        }
        self.stand_if_confirmed(key, theirs, origin, engine);
        Ok(())
    }

    /// When a caller that is waited for has had its time.
    fn next_limit(&self, now: Time) -> Option<Time> {
        let doubted = self.doubted.iter().map(|doubted| doubted.until);
        let starting = self.unproven.iter().filter_map(|key| self.links.get(key.0));
        let proving = starting.filter_map(|link| match &link.proving {
            Some(Proving::Answered(answered)) => Some(answered.until),
            Some(Proving::Asked(_) | Proving::Confirmed(_)) | None => None,
        });
        doubted.chain(proving).chain(self.late_at).filter(|until| *until > now).min()
    }

    // --- endings

    /// Both sides have agreed that a connection is not needed now.
    pub(super) fn disconnect<N: Carrier, C: Clock>(&mut self, peer: PeerId, engine: &mut Engine<N, C>) {
        let Some(key) = self.host.peers.get_mut(peer).and_then(|known| known.link.take()) else { return };
        self.host.peers.leave(peer);
        self.end_link_by(key, Ending::Graceful, engine);
    }

    /// Takes leave of connections that have ended, and of the peers behind them.
    pub(super) fn reap<N: Carrier, C: Clock>(&mut self, engine: &mut Engine<N, C>) -> bool {
        let mut any = false;
        while let Some(key) = self.ending.take_news() {
            let Some(link) = self.links.get(key.0) else {
                self.ending.remove(key, None);
                continue;
            };
            if link.is_broken
                && let Some(place) = link.queue_pair.connection()
            {
                engine.end_connection(place.key, Ending::Abrupt);
            }
            if matches!(link.phase, Phase::Opening(_) | Phase::Unconfirmed) {
                // `check_openings` and `check_unconfirmed` see to it.
                continue;
            }
            if !link.queue_pair.state().has_ended() {
                continue;
            }
            self.ending.remove(key, Some(link));
            any = true;
            // What was flushed at its end comes before it is forgotten.
            self.take_completions(engine.now());
            self.forget(key);
        }
        any
    }

    fn forget(&mut self, key: LinkKey) {
        let Some(link) = self.links.remove(key.0) else { return };
        let peer = link.peer;
        let Some(known) = self.host.peers.get_mut(peer) else { return };
        if known.link != Some(key) {
            return;
        }
        known.link = None;
        self.host.peers.leave(peer);
        let error = link.queue_pair.error();
        // Where both sides have agreed to close it nothing was under way, however it ends.
        match error.filter(|_| self.machine.is_open(peer)) {
            Some(error) => self.fail_all(peer, EndpointFailure::Lost(error), true),
            None => self.lose_peer(peer, EndpointFailure::Lost(ConnectionError::Closed), false),
        }
    }

    /// What is overdue.
    pub(super) fn expire<N: Carrier, C: Clock>(&mut self, engine: &mut Engine<N, C>) -> bool {
        let now = engine.now();
        if self.wake_at.is_none_or(|at| at > now) {
            return false;
        }
        self.wake_at = self.machine.handle_time(now, &mut self.host);
        self.check_late_openings(engine);
        if let Some(until) = self.next_limit(now) {
            self.wake_by(until);
        }
        while let Some((peer, until)) = self.awaited.front().copied() {
            let known = self.host.peers.get_mut(peer).filter(|known| known.awaited && known.awaited_until == until);
            if known.is_some() && until > now {
                self.wake_by(until);
                break;
            }
            self.awaited.pop_front();
            let Some(known) = known else { continue };
            known.awaited = false;
            known.times_awaited += 1;
            if known.times_awaited < AWAITED_TIMES {
                // Its attempt may have been lost.
                self.try_path(peer, 0, engine);
                continue;
            }
            if let Some(remote) = known.address.paths.first().copied() {
                let (waited_for, transport) = (self.settings.connect_timeout, self.settings.transport);
                let error = ConnectionError::NoAnswer { remote, waited_for, is_connected: false, transport };
                self.note_attempt(peer, None, remote, AttemptFailure::Connection(error));
            }
            self.give_up(peer, engine);
        }
        true
    }
}

fn bytes_of(hello: &Hello) -> Vec<u8> {
    let mut bytes = vec![0; hello.length()];
    hello.emit(&mut bytes);
    bytes
}
