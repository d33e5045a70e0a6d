//! Which hellos have come.

use std::collections::{HashSet, VecDeque};

/// Hellos that an engine remembers, oldest forgotten first: as many calls as come in a burst, and those that a replay
/// may wait for. Each takes some 50 bytes.
const MOST_HEARD: usize = 4096;

/// The hellos that were calls. One that is replayed from another address is no other call: its nonce is part of
/// what is proved, so only its sender can change it.
#[derive(Debug, Default)]
pub(super) struct HeardCalls {
    names: HashSet<u128>,
    oldest_first: VecDeque<u128>,
}

impl HeardCalls {
    /// A hello has come. Returns whether it is a new one, which is remembered.
    pub(super) fn note(&mut self, name: u128) -> bool {
        if !self.names.insert(name) {
            return false;
        }
        if self.oldest_first.len() >= MOST_HEARD
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
            self.oldest_first.retain(|heard| *heard != name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_new_once_and_no_more_are_remembered_than_are_meant_to() {
        let mut heard = HeardCalls::default();
        assert!(heard.note(7) && !heard.note(7));
        heard.forget(7);
        heard.forget(8);
        assert!(heard.note(7) && !heard.note(7), "its caller may try again");
        assert!((100..100 + MOST_HEARD as u128).all(|name| heard.note(name)));
        assert_eq!((heard.names.len(), heard.oldest_first.len()), (MOST_HEARD, MOST_HEARD));
        assert!(heard.note(7), "the oldest is forgotten");
        assert!(!heard.note(100 + MOST_HEARD as u128 - 1));
    }
}
