//! One-sided windows and their fences, without I/O.
//!
//! A window is memory of each rank of a group into which the others put, from which they get, and in which they
//! accumulate. A fence ends one epoch of such operations and begins the next: when it has ended at a rank, everything
//! that any rank did to that rank's memory in the epoch is there, and nothing of the next epoch was before.
//!
//! [`Window`] is one rank's part. It does no I/O and reads no clock: it says what to do ([`Window::poll_action`]) and
//! gets notified of what has happened (`handle_*`). The layer below moves the bytes. What that layer promises is its
//! [`Carrier`], and a fence that cannot be right on a carrier is refused when the window is made.
//!
//! The fences are those of Santhanaraman and others (IEEE Cluster 2009), and three that go past them:
//!
//! | fence | operations move | how a rank knows that all have come | at the end |
//! |---|---|---|---|
//! | [`Fence::TwoSided`] | in the fence, as messages | marks summed, then a count from each origin | nothing |
//! | [`Fence::OneSided`] | at once | marks summed, then a finish from each origin on each rail | ready from all |
//! | [`Fence::OneSidedBarrier`] | at once | as `OneSided` | barrier |
//! | [`Fence::RemoteImmediate`] | at once, each with a notice | counts of all targets, summed at all | barrier |
//! | [`Fence::Counted`] | at once, each with a notice | counts summed, each at its target | barrier, or nothing |
//! | [`Fence::Neighbour`] | at once, each with a notice | a count from each neighbour | ready from neighbours |
//! | [`Fence::Tagged`] | at once, small ones as messages | counts summed, each at its target | nothing, or barrier |
//!
//! The first fence of a window, and one after an epoch that asserted that nothing follows it, has nothing to end: it is
//! a barrier, or nothing with `TwoSided`, whose operations move only when all ranks are in the closing fence.
//!
//! Between epochs some ranks may have epochs of their own ([`Window::post`], [`Window::start`]), of which the others
//! know nothing: an origin tells its targets how many updates to expect. And a rank may lock the part of another
//! ([`Window::lock`]), which takes no part in that: operations move at once and no rank counts them; a flush says when
//! they are placed.
#![forbid(unsafe_code)]

mod action;
mod carrier;
mod choice;
mod error;
mod layout;
mod load;
mod settings;
mod window;

pub use action::{Access, Action, Event, Message, Part, Request, Update};
pub use carrier::{Carrier, Fence, Order};
pub use choice::{Choice, Circumstances};
pub use error::{ActiveError, CreateError, FenceError, LockError, OperationError, PeerError, WindowError};
pub use layout::{Block, Layout, LayoutError};
pub use load::Load;
pub use settings::{Asserts, Settings};
pub use weft_collective::Shape;
pub use window::Window;
