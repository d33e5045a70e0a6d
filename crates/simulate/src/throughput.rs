//! One connection of Edge between two NICs, over links as they are given, in virtual time: how much of what the links
//! carry becomes payload in place.

use core::time::Duration;

use weft_base::{Edge, Gather, Slice, Time};
use weft_emulate::{Chance, Delayed, Loss, Queue, Settings};
use weft_memory::{Access, Region};
use weft_nic::Rails;
use weft_rdmap::{Operation, Payload, RemoteTarget, RequestFlags, SendRequest};

use crate::packets::PacketBehaviour;
use crate::pair::{End, Pair, PairOptions};
use crate::pipe::Behaviour;
use crate::rails;
use crate::world::World;

/// Bytes of a Write, and Writes in flight at most.
const WRITE: u32 = 16 << 10;
const WINDOW: u32 = 128;
/// A link's queue holds at least this many bytes, beside what a round trip takes.
const LEAST_QUEUE: u64 = 30_000;

/// What to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeScenario {
    /// All chance comes from it.
    pub seed: u64,
    /// Links between the two hosts, each of a network of its own: a rail each. At least 1.
    pub rails: usize,
    /// Bits per second of each.
    pub rate: u64,
    /// There and back.
    pub round_trip: Duration,
    /// Packets of a million that are late, in both directions.
    pub late: u32,
    /// By how much at most.
    pub late_by: Duration,
    /// Packets of a million that are lost, in both directions.
    pub lost: u32,
    /// How long Writes are posted, the first round trips included.
    pub span: Duration,
}

impl Default for EdgeScenario {
    /// One link of 100 Mb/s, 4 ms there and back, without faults, for 4 s.
    fn default() -> Self {
        Self {
            seed: 7,
            rails: 1,
            rate: 100_000_000,
            round_trip: Duration::from_millis(4),
            late: 0,
            late_by: Duration::from_millis(2),
            lost: 0,
            span: Duration::from_secs(4),
        }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeReport {
    /// Bytes of payload that were acknowledged in time.
    pub bytes: u64,
    /// How long that took.
    pub elapsed: Duration,
    /// Packets that the links have lost.
    pub lost: u64,
    /// Segments that were retransmitted.
    pub resent: u64,
}

impl EdgeReport {
    /// Bits of payload per second.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Of a thousand bits that `rails` links of this rate carry, those that are payload in place.
    #[must_use]
    pub fn per_mille(&self, rails: usize, rate: u64) -> u64 {
        let carried = u128::from(rate) * rails as u128 * self.elapsed.as_nanos();
        (u128::from(self.bytes) * 8 * 1000 * 1_000_000_000).checked_div(carried).unwrap_or(0) as u64
    }
}

impl EdgeScenario {
    fn links(&self) -> Settings {
        let product = u128::from(self.rate / 8) * self.round_trip.as_micros() / 1_000_000;
        Settings {
            delay: self.round_trip / 2,
            rate_bits_per_s: Some(self.rate),
            queue: Queue { bytes: LEAST_QUEUE.max(product as u64), mark_at: None },
            loss: if self.lost == 0 { Loss::None } else { Loss::Independent(Chance::per_million(self.lost)) },
            reordering: Delayed { chance: Chance::per_million(self.late), by: self.late_by },
            ..Settings::default()
        }
    }

    /// Nothing passes from one network to another.
    fn lay(&self, world: &World) {
        world.set_packets(PacketBehaviour { links: self.links(), ..PacketBehaviour::default() });
        let always = Time::ZERO..Time::from_nanos(u64::MAX);
        let ways = (0..self.rails).flat_map(|one| (0..self.rails).map(move |other| (one, other)));
        for (one, other) in ways.filter(|(one, other)| one != other) {
            for (from, to) in [(0, 1), (1, 0)] {
                world.cut(rails::address(from, one), rails::address(to, other), always.clone());
            }
        }
    }

    /// Writes until its time is over, and counts what is in place.
    ///
    /// # Errors
    /// No connection, or one that ends: a bug, with what was seen.
    pub fn run(&self) -> Result<EdgeReport, String> {
        let world = World::new(self.seed, Behaviour::default());
        self.lay(&world);
        let mut options = PairOptions { networks: self.rails, depth: WINDOW, ..PairOptions::default() };
        options.settings.rails = if self.rails > 1 { Rails::All { flows: 1 } } else { Rails::One };
        let pair = Pair::<Edge>::unconnected(&world, &options);
        let why = || format!("{self:?}: {:?}", pair.active.queue_pair.error());
        if !pair.connect(&options) {
            return Err(why());
        }
        let regions = Regions::new(&pair)?;
        let request = regions.write();
        let begun = world.now();
        let (mut posted, mut done) = (0, 0);
        let mut completions = Vec::new();
        pair.run(self.span, || {
            pair.active.take_sends(&mut completions);
            done += completions.drain(..).count() as u64;
            while posted < done + u64::from(WINDOW) {
                if pair.active.nic.post_send(&pair.active.queue_pair, [request]).is_err() {
                    break;
                }
                posted += 1;
            }
            pair.active.queue_pair.state().has_ended()
        });
        if pair.active.queue_pair.state().has_ended() {
            return Err(why());
        }
        let counters = pair.active.nic.counters();
        Ok(EdgeReport {
            bytes: done * u64::from(WRITE),
            elapsed: world.now().since(begun),
            lost: world.packet_statistics().0.lost,
            resent: counters.repeated_segments,
        })
    }
}

/// What is written, and where to.
struct Regions {
    source: Region,
    target: Region,
}

impl Regions {
    fn new(pair: &Pair<Edge>) -> Result<Self, String> {
        let register = |end: &End<Edge>, access| {
            let region = end.nic.registry().register(end.domain, vec![1; WRITE as usize], access, 0);
            region.map_err(|error| error.to_string())
        };
        let source = register(&pair.active, Access::LOCAL_READ)?;
        let target = register(&pair.passive, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
        Ok(Self { source, target })
    }

    /// It may be placed as it comes: all Writes are to the same bytes.
    fn write(&self) -> SendRequest {
        let slice = Slice { region: self.source.id(), offset: 0, length: WRITE };
        let target = RemoteTarget { stag: self.target.stag(), offset: self.target.base() };
        let operation = Operation::Write { payload: Payload::Gather(Gather::from(slice)), target };
        SendRequest { id: 0, operation, signaled: true, fence: false, flags: RequestFlags::UNORDERED }
    }
}
