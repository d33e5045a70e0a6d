//! One connection over shared memory.

use core::fmt;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::Socket;
use weft_base::{Interest, Lending, Lent, Piece, Port, PortError, ReceivePiece, Received, Segmented, Slice, Time};
use weft_memory::Registry;
use weft_ring::{Capacity, Rest, Violation};

use super::hello::{DECLINED, HELLO_BYTES, Hello};
use super::memory::{self, Mapping};
use super::name::is_of_this_host;
use super::rings::{CHUNK_BYTES, Rings, Side, Stop};
use crate::error::{from_number, would_block};
use crate::held::Held;
use crate::passing;
use crate::vectors::{PIECES, Vectors};

/// Bytes of the ring in each direction: one connection takes twice as much. Both stay in a second-level cache.
const CAPACITY: u32 = 128 << 10;
/// The largest rings of a caller that are accepted: with 16 MiB each ([`Capacity::MOST`]) a few callers could take all
/// memory of the machine.
const MOST_CAPACITY: u32 = CAPACITY;
/// There are no packets; segments are as long as loopback's.
const SEGMENT_SIZE: u32 = 65_483;
/// After this many empty polls the port checks whether the other side is still there.
const CHECK_AFTER: u32 = 256;
/// The maximum number of signals read from the socket at a time. A peer that sends more only causes spurious wake-ups.
const MOST_SIGNALS: usize = 512;

enum Stage {
    /// Waits for the hello.
    Accepting,
    /// The caller may write at once: as with TCP, the listener's program need not have run yet.
    Standing(Box<Rings>),
}

/// One connection over shared memory. Dropped without [`Port::abort`], it closes gracefully.
pub struct ShmPort {
    /// `None` once aborted.
    socket: Option<Held>,
    registry: Registry,
    stage: Stage,
    local: SocketAddr,
    remote: SocketAddr,
    broken: Option<PortError>,
    /// The other side's end of the socket is closed: all that it has written is in the ring.
    is_gone: bool,
    /// The other side has declined the memory.
    is_declined: bool,
    /// Consecutive empty polls.
    empty: u32,
    /// Whether the last send found too little room.
    was_short: bool,
}

impl ShmPort {
    /// A connection that starts on a connected socket of this user's.
    pub(super) fn connecting(
        socket: Held,
        registry: Registry,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<Self, PortError> {
        let capacity = Capacity::new(CAPACITY).ok_or(PortError::Exhausted)?;
        let memory = memory::make(capacity)?;
        let rings = Rings::new(Mapping::map(memory.as_fd(), capacity)?, Side::Connected);
        let hello = Hello { capacity, from: local, to: remote };
        passing::send_with(&socket, &hello.encode(), memory.as_fd()).map_err(from_number)?;
        Ok(Self::new(Some(socket), registry, Stage::Standing(Box::new(rings)), local, remote))
    }

    /// A connect to an address without a listener for shared memory.
    pub(super) fn refused(registry: Registry, remote: SocketAddr) -> Self {
        let unknown = SocketAddr::new(remote.ip(), 0);
        let mut port = Self::new(None, registry, Stage::Accepting, unknown, remote);
        port.broken = Some(PortError::NotShared);
        port
    }

    /// An accepted connection, before its hello.
    pub(super) fn accepted(socket: Held, registry: Registry, local: SocketAddr) -> Self {
        let unknown = SocketAddr::new(local.ip(), 0);
        Self::new(Some(socket), registry, Stage::Accepting, local, unknown)
    }

    fn new(socket: Option<Held>, registry: Registry, stage: Stage, local: SocketAddr, remote: SocketAddr) -> Self {
        Self {
            socket,
            registry,
            stage,
            local,
            remote,
            broken: None,
            is_gone: false,
            is_declined: false,
            empty: 0,
            was_short: false,
        }
    }

    /// The descriptor that becomes readable when this side is woken.
    ///
    /// # Errors
    /// [`PortError::Reset`] once aborted.
    pub(crate) fn descriptor(&self) -> Result<BorrowedFd<'_>, PortError> {
        Ok(self.socket()?.as_fd())
    }

    fn socket(&self) -> Result<&Socket, PortError> {
        self.socket.as_deref().ok_or(self.broken.unwrap_or(PortError::Reset))
    }

    fn fail(&mut self, error: PortError) -> PortError {
        *self.broken.get_or_insert(error)
    }

    fn caught(&mut self, _violation: Violation) -> PortError {
        self.fail(PortError::System(libc::EPROTO))
    }

