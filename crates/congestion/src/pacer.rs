//! When the next packet may leave, so that a window is spread over its round trip (RFC 9002 section 7.7).

use core::time::Duration;

use weft_base::Time;

use crate::round_trip::share;

/// What one packet can put the next one off by, at most: a round trip that was measured wrongly stops nobody for long.
pub const MAX_WAIT: Duration = Duration::from_secs(1);
/// Who was stopped and comes late makes up for what would have left in this time, or for this many bytes, whichever is
/// more, and for two packets at least. The time is what timers are late by on a host with other work.
const MADE_UP_TIME: Duration = Duration::from_millis(2);
const MADE_UP_BYTES: u64 = INITIAL_WINDOW;
/// What may leave at once on a quiet path: the initial window (RFC 9002 section 7.7), in bytes (section 7.2), or the
/// whole window if that is less.
const INITIAL_WINDOW: u64 = 14_720;
/// The most that one system call sends (`UDP_SEGMENT`), and one segment of the kernel's that passes a host whole.
const LARGEST_CALL: u64 = 64 << 10;
/// A path that carries this in two bursts gets bursts of twice the length: each system call then sends a full segment,
/// and each wake-up of a host handles several. Linux also sends 1 ms at a time (`tcp_tso_autosize`).
const LONG_BURST: u64 = 2 * LARGEST_CALL;
/// A burst that is a smaller part of that is a packet or two: to wait for all of it saves nothing.
const LEAST_PART: u32 = 16;

/// Lets packets go at an even rate, some of them together. It is the time at which all that has left would have left,
/// had it gone evenly; so it costs nothing while nothing is sent.
///
/// Once it has stopped somebody it goes on stopping until half a burst is saved up, or all of it if one system call
/// sends that: a timer, a system call and a wake-up of the peer for each packet would cost more than the packet. The
/// rate stays what it is, and so does the longest burst (RFC 9002 section 7.7). Linux sizes the segments of TCP by the
/// rate for the same reason (`tcp_tso_autosize`: what leaves in 1 ms, 64 KiB at most).
///
/// A timer that is late must not cost rate: on a busy host that would be the limit, and not the window. So who comes
/// later than he was told to makes up for it, within bounds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    due: Time,
    /// It has stopped somebody, and not enough has been saved up since.
    rests: bool,
    /// The rate of what has left last: a window of bytes, and a round trip.
    rate: (u64, Duration),
    /// When the sender may go on, if the pacer is all that holds it back.
    stopped_until: Option<Time>,
    /// When it let somebody go last whom it had stopped, and how late he came.
    woke_at: Time,
    late: Duration,
    /// How much earlier than now what leaves may count as due: the initial window, from a quiet path until the pacer
    /// stops the sender.
    initial: Duration,
}

impl Pacer {
    /// The time from which on something may leave, if what `burst` makes up for may leave together.
    #[must_use]
    pub fn free_at(&self, burst: Duration) -> Time {
        let ahead = if self.rests { burst - self.saves(burst) } else { burst };
        let ahead = u64::try_from(ahead.as_nanos()).unwrap_or(u64::MAX);
        Time::from_nanos(self.due.as_nanos().saturating_sub(ahead))
    }

    /// The burst of a path with this window and round trip, after slow start; `usual` is that of a slow path. It is
    /// twice as long where two system calls of 64 KiB leave in that time.
    #[must_use]
    pub fn burst_of(usual: Duration, window: u64, round_trip: Duration) -> Duration {
        let twice = usual.saturating_mul(2);
        if time_of(LONG_BURST, window, round_trip) <= twice { twice } else { usual }
    }

    /// How much of a burst is saved up before somebody goes on that was stopped.
    fn saves(&self, burst: Duration) -> Duration {
        let (window, round_trip) = self.rate;
        let call = time_of(LARGEST_CALL, window, round_trip);
        let is_small = burst.saturating_mul(LEAST_PART) < call;
        if is_small { burst / 2 } else { call.clamp(burst / 2, burst) }
    }

    /// Somebody wants to send now: until when that is to wait, if at all.
    pub fn stops_until(&mut self, burst: Duration, now: Time) -> Option<Time> {
        if let Some(until) = self.stopped_until.take_if(|until| *until <= now) {
            (self.woke_at, self.late) = (now, now.since(until));
        }
        self.rests = self.free_at(burst) > now;
        self.stopped_until = self.rests.then(|| self.free_at(burst));
        if self.rests {
            self.initial = Duration::ZERO;
        }
        self.stopped_until
    }

