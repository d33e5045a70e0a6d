//! One-sided windows: memory of each rank of a group into which the others put, from which they get, and in which they
//! accumulate, and fences that end an epoch of such operations.
//!
//! | here | what it is |
//! |---|---|
//! | [`Team`] | the ranks of a [`Group`](crate::group::Group), connected: each has an endpoint |
//! | [`Window`] | a rank's part of a window: [`Team::allocate`], [`Team::create`] |
//! | [`WindowOptions`], [`Fence`] | how epochs end; `weft-window` explains and compares the fences |
//! | [`Request`] | an operation that was begun |
//!
//! Puts and gets are RDMA writes and reads, whose notices are counted in the target's NIC; what accumulates is done by
//! the target's NIC, once, in the order in which it comes. The target's application takes part only in fences.
//!
//! Between such epochs some ranks may have epochs of their own ([`Window::post`], [`Window::start`]), or a rank may
//! lock the part of another ([`Window::lock`]), whose application takes no part in that at all.
//!
//! All ranks make the same windows in the same order. Calls of several threads for one team take turns, and one that
//! waits keeps its turn: threads that fence several windows of one team do so in the same order at all ranks. While no
//! call is in progress, the NIC's thread does what other ranks need of this one ([`Progress`](weft_nic::Progress):
//! `Hybrid` and `Thread`), so a rank that computes need not call [`Team::progress`]. None of this is for callbacks
//! ([`weft_nic::in_callback`]).
//!
//! # Example
//! Each of four ranks puts its number into the window of the next one.
//! ```
//! use weft::endpoint::EndpointAttributes;
//! use weft::group::Group;
//! use weft::verbs::Context;
//! use weft::window::{Asserts, Team, WindowOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! fn rank(group: &mut Group) -> Result<u8, Box<dyn std::error::Error + Send + Sync>> {
//!     let team = Team::new(&Context::open()?, group, &EndpointAttributes::at("127.0.0.1:0".parse()?))?;
//!     let mut window = team.allocate(1, &WindowOptions::default())?;
//!     window.fence(Asserts::default())?;
//!     let next = (team.rank() + 1) % team.size();
//!     window.put(next, 0, &[team.rank() as u8])?;
//!     window.fence(Asserts { no_succeed: true, ..Asserts::default() })?;
//!     let mut byte = [0];
//!     window.memory().read(0, &mut byte)?;
//!     window.free()?;
//!     Ok(byte[0])
//! }
//! let ranks = Group::threads(4)?.into_iter().map(|mut group| std::thread::spawn(move || rank(&mut group)));
//! let got: Vec<u8> = ranks.collect::<Vec<_>>().into_iter().map(|rank| rank.join().unwrap().unwrap()).collect();
//! assert_eq!(got, [3, 0, 1, 2]);
//! # Ok(())
//! # }
//! ```

mod codec;
mod core;
mod error;
mod gate;
mod lock;
mod neighbourhood;
mod operation;
mod packed;
mod probes;
mod side;
mod state;
mod strided;
mod team;

use ::core::time::Duration;

pub use error::Error;
pub use team::Team;
pub use weft_memory::{Combine, Element};
pub use weft_window::{
    ActiveError, Asserts, Block, CreateError, Fence, FenceError, Layout, LayoutError, Load, LockError, OperationError,
    PeerError, Request, Shape, Update, WindowError,
};

use self::gate::Handle;
use crate::verbs::MemoryRegion;
use operation::Operation;
use side::Side;

