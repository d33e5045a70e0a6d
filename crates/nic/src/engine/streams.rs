//! Plain byte streams of the application, beside connections: sockets over the same network. Their bytes go straight
//! between the port and the caller's memory, under the engine's lock; the thread that runs the engine drives the
//! network below them, and wakes those that wait.

use core::sync::atomic::Ordering;
use std::net::SocketAddr;
use std::sync::Arc;

use slotmap::DefaultKey;
use weft_base::{Backlog, Clock, Interest, Listener as _, Piece, Port as _, PortError, ReceivePiece, Received};

use super::ports::{Owner, token};
use super::stream_table::{Signals, Watched};
use super::{Engine, EngineClient};
use crate::error::Error;
use crate::lower::Carrier;

/// Bytes that are copied at most under the engine's lock.
const MOST_AT_ONCE: usize = 256 << 10;
/// Nothing is waited for.
const NOTHING: Interest = Interest { readable: false, writable: false, least: 1 };

/// A new stream: its key, where the threads wait that use it, its two ends.
pub(crate) type Made = (DefaultKey, Arc<Signals>, SocketAddr, SocketAddr);

impl<N: Carrier, C: Clock, U: EngineClient> Engine<N, C, U> {
    /// Begins to connect a stream.
    pub(crate) fn connect_stream(&mut self, remote: SocketAddr, local: Option<SocketAddr>) -> Result<Made, Error> {
        self.check_room()?;
        let port = self.network.connect(remote, self.port_options(local))?;
        Ok(self.add_stream(port)?)
    }

    fn check_room(&self) -> Result<(), Error> {
        let limit = self.settings.limits.connections;
        let is_full = self.streams.open.len() + self.connections >= limit as usize;
        if is_full { Err(Error::Limit { name: "connections", limit: u64::from(limit) }) } else { Ok(()) }
    }

    fn add_stream(&mut self, port: N::Port) -> Result<Made, PortError> {
        let (local, remote) = (port.local_address()?, port.remote_address());
        let signals = Arc::new(Signals::default());
        let (ports, shown) = (&mut self.ports, Arc::clone(&signals));
        let key = self.streams.open.insert_with_key(|key| {
            let token = ports.add(Owner::Stream(key));
            Watched { port, token, wanted: NOTHING, signals: shown }
        });
        Ok((key, signals, local, remote))
    }

    fn stream(&mut self, key: DefaultKey) -> Result<&mut Watched<N::Port>, PortError> {
        self.streams.open.get_mut(key).ok_or(PortError::Reset)
    }

    /// Whether a stream is established; if it is not yet, it becomes writable when that has changed.
    pub(crate) fn is_stream_connected(&mut self, key: DefaultKey) -> Result<bool, PortError> {
        self.changed = true;
        let stands = self.stream(key)?.port.poll_connected()?;
        if !stands {
            self.watch_stream(key, Interest { writable: true, ..NOTHING })?;
        }
        Ok(stands)
    }

    /// Receives what is there; if nothing is, the stream is readable when that has changed.
    pub(crate) fn receive_stream(&mut self, key: DefaultKey, into: &mut [u8]) -> Result<Received, PortError> {
        self.changed = true;
        let most = into.len().min(MOST_AT_ONCE);
        let received = self.stream(key)?.port.receive(&mut [ReceivePiece::Staging(&mut into[..most])])?;
        if received == Received::Nothing {
            self.watch_stream(key, Interest { readable: true, ..NOTHING })?;
        }
        Ok(received)
    }

    /// Sends as much as there is room for; if there is none, the stream is writable when that has changed.
    pub(crate) fn send_stream(&mut self, key: DefaultKey, bytes: &[u8]) -> Result<usize, PortError> {
        self.changed = true;
        let most = bytes.len().min(MOST_AT_ONCE);
        let sent = self.stream(key)?.port.send(&[Piece::Bytes(&bytes[..most])])?;
        if sent == 0 {
            self.watch_stream(key, Interest { writable: true, ..NOTHING })?;
        }
        Ok(sent)
    }

