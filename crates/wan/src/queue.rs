//! Packets by the kernel's packet queues (NFQUEUE): behind the routing decision of a router between two IP networks.
//!
//! The kernel keeps the packets; so super-packets pass whole where nothing is about single packets, and nothing of them
//! is copied.

use std::io;

use weft_driver::WaitSet;
use weft_emulate::Packet;
use weft_lab::{KeptPacket, PacketQueues, QueueError, QueueNeeds, QueuedPacket};
use weft_scenario::{Direction, Scenario};

use crate::carrier::{Carrier, Losses, Taken};
use crate::ecn;

/// Buffers that are kept to be used again.
const SPARE: usize = 1024;

/// Two queues, one for each direction.
#[derive(Debug)]
pub(crate) struct QueueCarrier {
    packets: PacketQueues,
    /// The numbers of the queues.
    queues: [u16; 2],
    spare: Vec<Vec<u8>>,
}

impl QueueCarrier {
    /// Becomes the reader of two queues, forward and reverse, for such a scenario.
    pub(crate) fn open(queues: [u16; 2], scenario: &Scenario) -> Result<Self, QueueError> {
        let (whole_packets, single_packets) = (scenario.changes_packets(), scenario.needs_single_packets());
        let packets = PacketQueues::open(&queues, QueueNeeds { whole_packets, single_packets })?;
        Ok(Self { packets, queues, spare: Vec::new() })
    }

    fn recycle(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < SPARE {
            self.spare.push(bytes);
        }
    }
}

impl Carrier for QueueCarrier {
    type Tag = KeptPacket;
    const IP_AT: usize = 0;

    fn receive(&mut self, mut take: impl FnMut(Direction, Packet<KeptPacket>, Taken)) -> io::Result<bool> {
        let Self { packets, queues, spare } = self;
        packets.receive(|QueuedPacket { queue, age, bytes, length, kept, .. }| {
            let direction = if queue == queues[0] { Direction::Forward } else { Direction::Reverse };
            let mut own = spare.pop().unwrap_or_default();
            own.clear();
            own.extend_from_slice(bytes);
            take(direction, Packet { ecn: ecn::read(&own), bytes: own, tag: kept }, Taken { length, age });
        })
    }

    fn put_out(&mut self, _: Direction, packet: Packet<KeptPacket>, is_changed: bool) -> io::Result<()> {
        let Packet { bytes, tag, .. } = packet;
        self.packets.release(tag, is_changed.then_some(&bytes[..]))?;
        self.recycle(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.packets.flush()
    }

    fn wait_in(&self, waits: &WaitSet) -> io::Result<()> {
        waits.add(&self.packets, 0).map_err(io::Error::other)
    }

    fn check(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn losses(&self) -> Losses {
        Losses { too_long: 0, refused: self.packets.refused(), overruns: self.packets.overruns() }
    }
}
