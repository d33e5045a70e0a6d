//! The contestants, one file each.

pub(crate) mod carry;
pub(crate) mod emulator;
pub(crate) mod fetch;
pub(crate) mod iceoryx2;
pub(crate) mod isosurface;
pub(crate) mod libfabric;
pub(crate) mod logp;
pub(crate) mod matcher;
pub(crate) mod mpi;
pub(crate) mod outside;
pub(crate) mod overlap;
pub(crate) mod perftest;
pub(crate) mod quinn;
pub(crate) mod ring;
pub(crate) mod set_up;
pub(crate) mod sockets;
pub(crate) mod stream;
pub(crate) mod ucx;
pub(crate) mod weft;
