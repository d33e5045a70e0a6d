//! Two connections, a network between them that loses, copies, delays, damages and truncates, in virtual time, and
//! independent checkers.
#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod links;
pub(crate) mod receiver;
pub(crate) mod sender;

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::LazyLock;

use weft_base::{Random, Time};
use weft_edge::{
    Batch, ChallengeKey, Confirmation, Connection, Ending, Established, Event, Meta, Piece, RailAddress, RailState,
    Settings,
};
use weft_wire::Crc32c;
use weft_wire::edge::{ConnectionId, setup};

use links::{Link, address_on, link_between};
use receiver::Receiver;
use sender::Sender;

/// Faults of the network.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    /// One datagram in this many, of each kind; 0 for none.
    pub(crate) lose: u64,
    pub(crate) copy: u64,
    pub(crate) damage: u64,
    /// In microseconds.
    pub(crate) delay_us: u64,
    pub(crate) jitter_us: u64,
    /// Larger datagrams are dropped.
    pub(crate) carries: usize,
    /// One segment in this many is put off.
    pub(crate) put_off: u64,
    /// Receives are posted this many at a time; 0 for all at once.
    pub(crate) receives: u64,
    /// Everything is lost.
    pub(crate) partition: bool,
    /// One tagged segment in this many is fenced behind all earlier ones; 0 for none.
    pub(crate) fences: u64,
    /// Datagrams with ECT are dropped.
    pub(crate) drops_ect: bool,
    /// Segments are put off until all before them are in place.
    pub(crate) in_turn: bool,
}

impl Faults {
    pub(crate) fn none() -> Self {
        Self {
            lose: 0,
            copy: 0,
            damage: 0,
            delay_us: 50,
            jitter_us: 0,
            carries: 65_507,
            put_off: 0,
            receives: 0,
            partition: false,
            fences: 0,
            drops_ect: false,
            in_turn: false,
        }
    }
}

fn hit(random: &mut Random, one_in: u64) -> bool {
    one_in > 0 && random.one_in(one_in)
}

/// Bytes that repeat after this many, a prime number.
const PERIOD: usize = 65_521;

/// The bytes of a region, or of a message, from an offset on.
pub(crate) fn content(number: u64, offset: u64, length: usize) -> impl Iterator<Item = &'static [u8]> {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mixed = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (0..PERIOD as u64).map(|at| (mixed(at) >> 56) as u8).collect()
    });
    let mut at = (number.wrapping_mul(7919).wrapping_add(offset) % PERIOD as u64) as usize;
    let mut left = length;
    core::iter::from_fn(move || {
        let take = left.min(PERIOD - at);
        let part = &BYTES[at..at + take];
        (at, left) = (0, left - take);
        (take > 0).then_some(part)
    })
}

/// Copies them.
pub(crate) fn fill(place: &mut [u8], number: u64, offset: u64) {
    let mut done = 0;
    for part in content(number, offset, place.len()) {
        place[done..done + part.len()].copy_from_slice(part);
        done += part.len();
    }
}

/// The same as a vector.
pub(crate) fn bytes(number: u64, offset: u64, length: usize) -> Vec<u8> {
    content(number, offset, length).flatten().copied().collect()
}

/// One end.
pub(crate) struct Side {
    pub(crate) connection: Connection,
    pub(crate) source: Sender,
    pub(crate) sink: Receiver,
    /// Its addresses, by its own numbers.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) events: Vec<Event>,
    pub(crate) largest_sent: usize,
    /// Datagrams that it has sent with ECT.
    pub(crate) marked: u64,
    /// Calls that its datagrams have taken: one for the datagrams of a batch that have one address.
    pub(crate) calls: u64,
    /// The reset token that it sends when it has forgotten the connection.
    shows: [u8; 16],
    /// Its program is suspended: nothing is received or sent.
    pub(crate) stopped: bool,
    /// Whether packets received while it is suspended wait in its socket.
    pub(crate) keeps: bool,
    waiting: Vec<Flying>,
}

