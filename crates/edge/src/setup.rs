//! Set-up: a hello, an answer, a confirmation.
//!
//! The calling side has a [`Caller`], which repeats its hello until it is answered. The called side has an
//! [`Acceptor`], which keeps no state per caller, and an [`Answering`] for each call that it accepts. Both end in an
//! [`Established`]. The confirmation is a frame of the connection's first packets.
//!
//! No address is sent more than three times the bytes that were received from it before it has confirmed (RFC 9000
//! section 8.1): a hello has 1200 bytes, each is answered once, and no answer is longer. [`Answering::answer`] may be
//! sent unasked as often as that limit lets it.

mod acceptor;
mod answering;
mod caller;
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

pub use acceptor::{Acceptor, AcceptorCounters, AcceptorSettings, HelloOutcome, IncomingCall};
pub use answering::Answering;
pub use caller::{Call, Caller, Outcome, SetupTimes};
pub use key::Key;

use crate::connection::Established;
use crate::settings::Settings;

/// The offer "a key is to be proved by a handshake", which must be understood. 1 was an earlier proof, which is no
/// longer understood.
const KEYED: u8 = 2;
/// The offer "options of segments are honoured". A peer that does not know it sends segments without.
const OPTIONS: u8 = 3;
/// The offers without a key, as encoded ...
const OFFERS: [u8; 3] = [OPTIONS, 0, 0];
/// ... and with one.
const KEYED_OFFERS: [u8; 6] = [0x80 | KEYED, 0, 0, OPTIONS, 0, 0];
/// The confirmation of a set-up without a key: its arrival shows that the caller's address is true.
const UNPROVED: [u8; PROOF_LENGTH] = [0; PROOF_LENGTH];
/// The maximum delay of an acknowledgement, whatever a peer announces.
const MOST_ACK_DELAY: Duration = Duration::from_secs(1);

/// Fresh values for one connection: random, from the operating system.
#[derive(Clone, Copy)]
pub struct Fresh {
    /// This side's id of the connection. Not zero, and unique for the port.
    pub id: ConnectionId,
    /// Part of what is proved.
    pub nonce: [u8; NONCE_LENGTH],
    /// Seed of the pseudo-random generator. A peer that sees enough of its output can predict the rest: no secret comes
    /// of it.
    pub seed: u64,
    /// The key of challenges; and this side's ephemeral private key of the handshake, if there is a key to be proved.
    /// It is used for this connection alone and never sent.
    pub secret: [u8; 32],
}

impl fmt::Debug for Fresh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fresh").field("id", &self.id).field("nonce", &self.nonce).finish_non_exhaustive()
    }
}

/// The application's part of set-up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words<'a> {
    /// Up to 512 bytes.
    pub private_data: &'a [u8],
    /// The maximum number of inbound Reads at a time (IRD).
    pub inbound_reads: u16,
    /// The maximum number of outbound Reads at a time (ORD).
    pub outbound_reads: u16,
}

/// The peer application's part of set-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Its private data.
    pub private_data: Vec<u8>,
    /// The maximum number of Reads that it accepts at a time.
    pub inbound_reads: u16,
    /// The maximum number of Reads that it wants to issue at a time.
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

/// This side's terms.
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

/// A connection with a peer's terms, with the rest from `like`.
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

/// Why these offers cannot be accepted, if so.
fn objection(offers: &Offers<'_>, has_key: bool) -> Option<Reject> {
    let unknown = offers.iter().any(|offer| offer.must_understand && ![KEYED, OPTIONS].contains(&offer.kind));
    let keyed = offers.iter().any(|offer| offer.kind == KEYED);
    match (unknown, keyed == has_key) {
        (true, _) => Some(Reject::NotUnderstood),
        (false, false) => Some(Reject::Key),
        (false, true) => None,
    }
}

/// The number of the `period` that contains `now`.
fn epoch(now: Time, period: Duration) -> u64 {
    now.as_nanos() / (period.as_nanos() as u64).max(1)
}
