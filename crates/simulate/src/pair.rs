//! Two NICs with a connection between them.

use core::time::Duration;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weft_base::{DomainId, Iwarp};
use weft_nic::laboratory::{Laboratory, Split};
use weft_nic::offer::Extensions;
use weft_nic::{
    CompletionQueue, MpaOffer, Offer, Progress, QueuePair, QueuePairAttributes, Settings, State, WorkCompletion,
};

use crate::network::Tag;
use crate::rails;
use crate::world::{SimulatedNic, World};

/// How long connecting may take in virtual time.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How the two ends of a pair are set up.
#[derive(Clone, Debug)]
pub struct PairOptions {
    /// Settings of both NICs.
    pub settings: Settings,
    /// Which stage runs where, at the end that connects and at the one that accepts.
    pub splits: [Split; 2],
    /// What the connecting end wants.
    pub active: Offer,
    /// What the accepting end takes.
    pub passive: Offer,
    /// Depth of each work queue.
    pub depth: u32,
    /// Networks that both ends are on, with an address on each. 0: both have any address that is requested.
    pub networks: usize,
}

impl Default for PairOptions {
    fn default() -> Self {
        let mpa = MpaOffer { extensions: Extensions::usual(), ..MpaOffer::default() };
        let offer = Offer { mpa, ..Offer::default() };
        Self {
            settings: Settings::default(),
            splits: [Split::Host; 2],
            active: offer,
            passive: offer,
            depth: 64,
            networks: 0,
        }
    }
}

/// These settings with a split, and the progress that it needs.
#[must_use]
pub fn with_split(settings: Settings, split: Split) -> Settings {
    let progress = if split == Split::Host { settings.progress } else { Progress::Thread };
    let laboratory = Laboratory { split, ..settings.laboratory };
    Settings { laboratory, progress, ..settings }
}

/// One end of a pair.
pub struct End<T: Tag = Iwarp> {
    /// Its NIC.
    pub nic: SimulatedNic<T>,
    /// The protection domain of its queue pair.
    pub domain: DomainId,
    /// Where its sends complete.
    pub sends: Arc<CompletionQueue>,
    /// Where its receives complete.
    pub receives: Arc<CompletionQueue>,
    /// Its queue pair.
    pub queue_pair: Arc<QueuePair>,
}

impl<T: Tag> End<T> {
    /// An end that is not connected yet: 0 has the splits of the one that connects, 1 those of the other.
    #[must_use]
    pub fn new(world: &World, options: &PairOptions, end: usize) -> Self {
        let settings = with_split(options.settings.clone(), options.splits[end]);
        let nic = world.nic_over(settings, &rails::addresses(end, options.networks));
        let domain = nic.registry().allocate_domain().expect("a new NIC has room for a domain");
        let queue = || nic.create_completion_queue(options.depth as usize).expect("within the limits");
        let (sends, receives) = (queue(), queue());
        let attributes = QueuePairAttributes {
            domain,
            send_completions: Arc::clone(&sends),
            receive_completions: Arc::clone(&receives),
            send_depth: options.depth,
            receive_depth: options.depth,
            shared_receives: None,
        };
        let queue_pair = nic.create_queue_pair(&attributes).expect("within the limits");
        Self { nic, domain, sends, receives, queue_pair }
    }

    /// Takes all completions of sends that are there.
    pub fn take_sends(&self, out: &mut Vec<WorkCompletion>) {
        self.sends.take_into(out, usize::MAX);
    }

    /// Takes all completions of receives that are there.
    pub fn take_receives(&self, out: &mut Vec<WorkCompletion>) {
        self.receives.take_into(out, usize::MAX);
    }
}

/// Two NICs of one world, and a connection between them.
pub struct Pair<T: Tag = Iwarp> {
    /// The world they are in.
    pub world: World,
    /// The end that connects.
    pub active: End<T>,
    /// The end that accepts.
    pub passive: End<T>,
}

impl<T: Tag> Pair<T> {
    /// Two ends that are not connected yet.
    #[must_use]
    pub fn unconnected(world: &World, options: &PairOptions) -> Self {
        Self { world: world.clone(), active: End::new(world, options, 0), passive: End::new(world, options, 1) }
    }

    /// Connects the ends. Returns whether both are ready.
    ///
    /// # Panics
    /// When the world does not let them listen.
    pub fn connect(&self, options: &PairOptions) -> bool {
        let first = if options.networks > 0 { rails::address(1, 0) } else { Ipv4Addr::LOCALHOST.into() };
        let address = SocketAddr::new(first, 0);
        let listener = self.passive.nic.listen(address, 4, options.passive).expect("a free address");
        let started =
            self.active.nic.connect(&self.active.queue_pair, listener.local_address(), None, options.active, b"active");
        if started.is_err() {
            return false;
        }
        self.run(START_LIMIT, || {
            if let Ok(Some((request, _))) = listener.next_request() {
                // A request that is gone by now shows in the state of the queue pairs.
                let _ = self.passive.nic.accept(request, &self.passive.queue_pair, b"passive", None);
            }
            let states = [&self.active, &self.passive].map(|end| end.queue_pair.state());
            states[0] == State::Failed || states.iter().all(|state| !matches!(state, State::Idle | State::Connecting))
        });
        self.passive.nic.close_listener(&listener);
        self.active.queue_pair.state() == State::Ready && self.passive.queue_pair.state() == State::Ready
    }

    /// Lets both NICs work until `done`, at most for `limit` of virtual time. Returns whether `done`.
    pub fn run(&self, limit: Duration, done: impl FnMut() -> bool) -> bool {
        self.world.run(&[&self.active.nic, &self.passive.nic], limit, done)
    }
}
