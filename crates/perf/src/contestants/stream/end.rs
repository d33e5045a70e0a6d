//! What a TCP in user space does for its contestant.

use std::io;
use std::net::SocketAddr;

/// A stream of whole processes: where it is made, and then read and written without ever blocking.
pub(crate) trait StreamEnd: io::Read + io::Write {
    /// The port at which it listens.
    fn port(&self) -> u16;

    /// Takes a call, or makes one.
    fn open(&mut self, remote: Option<SocketAddr>) -> io::Result<()>;

    /// Goes on until the peer has all, and knows that this side has all.
    fn finish(&mut self);
}