    /// Nothing is in flight, or nothing has left for a part of a round trip, and something is about to leave: a short
    /// message need not be spread over a round trip of the path (RFC 9002 section 7.7 lets the initial window leave at
    /// once). `window` bytes per `round_trip`, as in [`Pacer::on_sent`].
    pub fn on_quiet_path(&mut self, window: u64, round_trip: Duration) {
        self.initial = time_of(INITIAL_WINDOW.min(window), window, round_trip);
    }

    /// The sender has nothing to send, or something else than the pacer stops it: it does not come late.
    pub const fn on_other_limit(&mut self) {
        self.stopped_until = None;
    }

    /// `bytes` leave now, of `window` bytes per `round_trip`. They go at 5/4 of that rate, so that pacing is not what
    /// limits (RFC 9002 section 7.7).
    pub fn on_sent(&mut self, bytes: u64, window: u64, round_trip: Duration, now: Time) {
        self.on_sent_row(1, bytes, window, round_trip, now);
    }

    /// As [`Pacer::on_sent`], for `count` packets of `bytes` bytes each.
    pub fn on_sent_row(&mut self, count: u32, bytes: u64, window: u64, round_trip: Duration, now: Time) {
        let (due, takes) = self.next(bytes, window, round_trip, now);
        self.due = due + takes.saturating_mul(count);
        self.rate = (window, round_trip);
    }

    /// The number of packets of `bytes` bytes that may leave now, one behind the other, if the pacer stops none: at
    /// least one. [`Pacer::stops_until`] would stop the one behind them.
    #[must_use]
    pub fn room(&self, burst: Duration, bytes: u64, window: u64, round_trip: Duration, now: Time) -> u64 {
        let (due, takes) = self.next(bytes, window, round_trip, now);
        let left = (now + burst).since(due).as_nanos();
        left.checked_div(takes.as_nanos()).map_or(u64::MAX, |more| 1 + more as u64)
    }

    /// From when on a packet of `bytes` bytes counts that leaves now, and how long it takes.
    fn next(&self, bytes: u64, window: u64, round_trip: Duration, now: Time) -> (Time, Duration) {
        let takes = |bytes| time_of(bytes, window, round_trip);
        // Only what leaves in the visit that was late.
        let made_up = if self.woke_at == now && !self.late.is_zero() {
            self.late.min(MADE_UP_TIME.max(takes(MADE_UP_BYTES.max(bytes.saturating_mul(2)))))
        } else {
            Duration::ZERO
        };
        let saved = made_up.max(self.initial);
        let since = Time::from_nanos(now.as_nanos().saturating_sub(saved.as_nanos() as u64));
        (self.due.max(since), takes(bytes))
    }
}

