//! The largest datagram that a path carries (RFC 8899): found by probes that nothing depends on, given up when larger
//! ones vanish.

use core::time::Duration;

use weft_base::Time;
use weft_wire::edge::BASE_DATAGRAM;

/// A size is too large when so many probes of it are lost (RFC 8899 section 5.1.2, MAX_PROBES).
const MAX_PROBES: u32 = 3;
/// Sizes that are closer than this are not told apart.
const STEP: usize = 32;
/// So many large datagrams lost, over so many round trips, and none arrived in between: a black hole. Of disorder
/// much seems lost, too,
/// but not for long.
const MAX_VANISHED: u32 = 8;
const VANISHED_ROUND_TRIPS: u32 = 3;

/// The search on one rail.
#[derive(Clone, Debug)]
pub(crate) struct Mtu {
    /// What is sent.
    current: usize,
    /// The smallest size that is known not to pass, less one.
    high: usize,
    /// What the interface and the peer can do.
    limit: usize,
    /// The probe under way.
    probe: Option<(u64, usize)>,
    failures: u32,
    vanished: u32,
    /// Since when.
    vanished_at: Option<Time>,
    raise_at: Option<Time>,
    raise_after: Duration,
}

impl Mtu {
    pub(crate) fn new(limit: usize, raise_after: Duration) -> Self {
        let limit = limit.max(BASE_DATAGRAM);
        let current = BASE_DATAGRAM;
        Self {
            current,
            high: limit,
            limit,
            probe: None,
            failures: 0,
            vanished: 0,
            vanished_at: None,
            raise_at: None,
            raise_after,
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
            self.raise_at = None;
            self.high = self.limit;
            self.failures = 0;
        }
    }

    /// The size that is to be probed now. First the limit itself, which mostly passes, then halves.
    pub(crate) fn wanted(&self) -> Option<usize> {
        let searching = self.probe.is_none() && self.raise_at.is_none() && self.high > self.current;
        searching.then(|| {
            if self.high == self.limit { self.high } else { self.current + (self.high - self.current).div_ceil(2) }
        })
    }

    pub(crate) fn on_probe_sent(&mut self, number: u64, size: usize) {
        self.probe = Some((number, size));
    }

    /// A packet of `bytes` has arrived.
    pub(crate) fn on_acked(&mut self, number: u64, bytes: usize, now: Time) {
        if bytes > BASE_DATAGRAM {
            (self.vanished, self.vanished_at) = (0, None);
        }
        if let Some((probe, size)) = self.probe.filter(|(probe, _)| *probe == number) {
            debug_assert_eq!(probe, number);
            self.probe = None;
            self.failures = 0;
            self.current = self.current.max(size);
            self.rest_if_found(now);
        }
    }

    /// A packet of `bytes` is lost. True when that shows that larger datagrams do not pass any more.
    pub(crate) fn on_lost(&mut self, number: u64, bytes: usize, round_trip: Duration, now: Time) -> bool {
        if let Some((_, size)) = self.probe.filter(|(probe, _)| *probe == number) {
            self.probe = None;
            self.failures += 1;
            if self.failures >= MAX_PROBES {
                self.too_large(size, now);
            }
            return false;
        }
        if bytes <= BASE_DATAGRAM || self.current == BASE_DATAGRAM {
            return false;
        }
        self.vanished += 1;
        let since = *self.vanished_at.get_or_insert(now);
        let long = now.since(since) >= round_trip * VANISHED_ROUND_TRIPS;
        self.vanished >= MAX_VANISHED && long && self.fall(now)
    }

    /// Nothing comes back, again and again.
    pub(crate) fn on_silence(&mut self, now: Time) -> bool {
        self.current > BASE_DATAGRAM && self.fall(now)
    }

    /// Datagrams of `size` bytes do not pass.
    pub(crate) fn too_large(&mut self, size: usize, now: Time) {
        self.failures = 0;
        self.high = self.high.min(size - 1).max(BASE_DATAGRAM);
        self.current = self.current.min(self.high);
        self.rest_if_found(now);
    }

    /// The interface carries no more than this: it is tried first from now on.
    pub(crate) fn limit_to(&mut self, size: usize, now: Time) {
        let size = size.max(BASE_DATAGRAM);
        if size < self.limit {
            self.limit = size;
            self.probe = None;
            self.failures = 0;
            self.high = self.high.min(size);
            self.current = self.current.min(size);
            self.raise_at = None;
            self.rest_if_found(now);
        }
    }

    fn rest_if_found(&mut self, now: Time) {
        if self.high < self.current + STEP {
            self.high = self.current;
            self.raise_at = (self.current < self.limit).then(|| now + self.raise_after);
        }
    }

    fn fall(&mut self, now: Time) -> bool {
        *self = Self { raise_at: Some(now + self.raise_after), ..Self::new(self.limit, self.raise_after) };
        true
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

    #[test]
    fn a_black_hole_and_up_again() {
        let mut mtu = Mtu::new(8972, RAISE);
        search(&mut mtu, 8972);
        let lose = |mtu: &mut Mtu, count: u64| {
            (0..count)
                .fold(false, |_, ms| mtu.on_lost(99, 8972, Duration::from_millis(2), Time::from_nanos(ms * 1_000_000)))
        };
        assert!(!lose(&mut mtu, 7));
        mtu.on_acked(100, 8972, Time::ZERO);
        assert!(!lose(&mut mtu, 7) && mtu.current() == 8972);
        assert!(!lose(&mut mtu, 1), "not yet for long");
        assert!(lose(&mut mtu, 7));
        assert_eq!((mtu.current(), mtu.wanted()), (1200, None));
        mtu.on_timeout(Time::ZERO + RAISE + RAISE);
        search(&mut mtu, 8972);
        assert_eq!(mtu.current(), 8972);
        assert!((0..100).all(|_| !mtu.on_lost(99, 8972, RAISE, Time::ZERO)), "all at one time");
    }
}
