//! STags that no peer can guess.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use weft_base::Stag;

use crate::MemoryError;

/// What decides the STags that a registry hands out: from the operating system in production, a number in tests.
#[derive(Clone, Copy)]
pub struct Seed([u64; 4]);

impl From<[u64; 4]> for Seed {
    fn from(words: [u64; 4]) -> Self {
        Self(words)
    }
}

impl From<u64> for Seed {
    fn from(word: u64) -> Self {
        Self([word, 0, 0, 0])
    }
}

impl core::fmt::Debug for Seed {
    /// Prints nothing: the seed reveals the STags.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// A seed from the operating system.
///
/// # Errors
/// [`MemoryError::NoRandomness`]: the operating system has none to give.
pub fn unguessable_seed() -> Result<Seed, MemoryError> {
    let mut words = [0; 4];
    for word in &mut words {
        *word = getrandom::u64().map_err(|_| MemoryError::NoRandomness)?;
    }
    Ok(Seed(words))
}

/// Which slot of the table each STag names, and which STag is next.
///
/// RFC 5042 section 6.1.1 wants the next STag hard to predict: they are drawn from a cipher's key stream, so those that
/// a peer has seen say nothing about others. It wants them reused slowly: one that was given back is not drawn again
/// before [`RETIRED`] others were given back too, so that a peer that still holds it does not meet another peer's
/// region.
pub(crate) struct Stags {
    random: ChaCha12Rng,
    slots: HashMap<u32, Option<u32>, BuildHasherDefault<StagHasher>>,
    retired: VecDeque<u32>,
}

/// How many STags that were given back stay out of use.
pub(crate) const RETIRED: usize = 16_384;

impl Stags {
    pub(crate) fn new(seed: Seed) -> Self {
        let mut key = [0; 32];
        for (bytes, word) in key.chunks_exact_mut(8).zip(seed.0) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Self { random: ChaCha12Rng::from_seed(key), slots: HashMap::default(), retired: VecDeque::new() }
    }

    /// A new STag for the region in this slot. Never 0, which RFC 5040 does not forbid but which means "none" in much
    /// software.
    pub(crate) fn issue(&mut self, slot: u32) -> Stag {
        loop {
            let candidate = self.random.next_u32();
            if candidate != 0 && !self.slots.contains_key(&candidate) {
                self.slots.insert(candidate, Some(slot));
                return Stag(candidate);
            }
        }
    }

    /// Gives the region in this slot a STag that its owner has chosen. Returns whether no other region has it.
    pub(crate) fn claim(&mut self, stag: Stag, slot: u32) -> bool {
        match self.slots.insert(stag.0, Some(slot)) {
            None => true,
            // It was drawn once, and given back.
            Some(None) => {
                self.retired.retain(|retired| *retired != stag.0);
                true
            }
            Some(other) => {
                self.slots.insert(stag.0, other);
                false
            }
        }
    }

    /// Gives back a STag that its owner has chosen. The next owner may choose it at once.
    pub(crate) fn release(&mut self, stag: Stag) {
        self.slots.remove(&stag.0);
    }

    pub(crate) fn slot_of(&self, stag: Stag) -> Option<u32> {
        self.slots.get(&stag.0).copied().flatten()
    }

    pub(crate) fn retire(&mut self, stag: Stag) {
        self.slots.insert(stag.0, None);
        self.retired.push_back(stag.0);
        if self.retired.len() > RETIRED
            && let Some(oldest) = self.retired.pop_front()
        {
            self.slots.remove(&oldest);
        }
    }
}

/// The keys are random numbers of our own making, or the application's, so one multiplication spreads them well enough,
/// and no peer can choose them to collide.
#[derive(Default)]
pub(crate) struct StagHasher(u64);

impl Hasher for StagHasher {
    fn write_u32(&mut self, stag: u32) {
        self.0 = u64::from(stag).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_seed_decides_them() {
        let draw = |seed: u64| {
            let mut stags = Stags::new(seed.into());
            [stags.issue(0), stags.issue(1), stags.issue(2)]
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let mut system = Stags::new(unguessable_seed().unwrap());
        assert_ne!(draw(1)[0], system.issue(0));
    }

    #[test]
    fn live_and_retired_ones_are_not_drawn_again() {
        let mut stags = Stags::new(Seed::from(1));
        let mut seen = HashSet::new();
        for slot in 0..100 {
            let stag = stags.issue(slot);
            assert!(stag.0 != 0 && seen.insert(stag));
            assert_eq!(stags.slot_of(stag), Some(slot));
            stags.retire(stag);
            assert_eq!(stags.slot_of(stag), None);
        }
        // The same key stream again: all of it is taken, so none of it is drawn.
        stags.random = Stags::new(Seed::from(1)).random;
        assert!(!seen.contains(&stags.issue(0)));
    }

    #[test]
    fn a_chosen_one_is_nobody_elses() {
        let mut stags = Stags::new(Seed::from(1));
        let drawn = stags.issue(0);
        assert!(!stags.claim(drawn, 1));
        assert_eq!(stags.slot_of(drawn), Some(0));
        // Given back, it may be chosen, and is not forgotten when its time of rest would have ended.
        stags.retire(drawn);
        assert!(stags.claim(drawn, 2) && stags.retired.is_empty());
        assert_eq!(stags.slot_of(drawn), Some(2));
        // The same key stream again does not draw what was chosen.
        stags.random = Stags::new(Seed::from(1)).random;
        assert_ne!(stags.issue(3), drawn);
        stags.release(drawn);
        assert_eq!(stags.slot_of(drawn), None);
        assert!(stags.claim(drawn, 4));
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow, and safe code")]
    fn what_is_remembered_is_bounded() {
        let mut stags = Stags::new(Seed::from(1));
        for slot in 0..(RETIRED as u32 + 1000) {
            let stag = stags.issue(slot);
            stags.retire(stag);
        }
        assert_eq!((stags.retired.len(), stags.slots.len()), (RETIRED, RETIRED));
    }
}