/// Datagrams and their destinations.
type Seen = Vec<(Vec<u8>, SocketAddr)>;

/// Receiving side, bytes, source, destination, and ECN bits.
type Flying = (usize, Vec<u8>, SocketAddr, SocketAddr, u8);

/// Both ends and the datagrams in flight.
pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) sides: [Side; 2],
    pub(crate) faults: Faults,
    /// Without any, all addresses reach each other without limits.
    pub(crate) links: Vec<Link>,
    flying: BTreeMap<(Time, u64), Flying>,
    serial: u64,
    pub(crate) random: Random,
    batch: Batch,
    /// Datagrams to unknown addresses, and their bytes, by link.
    strangers: BTreeMap<usize, (usize, usize)>,
    /// Receives are not posted, even if requested.
    pub(crate) no_receives: bool,
    /// Some messages go past the queue.
    pub(crate) passes: bool,
    /// Those that did: in a datagram of their own, and written where they are kept.
    pub(crate) passed: (u32, u32),
    /// The hosts' interfaces refuse larger datagrams, and tell this size.
    pub(crate) interface: usize,
    /// The recorded datagrams of one side, with their destinations.
    pub(crate) seen: Option<(usize, Seen)>,
    /// Programs run only at multiples of this, as on a busy machine: received packets and expired timers wait. Zero: at
    /// once.
    pub(crate) runs_every: Duration,
}

pub(crate) fn address(side: usize) -> SocketAddr {
    address_on(0, side)
}

pub(crate) fn established(side: usize, settings: &Settings) -> Established {
    let confirmation = if side == 0 { Confirmation::Say([7; 32]) } else { Confirmation::Expect([7; 32]) };
    Established {
        local: ConnectionId(100 + side as u64),
        remote: ConnectionId(101 - side as u64),
        to: address(1 - side),
        peer_credit: settings.credit,
        peer_ack_delay: settings.max_ack_delay,
        peer_max_datagram: settings.max_datagram,
        peer_rails: settings.rails,
        peer_timeout: settings.peer_timeout,
        peer_keeps_options: true,
        reset_token: [side as u8; 16],
        confirmation,
        took: None,
        seed: 9 + side as u64,
        challenges: ChallengeKey::new([9 + side as u8; 32]),
    }
}

impl World {
    pub(crate) fn new(settings: &Settings, faults: Faults, messages: [u32; 2], longest: u64, seed: u64) -> Self {
        let both = [established(0, settings), established(1, settings)];
        Self::of(&both, settings, faults, messages, longest, seed)
    }

    /// From two sides that have been set up.
    pub(crate) fn of(
        both: &[Established; 2],
        settings: &Settings,
        faults: Faults,
        messages: [u32; 2],
        longest: u64,
        seed: u64,
    ) -> Self {
        let now = Time::from_nanos(1_000_000_000);
        let side = |side: usize| Side {
            connection: Connection::new(&both[side], settings, now),
            source: Sender::new(messages[side], longest, faults.fences, seed + side as u64),
            sink: Receiver::new(&faults, seed + 2 + side as u64),
            addresses: vec![address(side)],
            events: vec![],
            largest_sent: 0,
            marked: 0,
            calls: 0,
            shows: both[1 - side].reset_token,
            stopped: false,
            keeps: false,
            waiting: Vec::new(),
        };
        let mut world = Self {
            now,
            sides: [side(0), side(1)],
            flying: BTreeMap::new(),
            serial: 0,
            random: Random::new(seed ^ 0xe4),
            batch: Batch::new(16, 1 << 18),
            faults,
            links: vec![],
            strangers: BTreeMap::new(),
            no_receives: false,
            passes: false,
            passed: (0, 0),
            interface: usize::MAX,
            seen: None,
            runs_every: Duration::ZERO,
        };
        world.transmit(0);
        world
    }

