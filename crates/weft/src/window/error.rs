//! What can go wrong with a team or a window.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use weft_memory::MemoryError;
use weft_nic::{EndpointError, EndpointFailure};
use weft_window::{ActiveError, CreateError, FenceError, LayoutError, LockError, OperationError, WindowError};

use crate::group::GroupError;

/// What went wrong with a [`Team`](super::Team) or a [`Window`](super::Window).
#[derive(Debug)]
pub enum Error {
    /// The ranks could not tell each other their addresses.
    Group(GroupError),
    /// The NIC.
    Nic(crate::verbs::Error),
    /// The endpoint has not taken something.
    Endpoint(EndpointError),
    /// Memory of a window.
    Memory(MemoryError),
    /// The window can't be made so.
    Create(CreateError),
    /// Another rank could not make its part of the window; why, it knows.
    Elsewhere {
        /// The rank.
        rank: usize,
    },
    /// The operation was refused.
    Operation(OperationError),
    /// The operation's layouts make no sense.
    Layout(LayoutError),
    /// The fence was refused.
    Fence(FenceError),
    /// The lock, flush or unlock was refused.
    Lock(LockError),
    /// The post, start, complete or wait was refused.
    Active(ActiveError),
    /// The request moves only in the fence: there is nothing to wait for before.
    Deferred,
    /// A rank has not taken part in an exchange in time.
    Late {
        /// The rank that is waited for.
        rank: usize,
        /// How long.
        waited_for: Duration,
    },
    /// A lock was not to be had in time. It may still come: the window is of no use any more.
    Taken {
        /// On whose part.
        rank: usize,
        /// The rank that has it alone, if one has.
        holder: Option<usize>,
        /// How long it was waited for.
        waited_for: Duration,
    },
    /// A rank is lost.
    Lost {
        /// The rank.
        rank: usize,
        /// Why.
        why: EndpointFailure,
    },
    /// A rank's NIC has refused an operation.
    Refused {
        /// The rank.
        rank: usize,
        /// Why.
        why: EndpointFailure,
    },
    /// A rank has sent or done what ranks do not.
    Violation {
        /// The rank.
        rank: usize,
        /// What.
        what: String,
    },
    /// The window has failed, and so has whatever was in flight.
    Failed {
        /// Why.
        error: WindowError,
        /// What this rank has seen of it, if it has.
        cause: Option<Arc<Error>>,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(error) => error.fmt(f),
            Self::Nic(error) => error.fmt(f),
            Self::Endpoint(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
            Self::Create(error) => error.fmt(f),
            Self::Elsewhere { rank } => write!(f, "rank {rank} could not make its part of the window: see its error"),
            Self::Operation(error) => error.fmt(f),
            Self::Layout(error) => error.fmt(f),
            Self::Fence(error) => error.fmt(f),
            Self::Lock(error) => error.fmt(f),
            Self::Active(error) => error.fmt(f),
            Self::Deferred => f.write_str("the request moves only in the fence: call that instead of waiting for it"),
            Self::Late { rank, waited_for } => write!(f, "rank {rank} has not taken part within {waited_for:?}"),
            Self::Taken { rank, holder: Some(holder), waited_for } => {
                write!(f, "the part of rank {rank} was locked by rank {holder} for all of {waited_for:?}")
            }
            Self::Taken { rank, holder: None, waited_for } => {
                write!(f, "the part of rank {rank} could not be locked within {waited_for:?}: others share it")
            }
            Self::Lost { rank, why } => write!(f, "rank {rank} is lost: {why}"),
            Self::Refused { rank, why } => write!(f, "rank {rank} has refused an operation: {why}"),
            Self::Violation { rank, what } => write!(f, "rank {rank} does not keep to the protocol: {what}"),
            Self::Failed { error, cause: None } => write!(f, "the window has failed: {error}"),
            Self::Failed { error, cause: Some(cause) } => write!(f, "the window has failed: {error}: {cause}"),
        }
    }
}

impl core::error::Error for Error {}

macro_rules! from {
    ($($inner:ty => $variant:ident),* $(,)?) => {
        $(impl From<$inner> for Error {
            fn from(error: $inner) -> Self {
                Self::$variant(error)
            }
        })*
    };
}

from! {
    GroupError => Group,
    crate::verbs::Error => Nic,
    EndpointError => Endpoint,
    MemoryError => Memory,
    CreateError => Create,
    OperationError => Operation,
    LayoutError => Layout,
    FenceError => Fence,
    LockError => Lock,
    ActiveError => Active,
}
