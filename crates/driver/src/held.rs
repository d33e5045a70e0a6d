//! Sockets that are closed in children by fork(2).
//!
//! Each socket of this crate is marked in a table of the process by its descriptor's number. In a child, the fork
//! handler replaces each by an unconnected socket: the numbers stay taken, so that nothing the child opens gets a
//! number that a copy of a port still refers to.

use core::ffi::c_int;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::thread;

use socket2::Socket;

use crate::fork;

/// Descriptors with numbers from here on are not marked: more than a process may have unless the system is configured
/// otherwise (`fs.nr_open`).
const NUMBERS: usize = 1 << 20;

/// A bit for each descriptor that is a socket of this crate. Its pages are allocated on use.
static MARKS: [AtomicU64; NUMBERS / 64] = [const { AtomicU64::new(0) }; NUMBERS / 64];
/// The number of its words ever used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Threads that are between creating or closing a descriptor and changing its mark.
static CHANGING: AtomicUsize = AtomicUsize::new(0);
/// Forks in progress.
static FORKING: AtomicUsize = AtomicUsize::new(0);
/// A fork, or a change, yields this many times to those that it waits for. Then it continues: a signal handler that
/// forks may have interrupted the very thread that it waits for.
const PATIENCE: usize = 1000;

/// A socket that ends with this process, whatever children it has.
#[derive(Debug)]
pub(crate) struct Held(ManuallyDrop<Socket>);

impl Held {
    /// Makes one.
    pub(crate) fn make(make: impl FnOnce() -> io::Result<Socket>) -> io::Result<Self> {
        Self::make_with(|| make().map(|socket| (socket, ()))).map(|(held, ())| held)
    }

    /// Makes one, with another value.
    pub(crate) fn make_with<T>(make: impl FnOnce() -> io::Result<(Socket, T)>) -> io::Result<(Self, T)> {
        // The handlers must be registered before the first socket exists.
        let _ = fork::generation();
        let _change = Change::begin();
        let (socket, with) = make()?;
        if let Some((word, bit)) = place(socket.as_raw_fd()) {
            USED.fetch_max(word + 1, Ordering::Relaxed);
            MARKS[word].fetch_or(bit, Ordering::Relaxed);
        }
        Ok((Self(ManuallyDrop::new(socket)), with))
    }
}

impl Deref for Held {
    type Target = Socket;

    fn deref(&self) -> &Socket {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _change = Change::begin();
        // SAFETY: It is not used after this.
        let socket = unsafe { ManuallyDrop::take(&mut self.0) };
        match place(socket.as_raw_fd()) {
            // In a child this number may be any descriptor by now.
            Some((word, bit)) if MARKS[word].fetch_and(!bit, Ordering::Relaxed) & bit == 0 => {
                let _ = socket.into_raw_fd();
            }
            _ => drop(socket),
        }
    }
}

fn place(descriptor: c_int) -> Option<(usize, u64)> {
    let number = usize::try_from(descriptor).ok().filter(|number| *number < NUMBERS)?;
    Some((number / 64, 1 << (number % 64)))
}

/// While one exists, a fork waits.
struct Change;

impl Change {
    fn begin() -> Self {
        for _ in 0..PATIENCE {
            CHANGING.fetch_add(1, Ordering::SeqCst);
            if FORKING.load(Ordering::SeqCst) == 0 {
                return Self;
            }
            CHANGING.fetch_sub(1, Ordering::SeqCst);
            thread::yield_now();
        }
        CHANGING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        CHANGING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// In the thread that forks, before.
pub(crate) extern "C" fn before_fork() {
    FORKING.fetch_add(1, Ordering::SeqCst);
    for _ in 0..PATIENCE {
        if CHANGING.load(Ordering::SeqCst) == 0 {
            return;
        }
        thread::yield_now();
    }
}

/// In the parent, after.
pub(crate) extern "C" fn after_fork() {
    FORKING.fetch_sub(1, Ordering::SeqCst);
}

/// In the child: closes all sockets of its parent. Only calls that are safe whatever the parent's other threads were
/// doing.
pub(crate) fn leave_to_parent() {
    // Those threads do not exist here.
    FORKING.store(0, Ordering::SeqCst);
    CHANGING.store(0, Ordering::SeqCst);
    let mut stand_in = None;
    for (number, mark) in MARKS.iter().enumerate().take(USED.load(Ordering::Relaxed)) {
        let mut bits = mark.swap(0, Ordering::Relaxed);
        while bits != 0 {
            let descriptor = (number * 64) as c_int + bits.trailing_zeros() as c_int;
            bits &= bits - 1;
            let there = *stand_in.get_or_insert_with(|| {
                // Frees a number, in case the process has as many as it may.
                // SAFETY: A socket of the parent, which is not used in a child.
                unsafe { libc::close(descriptor) };
                // SAFETY: Reads and writes no memory.
                unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) }
            });
            if there == descriptor {
                continue;
            }
            // SAFETY: As above. It fails only without a replacement, and then the number is free.
            if unsafe { libc::dup3(there, descriptor, libc::O_CLOEXEC) } < 0 {
                // SAFETY: As above.
                unsafe { libc::close(descriptor) };
            }
        }
    }
}
