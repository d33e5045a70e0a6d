//! The shared state of counters.

use super::count::Count;
use super::wait::Wait;

/// The shared state of a counter: endpoints count here.
pub(crate) struct Tally {
    pub(super) count: Count,
    pub(super) wait: Wait,
}

impl Tally {
    /// An operation has completed.
    #[inline]
    pub(crate) fn complete(&self, succeeded: bool) {
        self.count.complete(succeeded);
        self.wait.raise();
    }
}
