//! The frames of the interface.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};

use weft_driver::{FrameTest, PacketRing, RingFrame};
use weft_tcp::{EthernetLink, LinkError};

/// Neighbours whose hardware addresses are remembered.
const NEIGHBOURS: usize = 1024;

/// What tells the frames of ARP.
pub(super) const ARP: [FrameTest; 1] = [FrameTest::Half(12, 0x0806)];

/// What tells those that carry TCP over IPv4 to an address.
pub(super) const fn tcp_to(address: Ipv4Addr) -> [FrameTest; 3] {
    [FrameTest::Half(12, 0x0800), FrameTest::Byte(23, 6), FrameTest::Word(30, address.to_bits())]
}

/// The ring, the address, and a frame that had no room.
pub(crate) struct Wire {
    ring: PacketRing,
    pub(super) link: EthernetLink,
    out: Vec<u8>,
    /// Bytes of `out` that are a frame which waits for room.
    waiting: usize,
}

impl Wire {
    /// Frames are at most so long.
    pub(super) fn new(ring: PacketRing, address: Ipv4Addr, longest: usize) -> Self {
        let link = EthernetLink::new(ring.hardware(), address, NEIGHBOURS);
        Self { ring, link, out: vec![0; longest], waiting: 0 }
    }

    pub(super) fn has_frame(&self) -> bool {
        self.ring.has_frame()
    }

    pub(super) fn receive(&mut self, frame: &mut Vec<u8>) -> Option<RingFrame> {
        self.ring.receive(frame)
    }

    /// Sends what has waited. False: there is still no room.
    pub(super) fn flush(&mut self) -> bool {
        if self.waiting > 0 {
            // What a broken interface does not send is lost, as on any way.
            let is_full = matches!(self.ring.send(&self.out[..self.waiting]), Ok(false));
            if !is_full {
                self.waiting = 0;
            }
        }
        self.waiting == 0
    }

    /// Sends a frame that `emit` writes. To be called when [`Wire::flush`] has said so. What has no room waits.
    pub(super) fn send(&mut self, emit: impl FnOnce(&EthernetLink, &mut [u8]) -> Result<usize, LinkError>) {
        if let Ok(length) = emit(&self.link, &mut self.out) {
            self.waiting = length;
            self.flush();
        }
    }

    /// Sends a frame that is lost when there is no room.
    pub(super) fn send_or_lose(&self, frame: &[u8]) {
        let _ = self.ring.send(frame);
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}
