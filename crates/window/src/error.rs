//! What can be wrong, sorted by blame.

use std::error::Error;
use std::fmt;

use weft_collective::SetupError;

use crate::{Fence, Load};

/// A window that cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateError {
    /// The group is none.
    Group(SetupError),
    /// The fence counts updates where they land, and the carrier tells of none.
    NoNotices(Fence),
    /// The fence needs order or a flush, and the carrier has neither.
    NoOrder(Fence),
    /// A carrier with rails that has none.
    NoRails,
    /// A neighbour that is no other rank, or is named twice.
    Neighbour {
        /// The rank that was named.
        rank: usize,
        /// Ranks in the group.
        ranks: usize,
    },
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(error) => write!(f, "{error}"),
            Self::NoNotices(fence) => {
                write!(f, "{fence:?} counts updates where they land, which this carrier does not tell: use TwoSided")
            }
            Self::NoOrder(fence) => write!(
                f,
                "{fence:?} needs a carrier that keeps order or can flush, and this one does neither: use Counted"
            ),
            Self::NoRails => write!(f, "a carrier of 0 rails: there must be 1 or more"),
            Self::Neighbour { rank, ranks } => {
                write!(f, "neighbour {rank}: name each other rank of the {ranks} at most once, and never this one")
            }
        }
    }
}

impl Error for CreateError {}

/// An operation that was refused. Nothing has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationError {
    /// No epoch is open: before the first fence, or after one that asserted that nothing follows.
    NoEpoch,
    /// A fence is in progress.
    InFence,
    /// The window has failed.
    Failed,
    /// The target is none of the group's ranks.
    NoSuchRank {
        /// The target.
        rank: usize,
        /// Ranks in the group.
        ranks: usize,
    },
    /// The target is no neighbour of this rank.
    NotNeighbour(usize),
    /// It would touch what is not in the target's part of the window.
    Outside {
        /// The first byte.
        offset: u64,
        /// Bytes.
        length: u32,
        /// Bytes of the target's part.
        bytes: u64,
    },
    /// The bytes are not whole, aligned elements, or the operation does not apply to them.
    Elements {
        /// The first byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// As many are in flight as may be.
    TooMany(u32),
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoEpoch => write!(f, "no epoch is open: call a fence first, without the assert that nothing follows"),
            Self::InFence => write!(f, "a fence goes on: begin operations when it has ended"),
            Self::Failed => write!(f, "the window has failed: make a new one"),
            Self::NoSuchRank { rank, ranks } => write!(f, "rank {rank} in a group of {ranks}: there is none"),
            Self::NotNeighbour(rank) => write!(f, "rank {rank} was not named as a neighbour when the window was made"),
            Self::Outside { offset, length, bytes } => {
                write!(f, "{length} bytes from {offset} on in a window of {bytes} bytes: they do not lie inside")
            }
            Self::Elements { offset, length } => write!(
                f,
                "{length} bytes from {offset} on cannot be combined so: give whole, aligned elements and an operation \
                 that applies to them and takes one operand"
            ),
            Self::TooMany(limit) => {
                write!(f, "{limit} operations are on their way: wait for some, fence, or raise the limit")
            }
        }
    }
}

impl Error for OperationError {}

/// A lock, flush or unlock that was refused. Nothing has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockError {
    /// The window is not made yet.
    NotCreated,
    /// The window has failed.
    Failed,
    /// An epoch is open, a fence is in progress, or this rank has posted or started.
    InEpoch,
    /// There is no such rank.
    NoSuchRank {
        /// The target.
        rank: usize,
        /// Ranks in the group.
        ranks: usize,
    },
    /// This rank has a lock there already, or has requested one.
    Twice(usize),
    /// This rank has no lock there.
    NotHeld(usize),
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCreated => write!(f, "the window is not made yet: wait for the event that says so"),
            Self::Failed => write!(f, "the window has failed: make a new one"),
            Self::InEpoch => {
                write!(f, "an epoch of fences is open: end it with the assert that nothing follows, then lock")
            }
            Self::NoSuchRank { rank, ranks } => write!(f, "rank {rank} in a group of {ranks}: there is none"),
            Self::Twice(rank) => write!(f, "the part of rank {rank} is locked already: unlock it first"),
            Self::NotHeld(rank) => write!(f, "the part of rank {rank} is not locked: lock it first"),
        }
    }
}

impl Error for LockError {}

/// A post, start, complete or wait that was refused. Nothing has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActiveError {
    /// The window is not made yet.
    NotCreated,
    /// The window has failed.
    Failed,
    /// An epoch of fences is open, or a fence is in progress.
    InEpoch,
    /// This rank has a lock on the part of that one.
    Locked(usize),
    /// The layer below does not tell targets of updates.
    NoNotices,
    /// There is no such rank, or it is named twice.
    Rank {
        /// The rank.
        rank: usize,
        /// Ranks in the group.
        ranks: usize,
    },
    /// The last exposure, or access, has not ended.
    Twice,
    /// Nothing was started, or its targets have not posted yet.
    NotStarted,
    /// Nothing was posted.
    NotPosted,
}

impl fmt::Display for ActiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCreated => write!(f, "the window is not made yet: wait for the event that says so"),
            Self::Failed => write!(f, "the window has failed: make a new one"),
            Self::InEpoch => {
                write!(f, "an epoch of fences is open: end it with the assert that nothing follows, then post or start")
            }
            Self::Locked(rank) => write!(f, "the part of rank {rank} is locked: unlock it first"),
            Self::NoNotices => write!(f, "the carrier does not tell targets of what is placed: use fences"),
            Self::Rank { rank, ranks } => write!(f, "rank {rank}: name each of the {ranks} ranks at most once"),
            Self::Twice => write!(f, "the last one has not ended: complete what was started, wait for what was posted"),
            Self::NotStarted => write!(f, "nothing was started, or the targets have not posted yet"),
            Self::NotPosted => write!(f, "nothing was posted: post first"),
        }
    }
}

