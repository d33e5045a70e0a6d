//! Unexpected messages by what receives from any source, or of several tags, ask for.
//!
//! Such a receive walks over all messages, oldest first, until one matches. When a walk was long, its kind (any source
//! or one; which bits of the tag are ignored) gets an index, in which later receives of this kind find their message at
//! once. An index holds all messages. A message that another receive took is removed from it when it would be found.

use hashbrown::HashMap;
use slotmap::{DefaultKey, Key, SlotMap};

use super::pattern::{Exact, Pattern};
use crate::hash::Seeded;

/// Messages that a walk may pass before its kind gets an index: about as many as an index costs time.
const SHORT_WALK: usize = 32;
/// Indexes at a time: each costs time and memory for each message.
const MOST: usize = 4;
/// Searches in indexes after which an index that served none of them makes room for another.
const IDLE: u64 = 256;
/// Messages that are taken already and still in an index, beyond the number of those that are there.
const SPARE: usize = 64;

/// A kind of receives: the fields of a pattern that say what may differ.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind {
    is_any_source: bool,
    ignore: u64,
}

impl Kind {
    const fn of(pattern: Pattern) -> Self {
        Self { is_any_source: pattern.exact.is_from_any_source(), ignore: pattern.ignore }
    }

    /// What all messages that a receive of this kind accepts have in common.
    const fn key(self, message: Exact) -> Exact {
        let message = message.without_bits(self.ignore);
        if self.is_any_source { message.without_source() } else { message }
    }
}

struct Entry<K> {
    message: K,
    next: DefaultKey,
}

/// The ends of a list of entries, which is not empty.
struct Ends {
    first: DefaultKey,
    last: DefaultKey,
}

struct Index<K> {
    kind: Kind,
    entries: SlotMap<DefaultKey, Entry<K>>,
    queues: HashMap<Exact, Ends, Seeded>,
    last_search: u64,
}

impl<K: Key> Index<K> {
    fn push(&mut self, exact: Exact, message: K) {
        let entry = self.entries.insert(Entry { message, next: DefaultKey::null() });
        let ends = self.queues.entry(self.kind.key(exact)).or_insert(Ends { first: entry, last: entry });
        if ends.last != entry {
            self.entries[ends.last].next = entry;
            ends.last = entry;
        }
    }

    /// The first entry of a queue for which `is_it` holds; those before it are removed.
    fn first(&mut self, key: Exact, is_it: impl Fn(K) -> bool) -> Option<K> {
        let ends = self.queues.get_mut(&key)?;
        while let Some(entry) = self.entries.get(ends.first) {
            if is_it(entry.message) {
                return Some(entry.message);
            }
            let next = entry.next;
            self.entries.remove(ends.first);
            ends.first = next;
        }
        self.queues.remove(&key);
        None
    }
}

/// The indexes.
pub(super) struct Indexes<K> {
    all: Vec<Index<K>>,
    seeded: Seeded,
    searches: u64,
}

impl<K: Key> Indexes<K> {
    pub(super) const fn new(seeded: Seeded) -> Self {
        Self { all: Vec::new(), seeded, searches: 0 }
    }

    #[cfg(test)]
    pub(super) fn entries(&self) -> Vec<usize> {
        self.all.iter().map(|index| index.entries.len()).collect()
    }

    /// The oldest message that the pattern accepts, by the index of its kind. `None` if it has none.
    pub(super) fn find<T>(&mut self, messages: &SlotMap<K, T>, pattern: Pattern) -> Option<Option<K>> {
        let kind = Kind::of(pattern);
        let index = self.all.iter_mut().find(|index| index.kind == kind)?;
        self.searches += 1;
        index.last_search = self.searches;
        Some(index.first(pattern.exact, |message| messages.contains_key(message)))
    }

    /// Makes an index for the pattern's kind of all messages, in order, if a walk for it passed this number of messages
    /// and there is room.
    pub(super) fn make(&mut self, pattern: Pattern, passed: usize, messages: impl Iterator<Item = (K, Exact)>) {
        if passed <= SHORT_WALK {
            return;
        }
        self.searches += 1;
        let now = self.searches;
        if self.all.len() == MOST {
            self.all.retain(|index| now - index.last_search <= IDLE);
        }
        if self.all.len() < MOST {
            let queues = HashMap::with_hasher(self.seeded.clone());
            let kind = Kind::of(pattern);
            let mut index = Index { kind, entries: SlotMap::new(), queues, last_search: now };
            messages.for_each(|(message, exact)| index.push(exact, message));
            self.all.push(index);
        }
    }

    /// Adds a message, which is younger than all others.
    pub(super) fn push(&mut self, exact: Exact, message: K) {
        self.all.iter_mut().for_each(|index| index.push(exact, message));
    }

    /// A message was taken, and `left` others are there. An index that holds mostly messages that are gone is dropped.
    pub(super) fn taken(&mut self, exact: Exact, message: K, left: usize) {
        self.all.retain_mut(|index| {
            index.first(index.kind.key(exact), |first| first != message);
            left > 0 && index.entries.len() <= 2 * left + SPARE
        });
    }
}
