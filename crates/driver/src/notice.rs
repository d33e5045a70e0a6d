//! Messages on stderr about degraded operation, which no call can return as an error.

use std::fmt;
use std::io::{self, Write};
use std::sync::Once;

/// Prints it the first time; `once` is for its kind.
pub(crate) fn say_once(once: &Once, what: fmt::Arguments<'_>) {
    // In one call, so that lines of several processes on one terminal do not mix. A failure means that stderr is
    // closed.
    once.call_once(|| {
        let _ = io::stderr().write_all(format!("weft: {what}\n").as_bytes());
    });
}

/// The text that a child by fork(2) prints on stderr while it runs `f`, and its exit status.
#[cfg(test)]
pub(crate) fn said_by_child(f: impl FnOnce() -> i32) -> (String, i32) {
    use std::io::Read;
    use std::os::fd::AsRawFd;

    let (mut reads, writes) = io::pipe().unwrap();
    let status = crate::fork::in_child(|| {
        // SAFETY: The descriptors are this process's; nothing else is done with stderr.
        unsafe { libc::dup2(writes.as_raw_fd(), libc::STDERR_FILENO) };
        f()
    });
    drop(writes);
    let mut said = String::new();
    reads.read_to_string(&mut said).unwrap();
    (said, status)
}
