//! Bytes that stay where they are: one process reads them out of the other's memory (process_vm_readv(2)).
//!
//! Who lends says by the stream where its bytes lie, and counts what it has lent in a ring without bytes, whose
//! positions are runs; who borrows copies them and moves on in that ring, which gives the run back. So what is lent,
//! given back and waited for is judged, and sleeps and wakes, as bytes of a ring do.
//!
//! Whether one process can read the other's memory is tried, not asked: each says in the memory that both share where
//! it has a number, and which. Who finds it there has the right process, and may.

use core::sync::atomic::{Ordering, fence};
use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::os::fd::AsFd;
use std::sync::Arc;

use arrayvec::ArrayVec;
use socket2::Socket;
use weft_base::{Lent, MAX_GATHER, PortError, Slice};
use weft_memory::Registry;
use weft_ring::{Capacity, Consumer, Producer, Violation};

use super::door::{BORROWS, TAKES_COPIES};
use super::memory::{Mapping, Way};
use super::passed::{self, PASSED};
use super::places::places;
use super::process::PeerProcess;
use super::shared::Shared;
use crate::passing;
use crate::vectors::uninterrupted;

/// Runs that can be lent at a time.
const RUNS: Capacity = match Capacity::new(Capacity::LEAST) {
    Some(runs) => runs,
    None => unreachable!(),
};

/// A run that is lent, by its pieces.
#[derive(Debug)]
struct Run {
    pieces: ArrayVec<Lent, MAX_GATHER>,
    /// A copy of it was passed.
    is_passed: bool,
}

/// What this side lends to the other.
#[derive(Debug)]
pub(super) struct Lender {
    mapping: Arc<Mapping>,
    way: Way,
    runs: Producer<Shared>,
    /// Runs that were lent and not counted as returned, the oldest first.
    out: VecDeque<Run>,
    /// What the other side looks for. It has a place of its own, which is read by the kernel while this lives.
    _number: Box<u64>,
}

impl Lender {
    pub(super) fn new(mapping: &Arc<Mapping>, way: Way) -> Self {
        let number = Box::new(RandomState::new().hash_one(way as u8) | 1);
        let door = mapping.door(way);
        door.number.store(*number, Ordering::Relaxed);
        door.address.store(&raw const *number as u64, Ordering::Release);
        let runs = Producer::new(Shared::runs(mapping, way), RUNS);
        Self { mapping: Arc::clone(mapping), way, runs, out: VecDeque::with_capacity(RUNS.bytes()), _number: number }
    }

    /// Whether the other side borrows.
    pub(super) fn is_wanted(&self) -> bool {
        self.borrows() == BORROWS
    }

    fn borrows(&self) -> u64 {
        self.mapping.door(self.way).borrows.load(Ordering::Acquire)
    }

    /// Passes copies of what is lent, if the other side can't read it any more.
    pub(super) fn pass(&mut self, socket: &Socket) {
        if self.out.is_empty() || self.borrows() != TAKES_COPIES {
            return;
        }
        for run in self.out.iter_mut().filter(|run| !run.is_passed) {
            let passed = passed::copy_of(&run.pieces)
                .is_ok_and(|copy| passing::send_with(socket, &[PASSED], copy.as_fd()).is_ok());
            if !passed {
                // The next call tries again; who waits in vain ends the stream.
                return;
            }
            run.is_passed = true;
        }
    }

    /// Whether anything is lent.
    #[inline]
    pub(super) fn has_lent(&self) -> bool {
        !self.out.is_empty()
    }

    /// Counts one more run, whose slices lie at `lent` then.
    pub(super) fn lend(&mut self, registry: &Registry, slices: &[Slice], lent: &mut [Lent]) -> Result<(), PortError> {
        if self.runs.room(1).map_err(broken)? == 0 {
            return Err(PortError::Exhausted);
        }
        let mut pieces = ArrayVec::new();
        for (slice, lent) in slices.iter().zip(lent) {
            // Whoever lends keeps it in place: a slice that can be touched now stays.
            let held = registry.resolve(slice).map_err(|_| PortError::Memory(slice.region))?;
            *lent = Lent { address: held.pointer().as_ptr() as u64, length: slice.length };
            pieces.push(*lent);
        }
        // The other side looks at its count only when the stream has told it of a run: it is not to be woken.
        let _ = self.runs.publish(1);
        self.out.push_back(Run { pieces, is_passed: false });
        Ok(())
    }

