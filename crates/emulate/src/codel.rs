//! CoDel (RFC 8289): a queue that drops when packets have waited for too long, not when it is full.

use core::time::Duration;

use weft_base::Time;

/// How CoDel is set (RFC 8289 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDel {
    /// A wait that is good for throughput, and more of which is no use.
    pub target: Duration,
    /// For how long all must wait longer before one is dropped: as long as a round trip takes, at most.
    pub interval: Duration,
}

impl Default for CoDel {
    /// 5 ms and 100 ms, as RFC 8289 section 3.2 has them for the Internet.
    fn default() -> Self {
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100) }
    }
}

/// A queue that has no more bytes than one packet is none (RFC 8289 section 3).
const PACKET_BYTES: u64 = 1514;

/// What CoDel remembers between packets, by the names of RFC 8289 section 5.4.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Control {
    first_above: Option<Time>,
    drop_next: Time,
    count: u32,
    last_count: u32,
    is_dropping: bool,
    /// One was dropped: when the next is follows from the one that is taken now (RFC 8289 section 5.5).
    is_due: bool,
}

impl Control {
    /// Nothing has been dropped.
    pub(crate) const NEW: Self =
        Self { first_above: None, drop_next: Time::ZERO, count: 0, last_count: 0, is_dropping: false, is_due: false };

    /// Whether a packet is dropped that is taken from the queue now, having waited for this long, and leaves this many
    /// bytes behind (RFC 8289 section 5.5).
    pub(crate) fn drops(&mut self, settings: CoDel, waited: Duration, bytes_behind: u64, now: Time) -> bool {
        let is_late = self.is_late(settings, waited, bytes_behind, now);
        if self.is_dropping {
            return self.drops_on(settings, is_late, now);
        }
        if !is_late {
            return false;
        }
        // Where it has just dropped, it continues at about that rate.
        let lately = self.count.saturating_sub(self.last_count);
        let goes_on = lately > 1 && now.since(self.drop_next) < settings.interval * 16;
        self.count = if goes_on { lately } else { 1 };
        self.last_count = self.count;
        self.drop_next = next_drop(settings, now, self.count);
        self.is_dropping = true;
        true
    }

    fn drops_on(&mut self, settings: CoDel, is_late: bool, now: Time) -> bool {
        let was_due = core::mem::take(&mut self.is_due);
        if !is_late {
            self.is_dropping = false;
            return false;
        }
        if was_due {
            self.drop_next = next_drop(settings, self.drop_next, self.count);
        }
        if now < self.drop_next {
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.is_due = true;
        true
    }

    /// Whether all have waited for longer than the target for an interval (RFC 8289 section 5.6).
    fn is_late(&mut self, settings: CoDel, waited: Duration, bytes_behind: u64, now: Time) -> bool {
        if waited < settings.target || bytes_behind <= PACKET_BYTES {
            self.first_above = None;
            return false;
        }
        let first = *self.first_above.get_or_insert(now + settings.interval);
        now >= first
    }
}

/// The more have been dropped, the sooner the next is: by the root of their number (RFC 8289 section 5.3).
fn next_drop(settings: CoDel, from: Time, count: u32) -> Time {
    let nanos = settings.interval.as_nanos() as f64 / f64::from(count.max(1)).sqrt();
    from + Duration::from_nanos(nanos as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_millis(20);

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Duration::from_millis(milliseconds)
    }

    /// When it drops, of packets that are taken every millisecond after this wait.
    fn drops(control: &mut Control, waited: impl Fn(u64) -> Duration, span: core::ops::Range<u64>) -> Vec<u64> {
        span.filter(|now| control.drops(CoDel::default(), waited(*now), 100_000, at(*now))).collect()
    }

    #[test]
    fn a_standing_queue_loses_more_and_more() {
        let mut control = Control::NEW;
        // An interval after the first, then after 100 ms / sqrt(1), / sqrt(2), / sqrt(3) and so on.
        assert_eq!(drops(&mut control, |_| LONG, 0..400), [100, 200, 271, 329, 379]);
    }

    #[test]
    fn a_short_wait_ends_it_and_a_burst_is_spared() {
        let mut control = Control::NEW;
        let short_at = |when: u64| move |now: u64| if now == when { Duration::ZERO } else { LONG };
        assert_eq!(drops(&mut control, short_at(99), 0..190), [0; 0], "not all were late");
        let mut control = Control::NEW;
        assert_eq!(drops(&mut control, short_at(150), 0..249), [100]);
        assert!(!control.is_dropping);
    }

    #[test]
    fn it_goes_on_where_it_was() {
        let mut control = Control::NEW;
        let waits = |now: u64| if (400..410).contains(&now) { Duration::ZERO } else { LONG };
        let all = drops(&mut control, waits, 0..700);
        assert_eq!(all[..5], [100, 200, 271, 329, 379]);
        // As if four had been dropped already: half an interval apart.
        assert_eq!(all[5..8], [510, 560, 605]);
    }

    #[test]
    fn the_last_packet_is_spared() {
        let mut control = Control::NEW;
        assert!((0..500).all(|now| !control.drops(CoDel::default(), LONG, 1514, at(now))));
    }
}
