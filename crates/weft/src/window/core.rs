//! What a team and its windows share: the endpoint, what is known of the others, and the ways to wait.

use core::fmt;
use core::time::Duration;
use std::cell::{RefCell, RefMut};
use std::sync::Arc;

use weft_base::{Clock as _, RegionId, Slice, Time};
use weft_collective::Collective;
use weft_driver::MonotonicClock;
use weft_memory::{Buffer, MemoryError};
use weft_nic::{Completed, Match, ReceivePost};
use weft_window::{Access, Asserts, Carrier, Order, Request, Settings};

use super::WindowOptions;
use super::error::Error;
use super::operation::{Context, Kind, Operation};
use super::probes::{Awaited, PERIOD};
use super::side::Side;
use super::state::{State, Surroundings};
use crate::endpoint::{Endpoint, EventQueue};
use crate::group::Group;
use crate::verbs::{MemoryRegion, ProtectionDomain};

/// Receives that are posted for messages of the other ranks, which are handled one by one.
pub(super) const RECEIVES: usize = 64;
/// How long to wait before memory is tried again that is still in use.
const RETRY: Duration = Duration::from_millis(1);
/// The tag of receives to which no peer sends: they fail when the connection to their peer is lost.
const GUARD: u64 = u64::MAX;
/// What endpoints promise (`FI_ORDER_SAW` and the others of `libweft-fi.so`): a message is there after the writes
/// before it are placed, and a write with immediate data tells its target of itself when it is placed.
const CARRIER: Carrier = Carrier { order: Order::Whole, notices: true, flush: true };
/// Values that each rank says of its part of a window: STag and tagged offset of its memory, and of its lock word.
pub(super) const GATHERED: usize = 4;

/// What a team and its windows share.
pub(super) struct Core {
    pub(super) rank: usize,
    // Before the domain, which it uses.
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) events: EventQueue,
    pub(super) domain: ProtectionDomain,
    pub(super) clock: MonotonicClock,
    pub(super) surroundings: Surroundings,
    pub(super) state: RefCell<State>,
    /// What is called again and again while this rank waits.
    pub(super) meanwhile: RefCell<Option<Meanwhile>>,
}

/// What is called again and again while a rank waits.
pub(super) struct Meanwhile {
    /// The longest time between two calls.
    pub(super) longest: Duration,
    pub(super) act: Box<dyn FnMut() + Send>,
}

impl Core {
    pub(super) fn state(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    /// Does something with a window.
    ///
    /// # Panics
    /// There is no such window: that is a bug, for a window's place is there as long as the window.
    pub(super) fn with<R>(&self, id: u16, act: impl FnOnce(&mut Side) -> R) -> R {
        act(self.state().sides.get_mut(&id).expect("a window is there until it is dropped"))
    }

    /// Forgets a window. Where the others may still use it they are notified that it is gone.
    pub(super) fn remove(&self, id: u16, is_free: bool) {
        let mut state = self.state();
        if !is_free {
            state.abandon(id, self.rank, &self.surroundings, &self.endpoint);
        }
        state.sides.remove(&id);
    }

    /// Gives memory back when nothing reads it any more: what peers have got may have to be retransmitted until they
    /// have acknowledged it.
    pub(super) fn release(&self, mut memory: MemoryRegion) -> Result<Buffer, Error> {
        let start = self.now();
        loop {
            match memory.deregister() {
                Ok(buffer) => return Ok(buffer),
                Err((_, error)) if self.has_passed(start, Group::LIMIT) => return Err(Error::Memory(error)),
                Err((again, MemoryError::InFlight { .. })) => memory = again,
                Err((_, error)) => return Err(Error::Memory(error)),
            }
            self.turn(RETRY, Awaited::Nobody);
        }
    }

    fn has_passed(&self, start: Time, limit: Duration) -> bool {
        u128::from(self.now().as_nanos().saturating_sub(start.as_nanos())) > limit.as_nanos()
    }

    pub(super) fn size(&self) -> usize {
        self.surroundings.peers.len()
    }

    fn now(&self) -> Time {
        self.clock.now()
    }

    pub(super) fn add(&self, id: u16, bytes: u64, options: &WindowOptions) -> Result<(), Error> {
        let operations = options.operations.clamp(1, WindowOptions::MOST_OPERATIONS);
        let mut settings = Settings::new(options.fence, bytes, CARRIER);
        (settings.operations, settings.limit, settings.answer_limit) =
            (operations, options.limit, options.answer_limit);
        (settings.neighbours, settings.fan_out) = (options.neighbours.clone(), options.fan_out);
        (settings.shape, settings.crowd, settings.tags) = (options.shape, self.surroundings.crowd, true);
        let ranks = self.surroundings.peers.len();
        let machine = weft_window::Window::new(settings, self.rank, ranks, self.now())?;
        let mut side = Side::new(id, machine, operations, (self.rank, ranks));
        side.pack_below = options.pack_below;
        self.state().sides.insert(id, side);
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
        // The machine uses the length alone: the endpoint knows where the bytes are here.
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
        self.wait_for(id, |side| side.has_fenced.then_some(()))?;
        // What came early for the epoch that begins: the fence may have ended in the very last step.
        self.state().place_early(id, &self.surroundings.registry);
        Ok(())
    }

    /// Asks for a lock.
    pub(super) fn begin_lock(&self, id: u16, rank: usize, exclusive: bool) -> Result<(), Error> {
        self.with(id, |side| side.machine.lock(rank, exclusive).map_err(|error| side.failure().unwrap_or(error.into())))
    }

    /// Waits for a lock that was requested.
    pub(super) fn wait_for_lock(&self, id: u16, rank: usize, limit: Duration) -> Result<(), Error> {
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
            self.turn(PERIOD, Awaited::Anybody);
        }
    }

