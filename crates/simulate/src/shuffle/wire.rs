//! The carrier: records over the byte stream of a port.

use weft_base::{Piece, Port, PortError, ReceivePiece, Received};
use weft_nic::lower::Io;

use super::record::{self, Damaged, Kind, Record};
use crate::network::SimulatedPort;

/// Bytes of one read.
const READ_BYTES: usize = 64 * 1024;
/// Reads of one turn.
const MOST_READS: usize = 64;

/// A port, one record that is being sent, and received bytes that are not parsed yet.
pub(super) struct Wire {
    pub(super) port: SimulatedPort,
    sending: Vec<u8>,
    sent: usize,
    buffer: Box<[u8]>,
    incoming: Vec<u8>,
    /// The peer sends no more bytes.
    pub(super) is_over: bool,
}

impl Wire {
    pub(super) fn new(port: SimulatedPort) -> Self {
        Self {
            port,
            sending: Vec::new(),
            sent: 0,
            buffer: vec![0; READ_BYTES].into(),
            incoming: Vec::new(),
            is_over: false,
        }
    }

    /// Whether the last record has gone out whole: only then is there room for another.
    pub(super) fn is_idle(&self) -> bool {
        self.sent == self.sending.len()
    }

    /// Begins to send a record.
    pub(super) fn write(&mut self, kind: Kind, position: u64, body: &[u8]) {
        debug_assert!(self.is_idle(), "one record at a time");
        self.sending = record::emit(kind, position, body);
        self.sent = 0;
    }

    /// Goes on sending. Returns how many bytes the port took.
    pub(super) fn flush(&mut self, io: &mut Io<'_, ()>) -> Result<usize, PortError> {
        let before = self.sent;
        while !self.is_idle() {
            let taken = self.port.send(&[Piece::Bytes(&self.sending[self.sent..])])?;
            if taken == 0 {
                break;
            }
            io.counters.sends += 1;
            io.counters.sent_wire_bytes += taken as u64;
            self.sent += taken;
        }
        Ok(self.sent - before)
    }

    /// Takes received bytes. Returns whether there were any.
    pub(super) fn fill(&mut self, io: &mut Io<'_, ()>) -> Result<bool, PortError> {
        let mut any = false;
        for _ in 0..MOST_READS {
            match self.port.receive(&mut [ReceivePiece::Staging(&mut self.buffer)])? {
                Received::Bytes(count) => {
                    any = true;
                    self.incoming.extend_from_slice(&self.buffer[..count]);
                    io.counters.receives += 1;
                    io.counters.received_wire_bytes += count as u64;
                }
                Received::Nothing => break,
                Received::End => {
                    any |= !self.is_over;
                    self.is_over = true;
                    break;
                }
            }
        }
        Ok(any)
    }

    /// The next record, if all of it has come.
    pub(super) fn next(&mut self) -> Result<Option<Record>, Damaged> {
        let Some((record, length)) = record::parse(&self.incoming)? else { return Ok(None) };
        self.incoming.drain(..length);
        Ok(Some(record))
    }
}
