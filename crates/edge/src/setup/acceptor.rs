//! The acceptor: answers datagrams of unknown callers. It keeps no state per caller.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use weft_base::Time;
use weft_wire::edge::setup::{self, Hello, Message, RESET_LENGTH, Reject, Setup, Versions};
use weft_wire::edge::{BASE_DATAGRAM, ConnectionId, EdgeError, RESET_TOKEN_LENGTH, VERSION};

use super::handshake::Handshake;
use super::key::{Key, Use};
use super::{epoch, objection};

/// A cookie: when it was made, in nanoseconds, and a code over that and the caller.
const COOKIE_LENGTH: usize = 8 + 16;

/// Settings of an [`Acceptor`].
#[derive(Clone, Debug)]
pub struct AcceptorSettings {
    /// The job's key, if it has one.
    pub key: Option<Key>,
    /// Key of reset tokens. A process that has the same one after a restart can prove that it has forgotten a
    /// connection.
    pub host: Key,
    /// Random key of this process, for cookies.
    pub secret: Key,
    /// The lifetime of a cookie. Its secret changes after each.
    pub cookie_lifetime: Duration,
}

/// Counters of an acceptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptorCounters {
    /// Hellos that passed.
    pub calls: u64,
    /// Hellos that were answered with a cookie.
    pub cookies: u64,
    /// Hellos with an invalid or expired cookie.
    pub bad_cookies: u64,
    /// Hellos of an unsupported version.
    pub versions: u64,
    /// Hellos rejected for their offers, or because only one side has a key.
    pub rejected: u64,
    /// Hellos rejected because the caller has another key.
    pub other_keys: u64,
    /// Datagrams that are damaged, too short to be answered, or no hello.
    pub unreadable: u64,
    /// Packets of unknown connections, answered with a reset.
    pub resets: u64,
}

/// A hello at the acceptor.
#[derive(Clone, Copy, Debug)]
pub struct IncomingCall<'a> {
    /// The caller's id of the connection.
    pub id: ConnectionId,
    /// The source address, which may be false.
    pub from: SocketAddr,
    /// What it says.
    pub hello: Hello<'a>,
}

impl IncomingCall<'_> {
    /// A unique name of the hello: its caller's nonce. With a key no other caller can make a valid hello with it.
    #[must_use]
    pub fn name(&self) -> u128 {
        u128::from_be_bytes(self.hello.terms.nonce)
    }

    /// The hello without its cookie: a caller may be sent another cookie after its call was accepted.
    pub(super) fn plain(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.setup(Hello { cookie: &[], ..self.hello }).emit(&mut bytes, 0);
        bytes
    }

    fn setup<'a>(&self, hello: Hello<'a>) -> Setup<'a> {
        Setup { destination: ConnectionId::default(), source: self.id, message: Message::Hello(hello) }
    }
}

/// The result for a datagram at the acceptor.
#[derive(Debug)]
pub enum HelloOutcome<'a> {
    /// It is dropped.
    Dropped,
    /// An answer was written, for its source address; nothing is kept.
    Answered,
    /// A call, answered with a rejection for this reason; nothing is kept.
    Refused(Reject),
    /// A call.
    Call(IncomingCall<'a>),
}

/// The acceptor of a port.
#[derive(Debug)]
pub struct Acceptor {
    settings: AcceptorSettings,
    counters: AcceptorCounters,
}

