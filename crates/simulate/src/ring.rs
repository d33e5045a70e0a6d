//! Streams through memory that both ends share: a `weft-ring` each way, as `weft-driver` has them, in virtual time, and
//! an other side that scribbles.
//!
//! What an end does to the ring is there at once. What takes time is the signal that ends a sleep, and a lost signal
//! shows: no thread polls a port that sleeps.

use core::mem;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use weft_base::{
    Interest, Lending, Lent, NoDigest, Piece, Port, PortError, Random, ReceivePiece, Received, Segmented, Slice, Time,
};
use weft_memory::Registry;
use weft_ring::{Available, BROKEN, Block, Capacity, Consumer, END, Producer, Rest, Spans, Violation, Word, Words};

use crate::network::{gather, gone};
use crate::world::World;

/// As long as those of the real ones.
const SEGMENT_SIZE: u32 = 65_483;

/// How streams through shared memory are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingBehaviour {
    /// Bytes of a ring: a power of two from 64 on.
    pub capacity: u32,
    /// A signal takes between nothing and this long.
    pub signal_delay: Duration,
    /// One side of each stream scribbles in what both share: before one in this many polls of the other. It dies after
    /// a while. 0: neither does.
    pub scribbles_one_in: u64,
    /// One signal in this many is lost, which the checkers must see. 0: none.
    pub loses_one_in: u64,
    /// The listener can't take the memory, and says so after this time.
    pub declines_after: Option<Duration>,
}

impl Default for RingBehaviour {
    fn default() -> Self {
        Self {
            capacity: 16 << 10,
            signal_delay: Duration::from_micros(20),
            scribbles_one_in: 0,
            loses_one_in: 0,
            declines_after: None,
        }
    }
}

/// The memory of one direction.
#[derive(Debug)]
struct Memory {
    block: Block,
    bytes: Mutex<Vec<u8>>,
    capacity: Capacity,
}

#[derive(Clone, Debug)]
struct Shared(Arc<Memory>);

impl Words for Shared {
    fn load(&self, word: Word) -> u64 {
        self.0.block.load(word)
    }

    fn store(&self, word: Word, value: u64) {
        self.0.block.store(word, value);
    }

    fn fence(&self) {
        self.0.block.fence();
    }
}

impl Shared {
    fn write(&self, spans: Spans, mut bytes: &[u8]) {
        let mut memory = self.0.bytes.lock();
        for span in spans.0 {
            let (now, rest) = bytes.split_at(span.length);
            memory[span.offset..span.offset + span.length].copy_from_slice(now);
            bytes = rest;
        }
    }

    fn read(&self, spans: Spans) -> Vec<u8> {
        let memory = self.0.bytes.lock();
        spans.0.iter().flat_map(|span| &memory[span.offset..span.offset + span.length]).copied().collect()
    }
}

/// What the kernel's socket between both does: signals, and the word that the other side is gone.
#[derive(Debug)]
struct Socket {
    behaviour: RingBehaviour,
    random: Random,
    /// Signals in flight to each side.
    signals: [VecDeque<Time>; 2],
    /// When each side was gone.
    gone: [Option<Time>; 2],
}

/// What the process at one end lends to the other: the memory that its addresses name.
#[derive(Debug, Default)]
struct Loans {
    /// By address, which is any number.
    slices: HashMap<u64, (Registry, Slice)>,
    next: u64,
    is_revoked: bool,
    /// The other end borrows.
    is_wanted: bool,
}

/// A stream through shared memory, as the world knows it.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    ways: [Shared; 2],
    /// The runs that are lent in each direction: a ring without bytes.
    runs: [Shared; 2],
    loans: [Arc<Mutex<Loans>>; 2],
    socket: Arc<Mutex<Socket>>,
}

impl Line {
    pub(crate) fn new(behaviour: RingBehaviour, now: Time, mut random: Random) -> Self {
        let capacity = Capacity::new(behaviour.capacity).expect("a power of two within the bounds of a ring");
        let way = || {
            let bytes = Mutex::new(vec![0xa5; capacity.bytes()]);
            Shared(Arc::new(Memory { block: Block::default(), bytes, capacity }))
        };
        // A side that scribbles dies in the end: a ring that is not emptied any more is else waited for without end.
        let life_us = if random.one_in(2) { 500 } else { 50_000 };
        let dies = now + Duration::from_micros(20 + random.below(life_us));
        let dies = (behaviour.scribbles_one_in > 0).then_some(dies);
        let socket = Socket { behaviour, random, signals: Default::default(), gone: [None, dies] };
        Self {
            ways: [way(), way()],
            runs: [way(), way()],
            loans: Default::default(),
            socket: Arc::new(Mutex::new(socket)),
        }
    }

