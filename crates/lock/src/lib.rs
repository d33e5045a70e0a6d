//! The order in which a thread takes Weft's locks, and locks that keep to it.
//!
//! [`Rank`] lists every lock of the memory table, the NIC, its endpoints and the provider. A thread takes them
//! downwards in that list, never two of one rank, and nothing at all while it holds a leaf ([`Rank::is_leaf`]). So no
//! circle of threads can wait for each other.
//!
//! With `debug_assertions` each thread counts what it holds, and a lock that is taken against the order panics before
//! it blocks, with both locks, where they were taken, and the order. Without them [`Mutex`] and [`RwLock`] are those of
//! `parking_lot`, in size and in code.
#![forbid(unsafe_code)]

mod alarm;
mod held;
mod rank;

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{Ordering, compiler_fence, fence};
use core::time::Duration;

pub use alarm::{Alarm, AlarmFlag};
pub use held::Entered;
pub use rank::Rank;

/// A sequentially consistent fence for a thread that has just released a [`Mutex`]: others see what it did before,
/// before it reads anything after. What an x86 does to release one, an exchange, is such a fence already.
#[inline]
pub fn fence_behind_lock() {
    if cfg!(target_arch = "x86_64") {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// A mutual exclusion with a place in the order.
pub struct Mutex<T: ?Sized> {
    #[cfg(debug_assertions)]
    rank: Rank,
    inner: parking_lot::Mutex<T>,
}

impl<T> Mutex<T> {
    /// One that no thread holds.
    #[cfg_attr(not(debug_assertions), allow(unused_variables, reason = "only debug builds keep the rank"))]
    pub const fn new(rank: Rank, value: T) -> Self {
        Self {
            #[cfg(debug_assertions)]
            rank,
            inner: parking_lot::Mutex::new(value),
        }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock and takes it.
    ///
    /// # Panics
    /// In debug builds, when the thread holds a lock that comes after this one.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let entered = held::enter(
            #[cfg(debug_assertions)]
            self.rank,
        );
        MutexGuard { inner: self.inner.lock(), _entered: entered }
    }

    /// Takes the lock if no thread holds it. That can't block, so it is right in any order; what is taken after it is
    /// checked.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let inner = self.inner.try_lock()?;
        let entered = held::enter_unchecked(
            #[cfg(debug_assertions)]
            self.rank,
        );
        Some(MutexGuard { inner, _entered: entered })
    }

    /// Whether a thread holds it.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.inner.is_locked()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// A [`Mutex`], held.
pub struct MutexGuard<'a, T: ?Sized> {
    inner: parking_lot::MutexGuard<'a, T>,
    _entered: Entered,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Hands it to the thread that has waited longest.
    #[inline]
    pub fn unlock_fair(this: Self) {
        parking_lot::MutexGuard::unlock_fair(this.inner);
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

/// A lock for many readers or one writer, with a place in the order. A thread that reads must not read again: a writer
/// that waits between the two would block both.
pub struct RwLock<T: ?Sized> {
    #[cfg(debug_assertions)]
    rank: Rank,
    inner: parking_lot::RwLock<T>,
}

impl<T> RwLock<T> {
    /// One that no thread holds.
    #[cfg_attr(not(debug_assertions), allow(unused_variables, reason = "only debug builds keep the rank"))]
    pub const fn new(rank: Rank, value: T) -> Self {
        Self {
            #[cfg(debug_assertions)]
            rank,
            inner: parking_lot::RwLock::new(value),
        }
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no thread writes, and reads.
    ///
    /// # Panics
    /// In debug builds, when the thread holds a lock that comes after this one, or this one.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let entered = held::enter(
            #[cfg(debug_assertions)]
            self.rank,
        );
        RwLockReadGuard { inner: self.inner.read(), _entered: entered }
    }

    /// Waits until no thread reads or writes, and writes.
    ///
    /// # Panics
    /// As [`RwLock::read`].
    #[inline]
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let entered = held::enter(
            #[cfg(debug_assertions)]
            self.rank,
        );
        RwLockWriteGuard { inner: self.inner.write(), _entered: entered }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// A [`RwLock`], held for reading.
pub struct RwLockReadGuard<'a, T: ?Sized> {
    inner: parking_lot::RwLockReadGuard<'a, T>,
    _entered: Entered,
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

/// A [`RwLock`], held for writing.
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    inner: parking_lot::RwLockWriteGuard<'a, T>,
    _entered: Entered,
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

/// Makes now what `parking_lot` keeps for each thread that ever waits for a lock, so that the thread allocates nothing
/// later.
pub fn prepare_thread() {
    parking_lot::Condvar::new().wait_for(&mut parking_lot::Mutex::new(()).lock(), Duration::ZERO);
}

// The order costs nothing where it is not checked.
#[cfg(not(debug_assertions))]
const _: () = {
    assert!(size_of::<Entered>() == 0);
    assert!(size_of::<Mutex<u64>>() == size_of::<parking_lot::Mutex<u64>>());
    assert!(size_of::<RwLock<u64>>() == size_of::<parking_lot::RwLock<u64>>());
};

#[cfg(all(test, debug_assertions))]
mod tests;
