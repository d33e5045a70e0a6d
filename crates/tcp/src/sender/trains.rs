//! Whether segments may leave in trains: as one frame that a device is to cut. Behind some devices is a bridge in user
//! space, or another program, that drops what was not cut. The sign of that is that whole trains are lost while
//! segments that were sent by themselves arrive, as large packets vanish in a black hole of the path's MTU (RFC 8899
//! section 4.3).

use core::time::Duration;

use weft_base::Time;

/// Trains whose fate is remembered.
const KNOWN: u32 = u64::BITS;
/// A path that lost trains is tried again with one after this time: two interruptions look like such a path, too. RFC
/// 8899 section 5.1.1 waits 600 s for larger packets; a train that is lost costs less than its probes.
pub(crate) const TRIAL_AFTER: Duration = Duration::from_secs(60);

/// What became of the trains of a connection.
#[derive(Debug, Default)]
pub(crate) struct Trains {
    /// Trains so far: each has the number that it made this.
    count: u32,
    /// Of the last [`KNOWN`] trains, those of which something arrived, and those that were counted as lost.
    arrived: u64,
    lost: u64,
    /// One was lost, and nothing of a later one has arrived since.
    suspicion: Option<Suspicion>,
    /// None is sent since then.
    avoided_since: Option<Time>,
}

/// What happened since a train was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspicion {
    /// Nothing: whether single segments pass is unknown.
    Lost,
    /// A single segment has arrived, when there had been this many trains. A later one that is lost is the proof.
    SinglePassed(u32),
}

impl Trains {
    /// Trains so far.
    pub(crate) const fn count(&self) -> u64 {
        self.count as u64
    }

    /// Whether the next segments may leave as a train.
    pub(crate) fn may_leave(&self, now: Time) -> bool {
        self.avoided_since.is_none_or(|since| now.since(since) >= TRIAL_AFTER)
    }

    /// Since when none is sent, if that is so.
    pub(crate) const fn avoided_since(&self) -> Option<Time> {
        self.avoided_since
    }

    /// None is sent, as if two had been lost at that time.
    pub(crate) const fn avoid(&mut self, since: Time) {
        self.avoided_since = Some(since);
    }

    /// A train leaves; its number, which is never 0.
    pub(crate) fn begin(&mut self, now: Time) -> u32 {
        self.count = self.count.wrapping_add(1).max(1);
        let bit = bit(self.count);
        self.arrived &= !bit;
        self.lost &= !bit;
        if self.avoided_since.is_some() {
            // This is the trial.
            self.avoided_since = Some(now);
        }
        self.count
    }

    /// A segment has arrived that was last sent in the train of this number, or, with 0, by itself.
    pub(crate) const fn handle_arrived(&mut self, train: u32) {
        if train == 0 {
            if let Some(Suspicion::Lost) = self.suspicion {
                self.suspicion = Some(Suspicion::SinglePassed(self.count));
            }
        } else if self.is_known(train) {
            self.arrived |= bit(train);
            (self.suspicion, self.avoided_since) = (None, None);
        }
    }

    /// All of a train that was not acknowledged is believed lost.
    pub(crate) fn handle_lost(&mut self, train: u32, now: Time) {
        if !self.is_known(train) || (self.arrived | self.lost) & bit(train) != 0 {
            return;
        }
        self.lost |= bit(train);
        self.suspicion = match self.suspicion {
            Some(Suspicion::SinglePassed(before)) if train > before => {
                self.avoided_since = Some(now);
                None
            }
            Some(suspicion) => Some(suspicion),
            None => Some(Suspicion::Lost),
        };
    }

    const fn is_known(&self, train: u32) -> bool {
        train <= self.count && self.count - train < KNOWN
    }
}

const fn bit(train: u32) -> u64 {
    1 << (train % KNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_nanos(5_000_000_000);

    /// Loses the next train.
    fn lose(trains: &mut Trains) {
        let train = trains.begin(NOW);
        trains.handle_lost(train, NOW);
    }

    #[test]
    fn two_trains_lost_and_a_single_segment_between_them_are_the_proof() {
        let mut trains = Trains::default();
        lose(&mut trains);
        trains.handle_arrived(0);
        assert!(trains.may_leave(NOW));
        lose(&mut trains);
        assert!(!trains.may_leave(NOW));
        assert_eq!(trains.avoided_since(), Some(NOW));
    }

    #[test]
    fn an_interruption_that_loses_all_proves_nothing() {
        let mut trains = Trains::default();
        // Sent before the path came back, however many.
        let before: Vec<u32> = (0..3).map(|_| trains.begin(NOW)).collect();
        trains.handle_lost(before[0], NOW);
        trains.handle_arrived(0);
        trains.handle_lost(before[1], NOW);
        trains.handle_lost(before[2], NOW);
        trains.handle_lost(before[2], NOW);
        assert!(trains.may_leave(NOW));
        let next = trains.begin(NOW);
        trains.handle_arrived(next);
        lose(&mut trains);
        trains.handle_arrived(0);
        assert!(trains.may_leave(NOW), "one passed in between");
    }

    #[test]
    fn of_a_train_that_arrived_in_part_the_path_carries_trains() {
        let mut trains = Trains::default();
        lose(&mut trains);
        trains.handle_arrived(0);
        let train = trains.begin(NOW);
        trains.handle_arrived(train);
        trains.handle_lost(train, NOW);
        assert!(trains.may_leave(NOW));
    }

    #[test]
    fn after_a_minute_one_is_tried() {
        let mut trains = Trains::default();
        trains.avoid(NOW);
        let later = NOW + TRIAL_AFTER;
        assert!(!trains.may_leave(NOW) && trains.may_leave(later));
        let trial = trains.begin(later);
        assert!(!trains.may_leave(later), "one, not many");
        trains.handle_lost(trial, later);
        trains.handle_arrived(0);
        assert!(!trains.may_leave(later));
        let trial = trains.begin(later + TRIAL_AFTER);
        trains.handle_arrived(trial);
        assert!(trains.may_leave(later + TRIAL_AFTER));
    }

    #[test]
    fn a_forgotten_segment_is_not_taken_for_another() {
        let mut trains = Trains::default();
        let first = trains.begin(NOW);
        (1..KNOWN).for_each(|_| {
            trains.begin(NOW);
        });
        assert!(trains.is_known(first));
        let same_bit = trains.begin(NOW);
        trains.handle_lost(first, NOW);
        assert_eq!((trains.lost, trains.suspicion), (0, None));
        trains.handle_lost(same_bit, NOW);
        assert_ne!(trains.lost, 0);
    }
}
