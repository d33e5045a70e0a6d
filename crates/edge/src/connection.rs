//! An established connection.

mod confirmation;
pub(crate) mod passing;
mod receiving;
mod receiving_runs;
mod sending;
mod sending_runs;
pub(crate) mod striping;
mod unread;

use core::time::Duration;
use std::collections::VecDeque;
use std::net::SocketAddr;

use arrayvec::ArrayVec;
use weft_base::{Random, Time};
use weft_wire::edge::addresses::MAX_RAILS;
use weft_wire::edge::frame::NotReady;
use weft_wire::edge::packet::Packet as Bytes;
use weft_wire::edge::{BASE_DATAGRAM, ConnectionId, RESET_TOKEN_LENGTH};

use crate::bulk::Bulk;
use crate::challenge_key::ChallengeKey;
use crate::counters::Counters;
use crate::outgoing::Outgoing;
use crate::pairing::Pairing;
use crate::phase::{Closing, Event, Phase, Refused};
use crate::rail::{PathAddress, Rail};
use crate::round_trip::nanos;
use crate::sent::{IDLE_PACKETS, Packet};
use crate::settings::Settings;

pub use confirmation::Confirmation;
use confirmation::confirms;

/// Refusals waiting to be sent. More are not kept: the peer retransmits the segments.
const MAX_REFUSALS: usize = 64;

/// The shortest peer timeout that is honoured.
const LEAST_TIMEOUT: Duration = Duration::from_secs(1);

/// Memory used for segments in flight is released when none was sent for this long: less than the keep-alive interval,
/// and longer than pauses within a computation.
const RELEASE_AFTER: Duration = Duration::from_secs(10);

/// Frames that are retransmitted until acknowledged, as bits.
pub(crate) mod control {
    pub(crate) const PING: u8 = 0x01;
    pub(crate) const GO_ON: u8 = 0x02;
    pub(crate) const CLOSE: u8 = 0x04;
    pub(crate) const CONFIRM: u8 = 0x08;
    pub(crate) const ADDRESSES: u8 = 0x10;
}

/// The result of set-up.
#[derive(Clone, Debug)]
pub struct Established {
    /// This side's id of the connection: packets to this side carry it.
    pub local: ConnectionId,
    /// The peer's id of it.
    pub remote: ConnectionId,
    /// The peer's address.
    pub to: SocketAddr,
    /// Bytes of datagrams that the peer allows in flight at first.
    pub peer_credit: u32,
    /// How long the peer may delay an acknowledgement.
    pub peer_ack_delay: Duration,
    /// The largest datagram that the peer accepts.
    pub peer_max_datagram: u16,
    /// The most rails that the peer can use.
    pub peer_rails: u8,
    /// After how much silence the peer gives this side up.
    pub peer_timeout: Duration,
    /// Whether the peer honours the options of segments.
    pub peer_keeps_options: bool,
    /// The token that the peer sends if it has forgotten the connection.
    pub reset_token: [u8; RESET_TOKEN_LENGTH],
    /// State of the confirmation, the third message.
    pub confirmation: Confirmation,
    /// How long set-up took on this side, an upper bound of the round trip. `None` where it is not known.
    pub took: Option<Duration>,
    /// Random, from the operating system.
    pub seed: u64,
    /// The key of this side's challenges.
    pub challenges: ChallengeKey,
}

impl Established {
    /// Whether a datagram is an intact packet of this connection that confirms it: the first that
    /// [`Connection::receive`] accepts. Until one is received, nothing else need be kept.
    #[must_use]
    pub fn is_confirmed_by(&self, datagram: &[u8]) -> bool {
        let Confirmation::Expect(expected) = &self.confirmation else { return true };
        let Ok(packet) = Bytes::parse(datagram) else { return false };
        let is_ours = packet.header.destination == self.local && packet.header.rail == 0;
        is_ours && packet.verify(0).is_ok_and(|packet| confirms(&packet, expected))
    }

    /// Assumes that a peer of which only the address is known is like this side.
    pub(crate) fn unknown(to: SocketAddr, seed: u64, settings: &Settings) -> Self {
        Self {
            local: ConnectionId::default(),
            remote: ConnectionId::default(),
            to,
            peer_credit: settings.credit,
            peer_ack_delay: settings.max_ack_delay,
            peer_max_datagram: settings.max_datagram,
            peer_rails: 1,
            peer_timeout: settings.peer_timeout,
            peer_keeps_options: true,
            reset_token: [0; RESET_TOKEN_LENGTH],
            confirmation: Confirmation::Done,
            took: None,
            seed,
            challenges: ChallengeKey::new([0; 32]),
        }
    }
}

/// What is known of a received datagram besides its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Meta {
    /// Source address.
    pub from: SocketAddr,
    /// The local address that received it ([`RailAddress::local`](crate::RailAddress::local)). 0 where there is one.
    pub local: u8,
    /// The two ECN bits of its IP header.
    pub ecn: u8,
    /// Time of receipt.
    pub now: Time,
}

