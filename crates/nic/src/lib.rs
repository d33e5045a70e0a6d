//! The software NIC: queue pairs, completion queues, connections, the event loop and which thread runs it.
//!
//! It joins the machines of `weft-mpa` and `weft-rdmap`, which know nothing of each other, and is generic over the
//! network below and the clock, so that production and simulation run the same lines.
//!
//! # Locks
//! A thread takes locks in this order, never two of one row, and debug builds panic where it does not
//! ([`weft_lock::Rank`] lists all of them, those of the layers above and below too):
//!
//! | lock | what it guards | taken under it |
//! |---|---|---|
//! | background (`Tasks`) | what layers above do on the NIC's thread | all below |
//! | engine (`Worker::engine`) | connections, listeners, endpoints, counters | all below |
//! | protocol (`Core::Shared`) | RDMAP and MPA of a connection whose caller assists | submission, memory, blocks |
//! | submission (`QueuePair`) | what was posted and the engine has not taken | memory: requests are pinned |
//! | receive queue | posted receives | memory: requests are pinned |
//! | region gate, then memory table | `weft-memory` says how | nothing of the NIC |
//! | leaves | completion queue, doorbell, served port, a queue pair's info and error, listener, event count, ... | nothing |
//!
//! Calling threads try the engine's lock where they can do without it (to run the loop, to start what they posted), and
//! wait for it to give a command. Code of the application that runs under it can't: a flag of the thread sees to that
//! (`callback`).
#![forbid(unsafe_code)]

mod callback;
mod connection;
mod counters;
mod endpoint;
mod engine;
mod error;
mod ids;
mod key;
pub mod lower;
mod messaging;
mod nic;
pub mod offer;
mod policy;
mod progress;
mod queues;
mod rail_report;
mod settings;
mod stream;

pub use callback::in_callback;
pub use counters::{Board, Counters};
pub use endpoint::MessageEndpoint;
pub use engine::listening::RequestKey;
pub use error::{ConnectionError, Error, PostError, PostFailure, RefusedStart};
pub use ids::State;
pub use key::{JobKey, KeyError};
pub use messaging::{
    Address, AtomicPost, Attempt, AttemptFailure, Attempts, Completed, Completions, EndpointAttributes, EndpointError,
    EndpointFailure, EndpointSettings, Event, Level, MAX_ADDRESSES, Match, Peek, ReceivePost, RemotePiece, RemotePlace,
    SendPost, TransferPost, Undelivered, Warning,
};
pub use nic::{Listener, Nic, NicParts};
pub use offer::{
    ConnectionInfo, LowerInfo, LowerStartError, MpaInfo, MpaOffer, Offer, RequestInfo, StartError, StartMisuse,
    StartReason, Transport,
};
pub use progress::background::Background;
pub use queues::completion_queue::{Arm, CompletionQueue, CompletionSink, QueuePairNumber, WorkCompletion};
pub use queues::event_channel::{ChannelEvent, EventChannel, EventKind, EventSource, Signal};
pub use queues::queue_pair::{QueuePair, QueuePairAttributes};
pub use queues::receive_queue::ReceiveQueue;
pub use rail_report::{Out, RailReport, RailState};
pub use settings::{
    FlowShare, Limits, NamedRails, ParseFlowShareError, ParseRailsError, Progress, Rails, Settings, SettingsError,
    Verify, laboratory,
};
pub use stream::{Stream, StreamWait};
