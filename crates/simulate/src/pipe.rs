//! One direction of a simulated stream.

use core::time::Duration;
use std::collections::VecDeque;

use weft_base::{Random, Time};

use crate::ring::RingBehaviour;

/// How a simulated network treats what is sent over it.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// Bytes take between nothing and this long; they stay in order.
    pub delay: Duration,
    /// They arrive at multiples of this time, later than otherwise; zero: at any time. Where many streams carry
    /// something, each time costs a turn of every NIC.
    pub step: Duration,
    /// A send takes at most this many bytes, a random number of them.
    pub send_at_most: usize,
    /// A receive brings at most this many bytes, a random number of them.
    pub receive_at_most: usize,
    /// Sends take, and receives bring, as many bytes as they may, and not a random number of them.
    pub is_whole: bool,
    /// Bytes that may be in flight.
    pub capacity: usize,
    /// What [`weft_base::Port::segment_size`] says.
    pub segment_size: u32,
    /// One byte in this many is damaged; 0: none.
    pub damage_one_in: u64,
    /// The stream breaks after this many bytes of one direction.
    pub break_after: Option<u64>,
    /// Listeners find no descriptors for callers.
    pub no_descriptors: bool,
    /// Whether ports can show what comes out of order, and what comes then.
    pub segments: Segments,
    /// How streams through shared memory are, where there are any.
    pub ring: Option<RingBehaviour>,
}

/// What ports show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Segments {
    /// The stream in order.
    #[default]
    InOrder,
    /// What is there, in any order, as it was sent.
    AsSent,
    /// What is there, in any order, cut anywhere.
    Recut,
}

impl Default for Behaviour {
    /// A network that does everything TCP may do, and nothing worse.
    fn default() -> Self {
        Self {
            delay: Duration::from_micros(100),
            step: Duration::ZERO,
            send_at_most: 70_000,
            receive_at_most: 70_000,
            is_whole: false,
            capacity: 300_000,
            segment_size: 1448,
            damage_one_in: 0,
            break_after: None,
            no_descriptors: false,
            segments: Segments::InOrder,
            ring: None,
        }
    }
}

impl Behaviour {
    /// How many of `most` bytes one call takes.
    fn part_of(&self, most: usize, random: &mut Random) -> usize {
        let part = if random.one_in(2) { most } else { 1 + random.below(most as u64) as usize };
        if self.is_whole { most } else { part }
    }
}

/// How a direction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Closed,
    Reset,
}

/// Bytes that follow one another, and when they are there.
#[derive(Debug)]
struct Chunk {
    at: Time,
    /// Their position in the stream.
    start: u64,
    bytes: VecDeque<u8>,
}

/// Bytes in flight in one direction.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    chunks: VecDeque<Chunk>,
    on_the_way: usize,
    carried: u64,
    latest: Time,
    ended: Option<(Time, Ended)>,
}