    /// Takes completions and does what is due, without waiting. Returns whether a window is so far.
    pub(super) fn poll_for(&self, id: u16, mut done: impl FnMut(&mut Side) -> bool) -> Result<bool, Error> {
        self.drain();
        self.turn(Duration::ZERO, Awaited::Anybody);
        self.state().pump(id, &self.surroundings, &self.endpoint);
        self.with(id, |side| match done(side) {
            true => Ok(true),
            false => side.failure().map_or(Ok(false), Err),
        })
    }

    /// Takes one completion, if one comes in this time, and reads the clock. Ranks that are awaited are probed.
    fn turn(&self, most: Duration, awaited: Awaited) {
        let due = self.state().next_timeout();
        let until_due = due.map(|due| Duration::from_nanos(due.as_nanos().saturating_sub(self.now().as_nanos())));
        let most = self.meanwhile.borrow().as_ref().map_or(most, |meanwhile| most.min(meanwhile.longest));
        let event = self.events.wait(Some(until_due.map_or(most, |left| left.min(most))));
        let (now, is_idle) = (self.now(), event.is_none());
        self.state().now = now;
        if let Some(event) = event {
            self.take(event);
        }
        if is_idle && let Some(meanwhile) = self.meanwhile.borrow_mut().as_mut() {
            (meanwhile.act)();
        }
        if is_idle || due.is_some_and(|due| due <= now) {
            let mut state = self.state();
            state.handle_timeout(now, &self.surroundings, &self.endpoint);
            state.probe(now, awaited, &self.surroundings, &self.endpoint);
        }
    }

    /// Takes all completions that are there.
    pub(super) fn drain(&self) {
        while let Some(event) = self.events.poll() {
            self.take(event);
        }
        self.state().pump_all(&self.surroundings, &self.endpoint);
    }

    /// Takes at most `most` of the completions that are there. Returns whether there may be more.
    pub(super) fn drain_some(&self, most: usize) -> bool {
        let taken = (0..most).map_while(|_| self.events.take()).map(|event| self.take(event)).count();
        self.state().pump_all(&self.surroundings, &self.endpoint);
        taken == most
    }

    fn take(&self, event: crate::endpoint::Event) {
        let rank = event.peer.and_then(|peer| self.surroundings.rank_of(peer));
        let context = Context::parse(event.context);
        if event.completed == Completed::Receive && context.index >= RECEIVES {
            return self.state().handle_end(context.index - RECEIVES, event.outcome);
        }
        let again = self.state().handle(event, rank, &self.surroundings, &self.endpoint);
        if let Some(buffer) = again {
            // An endpoint that takes no receives is closed, and whatever waits for it fails.
            let _ = self.receive(context.index, buffer);
        }
    }

    pub(super) fn receive(&self, index: usize, buffer: Vec<u8>) -> Result<(), Error> {
        let context = Context { index, ..Context::of(Kind::Receive, 0) };
        Ok(self.endpoint.receive(ReceivePost::new(buffer).context(context.number()))?)
    }

    /// Requests an event for the loss of a rank. A rank that leaves in good order causes none.
    pub(super) fn guard(&self, rank: usize) -> Result<(), Error> {
        let context = Context { index: RECEIVES + rank, ..Context::of(Kind::Receive, 0) };
        let post = ReceivePost::new(Vec::new()).matching(Match { tag: GUARD, ignore: 0 });
        Ok(self.endpoint.receive(post.from(self.surroundings.peers[rank]).context(context.number()))?)
    }

    /// Gives a few numbers to all ranks, and returns those of each.
    pub(super) fn gather(&self, mine: [u64; GATHERED], limit: Duration) -> Result<Vec<u64>, Error> {
        self.collect(limit, |state| &mut state.gather, &mine, None)?;
        Ok(self.state().gather.result().unwrap_or_default().to_vec())
    }

    pub(super) fn barrier(&self) -> Result<(), Error> {
        self.collect(Group::LIMIT, |state| &mut state.barrier, &[], None)
    }

