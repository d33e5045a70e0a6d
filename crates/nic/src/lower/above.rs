//! What a lower layer sees of the connection above it, and how that holds its stream.

use core::ops::{Deref, DerefMut};
use std::sync::Arc;

use weft_base::Time;
use weft_lock::{Mutex, MutexGuard};
use weft_rdmap::{Arrival, OrderConstraint, Placement, Stream, Verdict, Violation};

#[cfg(doc)]
use super::words::ReceiveError;
use crate::counters::Counters;

/// What a lower layer needs of the connection above it.
pub trait StreamSink {
    /// The stream, held until this is dropped: for segments to be sent.
    fn stream(&mut self) -> StreamGuard<'_>;

    /// Where the payload of a segment belongs: `head` is its beginning, [`weft_rdmap::HEAD_LENGTH`] bytes of it or all.
    /// `constraint`: what the peer requests of the order of placement, where the lower layer can carry that.
    fn locate(&mut self, arrival: Arrival, constraint: OrderConstraint, length: u32, head: &[u8]) -> Verdict;

    /// The payload is in place and its check was good.
    ///
    /// # Errors
    /// What it completes breaks a rule: the stream knows ([`ReceiveError::Judged`]).
    fn placed(&mut self, placement: &Placement, counters: &mut Counters) -> Result<(), Violation>;

    /// Offers a whole segment, whose check was good, to the message endpoint of this connection. Returns whether it has
    /// taken it: then nothing else is to be done with it.
    fn packet(&mut self, arrival: Arrival, ulpdu: &[u8], now: Time, counters: &mut Counters) -> bool;

    /// Whether a packet of a message endpoint may be sent before what is posted next.
    fn passes_packets(&self) -> bool;

    /// Whether Sends that were put off for want of a receive may come again, because the first of them has one now. The
    /// peer must learn that: this returns true once.
    fn go_on(&mut self) -> bool;
}

/// A stream: the engine's own, or shared with calling threads that do a stage of its way out.
pub enum StreamCell {
    /// The engine's own.
    Own(Box<Stream>),
    /// Shared.
    Shared(Arc<Mutex<Stream>>),
}

impl StreamCell {
    /// Holds it.
    #[inline]
    pub fn hold(&mut self) -> StreamGuard<'_> {
        match self {
            Self::Own(stream) => StreamGuard::Own(stream),
            Self::Shared(stream) => StreamGuard::Shared(stream.lock()),
        }
    }
}

/// A stream, held.
pub enum StreamGuard<'a> {
    /// The engine's own.
    Own(&'a mut Stream),
    /// Shared.
    Shared(MutexGuard<'a, Stream>),
}

impl Deref for StreamGuard<'_> {
    type Target = Stream;

    #[inline]
    fn deref(&self) -> &Stream {
        match self {
            Self::Own(stream) => stream,
            Self::Shared(stream) => stream,
        }
    }
}

impl DerefMut for StreamGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Stream {
        match self {
            Self::Own(stream) => stream,
            Self::Shared(stream) => stream,
        }
    }
}
