//! An established connection.

mod confirmation;
pub(crate) mod passing;
mod receiving;
mod sending;
pub(crate) mod striping;

use core::time::Duration;
use std::collections::VecDeque;
use std::net::SocketAddr;

use arrayvec::ArrayVec;
use weft_base::{Random, Time};
use weft_wire::edge::addresses::MAX_RAILS;
use weft_wire::edge::frame::NotReady;
use weft_wire::edge::packet::Packet as Bytes;
use weft_wire::edge::{BASE_DATAGRAM, ConnectionId, RESET_TOKEN_LENGTH};

use crate::counters::Counters;
use crate::outgoing::Outgoing;
use crate::pairing::Pairing;
use crate::phase::{Closing, Event, Phase, Refused};
use crate::rail::{Place, Rail};
use crate::round_trip::nanos;
use crate::sent::{IDLE_PACKETS, Packet};
use crate::settings::Settings;

pub use confirmation::Confirmation;
use confirmation::confirms;

/// Refusals that wait to be told. What does not fit comes again.
const MAX_REFUSALS: usize = 64;

/// A peer that says that it gives up sooner is not taken at its word.
const LEAST_TIMEOUT: Duration = Duration::from_secs(1);

/// Memory of what was under way goes back when no segment was sent for so long: less than the time after which the peer
/// is asked whether it is there, and long beside any pause within a computation.
const RELEASE_AFTER: Duration = Duration::from_secs(10);

/// Frames that are sent until they have arrived, as bits.
pub(crate) mod control {
    pub(crate) const PING: u8 = 0x01;
    pub(crate) const GO_ON: u8 = 0x02;
    pub(crate) const CLOSE: u8 = 0x04;
    pub(crate) const CONFIRM: u8 = 0x08;
    pub(crate) const ADDRESSES: u8 = 0x10;
}

/// What set-up has agreed on.
#[derive(Clone, Debug)]
pub struct Established {
    /// What this side calls the connection: packets to it carry that.
    pub local: ConnectionId,
    /// What the peer calls it.
    pub remote: ConnectionId,
    /// Where the peer is.
    pub to: SocketAddr,
    /// Bytes of datagrams that the peer lets be under way at first.
    pub peer_credit: u32,
    /// How long the peer may put an acknowledgement off.
    pub peer_ack_delay: Duration,
    /// The largest datagram that the peer takes.
    pub peer_max_datagram: u16,
    /// The most rails that the peer can use.
    pub peer_rails: u8,
    /// After how long without a word the peer gives this side up.
    pub peer_timeout: Duration,
    /// Whether the peer keeps the options of segments.
    pub peer_keeps_options: bool,
    /// What the peer shows if it has forgotten the connection.
    pub reset_token: [u8; RESET_TOKEN_LENGTH],
    /// What becomes of the third message.
    pub confirmation: Confirmation,
    /// How long set-up took on this side: the round trip is no longer than that. `None` where it is not known.
    pub took: Option<Duration>,
    /// Random, from the operating system.
    pub seed: u64,
}

impl Established {
    /// Whether a datagram is a packet of this connection that confirms it, and is whole: what
    /// [`Connection::receive`] takes as the first. Until one has come nothing need be kept but this.
    #[must_use]
    pub fn is_confirmed_by(&self, datagram: &[u8]) -> bool {
        let Confirmation::Expect(expected) = &self.confirmation else { return true };
        let Ok(packet) = Bytes::parse(datagram) else { return false };
        let is_ours = packet.header.destination == self.local && packet.header.rail == 0;
        is_ours && packet.verify(0).is_ok_and(|packet| confirms(&packet, expected))
    }

    /// A peer of which nothing is known but where it is: as this side is.
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
        }
    }
}

/// What is known of a datagram beside its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Meta {
    /// Where it came from.
    pub from: SocketAddr,
    /// To which of this side's addresses it came ([`RailAddress::local`](crate::RailAddress::local)). 0 where there is
    /// one.
    pub local: u8,
    /// The two ECN bits of its IP header.
    pub ecn: u8,
    /// When it came.
    pub now: Time,
}

