//! The budget of memory for unexpected messages of all peers together: places for messages, and bytes of those that are
//! not small.
//!
//! Messages that a peer had in flight before it was told to ask may exceed the bytes: each peer by up to one window
//! (`Settings::window`), and all peers together by as much again as the budget. So packets need to be held only when
//! there are no places left, or when peers do not ask. What exceeds the budget moves into it as usage falls.

use std::collections::VecDeque;

use super::keys::IncomingKey;

/// When memory is given back, this many of the waiting messages are checked, so that one that does not fit blocks no
/// other.
const CHECKS: usize = 16;

/// The limit of what all lost connections together leave behind, in connections.
pub(crate) const LEAVERS: u64 = 16;

pub(super) struct Budget {
    limit: u64,
    used: u64,
    /// Bytes kept beyond the budget.
    beyond: u64,
    /// Bytes kept for lost connections.
    left_behind: u64,
    /// The maximum number of messages.
    places: usize,
    taken: usize,
    /// Messages kept beyond the budget or in place of a credit, oldest first, and stale entries.
    waiting: VecDeque<IncomingKey>,
    /// The number of live ones among these.
    live: usize,
}

impl Budget {
    pub(super) const fn new(limit: u64, places: usize) -> Self {
        Self { limit, used: 0, beyond: 0, left_behind: 0, places, taken: 0, waiting: VecDeque::new(), live: 0 }
    }

    /// Takes this many bytes, if they are left.
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

    /// Takes this many bytes beyond the budget, if that is permitted.
    pub(super) const fn take_beyond(&mut self, cost: u64) -> bool {
        let fits = cost <= self.limit - self.beyond;
        if fits {
            self.beyond += cost;
        }
        fits
    }

    pub(super) const fn release_beyond(&mut self, cost: u64) {
        self.beyond -= cost;
    }

    /// Takes this many bytes for the messages of a lost connection, each of which may take at most `most_of_one`.
    pub(super) const fn leave_behind(&mut self, cost: u64, most_of_one: u64) -> bool {
        let fits = self.left_behind.saturating_add(cost) <= most_of_one.saturating_mul(LEAVERS);
        if fits {
            self.left_behind += cost;
        }
        fits
    }

    pub(super) const fn release_left_behind(&mut self, cost: u64) {
        self.left_behind -= cost;
    }

    /// Whether another message may be kept.
    pub(super) const fn has_place(&self) -> bool {
        self.taken < self.places
    }

    pub(super) const fn take_place(&mut self) {
        self.taken += 1;
    }

    pub(super) const fn release_places(&mut self, count: usize) {
        self.taken -= count;
    }

    #[cfg(test)]
    pub(super) const fn used(&self) -> u64 {
        self.used
    }

    #[cfg(test)]
    pub(super) const fn beyond(&self) -> u64 {
        self.beyond
    }

    #[cfg(test)]
    pub(super) const fn taken(&self) -> usize {
        self.taken
    }

    /// Whether little is left: peers should ask before they send what must be kept. Their messages in flight until they
    /// know it need the other half.
    pub(super) const fn is_scarce(&self) -> bool {
        self.live > 0 || self.used > self.limit / 2
    }

    /// Whether a message of this cost can ever fit.
    pub(super) const fn could_take(&self, cost: u64) -> bool {
        cost <= self.limit
    }

    /// A message did not fit. It joins the waiting ones, unless it can never fit.
    pub(super) fn wait(&mut self, key: IncomingKey, cost: u64) {
        self.live += 1;
        if self.could_take(cost) {
            self.waiting.push_back(key);
        }
    }

    /// A waiting message is gone, or fits now.
    pub(super) const fn leave(&mut self) {
        self.live -= 1;
    }

    /// How many of the waiting messages to check now.
    pub(super) fn checks(&self) -> usize {
        self.waiting.len().min(CHECKS)
    }

    pub(super) fn next_waiting(&mut self) -> Option<IncomingKey> {
        self.waiting.pop_front()
    }

    /// It still does not fit.
    pub(super) fn wait_on(&mut self, key: IncomingKey) {
        self.waiting.push_back(key);
    }

    /// Drops stale entries, if they are the majority.
    pub(super) fn compact(&mut self, waits: impl Fn(IncomingKey) -> bool) {
        if self.waiting.len() > 2 * self.live + 64 {
            self.waiting.retain(|key| waits(*key));
        }
    }
}

#[cfg(test)]
mod tests {
    use slotmap::SlotMap;

    use super::*;

    #[test]
    fn it_is_scarce_from_half_of_it_on_and_while_anything_waits() {
        let mut budget = Budget::new(1000, 1);
        assert!(budget.take(500) && !budget.is_scarce());
        assert!(budget.take(1) && budget.is_scarce());
        budget.release(1);
        assert!(!budget.is_scarce());
        budget.wait(IncomingKey::default(), 1001);
        assert!(budget.is_scarce());
        budget.leave();
        assert!(!budget.is_scarce() && !budget.take(501) && budget.take(500));
    }

    #[test]
    fn waiting_messages_are_checked_in_turn_few_at_a_time_and_those_that_never_fit_are_not() {
        let mut budget = Budget::new(1000, 100);
        let mut keys = SlotMap::with_key();
        let mut wait = |budget: &mut Budget, cost| {
            let key: IncomingKey = keys.insert(());
            budget.wait(key, cost);
            key
        };
        for _ in 0..50 {
            wait(&mut budget, 1001);
        }
        assert_eq!(budget.checks(), 0);
        let fitting: Vec<_> = (0..40).map(|_| wait(&mut budget, 1000)).collect();
        let mut seen = Vec::new();
        for _ in 0..3 {
            assert_eq!(budget.checks(), CHECKS);
            for _ in 0..CHECKS {
                let key = budget.next_waiting().expect("they wait");
                seen.push(key);
                budget.wait_on(key);
            }
        }
        assert_eq!((&seen[..40], &seen[40..]), (&fitting[..], &fitting[..8]));
    }
}
