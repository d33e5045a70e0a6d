//! A scenario of message endpoints: up to four NICs with one endpoint each send to, receive from, write to, read from
//! and atomically change each other, all at once, and a ledger of all requests says what may come of them.

mod ledger;
mod party;
mod steps;

use core::time::Duration;
use std::collections::BTreeMap;

use weft_base::{Iwarp, PeerId, Random};
use weft_nic::{JobKey, Level, Progress, ReceivePost, Settings, Verify};

use self::ledger::{Ledger, Request};
use self::party::{Habits, Party};
use crate::network::Tag;
use crate::packets::PacketBehaviour;
use crate::pipe::Behaviour;
use crate::rails;
use crate::shuffle::ShuffleFault;
use crate::world::{HelperThreads, SimulatedNic, World};

/// The longest virtual time that anything may take to end. Edge gives a caller that was answered and never speaks 120
/// s, where all that would tell of its end is lost.
const LIMIT: Duration = Duration::from_secs(150);
/// After this long without a packet from its peer each connection has probed it, and has had its answer: Edge probes
/// after 30 s, and believes refusals after 2 s of them.
const KEEP_ALIVE: Duration = Duration::from_secs(40);
/// The time in which what is in flight arrives, and unneeded connections close.
const IDLE: Duration = Duration::from_millis(50);
/// How long the ends of connections get to show everywhere.
const SETTLE: Duration = Duration::from_secs(5);
/// Turns without time passing, after which something runs in circles.
const MOST_TURNS: u32 = 100_000;

/// A deliberate falsification of what is seen, so that it shows whether the checkers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageBreak {
    /// None: the checkers must be content.
    Nothing,
    /// One byte of a message that was received is changed.
    FlipByte,
    /// One byte of a window that was written with [`Level::Delivered`] is changed.
    FlipWindow,
    /// One completion is lost.
    LoseCompletion,
    /// One completion comes twice.
    DoubleCompletion,
    /// Two messages that match alike are exchanged.
    SwapMessages,
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct MessageScenario {
    /// Everything follows from it: how many there are, their settings, and what they do.
    pub seed: u64,
    /// Steps: each a request or two, or a pause.
    pub steps: usize,
    /// Whether connections break, and endpoints are closed and opened again. Without that nothing may fail.
    pub faults: bool,
    /// Falsification.
    pub sabotage: MessageBreak,
    /// A mistake of the lower layer, where it can make any.
    pub fault: ShuffleFault,
    /// How packets are treated until the end comes, where the lower layer sends any.
    pub packets: Option<PacketBehaviour>,
    /// Networks that all hosts are on, with an address on each, and which are cut at random. 0: all have the same
    /// address.
    pub networks: usize,
    /// Whether all NICs have the same job key, which the lower layer proves in its own set-up if it can.
    pub has_key: bool,
    /// Engines of each NIC, which all serve its rails, and how those beside the first are run.
    pub engines: usize,
    /// See [`HelperThreads`].
    pub helpers: HelperThreads,
}

/// What a run has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageReport {
    /// Requests that ended with success.
    pub succeeded: usize,
    /// Requests that ended otherwise.
    pub failed: usize,
    /// Messages that were received whole.
    pub received: usize,
    /// Virtual time that passed, in nanoseconds.
    pub elapsed_ns: u64,
    /// Rails that were opened beside the first, and that were left for being silent, by all.
    pub rails: (u64, u64),
    /// Receives of engines that serve rails of others' connections, of all.
    pub served: u64,
}

impl MessageScenario {
    /// A scenario over a network that behaves.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        let (sabotage, fault) = (MessageBreak::Nothing, ShuffleFault::Nothing);
        let helpers = HelperThreads { longest_pause: Duration::ZERO, end_at: None };
        Self {
            seed,
            steps: 120,
            faults: false,
            sabotage,
            fault,
            packets: None,
            networks: 0,
            has_key: false,
            engines: 1,
            helpers,
        }
    }

    /// Runs it over iWARP and checks everything.
    ///
    /// # Errors
    /// What does not hold, with the seed.
    pub fn run(&self) -> Result<MessageReport, String> {
        self.run_over::<Iwarp>()
    }

    /// Runs it over the lower layer of this tag and checks everything.
    ///
    /// # Errors
    /// What does not hold, with the seed.
    pub fn run_over<T: Tag>(&self) -> Result<MessageReport, String> {
        Run::<T>::new(self)
            .and_then(|mut run| {
                (0..self.steps).try_for_each(|_| run.step())?;
                run.finish()
            })
            .map_err(|text| format!("seed {}: {text}", self.seed))
    }
}

