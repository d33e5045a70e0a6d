//! What was done, for a line on stderr at the end of each rank (`WEFT_MPI_REPORT=1`).

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Numbers of one process.
pub(crate) struct Counts {
    /// Windows that Weft has served, and the library.
    pub(crate) served: AtomicU64,
    pub(crate) left: AtomicU64,
    pub(crate) fences: AtomicU64,
    /// Calls, and their bytes.
    pub(crate) puts: Calls,
    pub(crate) gets: Calls,
    pub(crate) accumulates: Calls,
    /// How often the NIC's thread served a window that was freed since, while the program made no call.
    pub(crate) in_background: AtomicU64,
}

/// Calls, and their bytes.
pub(crate) struct Calls(AtomicU64, AtomicU64);

impl Calls {
    const fn new() -> Self {
        Self(AtomicU64::new(0), AtomicU64::new(0))
    }

    pub(crate) fn count(&self, bytes: usize) {
        self.0.fetch_add(1, Relaxed);
        self.1.fetch_add(bytes as u64, Relaxed);
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes", self.0.load(Relaxed), self.1.load(Relaxed))
    }
}

pub(crate) static COUNTS: Counts = Counts {
    served: AtomicU64::new(0),
    left: AtomicU64::new(0),
    fences: AtomicU64::new(0),
    puts: Calls::new(),
    gets: Calls::new(),
    accumulates: Calls::new(),
    in_background: AtomicU64::new(0),
};

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |count: &AtomicU64| count.load(Relaxed);
        write!(
            f,
            "windows: Weft {}, the library {}; by Weft: fences {}, puts {}, gets {}, accumulates {}; served in the \
             background {} times",
            number(&self.served),
            number(&self.left),
            number(&self.fences),
            self.puts,
            self.gets,
            self.accumulates,
            number(&self.in_background)
        )
    }
}

/// Says something on stderr, in one call, so that lines of several processes do not mix.
pub(crate) fn say(text: &str) {
    use std::io::Write as _;
    // A user that has closed stderr wants no message.
    let _ = std::io::stderr().write_all(format!("weft-mpi: {text}\n").as_bytes());
}

/// Whether the user wants the line.
pub(crate) fn is_wanted() -> bool {
    std::env::var("WEFT_MPI_REPORT").is_ok_and(|value| !matches!(value.trim(), "" | "0"))
}
