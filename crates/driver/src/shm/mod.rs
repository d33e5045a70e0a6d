//! Shared memory between two processes of one host: a byte stream in each direction, without the kernel's network.
//!
//! A listener has, next to its TCP socket, a Unix socket with an abstract name made of the user and the address
//! ([`name`]). Such names belong to one network namespace, so a client that can connect to one is on the same host, in
//! the same namespace. The caller passes memory with a ring for each direction ([`memory`]), and may write to it at
//! once: the listener's program maps it when it runs, or breaks the stream if it cannot. Both sides check that the
//! other runs as the same user.
//!
//! From then on the socket carries wake-ups only, a byte each, and reports the other's end: the kernel closes it when a
//! process ends, for whatever reason. One socket serves both, because a call on it never blocks, whatever the other
//! side does with its end; with a passed eventfd(2) the other side would decide that. Children by fork(2) hold neither
//! the socket nor the mapping.

mod hello;
mod lending;
mod lending_words;
mod listener;
mod memory;
mod name;
mod passed;
mod places;
mod port;
mod process;
mod rings;
mod shared;

pub(crate) use listener::{ShmListener, connect};
pub(crate) use name::shown_name;
pub use port::ShmPort;

#[cfg(test)]
mod tests;
