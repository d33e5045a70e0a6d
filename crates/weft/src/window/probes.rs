//! Which ranks are probed, and when: a rank that has ended in good order is not reported, and a probe that fails shows
//! it.

use core::time::Duration;

use arrayvec::ArrayVec;
use weft_base::Time;

/// The time between two probes, and the longest wait before the clock is read again.
pub(super) const PERIOD: Duration = Duration::from_secs(1);
/// Ranks probed at a time, at most. Each of `n` ranks that wait probes this many others in each period, in turn. So
/// each rank is probed by as many, and one that is gone is found by some rank within two periods or so. That rank fails
/// its windows and tells the others; they find it by themselves within `n / MOST` periods.
pub(super) const MOST: usize = 8;

/// Whose messages a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// No rank's: it waits for this rank's own NIC.
    Nobody,
    /// This rank's alone. Others may have left in good order.
    Rank(usize),
    /// Those of any rank. None of them may have left: the window is still there.
    Anybody,
}

/// The probes of one rank.
pub(super) struct Probes {
    /// By rank: whether anything was sent there, or came from there; and whether a probe is in flight.
    is_met: Vec<bool>,
    is_probed: Vec<bool>,
    /// Those that were met, in the order in which they were.
    met: Vec<usize>,
    /// Which of them is next.
    next: usize,
    last: Time,
    /// The time between two probes of a rank that is awaited.
    pub(super) period: Duration,
}

impl Probes {
    pub(super) fn new(ranks: usize) -> Self {
        let (is_met, is_probed) = (vec![false; ranks], vec![false; ranks]);
        Self { is_met, is_probed, met: Vec::new(), next: 0, last: Time::ZERO, period: PERIOD }
    }

    /// There is a connection to this rank.
    pub(super) fn meet(&mut self, rank: usize) {
        if !core::mem::replace(&mut self.is_met[rank], true) {
            self.met.push(rank);
        }
    }

    /// A probe of this rank is over.
    pub(super) fn finish(&mut self, rank: usize) {
        self.is_probed[rank] = false;
    }

    /// The ranks to be probed now. Where any rank is awaited, those with which there is a connection take turns.
    pub(super) fn due(
        &mut self,
        now: Time,
        awaited: Awaited,
        is_lost: impl Fn(usize) -> bool,
    ) -> ArrayVec<usize, MOST> {
        let mut due = ArrayVec::new();
        if awaited == Awaited::Nobody || now < self.last + self.period {
            return due;
        }
        self.last = now;
        let count = match awaited {
            Awaited::Rank(_) => 1,
            _ => self.met.len().min(MOST),
        };
        for _ in 0..count {
            let rank = match awaited {
                Awaited::Rank(rank) => rank,
                _ => self.take_next(),
            };
            if !is_lost(rank) && !core::mem::replace(&mut self.is_probed[rank], true) {
                due.push(rank);
            }
        }
        due
    }

    /// The next of those that were met; there is one.
    fn take_next(&mut self) -> usize {
        if self.next >= self.met.len() {
            self.next = 0;
        }
        self.next += 1;
        self.met[self.next - 1]
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;
    use std::collections::BTreeSet;

    use super::*;

    fn at(periods: u32) -> Time {
        Time::ZERO + PERIOD * periods
    }

    fn met(ranks: usize) -> Probes {
        let mut probes = Probes::new(ranks);
        for rank in (0..ranks).chain(0..ranks) {
            probes.meet(rank);
        }
        probes
    }

    #[test]
    fn a_period_has_no_more_steps_with_more_ranks_and_each_rank_has_its_turn() {
        for ranks in [10, 1000, 100_000] {
            let mut probes = met(ranks);
            let mut probed = BTreeSet::new();
            let periods = ranks.div_ceil(MOST);
            for period in 1..=periods {
                let asked = Cell::new(0);
                let is_lost = |_| {
                    asked.set(asked.get() + 1);
                    false
                };
                let due = probes.due(at(period as u32), Awaited::Anybody, is_lost);
                assert_eq!((due.len() <= MOST, asked.get()), (true, MOST), "{ranks} ranks, period {period}");
                due.iter().for_each(|rank| probes.finish(*rank));
                probed.extend(due);
            }
            assert_eq!(probed.len(), ranks, "in {periods} periods");
        }
    }

    #[test]
    fn few_ranks_are_all_probed_in_each_period_unless_a_probe_is_in_flight_or_they_are_lost() {
        let mut probes = met(4);
        assert_eq!(probes.due(at(1), Awaited::Anybody, |_| false)[..], [0, 1, 2, 3]);
        assert!(probes.due(at(1), Awaited::Anybody, |_| false).is_empty(), "once in a period");
        probes.finish(2);
        probes.finish(3);
        assert_eq!(probes.due(at(2), Awaited::Anybody, |rank| rank == 3)[..], [2]);
    }

    #[test]
    fn only_ranks_that_are_awaited_and_were_met_are_probed() {
        let mut probes = Probes::new(4);
        assert!(probes.due(at(1), Awaited::Anybody, |_| false).is_empty());
        probes.meet(3);
        assert!(probes.due(at(2), Awaited::Nobody, |_| false).is_empty());
        assert_eq!(probes.due(at(2), Awaited::Rank(1), |_| false)[..], [1], "met or not");
        assert!(probes.due(at(3), Awaited::Rank(1), |_| false).is_empty(), "it is in flight");
        assert_eq!(probes.due(at(4), Awaited::Anybody, |_| false)[..], [3]);
    }
}
