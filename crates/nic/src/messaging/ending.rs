//! How an endpoint ends, and what it reports to the application when a peer, a message or a transfer has failed.

use core::hash::{Hash as _, Hasher as _};
use std::hash::DefaultHasher;

use slotmap::DefaultKey;
use weft_base::{Clock, PeerId};

use super::Engine;
use super::closing::Movement;
use super::core::Core;
use super::host::{Outbound, injected_bytes};
use super::link::Link;
use super::peers::Peer;
use super::phase::Phase;
use super::request::{Completed, EndpointFailure, Event, SendPost, Undelivered};
use super::transfer::{Transfer, Work};
use crate::connection::Ending;
use crate::ids::LinkKey;
use crate::lower::Carrier;

impl Core {
    /// From here on the application posts nothing more. What fails is counted.
    pub(crate) fn begin_close(&mut self) {
        self.host.undelivered = Some(Undelivered::default());
    }

    /// Whether something that was accepted has not gone out, to peers that are connected and to those that are yet to
    /// be. What is laid out goes before a graceful end. A message of which the peer knows, and which waits for its
    /// program to receive it, is owed only if it is kept here. To callers that the application does not know,
    /// nothing is owed: they may be strangers that want to keep the endpoint open.
    pub(crate) fn owes(&self) -> bool {
        self.leaves_undone(|peer| self.is_known(peer), Outbound::is_kept)
    }

