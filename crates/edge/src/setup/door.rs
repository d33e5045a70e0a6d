//! The door: what a port says to those that it does not know. It keeps nothing about anybody.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use weft_base::Time;
use weft_wire::edge::setup::{self, Hello, Message, RESET_LENGTH, Reject, Setup, Versions};
use weft_wire::edge::{BASE_DATAGRAM, ConnectionId, EdgeError, RESET_TOKEN_LENGTH, VERSION};

use super::handshake::Handshake;
use super::key::{Key, Use};
use super::{epoch, objection};

/// A cookie: when it was made, in nanoseconds, and a code over that and whom it was made for.
const COOKIE_LENGTH: usize = 8 + 16;

/// Settings of a [`Door`].
#[derive(Clone, Debug)]
pub struct DoorSettings {
    /// The job's key, if it has one.
    pub key: Option<Key>,
    /// From which reset tokens are made. Who has the same after it was started anew is believed that it has
    /// forgotten.
    pub host: Key,
    /// Random, of this process: cookies are made from it.
    pub secret: Key,
    /// How long a cookie is good. Its secret is another one after each such time.
    pub cookie_lifetime: Duration,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoorCounters {
    /// Hellos that were let in.
    pub calls: u64,
    /// Hellos that were told to come again with a cookie.
    pub cookies: u64,
    /// Hellos with a cookie that is not good, or not any more.
    pub bad_cookies: u64,
    /// Hellos of a version that is not spoken here.
    pub versions: u64,
    /// Hellos that were rejected for what they offer, or for a key that one side does not have.
    pub rejected: u64,
    /// Hellos that were rejected because their caller has another key.
    pub other_keys: u64,
    /// Datagrams that are damaged, too short to be answered, or no hello.
    pub unreadable: u64,
    /// Packets of connections that are not known, and were answered with a reset.
    pub resets: u64,
}

/// Somebody who is at the door.
#[derive(Clone, Copy, Debug)]
pub struct Visit<'a> {
    /// What it calls the connection.
    pub id: ConnectionId,
    /// Where it is, or says that it is.
    pub from: SocketAddr,
    /// What it says.
    pub hello: Hello<'a>,
}

impl Visit<'_> {
    /// What no other hello has: its caller's nonce. With a key nobody else can make a good hello with it.
    #[must_use]
    pub fn name(&self) -> u128 {
        u128::from_be_bytes(self.hello.terms.nonce)
    }

    /// The hello as it was before there was a cookie: a caller may be sent for another cookie after its call was let
    /// in.
    pub(super) fn plain(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.setup(Hello { cookie: &[], ..self.hello }).emit(&mut bytes, 0);
        bytes
    }

    fn setup<'a>(&self, hello: Hello<'a>) -> Setup<'a> {
        Setup { destination: ConnectionId::default(), source: self.id, message: Message::Hello(hello) }
    }
}

/// What becomes of a datagram at the door.
#[derive(Debug)]
pub enum Knock<'a> {
    /// It is dropped.
    Dropped,
    /// It is answered: the answer goes back where it came from, and nothing is kept.
    Answered,
    /// It was a call, and is answered with a rejection for this reason; nothing is kept.
    Refused(Reject),
    /// A call.
    Call(Visit<'a>),
}

/// The door of a port.
#[derive(Debug)]
pub struct Door {
    settings: DoorSettings,
    counters: DoorCounters,
}

impl Door {
    /// A door.
    #[must_use]
    pub fn new(settings: DoorSettings) -> Self {
        Self { settings, counters: DoorCounters::default() }
    }

    /// What was counted.
    #[must_use]
    pub fn counters(&self) -> &DoorCounters {
        &self.counters
    }

    pub(super) fn settings(&self) -> &DoorSettings {
        &self.settings
    }

