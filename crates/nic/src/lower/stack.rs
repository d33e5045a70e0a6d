//! Which lower layer a network's streams have.

use weft_base::Network;

use super::choice::Choice;
use super::datagrams::Leaving;
use super::edge::Edge;
use super::mpa::Mpa;
use super::seam::Lower;

/// Gives a tag of [`Network::Stack`] its meaning.
pub trait Stack<N: Network> {
    /// The lower layer of that network's connections.
    type Lower: Lower<N>;
}

impl<N: Network> Stack<N> for weft_base::Iwarp {
    type Lower = Mpa<N::Port>;
}

impl<N: Network> Stack<N> for weft_base::Edge {
    type Lower = Edge;
}

impl<N: Network> Stack<N> for weft_base::IwarpOrEdge {
    type Lower = Choice<N>;
}

/// A network whose streams have a lower layer: each whose tag has a meaning.
pub trait Carrier: Network + Sized {
    /// The lower layer.
    type Lower: Lower<Self>;
}

impl<N: Network> Carrier for N
where
    N::Stack: Stack<N>,
{
    type Lower = <N::Stack as Stack<N>>::Lower;
}

/// A parcel of a network's lower layer, on its way out.
pub(crate) type LeavingOf<N> = <<N as Carrier>::Lower as Lower<N>>::Leaving;

/// A parcel of a network's lower layer.
pub(crate) type ParcelOf<N> = <LeavingOf<N> as Leaving>::Parcel;
