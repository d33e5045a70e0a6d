//! MPA without I/O: start-up of a connection, framing and deframing with markers and CRC (RFC 5044, RFC 6581).
//!
//! A connection begins with one frame in each direction, which the machines in [`startup`] write and judge:
//! [`Initiator`] and [`Responder`]. What they come to is an [`Agreement`]. From then on each direction is a stream of FPDUs:
//! the sender lays each out with a [`Framer`] and writes it by its [`Layout`]; the receiver finds them with a [`Deframer`].
//!
//! Nothing here does I/O or knows the time: the caller brings bytes and takes bytes away, and keeps the deadlines.
#![forbid(unsafe_code)]

mod deframer;
mod error;
mod frame;
mod framer;
mod layout;
mod shape;
pub mod startup;

pub use deframer::{Deframer, FrameHead, Peek};
pub use error::FrameError;
pub use frame::{Frame, FramePiece, check_tail};
pub use framer::Framer;
pub use layout::{Layout, Source};
pub use startup::{
    Agreement, Extensions, Incompatible, Initiator, Malformed, Offer, ReadyKind, ReadyKinds, Rejection, Request,
    Responder, Role, StartFailure, StartFrame, StartMisuse, Step,
};
