//! Plain values that every layer of Weft shares: time, sequence numbers, ids, [`Slice`]s, seeded random numbers, and
//! the traits that the operating system (or a simulation of it) implements: [`Clock`], [`Port`], [`DatagramPort`],
//! [`Network`].
//!
//! Nothing here does I/O, and nothing here knows a protocol.
#![forbid(unsafe_code)]

mod datagram;
mod digest;
mod either;
mod ids;
mod interface_name;
mod network;
mod random;
mod sequence;
mod slice;
mod time;

pub use datagram::{
    DatagramBatch, DatagramCounters, DatagramLimits, DatagramOptions, DatagramPort, DatagramSent, Ecn, Hint, HintKind,
    LocalAddress, PortAddress, Quote, ReceivedDatagrams,
};
pub use digest::{Digest, NoDigest};
pub use ids::{DomainId, HostId, PeerId, RegionId, Stag, Token};
pub use interface_name::InterfaceName;
pub use network::{
    Backlog, Edge, HostAddress, Interest, Iwarp, IwarpOrEdge, Lending, Lent, Listener, Network, Piece, Port, PortError,
    PortOptions, Readiness, ReceivePiece, Received, RunQueue, Segmented, ThreadTimes, Waker, Watch,
};
pub use random::Random;
pub use sequence::{MessageNumber, StreamPosition};
pub use slice::{Gather, MAX_GATHER, MAX_LISTED, Slice, passes_end};
pub use time::{Clock, Time};
