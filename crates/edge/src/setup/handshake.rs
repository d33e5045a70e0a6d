//! The handshake with which both sides prove that they have the job's key: NNpsk0 of the Noise Protocol Framework,
//! revision 34. `docs/wire.md` draws its messages.

use sha2::{Digest, Sha256};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use weft_wire::edge::PROOF_LENGTH;
use weft_wire::edge::setup::{ANSWER_PROOF_LENGTH, CALL_PROOF_LENGTH};

use super::key::{Key, Use};

const PROTOCOL: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";
/// The beginning of the prologue.
const LABEL: &[u8] = b"Weft Edge 1 set-up";
const DIGEST_LENGTH: usize = 32;

/// A handshake that fails in spite of this name and order is a bug in this file, not a peer's fault.
const IN_ORDER: &str = "the handshake is in its order";

/// A call's handshake in progress.
#[derive(Debug)]
pub(super) struct Handshake {
    state: Box<HandshakeState>,
    heard: Option<Heard>,
}

/// An answer made with the key: the library accepts only one. The rest of its datagram may have been changed on the
/// path, and may be received again unchanged.
#[derive(Debug)]
struct Heard {
    message: [u8; ANSWER_PROOF_LENGTH],
    /// Digest of what it covers.
    digest: [u8; DIGEST_LENGTH],
    session: Session,
}

impl Handshake {
    /// Starts a handshake. `secret` is random and used once; the returned message covers `hello`.
    pub(super) fn call(key: &Key, secret: &[u8; 32], hello: &[u8]) -> (Self, [u8; CALL_PROOF_LENGTH]) {
        let mut state = state(key, Some(*secret), hello, |builder| builder.build_initiator());
        let mut message = [0; CALL_PROOF_LENGTH];
        let length = state.write_message(&[], &mut message).expect(IN_ORDER);
        assert_eq!(length, CALL_PROOF_LENGTH);
        (Self { state, heard: None }, message)
    }

    /// Whether `message` was made with this key, over this hello. Computes hashes only.
    pub(super) fn is_call(key: &Key, hello: &[u8], message: &[u8; CALL_PROOF_LENGTH]) -> bool {
        state(key, None, hello, |builder| builder.build_responder()).read_message(message, &mut []).is_ok()
    }

    /// Answers a call, which [`Handshake::is_call`]. The returned message covers `answer`.
    pub(super) fn answer(
        key: &Key,
        secret: &[u8; 32],
        (hello, call): (&[u8], &[u8; CALL_PROOF_LENGTH]),
        answer: &[u8],
    ) -> ([u8; ANSWER_PROOF_LENGTH], Session) {
        let mut state = state(key, Some(*secret), hello, |builder| builder.build_responder());
        state.read_message(call, &mut []).expect("it was checked when it was received");
        let mut message = [0; ANSWER_PROOF_LENGTH];
        let length = state.write_message(&digest(answer), &mut message).expect(IN_ORDER);
        assert_eq!(length, ANSWER_PROOF_LENGTH);
        (message, Session::of(&mut state))
    }

    /// Handles an answer to this call, with a message that is to cover it. Returns `None` when it was not made with the
    /// key, for this call, and over this answer; the handshake then continues with the next one.
    pub(super) fn finish(&mut self, answer: &[u8], message: &[u8; ANSWER_PROOF_LENGTH]) -> Option<&Session> {
        if self.heard.is_none() {
            let mut digest = [0; DIGEST_LENGTH];
            self.state.read_message(message, &mut digest).ok()?;
            self.heard = Some(Heard { message: *message, digest, session: Session::of(&mut self.state) });
        }
        let heard = self.heard.as_ref().filter(|heard| heard.message == *message && heard.digest == digest(answer))?;
        Some(&heard.session)
    }
}

fn digest(bytes: &[u8]) -> [u8; DIGEST_LENGTH] {
    Sha256::digest(bytes).into()
}

/// The secrets that only the two sides of a handshake have.
#[derive(Debug)]
pub(super) struct Session {
    /// Hash over all messages.
    hash: [u8; 32],
    /// From it keys for the caller's messages are derived. It is no key of a cipher itself: each use has its own.
    calls: Key,
}

impl Session {
    fn of(state: &mut HandshakeState) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(state.get_handshake_hash());
        let (calls, _) = state.dangerously_get_raw_split();
        Self { hash, calls: Key::new(&calls).expect("32 bytes are enough for a key") }
    }

    /// The caller's confirmation.
    pub(super) fn confirmation(&self) -> [u8; PROOF_LENGTH] {
        self.calls.prove(Use::Confirm, &[&self.hash])
    }
}

fn state(
    key: &Key,
    secret: Option<[u8; 32]>,
    hello: &[u8],
    build: impl FnOnce(Builder<'_>) -> Result<HandshakeState, snow::Error>,
) -> Box<HandshakeState> {
    let psk = key.prove(Use::Handshake, &[PROTOCOL.as_bytes()]);
    let prologue = [LABEL, hello].concat();
    let params = PROTOCOL.parse().expect("a protocol that the library has");
    let builder = Builder::with_resolver(params, Box::new(Given(secret)));
    let state = builder.psk(0, &psk).and_then(|builder| builder.prologue(&prologue)).and_then(build);
    Box::new(state.expect("all that it needs was given"))
}

/// Ciphers and hashes of the library, with random bytes drawn elsewhere: there is no source of them here.
#[derive(Clone, Copy)]
struct Given(Option<[u8; 32]>);

impl CryptoResolver for Given {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(*self))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

impl Random for Given {
    /// Only once, so that no two keys are made of the same bytes.
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), snow::Error> {
        let bytes = self.0.take().filter(|bytes| bytes.len() == out.len()).ok_or(snow::Error::Rng)?;
        out.copy_from_slice(&bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Messages of a program that was written from the specification of Noise alone, without this code or its library;
    /// `docs/wire.md` has the same bytes.
    #[test]
    fn messages_as_others_would_make_them() {
        let key = Key::new(&[1; 32]).unwrap();
        let (hello, accept) = (b"what the caller says", b"what is answered");
        let (mut handshake, call) = Handshake::call(&key, &[0x77; 32], hello);
        assert_eq!(
            hex(&call),
            "1cf579aba45a10ba1d1ef06d91fca2aa9ed0a1150515653155405d0b18cb9a675ff999e50362612977f799ecbd86fd3e"
        );
        assert!(Handshake::is_call(&key, hello, &call));
        let (answer, session) = Handshake::answer(&key, &[0x88; 32], (hello, &call), accept);
        assert_eq!(
            hex(&answer),
            concat!(
                "30d3c865a48fceb3d6118577cf2e5f228d6ff69866264757785b253cb7a4806acd9dfd66ff473b82",
                "c81320ea44bceb9e88ce895da7ed47720498bbf56570f530e711625a6efd98b38ef29c715e9b327a"
            )
        );
        let expected = "2e7316356f453b16075f8f4df06db81c11d8867d5d8c912a3d9ad26af2248533";
        assert_eq!(hex(&session.confirmation()), expected);
        assert!(handshake.finish(b"something else", &answer).is_none());
        assert_eq!(
            handshake.finish(accept, &answer).map(|session| hex(&session.confirmation())),
            Some(expected.into())
        );
    }
}
