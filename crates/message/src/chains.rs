//! Queues of entries of a slot map, one for each value of a key that entries have.
//!
//! The table holds only the first entry of each queue, 8 bytes: with many queues its size decides the cache misses of a
//! lookup.

use core::hash::{BuildHasher, Hash};

use hashbrown::HashTable;
use slotmap::{Key, SlotMap};

use crate::hash::Seeded;
use crate::list::{Linked, Links};

/// Entries of queues. They use its links: the first entry's `previous` is the last.
pub(crate) trait Chained<K>: Linked<K, 0> {
    /// The key that the entries of a queue share.
    type By: Hash + Eq + Copy;

    fn by(&self) -> Self::By;
    fn previous(&self) -> K;
}

/// The queues.
pub(crate) struct Chains<K> {
    firsts: HashTable<K>,
    seeded: Seeded,
}

impl<K: Key> Chains<K> {
    pub(crate) const fn new(seeded: Seeded) -> Self {
        Self { firsts: HashTable::new(), seeded }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.firsts.is_empty()
    }

    /// The first entry of a queue.
    pub(crate) fn first<T: Chained<K>>(&self, slots: &SlotMap<K, T>, by: T::By) -> Option<K> {
        self.find(slots, by, self.seeded.hash_one(by))
    }

    fn find<T: Chained<K>>(&self, slots: &SlotMap<K, T>, by: T::By, hash: u64) -> Option<K> {
        self.firsts.find(hash, |first| slots[*first].by() == by).copied()
    }

    /// Appends the entry to its queue.
    pub(crate) fn push_back<T: Chained<K>>(&mut self, slots: &mut SlotMap<K, T>, key: K) {
        let by = slots[key].by();
        let hash = self.seeded.hash_one(by);
        if let Some(first) = self.find(slots, by, hash) {
            let last = slots[first].previous();
            slots[last].links().next = key;
            slots[first].links().previous = key;
            *slots[key].links() = Links { previous: last, next: K::null() };
        } else {
            *slots[key].links() = Links { previous: key, next: K::null() };
            let seeded = &self.seeded;
            self.firsts.insert_unique(hash, key, |first| seeded.hash_one(slots[*first].by()));
        }
    }

    /// Removes the entry, which must be in its queue.
    pub(crate) fn remove<T: Chained<K>>(&mut self, slots: &mut SlotMap<K, T>, key: K) {
        let by = slots[key].by();
        let Links { previous, next } = core::mem::take(slots[key].links());
        let hash = self.seeded.hash_one(by);
        if let Ok(mut place) = self.firsts.find_entry(hash, |first| *first == key) {
            if next.is_null() {
                place.remove();
            } else {
                // If only one is left, it is the last one too.
                slots[next].links().previous = previous;
                *place.get_mut() = next;
            }
            return;
        }
        slots[previous].links().next = next;
        let behind = if next.is_null() { self.find(slots, by, hash) } else { Some(next) };
        if let Some(behind) = behind {
            slots[behind].links().previous = previous;
        }
    }
}
