//! The job's key: a process that has it is of the job, and no other is let in.

use core::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use weft_wire::message::{NONCE_LENGTH, PROOF_LENGTH};

/// A secret that all processes of a job have. Each of two message endpoints proves to the other that it has it before
/// anything else goes over a connection, and so do the two ends of any connection over Edge
/// ([`Settings::key`](crate::Settings::key)); the key itself does not go over the wire.
///
/// A host that has seen two endpoints connect can try out keys at leisure, so it must not be guessed: 32 random bytes,
/// say, in hexadecimal digits.
#[derive(Clone)]
pub struct JobKey(Hmac<Sha256>);

/// A key that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// Short enough to be guessed.
    TooShort {
        /// Its bytes.
        length: usize,
    },
    /// Longer than possible.
    TooLong {
        /// Its bytes.
        length: usize,
    },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { length } => {
                write!(f, "a job key of {length} bytes is too short: it must have at least {}", JobKey::SHORTEST)
            }
            Self::TooLong { length } => {
                write!(f, "a job key of {length} bytes is too long: it may have up to {}", JobKey::LONGEST)
            }
        }
    }
}

impl core::error::Error for KeyError {}

/// What a code is for, so that none is taken for another one.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Use {
    Nonce = 1,
    Reply = 2,
    Confirmation = 3,
    Lower = 4,
}

impl JobKey {
    /// The fewest bytes of a key.
    pub const SHORTEST: usize = 16;
    /// The most.
    pub const LONGEST: usize = 1024;

    /// This key. The same bytes at every endpoint of the job.
    ///
    /// # Errors
    /// It is shorter than [`JobKey::SHORTEST`] or longer than [`JobKey::LONGEST`].
    pub fn new(key: &[u8]) -> Result<Self, KeyError> {
        let length = key.len();
        if length < Self::SHORTEST {
            return Err(KeyError::TooShort { length });
        }
        let code = Hmac::new_from_slice(key).ok().filter(|_| length <= Self::LONGEST);
        code.map(Self).ok_or(KeyError::TooLong { length })
    }

    /// The key with which a lower layer proves that it is of the job. It reveals nothing of this one.
    pub(crate) fn of_lower(&self, layer: &[u8]) -> [u8; PROOF_LENGTH] {
        self.code(Use::Lower, [layer, &[]]).finalize().into_bytes().into()
    }

    fn code(&self, what: Use, parts: [&[u8]; 2]) -> Hmac<Sha256> {
        let mut code = self.0.clone();
        code.update(b"Weft messages 1 ");
        code.update(&[what as u8]);
        // Where one ends and the other begins is part of it.
        code.update(&(parts[0].len() as u32).to_be_bytes());
        parts.into_iter().for_each(|part| code.update(part));
        code
    }

    /// Never the same twice, and unknown before: `id` and `seed` are random, of one endpoint, and `serial`
    /// counts its hellos.
    pub(crate) fn nonce(&self, id: u64, seed: u64, serial: u64) -> [u8; NONCE_LENGTH] {
        let place = [id, seed, serial].map(u64::to_be_bytes).concat();
        let code: [u8; PROOF_LENGTH] = self.code(Use::Nonce, [&place, &[]]).finalize().into_bytes().into();
        core::array::from_fn(|at| code[at])
    }

    /// What proves that the answerer has the key: `request` is the hello that is answered, `reply` the other up to the
    /// proof.
    pub(crate) fn reply(&self, request: &[u8], reply: &[u8]) -> [u8; PROOF_LENGTH] {
        self.code(Use::Reply, [request, reply]).finalize().into_bytes().into()
    }

    /// Whether that does.
    pub(crate) fn is_reply(&self, request: &[u8], reply: &[u8], proof: &[u8; PROOF_LENGTH]) -> bool {
        // In a time that does not depend on where they differ.
        self.code(Use::Reply, [request, reply]).verify_slice(proof).is_ok()
    }

    /// What proves that the caller has the key: over both hellos, all of them.
    pub(crate) fn confirmation(&self, request: &[u8], reply: &[u8]) -> [u8; PROOF_LENGTH] {
        self.code(Use::Confirmation, [request, reply]).finalize().into_bytes().into()
    }

    /// Whether that does.
    pub(crate) fn is_confirmation(&self, request: &[u8], reply: &[u8], proof: &[u8; PROOF_LENGTH]) -> bool {
        self.code(Use::Confirmation, [request, reply]).verify_slice(proof).is_ok()
    }
}

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JobKey(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> JobKey {
        JobKey::new(&[byte; 16]).unwrap()
    }

    #[test]
    fn a_proof_is_good_for_its_key_its_hellos_and_its_purpose_alone() {
        let proof = key(1).reply(b"request", b"reply");
        assert!(key(1).is_reply(b"request", b"reply", &proof));
        for (request, reply) in [(&b"Request"[..], &b"reply"[..]), (b"request", b"replY"), (b"requestr", b"eply")] {
            assert!(!key(1).is_reply(request, reply, &proof));
        }
        assert!(!key(2).is_reply(b"request", b"reply", &proof));
        assert!(!key(1).is_confirmation(b"request", b"reply", &proof), "nothing comes back to who has sent it");
        let mut wrong = proof;
        wrong[31] ^= 1;
        assert!(!key(1).is_reply(b"request", b"reply", &wrong));
        let proof = key(1).confirmation(b"request", b"reply");
        assert!(key(1).is_confirmation(b"request", b"reply", &proof));
        assert!(!key(1).is_confirmation(b"reply", b"request", &proof));
    }

    #[test]
    fn no_nonce_comes_twice() {
        let one = key(1).nonce(1, 2, 3);
        for other in [key(1).nonce(1, 2, 4), key(1).nonce(1, 3, 3), key(1).nonce(2, 2, 3), key(2).nonce(1, 2, 3)] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn a_key_is_long_enough_and_never_shown() {
        let error = JobKey::new(b"15 bytes of key").map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), "a job key of 15 bytes is too short: it must have at least 16");
        assert!(JobKey::new(&[7; JobKey::LONGEST]).is_ok());
        let error = JobKey::new(&[7; JobKey::LONGEST + 1]).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), "a job key of 1025 bytes is too long: it may have up to 1024");
        assert_eq!(format!("{:?}", key(b'x')), "JobKey(not shown)");
    }

    /// RFC 4231, test case 6 in its way: what this computes is HMAC-SHA-256 of a text that is written down here.
    #[test]
    fn a_proof_as_others_would_compute_it() {
        let mut code = <Hmac<Sha256> as Mac>::new_from_slice(&[1; 16]).unwrap();
        code.update(b"Weft messages 1 \x02\0\0\0\x07requestreply");
        let expected: [u8; PROOF_LENGTH] = code.finalize().into_bytes().into();
        assert_eq!(key(1).reply(b"request", b"reply"), expected);
    }
}