/// An established connection.
///
/// **Driving it.** After any change ([`receive`](Self::receive), [`receive_all`](Self::receive_all),
/// [`handle_timeout`](Self::handle_timeout), a new segment in the source, [`close`](Self::close),
/// [`abort`](Self::abort), [`receives_posted`](Self::receives_posted)) call [`transmit`](Self::transmit) until it
/// returns false, then [`poll_event`](Self::poll_event), [`acknowledged`](Self::acknowledged) and
/// [`next_timeout`](Self::next_timeout).
#[derive(Debug)]
pub struct Connection {
    pub(crate) settings: Settings,
    local: ConnectionId,
    remote: ConnectionId,
    pub(crate) reset_token: [u8; RESET_TOKEN_LENGTH],
    pub(crate) confirmation: Confirmation,
    pub(crate) peer_ack_delay: Duration,
    /// Keep-alive interval while the connection is idle.
    pub(crate) keep_alive: Duration,
    pub(crate) random: Random,
    pub(crate) challenges: ChallengeKey,
    /// By number; the first always has a path.
    pub(crate) rails: Vec<Rail>,
    /// The maximum number of rails.
    pub(crate) most_rails: usize,
    /// Whether this side was the caller, which opens rails.
    pub(crate) opens: bool,
    pub(crate) pairing: Pairing,
    /// Serial numbers of this side's lists of addresses, and of the peer's.
    pub(crate) offered: u32,
    pub(crate) peer_offered: u32,
    /// The largest datagram on any rail, and the credit of a new rail.
    pub(crate) limit: usize,
    pub(crate) peer_credit: u32,
    keeps_options: bool,
    /// By local address.
    pub(crate) sockets: [Socket; MAX_RAILS],
    /// Local addresses whose sockets have no room, as bits.
    pub(crate) blocked: u16,
    pub(crate) outgoing: Outgoing,
    /// Control frames to be sent.
    pub(crate) pending: u8,
    refusals: ArrayVec<NotReady, MAX_REFUSALS>,
    owes_close_ack: bool,
    /// Counts the times that receives were posted after a refusal.
    round: u32,
    has_refused: bool,
    /// The latest known count of the peer.
    peer_round: u32,
    /// The highest position after a received segment: truncated positions are decoded relative to it.
    peer_position: u64,
    /// Acknowledgements are sent only along with other frames.
    holds_acks: bool,
    /// When this side has sent its last message of set-up.
    begun: Time,
    pub(crate) last_received: Time,
    /// The peer's host reports that no process has its port: read through [`Connection::refused_until`].
    pub(crate) refused: Option<Refused>,
    /// Until then no hint starts a probe.
    pub(crate) next_hint_probe: Time,
    pub(crate) phase: Phase,
    pub(crate) closing: Closing,
    pub(crate) events: VecDeque<Event>,
    pub(crate) counters: Counters,
    /// Packets that were just settled: kept, so that nothing is allocated once it has grown.
    pub(crate) scratch: Vec<Packet>,
    /// Segments that were sent, and segments that were received.
    pub(crate) given: Bulk,
    pub(crate) taken: Bulk,
}

/// State of a local address's socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Socket {
    /// Datagrams that it has dropped because its buffer was full. It wraps.
    pub(crate) overflows: u32,
    /// Bytes that the peer may have in flight to it.
    pub(crate) credit: u32,
}

impl Connection {
    /// A connection from the result of set-up.
    #[must_use]
    pub fn new(established: &Established, settings: &Settings, now: Time) -> Self {
        let limit = usize::from(settings.max_datagram.min(established.peer_max_datagram)).max(BASE_DATAGRAM);
        let mut first = Rail::new(0, limit, established.peer_credit, settings);
        first.place = Some(PathAddress { local: 0, to: established.to });
        if let Some(took) = established.took {
            first.trip.expect_at_most(took);
        }
        Self {
            settings: *settings,
            local: established.local,
            remote: established.remote,
            reset_token: established.reset_token,
            confirmation: established.confirmation,
            peer_ack_delay: established.peer_ack_delay,
            // At most this often, whatever the peer requires.
            keep_alive: (settings.peer_timeout.min(established.peer_timeout.max(LEAST_TIMEOUT)) / 4)
                .min(settings.keep_alive),
            random: Random::new(established.seed),
            challenges: established.challenges.clone(),
            rails: vec![first],
            most_rails: usize::from(settings.rails.min(established.peer_rails)).clamp(1, MAX_RAILS),
            opens: matches!(established.confirmation, Confirmation::Say(_)),
            pairing: Pairing::default(),
            offered: 0,
            peer_offered: 0,
            limit,
            peer_credit: established.peer_credit,
            keeps_options: established.peer_keeps_options,
            sockets: [Socket { overflows: 0, credit: settings.credit }; MAX_RAILS],
            blocked: 0,
            outgoing: Outgoing::new(settings.sent_segments, settings.inline_bytes.max(4 * limit)),
            pending: if matches!(established.confirmation, Confirmation::Say(_)) { control::CONFIRM } else { 0 },
            refusals: ArrayVec::new(),
            owes_close_ack: false,
            round: 0,
            has_refused: false,
            peer_round: 0,
            peer_position: 0,
            holds_acks: false,
            begun: established.took.map_or(now, |took| Time::from_nanos(now.as_nanos().saturating_sub(nanos(took)))),
            last_received: now,
            refused: None,
            next_hint_probe: Time::ZERO,
            phase: Phase::Open,
            closing: Closing::default(),
            events: VecDeque::new(),
            counters: Counters::default(),
            scratch: Vec::new(),
            given: Bulk::new(now),
            taken: Bulk::new(now),
        }
    }

