//! One direction of a way.

use core::ops::Range;
use core::time::Duration;
use std::collections::VecDeque;

use weft_base::{Ecn, Random, Time};

use crate::queue::{Passage, Waiting};
use crate::schedule::Schedule;
use crate::spread::Drawer;
use crate::{Delayed, Profile, Settings, Statistics};

/// Bits that are flipped in a damaged packet, at most. CRC-32C finds all of so few in a packet of any size that there
/// is.
const FLIPS: usize = 4;

/// A packet on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet<T> {
    /// What may be damaged in flight.
    pub bytes: Vec<u8>,
    /// The bits of congestion notification.
    pub ecn: Ecn,
    /// What goes with it, untouched: where from, where to.
    pub tag: T,
}

/// What a sender may notice at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Nothing: the packet is in flight, or is not.
    Taken,
    /// The link tells its MTU: no packet of more bytes than this passes.
    TooLarge(u32),
}

/// One direction of a way. See the [crate]'s page.
#[derive(Debug)]
pub struct Link<T> {
    profile: Profile,
    /// What the profile will be, and from when on; in order.
    changes: VecDeque<(Time, Profile)>,
    random: Random,
    drawer: Drawer,
    queue: Waiting<Packet<T>>,
    is_bad: bool,
    /// Partitions: nothing passes from the start until before the end.
    cuts: Vec<Range<Time>>,
    on_the_way: Schedule<Packet<T>>,
    /// When the last of those that stay in order arrives.
    latest: Time,
    statistics: Statistics,
}

impl<T: Clone> Link<T> {
    /// A link without packets. What happens by chance comes from `random`.
    #[must_use]
    pub fn new(profile: impl Into<Profile>, random: Random) -> Self {
        Self {
            profile: profile.into(),
            changes: VecDeque::new(),
            random,
            drawer: Drawer::default(),
            queue: Waiting::new(),
            is_bad: false,
            cuts: Vec::new(),
            on_the_way: Schedule::new(),
            latest: Time::ZERO,
            statistics: Statistics::default(),
        }
    }

    /// Puts a packet in. `now` never goes back between calls.
    pub fn send(&mut self, packet: Packet<T>, now: Time) -> Admission {
        let length = packet.bytes.len();
        self.send_part(packet, length, now)
    }

    /// Puts a packet in that has this many bytes, of which only the first are at hand.
    pub fn send_part(&mut self, packet: Packet<T>, length: usize, now: Time) -> Admission {
        self.advance(now);
        self.statistics.sent += 1;
        let settings = &self.profile.settings;
        let bytes = length as u64 + u64::from(settings.header_bytes);
        if let Some(mtu) = settings.mtu
            && bytes > u64::from(mtu.bytes)
        {
            self.statistics.too_large += 1;
            let largest = mtu.bytes.saturating_sub(settings.header_bytes);
            return if mtu.tells { Admission::TooLarge(largest) } else { Admission::Taken };
        }
        if self.in_flight() >= settings.in_flight {
            self.statistics.overflowed += 1;
            return Admission::Taken;
        }
        if self.queue.keeps_packets(&self.profile) {
            self.statistics.overflowed += u64::from(!self.queue.stand(packet, bytes, now, &self.profile));
            self.serve(now);
            return Admission::Taken;
        }
        match self.queue.enter(bytes, now, &self.profile) {
            Passage::Dropped => self.statistics.overflowed += 1,
            Passage::Leaves { at, marked } => self.carry(packet, at, marked),
        }
        Admission::Taken
    }

    /// When to ask [`Link::deliver`] next: the next packet arrives then, or the queue has something to decide.
    #[must_use]
    pub fn next_time(&self) -> Option<Time> {
        let arrival = self.on_the_way.next_time();
        let Some(mut start) = self.queue.next_start(&self.profile) else { return arrival };
        // How fast the queue empties may be different from then on.
        start = self.changes.front().map_or(start, |(at, _)| start.min(*at));
        Some(arrival.map_or(start, |arrival| arrival.min(start)))
    }

    /// The next packet that has arrived by `now`. `now` never goes back between calls.
    pub fn deliver(&mut self, now: Time) -> Option<Packet<T>> {
        self.deliver_timed(now).map(|(_, packet)| packet)
    }

