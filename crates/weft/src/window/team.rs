//! The ranks of a group, connected.

use core::fmt;
use core::time::Duration;
use std::cell::RefCell;
use std::sync::Arc;

use weft_collective::{Collective, Kind as Collect};
use weft_driver::MonotonicClock;
use weft_memory::Buffer;
use weft_nic::{Address, EndpointAttributes, RemotePlace};
use weft_window::CreateError;

use super::core::{Core, GATHERED, Meanwhile, RECEIVES};
use super::error::Error;
use super::gate::Handle;
use super::neighbourhood::{Rank, crowd};
use super::state::{State, Surroundings};
use super::{Place, Window, WindowOptions};
use crate::endpoint::{Endpoint, EventQueue};
use crate::group::{Group, GroupError};
use crate::verbs::{self, Access as Right};

/// Bytes of a lock word.
const WORD: usize = 8;
/// In what ranks say of their part of a window: it is there. Below it is the STag.
const MADE: u64 = 1 << 32;

/// The ranks of a group, connected, as one of them sees it: what windows are made of.
///
/// Connections open when they are needed. Dropping it closes the endpoint, when what was sent is delivered.
#[derive(Clone)]
pub struct Team {
    // Before the core, which closes it.
    endpoint: Arc<Endpoint>,
    core: Handle,
}

impl Team {
    /// Opens an endpoint and tells the others of the group. All ranks call it.
    ///
    /// # Errors
    /// The endpoint can't be opened, or a rank of the group is missing.
    pub fn new(context: &verbs::Context, group: &mut Group, attributes: &EndpointAttributes) -> Result<Self, Error> {
        let domain = context.allocate_protection_domain()?;
        let events = EventQueue::new(context)?;
        let endpoint = Arc::new(Endpoint::open(&domain, attributes, Arc::new(events.clone()))?);
        let told = group.all_gather(Rank::here(endpoint.address()).emit().as_bytes())?;
        let wrong = |rank| GroupError::Protocol(format!("what rank {rank} gives is no address of an endpoint"));
        let told = told.iter().enumerate().map(|(rank, text)| Rank::parse(text).ok_or_else(|| wrong(rank)));
        let told = told.collect::<Result<Vec<Rank>, GroupError>>()?;
        let addresses: Vec<Address> = told.iter().map(|rank| rank.address.clone()).collect();
        let peers = endpoint.peers(&addresses)?;
        let (rank, ranks) = (group.rank(), group.size());
        let setup = |error| Error::Create(CreateError::Group(error));
        let gather = Collective::new(Collect::AllGather { block: GATHERED }, rank, ranks).map_err(setup)?;
        let barrier = Collective::new(Collect::Barrier, rank, ranks).map_err(setup)?;
        let settings = &attributes.settings;
        let surroundings = Surroundings {
            ranks: peers.iter().enumerate().map(|(rank, peer)| (*peer, rank)).collect(),
            peers,
            registry: context.opened.nic.registry().clone(),
            atomic_bytes: (settings.atomic_bytes as usize).clamp(16, 16 * 1024) / 16 * 16,
            crowd: crowd(&told),
            depth: settings.send_depth.saturating_sub(64).max(1) as usize,
        };
        let state = RefCell::new(State::new(gather, barrier, ranks));
        let (clock, meanwhile) = (MonotonicClock::default(), RefCell::new(None));
        let core = Core { rank, endpoint, events, domain, clock, surroundings, state, meanwhile };
        for index in 0..RECEIVES {
            core.receive(index, vec![0; super::codec::length(GATHERED * (ranks + 1)).max(super::packed::MOST_BYTES)])?;
        }
        (0..ranks).filter(|&other| other != rank).try_for_each(|other| core.guard(other))?;
        Ok(Self { endpoint: Arc::clone(&core.endpoint), core: Handle::new(core, &context.opened) })
    }

