//! What time brings.

use core::time::Duration;

use weft_base::Time;

use super::{Connection, ConnectionError};
use crate::state::State;

/// After this long without a segment either way, buffers with nothing in them are given back. A busy connection keeps
/// its own: making one costs more than a segment does.
const MEMORY_IDLE: Duration = Duration::from_secs(1);

impl Connection {
    /// When [`Connection::handle_timeout`] and then [`Connection::poll_transmit`] are to be called, if nothing comes
    /// before.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        if self.state == State::Closed {
            return None;
        }
        if self.state == State::TimeWait {
            return [self.waits_until, self.receiver.ack_due()].into_iter().flatten().min();
        }
        let sender = self.sender.timer().map(|(at, _)| at);
        let memory = self.releases_memory_at();
        [sender, self.receiver.ack_due(), self.keep_alive_at(), self.gives_up_at(), memory].into_iter().flatten().min()
    }

    fn releases_memory_at(&self) -> Option<Time> {
        let is_spare = self.sender.has_spare_memory() || self.receiver.has_spare_memory();
        is_spare.then(|| self.heard.max(self.sender.last_active()) + MEMORY_IDLE)
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.state == State::Closed {
            return;
        }
        if self.waits_until.is_some_and(|until| until <= now) {
            self.end(None);
            return;
        }
        if self.gives_up_at().is_some_and(|at| at <= now) {
            self.give_up();
            return;
        }
        if self.releases_memory_at().is_some_and(|at| at <= now) {
            self.sender.release_memory();
            self.receiver.release_memory();
        }
        self.sender.handle_timeout(now);
        if self.keep_alive_at().is_some_and(|at| at <= now) {
            self.keep_alive(now);
        }
    }

    fn gives_up_at(&self) -> Option<Time> {
        self.sender.waiting_since().map(|since| since + self.patience())
    }

    const fn patience(&self) -> Duration {
        if self.state.is_synchronised() { self.settings.give_up } else { self.settings.connect_timeout }
    }

    /// RFC 9293 section 3.8.3: R2 is over.
    fn give_up(&mut self) {
        if self.state != State::SynSent {
            self.reset = Some(self.reset_segment());
        }
        self.end(Some(ConnectionError::TimedOut(self.patience())));
    }

    /// Only while nothing else is waited for.
    fn keep_alive_at(&self) -> Option<Time> {
        let settings = self.settings.keep_alive?;
        let is_idle = self.state.is_synchronised() && self.sender.waiting_since().is_none();
        is_idle.then(|| self.heard + settings.idle + settings.interval * self.probes)
    }

    fn keep_alive(&mut self, now: Time) {
        let Some(settings) = self.settings.keep_alive else { return };
        if self.probes >= settings.probes {
            self.reset = Some(self.reset_segment());
            self.end(Some(ConnectionError::TimedOut(now.since(self.heard))));
            return;
        }
        self.probes += 1;
        self.probe_due = true;
    }
}
