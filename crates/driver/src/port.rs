//! One TCP connection.

use core::fmt;
use core::time::Duration;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use socket2::Socket;
use weft_base::{Lending, Piece, Port, PortError, ReceivePiece, Received, Segmented, Time};
use weft_memory::Registry;

use crate::error::{from_number, port_error, would_block};
use crate::held::Held;
use crate::pulse::Pulse;
use crate::socket::{answers, disconnect, plain_address, round_trip, set_least, unacknowledged};
use crate::vectors::{PIECES, Vectors, receive_bytes, send_bytes};

/// The segment size of every IPv4 path (RFC 9293 section 3.7.1); used until the path's is known.
const SMALLEST_SEGMENT: u32 = 536;

/// The segment size is read from the kernel again after this many bytes sent: it grows with the window and follows the
/// path.
const SEGMENT_CHECK_BYTES: u64 = 1 << 20;

/// One TCP connection. Dropped without [`Port::abort`], it closes gracefully, unless received bytes were not read: then
/// the kernel resets it.
pub struct TcpPort {
    /// `None` once aborted.
    socket: Option<Held>,
    registry: Registry,
    remote: SocketAddr,
    connected: bool,
    /// The kernel reports an error once. It is kept here, so that bytes received before it can still be read and every
    /// later call returns it again.
    broken: Option<PortError>,
    segment_size: u32,
    sent_since_check: u64,
    /// With fewer bytes the kernel does not report the socket as readable.
    least: u32,
    pulse: Pulse,
}

impl TcpPort {
    pub(crate) fn connecting(
        socket: Held,
        registry: Registry,
        remote: SocketAddr,
        peer_timeout: Option<Duration>,
        broken: Option<PortError>,
    ) -> Self {
        Self {
            socket: Some(socket),
            registry,
            remote,
            connected: false,
            broken,
            segment_size: SMALLEST_SEGMENT,
            sent_since_check: 0,
            least: 1,
            pulse: Pulse::new(peer_timeout),
        }
    }

    pub(crate) fn accepted(
        socket: Held,
        registry: Registry,
        remote: SocketAddr,
        peer_timeout: Option<Duration>,
    ) -> Self {
        let mut port = Self::connecting(socket, registry, remote, peer_timeout, None);
        port.on_connected();
        port
    }

