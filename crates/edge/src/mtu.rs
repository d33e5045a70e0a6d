//! The largest datagram that a path carries (RFC 8899): found by probes that nothing depends on, suspected when larger
//! ones are lost or nothing is answered, and reduced only when probes of it are lost while smaller datagrams pass.

use core::time::Duration;

use weft_base::Time;
use weft_wire::edge::BASE_DATAGRAM;

/// A size is too large when this many probes of it are lost (RFC 8899 section 5.1.2, MAX_PROBES).
const MAX_PROBES: u32 = 3;
/// Resolution of the search, in bytes.
const STEP: usize = 32;
/// This many large datagrams lost over this many round trips, with none acknowledged in between: perhaps a black hole.
/// Reordering may appear as loss, but not for long.
const MAX_VANISHED: u32 = 8;
const VANISHED_ROUND_TRIPS: u32 = 3;
/// A larger size is tried again after this time on an interface that carries less than the peer accepts, while packets
/// arrive, since its MTU may have been raised: a refusal costs one system call and no packet.
const ASK_AFTER: Duration = Duration::from_secs(10);
/// After a size in use has stopped passing, a larger one is tried after this time, then after twice as long each time
/// that it does not pass, up to [`Settings::raise_after`](crate::Settings::raise_after): the path may have changed only
/// for a while.
const RAISE_SOON: Duration = Duration::from_secs(10);
/// A hint about the path's MTU is checked by a probe after this time: it may be false.
const DOUBT_AFTER: Duration = Duration::from_secs(5);

/// The search for the MTU of one rail.
#[derive(Clone, Debug)]
pub(crate) struct Mtu {
    /// The size in use.
    current: usize,
    /// One less than the smallest size that is known not to pass.
    high: usize,
    /// The limit of the interface and the peer, as far as known.
    limit: usize,
    /// The limit set by this side's settings and the peer.
    ceiling: usize,
    /// The size in use before it was suspected. Only [`BASE_DATAGRAM`] is used until a probe of this size was
    /// acknowledged, or lost too often.
    doubted: Option<usize>,
    /// The probe in flight: packet number and size.
    probe: Option<(u64, usize)>,
    failures: u32,
    vanished: u32,
    /// When the first of these was lost.
    vanished_at: Option<Time>,
    raise_at: Option<Time>,
    raise_after: Duration,
    /// How long after the end of a search the next one begins.
    raise_in: Duration,
    /// When to try whether the interface carries more.
    ask_at: Option<Time>,
    /// Whether the next probe, or the one in flight, tests the interface.
    asks: bool,
}

impl Mtu {
    pub(crate) fn new(limit: usize, raise_after: Duration) -> Self {
        let limit = limit.max(BASE_DATAGRAM);
        Self {
            current: BASE_DATAGRAM,
            high: limit,
            limit,
            ceiling: limit,
            doubted: None,
            probe: None,
            failures: 0,
            vanished: 0,
            vanished_at: None,
            raise_at: None,
            raise_after,
            raise_in: raise_after,
            ask_at: None,
            asks: false,
        }
    }

    /// Bytes above UDP that datagrams may have.
    pub(crate) fn current(&self) -> usize {
        self.current
    }

    /// When to search again.
    pub(crate) fn timeout(&self) -> Option<Time> {
        self.raise_at
    }

    /// Starts a new search.
    pub(crate) fn on_timeout(&mut self, now: Time) {
        if self.raise_at.is_some_and(|at| at <= now) {
            self.search_from(self.limit);
        }
    }

    /// The size to probe now: first a suspected one, then the limit, which mostly passes, then halves.
    pub(crate) fn wanted(&self) -> Option<usize> {
        if self.probe.is_some() {
            return None;
        }
        let searches = self.raise_at.is_none() && self.high > self.current;
        let next =
            || if self.high == self.limit { self.high } else { self.current + (self.high - self.current).div_ceil(2) };
        let ask = self.asks.then_some(self.ceiling);
        self.doubted.or(ask).or_else(|| searches.then(next))
    }

