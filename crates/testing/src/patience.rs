//! How long tests wait.

use core::time::Duration;
use std::thread;
use std::time::Instant;

/// Only a failure takes this long, however slow the machine is and whatever runs beside the tests.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `done`, and lets other threads run meanwhile.
///
/// # Panics
/// With `what`, when [`PATIENCE`] has passed.
pub fn until(mut done: impl FnMut() -> bool, what: &str) {
    until_within(PATIENCE, &mut done, what);
}

fn until_within(patience: Duration, done: &mut dyn FnMut() -> bool, what: &str) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < patience, "{what}, not within {patience:?}");
        thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn a_wait_ends_when_it_is_done_and_fails_when_it_never_is() {
        let mut left = 100;
        until(
            || {
                left -= 1;
                left == 0
            },
            "a hundred polls",
        );
        assert_eq!(left, 0);
        let waited = catch_unwind(|| until_within(Duration::from_millis(1), &mut || false, "the end of time"));
        let message = waited.unwrap_err();
        assert_eq!(message.downcast_ref::<String>().unwrap(), "the end of time, not within 1ms");
    }
}
