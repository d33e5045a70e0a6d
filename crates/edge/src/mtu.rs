//! The largest datagram that a path carries (RFC 8899): found by probes that nothing depends on, doubted when larger
//! ones vanish or nothing is answered, and given up only when probes of it are lost while smaller datagrams pass.

use core::time::Duration;

use weft_base::Time;
use weft_wire::edge::BASE_DATAGRAM;

/// A size is too large when so many probes of it are lost (RFC 8899 section 5.1.2, MAX_PROBES).
const MAX_PROBES: u32 = 3;
/// Sizes that are closer than this are not told apart.
const STEP: usize = 32;
/// So many large datagrams lost, over so many round trips, and none arrived in between: perhaps a black hole. Of
/// disorder much seems lost, too, but not for long.
const MAX_VANISHED: u32 = 8;
const VANISHED_ROUND_TRIPS: u32 = 3;
/// An interface that carries less than the peer takes is asked again after this time, while packets arrive, since its
/// MTU may have been raised: the answer costs one system call and no packet.
const ASK_AFTER: Duration = Duration::from_secs(10);
/// What somebody on the way says of the path's MTU is probed after this: it may be false.
const DOUBT_AFTER: Duration = Duration::from_secs(5);

/// The search on one rail.
#[derive(Clone, Debug)]
pub(crate) struct Mtu {
    /// What is sent.
    current: usize,
    /// The smallest size that is known not to pass, less one.
    high: usize,
    /// What the interface and the peer can do, as far as is known.
    limit: usize,
    /// What this side's settings and the peer allow.
    ceiling: usize,
    /// What was sent before it was doubted that it passes. Nothing but [`BASE_DATAGRAM`] is sent until a probe of this
    /// size has arrived, or was lost too often.
    doubted: Option<usize>,
    /// The probe under way.
    probe: Option<(u64, usize)>,
    failures: u32,
    vanished: u32,
    /// Since when.
    vanished_at: Option<Time>,
    raise_at: Option<Time>,
    raise_after: Duration,
    /// When the interface is to be asked whether it carries more.
    ask_at: Option<Time>,
    /// The next probe, or the one under way, asks it.
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
            ask_at: None,
            asks: false,
        }
    }

    /// Bytes above UDP that datagrams may have.
    pub(crate) fn current(&self) -> usize {
        self.current
    }

    /// When the search begins again.
    pub(crate) fn timeout(&self) -> Option<Time> {
        self.raise_at
    }

    /// The search begins again.
    pub(crate) fn on_timeout(&mut self, now: Time) {
        if self.raise_at.is_some_and(|at| at <= now) {
            self.search_from(self.limit);
        }
    }

    /// The size that is to be probed now. First what was sent before it was doubted. Then the limit itself, which
    /// mostly passes, then halves.
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

    /// A packet of `bytes` has arrived.
    pub(crate) fn on_acked(&mut self, number: u64, bytes: usize, now: Time) {
        if bytes > BASE_DATAGRAM {
            (self.vanished, self.vanished_at) = (0, None);
        }
        if self.probe.is_some_and(|(probe, _)| probe == number) {
            (self.probe, self.failures) = (None, 0);
            self.on_passed(bytes, now);
        } else if self.doubted.is_some() && bytes > self.current {
            // It left before the doubt, and needs no probe any more.
            self.on_passed(bytes, now);
        }
        self.asks |= self.ask_at.is_some_and(|at| at <= now) && self.doubted.is_none();
    }

    fn on_passed(&mut self, size: usize, now: Time) {
        self.current = self.current.max(size);
        self.doubted = self.doubted.filter(|doubted| *doubted > size);
        if size > self.limit {
            // The interface carries it, which it did not.
            (self.limit, self.asks, self.ask_at) = (size, false, None);
        }
        self.high = self.high.max(size);
        self.rest_if_found(now);
    }

    /// A packet of `bytes` is lost. True when that shows that a size does not pass any more that was sent before.
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
            // The interface has taken what it refused before: whether the path carries it is for the search to find.
            (self.limit, self.asks, self.ask_at) = (self.ceiling, false, None);
            self.search_from(self.ceiling);
        }
        self.failures += 1;
        if self.failures < MAX_PROBES {
            return false;
        }
        let was_sent = self.doubted.take().is_some();
        if was_sent {
            // The search goes on below it at once.
            self.raise_at = None;
        }
        self.too_large(size, now);
        was_sent
    }

    /// A probe is neither acknowledged nor lost: nothing more will be heard of it.
    pub(crate) fn forget_probe(&mut self) {
        self.probe = None;
    }

    /// Nothing comes back, again and again. A black hole is one only if smaller datagrams pass meanwhile (RFC 8899
    /// section 4.3), so this shows nothing of it yet; but while it may be one, what is to be answered must be small.
    pub(crate) fn on_silence(&mut self) {
        if self.current > BASE_DATAGRAM {
            self.doubt();
        }
    }

    /// Larger datagrams may not pass any more: a probe tells, as soon as there is an answer.
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

    /// Somebody on the way says that datagrams of `size` bytes do not pass. They are not sent any more; where that
    /// makes datagrams smaller, it is soon probed whether it is so (RFC 8899 section 4.6.1: such a message may be
    /// forged).
    pub(crate) fn hint_too_large(&mut self, size: usize, now: Time) {
        let shrinks = size <= self.doubted.unwrap_or(self.current);
        self.too_large(size, now);
        if shrinks && let Some(raise_at) = &mut self.raise_at {
            *raise_at = (*raise_at).min(now + DOUBT_AFTER);
        }
    }

    /// The interface carries no more than this, and as much as that: it is tried first from now on. The number of a
    /// probe comes back that it has refused.
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

    /// Nothing above what is known not to pass is sent, or was.
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
            self.raise_at = (self.current < self.limit).then(|| now + self.raise_after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAISE: Duration = Duration::from_secs(10);

    /// Probes until the search rests, over a path that carries `carries` bytes.
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

    /// Loses so many large packets, one each millisecond.
    fn lose(mtu: &mut Mtu, count: u64) -> bool {
        (0..count)
            .fold(false, |_, ms| mtu.on_lost(99, 8972, Duration::from_millis(2), Time::from_nanos(ms * 1_000_000)))
    }

    #[test]
    fn what_others_say_of_the_size_is_probed_soon() {
        let mut mtu = Mtu::new(8972, RAISE);
        search(&mut mtu, 8972);
        mtu.hint_too_large(1253, Time::ZERO);
        assert_eq!((mtu.current(), mtu.wanted()), (1252, None));
        let doubted = mtu.timeout().unwrap();
        assert_eq!(doubted, Time::ZERO + DOUBT_AFTER);
        mtu.on_timeout(doubted);
        assert_eq!(mtu.wanted(), Some(8972));
        // It was true: whoever says it again of a probe is believed for longer.
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
        assert_eq!(mtu.current(), 8972, "not yet for long");
        lose(&mut mtu, 7);
        assert_eq!((mtu.current(), mtu.wanted()), (1200, Some(8972)), "it is doubted");
        for lost in 1..=3 {
            mtu.on_probe_sent(100 + lost, 8972);
            assert_eq!(mtu.on_lost(100 + lost, 8972, RAISE, Time::ZERO), lost == 3, "probe {lost}");
        }
        search(&mut mtu, 1472);
        assert!((1472 - STEP..=1472).contains(&mtu.current()), "what passes is found at once: {}", mtu.current());
        mtu.on_timeout(Time::ZERO + RAISE + RAISE);
        search(&mut mtu, 8972);
        assert_eq!(mtu.current(), 8972);
        assert!((0..100).all(|_| !mtu.on_lost(99, 8972, RAISE, Time::ZERO)), "all at one time");
        assert_eq!(mtu.current(), 8972);
    }

    #[test]
    fn silence_is_a_doubt_that_one_probe_ends() {
        // Where the limit passes, and where a search below it has come to an end.
        for carries in [8972, 1472] {
            let mut mtu = Mtu::new(8972, RAISE);
            search(&mut mtu, carries);
            let (found, raise_at) = (mtu.current(), mtu.timeout());
            mtu.on_silence();
            mtu.on_silence();
            assert_eq!((mtu.current(), mtu.wanted()), (1200, Some(found)));
            mtu.on_acked(100, 1200, Time::ZERO);
            assert_eq!(mtu.current(), 1200, "that was a small one");
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
    fn what_left_before_the_doubt_and_arrives_ends_it() {
        let mut mtu = Mtu::new(8972, RAISE);
        search(&mut mtu, 8972);
        mtu.on_silence();
        mtu.on_acked(50, 8972, Time::ZERO);
        assert_eq!((mtu.current(), mtu.wanted()), (8972, None));
    }

    #[test]
    fn a_search_goes_on_when_its_probe_is_forgotten_or_overtaken_by_a_doubt() {
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
        assert_eq!((mtu.current(), mtu.wanted()), (1200, Some(2999)), "somebody knows better");
    }

    #[test]
    fn an_interface_that_carries_less_is_asked_again_and_believed() {
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let mut mtu = Mtu::new(65_507, RAISE * 100);
        mtu.on_probe_sent(0, 65_507);
        assert_eq!(mtu.limit_to(8972, at(0)), Some(0), "the probe never left");
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
        // It carries anything now, and the path does not.
        mtu.on_acked(60, 8972, at(31));
        assert_eq!(mtu.wanted(), Some(65_507));
        search(&mut mtu, 20_000);
        assert!((20_000 - STEP..=20_000).contains(&mtu.current()), "{}", mtu.current());
    }

    /// What a path carries below the interface's MTU is not looked for again each time that the interface is asked.
    #[test]
    fn asking_the_interface_does_not_search_the_path() {
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
