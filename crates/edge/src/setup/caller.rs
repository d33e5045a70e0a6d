//! The calling side of set-up.

use core::time::Duration;
use std::net::SocketAddr;

use weft_base::Time;
use weft_wire::edge::setup::{
    Accept, CALL_PROOF_LENGTH, Hello, MAX_COOKIE, MAX_PRIVATE_DATA, MAX_VERSIONS, Message, Reject, Setup, Versions,
};
use weft_wire::edge::{BASE_DATAGRAM, ConnectionId, PROOF_LENGTH, VERSION};

use arrayvec::ArrayVec;

use super::handshake::{Handshake, Session};
use super::key::Key;
use super::{Fresh, Heard, UNPROVED, Words, established, objection, terms};
use crate::challenge_key::ChallengeKey;
use crate::connection::{Confirmation, Established};
use crate::settings::Settings;

/// The maximum number of cookies that a caller accepts.
const MAX_RETRIES: u32 = 3;

/// Timeouts of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetupTimes {
    /// The hello is retransmitted after this time, then after twice as long, and so on.
    pub first_repeat: Duration,
    /// The longest time between two retransmissions.
    pub longest_repeat: Duration,
    /// The call fails when nothing was received for this long.
    pub silence: Duration,
    /// The longest total wait for an answer that the peer has announced as pending.
    pub answer: Duration,
}

impl Default for SetupTimes {
    fn default() -> Self {
        Self {
            first_repeat: Duration::from_millis(100),
            longest_repeat: Duration::from_secs(1),
            silence: Duration::from_secs(10),
            answer: Duration::from_secs(120),
        }
    }
}

/// Parameters of a call.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The address to call.
    pub to: SocketAddr,
    /// Fresh values of this call.
    pub fresh: Fresh,
    /// The job's key, if it has one.
    pub key: Option<&'a Key>,
    /// Key of reset tokens, as in [`AcceptorSettings`](super::AcceptorSettings).
    pub host: &'a Key,
    /// The application's part of set-up.
    pub words: Words<'a>,
    /// Timeouts.
    pub times: SetupTimes,
}

/// The outcome of a call.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The call was accepted.
    Accepted(Box<Established>, Heard),
    /// The call was rejected.
    Rejected {
        /// The reason.
        reason: Reject,
        /// Private data of the application there.
        private_data: Vec<u8>,
    },
    /// The peer supports only these versions.
    Versions(ArrayVec<u32, MAX_VERSIONS>),
    /// No answer. `heard`: the peer has announced that an answer is pending.
    Silence {
        /// Whether the peer has sent anything.
        heard: bool,
    },
}

/// A call in progress.
#[derive(Debug)]
pub struct Caller {
    to: SocketAddr,
    fresh: Fresh,
    /// The handshake and its first message, if there is a key to prove.
    handshake: Option<(Handshake, [u8; CALL_PROOF_LENGTH])>,
    reset_token: [u8; 16],
    private_data: ArrayVec<u8, MAX_PRIVATE_DATA>,
    reads: (u16, u16),
    times: SetupTimes,
    settings: Settings,
    cookie: ArrayVec<u8, MAX_COOKIE>,
    hello: Vec<u8>,
    retries: u32,
    repeat_at: Time,
    repeat_after: Duration,
    begun: Time,
    /// When the current hello was first sent.
    said_at: Option<Time>,
    heard_at: Option<Time>,
    is_over: bool,
    /// Datagrams that were dropped: damaged, forged, not of this call.
    dropped: u64,
    /// One of them accepted the call without a proof of the key, or with a proof where there is no key.
    is_unproved: bool,
}

impl Caller {
    /// Starts a call. [`Caller::transmit`] writes the hello.
    ///
    /// # Panics
    /// When private data are longer than 512 bytes: a bug of the user.
    #[must_use]
    pub fn new(call: &Call<'_>, settings: &Settings, now: Time) -> Self {
        let mut caller = Self {
            to: call.to,
            fresh: call.fresh,
            handshake: None,
            reset_token: call.host.reset_token(call.fresh.id),
            private_data: call.words.private_data.iter().copied().collect(),
            reads: (call.words.inbound_reads, call.words.outbound_reads),
            times: call.times,
            settings: *settings,
            cookie: ArrayVec::new(),
            hello: Vec::with_capacity(BASE_DATAGRAM),
            retries: 0,
            repeat_at: now,
            repeat_after: call.times.first_repeat,
            begun: now,
            said_at: None,
            heard_at: None,
            is_over: false,
            dropped: 0,
            is_unproved: false,
        };
        caller.handshake = call.key.map(|key| {
            let hello = caller.setup(true, None).covered();
            Handshake::call(key, &caller.fresh.secret, &hello)
        });
        caller.write_hello();
        caller
    }

    fn write_hello(&mut self) {
        let mut hello = core::mem::take(&mut self.hello);
        hello.clear();
        let proof = self.handshake.as_ref().map(|(_, proof)| proof);
        self.setup(proof.is_some(), proof).emit(&mut hello, BASE_DATAGRAM);
        self.hello = hello;
    }

