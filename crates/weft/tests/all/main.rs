//! The tests in one program: it is linked once. Those that depend on a limit, a fork or a count of the whole process
//! have their own.

mod callbacks;
mod channel;
mod closing;
mod connecting;
mod endpoint;
mod engines;
mod events;
mod halo;
mod hello;
mod operations;
mod sharing;
mod strangers;
mod stream;
mod window_layouts;

#[path = "../common/mod.rs"]
mod common;
#[path = "../ranks/mod.rs"]
mod ranks;
