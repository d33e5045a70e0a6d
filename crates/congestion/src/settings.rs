//! What a controller begins with.

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
