//! The two rings of a connection, over mapped memory.

use core::ptr::NonNull;
use std::sync::Arc;

use socket2::Socket;
use weft_base::{Lent, PortError, Slice};
use weft_memory::{Fault, Registry, touch_foreign};
use weft_ring::{Consumer, Producer, Rest, Span, Spans, Violation};

use super::lending::{Borrower, Lender};
use super::memory::{Direction, Mapping};
use super::passed;
use super::shared::Shared;
use crate::vectors::Vectors;

/// This many bytes are written before the other side is notified, so that both work at a long message at the same time.
pub(super) const CHUNK_BYTES: usize = 16 << 10;

/// A side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Connected,
    Accepted,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) bytes: usize,
    /// Whether the other side sleeps and is to be woken.
    pub(super) wakes: bool,
}

/// Why a step cannot continue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stop {
    /// The other side violates the protocol.
    Violation,
    /// This side's memory is gone.
    Fault,
}

impl From<Violation> for Stop {
    fn from(_: Violation) -> Self {
        Self::Violation
    }
}

impl From<Fault> for Stop {
    fn from(_: Fault) -> Self {
        Self::Fault
    }
}

/// Both rings, from one side.
#[derive(Debug)]
pub(super) struct Rings {
    mapping: Arc<Mapping>,
    outward: Direction,
    inward: Direction,
    producer: Producer<Shared>,
    consumer: Consumer<Shared>,
    pub(super) lender: Lender,
    pub(super) borrower: Borrower,
}

impl Rings {
    pub(super) fn new(mapping: Mapping, side: Side) -> Self {
        let (outward, inward) = match side {
            Side::Connected => (Direction::ToListener, Direction::ToCaller),
            Side::Accepted => (Direction::ToCaller, Direction::ToListener),
        };
        let mapping = Arc::new(mapping);
        let capacity = mapping.capacity();
        Self {
            producer: Producer::new(Shared::bytes(&mapping, outward), capacity),
            consumer: Consumer::new(Shared::bytes(&mapping, inward), capacity),
            lender: Lender::new(&mapping, outward),
            borrower: Borrower::new(&mapping, inward),
            outward,
            inward,
            mapping,
        }
    }

    /// Whether they are mapped in this process.
    pub(super) fn are_here(&self) -> bool {
        self.mapping.is_here()
    }

    /// Writes as much as fits.
    ///
    /// # Errors
    /// The other side violates the protocol, or the memory of the vectors is gone. What was written before stays.
    pub(super) fn write<const N: usize>(&mut self, vectors: &Vectors<'_, N>) -> Result<Moved, Stop> {
        let bytes = vectors.bytes().min(self.producer.room(vectors.bytes())?);
        let mut from = Cursor::new(vectors.addresses());
        let mut moved = Moved::default();
        while moved.bytes < bytes {
            let chunk = CHUNK_BYTES.min(bytes - moved.bytes);
            from.meet(self.producer.spans(chunk), |span, from| {
                // SAFETY: The vectors hold these bytes in place, for as long as they are borrowed. A copy may stop
                // anywhere.
                unsafe { touch_foreign(from, span.length, || self.mapping.copy_in(self.outward, span, from.as_ptr())) }
            })?;
            moved.bytes += chunk;
            moved.wakes |= self.producer.publish(chunk);
        }
        Ok(moved)
    }

    /// Writes as much as fits of few bytes, [`CHUNK_BYTES`] at most, as [`Rings::write`].
    #[inline]
    pub(super) fn write_bytes(&mut self, bytes: &[u8]) -> Result<Moved, Violation> {
        let count = bytes.len().min(self.producer.room(bytes.len())?).min(CHUNK_BYTES);
        if count == 0 {
            return Ok(Moved::default());
        }
        let mut from = bytes[..count].as_ptr();
        for span in self.producer.spans(count).0 {
            if span.length > 0 {
                // SAFETY: The spans together are as long as the borrowed slice, and this is where one of them
                // continues.
                unsafe { self.mapping.copy_in(self.outward, span, from) };
                from = from.wrapping_add(span.length);
            }
        }
        Ok(Moved { bytes: count, wakes: self.producer.publish(count) })
    }

    /// Reads the bytes that are there, [`CHUNK_BYTES`] at most, as [`Rings::read`].
    #[inline]
    pub(super) fn read_bytes(&mut self, into: &mut [u8]) -> Moved {
        let count = into.len().min(self.consumer.known().bytes).min(CHUNK_BYTES);
        let mut to = into[..count].as_mut_ptr();
        for span in self.consumer.spans(count).0 {
            if span.length > 0 {
                // SAFETY: As in `write_bytes`; this slice is borrowed exclusively.
                unsafe { self.mapping.copy_out(self.inward, span, to) };
                to = to.wrapping_add(span.length);
            }
        }
        Moved { bytes: count, wakes: self.consumer.consume_quietly(count) }
    }

