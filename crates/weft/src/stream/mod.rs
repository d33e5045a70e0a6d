//! Byte streams like those of [`std::net`], over a [`Context`]: sockets and RDMA share one NIC.
//!
//! With [`Context::with_link`] the two share one address and one TCP as well, Weft's own: a stream uses it to hosts on
//! that link, and a listener takes calls by it at the link's address. The peer may be any TCP: another Weft, or an
//! ordinary socket. Everything else, and all of another context, goes by the kernel's TCP. Port numbers are shared with
//! RDMA listeners: one number of an address is one or the other.
//!
//! The NIC acknowledges and retransmits, not the application: also while no thread is in a call of this module, except
//! with [`Progress::Caller`](crate::verbs::Progress), where nothing happens by itself. What was written and not
//! acknowledged when the last thing made from a context is dropped is still sent, for at most
//! [`Settings::close_timeout`](crate::verbs::Settings).
//!
//! An address of a link is not reached from itself. There is no descriptor to poll: with [`Stream::set_nonblocking`]
//! call again, or use [`Stream::wait`].
//!
//! # Errors
//! As of sockets, by their [`io::ErrorKind`]: `ConnectionRefused`, `ConnectionReset`, `TimedOut`, `AddrInUse`,
//! `AddrNotAvailable`, `HostUnreachable`, `PermissionDenied`, `NotConnected`, `BrokenPipe` (written after
//! [`Stream::shutdown`]), `WouldBlock`; `QuotaExceeded` where a limit of the NIC or the operating system is reached.
//! A time-out of [`Stream::set_read_timeout`] or [`Stream::set_write_timeout`] is `TimedOut`, where
//! [`std::net::TcpStream`] has `WouldBlock`.
//!
//! # Example
//! ```
//! use std::io::{Read, Write};
//! use std::net::Shutdown;
//! use weft::stream::{Stream, StreamListener};
//! use weft::verbs::Context;
//!
//! # fn main() -> std::io::Result<()> {
//! let context = Context::open().map_err(std::io::Error::other)?;
//! let listener = StreamListener::bind(&context, "127.0.0.1:0".parse().unwrap())?;
//! let mut caller = Stream::connect(&context, listener.local_address())?;
//! caller.write_all(b"hello")?;
//! caller.shutdown(Shutdown::Write)?;
//!
//! let (mut called, _) = listener.accept()?;
//! let mut text = String::new();
//! called.read_to_string(&mut text)?;
//! assert_eq!(text, "hello");
//! # Ok(())
//! # }
//! ```

mod error;
mod listener;

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use weft_base::Received;
use weft_nic::Stream as NicStream;

pub use listener::{Incoming, StreamListener};
pub use weft_nic::StreamWait;

use crate::verbs::{Context, Opened};

use error::of_nic;

/// No time-out.
const FOR_EVER: u64 = u64::MAX;

/// One end of a stream. Calls of several threads may run at the same time; [`Read`] and [`Write`] are there for a
/// reference, too.
///
/// Dropped, it closes in order: what was written is still sent. If bytes that came were not read, it is reset.
pub struct Stream {
    opened: Arc<Opened>,
    stream: NicStream,
    stands: AtomicBool,
    is_read_shut: AtomicBool,
    is_write_shut: AtomicBool,
    is_nonblocking: AtomicBool,
    /// In nanoseconds.
    read_timeout: AtomicU64,
    write_timeout: AtomicU64,
}

impl Stream {
    fn new(opened: Arc<Opened>, stream: NicStream, stands: bool) -> Self {
        Self {
            opened,
            stream,
            stands: AtomicBool::new(stands),
            is_read_shut: AtomicBool::new(false),
            is_write_shut: AtomicBool::new(false),
            is_nonblocking: AtomicBool::new(false),
            read_timeout: AtomicU64::new(FOR_EVER),
            write_timeout: AtomicU64::new(FOR_EVER),
        }
    }

    /// Connects, and waits as long as TCP is patient.
    ///
    /// # Errors
    /// No process listens there, the host does not answer, there is no route to it, or a limit is reached.
    pub fn connect(context: &Context, remote: SocketAddr) -> io::Result<Self> {
        let stream = Self::start_connect(context, remote, None)?;
        stream.wait_connected(None)?;
        Ok(stream)
    }

    /// Connects, and waits at most for `timeout`.
    ///
    /// # Errors
    /// As [`Stream::connect`]; `InvalidInput`: a time-out of zero.
    pub fn connect_timeout(context: &Context, remote: SocketAddr, timeout: Duration) -> io::Result<Self> {
        nanoseconds(Some(timeout))?;
        let stream = Self::start_connect(context, remote, None)?;
        stream.wait_connected(Some(timeout))?;
        Ok(stream)
    }

    /// Begins to connect, from `local` if that is given. Until the stream is established it is not connected for reads
    /// and writes.
    ///
    /// # Errors
    /// The address cannot be used, there is no route, or a limit is reached.
    pub fn start_connect(context: &Context, remote: SocketAddr, local: Option<SocketAddr>) -> io::Result<Self> {
        let opened = Arc::clone(&context.opened);
        opened.may_wait().map_err(of_nic)?;
        let stream = opened.nic.connect_stream(remote, local).map_err(of_nic)?;
        Ok(Self::new(opened, stream, false))
    }