    pub(crate) fn on_probe_sent(&mut self, number: u64, size: usize) {
        self.probe = Some((number, size));
    }

    /// A packet of `bytes` was acknowledged.
    pub(crate) fn on_acked(&mut self, number: u64, bytes: usize, now: Time) {
        if bytes > BASE_DATAGRAM {
            (self.vanished, self.vanished_at) = (0, None);
        }
        if self.probe.is_some_and(|(probe, _)| probe == number) {
            (self.probe, self.failures) = (None, 0);
            self.on_passed(bytes, now);
        } else if self.doubted.is_some() && bytes > self.current {
            // It was sent before the suspicion, and needs no probe any more.
            self.on_passed(bytes, now);
        }
        self.asks |= self.ask_at.is_some_and(|at| at <= now) && self.doubted.is_none();
    }

    fn on_passed(&mut self, size: usize, now: Time) {
        self.current = self.current.max(size);
        self.doubted = self.doubted.filter(|doubted| *doubted > size);
        if size > self.limit {
            // The interface carries more than before.
            (self.limit, self.asks, self.ask_at) = (size, false, None);
        }
        self.high = self.high.max(size);
        self.rest_if_found(now);
    }

    /// A packet of `bytes` is lost. Returns true when that shows that a size in use no longer passes.
    pub(crate) fn on_lost(&mut self, number: u64, bytes: usize, round_trip: Duration, now: Time) -> bool {
        if let Some((_, size)) = self.probe.filter(|(probe, _)| *probe == number) {
            self.probe = None;
            return self.on_probe_lost(size, now);
        }
        if bytes <= BASE_DATAGRAM || self.current == BASE_DATAGRAM {
            return false;
        }
        self.vanished += 1;
        let since = *self.vanished_at.get_or_insert(now);
        let long = now.since(since) >= round_trip * VANISHED_ROUND_TRIPS;
        if self.vanished >= MAX_VANISHED && long {
            self.doubt();
        }
        false
    }

    fn on_probe_lost(&mut self, size: usize, now: Time) -> bool {
        if size > self.limit {
            // The interface has accepted what it refused before: whether the path carries it is for the search to find.
            (self.limit, self.asks, self.ask_at) = (self.ceiling, false, None);
            self.search_from(self.ceiling);
        }
        self.failures += 1;
        if self.failures < MAX_PROBES {
            return false;
        }
        let was_sent = self.doubted.take().is_some();
        if was_sent {
            // The search continues below it at once.
            self.raise_at = None;
            self.raise_in = RAISE_SOON.min(self.raise_after);
        }
        self.too_large(size, now);
        was_sent
    }

    /// A probe is neither acknowledged nor lost, and its number will not be settled.
    pub(crate) fn forget_probe(&mut self) {
        self.probe = None;
    }

    /// Repeated silence. It shows no black hole unless smaller datagrams pass meanwhile (RFC 8899 section 4.3); but in
    /// case it is one, probes of the peer must be small.
    pub(crate) fn on_silence(&mut self) {
        if self.current > BASE_DATAGRAM {
            self.doubt();
        }
    }

    /// Suspects that larger datagrams no longer pass: a probe shows it, as soon as the peer answers.
    fn doubt(&mut self) {
        self.doubted = Some(self.current);
        self.current = BASE_DATAGRAM;
        (self.probe, self.failures, self.vanished, self.vanished_at) = (None, 0, 0, None);
    }

    /// Datagrams of `size` bytes do not pass.
    pub(crate) fn too_large(&mut self, size: usize, now: Time) {
        self.failures = 0;
        self.high = self.high.min(size - 1).max(BASE_DATAGRAM);
        self.bound_by_high(now);
    }

