//! Doubly linked lists through the entries of a slot map: an entry can be removed at once, at any position.

use slotmap::{Key, SlotMap};

/// Neighbours of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links<K> {
    pub(crate) previous: K,
    pub(crate) next: K,
}

impl<K: Key> Default for Links<K> {
    fn default() -> Self {
        Self { previous: K::null(), next: K::null() }
    }
}

/// Entries that have links for a kind of list; there may be several kinds.
pub(crate) trait Linked<K, const KIND: usize> {
    fn links(&mut self) -> &mut Links<K>;
    fn next(&self) -> K;
}

/// Both ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<K, const KIND: usize> {
    first: K,
    last: K,
}

impl<K: Key, const KIND: usize> Default for List<K, KIND> {
    fn default() -> Self {
        Self { first: K::null(), last: K::null() }
    }
}

impl<K: Key, const KIND: usize> List<K, KIND> {
    pub(crate) const fn first(&self) -> K {
        self.first
    }

    pub(crate) fn push_back<T: Linked<K, KIND>>(&mut self, slots: &mut SlotMap<K, T>, key: K) {
        *slots[key].links() = Links { previous: self.last, next: K::null() };
        match slots.get_mut(self.last) {
            Some(last) => last.links().next = key,
            None => self.first = key,
        }
        self.last = key;
    }

    /// The entry must be in this list.
    pub(crate) fn remove<T: Linked<K, KIND>>(&mut self, slots: &mut SlotMap<K, T>, key: K) {
        let Links { previous, next } = core::mem::take(slots[key].links());
        match slots.get_mut(previous) {
            Some(entry) => entry.links().next = next,
            None => self.first = next,
        }
        match slots.get_mut(next) {
            Some(entry) => entry.links().previous = previous,
            None => self.last = previous,
        }
    }
}
