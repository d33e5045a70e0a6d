//! Which lower layer a network's streams have.

use weft_base::Network;

use super::choice::{Choice, Either};
use super::datagrams::Leaving;
use super::edge::Edge;
use super::edge::outbox::Outbox;
use super::io::Scratch;
use super::mpa::Mpa;
use super::mpa::staging::Pool;
use super::seam::{Datagrams, Lower};

/// Gives a tag of [`Network::Stack`] its meaning.
pub trait Stack<N: Network> {
    /// The lower layer of that network's connections.
    type Lower: Lower<N, Self::Scratch>;
    /// What that uses of an engine for itself.
    type Scratch: Scratch;
}

impl<N: Network> Stack<N> for weft_base::Iwarp {
    type Lower = Mpa<N::Port>;
    type Scratch = Pool;
}

impl<N: Network> Stack<N> for weft_base::Edge {
    type Lower = Edge;
    type Scratch = Outbox;
}

impl<N: Network> Stack<N> for weft_base::IwarpOrEdge {
    type Lower = Choice<N>;
    type Scratch = Either;
}

/// A network whose streams have a lower layer: each whose tag has a meaning.
pub trait Carrier: Network + Sized {
    /// The lower layer.
    type Lower: Lower<Self, Self::Scratch>;
    /// What it uses of an engine for itself.
    type Scratch: Scratch;
}

impl<N: Network> Carrier for N
where
    N::Stack: Stack<N>,
{
    type Lower = <N::Stack as Stack<N>>::Lower;
    type Scratch = <N::Stack as Stack<N>>::Scratch;
}

/// What answers at the datagram ports of a network's lower layer.
pub(crate) type AcceptorOf<N> = <<N as Carrier>::Lower as Datagrams<<N as Carrier>::Scratch>>::Acceptor;

/// A transmit batch of a network's lower layer, on its way out.
pub(crate) type LeavingOf<N> = <<N as Carrier>::Lower as Datagrams<<N as Carrier>::Scratch>>::Leaving;

/// A transmit batch of a network's lower layer.
pub(crate) type TxBatchOf<N> = <LeavingOf<N> as Leaving>::TxBatch;
