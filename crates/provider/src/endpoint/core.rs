//! The state of an endpoint, before and after it was enabled.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use weft::endpoint::{Address, Endpoint, EndpointAttributes, EndpointError, PeerId};
use weft::verbs::{Error, PortError};
use weft_libfabric::abi::errno::{FI_ENOAV, FI_ENOCQ, FI_EOPBADSTATE};
use weft_libfabric::abi::{
    FI_ADDR_UNSPEC, FI_ATOMIC, FI_DIRECTED_RECV, FI_MSG, FI_READ, FI_RECV, FI_RMA, FI_SEND, FI_SOURCE, FI_TAGGED,
    FI_TAGGED_DIRECTED_RECV, FI_WRITE, fi_addr_t, fi_version,
};
use weft_lock::{Mutex, Rank};

use super::counter_order::CounterOrder;
use super::many::Many;
use super::op_flags::OpFlags;
use super::peers::Peers;
use super::report::{Report, Tallies};
use crate::addresses::Place;
use crate::addresses::vector::AddressVector;
use crate::border::Held;
use crate::domain::Domain;
use crate::errno::Errno;
use crate::parameters;
use crate::queue::{CompletionQueue, Completions, Counter, EventQueue, Sources, Tally};
use crate::remote::RemoteTallies;
use crate::stderr;

/// The default of the minimum bytes left in a receive of many messages before it ends.
const MIN_MULTI_RECEIVE: u64 = 64;
const VERSION_2: u32 = fi_version(2, 0);

/// The state that all aliases of an endpoint share.
pub(super) struct Core {
    pub(super) domain: Held<Domain>,
    pub(super) capabilities: Capabilities,
    /// The application's context from opening.
    pub(super) context: usize,
    pub(super) place: Mutex<Place>,
    pub(super) bindings: Mutex<Bindings>,
    pub(super) min_multi_receive: AtomicU64,
    active: OnceLock<Active>,
    /// Prevents two threads from enabling it at once.
    enabling: Mutex<()>,
}

/// The capabilities that it was opened with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capabilities {
    /// `fi_info::caps`.
    pub(super) all: u64,
    /// `fi_rx_attr::caps`, or the former.
    pub(super) receive: u64,
    /// `fi_tx_attr::size`, or 0.
    pub(super) transmit_size: usize,
    /// `fi_rx_attr::size`, or 0.
    pub(super) receive_size: usize,
}

impl Capabilities {
    fn transmits(self) -> bool {
        self.has_one_of(FI_MSG | FI_TAGGED, FI_SEND) || self.has_one_of(FI_RMA | FI_ATOMIC, FI_READ | FI_WRITE)
    }

    fn receives(self) -> bool {
        self.has_one_of(FI_MSG | FI_TAGGED, FI_RECV)
    }

    /// Whether it supports one of these operations in this direction. No direction at all means both (fi_getinfo(3)).
    fn has_one_of(self, operations: u64, direction: u64) -> bool {
        const DIRECTIONS: u64 = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
        self.all & operations != 0 && (self.all & DIRECTIONS == 0 || self.all & direction != 0)
    }
}

/// The objects bound to an endpoint.
#[derive(Default)]
pub(super) struct Bindings {
    pub(super) transmit: Option<Bound>,
    pub(super) receive: Option<Bound>,
    pub(super) vector: Option<Held<AddressVector>>,
    pub(super) events: Option<Held<EventQueue>>,
    pub(super) counters: Counters,
}

/// A completion queue.
#[derive(Clone)]
pub(super) struct Bound {
    pub(super) queue: Held<CompletionQueue>,
    /// Whether only operations that request it complete there.
    pub(super) selective: bool,
}

/// Counters, by the operations that they count.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) send: Option<Held<Counter>>,
    pub(super) receive: Option<Held<Counter>>,
    pub(super) read: Option<Held<Counter>>,
    pub(super) write: Option<Held<Counter>>,
    /// Peers' operations, with `FI_RMA_EVENT`.
    pub(super) remote_read: Option<Held<Counter>>,
    pub(super) remote_write: Option<Held<Counter>>,
}

impl Counters {
    /// Adds those of these counters for which `tallies` has none yet.
    fn fill(&self, tallies: &Tallies) {
        for (counter, tally) in [
            (&self.send, &tallies.send),
            (&self.receive, &tallies.receive),
            (&self.read, &tallies.read),
            (&self.write, &tallies.write),
        ] {
            if let Some(counter) = counter {
                tally.get_or_init(|| Arc::clone(counter.tally()));
            }
        }
    }

