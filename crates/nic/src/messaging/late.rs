//! Peers whose hosts have taken the connection, and whose programs do not answer: the application is told after a while,
//! and in the end they count as unreachable.

use core::time::Duration;

use weft_base::{Clock, Time};

use super::core::Core;
use super::link::Phase;
use super::request::{AttemptFailure, Warning};
use super::{EndpointSettings, Engine};
use crate::error::ConnectionError;
use crate::ids::LinkKey;
use crate::lower::Carrier;

impl Core {
    /// When something is to be done about a connection that is being opened, should its peer not answer.
    pub(super) fn next_late_look(&self, key: LinkKey, now: Time) -> Option<Time> {
        let known = self.host.peers.get(self.links.get(key.0)?.peer)?;
        let since = known.wanted_since?;
        let told_at = (!known.is_lateness_told).then_some(since + EndpointSettings::LATE);
        let over_at = self.settings.reply_timeout.map(|timeout| since + timeout);
        [told_at, over_at].into_iter().flatten().filter(|at| *at > now).min()
    }

    /// Looks whether the peer of a connection that is being opened takes too long to answer. Returns whether something was done
    /// about that.
    pub(super) fn look_at_late_opening<N: Carrier, C: Clock>(
        &mut self,
        key: LinkKey,
        engine: &mut Engine<N, C>,
    ) -> bool {
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
        if !engine.is_taken(place.key) {
            return false;
        }
        let waited_for = now - since.unwrap_or(now);
        if is_too_late {
            self.opening.retain(|opening| *opening != key);
            self.end_link(key, engine);
            let failure = ConnectionError::NoAnswer { remote, waited_for, is_connected: true };
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

/// Whether so much time is over since then.
pub(super) fn is_over(limit: Option<Duration>, since: Option<Time>, now: Time) -> bool {
    limit.zip(since).is_some_and(|(limit, since)| now >= since + limit)
}