    /// Whether nothing at all is under way that this side has begun, or is to answer.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.leaves_undone(|_| true, |_| true)
    }

    fn leaves_undone(&self, counts: impl Fn(PeerId) -> bool, is_promised: impl Fn(&Outbound) -> bool) -> bool {
        let is_posted = |link: &Link| link.phase == Phase::Up && link.queue_pair.sends_under_way() > 0;
        self.held_back
            || !self.host.in_use.is_empty()
            || self.stalled.iter().chain(self.patient.iter()).any(&counts)
            || self.host.transfers.iter().any(|(_, transfer)| !matches!(transfer, Transfer::Protocol(_)))
            || self.host.peers.iter().any(|peer| !peer.work.is_empty())
            || self.links.iter().any(|(_, link)| counts(link.peer) && is_posted(link))
            || self.machine.owes(counts, is_promised)
    }

    /// What has moved so far towards the peers that the application knows of. What they send does not count: a peer
    /// that sends and receives nothing does not keep the endpoint open.
    pub(crate) fn movement<N: Carrier, C: Clock>(&self, engine: &mut Engine<N, C>) -> Movement {
        let mut mark = DefaultHasher::new();
        let mut is_setting_up = self.awaited.iter().any(|(peer, _)| self.is_awaited(*peer));
        self.host.sends_under_way.hash(&mut mark);
        for (_, link) in self.links.iter().filter(|(_, link)| self.is_known(link.peer)) {
            is_setting_up |= link.phase.is_early();
            (link.key.0, link.phase == Phase::Up, link.queue_pair.state().has_ended()).hash(&mut mark);
            (link.queue_pair.sends_under_way() as u64).hash(&mut mark);
            let sent = link.queue_pair.connection().map_or((0, 0), |place| engine.sent_mark(place.key));
            sent.hash(&mut mark);
        }
        Movement { mark: mark.finish(), is_setting_up }
    }

    fn is_awaited(&self, peer: PeerId) -> bool {
        self.host.peers.get(peer).is_some_and(|known| known.awaited && known.is_known())
    }

    fn is_known(&self, peer: PeerId) -> bool {
        self.host.peers.get(peer).is_some_and(Peer::is_known)
    }

    /// What has not been delivered since closing began.
    pub(crate) fn undelivered(&mut self) -> Option<Undelivered> {
        self.host.undelivered.take().filter(|undelivered| undelivered.requests > 0)
    }

    /// Whether there is no connection, and nothing to be done with one.
    pub(crate) fn is_idle(&self) -> bool {
        self.links.iter().next().is_none() && self.host.listed.is_empty() && self.host.to_connect.is_empty()
    }

    /// Ends all connections gracefully.
    pub(crate) fn begin_end<N: Carrier, C: Clock>(&mut self, engine: &mut Engine<N, C>) {
        self.closing = true;
        engine.remove_listener(self.listener);
        for place in self.places() {
            engine.end_connection(place, Ending::Graceful);
        }
    }

    /// Whether all connections have ended, or with `known` those with peers that the application knows of.
    pub(crate) fn has_ended(&self, known: bool) -> bool {
        let counts = |link: &Link| !known || self.is_known(link.peer);
        self.links.iter().all(|(_, link)| !counts(link) || link.queue_pair.state().has_ended())
    }

    /// Ends what is left: everything under way fails.
    pub(crate) fn end<N: Carrier, C: Clock>(&mut self, engine: &mut Engine<N, C>) {
        for place in self.places() {
            engine.end_connection(place, Ending::Abrupt);
        }
        self.take_completions(engine.now());
        for peer in self.host.peers.ids() {
            self.fail_all(peer, EndpointFailure::Closed, true);
            if self.machine.is_busy(peer) {
                // It was about to be closed by agreement, and what was to be sent meanwhile waits for another
                // connection.
                self.lose_peer(peer, EndpointFailure::Closed, true);
            }
        }
        // Posted receives are over as well.
        while self.machine.cancel_receive(|_| true, &mut self.host) {}
        // Nothing uses any memory any more.
        self.host.complete_unused();
    }

    fn places(&self) -> Vec<DefaultKey> {
        self.links.iter().filter_map(|(_, link)| link.queue_pair.connection()).map(|place| place.key).collect()
    }

    pub(super) fn notice_end(&mut self, key: LinkKey) {
        let Some(link) = self.links.get(key.0) else { return };
        if !matches!(link.phase, Phase::Opening(_) | Phase::Unconfirmed) {
            self.ending.keep(link);
        }
        if link.is_broken {
            self.ending.note(key);
        }
    }

    /// Everything that is under way with a peer fails, and what waits for its turn.
    pub(super) fn fail_all(&mut self, peer: PeerId, failure: EndpointFailure, abrupt: bool) {
        let Some(known) = self.host.peers.get_mut(peer) else { return };
        let work = core::mem::take(&mut known.work);
        self.lose_peer(peer, failure.clone(), abrupt);
        for work in work {
            match work {
                // The machine has given it up.
                Work::Protocol { .. } => {}
                Work::Send(post) => self.fail_send(*post, failure.clone()),
                Work::User { number, .. } => self.fail_transfer(number, failure.clone()),
            }
        }
    }

    /// The connection to a peer is gone. What the application posted and was not begun still waits for its turn, and
    /// for another connection.
    pub(super) fn lose_peer(&mut self, peer: PeerId, failure: EndpointFailure, abrupt: bool) {
        let Some(known) = self.host.peers.get_mut(peer) else { return };
        known.failure = Some(failure);
        known.work.retain(Work::is_user);
        self.machine.handle_lost(peer, abrupt, &mut self.host);
        for answered in core::mem::take(&mut self.host.answers) {
            self.finish_call(answered);
        }
    }

    fn fail_send(&mut self, post: SendPost, failure: EndpointFailure) {
        let peer = post.peer;
        if post.inject {
            self.host.injected_bytes -= injected_bytes(post.memory.length());
        }
        if let Some(known) = self.host.peers.get_mut(peer) {
            known.under_way += 1;
        }
        let event = Event {
            completed: Completed::Send,
            context: post.context,
            op_flags: post.op_flags,
            tagged: post.tag.is_some(),
            outcome: Err(failure),
            peer: Some(peer),
            length: post.memory.length() as u64,
            tag: 0,
            data: None,
            offset: 0,
            last: true,
            buffer: post.memory.into_buffer(),
        };
        self.host.finish(peer, event);
    }

    fn fail_transfer(&mut self, number: u32, failure: EndpointFailure) {
        match self.host.transfers.get_mut(number) {
            Some(Transfer::User(transfer)) => {
                transfer.failure.get_or_insert(failure);
                // What was posted of it completes by itself.
                if transfer.under_way == 0 {
                    let (peer, begun) = (transfer.peer, transfer.is_begun());
                    self.count_unbegun(peer, begun);
                    self.finish_transfer(number);
                }
            }
            Some(Transfer::Atomic(atomic)) => {
                let peer = atomic.post.peer;
                self.count_unbegun(peer, false);
                self.finish_atomic(number, Err(failure));
            }
            _ => {}
        }
    }

    /// What ends before it was begun is counted as begun, for its end.
    fn count_unbegun(&mut self, peer: PeerId, begun: bool) {
        if !begun && let Some(known) = self.host.peers.get_mut(peer) {
            known.under_way += 1;
        }
    }
}
