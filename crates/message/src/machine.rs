//! One endpoint's messages: see the [crate](crate).

use core::marker::PhantomData;

use weft_base::{PeerId, Time};

use crate::host::{CallId, Host, Ticket};
use crate::settings::Settings;

/// Which tags a receive takes: those that agree with `tag` in all bits that `ignore` has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// The tag.
    pub tag: u64,
    /// Bits that may differ.
    pub ignore: u64,
}

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
    /// The most bytes of a packet to it.
    pub packet_bytes: u32,
    /// Packets with messages that may be under way to it.
    pub data_credits: u16,
    /// Other packets that may be under way to it.
    pub control_credits: u16,
}

/// A peer has broken the rules of the protocol: its connection must be broken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation(pub &'static str);

/// One endpoint's messages.
pub struct Machine<H: Host> {
    settings: Settings,
    host: PhantomData<H>,
}

#[expect(unused_variables, clippy::missing_const_for_fn, reason = "the interface, before its implementation")]
impl<H: Host> Machine<H> {
    /// An endpoint without peers.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, host: PhantomData }
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sends a message. It is queued when it can't be sent at once; [`Host::sent`] tells when it has completed.
    pub fn send(&mut self, send: Send<H::Send>, host: &mut H) {}

    /// Posts a receive, which takes the oldest message that matches: one that has come already, or the next one.
    pub fn receive(&mut self, receive: Receive<H::Receive>, host: &mut H) {}

    /// The oldest message that matches and that nobody has waited for. With `claim` it is set aside under that number, for [`Machine::receive_claimed`] or [`Machine::discard_claimed`].
    pub fn peek(&mut self, source: Option<PeerId>, matching: Option<Match>, claim: Option<u64>) -> Option<Peek> {
        None
    }

    /// Takes the oldest message that matches and throws it away. Returns what it was.
    pub fn discard(&mut self, source: Option<PeerId>, matching: Option<Match>, host: &mut H) -> Option<Peek> {
        None
    }

    /// Receives a message that was set aside. Gives the receive back when there is no such message.
    ///
    /// # Errors
    /// No message was set aside under this number.
    pub fn receive_claimed(
        &mut self,
        claim: u64,
        receive: Receive<H::Receive>,
        host: &mut H,
    ) -> Result<(), Receive<H::Receive>> {
        Err(receive)
    }

    /// Throws a message away that was set aside. Returns whether there was one.
    pub fn discard_claimed(&mut self, claim: u64, host: &mut H) -> bool {
        false
    }

    /// Cancels the oldest posted receive for which `is_it` holds and that no message has matched. Returns whether there was one.
    pub fn cancel_receive(&mut self, is_it: impl FnMut(&H::Receive) -> bool, host: &mut H) -> bool {
        false
    }

    /// Cancels the oldest send for which `is_it` holds and of which nothing was sent. Returns whether there was one.
    pub fn cancel_send(&mut self, is_it: impl FnMut(&H::Send) -> bool, host: &mut H) -> bool {
        false
    }

    /// Has a peer's NIC do something: `body` is at most [`Settings::short_bytes`] long. [`Host::answered`] brings the answer.
    pub fn call(&mut self, peer: PeerId, ticket: Ticket, body: &[u8], host: &mut H) {}

    /// Answers a peer's call. `body` is at most [`Settings::short_bytes`] long.
    pub fn answer(&mut self, call: CallId, body: &[u8], host: &mut H) {}

    /// A connection to a peer stands, whoever opened it.
    pub fn handle_connected(&mut self, peer: PeerId, terms: Terms, now: Time, host: &mut H) {}

    /// The connection to a peer is gone, or could not be had: everything that is under way with it fails. With `abrupt`, receives that wait for this peer alone fail too. Afterwards
    /// the peer is as if it had never been connected.
    pub fn handle_lost(&mut self, peer: PeerId, abrupt: bool, host: &mut H) {}

    /// A packet has come from a peer.
    ///
    /// # Errors
    /// The peer broke the rules. Nothing else has happened.
    pub fn handle_packet(&mut self, peer: PeerId, packet: &[u8], now: Time, host: &mut H) -> Result<(), Violation> {
        Ok(())
    }

    /// A transfer has ended that [`Host::read`] or [`Host::write`] asked for.
    pub fn handle_transferred(&mut self, ticket: Ticket, outcome: Result<(), crate::Failure>, host: &mut H) {}

    /// Time has passed: what is overdue happens. Returns when to call this next.
    pub fn handle_time(&mut self, now: Time, host: &mut H) -> Option<Time> {
        None
    }

    /// A peer to whom a packet can be sent.
    pub fn next_ready(&mut self) -> Option<PeerId> {
        None
    }

    /// Writes the next packet to a connected peer into `out`, which has room for one of the peer's size. Returns its length; `None` when nothing is to be sent, or nothing may be. Sends in it that
    /// need no answer have completed with this.
    pub fn poll_packet(&mut self, peer: PeerId, out: &mut [u8], now: Time, host: &mut H) -> Option<usize> {
        None
    }

    /// Takes the credit of a packet with messages, for something else that uses up one of the peer's receive requests: a write with immediate data. Returns whether there was one;
    /// else [`Machine::next_ready`] names the peer once there is.
    pub fn reserve_packet(&mut self, peer: PeerId) -> bool {
        false
    }

    /// Something else than a packet has used up one of our receive requests, for which the peer has taken a credit.
    ///
    /// # Errors
    /// It had none.
    pub fn handle_other_packet(&mut self, peer: PeerId) -> Result<(), Violation> {
        Ok(())
    }

    /// Whether anything is under way with a peer: what was sent and not finished, or is to be sent.
    #[must_use]
    pub fn is_busy(&self, peer: PeerId) -> bool {
        false
    }
}
