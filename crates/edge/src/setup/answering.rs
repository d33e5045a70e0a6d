//! An accepted call, until the caller has confirmed.

use std::net::SocketAddr;

use weft_wire::edge::ConnectionId;
use weft_wire::edge::setup::{ANSWER_PROOF_LENGTH, Accept, Hello, MAX_PRIVATE_DATA, Message, Reject, Setup};

use super::acceptor::{Acceptor, IncomingCall};
use super::handshake::{Handshake, Session};
use super::key::Key;
use super::{Fresh, Heard, UNPROVED, Words, established, terms};
use crate::challenge_key::ChallengeKey;
use crate::connection::{Confirmation, Established};
use crate::settings::Settings;

/// A call that passed the acceptor. It may be answered late, is answered once, and repeats its answer to a repeated
/// hello; so nothing here has a timer. It is kept until the connection reports
/// [`Event::Confirmed`](crate::Event::Confirmed) or ends.
#[derive(Debug)]
pub struct Answering {
    fresh: Fresh,
    remote: ConnectionId,
    from: SocketAddr,
    /// Without its cookie.
    hello: Vec<u8>,
    answer: Vec<u8>,
    key: Option<Key>,
    reset_token: [u8; 16],
}

impl Answering {
    /// From a call that passed the acceptor.
    #[must_use]
    pub fn new(call: &IncomingCall<'_>, acceptor: &Acceptor, fresh: Fresh) -> Self {
        Self {
            fresh,
            remote: call.id,
            from: call.from,
            hello: call.plain(),
            answer: vec![],
            key: acceptor.settings().key.clone(),
            reset_token: acceptor.reset_token(fresh.id),
        }
    }

    /// This side's id of the connection.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.fresh.id
    }

    /// The caller's address and its id of the connection. A hello with both belongs to this call.
    #[must_use]
    pub fn caller(&self) -> (SocketAddr, ConnectionId) {
        (self.from, self.remote)
    }

    /// The hello's name, as [`IncomingCall::name`].
    #[must_use]
    pub fn name(&self) -> u128 {
        u128::from_be_bytes(self.hello().1.terms.nonce)
    }

    /// The caller application's part of set-up.
    #[must_use]
    pub fn heard(&self) -> Heard {
        Heard::of(&self.hello().1.terms)
    }

    fn hello(&self) -> (Setup<'_>, Hello<'_>) {
        match Setup::parse(&self.hello) {
            Ok(setup @ Setup { message: Message::Hello(hello), .. }) => (setup, hello),
            _ => unreachable!("it was parsed when it was received"),
        }
    }

    /// Accepts the call. The answer is written to the end of `out`, for [`Answering::caller`].
    ///
    /// # Panics
    /// When private data are longer than 512 bytes, or it was answered before: bugs of the caller.
    pub fn accept(&mut self, words: &Words<'_>, settings: &Settings, out: &mut Vec<u8>) -> Established {
        assert!(self.answer.is_empty(), "a call is answered once");
        assert!(words.private_data.len() <= MAX_PRIVATE_DATA, "private data of {} bytes", words.private_data.len());
        let terms = terms(&self.fresh, self.reset_token, words, settings, false);
        let plain = self.setup(Message::Accept(Accept { terms, proof: None }));
        let (proof, session) = self.prove(&plain).unzip();
        let mut answer = Vec::new();
        self.setup(Message::Accept(Accept { terms, proof: proof.as_ref() })).emit(&mut answer, 0);
        self.answer = answer;
        out.extend_from_slice(&self.answer);
        self.established(session.as_ref(), settings)
    }

    /// The proof that this side has the key, if there is one.
    fn prove(&self, accept: &Setup<'_>) -> Option<([u8; ANSWER_PROOF_LENGTH], Session)> {
        let key = self.key.as_ref()?;
        let (setup, hello) = self.hello();
        let call = hello.proof.expect("the acceptor has checked for one");
        Some(Handshake::answer(key, &self.fresh.secret, (&setup.covered(), call), &accept.covered()))
    }

    fn established(&self, session: Option<&Session>, settings: &Settings) -> Established {
        let like = Established {
            local: self.fresh.id,
            remote: self.remote,
            confirmation: Confirmation::Expect(session.map_or(UNPROVED, Session::confirmation)),
            challenges: ChallengeKey::new(self.fresh.secret),
            ..Established::unknown(self.from, self.fresh.seed, settings)
        };
        established(like, &self.hello().1.terms)
    }

    /// Rejects the call.
    ///
    /// # Panics
    /// As [`Answering::accept`].
    pub fn reject(&mut self, reason: Reject, private_data: &[u8], out: &mut Vec<u8>) {
        assert!(self.answer.is_empty(), "a call is answered once");
        self.setup(Message::Reject { reason, private_data }).emit(&mut self.answer, 0);
        out.extend_from_slice(&self.answer);
    }

    fn setup<'a>(&self, message: Message<'a>) -> Setup<'a> {
        Setup { destination: self.remote, source: self.fresh.id, message }
    }

    /// The answer; empty before there is one. Sent again unasked, it probes a silent caller.
    #[must_use]
    pub fn answer(&self) -> &[u8] {
        &self.answer
    }

    /// The hello was received again: writes the answer, or that it is pending, to the end of `out`. Returns false when
    /// it is another hello under the same name, which is dropped.
    pub fn repeat(&self, call: &IncomingCall<'_>, out: &mut Vec<u8>) -> bool {
        if call.plain() != self.hello {
            return false;
        }
        if self.answer.is_empty() {
            self.setup(Message::Wait).emit(out, 0);
        }
        out.extend_from_slice(&self.answer);
        true
    }
}
