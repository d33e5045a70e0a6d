//! A port, and what waits on both sides of it; and how frames are made and read there.

use weft_base::{Port, PortError, ReceivePiece, Received, Segmented};
use weft_mpa::{Deframer, Framer};

use super::outgoing::Outgoing;
use super::staging::{Pool, Staging};
use crate::lower::Io;

/// What is read at a time when it is not wanted.
const DRAIN_BYTES: usize = 16 * 1024;

/// A port, and what waits on both sides of it.
pub(super) struct Bytes<P: Port> {
    pub(super) port: P,
    pub(super) staging: Staging,
    pub(super) outgoing: Outgoing,
    /// The port shows what arrives as it comes, and has it in order no more.
    pub(super) shows_segments: bool,
}

/// How FPDUs are made and read, as the start-up has agreed.
pub(super) struct Framing {
    pub(super) framer: Framer,
    pub(super) deframer: Deframer,
    pub(super) crc: bool,
    pub(super) large_fpdus: bool,
}

impl<P: Segmented> Bytes<P> {
    /// Sends what waits, outside of a stream.
    pub(super) fn flush(&mut self, io: &mut Io<'_, impl AsMut<Pool>>) -> Result<bool, PortError> {
        if self.outgoing.is_empty() {
            return Ok(false);
        }
        let (taken, _) = self.outgoing.send(&mut self.port, io.scratch.as_mut())?;
        io.counters.sends += 1;
        io.counters.sent_wire_bytes += taken as u64;
        Ok(taken > 0)
    }

    /// Queues bytes that are no frame of the stream.
    pub(super) fn queue(&mut self, bytes: &[u8], pool: &mut Pool) {
        self.outgoing.write(bytes.len(), pool, |out| {
            out.copy_from_slice(bytes);
            bytes.len()
        });
        self.outgoing.end_other(bytes.len());
    }

    /// Queues what is left of a frame.
    pub(super) fn queue_frame(&mut self, bytes: &[u8], pool: &mut Pool) {
        self.outgoing.write(bytes.len(), pool, |out| {
            out.copy_from_slice(bytes);
            bytes.len()
        });
        self.outgoing.end_frame(bytes.len());
    }

    /// Receives and drops what the peer has sent.
    pub(super) fn discard(&mut self, pool: &mut Pool) -> Result<Received, PortError> {
        if self.shows_segments {
            return self.port.receive_segments(&mut |_, _| true);
        }
        let room = self.staging.room(DRAIN_BYTES, pool);
        let received = self.port.receive(&mut [ReceivePiece::Staging(&mut room[..DRAIN_BYTES])]);
        self.staging.release(pool);
        received
    }
}
