//! Values that each process has for itself.

use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use weft_driver::fork::generation;

/// A value that a child by fork does not have from its parent: it begins with a new one, for a thread of the parent may
/// have held a lock of the old one. Those of parents stay as they are, and are never freed.
pub(crate) struct PerProcess<T: 'static>(AtomicPtr<Made<T>>);

struct Made<T> {
    generation: u64,
    is_childs: bool,
    value: T,
}

impl<T: Default + Sync> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// This process's value.
    #[inline]
    pub(crate) fn get(&self) -> &'static T {
        &self.made().value
    }

    /// Whether a parent of this process had one too.
    #[inline]
    pub(crate) fn is_childs(&self) -> bool {
        self.made().is_childs
    }

    #[inline]
    fn made(&self) -> &'static Made<T> {
        // SAFETY: NULL, or a leaked box, which only `make` has stored.
        let made = unsafe { self.0.load(Ordering::Acquire).as_ref() };
        made.filter(|made| made.generation == generation()).unwrap_or_else(|| self.make())
    }

    #[cold]
    fn make(&self) -> &'static Made<T> {
        let generation = generation();
        let before = self.0.load(Ordering::Acquire);
        let new = Box::into_raw(Box::new(Made { generation, is_childs: !before.is_null(), value: T::default() }));
        match self.0.compare_exchange(before, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: From `Box::into_raw`, and never freed from now on.
            Ok(_) => unsafe { &*new },
            // Another thread was first.
            Err(first) => {
                // SAFETY: From `Box::into_raw`, and nothing else has seen it.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: Not NULL, for it was stored by `make`, of this process: a child has one thread at first.
                unsafe { &*first }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::border::lock;

    #[test]
    fn a_process_keeps_its_value() {
        static VALUE: PerProcess<Mutex<u32>> = PerProcess::new();
        *lock(VALUE.get()) += 1;
        *lock(VALUE.get()) += 1;
        assert_eq!((*lock(VALUE.get()), VALUE.is_childs()), (2, false));
    }

    #[test]
    fn a_child_begins_anew_though_its_parent_holds_the_lock() {
        static VALUE: PerProcess<Mutex<u32>> = PerProcess::new();
        let held = lock(VALUE.get());
        // SAFETY: The child takes a lock of its own, allocates, which glibc allows, and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_new = VALUE.get().try_lock().is_ok_and(|value| *value == 0) && VALUE.is_childs();
            // SAFETY: Ends the child.
            unsafe { libc::_exit(i32::from(!is_new)) }
        }
        let mut status = 0;
        // SAFETY: The child is this test's, and `status` can be written.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
        drop(held);
    }
}
