//! Plain byte streams of the application, as the layers above hold them: sockets that share the NIC's network with its
//! connections. No call here blocks but [`Nic::wait_stream`].

use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use slotmap::DefaultKey;
use weft_base::{Clock, Received};

use crate::engine::stream_table::Signals;
use crate::engine::streams::Made;
use crate::error::Error;
use crate::lower::Carrier;
use crate::nic::Nic;

/// A plain byte stream of a NIC, or a listener for such. It is there until [`Nic::drop_stream`] or
/// [`Nic::drop_stream_listener`]; clones are the same one.
#[derive(Clone, Debug)]
pub struct Stream {
    pub(crate) worker: usize,
    pub(crate) key: DefaultKey,
    signals: Arc<Signals>,
    local: SocketAddr,
    remote: SocketAddr,
}

/// What to wait for at a [`Stream`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamWait {
    /// Bytes, an end, an error; at a listener a caller. To be waited for after a call that found nothing.
    Readable,
    /// Room to send, or the end of a connect. To be waited for after a call that found none.
    Writable,
}

impl Stream {
    fn new(worker: usize, (key, signals, local, remote): Made) -> Self {
        Self { worker, key, signals, local, remote }
    }

    /// The address of this end.
    #[must_use]
    pub const fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// The address of the other end; a listener's own.
    #[must_use]
    pub const fn remote_address(&self) -> SocketAddr {
        self.remote
    }

    fn is_ready(&self, wait: StreamWait) -> bool {
        match wait {
            StreamWait::Readable => self.signals.is_readable(),
            StreamWait::Writable => self.signals.is_writable(),
        }
    }
}

impl<N: Carrier, C: Clock + Clone> Nic<N, C> {
    /// Begins to connect a plain stream. `local`: the address to connect from, if not any.
    ///
    /// # Errors
    /// A limit is reached, the address cannot be used, or the operating system refused.
    pub fn connect_stream(&self, remote: SocketAddr, local: Option<SocketAddr>) -> Result<Stream, Error> {
        self.check_callable()?;
        let worker = self.least_loaded();
        let made = worker.command().connect_stream(remote, local)?;
        Ok(Stream::new(worker.index, made))
    }

    /// Whether a stream is established. If it is not yet, wait until it is writable.
    ///
    /// # Errors
    /// The connect failed.
    pub fn is_stream_connected(&self, stream: &Stream) -> Result<bool, Error> {
        self.check_callable()?;
        Ok(self.worker_at(stream.worker).command().is_stream_connected(stream.key)?)
    }

    /// Receives what is there, 256 KiB at most.
    ///
    /// # Errors
    /// The stream is broken.
    pub fn receive_stream(&self, stream: &Stream, into: &mut [u8]) -> Result<Received, Error> {
        self.check_callable()?;
        Ok(self.worker_at(stream.worker).command().receive_stream(stream.key, into)?)
    }

    /// Sends as much as there is room for, 256 KiB at most. Returns how much.
    ///
    /// # Errors
    /// The stream is broken.
    pub fn send_stream(&self, stream: &Stream, bytes: &[u8]) -> Result<usize, Error> {
        self.check_callable()?;
        Ok(self.worker_at(stream.worker).command().send_stream(stream.key, bytes)?)
    }

    /// Sends what was taken, then the end. Receiving continues.
    ///
    /// # Errors
    /// This thread may not use the NIC.
    pub fn close_stream_send(&self, stream: &Stream) -> Result<(), Error> {
        self.check_callable()?;
        self.worker_at(stream.worker).command().close_stream_send(stream.key);
        Ok(())
    }

    /// Bytes that were taken and that the peer's host has not acknowledged, the end of the stream included.
    ///
    /// # Errors
    /// This thread may not use the NIC.
    pub fn unacknowledged_of_stream(&self, stream: &Stream) -> Result<usize, Error> {
        self.check_callable()?;
        Ok(self.worker_at(stream.worker).command().unacknowledged_of_stream(stream.key))
    }

    /// Gives a stream up: with `abort` it is reset, else it closes in order, or is reset if bytes that came were not
    /// received. Does nothing in a callback.
    pub fn drop_stream(&self, stream: &Stream, abort: bool) {
        if self.check_callable().is_ok() {
            self.worker_at(stream.worker).command().drop_stream(stream.key, abort);
        }
    }

    /// Listens for plain streams, of which `backlog` may wait to be accepted.
    ///
    /// # Errors
    /// A limit is reached, or the address cannot be used.
    pub fn listen_for_streams(&self, address: SocketAddr, backlog: u32) -> Result<Stream, Error> {
        self.check_callable()?;
        Ok(Stream::new(0, self.worker_at(0).command().listen_for_streams(address, backlog)?))
    }

    /// The next stream that waits to be accepted, if one does.
    ///
    /// # Errors
    /// A limit is reached, or the operating system refused; the listener remains.
    pub fn accept_stream(&self, listener: &Stream) -> Result<Option<Stream>, Error> {
        self.check_callable()?;
        let made = self.worker_at(listener.worker).command().accept_stream(listener.key)?;
        Ok(made.map(|made| Stream::new(listener.worker, made)))
    }

    /// Stops listening. Does nothing in a callback.
    pub fn drop_stream_listener(&self, listener: &Stream) {
        if self.check_callable().is_ok() {
            self.worker_at(listener.worker).command().drop_stream_listener(listener.key);
        }
    }

    /// Waits until a stream is ready, `over`, or `timeout` has passed (`None`: for ever), and runs the NIC meanwhile if
    /// no other thread does. Returns whether it is ready or `over`.
    pub fn wait_stream(
        &self,
        stream: &Stream,
        wait: StreamWait,
        timeout: Option<Duration>,
        over: impl Fn() -> bool,
    ) -> bool {
        self.wait_until(timeout, || stream.is_ready(wait) || over())
    }
}