    /// The barrier after which a window is gone at all ranks. If it fails, the other ranks are notified of the reason.
    pub(super) fn leave(&self, id: u16) -> Result<(), Error> {
        self.with(id, |side| side.is_leaving = true);
        let outcome = self.collect(Group::LIMIT, |state| &mut state.barrier, &[], Some(id));
        if let Err(Error::Lost { rank, .. }) = outcome {
            // The machine knows this rank. It tells the others.
            let _ = self.with(id, |side| side.machine.handle_lost(rank));
            self.state().pump_all(&self.surroundings, &self.endpoint);
        }
        outcome
    }

    /// Runs a collective operation to its end, or until the `window` that it is for has failed.
    ///
    /// Only the rank whose message is the next can keep it from its end: another one may be through already, and have
    /// left. If that other one is lost before its part is done, some rank waits for it, fails, and says so.
    fn collect(
        &self,
        limit: Duration,
        machine: impl Fn(&mut State) -> &mut Collective,
        values: &[u64],
        window: Option<u16>,
    ) -> Result<(), Error> {
        let start = self.now();
        // A collective of a team that has failed never ends.
        let _ = machine(&mut self.state()).start(values);
        loop {
            let mut state = self.state();
            state.pump_all(&self.surroundings, &self.endpoint);
            if !machine(&mut state).is_active() {
                return Ok(());
            }
            let awaited = machine(&mut state).waiting_for();
            let lost = awaited.and_then(|rank| Some((rank, state.why_lost(rank)?)));
            drop(state);
            if let Some((rank, why)) = lost {
                // What it has sent before counts, and may still be among the completions.
                match self.events.poll() {
                    Some(event) => self.take(event),
                    None => return Err(Error::Lost { rank, why }),
                }
                continue;
            }
            if let Some(error) = window.and_then(|id| self.with(id, |side| side.failure())) {
                return Err(error);
            }
            if self.has_passed(start, limit) {
                return Err(Error::Late { rank: awaited.unwrap_or(self.rank), waited_for: limit });
            }
            self.turn(PERIOD.min(limit / 4), awaited.map_or(Awaited::Nobody, Awaited::Rank));
        }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Core({} of {})", self.rank, self.surroundings.peers.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier, mpsc};
    use std::thread;

    use weft_nic::EndpointAttributes;

    use super::*;
    use crate::verbs;
    use crate::window::{Team, Window};

    const PROBE_PERIOD: Duration = Duration::from_millis(5);

    fn window_of(mut group: Group) -> (Team, Window) {
        let attributes = EndpointAttributes::at("127.0.0.1:0".parse().unwrap());
        let team = Team::new(&verbs::Context::open().unwrap(), &mut group, &attributes).unwrap();
        let window = team.allocate(8, &WindowOptions::default()).unwrap();
        (team, window)
    }

    /// Ranks 0 and 1 free a window. Rank 2 has begun to: rank 1 has its message of the barrier's first round, and
    /// leaves. Rank 0 waits for that of the second. Only when it has waited for several probe periods rank 2 does what
    /// `last` says. Returns what comes of it at rank 0.
    fn free_last(last: impl FnOnce(Window)) -> Result<Buffer, Error> {
        let (left, has_left) = mpsc::channel();
        let (waited, has_waited) = mpsc::channel();
        let mut groups = Group::threads(3).unwrap().into_iter();
        let mut group = || groups.next().unwrap();
        let (zero, one, two) = (group(), group(), group());
        // Rank 2 sends its first message before the others free: one of theirs would take it on to the second round.
        let [begun, begun_too, has_begun] = [(); 3].map({
            let gate = Arc::new(Barrier::new(3));
            move |()| Arc::clone(&gate)
        });
        let first = thread::spawn(move || {
            let (team, window) = window_of(one);
            begun.wait();
            window.free().unwrap();
            drop(team);
            left.send(()).unwrap();
        });
        let second = thread::spawn(move || {
            let (team, window) = window_of(zero);
            begun_too.wait();
            team.core().state().probes.period = PROBE_PERIOD;
            let mut turns = None;
            team.while_waiting(PROBE_PERIOD, move || {
                thread::sleep(PROBE_PERIOD);
                turns = turns.map(|turns| turns + 1).or_else(|| has_left.try_recv().ok().map(|()| 0));
                if turns == Some(20) {
                    waited.send(()).unwrap();
                }
            });
            window.free()
        });
        let (team, window) = window_of(two);
        let core = team.core();
        core.state().barrier.start(&[]).unwrap();
        core.state().pump_all(&core.surroundings, &core.endpoint);
        has_begun.wait();
        has_waited.recv().unwrap();
        last(window);
        first.join().unwrap();
        second.join().unwrap()
    }

    #[test]
    fn freeing_a_window_does_not_need_ranks_that_have_left() {
        free_last(|window| drop(window.free().unwrap())).unwrap();
    }

    #[test]
    fn freeing_a_window_fails_with_the_rank_that_gives_it_up() {
        let error = free_last(drop).unwrap_err().to_string();
        assert!(error.contains("rank 2"), "{error}");
    }
}
