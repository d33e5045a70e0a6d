//! Writes that overlap, and flags behind them that the peer polls: a later write is never seen before, or overwritten
//! by, an earlier one, in whatever order the packets come.

use core::time::Duration;
use std::net::IpAddr;

use weft_base::{Edge, Gather, Slice};
use weft_emulate::{Chance, Delayed, Settings};
use weft_memory::{Access, IoBuffer, Region};
use weft_nic::Rails;
use weft_rdmap::{Operation, Payload, RemoteTarget, RequestFlags, SendRequest};
use weft_simulate::{Behaviour, End, PacketBehaviour, Pair, PairOptions, Shuffle, Tag, World};

use crate::seeds::seeds;

/// Bytes of a block.
const BLOCK: usize = 12_000;
/// Which of them are written once more.
const AGAIN: core::ops::Range<usize> = 3000..7000;
/// A place has a block and a flag.
const PLACE: usize = BLOCK + 8;
/// Places in turn.
const PLACES: usize = 8;
/// Rounds in flight.
const AHEAD: usize = 4;
const ROUNDS: usize = 40;
const LIMIT: Duration = Duration::from_secs(100);

struct Writer<'a, T: Tag> {
    end: &'a End<T>,
    source: Region,
    /// The memory of the peer, by two names, which may be one.
    window: [(weft_base::Stag, u64); 2],
    posted: usize,
}

impl<T: Tag> Writer<'_, T> {
    fn write(&self, from: usize, length: usize, to: usize, name: usize) {
        let (stag, base) = self.window[name % 2];
        let slice = Slice { region: self.source.id(), offset: from as u64, length: length as u32 };
        let target = RemoteTarget { stag, offset: base + to as u64 };
        let operation = Operation::Write { payload: Payload::Gather(Gather::from(slice)), target };
        let request = SendRequest { id: 0, operation, signaled: true, fence: false, flags: RequestFlags::NONE };
        self.end.nic.post_send(&self.end.queue_pair, [request]).unwrap();
    }

    /// A block, a part of it again, and the flag.
    fn post(&mut self) {
        let round = self.posted;
        let (from, to) = (round * 2 * PLACE, round % PLACES * PLACE);
        self.write(from, BLOCK, to, round);
        self.write(from + BLOCK, AGAIN.len(), to + AGAIN.start, round + 1);
        self.write(from + 2 * BLOCK, 8, to + BLOCK, round / 2);
        self.posted += 1;
    }
}

/// What rounds write from: the block, what is written again, the flag.
fn source() -> Vec<u8> {
    let mut bytes = vec![0; ROUNDS * 2 * PLACE];
    for (round, part) in bytes.chunks_mut(2 * PLACE).enumerate() {
        part[..BLOCK].fill(round as u8 | 0x40);
        part[BLOCK..2 * BLOCK].fill(round as u8 | 0x80);
        part[2 * BLOCK..][..8].copy_from_slice(&(round as u64 + 1).to_be_bytes());
    }
    bytes
}

/// What is wrong with the block of a round whose flag is there.
fn check(place: &[u8], round: usize) -> Result<(), String> {
    for (at, byte) in place[..BLOCK].iter().enumerate() {
        let expected = round as u8 | if AGAIN.contains(&at) { 0x80 } else { 0x40 };
        if *byte != expected {
            return Err(format!("round {round}: byte {at} is {byte:#x} and not {expected:#x} when the flag is seen"));
        }
    }
    Ok(())
}

/// How the peer's memory is named, and reached.
#[derive(Clone, Copy, Default)]
struct Setting {
    has_two_names: bool,
    networks: usize,
}

fn run<T: Tag>(seed: u64, setting: Setting) -> Result<(), String> {
    let world = World::new(seed, Behaviour::default());
    let packets = PacketBehaviour::of_seed(seed);
    let reordering = Delayed { chance: Chance::percent(20), by: Duration::from_micros(700) };
    world.set_packets(PacketBehaviour { links: Settings { reordering, ..packets.links }, ..packets });
    let mut options = PairOptions { networks: setting.networks, ..PairOptions::default() };
    options.settings.rails = if setting.networks > 1 { Rails::All { flows: 1 } } else { Rails::One };
    lay(&world, setting.networks);
    let pair = Pair::<T>::unconnected(&world, &options);
    assert!(pair.connect(&options), "{:?}", pair.active.queue_pair.error());
    let region = |end: &End<T>, bytes, access| end.nic.registry().register(end.domain, bytes, access, 0).unwrap();
    let (registry, domain) = (pair.passive.nic.registry(), pair.passive.domain);
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let mut memory = IoBuffer::from(vec![0; PLACES * PLACE]);
    let second = &memory.register_range(registry, domain, access, (0, PLACES * PLACE), 1).unwrap()[0];
    let second = (second.stag(), second.base());
    let window = &memory.register(registry, domain, access).unwrap()[0];
    let first = (window.stag(), window.base());
    let names = [first, if setting.has_two_names { second } else { first }];
    let source = region(&pair.active, source(), Access::LOCAL_READ);
    let mut writer = Writer { end: &pair.active, source, window: names, posted: 0 };
    let (mut seen, mut outcome, mut completions) = (0, Ok(()), Vec::new());
    let mut place = vec![0; PLACE];
    let finished = pair.run(LIMIT, || {
        while writer.posted < (seen + AHEAD).min(ROUNDS) {
            writer.post();
        }
        pair.active.take_sends(&mut completions);
        window.read((seen % PLACES * PLACE) as u64, &mut place).unwrap();
        if place[BLOCK..] == (seen as u64 + 1).to_be_bytes() {
            outcome = check(&place, seen);
            seen += 1;
        }
        outcome.is_err() || seen == ROUNDS
    });
    outcome?;
    if finished { Ok(()) } else { Err(format!("stuck after {seen} rounds: {:?}", pair.active.queue_pair.error())) }
}

/// Networks that are unlike: each is slower than the one before.
fn lay(world: &World, networks: usize) {
    let links = world.packets().links;
    for network in 0..networks as u8 {
        let delay = links.delay + Duration::from_micros(u64::from(network) * 900);
        let hosts = [1, 2].map(|host| IpAddr::from([10, 0, network, host]));
        world.set_way(hosts[0], hosts[1], Settings { delay, ..links });
        world.set_way(hosts[1], hosts[0], Settings { delay, ..links });
    }
}

#[test]
fn over_edge_writes_are_seen_in_their_order() {
    for seed in seeds(30) {
        run::<Edge>(seed, Setting::default()).unwrap_or_else(|text| panic!("seed {seed}: {text}"));
    }
}

/// An application that registers a buffer twice may write to it by either STag.
#[test]
fn over_edge_writes_by_two_stags_of_one_buffer_are_seen_in_their_order() {
    for seed in seeds(30) {
        let setting = Setting { has_two_names: true, networks: [0, 2, 3][(seed % 3) as usize] };
        run::<Edge>(seed, setting).unwrap_or_else(|text| panic!("seed {seed}, {} networks: {text}", setting.networks));
    }
}

/// Where that is not required of the stream, as [`Shuffle`] does not, it shows.
#[test]
fn where_it_is_not_asked_for_it_shows() {
    assert!((0..10).any(|seed| run::<Shuffle>(seed, Setting::default()).is_err()));
}
