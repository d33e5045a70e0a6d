//! The phases of a connection, and what its user hears of them.

use std::net::SocketAddr;

use arrayvec::ArrayVec;
use weft_base::Time;
use weft_wire::edge::frame::MAX_REASON;

/// Something that the user should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The caller has confirmed, and has the key if there is one: what it sends is taken from now on.
    Confirmed,
    /// The peer has sent all that it will ever send, and all of it is placed.
    PeerClosed,
    /// The peer is now found at this address.
    Moved(SocketAddr),
    /// The connection is over.
    Ended(Ending),
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Both sides have closed, and all is acknowledged.
    Closed,
    /// This side has given it up, and the peer knows.
    Aborted,
    /// The peer has acknowledged what was never sent. It is told that the connection is given up.
    Misbehaved,
    /// The peer has given it up.
    PeerAborted(ArrayVec<u8, MAX_REASON>),
    /// The peer knows nothing of it any more: it was started anew.
    Reset,
    /// The peer has not said a word for the peer time-out.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// This side has given up; the peer is told.
    Aborting,
    /// It is over; a peer that has not heard the last word is answered until then.
    Lingering(Time),
    Over,
}

/// How far closing is.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    pub(crate) wanted: bool,
    pub(crate) said: bool,
    pub(crate) heard: bool,
    /// How it has ended.
    pub(crate) is_told: bool,
    pub(crate) peer_end: Option<u64>,
    pub(crate) reason: ArrayVec<u8, MAX_REASON>,
}

/// The peer's host says that no process has the peer's port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    /// Since when.
    pub(crate) since: Time,
    /// When it said so last of a packet that counts.
    pub(crate) last: Time,
    /// Packets that count.
    pub(crate) count: u32,
}