impl Error for ActiveError {}

/// A fence that was refused. Nothing has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FenceError {
    /// The window is not made yet.
    NotCreated,
    /// The last fence is in progress.
    InFence,
    /// The window has failed.
    Failed,
    /// It asserts that no operation came before, and this many did.
    Preceded(u32),
    /// This rank has a lock on the part of that one.
    Locked(usize),
    /// This rank has posted, or started.
    Active,
}

impl fmt::Display for FenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCreated => write!(f, "the window is not made yet: wait for the event that says so"),
            Self::InFence => write!(f, "the last fence goes on: wait until it has ended"),
            Self::Failed => write!(f, "the window has failed: make a new one"),
            Self::Locked(rank) => write!(f, "the part of rank {rank} is locked: unlock it before the fence"),
            Self::Active => write!(f, "this rank has posted or started: wait or complete before the fence"),
            Self::Preceded(count) => write!(f, "{count} operations came before: leave out the assert that none did"),
        }
    }
}

impl Error for FenceError {}

/// Something from another rank, or from the layer below, that cannot be right. It changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerError {
    /// It comes from a rank that is none.
    NoSuchRank(usize),
    /// It belongs to an epoch that is over, or that its sender cannot be in yet.
    Epoch {
        /// The present epoch.
        here: u32,
        /// The one that it names.
        found: u32,
    },
    /// It is not part of this window's kind of fence, or came from a rank that is no neighbour.
    Unexpected(usize),
    /// It would touch what is not in this rank's part of the window.
    Outside {
        /// The first byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// It does not belong to the collective operation that is in progress.
    Collective(weft_collective::PeerError),
    /// No such operation is in flight.
    NoRequest,
    /// With it a rank would have sent more before its epoch began here than a rank keeps.
    TooEarly(Load),
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchRank(rank) => write!(f, "rank {rank} is none of the group's"),
            Self::Epoch { here, found } => write!(f, "something of epoch {found} came in epoch {here}"),
            Self::Unexpected(rank) => write!(f, "rank {rank} sent what this window's fence has no use for"),
            Self::Outside { offset, length } => {
                write!(f, "{length} bytes from {offset} on do not lie inside this rank's part of the window")
            }
            Self::Collective(error) => write!(f, "{error}"),
            Self::NoRequest => write!(f, "no such operation is on its way"),
            Self::TooEarly(Load { messages, bytes }) => {
                let Load { messages: most, bytes: most_bytes } = Load::EARLY;
                write!(
                    f,
                    "{messages} messages with {bytes} bytes came before their epoch: no more than {most} with \
                     {most_bytes} may"
                )
            }
        }
    }
}

impl Error for PeerError {}

/// Why a window cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowError {
    /// Another rank made it with other arguments.
    Unlike {
        /// The first such rank.
        rank: usize,
    },
    /// Some ranks assert that no operation follows a fence, some do not.
    UnlikeAsserts {
        /// The epoch that the fence ended.
        epoch: u32,
    },
    /// A rank has not fenced in time, or does not answer.
    Late {
        /// The first such rank.
        rank: usize,
        /// How many there are.
        ranks: usize,
        /// The epoch.
        epoch: u32,
        /// Whether it answers.
        answers: bool,
    },
    /// All ranks are in the fence, and it does not end.
    Stalled {
        /// The epoch.
        epoch: u32,
    },
    /// A rank has died or cannot be reached.
    Lost {
        /// The rank.
        rank: usize,
        /// The epoch.
        epoch: u32,
    },
    /// Another rank's window has failed.
    Told {
        /// The rank that says so.
        by: usize,
        /// Whose fault it was.
        rank: usize,
    },
}

impl WindowError {
    /// Whose fault it was, if that is one rank's.
    #[must_use]
    pub fn rank(&self) -> Option<usize> {
        match *self {
            Self::Unlike { rank } | Self::Late { rank, .. } | Self::Lost { rank, .. } | Self::Told { rank, .. } => {
                Some(rank)
            }
            Self::UnlikeAsserts { .. } | Self::Stalled { .. } => None,
        }
    }

    /// The rank at fault, when the others must be notified because they may not find it themselves.
    pub(crate) fn to_tell(self) -> Option<usize> {
        match self {
            Self::Unlike { .. } => None,
            error => error.rank(),
        }
    }
}

impl fmt::Display for WindowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlike { rank } => {
                write!(f, "rank {rank} made the window with another fence or carrier: make them alike at all ranks")
            }
            Self::UnlikeAsserts { epoch } => write!(
                f,
                "some ranks assert that nothing follows epoch {epoch} and some do not: give the assert at all or none"
            ),
            Self::Late { rank, ranks, epoch, answers: true } => {
                write!(f, "rank {rank} has not fenced epoch {epoch} in time ({ranks} ranks have not)")
            }
            Self::Late { rank, ranks, epoch, answers: false } => {
                write!(f, "rank {rank} does not answer in epoch {epoch} ({ranks} ranks are late)")
            }
            Self::Stalled { epoch } => write!(f, "all ranks have fenced epoch {epoch}, and what they wait for is lost"),
            Self::Lost { rank, epoch } => write!(f, "rank {rank} was lost in epoch {epoch}"),
            Self::Told { by, rank } => write!(f, "the window of rank {by} has failed because of rank {rank}"),
        }
    }
}

impl Error for WindowError {}
