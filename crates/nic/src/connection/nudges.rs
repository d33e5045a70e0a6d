//! When a peer that may have overlooked something is nudged.

use core::time::Duration;

use weft_base::Time;
use weft_rdmap::Role;

use crate::lower::Terms;

/// When it is seen to after the set-up, and how many times as late each time after that.
const FIRST_AFTER: Duration = Duration::from_millis(20);
const LATER: u32 = 5;

/// So often: 20 ms, 120 ms and 620 ms after the set-up.
const TIMES: u8 = 3;

/// What is to be done for a peer that may have overlooked something.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nudges {
    at: Time,
    pause: Duration,
    pub(super) left: u8,
}

impl Nudges {
    /// For an established connection. None are due to a peer that shows by its extensions that it is another Weft,
    /// or that has begun the connection.
    pub(super) fn begin(terms: &Terms, now: Time) -> Option<Self> {
        let mpa = terms.info.mpa()?;
        let may_sleep = terms.stream.role == Role::Initiator && !mpa.extensions.any();
        may_sleep.then(|| Self { at: now + FIRST_AFTER, pause: FIRST_AFTER, left: TIMES })
    }

    /// When the next one is due.
    pub(super) fn at(&self) -> Time {
        self.at
    }

    pub(super) fn next(self, now: Time) -> Option<Self> {
        let (left, pause) = (self.left - 1, self.pause * LATER);
        (left > 0).then(|| Self { at: now + pause, pause, left })
    }
}
