//! What brings packets and forwards them, and what may change them in flight.

use std::io;
use std::time::Duration;

use weft_base::Ecn;
use weft_driver::WaitSet;
use weft_emulate::Packet;
use weft_scenario::Direction;

/// What brings packets from two networks and takes them on to the other one.
pub(crate) trait Carrier {
    /// What it needs to know a packet again.
    type Tag: Clone;

    /// Where the header of IP begins in a packet's bytes.
    const IP_AT: usize;

    /// Takes packets in, a batch at most. Whether there may be more.
    fn receive(&mut self, take: impl FnMut(Direction, Packet<Self::Tag>, Taken)) -> io::Result<bool>;

    /// Takes a packet on. `is_changed`: its bytes are not those that came.
    fn put_out(&mut self, direction: Direction, packet: Packet<Self::Tag>, is_changed: bool) -> io::Result<()>;

    /// Does what was put off until a batch is there.
    fn flush(&mut self) -> io::Result<()>;

    /// Has `waits` report when something comes, with keys below 16.
    fn wait_in(&self, waits: &WaitSet) -> io::Result<()>;

    /// Sees to its interfaces, now and then, and when `waits` has reported something. An error: one is gone.
    fn check(&mut self) -> io::Result<()>;

    /// What was dropped because it was longer than the MTU, and what the kernel did not take or could not hand over.
    fn losses(&self) -> Losses;
}

/// What is known of a packet that was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// How many bytes of IP it has, of which only the first may be at hand.
    pub(crate) length: usize,
    /// How long ago the kernel got it; zero where the kernel does not say.
    pub(crate) age: Duration,
}

/// Packets that were lost beside those that the scenario wanted lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// Longer than the MTU.
    pub(crate) too_long: u64,
    /// Not taken by an interface or the kernel.
    pub(crate) refused: u64,
    /// Times at which the kernel had no room to hand over packets; it does not say how many.
    pub(crate) overruns: u64,
}

/// Something that changes packets in flight, once the link has released them.
pub(crate) trait Rewrite {
    /// Changes a packet or leaves it: its bytes from the header of IP on, and what the link has made of its bits of
    /// congestion notification. Whether it has changed it.
    fn rewrite(&mut self, ip: &mut [u8], ecn: Ecn) -> bool;
}