    fn remote(&self) -> RemoteTallies {
        RemoteTallies { read: tally(&self.remote_read), write: tally(&self.remote_write) }
    }

    const fn count_transmits(&self) -> bool {
        self.send.is_some() || self.read.is_some() || self.write.is_some()
    }
}

fn tally(counter: &Option<Held<Counter>>) -> Option<Arc<Tally>> {
    counter.as_ref().map(|counter| Arc::clone(counter.tally()))
}

/// An endpoint that was enabled.
pub(super) struct Active {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) report: Arc<Report>,
    pub(super) selective_transmits: bool,
    pub(super) selective_receives: bool,
    peers: Arc<Peers>,
    /// Whether untagged receives honour their source.
    directed: bool,
    /// Whether tagged ones do.
    directed_tagged: bool,
}

impl Core {
    pub(super) fn new(domain: Held<Domain>, capabilities: Capabilities, place: Place, context: usize) -> Self {
        Self {
            domain,
            capabilities,
            context,
            place: Mutex::new(Rank::EndpointPlace, place),
            bindings: Mutex::new(Rank::EndpointBindings, Bindings::default()),
            min_multi_receive: AtomicU64::new(MIN_MULTI_RECEIVE),
            active: OnceLock::new(),
            enabling: Mutex::new(Rank::EndpointEnabling, ()),
        }
    }

    /// The endpoint, if it was enabled.
    #[inline]
    pub(super) fn active(&self) -> Result<&Active, Errno> {
        self.active.get().ok_or(Errno(FI_EOPBADSTATE))
    }

    /// Refuses changes that are invalid after it was enabled.
    pub(super) fn check_inactive(&self) -> Result<(), Errno> {
        if self.active.get().is_some() { Err(Errno(FI_EOPBADSTATE)) } else { Ok(()) }
    }

    /// Enables it.
    pub(super) fn enable(&self) -> Result<(), Errno> {
        let _alone = self.enabling.lock();
        self.check_inactive()?;
        // Operations lend the program's memory, which it may unmap.
        weft::endpoint::watch_faults();
        let bindings = self.bindings.lock();
        let vector = bindings.vector.clone().ok_or(Errno(FI_ENOAV))?;
        let counts_receives = bindings.counters.receive.is_some();
        if (self.capabilities.transmits() && bindings.transmit.is_none() && !bindings.counters.count_transmits())
            || (self.capabilities.receives() && bindings.receive.is_none() && !counts_receives)
        {
            return Err(Errno(FI_ENOCQ));
        }
        let queue = |bound: &Option<Bound>| bound.as_ref().map(|bound| Arc::clone(bound.queue.completions()));
        let report = Arc::new(Report {
            transmit: queue(&bindings.transmit),
            receive: queue(&bindings.receive),
            place: AtomicU32::new(u32::MAX),
            tallies: Tallies::default(),
            turns: CounterOrder::default(),
            many: Many::default(),
            context: self.context,
            closed: AtomicBool::new(false),
        });
        let endpoint = Arc::new(self.open(&report)?);
        let tell = self.capabilities.receive & FI_SOURCE != 0;
        let peers = Arc::new(Peers::new(Arc::clone(&endpoint), vector, tell));
        if let Some(queue) = &report.receive {
            report.place.store(queue.attach(Arc::clone(&peers) as Arc<dyn Sources>), Ordering::Relaxed);
        }
        let selective = |bound: &Option<Bound>| bound.as_ref().is_some_and(|bound| bound.selective);
        let active = Active {
            endpoint,
            report,
            selective_transmits: selective(&bindings.transmit),
            selective_receives: selective(&bindings.receive),
            peers,
            directed: self.capabilities.receive & FI_DIRECTED_RECV != 0,
            directed_tagged: self.capabilities.receive & (FI_DIRECTED_RECV | self.directed_tagged_capability()) != 0,
        };
        self.count_with(&active, &bindings.counters);
        self.active.set(active).map_err(|_| Errno(FI_EOPBADSTATE))
    }

    /// From now on the endpoint counts with all counters that are bound to it.
    pub(super) fn count_with(&self, active: &Active, counters: &Counters) {
        counters.fill(&active.report.tallies);
        let remote = counters.remote();
        if let Some(counters) = self.domain.remote().filter(|_| !remote.is_empty()) {
            counters.set(active.endpoint.address().id, remote);
        }
    }

    /// The bit has another meaning for applications of the first version.
    fn directed_tagged_capability(&self) -> u64 {
        if self.domain.api_version() >= VERSION_2 { FI_TAGGED_DIRECTED_RECV } else { 0 }
    }

