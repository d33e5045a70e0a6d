//! The queue before a link, and the rate at which it empties.

use core::time::Duration;
use std::collections::VecDeque;

use weft_base::Time;

use crate::Settings;

/// Packets that have not left yet. They are known by when they will have.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    packets: VecDeque<(Time, u64)>,
    bytes: u64,
    /// When the last of them has left.
    empty: Time,
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

impl Waiting {
    pub(crate) fn enter(&mut self, payload: usize, now: Time, settings: &Settings) -> Passage {
        let Some(rate) = settings.rate_bits_per_s else {
            return Passage::Leaves { at: now, marked: false };
        };
        self.leave(now);
        let bytes = payload as u64 + u64::from(settings.header_bytes);
        if self.bytes + bytes > settings.queue.bytes {
            return Passage::Dropped;
        }
        let marked = settings.queue.mark_at.is_some_and(|mark_at| self.bytes >= mark_at);
        let on_the_wire = bytes + u64::from(settings.frame_bytes);
        self.empty = self.empty.max(now) + transmission_time(on_the_wire, rate);
        self.packets.push_back((self.empty, bytes));
        self.bytes += bytes;
        Passage::Leaves { at: self.empty, marked }
    }

    /// Forgets those that have left.
    fn leave(&mut self, now: Time) {
        while let Some((at, bytes)) = self.packets.front().copied().filter(|(at, _)| *at <= now) {
            debug_assert!(at <= self.empty);
            self.bytes -= bytes;
            self.packets.pop_front();
        }
    }
}

/// How long so many bytes take. Without a rate worth the name, for ever.
fn transmission_time(bytes: u64, rate_bits_per_s: u64) -> Duration {
    let nanos = (u128::from(bytes) * 8 * 1_000_000_000).div_ceil(u128::from(rate_bits_per_s.max(1)));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
