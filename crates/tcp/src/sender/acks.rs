//! What an acknowledgement says (RFC 5681, 6675, 8985).

use core::ops::Range;

use arrayvec::ArrayVec;
use weft_base::Time;

use super::window::Arrival;
use super::{Fate, Sender};
use crate::segment::MAX_SACK_BLOCKS;

/// Acknowledgements without news after which, without SACK, a segment is believed lost (RFC 5681 section 3.2).
const DUPLICATES: u32 = 3;

/// A received acknowledgement.
#[derive(Clone, Debug)]
pub(crate) struct Ack {
    /// The position in the peer's stream of the segment that carried it.
    pub(crate) start: u64,
    /// What it acknowledges: between what was before and what was sent.
    pub(crate) position: u64,
    /// The window field as it is.
    pub(crate) window: u16,
    pub(crate) sack: ArrayVec<(u32, u32), MAX_SACK_BLOCKS>,
    /// When the segment was sent that it echoes, as exactly as the clock of timestamps tells.
    pub(crate) echo: Option<Time>,
    /// It carries nothing else.
    pub(crate) is_pure: bool,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
struct News {
    bytes: u64,
    sample: Option<core::time::Duration>,
    duplicate: bool,
    again: bool,
    /// Of something that was retransmitted, it is known which copy arrived.
    is_sure: bool,
    /// All that the window was last cut for has arrived.
    undo: bool,
}

impl Sender {
    /// The position that an acknowledgement number means, if it is one that may be believed (RFC 5961 section 5.2).
    pub(crate) const fn ack_position(&self, number: u32) -> Option<u64> {
        let Some(position) = self.numbering.position(number, self.una) else { return None };
        let oldest = self.una.saturating_sub(self.largest_window);
        if oldest <= position && position <= self.next { Some(position) } else { None }
    }

    /// Takes an acknowledgement whose position [`Sender::ack_position`] has judged.
    pub(crate) fn handle_ack(&mut self, ack: &Ack, now: Time) {
        let before = self.una;
        // RFC 7661: a window that isn't used doesn't grow.
        let is_limited = self.board.flying() + self.mss >= self.congestion.bytes();
        let was_shut = self.edge <= before;
        let had_window = self.edge;
        self.take_window(ack, now);
        let news = self.take_news(ack, now);
        if let Some(sample) = news.sample {
            self.round_trip.update(sample, core::time::Duration::ZERO, now);
        }
        if self.una > before {
            self.timers.handle_progress(news.sample.is_some() || news.is_sure, now);
            self.duplicates = 0;
        } else if ack.is_pure && self.edge == had_window && !self.board.is_empty() {
            self.duplicates += 1;
        }
        if was_shut && self.edge > self.una {
            self.handle_opened();
        }
        if news.undo {
            self.undo(now);
        }
        let recovered = self.end_recovery();
        self.end_tail(ack, news.duplicate, now);
        // RFC 5681 section 3.2 (step 1): not by duplicates, until the path has shown that it only reorders.
        let is_news = self.una > before || self.rack.has_seen_reordering();
        let may_grow = is_news && (self.timed_out || self.recovery.is_none() && !recovered);
        let is_round = self.una >= self.round_end;
        if is_round {
            self.round_end = self.next;
        }
        let bytes = if may_grow { news.bytes } else { 0 };
        let arrival = Arrival { bytes, round_trip: news.sample, is_round, is_full: is_limited };
        self.congestion.handle_arrival(arrival, now);
        self.detect(self.una > before, now);
    }

    fn take_window(&mut self, ack: &Ack, now: Time) {
        let (start, position) = self.said_by;
        if ack.position < self.una || (ack.start, ack.position) < (start, position.min(ack.position)) {
            return;
        }
        let window = u64::from(ack.window) << self.shift;
        self.said_by = (ack.start, ack.position);
        self.edge = ack.position + window;
        self.largest_window = self.largest_window.max(window);
        self.timers.handle_answer(window == 0, now);
    }