    /// Arms the wake-up by the descriptor. Returns whether there is something to wait for: if not, there is something
    /// to do.
    pub(crate) fn sleep(&mut self, interest: Interest) -> bool {
        // Old signals: none may be read between the marks and the wait.
        self.drain();
        if self.is_gone || self.broken.is_some() {
            return false;
        }
        let Stage::Standing(rings) = &mut self.stage else { return true };
        let wakes = rings.settle();
        let least = interest.readable.then_some(interest.least as usize);
        let waits = rings
            .sleep_to_read(least)
            .and_then(|reads| Ok(reads & rings.sleep_to_write(interest.writable, self.was_short)?));
        // The next call finds the violation again, and reports it.
        self.empty = CHECK_AFTER;
        self.wake(wakes);
        waits.unwrap_or(false)
    }

    fn drain(&mut self) {
        if !matches!(self.stage, Stage::Standing(_)) {
            return;
        }
        let Some(socket) = &self.socket else { return };
        let mut has_failed = false;
        for _ in 0..MOST_SIGNALS {
            let mut signal = [0; 8];
            match passing::receive(socket, &mut signal) {
                Ok(0) => {
                    self.is_gone = true;
                    return;
                }
                Ok(_) if signal[0] == DECLINED => (self.is_declined, self.is_gone) = (true, true),
                Ok(_) => {}
                Err(number) if would_block(number) || has_failed => return,
                // It has closed its end without reading all; its last message is behind the error.
                Err(_) => (self.is_gone, has_failed) = (true, true),
            }
        }
    }

    fn wake(&self, is_due: bool) {
        if let Some(socket) = self.socket.as_ref().filter(|_| is_due) {
            // Where there is no room there are enough signals; where there is no peer, the next receive finds out.
            let _ = passing::send(socket, &[0]);
        }
    }

