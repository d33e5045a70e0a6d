//! Set-up: a hello, an answer, a confirmation.
//!
//! Who calls is a [`Caller`], which says its hello again and again until there is an answer. Who is called has a
//! [`Door`], which keeps nothing about anybody, and for each call that it lets in an [`Answering`]. Both end in an
//! [`Established`]. The confirmation is a frame of the connection's first packets.
//!
//! No address gets more bytes than came from it before it has confirmed: a hello has 1200 bytes, each is answered
//! once, and no answer is longer.

mod answering;
mod caller;
mod door;
mod handshake;
mod key;
#[cfg(test)]
mod tests;

use core::fmt;
use core::time::Duration;

use weft_base::Time;
use weft_wire::edge::addresses::MAX_RAILS;
use weft_wire::edge::setup::{NONCE_LENGTH, Offers, Reject, Terms};
use weft_wire::edge::{ConnectionId, PROOF_LENGTH};

pub use answering::Answering;
pub use caller::{Call, Caller, Outcome, SetupTimes};
pub use door::{Door, DoorCounters, DoorSettings, Knock, Visit};
pub use key::Key;

use crate::connection::Established;
use crate::settings::Settings;

/// The offer that says: a key is to be proved, by a handshake. It must be understood. 1 was another way to prove one,
/// which is not understood any more.
const KEYED: u8 = 2;
/// The offer that says: the options of segments are kept. Who does not know it sends segments without.
const OPTIONS: u8 = 3;
/// What is offered without a key, as it stands on the wire ...
const OFFERS: [u8; 3] = [OPTIONS, 0, 0];
/// ... and by a caller with one.
const KEYED_OFFERS: [u8; 6] = [0x80 | KEYED, 0, 0, OPTIONS, 0, 0];
/// What confirms a set-up without a key: that it comes at all shows that the caller is where it says.
const UNPROVED: [u8; PROOF_LENGTH] = [0; PROOF_LENGTH];
/// An acknowledgement is not put off longer than this, whatever a peer says.
const MOST_ACK_DELAY: Duration = Duration::from_secs(1);

/// What makes a connection unlike any other: random, from the operating system, each time anew.
#[derive(Clone, Copy)]
pub struct Fresh {
    /// What this side calls the connection. Not zero, and of no other connection of the port.
    pub id: ConnectionId,
    /// Part of what is proved.
    pub nonce: [u8; NONCE_LENGTH],
    /// For what else is drawn.
    pub seed: u64,
    /// The private key of this side's part in the handshake, if there is a key to be proved. It is used for this
    /// connection alone and told nobody.
    pub secret: [u8; 32],
}

impl fmt::Debug for Fresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fresh").field("id", &self.id).field("nonce", &self.nonce).finish_non_exhaustive()
    }
}

/// What the application says in set-up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words<'a> {
    /// Up to 512 bytes.
    pub private_data: &'a [u8],
    /// Reads of the peer that are taken at a time (IRD).
    pub inbound_reads: u16,
    /// Reads that are to be under way at most (ORD).
    pub outbound_reads: u16,
}

/// What the peer's application said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Its private data.
    pub private_data: Vec<u8>,
    /// Reads that it takes at a time.
    pub inbound_reads: u16,
    /// Reads that it wants to have under way.
    pub outbound_reads: u16,
}

impl Heard {
    fn of(terms: &Terms<'_>) -> Self {
        Self {
            private_data: terms.private_data.to_vec(),
            inbound_reads: terms.inbound_reads,
            outbound_reads: terms.outbound_reads,
        }
    }
}

/// What this side says of itself.
fn terms<'a>(fresh: &Fresh, reset_token: [u8; 16], words: &Words<'a>, settings: &Settings, keyed: bool) -> Terms<'a> {
    let millis = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
    let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
    let offers = Offers::packed(if keyed { &KEYED_OFFERS } else { &OFFERS });
    Terms {
        nonce: fresh.nonce,
        reset_token,
        credit: settings.credit,
        peer_timeout_ms: millis(settings.peer_timeout),
        max_ack_delay_us: micros(settings.max_ack_delay),
        max_datagram: settings.max_datagram,
        inbound_reads: words.inbound_reads,
        outbound_reads: words.outbound_reads,
        rails: settings.rails.clamp(1, MAX_RAILS as u8),
        private_data: words.private_data,
        offers: offers.unwrap_or_default(),
    }
}

/// What a peer's terms make of a connection, but for what only the caller of this knows.
fn established(like: Established, peer: &Terms<'_>) -> Established {
    Established {
        peer_credit: peer.credit,
        peer_ack_delay: Duration::from_micros(u64::from(peer.max_ack_delay_us)).min(MOST_ACK_DELAY),
        peer_max_datagram: peer.max_datagram,
        peer_rails: peer.rails,
        peer_timeout: Duration::from_millis(u64::from(peer.peer_timeout_ms)),
        peer_keeps_options: peer.offers.iter().any(|offer| offer.kind == OPTIONS),
        reset_token: peer.reset_token,
        ..like
    }
}

/// Why what is offered can't be agreed to, if so.
fn objection(offers: &Offers<'_>, has_key: bool) -> Option<Reject> {
    let unknown = offers.iter().any(|offer| offer.must_understand && ![KEYED, OPTIONS].contains(&offer.kind));
    let keyed = offers.iter().any(|offer| offer.kind == KEYED);
    match (unknown, keyed == has_key) {
        (true, _) => Some(Reject::NotUnderstood),
        (false, false) => Some(Reject::Key),
        (false, true) => None,
    }
}

/// Which `period` this is.
fn epoch(now: Time, period: Duration) -> u64 {
    now.as_nanos() / (period.as_nanos() as u64).max(1)
}