    /// A datagram of set-up with destination 0 has come. `crowded`: there are so many calls that an address is to be
    /// proved first. An answer is written to the end of `out`.
    pub fn knock<'a>(
        &mut self,
        datagram: &'a [u8],
        from: SocketAddr,
        crowded: bool,
        now: Time,
        out: &mut Vec<u8>,
    ) -> Knock<'a> {
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
        let visit = Visit { id: setup.source, from, hello };
        if let Some(reason) = self.refusal(&visit) {
            self.counters.rejected += 1;
            return refuse(&visit, reason, out);
        }
        if crowded && !self.has_cookie(&visit, now) {
            return self.ask_for_cookie(&visit, now, out);
        }
        // After the cookie: it takes more than that.
        if !self.has_key(&visit) {
            self.counters.other_keys += 1;
            return refuse(&visit, Reject::OtherKey, out);
        }
        self.counters.calls += 1;
        Knock::Call(visit)
    }

    /// Rejects a call, and keeps nothing.
    pub fn reject(&mut self, visit: &Visit<'_>, reason: Reject, private_data: &[u8], out: &mut Vec<u8>) {
        self.counters.rejected += 1;
        answer(visit, Message::Reject { reason, private_data }, out);
    }

    /// What to answer to a packet of a connection that is not known, if it is long enough to be answered.
    pub fn reset(&mut self, datagram: &[u8], id: ConnectionId) -> Option<[u8; RESET_LENGTH]> {
        // An answer is shorter than the question: two who have both forgotten do not go on for ever.
        if datagram.len() <= RESET_LENGTH {
            return None;
        }
        self.counters.resets += 1;
        Some(setup::reset(id, &self.reset_token(id)))
    }

    pub(super) fn reset_token(&self, id: ConnectionId) -> [u8; RESET_TOKEN_LENGTH] {
        self.settings.host.reset_token(id)
    }

    fn unreadable<'a>(&mut self) -> Knock<'a> {
        self.counters.unreadable += 1;
        Knock::Dropped
    }

    fn refusal(&self, visit: &Visit<'_>) -> Option<Reject> {
        objection(&visit.hello.terms.offers, self.settings.key.is_some())
    }

    /// Whether the caller has the key, if there is one.
    fn has_key(&self, visit: &Visit<'_>) -> bool {
        let Some(key) = &self.settings.key else { return true };
        let hello = visit.setup(visit.hello).covered();
        visit.hello.proof.is_some_and(|proof| Handshake::is_call(key, &hello, proof))
    }

    /// Another version of Edge: it gets the list of those that are spoken here, which is not longer than what it
    /// sent.
    fn list_versions<'a>(&mut self, datagram: &[u8], out: &mut Vec<u8>) -> Knock<'a> {
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
        Knock::Answered
    }

    fn ask_for_cookie<'a>(&mut self, visit: &Visit<'_>, now: Time, out: &mut Vec<u8>) -> Knock<'a> {
        self.counters.cookies += 1;
        let cookie = self.cookie(visit, now);
        answer(visit, Message::Retry { cookie: &cookie }, out)
    }

    fn cookie(&self, visit: &Visit<'_>, now: Time) -> [u8; COOKIE_LENGTH] {
        let made = now.as_nanos().to_be_bytes();
        let code = self.cookie_key(now).prove(Use::Cookie, &whom(visit, &made).each_ref().map(|part| &part[..]));
        let mut cookie = [0; COOKIE_LENGTH];
        cookie[..8].copy_from_slice(&made);
        cookie[8..].copy_from_slice(&code[..16]);
        cookie
    }

    fn cookie_key(&self, made: Time) -> Key {
        self.settings.secret.derive(epoch(made, self.settings.cookie_lifetime))
    }

    fn has_cookie(&mut self, visit: &Visit<'_>, now: Time) -> bool {
        let Some((made, code)) = visit.hello.cookie.split_first_chunk::<8>() else { return false };
        let at = Time::from_nanos(u64::from_be_bytes(*made));
        let fresh = at <= now && now.since(at) <= self.settings.cookie_lifetime && code.len() == COOKIE_LENGTH - 8;
        let parts = whom(visit, made);
        let good = fresh && self.cookie_key(at).is_proof(Use::Cookie, &parts.each_ref().map(|part| &part[..]), code);
        self.counters.bad_cookies += u64::from(!good);
        good
    }
}

/// Whom a cookie is for: address, port, what the caller calls the connection; and when it was made.
fn whom(visit: &Visit<'_>, made: &[u8; 8]) -> [Vec<u8>; 3] {
    let address = match visit.from.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    };
    [[&address[..], &visit.from.port().to_be_bytes()].concat(), visit.id.0.to_be_bytes().to_vec(), made.to_vec()]
}

fn refuse<'a>(visit: &Visit<'_>, reason: Reject, out: &mut Vec<u8>) -> Knock<'a> {
    answer(visit, Message::Reject { reason, private_data: &[] }, out);
    Knock::Refused(reason)
}

fn answer<'a>(visit: &Visit<'_>, message: Message<'_>, out: &mut Vec<u8>) -> Knock<'a> {
    Setup { destination: visit.id, source: ConnectionId::default(), message }.emit(out, 0);
    Knock::Answered
}
