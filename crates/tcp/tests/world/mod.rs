//! Two connections and a network between them that loses, copies, delays, damages, splits and joins, in virtual time.
//! The checkers are separate from what they check.
#![allow(dead_code, reason = "each test uses a part")]

use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeMap;

use weft_base::{Random, StreamPosition, Time};
use weft_tcp::{
    Answer, Checksum, Connection, Flow, InitialNumbers, Listener, MAX_HEADER, ReceivePolicy, Segment, Settings, State,
};

/// What the network does with segments: one in this many; 0 for none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) lose: u64,
    pub(crate) copy: u64,
    pub(crate) damage: u64,
    pub(crate) late: u64,
    /// A middlebox cuts segments anywhere, and joins those that follow one another.
    pub(crate) cut: u64,
    pub(crate) join: u64,
    pub(crate) delay_us: u64,
    /// At most this much more for those that are late.
    pub(crate) late_us: u64,
    /// A sink refuses what it is shown.
    pub(crate) refuse: u64,
}

/// What becomes of segments that leave as one frame, for a device to cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Trains {
    /// Each segment leaves by itself.
    #[default]
    None,
    /// They are cut.
    Cut,
    /// What was not cut is dropped, as by a bridge behind a device that cuts nothing.
    Dropped,
}

pub(crate) fn hit(random: &mut Random, one_in: u64) -> bool {
    one_in > 0 && random.one_in(one_in)
}

/// The byte of a stream at a position.
pub(crate) fn byte(stream: u64, position: u64) -> u8 {
    let mixed = (stream ^ position.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (mixed >> 56) as u8
}

/// What one side has seen of the other's stream.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Start and length of what was shown, joined.
    shown: BTreeMap<u64, u64>,
    pub(crate) read: u64,
    pub(crate) early: u64,
}

impl Seen {
    /// Marks bytes as kept. Each byte once.
    fn mark(&mut self, stream: u64, at: u64, bytes: &[u8]) {
        let (mut start, mut end) = (at, at + bytes.len() as u64);
        assert!(
            bytes.iter().zip(at..).all(|(have, position)| *have == byte(stream, position)),
            "a wrong byte from {at}"
        );
        if let Some((before, length)) = self.shown.range(..=start).next_back().map(|(at, length)| (*at, *length)) {
            assert!(before + length <= start, "{start} was shown before");
            if before + length == start {
                start = before;
            }
        }
        if let Some((after, length)) = self.shown.range(at..).next().map(|(at, length)| (*at, *length)) {
            assert!(after >= end, "{after} was shown before");
            if after == end {
                end = after + length;
                self.shown.remove(&after);
            }
        }
        self.shown.insert(start, end - start);
    }

    pub(crate) fn whole(&self) -> u64 {
        self.shown.get(&0).copied().unwrap_or(0)
    }
}

/// One side.
pub(crate) struct Side {
    pub(crate) connection: Option<Box<Connection>>,
    pub(crate) listener: Option<Listener>,
    pub(crate) flow: Flow,
    pub(crate) seen: Seen,
    pub(crate) to_send: u64,
    pub(crate) written: u64,
    /// Limits how much it reads at a time, and how often.
    pub(crate) reads: u64,
    policy: ReceivePolicy,
    closes: bool,
    stream: u64,
    /// A segment that may be joined with the next one.
    held: Option<(Segment, Vec<u8>)>,
}

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) sides: [Side; 2],
    pub(crate) faults: Faults,
    pub(crate) random: Random,
    wire: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
    number: u64,
    pub(crate) carried: u64,
    pub(crate) trace: bool,
    pub(crate) trains: Trains,
    /// How many left.
    pub(crate) trains_sent: u64,
}

pub(crate) fn flow(side: usize) -> Flow {
    let ends = [([10, 0, 0, 1], 1000).into(), ([10, 0, 0, 2], 2000).into()];
    Flow { local: ends[side], remote: ends[1 - side] }
}

