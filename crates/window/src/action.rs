//! What the layer below is to do, and what it is notified of.

use weft_base::Slice;
use weft_memory::{Combine, Element};

use crate::WindowError;

/// An operation that was begun. It names nothing any more when the operation is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    pub(crate) slot: u32,
    pub(crate) serial: u32,
}

impl Request {
    /// Its place among the operations that may be in flight ([`crate::Settings::operations`]): for tables of the layer
    /// below, which grow where operations wait for the fence ([`Window::defers`](crate::Window::defers)). Another one
    /// has it when this one is over.
    #[must_use]
    pub fn index(self) -> usize {
        self.slot as usize
    }
}

/// What becomes of bytes at their target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// They replace what was there.
    Replace,
    /// They are combined with what was there, once, element by element.
    Combine {
        /// The type of the elements.
        element: Element,
        /// How.
        combine: Combine,
    },
    /// As [`Update::Combine`], and what was there before is read. Values to compare with are allowed, as is
    /// [`Combine::Read`], which changes nothing. It is over when what it reads is here.
    Fetch {
        /// The type of the elements.
        element: Element,
        /// How.
        combine: Combine,
    },
}

/// Where an operation takes place: `local` in this rank's memory, as many bytes from `offset` on in the window of
/// `rank`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The target; it may be this rank.
    pub rank: usize,
    /// Bytes from the start of the target's part of the window.
    pub offset: u64,
    /// The memory here: the source of an update, where a get puts what it reads.
    pub local: Slice,
}

/// What is to be done. Things for one rank are to be sent in the order in which they are given out. A rank may be this
/// one: then the layer below brings it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action<'a> {
    /// Update the target's memory, then tell [`handle_complete`](crate::Window::handle_complete) when the source may be
    /// used again. With a `notice` the target tells its window of it
    /// ([`handle_placed`](crate::Window::handle_placed)) when it is placed.
    Write {
        /// What it is.
        request: Request,
        /// Where.
        access: Access,
        /// What becomes of the bytes.
        update: Update,
        /// The epoch, to be handed to the target.
        notice: Option<u32>,
    },
    /// The same as a message, which needs no right to the target's memory. The target places it when its window has
    /// agreed ([`check`](crate::Window::check); [`check_open`](crate::Window::check_open) when the epoch is open here),
    /// and tells it then ([`handle_placed`](crate::Window::handle_placed)).
    Deliver {
        /// What it is.
        request: Request,
        /// Where.
        access: Access,
        /// What becomes of the bytes.
        update: Update,
        /// The epoch, to be handed to the target.
        epoch: u32,
        /// With the last to this target: how many there were, to be handed over as [`Message::Finish`].
        last: Option<u32>,
    },
    /// Read the target's memory, then tell [`handle_complete`](crate::Window::handle_complete) when the bytes are here.
    Read {
        /// What it is.
        request: Request,
        /// Where.
        access: Access,
    },
    /// Tell [`handle_flushed`](crate::Window::handle_flushed) when everything sent to `to` so far is placed there.
    Flush {
        /// The target.
        to: usize,
    },
    /// Get a lock on the part of `to`, alone or with others that share it, then tell
    /// [`handle_locked`](crate::Window::handle_locked). The target's window takes no part in it.
    Lock {
        /// The target.
        to: usize,
        /// Alone.
        exclusive: bool,
    },
    /// Give it back, then tell [`handle_unlocked`](crate::Window::handle_unlocked).
    Unlock {
        /// The target.
        to: usize,
        /// It was had alone.
        exclusive: bool,
    },
    /// Send a message to the window of `to`.
    Send {
        /// The rank.
        to: usize,
        /// The rail that it must take; `None` when any will do.
        rail: Option<u16>,
        /// The message.
        message: Message<'a>,
    },
}

/// Which collective operation a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The window is made.
    Create,
    /// What each rank must expect.
    Agree,
    /// The barrier of a fence.
    Barrier,
}

/// A message between the windows of two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A round of a collective operation.
    Round {
        /// Which.
        part: Part,
        /// The how many-th of its kind.
        sequence: u32,
        /// The round.
        round: u32,
        /// What it carries.
        values: &'a [u64],
    },
    /// This was the last for you in this epoch.
    Finish {
        /// The epoch.
        epoch: u32,
        /// How many updates there were.
        count: u32,
    },
    /// All that was for the sender in this epoch has come.
    Ready {
        /// The epoch.
        epoch: u32,
    },
    /// The sender's part is exposed to you.
    Post,
    /// The sender has ended its access to your part.
    Complete {
        /// How many updates there were.
        count: u32,
    },
    /// Did you fence this epoch? The sender has waited long.
    Ask {
        /// The epoch.
        epoch: u32,
    },
    /// The answer.
    Answer {
        /// The epoch.
        epoch: u32,
        /// Whether the fence was called.
        fenced: bool,
    },
    /// The sender's window has failed, because of `rank`.
    Abort {
        /// Whose fault it was.
        rank: u32,
    },
}

/// What the window tells its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// All ranks have made the window.
    Created,
    /// The fence has ended this epoch.
    Fenced {
        /// Epochs are counted from 0, which ends with the first fence and has no operations.
        epoch: u32,
    },
    /// The window cannot be used any more.
    Failed(WindowError),
}
