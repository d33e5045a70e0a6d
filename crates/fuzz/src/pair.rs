//! Sequences of operations on a pair of NICs in virtual time, and a hostile peer of one NIC.

use weft_base::Random;

/// A sequence of operations on two NICs: posting, deregistering, invalidating, closing, damage and loss in flight. Each
/// request ends exactly once and nothing outside of what was granted changes.
pub fn pair(data: &[u8]) {
    if let Err(error) = weft_simulate::run_sequence(data) {
        panic!("{error}");
    }
}

/// A peer that sends nearly right segments in good frames to a NIC with requests of every kind in flight.
pub fn hostile(data: &[u8]) {
    if let Err(error) = weft_simulate::run_hostile(data) {
        panic!("{error}");
    }
}

/// Random scripts: every byte means something to these targets.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    (0..40u64)
        .map(|seed| {
            let mut random = Random::new(seed);
            let mut bytes = vec![0; 10 + random.below(300) as usize];
            random.fill(&mut bytes);
            bytes
        })
        .collect()
}
