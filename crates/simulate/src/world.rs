//! The world of a simulation: its time, its dice, its wires.

use core::ops::Range;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use weft_base::{Clock, Hint, Iwarp, Random, Time};
use weft_memory::Registry;
use weft_nic::{Nic, NicParts, Settings};

use crate::network::{SimulatedNetwork, Tag};
use crate::packets::{PacketBehaviour, Packets};
use crate::pipe::{Behaviour, Ended, Pipe};
use crate::ring::{Line, RingBehaviour};
use crate::shuffle::{Disorder, ShuffleFault};

/// A NIC with busy connections polls its listeners only once in this many turns.
const IDLE_TURNS: u32 = 32;

/// Turns in a row in which no NIC has done anything and each sleeps, before time passes.
const IDLE_SLEEPS: u32 = 4;

/// A NIC in a simulated world, whose streams have the lower layer of this tag.
pub type SimulatedNic<T = Iwarp> = Nic<SimulatedNetwork<T>, SimulatedClock>;

/// A simulated world. Clones are the same world.
#[derive(Clone)]
pub struct World {
    state: Arc<Mutex<State>>,
}

impl core::fmt::Debug for World {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

pub(crate) struct State {
    pub(crate) now: Time,
    pub(crate) random: Random,
    pub(crate) behaviour: Behaviour,
    pub(crate) disorder: Disorder,
    pub(crate) disorder_random: Random,
    pub(crate) pipes: Vec<Pipe>,
    pub(crate) lines: Vec<Line>,
    pub(crate) listeners: BTreeMap<SocketAddr, Listening>,
    pub(crate) packets: Packets,
    next_port: u16,
    helpers: Helpers,
}

/// How the engines beside each NIC's first are run: as threads are that others keep from running.
#[derive(Clone, Copy, Debug, Default)]
pub struct HelperThreads {
    /// The longest time that one is not run for, now and then.
    pub longest_pause: Duration,
    /// From when on none is run any more, as if their threads had ended.
    pub end_at: Option<Time>,
}

struct Helpers {
    threads: HelperThreads,
    random: Random,
    /// When each is run again: by the NIC and the engine.
    until: BTreeMap<(usize, usize), Time>,
}

impl Helpers {
    /// Whether an engine is run now. One that is has a pause after it, now and then.
    fn run(&mut self, which: (usize, usize), now: Time) -> bool {
        let is_over = self.threads.end_at.is_some_and(|end| end <= now);
        if is_over || self.until.get(&which).is_some_and(|until| *until > now) {
            return false;
        }
        let longest = self.threads.longest_pause.as_nanos() as u64;
        if longest > 0 && self.random.one_in(4) {
            self.until.insert(which, now + Duration::from_nanos(self.random.below(longest)));
        }
        true
    }