/// An established connection.
///
/// **Driving it.** After anything that changes it ([`receive`](Self::receive),
/// [`handle_timeout`](Self::handle_timeout),
/// a new segment in the source, [`close`](Self::close), [`abort`](Self::abort),
/// [`receives_posted`](Self::receives_posted)) call [`transmit`](Self::transmit) until it says that there is no more,
/// then look at [`poll_event`](Self::poll_event), [`acknowledged`](Self::acknowledged) and
/// [`next_timeout`](Self::next_timeout).
#[derive(Debug)]
pub struct Connection {
    pub(crate) settings: Settings,
    local: ConnectionId,
    remote: ConnectionId,
    pub(crate) reset_token: [u8; RESET_TOKEN_LENGTH],
    pub(crate) confirmation: Confirmation,
    pub(crate) peer_ack_delay: Duration,
    /// How often one side or the other asks whether its peer is there, while nothing else is said.
    pub(crate) keep_alive: Duration,
    pub(crate) random: Random,
    /// By number; the first always leads somewhere.
    pub(crate) rails: Vec<Rail>,
    /// The most of them.
    pub(crate) most_rails: usize,
    /// This side has called: it opens rails.
    pub(crate) opens: bool,
    pub(crate) pairing: Pairing,
    /// Counts this side's lists of addresses, and the peer's.
    pub(crate) offered: u32,
    pub(crate) peer_offered: u32,
    /// The largest datagram on any rail, and the credit of a rail that is new.
    pub(crate) limit: usize,
    pub(crate) peer_credit: u32,
    keeps_options: bool,
    /// By this side's addresses.
    pub(crate) sockets: [Socket; MAX_RAILS],
    /// This side's addresses whose sockets have no room, as bits.
    pub(crate) blocked: u16,
    pub(crate) outgoing: Outgoing,
    /// Control frames to be sent.
    pub(crate) pending: u8,
    refusals: ArrayVec<NotReady, MAX_REFUSALS>,
    say_close_ack: bool,
    /// Counts the times that receives were posted after a refusal.
    round: u32,
    has_refused: bool,
    /// The peer's count, as far as it is known.
    peer_round: u32,
    /// The highest position after a segment that came: what short positions are near to.
    peer_position: u64,
    /// Acknowledgements go with what is sent, and not alone.
    holds_acks: bool,
    /// When this side has said its last word of set-up.
    begun: Time,
    pub(crate) last_heard: Time,
    /// The peer's host says that nobody has its port: looked at through [`Connection::refused_until`].
    pub(crate) refused: Option<Refused>,
    /// Before then no hint starts a probe.
    pub(crate) next_hint_probe: Time,
    pub(crate) phase: Phase,
    pub(crate) closing: Closing,
    pub(crate) events: VecDeque<Event>,
    pub(crate) counters: Counters,
    /// Packets that were just settled: kept, so that nothing is allocated once it has grown.
    pub(crate) scratch: Vec<Packet>,
    /// When a segment was sent last.
    pub(crate) segments_at: Time,
}

/// What an address's socket takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Socket {
    /// What it has dropped for want of room. It wraps.
    pub(crate) overflows: u32,
    /// Bytes that the peer may have under way to it.
    pub(crate) credit: u32,
}

