//! Packets by rings at two interfaces: whatever Ethernet carries, whole frames.

use std::io;
use std::time::Duration;

use weft_base::Ecn;
use weft_driver::{InterfaceState, WaitSet};
use weft_emulate::Packet;
use weft_lab::RingPort;
use weft_scenario::Direction;

use crate::carrier::{Carrier, Losses, Taken};
use crate::ecn;

/// The header of Ethernet.
const ETHERNET: usize = 14;
/// Where the EtherType is, and those of IP.
const TYPE_AT: usize = 12;
const TYPES: [[u8; 2]; 2] = [[8, 0], [0x86, 0xdd]];

/// Two interfaces: what comes at one leaves at the other.
#[derive(Debug)]
pub(crate) struct RingCarrier {
    ports: [RingPort; 2],
    names: [String; 2],
}

impl RingCarrier {
    /// Opens both; forward is what comes at the first.
    pub(crate) fn open(names: [String; 2]) -> io::Result<Self> {
        let ports = [RingPort::open(&names[0])?, RingPort::open(&names[1])?];
        Ok(Self { ports, names })
    }
}

impl Carrier for RingCarrier {
    type Tag = ();
    const IP_AT: usize = ETHERNET;

    fn receive(&mut self, mut take: impl FnMut(Direction, Packet<()>, Taken)) -> io::Result<bool> {
        let mut more = false;
        for (port, direction) in self.ports.iter_mut().zip(Direction::ALL) {
            more |= port.receive(|bytes| {
                let is_ip = bytes.get(TYPE_AT..ETHERNET).is_some_and(|kind| TYPES.iter().any(|ip| ip == kind));
                let ecn = if is_ip { ecn::read(&bytes[ETHERNET..]) } else { Ecn::NotCapable };
                let length = bytes.len() - ETHERNET;
                take(direction, Packet { bytes, ecn, tag: () }, Taken { length, age: Duration::ZERO });
            });
        }
        Ok(more)
    }

    fn put_out(&mut self, direction: Direction, packet: Packet<()>, _: bool) -> io::Result<()> {
        let port = match direction {
            Direction::Forward => &mut self.ports[1],
            Direction::Reverse => &mut self.ports[0],
        };
        port.send(packet.bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait_in(&self, waits: &WaitSet) -> io::Result<()> {
        let mut ports = self.ports.iter().zip(0..);
        ports.try_for_each(|(port, key)| waits.add(port, key)).map_err(io::Error::other)
    }

    fn check(&mut self) -> io::Result<()> {
        for (port, name) in self.ports.iter_mut().zip(&self.names) {
            port.clear_error();
            if port.follow()? == InterfaceState::Gone {
                let words = format!("the interface {name} has gone; make it again, and begin anew");
                return Err(io::Error::new(io::ErrorKind::NotFound, words));
            }
        }
        Ok(())
    }

    fn losses(&self) -> Losses {
        let [a, b] = &self.ports;
        Losses { too_long: a.too_long() + b.too_long(), refused: a.refused() + b.refused(), overruns: 0 }
    }
}