    fn socket(&self) -> MutexGuard<'_, Socket> {
        self.socket.lock()
    }

    /// When something happens to either side that has not yet.
    pub(crate) fn next_event(&self, now: Time) -> Option<Time> {
        let socket = self.socket();
        let all = socket.signals.iter().flatten().copied().chain(socket.gone.iter().copied().flatten());
        all.filter(|at| *at > now).min()
    }

    /// This side is gone.
    pub(crate) fn hang_up(&self, side: usize, now: Time) {
        let gone = &mut self.socket().gone[side];
        *gone = Some(gone.map_or(now, |at| at.min(now)));
    }

    /// Whether a side that sleeps is woken by now.
    pub(crate) fn is_woken(&self, side: usize, now: Time) -> bool {
        let socket = self.socket();
        socket.signals[side].iter().any(|at| *at <= now)
            || is_over(socket.gone[1 - side], now)
            || is_over(socket.gone[side], now)
    }
}

fn is_over(at: Option<Time>, now: Time) -> bool {
    at.is_some_and(|at| at <= now)
}

/// One end of a stream through shared memory. It does what `weft-driver`'s does.
#[derive(Debug)]
pub struct RingPort {
    pub(crate) world: World,
    registry: Registry,
    pub(crate) line: Line,
    /// 0: the side that has connected.
    pub(crate) side: usize,
    producer: Producer<Shared>,
    consumer: Consumer<Shared>,
    lent: Producer<Shared>,
    /// Runs that were lent and not counted as returned.
    out: usize,
    borrowed: Consumer<Shared>,
    local: SocketAddr,
    remote: SocketAddr,
    broken: Option<PortError>,
    is_gone: bool,
    /// The last send found too little room.
    was_short: bool,
}

impl RingPort {
    pub(crate) fn new(
        world: World,
        registry: Registry,
        line: Line,
        side: usize,
        (local, remote): (SocketAddr, SocketAddr),
    ) -> Self {
        let capacity = line.ways[0].0.capacity;
        let producer = Producer::new(line.ways[side].clone(), capacity);
        let consumer = Consumer::new(line.ways[1 - side].clone(), capacity);
        let lent = Producer::new(line.runs[side].clone(), capacity);
        let borrowed = Consumer::new(line.runs[1 - side].clone(), capacity);
        Self {
            world,
            registry,
            line,
            side,
            producer,
            consumer,
            lent,
            out: 0,
            borrowed,
            local,
            remote,
            broken: None,
            is_gone: false,
            was_short: false,
        }
    }

    /// A connect to an address where no host shares memory.
    pub(crate) fn refused(world: World, registry: Registry, line: Line, ends: (SocketAddr, SocketAddr)) -> Self {
        let mut port = Self::new(world, registry, line, 0, ends);
        port.broken = Some(PortError::NotShared);
        port
    }

    fn fail(&mut self, error: PortError) -> PortError {
        *self.broken.get_or_insert(error)
    }

    fn caught(&mut self, _: Violation) -> PortError {
        self.fail(PortError::System(71))
    }

    fn wake(&self, is_due: bool) {
        let now = self.world.now();
        let mut socket = self.line.socket();
        let socket = &mut *socket;
        let RingBehaviour { loses_one_in, signal_delay, .. } = socket.behaviour;
        if is_due && !(loses_one_in > 0 && socket.random.one_in(loses_one_in)) {
            let delay = socket.random.below(signal_delay.as_nanos() as u64 + 1);
            socket.signals[1 - self.side].push_back(now + Duration::from_nanos(delay));
        }
    }

    /// Asks to be woken. Returns whether there is something to wait for.
    pub(crate) fn sleep(&mut self, interest: Interest) -> bool {
        self.be_scribbled_on();
        self.drain();
        if self.is_gone || self.broken.is_some() {
            return false;
        }
        let wakes = self.consumer.settle();
        let reads = if interest.readable {
            self.consumer.sleep(interest.least as usize)
        } else {
            self.consumer.rise();
            Ok(true)
        };
        let room = self.line.ways[0].0.capacity.bytes() / 4;
        self.producer.rise();
        self.lent.rise();
        let mut writes = Ok(true);
        if interest.writable && self.out > 0 {
            writes = if self.out == self.lent.unread() { self.lent.sleep_until_read() } else { Ok(false) };
        }
        if interest.writable && writes == Ok(true) && (self.out == 0 || self.was_short) {
            writes = self.producer.sleep(room);
        }
        self.wake(wakes);
        reads.unwrap_or(false) && writes.unwrap_or(false)
    }

