//! Credits of one class of packets: those that a peer has granted us, and those that we have granted it.
//!
//! Those of data packets grow with the distance. What may be under way bounds the throughput to that much in each
//! round trip, and a grant that is right between neighbours would leave a long way nearly empty. A sender whose
//! messages have waited for credits for longer than [`LONG_WAIT`] says so, once; the receiver doubles what it grants as
//! soon as it can.

use core::time::Duration;

use weft_base::Time;

/// Credits that come back later than this were on a long way: between neighbours they take some microseconds.
pub(super) const LONG_WAIT: Duration = Duration::from_millis(1);

/// What we want of a peer beyond what it grants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Want {
    #[default]
    Nothing,
    /// Twice as many credits: the next packet says it.
    More,
    /// That was said.
    Asked,
}

/// Packets that we may still send.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Allowance {
    granted: u16,
    left: u16,
    /// Since when none was left.
    empty_since: Option<Time>,
    want: Want,
}

impl Allowance {
    pub(super) const fn new(granted: u16) -> Self {
        Self { granted, left: granted, empty_since: None, want: Want::Nothing }
    }

    pub(super) const fn left(&self) -> u16 {
        self.left
    }

    pub(super) fn take(&mut self, now: Time) {
        self.left -= 1;
        if self.left == 0 {
            self.empty_since = Some(now);
        }
    }

    /// Returns an unused credit. Credits of a connection that has been closed meanwhile are void.
    pub(super) fn put_back(&mut self) {
        self.left = self.granted.min(self.left + 1);
        self.empty_since = None;
    }

    /// The peer returns some. Returns whether that is valid: not more than were used.
    pub(super) const fn refill(&mut self, count: u16) -> bool {
        let fits = count <= self.granted - self.left;
        if fits {
            self.left += count;
        }
        fits
    }

    /// What was given back has come to something that waited for it, if there is any: after a long wait we want more.
    pub(super) fn note_refilled(&mut self, had_waiting: bool, now: Time) {
        let Some(since) = self.empty_since.filter(|_| self.left > 0) else { return };
        self.empty_since = None;
        if had_waiting && now.since(since) >= LONG_WAIT {
            self.want_more();
        }
    }

    /// More would be of use.
    pub(super) fn want_more(&mut self) {
        if self.want == Want::Nothing {
            self.want = Want::More;
        }
    }

    /// Whether the peer is to be told that we want more.
    pub(super) fn asks(&self) -> bool {
        self.want == Want::More
    }

    /// Whether the packet that is being written is to say that we want more. It does.
    pub(super) fn ask(&mut self) -> bool {
        let asks = self.asks();
        if asks {
            self.want = Want::Asked;
        }
        asks
    }

    /// The peer grants twice as many. Returns whether it was asked to, and there are such numbers.
    pub(super) fn double(&mut self) -> bool {
        let Some(granted) = self.granted.checked_mul(2).filter(|_| self.want == Want::Asked) else { return false };
        self.left += self.granted;
        self.granted = granted;
        self.want = Want::Nothing;
        true
    }
}

/// How far a grant has come on its way to be doubled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Growth {
    #[default]
    None,
    /// The peer wants it.
    Wanted,
    /// The NIC posts receive requests for it.
    Prepared,
    /// It is: the next packet says so.
    Due,
}

/// Packets that the peer may still send.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CreditsOwed {
    granted: u16,
    /// Packets whose credit was not returned.
    used: u16,
    /// Credits that can be returned.
    owed: u16,
    growth: Growth,
}

impl CreditsOwed {
    pub(super) const fn new(granted: u16) -> Self {
        Self { granted, used: 0, owed: 0, growth: Growth::None }
    }

    pub(super) const fn granted(&self) -> u16 {
        self.granted
    }

    /// A packet was received. Returns whether the peer had a credit.
    pub(super) const fn charge(&mut self) -> bool {
        let had = self.used < self.granted;
        if had {
            self.used += 1;
        }
        had
    }

    /// The credit of a packet can be returned.
    pub(super) fn release(&mut self) {
        debug_assert!(self.owed < self.used, "a credit is returned twice");
        self.owed += 1;
    }

