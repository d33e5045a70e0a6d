//! What an engine shows of its connections, on its NIC's board.

use core::time::Duration;

use weft_base::{Clock, Time};

use super::{Engine, Member, Upper};
use crate::lower::{Carrier, Lower};
use crate::rail_report::RailReport;

/// Rails are shown so often at most.
const SHOW_RAILS_EVERY: Duration = Duration::from_millis(50);

/// The rails that are shown, and when.
#[derive(Debug, Default)]
pub(super) struct Showing {
    /// Something was done since they were shown.
    is_due: bool,
    shown_at: Option<Time>,
    reports: Vec<RailReport>,
    rows: Vec<[u64; RailReport::WORDS]>,
}

impl Showing {
    /// When rails are shown again.
    pub(super) fn at(&self) -> Option<Time> {
        self.is_due.then(|| self.shown_at.map_or(Time::ZERO, |at| at + SHOW_RAILS_EVERY))
    }
}

impl<N: Carrier, C: Clock, U: Upper> Engine<N, C, U> {
    /// The rails may be others than were shown.
    pub(crate) fn note_rails(&mut self) {
        self.showing.is_due = self.counters.edge_connections > 0;
    }

    /// The rails as they are now, if it is time to show them: a row of [`RailReport::words`] for each.
    pub(crate) fn rails_to_show(&mut self) -> Option<&[[u64; RailReport::WORDS]]> {
        self.showing.at().filter(|at| *at <= self.now)?;
        (self.showing.is_due, self.showing.shown_at) = (false, Some(self.now));
        let Showing { reports, rows, .. } = &mut self.showing;
        reports.clear();
        for (_, entry) in &self.entries {
            if let Member::Connection(connection) = &entry.member {
                connection.lower.report_rails(&self.datagrams, self.now, reports);
            }
            if reports.len() >= RailReport::MOST {
                break;
            }
        }
        rows.clear();
        rows.extend(reports.iter().take(RailReport::MOST).map(RailReport::words));
        Some(rows)
    }
}