fn side(index: usize, settings: Settings, to_send: u64) -> Side {
    Side {
        connection: None,
        listener: None,
        flow: flow(index),
        seen: Seen::default(),
        to_send,
        written: 0,
        reads: u64::MAX,
        policy: settings.policy,
        closes: true,
        stream: index as u64 + 1,
        held: None,
    }
}

impl World {
    /// The first side calls; each sends this many bytes and closes.
    pub(crate) fn new(seed: u64, settings: [Settings; 2], to_send: [u64; 2], faults: Faults) -> Self {
        let mut random = Random::new(seed);
        let now = Time::from_nanos(random.below(1 << 50));
        let mut key = [0; 32];
        random.fill(&mut key);
        let mut sides = [side(0, settings[0], to_send[0]), side(1, settings[1], to_send[1])];
        // Numbers wrap soon after the start, in half of the worlds.
        let initial =
            if random.one_in(2) { (random.below(100_000) as u32).wrapping_neg() } else { random.next_u64() as u32 };
        sides[0].connection = Some(Box::new(Connection::connect(flow(0), settings[0], initial, now).unwrap()));
        sides[1].listener = Some(Listener::new(settings[1], InitialNumbers::new(&key), 4).unwrap());
        Self {
            now,
            sides,
            faults,
            random,
            wire: BTreeMap::new(),
            number: 0,
            carried: 0,
            trace: false,
            trains: Trains::None,
            trains_sent: 0,
        }
    }

    pub(crate) fn connection(&mut self, side: usize) -> &mut Connection {
        self.sides[side].connection.as_mut().expect("it has one")
    }

    /// Runs until nothing happens any more, or `done` says so; at most for this time.
    pub(crate) fn run(&mut self, longest: Duration, mut done: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now + longest;
        loop {
            (0..2).for_each(|side| self.work(side));
            if done(self) {
                return true;
            }
            let Some(next) = self.next_time().filter(|next| *next <= end) else { return done(self) };
            self.now = self.now.max(next);
            self.deliver();
            (0..2).for_each(|side| self.expire(side));
        }
    }

    fn next_time(&self) -> Option<Time> {
        let timers = self.sides.iter().flat_map(|side| {
            let connection = side.connection.as_ref().and_then(|connection| connection.next_timeout());
            let listener = side.listener.as_ref().and_then(Listener::next_timeout);
            [connection, listener]
        });
        timers.flatten().chain(self.wire.keys().next().map(|(at, _)| *at)).min()
    }

    fn expire(&mut self, side: usize) {
        let now = self.now;
        if let Some(connection) = &mut self.sides[side].connection {
            connection.handle_timeout(now);
        }
        let mut again = Vec::new();
        if let Some(listener) = &mut self.sides[side].listener {
            listener.handle_timeout(now, |_, segment| again.push(segment));
        }
        for segment in again {
            self.launch(side, segment, Vec::new());
        }
    }

