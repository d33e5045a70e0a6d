//! What is under way on one rail, and what became of it.

use core::ops::RangeInclusive;
use core::time::Duration;
use std::collections::VecDeque;

use weft_base::Time;

use crate::delivery::{Delivery, Stamp};
use crate::feedback::Feedback;
use crate::reordering::{Episode, Reordering, remembered_until};
use crate::round_trip::{RoundTrip, RoundTripSettings, nanos};

mod error;
#[cfg(test)]
mod tests;

pub use error::{AckError, SendError};

/// Probes back off to this interval and no further: a peer that was stopped is found again within it.
pub const MAX_PROBE_INTERVAL: Duration = Duration::from_secs(3);

/// Who is told what became of packets. `T` is what the caller keeps of each.
pub trait Fate<T> {
    /// The peer has it.
    fn acked(&mut self, number: u64, packet: T);

    /// It is given up: send what it carried again. `packet` stays known for a while, for it may yet arrive.
    fn lost(&mut self, number: u64, packet: &mut T);

    /// The peer has it, after all: it had been given up.
    fn late(&mut self, number: u64, packet: T);
}

/// What a time-out means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// It is not due yet.
    Early,
    /// Packets were given up by time.
    Losses(Feedback),
    /// No acknowledgement comes: send one or two packets that ask for one at once, whatever the window says. Nothing is
    /// lost for that.
    Probe {
        /// Probes in a row without an answer, this one included.
        count: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    /// Given up, and remembered in case it arrives.
    Lost,
    /// Acknowledged, or not to be acknowledged.
    Done,
}

#[derive(Debug)]
struct Record<T> {
    /// Until the packet is done.
    packet: Option<T>,
    sent_at: Time,
    stamp: Stamp,
    bytes: u32,
    /// As many records from here on are done, at least; so that a long acknowledged run is passed in one step.
    run: u32,
    state: State,
    marked: bool,
}

/// The packets of one rail that are not acknowledged yet, or that may still prove not to be lost.
///
/// A ring that grows on use up to its limit and then allocates no more. Every call costs constant time plus a constant
/// per packet whose fate is decided: acknowledged runs are passed in one step, and losses are always the oldest
/// packets.
///
/// Order of calls: [`on_sent`](Self::on_sent) for each packet; [`on_ack`](Self::on_ack) for each acknowledgement, and
/// [`on_timeout`](Self::on_timeout) when [`next_timeout`](Self::next_timeout) has come. The time must not go back.
#[derive(Debug)]
pub struct SentPackets<T> {
    ring: VecDeque<Record<T>>,
    /// Number of the ring's first record.
    first: u64,
    limit: usize,
    in_flight: u64,
    in_flight_packets: u64,
    largest_acked: Option<u64>,
    /// No packet below is in flight.
    undecided: u64,
    last_sent_at: Time,
    /// When the oldest packet is given up, if it stays unacknowledged.
    loss_at: Option<Time>,
    backoff: u32,
    rtt: RoundTrip,
    reordering: Reordering,
    episode: Episode,
    delivery: Delivery,
}

impl<T> SentPackets<T> {
    /// A rail that has sent nothing, whose first packet has number `first`, and which keeps `limit` records at most.
    #[must_use]
    pub fn new(first: u64, limit: usize, settings: RoundTripSettings) -> Self {
        Self {
            ring: VecDeque::new(),
            first,
            limit,
            in_flight: 0,
            in_flight_packets: 0,
            largest_acked: None,
            undecided: first,
            last_sent_at: Time::ZERO,
            loss_at: None,
            backoff: 0,
            rtt: RoundTrip::new(settings),
            reordering: Reordering::new(),
            episode: Episode::default(),
            delivery: Delivery::default(),
        }
    }

    /// The number of the next packet.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    /// Bytes under way: sent, neither acknowledged nor given up.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Packets under way.
    #[must_use]
    pub const fn in_flight_packets(&self) -> u64 {
        self.in_flight_packets
    }

    /// Bytes that were acknowledged since the start.
    #[must_use]
    pub const fn delivered(&self) -> u64 {
        self.delivery.delivered()
    }