    /// This side's id of it.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.local
    }

    /// The peer's id of it, which a reset names.
    #[must_use]
    pub fn remote_id(&self) -> ConnectionId {
        self.remote
    }

    /// Whether the peer honours the ordering [`Options`](crate::Options) of segments: to a peer that does not, no
    /// segment may have any.
    #[must_use]
    pub fn keeps_options(&self) -> bool {
        self.keeps_options
    }

    /// The peer's address on rail 0.
    #[must_use]
    pub fn peer_address(&self) -> SocketAddr {
        self.rails[0].place.map_or(SocketAddr::from(([0; 4], 0)), |place| place.to)
    }

    /// All positions below this are placed at the peer with correct payload. It never decreases.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.outgoing.acknowledged()
    }

    /// The position of the next segment taken from the source.
    #[must_use]
    pub fn next_position(&self) -> u64 {
        self.outgoing.end()
    }

    /// Bytes above UDP that a datagram may have now, on the rail with the largest.
    #[must_use]
    pub fn datagram_size(&self) -> usize {
        self.rails.iter().filter(|rail| rail.is_live()).map(|rail| rail.mtu.current()).max().unwrap_or(BASE_DATAGRAM)
    }

    /// The smoothed round trip of the rail with the shortest.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        self.rails.iter().filter(|rail| rail.is_live()).map(|rail| rail.trip.smoothed()).min().unwrap_or_default()
    }

    /// The shortest round trip on any rail so far, without what the peer has delayed acknowledgements by, as it says;
    /// `None` before the first was measured.
    #[must_use]
    pub fn shortest_round_trip(&self) -> Option<Duration> {
        self.rails.iter().filter(|rail| rail.is_live()).filter_map(|rail| rail.trip.shortest()).min()
    }

    /// Bytes that may be in flight, on all rails together.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.rails.iter().filter(|rail| rail.is_live()).map(Rail::limit).sum()
    }

    /// The connection's counters.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Receives were posted: the peer may retransmit the refused segments.
    pub fn receives_posted(&mut self) {
        if core::mem::take(&mut self.has_refused) {
            self.round = self.round.wrapping_add(1);
            self.pending |= control::GO_ON;
        }
    }

    /// Sets how many datagrams the socket has dropped in all because its buffer was full, and how many bytes the peer
    /// may have in flight from now on, for [`RailAddress::local`](crate::RailAddress::local) 0.
    pub fn set_socket(&mut self, overflows: u32, credit: u32) {
        self.set_rail_socket(0, overflows, credit);
    }

    /// While true, due acknowledgements are sent only along with other frames: an answer may be about to be sent. Only
    /// for a moment: the peer waits.
    pub fn hold_acks(&mut self, hold: bool) {
        self.holds_acks = hold;
    }

    /// Whether an acknowledgement is due, held or not, that an answer may soon carry: not one of a bulk transfer, whose
    /// sender waits for it to send more.
    #[must_use]
    pub fn owes_ack(&self, now: Time) -> bool {
        let mut due = self.rails.iter().filter(|rail| rail.received.due().is_some_and(|due| due <= now)).peekable();
        due.peek().is_some() && !due.any(|rail| rail.received.is_bulk())
    }

    /// Releases memory if no segment was sent for a while. Called at keep-alive time, so that it needs no timer of its
    /// own.
    pub(crate) fn release_memory(&mut self, now: Time) {
        if now.since(self.given.last) >= RELEASE_AFTER {
            self.shrink();
        }
    }

    /// Releases memory that grew with the segments in flight, as far as it is empty.
    pub(crate) fn shrink(&mut self) {
        self.outgoing.shrink();
        self.rails.iter_mut().for_each(|rail| rail.sent.shrink());
        self.scratch.shrink_to(IDLE_PACKETS);
    }

    /// Whether segments may be sent and accepted.
    pub(crate) fn is_confirmed(&self) -> bool {
        !matches!(self.confirmation, Confirmation::Expect(_))
    }
}