    /// Writes, reads, and sends what there is to send.
    fn work(&mut self, index: usize) {
        let now = self.now;
        let side = &mut self.sides[index];
        let Some(connection) = side.connection.as_mut() else { return };
        while side.written < side.to_send && connection.room() > 0 {
            let length = (1 + self.random.below(5000)).min(side.to_send - side.written);
            let bytes: Vec<u8> = (side.written..side.written + length).map(|at| byte(side.stream, at)).collect();
            if self.random.one_in(2) {
                side.written += connection.write(&bytes) as u64;
            } else if connection.write_unit(&bytes) {
                side.written += length;
            } else {
                side.written += connection.write(&bytes[..bytes.len().min(connection.room() as usize)]) as u64;
            }
        }
        // Before that it would be as if it had never called.
        if side.closes && side.written == side.to_send && connection.state().is_synchronised() {
            connection.close();
            side.closes = false;
        }
        read(side);
        let (mut leaves, mut planned) = (Vec::new(), Vec::new());
        let connection = side.connection.as_mut().expect("it has one");
        while let Some(outgoing) = connection.poll_transmit(now) {
            let mut payload = vec![0; outgoing.payload_length()];
            connection.copy_payload(&outgoing.payload, &mut payload);
            // What is written is what was planned.
            let mut bytes = vec![0; MAX_HEADER + payload.len()];
            let length = connection.emit(&outgoing, &mut bytes).unwrap();
            let flow = connection.flow();
            let (read, range) =
                Segment::parse(&bytes[..length], flow.local.ip(), flow.remote.ip(), Checksum::Verify).unwrap();
            assert_eq!((&read, &bytes[range]), (&outgoing.segment, &payload[..]));
            leaves.push((outgoing.segment, payload));
            planned.push(outgoing.payload);
        }
        let dropped = self.couple(index, &planned);
        let kept = leaves.into_iter().zip(dropped).filter(|(_, is_dropped)| !is_dropped);
        kept.map(|(leaves, _)| leaves).for_each(|(segment, payload)| self.middlebox(index, segment, payload));
        if let Some((segment, payload)) = self.sides[index].held.take() {
            self.launch(index, segment, payload);
        }
    }

    /// Makes trains of segments of one length that follow each other; which segments were lost by that.
    fn couple(&mut self, index: usize, planned: &[Range<u64>]) -> Vec<bool> {
        let mut dropped = vec![false; planned.len()];
        let (now, fate) = (self.now, self.trains);
        if fate == Trains::None || !self.connection(index).may_send_train(now) {
            return dropped;
        }
        let length = |at: usize| planned[at].end - planned[at].start;
        let mut first = 0;
        while first < planned.len() {
            let follows = |at: &usize| planned[*at].start == planned[*at - 1].end && length(*at) == length(first);
            let end = first + 1 + (first + 1..planned.len()).take_while(follows).count();
            if end > first + 1 && length(first) > 0 && self.connection(index).may_send_train(now) {
                self.connection(index).note_train(&(planned[first].start..planned[end - 1].end), now);
                self.trains_sent += 1;
                dropped[first..end].fill(fate == Trains::Dropped);
            }
            first = end;
        }
        dropped
    }

    /// Cuts and joins.
    fn middlebox(&mut self, index: usize, segment: Segment, payload: Vec<u8>) {
        let is_plain = !segment.flags.syn && !segment.flags.rst && !payload.is_empty();
        if is_plain && hit(&mut self.random, self.faults.cut) {
            let at = self.random.below(payload.len() as u64) as usize;
            let mut first = segment.clone();
            (first.flags.fin, first.flags.psh) = (false, false);
            let second = Segment { sequence: segment.sequence.wrapping_add(at as u32), ..segment };
            self.middlebox(index, first, payload[..at].to_vec());
            self.middlebox(index, second, payload[at..].to_vec());
            return;
        }
        if let Some((held, mut bytes)) = self.sides[index].held.take() {
            let follows = held.sequence.wrapping_add(bytes.len() as u32) == segment.sequence;
            if follows && is_plain && bytes.len() + payload.len() < 20_000 {
                bytes.extend(payload);
                self.launch(index, Segment { sequence: held.sequence, ..segment }, bytes);
                return;
            }
            self.launch(index, held, bytes);
        }
        if is_plain && !segment.flags.fin && hit(&mut self.random, self.faults.join) {
            self.sides[index].held = Some((segment, payload));
        } else {
            self.launch(index, segment, payload);
        }
    }

