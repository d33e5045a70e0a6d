//! How both sides of a connection prove that they have the job's key: the reply to a hello proves it for the answerer,
//! the first packet for the caller. Until then nothing is granted, matched or
//! replaced: the caller is no peer, its packets wait, and it reaches no memory. Then the called end decides about the
//! connection, as it does without a key about a hello, and sends its verdict.

use weft_base::{Clock, PeerId};
use weft_message::Decision;
use weft_wire::message::{Confirmation, Hello, PROOF_LENGTH, Refusal, Verdict};

use super::Engine;
use super::connect::ASKED_TIMES;
use super::core::Core;
use super::link::{Answered, Proving};
use super::peers::{Caller, Origin};
use super::phase::{Event, Phase};
use super::request::{Address, AttemptFailure};
use crate::connection::Ending;
use crate::engine::listening::RequestKey;
use crate::error::ConnectionError;
use crate::ids::LinkKey;
use crate::lower::Carrier;
use crate::offer::ConnectionInfo;
use crate::offer::RequestInfo;

/// The most callers that have been answered and have yet to prove something. Further ones wait to be answered; they
/// take the places of those that have been silent for an eighth of the time for connecting.
const MOST_UNPROVEN: usize = 64;
/// The peer of a link to none in particular.
const NOBODY: PeerId = PeerId(u32::MAX);

impl Core {
    // --- the caller

    /// Whether the answerer has our key, if we have one.
    pub(super) fn check_reply(&self, key: LinkKey, hello: &Hello, info: &ConnectionInfo) -> Result<(), AttemptFailure> {
        let Some(job) = &self.key else { return Ok(()) };
        let (Some(_), Some(proof)) = (&hello.nonce, &hello.proof) else { return Err(AttemptFailure::NoKey) };
        let Some(Proving::Asked(request)) = self.links.get(key.0).and_then(|link| link.proving.as_ref()) else {
            return Err(AttemptFailure::WrongKey);
        };
        let is_good = job.is_reply(request, hello.before_proof(&info.private_data), proof);
        if is_good { Ok(()) } else { Err(AttemptFailure::WrongKey) }
    }

    /// Proves to the answerer that we have the key, and waits for its verdict. Returns whether there is a key.
    pub(super) fn confirm(&mut self, key: LinkKey, hello: &Hello, info: &ConnectionInfo) -> bool {
        let Some(job) = &self.key else { return false };
        let Some(link) = self.links.get_mut(key.0) else { return true };
        let Some(Proving::Asked(request)) = &link.proving else { return true };
        let proof = job.confirmation(request, &info.private_data);
        link.proving = Some(Proving::Confirmed(Box::new(hello.clone())));
        link.post_first(&Confirmation(proof).emit());
        Self::ring(&mut self.rung, link);
        self.openings.keep(link);
        true
    }

    /// Checks whether the verdict is here. The peer is the wanted one, and its host answers as long as the connection
    /// is established: so it has as long as for its first answer ([`super::EndpointSettings::reply_timeout`]).
    pub(super) fn take_verdict<N: Carrier, C: Clock>(&mut self, key: LinkKey, engine: &mut Engine<N, C>) -> bool {
        let Some(link) = self.links.get_mut(key.0) else { return false };
        let (peer, Phase::Opening(path)) = (link.peer, link.phase) else { return false };
        let Some(Proving::Confirmed(hello)) = &link.proving else { return false };
        let hello = hello.clone();
        let failure = match link.take_first(Verdict::parse) {
            None => {
                self.openings.keep(link);
                return false;
            }
            Some(Ok(Verdict::Connected { serial })) => {
                link.peer_serial = serial;
                self.stand(key, peer, &hello, engine);
                return true;
            }
            Some(Ok(Verdict::Refused(refusal))) => match AttemptFailure::of(refusal) {
                Some(failure) => failure,
                None => {
                    self.end_link(key, engine);
                    self.await_peer(peer, engine.now());
                    return true;
                }
            },
            Some(Err(_)) => AttemptFailure::Connection(ConnectionError::Protocol),
        };
        self.end_link(key, engine);
        self.next_path(peer, path, failure, engine);
        true
    }

    /// Both have proved it, and this is the connection between them.
    fn stand<N: Carrier, C: Clock>(&mut self, key: LinkKey, peer: PeerId, hello: &Hello, engine: &mut Engine<N, C>) {
        let Some(link) = self.links.get_mut(key.0) else { return };
        link.peer = peer;
        link.on(Event::Established);
        link.proving = None;
        let queue_pair = std::sync::Arc::clone(&link.queue_pair);
        if let Some(place) = queue_pair.connection() {
            engine.admit(place.key);
        }
        if let Some(known) = self.host.peers.get_mut(peer) {
            known.link = Some(key);
        }
        if let Some(info) = queue_pair.info() {
            let origin = Origin { remote: info.remote.ip(), local: info.local.ip(), is_proven: true };
            self.connected(peer, hello, origin, engine);
        }
        self.take_early(key, engine.now());
    }

    // --- the called end