    /// Continues the set-up.
    fn go_on(&mut self) -> Result<bool, PortError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let outcome = match &self.stage {
            Stage::Standing(_) => return Ok(true),
            Stage::Accepting => self.take_hello(),
        };
        match outcome {
            Ok(stage) => self.stage = stage,
            Err(number) if would_block(number) => return Ok(false),
            Err(number) => {
                if let Some(socket) = &self.socket {
                    // The caller may fall back to another transport.
                    let _ = passing::send(socket, &[DECLINED]);
                }
                return Err(self.fail(from_number(number)));
            }
        }
        Ok(true)
    }

    fn take_hello(&mut self) -> Result<Stage, i32> {
        let socket = self.socket.as_ref().ok_or(libc::ECONNRESET)?;
        let mut bytes = [0; HELLO_BYTES];
        let (length, memory) = passing::receive_with(socket, &mut bytes)?;
        if length == 0 {
            return Err(libc::ECONNRESET);
        }
        let (Some(hello), Some(memory)) = (Hello::decode(&bytes[..length]), memory) else { return Err(libc::EPROTO) };
        // The address identifies a peer: it must be of this host, and call this host.
        let calls_this_host = hello.to.ip().is_unspecified() || is_of_this_host(hello.to.ip());
        if !is_of_this_host(hello.from.ip()) || !calls_this_host {
            return Err(libc::EPROTO);
        }
        // All of it is allocated from the start, so that no access fails later: a caller must not choose how much that
        // is.
        if hello.capacity.bytes() > MOST_CAPACITY as usize {
            return Err(libc::EPROTO);
        }
        let mapping = Mapping::map(memory.as_fd(), hello.capacity).map_err(|_| libc::EPROTO)?;
        self.remote = hello.from;
        if self.local.ip().is_unspecified() {
            self.local.set_ip(hello.to.ip());
        }
        Ok(Stage::Standing(Box::new(Rings::new(mapping, Side::Accepted))))
    }

    /// The number of readable bytes. Checked in this order so that everything that a process has written before it
    /// ended is seen.
    fn readable(&mut self) -> Result<(usize, Rest), PortError> {
        let Stage::Standing(rings) = &mut self.stage else { return Ok((0, Rest::Open)) };
        let mut found = rings.readable();
        if found == Ok((0, Rest::Open)) && self.check_gone() {
            let Stage::Standing(rings) = &mut self.stage else { return Ok((0, Rest::Open)) };
            found = rings.readable();
            if found == Ok((0, Rest::Open)) {
                self.drain();
                return Err(self.fail(self.why_gone()));
            }
        }
        found.map_err(|violation| self.caught(violation))
    }

    /// Why the other side is gone, as far as it has reported it.
    const fn why_gone(&self) -> PortError {
        if self.is_declined { PortError::Declined } else { PortError::Reset }
    }

    /// Whether the other side is gone, which is checked now and then.
    fn check_gone(&mut self) -> bool {
        self.empty += 1;
        if self.empty >= CHECK_AFTER && !self.is_gone {
            self.empty = 0;
            self.is_gone = self.socket.as_ref().is_none_or(|socket| passing::has_hung_up(socket));
        }
        self.is_gone
    }

    /// Nothing was written: there may never be room again. A side that only waits to send may not receive any more.
    #[cold]
    fn on_full(&mut self) -> Result<usize, PortError> {
        if self.check_gone() { Err(self.why_gone()) } else { Ok(0) }
    }

    fn send_some(&mut self, pieces: &[Piece<'_>]) -> Result<(usize, usize), PortError> {
        let mut outgoing: Vectors<'_> = Vectors::new();
        outgoing.gather(&self.registry, pieces)?;
        let Stage::Standing(rings) = &mut self.stage else { return Ok((0, outgoing.bytes())) };
        match rings.write(&outgoing) {
            Ok(moved) => {
                self.wake(moved.wakes);
                Ok((moved.bytes, outgoing.bytes()))
            }
            Err(stop) => Err(self.stopped(stop)),
        }
    }

    /// As a socket reports invalid memory: EFAULT.
    #[cold]
    fn stopped(&mut self, stop: Stop) -> PortError {
        self.fail(PortError::System(match stop {
            Stop::Violation => libc::EPROTO,
            Stop::Fault => libc::EFAULT,
        }))
    }

    fn receive_some(&mut self, pieces: &mut [ReceivePiece<'_>]) -> Result<(usize, usize), PortError> {
        let mut incoming: Vectors<'_> = Vectors::new();
        incoming.scatter(&self.registry, pieces)?;
        let Stage::Standing(rings) = &mut self.stage else { return Ok((0, incoming.bytes())) };
        match rings.read(&incoming) {
            Ok(moved) => {
                self.wake(moved.wakes);
                Ok((moved.bytes, incoming.bytes()))
            }
            Err(stop) => Err(self.stopped(stop)),
        }
    }

    /// Whether this process has the rings: a child by fork(2) does not.
    fn has_rings(&self) -> bool {
        matches!(&self.stage, Stage::Standing(rings) if rings.are_here())
    }
}

impl Port for ShmPort {
    fn send(&mut self, pieces: &[Piece<'_>]) -> Result<usize, PortError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        if self.is_gone {
            // What it has written can still be received.
            return Err(self.why_gone());
        }
        if let ([Piece::Bytes(bytes)], Stage::Standing(rings)) = (pieces, &mut self.stage)
            && bytes.len() <= CHUNK_BYTES
        {
            let written = rings.write_bytes(bytes);
            let moved = written.map_err(|violation| self.caught(violation))?;
            self.wake(moved.wakes);
            self.was_short = moved.bytes < bytes.len();
            return if moved.bytes == 0 { self.on_full() } else { Ok(moved.bytes) };
        }
        let mut sent = 0;
        self.was_short = false;
        for some in pieces.chunks(PIECES) {
            match self.send_some(some) {
                Ok((taken, bytes)) => {
                    sent += taken;
                    self.was_short = taken < bytes;
                    if taken < bytes {
                        break;
                    }
                }
                // The next call reports it.
                Err(_) if sent > 0 => break,
                Err(error) => return Err(error),
            }
        }
        if sent == 0 { self.on_full() } else { Ok(sent) }
    }

    fn receive(&mut self, pieces: &mut [ReceivePiece<'_>]) -> Result<Received, PortError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        if let ([ReceivePiece::Staging(into)], Stage::Standing(rings)) = (&mut *pieces, &mut self.stage)
            && let Ok((1..=CHUNK_BYTES, Rest::Open | Rest::End)) = rings.readable()
        {
            self.empty = 0;
            let moved = rings.read_bytes(into);
            self.wake(moved.wakes);
            return Ok(Received::Bytes(moved.bytes));
        }
        if matches!(self.stage, Stage::Accepting) && !self.go_on()? {
            return Ok(Received::Nothing);
        }
        let found = self.readable()?;
        match found {
            (_, Rest::Broken) => return Err(self.fail(PortError::Reset)),
            (0, Rest::End) => return Ok(Received::End),
            (0, Rest::Open) => return Ok(Received::Nothing),
            _ => self.empty = 0,
        }
        let mut total = 0;
        for some in pieces.chunks_mut(PIECES) {
            match self.receive_some(some) {
                Ok((received, bytes)) => {
                    total += received;
                    if received < bytes {
                        break;
                    }
                }
                // The next call reports it.
                Err(_) if total > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(if total > 0 { Received::Bytes(total) } else { Received::Nothing })
    }

    fn is_still(&mut self) -> bool {
        let Stage::Standing(rings) = &self.stage else { return false };
        // Now and then a receive checks whether the other side is still there.
        let is_still = self.broken.is_none() && !self.is_gone && rings.is_still() && self.empty + 1 < CHECK_AFTER;
        self.empty += u32::from(is_still);
        is_still
    }

    fn poll_connected(&mut self) -> Result<bool, PortError> {
        self.go_on()
    }

    fn check_peer(&mut self, _now: Time) -> Result<(), PortError> {
        // The next receive checks whether the other side is there. A program that is suspended is waited for, as over
        // TCP.
        self.empty = CHECK_AFTER;
        Ok(())
    }

    fn segment_size(&self) -> u32 {
        SEGMENT_SIZE
    }

    fn keeps_bytes(&self) -> bool {
        true
    }

    fn local_address(&self) -> Result<SocketAddr, PortError> {
        self.socket().map(|_| self.local)
    }

    fn remote_address(&self) -> SocketAddr {
        self.remote
    }

    fn close_send(&mut self) {
        if let Stage::Standing(rings) = &mut self.stage {
            let wakes = rings.end();
            self.wake(wakes);
        }
    }

    fn abort(&mut self) {
        if self.has_rings()
            && let Stage::Standing(rings) = &mut self.stage
        {
            rings.lender.revoke();
            // Closing the socket wakes.
            let _ = rings.abort();
        }
        self.socket = None;
        self.fail(PortError::Reset);
    }
}

impl Segmented for ShmPort {}

impl Lending for ShmPort {
    fn begin_borrowing(&mut self) -> bool {
        match (&mut self.stage, &self.socket) {
            (Stage::Standing(rings), Some(socket)) => rings.borrower.begin(socket),
            _ => false,
        }
    }

    fn can_lend(&mut self) -> bool {
        matches!(&self.stage, Stage::Standing(rings) if rings.lender.is_wanted())
    }

    fn lend(&mut self, slices: &[Slice], lent: &mut [Lent]) -> Result<(), PortError> {
        match (&mut self.stage, self.broken) {
            (_, Some(error)) => Err(error),
            (Stage::Standing(rings), None) => match rings.lender.lend(&self.registry, slices, lent) {
                Err(error) if !matches!(error, PortError::Memory(_)) => Err(self.fail(error)),
                lent => lent,
            },
            (Stage::Accepting, None) => Err(PortError::Reset),
        }
    }

    fn take_returned(&mut self) -> Result<usize, PortError> {
        for is_last_poll in [false, true] {
            let Stage::Standing(rings) = &mut self.stage else { return Ok(0) };
            if let Some(socket) = &self.socket {
                rings.lender.pass(socket);
            }
            let returned = rings.lender.take_returned();
            let has_lent = rings.lender.has_lent();
            match returned.map_err(|violation| self.caught(violation))? {
                0 if !has_lent => return Ok(0),
                0 if is_last_poll => return Err(self.fail(PortError::Reset)),
                0 if self.check_gone() => {}
                returned => return Ok(returned),
            }
        }
        Ok(0)
    }

    fn revoke(&mut self) {
        if self.has_rings()
            && let Stage::Standing(rings) = &self.stage
        {
            rings.lender.revoke();
        }
    }

    fn borrow_into(&mut self, lent: &[Lent], into: &[Slice]) -> Result<(), PortError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        let Stage::Standing(rings) = &mut self.stage else { return Err(PortError::Reset) };
        let copied = match rings.copy_lent(self.socket.as_deref(), &self.registry, lent, into) {
            // This side's memory: the stream is unaffected.
            Err(error @ PortError::Memory(_)) => return Err(error),
            Ok(()) => rings.borrower.give_back(),
            Err(error) => Err(error),
        };
        let wakes = copied.map_err(|error| self.fail(error))?;
        self.wake(wakes);
        Ok(())
    }
}

impl Drop for ShmPort {
    fn drop(&mut self) {
        self.revoke();
        if self.broken.is_none() && self.has_rings() {
            self.close_send();
        }
    }
}

impl fmt::Debug for ShmPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShmPort")
            .field("remote", &self.remote)
            .field("broken", &self.broken)
            .field("is_gone", &self.is_gone)
            .finish_non_exhaustive()
    }
}
