//! Ctrl-C, as a flag that is polled while waiting.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Failure;

/// The flag of this process, once it is watched.
static OF_THIS_PROCESS: OnceLock<Interrupt> = OnceLock::new();

/// Whether this process was asked to end, if it watches for that.
pub fn has_come() -> bool {
    OF_THIS_PROCESS.get().is_some_and(Interrupt::has_come)
}

/// Whether the process was asked to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on Ctrl-C and SIGTERM only set the flag; the second one ends the process at once.
    pub fn watch() -> Result<Self, Failure> {
        let wanted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&wanted))
                .and_then(|_| flag::register(signal, Arc::clone(&wanted)))
                .map_err(Failure::while_doing("cannot watch for Ctrl-C"))?;
        }
        Ok(OF_THIS_PROCESS.get_or_init(|| Self(wanted)).clone())
    }

    /// Whether it has come.
    pub fn has_come(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