    /// Whether another caller may be answered.
    pub(super) fn has_room_for_caller<N: Carrier, C: Clock>(&mut self, engine: &mut Engine<N, C>) -> bool {
        if self.unproven.len() < MOST_UNPROVEN {
            return true;
        }
        let oldest = self.unproven[0];
        let since = match self.links.get(oldest.0).and_then(|link| link.proving.as_ref()) {
            Some(Proving::Answered(answered)) => answered.since,
            _ => engine.now(),
        };
        let until = since + self.settings.connect_timeout / ASKED_TIMES;
        if until > engine.now() {
            self.wake_by(until);
            return false;
        }
        self.unproven.remove(0);
        self.end_link(oldest, engine);
        true
    }

    /// Answers a caller with a proof, and waits for its own.
    pub(super) fn challenge<N: Carrier, C: Clock>(
        &mut self,
        request: RequestKey,
        info: RequestInfo,
        (hello, address, origin): (Hello, Address, Origin),
        engine: &mut Engine<N, C>,
    ) -> Result<(), Refusal> {
        let key = self.add_link(NOBODY, Phase::Unproven).map_err(|_| Refusal::Full)?;
        let mut own = Hello { proof: Some([0; PROOF_LENGTH]), ..self.hello(hello.id) };
        let (Some(job), Some(link)) = (&self.key, self.links.get_mut(key.0)) else { return Err(Refusal::Full) };
        let mut reply = vec![0; own.length()];
        own.emit(&mut reply);
        own.proof = Some(job.reply(&info.private_data, own.before_proof(&reply)));
        own.emit(&mut reply);
        let queue_pair = std::sync::Arc::clone(&link.queue_pair);
        if engine.accept(request, &queue_pair, &reply, None).is_err() {
            // It has gone: no peer is left to answer.
            self.links.remove(key.0);
            return Ok(());
        }
        let since = engine.now();
        let until = since + self.settings.connect_timeout;
        let answered = Answered { address, origin, hello, request: info.private_data, reply, since, until };
        link.proving = Some(Proving::Answered(Box::new(answered)));
        self.unproven.push(key);
        self.wake_by(until);
        Ok(())
    }

    /// Polls for what callers that have been answered have sent since.
    pub(super) fn check_unproven<N: Carrier, C: Clock>(&mut self, engine: &mut Engine<N, C>) -> bool {
        let now = engine.now();
        let mut any = false;
        for key in core::mem::take(&mut self.unproven) {
            let Some(link) = self.links.get_mut(key.0).filter(|link| link.phase == Phase::Unproven) else { continue };
            let first = link.take_first(Confirmation::parse);
            let Some(Proving::Answered(answered)) = &link.proving else { continue };
            let is_good = match (first, &self.key) {
                (None, _) if answered.until > now => {
                    self.unproven.push(key);
                    continue;
                }
                (Some(Ok(Confirmation(proof))), Some(job)) => {
                    job.is_confirmation(&answered.request, &answered.reply, &proof)
                }
                _ => false,
            };
            any = true;
            match link.proving.take() {
                Some(Proving::Answered(answered)) if is_good => self.judge(key, *answered, engine),
                _ => self.end_link(key, engine),
            }
        }
        any
    }

    /// Decides about a caller that has proved that it has the key.
    fn judge<N: Carrier, C: Clock>(&mut self, key: LinkKey, answered: Answered, engine: &mut Engine<N, C>) {
        let Answered { address, origin, hello, .. } = answered;
        match self.make_path(&address, origin, &hello, engine) {
            Ok(peer) => {
                self.serial += 1;
                let serial = self.serial;
                if let Some(link) = self.links.get_mut(key.0) {
                    link.peer_serial = hello.serial;
                    link.post_first(&Verdict::Connected { serial }.emit());
                    Self::ring(&mut self.rung, link);
                }
                self.stand(key, peer, &hello, engine);
            }
            Err(refusal) => {
                let Some(link) = self.links.get_mut(key.0) else { return };
                link.post_first(&Verdict::Refused(refusal).emit());
                self.end_link_by(key, Ending::Graceful, engine);
            }
        }
    }

    /// Gives a caller that has proved something the place that it is due. Returns which peer it is.
    fn make_path<N: Carrier, C: Clock>(
        &mut self,
        address: &Address,
        origin: Origin,
        hello: &Hello,
        engine: &mut Engine<N, C>,
    ) -> Result<PeerId, Refusal> {
        if self.closing {
            return Err(Refusal::SomebodyElse);
        }
        let known = match self.host.peers.find_caller(address, origin) {
            Caller::Known(known) => Some(known),
            Caller::New => None,
            Caller::Elsewhere => return Err(Refusal::Elsewhere),
        };
        match (self.tie_break(known, hello, origin).decide(), known) {
            (Decision::Reject(refusal), _) => return Err(refusal),
            (Decision::ReplaceOld, Some(known)) => self.drop_old(known, engine),
            (_, Some(known)) => self.drop_opening(known, engine),
            (_, None) => {}
        }
        known.map_or_else(|| self.add_caller(address.clone()), Ok)
    }
}