    /// Waits at a stream for something more.
    fn watch_stream(&mut self, key: DefaultKey, more: Interest) -> Result<(), PortError> {
        let Self { streams, network, .. } = self;
        let Some(stream) = streams.open.get_mut(key) else { return Ok(()) };
        if more.readable {
            stream.signals.readable.store(false, Ordering::Release);
        }
        if more.writable {
            stream.signals.writable.store(false, Ordering::Release);
        }
        stream.wanted.readable |= more.readable;
        stream.wanted.writable |= more.writable;
        network.arm_port(&mut stream.port, token(stream.token), stream.wanted)
    }

    /// Nothing more will be sent.
    pub(crate) fn close_stream_send(&mut self, key: DefaultKey) {
        if let Ok(stream) = self.stream(key) {
            stream.port.close_send();
        }
    }

    /// Bytes that a stream's peer has not acknowledged, the end included.
    pub(crate) fn unacknowledged_of_stream(&mut self, key: DefaultKey) -> usize {
        self.stream(key).map_or(0, |stream| stream.port.unacknowledged())
    }

    /// No thread uses a stream any more: it closes by itself, or breaks if bytes that came were not received.
    pub(crate) fn drop_stream(&mut self, key: DefaultKey, abort: bool) {
        let Some(mut stream) = self.streams.open.remove(key) else { return };
        self.ports.remove(&[stream.token]);
        if abort {
            stream.port.abort();
        }
        self.event_count.turn();
    }

    // --- listeners

    /// Listens for streams.
    pub(crate) fn listen_for_streams(&mut self, address: SocketAddr, backlog: u32) -> Result<Made, Error> {
        let limit = self.settings.limits.listeners;
        if self.listeners + self.streams.listening.len() >= limit as usize {
            return Err(Error::Limit { name: "listeners", limit: u64::from(limit) });
        }
        let port = self.network.listen(address, Backlog(backlog), self.port_options(None))?;
        let local = port.local_address();
        let signals = Arc::new(Signals::default());
        let (ports, shown) = (&mut self.ports, Arc::clone(&signals));
        let key = self.streams.listening.insert_with_key(|key| {
            let token = ports.add(Owner::StreamListener(key));
            Watched { port, token, wanted: NOTHING, signals: shown }
        });
        Ok((key, signals, local, local))
    }

    /// The next stream that waits; if none does, the listener is readable when that has changed.
    pub(crate) fn accept_stream(&mut self, key: DefaultKey) -> Result<Option<Made>, Error> {
        self.changed = true;
        self.check_room()?;
        let Self { streams, network, .. } = self;
        let listening = streams.listening.get_mut(key).ok_or(Error::ListenerGone)?;
        if let Some(port) = listening.port.accept()? {
            return Ok(Some(self.add_stream(port)?));
        }
        listening.signals.readable.store(false, Ordering::Release);
        network.arm_listener(&listening.port, token(listening.token))?;
        Ok(None)
    }

    /// Listens no more. Streams that no program has accepted are reset.
    pub(crate) fn drop_stream_listener(&mut self, key: DefaultKey) {
        if let Some(listening) = self.streams.listening.remove(key) {
            self.ports.remove(&[listening.token]);
        }
    }

    // --- what the network reports

    pub(super) fn handle_stream(&mut self, key: DefaultKey, readable: bool, writable: bool) {
        let Self { streams, network, .. } = self;
        let Some(stream) = streams.open.get_mut(key) else { return };
        if readable {
            stream.wanted.readable = false;
            stream.signals.readable.store(true, Ordering::Release);
        }
        if writable {
            stream.wanted.writable = false;
            stream.signals.writable.store(true, Ordering::Release);
        }
        let wanted = stream.wanted;
        if (wanted.readable || wanted.writable)
            && network.arm_port(&mut stream.port, token(stream.token), wanted).is_err()
        {
            // A thread that waits finds out by itself what is wrong.
            stream.signals.readable.store(true, Ordering::Release);
            stream.signals.writable.store(true, Ordering::Release);
        }
        self.event_count.turn();
    }

    pub(super) fn handle_stream_listener(&mut self, key: DefaultKey) {
        if let Some(listening) = self.streams.listening.get(key) {
            listening.signals.readable.store(true, Ordering::Release);
            self.event_count.turn();
        }
    }
}
