//! What the kernel tells in files.

use std::fs;

/// The first line of a file of the kernel's; `None` when there is no such file.
pub(super) fn first_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.lines().next().unwrap_or_default().trim().to_owned())
}
