//! How many references to a region's bytes exist. While any exists, no thread may write the bytes.

use core::sync::atomic::{AtomicU32, Ordering};

/// References to bytes that exist now (views, or one edit).
///
/// A thread that makes one counts it *first* and passes the region's gate alone *then*; the owner's writer enters the
/// gate first and reads the count then. So a writer is either over before the reference is used, or sees it. When the
/// count is 0 again, a thread that sees that comes after all that was done through the reference.
pub(crate) struct Borrows<C: Count = AtomicU32>(C);

/// A number that threads share: the processor's, or a model checker's.
pub(crate) trait Count {
    fn load(&self, order: Ordering) -> u32;
    fn add(&self, order: Ordering);
    fn subtract(&self, order: Ordering);
}

impl Count for AtomicU32 {
    #[inline]
    fn load(&self, order: Ordering) -> u32 {
        self.load(order)
    }

    #[inline]
    fn add(&self, order: Ordering) {
        self.fetch_add(1, order);
    }

    #[inline]
    fn subtract(&self, order: Ordering) {
        self.fetch_sub(1, order);
    }
}

impl<C: Count> Borrows<C> {
    /// None, with a count of 0.
    pub(crate) const fn new(count: C) -> Self {
        Self(count)
    }

    /// A reference is to be made: pass the gate before it is used.
    pub(crate) fn begin(&self) {
        // The gate orders it.
        self.0.add(Ordering::Relaxed);
    }

    /// A reference has gone.
    pub(crate) fn end(&self) {
        self.0.subtract(Ordering::Release);
    }

    /// Whether there is one. Only within the gate, or under the table's lock.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

/// Every interleaving, with the reorderings that the memory model allows: loom reports a byte that is written while it
/// is read.
#[cfg(all(test, not(miri)))]
mod tests {
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, RwLock};
    use loom::thread;

    use super::*;

    impl Count for loom::sync::atomic::AtomicU32 {
        fn load(&self, order: Ordering) -> u32 {
            self.load(order)
        }

        fn add(&self, order: Ordering) {
            self.fetch_add(1, order);
        }

        fn subtract(&self, order: Ordering) {
            self.fetch_sub(1, order);
        }
    }

    struct Region {
        borrows: Borrows<loom::sync::atomic::AtomicU32>,
        gate: RwLock<()>,
        byte: UnsafeCell<u8>,
    }

    impl Region {
        fn new() -> Arc<Self> {
            let borrows = Borrows::new(loom::sync::atomic::AtomicU32::new(0));
            Arc::new(Self { borrows, gate: RwLock::new(()), byte: UnsafeCell::new(0) })
        }

        /// As `Region::view` does it.
        fn view(&self) {
            self.borrows.begin();
            drop(self.gate.write().unwrap());
            self.byte.with(|byte| {
                // SAFETY: loom checks that no other thread writes it.
                let first = unsafe { *byte };
                thread::yield_now();
                // SAFETY: As above.
                assert_eq!(first, unsafe { *byte });
            });
            self.borrows.end();
        }

        /// As `Region::write` does it. Returns whether it was let.
        fn write(&self, value: u8) -> bool {
            let _inside = self.gate.read().unwrap();
            if self.borrows.is_any() {
                return false;
            }
            // SAFETY: loom checks that no other thread touches it.
            self.byte.with_mut(|byte| unsafe { *byte = value });
            true
        }
    }

    #[test]
    fn a_viewed_region_is_not_written() {
        loom::model(|| {
            let region = Region::new();
            let theirs = Arc::clone(&region);
            let viewer = thread::spawn(move || theirs.view());
            region.write(1);
            region.write(2);
            viewer.join().unwrap();
            assert!(region.write(3));
        });
    }

    #[test]
    fn two_views_at_a_time_and_a_writer() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let region = Region::new();
            let viewers = [(); 2].map(|()| {
                let theirs = Arc::clone(&region);
                thread::spawn(move || theirs.view())
            });
            region.write(1);
            viewers.into_iter().for_each(|viewer| viewer.join().unwrap());
        });
    }
}
