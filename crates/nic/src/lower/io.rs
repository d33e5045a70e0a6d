//! What a lower layer may use of its engine.

use weft_base::{Random, Time};
use weft_memory::Registry;

use super::datagrams::{DatagramPorts, Inbox};
use crate::counters::Counters;
use crate::settings::Settings;

/// Room that the connections of an engine use in turn, each while it is driven: a lower layer says which it needs.
pub trait Scratch: Default + Send {
    /// There are this many connections now.
    fn prepare(&mut self, _connections: usize) {}
}

/// None is needed.
impl Scratch for () {}

/// What a lower layer may use while it is driven.
pub struct Io<'a, S> {
    /// The lower layer's own room.
    pub scratch: &'a mut S,
    /// The engine's datagram ports.
    pub datagrams: &'a mut dyn DatagramPorts,
    /// Datagrams that have come for this connection, for a lower layer over datagram ports: it takes all of them
    /// whenever it is driven.
    pub inbox: Inbox<'a>,
    /// The memory that payload comes from and goes to.
    pub registry: &'a Registry,
    /// The NIC's settings.
    pub settings: &'a Settings,
    /// The engine's counters.
    pub counters: &'a mut Counters,
    /// Unguessable numbers, from the NIC's seed.
    pub random: &'a mut Random,
    /// The time of the present turn.
    pub now: Time,
    /// The number of that turn, modulo 2^32; that of the last one, between turns.
    pub turn: u32,
}
