//! The segments that are in flight, and what is known of each (RFC 6675 calls it the scoreboard).

use core::ops::Range;
use std::collections::VecDeque;

use weft_base::Time;

/// An idle connection keeps memory for this many segments.
const FEW: usize = 16;

/// What is believed of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is in flight.
    Flying,
    /// The peer has it, and something before it is missing.
    Sacked,
    /// It is lost, and was not retransmitted since.
    Lost,
}

/// A segment, as it was last sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// When.
    pub(crate) at: Time,
    /// How often.
    pub(crate) times: u32,
    /// The number of the train that it left in; 0, it left by itself.
    pub(crate) train: u32,
    pub(crate) fate: Fate,
}

impl Sent {
    const fn length(&self) -> u64 {
        self.end - self.start
    }
}

/// Segments in the order of the stream, without gaps between them.
#[derive(Debug)]
pub(crate) struct Scoreboard {
    list: VecDeque<Sent>,
    limit: usize,
    flying: u64,
    lost: usize,
    sacked: usize,
}

impl Scoreboard {
    /// For at most `limit` segments; memory is taken as they come.
    pub(crate) fn new(limit: usize) -> Self {
        Self { list: VecDeque::new(), limit, flying: 0, lost: 0, sacked: 0 }
    }

    /// Segments that there may be.
    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// Whether it has memory for more than a few.
    pub(crate) fn is_large(&self) -> bool {
        self.list.capacity() > FEW
    }

