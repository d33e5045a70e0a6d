//! The ranks of a group, connected.

use core::fmt;
use core::time::Duration;
use std::cell::{RefCell, RefMut};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use weft_base::{Clock as _, RegionId, Slice, Time};
use weft_collective::{Collective, Kind as Collect};
use weft_driver::MonotonicClock;
use weft_memory::{Buffer, MemoryError};
use weft_nic::{Address, Completed, EndpointAttributes, Match, ReceivePost, RemotePlace};
use weft_window::{Access, Asserts, Carrier, CreateError, Order, Request, Settings};

use super::error::Error;
use super::operation::{Context, Kind, Operation};
use super::side::Side;
use super::state::{State, Surroundings};
use super::{Place, Window, WindowOptions};
use crate::endpoint::{Endpoint, EventQueue};
use crate::group::{Group, GroupError};
use crate::verbs::{self, Access as Right, MemoryRegion, ProtectionDomain};

/// Receives that are posted for messages of the other ranks, which are handled one by one.
const RECEIVES: usize = 64;
/// The longest wait before somebody looks at the clock again.
const LOOK: Duration = Duration::from_secs(1);
/// How long to wait before memory is tried again that is still in use.
const RETRY: Duration = Duration::from_millis(1);
/// The tag of receives that nobody sends to: they fail when the connection to their peer is lost.
const GUARD: u64 = u64::MAX;
/// What endpoints promise (`FI_ORDER_SAW` and the others of `libweft-fi.so`): a message is there after the writes
/// before it are placed, and a write with immediate data tells its target of itself when it is placed.
const CARRIER: Carrier = Carrier { order: Order::Whole, notices: true, flush: true };
/// Values that each rank says of its part of a window: STag and tagged offset of its memory, and of its lock word.
const GATHERED: usize = 4;
/// Bytes of a lock word.
const WORD: usize = 8;
/// In what ranks say of their part of a window: it is there. Below it is the STag.
const MADE: u64 = 1 << 32;

/// The ranks of a group, connected, as one of them sees it: what windows are made of.
///
/// Connections open when they are needed. Dropping it closes the endpoint, when what was sent is delivered.
#[derive(Clone)]
pub struct Team {
    core: Rc<Core>,
}

impl Team {
    /// Opens an endpoint and tells the others of the group. All ranks call it.
    ///
    /// # Errors
    /// The endpoint can't be opened, or a rank of the group is missing.
    pub fn new(context: &verbs::Context, group: &mut Group, attributes: &EndpointAttributes) -> Result<Self, Error> {
        let domain = context.allocate_protection_domain()?;
        let events = EventQueue::new(context)?;
        let endpoint = Endpoint::open(&domain, attributes, Arc::new(events.clone()))?;
        let addresses = group.all_gather(emit_address(&endpoint.address()).as_bytes())?;
        let wrong = |rank| GroupError::Protocol(format!("what rank {rank} gives is no address of an endpoint"));
        let parsed = addresses.iter().enumerate();
        let addresses: Result<Vec<Address>, GroupError> =
            parsed.map(|(rank, text)| parse_address(text).ok_or_else(|| wrong(rank))).collect();
        let peers = endpoint.peers(&addresses?)?;
        let (rank, ranks) = (group.rank(), group.size());
        let setup = |error| Error::Create(CreateError::Group(error));
        let gather = Collective::new(Collect::AllGather { block: GATHERED }, rank, ranks).map_err(setup)?;
        let barrier = Collective::new(Collect::Barrier, rank, ranks).map_err(setup)?;
        let settings = &attributes.settings;
        let surroundings = Surroundings {
            ranks: peers.iter().enumerate().map(|(rank, peer)| (*peer, rank)).collect(),
            peers,
            atomic_bytes: (settings.atomic_bytes as usize).clamp(16, 16 * 1024) / 16 * 16,
            depth: settings.send_depth.saturating_sub(64).max(1) as usize,
        };
        let state = RefCell::new(State::new(gather, barrier, ranks));
        let core = Core { rank, endpoint, events, domain, clock: MonotonicClock::default(), surroundings, state };
        for index in 0..RECEIVES {
            core.receive(index, vec![0; super::codec::length(GATHERED * (ranks + 1))])?;
        }
        (0..ranks).filter(|&other| other != rank).try_for_each(|other| core.guard(other))?;
        Ok(Self { core: Rc::new(core) })
    }

