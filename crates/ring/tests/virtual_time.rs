//! Both ends in virtual time, from a seed: with each other, and with another side that does arbitrary things.
//!
//! `WEFT_SEED` runs one seed alone, and `WEFT_SEEDS` that many of them (10 000 are run at times).

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use weft_base::Random;
use weft_ring::{BROKEN, Capacity, Consumer, END, Producer, Rest, Spans, Violation, Word, Words};

const USUAL_SEEDS: u64 = 1000;
/// More events than any run needs; one that takes more hangs.
const MOST_EVENTS: usize = 200_000;

fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match (number("WEFT_SEED"), number("WEFT_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => 0..count.unwrap_or(USUAL_SEEDS),
    }
}

/// The memory that both sides see.
struct Memory {
    words: [Cell<u64>; 4],
    data: RefCell<Vec<u8>>,
    capacity: Capacity,
}

#[derive(Clone)]
struct Shared(Rc<Memory>);

impl Words for Shared {
    fn load(&self, word: Word) -> u64 {
        self.0.words[word as usize].get()
    }

    fn store(&self, word: Word, value: u64) {
        self.0.words[word as usize].set(value);
    }

    /// One thing happens at a time here. Fences are for loom to check.
    fn fence(&self) {}
}

impl Shared {
    fn write(&self, spans: Spans, mut bytes: impl Iterator<Item = u8>) {
        let mut data = self.0.data.borrow_mut();
        for span in spans.0 {
            for byte in &mut data[span.offset..span.offset + span.length] {
                *byte = bytes.next().unwrap();
            }
        }
    }

    fn read(&self, spans: Spans) -> Vec<u8> {
        let data = self.0.data.borrow();
        spans.0.iter().flat_map(|span| data[span.offset..span.offset + span.length].to_vec()).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A side has a turn.
    Turn(Side),
    /// A signal reaches a side.
    Signal(Side),
    /// The other side of this one is gone.
    HangUp(Side),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Producer,
    Consumer,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Producer => Self::Consumer,
            Self::Consumer => Self::Producer,
        }
    }
}

/// How an end came to its end.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    Whole,
    Reset,
    Caught(Violation),
}

/// What one side is, beside its end of the ring.
#[derive(Default)]
struct State {
    is_asleep: bool,
    has_signal: bool,
    has_hang_up: bool,
    outcome: Option<Outcome>,
}

/// What of a run is wrong on purpose.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// This side is hostile.
    Hostile(Side),
    /// One signal is lost: the checker must see it.
    LostSignal,
}

struct World {
    random: Random,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    now_ns: u64,
    number: u64,
    fault: Fault,
    lost: bool,
    shared: Shared,
    producer: Producer<Shared>,
    consumer: Consumer<Shared>,
    states: [State; 2],
    /// Bytes of the stream, how many were written and read.
    stream: u64,
    written: u64,
    read: u64,
    hostile_turns: u32,
}

