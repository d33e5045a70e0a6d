//! The bytes of challenges to addresses (RFC 9000 section 8.2.1).

use core::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;

/// The key from which the challenges of a connection are derived. Its peer sees some of them, and must not be able to
/// predict others: it could answer for a third party, which would be sent data then.
#[derive(Clone)]
pub struct ChallengeKey([u8; 32]);

impl ChallengeKey {
    /// Of random bytes from the operating system, which are never sent.
    #[must_use]
    pub const fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// The challenge with this number.
    pub(crate) fn challenge(&self, number: u64) -> [u8; 8] {
        let mut code = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes a key of any length");
        code.update(b"Weft Edge 1 challenge");
        code.update(&number.to_be_bytes());
        let bytes: [u8; 32] = code.finalize().into_bytes().into();
        core::array::from_fn(|at| bytes[at])
    }
}

impl fmt::Debug for ChallengeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChallengeKey(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_follow_from_key_and_number() {
        let challenge = |key, number| ChallengeKey::new([key; 32]).challenge(number);
        assert_eq!(challenge(1, 5), challenge(1, 5));
        assert_ne!(challenge(1, 5), challenge(2, 5));
        assert_ne!(challenge(1, 5), challenge(1, 6));
    }
}