    fn drain(&mut self) {
        let now = self.world.now();
        let mut socket = self.line.socket();
        socket.signals[self.side].retain(|at| *at > now);
        self.is_gone |= is_over(socket.gone[1 - self.side], now) || is_over(socket.gone[self.side], now);
    }

    fn poll(&mut self) -> Result<(usize, Rest), PortError> {
        let mut found = self.poll_once()?;
        // Each empty poll is followed by one of the socket: time may not pass by itself until the next.
        if found == (0, Rest::Open) {
            self.drain();
        }
        if found == (0, Rest::Open) && self.is_gone {
            found = self.poll_once()?;
            if found == (0, Rest::Open) {
                return Err(self.fail(self.why_gone()));
            }
        }
        Ok(found)
    }

    /// Why the other side is gone.
    fn why_gone(&self) -> PortError {
        let is_declined = self.line.socket().behaviour.declines_after.is_some();
        if is_declined { PortError::Declined } else { PortError::Reset }
    }

    fn poll_once(&mut self) -> Result<(usize, Rest), PortError> {
        let found = self.consumer.poll();
        found.map(|available| (available.bytes, available.rest)).map_err(|violation| self.caught(violation))
    }

    // --- the other side

    /// The other side writes anything anywhere, now and then.
    fn be_scribbled_on(&self) {
        let now = self.world.now();
        let mut socket = self.line.socket();
        let one_in = socket.behaviour.scribbles_one_in;
        if one_in == 0 || is_over(socket.gone[1], now) || !socket.random.one_in(one_in) {
            return;
        }
        let random = &mut socket.random;
        let lines = if random.one_in(4) { &self.line.runs } else { &self.line.ways };
        let way = &lines[random.below(2) as usize];
        let capacity = way.0.capacity.bytes() as u64;
        if !random.one_in(4) {
            // What lies in the ring: lengths, headers, payload.
            let mut bytes = way.0.bytes.lock();
            for _ in 0..=random.below(8) {
                bytes[random.below(capacity) as usize] = random.next_u64() as u8;
            }
            return;
        }
        let word = Word::ALL[random.below(4) as usize];
        let now = way.load(word);
        let value = match random.below(8) {
            0 => random.next_u64(),
            1 => now | END,
            2 => now | BROKEN,
            3 => now.wrapping_sub(1 + random.below(capacity)),
            4 => now.wrapping_add(1 + random.below(capacity)),
            5 => 0,
            _ => now,
        };
        way.store(word, value);
    }
}

