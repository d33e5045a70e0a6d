//! What somebody on the way says about packets that were sent (ICMP).
//!
//! Anybody can send such a message. It counts only when it quotes a packet of this connection that is not acknowledged:
//! by the peer's id of the connection, 64 random bits, by its number, and by where it went (RFC 8085 section 5.2, RFC
//! 9000 section 14.2.1). Who has seen a packet can still forge one. So it only starts probes, and what becomes of these
//! decides: a peer that answers one of them is there, whatever ICMP says (RFC 5927 section 5).

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
/// While a host says that nobody has the peer's port, the peer is probed at least this often: in [`REFUSED_FOR`] the
/// loss of two probes in a row does not look like silence.
const REFUSED_PROBE_INTERVAL: Duration = Duration::from_millis(300);
/// The peer's host has said for this long that nobody has the port, ...
const REFUSED_FOR: Duration = Duration::from_secs(1);
/// ... of so many packets, each sent after it had said so of the one before (a host may say it once a second: RFC 1812
/// section 4.3.2.8, `icmp_ratelimit` of Linux), ...
const REFUSALS: u32 = 2;
/// ... and nothing has come from the peer for this long: then its program has ended.
const SILENT_FOR: Duration = Duration::from_secs(2);

impl Connection {
    /// Somebody on the way says something about a packet that this side sent, perhaps. Returns whether it quotes one
    /// that is not acknowledged: else it is counted, and nothing comes of it.
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
                // A host alone knows who has its ports.
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
        Some((usize::from(header.rail), *packet))
    }

    /// A packet was too large: one of `passes` bytes would have passed. The size that is lost now is not sent any
    /// more, and soon it is probed whether that is true.
    fn hint_too_large(&mut self, index: usize, packet: &Packet, passes: usize, now: Time) {
        if passes >= BASE_DATAGRAM && packet.bytes as usize > passes {
            self.rails[index].mtu.hint_too_large(passes + 1, now);
        }
    }

    /// Probes a rail sooner than it would be.
    fn probe_for_hint(&mut self, index: usize, now: Time) {
        if self.next_hint_probe <= now && self.hasten_probe(index) {
            self.next_hint_probe = now + PROBE_EVERY;
        }
    }

    /// Probes a rail now, if it is not silent anyway. Returns whether it does.
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

    /// What the peer's host has said since the peer was heard.
    fn refused(&self) -> Option<Refused> {
        self.refused.filter(|refused| refused.since >= self.last_heard)
    }

    /// The longest time between two probes, as far as refusals make it shorter.
    pub(crate) fn refused_probe_interval(&self) -> Duration {
        if self.refused().is_some() { REFUSED_PROBE_INTERVAL } else { Duration::MAX }
    }

    /// When the peer is lost, if nothing comes from it before: enough of its packets were refused.
    pub(crate) fn refused_until(&self) -> Option<Time> {
        let refused = self.refused().filter(|refused| refused.count >= REFUSALS)?;
        Some((refused.since + REFUSED_FOR).max(self.last_heard + SILENT_FOR))
    }

    /// Ends the connection when its peer's host has refused its packets for long enough.
    pub(crate) fn end_if_refused(&mut self, now: Time) {
        if self.may_end() && self.refused_until().is_some_and(|at| at <= now) {
            self.end_forgotten(now);
        }
    }

    fn may_end(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Aborting)
    }
}
