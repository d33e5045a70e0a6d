//! What moves all of it: frames that come, time that passes, and streams that have something to send.

use slotmap::DefaultKey;
use weft_base::Time;

use super::{ORPHAN_PATIENCE, Stack};

/// Frames that are taken before anything is sent.
const FRAMES_AT_ONCE: usize = 128;

impl Stack {
    /// Receives frames, handles timers, and sends what may leave.
    pub(crate) fn drive(&mut self) {
        // Most often nothing is there, and then the clock is not even read.
        let is_idle = self.busy.is_empty() && self.due.is_none() && self.timer_at.is_none();
        if is_idle && !self.wire.has_frame() && !self.wire.is_doubted() {
            return;
        }
        let now = self.now();
        for _ in 0..FRAMES_AT_ONCE {
            if !self.take_frame(now) {
                break;
            }
        }
        self.let_time_pass(now);
        self.transmit(now);
        // While it is away a timer checks it.
        if self.wire.take_doubt() && self.absence.is_none() {
            self.poll_interface(now);
            self.transmit(now);
        }
        self.set_timer(now);
    }

    pub(super) fn let_time_pass(&mut self, now: Time) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        self.repeat_answers(now);
        self.pursue_doubts(now);
        self.pursue_absence(now);
        self.waits.handle_timeout(now);
        self.note_due(self.waits.next_timeout());
        let keys: Vec<DefaultKey> = self.streams.keys().collect();
        for key in keys {
            let Some(stream) = self.streams.get_mut(key) else { continue };
            if stream.orphan.is_some_and(|since| now.since(since) >= ORPHAN_PATIENCE) {
                stream.connection.abort();
            }
            stream.connection.handle_timeout(now);
            self.touch(key);
        }
    }

    pub(super) fn note_due(&mut self, at: Option<Time>) {
        self.due = [self.due, at].into_iter().flatten().min();
    }

    /// A timer that runs off too early costs less than one that is set for each segment.
    pub(super) fn set_timer(&mut self, now: Time) {
        if self.timer_at.is_some_and(|at| at <= now) {
            self.timer.drain();
            self.timer_at = None;
        }
        if let Some(due) = self.due
            && self.timer_at.is_none_or(|at| due < at)
        {
            self.timer.set(due.since(now));
            self.timer_at = Some(due);
        }
    }

    pub(super) fn touch(&mut self, key: DefaultKey) {
        if let Some(stream) = self.streams.get_mut(key)
            && !stream.is_busy
        {
            stream.is_busy = true;
            self.busy.push_back(key);
        }
    }

    /// After a call on a stream that may have made something to send.
    pub(crate) fn drive_stream(&mut self, key: DefaultKey) {
        self.touch(key);
        let now = self.now();
        self.transmit(now);
        self.set_timer(now);
    }
}