    fn setup<'a>(&'a self, is_keyed: bool, proof: Option<&'a [u8; CALL_PROOF_LENGTH]>) -> Setup<'a> {
        let (inbound_reads, outbound_reads) = self.reads;
        let words = Words { private_data: &self.private_data, inbound_reads, outbound_reads };
        let terms = terms(&self.fresh, self.reset_token, &words, &self.settings, is_keyed);
        let message = Message::Hello(Hello { terms, versions: Versions::OURS, cookie: &self.cookie, proof });
        Setup { destination: ConnectionId::default(), source: self.fresh.id, message }
    }

    /// This side's id of the connection.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.fresh.id
    }

    /// The address of the called side.
    #[must_use]
    pub fn to(&self) -> SocketAddr {
        self.to
    }

    /// Datagrams that were dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Whether this side has a key to prove.
    #[must_use]
    pub fn has_key(&self) -> bool {
        self.handshake.is_some()
    }

    /// Whether the call was accepted without a valid proof: by a peer with another key, or with a key where this side
    /// has none; or by an attacker on the path.
    #[must_use]
    pub fn is_unproved(&self) -> bool {
        self.is_unproved
    }

    /// Writes the hello to the end of `out` if it is due. Returns true when it did.
    pub fn transmit(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        if self.is_over || self.repeat_at > now {
            return false;
        }
        out.extend_from_slice(&self.hello);
        self.said_at = self.said_at.or(Some(now));
        self.repeat_at = now + self.repeat_after;
        self.repeat_after = (self.repeat_after * 2).min(self.times.longest_repeat);
        true
    }

    /// When [`Caller::handle_timeout`] and [`Caller::transmit`] are to be called.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        (!self.is_over).then(|| self.repeat_at.min(self.ends_at()))
    }

    fn ends_at(&self) -> Time {
        match self.heard_at {
            None => self.begun + self.times.silence,
            Some(heard) => (heard + self.times.silence).min(self.begun + self.times.answer),
        }
    }

    /// Handles timers.
    pub fn handle_timeout(&mut self, now: Time) -> Option<Outcome> {
        if self.is_over || now < self.ends_at() {
            return None;
        }
        self.end(Outcome::Silence { heard: self.heard_at.is_some() })
    }

    fn end(&mut self, outcome: Outcome) -> Option<Outcome> {
        self.is_over = true;
        Some(outcome)
    }

    /// Handles a datagram of set-up for this call. Invalid ones are counted and dropped.
    pub fn receive(&mut self, datagram: &[u8], from: SocketAddr, now: Time) -> Option<Outcome> {
        let Some(setup) = Setup::parse(datagram).ok().filter(|setup| self.is_mine(setup, from)) else {
            self.dropped += 1;
            return None;
        };
        match setup.message {
            Message::Wait => self.heard_at = Some(now),
            Message::Retry { cookie } => self.on_retry(cookie, now),
            Message::Reject { reason, private_data } => {
                return self.end(Outcome::Rejected { reason, private_data: private_data.to_vec() });
            }
            Message::Versions(versions) => return self.on_versions(&versions),
            Message::Accept(accept) => return self.on_accept(&accept, &setup, now),
            Message::Hello(_) => self.dropped += 1,
        }
        None
    }

    fn is_mine(&self, setup: &Setup<'_>, from: SocketAddr) -> bool {
        !self.is_over && setup.destination == self.fresh.id && from == self.to
    }

    fn on_retry(&mut self, cookie: &[u8], now: Time) {
        if self.retries == MAX_RETRIES {
            self.dropped += 1;
            return;
        }
        self.retries += 1;
        self.cookie = cookie.iter().copied().collect();
        self.write_hello();
        self.said_at = None;
        self.repeat_at = now;
    }

    /// A list that contains the version of the hello is forged.
    fn on_versions(&mut self, versions: &Versions<'_>) -> Option<Outcome> {
        if versions.iter().any(|version| version == VERSION) {
            self.dropped += 1;
            return None;
        }
        self.end(Outcome::Versions(versions.iter().collect()))
    }

    fn on_accept(&mut self, accept: &Accept<'_>, setup: &Setup<'_>, now: Time) -> Option<Outcome> {
        // The answer repeats no offer: the peer has understood those that it must.
        let is_strange = objection(&accept.terms.offers, false).is_some() || setup.source == ConnectionId::default();
        let Some(confirmation) = self.confirmation(accept, setup).filter(|_| !is_strange) else {
            self.dropped += 1;
            return None;
        };
        let like = Established {
            local: self.fresh.id,
            remote: setup.source,
            confirmation: Confirmation::Say(confirmation),
            took: self.said_at.map(|said_at| now.since(said_at)),
            challenges: ChallengeKey::new(self.fresh.secret),
            ..Established::unknown(self.to, self.fresh.seed, &self.settings)
        };
        let established = established(like, &accept.terms);
        self.end(Outcome::Accepted(Box::new(established), Heard::of(&accept.terms)))
    }

    /// The confirmation, if the answer proves what it must.
    fn confirmation(&mut self, accept: &Accept<'_>, setup: &Setup<'_>) -> Option<[u8; PROOF_LENGTH]> {
        let confirmation = match (&mut self.handshake, accept.proof) {
            (None, None) => Some(UNPROVED),
            (Some((handshake, _)), Some(proof)) => handshake.finish(&setup.covered(), proof).map(Session::confirmation),
            _ => None,
        };
        self.is_unproved |= confirmation.is_none();
        confirmation
    }
}
