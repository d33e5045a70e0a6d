//! Lending (cross-memory attach): one process reads bytes out of the other's memory (process_vm_readv(2)).
//!
//! The lender sends the addresses in the stream, and counts lent runs in a ring without bytes, whose positions are
//! runs; the borrower copies them and advances in that ring, which returns the run. So checking, waiting and waking for
//! lent runs work as for bytes of a ring.
//!
//! Whether one process can read the other's memory is tested: each publishes in the shared memory the address and value
//! of a number. A side that reads this value there has the right process, and permission.

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

use super::lending_words::{BORROWS, TAKES_COPIES};
use super::memory::{Direction, Mapping};
use super::passed::{self, PASSED};
use super::places::Places;
use super::process::PeerProcess;
use super::shared::Shared;
use crate::passing;
use crate::vectors::uninterrupted;

/// The maximum number of lent runs.
const RUNS: Capacity = match Capacity::new(Capacity::LEAST) {
    Some(runs) => runs,
    None => unreachable!(),
};

/// A lent run, by its pieces.
#[derive(Debug)]
struct Run {
    pieces: ArrayVec<Lent, MAX_GATHER>,
    /// Whether a copy of it was passed.
    is_passed: bool,
}

/// The runs that this side lends to the other.
#[derive(Debug)]
pub(super) struct Lender {
    mapping: Arc<Mapping>,
    direction: Direction,
    runs: Producer<Shared>,
    /// Lent runs that are not returned, oldest first.
    out: VecDeque<Run>,
    /// The number that the other side reads. Boxed: the kernel reads it at this address while this lives.
    _number: Box<u64>,
}

impl Lender {
    pub(super) fn new(mapping: &Arc<Mapping>, direction: Direction) -> Self {
        let number = Box::new(RandomState::new().hash_one(direction as u8) | 1);
        let words = mapping.lending_words(direction);
        words.number.store(*number, Ordering::Relaxed);
        words.address.store(&raw const *number as u64, Ordering::Release);
        let runs = Producer::new(Shared::runs(mapping, direction), RUNS);
        Self {
            mapping: Arc::clone(mapping),
            direction,
            runs,
            out: VecDeque::with_capacity(RUNS.bytes()),
            _number: number,
        }
    }

    /// Whether the other side borrows.
    pub(super) fn is_wanted(&self) -> bool {
        self.borrows() == BORROWS
    }

    fn borrows(&self) -> u64 {
        self.mapping.lending_words(self.direction).borrows.load(Ordering::Acquire)
    }