    /// Which rank this is, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.core.rank()
    }

    /// How many ranks there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.core.size()
    }

    /// The endpoint that is this rank's. Its requests are the team's: do not post any.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    #[cfg(test)]
    pub(super) fn core(&self) -> super::gate::Inside<'_> {
        self.core.enter()
    }

    #[cfg(test)]
    pub(super) fn handle(&self) -> &Handle {
        &self.core
    }

    /// Waits until all ranks have called it.
    ///
    /// # Errors
    /// A rank is lost, or has not come within [`Group::LIMIT`].
    pub fn barrier(&self) -> Result<(), Error> {
        self.core.enter().barrier()
    }

    /// Takes what has arrived from others, and does what they wait for. Where the NIC has no thread of its own
    /// ([`Progress::Caller`](weft_nic::Progress::Caller)), a rank that computes for long calls it now and then, so that
    /// ranks which probe it get an answer; else that thread does it.
    pub fn progress(&self) {
        self.core.enter().drain();
    }

    /// How often the NIC's thread has processed messages of its windows that no call took.
    #[must_use]
    pub fn served_in_background(&self) -> u64 {
        self.core.served()
    }

    /// Has `act` called again and again while a call of this team or its windows waits and nothing comes, with at most
    /// `longest` between two calls: for other work of this thread. It must not use the team.
    pub fn while_waiting(&self, longest: Duration, act: impl FnMut() + Send + 'static) {
        *self.core.enter().meanwhile.borrow_mut() = Some(Meanwhile { longest, act: Box::new(act) });
    }

    /// Makes a window of which this rank's part has this many bytes, all zero. All ranks call it; lengths may differ.
    ///
    /// # Errors
    /// As [`Team::create`].
    pub fn allocate(&self, bytes: usize, options: &WindowOptions) -> Result<Window, Error> {
        let memory = Buffer::zeroed(bytes.max(1)).map_err(Error::from);
        self.make(memory, bytes as u64, options)
    }

    /// Makes a window over memory of the application, which comes back from [`Window::free`]. All ranks call this, or
    /// [`Team::allocate`].
    ///
    /// # Errors
    /// Options that make no sense here or differ at another rank, memory that can't be registered, another rank that
    /// has failed in this, is lost, or has not come in time.
    pub fn create(&self, memory: impl Into<Buffer>, options: &WindowOptions) -> Result<Window, Error> {
        let memory = memory.into();
        let bytes = memory.len() as u64;
        self.make(Ok(memory), bytes, options)
    }

    fn make(&self, memory: Result<Buffer, Error>, bytes: u64, options: &WindowOptions) -> Result<Window, Error> {
        let core = self.core.enter();
        let id = core.state().next_id();
        let rights = Right::LOCAL_READ | Right::LOCAL_WRITE | Right::REMOTE_READ | Right::REMOTE_WRITE;
        let register = |memory| Ok(core.domain.register(memory, rights | Right::REMOTE_ATOMIC)?);
        let made = memory.and_then(register).and_then(|memory| {
            let word = core.domain.allocate(WORD, Right::LOCAL_WRITE | Right::REMOTE_ATOMIC)?;
            core.add(id, bytes, options)?;
            Ok((memory, word, Place { core: self.core.clone(), id, is_free: false }))
        });
        // Those that could not must say so, or the others would wait for them.
        let mine = match &made {
            Ok((memory, word, _)) => {
                [MADE | u64::from(memory.stag().0), memory.base(), word.stag().0.into(), word.base()]
            }
            Err(_) => [0; GATHERED],
        };
        let all = core.gather(mine, options.limit);
        let (memory, word, place) = made?;
        let all = all?;
        if let Some(rank) = all.chunks_exact(GATHERED).position(|values| values[0] & MADE == 0) {
            return Err(Error::Elsewhere { rank });
        }
        let place_of = |pair: &[u64]| RemotePlace { stag: weft_base::Stag(pair[0] as u32), offset: pair[1] };
        let own = memory.slice(..bytes)?;
        core.with(id, |side| {
            side.memory = Some(own);
            side.places = all.chunks_exact(GATHERED).map(place_of).collect();
            side.words = all.chunks_exact(GATHERED).map(|values| place_of(&values[2..])).collect();
        });
        core.wait_for(id, |side| side.is_created.then_some(()))?;
        Ok(Window { memory, word, place })
    }
}

impl fmt::Debug for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Team({} of {})", self.rank(), self.size())
    }
}
