//! Callers that the application has not named, and that have left: the newest are remembered, for what they have sent
//! may not have been read yet, and the others make room.

use weft_base::PeerId;
use weft_wire::message::Refusal;

use super::core::Core;
use super::request::Address;

/// This many of those that have left are checked for each newcomer,
const CHECKS: usize = 2;
/// and this many when there is no room.
const CHECKS_FOR_ROOM: usize = 64;

impl Core {
    /// A peer that has called, and is new.
    pub(super) fn add_caller(&mut self, address: Address) -> Result<PeerId, Refusal> {
        self.forget_some();
        self.host.peers.add_caller(address).map_err(|_| Refusal::Full)
    }

    /// Forgets callers that have left first, if there are many of them, and one at least if there is no room for
    /// another peer. Those with which something is in flight, or of which something is kept, stay.
    pub(super) fn forget_some(&mut self) {
        let is_full = self.host.peers.is_full();
        for _ in 0..if is_full { CHECKS_FOR_ROOM } else { CHECKS } {
            let has_room = !self.host.peers.is_full();
            if has_room && (is_full || !self.host.peers.have_many_left()) {
                return;
            }
            let Some(peer) = self.host.peers.next_left() else { return };
            if self.has_come_back(peer) {
                continue;
            }
            if self.is_over(peer) && self.machine.forget_peer(peer) {
                self.host.peers.forget(peer);
            } else {
                self.host.peers.leave(peer);
            }
        }
    }

    /// Whether a caller that has left is connected again, or was named since.
    fn has_come_back(&self, peer: PeerId) -> bool {
        self.host.peers.get(peer).is_none_or(|known| known.link.is_some() || known.is_named)
    }

    /// Whether nothing is under way with a peer, or waits for its turn.
    fn is_over(&self, peer: PeerId) -> bool {
        let Some(known) = self.host.peers.get(peer) else { return false };
        let host = &self.host;
        let lists = [&host.to_connect, &host.to_disconnect, &host.to_break, &self.stalled, &self.patient];
        let is_idle = known.work.is_empty() && !known.is_listed && known.under_way == 0 && known.calls == 0;
        let has_link = || self.ending.iter().any(|key| self.links.get(key.0).is_some_and(|link| link.peer == peer));
        is_idle
            && !known.awaited
            && lists.iter().all(|list| !list.contains(peer))
            && host.to_widen.iter().all(|(other, _)| *other != peer)
            && !has_link()
            && !(known.has_receives && self.machine.has_receives_for(peer))
    }
}
