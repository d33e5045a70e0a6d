//! The budget of what is kept for all peers together.

use std::collections::VecDeque;

use super::receiving::IncomingKey;

pub(super) struct Budget {
    limit: u64,
    used: u64,
    /// Messages that are kept in place of a credit, the oldest first, and such that are no more.
    waiting: VecDeque<IncomingKey>,
    /// How many of them are.
    live: usize,
}

impl Budget {
    pub(super) const fn new(limit: u64) -> Self {
        Self { limit, used: 0, waiting: VecDeque::new(), live: 0 }
    }

    /// Takes so many bytes, if there are so many.
    pub(super) const fn take(&mut self, cost: u64) -> bool {
        let fits = cost <= self.limit - self.used;
        if fits {
            self.used += cost;
        }
        fits
    }

    pub(super) const fn release(&mut self, cost: u64) {
        self.used -= cost;
    }

    #[cfg(test)]
    pub(super) const fn used(&self) -> u64 {
        self.used
    }

    /// Whether little is left: peers should ask before they send what must be kept. What they have under way before they know it needs the other half.
    pub(super) const fn is_scarce(&self) -> bool {
        self.live > 0 || self.used > self.limit / 2
    }

    /// A message did not fit.
    pub(super) fn wait(&mut self, key: IncomingKey) {
        self.waiting.push_back(key);
        self.live += 1;
    }

    /// One that did not fit is gone, or fits now.
    pub(super) const fn leave(&mut self) {
        self.live -= 1;
    }

    pub(super) fn next_waiting(&self) -> Option<IncomingKey> {
        self.waiting.front().copied()
    }

    pub(super) fn drop_waiting(&mut self) {
        self.waiting.pop_front();
    }

    /// Drops those that are no more, if they are the most.
    pub(super) fn compact(&mut self, waits: impl Fn(IncomingKey) -> bool) {
        if self.waiting.len() > 2 * self.live + 64 {
            self.waiting.retain(|key| waits(*key));
        }
    }
}
