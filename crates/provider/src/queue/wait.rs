//! How applications sleep until a queue or counter has something for them.

use core::ffi::c_int;
use core::sync::atomic::AtomicBool;
use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd};

use weft::verbs::{PortError, Progress};
use weft_driver::EventFd;
use weft_libfabric::abi::{FI_WAIT_FD, FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_YIELD, fi_wait_obj};
use weft_lock::Alarm;

/// An application's way to wait.
pub(crate) enum Wait {
    /// None.
    None,
    /// Blocking calls.
    Calls,
    /// Those, or a descriptor in an event loop of its own.
    Descriptor(Descriptor),
}

/// Why a wait object is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoWait {
    /// This kind is not supported.
    Kind(fi_wait_obj),
    /// A descriptor would never wake: no thread runs the NIC while its callers sleep.
    Asleep,
    /// The operating system has no descriptors left.
    System(PortError),
}

impl Wait {
    /// The requested object, for a NIC run by these threads: no wait sets, and no mutex with a condition variable.
    ///
    /// # Errors
    /// This kind is not supported, or not with this progress, or the operating system has no descriptors left.
    pub(crate) fn with_nic(object: fi_wait_obj, progress: Progress) -> Result<Self, NoWait> {
        match object {
            FI_WAIT_FD if progress == Progress::Caller => Err(NoWait::Asleep),
            _ => Self::new(object),
        }
    }

    /// As [`Wait::with_nic`], for an object that does not wait for the NIC.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn new(object: fi_wait_obj) -> Result<Self, NoWait> {
        match object {
            FI_WAIT_NONE => Ok(Self::None),
            FI_WAIT_UNSPEC | FI_WAIT_YIELD => Ok(Self::Calls),
            FI_WAIT_FD => Ok(Self::Descriptor(Descriptor::new().map_err(NoWait::System)?)),
            other => Err(NoWait::Kind(other)),
        }
    }

    /// Whether calls may block.
    pub(crate) const fn blocks(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Something is there. Costs nothing unless a thread sleeps on the descriptor.
    #[inline]
    pub(crate) fn raise(&self) {
        if let Self::Descriptor(descriptor) = self {
            descriptor.raise();
        }
    }

    /// For `fi_trywait`: arms the descriptor. Returns whether the application may sleep on it now. `ready` tells
    /// whether something is there already.
    pub(crate) fn may_sleep(&self, ready: impl Fn() -> bool, watch: impl FnOnce()) -> bool {
        if ready() {
            return false;
        }
        if let Self::Descriptor(descriptor) = self {
            descriptor.arm();
            watch();
        }
        !ready()
    }

    /// The number of the descriptor, if there is one.
    pub(crate) fn descriptor(&self) -> Option<c_int> {
        match self {
            Self::Descriptor(descriptor) => Some(descriptor.event.as_fd().as_raw_fd()),
            Self::None | Self::Calls => None,
        }
    }

    /// Its kind, for `FI_GETWAITOBJ`.
    pub(crate) const fn object(&self) -> fi_wait_obj {
        match self {
            Self::None => FI_WAIT_NONE,
            Self::Calls => FI_WAIT_UNSPEC,
            Self::Descriptor(_) => FI_WAIT_FD,
        }
    }
}

/// A descriptor that becomes readable when something happens after it was armed.
pub(crate) struct Descriptor {
    event: EventFd,
    /// Whether the next event makes it readable.
    alarm: Alarm,
}

impl Descriptor {
    fn new() -> Result<Self, PortError> {
        Ok(Self { event: EventFd::new()?, alarm: Alarm::new(AtomicBool::new(true)) })
    }

    #[inline]
    fn raise(&self) {
        if self.alarm.take() {
            self.event.signal();
        }
    }

    fn arm(&self) {
        self.event.drain();
        self.alarm.arm();
    }
}

/// Milliseconds of C functions: negative ones are forever.
pub(crate) fn duration(milliseconds: c_int) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

#[cfg(test)]
pub(crate) fn is_readable(descriptor: c_int) -> bool {
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: One structure, for the time of the call.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering;

    use weft_libfabric::abi::{FI_WAIT_MUTEX_COND, FI_WAIT_SET};

    use super::*;

    #[test]
    fn kinds() {
        assert!(!Wait::new(FI_WAIT_NONE).unwrap().blocks());
        for object in [FI_WAIT_UNSPEC, FI_WAIT_YIELD] {
            let wait = Wait::new(object).unwrap();
            assert!(wait.blocks() && wait.descriptor().is_none());
        }
        assert_eq!(Wait::new(FI_WAIT_FD).unwrap().object(), FI_WAIT_FD);
        for object in [FI_WAIT_SET, FI_WAIT_MUTEX_COND, 99, -1] {
            assert_eq!(Wait::new(object).err(), Some(NoWait::Kind(object)));
        }
    }

    #[test]
    fn no_descriptor_where_no_thread_would_wake_it() {
        assert_eq!(Wait::with_nic(FI_WAIT_FD, Progress::Caller).err(), Some(NoWait::Asleep));
        assert!(Wait::with_nic(FI_WAIT_UNSPEC, Progress::Caller).unwrap().blocks());
        for progress in [Progress::Hybrid, Progress::Thread] {
            assert!(Wait::with_nic(FI_WAIT_FD, progress).unwrap().descriptor().is_some());
        }
    }

    #[test]
    fn negative_timeouts_are_for_ever() {
        assert_eq!(duration(-1), None);
        assert_eq!(duration(3), Some(Duration::from_millis(3)));
    }

    #[test]
    fn a_descriptor_tells_once_for_each_arming() {
        let wait = Wait::new(FI_WAIT_FD).unwrap();
        let descriptor = wait.descriptor().unwrap();
        assert!(!is_readable(descriptor));
        wait.raise();
        assert!(is_readable(descriptor));
        assert!(wait.may_sleep(|| false, || ()));
        assert!(!is_readable(descriptor));
        wait.raise();
        wait.raise();
        assert!(is_readable(descriptor));
        assert!(!wait.may_sleep(|| true, || panic!("nobody sleeps")));
    }

    #[test]
    fn what_comes_while_arming_is_seen() {
        let wait = Wait::new(FI_WAIT_FD).unwrap();
        let come = AtomicBool::new(false);
        let watch = || {
            come.store(true, Ordering::SeqCst);
            wait.raise();
        };
        assert!(!wait.may_sleep(|| come.load(Ordering::SeqCst), watch));
        assert!(is_readable(wait.descriptor().unwrap()));
    }
}
