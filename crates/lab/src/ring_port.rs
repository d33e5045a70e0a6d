//! An interface whose frames a process carries.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use weft_driver::{InterfaceState, PacketRing, RingFrame};

/// Frames that are taken from one port before the next has its turn.
const BATCH: usize = 64;
/// Ethernet's header, and a tag of a VLAN.
const FRAME_HEADER: usize = 18;
/// The header of Ethernet alone: what is shorter is no frame.
const SHORTEST: usize = 14;
/// Buffers that are kept to be used again.
const SPARE: usize = 1024;

/// A packet ring at an interface, as a switch in user space has it: it takes in what a wire would carry, and puts out
/// what the interface takes.
#[derive(Debug)]
pub struct RingPort {
    ring: PacketRing,
    interface: String,
    /// Buffers of frames that have gone.
    spare: Vec<Vec<u8>>,
    too_long: u64,
    refused: u64,
}

impl RingPort {
    /// Opens one, by the name of the interface.
    ///
    /// # Errors
    /// There is no such interface, or the capability CAP_NET_RAW is missing; the message says which.
    pub fn open(interface: &str) -> io::Result<Self> {
        let ring = PacketRing::open(interface)?;
        Ok(Self { ring, interface: interface.to_owned(), spare: Vec::new(), too_long: 0, refused: 0 })
    }

    /// Takes frames in, 64 at most. Whether there may be more.
    pub fn receive(&mut self, mut take: impl FnMut(Vec<u8>)) -> bool {
        let longest = self.ring.mtu() + FRAME_HEADER;
        for _ in 0..BATCH {
            let mut bytes = self.spare.pop().unwrap_or_default();
            match self.ring.receive(&mut bytes) {
                Some(RingFrame::Whole) if (SHORTEST..=longest).contains(&bytes.len()) => take(bytes),
                // One that the wire would not carry is lost on it.
                Some(_) => {
                    self.too_long += 1;
                    self.recycle(bytes);
                }
                None => {
                    self.recycle(bytes);
                    return false;
                }
            }
        }
        true
    }

    /// Puts a frame out. What the interface does not take is lost, as in a full queue or a cut cable.
    pub fn send(&mut self, bytes: Vec<u8>) {
        let is_sent = matches!(self.ring.send(&bytes), Ok(true));
        self.refused += u64::from(!is_sent);
        self.recycle(bytes);
    }

    /// Takes a buffer back, for a frame to come.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < SPARE {
            self.spare.push(bytes);
        }
    }

    /// Frames that were longer than the MTU, or meant to be cut by a device. They were dropped.
    #[must_use]
    pub const fn too_long(&self) -> u64 {
        self.too_long
    }

    /// Frames that the interface did not take: it is down, or its queue full.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Takes the error of an interface that went down, which is pending until then. It comes up again by itself.
    pub fn clear_error(&self) {
        // That an interface is down is what a cut link is like.
        let _ = self.ring.take_error();
    }

    /// What has become of the interface. One that was made anew is used from now on.
    ///
    /// # Errors
    /// It can't be used.
    pub fn follow(&mut self) -> io::Result<InterfaceState> {
        let state = self.ring.interface_state(&self.interface);
        if state == InterfaceState::Remade {
            self.ring.rebind(&self.interface)?;
        }
        Ok(state)
    }
}

impl AsFd for RingPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}
