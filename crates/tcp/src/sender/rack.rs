//! Which segments are lost, by when they and others were sent: RACK (RFC 8985 section 6).

use core::time::Duration;

use weft_base::Time;

use super::board::{Fate, Scoreboard, Sent};

/// Without disorder so far, this many segments beyond a gap are as good as a timer (RFC 8985 section 6.2 step 4).
const DUPLICATES: usize = 3;
/// For this many recoveries a wider window is kept after a spurious retransmission (RACK.reo_wnd_persist).
const PERSIST: u32 = 16;
/// The window is at most this many quarters of the least round trip; it never is more than the smoothed one either.
const MOST_QUARTERS: u32 = 255;

/// The state of RACK.
#[derive(Debug)]
pub(crate) struct Rack {
    /// When the segment was sent that is known to have arrived and was sent last of those, where it ends, and whether
    /// it was a retransmission.
    at: Time,
    end: u64,
    again: bool,
    /// Its round trip.
    round_trip: Duration,
    /// The end of the highest segment that has arrived.
    highest: u64,
    reordering_seen: bool,
    quarters: u32,
    persist: u32,
    /// The window was widened for this round; not again before what was sent then is acknowledged.
    widened_until: Option<u64>,
}

/// What bounds the reordering window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paths {
    pub(crate) least: Duration,
    pub(crate) smoothed: Duration,
    pub(crate) in_recovery: bool,
}

impl Rack {
    pub(crate) const fn new() -> Self {
        Self {
            at: Time::ZERO,
            end: 0,
            again: false,
            round_trip: Duration::ZERO,
            highest: 0,
            reordering_seen: false,
            quarters: 1,
            persist: 0,
            widened_until: None,
        }
    }

    /// A segment is known to have arrived (steps 2 and 3). `is_echo_older`: the acknowledgement was caused by an
    /// earlier copy.
    pub(crate) fn handle_arrival(&mut self, sent: &Sent, least: Duration, is_echo_older: bool, now: Time) {
        let round_trip = now.since(sent.at);
        if sent.end > self.highest {
            self.highest = sent.end;
        } else if sent.end < self.highest && sent.times == 1 {
            self.reordering_seen = true;
        }
        if sent.times > 1 && (is_echo_older || round_trip < least) {
            return;
        }
        self.round_trip = round_trip;
        if is_after((sent.at, sent.end), (self.at, self.end)) {
            (self.at, self.end, self.again) = (sent.at, sent.end, sent.times > 1);
        }
    }

    /// The peer had a segment twice: the window was too narrow (step 4).
    pub(crate) fn handle_duplicate(&mut self, acknowledged: u64, next: u64) {
        if self.widened_until.is_some_and(|until| acknowledged < until) {
            return;
        }
        self.widened_until = Some(next);
        self.quarters = (self.quarters + 1).min(MOST_QUARTERS);
        self.persist = PERSIST;
    }

    /// Whether something has arrived behind what was sent after it, and had not been retransmitted.
    pub(crate) const fn has_seen_reordering(&self) -> bool {
        self.reordering_seen
    }

    /// A recovery has ended.
    pub(crate) const fn handle_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }

    fn window(&self, paths: Paths, sacked: usize) -> Duration {
        if !self.reordering_seen && (paths.in_recovery || sacked >= DUPLICATES) {
            return Duration::ZERO;
        }
        (paths.least / 4 * self.quarters).min(paths.smoothed)
    }

    /// Believes those lost that were sent long enough before one that arrived (step 5). When to check again for others;
    /// whether there were any.
    pub(crate) fn detect(&self, board: &mut Scoreboard, paths: Paths, now: Time) -> (Option<Time>, bool) {
        let patience = self.round_trip + self.window(paths, board.sacked());
        let mut again = None;
        // What follows it and was sent once was sent after it, unless it was a retransmission itself.
        let last = if self.again { u64::MAX } else { self.end };
        if board.iter().next().is_none_or(|first| first.start >= last) {
            return (None, false);
        }
        let found = board.mark_lost(|_, sent| {
            if sent.start >= last || !is_after((self.at, self.end), (sent.at, sent.end)) {
                return false;
            }
            let due = sent.at + patience;
            if due > now {
                again = again.max(Some(due));
            }
            due <= now
        });
        (again, found)
    }

    /// Those that are lost when nothing has come for a retransmission time-out (section 6.3): the first, and those
    /// sent long ago.
    pub(crate) fn mark_timed_out(&self, board: &mut Scoreboard, paths: Paths, now: Time) {
        let patience = self.round_trip + self.window(paths, board.sacked());
        let first = board.iter().position(|sent| sent.fate != Fate::Sacked);
        board.mark_lost(|index, sent| Some(index) == first || sent.at + patience <= now);
    }
}