/// How a window is made. The fence must be the same at all ranks, and `fan_out`; the rest may differ.
#[derive(Clone, Debug)]
pub struct WindowOptions {
    /// How its epochs end.
    pub fence: Fence,
    /// How what all ranks must agree on runs among them; [`Fence::Auto`] picks it, too.
    pub shape: Shape,
    /// The ranks with which this one shares the window under [`Fence::Neighbour`]: each names the other, none itself.
    pub neighbours: Vec<usize>,
    /// How many neighbours a rank has at most, for [`Fence::Auto`]; 0: unknown.
    pub fan_out: usize,
    /// Operations that may be in flight, at most [`WindowOptions::MOST_OPERATIONS`]; those that wait for the fence
    /// ([`Window::defers`]) may be more under [`Fence::Tagged`].
    pub operations: u32,
    /// A put to several blocks of fewer bytes than this, on average, is packed into messages, in epochs of fences
    /// ([`Window::put_layout`]); 0: no put is.
    pub pack_below: u32,
    /// How long making the window, or a fence, waits for other ranks before it asks them where they are.
    pub limit: Duration,
    /// How long they have then to answer, before the window fails and names the ranks that have not come.
    pub answer_limit: Duration,
}

impl WindowOptions {
    /// The most operations of one window that may be in flight.
    pub const MOST_OPERATIONS: u32 = 1 << 20;

    /// Below this many bytes in a block, on average, packing is cheaper (`weft perf halo`).
    pub const PACK_BELOW: u32 = 512;

    /// With this fence.
    #[must_use]
    pub fn fence(fence: Fence) -> Self {
        Self { fence, ..Self::default() }
    }
}

impl Default for WindowOptions {
    /// [`Fence::Auto`], 4096 operations, packed below [`WindowOptions::PACK_BELOW`], 60 s and 5 s.
    fn default() -> Self {
        let (limit, answer_limit) = (Duration::from_secs(60), Duration::from_secs(5));
        let (operations, pack_below) = (4096, Self::PACK_BELOW);
        let (fence, shape, neighbours) = (Fence::Auto, Shape::Rounds, Vec::new());
        Self { fence, shape, neighbours, fan_out: 0, operations, pack_below, limit, answer_limit }
    }
}

/// A rank's part of a window.
///
/// The first [`Window::fence`] opens the first epoch; each further one ends an epoch and begins the next. What an
/// operation does to memory is certain only when the fence has ended at the target.
///
/// Dropping it ends it for all: its memory is gone, and the others' windows fail and name this rank. To end it in good
/// order all ranks call [`Window::free`].
#[derive(Debug)]
pub struct Window {
    // Before the memory: from then on nothing is placed there.
    place: Place,
    memory: MemoryRegion,
    /// What others lock this rank's part with.
    word: MemoryRegion,
}

/// A window's place among those of its team, until it is dropped.
#[derive(Debug)]
struct Place {
    core: Handle,
    id: u16,
    /// All ranks have agreed that it goes.
    is_free: bool,
}

impl Place {
    fn with<R>(&self, act: impl FnOnce(&mut Side) -> R) -> R {
        self.core.enter().with(self.id, act)
    }

    fn begin(&self, rank: usize, offset: u64, operation: Operation) -> Result<Request, Error> {
        self.core.enter().begin(self.id, rank, offset, operation)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.core.is_owner_process() {
            self.core.enter().remove(self.id, self.is_free);
        }
    }
}

impl Window {
    /// Puts of at most this many bytes go as messages under [`Fence::Tagged`] ([`Window::put`], which copies them).
    pub const MESSAGE_BYTES: usize = 2048;

    /// This rank's memory in the window. What it holds of an epoch's operations is certain when its fence has ended.
    #[must_use]
    pub fn memory(&self) -> &MemoryRegion {
        &self.memory
    }

    /// The fence that is used: the requested one, or the one that was picked.
    #[must_use]
    pub fn fence_kind(&self) -> Fence {
        self.place.with(|side| side.machine.fence_kind())
    }

