//! A fast keyed hash: peers choose what is hashed, and must not be able to choose collisions.

use core::hash::{BuildHasher, Hasher};

use weft_base::Random;

/// Makes hashers that give the same hashes.
#[derive(Clone, Debug)]
pub(crate) struct Seeded {
    start: u64,
    factor: u64,
}

impl Seeded {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        Self { start: random.next_u64(), factor: random.next_u64() | 1 }
    }
}

impl BuildHasher for Seeded {
    type Hasher = Folding;

    fn build_hasher(&self) -> Folding {
        Folding { state: self.start, factor: self.factor }
    }
}

/// Folds in words of 64 bits: exclusive or, then both halves of a product with a secret factor.
pub(crate) struct Folding {
    state: u64,
    factor: u64,
}

impl Hasher for Folding {
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.factor);
        self.state = product as u64 ^ (product >> 64) as u64;
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn finish(&self) -> u64 {
        // Again, so that the last word reaches all bits.
        let product = u128::from(self.state) * u128::from(self.factor ^ 0x9e37_79b9_7f4a_7c15);
        product as u64 ^ (product >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn hash(seeded: &Seeded, words: [u64; 2]) -> u64 {
        let mut hasher = seeded.build_hasher();
        hasher.write_u64(words[0]);
        hasher.write_u64(words[1]);
        hasher.finish()
    }

    #[test]
    fn another_seed_is_another_hash() {
        assert_ne!(hash(&Seeded::new(1), [3, 4]), hash(&Seeded::new(2), [3, 4]));
        assert_eq!(hash(&Seeded::new(1), [3, 4]), hash(&Seeded::new(1), [3, 4]));
    }

    #[test]
    fn tags_that_differ_in_few_bits_spread_over_low_and_high_bits() {
        for shift in [0, 8, 16, 32, 52] {
            let hashes: Vec<_> = (0..1024).map(|tag| hash(&Seeded::new(7), [1, tag << shift])).collect();
            // At random, 1024 reach 647 of 1024 buckets.
            let low: BTreeSet<_> = hashes.iter().map(|hash| hash & 1023).collect();
            let high: BTreeSet<_> = hashes.iter().map(|hash| hash >> 54).collect();
            assert!(low.len() > 550 && high.len() > 550, "{shift}: {} {}", low.len(), high.len());
        }
    }
}