    /// Packets whose credit is withheld.
    pub(super) const fn held(&self) -> u16 {
        self.used - self.owed
    }

    /// Whether to return credits in a packet of their own: half of them are owed, or the peer has none. At most two
    /// such packets are in flight at a time, for together they return no more than there are.
    pub(super) fn is_due(&self) -> bool {
        let is_worth = self.owed > 0 && (self.owed >= self.granted.div_ceil(2) || self.used == self.granted);
        is_worth || self.growth == Growth::Due
    }

    /// Returns all owed credits.
    pub(super) const fn give_back(&mut self) -> u16 {
        let owed = self.owed;
        self.used -= owed;
        self.owed = 0;
        owed
    }

    /// The peer wants twice as many.
    pub(super) fn want(&mut self) {
        if self.growth == Growth::None {
            self.growth = Growth::Wanted;
        }
    }

    /// Whether the peer wants more and all that it has sent was taken: then this side is not behind.
    pub(super) fn may_grow(&self) -> bool {
        self.growth == Growth::Wanted && self.held() == 0
    }

    /// More is being prepared.
    pub(super) fn prepare(&mut self) {
        self.growth = Growth::Prepared;
    }

    /// What was prepared is there, or can't be had. Returns how many more are granted; `None`: nothing was prepared.
    pub(super) fn grow(&mut self, is_there: bool) -> Option<u16> {
        if self.growth != Growth::Prepared {
            return None;
        }
        if !is_there {
            self.growth = Growth::None;
            return Some(0);
        }
        let more = self.granted;
        self.granted += more;
        self.growth = Growth::Due;
        Some(more)
    }

    /// Whether the packet that is being written is to say that twice as many are granted. It does.
    pub(super) fn announce_growth(&mut self) -> bool {
        let is_due = self.growth == Growth::Due;
        if is_due {
            self.growth = Growth::None;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(us: u64) -> Time {
        Time::from_nanos(us * 1000)
    }

    /// All credits are used up, and come back after this time, for something that waits or nothing.
    fn used_up(wait_us: u64, had_waiting: bool) -> Allowance {
        let mut allowance = Allowance::new(2);
        for _ in 0..2 {
            allowance.take(at(0));
        }
        assert!(allowance.refill(1));
        allowance.note_refilled(had_waiting, at(wait_us));
        allowance
    }

    #[test]
    fn more_are_wanted_after_a_long_wait_of_something_and_once() {
        assert!(!used_up(999, true).ask(), "as between neighbours");
        assert!(!used_up(10_000, false).ask(), "nothing waited");
        let mut allowance = used_up(1000, true);
        assert!(allowance.ask() && !allowance.ask());
        allowance.take(at(2000));
        assert!(allowance.refill(2));
        allowance.note_refilled(true, at(9000));
        assert!(!allowance.ask(), "that was said");
        assert!(allowance.double() && allowance.left() == 4);
        assert!(!allowance.double(), "it was asked once");
    }

    #[test]
    fn a_credit_that_is_left_is_no_wait() {
        let mut allowance = Allowance::new(2);
        allowance.take(at(0));
        assert!(allowance.refill(1));
        allowance.note_refilled(true, at(10_000));
        assert!(!allowance.ask());
    }

    #[test]
    fn a_grant_grows_when_all_was_taken_and_the_peer_is_told_once() {
        let mut owed = CreditsOwed::new(2);
        assert!(owed.charge() && !owed.may_grow());
        owed.want();
        assert!(!owed.may_grow(), "a packet is held");
        owed.release();
        assert!(owed.may_grow());
        assert_eq!(owed.grow(true), None, "nothing was prepared");
        owed.prepare();
        owed.want();
        assert!(!owed.may_grow() && !owed.announce_growth());
        assert_eq!(owed.grow(true), Some(2));
        assert!(owed.granted() == 4 && owed.is_due() && owed.announce_growth() && !owed.announce_growth());
        owed.want();
        owed.prepare();
        assert_eq!((owed.grow(false), owed.granted()), (Some(0), 4), "there was no memory for it");
    }
}
