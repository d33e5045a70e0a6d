//! Which hellos have come.

use std::collections::{HashSet, VecDeque};

/// Hellos that an engine remembers, oldest forgotten first: as many calls as come in a burst, and those that a replay
/// may wait for. Each takes some 50 bytes.
const MOST_KNOWN_CALLS: usize = 4096;

/// The hellos that were calls. One that is replayed from another address is no other call: its nonce is part of
/// what is proved, so only its sender can change it.
#[derive(Debug, Default)]
pub(super) struct KnownCalls {
    names: HashSet<u128>,
    oldest_first: VecDeque<u128>,
}

impl KnownCalls {
    /// A hello has come. Returns whether it is a new one, which is remembered.
    pub(super) fn note(&mut self, name: u128) -> bool {
        if !self.names.insert(name) {
            return false;
        }
        if self.oldest_first.len() >= MOST_KNOWN_CALLS
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.names.remove(&oldest);
        }
        self.oldest_first.push_back(name);
        true
    }

    /// Its call has come to nothing: its caller, if it still calls, may try again.
    pub(super) fn forget(&mut self, name: u128) {
        if self.names.remove(&name) {
            self.oldest_first.retain(|known| *known != name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_new_once_and_no_more_are_remembered_than_are_meant_to() {
        let mut known = KnownCalls::default();
        assert!(known.note(7) && !known.note(7));
        known.forget(7);
        known.forget(8);
        assert!(known.note(7) && !known.note(7), "its caller may try again");
        assert!((100..100 + MOST_KNOWN_CALLS as u128).all(|name| known.note(name)));
        assert_eq!((known.names.len(), known.oldest_first.len()), (MOST_KNOWN_CALLS, MOST_KNOWN_CALLS));
        assert!(known.note(7), "the oldest is forgotten");
        assert!(!known.note(100 + MOST_KNOWN_CALLS as u128 - 1));
    }
}
