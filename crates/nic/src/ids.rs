//! What names things between the rooms, and the states that several of them look at. It uses nothing of the others.

use core::fmt;

use slotmap::DefaultKey;

/// Where a queue pair is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// Made. Receives may be posted.
    Idle = 0,
    /// A connection is being set up.
    Connecting = 1,
    /// Connected: everything may be posted.
    Ready = 2,
    /// Closing: what was posted still goes out.
    Closing = 3,
    /// Ended as it should: one side closed, nothing was lost.
    Closed = 4,
    /// Ended by an error, which [`crate::QueuePair::error`] tells.
    Failed = 5,
}

impl State {
    pub(crate) const ALL: [Self; 6] =
        [Self::Idle, Self::Connecting, Self::Ready, Self::Closing, Self::Closed, Self::Failed];

    /// Whether the connection is over.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Closed | Self::Failed)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Idle => "idle",
            Self::Connecting => "connecting",
            Self::Ready => "ready",
            Self::Closing => "closing",
            Self::Closed => "closed",
            Self::Failed => "failed",
        })
    }
}

/// A connection: whose engine has it, under which key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionHandle {
    pub(crate) worker: usize,
    pub(crate) key: DefaultKey,
}

/// Who runs an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    /// A calling thread, for a moment.
    Visitor,
    /// A calling thread, for as long as it waits.
    Waiter,
    /// The NIC's thread.
    Thread,
}

/// Names a connection of an endpoint: its place in the list of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LinkKey(pub(crate) u32);

/// Whose queue pair it is: the endpoint, by its number in the engine, and its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpperId {
    pub(crate) endpoint: usize,
    pub(crate) link: LinkKey,
    /// The id that stands in the endpoint's address.
    pub(crate) id: u64,
}
