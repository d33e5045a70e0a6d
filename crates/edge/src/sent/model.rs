//! Random packets, runs, acknowledgements and losses, against a table with an entry for each packet.

use weft_base::Random;

use super::*;
use crate::row::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Flying,
    Lost,
    Left,
    Settled,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    state: State,
    bytes: u32,
    sent: Time,
    part: Option<Span>,
}

/// What a settled or lost packet was.
type Seen = (u64, u32, bool, Option<Span>);

/// The table. Its first packet has the number `first`.
struct Table {
    first: u64,
    entries: Vec<Entry>,
    largest_acked: Option<u64>,
}

impl Table {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn push(&mut self, bytes: u32, sent: Time, part: Option<Span>) {
        let state = if bytes == 0 { State::Settled } else { State::Flying };
        self.entries.push(Entry { state, bytes, sent, part });
    }

    fn settle(&mut self, number: u64) -> Option<Seen> {
        let entry = self.entries.get_mut((number - self.first) as usize)?;
        let before = core::mem::replace(&mut entry.state, State::Settled);
        (before != State::Settled).then_some((number, entry.bytes, before == State::Lost, entry.part))
    }

    /// Those in flight, with their numbers.
    fn flying(&mut self) -> impl Iterator<Item = (u64, &mut Entry)> {
        (self.first..).zip(&mut self.entries).filter(|(_, entry)| entry.state == State::Flying)
    }

    fn detect(&mut self, now: Time, delay: Duration) -> (Vec<u64>, Option<Time>) {
        let (mut lost, mut loss_at) = (vec![], None);
        let Some(largest) = self.largest_acked else { return (lost, loss_at) };
        for (number, entry) in self.flying().filter(|(number, _)| *number < largest) {
            let due = entry.sent + delay;
            if number + REORDERING <= largest || due <= now {
                entry.state = State::Lost;
                lost.push(number);
            } else {
                loss_at = [loss_at, Some(due)].into_iter().flatten().min();
            }
        }
        (lost, loss_at)
    }
}

/// Each packet of those that were settled together, the newest first.
fn each(settled: &[Packet]) -> Vec<Seen> {
    let one = |packet: &Packet| {
        let (numbers, Packet { bytes, was_lost, contents, count, .. }) = (packet.numbers(), *packet);
        let part = |index: u32| {
            let length = contents.part?.length / count;
            Some(Span { start: contents.part?.start + index * length, length })
        };
        let mut all: Vec<Seen> = numbers.zip(0..).map(|(number, at)| (number, bytes, was_lost, part(at))).collect();
        all.reverse();
        all
    };
    settled.iter().flat_map(one).collect()
}

struct Both {
    sent: Sent,
    table: Table,
    now: Time,
    random: Random,
}

impl Both {
    /// Numbers whose low 32 bits wrap.
    fn new(seed: u64) -> Self {
        let first = (1 << 32) - 300;
        let sent = Sent { next: first, settled_to: first, overtaken: first, ..Sent::new(1 << 20) };
        let table = Table { first, entries: vec![], largest_acked: None };
        Self { sent, table, now: Time::from_nanos(1_000_000), random: Random::new(seed) }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.below(end)
    }

    fn send(&mut self) {
        let bytes = 100 + self.below(2) as u32;
        let now = self.now;
        match self.below(4) {
            0 => {
                self.sent.push(&Leaving { now, bytes, ..Leaving::default() });
                self.table.push(bytes, now, None);
            }
            1 => {
                self.sent.skip(now);
                self.table.push(0, now, None);
            }
            _ => {
                let (start, length, count) = (self.below(9000) as u32, 90, 1 + self.below(64) as u32);
                let contents = Contents { count: 1, part: Some(Span { start, length }), ..Contents::default() };
                self.sent.push_row(&Leaving { now, bytes, contents, ..Leaving::default() }, count);
                for index in 0..count {
                    self.table.push(bytes, now, Some(Span { start: start + index * length, length }));
                }
            }
        }
    }

    fn acknowledge(&mut self) {
        let (first, end) = (self.table.first, self.table.end());
        let low = first + self.below(end - first);
        let high = low + self.below(end - low + 2).min(self.random.below(200));
        let mut settled = vec![];
        let was_sent = self.sent.acknowledge(low, high, &mut settled);
        assert_eq!(was_sent, high < end, "{low} to {high} of {end}");
        if was_sent {
            let expected: Vec<Seen> = (low..=high).rev().filter_map(|number| self.table.settle(number)).collect();
            assert_eq!(each(&settled), expected, "{low} to {high}");
            self.table.largest_acked = self.table.largest_acked.max(Some(high));
        } else {
            assert!(settled.is_empty(), "of what was never sent nothing is settled");
        }
    }

    fn detect(&mut self) {
        let (mut lost, delay) = (vec![], Duration::from_micros(40));
        self.sent.detect(self.now, delay, &mut lost);
        let (expected, loss_at) = self.table.detect(self.now, delay);
        let numbers: Vec<u64> = lost.iter().flat_map(Packet::numbers).collect();
        assert_eq!((numbers, self.sent.loss_at()), (expected, loss_at));
    }

    fn step(&mut self) {
        let (first, end) = (self.table.first, self.table.end());
        match self.below(20) {
            0..=6 => self.send(),
            7..=12 if first < end => self.acknowledge(),
            13..=15 => self.detect(),
            16 if first < end => {
                let number = first + self.below(end - first);
                let settled: Vec<Packet> = self.sent.settle(number).into_iter().collect();
                assert_eq!(each(&settled), self.table.settle(number).into_iter().collect::<Vec<_>>());
            }
            17 if self.random.one_in(20) => {
                let mut left = vec![];
                self.sent.leave(&mut left);
                let expected: Vec<u64> = self.table.flying().map(|(number, _)| number).collect();
                self.table.flying().for_each(|(_, entry)| entry.state = State::Left);
                assert_eq!(left.iter().flat_map(Packet::numbers).collect::<Vec<_>>(), expected);
            }
            _ => self.now = self.now + Duration::from_micros(10),
        }
    }

    fn check(&mut self) {
        let flying: Vec<(u64, u32)> = self.table.flying().map(|(number, entry)| (number, entry.bytes)).collect();
        let bytes = flying.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
        let sent = &self.sent;
        assert_eq!((sent.next_number(), sent.in_flight()), (self.table.end(), bytes));
        assert_eq!(sent.is_flying(), !flying.is_empty());
        assert_eq!(sent.oldest().map(|packet| packet.number), flying.first().map(|(number, _)| *number));
        assert!(sent.flying().map(|packet| packet.number).eq(flying.iter().map(|(number, _)| *number)));
        for number in (self.table.first..self.table.end()).rev().take(80) {
            let entry = self.table.entries[(number - self.table.first) as usize];
            let found = sent.unsettled(number as u32).map(|packet| (packet.number, packet.contents.part));
            assert_eq!(found, (entry.state != State::Settled).then_some((number, entry.part)));
        }
    }
}

#[test]
fn runs_are_settled_as_their_packets_would_be_one_by_one() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut both = Both::new(seed);
        for _ in 0..150 {
            both.step();
            both.check();
        }
    }
}