    pub(crate) fn launch(&mut self, from: usize, segment: Segment, payload: Vec<u8>) {
        if self.trace {
            eprintln!("{:?} {from}: {:?} {} {}", self.now, segment.flags, segment.sequence, payload.len());
        }
        if self.trace {
            let options = &segment.options;
            eprintln!("      ack {} window {} {options:?}", segment.acknowledgement, segment.window);
        }
        self.carried += 1;
        if hit(&mut self.random, self.faults.lose) {
            return;
        }
        let mut bytes = vec![0; MAX_HEADER + payload.len()];
        let length = segment.emit(&self.sides[from].flow, &payload, &mut bytes).unwrap();
        bytes.truncate(length);
        let copies = 1 + u64::from(hit(&mut self.random, self.faults.copy));
        for _ in 0..copies {
            let mut bytes = bytes.clone();
            if hit(&mut self.random, self.faults.damage) {
                let bit = self.random.below(bytes.len() as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            let mut micros = self.faults.delay_us;
            if hit(&mut self.random, self.faults.late) {
                micros += self.random.below(self.faults.late_us + 1);
            }
            self.number += 1;
            self.wire.insert((self.now + Duration::from_micros(micros), self.number), (1 - from, bytes));
        }
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.wire.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (to, bytes) = entry.remove();
            self.arrive(to, &bytes);
        }
    }

    fn arrive(&mut self, to: usize, bytes: &[u8]) {
        let flow = flow(to);
        let parsed = Segment::parse(bytes, flow.remote.ip(), flow.local.ip(), Checksum::Verify);
        let Ok((segment, range)) = parsed else { return };
        let payload = &bytes[range];
        let now = self.now;
        let side = &mut self.sides[to];
        if side.connection.is_none() {
            let listener = side.listener.as_mut().expect("a side without a connection listens");
            match listener.handle(&flow, &segment, payload.len(), now) {
                Answer::Nothing => return,
                Answer::Reply(reply) => return self.launch(to, reply, Vec::new()),
                Answer::Accepted(connection) => side.connection = Some(connection),
            }
        }
        let side = &mut self.sides[to];
        if side.connection.as_ref().is_some_and(|connection| connection.state() == State::Closed) {
            if let Some(refusal) = segment.refusal(payload.len()) {
                self.launch(to, refusal, Vec::new());
            }
            return;
        }
        let (seen, random, refuse) = (&mut side.seen, &mut self.random, self.faults.refuse);
        let stream = 3 - side.stream;
        let mut sink = |position: StreamPosition, bytes: &[u8]| {
            let keeps = !hit(random, refuse);
            if keeps {
                seen.early += u64::from(position.0 > seen.whole());
                seen.mark(stream, position.0, bytes);
            }
            keeps
        };
        side.connection.as_mut().expect("it has one").handle(&segment, payload, &mut sink, now);
    }

    /// Both have all, and are closed or about to be.
    pub(crate) fn is_done(&self) -> bool {
        self.sides.iter().all(|side| {
            let over = |connection: &Connection| matches!(connection.state(), State::TimeWait | State::Closed);
            side.connection.as_deref().is_some_and(over)
        })
    }

    /// Each got what the other sent, and no error.
    pub(crate) fn check(&self) {
        for (index, side) in self.sides.iter().enumerate() {
            let connection = side.connection.as_ref().expect("it has one");
            assert_eq!(connection.error(), None, "side {index}");
            let other = &self.sides[1 - index];
            let got = if side.policy == ReceivePolicy::Place { side.seen.whole() } else { side.seen.read };
            assert_eq!((got, connection.received().0), (other.to_send, other.to_send), "side {index}");
        }
    }
}

fn read(side: &mut Side) {
    let Some(connection) = side.connection.as_mut() else { return };
    let is_over = matches!(connection.state(), State::TimeWait | State::Closed);
    let most = if is_over { u64::MAX } else { side.reads };
    let mut bytes = vec![0; connection.readable().min(most) as usize];
    let length = connection.read(&mut bytes);
    assert_eq!(length, bytes.len());
    let expected = (side.seen.read..).map(|at| byte(3 - side.stream, at));
    assert!(bytes.iter().copied().eq(expected.take(length)), "a wrong byte from {}", side.seen.read);
    side.seen.read += length as u64;
}