impl Acceptor {
    /// A acceptor.
    #[must_use]
    pub fn new(settings: AcceptorSettings) -> Self {
        Self { settings, counters: AcceptorCounters::default() }
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> &AcceptorCounters {
        &self.counters
    }

    pub(super) fn settings(&self) -> &AcceptorSettings {
        &self.settings
    }

    /// Handles a handshake datagram with destination 0. `crowded`: there are more calls than the limit above which
    /// addresses are validated first. An answer is appended to `out`.
    pub fn on_hello<'a>(
        &mut self,
        datagram: &'a [u8],
        from: SocketAddr,
        crowded: bool,
        now: Time,
        out: &mut Vec<u8>,
    ) -> HelloOutcome<'a> {
        let setup = match Setup::parse(datagram) {
            Ok(setup) => setup,
            Err(EdgeError::Version(_)) => return self.list_versions(datagram, out),
            Err(_) => return self.unreadable(),
        };
        let Message::Hello(hello) = setup.message else { return self.unreadable() };
        let is_first = setup.destination == ConnectionId::default() && setup.source != ConnectionId::default();
        if datagram.len() < BASE_DATAGRAM || !is_first {
            return self.unreadable();
        }
        let call = IncomingCall { id: setup.source, from, hello };
        if let Some(reason) = self.refusal(&call) {
            self.counters.rejected += 1;
            return refuse(&call, reason, out);
        }
        if crowded && !self.has_cookie(&call, now) {
            return self.ask_for_cookie(&call, now, out);
        }
        // After the cookie, because it costs more.
        if !self.has_key(&call) {
            self.counters.other_keys += 1;
            return refuse(&call, Reject::OtherKey, out);
        }
        self.counters.calls += 1;
        HelloOutcome::Call(call)
    }

    /// Rejects a call, and keeps nothing.
    pub fn reject(&mut self, call: &IncomingCall<'_>, reason: Reject, private_data: &[u8], out: &mut Vec<u8>) {
        self.counters.rejected += 1;
        answer(call, Message::Reject { reason, private_data }, out);
    }

    /// The reset for a packet of an unknown connection, if the packet is long enough to be answered.
    pub fn reset(&mut self, datagram: &[u8], id: ConnectionId) -> Option<[u8; RESET_LENGTH]> {
        // A reset is shorter than its cause: two sides that have both forgotten do not answer each other forever.
        if datagram.len() <= RESET_LENGTH {
            return None;
        }
        self.counters.resets += 1;
        Some(setup::reset(id, &self.reset_token(id)))
    }

    pub(super) fn reset_token(&self, id: ConnectionId) -> [u8; RESET_TOKEN_LENGTH] {
        self.settings.host.reset_token(id)
    }

    fn unreadable<'a>(&mut self) -> HelloOutcome<'a> {
        self.counters.unreadable += 1;
        HelloOutcome::Dropped
    }

    fn refusal(&self, call: &IncomingCall<'_>) -> Option<Reject> {
        objection(&call.hello.terms.offers, self.settings.key.is_some())
    }

    /// Whether the caller has the key, if there is one.
    fn has_key(&self, call: &IncomingCall<'_>) -> bool {
        let Some(key) = &self.settings.key else { return true };
        let hello = call.setup(call.hello).covered();
        call.hello.proof.is_some_and(|proof| Handshake::is_call(key, &hello, proof))
    }

    /// Answers a hello of another version with the list of supported versions, which is not longer than the hello.
    fn list_versions<'a>(&mut self, datagram: &[u8], out: &mut Vec<u8>) -> HelloOutcome<'a> {
        let (start, Ok(invariant)) = (out.len(), setup::invariant(datagram)) else { return self.unreadable() };
        if !invariant.hello || invariant.version == VERSION {
            return self.unreadable();
        }
        let message = Message::Versions(Versions::OURS);
        Setup { destination: invariant.source, source: ConnectionId::default(), message }.emit(out, 0);
        if out.len() - start > datagram.len() {
            out.truncate(start);
            return self.unreadable();
        }
        self.counters.versions += 1;
        HelloOutcome::Answered
    }

    fn ask_for_cookie<'a>(&mut self, call: &IncomingCall<'_>, now: Time, out: &mut Vec<u8>) -> HelloOutcome<'a> {
        self.counters.cookies += 1;
        let cookie = self.cookie(call, now);
        answer(call, Message::Retry { cookie: &cookie }, out)
    }

    fn cookie(&self, call: &IncomingCall<'_>, now: Time) -> [u8; COOKIE_LENGTH] {
        let made = now.as_nanos().to_be_bytes();
        let code = self.cookie_key(now).prove(Use::Cookie, &whom(call, &made).each_ref().map(|part| &part[..]));
        let mut cookie = [0; COOKIE_LENGTH];
        cookie[..8].copy_from_slice(&made);
        cookie[8..].copy_from_slice(&code[..16]);
        cookie
    }

    fn cookie_key(&self, made: Time) -> Key {
        self.settings.secret.derive(epoch(made, self.settings.cookie_lifetime))
    }

    fn has_cookie(&mut self, call: &IncomingCall<'_>, now: Time) -> bool {
        let Some((made, code)) = call.hello.cookie.split_first_chunk::<8>() else { return false };
        let at = Time::from_nanos(u64::from_be_bytes(*made));
        let fresh = at <= now && now.since(at) <= self.settings.cookie_lifetime && code.len() == COOKIE_LENGTH - 8;
        let parts = whom(call, made);
        let good = fresh && self.cookie_key(at).is_proof(Use::Cookie, &parts.each_ref().map(|part| &part[..]), code);
        self.counters.bad_cookies += u64::from(!good);
        good
    }
}

/// The caller that a cookie is for: address, port, the caller's id of the connection; and when it was made.
fn whom(call: &IncomingCall<'_>, made: &[u8; 8]) -> [Vec<u8>; 3] {
    let address = match call.from.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    [[&address[..], &call.from.port().to_be_bytes()].concat(), call.id.0.to_be_bytes().to_vec(), made.to_vec()]
}

fn refuse<'a>(call: &IncomingCall<'_>, reason: Reject, out: &mut Vec<u8>) -> HelloOutcome<'a> {
    answer(call, Message::Reject { reason, private_data: &[] }, out);
    HelloOutcome::Refused(reason)
}

fn answer<'a>(call: &IncomingCall<'_>, message: Message<'_>, out: &mut Vec<u8>) -> HelloOutcome<'a> {
    Setup { destination: call.id, source: ConnectionId::default(), message }.emit(out, 0);
    HelloOutcome::Answered
}
