//! A stream by Weft's own TCP.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use weft::verbs::LinkSettings;
use weft_base::{Backlog, Listener, Network, Piece, Port, PortError, PortOptions, ReceivePiece, Received};
use weft_link::{LinkListener, LinkNetwork, LinkPort};
use weft_memory::{Limits, Registry};

use crate::contestants::stream::end::StreamEnd;
use crate::model::job::Role;

/// How long the other side may take to come.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the last acknowledgements may take: one that is delayed takes at most 200 ms.
const LAST: Duration = Duration::from_millis(250);

pub(crate) struct Own {
    network: LinkNetwork,
    listener: Option<LinkListener>,
    port: Option<LinkPort>,
}

fn failed(error: PortError) -> io::Error {
    io::Error::other(error.to_string())
}

impl Own {
    pub(crate) fn new(link: &LinkSettings, role: Role) -> io::Result<Self> {
        let address = link.first().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let mut network = LinkNetwork::with_link(Registry::new(1, Limits::default()), link.clone())?;
        let at = SocketAddr::new(address, 0);
        let listener = match role {
            Role::Passive => Some(network.listen(at, Backlog(1), PortOptions::default()).map_err(failed)?),
            Role::Active => None,
        };
        Ok(Self { network, listener, port: None })
    }

    /// Lets the network work until `done` has a value.
    fn until<T>(&mut self, mut done: impl FnMut(&mut Self) -> io::Result<Option<T>>) -> io::Result<T> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(value) = done(self)? {
                return Ok(value);
            }
            self.network.wait(Some(Duration::from_millis(1)), &mut Vec::new()).map_err(failed)?;
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    fn port(&mut self) -> io::Result<&mut LinkPort> {
        self.port.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl StreamEnd for Own {
    fn port(&self) -> u16 {
        self.listener.as_ref().map_or(0, |listener| listener.local_address().port())
    }

    fn open(&mut self, remote: Option<SocketAddr>) -> io::Result<()> {
        if let Some(remote) = remote {
            self.port = Some(self.network.connect(remote, PortOptions::default()).map_err(failed)?);
            return self.until(|own| Ok(own.port()?.poll_connected().map_err(failed)?.then_some(())));
        }
        let accepted = self.until(|own| match &mut own.listener {
            Some(listener) => listener.accept().map_err(failed),
            None => Err(io::ErrorKind::NotConnected.into()),
        })?;
        self.port = Some(accepted);
        Ok(())
    }

    fn finish(&mut self) {
        let until = Instant::now() + LAST;
        while Instant::now() < until {
            let _ = self.network.wait(Some(Duration::from_millis(1)), &mut Vec::new());
        }
    }
}

impl Read for Own {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.port()?.receive(&mut [ReceivePiece::Staging(buffer)]).map_err(failed)? {
            Received::Bytes(count) => Ok(count),
            Received::Nothing => Err(io::ErrorKind::WouldBlock.into()),
            Received::End => Ok(0),
        }
    }
}

impl Write for Own {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.port()?.send(&[Piece::Bytes(bytes)]).map_err(failed)? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            count => Ok(count),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
