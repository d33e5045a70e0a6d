//! The phases of a connection, and the events for its user.

use std::net::SocketAddr;

use arrayvec::ArrayVec;
use weft_base::Time;
use weft_wire::edge::frame::MAX_REASON;

/// An event for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The caller has confirmed, and has the key if there is one: its segments are accepted from now on.
    Confirmed,
    /// The peer has closed, and all that it sent is placed.
    PeerClosed,
    /// The peer has migrated to this address.
    Moved(SocketAddr),
    /// The connection is over.
    Ended(Ending),
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Both sides have closed, and all is acknowledged.
    Closed,
    /// This side has aborted, and the peer has acknowledged it.
    Aborted,
    /// The peer has acknowledged what was never sent. It is sent an abort.
    Misbehaved,
    /// The peer has aborted, for this reason.
    PeerAborted(ArrayVec<u8, MAX_REASON>),
    /// The peer has forgotten the connection: it was restarted.
    Reset,
    /// Nothing was received from the peer for the peer timeout.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// This side has aborted, and sends the abort.
    Aborting,
    /// The connection is over; a peer that has not received the last packet is answered until then.
    Lingering(Time),
    Over,
}

/// Progress of closing.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    pub(crate) wanted: bool,
    pub(crate) is_sent: bool,
    pub(crate) is_acknowledged: bool,
    /// Whether `Ended` was queued.
    pub(crate) is_reported: bool,
    pub(crate) peer_end: Option<u64>,
    pub(crate) reason: ArrayVec<u8, MAX_REASON>,
}

/// The peer's host reports that no process has the peer's port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused {
    /// Time of the first report.
    pub(crate) since: Time,
    /// Time of the last report about a packet that counts.
    pub(crate) last: Time,
    /// Number of packets that count.
    pub(crate) count: u32,
}