impl Pipe {
    /// Takes some of `bytes`, which are there at a later time.
    pub(crate) fn send(&mut self, bytes: &[u8], now: Time, behaviour: &Behaviour, random: &mut Random) -> usize {
        let room = behaviour.capacity.saturating_sub(self.on_the_way);
        let most = bytes.len().min(room).min(behaviour.send_at_most);
        if most == 0 {
            return 0;
        }
        let count = behaviour.part_of(most, random);
        let delay = random.below(behaviour.delay.as_nanos() as u64 + 1);
        let step = (behaviour.step.as_nanos() as u64).max(1);
        let at = (now.as_nanos() + delay).next_multiple_of(step);
        self.latest = self.latest.max(Time::from_nanos(at));
        let mut chunk: VecDeque<u8> = bytes[..count].iter().copied().collect();
        if behaviour.damage_one_in > 0 {
            for byte in &mut chunk {
                if random.one_in(behaviour.damage_one_in) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
        self.chunks.push_back(Chunk { at: self.latest, start: self.carried, bytes: chunk });
        self.on_the_way += count;
        self.carried += count as u64;
        if behaviour.break_after.is_some_and(|limit| self.carried >= limit) {
            self.end(self.latest, Ended::Reset);
        }
        count
    }

    /// Takes up to `most` bytes that are there.
    pub(crate) fn receive(&mut self, most: usize, now: Time, behaviour: &Behaviour, random: &mut Random) -> Vec<u8> {
        let most = most.min(behaviour.receive_at_most);
        let count = behaviour.part_of(most, random);
        let mut out = Vec::new();
        while let Some(chunk) = self.chunks.front_mut() {
            if chunk.at > now || out.len() >= count {
                break;
            }
            let take = chunk.bytes.len().min(count - out.len());
            out.extend(chunk.bytes.drain(..take));
            chunk.start += take as u64;
            if chunk.bytes.is_empty() {
                self.chunks.pop_front();
            }
        }
        self.on_the_way -= out.len();
        out
    }

    /// The position of the first byte that was not received.
    pub(crate) fn position(&self) -> u64 {
        self.chunks.front().map_or(self.carried, |chunk| chunk.start)
    }

    /// Takes some bytes that are there, from anywhere, and their position.
    pub(crate) fn receive_anywhere(
        &mut self,
        now: Time,
        behaviour: &Behaviour,
        random: &mut Random,
    ) -> Option<(u64, Vec<u8>)> {
        let there = self.chunks.iter().take_while(|chunk| chunk.at <= now).count();
        if there == 0 {
            return None;
        }
        let index = random.below(there as u64) as usize;
        let Chunk { at, start, mut bytes } = self.chunks.remove(index)?;
        if behaviour.segments == Segments::AsSent {
            self.on_the_way -= bytes.len();
            return Some((start, bytes.into()));
        }
        let from = if random.one_in(2) { 0 } else { random.below(bytes.len() as u64) as usize };
        let most = behaviour.receive_at_most.min(1 + random.below(3000) as usize);
        let mut piece = bytes.split_off(from);
        let behind = piece.split_off(most.min(piece.len()));
        let position = start + from as u64;
        let parts = [(position + piece.len() as u64, behind), (start, bytes)];
        for (start, bytes) in parts.into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
            self.chunks.insert(index, Chunk { at, start, bytes });
        }
        self.on_the_way -= piece.len();
        Some((position, piece.into()))
    }

    /// What was taken is back.
    pub(crate) fn put_back(&mut self, start: u64, bytes: Vec<u8>, now: Time) {
        self.on_the_way += bytes.len();
        self.chunks.push_front(Chunk { at: now, start, bytes: bytes.into() });
    }

    /// Bytes at any position, as no TCP would bring them.
    pub(crate) fn send_at(&mut self, start: u64, bytes: &[u8]) {
        self.on_the_way += bytes.len();
        self.carried = self.carried.max(start + bytes.len() as u64);
        self.chunks.push_back(Chunk { at: self.latest, start, bytes: bytes.iter().copied().collect() });
    }

    pub(crate) fn end(&mut self, at: Time, how: Ended) {
        if self.ended.is_none_or(|(_, before)| before == Ended::Closed && how == Ended::Reset) {
            self.ended = Some((at.max(self.latest), how));
        }
        if how == Ended::Reset {
            self.chunks.clear();
            self.on_the_way = 0;
            self.ended = Some((at, how));
        }
    }

    /// How it has ended, as far as the receiver can know now.
    pub(crate) fn ended(&self, now: Time) -> Option<Ended> {
        self.ended
            .filter(|(at, how)| *at <= now && (*how == Ended::Reset || self.chunks.is_empty()))
            .map(|(_, how)| how)
    }

    /// Whether the sender can't send any more.
    pub(crate) fn is_reset(&self) -> bool {
        matches!(self.ended, Some((_, Ended::Reset)))
    }

    /// Whether there are `least` bytes, or all that can come.
    pub(crate) fn is_readable(&self, least: u32, now: Time, behaviour: &Behaviour) -> bool {
        let here: usize = self.chunks.iter().take_while(|chunk| chunk.at <= now).map(|chunk| chunk.bytes.len()).sum();
        let over = self.ended.is_some_and(|(at, _)| at <= now);
        here >= least as usize || over || (here > 0 && !self.has_room(behaviour))
    }

    pub(crate) fn has_room(&self, behaviour: &Behaviour) -> bool {
        self.on_the_way < behaviour.capacity || self.is_reset()
    }

    /// When something will be there that is not yet.
    pub(crate) fn next_event(&self, now: Time) -> Option<Time> {
        let mut times = self.chunks.iter().map(|chunk| chunk.at).chain(self.ended.map(|(at, _)| at));
        times.by_ref().filter(|at| *at > now).min()
    }
}
