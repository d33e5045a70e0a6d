//! What all open devices of a process have together: its NIC, and the rendezvous. Neither is there before the first
//! device is opened, and both stay until the process ends.

use core::mem::MaybeUninit;
use std::sync::{Arc, Mutex, Once};

use weft::verbs::{JobKey, Rails, Settings};

use crate::border::lock;
use crate::errno::Errno;
use crate::log;
use crate::nic::Nic;
use crate::per_process::PerProcess;
use crate::rendezvous::Rendezvous;

/// The NIC and the rendezvous of the process.
pub(crate) struct Process {
    pub(crate) nic: Arc<Nic>,
    pub(crate) rendezvous: Arc<Rendezvous>,
}

/// A child by fork owns nothing of its parent's, and may open its own.
static PROCESS: PerProcess<Mutex<Option<Arc<Process>>>> = PerProcess::new();

/// That of this process, which the first call opens.
///
/// # Errors
/// The operating system refuses what it needs.
pub(crate) fn get() -> Result<Arc<Process>, Errno> {
    let mut process = lock(PROCESS.get());
    if let Some(opened) = &*process {
        return Ok(Arc::clone(opened));
    }
    let opened = without_signals(open)?;
    *process = Some(Arc::clone(&opened));
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: A function of this library, which is never unloaded.
        unsafe { libc::atexit(at_exit) };
    });
    Ok(opened)
}

fn open() -> Result<Arc<Process>, Errno> {
    // A device is one interface, so its connections have no other rails.
    let settings = Settings { rails: Rails::One, key: key()?, ..Settings::default() };
    let nic = Arc::new(Nic::open(settings)?);
    let rendezvous = Rendezvous::open(&nic)?;
    Ok(Arc::new(Process { nic, rendezvous }))
}

/// The key that both ends of a connection have: `WEFT_KEY`.
fn key() -> Result<Option<JobKey>, Errno> {
    let Some(text) = std::env::var_os("WEFT_KEY") else { return Ok(None) };
    JobKey::new(text.as_encoded_bytes()).map(Some).map_err(|error| {
        log::say(format_args!("WEFT_KEY: {error}"));
        Errno::INVALID
    })
}

/// Runs something whose threads get no signals but those of faults: handlers of the program run on its own threads.
fn without_signals<R>(work: impl FnOnce() -> R) -> R {
    let mut blocked = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: Both sets can be written, and are before they are read; the numbers are signals.
    unsafe {
        libc::sigfillset(blocked.as_mut_ptr());
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT] {
            libc::sigdelset(blocked.as_mut_ptr(), fault);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, blocked.as_ptr(), before.as_mut_ptr());
    }
    let result = work();
    // SAFETY: The set that was there before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), core::ptr::null_mut()) };
    result
}

/// The process ends.
extern "C" fn at_exit() {
    let Some(process) = PROCESS.get().try_lock().ok().and_then(|process| process.clone()) else { return };
    // A panic here would say nothing that the program could still use.
    let _ = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| process.rendezvous.linger()));
}
