//! The NIC of this process, for a library that has this code too: that of a domain that is open.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use weft::verbs::Context;
use weft_driver::fork::generation;

/// The NICs of open domains, the oldest first.
static OPEN: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

struct Entry {
    number: u64,
    /// Differs in a child by fork, which owns nothing of this.
    generation: u64,
    context: Context,
}

fn entries() -> MutexGuard<'static, Vec<Entry>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The NIC of a domain is in the list as long as this is there.
pub(crate) struct Shared {
    number: u64,
    generation: u64,
}

impl Shared {
    /// Puts the NIC of a domain into the list.
    pub(crate) fn new(context: &Context) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (number, generation) = (NEXT.fetch_add(1, Ordering::Relaxed), generation());
        entries().push(Entry { number, generation, context: context.clone() });
        Self { number, generation }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.generation != generation() {
            // A thread that is not in this process may have held the lock.
            return;
        }
        let mut entries = entries();
        let found = entries.iter().position(|entry| entry.number == self.number);
        let entry = found.map(|at| entries.remove(at));
        // The NIC may close with it, and does not under the lock.
        drop(entries);
        drop(entry);
    }
}

/// The NIC of the oldest domain that this process has open.
pub(crate) fn nic() -> Option<Context> {
    entries().iter().find(|entry| entry.generation == generation()).map(|entry| entry.context.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nic_of_a_domain_is_known_while_the_domain_is_open() {
        let numbers = || entries().iter().map(|entry| entry.number).collect::<Vec<_>>();
        let context = Context::open().unwrap();
        let (first, second) = (Shared::new(&context), Shared::new(&context));
        let (one, two) = (first.number, second.number);
        assert!(numbers().contains(&one) && numbers().contains(&two) && nic().is_some());
        drop(first);
        assert!(!numbers().contains(&one) && numbers().contains(&two));
        drop(second);
        assert!(!numbers().contains(&two));
    }
}
