//! Sockets that a child by fork(2) does not keep.
//!
//! Each socket of this crate is marked in a table of the process by its descriptor's number. In a child, the handler of
//! fork puts an unconnected socket in the place of each: the numbers stay taken, so that nothing the child opens gets
//! one which a copy of a port still names.

use core::ffi::c_int;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::thread;

use socket2::Socket;

use crate::fork;

/// Descriptors with numbers from here on are not watched: more than a process has unless the system was told otherwise
/// (`fs.nr_open`).
const NUMBERS: usize = 1 << 20;

/// A bit for each descriptor that is a socket of this crate. Its pages are there only when they are used.
static MARKS: [AtomicU64; NUMBERS / 64] = [const { AtomicU64::new(0) }; NUMBERS / 64];
/// Words of it that have ever been used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Threads that are between the making or closing of a descriptor and its mark.
static CHANGING: AtomicUsize = AtomicUsize::new(0);
/// Forks that are under way.
static FORKING: AtomicUsize = AtomicUsize::new(0);
/// So often a fork, or a change, lends its core to those that it waits for. Then it goes on: a signal handler that
/// forks may have stopped the very thread that it waits for.
const PATIENCE: usize = 1000;

/// A socket that ends with this process, whatever children it has.
#[derive(Debug)]
pub(crate) struct Held(ManuallyDrop<Socket>);

impl Held {
    /// Makes one.
    pub(crate) fn make(make: impl FnOnce() -> io::Result<Socket>) -> io::Result<Self> {
        Self::make_with(|| make().map(|socket| (socket, ()))).map(|(held, ())| held)
    }

    /// Makes one, and something with it.
    pub(crate) fn make_with<T>(make: impl FnOnce() -> io::Result<(Socket, T)>) -> io::Result<(Self, T)> {
        // The handlers are there before the first socket is.
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
        // SAFETY: Nobody uses it after this.
        let socket = unsafe { ManuallyDrop::take(&mut self.0) };
        match place(socket.as_raw_fd()) {
            // In a child: what has this number there may be anything by now.
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

/// While it is there, a fork waits.
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

/// In the child: lets go of all sockets of its parent. Only calls that are safe whatever the parent's other threads
/// were doing.
pub(crate) fn leave_to_parent() {
    // Those threads are not here.
    FORKING.store(0, Ordering::SeqCst);
    CHANGING.store(0, Ordering::SeqCst);
    let mut stand_in = None;
    for (number, mark) in MARKS.iter().enumerate().take(USED.load(Ordering::Relaxed)) {
        let mut bits = mark.swap(0, Ordering::Relaxed);
        while bits != 0 {
            let descriptor = (number * 64) as c_int + bits.trailing_zeros() as c_int;
            bits &= bits - 1;
            let there = *stand_in.get_or_insert_with(|| {
                // So that there is one to be had where the process has as many as it may.
                // SAFETY: A socket of the parent, which nobody uses in a child.
                unsafe { libc::close(descriptor) };
                // SAFETY: Reads and writes no memory.
                unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0) }
            });
            if there == descriptor {
                continue;
            }
            // SAFETY: As above. It fails only without a stand-in, and then the number is free.
            if unsafe { libc::dup3(there, descriptor, libc::O_CLOEXEC) } < 0 {
                // SAFETY: As above.
                unsafe { libc::close(descriptor) };
            }
        }
    }
}