impl Port for RingPort {
    fn send(&mut self, pieces: &[Piece<'_>]) -> Result<usize, PortError> {
        self.be_scribbled_on();
        if let Some(error) = self.broken {
            return Err(error);
        }
        if self.is_gone {
            return Err(self.why_gone());
        }
        let bytes = gather(&self.registry, pieces)?;
        let room = self.producer.room(bytes.len());
        let count = room.map_err(|violation| self.caught(violation))?.min(bytes.len());
        self.was_short = count < bytes.len();
        if count > 0 {
            self.line.ways[self.side].write(self.producer.spans(count), &bytes[..count]);
            let due = self.producer.publish(count);
            self.wake(due);
            return Ok(count);
        }
        self.drain();
        if self.is_gone && !bytes.is_empty() { Err(self.why_gone()) } else { Ok(0) }
    }

    fn receive(&mut self, pieces: &mut [ReceivePiece<'_>]) -> Result<Received, PortError> {
        self.be_scribbled_on();
        if let Some(error) = self.broken {
            return Err(error);
        }
        let here = match self.poll()? {
            (_, Rest::Broken) => return Err(self.fail(PortError::Reset)),
            (0, Rest::End) => return Ok(Received::End),
            (0, Rest::Open) => return Ok(Received::Nothing),
            (here, _) => here,
        };
        let count = here.min(pieces.iter().map(ReceivePiece::length).sum());
        let bytes = self.line.ways[1 - self.side].read(self.consumer.spans(count));
        let mut rest = &bytes[..];
        for piece in pieces {
            let (now, later) = rest.split_at(rest.len().min(piece.length()));
            match piece {
                ReceivePiece::Staging(staging) => staging[..now.len()].copy_from_slice(now),
                ReceivePiece::Memory(slice) => {
                    let place = slice.part(0, now.len() as u32);
                    self.registry.copy_in(&place, now, &mut NoDigest).map_err(gone(slice.region))?;
                }
            }
            rest = later;
        }
        let due = self.consumer.consume_quietly(count);
        self.wake(due);
        Ok(if count > 0 { Received::Bytes(count) } else { Received::Nothing })
    }

    fn is_still(&mut self) -> bool {
        self.drain();
        self.broken.is_none() && !self.is_gone && self.out == 0 && self.consumer.is_still()
    }

    fn poll_connected(&mut self) -> Result<bool, PortError> {
        self.broken.map_or(Ok(true), Err)
    }

    fn segment_size(&self) -> u32 {
        SEGMENT_SIZE
    }

    fn keeps_bytes(&self) -> bool {
        true
    }

    fn local_address(&self) -> Result<SocketAddr, PortError> {
        Ok(self.local)
    }

    fn remote_address(&self) -> SocketAddr {
        self.remote
    }

    fn close_send(&mut self) {
        let due = !self.producer.is_ended() && self.producer.end();
        self.wake(due);
    }

    fn abort(&mut self) {
        self.revoke();
        // Closing the socket wakes.
        let _ = self.producer.abort();
        self.line.hang_up(self.side, self.world.now());
        self.fail(PortError::Reset);
    }
}

impl Segmented for RingPort {}

impl Lending for RingPort {
    fn begin_borrowing(&mut self) -> bool {
        self.line.loans[1 - self.side].lock().is_wanted = true;
        true
    }

    fn can_lend(&mut self) -> bool {
        self.line.loans[self.side].lock().is_wanted
    }

    fn lend(&mut self, slices: &[Slice], lent: &mut [Lent]) -> Result<(), PortError> {
        if self.lent.room(1).map_err(|violation| self.caught(violation))? == 0 {
            return Err(PortError::Exhausted);
        }
        let mut loans = self.line.loans[self.side].lock();
        for (slice, lent) in slices.iter().zip(lent) {
            self.registry.resolve(slice).map_err(gone(slice.region))?;
            loans.next += 1;
            let address = loans.next;
            loans.slices.insert(address, (self.registry.clone(), *slice));
            *lent = Lent { address, length: slice.length };
        }
        drop(loans);
        let _ = self.lent.publish(1);
        self.out += 1;
        Ok(())
    }

    fn take_returned(&mut self) -> Result<usize, PortError> {
        self.be_scribbled_on();
        if self.out == 0 {
            return Ok(0);
        }
        let out = self.lent.ask_unread().map_err(|violation| self.caught(violation))?;
        let returned = mem::replace(&mut self.out, out) - out;
        if returned == 0 {
            self.drain();
            if self.is_gone {
                return Err(self.fail(PortError::Reset));
            }
        }
        Ok(returned)
    }

    fn revoke(&mut self) {
        if self.out > 0 {
            let mut loans = self.line.loans[self.side].lock();
            loans.is_revoked = true;
            loans.slices.clear();
        }
    }

    fn borrow_into(&mut self, lent: &[Lent], into: &[Slice]) -> Result<(), PortError> {
        self.be_scribbled_on();
        if let Some(error) = self.broken {
            return Err(error);
        }
        let Ok(Available { bytes: 1.., .. }) = self.borrowed.poll() else {
            return Err(self.fail(PortError::System(71)));
        };
        let loans = Arc::clone(&self.line.loans[1 - self.side]);
        let loans = loans.lock();
        let mut bytes = Vec::new();
        for Lent { address, length } in lent {
            let Some((registry, slice)) = loans.slices.get(address).filter(|(_, slice)| slice.length >= *length) else {
                return Err(self.fail(PortError::Unreadable(14)));
            };
            let start = bytes.len();
            bytes.resize(start + *length as usize, 0);
            let copied = registry.copy_out(&slice.part(0, *length), &mut bytes[start..], &mut NoDigest);
            // Its owner releases it only after it has come back, or was revoked; unless a side scribbles.
            let is_honest = self.line.socket().behaviour.scribbles_one_in == 0;
            assert!(copied.is_ok() || !is_honest, "what is lent is there");
        }
        if loans.is_revoked {
            return Err(self.fail(PortError::Reset));
        }
        let mut rest = &bytes[..];
        for slice in into {
            let (now, later) = rest.split_at(slice.length as usize);
            self.registry.copy_in(slice, now, &mut NoDigest).map_err(gone(slice.region))?;
            rest = later;
        }
        let due = self.borrowed.consume(1);
        self.wake(due);
        Ok(())
    }
}

impl Drop for RingPort {
    fn drop(&mut self) {
        self.revoke();
        if self.broken.is_none() {
            self.close_send();
        }
        self.line.hang_up(self.side, self.world.now());
    }
}