impl Connection {
    /// A connection as set-up has agreed on it.
    #[must_use]
    pub fn new(established: &Established, settings: &Settings, now: Time) -> Self {
        let limit = usize::from(settings.max_datagram.min(established.peer_max_datagram)).max(BASE_DATAGRAM);
        let mut first = Rail::new(0, limit, established.peer_credit, settings);
        first.place = Some(Place { local: 0, to: established.to });
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
            // Not more often than makes sense, whatever the peer says.
            keep_alive: (settings.peer_timeout.min(established.peer_timeout.max(LEAST_TIMEOUT)) / 4)
                .min(settings.keep_alive),
            random: Random::new(established.seed),
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
            say_close_ack: false,
            round: 0,
            has_refused: false,
            peer_round: 0,
            peer_position: 0,
            holds_acks: false,
            begun: established.took.map_or(now, |took| Time::from_nanos(now.as_nanos().saturating_sub(nanos(took)))),
            last_heard: now,
            refused: None,
            next_hint_probe: Time::ZERO,
            phase: Phase::Open,
            closing: Closing::default(),
            events: VecDeque::new(),
            counters: Counters::default(),
            scratch: Vec::new(),
            segments_at: now,
        }
    }

    /// What this side calls it.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.local
    }

    /// What the peer calls it, which a reset names.
    #[must_use]
    pub fn remote_id(&self) -> ConnectionId {
        self.remote
    }

    /// Whether the peer keeps what segments ask of the order of placement ([`Options`](crate::Options)): to one that
    /// does not, none may have any.
    #[must_use]
    pub fn keeps_options(&self) -> bool {
        self.keeps_options
    }

    /// Where the peer is, on rail 0.
    #[must_use]
    pub fn peer_address(&self) -> SocketAddr {
        self.rails[0].place.map_or(SocketAddr::from(([0; 4], 0)), |place| place.to)
    }

    /// All positions below this are placed at the peer, and their payload was good. It never falls.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.outgoing.acknowledged()
    }

    /// The position of the next segment that is taken from the source.
    #[must_use]
    pub fn next_position(&self) -> u64 {
        self.outgoing.end()
    }

    /// Bytes above UDP that a datagram may have now, on the rail with the largest.
    #[must_use]
    pub fn datagram_size(&self) -> usize {
        self.rails.iter().filter(|rail| rail.is_live()).map(|rail| rail.mtu.current()).max().unwrap_or(BASE_DATAGRAM)
    }

    /// The round trip, smoothed, of the rail with the shortest.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        self.rails.iter().filter(|rail| rail.is_live()).map(|rail| rail.trip.smoothed()).min().unwrap_or_default()
    }

    /// Bytes that may be under way, on all rails together.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.rails.iter().filter(|rail| rail.is_live()).map(Rail::limit).sum()
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Receives were posted: what was refused for want of one may come again.
    pub fn receives_posted(&mut self) {
        if core::mem::take(&mut self.has_refused) {
            self.round = self.round.wrapping_add(1);
            self.pending |= control::GO_ON;
        }
    }

    /// What the socket has dropped for want of room, in all, and how many bytes the peer may have under way from now
    /// on. This is the socket of [`RailAddress::local`](crate::RailAddress::local) 0.
    pub fn set_socket(&mut self, overflows: u32, credit: u32) {
        self.set_rail_socket(0, overflows, credit);
    }

    /// While true, acknowledgements that are due go with what is sent otherwise, and none goes alone: an answer may
    /// be about to be sent. For a moment only: the peer waits.
    pub fn hold_acks(&mut self, hold: bool) {
        self.holds_acks = hold;
    }

    /// Whether an acknowledgement is due, held or not, that an answer may soon take along: none of many packets, whose
    /// sender has more to send and waits for it.
    #[must_use]
    pub fn owes_ack(&self, now: Time) -> bool {
        let mut due = self.rails.iter().filter(|rail| rail.received.due().is_some_and(|due| due <= now)).peekable();
        due.peek().is_some() && !due.any(|rail| rail.received.is_bulk())
    }

    /// Gives memory back if no segment was sent for a while. This is called when either side asks whether the other is
    /// there: it needs no timer of its own.
    pub(crate) fn release_memory(&mut self, now: Time) {
        if now.since(self.segments_at) >= RELEASE_AFTER {
            self.shrink();
        }
    }

    /// Gives back the memory that grew with what was under way, as far as nothing is in it.
    pub(crate) fn shrink(&mut self) {
        self.outgoing.shrink();
        self.rails.iter_mut().for_each(|rail| rail.sent.shrink());
        self.scratch.shrink_to(IDLE_PACKETS);
    }

    /// Whether segments may be sent and taken.
    pub(crate) fn is_confirmed(&self) -> bool {
        !matches!(self.confirmation, Confirmation::Expect(_))
    }
}