/// Byte `at` of the stream.
fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl World {
    fn new(seed: u64, fault: Fault) -> Self {
        let mut random = Random::new(seed);
        let capacity = Capacity::new(Capacity::LEAST << random.below(4)).unwrap();
        let memory = Memory { words: Default::default(), data: RefCell::new(vec![0xa5; capacity.bytes()]), capacity };
        let shared = Shared(Rc::new(memory));
        let mut world = Self {
            events: BinaryHeap::new(),
            now_ns: 0,
            number: 0,
            fault,
            lost: false,
            producer: Producer::new(shared.clone(), capacity),
            consumer: Consumer::new(shared.clone(), capacity),
            shared,
            states: Default::default(),
            stream: random.below(8 * u64::from(Capacity::LEAST << 3)),
            written: 0,
            read: 0,
            hostile_turns: 5 + random.below(60) as u32,
            random,
        };
        world.schedule(Event::Turn(Side::Producer));
        world.schedule(Event::Turn(Side::Consumer));
        world
    }

    fn schedule(&mut self, event: Event) {
        // Mostly soon, now and then late, so that each side gets far ahead of the other.
        let delay_ns = if self.random.one_in(16) { self.random.below(20_000) } else { self.random.below(300) };
        self.number += 1;
        self.events.push(Reverse((self.now_ns + delay_ns, self.number, event)));
    }

    fn run(mut self) -> Self {
        let mut count = 0;
        while let Some(Reverse((at_ns, _, event))) = self.events.pop() {
            self.now_ns = at_ns;
            self.handle(event);
            count += 1;
            assert!(count < MOST_EVENTS, "it does not come to an end");
        }
        self
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Turn(side) if self.fault == Fault::Hostile(side) => self.scribble(side),
            Event::Turn(side) => self.turn(side),
            Event::Signal(side) => {
                self.states[side as usize].has_signal = true;
                self.wake(side);
            }
            Event::HangUp(side) => {
                self.states[side as usize].has_hang_up = true;
                self.wake(side);
            }
        }
    }

    fn wake(&mut self, side: Side) {
        if std::mem::take(&mut self.states[side as usize].is_asleep) {
            self.schedule(Event::Turn(side));
        }
    }

    fn signal(&mut self, side: Side, due: bool) {
        if due && self.fault == Fault::LostSignal && !self.lost {
            self.lost = true;
        } else if due {
            self.schedule(Event::Signal(side));
        }
    }

    fn turn(&mut self, side: Side) {
        let outcome = match side {
            Side::Producer => self.produce(),
            Side::Consumer => self.consume(),
        };
        match outcome.unwrap_or_else(|violation| Some(Outcome::Caught(violation))) {
            Some(outcome) => {
                assert_eq!(self.states[side as usize].outcome, None);
                self.states[side as usize].outcome = Some(outcome);
            }
            None if self.states[side as usize].is_asleep => {}
            None => self.schedule(Event::Turn(side)),
        }
    }

    /// One turn of the end that writes. Says how it ended, if it has.
    fn produce(&mut self) -> Result<Option<Outcome>, Violation> {
        if self.written == self.stream {
            let due = self.producer.end();
            self.signal(Side::Consumer, due);
            return Ok(Some(Outcome::Whole));
        }
        let left = (self.stream - self.written) as usize;
        let wanted = left.min(1 + self.random.below(self.shared.0.capacity.bytes() as u64) as usize);
        let room = self.producer.room(wanted)?;
        assert!(room <= self.shared.0.capacity.bytes());
        let bytes = room.min(wanted);
        if bytes > 0 {
            let from = self.written;
            self.shared.write(self.producer.spans(bytes), (from..).map(byte));
            self.written += bytes as u64;
            let due = self.producer.publish(bytes);
            self.signal(Side::Consumer, due);
        } else if self.states[Side::Producer as usize].has_hang_up {
            return Ok(Some(Outcome::Reset));
        } else {
            self.states[Side::Producer as usize].has_signal = false;
            self.states[Side::Producer as usize].is_asleep = self.producer.sleep(wanted)?;
        }
        Ok(None)
    }

    /// One turn of the end that reads. Says how it ended, if it has.
    fn consume(&mut self) -> Result<Option<Outcome>, Violation> {
        // First, or what it wrote before it went would be missed.
        let is_gone = self.states[Side::Consumer as usize].has_hang_up;
        let available = self.consumer.poll()?;
        assert!(available.bytes <= self.shared.0.capacity.bytes());
        if available.rest == Rest::Broken {
            return Ok(Some(Outcome::Reset));
        }
        if available.bytes > 0 && !self.random.one_in(8) {
            let bytes = 1 + self.random.below(available.bytes as u64) as usize;
            let copy = self.shared.read(self.consumer.spans(bytes));
            if self.fault != Fault::Hostile(Side::Producer) {
                assert!(copy.iter().copied().eq((self.read..).take(bytes).map(byte)), "bytes at {}", self.read);
            }
            self.read += bytes as u64;
            let due = self.consumer.consume(bytes);
            self.signal(Side::Producer, due);
        } else if available.bytes == 0 && available.rest == Rest::End {
            return Ok(Some(Outcome::Whole));
        } else if available.bytes == 0 && is_gone {
            return Ok(Some(Outcome::Reset));
        } else if !is_gone {
            let least = 1 + self.random.below(self.shared.0.capacity.bytes() as u64) as usize;
            self.states[Side::Consumer as usize].has_signal = false;
            self.states[Side::Consumer as usize].is_asleep = self.consumer.sleep(least)?;
        }
        Ok(None)
    }

    /// One turn of a hostile side: it writes anything anywhere, sends signals for nothing, behaves for a while, and in
    /// the end it dies.
    fn scribble(&mut self, side: Side) {
        if self.hostile_turns == 0 {
            return self.schedule(Event::HangUp(side.other()));
        }
        self.hostile_turns -= 1;
        for _ in 0..=self.random.below(3) {
            self.scribble_once(side);
        }
        if !self.random.one_in(3) {
            self.schedule(Event::Signal(side.other()));
        }
        self.schedule(Event::Turn(side));
    }

    fn scribble_once(&mut self, side: Side) {
        let own = if side == Side::Producer { Word::Produced } else { Word::Consumed };
        let capacity = self.shared.0.capacity.bytes() as u64;
        let far = match side {
            Side::Producer => self.read + capacity,
            Side::Consumer => self.written,
        };
        let word = match self.random.below(8) {
            0 => Word::ALL[self.random.below(4) as usize],
            _ => own,
        };
        let now = self.shared.load(word);
        let value = match self.random.below(12) {
            0 => self.random.next_u64(),
            1 => now | END,
            2 => now | BROKEN,
            3 => now.wrapping_sub(1 + self.random.below(capacity)),
            4 => far + self.random.below(3),
            5 => 0,
            // As it should be: so that others of these come late in a stream that lives.
            _ if word == own => now + self.random.below(far.saturating_sub(now).saturating_add(1).max(1)),
            _ => now,
        };
        self.shared.store(word, value);
        let at = self.random.below(capacity) as usize;
        self.shared.0.data.borrow_mut()[at] = self.random.next_u64() as u8;
    }

    fn outcome(&self, side: Side) -> Option<&Outcome> {
        self.states[side as usize].outcome.as_ref()
    }

    /// Whether all came as it went.
    fn is_whole(&self) -> bool {
        let whole = Some(&Outcome::Whole);
        self.outcome(Side::Producer) == whole && self.outcome(Side::Consumer) == whole && self.read == self.stream
    }
}

