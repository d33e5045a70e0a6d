//! Whether losses were losses: RFC 3708, by the peer's reports of what it had twice (RFC 2883).

use core::ops::Range;

use arrayvec::ArrayVec;

/// At most this many segments may be believed lost in one recovery for its cut to be taken back: more are no accident.
const MOST: usize = 32;

/// The losses for which the window was cut last.
#[derive(Debug, Default)]
pub(crate) struct Spurious {
    /// What was believed lost, and is not known to have arrived.
    open: ArrayVec<Range<u64>, MOST>,
    /// There were too many.
    is_over: bool,
}

impl Spurious {
    /// Another cut, or nothing can be found out any more.
    pub(crate) fn forget(&mut self) {
        (self.open, self.is_over) = (ArrayVec::new(), false);
    }

    /// This is believed lost. It may be reported again.
    pub(crate) fn handle_lost(&mut self, span: Range<u64>) {
        let is_known = self.open.iter().any(|open| open.start <= span.start && span.end <= open.end);
        if !is_known && self.open.try_push(span).is_err() {
            self.is_over = true;
        }
    }

    /// This has arrived although it may have been believed lost: the peer had it twice, or it was never retransmitted.
    /// Whether nothing remains of the losses.
    pub(crate) fn handle_arrived(&mut self, span: &Range<u64>) -> bool {
        let before = self.open.len();
        self.open.retain(|open| {
            if span.start <= open.start {
                open.start = open.start.max(span.end);
            } else if open.end <= span.end {
                open.end = open.end.min(span.start);
            }
            open.start < open.end
        });
        before > 0 && self.open.is_empty() && !self.is_over
    }
}

#[cfg(test)]
#[allow(clippy::reversed_empty_ranges, reason = "a peer may say so")]
mod tests {
    use super::*;

    #[test]
    fn all_that_was_believed_lost_must_have_arrived() {
        let mut spurious = Spurious::default();
        assert!(!spurious.handle_arrived(&(0..10)), "nothing was lost");
        spurious.handle_lost(10..20);
        spurious.handle_lost(30..40);
        spurious.handle_lost(30..40);
        for other in [0..10, 20..30, 15..18, 50..90, 35..31] {
            assert!(!spurious.handle_arrived(&other), "{other:?}");
        }
        assert!(!spurious.handle_arrived(&(5..25)));
        assert!(!spurious.handle_arrived(&(30..35)));
        assert!(spurious.handle_arrived(&(35..40)));
        assert!(!spurious.handle_arrived(&(35..40)), "once");
    }

    #[test]
    fn too_many_are_no_accident() {
        let mut spurious = Spurious::default();
        (0..=MOST as u64).for_each(|index| spurious.handle_lost(index * 10..index * 10 + 10));
        assert!(!spurious.handle_arrived(&(0..1000)));
        spurious.forget();
        spurious.handle_lost(0..10);
        assert!(spurious.handle_arrived(&(0..10)));
    }
}