    /// Lets a side send a message past its queue, or write one, now and then.
    fn pass(&mut self, side: usize) {
        let Side { connection, source, .. } = &mut self.sides[side];
        if !self.passes || !source.is_between() {
            return;
        }
        match self.random.below(3) {
            0 if connection.can_pass(self.now) => {
                self.batch.clear();
                connection.pass(&source.short(500), self.now, &mut self.batch);
                assert_eq!((self.batch.datagrams.len(), self.batch.pieces.len()), (1, 1), "in one piece");
                self.passed.0 += 1;
                self.carry_batch(side);
            }
            1 => self.passed.1 += u32::from(source.write(connection)),
            _ => {}
        }
    }

    /// Lets a side send all that it may.
    pub(crate) fn transmit(&mut self, side: usize) {
        if self.sides[side].stopped {
            return;
        }
        self.pass(side);
        loop {
            self.batch.clear();
            let Side { connection, source, .. } = &mut self.sides[side];
            // A caller that relies on the result misses nothing.
            let is_due = connection.is_due(self.now) || source.is_between() || source.message.is_some();
            let more = connection.transmit(source, self.now, &mut self.batch);
            assert!(is_due || self.batch.datagrams.is_empty(), "something was sent though nothing was due");
            self.carry_batch(side);
            if !more {
                break;
            }
        }
        while let Some(event) = self.sides[side].connection.poll_event() {
            self.sides[side].events.push(event);
        }
    }

    /// Both sides write up to this many datagrams at a time: 16 unless this is called.
    pub(crate) fn set_batches(&mut self, datagrams: usize) {
        self.batch = Batch::new(datagrams, 1 << 18);
    }

    fn carry_batch(&mut self, side: usize) {
        let capacity = self.batch.bytes.capacity();
        let locals = self.batch.datagrams.iter().fold(0_u16, |locals, datagram| locals | 1 << datagram.local);
        self.sides[side].calls += u64::from(locals.count_ones());
        let addresses = &self.sides[side].addresses;
        let datagrams: Vec<_> = self
            .batch
            .datagrams
            .iter()
            .flat_map(|datagram| (0..datagram.count).map(move |index| (datagram, index)))
            .map(|(datagram, index)| {
                let (from, bytes) = (addresses[usize::from(datagram.local)], self.gather(datagram, index));
                (from, datagram.to, bytes, datagram.ecn, datagram.rail)
            })
            .collect();
        assert_eq!(capacity, 1 << 18, "nothing is allocated");
        for (from, to, bytes, ecn, rail) in datagrams {
            if bytes.len() > self.interface {
                self.sides[side].connection.hint_link_carries(rail, self.interface, self.now);
                continue;
            }
            self.sides[side].largest_sent = self.sides[side].largest_sent.max(bytes.len());
            self.sides[side].marked += u64::from(ecn != 0);
            self.carry(side, bytes, ecn, from, to);
        }
    }

    /// Gathers a datagram of a batch, or one of a row, as a NIC does.
    fn gather(&self, datagram: &weft_edge::Datagram, index: u32) -> Vec<u8> {
        let mut bytes = vec![];
        let pieces = &self.batch.pieces[datagram.pieces.clone()];
        let of_row = pieces[0].of_row(index);
        for piece in of_row.as_ref().map_or(pieces, |row| &row[..]) {
            match piece {
                Piece::Row { .. } => unreachable!("a row has nothing but datagrams"),
                Piece::Bytes { start, length } => {
                    bytes.extend_from_slice(&self.batch.bytes[*start as usize..][..*length as usize]);
                }
                Piece::Payload { start, length, gather, .. } => {
                    let from = bytes.len();
                    bytes.extend_from_slice(&self.batch.bytes[*start as usize..][..*length as usize]);
                    for slice in gather.slices() {
                        content(0, slice.offset, slice.length as usize).for_each(|part| bytes.extend_from_slice(part));
                    }
                    let crc = Crc32c::of(&bytes[from..]);
                    bytes.extend_from_slice(&crc.to_be_bytes());
                }
            }
        }
        assert_eq!(bytes.len(), datagram.length);
        bytes
    }

