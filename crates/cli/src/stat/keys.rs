//! Keys of a terminal, each as soon as it is pressed.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use nix::sys::termios::{LocalFlags, SetArg, SpecialCharacterIndices, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, read, tcgetpgrp};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Scroll down by this number of lines; negative: up.
    Lines(isize),
    /// Scroll down by this number of pages; negative: up.
    Pages(isize),
    /// To the first line.
    First,
    /// To the last line.
    Last,
    /// No more of it.
    Quit,
}

/// Bytes of keys that are taken at a time.
const MOST: usize = 64;

/// What terminals send for a key (as less(1) reads them), the longer ones first.
const KEYS: [(&[u8], Key); 20] = [
    (b"\x1b[5~", Key::Pages(-1)),
    (b"\x1b[6~", Key::Pages(1)),
    (b"\x1b[1~", Key::First),
    (b"\x1b[4~", Key::Last),
    (b"\x1b[A", Key::Lines(-1)),
    (b"\x1b[B", Key::Lines(1)),
    (b"\x1b[H", Key::First),
    (b"\x1b[F", Key::Last),
    (b"\x1bOA", Key::Lines(-1)),
    (b"\x1bOB", Key::Lines(1)),
    (b"\x1bOH", Key::First),
    (b"\x1bOF", Key::Last),
    (b" ", Key::Pages(1)),
    (b"f", Key::Pages(1)),
    (b"b", Key::Pages(-1)),
    (b"j", Key::Lines(1)),
    (b"k", Key::Lines(-1)),
    (b"g", Key::First),
    (b"G", Key::Last),
    (b"q", Key::Quit),
];

/// The keys of the terminal at standard input, which is as it was before once this is dropped.
pub(super) struct Keys {
    before: Termios,
}

impl Keys {
    /// `None`: standard input is no terminal, or not this job's: a process in the background is stopped for changing or
    /// reading it (SIGTTOU, SIGTTIN).
    pub(super) fn of_standard_input() -> Option<Self> {
        let input = io::stdin();
        if !input.is_terminal() || !is_foreground() {
            return None;
        }
        let before = tcgetattr(&input).ok()?;
        let mut each = before.clone();
        each.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
        // A read takes what is there, and does not wait.
        each.control_chars[SpecialCharacterIndices::VMIN as usize] = 0;
        each.control_chars[SpecialCharacterIndices::VTIME as usize] = 0;
        tcsetattr(&input, SetArg::TCSANOW, &each).ok()?;
        Some(Self { before })
    }

    /// Those that were pressed since the last call.
    pub(super) fn take(&self) -> Vec<Key> {
        let mut bytes = [0; MOST];
        if !is_foreground() {
            return Vec::new();
        }
        let count = read(io::stdin().as_fd(), &mut bytes).unwrap_or(0);
        keys(&bytes[..count])
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if is_foreground() {
            let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.before);
        }
    }
}

fn is_foreground() -> bool {
    tcgetpgrp(io::stdin()) == Ok(getpgrp())
}

/// The keys in these bytes; others are ignored.
fn keys(mut bytes: &[u8]) -> Vec<Key> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = KEYS.iter().find(|(sent, _)| bytes.starts_with(sent));
        found.extend(key.map(|(_, key)| *key));
        bytes = &bytes[key.map_or(1, |(sent, _)| sent.len())..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_apart_and_others_are_passed_over() {
        assert_eq!(keys(b" \x1b[Bxq"), [Key::Pages(1), Key::Lines(1), Key::Quit]);
        assert_eq!(keys(b"\x1b[5~\x1b[6~G"), [Key::Pages(-1), Key::Pages(1), Key::Last]);
        assert_eq!(keys(b"\x1b[Z\x1b"), []);
        assert_eq!(keys(b""), []);
    }
}
