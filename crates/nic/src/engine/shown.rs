//! What of the rails is shown, and when.

use core::time::Duration;

use weft_base::Time;

use crate::rail_report::RailReport;

/// Rails are shown so often at most.
const SHOW_RAILS_EVERY: Duration = Duration::from_millis(50);

/// The rails that are shown, and when.
#[derive(Debug, Default)]
pub(super) struct Showing {
    /// Something was done since they were shown.
    pub(super) is_due: bool,
    pub(super) shown_at: Option<Time>,
    pub(super) reports: Vec<RailReport>,
    pub(super) rows: Vec<[u64; RailReport::WORDS]>,
}

impl Showing {
    /// When rails are shown again.
    #[inline]
    pub(super) fn at(&self) -> Option<Time> {
        self.is_due.then(|| self.shown_at.map_or(Time::ZERO, |at| at + SHOW_RAILS_EVERY))
    }
}
