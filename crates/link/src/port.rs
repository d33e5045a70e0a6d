//! A stream: over this link by Weft's own TCP, or by the kernel.

use core::fmt;
use std::net::SocketAddr;

use slotmap::DefaultKey;
use weft_base::{NoDigest, Piece, Port, PortError, ReceivePiece, Received, Slice};
use weft_driver::HostPort;
use weft_memory::Registry;
use weft_tcp::{Connection, State};

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

/// A stream by Weft's own TCP. Dropped without [`Port::abort`], it closes gracefully, unless bytes that came were not
/// received: then it is reset.
pub struct OwnPort {
    stack: Shared,
    key: DefaultKey,
    registry: Registry,
    local: SocketAddr,
    remote: SocketAddr,
    buffer: Box<[u8]>,
}

impl OwnPort {
    pub(crate) fn new(stack: Shared, key: DefaultKey, registry: Registry) -> Result<Self, PortError> {
        let flow = *stack.lock().stream(key)?.connection.flow();
        let buffer = vec![0; PIECE].into_boxed_slice();
        Ok(Self { stack, key, registry, local: flow.local, remote: flow.remote, buffer })
    }

    pub(crate) const fn key(&self) -> DefaultKey {
        self.key
    }
}

fn memory(slice: &Slice) -> PortError {
    PortError::Memory(slice.region)
}

/// As much of a slice as a connection takes.
fn write_slice(
    connection: &mut Connection,
    slice: Slice,
    registry: &Registry,
    buffer: &mut [u8],
) -> Result<usize, PortError> {
    let mut sent = 0;
    while sent < slice.length {
        let length = (slice.length - sent).min(buffer.len() as u32).min(room(connection));
        let part = &mut buffer[..length as usize];
        registry.copy_out(&slice.part(sent, length), part, &mut NoDigest).map_err(|_| memory(&slice))?;
        let taken = connection.write(part);
        sent += taken as u32;
        if taken == 0 {
            break;
        }
    }
    Ok(sent as usize)
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
        for piece in pieces {
            if let Piece::Memory(slice) = piece {
                self.registry.resolve(slice).map_err(|_| memory(slice))?;
            }
        }
        let mut stack = self.stack.lock();
        stack.drive();
        let stream = stack.stream(self.key)?;
        if let Some(error) = stream.error() {
            return Err(error);
        }
        let mut sent = 0;
        for piece in pieces {
            let (taken, all) = match piece {
                Piece::Bytes(bytes) => (stream.connection.write(bytes), bytes.len()),
                Piece::Memory(slice) => {
                    let taken = write_slice(&mut stream.connection, *slice, &self.registry, &mut self.buffer)?;
                    (taken, slice.length as usize)
                }
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

    fn receive(&mut self, pieces: &mut [ReceivePiece<'_>]) -> Result<Received, PortError> {
        for piece in &*pieces {
            if let ReceivePiece::Memory(slice) = piece {
                self.registry.resolve(slice).map_err(|_| memory(slice))?;
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