    /// The pattern of collective operations among the ranks: the requested one, or the one that was picked.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.place.with(|side| side.machine.shape())
    }

    /// Puts bytes at byte `offset` of the window of `rank`, which may be this one. They are copied now.
    ///
    /// # Errors
    /// Not inside of the window, no such rank, no epoch, too many operations: nothing has happened then. Or the window
    /// has failed.
    pub fn put(&mut self, rank: usize, offset: u64, bytes: &[u8]) -> Result<Request, Error> {
        let kept = self.place.core.enter().keep(bytes);
        let is_message = kept.len() <= Self::MESSAGE_BYTES && self.sends_messages();
        let put = if is_message { Operation::Message(kept) } else { Operation::Put(kept.into()) };
        self.place.begin(rank, offset, put)
    }

    /// Whether small puts go as messages now.
    fn sends_messages(&self) -> bool {
        let machine_says = |side: &mut side::Side| side.machine.fence_kind() == Fence::Tagged && side.machine.is_open();
        self.place.with(machine_says)
    }

    /// Puts bytes without a copy: they are given up until the operation is over, and freed then.
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn put_owned(
        &mut self,
        rank: usize,
        offset: u64,
        bytes: impl Into<weft_memory::Buffer>,
    ) -> Result<Request, Error> {
        self.place.begin(rank, offset, Operation::Put(bytes.into()))
    }

    /// Gets `length` bytes from byte `offset` on of the window of `rank`: [`Window::take`] gives them when the request
    /// is over, which it is after the fence, or when [`Window::wait`] says so.
    ///
    /// # Errors
    /// As [`Window::put`].
    pub fn get(&mut self, rank: usize, offset: u64, length: u32) -> Result<Request, Error> {
        self.place.begin(rank, offset, Operation::Get(length))
    }

    /// Combines elements with those at byte `offset` of the window of `rank`, each once. `operands` has whole elements,
    /// in the machine's byte order; the elements there must be aligned as `offset` is, which memory of
    /// [`Team::allocate`] is.
    ///
    /// # Errors
    /// As [`Window::put`]; or not whole, aligned elements, or these have no such operation.
    pub fn accumulate(
        &mut self,
        rank: usize,
        offset: u64,
        element: Element,
        combine: Combine,
        operands: &[u8],
    ) -> Result<Request, Error> {
        let operation = Operation::Accumulate { element, combine, operands: operands.to_vec() };
        self.place.begin(rank, offset, operation)
    }

    /// As [`Window::accumulate`], and gets the elements as they were before ([`Window::take`]). With [`Combine::Read`]
    /// nothing is changed; `operands` says by its length how many are read.
    ///
    /// # Errors
    /// As [`Window::accumulate`].
    pub fn fetch(
        &mut self,
        rank: usize,
        offset: u64,
        element: Element,
        combine: Combine,
        operands: &[u8],
    ) -> Result<Request, Error> {
        let (operands, compare) = (operands.to_vec(), Vec::new());
        self.place.begin(rank, offset, Operation::Fetch { element, combine, operands, compare })
    }

    /// Swaps elements in where those there equal `compare`, and gets them as they were before ([`Window::take`]).
    ///
    /// # Errors
    /// As [`Window::accumulate`].
    pub fn compare_and_swap(
        &mut self,
        rank: usize,
        offset: u64,
        element: Element,
        compare: &[u8],
        swap: &[u8],
    ) -> Result<Request, Error> {
        let (combine, operands, compare) = (Combine::SwapIfEqual, swap.to_vec(), compare.to_vec());
        self.place.begin(rank, offset, Operation::Fetch { element, combine, operands, compare })
    }

    /// Whether a request is over: what it has put may be anywhere, what it gets is here. Runs the NIC for a
    /// turn.
    pub fn test(&mut self, request: Request) -> bool {
        self.place.core.enter().drain();
        self.place.with(|side| side.machine.is_complete(request))
    }

    /// Whether operations that are begun now move in the fence: all under [`Fence::TwoSided`]; under [`Fence::Tagged`]
    /// those that are no messages, in an epoch that begins without a barrier, and messages to one rank beyond
    /// [`Load::EARLY`].
    #[must_use]
    pub fn defers(&self) -> bool {
        self.place.with(|side| side.machine.defers())
    }

    /// Waits until a request is over.
    ///
    /// # Errors
    /// The window has failed; or the operation moves in the fence, as all do under [`Fence::TwoSided`], and those under
    /// [`Fence::Tagged`] that are no messages, or beyond [`Load::EARLY`], and come after some epochs without such: not
    /// in the first three, nor in the three after one that had some.
    pub fn wait(&mut self, request: Request) -> Result<(), Error> {
        if !self.test(request) && self.place.with(|side| side.machine.is_deferred(request)) {
            return Err(Error::Deferred);
        }
        self.place.core.enter().wait_for(self.place.id, |side| side.machine.is_complete(request).then_some(()))
    }

    /// What a request has got, once. `None`: it is not over, or was none that gets. What is not taken is dropped when
    /// the epoch after its own ends; what was got under a lock, with the next epoch. What waits to be taken counts as
    /// operations do.
    #[must_use]
    pub fn take(&mut self, request: Request) -> Option<Vec<u8>> {
        self.place.with(|side| side.results.remove(&request)).map(|(_, bytes)| bytes)
    }

    /// Ends this epoch and begins the next. When it returns, what others did in this epoch to this rank's memory is
    /// there, and what this rank did is over. All ranks call it.
    ///
    /// It is no barrier, as `MPI_Win_fence` is none: another rank may leave its fence earlier, so what that rank does
    /// in the next epoch may be here already when this returns, or may come while the memory is read. Memory that is
    /// read after a fence must not be put to in the epoch that begins with it. Programs that exchange borders in each
    /// step give their windows two halves, for even and for odd steps: a rank can be ahead by one epoch, but not by
    /// two, for its next fence waits for this rank.
    /// ```
    /// use weft::endpoint::EndpointAttributes;
    /// use weft::group::Group;
    /// use weft::verbs::Context;
    /// use weft::window::{Asserts, Team, WindowOptions};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// fn rank(group: &mut Group) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    ///     let team = Team::new(&Context::open()?, group, &EndpointAttributes::at("127.0.0.1:0".parse()?))?;
    ///     let mut window = team.allocate(2, &WindowOptions::default())?;
    ///     window.fence(Asserts::default())?;
    ///     for step in 0..100 {
    ///         let half = u64::from(step % 2);
    ///         window.put(1 - team.rank(), half, &[step])?;
    ///         window.fence(Asserts::default())?;
    ///         // The other rank may put the next step's byte now: into the other half.
    ///         let mut byte = [0];
    ///         window.memory().read(half, &mut byte)?;
    ///         assert_eq!(byte, [step]);
    ///     }
    ///     window.fence(Asserts { no_succeed: true, ..Asserts::default() })?;
    ///     window.free()?;
    ///     Ok(())
    /// }
    /// let ranks = Group::threads(2)?.into_iter().map(|mut group| std::thread::spawn(move || rank(&mut group)));
    /// ranks.collect::<Vec<_>>().into_iter().for_each(|rank| rank.join().unwrap().unwrap());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// An assert that is not true; or the window has failed, because a rank is lost, or has not come in time.
    pub fn fence(&mut self, asserts: Asserts) -> Result<(), Error> {
        self.place.core.enter().fence(self.place.id, asserts)
    }

    /// Exposes this rank's part to the origins, between epochs of fences: they access it between [`Window::start`] and
    /// [`Window::complete`]. [`Window::wait_exposed`] ends it.
    ///
    /// # Errors
    /// An epoch of fences is open, or the last exposure; a rank that is none or named twice; or the window has failed.
    pub fn post(&mut self, origins: &[usize]) -> Result<(), Error> {
        let (core, id) = (self.place.core.enter(), &self.place.id);
        core.with(*id, |side| side.machine.post(origins).map_err(|error| side.failure().unwrap_or(error.into())))?;
        core.wait_for(*id, |_| Some(()))
    }

    /// Begins to access the parts of the targets, when all of them have posted. Operations there move at once, whatever
    /// the fence of the window.
    ///
    /// # Errors
    /// As [`Window::post`]; or a target has not posted within `limit`.
    pub fn start(&mut self, targets: &[usize], limit: Duration) -> Result<(), Error> {
        self.begin_start(targets)?;
        self.place.core.enter().wait_within(self.place.id, limit, |side| side.machine.has_started())
    }

    /// As [`Window::start`], but does not wait: operations may begin when [`Window::test_started`] says so.
    ///
    /// # Errors
    /// As [`Window::post`].
    pub fn begin_start(&mut self, targets: &[usize]) -> Result<(), Error> {
        let (core, id) = (self.place.core.enter(), &self.place.id);
        core.with(*id, |side| side.machine.start(targets).map_err(|error| side.failure().unwrap_or(error.into())))
    }

    /// Whether all targets have posted, after [`Window::begin_start`]. Runs the NIC for a turn.
    ///
    /// # Errors
    /// The window has failed.
    pub fn test_started(&mut self) -> Result<bool, Error> {
        self.place.core.enter().poll_for(self.place.id, |side| side.machine.has_started())
    }

    /// Ends the access to the targets: what was got is here, and what was put may be changed. The targets learn how
    /// much there was.
    ///
    /// # Errors
    /// Nothing was started; or the window has failed.
    pub fn complete(&mut self) -> Result<(), Error> {
        let (core, id) = (self.place.core.enter(), &self.place.id);
        core.with(*id, |side| side.machine.complete().map_err(|error| side.failure().unwrap_or(error.into())))?;
        core.wait_for(*id, |side| side.machine.has_completed().then_some(()))
    }

    /// Waits until all origins have completed, and what they did is here: the exposure has ended.
    ///
    /// # Errors
    /// Nothing was posted; an origin has not completed within `limit`; or the window has failed.
    pub fn wait_exposed(&mut self, limit: Duration) -> Result<(), Error> {
        let (core, id) = (self.place.core.enter(), &self.place.id);
        let mut refused = None;
        core.wait_within(*id, limit, |side| match side.machine.end_exposure() {
            Ok(has_ended) => has_ended,
            Err(error) => {
                refused = Some(side.failure().unwrap_or(error.into()));
                true
            }
        })?;
        refused.map_or(Ok(()), Err)
    }

    /// Ends the exposure, if all origins have completed, and says whether it has ended.
    ///
    /// # Errors
    /// Nothing was posted; or the window has failed.
    pub fn test_exposed(&mut self) -> Result<bool, Error> {
        let (core, id) = (self.place.core.enter(), &self.place.id);
        core.poll_for(*id, |_| false)?;
        core.with(*id, |side| side.machine.end_exposure().map_err(|error| side.failure().unwrap_or(error.into())))
    }

    /// Locks the part of a rank, between epochs: alone (`exclusive`), or with others that share it. Then operations
    /// there may begin, which move at once whatever the fence of the window, until [`Window::unlock`]. The rank may be
    /// this one: a rank that reads or writes memory of its own that others lock must lock it, too.
    ///
    /// # Errors
    /// An epoch is open, or this rank has that lock; it was not to be had within `limit`; or the window has failed.
    pub fn lock(&mut self, rank: usize, exclusive: bool, limit: Duration) -> Result<(), Error> {
        self.begin_lock(rank, exclusive)?;
        self.place.core.enter().wait_for_lock(self.place.id, rank, limit)
    }

    /// As [`Window::lock`], but does not wait: the lock is here when [`Window::test_lock`] says so. Until then this
    /// rank tries to get it whenever it calls its team or windows.
    ///
    /// # Errors
    /// An epoch is open, or this rank has that lock or waits for it; or the window has failed.
    pub fn begin_lock(&mut self, rank: usize, exclusive: bool) -> Result<(), Error> {
        self.place.core.enter().begin_lock(self.place.id, rank, exclusive)
    }

    /// Whether this rank has the lock on the part of another. Runs the NIC for a turn.
    ///
    /// # Errors
    /// The window has failed.
    pub fn test_lock(&mut self, rank: usize) -> Result<bool, Error> {
        self.place.core.enter().poll_for(self.place.id, |side| side.machine.holds(rank))
    }

    /// Waits until everything that was done to the part of a rank under this lock is placed there, and what was got
    /// from there is here.
    ///
    /// # Errors
    /// This rank has no lock there, or the window has failed.
    pub fn flush(&mut self, rank: usize) -> Result<(), Error> {
        let (core, id) = (self.place.core.enter(), &self.place.id);
        core.with(*id, |side| side.machine.flush(rank).map_err(|error| side.failure().unwrap_or(error.into())))?;
        core.wait_for(*id, |side| side.machine.is_flushed(rank).then_some(()))
    }

    /// Gives the lock on the part of a rank back, when everything that was done there is placed.
    ///
    /// # Errors
    /// As [`Window::flush`].
    pub fn unlock(&mut self, rank: usize) -> Result<(), Error> {
        let (core, id) = (self.place.core.enter(), &self.place.id);
        core.with(*id, |side| side.machine.unlock(rank).map_err(|error| side.failure().unwrap_or(error.into())))?;
        core.wait_for(*id, |side| side.machine.is_free(rank).then_some(()))
    }

    /// Locks the parts of all ranks, this one's too, with others that share them.
    ///
    /// # Errors
    /// As [`Window::lock`].
    pub fn lock_all(&mut self, limit: Duration) -> Result<(), Error> {
        let (core, id) = (self.place.core.enter(), &self.place.id);
        core.with(*id, |side| {
            let all = (0..core.size()).try_for_each(|rank| side.machine.lock(rank, false));
            all.map_err(|error| side.failure().unwrap_or(error.into()))
        })?;
        (0..core.size()).try_for_each(|rank| core.wait_for_lock(*id, rank, limit))
    }

    /// Flushes the parts of all ranks that this one has locked.
    ///
    /// # Errors
    /// The window has failed.
    pub fn flush_all(&mut self) -> Result<(), Error> {
        let (core, id) = (self.place.core.enter(), &self.place.id);
        let held = core.with(*id, |side| side.held());
        core.with(*id, |side| {
            let all = held.iter().try_for_each(|rank| side.machine.flush(*rank));
            all.map_err(|error| side.failure().unwrap_or(error.into()))
        })?;
        core.wait_for(*id, |side| held.iter().all(|rank| side.machine.is_flushed(*rank)).then_some(()))
    }

    /// Gives back all locks that this rank has.
    ///
    /// # Errors
    /// The window has failed.
    pub fn unlock_all(&mut self) -> Result<(), Error> {
        let (core, id) = (self.place.core.enter(), &self.place.id);
        let held = core.with(*id, |side| side.held());
        core.with(*id, |side| {
            let all = held.iter().try_for_each(|rank| side.machine.unlock(*rank));
            all.map_err(|error| side.failure().unwrap_or(error.into()))
        })?;
        core.wait_for(*id, |side| held.iter().all(|rank| side.machine.is_free(*rank)).then_some(()))
    }

    /// Ends the window at all ranks: waits for them, and gives this rank's memory back. What is put after the last
    /// fence may or may not be there.
    ///
    /// # Errors
    /// A rank is lost or late, or work in flight still uses the memory.
    pub fn free(mut self) -> Result<weft_memory::Buffer, Error> {
        self.place.core.enter().wait_for(self.place.id, |side| side.has_nothing_under_way().then_some(()))?;
        self.place.core.enter().leave(self.place.id)?;
        self.place.is_free = true;
        self.place.core.enter().release(self.word)?;
        self.place.core.enter().release(self.memory)
    }
}