    /// A hint says that datagrams of `size` bytes do not pass. They are no longer sent; where that reduces the size in
    /// use, a probe soon checks it (RFC 8899 section 4.6.1: the message may be forged).
    pub(crate) fn hint_too_large(&mut self, size: usize, now: Time) {
        let shrinks = size <= self.doubted.unwrap_or(self.current);
        if shrinks {
            self.raise_in = RAISE_SOON.min(self.raise_after);
        }
        self.too_large(size, now);
        if shrinks && let Some(raise_at) = &mut self.raise_at {
            *raise_at = (*raise_at).min(now + DOUBT_AFTER);
        }
    }

    /// The interface carries exactly `size` bytes, which is tried first from now on. Returns the number of a probe that
    /// the interface has refused.
    pub(crate) fn limit_to(&mut self, size: usize, now: Time) -> Option<u64> {
        let size = size.clamp(BASE_DATAGRAM, self.ceiling);
        self.asks = false;
        self.ask_at = (size < self.ceiling).then(|| now + ASK_AFTER);
        let refused = self.probe.take_if(|(_, probed)| *probed > size).map(|(number, _)| number);
        if size > self.limit {
            self.limit = size;
            self.search_from(size);
        } else if size < self.limit {
            self.limit = size;
            (self.probe, self.failures, self.raise_at) = (None, 0, None);
            self.high = self.high.min(size);
            self.bound_by_high(now);
        }
        refused
    }

    /// Reduces the sizes in use and suspected to what is not known to fail.
    fn bound_by_high(&mut self, now: Time) {
        self.current = self.current.min(self.high);
        self.doubted = self.doubted.map(|doubted| doubted.min(self.high)).filter(|doubted| *doubted > self.current);
        self.rest_if_found(now);
    }

    fn search_from(&mut self, high: usize) {
        (self.high, self.failures, self.raise_at) = (high, 0, None);
    }