    /// Whether there is nothing to read, and nothing new.
    #[inline]
    pub(super) fn is_still(&self) -> bool {
        !self.lender.has_lent() && self.consumer.is_still()
    }

    /// The number of readable bytes, and what follows them.
    #[inline]
    pub(super) fn readable(&mut self) -> Result<(usize, Rest), Violation> {
        let available = self.consumer.poll()?;
        Ok((available.bytes, available.rest))
    }

    /// Reads the bytes that are there, as far as there is room. After [`Rings::readable`].
    ///
    /// # Errors
    /// The memory of the vectors is gone.
    pub(super) fn read<const N: usize>(&mut self, vectors: &Vectors<'_, N>) -> Result<Moved, Stop> {
        let bytes = vectors.bytes().min(self.consumer.known().bytes);
        let mut to = Cursor::new(vectors.addresses());
        let mut moved = Moved::default();
        while moved.bytes < bytes {
            let chunk = CHUNK_BYTES.min(bytes - moved.bytes);
            to.meet(self.consumer.spans(chunk), |span, to| {
                // SAFETY: As in `write`; these vectors are there to be written.
                unsafe { touch_foreign(to, span.length, || self.mapping.copy_out(self.inward, span, to.as_ptr())) }
            })?;
            moved.bytes += chunk;
            moved.wakes |= self.consumer.consume_quietly(chunk);
        }
        Ok(moved)
    }

    /// Copies the next run that the other side lends: by reading its process, or where that cannot be read any more,
    /// from a copy that it passes.
    pub(super) fn copy_lent(
        &mut self,
        socket: Option<&Socket>,
        registry: &Registry,
        lent: &[Lent],
        into: &[Slice],
    ) -> Result<(), PortError> {
        let socket = socket.ok_or(PortError::Reset)?;
        match self.borrower.copy(registry, lent, into) {
            Err(PortError::Unreadable(libc::EPERM)) => {
                self.borrower.ask_for_copies(socket);
                passed::take(socket, || self.lender.pass(socket), registry, into)
            }
            // Another process may have its number by now, unless it is still there.
            Ok(()) if !self.borrower.has_read_peer(socket) => {
                Borrower::wipe(registry, into);
                Err(PortError::Reset)
            }
            copied => copied,
        }
    }

    /// Ends writing. Returns whether the other side is to be woken.
    pub(super) fn end(&mut self) -> bool {
        !self.producer.is_ended() && self.producer.end()
    }

    /// Aborts. Returns whether the other side is to be woken.
    pub(super) fn abort(&mut self) -> bool {
        self.producer.abort()
    }

    /// Before a sleep: publishes all that was read. Returns whether the other side is to be woken.
    pub(super) fn settle(&mut self) -> bool {
        self.consumer.settle()
    }

    /// Arms the wake-up for `least` readable bytes (`None`: disarms it). Returns whether there is something to wait
    /// for.
    pub(super) fn sleep_to_read(&mut self, least: Option<usize>) -> Result<bool, Violation> {
        match least {
            Some(least) => self.consumer.sleep(least),
            None => {
                self.consumer.rise();
                Ok(true)
            }
        }
    }

    /// Arms the wake-up for a free quarter of the ring, and where something is lent, for its return; room then counts
    /// only if the last write found too little (`was_short`): otherwise there is nothing to write. Returns whether
    /// there is something to wait for.
    pub(super) fn sleep_to_write(&mut self, wanted: bool, was_short: bool) -> Result<bool, Violation> {
        self.producer.rise();
        self.lender.rise();
        if !wanted {
            return Ok(true);
        }
        let has_lent = self.lender.has_lent();
        if has_lent && !self.lender.sleep()? {
            return Ok(false);
        }
        if has_lent && !was_short {
            return Ok(true);
        }
        self.producer.sleep(self.mapping.capacity().bytes() / 4)
    }
}

/// A position in a list of vectors.
struct Cursor<I> {
    vectors: I,
    at: *mut u8,
    left: usize,
}

impl<I: Iterator<Item = (*mut u8, usize)>> Cursor<I> {
    const fn new(vectors: I) -> Self {
        Self { vectors, at: core::ptr::null_mut(), left: 0 }
    }

    /// Walks along spans of the ring and vectors together: `copy` gets parts that are contiguous in both.
    fn meet(
        &mut self,
        spans: Spans,
        mut copy: impl FnMut(Span, NonNull<u8>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        for mut span in spans.0 {
            while span.length > 0 {
                if self.left == 0 {
                    (self.at, self.left) = self.vectors.next().unwrap_or((self.at, 0));
                    assert!(self.left > 0, "the vectors have fewer bytes than were counted");
                }
                let length = span.length.min(self.left);
                copy(Span { length, ..span }, NonNull::new(self.at).ok_or(Fault)?)?;
                (self.at, self.left) = (self.at.wrapping_add(length), self.left - length);
                span = Span { offset: span.offset + length, length: span.length - length };
            }
        }
        Ok(())
    }
}
