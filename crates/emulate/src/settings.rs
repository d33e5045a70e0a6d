//! How a link treats packets.

use core::time::Duration;

use crate::{Chance, CoDel, Loss, Spread};

/// How a link treats packets. The default brings each at once, unharmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Each packet takes this long once it has left the queue.
    pub delay: Duration,
    /// And up to this long more, by chance. It stays in order: a packet waits for one that was sent before.
    pub jitter: Duration,
    /// And longer or shorter by what this says.
    pub spread: Spread,
    /// How much of what [`Settings::spread`] says of a packet it says of the next.
    pub correlation: Chance,
    /// Whether a packet may arrive before one that was sent before, if jitter or spread have it so. Otherwise it waits,
    /// and the more packets there are, the more of them take as long as the slowest.
    pub overtakes: bool,
    /// Bits that leave the queue in a second. `None`: no queue.
    pub rate_bits_per_s: Option<u64>,
    /// The queue before the link. Without a rate there is none.
    pub queue: Queue,
    /// Whether packets are dropped that have waited for too long, and how long that is.
    pub codel: Option<CoDel>,
    /// Which packets are lost after they have left the queue: they took their share of the rate.
    pub loss: Loss,
    /// Packets that others may overtake: they take at most this much longer.
    pub reordering: Delayed,
    /// Packets that come twice: the copy comes at most this much later.
    pub duplication: Delayed,
    /// Packets that come with bits flipped: from one to [`Settings::most_flips`], at most four.
    pub corruption: Chance,
    /// One is seen by each checksum; more can cancel out in the Internet's (RFC 1071).
    pub most_flips: u8,
    /// The bits of congestion notification come as "not capable", as some middleboxes leave them.
    pub clears_ecn: bool,
    /// The largest packet that passes.
    pub mtu: Option<Mtu>,
    /// Bytes that a packet has beside those that are handed in, counted by MTU and queue: the headers of IP and UDP.
    pub header_bytes: u32,
    /// Bytes that a packet takes of the rate beside those: what Ethernet puts around it.
    pub frame_bytes: u32,
    /// Packets that may be in flight. More are treated as if the queue were full.
    pub in_flight: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            spread: Spread::None,
            correlation: Chance::NEVER,
            overtakes: false,
            rate_bits_per_s: None,
            queue: Queue::default(),
            codel: None,
            loss: Loss::None,
            reordering: Delayed::default(),
            duplication: Delayed::default(),
            corruption: Chance::NEVER,
            most_flips: 4,
            clears_ecn: false,
            mtu: None,
            // IPv4 without options, and UDP.
            header_bytes: 28,
            // Ethernet: preamble, header, check sequence, gap.
            frame_bytes: 38,
            in_flight: 1 << 16,
        }
    }
}

/// The queue before a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Bytes it holds, the packet that is being sent included. A packet that does not fit is dropped.
    pub bytes: u64,
    /// A packet that finds as many bytes is marked, if it is capable of it (RFC 3168). `None`: none is.
    pub mark_at: Option<u64>,
}

impl Default for Queue {
    /// What 1 Gb/s sends in 4 ms; no marks.
    fn default() -> Self {
        Self { bytes: 500_000, mark_at: None }
    }
}

/// Packets that come later than others, by chance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delayed {
    /// How many.
    pub chance: Chance,
    /// By how much at most. Each time between nothing and this is as likely.
    pub by: Duration,
}

/// The largest packet that passes a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mtu {
    /// Bytes, with [`Settings::header_bytes`].
    pub bytes: u32,
    /// Whether the sender of a larger one gets an error; a black hole (RFC 2923 section 2.1) drops it silently.
    pub tells: bool,
}
