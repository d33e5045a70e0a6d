//! One endpoint's messages: see the [crate](crate).

mod body;
mod budget;
mod credits;
mod incoming;
mod keys;
mod lost;
mod outgoing;
mod packet;
pub(crate) mod peer;
mod receiving;
mod record;
mod stage;
mod streaming;
mod terms;
mod transfer;

use std::collections::{HashMap, VecDeque};

use slotmap::SlotMap;
use weft_base::Time;

use self::budget::Budget;
pub(crate) use self::budget::LEAVERS;
use self::keys::{AnswerKey, CallKey, IncomingKey, PacketKey, ReceiveKey, SendKey};
use self::peer::Peers;
use self::record::{Call, Called, Held, Incoming, Outgoing, Receiving};
pub use self::terms::{Peek, RESERVED_PACKETS, Receive, Send, Terms, Violation};
use crate::hash::Seeded;
use crate::host::Host;
use crate::matching::Matcher;
use crate::pool::Pool;
use crate::settings::Settings;

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
    /// Messages left with their senders because memory was scarce, oldest first, and stale entries.
    staying: VecDeque<IncomingKey>,
    calls: SlotMap<CallKey, Call>,
    /// Counts sends.
    order: u64,
    /// Data credits that peers have been granted beyond their terms.
    extra_credits: u32,
    budget: Budget,
    pool: Pool,
    /// When to check for idle connections.
    deadline: Time,
}

impl<H: Host> Machine<H> {
    /// An endpoint without peers, which must not be able to guess the seed.
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
            extra_credits: 0,
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