    /// Which rank this is, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.core.rank
    }

    /// How many ranks there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.core.surroundings.peers.len()
    }

    /// The endpoint that is this rank's. Its requests are the team's: do not post any.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.core.endpoint
    }

    /// Waits until all ranks have called it.
    ///
    /// # Errors
    /// A rank is lost, or has not come within [`Group::LIMIT`].
    pub fn barrier(&self) -> Result<(), Error> {
        self.core.barrier()
    }

    /// Takes what has come from others, and goes on with what they wait for: who computes for long calls it now and
    /// then, so that those who ask whether this rank is alive get an answer.
    pub fn progress(&self) {
        self.core.drain();
    }

    /// Makes a window of which this rank's part has so many bytes, all zero. All ranks call it; lengths may differ.
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
        let core = &self.core;
        let id = core.state().next_id();
        let rights = Right::LOCAL_READ | Right::LOCAL_WRITE | Right::REMOTE_READ | Right::REMOTE_WRITE;
        let register = |memory| Ok(core.domain.register(memory, rights | Right::REMOTE_ATOMIC)?);
        let made = memory.and_then(register).and_then(|memory| {
            let word = core.domain.allocate(WORD, Right::LOCAL_WRITE | Right::REMOTE_ATOMIC)?;
            core.add(id, bytes, options)?;
            Ok((memory, word, Place { core: Rc::clone(core), id, is_free: false }))
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
        core.with(id, |side| {
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

/// What a team and its windows share.
pub(super) struct Core {
    rank: usize,
    // Before the domain, which it uses.
    endpoint: Endpoint,
    events: EventQueue,
    domain: ProtectionDomain,
    clock: MonotonicClock,
    surroundings: Surroundings,
    state: RefCell<State>,
}

impl Core {
    fn state(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    /// Does something with a window.
    ///
    /// # Panics
    /// There is no such window: that is a bug, for a window's place is there as long as the window.
    pub(super) fn with<R>(&self, id: u16, act: impl FnOnce(&mut Side) -> R) -> R {
        act(self.state().sides.get_mut(&id).expect("a window is there until it is dropped"))
    }

    /// Forgets a window. Where the others may still use it they hear that it is gone.
    pub(super) fn remove(&self, id: u16, is_free: bool) {
        let mut state = self.state();
        if !is_free {
            state.abandon(id, self.rank, &self.surroundings, &self.endpoint);
        }
        state.sides.remove(&id);
    }

    /// Gives memory back when nobody reads it any more: what peers have got may have to be sent again until they have
    /// acknowledged it.
    pub(super) fn release(&self, mut memory: MemoryRegion) -> Result<Buffer, Error> {
        let start = self.now();
        loop {
            match memory.deregister() {
                Ok(buffer) => return Ok(buffer),
                Err((_, error)) if self.has_passed(start, Group::LIMIT) => return Err(Error::Memory(error)),
                Err((again, MemoryError::InFlight { .. })) => memory = again,
                Err((_, error)) => return Err(Error::Memory(error)),
            }
            self.turn(RETRY);
        }
    }

    fn has_passed(&self, start: Time, limit: Duration) -> bool {
        u128::from(self.now().as_nanos().saturating_sub(start.as_nanos())) > limit.as_nanos()
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    fn add(&self, id: u16, bytes: u64, options: &WindowOptions) -> Result<(), Error> {
        let operations = options.operations.clamp(1, WindowOptions::MOST_OPERATIONS);
        let mut settings = Settings::new(options.fence, bytes, CARRIER);
        (settings.operations, settings.limit, settings.answer_limit) =
            (operations, options.limit, options.answer_limit);
        (settings.neighbours, settings.fan_out) = (options.neighbours.clone(), options.fan_out);
        let ranks = self.surroundings.peers.len();
        let machine = weft_window::Window::new(settings, self.rank, ranks, self.now())?;
        self.state().sides.insert(id, Side::new(id, machine, operations, (self.rank, ranks)));
        Ok(())
    }

    /// A copy of bytes that are to be put, in memory that was used before where there is some.
    pub(super) fn keep(&self, bytes: &[u8]) -> Vec<u8> {
        let mut kept = self.state().spare.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(bytes);
        kept
    }

    pub(super) fn begin(&self, id: u16, rank: usize, offset: u64, operation: Operation) -> Result<Request, Error> {
        let too_long = weft_window::OperationError::Outside { offset, length: u32::MAX, bytes: 0 };
        let length = operation.length().ok_or(too_long)?;
        if !operation.compares_well() {
            return Err(weft_window::OperationError::Elements { offset, length }.into());
        }
        // The machine looks at the length alone: where the bytes are here, the endpoint knows.
        let local = Slice { region: RegionId { index: u32::MAX, generation: 0 }, offset: 0, length };
        let mut state = self.state();
        let side = state.sides.get_mut(&id).expect("a window is there until it is dropped");
        let begun = side.begin(operation.unless_empty(), Access { rank, offset, local });
        let begun = begun.map_err(|error| side.failure().unwrap_or(error));
        state.pump(id, &self.surroundings, &self.endpoint);
        begun
    }

    pub(super) fn fence(&self, id: u16, asserts: Asserts) -> Result<(), Error> {
        let now = self.now();
        self.with(id, |side| {
            side.has_fenced = false;
            side.machine.fence(asserts, now).map_err(|error| side.failure().unwrap_or(error.into()))
        })?;
        self.wait_for(id, |side| side.has_fenced.then_some(()))
    }

    /// Gets a lock, or says who has it.
    pub(super) fn lock(&self, id: u16, rank: usize, exclusive: bool, limit: Duration) -> Result<(), Error> {
        self.with(id, |side| {
            side.machine.lock(rank, exclusive).map_err(|error| side.failure().unwrap_or(error.into()))
        })?;
        let start = self.now();
        self.wait_for(id, |side| match side.machine.holds(rank) {
            true => Some(Ok(())),
            false if self.has_passed(start, limit) => {
                let holder = side.attempts.iter().find(|attempt| attempt.to == rank).and_then(|attempt| attempt.holder);
                Some(Err(Error::Taken { rank, holder, waited_for: limit }))
            }
            false => None,
        })?
    }

    /// Waits until a window is so far, at most for `limit`.
    pub(super) fn wait_within(
        &self,
        id: u16,
        limit: Duration,
        mut done: impl FnMut(&mut Side) -> bool,
    ) -> Result<(), Error> {
        let start = self.now();
        self.wait_for(id, |side| {
            if done(side) {
                return Some(Ok(()));
            }
            let rank = side.machine.waiting_for().filter(|_| self.has_passed(start, limit))?;
            Some(Err(Error::Late { rank, waited_for: limit }))
        })?
    }

    /// Waits until a window is so far, or has failed.
    pub(super) fn wait_for<R>(&self, id: u16, mut done: impl FnMut(&mut Side) -> Option<R>) -> Result<R, Error> {
        loop {
            {
                let mut state = self.state();
                state.pump(id, &self.surroundings, &self.endpoint);
                let side = state.sides.get_mut(&id).expect("a window is there until it is dropped");
                if let Some(result) = done(side) {
                    return Ok(result);
                }
                if let Some(error) = side.failure() {
                    return Err(error);
                }
            }
            self.turn(LOOK);
        }
    }

    /// Takes one completion, if one comes in this time, and looks at the clock.
    fn turn(&self, most: Duration) {
        let due = self.state().next_timeout();
        let until_due = due.map(|due| Duration::from_nanos(due.as_nanos().saturating_sub(self.now().as_nanos())));
        let event = self.events.wait(Some(until_due.map_or(most, |left| left.min(most))));
        let (now, is_idle) = (self.now(), event.is_none());
        self.state().now = now;
        if let Some(event) = event {
            self.take(event);
        }
        if is_idle || due.is_some_and(|due| due <= now) {
            let mut state = self.state();
            state.handle_timeout(now, &self.surroundings, &self.endpoint);
            state.probe(now, LOOK, &self.surroundings, &self.endpoint);
        }
    }

    /// Takes all completions that are there.
    pub(super) fn drain(&self) {
        while let Some(event) = self.events.poll() {
            self.take(event);
        }
        self.state().pump_all(&self.surroundings, &self.endpoint);
    }

    fn take(&self, event: crate::endpoint::Event) {
        let rank = event.peer.and_then(|peer| self.surroundings.rank_of(peer));
        let context = Context::parse(event.context);
        if event.completed == Completed::Receive && context.index >= RECEIVES {
            return self.state().heard_of_end(context.index - RECEIVES, event.outcome);
        }
        let again = self.state().handle(event, rank, &self.surroundings, &self.endpoint);
        if let Some(buffer) = again {
            // An endpoint that takes no receives is closed, and whatever waits for it hears so.
            let _ = self.receive(context.index, buffer);
        }
    }

    fn receive(&self, index: usize, buffer: Vec<u8>) -> Result<(), Error> {
        let context = Context { index, ..Context::of(Kind::Receive, 0) };
        Ok(self.endpoint.receive(ReceivePost::new(buffer).context(context.number()))?)
    }

    /// Asks to hear of it when a rank is lost. One that leaves in good order is not.
    fn guard(&self, rank: usize) -> Result<(), Error> {
        let context = Context { index: RECEIVES + rank, ..Context::of(Kind::Receive, 0) };
        let post = ReceivePost::new(Vec::new()).matching(Match { tag: GUARD, ignore: 0 });
        Ok(self.endpoint.receive(post.from(self.surroundings.peers[rank]).context(context.number()))?)
    }

    /// Gives a few numbers to all ranks, and returns those of each.
    fn gather(&self, mine: [u64; GATHERED], limit: Duration) -> Result<Vec<u64>, Error> {
        self.collect(limit, |state| &mut state.gather, &mine)?;
        Ok(self.state().gather.result().unwrap_or_default().to_vec())
    }

    pub(super) fn barrier(&self) -> Result<(), Error> {
        self.collect(Group::LIMIT, |state| &mut state.barrier, &[])
    }

    fn collect(
        &self,
        limit: Duration,
        machine: impl Fn(&mut State) -> &mut Collective,
        values: &[u64],
    ) -> Result<(), Error> {
        let start = self.now();
        // A collective of a team that has failed goes on for ever.
        let _ = machine(&mut self.state()).start(values);
        loop {
            {
                let mut state = self.state();
                state.pump_all(&self.surroundings, &self.endpoint);
                let machine = machine(&mut state);
                if !machine.is_active() {
                    return Ok(());
                }
                let rank = machine.waiting_for().unwrap_or(self.rank);
                if let Some((rank, why)) = state.lost() {
                    return Err(Error::Lost { rank, why });
                }
                if self.has_passed(start, limit) {
                    return Err(Error::Late { rank, waited_for: limit });
                }
            }
            self.turn(LOOK.min(limit / 4));
        }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Core({} of {})", self.rank, self.surroundings.peers.len())
    }
}

/// An address as ranks exchange it: the id in hexadecimal, then the paths.
fn emit_address(address: &Address) -> String {
    let paths: Vec<String> = address.paths.iter().map(SocketAddr::to_string).collect();
    format!("{:x} {}", address.id, paths.join(" "))
}

fn parse_address(text: &[u8]) -> Option<Address> {
    let mut words = core::str::from_utf8(text).ok()?.split(' ');
    let mut address = Address { id: u64::from_str_radix(words.next()?, 16).ok()?, paths: Default::default() };
    for word in words {
        address.paths.try_push(word.parse().ok()?).ok()?;
    }
    (!address.paths.is_empty()).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_back_as_itself_and_nonsense_does_not() {
        let mut address = Address::from("127.0.0.1:5".parse::<SocketAddr>().unwrap());
        address.id = u64::MAX;
        address.paths.push("[::1]:7".parse().unwrap());
        assert_eq!(parse_address(emit_address(&address).as_bytes()), Some(address));
        for text in ["", "1", "x 127.0.0.1:5", "1 127.0.0.1", "1 1.1.1.1:1 1.1.1.1:1 1.1.1.1:1 1.1.1.1:1 1.1.1.1:1"] {
            assert_eq!(parse_address(text.as_bytes()), None, "{text}");
        }
    }
}