    fn rest_if_found(&mut self, now: Time) {
        if self.doubted.is_none() && self.high < self.current + STEP {
            self.high = self.current;
            self.raise_at = (self.current < self.limit).then(|| now + self.raise_in);
            self.raise_in = (2 * self.raise_in).min(self.raise_after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAISE: Duration = Duration::from_secs(10);

    /// Probes until the search ends, over a path that carries `carries` bytes.
    fn search(mtu: &mut Mtu, carries: usize) -> u64 {
        let mut number = 0;
        while let Some(size) = mtu.wanted() {
            mtu.on_probe_sent(number, size);
            if size <= carries {
                mtu.on_acked(number, size, Time::ZERO);
            } else {
                assert!(!mtu.on_lost(number, size, RAISE, Time::ZERO));
            }
            number += 1;
        }
        number
    }

    #[test]
    fn the_search_ends_below_what_passes() {
        for carries in [1200, 1201, 1400, 1472, 8000, 8972] {
            let mut mtu = Mtu::new(8972, RAISE);
            let probes = search(&mut mtu, carries);
            assert!(mtu.current() <= carries && mtu.current() + STEP >= carries, "{carries}: {}", mtu.current());
            assert!(probes <= 30, "{probes}");
        }
    }

    #[test]
    fn one_probe_where_all_passes() {
        let mut mtu = Mtu::new(8972, RAISE);
        assert_eq!(search(&mut mtu, 8972), 1);
        assert_eq!((mtu.current(), mtu.timeout()), (8972, None));
    }

    #[test]
    fn after_a_dip_a_larger_size_is_tried_soon_and_then_less_often() {
        let mut mtu = Mtu::new(8972, 60 * RAISE);
        search(&mut mtu, 8972);
        mtu.on_silence();
        for number in 101..=103 {
            mtu.on_probe_sent(number, 8972);
            mtu.on_lost(number, 8972, RAISE, Time::ZERO);
        }
        search(&mut mtu, 1472);
        let mut now = Time::ZERO;
        for seconds in [10, 20, 40, 80, 160, 320, 600, 600] {
            let at = mtu.timeout().unwrap();
            assert_eq!(at, now + Duration::from_secs(seconds));
            now = at;
            mtu.on_timeout(now);
            while let Some(size) = mtu.wanted() {
                mtu.on_probe_sent(1000, size);
                assert!(!mtu.on_lost(1000, size, RAISE, now));
            }
        }
        mtu.on_timeout(mtu.timeout().unwrap());
        search(&mut mtu, 8972);
        assert_eq!((mtu.current(), mtu.timeout()), (8972, None));
    }

    /// Loses this many large packets, one each millisecond.
    fn lose(mtu: &mut Mtu, count: u64) -> bool {
        (0..count)
            .fold(false, |_, ms| mtu.on_lost(99, 8972, Duration::from_millis(2), Time::from_nanos(ms * 1_000_000)))
    }

    #[test]
    fn a_hint_about_the_size_is_soon_checked_by_a_probe() {
        let mut mtu = Mtu::new(8972, RAISE);
        search(&mut mtu, 8972);
        mtu.hint_too_large(1253, Time::ZERO);
        assert_eq!((mtu.current(), mtu.wanted()), (1252, None));
        let doubted = mtu.timeout().unwrap();
        assert_eq!(doubted, Time::ZERO + DOUBT_AFTER);
        mtu.on_timeout(doubted);
        assert_eq!(mtu.wanted(), Some(8972));
        // It was true: a repeated hint is trusted for longer.
        mtu.on_probe_sent(7, 8972);
        mtu.hint_too_large(1253, doubted);
        assert_eq!((mtu.current(), mtu.timeout()), (1252, Some(doubted + RAISE)));
        mtu.hint_too_large(600, doubted);
        assert_eq!(mtu.current(), BASE_DATAGRAM, "never below the floor");
    }

    #[test]
    fn a_black_hole_and_up_again() {
        let mut mtu = Mtu::new(8972, RAISE);
        search(&mut mtu, 8972);
        lose(&mut mtu, 7);
        mtu.on_acked(100, 8972, Time::ZERO);
        lose(&mut mtu, 7);
        assert_eq!(mtu.current(), 8972);
        lose(&mut mtu, 1);
        assert_eq!(mtu.current(), 8972, "not for long enough yet");
        lose(&mut mtu, 7);
        assert_eq!((mtu.current(), mtu.wanted()), (1200, Some(8972)), "it is suspected");
        for lost in 1..=3 {
            mtu.on_probe_sent(100 + lost, 8972);
            assert_eq!(mtu.on_lost(100 + lost, 8972, RAISE, Time::ZERO), lost == 3, "probe {lost}");
        }
        search(&mut mtu, 1472);
        assert!((1472 - STEP..=1472).contains(&mtu.current()), "not found at once: {}", mtu.current());
        mtu.on_timeout(Time::ZERO + RAISE + RAISE);
        search(&mut mtu, 8972);
        assert_eq!(mtu.current(), 8972);
        assert!((0..100).all(|_| !mtu.on_lost(99, 8972, RAISE, Time::ZERO)), "all at one time");
        assert_eq!(mtu.current(), 8972);
    }

    #[test]
    fn silence_is_a_doubt_that_one_probe_ends() {
        // Where the limit passes, and where the search has ended below it.
        for carries in [8972, 1472] {
            let mut mtu = Mtu::new(8972, RAISE);
            search(&mut mtu, carries);
            let (found, raise_at) = (mtu.current(), mtu.timeout());
            mtu.on_silence();
            mtu.on_silence();
            assert_eq!((mtu.current(), mtu.wanted()), (1200, Some(found)));
            mtu.on_acked(100, 1200, Time::ZERO);
            assert_eq!(mtu.current(), 1200, "a small one shows nothing");
            for lost in 1..=2 {
                mtu.on_probe_sent(100 + lost, found);
                assert!(!mtu.on_lost(100 + lost, found, RAISE, Time::ZERO));
            }
            mtu.on_probe_sent(103, found);
            mtu.on_acked(103, found, Time::ZERO);
            assert_eq!((mtu.current(), mtu.wanted(), mtu.timeout()), (found, None, raise_at));
        }
    }

    #[test]
    fn a_packet_sent_before_the_suspicion_ends_it_when_it_arrives() {
        let mut mtu = Mtu::new(8972, RAISE);
        search(&mut mtu, 8972);
        mtu.on_silence();
        mtu.on_acked(50, 8972, Time::ZERO);
        assert_eq!((mtu.current(), mtu.wanted()), (8972, None));
    }

    #[test]
    fn a_search_continues_when_its_probe_is_forgotten_or_overtaken_by_a_suspicion() {
        let mut mtu = Mtu::new(8972, RAISE);
        mtu.on_probe_sent(1, 8972);
        assert_eq!(mtu.wanted(), None);
        mtu.forget_probe();
        search(&mut mtu, 4000);
        let found = mtu.current();
        mtu.on_timeout(Time::ZERO + RAISE);
        mtu.on_probe_sent(100, 8972);
        mtu.on_silence();
        assert_eq!(mtu.wanted(), Some(found));
        mtu.too_large(3000, Time::ZERO);
        assert_eq!((mtu.current(), mtu.wanted()), (1200, Some(2999)), "a hint is lower");
    }

    #[test]
    fn an_interface_that_carries_less_is_asked_again_and_believed() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut mtu = Mtu::new(65_507, RAISE * 100);
        mtu.on_probe_sent(0, 65_507);
        assert_eq!(mtu.limit_to(8972, at(0)), Some(0), "the probe was never sent");
        search(&mut mtu, 8972);
        assert_eq!(mtu.current(), 8972);
        assert_eq!(mtu.limit_to(1472, at(1)), None);
        assert_eq!((mtu.current(), mtu.wanted()), (1472, None));
        mtu.on_acked(20, 1472, at(10));
        assert_eq!(mtu.wanted(), None, "not so soon");
        mtu.on_acked(21, 1472, at(11));
        assert_eq!(mtu.wanted(), Some(65_507));
        mtu.on_probe_sent(22, 65_507);
        assert_eq!(mtu.limit_to(1472, at(11)), Some(22));
        assert_eq!((mtu.current(), mtu.wanted()), (1472, None), "no more than before");
        mtu.on_acked(23, 1472, at(21));
        mtu.on_probe_sent(24, 65_507);
        assert_eq!((mtu.limit_to(8972, at(21)), mtu.wanted()), (Some(24), Some(8972)));
        search(&mut mtu, 8972);
        assert_eq!(mtu.current(), 8972);
        // The interface carries any size now, and the path does not.
        mtu.on_acked(60, 8972, at(31));
        assert_eq!(mtu.wanted(), Some(65_507));
        search(&mut mtu, 20_000);
        assert!((20_000 - STEP..=20_000).contains(&mtu.current()), "{}", mtu.current());
    }

    /// A size that the path does not carry is not searched for again each time that the interface is tried.
    #[test]
    fn the_interface_is_read_without_a_search_of_the_path() {
        let mut mtu = Mtu::new(65_507, RAISE * 100);
        let refused = mtu.limit_to(8972, Time::ZERO);
        assert_eq!(refused, None);
        search(&mut mtu, 1472);
        let (found, rests) = (mtu.current(), mtu.timeout());
        let later = Time::ZERO + ASK_AFTER;
        mtu.on_acked(100, 1200, later);
        mtu.on_probe_sent(101, 65_507);
        assert_eq!(mtu.limit_to(8972, later), Some(101));
        assert_eq!((mtu.current(), mtu.wanted(), mtu.timeout()), (found, None, rests));
    }
}
