//! A stream: over this link by Weft's own TCP, or by the kernel.

use core::fmt;
use std::net::SocketAddr;

use slotmap::DefaultKey;
use weft_base::{Lending, NoDigest, Piece, Port, PortError, ReceivePiece, Received, Segmented, Slice, StreamPosition};
use weft_driver::HostPort;
use weft_memory::Registry;
use weft_tcp::{Connection, Counters, State};

use crate::inbox::Inbox;
use crate::settings::with_scope;
use crate::stack::Shared;

/// Bytes that go between registered memory and a connection at a time.
const PIECE: usize = 16 << 10;

/// A stream.
#[derive(Debug)]
pub enum LinkPort {
    /// By the kernel, or through shared memory.
    Host(HostPort),
    /// By Weft's own TCP.
    Own(OwnPort),
}

impl LinkPort {
    /// What Weft's own TCP has done for this stream so far; none where the kernel carries it, or where it is over.
    #[must_use]
    pub fn counters(&self) -> Option<Counters> {
        match self {
            Self::Host(_) => None,
            Self::Own(port) => Some(port.stack.lock().stream(port.key).ok()?.connection.counters()),
        }
    }
}

/// A stream by Weft's own TCP. Dropped without [`Port::abort`], it closes gracefully, unless bytes that came were not
/// received: then it is reset.
pub struct OwnPort {
    stack: Shared,
    key: DefaultKey,
    registry: Registry,
    local: SocketAddr,
    remote: SocketAddr,
    /// Between registered memory and the connection; made when it is first used.
    buffer: Box<[u8]>,
    /// What was taken of the connection, while it is delivered.
    arrived: Inbox,
    /// Data that was refused when it was delivered, in order: less than a window, for all of it is behind a gap.
    refused: Vec<(StreamPosition, Vec<u8>)>,
}

impl OwnPort {
    pub(crate) fn new(stack: Shared, key: DefaultKey, registry: Registry) -> Result<Self, PortError> {
        let (flow, interface) = {
            let mut stack = stack.lock();
            (*stack.stream(key)?.connection.flow(), stack.interface())
        };
        Ok(Self {
            stack,
            key,
            registry,
            local: with_scope(flow.local, interface),
            remote: with_scope(flow.remote, interface),
            buffer: Box::default(),
            arrived: Inbox::default(),
            refused: Vec::new(),
        })
    }

    pub(crate) const fn key(&self) -> DefaultKey {
        self.key
    }

    /// Writes as much as there is room for, whole units as far as they are known.
    fn write(&mut self, pieces: &[Piece<'_>], units: &mut dyn Iterator<Item = u32>) -> Result<usize, PortError> {
        for piece in pieces {
            if let Piece::Memory(slice) = piece {
                self.registry.resolve(slice).map_err(|_| memory(slice))?;
                make(&mut self.buffer);
            }
        }
        let mut stack = self.stack.lock();
        stack.drive();
        let stream = stack.stream(self.key)?;
        if let Some(error) = stream.error() {
            return Err(error);
        }
        let connection = &mut *stream.connection;
        let mut writer = Writer { connection, registry: &self.registry, buffer: &mut self.buffer, units, left: 0 };
        let mut sent = 0;
        for piece in pieces {
            let (taken, all) = match piece {
                Piece::Bytes(bytes) => (writer.write_bytes(bytes), bytes.len()),
                Piece::Memory(slice) => (writer.write_slice(*slice)?, slice.length as usize),
            };
            sent += taken;
            if taken < all {
                break;
            }
        }
        if sent > 0 {
            stack.drive_stream(self.key);
        }
        Ok(sent)
    }

    /// Delivers once more what was refused, after something that comes before it has come.
    fn hand_again(&mut self, take: &mut dyn FnMut(StreamPosition, &[u8]) -> bool) {
        self.refused.sort_by_key(|(position, _)| *position);
        self.refused.retain(|(position, bytes)| !take(*position, bytes));
    }
}

/// Writes pieces, and tells the connection where units end.
struct Writer<'a> {
    connection: &'a mut Connection,
    registry: &'a Registry,
    buffer: &'a mut [u8],
    units: &'a mut dyn Iterator<Item = u32>,
    /// Bytes of the present unit that are still to come.
    left: u64,
}

impl Writer<'_> {
    /// How much of `wanted` bytes may be written now: no more than a unit, and nothing of one that there is no room
    /// for, unless it is larger than all room there is.
    fn allowed(&mut self, wanted: usize) -> usize {
        if self.left == 0 {
            self.left = self.units.next().map_or(u64::MAX, u64::from);
        }
        let has_room = self.left == u64::MAX || self.left <= self.connection.room();
        if has_room || self.connection.unacknowledged() == 0 { self.left.min(wanted as u64) as usize } else { 0 }
    }

    /// This many were written.
    fn advance(&mut self, written: usize) {
        if self.left != u64::MAX {
            self.left -= written as u64;
            if self.left == 0 {
                self.connection.end_unit();
            }
        }
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> usize {
        let mut sent = 0;
        while sent < bytes.len() {
            let allowed = self.allowed(bytes.len() - sent);
            let taken = self.connection.write(&bytes[sent..sent + allowed]);
            self.advance(taken);
            sent += taken;
            if taken == 0 || taken < allowed {
                break;
            }
        }
        sent
    }

    fn write_slice(&mut self, slice: Slice) -> Result<usize, PortError> {
        let mut sent = 0;
        while sent < slice.length {
            let most = (slice.length - sent).min(self.buffer.len() as u32).min(room(self.connection)) as usize;
            let length = self.allowed(most);
            let part = &mut self.buffer[..length];
            self.registry
                .copy_out(&slice.part(sent, length as u32), part, &mut NoDigest)
                .map_err(|_| memory(&slice))?;
            let taken = self.connection.write(part);
            self.advance(taken);
            sent += taken as u32;
            if taken == 0 {
                break;
            }
        }
        Ok(sent as usize)
    }
}