    /// Opens it at the application's address; if the application leaves the port open, on the first free one that the
    /// user permits.
    fn open(&self, report: &Arc<Report>) -> Result<Endpoint, Error> {
        let place = self.place.lock().clone();
        let mut settings = self.domain.settings().clone();
        settings.send_depth = settings.send_depth.max(self.capabilities.transmit_size.try_into().unwrap_or(u32::MAX));
        let mut attributes =
            EndpointAttributes { bind: place.bind, paths: place.paths, settings, engine: None, key: None };
        attributes.key = parameters::get().ok().and_then(|parameters| parameters.key.clone());
        let open = |attributes: &EndpointAttributes| {
            let report = Arc::clone(report) as Arc<dyn weft::endpoint::Completions>;
            Endpoint::open(self.domain.protection(), attributes, report)
        };
        let ports = parameters::get().ok().and_then(|parameters| parameters.ports.clone());
        let Some(ports) = ports.filter(|_| place.bind.port() == 0) else { return open(&attributes) };
        let mut taken = Error::Port(PortError::AddressInUse);
        for port in ports {
            attributes.bind.set_port(port);
            match open(&attributes) {
                Err(error @ Error::Port(PortError::AddressInUse)) => taken = error,
                other => return other,
            }
        }
        Err(taken)
    }

    /// Its address, as far as there is one.
    pub(super) fn address(&self) -> Result<Address, Errno> {
        if let Some(active) = self.active.get() {
            return Ok(active.endpoint.address());
        }
        // fi_cm(3): before it is enabled it has an address only if it was given one.
        let place = self.place.lock();
        if place.bind.port() == 0 || place.bind.ip().is_unspecified() {
            return Err(Errno(FI_EOPBADSTATE));
        }
        Ok(Address::from(place.bind))
    }

    /// The result of a post. Where the application has to retry, runs the NIC first, so that the retry may succeed.
    #[inline]
    pub(super) fn posted(&self, result: Result<(), EndpointError>) -> Result<usize, Errno> {
        match result {
            Ok(()) => Ok(0),
            Err(EndpointError::Again) => Err(self.again()),
            Err(error) => Err(error.into()),
        }
    }

    /// Posts a one-sided operation, whose op flags get its turn to be counted.
    #[inline]
    pub(super) fn post_one_sided(
        &self,
        active: &Active,
        op_flags: OpFlags,
        post: impl FnOnce(OpFlags) -> Result<(), EndpointError>,
    ) -> Result<usize, Errno> {
        let op_flags = active.report.begin(op_flags);
        let result = post(op_flags);
        if result.is_err() {
            active.report.take_back(op_flags);
        }
        self.posted(result)
    }

    #[cold]
    fn again(&self) -> Errno {
        self.domain.context().progress_as_caller();
        Errno::AGAIN
    }

    /// The endpoint and the peer of an operation that this side begins.
    #[inline]
    pub(super) fn transmit_to(&self, address: fi_addr_t) -> Result<(&Active, PeerId), Errno> {
        let active = self.active()?;
        self.check_room(&active.report.transmit)?;
        Ok((active, active.peers.peer(address)?))
    }

    /// The endpoint, and the source of a receive: only a directed receive has one.
    #[inline]
    pub(super) fn receive_from(&self, address: fi_addr_t, tagged: bool) -> Result<(&Active, Option<PeerId>), Errno> {
        let active = self.active()?;
        self.check_room(&active.report.receive)?;
        let directed = if tagged { active.directed_tagged } else { active.directed };
        let from = if directed && address != FI_ADDR_UNSPEC { Some(active.peers.peer(address)?) } else { None };
        Ok((active, from))
    }

    /// Refuses operations while the application does not read the queue in which they complete.
    #[inline]
    fn check_room(&self, queue: &Option<Arc<Completions>>) -> Result<(), Errno> {
        match queue {
            Some(queue) if !queue.has_room() => Err(self.again()),
            _ => Ok(()),
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let Some(active) = self.active.get() else { return };
        // fi_endpoint(3): operations in flight are dropped silently.
        active.report.closed.store(true, Ordering::Release);
        if let Some(counters) = self.domain.remote() {
            counters.remove(active.endpoint.address().id);
        }
        if let Err(undelivered) = active.endpoint.close() {
            stderr::complain_of_undelivered(&undelivered.to_string());
        }
        if let Some(queue) = &active.report.receive {
            queue.detach(active.report.place.load(Ordering::Relaxed));
        }
    }
}
