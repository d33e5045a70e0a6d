//! What a network does to packets: delay, jitter, rate and queue, loss, reordering, duplication, corruption, partition,
//! MTU.
//!
//! A [`Link`] is one direction of a way from here to there. Packets go in with [`Link::send`] and come out, later or
//! never, with [`Link::deliver`]; [`Link::next_time`] says when to ask. There is no clock and no socket: the time is
//! handed in, and all chance comes from one seed, so the same calls give the same packets. `weft-simulate` drives links
//! in virtual time; a process between real interfaces would drive them with the machine's clock.
//!
//! A link gives out the packets that went in. What cuts packets or joins them on the way (a middlebox) would stand
//! between two links.
#![forbid(unsafe_code)]

mod chance;
mod link;
mod queue;
mod settings;
mod statistics;
#[cfg(test)]
mod tests;

pub use chance::{Chance, Loss};
pub use link::{Admission, Link, Packet};
pub use settings::{Delayed, Mtu, Queue, Settings};
pub use statistics::Statistics;
