//! One direction of a way.

use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeMap;

use weft_base::{Ecn, Random, Time};

use crate::queue::{Passage, Waiting};
use crate::{Delayed, Settings, Statistics};

/// Bits that are flipped in a damaged packet, at most. CRC-32C finds all of so few in a packet of any size that there
/// is.
const FLIPS: usize = 4;

/// A packet on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    /// What may be damaged on the way.
    pub bytes: Vec<u8>,
    /// The bits of congestion notification.
    pub ecn: Ecn,
    /// What goes with it, untouched: where from, where to.
    pub tag: T,
}

/// What a sender may notice at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Nothing: the packet is on its way, or is not.
    Taken,
    /// The link tells its MTU: no packet of more bytes than this passes.
    TooLarge(u32),
}

/// One direction of a way. See the [crate]'s page.
#[derive(Debug)]
pub struct Link<T> {
    settings: Settings,
    random: Random,
    queue: Waiting,
    is_bad: bool,
    /// Partitions: nothing passes from the start until before the end.
    cuts: Vec<Range<Time>>,
    /// By when they arrive, then by when they were sent.
    on_the_way: BTreeMap<(Time, u64), Packet<T>>,
    next_number: u64,
    /// When the last of those that stay in order arrives.
    latest: Time,
    statistics: Statistics,
}

impl<T: Clone> Link<T> {
    /// A link without packets. What happens by chance comes from `random`.
    #[must_use]
    pub fn new(settings: Settings, random: Random) -> Self {
        Self {
            settings,
            random,
            queue: Waiting::default(),
            is_bad: false,
            cuts: Vec::new(),
            on_the_way: BTreeMap::new(),
            next_number: 0,
            latest: Time::ZERO,
            statistics: Statistics::default(),
        }
    }

    /// Puts a packet in. `now` never goes back between calls.
    pub fn send(&mut self, packet: Packet<T>, now: Time) -> Admission {
        self.statistics.sent += 1;
        if let Some(mtu) = self.settings.mtu
            && packet.bytes.len() as u64 + u64::from(self.settings.header_bytes) > u64::from(mtu.bytes)
        {
            self.statistics.too_large += 1;
            let largest = mtu.bytes.saturating_sub(self.settings.header_bytes);
            return if mtu.tells { Admission::TooLarge(largest) } else { Admission::Taken };
        }
        if self.on_the_way.len() >= self.settings.in_flight {
            self.statistics.overflowed += 1;
            return Admission::Taken;
        }
        match self.queue.enter(packet.bytes.len(), now, &self.settings) {
            Passage::Dropped => self.statistics.overflowed += 1,
            Passage::Leaves { at, marked } => self.carry(packet, at, marked),
        }
        Admission::Taken
    }

    /// When the next packet arrives. [`Link::deliver`] has one from then on.
    #[must_use]
    pub fn next_time(&self) -> Option<Time> {
        self.on_the_way.keys().next().map(|(at, _)| *at)
    }

    /// The next packet that has arrived by `now`.
    pub fn deliver(&mut self, now: Time) -> Option<Packet<T>> {
        let entry = self.on_the_way.first_entry().filter(|entry| entry.key().0 <= now)?;
        self.statistics.delivered += 1;
        Some(entry.remove())
    }

    /// Lets nothing pass that leaves the queue in `span`. What has left before arrives.
    pub fn cut(&mut self, span: Range<Time>) {
        self.cuts.push(span);
    }

    /// Forgets all partitions, past and to come.
    pub fn mend(&mut self) {
        self.cuts.clear();
    }

    /// How packets are treated.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Changes how packets that are sent from now on are treated.
    pub const fn set_settings(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// Packets, and copies, on the way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.on_the_way.len()
    }

    /// What became of the packets.
    #[must_use]
    pub const fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Whether nothing passes that leaves the queue at this time.
    #[must_use]
    pub fn is_cut(&self, at: Time) -> bool {
        self.cuts.iter().any(|cut| cut.contains(&at))
    }

    /// A packet that leaves the queue then.
    fn carry(&mut self, mut packet: Packet<T>, leaves: Time, marked: bool) {
        if self.is_cut(leaves) {
            self.statistics.cut += 1;
            return;
        }
        if self.settings.loss.takes(&mut self.is_bad, &mut self.random) {
            self.statistics.lost += 1;
            return;
        }
        if marked && matches!(packet.ecn, Ecn::Capable0 | Ecn::Capable1) {
            packet.ecn = Ecn::Congested;
            self.statistics.marked += 1;
        }
        if self.settings.clears_ecn {
            packet.ecn = Ecn::NotCapable;
        }
        let at = self.arrival(leaves);
        if let Some(later) = self.happens(self.settings.duplication) {
            self.statistics.duplicated += 1;
            self.put(packet.clone(), at + later);
        }
        self.put(packet, at);
    }

    fn arrival(&mut self, leaves: Time) -> Time {
        let at = leaves + self.settings.delay + self.up_to(self.settings.jitter);
        let at = at.max(self.latest);
        if let Some(later) = self.happens(self.settings.reordering) {
            self.statistics.held_back += 1;
            return at + later;
        }
        self.latest = at;
        at
    }

    fn put(&mut self, mut packet: Packet<T>, at: Time) {
        if !packet.bytes.is_empty() && self.settings.corruption.happens(&mut self.random) {
            self.statistics.corrupted += 1;
            damage(&mut packet.bytes, self.settings.most_flips, &mut self.random);
        }
        self.on_the_way.insert((at, self.next_number), packet);
        self.next_number += 1;
    }

    fn happens(&mut self, delayed: Delayed) -> Option<Duration> {
        delayed.chance.happens(&mut self.random).then(|| self.up_to(delayed.by))
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        if most.is_zero() {
            return most;
        }
        let most = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.random.below(most.saturating_add(1)))
    }
}

/// Flips one to so many bits.
fn damage(bytes: &mut [u8], most: u8, random: &mut Random) {
    let flips = 1 + random.below(u64::from(most).clamp(1, FLIPS as u64)) as usize;
    let mut flipped = [u64::MAX; FLIPS];
    for index in 0..flips {
        let bit = random.below(bytes.len() as u64 * 8);
        // Twice would be none.
        if !flipped[..index].contains(&bit) {
            bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
            flipped[index] = bit;
        }
    }
}
