//! Posted receives by the bits of the tag that they ignore: a class, with queues of its own, for each such mask.
//!
//! A search asks each class twice, for receives from the source and from any source. So it does not depend on the
//! number of receives, only on that of masks in use: a program has few (tuple space search: Srinivasan, Suri, Varghese,
//! SIGCOMM 1999).

use slotmap::{Key, SlotMap};

use super::pattern::{Exact, Pattern};
use crate::chains::{Chained, Chains};
use crate::hash::Seeded;

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

    /// The oldest receive for the message from its source, and the oldest one from any source.
    fn firsts<T: Chained<K, By = Exact>>(&self, slots: &SlotMap<K, T>, message: Exact) -> [Option<K>; 2] {
        if self.ignore != 0 && !message.is_tagged() {
            return [None; 2];
        }
        let message = message.without_bits(self.ignore);
        let first = |count, exact| if count > 0 { self.queues.first(slots, exact) } else { None };
        [first(self.from_one_source, message), first(self.from_any_source, message.without_source())]
    }
}

/// The classes that have receives, and the one of receives that ignore nothing.
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
        self.exact.queues.is_empty() && self.wild.is_empty()
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
        if pattern.ignore != 0 && class.from_one_source + class.from_any_source == 0 {
            self.wild.retain(|class| class.ignore != pattern.ignore);
        }
    }

    fn class(&mut self, ignore: u64) -> &mut Class<K> {
        if ignore == 0 {
            return &mut self.exact;
        }
        let at = self.wild.iter().position(|class| class.ignore == ignore).unwrap_or_else(|| {
            self.wild.push(Class::new(ignore, self.seeded.clone()));
            self.wild.len() - 1
        });
        &mut self.wild[at]
    }

    /// The oldest receive of each queue that accepts the message.
    pub(super) fn candidates<T: Chained<K, By = Exact>>(
        &self,
        slots: &SlotMap<K, T>,
        message: Exact,
    ) -> impl Iterator<Item = K> {
        let classes = core::iter::once(&self.exact).chain(&self.wild);
        classes.flat_map(move |class| class.firsts(slots, message)).flatten()
    }
}
