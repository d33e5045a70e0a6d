//! DDP and RDMAP for one stream, without I/O (RFC 5040, RFC 5041, RFC 7306): segmentation, placement in any order of
//! arrival, delivery in order, reads, atomics, immediate data, Terminates.
//!
//! A [`Stream`] never touches payload. To send, it gives out DDP segments that name their payload; to receive, it says
//! where the payload of a segment belongs, after every check and before a byte is placed. Its caller moves the bytes.
//!
//! The calls come in four kinds:
//! - commands of the user: [`Stream::post`], [`Stream::close`], [`Stream::abort`];
//! - towards the stream below: [`Stream::poll_transmit`], then [`Stream::handle_sent`] when the segments have left for
//!   good;
//! - from the stream below: [`Stream::handle_segment`], then [`Stream::handle_placed`] when the bytes are in place and
//!   their CRC is good;
//!   [`Stream::fail`] when it found an error itself; [`Stream::handle_closed`] when it has ended;
//! - results, to be polled after every call of the other kinds: [`Stream::poll_send_completion`],
//!   [`Stream::poll_receive_completion`], [`Stream::poll_action`].
//!
//! The queues of a [`Stream`] begin small and grow up to their limits: once it has had as much under way as it ever
//! has, nothing is allocated.
#![forbid(unsafe_code)]

mod ahead;
mod completion;
mod config;
mod inline;
mod lifecycle;
mod order;
mod receipts;
mod request;
mod requester;
mod responder;
mod segment;
mod send;
mod sent;
mod state;
mod stream;
mod untagged;
mod violation;

/// Places of a queue when it is made. Its limit is what the peer and the user may request, mostly far more than they
/// do: with the limit's memory from the start a process with thousands of connections would hold gigabytes that stay
/// unused.
const FIRST_PLACES: usize = 16;

pub use completion::{Completion, CompletionKind, Status};
pub use config::{LowerTraits, ReadyKind, Role, StreamConfig};
pub use inline::{InlineBytes, MAX_INLINE};
pub use lifecycle::{Action, Closed, StreamError};
pub use request::{
    Operation, Payload, PostError, ReceiveQueue, ReceiveRequest, ReceiveSource, RemoteTarget, RequestFlags, SendRequest,
};
pub use segment::{Arrival, Later, MIN_ULPDU, OrderConstraint, Placement, Segment, SegmentOf, SegmentPayload, Verdict};
pub use state::State;
pub use stream::Stream;
pub use violation::{HEAD_LENGTH, Violation};
pub use weft_wire::rdmap::AtomicCode;
