//! What an engine shows of its connections, on its NIC's board.

use weft_base::Clock;

use super::shown::Showing;
use super::{Engine, EngineClient, Member};
use crate::lower::{Carrier, Datagrams as _};
use crate::rail_report::RailReport;

impl<N: Carrier, C: Clock, U: EngineClient> Engine<N, C, U> {
    /// The rails may be others than were shown.
    pub(crate) fn note_rails(&mut self) {
        self.showing.is_due = self.counters.edge_connections > 0;
    }

    /// Whether it is time to show the rails.
    #[inline]
    pub(crate) fn are_rails_due(&self) -> bool {
        self.showing.at().is_some_and(|at| at <= self.now)
    }

    /// The rails as they are now, which are shown: a row of [`RailReport::words`] for each.
    pub(crate) fn rails_to_show(&mut self) -> &[[u64; RailReport::WORDS]] {
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
        rows
    }
}