/// Whether `this` was sent after `other`; at one time, the one that ends later was.
fn is_after(this: (Time, u64), other: (Time, u64)) -> bool {
    this > other
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(millis: u64) -> Time {
        Time::from_nanos(millis * 1_000_000)
    }

    fn paths(in_recovery: bool) -> Paths {
        Paths { least: 8 * MS, smoothed: 10 * MS, in_recovery }
    }

    /// Five segments, a millisecond apart.
    fn board() -> Scoreboard {
        let mut board = Scoreboard::new(16);
        (0..5).for_each(|index| board.push(index * 10..index * 10 + 10, at(index)));
        board
    }

    fn arrive(rack: &mut Rack, board: &mut Scoreboard, start: u64, now: Time) {
        board.sack(&(start..start + 10), |sent| rack.handle_arrival(sent, 8 * MS, false, now));
    }

    fn lost(board: &Scoreboard) -> Vec<u64> {
        board.iter().filter(|sent| sent.fate == Fate::Lost).map(|sent| sent.start).collect()
    }

    #[test]
    fn one_segment_beyond_waits_and_three_do_not() {
        let (mut rack, mut board) = (Rack::new(), board());
        arrive(&mut rack, &mut board, 10, at(9));
        assert_eq!(rack.detect(&mut board, paths(false), at(9)), (Some(at(10)), false), "8 ms and a quarter");
        arrive(&mut rack, &mut board, 20, at(9));
        arrive(&mut rack, &mut board, 30, at(9));
        assert!(rack.detect(&mut board, paths(false), at(9)).1);
        assert_eq!(lost(&board), [0]);
    }

    #[test]
    fn disorder_and_duplicates_widen_the_window() {
        let (mut rack, mut board) = (Rack::new(), board());
        arrive(&mut rack, &mut board, 40, at(12));
        arrive(&mut rack, &mut board, 30, at(12));
        arrive(&mut rack, &mut board, 20, at(12));
        assert!(rack.reordering_seen);
        // The last that came was sent at 2 ms: 10 ms and 2 for disorder.
        assert!(!rack.detect(&mut board, paths(true), at(11)).1);
        rack.handle_duplicate(0, 50);
        rack.handle_duplicate(40, 60);
        assert_eq!(rack.window(paths(true), 3), 4 * MS, "once in a round");
        rack.handle_duplicate(50, 60);
        assert_eq!(rack.window(paths(true), 3), 6 * MS);
        (0..PERSIST).for_each(|_| rack.handle_recovered());
        assert_eq!(rack.window(paths(true), 3), 2 * MS);
    }

    #[test]
    fn a_retransmission_that_arrives_shows_what_was_sent_before_it() {
        let (mut rack, mut board) = (Rack::new(), board());
        board.mark_lost(|index, _| index == 0);
        board.resend(0, 100, at(20));
        board.acknowledge(10, |sent| rack.handle_arrival(sent, 8 * MS, false, at(30)));
        rack.detect(&mut board, paths(true), at(30));
        assert_eq!(lost(&board), [10, 20, 30, 40]);
    }

    #[test]
    fn an_acknowledgement_of_the_first_copy_says_nothing_of_the_second() {
        let (mut rack, mut board) = (Rack::new(), board());
        board.mark_lost(|index, _| index == 0);
        board.resend(0, 100, at(20));
        board.acknowledge(10, |sent| rack.handle_arrival(sent, 8 * MS, false, at(21)));
        assert_eq!(rack.at, Time::ZERO, "one millisecond is less than a round trip");
        assert_eq!(rack.detect(&mut board, paths(true), at(21)), (None, false));
    }

    #[test]
    fn a_timeout_takes_the_first_and_the_old() {
        let (mut rack, mut board) = (Rack::new(), board());
        rack.round_trip = 10 * MS;
        rack.mark_timed_out(&mut board, paths(true), at(12));
        assert_eq!(lost(&board), [0, 10, 20]);
    }
}
