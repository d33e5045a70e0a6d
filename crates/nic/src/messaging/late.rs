//! Connections that are being opened: what has become of them; peers to which no path leads; and those whose hosts have
//! taken the connection, and whose programs do not answer: the application gets a warning about these after a while,
//! and in the end they count as unreachable.

use core::time::Duration;

use weft_base::{Clock, PeerId, Time};

use super::core::Core;
use super::link::Proving;
use super::phase::Phase;
use super::request::{Attempt, AttemptFailure, Attempts, EndpointFailure, Warning};
use super::{EndpointSettings, Engine};
use crate::error::ConnectionError;
use crate::ids::{LinkKey, State};
use crate::lower::Carrier;

/// A connection that is late is checked again after this part of [`EndpointSettings::LATE`].
const CHECKS: u32 = 16;

impl Core {
    /// Continues connections that are being opened, as far as their set-ups have progressed or failed.
    pub(super) fn check_openings<N: Carrier, C: Clock>(&mut self, engine: &mut Engine<N, C>) -> bool {
        let mut any = false;
        while let Some(key) = self.openings.take_news() {
            let Some(link) = self.links.get(key.0).filter(|link| matches!(link.phase, Phase::Opening(_))) else {
                self.end_opening(key);
                continue;
            };
            let state = link.queue_pair.state();
            if matches!(link.proving, Some(Proving::Confirmed(_))) && (!link.early.is_empty() || !state.has_ended()) {
                self.end_opening(key);
                any |= self.take_verdict(key, engine);
                continue;
            }
            if matches!(state, State::Idle | State::Connecting) {
                continue;
            }
            any = true;
            self.end_opening(key);
            if state.has_ended() {
                self.opening_failed(key, engine);
            } else {
                self.welcome(key, engine);
            }
        }
        any
    }

    /// Checks whether one of them takes too long, when it is time for that. Returns whether something was done about
    /// it.
    pub(super) fn check_late_openings<N: Carrier, C: Clock>(&mut self, engine: &mut Engine<N, C>) -> bool {
        let now = engine.now();
        if self.late_at.is_none_or(|at| at > now) {
            return false;
        }
        let all: Vec<LinkKey> = self.openings.iter().collect();
        let any = all.iter().fold(false, |any, key| self.check_late_opening(*key, engine) | any);
        self.late_at = self.openings.iter().filter_map(|key| self.next_late_check(key, now)).min();
        any
    }

    /// A link is open, or given up.
    pub(super) fn end_opening(&mut self, key: LinkKey) {
        self.openings.remove(key, self.links.get(key.0).map(Box::as_ref));
    }

    /// No path has led to a peer. Where its host has taken the connection its program may be stopped, and answer later.
    pub(super) fn give_up<N: Carrier, C: Clock>(&mut self, peer: PeerId, engine: &mut Engine<N, C>) {
        let Some(known) = self.host.peers.get_mut(peer) else { return };
        known.link = None;
        known.awaited = false;
        let is_late = is_over(self.settings.reply_timeout, known.wanted_since, engine.now());
        if !self.closing && !is_late && known.attempts.iter().any(is_silent) {
            known.attempts.clear();
            known.rounds += 1;
            return self.try_path(peer, 0, engine);
        }
        let attempts = Attempts(core::mem::take(&mut known.attempts));
        self.host.peers.leave(peer);
        let is_cut_off =
            |attempt: &Attempt| matches!(attempt.failure, AttemptFailure::Connection(ConnectionError::Abandoned));
        let failure = match attempts.0.last() {
            // It was being opened when the endpoint was closed.
            Some(last) if self.closing && is_cut_off(last) => EndpointFailure::Closed,
            _ => EndpointFailure::Unreachable(attempts.into()),
        };
        self.fail_all(peer, failure, true);
    }

    /// When something is to be done about a connection that is being opened, should its peer not answer.
    pub(super) fn next_late_check(&self, key: LinkKey, now: Time) -> Option<Time> {
        let known = self.host.peers.get(self.links.get(key.0)?.peer)?;
        let since = known.wanted_since?;
        let told_at = (!known.is_lateness_told).then_some(since + EndpointSettings::LATE);
        let over_at = self.settings.reply_timeout.map(|timeout| since + timeout);
        // Where it was time already its host has not taken the connection, and may yet.
        let due = |at: Time| if at > now { at } else { now + EndpointSettings::LATE / CHECKS };
        [told_at, over_at].into_iter().flatten().map(due).min()
    }

    /// Checks whether the peer of a connection that is being opened takes too long to answer. Returns whether something
    /// was done about that.
    pub(super) fn check_late_opening<N: Carrier, C: Clock>(&mut self, key: LinkKey, engine: &mut Engine<N, C>) -> bool {
        let now = engine.now();
        let Some(link) = self.links.get(key.0) else { return false };
        let (peer, Phase::Opening(path)) = (link.peer, link.phase) else { return false };
        let Some(known) = self.host.peers.get(peer) else { return false };
        let (is_told, since, remote) = (known.is_lateness_told, known.wanted_since, known.address.paths.get(path));
        let is_late = is_over(Some(EndpointSettings::LATE), since, now);
        let is_too_late = is_over(self.settings.reply_timeout, since, now);
        if !is_too_late && (is_told || !is_late) {
            return false;
        }
        // A host that does not answer has a limit of its own.
        let (Some(place), Some(remote)) = (link.queue_pair.connection(), remote.copied()) else { return false };
        let Some(transport) = engine.taken_by(place.key) else { return false };
        let waited_for = now - since.unwrap_or(now);
        if is_too_late {
            self.end_opening(key);
            self.end_link(key, engine);
            let waited_for = self.settings.reply_timeout.unwrap_or(waited_for);
            let failure = ConnectionError::NoAnswer { remote, waited_for, is_connected: true, transport };
            self.note_attempt(peer, None, remote, AttemptFailure::Connection(failure));
            self.give_up(peer, engine);
            return true;
        }
        if let Some(known) = self.host.peers.get_mut(peer) {
            known.is_lateness_told = true;
        }
        self.host.warn(&Warning::NoReply { remote, waited_for, until: self.settings.reply_timeout });
        true
    }
}

/// Whether a host has taken the connection there, and its program has not answered.
fn is_silent(attempt: &Attempt) -> bool {
    matches!(attempt.failure, AttemptFailure::Connection(ConnectionError::NoAnswer { is_connected: true, .. }))
}

/// Whether that much time has passed since then.
fn is_over(limit: Option<Duration>, since: Option<Time>, now: Time) -> bool {
    limit.zip(since).is_some_and(|(limit, since)| now >= since + limit)
}
