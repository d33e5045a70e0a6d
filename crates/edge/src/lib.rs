//! Edge without I/O: one logical link for DDP segments over datagrams, placed as they come and acknowledged when they
//! are placed.
//!
//! A [`Connection`] takes segments from a [`Source`] and hands those that arrive to a [`Sink`], whose verdict decides
//! what is acknowledged. It never touches payload: what is to be sent comes out as a [`Batch`] of pieces to gather.
//! Time comes in as [`weft_base::Time`].
#![forbid(unsafe_code)]

mod batch;
mod congestion;
mod connection;
mod counters;
mod hints;
mod inline_ring;
mod life;
mod mtu;
mod outgoing;
mod pairing;
mod phase;
mod rail;
mod rail_lifecycle;
mod rail_state;
mod received;
mod round_trip;
mod sent;
mod settings;
pub mod setup;
mod skipped;

pub use batch::{Batch, Datagram, Piece};
pub use connection::passing::MOST_PASSED;
pub use connection::{Confirmation, Connection, Established, Meta};
pub use counters::Counters;
pub use outgoing::{Options, Segment, Source};
pub use pairing::RailAddress;
pub use phase::{Ending, Event};
pub use rail_state::{Out, RailInfo, RailState};
pub use settings::Settings;

/// Takes the segments that arrive.
pub trait Sink {
    /// A segment at `position` of the peer's sequence: a DDP header and payload, whose CRC-32C must be `crc`. To be
    /// placed now, if it can be, in one pass with the check. What `options` ask is the sink's to keep.
    fn segment(&mut self, position: u64, ulpdu: &[u8], crc: u32, options: Options) -> Verdict;
}

/// What became of a segment. Only a packet all of whose segments were `Placed` or `Duplicate` is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// In its place, and its checksum was good.
    Placed,
    /// It had been placed before, and nothing was touched.
    Duplicate,
    /// Not now: as if it had never come.
    Later,
    /// Untagged, and no receive is posted for it.
    NotReady,
    /// The checksum is not good: as if it had never come.
    BadPayload,
    /// It breaks the protocol above: the user aborts the connection.
    Fatal,
}
