//! HMAC-SHA-256: derived keys, cookies, reset tokens, and confirmations.

use core::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use weft_wire::edge::{ConnectionId, PROOF_LENGTH, RESET_TOKEN_LENGTH};

/// A secret. It is never shown or sent.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

/// The purpose of a code, so that none is valid for another one.
#[derive(Clone, Copy)]
#[repr(u8)]
pub(super) enum Use {
    Confirm = 2,
    Cookie = 3,
    Reset = 4,
    Epoch = 5,
    Handshake = 6,
}

impl Key {
    /// The minimum length of a key in bytes.
    pub const SHORTEST: usize = 16;

    /// A key of these bytes. `None` when there are fewer than [`Key::SHORTEST`]: it could be guessed.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        Hmac::new_from_slice(bytes).ok().filter(|_| bytes.len() >= Self::SHORTEST).map(Self)
    }

    fn code(&self, what: Use, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut code = self.0.clone();
        code.update(b"Weft Edge 1 ");
        code.update(&[what as u8]);
        for part in parts {
            // The lengths are part of it.
            code.update(&(part.len() as u32).to_be_bytes());
            code.update(part);
        }
        code
    }

    pub(super) fn prove(&self, what: Use, parts: &[&[u8]]) -> [u8; PROOF_LENGTH] {
        self.code(what, parts).finalize().into_bytes().into()
    }

    /// Compares in constant time.
    pub(super) fn is_proof(&self, what: Use, parts: &[&[u8]], proof: &[u8]) -> bool {
        self.code(what, parts).verify_truncated_left(proof).is_ok()
    }

    /// A subkey.
    pub(super) fn derive(&self, number: u64) -> Self {
        let bytes = self.prove(Use::Epoch, &[&number.to_be_bytes()]);
        Self(Hmac::new_from_slice(&bytes).expect("HMAC takes a key of any length"))
    }

    /// The reset token of a process with this key for the connection with its id `id`.
    #[must_use]
    pub fn reset_token(&self, id: ConnectionId) -> [u8; RESET_TOKEN_LENGTH] {
        let code = self.prove(Use::Reset, &[&id.0.to_be_bytes()]);
        core::array::from_fn(|at| code[at])
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(not shown)")
    }
}
