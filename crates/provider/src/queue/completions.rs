//! Completions between endpoints and the application.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Instant;

use weft::endpoint::PeerId;
use weft::verbs::Context;
use weft_libfabric::abi::errno::FI_EAVAIL;
use weft_libfabric::abi::{FI_ADDR_NOTAVAIL, fi_addr_t};
use weft_lock::{Rank, RwLock};

use super::entry::{Entry, Format, Source};
use super::failure::Failure;
use super::ring::{Ring, Taken};
use super::wait::{Wait, duration};
use crate::errno::Errno;

/// Maps the peers of an endpoint to the application's addresses.
pub(crate) trait Sources: Send + Sync {
    /// `FI_ADDR_NOTAVAIL` if the application does not know it, or does not want to.
    fn address(&self, peer: PeerId) -> fi_addr_t;
}

/// The queue of a completion queue: endpoints push completions, the application takes them.
pub(crate) struct Completions {
    pub(super) ring: Ring,
    pub(super) wait: Wait,
    format: Format,
    /// Whether `fi_cq_signal` was called, and has ended no wait yet.
    interrupted: AtomicBool,
    /// One for each endpoint that reports here.
    sources: RwLock<Vec<Option<Arc<dyn Sources>>>>,
}

impl Completions {
    pub(super) fn new(size: usize, format: Format, wait: Wait) -> Self {
        let interrupted = AtomicBool::new(false);
        Self {
            ring: Ring::new(size),
            wait,
            format,
            interrupted,
            sources: RwLock::new(Rank::CompletionSources, Vec::new()),
        }
    }

    /// Adds an endpoint. Returns its index, for [`Source::new`].
    pub(crate) fn attach(&self, endpoint: Arc<dyn Sources>) -> u32 {
        let mut places = self.sources.write();
        places.push(Some(endpoint));
        places.len() as u32 - 1
    }

    /// Removes an endpoint.
    pub(crate) fn detach(&self, place: u32) {
        if let Some(place) = self.sources.write().get_mut(place as usize) {
            *place = None;
        }
    }

    /// Whether a request may be accepted that completes here.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.ring.has_room()
    }

    /// An operation has succeeded.
    #[inline]
    pub(crate) fn push(&self, entry: Entry) {
        self.ring.push(entry);
        self.wait.raise();
    }

    /// An operation has failed.
    #[cold]
    pub(crate) fn push_failure(&self, entry: Entry, failure: Failure) {
        self.ring.push_failure(entry, failure);
        self.wait.raise();
    }

    /// Takes up to `count` completions, or runs the NIC if there are none.
    ///
    /// # Errors
    /// There are none; the next one has failed.
    ///
    /// # Safety
    /// `buffer` has room for `count` entries of the format, `sources` is NULL or has room for as many addresses.
    #[inline]
    pub(super) unsafe fn read(
        &self,
        context: &Context,
        buffer: *mut c_void,
        count: usize,
        sources: *mut fi_addr_t,
    ) -> Result<usize, Errno> {
        if buffer.is_null() && count > 0 {
            return Err(Errno::INVALID);
        }
        // SAFETY: The caller promises the room.
        match unsafe { self.take(buffer, count, sources) } {
            Taken::Nothing => {
                context.progress_as_caller();
                // SAFETY: As above.
                unsafe { self.take(buffer, count, sources) }.into()
            }
            taken => taken.into(),
        }
    }

    /// Waits until there are `due` completions, or one that failed, or `timeout` milliseconds have passed (negative
    /// ones: forever), or it is interrupted; then takes up to `count`.
    ///
    /// # Errors
    /// There are none; the next one has failed.
    ///
    /// # Safety
    /// As for [`Completions::read`].
    pub(super) unsafe fn wait_and_read(
        &self,
        context: &Context,
        (buffer, count, sources): (*mut c_void, usize, *mut fi_addr_t),
        due: usize,
        timeout: c_int,
    ) -> Result<usize, Errno> {
        let end = duration(timeout).and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            let interrupted = || self.interrupted.swap(false, Ordering::SeqCst);
            let mut was_interrupted = false;
            let due = context.wait_until(left, || {
                let due = self.ring.is_due(due);
                was_interrupted = !due && interrupted();
                due || was_interrupted
            });
            // SAFETY: The caller promises as much.
            let taken = unsafe { self.read(context, buffer, count, sources) };
            // Another thread may have taken the due ones.
            if taken != Err(Errno::AGAIN) || !due || was_interrupted {
                return taken;
            }
        }
    }

    /// Ends the current wait, or else the next one.
    pub(super) fn interrupt(&self, context: &Context) {
        self.interrupted.store(true, Ordering::SeqCst);
        self.wait.raise();
        context.nudge();
    }

    /// # Safety
    /// As for [`Completions::read`].
    #[inline]
    unsafe fn take(&self, buffer: *mut c_void, count: usize, sources: *mut fi_addr_t) -> Taken {
        let taken = self.ring.take(count, |number, entry| {
            // SAFETY: The caller promises room for `count` of both, and the ring passes no more.
            unsafe {
                self.format.write(buffer.cast(), number, entry);
                if !sources.is_null() {
                    sources.add(number).write(entry.source.to_bits());
                }
            }
        });
        if let Taken::Entries(taken) = taken
            && !sources.is_null()
            && taken > 0
        {
            // SAFETY: This many were written just now.
            self.translate(unsafe { core::slice::from_raw_parts_mut(sources, taken) });
        }
        taken
    }

    /// Replaces the sources' bits by addresses. Not under the ring's lock: an endpoint may call the NIC.
    fn translate(&self, sources: &mut [fi_addr_t]) {
        let places = self.sources.read();
        for source in sources {
            *source = Source::from_bits(*source)
                .parts()
                .and_then(|(place, peer)| Some(places.get(place as usize)?.as_ref()?.address(peer)))
                .unwrap_or(FI_ADDR_NOTAVAIL);
        }
    }
}

impl From<Taken> for Result<usize, Errno> {
    fn from(taken: Taken) -> Self {
        match taken {
            Taken::Entries(count) => Ok(count),
            Taken::Nothing => Err(Errno::AGAIN),
            Taken::Failure => Err(Errno(FI_EAVAIL)),
        }
    }
}