    /// Passes copies of lent runs, if the other side can't read them any more.
    pub(super) fn pass(&mut self, socket: &Socket) {
        if self.out.is_empty() || self.borrows() != TAKES_COPIES {
            return;
        }
        for run in self.out.iter_mut().filter(|run| !run.is_passed) {
            let passed = passed::copy_of(&run.pieces)
                .is_ok_and(|copy| passing::send_with(socket, &[PASSED], copy.as_fd()).is_ok());
            if !passed {
                // The next call retries; a borrower that waits too long ends the stream.
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

    /// Lends one more run, whose slices' addresses are written to `lent`.
    pub(super) fn lend(&mut self, registry: &Registry, slices: &[Slice], lent: &mut [Lent]) -> Result<(), PortError> {
        if self.runs.room(1).map_err(broken)? == 0 {
            return Err(PortError::Exhausted);
        }
        let mut pieces = ArrayVec::new();
        for (slice, lent) in slices.iter().zip(lent) {
            // The lender keeps it in place: a slice that resolves now stays.
            let held = registry.resolve(slice).map_err(|_| PortError::Memory(slice.region))?;
            *lent = Lent { address: held.pointer().as_ptr() as u64, length: slice.length };
            pieces.push(*lent);
        }
        // The other side reads its count only when the stream has announced a run: it is not to be woken.
        let _ = self.runs.publish(1);
        self.out.push_back(Run { pieces, is_passed: false });
        Ok(())
    }

    /// The number of runs returned since the last call.
    #[inline]
    pub(super) fn take_returned(&mut self) -> Result<usize, Violation> {
        if self.out.is_empty() {
            return Ok(0);
        }
        let returned = self.out.len() - self.runs.ask_unread()?;
        self.out.drain(..returned);
        Ok(returned)
    }

    /// Arms the wake-up for a returned run. Returns whether there is something to wait for.
    pub(super) fn sleep(&mut self) -> Result<bool, Violation> {
        // A side that wants copies says so, then wakes this one: seen here, or by the wake-up.
        let wants_copies = self.borrows() == TAKES_COPIES && self.out.iter().any(|run| !run.is_passed);
        Ok(!wants_copies && self.out.len() == self.runs.unread() && self.runs.sleep_until_read()?)
    }

    /// Disarms the wake-up.
    pub(super) fn rise(&mut self) {
        self.runs.rise();
    }

    /// Lent memory must not be read any more.
    pub(super) fn revoke(&self) {
        if self.has_lent() {
            self.mapping.lending_words(self.direction).revoked.store(1, Ordering::SeqCst);
            // Before any later write to that memory.
            fence(Ordering::SeqCst);
        }
    }
}

/// The runs that this side borrows from the other.
#[derive(Debug)]
pub(super) struct Borrower {
    mapping: Arc<Mapping>,
    direction: Direction,
    runs: Consumer<Shared>,
    reach: Reach,
}

/// How this side reads lent memory.
#[derive(Debug)]
enum Reach {
    /// Not at all.
    Nothing,
    /// By reading the memory of the other side's process.
    Process(PeerProcess),
    /// It could, and cannot any more: copies are passed.
    Copies,
}

impl Borrower {
    pub(super) fn new(mapping: &Arc<Mapping>, direction: Direction) -> Self {
        let runs = Consumer::new(Shared::runs(mapping, direction), RUNS);
        Self { mapping: Arc::clone(mapping), direction, runs, reach: Reach::Nothing }
    }

    /// Tries to read the memory of a process, and reports success to the other side if it is its own.
    pub(super) fn begin(&mut self, socket: &Socket) -> bool {
        let words = self.mapping.lending_words(self.direction);
        let address = words.address.load(Ordering::Acquire);
        let number = words.number.load(Ordering::Relaxed);
        if number == 0 {
            return false;
        }
        let Some(process) = PeerProcess::of(socket, self.mapping.file()) else { return false };
        let mut found = [0u8; 8];
        let into = libc::iovec { iov_base: found.as_mut_ptr().cast(), iov_len: found.len() };
        let from = libc::iovec { iov_base: address as *mut _, iov_len: found.len() };
        // SAFETY: At most eight bytes are written to an array of this length; the other address is not of this process.
        let read = unsafe { read(process.number(), &[into], &[from]) };
        let is_found = read == Ok(found.len()) && u64::from_ne_bytes(found) == number;
        if !is_found || passing::has_hung_up_or_ended(socket, process.as_fd()) {
            return false;
        }
        self.reach = Reach::Process(process);
        words.borrows.store(BORROWS, Ordering::Release);
        true
    }

    /// Copies the next run. The copy is not valid before [`Borrower::give_back`].
    ///
    /// # Errors
    /// [`PortError::Unreadable`] with EPERM: the other side's process cannot be read any more. [`passed::take`] gets
    /// the lent bytes then, after [`Borrower::ask_for_copies`].
    pub(super) fn copy(&mut self, registry: &Registry, lent: &[Lent], into: &[Slice]) -> Result<(), PortError> {
        if self.runs.poll().map_err(broken)?.bytes == 0 {
            // The stream announces a run that was never counted.
            return Err(PortError::System(libc::EPROTO));
        }
        let process = match &self.reach {
            Reach::Nothing => return Err(PortError::System(libc::EPROTO)),
            Reach::Process(process) => process.number(),
            Reach::Copies => return Err(PortError::Unreadable(libc::EPERM)),
        };
        let mut places = Places::default();
        places.add(registry, into)?;
        let into = &mut places.vectors;
        let mut sources: ArrayVec<libc::iovec, MAX_GATHER> = lent
            .iter()
            .map(|lent| libc::iovec { iov_base: lent.address as *mut _, iov_len: lent.length as usize })
            .collect();
        loop {
            // SAFETY: The places are valid for writes while they are held, and others may access them meanwhile: no
            // references to them exist. The sources are addresses of another process.
            match unsafe { read(process, into, &sources) } {
                Ok(0) => return Err(PortError::Unreadable(libc::EFAULT)),
                Ok(bytes) => {
                    pass(into, bytes);
                    pass(&mut sources, bytes);
                    if into.is_empty() {
                        return Ok(());
                    }
                }
                // It has ended.
                Err(libc::ESRCH) => return Err(PortError::Reset),
                Err(number) => return Err(PortError::Unreadable(number)),
            }
        }
    }

    /// Whether the copied bytes are the peer's: its process still has the number by which its memory was read.
    pub(super) fn has_read_peer(&self, socket: &Socket) -> bool {
        matches!(&self.reach, Reach::Process(process) if !passing::has_hung_up_or_ended(socket, process.as_fd()))
    }

    /// Notifies the other side that its memory cannot be read any more: it sends copies from now on.
    pub(super) fn ask_for_copies(&mut self, socket: &Socket) {
        self.reach = Reach::Copies;
        self.mapping.lending_words(self.direction).borrows.store(TAKES_COPIES, Ordering::SeqCst);
        // This wakes it in any case.
        let _ = passing::send(socket, &[0]);
    }

    /// Overwrites the copy, which may be another process's memory and must not be exposed.
    pub(super) fn wipe(registry: &Registry, into: &[Slice]) {
        for slice in into.iter().filter_map(|slice| registry.pieces(slice).ok()).flatten() {
            if let Ok(place) = registry.resolve(&slice) {
                // SAFETY: The place is valid for writes while it is held, and no references to it exist.
                unsafe { place.pointer().as_ptr().write_bytes(0, place.length()) };
            }
        }
    }

    /// Returns the copied run. Returns whether the other side is to be woken.
    ///
    /// # Errors
    /// It was revoked: the copy may have any contents.
    pub(super) fn give_back(&mut self) -> Result<bool, PortError> {
        // After all reads of that memory.
        fence(Ordering::SeqCst);
        if self.mapping.lending_words(self.direction).revoked.load(Ordering::SeqCst) != 0 {
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

/// Skips the first `bytes` bytes.
fn pass<const MOST: usize>(vectors: &mut ArrayVec<libc::iovec, MOST>, mut bytes: usize) {
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
