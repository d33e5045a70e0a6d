//! The software NIC: queue pairs, completion queues, connections, the event loop and who runs it.
//!
//! It joins the machines of `weft-mpa` and `weft-rdmap`, which know nothing of each other, and is generic over the network below and the clock,
//! so that production and simulation run the same lines.
#![forbid(unsafe_code)]

mod completion;
mod connection;
mod counters;
mod doorbell;
mod endpoint;
mod engine;
mod error;
mod event_count;
mod handover;
mod listening;
mod nic;
mod outgoing;
mod queue_pair;
mod receives;
mod settings;
mod spin;
mod staging;
mod worker;

pub use completion::{Arm, CompletionQueue, QueuePairNumber, WorkCompletion};
pub use counters::{Board, Counters};
pub use endpoint::{
    Address, AtomicPost, Attempt, AttemptFailure, Attempts, Completed, Completions, EndpointAttributes, EndpointError,
    EndpointFailure, EndpointSettings, Event, JobKey, KeyError, Level, MAX_ADDRESSES, Match, MessageEndpoint, Peek,
    ReceivePost, RemotePiece, RemotePlace, SendPost, TransferPost, Undelivered,
};
pub use error::{ConnectionError, Error, PostError, PostFailure};
pub use listening::{RequestInfo, RequestKey};
pub use nic::{Listener, Nic, NicParts};
pub use queue_pair::{ConnectionInfo, QueuePair, QueuePairAttributes, State};
pub use receives::ReceiveQueue;
pub use settings::{Coupling, Limits, Progress, Settings, SettingsError, Split, Verify};
