//! Hints: ICMP messages about packets that were sent.
//!
//! Any host can send such a message. It counts only when it quotes an unacknowledged packet of this connection: the
//! peer's id of the connection (64 random bits), the packet number, and the destination (RFC 8085 section 5.2, RFC 9000
//! section 14.2.1). An attacker on the path can still forge one. So a hint only starts probes, and their outcome
//! decides: a peer that answers one of them is alive, whatever ICMP says (RFC 5927 section 5).

use core::time::Duration;

use weft_base::{Hint, HintKind, Time};
use weft_wire::edge::BASE_DATAGRAM;
use weft_wire::edge::packet::Packet as Bytes;

use crate::connection::Connection;
use crate::phase::{Phase, Refused};
use crate::rail::Rail;
use crate::sent::Packet;

/// Hints start a probe this often at most.
const PROBE_EVERY: Duration = Duration::from_millis(100);
/// While a host reports that no process has the peer's port, the peer is probed at least this often: in [`REFUSED_FOR`]
/// the loss of two probes in a row does not count as silence.
const REFUSED_PROBE_INTERVAL: Duration = Duration::from_millis(300);
/// The peer is lost when its host has reported for this long that no process has the port, ...
const REFUSED_FOR: Duration = Duration::from_secs(1);
/// ... of this many packets, each sent after the report about the one before (a host may limit reports to one a second:
/// RFC 1812 section 4.3.2.8, `icmp_ratelimit` of Linux), ...
const REFUSALS: u32 = 2;
/// ... and nothing was received from the peer for this long: then its program has ended.
const SILENT_FOR: Duration = Duration::from_secs(2);

impl Connection {
    /// Handles a hint about a packet that this side may have sent. Returns whether it quotes an unacknowledged one:
    /// otherwise it is counted and ignored.
    pub fn take_hint(&mut self, hint: &Hint, now: Time) -> bool {
        let Some((index, packet)) = self.quoted(hint) else {
            self.counters.false_hints += 1;
            return false;
        };
        match hint.what {
            HintKind::TooLarge(passes) => self.hint_too_large(index, &packet, passes as usize, now),
            HintKind::Unreachable => self.probe_for_hint(index, now),
            HintKind::Refused => {
                self.probe_for_hint(index, now);
                // Only the host itself knows which process has its ports.
                if hint.by == hint.to.ip().map(|to| to.ip()) {
                    self.count_refusal(&packet, now);
                }
            }
        }
        true
    }

    /// The packet that a hint quotes, and its rail.
    fn quoted(&self, hint: &Hint) -> Option<(usize, Packet)> {
        let header = Bytes::parse(hint.quote.bytes()).ok()?.header;
        if header.destination != self.remote_id() || !self.may_end() {
            return None;
        }
        let rail = self.rails.get(usize::from(header.rail))?;
        let (went, said) = (rail.place?.to, hint.to.ip()?);
        if (went.ip(), went.port()) != (said.ip(), said.port()) {
            return None;
        }
        let packet = rail.sent.unsettled(header.number as u32)?;
        Some((usize::from(header.rail), packet))
    }

    /// A packet was too large: one of `passes` bytes would have passed. The failed size is no longer sent; a probe soon
    /// checks whether the hint is true.
    fn hint_too_large(&mut self, index: usize, packet: &Packet, passes: usize, now: Time) {
        if passes >= BASE_DATAGRAM && packet.bytes as usize > passes {
            self.rails[index].mtu.hint_too_large(passes + 1, now);
        }
    }

    /// Brings a rail's probe forward.
    fn probe_for_hint(&mut self, index: usize, now: Time) {
        if self.next_hint_probe <= now && self.hasten_probe(index) {
            self.next_hint_probe = now + PROBE_EVERY;
        }
    }

    /// Probes a rail now, unless it is silent anyway. Returns whether it does.
    pub(crate) fn hasten_probe(&mut self, index: usize) -> bool {
        let is_open = self.phase == Phase::Open;
        let asks = |rail: &&Rail| is_open && rail.is_live() && rail.probes == 0 && rail.backoff == 0;
        let is_asked = self.rails.get(index).filter(asks).is_some();
        if is_asked {
            self.probe_rail(index);
        }
        is_asked
    }

    fn count_refusal(&mut self, packet: &Packet, now: Time) {
        let refused = match self.refused() {
            None => Refused { since: now, last: now, count: 1 },
            Some(refused) if packet.sent > refused.last => Refused { last: now, count: refused.count + 1, ..refused },
            Some(refused) => refused,
        };
        self.refused = Some(refused);
        self.end_if_refused(now);
    }

    /// What the peer's host has reported since a packet was last received from the peer.
    fn refused(&self) -> Option<Refused> {
        self.refused.filter(|refused| refused.since >= self.last_received)
    }

    /// The longest time between two probes, as far as refusals shorten it.
    pub(crate) fn refused_probe_interval(&self) -> Duration {
        if self.refused().is_some() { REFUSED_PROBE_INTERVAL } else { Duration::MAX }
    }

    /// When the peer is lost, if no packet of it is received before: enough of its packets were refused.
    pub(crate) fn refused_until(&self) -> Option<Time> {
        let refused = self.refused().filter(|refused| refused.count >= REFUSALS)?;
        Some((refused.since + REFUSED_FOR).max(self.last_received + SILENT_FOR))
    }

    /// Ends the connection when the peer's host has refused packets for long enough.
    pub(crate) fn end_if_refused(&mut self, now: Time) {
        if self.may_end() && self.refused_until().is_some_and(|at| at <= now) {
            self.end_forgotten(now);
        }
    }

    fn may_end(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Aborting)
    }
}
