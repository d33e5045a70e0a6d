//! MPA without I/O: start-up of a connection, framing and deframing with markers and CRC (RFC 5044, RFC 6581).
//!
//! A connection begins with one frame in each direction, which the machines in [`startup`] write and judge:
//! [`Initiator`] and [`Responder`]. What they come to is an [`Agreement`]. From then on each direction is a stream of
//! FPDUs: the sender lays each out with a [`Framer`] and writes it by its [`Layout`]; the receiver finds them with a
//! [`Deframer`].
//!
//! Where the work is done in stages, an FPDU can also be written and taken apart in parts, as its bytes come: a
//! [`MarkerInserter`] works in the markers and leaves a hole for the CRC, a [`CrcDigest`] sums up, a [`MarkerStripper`]
//! takes the markers out.
//!
//! Where bytes come in any order, as from `weft-tcp`, a [`Reassembler`] finds FPDUs by markers as well, and hands
//! them up as they are.
//!
//! Nothing here does I/O or knows the time: the caller brings bytes and takes bytes away, and keeps the deadlines.
//!
//! ```
//! use weft_mpa::{Initiator, Offer, Peek, Responder, Step};
//!
//! // Start-up: the frames go over a TCP connection.
//! let (waiting, request) = Initiator::start(Offer::default(), b"hello")?;
//! let Step::Done((request, _)) = Responder::new(Offer::default()).handle(&request) else { panic!("no request") };
//! assert_eq!(request.private_data(), b"hello");
//! let Ok((theirs, reply)) = request.accept(b"welcome") else { panic!("too much private data") };
//! let Step::Done((ours, _)) = waiting.handle(&reply) else { panic!("no reply") };
//!
//! // One FPDU from the initiator to the responder.
//! let (header, mut payload) = ([1; 14], &b"payload"[..]);
//! let layout = ours.framer().frame(14 + 7);
//! let mut stream = vec![0; layout.length()];
//! let Ok(()) = layout.write(&header, &mut payload, &mut stream);
//!
//! let mut deframer = theirs.deframer();
//! let Peek::Head(head) = deframer.peek(&stream)? else { panic!("no length field") };
//! let frame = deframer.frame(&head, &stream).expect("all of it is there");
//! frame.verify()?;
//! assert!(frame.contiguous().unwrap().ends_with(b"payload"));
//! deframer.advance(&head);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod crc_digest;
mod deframer;
mod error;
mod frame;
mod frame_head;
mod framer;
mod layout;
mod marker_inserter;
mod marker_stripper;
mod reassembler;
mod shape;
pub mod startup;

pub use crc_digest::CrcDigest;
pub use deframer::{Deframer, Peek, StraightFrame};
pub use error::FrameError;
pub use frame::{Frame, FramePiece, check_tail};
pub use frame_head::FrameHead;
pub use framer::Framer;
pub use layout::{Layout, Source};
pub use marker_inserter::{MarkerInserter, Piece};
pub use marker_stripper::MarkerStripper;
pub use reassembler::{LARGEST_FPDU, Reassembler, ReassemblerLimits};
pub use startup::{
    Agreement, Extensions, Incompatible, Initiator, Malformed, Offer, ReadyKind, ReadyKinds, Rejection, Request,
    Responder, Role, StartFailure, StartFrame, StartMisuse, Step,
};
pub use weft_wire::mpa::MarkerSpacing;
