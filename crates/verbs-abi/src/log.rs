//! Lines on stderr, where the user wants them: `WEFT_VERBS_LOG=info`.

use core::fmt;
use std::sync::OnceLock;

/// Says something under `WEFT_VERBS_LOG=info`.
pub(crate) fn info(words: fmt::Arguments<'_>) {
    if is_wanted() {
        say(words);
    }
}

/// Says something that the user has to know.
pub(crate) fn say(words: fmt::Arguments<'_>) {
    let line = format!("weft verbs: {words}\n");
    // Without the lock of Rust's stderr, which a thread of the parent may have held when this process was forked. A
    // program may have closed its stderr.
    // SAFETY: The bytes of the line.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}

fn is_wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| std::env::var("WEFT_VERBS_LOG").is_ok_and(|level| level.eq_ignore_ascii_case("info")))
}