    fn carry(&mut self, side: usize, bytes: Vec<u8>, ecn: u8, from: SocketAddr, to: SocketAddr) {
        if !self.sides[1 - side].addresses.contains(&to) {
            let stranger = self.strangers.entry(link_between(to, to).unwrap_or(0)).or_default();
            *stranger = (stranger.0 + 1, stranger.1 + bytes.len());
        }
        if let Some((_, seen)) = self.seen.as_mut().filter(|(seen, _)| *seen == side) {
            seen.push((bytes.clone(), to));
        }
        let faults = self.faults.clone();
        let random = &mut self.random;
        if faults.drops_ect && ecn != 0 || faults.partition || bytes.len() > faults.carries || hit(random, faults.lose)
        {
            return;
        }
        let copies = 1 + u64::from(hit(random, faults.copy));
        for _ in 0..copies {
            let mut bytes = bytes.clone();
            if hit(&mut self.random, faults.damage) {
                let at = self.random.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << self.random.below(8);
            }
            if hit(&mut self.random, faults.damage) {
                bytes.truncate(self.random.below(bytes.len() as u64) as usize);
            }
            let delay = faults.delay_us * 1000 + self.random.below(faults.jitter_us * 1000 + 1);
            let Some(link) = self.link(side, bytes.len(), from, to) else { continue };
            self.fly(link + Duration::from_nanos(delay), (1 - side, bytes, from, to, ecn));
        }
    }

    fn link(&mut self, side: usize, bytes: usize, from: SocketAddr, to: SocketAddr) -> Option<Duration> {
        if self.links.is_empty() {
            return Some(Duration::ZERO);
        }
        let link = self.links.get_mut(link_between(from, to)?)?;
        link.carry(side, bytes, self.now, &mut self.random)
    }

    /// Places both sides at either end of these links, and offers the addresses.
    pub(crate) fn join(&mut self, links: &[Link]) {
        self.links = links.to_vec();
        for side in 0..2 {
            self.sides[side].addresses = (0..links.len()).map(|link| address_on(link, side)).collect();
            self.offer(side, &(0..links.len()).collect::<Vec<_>>());
        }
    }

    /// Gives both sides this many flows over this link, each between its own ports.
    pub(crate) fn join_by_flows(&mut self, link: Link, flows: u8) {
        self.links = vec![link];
        for side in 0..2 {
            let flow = |local: u8| {
                let address = address_on(0, side);
                RailAddress { local, address: SocketAddr::new(address.ip(), address.port() + u16::from(local)) }
            };
            let all: Vec<_> = (0..flows).map(flow).collect();
            self.sides[side].addresses = all.iter().map(|flow| flow.address).collect();
            self.sides[side].connection.offer(&all, self.now);
            self.transmit(side);
        }
    }

    /// A side offers its addresses on these links.
    pub(crate) fn offer(&mut self, side: usize, links: &[usize]) {
        let addresses = links.iter().map(|link| RailAddress { local: *link as u8, address: address_on(*link, side) });
        let addresses: Vec<_> = addresses.collect();
        self.sides[side].connection.offer(&addresses, self.now);
        self.transmit(side);
    }

    /// The number of datagrams that were sent to unknown addresses of a link, and their bytes.
    pub(crate) fn strangers(&self, link: usize) -> (usize, usize) {
        self.strangers.get(&link).copied().unwrap_or_default()
    }

    /// By link, whether a side has a rail over it that carries data.
    pub(crate) fn live(&self, side: usize) -> Vec<bool> {
        let state = |link: usize| {
            let mut rails = self.sides[side].connection.rails();
            rails.any(|rail| rail.state == RailState::Live && rail.place.is_some_and(|(local, _)| local == link as u8))
        };
        (0..self.links.len()).map(state).collect()
    }

    pub(crate) fn all_live(&self) -> bool {
        (0..2).all(|side| self.live(side).iter().all(|live| *live))
    }

