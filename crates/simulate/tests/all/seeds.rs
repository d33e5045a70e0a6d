//! Which seeds a test runs.

use core::ops::Range;

/// `usual` seeds from 0 on; more or fewer by `WEFT_SEEDS`, others by `WEFT_FIRST_SEED`, one alone by `WEFT_SEED`.
pub(crate) fn seeds(usual: u64) -> Range<u64> {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{name} is {text:?}; it takes a number")))
    };
    match number("WEFT_SEED") {
        Some(one) => one..one + 1,
        None => {
            let first = number("WEFT_FIRST_SEED").unwrap_or(0);
            first..first + number("WEFT_SEEDS").unwrap_or(usual)
        }
    }
}