    /// The largest number that was acknowledged.
    #[must_use]
    pub const fn largest_acked(&self) -> Option<u64> {
        self.largest_acked
    }

    /// The rail's round trip.
    #[must_use]
    pub const fn round_trip(&self) -> &RoundTrip {
        &self.rtt
    }

    /// Changes the longest acknowledgement delay: the peer has said another one.
    pub const fn set_max_ack_delay(&mut self, delay: Duration) {
        self.rtt.set_max_ack_delay(delay);
    }

    /// By how many packets, and by how much time since it was sent, a packet may come late before it is given up.
    #[must_use]
    pub fn thresholds(&self) -> (u64, Duration) {
        (self.reordering.packets(), self.reordering.time(&self.rtt))
    }

    /// Whether another packet can be recorded. Lost packets that are only remembered make room.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.ring.len() < self.limit || self.ring.front().is_none_or(|record| record.state != State::InFlight)
    }

    /// The sender has nothing more to send, and the window would let it: rates measured from now say little of the
    /// path.
    pub const fn on_app_limited(&mut self) {
        self.delivery.on_app_limited(self.in_flight);
    }

    /// Packet `number` of `bytes`, to be acknowledged, is sent; `marked` with ECT. `packet` comes back with its fate.
    ///
    /// # Errors
    /// [`SendError`]; nothing is recorded then.
    pub fn on_sent(&mut self, number: u64, bytes: u32, marked: bool, packet: T, now: Time) -> Result<(), SendError> {
        self.make_room(number)?;
        let stamp = self.delivery.on_sent(self.in_flight, now);
        self.in_flight += u64::from(bytes);
        self.in_flight_packets += 1;
        self.last_sent_at = now;
        let state = State::InFlight;
        self.ring.push_back(Record { packet: Some(packet), sent_at: now, stamp, bytes, run: 0, state, marked });
        Ok(())
    }

    /// Packet `number` is sent and asks for no acknowledgement (it carries only some itself, say). It is neither
    /// counted as under way nor ever lost.
    ///
    /// # Errors
    /// [`SendError`]; nothing is recorded then.
    pub fn on_sent_unasked(&mut self, number: u64, now: Time) -> Result<(), SendError> {
        self.make_room(number)?;
        if self.ring.is_empty() {
            self.first += 1;
            return Ok(());
        }
        let (stamp, state) = (Stamp::default(), State::Done);
        self.ring.push_back(Record { packet: None, sent_at: now, stamp, bytes: 0, run: 1, state, marked: false });
        Ok(())
    }

    fn make_room(&mut self, number: u64) -> Result<(), SendError> {
        let expected = self.next_number();
        if number != expected {
            return Err(SendError::Number { number, expected });
        }
        if self.ring.len() < self.limit {
            return Ok(());
        }
        if !self.has_room() || self.limit == 0 {
            return Err(SendError::Full { limit: self.limit });
        }
        self.drop_first();
        Ok(())
    }

    /// The peer has acknowledged `ranges`, largest first, and says that it held this back for `ack_delay`. Numbers that
    /// are long known cost nothing and mean nothing.
    ///
    /// # Errors
    /// [`AckError`]; nothing is changed then.
    pub fn on_ack<R>(
        &mut self,
        ranges: R,
        ack_delay: Duration,
        now: Time,
        fate: &mut impl Fate<T>,
    ) -> Result<Feedback, AckError>
    where
        R: Iterator<Item = RangeInclusive<u64>> + Clone,
    {
        let largest = self.check(ranges.clone())?;
        let mut feedback = Feedback { now, in_flight_before: self.in_flight, ..Feedback::default() };
        let sample = self.sample(largest, now);
        for range in ranges {
            self.acknowledge(&range, &mut feedback, fate);
        }
        self.largest_acked = self.largest_acked.max(Some(largest));
        if let Some(sample) = sample
            && self.rtt.update(sample, ack_delay, now)
        {
            feedback.rtt = Some(sample);
        }
        (feedback.rate, feedback.round) = self.delivery.finish(self.rtt.min());
        if feedback.round {
            self.reordering.on_round();
        }
        if feedback.acked_packets > 0 {
            self.backoff = 0;
        }
        self.settle(&mut feedback, fate);
        Ok(feedback)
    }

    /// Whether this can be an acknowledgement; its largest number.
    fn check(&self, ranges: impl Iterator<Item = RangeInclusive<u64>>) -> Result<u64, AckError> {
        let next = self.next_number();
        let mut largest = None;
        let mut below = u64::MAX;
        for range in ranges {
            let (start, end) = (*range.start(), *range.end());
            if end >= next {
                return Err(AckError::NeverSent { number: end, next });
            }
            if start > end || end >= below {
                return Err(AckError::Disorder { start, end });
            }
            below = start;
            largest = largest.or(Some(end));
        }
        largest.ok_or(AckError::Empty)
    }

    /// The round trip of the largest packet, if it is newly acknowledged (RFC 9002 section 5.1). One that was given up
    /// counts too: its number says which sending is acknowledged.
    fn sample(&self, largest: u64, now: Time) -> Option<Duration> {
        let record = self.ring.get(usize::try_from(largest.checked_sub(self.first)?).ok()?)?;
        (record.state != State::Done).then(|| now.since(record.sent_at))
    }

    fn acknowledge(&mut self, range: &RangeInclusive<u64>, feedback: &mut Feedback, fate: &mut impl Fate<T>) {
        if *range.end() < self.first {
            return;
        }
        let begin = (*range.start()).max(self.first);
        let mut number = begin;
        while number <= *range.end() {
            let record = &self.ring[(number - self.first) as usize];
            if record.state == State::Done {
                number += u64::from(record.run);
            } else {
                self.acknowledge_one(number, feedback, fate);
                number += 1;
            }
        }
        // The whole range is done now, and perhaps some beyond it.
        let run = u32::try_from(number - begin).unwrap_or(u32::MAX);
        self.ring[(begin - self.first) as usize].run = run;
    }

    fn acknowledge_one(&mut self, number: u64, feedback: &mut Feedback, fate: &mut impl Fate<T>) {
        let record = &mut self.ring[(number - self.first) as usize];
        let bytes = u64::from(record.bytes);
        let was = core::mem::replace(&mut record.state, State::Done);
        record.run = 1;
        feedback.acked_bytes += bytes;
        feedback.acked_packets += 1;
        feedback.sent_at = feedback.sent_at.max(Some(record.sent_at));
        feedback.acked_marked += u32::from(record.marked);
        self.delivery.on_acked(record.stamp, bytes, record.sent_at, feedback.now);
        let (packet, elapsed) = (record.packet.take(), feedback.now.since(record.sent_at));
        let packet = packet.expect("a packet that is not done is held");
        let distance = self.largest_acked.map_or(0, |largest| largest.saturating_sub(number));
        if was == State::InFlight {
            self.in_flight -= bytes;
            self.in_flight_packets -= 1;
            self.reordering.on_disorder(distance);
            fate.acked(number, packet);
        } else {
            self.reordering.on_late(distance, elapsed, &self.rtt);
            feedback.late_packets += 1;
            feedback.undo |= self.episode.on_late(number);
            fate.late(number, packet);
        }
    }

    /// After packets were acknowledged, or time has passed: gives up what is lost, forgets what needs no memory.
    fn settle(&mut self, feedback: &mut Feedback, fate: &mut impl Fate<T>) {
        self.forget(feedback.now);
        self.give_up(feedback, fate);
        feedback.in_flight = self.in_flight;
    }

    fn forget(&mut self, now: Time) {
        while let Some(record) = self.ring.front() {
            match record.state {
                State::InFlight => break,
                State::Lost if now < remembered_until(record.sent_at, &self.rtt) => break,
                State::Lost | State::Done => self.drop_first(),
            }
        }
    }

    fn drop_first(&mut self) {
        self.ring.pop_front();
        self.first += 1;
    }

    /// RFC 9002 section 6.1, with thresholds that adapt. Both conditions hold for every packet before one for which
    /// they hold, so that the search ends at the first packet that stays.
    fn give_up(&mut self, feedback: &mut Feedback, fate: &mut impl Fate<T>) {
        self.loss_at = None;
        let Some(largest) = self.largest_acked else { return };
        let mut number = self.undecided.max(self.first);
        if number >= largest {
            return;
        }
        let (packets, time) = self.thresholds();
        // When the oldest packet of an unbroken run of losses was sent.
        let mut run_from = None;
        while number < largest {
            let record = &self.ring[(number - self.first) as usize];
            let (state, sent_at, run) = (record.state, record.sent_at, record.run);
            if state == State::Done {
                run_from = None;
                number += u64::from(run);
                continue;
            }
            if largest - number < packets && feedback.now < sent_at + time {
                self.loss_at = Some(sent_at + time);
                break;
            }
            self.lose(number, feedback, fate);
            let since = *run_from.get_or_insert(sent_at);
            feedback.persistent |= self.rtt.is_known() && sent_at.since(since) > 3 * self.rtt.probe_timeout(0);
            number += 1;
        }
        self.undecided = number;
    }

    fn lose(&mut self, number: u64, feedback: &mut Feedback, fate: &mut impl Fate<T>) {
        let next = self.next_number();
        let record = &mut self.ring[(number - self.first) as usize];
        if record.state != State::InFlight {
            return;
        }
        record.state = State::Lost;
        let bytes = u64::from(record.bytes);
        self.in_flight -= bytes;
        self.in_flight_packets -= 1;
        feedback.lost_bytes += bytes;
        feedback.lost_packets += 1;
        feedback.congested |= self.episode.on_lost(number, next);
        fate.lost(number, record.packet.as_mut().expect("a packet that is not done is held"));
    }

    /// Routers have marked `ce` more packets as having met congestion, as the acknowledgement of `feedback` says.
    pub fn on_marked(&mut self, ce: u64, feedback: &mut Feedback) {
        if ce == 0 {
            return;
        }
        feedback.ce += ce;
        let next = self.next_number();
        if let Some(largest) = self.largest_acked {
            feedback.congested |= self.episode.on_marked(largest, next);
        }
    }

    /// When [`on_timeout`](Self::on_timeout) is to be called; never, while nothing is under way.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.loss_at.or_else(|| {
            let least = self.rtt.probe_timeout(0);
            let wait = self.rtt.probe_timeout(self.backoff).min(least.max(MAX_PROBE_INTERVAL));
            (self.in_flight_packets > 0).then(|| self.last_sent_at + wait)
        })
    }

    /// Time has passed: gives packets up, or asks for a probe (RFC 9002 sections 6.1.2 and 6.2).
    pub fn on_timeout(&mut self, now: Time, fate: &mut impl Fate<T>) -> Timeout {
        if self.next_timeout().is_none_or(|due| now < due) {
            return Timeout::Early;
        }
        if self.loss_at.is_none() {
            self.backoff = self.backoff.saturating_add(1);
            // The next one is counted from here, also when no probe can be sent.
            self.last_sent_at = now;
            return Timeout::Probe { count: self.backoff };
        }
        let mut feedback = Feedback { now, in_flight_before: self.in_flight, ..Feedback::default() };
        self.settle(&mut feedback, fate);
        Timeout::Losses(feedback)
    }

    /// Gives everything back that is not acknowledged, lost packets that are still remembered excepted: the rail is
    /// dead. Numbers go on where they were.
    pub fn abandon(&mut self) -> impl Iterator<Item = (u64, T)> + '_ {
        let first = self.first;
        self.first = self.next_number();
        self.undecided = self.first;
        (self.in_flight, self.in_flight_packets, self.loss_at) = (0, 0, None);
        let numbered = self.ring.drain(..).enumerate().filter(|(_, record)| record.state == State::InFlight);
        numbered.filter_map(move |(index, record)| record.packet.map(|packet| (first + index as u64, packet)))
    }

    /// The longest that a record of a packet sent now can stay, for a caller that bounds its own memory.
    #[must_use]
    pub fn memory(&self) -> Duration {
        Duration::from_nanos(nanos(3 * self.rtt.probe_timeout(0)))
    }
}