    /// Bytes in flight to a side.
    pub(crate) fn under_way(&self, side: usize) -> usize {
        self.flying.values().filter(|(to, ..)| *to == side).map(|(_, bytes, ..)| bytes.len()).sum()
    }

    /// Delivers something to a side.
    pub(crate) fn inject(&mut self, side: usize, bytes: Vec<u8>, from: SocketAddr, to: SocketAddr, after: Duration) {
        self.fly(after, (side, bytes, from, to, 0));
    }

    /// Resumes a suspended side, with the packets received meanwhile.
    pub(crate) fn resume(&mut self, side: usize) {
        self.sides[side].stopped = false;
        let waiting = core::mem::take(&mut self.sides[side].waiting);
        waiting.into_iter().for_each(|datagram| self.fly(Duration::ZERO, datagram));
    }

    fn fly(&mut self, after: Duration, what: Flying) {
        self.serial += 1;
        self.flying.insert((self.now + after, self.serial), what);
    }

    fn timers(&self) -> [Option<Time>; 2] {
        let timer = |side: &Side| side.connection.next_timeout().filter(|_| !side.stopped);
        [timer(&self.sides[0]), timer(&self.sides[1])]
    }

    /// Time of the next event.
    pub(crate) fn next_at(&self) -> Option<Time> {
        self.next_of(self.timers())
    }

    fn next_of(&self, timers: [Option<Time>; 2]) -> Option<Time> {
        let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
        let next = timers.into_iter().flatten().chain(arrival).min()?;
        let every = self.runs_every.as_nanos() as u64;
        Some(if every == 0 { next } else { Time::from_nanos(next.as_nanos().next_multiple_of(every)) })
    }

