//! What commands say: on standard output, whose reader may have gone or whose disk may be full, and on standard error,
//! a line at a time.

use std::fmt;
use std::io::{self, Write};

use crate::failure::Failure;

/// Writes this to standard output, all of it at once.
pub fn print(text: impl fmt::Display) -> Result<(), Failure> {
    print_bytes(text.to_string().as_bytes())
}

/// As [`print()`], with an end of line.
pub fn print_line(text: impl fmt::Display) -> Result<(), Failure> {
    print(format_args!("{text}\n"))
}

/// As [`print()`], for what may be no text.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(failed)
}

/// Why standard output does not take anything.
pub fn failed(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::Unread,
        _ => Failure::Runtime(format!("cannot write to standard output: {error}")),
    }
}

/// Writes a line to standard error, in one call: lines of several processes do not mix. Whether anybody reads it is of
/// no matter.
pub fn complain(text: impl fmt::Display) {
    let _ = io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}
