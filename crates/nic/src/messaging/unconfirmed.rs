//! Callers that were let in and have not confirmed yet. Over datagrams a hello may come long after its caller has given
//! up, or twice: until the caller confirms there is no connection, nothing is sent on it, and nothing is lost with it.

use weft_base::{Clock, PeerId};
use weft_wire::message::Hello;

use super::Engine;
use super::core::Core;
use super::peers::Origin;
use super::phase::{Event, Phase};
use super::waiting::Unconfirmed;
use crate::ids::LinkKey;
use crate::lower::Carrier;

impl Core {
    /// A link to a caller is established as soon as the caller has confirmed, which over a stream it has.
    pub(super) fn stand_if_confirmed<N: Carrier, C: Clock>(
        &mut self,
        key: LinkKey,
        hello: &Hello,
        origin: Origin,
        engine: &mut Engine<N, C>,
    ) {
        let Some(link) = self.links.get_mut(key.0) else { return };
        let peer = link.peer;
        if link.queue_pair.connection().is_none_or(|place| engine.is_confirmed(place.key)) {
            link.on(Event::Established);
            return self.connected(peer, hello, origin, engine);
        }
        // A peer that is to be reached there is found by it from now on, and not called as well.
        self.host.peers.expect(peer, hello.id, origin.remote, origin.is_proven);
        if let Some(known) = self.host.peers.get_mut(peer) {
            known.awaited = false;
        }
        self.unconfirmed.push(Unconfirmed { key, peer, hello: hello.clone(), origin });
    }

    /// Finds the callers that have confirmed.
    pub(super) fn check_unconfirmed<N: Carrier, C: Clock>(&mut self, engine: &mut Engine<N, C>) -> bool {
        let mut any = false;
        let mut left = Vec::new();
        for one in core::mem::take(&mut self.unconfirmed) {
            let Some(link) = self.links.get(one.key.0).filter(|link| link.phase == Phase::Unconfirmed) else {
                left.push((one.peer, one.hello.id));
                continue;
            };
            let has_ended = link.queue_pair.state().has_ended();
            let confirmed = match link.queue_pair.connection() {
                Some(place) if !has_ended => engine.is_confirmed(place.key),
                // A packet from it shows that it has.
                _ => !link.early.is_empty(),
            };
            match (confirmed, has_ended) {
                (true, _) => self.confirmed(&one, engine),
                (false, true) => {
                    left.push((one.peer, one.hello.id));
                    self.never_confirmed(one.key, engine);
                }
                (false, false) => {
                    self.unconfirmed.push(one);
                    continue;
                }
            }
            any = true;
        }
        for (peer, id) in left {
            if !self.unconfirmed.iter().any(|one| (one.peer, one.hello.id) == (peer, id)) {
                self.host.peers.expect_no_more(peer, id);
            }
        }
        any
    }

    fn confirmed<N: Carrier, C: Clock>(&mut self, one: &Unconfirmed, engine: &mut Engine<N, C>) {
        let Some(link) = self.links.get_mut(one.key.0) else { return };
        link.on(Event::Established);
        let (peer, has_ended) = (link.peer, link.queue_pair.state().has_ended());
        self.connected(peer, &one.hello, one.origin, engine);
        self.take_early(one.key, engine.now());
        if has_ended {
            self.notice_end(one.key);
        }
    }

    /// The caller did not mean it, or has gone: its call is undone.
    fn never_confirmed<N: Carrier, C: Clock>(&mut self, key: LinkKey, engine: &mut Engine<N, C>) {
        let Some(link) = self.links.remove(key.0) else { return };
        let peer = link.peer;
        let Some(known) = self.host.peers.get_mut(peer).filter(|known| known.link == Some(key)) else { return };
        known.link = None;
        self.host.peers.leave(peer);
        if self.machine.is_connecting(peer) {
            self.open(peer, engine);
        }
    }

    /// Drops a link to a caller that has not confirmed: it calls again. Returns whether there was one.
    pub(super) fn drop_unconfirmed<N: Carrier, C: Clock>(&mut self, peer: PeerId, engine: &mut Engine<N, C>) -> bool {
        let link = self.host.peers.get(peer).and_then(|known| known.link).and_then(|key| self.links.get(key.0));
        let is_unconfirmed = link.is_some_and(|link| link.phase == Phase::Unconfirmed);
        if is_unconfirmed {
            self.drop_opening(peer, engine);
        }
        is_unconfirmed
    }
}
