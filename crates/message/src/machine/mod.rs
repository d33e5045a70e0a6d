//! One endpoint's messages: see the [crate](crate).

mod budget;
mod credits;
mod incoming;
mod lost;
mod outgoing;
mod packet;
pub(crate) mod peer;
mod receiving;
mod streaming;
mod transfer;

use std::collections::{HashMap, VecDeque};

use slotmap::SlotMap;
use weft_base::{PeerId, Time};

use self::budget::Budget;
pub(crate) use self::budget::LEAVERS;
use self::incoming::{AnswerKey, Called, Held, PacketKey};
use self::outgoing::{Call, Outgoing};
use self::peer::{CallKey, Peers, SendKey};
use self::receiving::{Incoming, IncomingKey, ReceiveKey, Receiving};
use self::transfer::write_ticket;
use crate::hash::Seeded;
use crate::host::Host;
use crate::matching::{Match, Matcher};
use crate::pool::Pool;
use crate::settings::Settings;

/// Receive requests that a connection needs beside those for [`Terms::data_credits`] and [`Terms::control_credits`]:
/// packets that only give credits back cost none, and so many of them may be under way, two of each class.
pub const RESERVED_PACKETS: u16 = 4;

/// A message to send.
#[derive(Debug)]
pub struct Send<S> {
    /// To whom.
    pub peer: PeerId,
    /// Its tag; `None` for an untagged message.
    pub tag: Option<u64>,
    /// Immediate data.
    pub data: Option<u64>,
    /// Bytes.
    pub length: u64,
    /// It completes only when it is in the memory of a receive.
    pub delivery: bool,
    /// What the NIC keeps for it.
    pub user: S,
}

/// A receive.
#[derive(Debug)]
pub struct Receive<R> {
    /// From whom; `None`: from anybody.
    pub source: Option<PeerId>,
    /// Which tags; `None`: untagged messages.
    pub matching: Option<Match>,
    /// Bytes of memory.
    pub length: u64,
    /// Takes one message after another, until fewer bytes than this are left.
    pub many: Option<u64>,
    /// What the NIC keeps for it.
    pub user: R,
}

/// What [`Machine::peek`] found: a message that nobody has waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek {
    /// Who sent it.
    pub source: PeerId,
    /// Its tag; 0 for an untagged message.
    pub tag: u64,
    /// Immediate data.
    pub data: Option<u64>,
    /// Bytes of the message.
    pub length: u64,
}

/// What a peer grants when it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The most bytes of a packet to it. At least [`weft_wire::message::MIN_PACKET_BYTES`].
    pub packet_bytes: u32,
    /// Packets with messages that may be under way to it. At least 1.
    pub data_credits: u16,
    /// Other packets that may be under way to it. At least 1.
    pub control_credits: u16,
}

/// A peer has broken the rules of the protocol: its connection must be broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation(pub &'static str);

/// One endpoint's messages.
pub struct Machine<H: Host> {
    settings: Settings,
    peers: Peers,
    matcher: Matcher<ReceiveKey, IncomingKey>,
    receives: SlotMap<ReceiveKey, Receiving<H::Receive>>,
    incoming: SlotMap<IncomingKey, Incoming>,
    claimed: HashMap<u64, IncomingKey, Seeded>,
    packets: SlotMap<PacketKey, Held>,
    called: SlotMap<AnswerKey, Called>,
    outgoing: SlotMap<SendKey, Outgoing<H::Send>>,
    /// Messages that stay with their senders because memory was scarce, the oldest first, and such that are no more.
    staying: VecDeque<IncomingKey>,
    calls: SlotMap<CallKey, Call>,
    /// Counts sends.
    order: u64,
    budget: Budget,
    pool: Pool,
    /// When to look for idle connections.
    deadline: Time,
}

impl<H: Host> Machine<H> {
    /// An endpoint without peers. They must not be able to guess the seed.
    #[must_use]
    pub fn new(settings: Settings, seed: u64) -> Self {
        Self {
            peers: Peers::default(),
            matcher: Matcher::new(seed),
            receives: SlotMap::with_key(),
            incoming: SlotMap::with_key(),
            claimed: HashMap::with_hasher(Seeded::new(seed.wrapping_add(2))),
            packets: SlotMap::with_key(),
            called: SlotMap::with_key(),
            outgoing: SlotMap::with_key(),
            staying: VecDeque::new(),
            calls: SlotMap::with_key(),
            order: 0,
            budget: Budget::new(settings.unexpected_bytes, settings.unexpected_messages as usize),
            pool: Pool::default(),
            deadline: Time::ZERO,
            settings,
        }
    }

    /// Its settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }
}

#[cfg(test)]
mod tests;