#[test]
fn two_ends_that_keep_to_the_rules_lose_nothing_and_never_sleep_for_ever() {
    for seed in seeds() {
        let world = World::new(seed, Fault::None).run();
        assert!(world.is_whole(), "seed {seed}: {:?} of {}", world.read, world.stream);
    }
}

#[test]
fn whatever_the_other_side_does_this_side_comes_to_an_end() {
    let (mut caught, mut ended) = (0, 0);
    for seed in seeds() {
        for hostile in [Side::Producer, Side::Consumer] {
            let world = World::new(seed, Fault::Hostile(hostile)).run();
            match world.outcome(hostile.other()) {
                Some(Outcome::Caught(violation)) => {
                    assert!(!violation.to_string().is_empty());
                    caught += 1;
                }
                Some(_) => ended += 1,
                None => panic!("seed {seed}: the side beside a hostile {hostile:?} waits for ever"),
            }
        }
    }
    assert!(seeds().count() < 100 || (caught > 0 && ended > 0), "{caught} caught, {ended} ended otherwise");
}

#[test]
fn the_checker_sees_a_signal_that_is_lost() {
    let hung = (0..200).filter(|seed| !World::new(*seed, Fault::LostSignal).run().is_whole()).count();
    assert!(hung > 20, "{hung} of 200 runs with a lost signal did not hang");
}
