//! How much may be under way: one of the congestion controllers.

use crate::coupled::Coupling;
use crate::cubic::Cubic;
use crate::delay_gated::DelayGatedCubic;
use crate::feedback::Feedback;
use crate::settings::ControllerSettings;

#[cfg(test)]
mod tests;

/// Which controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// [`Cubic`]: each loss is congestion.
    Cubic,
    /// [`DelayGatedCubic`]: a loss is congestion where something else says so too.
    #[default]
    DelayGatedCubic,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Cubic, Self::DelayGatedCubic];
}

/// A congestion controller of one rail. It learns from [`Feedback`] alone, each call of which costs constant time, and
/// it has no memory but its own few numbers.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "one for each rail, most of them of the larger kind, and never boxed")]
pub enum Controller {
    /// See [`Algorithm::Cubic`].
    Cubic(Cubic),
    /// See [`Algorithm::DelayGatedCubic`].
    DelayGatedCubic(DelayGatedCubic),
}

impl Controller {
    /// For a rail that has sent nothing.
    #[must_use]
    pub fn new(algorithm: Algorithm, settings: ControllerSettings) -> Self {
        match algorithm {
            Algorithm::Cubic => Self::Cubic(Cubic::new(settings)),
            Algorithm::DelayGatedCubic => Self::DelayGatedCubic(DelayGatedCubic::new(settings)),
        }
    }

    /// Bytes that may be under way: two datagrams at least.
    #[must_use]
    pub const fn window(&self) -> u64 {
        match self {
            Self::Cubic(cubic) => cubic.window(),
            Self::DelayGatedCubic(delay_gated) => delay_gated.window(),
        }
    }

    /// Whether it looks for the path's capacity still.
    #[must_use]
    pub const fn is_slow_start(&self) -> bool {
        match self {
            Self::Cubic(cubic) => cubic.is_slow_start(),
            Self::DelayGatedCubic(delay_gated) => delay_gated.is_slow_start(),
        }
    }

    /// Takes in what has happened. `full`: the window was what held the sender back; it does not grow otherwise
    /// (RFC 9002 section 7.8).
    pub fn on_feedback(&mut self, feedback: &Feedback, full: bool) {
        match self {
            Self::Cubic(cubic) => cubic.on_feedback(feedback, full),
            Self::DelayGatedCubic(delay_gated) => delay_gated.on_feedback(feedback, full),
        }
    }

    /// Flows that may share a bottleneck grow together as one would, from the next acknowledgement on; `None`: it grows
    /// as one that is alone. Slow start and cuts stay each flow's own (RFC 6356 section 3).
    pub fn set_coupling(&mut self, coupling: Option<Coupling>) {
        match self {
            Self::Cubic(cubic) => cubic.set_coupling(coupling),
            Self::DelayGatedCubic(delay_gated) => delay_gated.set_coupling(coupling),
        }
    }

    /// Full datagrams have this many bytes from now on.
    pub fn set_datagram(&mut self, bytes: u32) {
        match self {
            Self::Cubic(cubic) => cubic.set_datagram(bytes),
            Self::DelayGatedCubic(delay_gated) => delay_gated.set_datagram(bytes),
        }
    }
}
