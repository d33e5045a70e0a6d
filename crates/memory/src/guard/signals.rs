//! The handler of SIGSEGV and SIGBUS.

use core::ffi::{c_int, c_void};
use core::mem::{MaybeUninit, zeroed};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::{Point, arch};

const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// How often a handler that was installed over ours is put behind it again. Two libraries that both insist would never
/// stop.
const MOST_REINSTALLS: usize = 64;

type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// What was installed before ours, for each signal: a copy of `sigaction` that a handler may read at any time. They
/// are never freed: a handler may be reading the one before. There are at most [`MOST_REINSTALLS`].
static BEFORE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
/// The first of them, which knows nothing of ours.
static FIRST: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
static INSTALLS: Mutex<usize> = Mutex::new(0);
/// An unexpected fault is being handed on.
static IS_HANDING_ON: AtomicBool = AtomicBool::new(false);

/// Catches faults in foreign memory from now on, if the machine has recovery points. To be called when foreign memory
/// is registered: a handler that was installed meanwhile over this one, by an MPI library or an interpreter, comes
/// after it again.
///
/// Faults in the memory of work in flight end that work. All others go to the handler that was there before.
pub fn watch_faults() {
    let mut installs = INSTALLS.lock();
    for (index, signal) in SIGNALS.into_iter().enumerate() {
        // SAFETY: A plain C structure, for which zeros are a value.
        let mut present: libc::sigaction = unsafe { zeroed() };
        // SAFETY: It only asks, into a structure of its own.
        let asked = unsafe { libc::sigaction(signal, ptr::null(), &raw mut present) } == 0;
        if !asked || present.sa_sigaction == ours() || *installs >= MOST_REINSTALLS {
            continue;
        }
        *installs += 1;
        let before = Box::leak(Box::new(present));
        let address = ptr::from_mut(before).expose_provenance();
        BEFORE[index].store(address, Ordering::Release);
        let _ = FIRST[index].compare_exchange(0, address, Ordering::AcqRel, Ordering::Acquire);
        install(signal);
    }
}

fn ours() -> libc::sighandler_t {
    let handler: Handler = on_fault;
    handler as libc::sighandler_t
}

fn install(signal: c_int) {
    // SAFETY: A plain C structure, for which zeros are a value.
    let mut action: libc::sigaction = unsafe { zeroed() };
    action.sa_sigaction = ours();
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: The handler does what handlers may.
    unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
}

/// # Safety
/// Called by the kernel for a signal that was installed with `SA_SIGINFO`.
unsafe extern "C" fn on_fault(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: The kernel gives both.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    // Codes above 0 are the kernel's own, for an instruction of this thread; the others were sent by a process.
    if let Some(point) = Point::of_fault(address).filter(|_| code > 0) {
        // SAFETY: The kernel gives the context of the interrupted thread, which nothing else uses.
        let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
        return arch::resume(context, point.as_ptr());
    }
    // SAFETY: As the kernel called this one.
    unsafe { hand_on(signal, info, context) }
}

/// Gives an unexpected fault to the handler before ours.
///
/// # Safety
/// As for [`on_fault`].
unsafe fn hand_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let index = usize::from(signal == SIGNALS[1]);
    // A handler that was installed over ours, and behind which we are now, calls ours in its turn: then go to the
    // first one.
    let is_repeated = IS_HANDING_ON.swap(true, Ordering::AcqRel);
    let before = if is_repeated { &FIRST[index] } else { &BEFORE[index] }.load(Ordering::Acquire);
    let before: *const libc::sigaction = ptr::with_exposed_provenance(before);
    // SAFETY: NULL, or a leaked structure.
    let handler = unsafe { before.as_ref() }.map_or(libc::SIG_DFL, |action| action.sa_sigaction);
    match handler {
        // The fault repeats as soon as this returns, and ends the process as it would have done without us.
        libc::SIG_DFL | libc::SIG_IGN => set_default(signal),
        handler => {
            // SAFETY: A handler of three arguments may be called so; one that was installed for one argument ignores
            // the others, which the calling conventions of C permit.
            let handler = unsafe { core::mem::transmute::<libc::sighandler_t, Handler>(handler) };
            // SAFETY: As the kernel would call it.
            unsafe { handler(signal, info, context) };
        }
    }
    IS_HANDING_ON.store(is_repeated, Ordering::Release);
}

fn set_default(signal: c_int) {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: A plain C structure, for which zeros are a value; the default action runs no code of the program's.
    unsafe {
        (*action.as_mut_ptr()).sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, action.as_ptr(), ptr::null_mut());
    }
}
