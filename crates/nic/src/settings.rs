//! How a NIC is set up: who runs it, how it places, and its limits by name.

use core::time::Duration;

/// Who runs the event loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Progress {
    /// The calling thread, while it posts, polls or waits. Lowest latency; nothing moves while the application computes.
    #[default]
    Caller,
    /// A thread of the NIC: it spins while there is work, then sleeps until packets or the application wake it.
    Thread,
}

/// When the payload of a frame is copied to its final place, relative to the check of the frame's CRC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Verify {
    /// Always after: nothing is written before the whole frame was seen and its CRC was good (RFC 5044 section 6). Large frames are
    /// staged too, and cost a copy.
    BeforePlace,
    /// Staged frames as in `BeforePlace`; the rest of a large frame is read straight into its final place and its CRC checked there.
    /// Until the CRC was good such bytes count for nothing, and a bad one ends the stream.
    #[default]
    LargeInPlace,
    /// Large frames as in `LargeInPlace`; staged frames are copied and checked in one pass over the cache.
    InOnePass,
}

/// Settings of a NIC.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who runs the event loop.
    pub progress: Progress,
    /// Placement before or after the CRC.
    pub verify: Verify,
    /// Frames whose ULPDU is at least this long, in bytes, are read straight into their final place.
    pub direct_threshold: u32,
    /// Payloads of a segment at least this long, in bytes, are sent from where they are; shorter ones are copied next to their header.
    pub gather_threshold: u32,
    /// How long a waiting thread spins before it sleeps.
    pub spin: Duration,
    /// How long a connection may take from the first packet to the end of MPA's start-up, before it fails.
    pub start_timeout: Duration,
    /// How long a closing connection waits for the peer to close as well, before it is broken.
    pub close_timeout: Duration,
    /// How long an incoming connection waits for the application to accept or reject it, before it is rejected.
    pub decision_timeout: Duration,
    /// Passed on as [`weft_base::PortOptions::peer_timeout`].
    pub peer_timeout: Option<Duration>,
    /// Limits.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            progress: Progress::default(),
            verify: Verify::default(),
            direct_threshold: 32 * 1024,
            gather_threshold: 2 * 1024,
            spin: Duration::from_micros(50),
            start_timeout: Duration::from_secs(10),
            close_timeout: Duration::from_secs(2),
            decision_timeout: Duration::from_secs(30),
            peer_timeout: Some(Duration::from_secs(60)),
            limits: Limits::default(),
        }
    }
}

/// What a NIC will hold at most. At a limit the call that wants more gets [`crate::Error::Limit`], which says which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Queue pairs.
    pub queue_pairs: u32,
    /// Connections in any state, those included that nobody has accepted yet.
    pub connections: u32,
    /// Listeners.
    pub listeners: u32,
    /// Entries of one completion queue.
    pub completion_queue_entries: u32,
    /// Work requests of one send or receive queue.
    pub queue_depth: u32,
    /// Inbound and outbound reads and atomics of one connection under way at a time (IRD and ORD).
    pub read_depth: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue_pairs: 65_536,
            connections: 65_536,
            listeners: 1024,
            completion_queue_entries: 1 << 22,
            queue_depth: 1 << 16,
            read_depth: 1024,
        }
    }
}