    /// The descriptor, for requests to the kernel that this type does not support.
    ///
    /// # Errors
    /// [`PortError::Reset`] once aborted.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, PortError> {
        Ok(self.socket()?.as_fd())
    }

    fn socket(&self) -> Result<&Socket, PortError> {
        self.socket.as_deref().ok_or(self.broken.unwrap_or(PortError::Reset))
    }

    fn on_connected(&mut self) {
        self.connected = true;
        self.check_segment_size();
    }

    fn check_segment_size(&mut self) {
        self.sent_since_check = 0;
        if let Some(size) = self.socket.as_ref().and_then(|socket| socket.tcp_mss().ok()) {
            self.segment_size = size.max(1);
        }
    }

    /// Sets [`Interest::least`](weft_base::Interest::least).
    pub(crate) fn set_least(&mut self, bytes: u32) {
        if bytes != self.least
            && let Some(socket) = &self.socket
        {
            set_least(socket, bytes);
            self.least = bytes;
        }
    }

    fn fail(&mut self, error: PortError) -> PortError {
        *self.broken.get_or_insert(error)
    }

    /// Sends one system call's worth of pieces. `Ok` has how many bytes were sent, and how many were given.
    fn send_some(&mut self, pieces: &[Piece<'_>]) -> Result<(usize, usize), PortError> {
        let mut outgoing: Vectors<'_> = Vectors::new();
        outgoing.gather(&self.registry, pieces)?;
        let bytes = outgoing.bytes();
        if bytes == 0 {
            return Ok((0, 0));
        }
        let sent = outgoing.send(self.descriptor()?);
        Ok((self.on_sent(sent)?, bytes))
    }

    #[inline]
    fn on_sent(&mut self, sent: Result<usize, i32>) -> Result<usize, PortError> {
        match sent {
            Ok(sent) => Ok(sent),
            Err(number) if would_block(number) => Ok(0),
            Err(number) => Err(self.fail(from_number(number))),
        }
    }

    /// This many bytes went out.
    fn count_sent(&mut self, sent: usize) {
        self.pulse.on_sent();
        self.sent_since_check += sent as u64;
        if self.sent_since_check >= SEGMENT_CHECK_BYTES {
            self.check_segment_size();
        }
    }

    /// Receives one system call's worth of pieces. `Ok` has what was received, and how many bytes there was room for.
    fn receive_some(&mut self, pieces: &mut [ReceivePiece<'_>]) -> Result<(Received, usize), PortError> {
        let mut incoming: Vectors<'_> = Vectors::new();
        incoming.scatter(&self.registry, pieces)?;
        let bytes = incoming.bytes();
        if bytes == 0 {
            return Ok((Received::Nothing, 0));
        }
        let received = incoming.receive(self.descriptor()?);
        Ok((self.on_received(received)?, bytes))
    }

    #[inline]
    fn on_received(&mut self, received: Result<usize, i32>) -> Result<Received, PortError> {
        match received {
            // After an error that a send has returned, the kernel reports the stream as ended.
            Ok(0) => self.broken.map_or(Ok(Received::End), Err),
            Ok(received) => Ok(Received::Bytes(received)),
            Err(number) if would_block(number) => self.broken.map_or(Ok(Received::Nothing), Err),
            Err(number) => Err(self.fail(from_number(number))),
        }
    }
}

impl Port for TcpPort {
    fn send(&mut self, pieces: &[Piece<'_>]) -> Result<usize, PortError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        if let [Piece::Bytes(bytes)] = pieces
            && !bytes.is_empty()
        {
            let sent = send_bytes(self.descriptor()?, bytes);
            let sent = self.on_sent(sent)?;
            self.count_sent(sent);
            return Ok(sent);
        }
        let mut sent = 0;
        for some in pieces.chunks(PIECES) {
            match self.send_some(some) {
                Ok((taken, bytes)) => {
                    sent += taken;
                    if taken < bytes {
                        break;
                    }
                }
                // The next call reports it.
                Err(_) if sent > 0 => break,
                Err(error) => return Err(error),
            }
        }
        self.count_sent(sent);
        Ok(sent)
    }

    fn receive(&mut self, pieces: &mut [ReceivePiece<'_>]) -> Result<Received, PortError> {
        if let [ReceivePiece::Staging(into)] = pieces
            && !into.is_empty()
        {
            let received = receive_bytes(self.descriptor()?, into);
            return self.on_received(received);
        }
        let mut total = 0;
        for some in pieces.chunks_mut(PIECES) {
            match self.receive_some(some) {
                Ok((Received::Bytes(received), bytes)) => {
                    total += received;
                    if received < bytes {
                        break;
                    }
                }
                Ok((Received::Nothing, 0)) => {}
                // The next call reports either.
                Ok(_) | Err(_) if total > 0 => break,
                Ok((nothing_or_end, _)) => return Ok(nothing_or_end),
                Err(error) => return Err(error),
            }
        }
        Ok(if total > 0 { Received::Bytes(total) } else { Received::Nothing })
    }

    fn poll_connected(&mut self) -> Result<bool, PortError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        if self.connected {
            return Ok(true);
        }
        let failure = self.socket()?.take_error().map_err(|error| port_error(&error))?;
        if let Some(error) = failure {
            return Err(self.fail(port_error(&error)));
        }
        // While it is connecting there is no error and no peer.
        if self.socket()?.peer_addr().is_ok() {
            self.on_connected();
        }
        Ok(self.connected)
    }

    fn check_peer(&mut self, now: Time) -> Result<(), PortError> {
        if !self.connected || !self.pulse.is_due() || self.broken.is_some() {
            return Ok(());
        }
        let Some(answers) = answers(self.socket()?) else { return Ok(()) };
        if self.pulse.is_lost(now, answers) { Err(self.fail(PortError::TimedOut)) } else { Ok(()) }
    }

    fn segment_size(&self) -> u32 {
        self.segment_size
    }

    fn local_address(&self) -> Result<SocketAddr, PortError> {
        let address = self.socket()?.local_addr().map_err(|error| port_error(&error))?;
        plain_address(&address).ok_or(PortError::System(libc::EAFNOSUPPORT))
    }

    fn remote_address(&self) -> SocketAddr {
        self.remote
    }

    fn close_send(&mut self) {
        // The FIN must be acknowledged as well.
        self.pulse.on_sent();
        if let Some(socket) = &self.socket {
            // It fails when the stream is broken, which the next call reports.
            let _ = socket.shutdown(std::net::Shutdown::Write);
        }
    }

    fn unacknowledged(&self) -> usize {
        match &self.socket {
            Some(socket) if self.broken.is_none() => unacknowledged(socket),
            _ => 0,
        }
    }

    fn round_trip(&self) -> Option<Duration> {
        round_trip(self.socket.as_ref()?)
    }

    fn abort(&mut self) {
        if let Some(socket) = self.socket.take() {
            // With a linger time of 0, closing sends a reset in place of unsent bytes (socket(7), RFC 9293 section
            // 3.10.5). Only the last close does, and a forked child may hold a copy for long: disconnecting resets at
            // once.
            let _ = socket.set_linger(Some(Duration::ZERO));
            disconnect(&socket);
        }
        self.fail(PortError::Reset);
    }
}

impl Segmented for TcpPort {}

impl Lending for TcpPort {}

impl fmt::Debug for TcpPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpPort")
            .field("remote", &self.remote)
            .field("connected", &self.connected)
            .field("broken", &self.broken)
            .finish_non_exhaustive()
    }
}