/// How long `bytes` take at 5/4 of `window` bytes per `round_trip`; at most [`MAX_WAIT`].
fn time_of(bytes: u64, window: u64, round_trip: Duration) -> Duration {
    let round_trip = u64::try_from(round_trip.as_nanos()).unwrap_or(u64::MAX);
    let round_trip = round_trip / 5 * 4 + round_trip % 5 * 4 / 5;
    Duration::from_nanos(share(round_trip, bytes, window.max(1))).min(MAX_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_burst_then_an_even_rate() {
        let mut pacer = Pacer::default();
        let burst = Duration::from_millis(1);
        assert_eq!(pacer.free_at(burst), Time::ZERO);
        (0..10).for_each(|_| pacer.on_sent(1000, 10_000, Duration::from_millis(10), at(100)));
        assert_eq!(pacer.free_at(burst), at(107));
        pacer.on_sent(1000, 10_000, Duration::from_millis(10), at(900));
        assert_eq!(pacer.free_at(Duration::ZERO), Time::from_nanos(900_800_000), "quiet saves nothing up");
    }

    /// Packets of 1000 bytes that leave one after the other, `every` so long, from `now` on until the pacer stops the
    /// sender. The path has a window of 20 000 bytes and a round trip of 100 ms, and has been quiet for a second.
    fn leave_a_quiet_path(pacer: &mut Pacer, mut now: Time, every: Duration) -> usize {
        let burst = Duration::from_micros(500);
        pacer.on_quiet_path(20_000, Duration::from_millis(100));
        let mut count = 0;
        while pacer.stops_until(burst, now).is_none() {
            pacer.on_sent(1000, 20_000, Duration::from_millis(100), now);
            count += 1;
            now = now + every;
        }
        count
    }

    #[test]
    fn the_initial_window_leaves_a_quiet_path_at_once() {
        for every_us in [0, 10] {
            let mut pacer = Pacer::default();
            pacer.on_sent(1000, 20_000, Duration::from_millis(100), at(1000));
            let count = leave_a_quiet_path(&mut pacer, at(2000), Duration::from_micros(every_us));
            assert_eq!(count, 15, "of 14720 bytes, and one that goes beyond");
            // It is stopped: what follows is spread, as always.
            let free_at = pacer.free_at(Duration::ZERO);
            pacer.on_sent(1000, 20_000, Duration::from_millis(100), free_at);
            assert_eq!(pacer.free_at(Duration::ZERO), free_at + Duration::from_millis(4));
            let count = leave_a_quiet_path(&mut pacer, at(3000), Duration::from_micros(every_us));
            assert_eq!(count, 15, "it was quiet again");
        }
    }

    #[test]
    fn a_quiet_path_has_no_more_than_its_window_and_no_more_often_than_it_may() {
        let (mut pacer, burst, round_trip) = (Pacer::default(), Duration::ZERO, Duration::from_millis(100));
        let mut left = 0;
        // The peer answers at once, so the path is quiet each time.
        for ms in 0..1000 {
            pacer.on_quiet_path(5000, round_trip);
            while pacer.stops_until(burst, at(5000 + ms)).is_none() {
                pacer.on_sent(1000, 5000, round_trip, at(5000 + ms));
                left += 1;
            }
        }
        assert!((62..=70).contains(&left), "{left} packets in ten round trips of a window of five, a quarter more");
    }

    /// When packets of 1000 bytes leave, in microseconds, and how many at first, if a sender always has more to send,
    /// at 5/4 of a window of 8/10 of `per_ms` packets in a millisecond.
    fn bursts(per_ms: u64, burst: Duration) -> (usize, Vec<u64>) {
        let (mut pacer, mut left) = (Pacer::default(), vec![]);
        let burst = Pacer::burst_of(burst, per_ms * 800, Duration::from_millis(1));
        for micros in (0..10_000).step_by(10) {
            let now = Time::from_nanos(1_000_000_000 + micros * 1000);
            while pacer.stops_until(burst, now).is_none() {
                pacer.on_sent(1000, per_ms * 800, Duration::from_millis(1), now);
                left.push(micros);
            }
        }
        let first = left.iter().filter(|at| **at == 0).count();
        left.dedup();
        (first, left)
    }

    #[test]
    fn a_stopped_sender_resumes_with_a_burst_or_a_call() {
        let burst = Duration::from_millis(2);
        // A packet takes 0.1 ms: a burst, and what would have left just now. The one that goes beyond the burst is
        // waited for as well.
        let (first, left) = bursts(10, burst);
        assert_eq!((first, &left[..4]), (21, &[0, 2100, 4200, 6300][..]));
        // It takes 0.5 ms: half a burst, for a whole one has four packets.
        let (first, left) = bursts(2, burst);
        assert_eq!((first, &left[..4]), (5, &[0, 1500, 3000, 4500][..]));
        // It takes 34.5 us: 64 KiB take 2.26 ms, and twice that is no more a burst. A whole burst is saved up.
        let (first, left) = bursts(29, burst);
        assert_eq!((first, &left[..3]), (59, &[0, 2040, 4070][..]));
        // It takes 25 us: 128 KiB take 3.28 ms, so a burst is 4 ms. Half of that is more than a call.
        let (first, left) = bursts(40, burst);
        assert_eq!((first, &left[..4]), (161, &[0, 2030, 4050, 6080][..]));
        // It takes 5 us.
        let (first, left) = bursts(200, burst);
        assert_eq!((first, &left[..4]), (801, &[0, 2010, 4020, 6030][..]));
    }

    #[test]
    fn a_late_sender_has_a_whole_burst_and_what_it_makes_up_for() {
        let (mut pacer, burst) = (Pacer::default(), Duration::from_millis(2));
        while pacer.stops_until(burst, at(100)).is_none() {
            pacer.on_sent(1000, 8000, Duration::from_millis(1), at(100));
        }
        let until = pacer.stops_until(burst, at(100));
        assert_eq!(pacer.stops_until(burst, at(101)), until, "a little later nothing is different");
        let count = |pacer: &mut Pacer, now| {
            let mut count = 0;
            while pacer.stops_until(burst, now).is_none() {
                pacer.on_sent(1000, 8000, Duration::from_millis(1), now);
                count += 1;
            }
            count
        };
        assert_eq!(pacer.free_at(burst), Time::from_nanos(102_100_000));
        assert_eq!(count(&mut pacer, at(103)), 30, "all that should have left until then, and a burst");
        assert_eq!(count(&mut pacer, at(110)), 41, "a burst, and no more than 2 ms");
    }

    #[test]
    fn nothing_overflows_and_nobody_waits_for_ever() {
        let mut pacer = Pacer::default();
        pacer.on_sent(u64::MAX, 0, Duration::MAX, at(1));
        assert_eq!(pacer.free_at(Duration::ZERO), at(1001));
        assert_eq!(pacer.free_at(Duration::MAX), Time::ZERO);
        pacer.on_sent(1, 1, Duration::ZERO, Time::from_nanos(u64::MAX));
    }

    /// Bytes that leave in 100 ms, of 100 kB each 10 ms and a quarter more, when whoever sends runs every `every`.
    fn leaves(every: Duration, burst: Duration) -> u64 {
        let (mut pacer, mut left) = (Pacer::default(), 0);
        let mut now = at(1000);
        while now < at(1100) {
            while pacer.stops_until(burst, now).is_none() {
                pacer.on_sent(1000, 100_000, Duration::from_millis(10), now);
                left += 1000;
            }
            now = now + every;
        }
        left
    }

    #[test]
    fn a_late_sender_makes_up_for_it_within_bounds() {
        let burst = Duration::from_micros(500);
        let even = 1_250_000;
        for every_us in [10, 300, 1000, 2000] {
            let left = leaves(Duration::from_micros(every_us), burst);
            assert!(left.abs_diff(even) <= even / 20, "{left} bytes, every {every_us} us");
        }
        // Of 20 ms no more than 2 ms and a burst.
        let left = leaves(Duration::from_millis(20), burst);
        assert!(left <= 5 * 35_000, "{left}");
        // A slow rate: a few packets, whatever the time.
        let mut pacer = Pacer::default();
        let mut first = 0;
        for (now, most) in [(at(1000), 2), (at(5000), 17)] {
            let before = first;
            while pacer.stops_until(burst, now).is_none() {
                pacer.on_sent(1000, 10_000, Duration::from_millis(100), now);
                first += 1;
            }
            assert!((1..=most).contains(&(first - before)), "{} packets at {now:?}", first - before);
        }
        let before = pacer;
        pacer.on_sent(1000, 10_000, Duration::from_millis(100), at(9000));
        assert!(pacer.due > at(9000) && before.due < at(9000), "quiet saves nothing up");
    }
    #[test]
    fn packets_in_a_row_are_as_many_as_would_leave_one_by_one() {
        let (bytes, trip) = (1472, Duration::from_millis(2));
        // The second one has long bursts.
        for (late_us, window) in
            [0, 100, 700, 5000].into_iter().flat_map(|late| [150_000, 1_500_000].map(|it| (late, it)))
        {
            let burst = Pacer::burst_of(Duration::from_micros(500), window, trip);
            let mut one_by_one = Pacer::default();
            // It has stopped somebody, who comes late.
            while one_by_one.stops_until(burst, at(100)).is_none() {
                one_by_one.on_sent(bytes, window, trip, at(100));
            }
            let now = one_by_one.stops_until(burst, at(100)).unwrap() + Duration::from_micros(late_us);
            assert_eq!(one_by_one.stops_until(burst, now), None);
            let mut row = one_by_one;
            let room = row.room(burst, bytes, window, trip, now);
            row.on_sent_row(room as u32, bytes, window, trip, now);
            let mut count = 0;
            while one_by_one.stops_until(burst, now).is_none() {
                one_by_one.on_sent(bytes, window, trip, now);
                count += 1;
            }
            assert_eq!((room, row.due), (count, one_by_one.due), "{late_us} us late, {window}");
            assert!(row.stops_until(burst, now).is_some());
        }
        let burst = Duration::from_micros(500);
        assert_eq!(Pacer::default().room(burst, bytes, 150_000, Duration::ZERO, at(1)), u64::MAX);
    }
}