    /// When the next pause ends.
    fn next(&self, now: Time) -> Option<Time> {
        let until = self.until.values().copied().filter(|until| *until > now).min();
        until.filter(|until| self.threads.end_at.is_none_or(|end| *until < end))
    }
}

/// What a NIC does next.
enum Turn {
    /// It polls, and does what there is to do.
    Usual,
    /// It has the system watch its ports first.
    Asleep,
    /// Nothing: others have the processor.
    Skipped,
}

/// A stream that waits to be accepted.
pub(crate) enum Caller {
    /// By two pipes: inbound and outbound.
    Pipes(usize, usize),
    /// Through shared memory.
    Ring(Line),
}

/// Streams that wait to be accepted, and their callers.
#[derive(Default)]
pub(crate) struct Listening {
    pub(crate) waiting: VecDeque<(Caller, SocketAddr)>,
    /// It takes those that come through shared memory.
    pub(crate) shares_memory: bool,
    pub(crate) backlog: usize,
}

impl World {
    /// The world of this seed.
    #[must_use]
    pub fn new(seed: u64, behaviour: Behaviour) -> Self {
        let state = State {
            now: Time::from_nanos(1),
            random: Random::new(seed),
            behaviour,
            disorder: Disorder::of_seed(seed),
            // The dice of a world fall as they do without disorder.
            disorder_random: Random::new(!seed),
            pipes: Vec::new(),
            lines: Vec::new(),
            listeners: BTreeMap::new(),
            // Dice of their own: what streams do does not depend on whether there are packets.
            packets: Packets::new(Random::new(seed).fork()),
            next_port: 1024,
            helpers: Helpers {
                threads: HelperThreads::default(),
                random: Random::new(seed ^ 0x6865_6c70),
                until: BTreeMap::new(),
            },
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// A NIC in this world that speaks iWARP. It has no thread: [`World::run`] runs it in place of its callers and
    /// threads.
    ///
    /// # Panics
    /// When the settings don't go together.
    #[must_use]
    pub fn nic(&self, settings: Settings) -> SimulatedNic {
        self.nic_at(settings, &[])
    }

    /// A NIC in this world, on a host with these addresses, as [`World::nic`] otherwise. A host without any has any
    /// address that is requested.
    ///
    /// # Panics
    /// As [`World::nic`].
    #[must_use]
    pub fn nic_at(&self, settings: Settings, addresses: &[IpAddr]) -> SimulatedNic {
        self.nic_over(settings, addresses)
    }

    /// As [`World::nic_at`], with the lower layer of this tag.
    ///
    /// # Panics
    /// As [`World::nic`].
    #[must_use]
    pub fn nic_over<T: Tag>(&self, settings: Settings, addresses: &[IpAddr]) -> SimulatedNic<T> {
        let (seed, nic_seed) = {
            let mut state = self.lock();
            (state.random.next_u64(), state.random.next_u64())
        };
        let registry = Registry::new(seed, weft_memory::Limits::default());
        let network = SimulatedNetwork::new(self.clone(), registry.clone(), addresses);
        let others: Vec<_> = (1..settings.engines).map(|_| network.beside()).collect();
        let machine = NicParts {
            networks: core::iter::once(network).chain(others).collect(),
            clock: self.clock(),
            registry,
            seed: nic_seed,
            process: || 0,
            host: None,
            board: None,
        };
        Nic::new(machine, settings).expect("a simulated network has all that a NIC needs, and the settings go together")
    }

    /// The host of the NIC that was made as the `host`th of this world has these addresses from now on, and none of
    /// those before.
    pub fn set_addresses(&self, host: usize, addresses: &[IpAddr]) {
        self.lock().packets.set_addresses(host, addresses);
    }

    /// The clock of this world.
    #[must_use]
    pub fn clock(&self) -> SimulatedClock {
        SimulatedClock(self.clone())
    }

    /// The present time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.lock().now
    }

    /// Changes how the network behaves from now on.
    pub fn set_behaviour(&self, behaviour: Behaviour) {
        self.lock().behaviour = behaviour;
    }

    /// The network of a host without a NIC, for programs that use its ports themselves. Slices are of `registry`.
    #[must_use]
    pub fn network(&self, registry: Registry, addresses: &[IpAddr]) -> SimulatedNetwork {
        SimulatedNetwork::new(self.clone(), registry, addresses)
    }

    /// Changes how hosts and links treat datagrams from now on; links that were set apart stay as they are.
    pub fn set_packets(&self, behaviour: PacketBehaviour) {
        self.lock().packets.set_behaviour(behaviour);
    }

    /// Changes how engines beside each NIC's first are run from now on: otherwise as often as the first.
    pub fn set_helpers(&self, threads: HelperThreads) {
        self.lock().helpers.threads = threads;
    }

    /// How hosts and links treat datagrams.
    #[must_use]
    pub fn packets(&self) -> PacketBehaviour {
        self.lock().packets.behaviour
    }

    /// Changes how links from one address to another, in this direction, treat packets from now on.
    pub fn set_way(&self, from: IpAddr, to: IpAddr, settings: weft_emulate::Settings) {
        self.lock().packets.set_way(from, to, settings);
    }

    /// From now on links between two addresses do what a scenario says, which starts now: forward is from the first to
    /// the second. What was in flight between them is lost, and no other setting of them counts any more. The same
    /// packets, sent at the same times, have the fate that they have with any other reader of the scenario (`weft
    /// wan`).
    pub fn set_scenario(&self, from: IpAddr, to: IpAddr, scenario: &weft_scenario::Scenario) {
        let mut state = self.lock();
        let now = state.now;
        state.packets.set_scenario(from, to, scenario, now);
    }

    /// Lets no packet pass from one address to another, in this direction, during this time.
    pub fn cut(&self, from: IpAddr, to: IpAddr, span: Range<Time>) {
        self.lock().packets.cut(from, to, &span);
    }

    /// Sends this hint to every datagram port, as an attacker that can guess all addresses and port numbers.
    pub fn forge_hint(&self, hint: Hint) {
        self.lock().packets.forge_hint(hint);
    }

    /// Forgets all cuts.
    pub fn mend(&self) {
        self.lock().packets.mend();
    }

    /// What became of the packets of all links together, and how many of them are in flight.
    #[must_use]
    pub fn packet_statistics(&self) -> (weft_emulate::Statistics, usize) {
        self.lock().packets.statistics(None)
    }

    /// As [`World::packet_statistics`], of the links from one address to another in this direction.
    #[must_use]
    pub fn way_statistics(&self, from: IpAddr, to: IpAddr) -> (weft_emulate::Statistics, usize) {
        self.lock().packets.statistics(Some((from, to)))
    }

    /// Lets time pass until something comes over the network, at most this long. Returns whether something did.
    pub fn advance(&self, limit: Duration) -> bool {
        let end = self.now() + limit;
        let next = self.next_event::<Iwarp>(&[]).filter(|next| *next <= end);
        let mut state = self.lock();
        state.now = next.unwrap_or(end);
        let now = state.now;
        state.packets.pump(now);
        next.is_some()
    }

    /// What connections that begin from now on have of disorder, where their lower layer makes any
    /// ([`Shuffle`](crate::Shuffle)).
    pub fn set_disorder(&self, disorder: Disorder) {
        self.lock().disorder = disorder;
    }

    /// Breaks every stream, as if its peers had gone.
    pub(crate) fn break_streams(&self) {
        let mut state = self.lock();
        let now = state.now;
        state.pipes.iter_mut().for_each(|pipe| pipe.end(now, Ended::Reset));
        state.lines.iter().for_each(|line| line.hang_up(1, now));
    }

    /// The mistake that connections make that begin from now on.
    pub(crate) fn set_fault(&self, fault: ShuffleFault) {
        self.lock().disorder.fault = fault;
    }

    /// A generator for what the scenario itself wants to choose.
    #[must_use]
    pub fn fork_random(&self) -> Random {
        self.lock().random.fork()
    }

    /// Lets the NICs work, and time pass while they have nothing to do, until `done` or until `limit` has passed.
    /// Returns whether `done`.
    pub fn run<T: Tag>(&self, nics: &[&SimulatedNic<T>], limit: Duration, mut done: impl FnMut() -> bool) -> bool {
        let end = self.now() + limit;
        let (mut idle_turns, mut is_last_turn) = (0, false);
        loop {
            if done() {
                return true;
            }
            let mut progress = false;
            for (number, nic) in nics.iter().enumerate() {
                match self.roll_for_turn() {
                    Turn::Usual => progress |= self.turn(number, nic),
                    Turn::Asleep => {
                        nic.watch();
                        progress |= nic.progress();
                    }
                    Turn::Skipped => progress = true,
                }
            }
            idle_turns = if progress { 0 } else { idle_turns + 1 };
            is_last_turn &= !progress;
            if progress || (idle_turns < IDLE_TURNS && self.has_waiters()) {
                continue;
            }
            if self.lock().behaviour.ring.is_some() {
                // A NIC that finds nothing to do sleeps, and may find that there is something after all.
                nics.iter().for_each(|nic| nic.watch());
                if idle_turns < IDLE_SLEEPS {
                    continue;
                }
            }
            let Some(next) = self.next_event(nics).filter(|next| *next <= end) else {
                // A turn that places the last bytes of a write may say that it did nothing for this side. `done` checks
                // memory, and posts more when it has seen them.
                if !is_last_turn {
                    is_last_turn = true;
                    continue;
                }
                self.lock().now = end;
                return done();
            };
            is_last_turn = false;
            self.lock().now = next;
        }
    }

    /// What a NIC does next. Where memory is shared nothing else takes time: there a turn does, and chance decides
    /// which NIC does not run, or sleeps.
    fn roll_for_turn(&self) -> Turn {
        let mut state = self.lock();
        if state.behaviour.ring.is_none() {
            return Turn::Usual;
        }
        let passed = state.random.below(2000);
        state.now = state.now + Duration::from_nanos(passed);
        match state.random.below(8) {
            0 => Turn::Asleep,
            1 | 2 => Turn::Skipped,
            _ => Turn::Usual,
        }
    }

    /// A turn of a NIC.
    fn turn<T: Tag>(&self, number: usize, nic: &SimulatedNic<T>) -> bool {
        let engines = nic.settings().engines;
        if engines == 1 {
            return nic.progress();
        }
        let mut progress = nic.progress_of(0);
        for engine in 1..engines {
            let now = self.now();
            let runs = self.lock().helpers.run((number, engine), now);
            progress |= runs && nic.progress_of(engine);
        }
        progress
    }

    /// Whether streams wait at a listener.
    fn has_waiters(&self) -> bool {
        self.lock().listeners.values().any(|listening| !listening.waiting.is_empty())
    }

    fn next_event<T: Tag>(&self, nics: &[&SimulatedNic<T>]) -> Option<Time> {
        let mut state = self.lock();
        let now = state.now;
        state.packets.pump(now);
        let wires = state.pipes.iter().filter_map(|pipe| pipe.next_event(now)).min();
        let lines = state.lines.iter().filter_map(|line| line.next_event(now)).min();
        let wires = wires.into_iter().chain(state.packets.next_time()).chain(lines);
        let wires = wires.chain(state.helpers.next(now)).min();
        drop(state);
        let deadlines =
            nics.iter().filter_map(|nic| nic.next_deadline()).map(|at| at.max(now + Duration::from_nanos(1)));
        deadlines.chain(wires).min()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// Two new pipes.
    pub(crate) fn add_pipes(&mut self) -> (usize, usize) {
        let first = self.pipes.len();
        self.pipes.push(Pipe::default());
        self.pipes.push(Pipe::default());
        (first, first + 1)
    }

    /// A new stream through shared memory.
    pub(crate) fn add_line(&mut self, behaviour: RingBehaviour) -> Line {
        let line = Line::new(behaviour, self.now, self.random.fork());
        self.lines.push(line.clone());
        line
    }

    pub(crate) fn take_port_number(&mut self) -> u16 {
        self.next_port += 1;
        self.next_port
    }
}

/// The time of a [`World`].
#[derive(Clone)]
pub struct SimulatedClock(World);

impl Clock for SimulatedClock {
    fn now(&self) -> Time {
        self.0.now()
    }
}