/// A run in progress.
struct Run<T: Tag> {
    world: World,
    random: Random,
    nics: Vec<SimulatedNic<T>>,
    parties: Vec<Party<T>>,
    ledger: Ledger,
    behaviour: Behaviour,
    faults: bool,
    has_packet_faults: bool,
    networks: usize,
}

/// Settings with which packets come by all paths: straight from staging to their endpoint, or into a receive request as
/// long ones do.
fn settings(random: &mut Random, scenario: &MessageScenario) -> Settings {
    let verify = if random.below(4) == 0 { Verify::BeforePlace } else { Verify::LargeInPlace };
    let direct_threshold = if random.one_in(2) { 150 } else { 32 * 1024 };
    let key = scenario.has_key.then(|| JobKey::new(b"the key of this job").expect("long enough"));
    let engines = scenario.engines;
    let progress = if engines > 1 { Progress::Thread } else { Progress::Caller };
    let rail_engines = engines;
    let mut settings =
        Settings { progress, verify, direct_threshold, key, engines, rail_engines, ..Settings::default() };
    // A connection begins on one rail, which may be cut, or lose a burst, each time that something is sent on it: 14
    // times in a row once in 100 000 seeds.
    if scenario.networks > 0 {
        settings.start_timeout = Duration::from_secs(60);
    }
    settings
}

impl<T: Tag> Run<T> {
    fn new(scenario: &MessageScenario) -> Result<Self, String> {
        let mut random = Random::new(scenario.seed);
        let behaviour = Behaviour {
            delay: Duration::from_micros(1 + random.below(300)),
            send_at_most: if random.one_in(4) { 100 } else { 70_000 },
            receive_at_most: if random.one_in(4) { 100 } else { 70_000 },
            capacity: if random.one_in(4) { 2000 } else { 300_000 },
            ..Behaviour::default()
        };
        let world = World::new(random.next_u64(), behaviour);
        world.set_fault(scenario.fault);
        world.set_packets(scenario.packets.unwrap_or_default());
        world.set_helpers(scenario.helpers);
        let count = 2 + random.below(3) as usize;
        let networks = scenario.networks;
        rails::lay(&world, count, networks, &scenario.packets.unwrap_or_default(), scenario.seed);
        let nics: Vec<SimulatedNic<T>> = (0..count)
            .map(|host| world.nic_over(settings(&mut random, scenario), &rails::addresses(host, networks)))
            .collect();
        let by_name = random.one_in(2);
        let parties: Result<Vec<_>, _> = nics
            .iter()
            .enumerate()
            .map(|(number, nic)| {
                Party::open((nic, networks), number, 0, Habits::random(&mut random, by_name), &mut random)
            })
            .collect();
        let ledger = Ledger::new(scenario.faults, scenario.sabotage);
        Ok(Self {
            world,
            random,
            nics,
            parties: parties?,
            ledger,
            behaviour,
            faults: scenario.faults,
            has_packet_faults: scenario.packets.is_some(),
            networks,
        })
    }

    /// Lets time pass, at most for `limit`, until `done` says so of the ledger.
    fn pass(&mut self, limit: Duration, done: impl Fn(&Ledger) -> bool) -> Result<bool, String> {
        let nics: Vec<&SimulatedNic<T>> = self.nics.iter().collect();
        let (parties, ledger, world) = (&self.parties, &mut self.ledger, &self.world);
        let mut outcome = Ok(());
        let (mut turns, mut now) = (0, world.now());
        let finished = world.run(&nics, limit, || {
            outcome = parties.iter().try_for_each(|party| ledger.collect(party, parties));
            turns = if world.now() == now { turns + 1 } else { 0 };
            now = world.now();
            if turns > MOST_TURNS && outcome.is_ok() {
                outcome = Err("there is always something to do, and nothing comes of it".into());
            }
            outcome.is_err() || done(ledger)
        });
        outcome.map(|()| finished)
    }

