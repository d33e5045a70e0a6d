//! All that a link does to packets.

use std::sync::Arc;

use crate::{Chance, DelayTable, Loss, RateTrace, Settings};

/// All that a link does to packets: its settings, and what takes more than a few numbers to say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The numbers.
    pub settings: Settings,
    /// Delays that were measured somewhere, each of which comes on top of [`Settings::delay`]. With these
    /// [`Settings::spread`] is not heeded.
    pub delays: Option<Arc<DelayTable>>,
    /// When the link can send, in place of [`Settings::rate_bits_per_s`].
    pub trace: Option<Arc<RateTrace>>,
}

impl From<Settings> for Profile {
    fn from(settings: Settings) -> Self {
        Self { settings, delays: None, trace: None }
    }
}

impl Profile {
    /// Whether packets leave a queue one after the other.
    #[must_use]
    pub const fn has_queue(&self) -> bool {
        self.trace.is_some() || self.settings.rate_bits_per_s.is_some()
    }

    /// Whether what it does is about single packets. If not, several may pass as one, as segmentation offload hands
    /// them on.
    #[must_use]
    pub fn needs_single_packets(&self) -> bool {
        let Settings { loss, reordering, duplication, corruption, mtu, .. } = self.settings;
        let chances = [reordering.chance, duplication.chance, corruption];
        self.has_queue()
            || loss != Loss::None
            || mtu.is_some()
            || chances.into_iter().any(|chance| chance > Chance::NEVER)
    }

    /// Whether it changes packets, so that their bytes have to be at hand.
    #[must_use]
    pub fn changes_packets(&self) -> bool {
        let Settings { corruption, queue, codel, clears_ecn, .. } = self.settings;
        let marks = self.has_queue() && (queue.mark_at.is_some() || codel.is_some());
        corruption > Chance::NEVER || clears_ecn || marks
    }
}
