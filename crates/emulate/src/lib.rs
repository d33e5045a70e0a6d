//! What a network does to packets: delay and its distribution, rate and queue, loss, reordering, duplication,
//! corruption, partition, MTU.
//!
//! A [`Link`] is one direction of a way from here to there. Packets go in with [`Link::send`] and come out, later or
//! never, with [`Link::deliver`]; [`Link::next_time`] says when to ask. There is no clock and no socket: the time is
//! handed in, and all chance comes from one seed, so the same calls give the same packets. `weft-simulate` drives links
//! in virtual time; `weft-lab` and `weft-wan` drive them with the machine's clock.
//!
//! Times are logical: a packet that goes through several links is handed to each at the time at which the one before
//! let it go ([`Link::deliver_timed`]), not at which it was polled. So lateness does not add up along a chain, and the
//! fate of a packet depends on when it was sent and on nothing that the machine does meanwhile.
//!
//! A link gives out the packets that went in. What cuts packets or joins them in flight (a middlebox) would be between
//! two links.
#![forbid(unsafe_code)]

mod chance;
mod codel;
mod link;
mod math;
mod profile;
mod queue;
mod schedule;
mod settings;
mod spread;
mod statistics;
#[cfg(test)]
mod tests;
mod trace;

pub use chance::{Chance, Loss};
pub use codel::CoDel;
pub use link::{Admission, Link, Packet};
pub use profile::Profile;
pub use settings::{Delayed, Mtu, Queue, Settings};
pub use spread::{DelayTable, FileError, LONGEST_SPREAD, Spread, TABLE_DELAYS};
pub use statistics::Statistics;
pub use trace::{RateTrace, TRACE_LINES};