    fn finish(mut self) -> Result<MessageReport, String> {
        self.world.set_behaviour(self.behaviour);
        self.world.set_packets(PacketBehaviour::default());
        self.receive_the_rest()?;
        let faults = self.faults;
        if !self.pass(LIMIT, |ledger| ledger.is_settled(!faults))? {
            return Err(format!("stuck: {}", self.ledger.describe()));
        }
        // What was handed over may still be in flight: what was lost is retransmitted, after a second if it was lost
        // often. And where the last packet of a connection was lost, its other end finds out when it probes.
        let unheard = if self.has_packet_faults { KEEP_ALIVE } else { IDLE };
        self.pass(unheard, |_| false)?;
        self.cancel_receives()?;
        self.pass(IDLE, |_| false)?;
        self.still_there()?;
        self.close_all()?;
        let counters: Vec<_> = self.nics.iter().map(weft_nic::Nic::counters).collect();
        let rails = counters.iter().map(rails::counted).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let served = counters.iter().map(|one| one.served_receives).sum();
        Ok(MessageReport { rails, served, ..self.ledger.check(self.world.now())? })
    }

    /// Whatever is in flight finds a receive.
    fn receive_the_rest(&mut self) -> Result<(), String> {
        let room = self.ledger.bytes_sent();
        for at in 0..self.parties.len() {
            for matching in [None, Some(party::ANY_TAG)] {
                let post = ReceivePost { matching, many: Some(0), ..ReceivePost::new(vec![0xa5; room]) };
                self.post_receive(at, None, post)?;
            }
        }
        Ok(())
    }

    /// Receives that nothing came for are canceled. One that was receiving a message when its connection was lost ends
    /// by itself.
    fn cancel_receives(&mut self) -> Result<(), String> {
        for context in self.ledger.open() {
            self.cancel(context);
        }
        if !self.pass(LIMIT, Ledger::is_over)? {
            return Err(format!("stuck after all was canceled: {}", self.ledger.describe()));
        }
        Ok(())
    }

    /// After everything, each reaches each.
    fn still_there(&mut self) -> Result<(), String> {
        self.ledger.forbid_failures();
        for from in 0..self.parties.len() {
            for to in 0..self.parties.len() {
                let source = self.peer(to, from)?;
                self.post_receive(to, Some(from), ReceivePost::new(vec![0; 5000]).from(source))?;
                self.send(from, to, None, 1 + 997 * to, Level::Delivered)?;
            }
        }
        if self.pass(LIMIT, Ledger::is_over)? {
            Ok(())
        } else {
            Err(format!("no longer reached: {}", self.ledger.describe()))
        }
    }

    /// Nothing is left in the table of memory of any.
    fn close_all(&mut self) -> Result<(), String> {
        self.parties.iter_mut().for_each(Party::close);
        self.pass(SETTLE, |_| false)?;
        for (party, nic) in self.parties.drain(..).zip(&self.nics) {
            let domain = party.domain;
            drop(party);
            nic.registry().release_domain(domain).map_err(|error| format!("something is left behind: {error}"))?;
        }
        Ok(())
    }

    /// The number by which one of them knows another.
    fn peer(&self, at: usize, other: usize) -> Result<PeerId, String> {
        let (habits, address) = (self.parties[at].habits, self.parties[other].address());
        self.parties[at].endpoint.peer(&habits.address(address)).map_err(|error| error.to_string())
    }

    fn cancel(&mut self, context: u64) {
        let Request { at, .. } = self.ledger.requests[&context];
        if self.parties[at].endpoint.cancel(context) {
            self.ledger.note_canceled(context);
        }
    }
}

/// Messages that match alike, by sender, receiver and tag: what received each, in the order of sending.
type Arrivals = BTreeMap<(party::Name, party::Name, Option<u64>), Vec<(u64, u64)>>;