    /// The same, with the time at which it has arrived: what comes next on its path gets that for `now`.
    pub fn deliver_timed(&mut self, now: Time) -> Option<(Time, Packet<T>)> {
        self.advance(now);
        let delivered = self.on_the_way.take(now)?;
        self.statistics.delivered += 1;
        Some(delivered)
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
        &self.profile.settings
    }

    /// Changes how packets that are sent from now on are treated.
    pub const fn set_settings(&mut self, settings: Settings) {
        self.profile.settings = settings;
    }

    /// From these times on packets are treated so, each time as the last that has come says. A trace begins when its
    /// profile does, unless the one before has the same. What was to come before is forgotten.
    pub fn set_changes(&mut self, changes: impl IntoIterator<Item = (Time, Profile)>) {
        self.changes = changes.into_iter().collect();
        self.changes.make_contiguous().sort_by_key(|(at, _)| *at);
    }

    /// Packets, and copies, in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.on_the_way.len() + self.queue.standing()
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

    /// Does what was to be done by now.
    fn advance(&mut self, now: Time) {
        while self.changes.front().is_some_and(|(at, _)| *at <= now) {
            let Some((at, profile)) = self.changes.pop_front() else { return };
            self.serve(at);
            if profile.trace != self.profile.trace {
                self.queue.start_trace(at);
            }
            self.profile = profile;
        }
        self.serve(now);
    }

    /// Releases what is in the queue and may leave by now.
    fn serve(&mut self, now: Time) {
        let can_be_marked = |packet: &Packet<T>| is_capable(packet.ecn);
        while let Some((packet, passage)) = self.queue.next(now, &self.profile, can_be_marked) {
            match passage {
                Passage::Dropped => self.statistics.codel_dropped += 1,
                Passage::Leaves { at, marked } => self.carry(packet, at, marked),
            }
        }
    }

    /// A packet that leaves the queue then.
    fn carry(&mut self, mut packet: Packet<T>, leaves: Time, marked: bool) {
        if self.is_cut(leaves) {
            self.statistics.cut += 1;
            return;
        }
        let settings = self.profile.settings;
        if settings.loss.takes(&mut self.is_bad, &mut self.random) {
            self.statistics.lost += 1;
            return;
        }
        if marked && is_capable(packet.ecn) {
            packet.ecn = Ecn::Congested;
            self.statistics.marked += 1;
        }
        if settings.clears_ecn {
            packet.ecn = Ecn::NotCapable;
        }
        let (at, is_in_order) = self.arrival(leaves);
        if let Some(later) = self.happens(settings.duplication) {
            self.statistics.duplicated += 1;
            self.put(packet.clone(), at + later, false);
        }
        self.put(packet, at, is_in_order);
    }

    /// When a packet arrives that leaves the queue then, and whether those behind it come later.
    fn arrival(&mut self, leaves: Time) -> (Time, bool) {
        let settings = self.profile.settings;
        let spread =
            self.drawer.draw(settings.spread, self.profile.delays.as_deref(), settings.correlation, &mut self.random);
        let delay = if spread < 0.0 {
            settings.delay.saturating_sub(Duration::from_nanos(-spread as u64))
        } else {
            settings.delay + Duration::from_nanos(spread as u64)
        };
        let mut at = leaves + delay + self.up_to(settings.jitter);
        if !settings.overtakes {
            at = at.max(self.latest);
        }
        if let Some(later) = self.happens(settings.reordering) {
            self.statistics.held_back += 1;
            return (at + later, false);
        }
        self.latest = self.latest.max(at);
        (at, true)
    }

    fn put(&mut self, mut packet: Packet<T>, at: Time, is_in_order: bool) {
        let settings = &self.profile.settings;
        if !packet.bytes.is_empty() && settings.corruption.happens(&mut self.random) {
            self.statistics.corrupted += 1;
            damage(&mut packet.bytes, settings.most_flips, &mut self.random);
        }
        self.on_the_way.put(packet, at, is_in_order);
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

const fn is_capable(ecn: Ecn) -> bool {
    matches!(ecn, Ecn::Capable0 | Ecn::Capable1)
}

/// Flips one to `most` bits.
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
