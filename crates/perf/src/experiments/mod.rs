//! What is measured: tests of contestants, one file each, and tests with harnesses of their own.

pub(crate) mod all_to_all;
pub(crate) mod basic;
pub(crate) mod clusters;
pub(crate) mod connect;
pub(crate) mod cuts;
pub(crate) mod design;
pub(crate) mod disorder;
pub(crate) mod emulator;
pub(crate) mod fence;
pub(crate) mod idle;
pub(crate) mod in_order_tax;
pub(crate) mod isosurface;
pub(crate) mod links;
pub(crate) mod logp;
pub(crate) mod markers;
pub(crate) mod matching;
pub(crate) mod mpi;
pub(crate) mod mpi_clusters;
pub(crate) mod nas;
pub(crate) mod notified_put;
pub(crate) mod overlap;
pub(crate) mod ping_ping;
pub(crate) mod progress;
pub(crate) mod reordering;
pub(crate) mod slowdown;
pub(crate) mod split;
