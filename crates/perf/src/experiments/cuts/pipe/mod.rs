//! What carries messages from one process to another. All contestants differ in this alone: the messages, the window,
//! the checks and the clock are the same code.
//!
//! A sender has at most [`window`](ends::window) messages in flight: those that the receiver has not given back as a
//! credit, a count of all that it has taken. So no message comes for which there is no room, and the queue is always
//! full.

pub(crate) mod ends;
mod streams;
mod verbs;

use std::net::SocketAddr;

use crate::experiments::cuts::contestant::Contestant;
use crate::experiments::cuts::pipe::ends::{Receiving, Sending};
use weft_command::failure::Failure;
use weft_command::transport::Transport;

/// Listens at these addresses, one for each stream that the contestant has; `announce` gets the ports, in their order.
pub(crate) fn receiver(
    contestant: Contestant,
    at: &[SocketAddr],
    size: usize,
    announce: impl FnOnce(&[u16]) -> Result<(), Failure>,
) -> Result<Box<dyn Receiving>, Failure> {
    Ok(match contestant {
        Contestant::Edge => Box::new(verbs::Receiver::accept(Transport::Edge, first(at)?, size, announce)?),
        Contestant::Iwarp => Box::new(verbs::Receiver::accept(Transport::Iwarp, first(at)?, size, announce)?),
        Contestant::Mptcp | Contestant::Tcp => {
            Box::new(streams::Receiver::accept(contestant == Contestant::Mptcp, at, size, announce)?)
        }
    })
}

/// Connects to these addresses.
pub(crate) fn sender(contestant: Contestant, to: &[SocketAddr], size: usize) -> Result<Box<dyn Sending>, Failure> {
    Ok(match contestant {
        Contestant::Edge => Box::new(verbs::Sender::connect(Transport::Edge, first(to)?, size)?),
        Contestant::Iwarp => Box::new(verbs::Sender::connect(Transport::Iwarp, first(to)?, size)?),
        Contestant::Mptcp | Contestant::Tcp => Box::new(streams::Sender::connect(contestant == Contestant::Mptcp, to)?),
    })
}

fn first(addresses: &[SocketAddr]) -> Result<SocketAddr, Failure> {
    addresses.first().copied().ok_or_else(|| Failure::Usage("--at names no address".into()))
}
