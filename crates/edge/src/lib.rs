//! Edge without I/O: one logical link for DDP segments over datagrams, placed on arrival and acknowledged when they are
//! placed.
//!
//! A [`Connection`] takes segments from a [`Source`] and hands received ones to a [`Sink`], whose verdict decides what
//! is acknowledged. It never touches payload: it produces a [`Batch`] of pieces to gather. Time is an argument, as
//! [`weft_base::Time`].
#![forbid(unsafe_code)]

mod batch;
mod bulk;
mod challenge_key;
mod congestion;
mod connection;
mod counters;
mod hints;
mod inline_ring;
mod liveness;
mod mtu;
mod outgoing;
mod pairing;
mod phase;
mod rail;
mod rail_lifecycle;
mod rail_state;
mod received;
mod round_trip;
mod row;
mod sent;
mod settings;
pub mod setup;
mod silence;
mod skipped;
mod stored;

pub use batch::{Batch, Datagram, Piece};
pub use challenge_key::ChallengeKey;
pub use connection::passing::MOST_PASSED;
pub use connection::{Confirmation, Connection, Established, Meta};
pub use counters::Counters;
pub use outgoing::{Segment, Source};
pub use pairing::RailAddress;
pub use phase::{Ending, Event};
pub use rail_state::{Out, RailInfo, RailState};
pub use settings::Settings;
pub use stored::Options;
pub use weft_wire::edge::run::Run;

/// Places received segments.
pub trait Sink {
    /// Places a segment at `position` of the peer's sequence, if possible now: a DDP header and payload, whose CRC-32C
    /// must be `crc`, checked in the same pass. The sink honours `options`.
    fn segment(&mut self, position: u64, ulpdu: &[u8], crc: u32, options: Options) -> Verdict;

    /// Places a run, if possible now: consecutive parts of one message, the first of which is at `position`, as if they
    /// were one segment: all of it or nothing. After `Later`, `NotReady` and `BadPayload` its segments are offered one
    /// by one, so that one that is damaged holds up no other. `Later` is right where a run is nothing special.
    fn run(&mut self, position: u64, run: &Run<'_>, options: Options) -> Verdict {
        let _ = (position, run, options);
        Verdict::Later
    }
}

/// The result of placing a segment. Only a packet all of whose segments were `Placed` or `Duplicate` is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Placed, with a correct checksum.
    Placed,
    /// Placed before, with a correct checksum, which a packet that was cut off does not have: its end would be lost.
    Duplicate,
    /// Put off: handled as if it had not been received.
    Later,
    /// Untagged, and no receive is posted for it.
    NotReady,
    /// The checksum is wrong: handled as if it had not been received.
    BadPayload,
    /// It violates the protocol above: the user aborts the connection.
    Fatal,
}
