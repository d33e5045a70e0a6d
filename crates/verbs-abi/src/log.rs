//! Lines on stderr, where the user wants them: `WEFT_VERBS_LOG=info`.

use core::fmt;
use std::io::Write as _;
use std::sync::OnceLock;

/// Says something under `WEFT_VERBS_LOG=info`.
pub(crate) fn info(words: fmt::Arguments<'_>) {
    if is_wanted() {
        say(words);
    }
}

/// Says something that the user has to know.
pub(crate) fn say(words: fmt::Arguments<'_>) {
    // A program may have closed its stderr.
    let _ = writeln!(std::io::stderr(), "weft verbs: {words}");
}

fn is_wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| std::env::var("WEFT_VERBS_LOG").is_ok_and(|level| level.eq_ignore_ascii_case("info")))
}