    /// Keeps memory for a few, when none is in flight.
    pub(crate) fn shrink(&mut self) {
        self.list.shrink_to(FEW);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.list.len() < self.limit
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Bytes in flight: neither lost nor there (the "pipe" of RFC 6675 section 4).
    pub(crate) const fn flying(&self) -> u64 {
        self.flying
    }

    /// Segments that the peer has beyond a gap.
    pub(crate) const fn sacked(&self) -> usize {
        self.sacked
    }

    pub(crate) const fn has_lost(&self) -> bool {
        self.lost > 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Sent> {
        self.list.iter()
    }

    pub(crate) fn push(&mut self, range: Range<u64>, at: Time) {
        self.flying += range.end - range.start;
        self.list.push_back(Sent { start: range.start, end: range.end, at, times: 1, train: 0, fate: Fate::Flying });
    }

    /// The segments there have just left in the train of this number.
    pub(crate) fn join(&mut self, range: &Range<u64>, train: u32) {
        let first = self.list.partition_point(|sent| sent.start < range.start);
        let joined = self.list.iter_mut().skip(first).take_while(|sent| sent.end <= range.end);
        joined.for_each(|sent| sent.train = train);
    }

    /// Tells `lost` the numbers of trains of which all that the peer has not acknowledged is believed lost.
    pub(crate) fn lost_trains(&self, mut lost: impl FnMut(u32)) {
        // Segments that left in one train are next to each other.
        let mut run = (0, false);
        for sent in &self.list {
            let is_lost = sent.fate == Fate::Lost;
            if sent.train == run.0 {
                run.1 &= is_lost;
                continue;
            }
            if run.0 != 0 && run.1 {
                lost(run.0);
            }
            run = (sent.train, is_lost);
        }
        if run.0 != 0 && run.1 {
            lost(run.0);
        }
    }

    /// The peer has all before `position`. Calls `found` for each segment of which that is news.
    pub(crate) fn acknowledge(&mut self, position: u64, mut found: impl FnMut(&Sent)) {
        while let Some(first) = self.list.front_mut()
            && first.start < position
        {
            if first.end > position {
                if first.fate == Fate::Flying {
                    self.flying -= position - first.start;
                }
                first.start = position;
                return;
            }
            let Some(first) = self.list.pop_front() else { return };
            self.count(&first, -1);
            if first.fate != Fate::Sacked {
                found(&first);
            }
        }
    }

    /// The peer has this. Calls `found` for each segment of which that is news. A segment of which a block holds only a
    /// part is retransmitted whole.
    pub(crate) fn sack(&mut self, block: &Range<u64>, mut found: impl FnMut(&Sent)) {
        let from = self.list.partition_point(|sent| sent.start < block.start);
        for index in from..self.list.len() {
            if self.list[index].end > block.end {
                return;
            }
            if self.list[index].fate != Fate::Sacked {
                found(&self.list[index]);
                self.set(index, Fate::Sacked);
            }
        }
    }

    /// Believes those lost for which `is_lost` is true, and that are in flight. Whether there were any.
    pub(crate) fn mark_lost(&mut self, mut is_lost: impl FnMut(usize, &Sent) -> bool) -> bool {
        let before = self.lost;
        for index in 0..self.list.len() {
            if self.list[index].fate == Fate::Flying && is_lost(index, &self.list[index]) {
                self.set(index, Fate::Lost);
            }
        }
        self.lost > before
    }

    /// The peer may have thrown away what it has acknowledged selectively (RFC 2018 section 8).
    pub(crate) fn forget_sacks(&mut self) {
        for index in 0..self.list.len() {
            if self.list[index].fate == Fate::Sacked {
                self.set(index, Fate::Lost);
            }
        }
    }

    /// Whether the peer says that it has the very first, and yet does not acknowledge it.
    pub(crate) fn is_reneged(&self) -> bool {
        self.list.front().is_some_and(|first| first.fate == Fate::Sacked)
    }

    /// The first that is lost.
    pub(crate) fn first_lost(&self) -> Option<usize> {
        if self.lost == 0 { None } else { self.list.iter().position(|sent| sent.fate == Fate::Lost) }
    }

    /// Bytes that a retransmission of a segment would add to those in flight.
    pub(crate) fn length(&self, index: usize, longest: u64) -> u64 {
        self.list[index].length().min(longest)
    }

    /// Sends a segment again, or as much from its start as is allowed; the rest becomes one of its own.
    pub(crate) fn resend(&mut self, index: usize, longest: u64, at: Time) -> Range<u64> {
        if self.list[index].length() > longest {
            self.split(index, longest);
        }
        self.set(index, Fate::Flying);
        let sent = &mut self.list[index];
        (sent.at, sent.times, sent.train) = (at, sent.times + 1, 0);
        sent.start..sent.end
    }

    fn split(&mut self, index: usize, length: u64) {
        let mut rest = self.list[index].clone();
        rest.start += length;
        self.list[index].end = rest.start;
        match rest.fate {
            Fate::Lost => self.lost += 1,
            Fate::Sacked => self.sacked += 1,
            Fate::Flying => (),
        }
        self.list.insert(index + 1, rest);
    }

    fn set(&mut self, index: usize, fate: Fate) {
        let sent = self.list[index].clone();
        self.count(&sent, -1);
        self.list[index].fate = fate;
        self.count(&Sent { fate, ..sent }, 1);
    }

    fn count(&mut self, sent: &Sent, change: i64) {
        match sent.fate {
            Fate::Flying => self.flying = self.flying.saturating_add_signed(change * sent.length() as i64),
            Fate::Sacked => self.sacked = self.sacked.saturating_add_signed(change as isize),
            Fate::Lost => self.lost = self.lost.saturating_add_signed(change as isize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Scoreboard {
        let mut board = Scoreboard::new(8);
        (0..5).for_each(|index| board.push(index * 10..index * 10 + 10, Time::from_nanos(index)));
        board
    }

    fn counts(board: &Scoreboard) -> (u64, usize, usize) {
        let of = |fate| board.iter().filter(move |sent| sent.fate == fate);
        assert_eq!(board.flying, of(Fate::Flying).map(Sent::length).sum::<u64>());
        assert_eq!((board.sacked, board.lost), (of(Fate::Sacked).count(), of(Fate::Lost).count()));
        (board.flying, board.sacked, board.lost)
    }

    #[test]
    fn what_is_told_once_is_news_once() {
        let (mut board, mut news) = (board(), Vec::new());
        board.sack(&(15..45), |sent| news.push(sent.start));
        board.sack(&(20..50), |sent| news.push(sent.start));
        assert_eq!((&news[..], counts(&board)), (&[20, 30, 40][..], (20, 3, 0)));
        board.acknowledge(5, |_| panic!("not all of it"));
        assert_eq!(counts(&board), (15, 3, 0));
        board.acknowledge(40, |sent| news.push(sent.start));
        assert_eq!((&news[3..], counts(&board)), (&[5, 10][..], (0, 1, 0)));
    }

    #[test]
    fn the_lost_go_out_again_in_pieces_that_fit() {
        let mut board = board();
        assert!(board.mark_lost(|_, sent| sent.start == 10));
        assert!(!board.mark_lost(|_, sent| sent.start == 10));
        assert_eq!(counts(&board), (40, 0, 1));
        let index = board.first_lost().unwrap();
        assert_eq!(board.resend(index, 4, Time::from_nanos(9)), 10..14);
        assert_eq!((board.first_lost(), counts(&board)), (Some(2), (44, 0, 1)));
        assert_eq!(board.resend(2, 100, Time::from_nanos(9)), 14..20);
        assert_eq!((board.first_lost(), counts(&board)), (None, (50, 0, 0)));
    }

    #[test]
    fn a_train_is_lost_when_all_of_it_is() {
        let mut board = board();
        board.join(&(0..20), 1);
        board.join(&(30..50), 2);
        let lost = |board: &Scoreboard| {
            let mut lost = Vec::new();
            board.lost_trains(|train| lost.push(train));
            lost
        };
        board.mark_lost(|index, _| index != 4);
        assert_eq!(lost(&board), [1]);
        board.mark_lost(|_, _| true);
        assert_eq!(lost(&board), [1, 2]);
        assert_eq!(board.resend(4, 100, Time::from_nanos(9)), 40..50);
        assert_eq!((board.list[4].train, lost(&board)), (0, vec![1, 2]), "what goes again goes by itself");
    }

    #[test]
    fn a_peer_that_takes_back_its_word_gets_all_again() {
        let mut board = board();
        board.sack(&(0..20), |_| ());
        assert!(board.is_reneged());
        board.forget_sacks();
        assert_eq!(counts(&board), (30, 0, 2));
    }
}
