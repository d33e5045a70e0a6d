//! What is left of connections in TIME-WAIT (RFC 9293 section 3.6): a small record for each, without buffers.
//!
//! Only a FIN that comes again begins the time anew, and a newer SYN ends it (RFC 6191). Resets do nothing (RFC 1337).

use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use weft_base::Time;

use crate::connection::{Challenges, stamp};
use crate::segment::{Flags, Flow, Options, Segment, Timestamps};

#[cfg(test)]
mod tests;

/// How far the first number of a connection that follows one in TIME-WAIT is at least beyond all numbers of that: more
/// than a window that was not scaled (RFC 9293 section 3.10.7.4 wants it larger; Linux does the same).
const BEYOND: u32 = 1 << 16;

/// What is left of a connection in TIME-WAIT: [`Connection::time_wait`](crate::Connection::time_wait).
#[derive(Debug)]
pub struct TimeWait {
    pub(crate) flow: Flow,
    /// The number that this side would send next, and the one that it expects.
    pub(crate) next: u32,
    pub(crate) expected: u32,
    /// The window field of its acknowledgements.
    pub(crate) window: u16,
    /// The clock of its timestamps, and the last one of the peer's, if they were agreed on.
    pub(crate) stamps: Option<(u32, u32)>,
    /// Timestamps would be agreed on with a new connection, if it wants them.
    pub(crate) offers_stamps: bool,
    pub(crate) challenges: Challenges,
    pub(crate) until: Time,
    /// How long, from now or from a FIN that comes again.
    pub(crate) life: Duration,
}

/// What becomes of a segment for a connection in TIME-WAIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing.
    Nothing,
    /// This is to be sent back.
    Reply(Segment),
    /// It is a SYN that is newer than the connection, which is forgotten. The answer's number must not be before this.
    Renewed(u32),
}

impl TimeWait {
    /// RFC 9293 section 3.10.7.4, in its order. `accepts`: a listener takes calls.
    fn handle(&mut self, segment: &Segment, payload: usize, accepts: bool, now: Time) -> Waiting {
        let flags = segment.flags;
        if flags.rst {
            return Waiting::Nothing;
        }
        if flags.syn {
            let is_renewed = accepts && !flags.ack && !flags.fin && self.is_newer(segment);
            return if is_renewed { Waiting::Renewed(self.next.wrapping_add(BEYOND)) } else { self.challenge(now) };
        }
        match (self.stamps, segment.options.timestamps) {
            // RFC 7323 section 3.2.
            (Some(_), None) => return Waiting::Nothing,
            (Some((_, last)), Some(stamps)) if is_before(stamps.value, last) => return self.challenge(now),
            _ if !flags.ack => return Waiting::Nothing,
            _ => {}
        }
        let end = segment.sequence.wrapping_add(segment.sequence_length(payload) as u32);
        if flags.fin && end == self.expected && segment.acknowledgement == self.next {
            self.until = now + self.life;
            return self.challenge(now);
        }
        let is_nothing = end == segment.sequence && segment.sequence == self.expected;
        if is_nothing { Waiting::Nothing } else { self.challenge(now) }
    }

    /// RFC 6191 section 2: whether a SYN cannot be an old one.
    fn is_newer(&self, syn: &Segment) -> bool {
        let is_beyond = !is_before(syn.sequence, self.expected);
        match (self.stamps, syn.options.timestamps) {
            (Some((_, last)), Some(stamps)) if stamps.value != last => is_before(last, stamps.value),
            (None, Some(_)) => self.offers_stamps || is_beyond,
            (Some(_), _) | (None, None) => is_beyond,
        }
    }

    /// Says what is expected, as often as that is allowed.
    fn challenge(&mut self, now: Time) -> Waiting {
        if !self.challenges.take(now) {
            return Waiting::Nothing;
        }
        let timestamps = self.stamps.map(|(offset, echo)| Timestamps { value: stamp(offset, now), echo });
        Waiting::Reply(Segment {
            source: self.flow.local.port(),
            destination: self.flow.remote.port(),
            sequence: self.next,
            acknowledgement: self.expected,
            flags: Flags { ack: true, ..Flags::default() },
            window: self.window,
            options: Options { timestamps, ..Options::default() },
        })
    }
}

const fn is_before(one: u32, other: u32) -> bool {
    one.wrapping_sub(other).cast_signed() < 0
}

/// Connections of a host in TIME-WAIT, of limited number: when there is one more, the oldest is forgotten. That is the
/// one that has been shut first, or whose FIN came again longest ago.
#[derive(Debug)]
pub struct TimeWaits {
    records: HashMap<Flow, Kept>,
    /// In the order of their time, which is what each was kept with; a record that is gone may still be here.
    order: VecDeque<(Flow, Time)>,
    limit: usize,
    evicted: u64,
}

#[derive(Debug)]
struct Kept {
    record: TimeWait,
    /// Its time in the order.
    queued: Time,
}

impl TimeWaits {
    /// Keeps at most `limit`, at least one. Memory is taken as they come: about 300 bytes for each.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { records: HashMap::new(), order: VecDeque::new(), limit: limit.max(1), evicted: 0 }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Records that were forgotten before their time, because there were too many.
    #[must_use]
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Whether a connection between these ends is one of them.
    #[must_use]
    pub fn contains(&self, flow: &Flow) -> bool {
        self.records.contains_key(flow)
    }

    /// One more.
    pub fn insert(&mut self, record: TimeWait) {
        while self.records.len() >= self.limit && !self.records.contains_key(&record.flow) {
            self.evict();
        }
        if self.order.len() >= 2 * self.limit {
            let records = &self.records;
            self.order.retain(|(flow, at)| records.get(flow).is_some_and(|kept| kept.queued == *at));
        }
        let (flow, queued) = (record.flow, record.until);
        self.order.push_back((flow, queued));
        self.records.insert(flow, Kept { record, queued });
    }

    fn evict(&mut self) {
        while let Some((flow, at)) = self.order.pop_front() {
            if self.records.get(&flow).is_some_and(|kept| kept.queued == at) {
                self.records.remove(&flow);
                self.evicted += 1;
                return;
            }
        }
    }

    /// Takes a segment that is of none of the host's connections; `None` if it is for none of these either. `accepts`:
    /// a listener takes calls where it goes, and has room for one.
    pub fn handle(
        &mut self,
        flow: &Flow,
        segment: &Segment,
        payload: usize,
        accepts: bool,
        now: Time,
    ) -> Option<Waiting> {
        let waiting = self.records.get_mut(flow)?.record.handle(segment, payload, accepts, now);
        if matches!(waiting, Waiting::Renewed(_)) {
            self.records.remove(flow);
        }
        Some(waiting)
    }

    /// When [`TimeWaits::handle_timeout`] is to be called.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.order.front().map(|(_, until)| *until)
    }

    /// Forgets those whose time is over.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((flow, at)) = self.order.front().copied().filter(|(_, at)| *at <= now) {
            self.order.pop_front();
            match self.records.get_mut(&flow) {
                Some(kept) if kept.queued == at && kept.record.until > now => {
                    // Its FIN came again meanwhile.
                    kept.queued = kept.record.until;
                    self.order.push_back((flow, kept.queued));
                }
                Some(kept) if kept.queued == at => {
                    self.records.remove(&flow);
                }
                _ => {}
            }
        }
    }
}
