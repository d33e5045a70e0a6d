//! An allocator that counts.

use core::cell::Cell;
use std::alloc::{GlobalAlloc, Layout, System};

thread_local! {
    static CALLS: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
    static MOST: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator, which counts what each thread allocates: a test harness has threads of its own, which
/// allocate at any time.
#[derive(Debug)]
pub struct CountingAllocator;

impl CountingAllocator {
    /// How often the calling thread has allocated. What grows in place counts as well.
    #[must_use]
    pub fn calls(&self) -> usize {
        CALLS.get()
    }

    /// Bytes that the calling thread has allocated, less those that it has freed, whichever thread allocated them.
    #[must_use]
    pub fn bytes(&self) -> i64 {
        BYTES.get()
    }

    /// The most that [`CountingAllocator::bytes`] has been since [`CountingAllocator::forget_most`].
    #[must_use]
    pub fn most(&self) -> i64 {
        MOST.get()
    }

    /// [`CountingAllocator::most`] is what there is now.
    pub fn forget_most(&self) {
        MOST.set(BYTES.get());
    }
}

fn count(calls: usize, bytes: i64) {
    CALLS.set(CALLS.get() + calls);
    BYTES.set(BYTES.get() + bytes);
    MOST.set(MOST.get().max(BYTES.get()));
}

// SAFETY: All calls are passed to the system's allocator unchanged; `realloc` and `alloc_zeroed` come here as the trait
// makes them of these two.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: As for this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: As for this function.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    #[test]
    fn a_thread_counts_its_own() {
        let (calls, bytes) = (ALLOCATOR.calls(), ALLOCATOR.bytes());
        ALLOCATOR.forget_most();
        let mut kept = vec![0u8; 1000];
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(vec![1u8; 5000].len(), 5000)).join().unwrap();
        });
        assert!((1000..4000).contains(&(ALLOCATOR.bytes() - bytes)), "{}", ALLOCATOR.bytes() - bytes);
        kept.reserve_exact(10_000);
        assert!(ALLOCATOR.calls() - calls >= 2, "{}", ALLOCATOR.calls() - calls);
        drop(kept);
        assert!(ALLOCATOR.bytes() - bytes < 1000);
        assert!(ALLOCATOR.most() - bytes >= 11_000, "what grows is in two places for a moment");
        ALLOCATOR.forget_most();
        assert_eq!(ALLOCATOR.most(), ALLOCATOR.bytes());
    }
}
