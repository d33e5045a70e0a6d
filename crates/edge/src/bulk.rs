//! Bulk: segments that go in one direction without a pause.

use core::time::Duration;

use weft_base::Time;

/// Segments that have gone in one direction for this long without a pause are bulk: longer than a message of 1 MiB
/// takes at 1 Gb/s, after which the other side may answer.
const BULK_AFTER: Duration = Duration::from_millis(16);
/// Nothing for this long is a pause.
const PAUSE: Duration = Duration::from_millis(2);
/// Over this time requests for acknowledgements are counted.
const COUNTED: Duration = Duration::from_millis(8);

/// The segments of one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bulk {
    /// When the first came after the last pause.
    since: Time,
    /// When the last came.
    pub(crate) last: Time,
    /// Packets since `counted_from` that requested an immediate acknowledgement.
    requests: u32,
    counted_from: Time,
    /// The mean time between two of them, counted before that. Zero: not known.
    pub(crate) request_every: Duration,
}

impl Bulk {
    /// None yet, at the beginning of a connection.
    pub(crate) const fn new(now: Time) -> Self {
        Self { since: now, last: now, requests: 0, counted_from: now, request_every: Duration::ZERO }
    }

    /// A packet, or a run of packets, with segments has gone this way. `requests`: it requests an immediate
    /// acknowledgement.
    pub(crate) fn on_segments(&mut self, requests: bool, now: Time) {
        if now.since(self.last) > PAUSE {
            *self = Self::new(now);
        }
        self.last = now;
        self.requests += u32::from(requests);
        let counted = now.since(self.counted_from);
        if counted >= COUNTED {
            self.request_every = counted.checked_div(self.requests).unwrap_or_default();
            (self.requests, self.counted_from) = (0, now);
        }
    }

    pub(crate) fn is_bulk(&self, now: Time) -> bool {
        self.last.since(self.since) >= BULK_AFTER && now.since(self.last) <= PAUSE
    }

    /// Whether there have been none for long.
    pub(crate) fn is_silent(&self, now: Time) -> bool {
        now.since(self.last) >= BULK_AFTER
    }
}
