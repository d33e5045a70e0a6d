//! Messages as all contestants carry them: numbered, filled by their number, with a checksum; and how a receiver checks
//! them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use weft_wire::Crc32c;

/// Bytes of a message before its content: the checksum, four of zero, and the sequence number.
pub(crate) const HEAD: usize = 16;

/// Messages that may come ahead of a missing one before that one counts as lost. A sender has fewer in flight.
const MOST_AHEAD: usize = 4096;

/// What is multiplied with a sequence number for a content of its own: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes messages of one size.
#[derive(Debug)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// Of messages of `size` bytes, at least [`HEAD`].
    pub(crate) fn new(size: usize) -> Self {
        Self(vec![0; size.max(HEAD)])
    }

    /// The message with this sequence number.
    pub(crate) fn message(&mut self, sequence: u64) -> &[u8] {
        let first = sequence.wrapping_mul(SPREAD);
        for (word, place) in (0_u64..).zip(self.0[HEAD..].chunks_mut(8)) {
            let bytes = first.wrapping_add(word).to_le_bytes();
            place.copy_from_slice(&bytes[..place.len()]);
        }
        self.0[8..HEAD].copy_from_slice(&sequence.to_le_bytes());
        let checksum = Crc32c::of(&self.0[4..]);
        self.0[..4].copy_from_slice(&checksum.to_le_bytes());
        &self.0
    }
}

/// The sequence number of a message, `None` when it has none.
pub(crate) fn sequence(message: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(message.get(8..HEAD)?.try_into().ok()?))
}

/// What a receiver has counted, in messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// Those that came, each once.
    pub(crate) received: u64,
    /// Those that came again.
    pub(crate) doubled: u64,
    /// Those that came before one with a lower number.
    pub(crate) out_of_order: u64,
    /// Those with a wrong checksum or a wrong length.
    pub(crate) damaged: u64,
}

/// Checks what is delivered.
#[derive(Debug)]
pub(crate) struct Checker {
    size: usize,
    /// The number that is in order.
    next: u64,
    /// Those that came before their turn.
    ahead: BTreeSet<u64>,
    counts: Counts,
}

impl Checker {
    /// Of messages of `size` bytes.
    pub(crate) fn new(size: usize) -> Self {
        Self { size, next: 0, ahead: BTreeSet::new(), counts: Counts::default() }
    }

    /// What was counted.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes a message as it is delivered. Whether it is the next one in order, and intact.
    pub(crate) fn take(&mut self, message: &[u8]) -> bool {
        let is_intact = message.len() == self.size && Crc32c::of(&message[4..]).to_le_bytes()[..] == message[..4];
        let Some(sequence) = sequence(message).filter(|_| is_intact) else {
            self.counts.damaged += 1;
            return false;
        };
        if sequence < self.next || self.ahead.contains(&sequence) {
            self.counts.doubled += 1;
            return false;
        }
        self.counts.received += 1;
        if sequence > self.next {
            self.counts.out_of_order += 1;
            self.ahead.insert(sequence);
            if self.ahead.len() > MOST_AHEAD {
                self.next = *self.ahead.first().expect("it is full");
                self.follow();
            }
            return false;
        }
        self.next += 1;
        self.follow();
        true
    }

    /// Goes on to the first number that has not come.
    fn follow(&mut self) {
        while self.ahead.remove(&self.next) {
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 64;

    fn checked(numbers: &[u64]) -> (Vec<bool>, Counts) {
        let (mut writer, mut checker) = (Writer::new(SIZE), Checker::new(SIZE));
        let taken = numbers.iter().map(|number| checker.take(writer.message(*number))).collect();
        (taken, checker.counts())
    }

    #[test]
    fn what_comes_in_order_is_a_delivery() {
        let (taken, counts) = checked(&[0, 1, 2]);
        assert_eq!(taken, [true; 3]);
        assert_eq!(counts, Counts { received: 3, ..Counts::default() });
    }

    #[test]
    fn what_comes_twice_or_early_is_told_apart() {
        let (taken, counts) = checked(&[0, 0, 2, 2, 1, 1, 3]);
        assert_eq!(taken, [true, false, false, false, true, false, true]);
        assert_eq!(counts, Counts { received: 4, doubled: 3, out_of_order: 1, damaged: 0 });
    }

    #[test]
    fn what_never_comes_does_not_end_the_count() {
        let numbers: Vec<u64> = (1..=MOST_AHEAD as u64 + 3).collect();
        let (taken, counts) = checked(&numbers);
        assert_eq!(counts.received, numbers.len() as u64, "0 is missing, which the sender's number tells");
        assert_eq!(taken.iter().filter(|taken| **taken).count(), 2, "in order again behind the gap");
    }

    #[test]
    fn damage_is_seen_in_every_part() {
        for place in [0, 7, 8, 11, HEAD, SIZE - 1] {
            let mut bytes = Writer::new(SIZE).message(0).to_vec();
            bytes[place] ^= 1;
            let mut checker = Checker::new(SIZE);
            assert!(!checker.take(&bytes), "byte {place}");
            assert_eq!(checker.counts().damaged, 1, "byte {place}");
        }
        let mut checker = Checker::new(SIZE);
        assert!(!checker.take(Writer::new(SIZE + 8).message(0)) && !checker.take(&[]));
        assert_eq!(checker.counts().damaged, 2);
    }
}
