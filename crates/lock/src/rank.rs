//! The order.

use crate::Entered;

/// The locks of Weft in the order in which a thread takes them, the first one first. The order is for all crates
/// together, because a call goes through all of them: so it is defined below them, in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Rank {
    /// Provider: one thread at a time enables an endpoint.
    EndpointEnabling,
    /// Provider: what is bound to an endpoint. Enabling opens the endpoint under it, which takes the engine.
    EndpointBindings,
    /// Provider: the members of a poll set.
    PollSet,
    /// Provider: the translation of peers to addresses for a completion queue. That may ask an endpoint, which takes
    /// the engine.
    CompletionSources,
    /// NIC: what its thread does for layers above. They post under it, which takes the engine.
    Background,
    /// NIC: an engine, with its connections and endpoints. The thread that holds it runs the event loop.
    Engine,
    /// NIC: the first stage of a connection whose work is split (`Split`).
    Stage,
    /// NIC: the stream of a connection that calling threads share with the engine (`Split::Assist`).
    Stream,
    /// NIC: what was posted to a queue pair. Requests are pinned under it.
    Submission,
    /// NIC: the requests of a receive queue. They are pinned under it.
    ReceiveQueue,
    /// Memory: the gate of a region. A thread that ends an access passes it alone, with no lock but those above.
    RegionGate,
    /// Memory: the table of regions.
    MemoryTable,

    // Leaves: while a thread holds one of these it takes nothing.
    /// Memory: an element that no machine word holds.
    WideElement,
    /// Memory: the owner of a region's bytes.
    RegionBuffer,
    /// NIC: the blocks between two stages.
    BlockRing,
    /// NIC: the entries of a completion queue.
    CompletionEntries,
    /// NIC: the waker of an armed completion queue.
    CompletionEvent,
    /// NIC: what a queue pair has agreed on, and why it ended.
    QueuePairLife,
    /// NIC: connections that wait to be accepted.
    Listening,
    /// NIC: what passes between an engine and another one that serves its ports.
    ServedPort,
    /// NIC: connections whose doorbell was rung.
    Doorbell,
    /// NIC: the waker of the selective interrupt.
    Summons,
    /// NIC: queue pairs that have more for a calling thread to do.
    Unfinished,
    /// NIC: the handles of its threads.
    Threads,
    /// NIC: events of connections and queues that wait to be read.
    NicEvents,
    /// NIC: threads that sleep until something changes.
    EventCount,
    /// Endpoints: completions that wait to be read.
    EventQueue,
    /// Provider: completions that wait to be read.
    CompletionRing,
    /// Provider: the text that explains the latest failure.
    FailureText,
    /// Provider: one-sided operations in the order in which they are counted.
    CounterOrder,
    /// Provider: receives of many messages.
    MultiReceives,
    /// Provider: counters of what peers do to a domain's memory.
    RemoteCounters,
    /// Provider: peers whose addresses were requested before.
    KnownPeers,
    /// Provider: the entries of an address vector.
    AddressVector,
    /// Provider: where an endpoint is to be opened.
    EndpointPlace,
    /// Provider: the entries of an event queue.
    ControlEvents,
}

impl Rank {
    /// The first of those under which nothing is taken.
    const FIRST_LEAF: Self = Self::WideElement;
    /// How many there are.
    #[cfg(debug_assertions)]
    pub(crate) const COUNT: usize = Self::ControlEvents as usize + 1;

    /// Whether nothing may be taken while this is held.
    #[must_use]
    pub const fn is_leaf(self) -> bool {
        self as u8 >= Self::FIRST_LEAF as u8
    }

    /// Says that this thread is about to wait for a lock of this rank, which is not one of this crate's, and holds it
    /// as long as what is returned lives.
    ///
    /// # Panics
    /// In debug builds, when the thread holds a lock that comes after this one.
    #[inline]
    #[track_caller]
    pub fn enter(self) -> Entered {
        crate::held::enter(
            #[cfg(debug_assertions)]
            self,
        )
    }

    /// As [`Rank::enter`], for a lock that this thread gets without waiting for one that waits itself: right in any
    /// order.
    #[inline]
    #[track_caller]
    pub fn enter_unblocked(self) -> Entered {
        crate::held::enter_unchecked(
            #[cfg(debug_assertions)]
            self,
        )
    }
}