    /// Runs the next event. Returns false when there is none.
    pub(crate) fn step(&mut self) -> bool {
        let timers = self.timers();
        let Some(next) = self.next_of(timers) else { return false };
        self.now = self.now.max(next);
        while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let first = entry.remove();
            let joined = self.joined_with(first);
            self.arrive(&joined);
        }
        for (side, timer) in timers.into_iter().enumerate() {
            if timer.is_some_and(|at| at <= self.now) {
                self.sides[side].connection.handle_timeout(self.now);
            }
            self.post_receives(side);
            self.transmit(side);
            self.settle(side);
        }
        self.check();
        true
    }

    /// A datagram, and behind it those that have arrived with it, as a kernel joins them: of one size but the last.
    fn joined_with(&mut self, first: Flying) -> (Flying, usize) {
        let (side, mut bytes, from, to, ecn) = first;
        let (size, mut last) = (bytes.len().max(1), bytes.len());
        while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (next_side, next, next_from, next_to, next_ecn) = entry.get();
            let is_alike = (*next_side, *next_from, *next_to, *next_ecn) == (side, from, to, ecn)
                && [&bytes, next].iter().all(|bytes| setup::reset_token(bytes).is_err());
            if !is_alike || last < size || next.is_empty() || next.len() > size || bytes.len() + next.len() > 65_536 {
                break;
            }
            last = next.len();
            bytes.extend_from_slice(&entry.remove().1);
        }
        ((side, bytes, from, to, ecn), size)
    }

    fn arrive(&mut self, ((side, bytes, from, to, ecn), size): &(Flying, usize)) {
        let (side, from, to, ecn) = (*side, *from, *to, *ecn);
        if self.sides[side].stopped && self.sides[side].keeps {
            let datagrams = bytes.chunks(*size).map(|datagram| (side, datagram.to_vec(), from, to, ecn));
            return self.sides[side].waiting.extend(datagrams);
        }
        let Side { connection, sink, addresses, stopped, shows, .. } = &mut self.sides[side];
        // A side that has moved is not reached at its old address.
        let Some(local) = addresses.iter().position(|address| *address == to).filter(|_| !*stopped) else { return };
        if let Ok(token) = setup::reset_token(bytes) {
            connection.receive_reset(&token, self.now);
        } else if !connection.is_over() {
            let meta = Meta { from, local: local as u8, ecn, now: self.now };
            connection.receive_all(bytes, *size, &meta, sink);
        } else if bytes.len() > setup::RESET_LENGTH {
            // The connection is forgotten: packets to it are answered with a reset.
            let reset = setup::reset(connection.id(), shows);
            self.carry(side, reset.to_vec(), 0, to, from);
        }
    }

    fn post_receives(&mut self, side: usize) {
        let Side { connection, sink, .. } = &mut self.sides[side];
        if sink.wants_receives && !self.no_receives && self.random.one_in(4) {
            sink.wants_receives = false;
            sink.posted = sink.posted.saturating_add(self.faults.receives as u32);
            connection.receives_posted();
        }
    }

    /// A received packet may have shortened a timer. After it is handled, an expired timer would make the event loop
    /// spin.
    fn settle(&mut self, side: usize) {
        let late = |side: &Side, now: Time| !side.stopped && side.connection.next_timeout().is_some_and(|at| at <= now);
        if late(&self.sides[side], self.now) {
            self.sides[side].connection.handle_timeout(self.now);
            self.transmit(side);
        }
        assert!(!late(&self.sides[side], self.now), "a timer is over at {:?}: {}", self.now, self.brief());
    }

    /// Checks the invariants.
    fn check(&self) {
        for (side, other) in [(0, 1), (1, 0)] {
            let acknowledged = self.sides[side].connection.acknowledged();
            let placed = self.sides[other].sink.in_place();
            assert!(acknowledged <= placed, "{acknowledged} acknowledged, {placed} placed");
        }
    }

    /// Runs until `done`, or fails after this many steps.
    pub(crate) fn run(&mut self, most: u32, mut done: impl FnMut(&Self) -> bool) {
        for _ in 0..most {
            if done(self) {
                return;
            }
            assert!(self.step(), "nothing ever happens again, at {:?}: {}", self.now, self.brief());
        }
        panic!("not done after {most} steps, at {:?}: {}", self.now, self.brief());
    }

    /// The state of both sides, for failure messages.
    fn brief(&self) -> String {
        let side = |side: &Side| {
            let connection = &side.connection;
            format!(
                "\n{} of {} acknowledged, {} placed, window {}, datagram {}, timer {:?}, {:?}\n{:?}",
                connection.acknowledged(),
                side.source.end,
                side.sink.placed,
                connection.window(),
                connection.datagram_size(),
                connection.next_timeout(),
                side.events,
                connection.counters()
            )
        };
        self.sides.iter().map(side).collect()
    }

    /// Runs for some time.
    pub(crate) fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        let mut most = 1_000_000;
        while self.now < until && self.step() {
            most -= 1;
            assert!(most > 0, "it turns without end at {:?}: {}", self.now, self.brief());
        }
    }

    pub(crate) fn all_acknowledged(&self) -> bool {
        self.sides.iter().all(|side| {
            side.source.left == 0 && side.source.message.is_none() && side.connection.acknowledged() == side.source.end
        })
    }

    pub(crate) fn ending(&self, side: usize) -> Option<&Ending> {
        self.sides[side].events.iter().find_map(|event| match event {
            Event::Ended(ending) => Some(ending),
            _ => None,
        })
    }

    /// Closes both sides and checks that everything was placed once.
    pub(crate) fn finish(&mut self) {
        self.run(200_000, Self::all_acknowledged);
        for (side, other) in [(0, 1), (1, 0)] {
            assert_eq!(self.sides[other].sink.placed, self.sides[side].source.end, "each position once");
            assert_eq!(self.sides[other].sink.ends, self.sides[side].source.ends, "where messages end");
            self.sides[side].connection.close();
            self.transmit(side);
        }
        self.run(20_000, |world| world.sides.iter().all(|side| side.connection.is_over()));
        for side in 0..2 {
            assert_eq!(self.ending(side), Some(&Ending::Closed));
        }
    }
}
