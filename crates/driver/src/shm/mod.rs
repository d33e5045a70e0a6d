//! Shared memory between two processes of one host: a byte stream each way, past the kernel's network.
//!
//! A listener has, beside its TCP socket, a Unix socket with an abstract name that says the user and the address
//! ([`name`]). Such names are those of one network namespace, so who can connect to one is on the same host, in the
//! same namespace. Who connects passes memory with a ring each way ([`memory`]), and may write to it at once: the
//! listener's program maps it when it runs, or breaks the stream if it can't. Both sides check that the other runs as
//! the same user.
//!
//! From there on the socket carries wake-ups only, a byte each, and tells of the other's end: the kernel closes it
//! when a process ends, however that happens. A socket is used for both because a call on it never blocks, whatever
//! the other side does with its end; with an eventfd(2) that is passed around, the other side decides that. Children
//! by fork(2) hold neither the socket nor the mapping.

mod door;
mod hello;
mod lending;
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
