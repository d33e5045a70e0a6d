//! The queue before a link, and the rate at which it empties.

use core::time::Duration;
use std::collections::VecDeque;

use weft_base::Time;

use crate::Profile;
use crate::codel::Control;
use crate::trace::{Cursor, TRACE_PACKET_BYTES};

/// The queue. Of a queue that only drops what does not fit, it is known at once when each packet leaves; one that is
/// under CoDel's control has to keep its packets until they do.
#[derive(Debug)]
pub(crate) struct Waiting<T> {
    /// Those of which it is known when they will have left, with their bytes.
    leaving: VecDeque<(Time, u64)>,
    leaving_bytes: u64,
    standing: VecDeque<Standing<T>>,
    standing_bytes: u64,
    control: Control,
    /// When the last of those that are known to leave has left.
    free: Time,
    cursor: Cursor,
}

#[derive(Debug)]
struct Standing<T> {
    item: T,
    bytes: u64,
    since: Time,
}

/// What the queue does to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    Dropped,
    /// Its last bit has left then.
    Leaves {
        at: Time,
        marked: bool,
    },
}

impl<T> Waiting<T> {
    pub(crate) const fn new() -> Self {
        Self {
            leaving: VecDeque::new(),
            leaving_bytes: 0,
            standing: VecDeque::new(),
            standing_bytes: 0,
            control: Control::NEW,
            free: Time::ZERO,
            cursor: Cursor::starting(Time::ZERO),
        }
    }

    /// A trace begins now.
    pub(crate) const fn start_trace(&mut self, now: Time) {
        self.cursor = Cursor::starting(now);
    }

    /// Packets that are in it.
    pub(crate) fn standing(&self) -> usize {
        self.standing.len()
    }

    /// Whether packets have to be queued in it: under CoDel, and behind others that are.
    pub(crate) fn keeps_packets(&self, profile: &Profile) -> bool {
        !self.standing.is_empty() || (profile.has_queue() && profile.settings.codel.is_some())
    }

    /// Takes a packet of this many bytes, those of [`Settings::header_bytes`](crate::Settings::header_bytes) included.
    pub(crate) fn enter(&mut self, bytes: u64, now: Time, profile: &Profile) -> Passage {
        if !profile.has_queue() {
            return Passage::Leaves { at: now, marked: false };
        }
        self.leave(now);
        let queue = profile.settings.queue;
        if self.leaving_bytes + bytes > queue.bytes {
            return Passage::Dropped;
        }
        let marked = queue.mark_at.is_some_and(|mark_at| self.leaving_bytes >= mark_at);
        let at = self.transmit(self.free.max(now), bytes, profile);
        Passage::Leaves { at, marked }
    }

    /// The same for one that is queued. False: there is no room.
    pub(crate) fn stand(&mut self, item: T, bytes: u64, now: Time, profile: &Profile) -> bool {
        self.leave(now);
        let fits = self.leaving_bytes + self.standing_bytes + bytes <= profile.settings.queue.bytes;
        if fits {
            self.standing_bytes += bytes;
            self.standing.push_back(Standing { item, bytes, since: now });
        }
        fits
    }

    /// When the next of those that are queued begins to leave.
    pub(crate) fn next_start(&self, profile: &Profile) -> Option<Time> {
        let at = self.free.max(self.standing.front()?.since);
        Some(profile.trace.as_ref().map_or(at, |trace| self.cursor.start(trace, at)))
    }

    /// The next of those that are queued, if it has begun to leave by now, and what becomes of it. One that can be is
    /// marked where it would be dropped (RFC 8289 section 3, RFC 3168).
    pub(crate) fn next(
        &mut self,
        now: Time,
        profile: &Profile,
        can_be_marked: impl Fn(&T) -> bool,
    ) -> Option<(T, Passage)> {
        let start = self.next_start(profile).filter(|start| *start <= now)?;
        let Standing { item, bytes, since } = self.standing.pop_front()?;
        self.standing_bytes -= bytes;
        self.leave(start);
        let codel = profile.settings.codel;
        let drops =
            codel.is_some_and(|codel| self.control.drops(codel, start.since(since), self.standing_bytes, start));
        if drops && !can_be_marked(&item) {
            return Some((item, Passage::Dropped));
        }
        let at = self.transmit(start, bytes, profile);
        Some((item, Passage::Leaves { at, marked: drops }))
    }

    /// A packet begins to leave. Returns when it has.
    fn transmit(&mut self, start: Time, bytes: u64, profile: &Profile) -> Time {
        let settings = &profile.settings;
        self.free = match (&profile.trace, settings.rate_bits_per_s) {
            (Some(trace), _) => self.cursor.send(trace, start, bytes + TRACE_PACKET_BYTES),
            (None, Some(rate)) => start + transmission_time(bytes + u64::from(settings.frame_bytes), rate),
            (None, None) => start,
        };
        self.leaving.push_back((self.free, bytes));
        self.leaving_bytes += bytes;
        self.free
    }

    /// Forgets those that have left.
    fn leave(&mut self, now: Time) {
        while let Some((at, bytes)) = self.leaving.front().copied().filter(|(at, _)| *at <= now) {
            debug_assert!(at <= self.free);
            self.leaving_bytes -= bytes;
            self.leaving.pop_front();
        }
    }
}

/// How long this many bytes take. Without a rate worth the name, for ever.
fn transmission_time(bytes: u64, rate_bits_per_s: u64) -> Duration {
    let nanos = (u128::from(bytes) * 8 * 1_000_000_000).div_ceil(u128::from(rate_bits_per_s.max(1)));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
