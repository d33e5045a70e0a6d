//! Lower layer protocols (LLP, RFC 5041 section 2): what carries the DDP segments of one RDMA stream.
//!
//! The seam is the DDP segment. A lower layer takes segments from the stream within a budget, delivers what has arrived
//! as position, header and payload, learns where the payload goes, places it, and says when it is there. It owns its
//! ports, its framing, its timers and its integrity check; the stream above knows none of them. What it needs of the
//! connection it has through [`StreamSink`].
//!
//! A layer that does more than a byte stream does keeps to these:
//! - each [`weft_rdmap::Arrival`] starts where the one before ends, and is as long as its segment's payload, one more
//!   with DDP's Last flag;
//! - [`weft_rdmap::Stream::handle_sent`] counts segments in the order in which they were taken, once the layer needs
//!   them no more;
//! - what the stream refuses without blame ends nothing: what it knows is acknowledged again, what it can't take now is
//!   offered again later;
//! - acknowledgements are taken in [`Segments::transmit`] as well, for after an error, or [`Got::Over`], nothing is
//!   received;
//! - [`Got::End`] comes when everything before the peer's last word is in place.
//!
//! The lower layer of a network's streams is named by [`weft_base::Network::Stack`], a tag: [`Stack`] gives it a
//! meaning, in this crate for those that exist, in others for their own.
//!
//! Shared memory is a stream, [`weft_base::PortOptions::shared_memory`], and so what it carries is iWARP; what MPA
//! checks it need not check there ([`weft_base::Port::keeps_bytes`]).

mod above;
mod choice;
mod datagrams;
mod edge;
mod io;
mod mpa;
mod seam;
mod stack;
mod words;

pub use self::above::{StreamCell, StreamGuard, StreamSink};
pub(crate) use self::datagrams::InboxEntry;
pub use self::datagrams::{
    ConnectionIds, Datagram, DatagramKey, DatagramPorts, DatagramRun, Destination, Inbox, Leaving, RailPort, RailPorts,
    SendFailure, ServedPorts, TxBatch, Unmatched,
};
pub use self::io::{Io, Scratch};
pub use self::seam::{Datagrams, Lower, Pollable, Segments, Setup};
pub(crate) use self::stack::{AcceptorOf, LeavingOf, TxBatchOf};
pub use self::stack::{Carrier, Stack};
pub use self::words::{
    Accepted, CallOutcome, Drained, Got, ListensAt, MOST_PASSED, Passed, PassedRequest, Readiness, ReceiveError, Route,
    SendError, Sent, StartStep, Terms, Undecided,
};
