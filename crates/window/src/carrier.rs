//! The fences, and what the layer below promises.

/// How a window's epochs are ended. The crate's page has them side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// Picked when the window is made: [`Choice::of`](crate::Choice::of).
    Auto,
    /// Fence-2S: operations wait for the closing fence. Nothing overlaps with computation; empty fences are cheap.
    TwoSided,
    /// Fence-1S: a finish message behind the operations on each rail, then ready messages between all ranks.
    OneSided,
    /// Fence-1S-Barrier: as [`Fence::OneSided`], with a barrier in place of the ready messages.
    OneSidedBarrier,
    /// Fence-RI: each update is counted where it lands; the counts of all targets go to all ranks.
    RemoteImmediate,
    /// As [`Fence::RemoteImmediate`], but each rank learns only its own count, and the closing barrier is left out
    /// where all ranks assert that nothing follows.
    Counted,
    /// No global step: counts and ready messages between neighbours. Operations elsewhere are refused.
    Neighbour,
    /// As [`Fence::Counted`], but small updates go as messages that name their epoch; a rank that is behind keeps them.
    /// So nothing closes an epoch that had no others. After an epoch with updates that do not go as messages, or with
    /// more than a rank keeps ([`Load::EARLY`](crate::Load::EARLY)), these wait for the fence, once: that fence ends
    /// with a barrier, and until such epochs follow again nothing waits.
    Tagged,
}

impl Fence {
    pub(crate) fn needs_notices(self) -> bool {
        matches!(self, Self::RemoteImmediate | Self::Counted | Self::Neighbour | Self::Tagged)
    }

    pub(crate) fn is_one_sided(self) -> bool {
        matches!(self, Self::OneSided | Self::OneSidedBarrier)
    }
}

/// The order in which what one rank sends to another takes effect there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As it was sent: one rail, or rails whose receiver restores the order before it places.
    Whole,
    /// As it was sent on each of this many rails; a write may take any of them.
    Rails(u16),
    /// Any.
    None,
}

/// What the layer below promises. It always brings each thing once and unharmed, also where the network loses packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carrier {
    /// The order of effects between two ranks.
    pub order: Order,
    /// Whether a target is notified of each update that was placed
    /// ([`Window::handle_placed`](crate::Window::handle_placed)).
    pub notices: bool,
    /// Whether it can say that everything sent to a rank has been placed there
    /// ([`Action::Flush`](crate::Action::Flush)).
    pub flush: bool,
}