    /// Waits until the stream is established, at most for `timeout` (`None`: as long as TCP is patient).
    ///
    /// # Errors
    /// The connect failed, or is not over in time.
    pub fn wait_connected(&self, timeout: Option<Duration>) -> io::Result<()> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if self.opened.nic.is_stream_connected(&self.stream).map_err(of_nic)? {
                self.stands.store(true, Ordering::Release);
                return Ok(());
            }
            self.wait_for(StreamWait::Writable, deadline, || false)?;
        }
    }

    /// The address of this end.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.stream.local_address()
    }

    /// The address of the other end.
    #[must_use]
    pub fn peer_address(&self) -> SocketAddr {
        self.stream.remote_address()
    }

    /// Ends a direction, or both. After [`Shutdown::Write`] the peer reads an end behind all that was written. After
    /// [`Shutdown::Read`] reads of this end find an end, those that wait too; the peer is not notified.
    ///
    /// # Errors
    /// The stream is not established yet.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.check_connected()?;
        if how != Shutdown::Write {
            self.is_read_shut.store(true, Ordering::SeqCst);
        }
        if how != Shutdown::Read && !self.is_write_shut.swap(true, Ordering::SeqCst) {
            self.opened.nic.close_stream_send(&self.stream).map_err(of_nic)?;
        }
        self.opened.nic.nudge();
        Ok(())
    }

    /// Breaks the stream at once; the peer sees a reset.
    pub fn abort(self) {
        self.opened.nic.drop_stream(&self.stream, true);
    }

    /// Bytes that were written and that the peer's host has not acknowledged, an end that was sent included. 0: the
    /// peer's host has all.
    ///
    /// # Errors
    /// This thread may not use the NIC.
    pub fn unacknowledged(&self) -> io::Result<usize> {
        self.opened.nic.unacknowledged_of_stream(&self.stream).map_err(of_nic)
    }

    /// How long a read waits. `None`, as at first: for ever.
    ///
    /// # Errors
    /// `InvalidInput`: zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.read_timeout.store(nanoseconds(timeout)?, Ordering::Relaxed);
        Ok(())
    }

    /// How long a write waits for room. `None`, as at first: for ever.
    ///
    /// # Errors
    /// `InvalidInput`: zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.write_timeout.store(nanoseconds(timeout)?, Ordering::Relaxed);
        Ok(())
    }

    /// Whether reads and writes fail with `WouldBlock` instead of waiting.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.is_nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    /// After a call that found nothing (`WouldBlock`): waits until it may find something, at most for `timeout`
    /// (`None`: for ever). Returns whether it may.
    pub fn wait(&self, wait: StreamWait, timeout: Option<Duration>) -> bool {
        self.opened.may_wait().is_ok() && self.opened.nic.wait_stream(&self.stream, wait, timeout, || false)
    }

    fn check_connected(&self) -> io::Result<()> {
        if self.stands.load(Ordering::Acquire) {
            return Ok(());
        }
        if self.opened.nic.is_stream_connected(&self.stream).map_err(of_nic)? {
            self.stands.store(true, Ordering::Release);
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::NotConnected, "the stream does not stand yet"))
    }

    /// A call has found nothing.
    fn pause(&self, wait: StreamWait, deadline: Option<Instant>, shut: &AtomicBool) -> io::Result<()> {
        if self.is_nonblocking.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.wait_for(wait, deadline, || shut.load(Ordering::SeqCst))
    }

    fn wait_for(&self, wait: StreamWait, deadline: Option<Instant>, over: impl Fn() -> bool) -> io::Result<()> {
        self.opened.may_wait().map_err(of_nic)?;
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if self.opened.nic.wait_stream(&self.stream, wait, left, over) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the peer or the network on the way did not answer in time"))
    }

    fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        self.check_connected()?;
        if into.is_empty() {
            return Ok(0);
        }
        let deadline = deadline(&self.read_timeout);
        while !self.is_read_shut.load(Ordering::SeqCst) {
            match self.opened.nic.receive_stream(&self.stream, into).map_err(of_nic)? {
                Received::Bytes(length) => return Ok(length),
                Received::End => break,
                Received::Nothing => self.pause(StreamWait::Readable, deadline, &self.is_read_shut)?,
            }
        }
        Ok(0)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.check_connected()?;
        let deadline = deadline(&self.write_timeout);
        while !self.is_write_shut.load(Ordering::SeqCst) {
            if bytes.is_empty() {
                return Ok(0);
            }
            match self.opened.nic.send_stream(&self.stream, bytes).map_err(of_nic)? {
                0 => self.pause(StreamWait::Writable, deadline, &self.is_write_shut)?,
                sent => return Ok(sent),
            }
        }
        Err(io::Error::new(io::ErrorKind::BrokenPipe, "nothing can be written after the stream was shut down"))
    }
}

fn nanoseconds(timeout: Option<Duration>) -> io::Result<u64> {
    match timeout {
        None => Ok(FOR_EVER),
        Some(Duration::ZERO) => Err(io::Error::new(io::ErrorKind::InvalidInput, "a time-out must be more than zero")),
        Some(timeout) => Ok(u64::try_from(timeout.as_nanos()).unwrap_or(FOR_EVER)),
    }
}

fn deadline(timeout: &AtomicU64) -> Option<Instant> {
    match timeout.load(Ordering::Relaxed) {
        FOR_EVER => None,
        nanoseconds => Instant::now().checked_add(Duration::from_nanos(nanoseconds)),
    }
}

impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.receive(into)
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.receive(into)
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)
    }

    /// Nothing is kept back: what was written leaves by itself.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let stream = self.stream.clone();
        self.opened.end(move |nic| nic.drop_stream(&stream, false));
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = (self.local_address(), self.peer_address());
        f.debug_struct("Stream").field("local", &ends.0).field("peer", &ends.1).finish_non_exhaustive()
    }
}
