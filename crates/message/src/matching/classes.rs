//! Posted receives by the bits of the tag that they ignore: a class, with queues of its own, for each such mask.
//!
//! A search asks each class twice, for receives from the source and from any source. So it does not depend on the
//! number of receives, only on that of masks in use: a program has few (tuple space search: Srinivasan, Suri, Varghese,
//! SIGCOMM 1999).

use slotmap::{Key, SlotMap};

use super::pattern::{Exact, Pattern};
use crate::chains::{Chained, Chains};
use crate::hash::Seeded;

/// Classes without receives that are kept: a program uses the same masks again.
const MOST_IDLE: usize = 16;

struct Class<K> {
    ignore: u64,
    queues: Chains<K>,
    from_one_source: usize,
    from_any_source: usize,
}

impl<K: Key> Class<K> {
    const fn new(ignore: u64, seeded: Seeded) -> Self {
        Self { ignore, queues: Chains::new(seeded), from_one_source: 0, from_any_source: 0 }
    }

    const fn count(&mut self, exact: Exact) -> &mut usize {
        if exact.is_from_any_source() { &mut self.from_any_source } else { &mut self.from_one_source }
    }

    const fn has_receives(&self) -> bool {
        self.from_one_source + self.from_any_source > 0
    }

    /// The oldest receive that accepts the message.
    fn oldest<T: Chained<K, By = Exact>>(
        &self,
        slots: &SlotMap<K, T>,
        message: Exact,
        age: impl Fn(&T) -> u64,
    ) -> Option<K> {
        if !self.has_receives() || (self.ignore != 0 && !message.is_tagged()) {
            return None;
        }
        let message = message.without_bits(self.ignore);
        let first = |count, exact| if count > 0 { self.queues.first(slots, exact) } else { None };
        let of_source = first(self.from_one_source, message);
        older(slots, of_source, first(self.from_any_source, message.without_source()), age)
    }
}

/// The one of two receives that was posted first.
fn older<K: Key, T>(slots: &SlotMap<K, T>, one: Option<K>, other: Option<K>, age: impl Fn(&T) -> u64) -> Option<K> {
    match (one, other) {
        (Some(first), Some(second)) => Some(if age(&slots[first]) < age(&slots[second]) { first } else { second }),
        (one, other) => one.or(other),
    }
}

/// The class of receives that ignore nothing, and the others.
pub(super) struct Classes<K> {
    exact: Class<K>,
    wild: Vec<Class<K>>,
    seeded: Seeded,
}

impl<K: Key> Classes<K> {
    pub(super) fn new(seeded: Seeded) -> Self {
        Self { exact: Class::new(0, seeded.clone()), wild: Vec::new(), seeded }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.exact.queues.is_empty() && self.wild.iter().all(|class| class.queues.is_empty())
    }

    /// Appends a receive to its queue.
    pub(super) fn push_back<T: Chained<K, By = Exact>>(&mut self, slots: &mut SlotMap<K, T>, key: K, pattern: Pattern) {
        let class = self.class(pattern.ignore);
        *class.count(pattern.exact) += 1;
        class.queues.push_back(slots, key);
    }

    /// Removes a receive, which must be in its queue.
    pub(super) fn remove<T: Chained<K, By = Exact>>(&mut self, slots: &mut SlotMap<K, T>, key: K, pattern: Pattern) {
        let class = self.class(pattern.ignore);
        *class.count(pattern.exact) -= 1;
        class.queues.remove(slots, key);
    }

    fn class(&mut self, ignore: u64) -> &mut Class<K> {
        if ignore == 0 {
            return &mut self.exact;
        }
        let at = self.wild.iter().position(|class| class.ignore == ignore).unwrap_or_else(|| {
            if self.wild.len() >= MOST_IDLE {
                self.wild.retain(Class::has_receives);
            }
            self.wild.push(Class::new(ignore, self.seeded.clone()));
            self.wild.len() - 1
        });
        &mut self.wild[at]
    }

    #[cfg(test)]
    pub(super) fn wild_count(&self) -> usize {
        self.wild.len()
    }

    /// The oldest receive that accepts the message. `age` is less for older ones.
    pub(super) fn oldest<T: Chained<K, By = Exact>>(
        &self,
        slots: &SlotMap<K, T>,
        message: Exact,
        age: impl Fn(&T) -> u64 + Copy,
    ) -> Option<K> {
        let exact = self.exact.oldest(slots, message, age);
        self.wild.iter().fold(exact, |oldest, class| older(slots, oldest, class.oldest(slots, message, age), age))
    }
}
