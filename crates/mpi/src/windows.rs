//! Which windows Weft serves.

use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::abi::{Handle, abi};
use crate::fault::Fault;
use crate::library;
use crate::report::{self, COUNTS};
use crate::served::Served;
use crate::setup::{self, Offer};
use crate::slot::Slot;

static WINDOWS: RwLock<BTreeMap<Handle, Arc<Slot>>> = RwLock::new(BTreeMap::new());

fn find(win: Handle) -> Option<Arc<Slot>> {
    WINDOWS.read().unwrap_or_else(PoisonError::into_inner).get(&win).cloned()
}

/// Does something with a window that Weft serves; with others `library` does it.
pub(crate) fn with(
    win: Handle,
    call: &str,
    library: impl FnOnce() -> c_int,
    act: impl FnOnce(&mut Served) -> Result<(), Fault>,
) -> c_int {
    let win = abi().handle(win);
    let Some(slot) = find(win) else { return library() };
    let Some(outcome) = slot.with(act) else { return library() };
    raise(win, call, outcome)
}

/// Polls before a thread that waits begins to sleep between them, and how long it sleeps.
const POLLS: u32 = 100;
const PAUSE: Duration = Duration::from_micros(50);

/// As [`with`], for calls that wait for what other ranks do: `begin` and, until it says that the call is over, `test`
/// again and again. Where the program has several threads that may call MPI, the others use the window meanwhile: what
/// is waited for may depend on what they do (MPI 4.1 section 11.6.2). Else `begin` waits itself.
pub(crate) fn with_waiting(
    win: Handle,
    call: &str,
    by_library: impl FnOnce() -> c_int,
    begin: impl FnOnce(&mut Served, bool) -> Result<bool, Fault>,
    mut test: impl FnMut(&mut Served) -> Result<bool, Fault>,
) -> c_int {
    let win = abi().handle(win);
    let Some(slot) = find(win) else { return by_library() };
    let Some(mut outcome) = slot.with(|window| begin(window, !library::has_threads())) else { return by_library() };
    let mut polls = 0;
    while matches!(outcome, Ok(false)) {
        polls += 1;
        if polls < POLLS {
            std::thread::yield_now()
        } else {
            std::thread::sleep(PAUSE)
        }
        let freed = || Err(Fault::sync("the window was freed by another thread"));
        outcome = slot.with(&mut test).unwrap_or_else(freed);
    }
    raise(win, call, outcome.map(|_| ()))
}

/// MPI's code for the result of a call. An error goes to the window's error handler, which may end the program.
fn raise(win: Handle, call: &str, outcome: Result<(), Fault>) -> c_int {
    let Err(fault) = outcome else { return 0 };
    report::say(&format!("rank {}: {call}: {}", rank(), fault.words));
    // SAFETY: The library knows the window.
    unsafe { library::Win_call_errhandler(win, fault.code) };
    fault.code
}

/// This rank in the whole job.
pub(crate) fn rank() -> c_int {
    let mut rank = -1;
    // SAFETY: It can be written.
    unsafe { library::Comm_rank(abi().comm_world, &raw mut rank) };
    rank
}

/// The library has made a window: Weft takes it, if all ranks can.
///
/// # Safety
/// `win` is where the library has put its handle.
pub(crate) unsafe fn offer(offer: &Offer, win: *const c_void) {
    let Some(served) = setup::make(offer) else {
        COUNTS.left.fetch_add(1, Relaxed);
        return;
    };
    // SAFETY: The caller's promise; handles are as wide as the library's interface says.
    let win = unsafe {
        if abi().handle_bytes == 4 { win.cast::<u32>().read() as Handle } else { win.cast::<Handle>().read() }
    };
    COUNTS.served.fetch_add(1, Relaxed);
    WINDOWS.write().unwrap_or_else(PoisonError::into_inner).insert(win, Arc::new(Slot::new(served)));
}

/// A window is to be freed: first Weft's, if it has one.
///
/// # Safety
/// `win` can be read: a handle.
pub(crate) unsafe fn free(win: *mut c_void) -> c_int {
    // SAFETY: As in `offer`.
    let handle = unsafe {
        if abi().handle_bytes == 4 { win.cast::<u32>().read() as Handle } else { win.cast::<Handle>().read() }
    };
    let slot = WINDOWS.write().unwrap_or_else(PoisonError::into_inner).remove(&handle);
    if let Some(window) = slot.and_then(|slot| slot.take()) {
        let code = raise(handle, "MPI_Win_free", window.free());
        if code != 0 {
            return code;
        }
    }
    // SAFETY: The caller's promise.
    unsafe { library::Win_free(win) }
}

/// The program ends.
pub(crate) fn finish() {
    let left = core::mem::take(&mut *WINDOWS.write().unwrap_or_else(PoisonError::into_inner));
    let windows: Vec<Served> = left.values().filter_map(|slot| slot.take()).collect();
    if report::is_wanted() {
        report::say(&format!("rank {}: {COUNTS}{}", rank(), setup::whose_nic()));
    }
    if !left.is_empty() {
        report::say(&format!("rank {}: windows that were not freed: {}", rank(), left.len()));
    }
    drop(windows);
    setup::close();
}
