//! When an acknowledgement is due (RFC 9293 section 3.8.6.3, RFC 5681 section 4.2).

use core::time::Duration;

use weft_base::Time;

/// Received and not acknowledged.
#[derive(Debug)]
pub(crate) struct AckDebt {
    delay: Duration,
    bytes: u64,
    due: Option<Time>,
    now: bool,
}

impl AckDebt {
    pub(crate) const fn new(delay: Duration) -> Self {
        Self { delay, bytes: 0, due: None, now: false }
    }

    /// New bytes in order: at least every second full segment is acknowledged at once.
    pub(crate) fn owe(&mut self, bytes: u64, largest: u64, now: Time) {
        self.bytes += bytes;
        self.due = self.due.or(Some(now + self.delay));
        self.now |= self.bytes > largest;
    }

    /// Anything else: disorder, a gap that is filled, a FIN.
    pub(crate) const fn owe_now(&mut self) {
        self.now = true;
    }

    pub(crate) const fn pay(&mut self) {
        (self.bytes, self.due, self.now) = (0, None, false);
    }

    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.now || self.due.is_some_and(|due| due <= now)
    }

    pub(crate) const fn due(&self) -> Option<Time> {
        self.due
    }
}
