//! A user-level TCP without I/O (RFC 9293), whose receiver shows segments as they arrive, in order or not.
//!
//! A [`Connection`] begins with [`Connection::connect`], or comes out of a [`Listener`]. Its owner brings what arrives
//! to [`Connection::handle`] and the time to [`Connection::handle_timeout`], and takes away what
//! [`Connection::poll_transmit`] has, until it has nothing. Nothing here reads a clock or sends by itself.
//!
//! What becomes of segments that come before others is the [`ReceivePolicy`]'s to say: shown at once with their
//! position to a [`Sink`] (`Place`), put in order first (`Buffer`), or dropped (`Drop`).
//!
//! Losses are found by SACK with RACK and TLP (RFC 2018, 2883, 6675, 8985), or, where the peer has no SACK, as in RFC
//! 6582; the retransmission time-out is that of RFC 6298, the congestion window that of RFC 9438 (CUBIC) or RFC 5681
//! (Reno) and of RFC 6928. A cut of it is taken back when all that was believed lost turns out to have arrived (RFC
//! 3708). Sequence numbers, timestamps and resets are judged as in RFC 7323 and RFC 5961. Memory of a
//! connection is taken when it is needed, up to what [`Settings`] name, and given back when it is idle or ends.
//!
//! Left out: ECN, Fast Open, urgent data as such, finding out that a time-out was spurious (RFC 5682), proportional
//! rate reduction (RFC 6937), and finding the path's MTU by itself: the owner of the connection sets it
//! ([`Connection::set_path_mss`]). Chosen where a standard leaves it open, or differently: the least time-out is 200 ms
//! (RFC 6298 section 2.4: 1 s), a tail probe waits at least 2 ms, a bare acknowledgement may be right behind the window
//! (RFC 9293 section 3.10.7.4), where a peer is that has filled it.
#![forbid(unsafe_code)]

mod checksum;
mod connection;
mod initial;
mod link;
mod listener;
mod numbering;
mod ports;
mod ranges;
mod receiver;
mod ring;
mod segment;
mod sender;
mod settings;
mod state;
mod time_wait;

pub use connection::{Connection, ConnectionError, Counters, Outgoing};
pub use initial::{Initial, InitialNumbers};
pub use link::{
    Arrived, EthernetLink, FRAME_OVERHEAD, FrameHead, LEAST_MTU, LONGEST_QUESTION, LinkError, LinkFrame,
    group_hardware, solicited_node,
};
pub use listener::{Answer, HALF_OPEN, Listener};
pub use ports::{CallerPorts, PortSearch};
pub use receiver::Sink;
pub use segment::{
    Checksum, Flags, Flow, MAX_HEADER, MAX_SACK_BLOCKS, MIN_HEADER, OptionError, Options, Segment, SegmentError,
    Timestamps,
};
pub use settings::{Congestion, KeepAlive, ReceivePolicy, SettingError, Settings};
pub use state::State;
pub use time_wait::{TimeWait, TimeWaits, Waiting};