    /// Runs that came back since the last call.
    #[inline]
    pub(super) fn take_returned(&mut self) -> Result<usize, Violation> {
        if self.out.is_empty() {
            return Ok(0);
        }
        let returned = self.out.len() - self.runs.ask_unread()?;
        self.out.drain(..returned);
        Ok(returned)
    }

    /// Asks to be woken when a run comes back. Returns whether there is something to wait for.
    pub(super) fn sleep(&mut self) -> Result<bool, Violation> {
        // Whoever wants copies says so, then wakes this side: seen here, or by the wake-up.
        let wants_copies = self.borrows() == TAKES_COPIES && self.out.iter().any(|run| !run.is_passed);
        Ok(!wants_copies && self.out.len() == self.runs.unread() && self.runs.sleep_until_read()?)
    }

    /// Need not be woken.
    pub(super) fn rise(&mut self) {
        self.runs.rise();
    }

    /// What is lent may not be read any more.
    pub(super) fn revoke(&self) {
        if self.has_lent() {
            self.mapping.door(self.way).revoked.store(1, Ordering::SeqCst);
            // Before whatever is now written to that memory.
            fence(Ordering::SeqCst);
        }
    }
}

/// What this side borrows from the other.
#[derive(Debug)]
pub(super) struct Borrower {
    mapping: Arc<Mapping>,
    way: Way,
    runs: Consumer<Shared>,
    reach: Reach,
}

/// How this side gets at what is lent.
#[derive(Debug)]
enum Reach {
    /// Not at all.
    Nothing,
    /// By reading the memory of the other side's process.
    Process(PeerProcess),
    /// It could, and can't any more: copies are passed.
    Copies,
}

impl Borrower {
    pub(super) fn new(mapping: &Arc<Mapping>, way: Way) -> Self {
        let runs = Consumer::new(Shared::runs(mapping, way), RUNS);
        Self { mapping: Arc::clone(mapping), way, runs, reach: Reach::Nothing }
    }

    /// Tries to read the memory of a process, and tells the other side if it is its own.
    pub(super) fn begin(&mut self, socket: &Socket) -> bool {
        let door = self.mapping.door(self.way);
        let address = door.address.load(Ordering::Acquire);
        let number = door.number.load(Ordering::Relaxed);
        if number == 0 {
            return false;
        }
        let Some(process) = PeerProcess::of(socket, self.mapping.file()) else { return false };
        let mut found = [0u8; 8];
        let into = libc::iovec { iov_base: found.as_mut_ptr().cast(), iov_len: found.len() };
        let from = libc::iovec { iov_base: address as *mut _, iov_len: found.len() };
        // SAFETY: Eight bytes are written to an array of this length, if any; the other address is not of this process.
        let read = unsafe { read(process.number(), &[into], &[from]) };
        let is_found = read == Ok(found.len()) && u64::from_ne_bytes(found) == number;
        if !is_found || passing::has_hung_up_or_ended(socket, process.as_fd()) {
            return false;
        }
        self.reach = Reach::Process(process);
        door.borrows.store(BORROWS, Ordering::Release);
        true
    }

