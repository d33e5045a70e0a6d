//! Pages, one over the other on a terminal, one after the other elsewhere.

use std::io::{self, IsTerminal};

use terminal_size::{Height, Width, terminal_size_of};

use crate::failure::Failure;
use crate::output::print;

/// What a terminal is taken for that doesn't tell its size.
const USUAL: (Width, Height) = (Width(80), Height(24));

/// Standard output.
pub(super) struct Screen {
    terminal: bool,
    shown: bool,
}

impl Screen {
    /// Page after page, whatever it is.
    pub(super) const fn plain() -> Self {
        Self { terminal: false, shown: false }
    }

    /// Page over page if it is a terminal.
    pub(super) fn of_standard_output() -> Self {
        Self { terminal: io::stdout().is_terminal(), shown: false }
    }

    /// Shows a page. `false`: nobody reads any more.
    pub(super) fn show(&mut self, page: &str) -> Result<bool, Failure> {
        let first = !self.shown;
        self.shown = true;
        put(&if self.terminal {
            let size = terminal_size_of(io::stdout()).unwrap_or(USUAL);
            redrawn(page, first, size)
        } else {
            // Pages of several lines are told apart by an empty one.
            let gap = if first || page.lines().nth(1).is_none() { "" } else { "\n" };
            format!("{gap}{page}")
        })
    }

    /// Says a last word below what is shown; programs that read data are not told.
    pub(super) fn end(&mut self, words: &str, data: bool) -> Result<bool, Failure> {
        if data { Ok(true) } else { put(words) }
    }
}

/// A page in place of the one before, in one go: from the top, each line cleared only behind its end, so that nothing flickers. What does not
/// fit is counted; the last line of the terminal stays free for the cursor.
fn redrawn(page: &str, first: bool, (Width(width), Height(height)): (Width, Height)) -> String {
    let room = usize::from(height).saturating_sub(1).max(1);
    let lines: Vec<_> = page.lines().collect();
    let kept = if lines.len() > room { room - 1 } else { lines.len() };
    let mut text = String::from(if first { "\x1b[H\x1b[2J" } else { "\x1b[H" });
    for line in &lines[..kept] {
        text.extend(line.chars().take(width.into()));
        text.push_str("\x1b[K\n");
    }
    if kept < lines.len() {
        text.push_str(&format!("({} more lines)\x1b[K\n", lines.len() - kept));
    }
    text.push_str("\x1b[J");
    text
}

fn put(text: &str) -> Result<bool, Failure> {
    match print(text) {
        Ok(()) => Ok(true),
        Err(Failure::Unread) => Ok(false),
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_drawn_over_the_one_before() {
        let size = (Width(5), Height(4));
        assert_eq!(redrawn("one\ntwo\n", false, size), "\x1b[Hone\x1b[K\ntwo\x1b[K\n\x1b[J");
        assert_eq!(redrawn("long line\n", true, size), "\x1b[H\x1b[2Jlong \x1b[K\n\x1b[J");
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let drawn = |height| redrawn("1\n2\n3\n4\n", false, (Width(80), Height(height)));
        assert_eq!(drawn(5), "\x1b[H1\x1b[K\n2\x1b[K\n3\x1b[K\n4\x1b[K\n\x1b[J");
        assert_eq!(drawn(4), "\x1b[H1\x1b[K\n2\x1b[K\n(2 more lines)\x1b[K\n\x1b[J");
        assert_eq!(drawn(0), "\x1b[H(4 more lines)\x1b[K\n\x1b[J");
    }
}
