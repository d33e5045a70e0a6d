//! What commands say: on standard output, whose reader may have gone or whose disk may be full, and on standard error,
//! a line at a time.

use std::fmt;
use std::io::{self, Write};

use terminal_size::{Width, terminal_size_of};

use crate::failure::Failure;

/// Columns of a text that is read on any screen.
const COLUMNS: usize = 80;

/// Writes this to standard output, all of it at once.
pub fn print(text: impl fmt::Display) -> Result<(), Failure> {
    print_bytes(text.to_string().as_bytes())
}

/// Columns that a line on standard output may have: the terminal's, and 80 where it has fewer or there is none.
#[must_use]
pub fn columns() -> usize {
    terminal_size_of(io::stdout()).map_or(COLUMNS, |(Width(width), _)| usize::from(width).max(COLUMNS))
}

/// The text with its long lines broken at spaces. A line that begins with a space stays as it is: it belongs to a table
/// or a picture.
#[must_use]
pub fn wrapped(text: &str, columns: usize) -> String {
    let line = |line: &str| match line.starts_with(' ') {
        true => line.to_owned(),
        false => textwrap::fill(line, columns),
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
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

/// Writes a line to standard error, in one call: lines of several processes do not mix. Errors of the write are
/// ignored.
pub fn complain(text: impl fmt::Display) {
    let _ = io::stderr().lock().write_all(format!("{text}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_but_those_of_tables() {
        let text = "one two three\n\n  a table whose line is long\nlast\n";
        assert_eq!(wrapped(text, 8), "one two\nthree\n\n  a table whose line is long\nlast\n");
        assert_eq!(wrapped(text, 80), text);
    }
}
