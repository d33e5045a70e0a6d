//! Listeners for streams.

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use weft_nic::{Stream as NicStream, StreamWait};

use super::Stream;
use super::error::of_nic;
use crate::verbs::{Context, Opened};

/// Streams that may wait to be accepted, by default.
const BACKLOG: u32 = 128;

/// Listens for streams until it is dropped. Streams that are not accepted by then are reset.
pub struct StreamListener {
    opened: Arc<Opened>,
    listener: NicStream,
    is_nonblocking: AtomicBool,
}

impl StreamListener {
    /// Listens at an address: at that of the context's link by Weft's own TCP, else by the kernel's. Port number 0
    /// takes a free one. 128 streams may wait to be accepted.
    ///
    /// # Errors
    /// The address cannot be used (taken, not of this machine, not permitted), or a limit is reached.
    pub fn bind(context: &Context, address: SocketAddr) -> io::Result<Self> {
        Self::bind_with(context, address, BACKLOG)
    }

    /// The same; `backlog` streams may wait to be accepted.
    ///
    /// # Errors
    /// As [`StreamListener::bind`].
    pub fn bind_with(context: &Context, address: SocketAddr, backlog: u32) -> io::Result<Self> {
        let opened = Arc::clone(&context.opened);
        opened.may_wait().map_err(of_nic)?;
        let listener = opened.nic.listen_for_streams(address, backlog).map_err(of_nic)?;
        Ok(Self { opened, listener, is_nonblocking: AtomicBool::new(false) })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_address(&self) -> SocketAddr {
        self.listener.local_address()
    }

    /// Waits for a stream. Returns it, and the caller's address.
    ///
    /// # Errors
    /// A limit is reached, or the operating system refused; the listener stays open. `WouldBlock`: no call is waiting,
    /// after [`StreamListener::set_nonblocking`].
    pub fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        self.accept_until(None)
    }

    /// The same, at most for `timeout`.
    ///
    /// # Errors
    /// As [`StreamListener::accept`]; no peer connected in time.
    pub fn accept_timeout(&self, timeout: Duration) -> io::Result<(Stream, SocketAddr)> {
        self.accept_until(Instant::now().checked_add(timeout))
    }

    fn accept_until(&self, deadline: Option<Instant>) -> io::Result<(Stream, SocketAddr)> {
        let (nic, listener) = (&self.opened.nic, &self.listener);
        loop {
            self.opened.may_wait().map_err(of_nic)?;
            if let Some(stream) = nic.accept_stream(listener).map_err(of_nic)? {
                let remote = stream.remote_address();
                return Ok((Stream::new(Arc::clone(&self.opened), stream, true), remote));
            }
            if self.is_nonblocking.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if !nic.wait_stream(listener, StreamWait::Readable, left, || false) {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no call within the time limit"));
            }
        }
    }

    /// Whether [`StreamListener::accept`] fails with `WouldBlock` instead of waiting.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.is_nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    /// One stream after the other, for ever.
    #[must_use]
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming(self)
    }
}

/// The streams of a [`StreamListener`].
#[derive(Debug)]
pub struct Incoming<'a>(&'a StreamListener);

impl Iterator for Incoming<'_> {
    type Item = io::Result<Stream>;

    fn next(&mut self) -> Option<io::Result<Stream>> {
        Some(self.0.accept().map(|(stream, _)| stream))
    }
}

impl Drop for StreamListener {
    fn drop(&mut self) {
        let listener = self.listener.clone();
        self.opened.end(move |nic| nic.drop_stream_listener(&listener));
    }
}

impl fmt::Debug for StreamListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StreamListener").field(&self.local_address()).finish()
    }
}