/// Makes the buffer, once.
fn make(buffer: &mut Box<[u8]>) {
    if buffer.is_empty() {
        *buffer = vec![0; PIECE].into_boxed_slice();
    }
}

fn memory(slice: &Slice) -> PortError {
    PortError::Memory(slice.region)
}

fn room(connection: &Connection) -> u32 {
    u32::try_from(connection.room()).unwrap_or(u32::MAX)
}

/// As much into a slice as a connection has.
fn read_slice(
    connection: &mut Connection,
    slice: Slice,
    registry: &Registry,
    buffer: &mut [u8],
) -> Result<usize, PortError> {
    let mut received = 0;
    while received < slice.length {
        let most = (slice.length - received).min(buffer.len() as u32) as usize;
        let length = connection.read(&mut buffer[..most]) as u32;
        if length == 0 {
            break;
        }
        let part = slice.part(received, length);
        registry.copy_in(&part, &buffer[..length as usize], &mut NoDigest).map_err(|_| memory(&slice))?;
        received += length;
    }
    Ok(received as usize)
}

impl Port for OwnPort {
    fn send(&mut self, pieces: &[Piece<'_>]) -> Result<usize, PortError> {
        self.write(pieces, &mut core::iter::empty())
    }

    fn receive(&mut self, pieces: &mut [ReceivePiece<'_>]) -> Result<Received, PortError> {
        for piece in &*pieces {
            if let ReceivePiece::Memory(slice) = piece {
                self.registry.resolve(slice).map_err(|_| memory(slice))?;
                make(&mut self.buffer);
            }
        }
        let mut stack = self.stack.lock();
        stack.drive();
        let stream = stack.stream(self.key)?;
        let mut received = 0;
        for piece in pieces {
            received += match piece {
                ReceivePiece::Staging(staging) => stream.connection.read(staging),
                ReceivePiece::Memory(slice) => {
                    read_slice(&mut stream.connection, *slice, &self.registry, &mut self.buffer)?
                }
            };
            if stream.connection.readable() == 0 {
                break;
            }
        }
        if received > 0 {
            // The window may be worth telling.
            stack.drive_stream(self.key);
            return Ok(Received::Bytes(received));
        }
        match stream.error() {
            _ if stream.connection.readable() > 0 => Ok(Received::Nothing),
            _ if stream.connection.is_finished() => Ok(Received::End),
            Some(error) => Err(error),
            None => Ok(Received::Nothing),
        }
    }

    fn poll_connected(&mut self) -> Result<bool, PortError> {
        let mut stack = self.stack.lock();
        stack.drive();
        let stream = stack.stream(self.key)?;
        stream.error().map_or_else(|| Ok(stream.is_open()), Err)
    }

    fn segment_size(&self) -> u32 {
        self.stack.lock().stream(self.key).map_or(536, |stream| stream.connection.segment_size() as u32)
    }

    fn local_address(&self) -> Result<SocketAddr, PortError> {
        Ok(self.local)
    }

    fn remote_address(&self) -> SocketAddr {
        self.remote
    }

    fn close_send(&mut self) {
        let mut stack = self.stack.lock();
        if let Ok(stream) = stack.stream(self.key)
            && stream.is_open()
        {
            stream.connection.close();
            stack.drive_stream(self.key);
        }
    }

    fn unacknowledged(&self) -> usize {
        let mut stack = self.stack.lock();
        stack.drive();
        let Ok(stream) = stack.stream(self.key) else { return 0 };
        let waits = matches!(stream.connection.state(), State::FinWait1 | State::Closing | State::LastAck);
        stream.connection.unacknowledged() as usize + usize::from(waits)
    }

    fn abort(&mut self) {
        self.stack.lock().abort(self.key);
    }
}

impl Segmented for OwnPort {
    fn send_units(&mut self, pieces: &[Piece<'_>], units: &mut dyn Iterator<Item = u32>) -> Result<usize, PortError> {
        self.write(pieces, units)
    }

    fn shows_segments(&self) -> bool {
        true
    }

    fn begin_segments(&mut self) -> Option<StreamPosition> {
        let mut stack = self.stack.lock();
        let position = stack.stream(self.key).ok()?.show_segments();
        Some(position)
    }

    fn receive_segments(&mut self, take: &mut dyn FnMut(StreamPosition, &[u8]) -> bool) -> Result<Received, PortError> {
        let ended = {
            let mut stack = self.stack.lock();
            stack.drive();
            let stream = stack.stream(self.key)?;
            stream.take_arrived(&mut self.arrived);
            let ended = (stream.connection.is_finished(), stream.error());
            if !self.arrived.is_empty() {
                // The window may be worth telling.
                stack.drive_stream(self.key);
            }
            ended
        };
        let length = self.arrived.length();
        if length > 0 {
            self.arrived.hand(take, &mut self.refused);
            self.hand_again(take);
            return Ok(Received::Bytes(length));
        }
        match ended {
            (true, _) => Ok(Received::End),
            (false, Some(error)) => Err(error),
            (false, None) => Ok(Received::Nothing),
        }
    }
}

impl Lending for OwnPort {}

impl Drop for OwnPort {
    fn drop(&mut self) {
        self.stack.lock().release(self.key);
    }
}

impl fmt::Debug for OwnPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnPort").field("local", &self.local).field("remote", &self.remote).finish_non_exhaustive()
    }
}

weft_base::either_port!(LinkPort { Host, Own });
