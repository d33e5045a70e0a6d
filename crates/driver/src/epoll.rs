//! epoll(7).

use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Instant;

use weft_base::{Interest, PortError};

use crate::error::{from_number, last_error};
use crate::timer::FOR_EVER_S;

/// The maximum number of events per wait; the rest is returned by the next.
const EVENTS: usize = 64;

pub(crate) struct Epoll {
    fd: OwnedFd,
    /// The kernel has no `epoll_pwait2` (new in Linux 5.11), or a filter forbids it.
    is_coarse: AtomicBool,
}

/// The events of one wait.
pub(crate) struct Events {
    events: [libc::epoll_event; EVENTS],
    count: usize,
}

impl Events {
    pub(crate) const fn new() -> Self {
        Self { events: [libc::epoll_event { events: 0, u64: 0 }; EVENTS], count: 0 }
    }

    /// Key and event bits of each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u32)> {
        self.events[..self.count].iter().map(|event| (event.u64, event.events))
    }
}

const fn event_bits(interest: Interest) -> u32 {
    let mut bits = 0;
    if interest.readable {
        bits |= libc::EPOLLIN;
    }
    if interest.writable {
        bits |= libc::EPOLLOUT;
    }
    bits as u32
}

impl Epoll {
    pub(crate) fn new() -> Result<Self, PortError> {
        // SAFETY: Takes a flag, returns a descriptor or -1.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(from_number(last_error()));
        }
        // SAFETY: A new descriptor that has no other owner.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, is_coarse: AtomicBool::new(false) })
    }

    /// Arms `fd` for `events` under `key`, in place of its previous interest.
    pub(crate) fn watch(&self, fd: BorrowedFd<'_>, key: u64, events: u32) -> Result<(), PortError> {
        // It mostly is in the epoll already.
        match self.control(libc::EPOLL_CTL_MOD, fd, key, events) {
            Err(libc::ENOENT) => self.control(libc::EPOLL_CTL_ADD, fd, key, events),
            done => done,
        }
        .map_err(from_number)
    }

    /// Arms `fd` for `interest` until it has reported `key` once, in place of its previous interest.
    pub(crate) fn watch_once(&self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> Result<(), PortError> {
        match event_bits(interest) {
            // The kernel reports hang-ups and errors even for an empty interest.
            0 => self.forget(fd),
            bits => self.watch(fd, key, bits | libc::EPOLLONESHOT as u32),
        }
    }

    /// Removes `fd`.
    pub(crate) fn forget(&self, fd: BorrowedFd<'_>) -> Result<(), PortError> {
        match self.control(libc::EPOLL_CTL_DEL, fd, 0, 0) {
            Err(libc::ENOENT) => Ok(()),
            done => done.map_err(from_number),
        }
    }

    fn control(&self, operation: i32, fd: BorrowedFd<'_>, key: u64, events: u32) -> Result<(), i32> {
        let mut event = libc::epoll_event { events, u64: key };
        // SAFETY: Both descriptors are open as long as they are borrowed; `event` is read during the call alone.
        match unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, fd.as_raw_fd(), &raw mut event) } {
            0 => Ok(()),
            _ => Err(last_error()),
        }
    }

    /// Waits for an event, at most for `timeout` (`None`: forever). Signals don't end it.
    pub(crate) fn wait(&self, timeout: Option<Duration>, events: &mut Events) -> Result<(), PortError> {
        let begun = timeout.filter(|timeout| !timeout.is_zero()).map(|_| Instant::now());
        let mut left = timeout;
        loop {
            match self.wait_once(left, events) {
                Err(libc::EINTR) => left = timeout.map(|all| begun.map_or(all, |at| all.saturating_sub(at.elapsed()))),
                done => return done.map_err(from_number),
            }
        }
    }

    fn wait_once(&self, timeout: Option<Duration>, events: &mut Events) -> Result<(), i32> {
        let fd = self.fd.as_raw_fd();
        let (pointer, room) = (events.events.as_mut_ptr(), EVENTS as i32);
        let count = match timeout {
            // SAFETY: `pointer` has room for `room` events.
            None => unsafe { libc::epoll_wait(fd, pointer, room, -1) },
            // SAFETY: As above.
            Some(Duration::ZERO) => unsafe { libc::epoll_wait(fd, pointer, room, 0) },
            Some(timeout) if self.is_coarse.load(Ordering::Relaxed) => {
                let milliseconds = i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
                // SAFETY: As above.
                unsafe { libc::epoll_wait(fd, pointer, room, milliseconds) }
            }
            Some(timeout) => {
                let timeout = libc::timespec {
                    tv_sec: timeout.as_secs().try_into().unwrap_or(FOR_EVER_S.into()),
                    tv_nsec: timeout.subsec_nanos().into(),
                };
                // epoll_wait has milliseconds only, so the timeout is rounded up. Called by number, for C libraries
                // from before Linux 5.11 have no function for it. SAFETY: As above; the timeout is read during the call
                // alone; no signal mask is given, so its size is ignored.
                unsafe {
                    libc::syscall(
                        libc::SYS_epoll_pwait2,
                        fd,
                        pointer,
                        room,
                        &raw const timeout,
                        ptr::null::<libc::sigset_t>(),
                        size_of::<u64>(),
                    ) as i32
                }
            }
        };
        events.count = usize::try_from(count).unwrap_or(0);
        if count >= 0 {
            return Ok(());
        }
        let number = last_error();
        // Old kernels lack the call; filters of containers return the same or forbid it.
        if matches!(number, libc::ENOSYS | libc::EPERM) && !self.is_coarse.swap(true, Ordering::Relaxed) {
            return self.wait_once(timeout, events);
        }
        Err(number)
    }
}

impl AsFd for Epoll {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventFd;

    /// Only a failure takes this long.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn without_fine_timeouts_a_wait_is_no_shorter_and_ends_all_the_same() {
        let (epoll, event, mut events) = (Epoll::new().unwrap(), EventFd::new().unwrap(), Events::new());
        epoll.is_coarse.store(true, Ordering::Relaxed);
        epoll.watch(event.as_fd(), 7, libc::EPOLLIN as u32).unwrap();
        let (begun, brief) = (Instant::now(), Duration::from_micros(1500));
        epoll.wait(Some(brief), &mut events).unwrap();
        assert!(begun.elapsed() >= brief && events.iter().next().is_none());
        event.signal();
        epoll.wait(Some(PATIENCE), &mut events).unwrap();
        assert_eq!(events.iter().map(|(key, _)| key).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn a_kernel_without_fine_timeouts_is_known_by_its_answer() {
        // In a new thread, whose filter refuses the call as an old kernel does.
        std::thread::spawn(|| {
            let (epoll, mut events) = (Epoll::new().unwrap(), Events::new());
            if !forbid_pwait2() {
                return println!("skipped: this system takes no filter");
            }
            let (begun, brief) = (Instant::now(), Duration::from_micros(1500));
            epoll.wait(Some(brief), &mut events).unwrap();
            assert!(begun.elapsed() >= brief && epoll.is_coarse.load(Ordering::Relaxed));
        })
        .join()
        .unwrap();
    }

    /// Makes `epoll_pwait2` fail in this thread as on a kernel without it.
    fn forbid_pwait2() -> bool {
        let statement = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
        let mut filter = [
            // The number of the call is the first word.
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_epoll_pwait2 as u32),
            statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
            statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        // SAFETY: The program and its filter are read during the calls alone, and have the given length.
        unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
        }
    }
}