    /// Copies the next run to its place. What was copied does not count before [`Borrower::give_back`].
    ///
    /// # Errors
    /// [`PortError::Unreadable`] with EPERM: the other side's process can't be read any more. [`passed::take`] has what
    /// is lent then, once this was told to the other side ([`Borrower::ask_for_copies`]).
    pub(super) fn copy(&mut self, registry: &Registry, lent: &[Lent], into: &[Slice]) -> Result<(), PortError> {
        if self.runs.look().map_err(broken)?.bytes == 0 {
            // The stream tells of a run that was never counted.
            return Err(PortError::System(libc::EPROTO));
        }
        let process = match &self.reach {
            Reach::Nothing => return Err(PortError::System(libc::EPROTO)),
            Reach::Process(process) => process.number(),
            Reach::Copies => return Err(PortError::Unreadable(libc::EPERM)),
        };
        let (_held, mut places) = places(registry, into)?;
        let mut sources: ArrayVec<libc::iovec, MAX_GATHER> = lent
            .iter()
            .map(|lent| libc::iovec { iov_base: lent.address as *mut _, iov_len: lent.length as usize })
            .collect();
        loop {
            // SAFETY: The places are valid for writes while they are held, and others may touch them meanwhile: no
            // references to them exist. The sources are addresses of another process.
            match unsafe { read(process, &places, &sources) } {
                Ok(0) => return Err(PortError::Unreadable(libc::EFAULT)),
                Ok(bytes) => {
                    pass(&mut places, bytes);
                    pass(&mut sources, bytes);
                    if places.is_empty() {
                        return Ok(());
                    }
                }
                // It has ended.
                Err(libc::ESRCH) => return Err(PortError::Reset),
                Err(number) => return Err(PortError::Unreadable(number)),
            }
        }
    }

    /// Whether what was copied is the peer's: its process still has the number by which its memory was read.
    pub(super) fn has_read_peer(&self, socket: &Socket) -> bool {
        matches!(&self.reach, Reach::Process(process) if !passing::has_hung_up_or_ended(socket, process.as_fd()))
    }

    /// Tells the other side that its memory can't be read any more.
    pub(super) fn ask_for_copies(&mut self, socket: &Socket) {
        self.reach = Reach::Copies;
        self.mapping.door(self.way).borrows.store(TAKES_COPIES, Ordering::SeqCst);
        // Whether it sleeps or not, it looks then.
        let _ = passing::send(socket, &[0]);
    }

    /// Overwrites what was copied, which may be another process's, and nobody is to read on.
    pub(super) fn wipe(registry: &Registry, into: &[Slice]) {
        for slice in into {
            if let Ok(place) = registry.resolve(slice) {
                // SAFETY: The place is valid for writes while it is held, and no references to it exist.
                unsafe { place.pointer().as_ptr().write_bytes(0, place.length()) };
            }
        }
    }

    /// Gives back what was copied. Returns whether the other side is to be woken.
    ///
    /// # Errors
    /// It was revoked: what was copied may be anything.
    pub(super) fn give_back(&mut self) -> Result<bool, PortError> {
        // After whatever was read of that memory.
        fence(Ordering::SeqCst);
        if self.mapping.door(self.way).revoked.load(Ordering::SeqCst) != 0 {
            return Err(PortError::Reset);
        }
        Ok(self.runs.consume(1))
    }
}

fn broken(_: Violation) -> PortError {
    PortError::System(libc::EPROTO)
}

/// process_vm_readv(2).
///
/// # Safety
/// The places are valid for writes of as many bytes until this returns.
unsafe fn read(process: libc::pid_t, places: &[libc::iovec], sources: &[libc::iovec]) -> Result<usize, i32> {
    let (into, from) = (places.as_ptr(), sources.as_ptr());
    let (into_count, from_count) = (places.len() as libc::c_ulong, sources.len() as libc::c_ulong);
    // SAFETY: The caller's promise; the lists are read during the call alone.
    uninterrupted(|| unsafe { libc::process_vm_readv(process, into, into_count, from, from_count, 0) as libc::c_long })
}

/// Goes past the first `bytes` bytes.
fn pass(vectors: &mut ArrayVec<libc::iovec, MAX_GATHER>, mut bytes: usize) {
    while let Some(first) = vectors.first_mut() {
        if bytes < first.iov_len {
            first.iov_base = first.iov_base.cast::<u8>().wrapping_add(bytes).cast();
            first.iov_len -= bytes;
            return;
        }
        bytes -= first.iov_len;
        vectors.remove(0);
    }
}
