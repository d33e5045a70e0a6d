//! How much may be under way: one of the congestion controllers.

use crate::coupled::Coupling;
use crate::cubic::Cubic;
use crate::feedback::Feedback;
use crate::tolerant::Tolerant;

#[cfg(test)]
mod tests;

/// No window is larger, whatever the settings say: 16 GiB, beyond the product of any link's rate and delay.
pub const MAX_WINDOW: u64 = 1 << 34;

/// The least window, in datagrams (RFC 9002 section 7.2).
const LEAST_DATAGRAMS: u64 = 2;

/// What a controller begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerSettings {
    /// Bytes of a full datagram; 1 to 65535, what is not is moved there.
    pub datagram: u32,
    /// Bytes that may be under way before anything is known.
    pub initial_window: u64,
    /// Bytes that may be under way at most; [`MAX_WINDOW`] at most.
    pub max_window: u64,
    /// What leaves is spread over the round trip, so that a window that grows at once makes no burst.
    pub paced: bool,
}

impl Default for ControllerSettings {
    fn default() -> Self {
        Self { datagram: 1200, initial_window: 12_000, max_window: MAX_WINDOW, paced: true }
    }
}

impl ControllerSettings {
    pub(crate) fn bounded(mut self) -> Self {
        self.datagram = self.datagram.clamp(1, 65_535);
        self.max_window = self.max_window.clamp(self.least(), MAX_WINDOW);
        self
    }

    pub(crate) const fn least(&self) -> u64 {
        LEAST_DATAGRAMS * self.datagram as u64
    }

    pub(crate) fn clamp(&self, window: u64) -> u64 {
        window.clamp(self.least(), self.max_window)
    }
}

/// Which controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// [`Cubic`]: each loss is congestion.
    Cubic,
    /// [`Tolerant`]: a loss is congestion where something else says so too.
    #[default]
    Tolerant,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Cubic, Self::Tolerant];
}

/// A congestion controller of one rail. It learns from [`Feedback`] alone, each call of which costs constant time, and
/// it has no memory but its own few numbers.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "one for each rail, most of them of the larger kind, and never boxed")]
pub enum Controller {
    /// See [`Algorithm::Cubic`].
    Cubic(Cubic),
    /// See [`Algorithm::Tolerant`].
    Tolerant(Tolerant),
}

impl Controller {
    /// For a rail that has sent nothing.
    #[must_use]
    pub fn new(algorithm: Algorithm, settings: ControllerSettings) -> Self {
        match algorithm {
            Algorithm::Cubic => Self::Cubic(Cubic::new(settings)),
            Algorithm::Tolerant => Self::Tolerant(Tolerant::new(settings)),
        }
    }

    /// Bytes that may be under way: two datagrams at least.
    #[must_use]
    pub const fn window(&self) -> u64 {
        match self {
            Self::Cubic(cubic) => cubic.window(),
            Self::Tolerant(tolerant) => tolerant.window(),
        }
    }

    /// Whether it looks for the path's capacity still.
    #[must_use]
    pub const fn is_slow_start(&self) -> bool {
        match self {
            Self::Cubic(cubic) => cubic.is_slow_start(),
            Self::Tolerant(tolerant) => tolerant.is_slow_start(),
        }
    }

    /// Takes in what has happened. `full`: the window was what held the sender back; it does not grow otherwise
    /// (RFC 9002 section 7.8).
    pub fn on_feedback(&mut self, feedback: &Feedback, full: bool) {
        match self {
            Self::Cubic(cubic) => cubic.on_feedback(feedback, full),
            Self::Tolerant(tolerant) => tolerant.on_feedback(feedback, full),
        }
    }

    /// Flows that may share a bottleneck grow together as one would, from the next acknowledgement on; `None`: it grows
    /// as one that is alone. Slow start and cuts stay each flow's own (RFC 6356 section 3).
    pub fn set_coupling(&mut self, coupling: Option<Coupling>) {
        match self {
            Self::Cubic(cubic) => cubic.set_coupling(coupling),
            Self::Tolerant(tolerant) => tolerant.set_coupling(coupling),
        }
    }

    /// Full datagrams have this many bytes from now on.
    pub fn set_datagram(&mut self, bytes: u32) {
        match self {
            Self::Cubic(cubic) => cubic.set_datagram(bytes),
            Self::Tolerant(tolerant) => tolerant.set_datagram(bytes),
        }
    }
}
