//! Pages, one over the other on a terminal, one after the other elsewhere.

use std::io::{self, IsTerminal};

use terminal_size::{Height, Width, terminal_size_of};

use super::keys::{Key, Keys};
use weft_command::failure::Failure;
use weft_command::output::print;

/// What a terminal is taken for that doesn't tell its size.
const USUAL: (Width, Height) = (Width(80), Height(24));

/// Standard output.
pub(super) struct Screen {
    terminal: bool,
    shown: bool,
    /// How other lines are reached where there are more than the terminal has.
    keys: Option<Keys>,
    /// The page that is there, and the first line of it that is shown.
    page: String,
    top: usize,
}

impl Screen {
    /// Page after page, whatever it is.
    pub(super) const fn plain() -> Self {
        Self { terminal: false, shown: false, keys: None, page: String::new(), top: 0 }
    }

    /// Page over page if it is a terminal.
    pub(super) fn of_standard_output() -> Self {
        let terminal = io::stdout().is_terminal();
        Self { terminal, keys: Keys::of_standard_input().filter(|_| terminal), ..Self::plain() }
    }

    /// Shows a page. `false`: no process reads any more.
    pub(super) fn show(&mut self, page: &str) -> Result<bool, Failure> {
        let first = !self.shown;
        self.shown = true;
        if self.terminal {
            page.clone_into(&mut self.page);
            return self.draw(first);
        }
        // An empty line separates pages of several lines.
        let gap = if first || page.lines().nth(1).is_none() { "" } else { "\n" };
        put(&format!("{gap}{page}"))
    }

    /// Does what keys ask for that were pressed. `false`: it is to end.
    pub(super) fn obey(&mut self) -> Result<bool, Failure> {
        let pressed = self.keys.as_ref().map(Keys::take).unwrap_or_default();
        let (_, height) = size();
        let before = self.top;
        for key in pressed {
            match key {
                Key::Quit => return Ok(false),
                key => self.top = scrolled(self.top, key, self.page.lines().count(), room(height)),
            }
        }
        if self.top == before { Ok(true) } else { self.draw(false) }
    }

    fn draw(&mut self, first: bool) -> Result<bool, Failure> {
        let lines: Vec<_> = self.page.lines().collect();
        // There may be fewer lines than before.
        self.top = scrolled(self.top, Key::Lines(0), lines.len(), room(size().1));
        put(&redrawn(&lines, self.top, first, self.keys.is_some(), size()))
    }

    /// Shows a last line below the page; programs that read data do not get it.
    pub(super) fn end(&mut self, words: &str, data: bool) -> Result<bool, Failure> {
        if data { Ok(true) } else { put(words) }
    }
}

/// How wide standard output is; `None`: as wide as a line is.
pub(super) fn width() -> Option<usize> {
    io::stdout().is_terminal().then(|| usize::from(size().0.0))
}

fn size() -> (Width, Height) {
    terminal_size_of(io::stdout()).unwrap_or(USUAL)
}

/// Lines that a terminal has room for: its last one stays free for the cursor.
fn room(Height(height): Height) -> usize {
    usize::from(height).saturating_sub(1).max(1)
}

/// The first line that is shown after a key. Of a page that has more lines than there is room for, the last line of the
/// screen says which are shown.
fn scrolled(top: usize, key: Key, lines: usize, room: usize) -> usize {
    if lines <= room {
        return 0;
    }
    let shown = room - 1;
    let step = |count: isize, size: usize| top.saturating_add_signed(count.saturating_mul(size.max(1) as isize));
    let wanted = match key {
        Key::Lines(count) => step(count, 1),
        Key::Pages(count) => step(count, shown),
        Key::First | Key::Quit => 0,
        Key::Last => lines,
    };
    wanted.min(lines - shown)
}

/// A page from its line `top` on, in place of the one before, in one go: from the top of the screen, each line cleared
/// only behind its end, so that nothing flickers.
fn redrawn(lines: &[&str], top: usize, first: bool, has_keys: bool, (width, height): (Width, Height)) -> String {
    let room = room(height);
    let is_cut = lines.len() > room;
    let kept = if is_cut { &lines[top..top + room - 1] } else { lines };
    let mut text = String::from(if first { "\x1b[H\x1b[2J" } else { "\x1b[H" });
    let mut add = |line: &str| {
        text.extend(line.chars().take(width.0.into()));
        text.push_str("\x1b[K\n");
    };
    kept.iter().for_each(|line| add(line));
    if is_cut {
        let how = if has_keys { "space, b and arrows scroll, q ends" } else { "without --watch all are shown" };
        add(&format!("(lines {} to {} of {}: {how})", top + 1, top + kept.len(), lines.len()));
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
        assert_eq!(redrawn(&["one", "two"], 0, false, true, size), "\x1b[Hone\x1b[K\ntwo\x1b[K\n\x1b[J");
        assert_eq!(redrawn(&["long line"], 0, true, true, size), "\x1b[H\x1b[2Jlong \x1b[K\n\x1b[J");
    }

    #[test]
    fn of_what_does_not_fit_it_is_said_which_lines_are_there() {
        let drawn = |top, height| redrawn(&["1", "2", "3", "4"], top, false, true, (Width(80), Height(height)));
        let how = "space, b and arrows scroll, q ends";
        assert_eq!(drawn(0, 5), "\x1b[H1\x1b[K\n2\x1b[K\n3\x1b[K\n4\x1b[K\n\x1b[J");
        assert_eq!(drawn(0, 4), format!("\x1b[H1\x1b[K\n2\x1b[K\n(lines 1 to 2 of 4: {how})\x1b[K\n\x1b[J"));
        assert_eq!(drawn(2, 4), format!("\x1b[H3\x1b[K\n4\x1b[K\n(lines 3 to 4 of 4: {how})\x1b[K\n\x1b[J"));
        let without = redrawn(&["1", "2", "3"], 0, false, false, (Width(80), Height(3)));
        assert!(without.contains("(lines 1 to 1 of 3: without --watch all are shown)"), "{without:?}");
    }

    #[test]
    fn all_lines_can_be_reached() {
        // Room for nine lines and the one that says which.
        let after = |top, key| scrolled(top, key, 70, 10);
        assert_eq!([0, 9, 60].map(|top| after(top, Key::Pages(1))), [9, 18, 61], "61 is the last nine");
        assert_eq!([61, 9, 3].map(|top| after(top, Key::Pages(-1))), [52, 0, 0]);
        assert_eq!([0, 61].map(|top| after(top, Key::Lines(1))), [1, 61]);
        assert_eq!((after(5, Key::First), after(5, Key::Last)), (0, 61));
        assert_eq!(scrolled(61, Key::Lines(0), 12, 10), 3, "the page has become shorter");
        assert_eq!(scrolled(61, Key::Lines(0), 10, 10), 0, "now it fits");
        // A terminal with next to no room.
        assert_eq!(scrolled(3, Key::Pages(1), 70, 1), 4);
    }
}