    fn take_news(&mut self, ack: &Ack, now: Time) -> News {
        let twice = self.duplicate_report(ack);
        let mut news = News { duplicate: twice.is_some(), ..News::default() };
        if let Some(twice) = twice {
            news.undo = self.spurious.handle_arrived(&twice);
            self.rack.handle_duplicate(ack.position, self.next);
        }
        let blocks: ArrayVec<_, MAX_SACK_BLOCKS> = ack.sack.iter().filter_map(|block| self.block(*block)).collect();
        let (rack, spurious, least) = (&mut self.rack, &mut self.spurious, self.round_trip.min());
        let trains = &mut self.trains;
        let mut found = |sent: &super::board::Sent| {
            let is_older = ack.echo.is_some_and(|echo| echo < sent.at);
            rack.handle_arrival(sent, least, is_older && sent.times > 1, now);
            trains.handle_arrived(sent.train);
            news.bytes += sent.end - sent.start;
            // Karn: only what was sent once says how long it took. The last of them was sent last.
            if sent.times == 1 {
                news.sample = Some(news.sample.map_or(now.since(sent.at), |sample| sample.min(now.since(sent.at))));
            }
            news.again |= sent.times > 1;
            news.is_sure |= sent.times > 1 && ack.echo.is_some_and(|echo| echo >= sent.at);
            if sent.fate == Fate::Lost && sent.times == 1 {
                news.undo |= spurious.handle_arrived(&(sent.start..sent.end));
            }
        };
        self.board.acknowledge(ack.position, &mut found);
        if self.sack {
            blocks.iter().for_each(|block| self.board.sack(block, &mut found));
        }
        self.una = self.una.max(ack.position);
        // What was retransmitted filled a gap; what follows it was there long before, and waited for it.
        news.sample = news.sample.filter(|_| !news.again);
        news
    }

    /// A block of what was sent and not acknowledged; anything else is not believed.
    fn block(&self, (start, end): (u32, u32)) -> Option<Range<u64>> {
        let start = self.numbering.position(start, self.una)?;
        let end = self.numbering.position(end, self.una)?;
        (start < end && start > self.una && end <= self.next).then_some(start..end)
    }

    /// RFC 2883: the first block is below the acknowledgement, or within the second one.
    fn duplicate_report(&self, ack: &Ack) -> Option<Range<u64>> {
        let span = |(start, end)| {
            let start = self.numbering.position(start, self.una)?;
            Some(start..self.numbering.position(end, self.una)?).filter(|span| span.start < span.end)
        };
        let mut blocks = ack.sack.iter().map(|block| span(*block));
        let first = blocks.next().flatten()?;
        let within = |outer: Range<u64>| outer.start <= first.start && first.end <= outer.end;
        let is_report = self.sack && (first.end <= ack.position || blocks.next().flatten().is_some_and(within));
        is_report.then_some(first)
    }

    /// The window was shut and has opened: a probe that is in flight was thrown away.
    fn handle_opened(&mut self) {
        self.timers.handle_opened();
        self.board.mark_lost(|index, sent| index == 0 && sent.end - sent.start <= 1);
    }

    /// Whether a recovery has ended.
    fn end_recovery(&mut self) -> bool {
        let is_over = self.recovery.is_some_and(|end| self.una >= end);
        if is_over {
            (self.recovery, self.timed_out) = (None, false);
            self.rack.handle_recovered();
        }
        is_over
    }

    /// The last cut was wrong.
    fn undo(&mut self, now: Time) {
        self.congestion.undo(now);
        self.undone += 1;
        if !self.timed_out {
            self.recovery = None;
        }
    }

    fn end_tail(&mut self, ack: &Ack, duplicate: bool, now: Time) {
        if self.tail.handle_ack(ack, duplicate) && self.recovery.is_none() {
            // The probe repaired a loss that was not detected otherwise (RFC 8985 section 7.4.2).
            self.congestion.handle_loss(self.board.flying(), now);
            self.spurious.forget();
        }
    }

    /// Looks for losses, by RACK or, without SACK, by counting.
    pub(super) fn detect(&mut self, has_progress: bool, now: Time) {
        let found = if self.sack {
            let paths = self.paths();
            let (again, found) = self.rack.detect(&mut self.board, paths, now);
            self.timers.set_reorder(again);
            found
        } else {
            let partial = has_progress && self.recovery.is_some();
            // RFC 6582 section 3.2: whatever the window says, which nothing deflates.
            self.force |= partial;
            let is_lost = partial || (self.duplicates == DUPLICATES && self.recovery.is_none());
            is_lost && self.board.mark_lost(|index, sent| index == 0 && sent.fate == Fate::Flying)
        };
        if found && self.recovery.is_none() {
            self.recovery = Some(self.next);
            self.congestion.handle_loss(self.board.flying(), now);
            self.spurious.forget();
            self.force = true;
        }
        if found {
            self.note_lost_trains(now);
            let lost = self.board.iter().filter(|sent| sent.fate == Fate::Lost);
            lost.for_each(|sent| self.spurious.handle_lost(sent.start..sent.end));
        }
    }
}
