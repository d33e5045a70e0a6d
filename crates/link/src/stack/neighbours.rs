//! Neighbours whose hardware addresses are wanted for frames that are not TCP's, the port numbers of these, and suspect
//! neighbours.

use core::time::Duration;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

use weft_base::{PortError, Time};

use super::{FIRST_DYNAMIC, NEIGHBOUR_PATIENCE, Stack};

/// A question is repeated after this time, when the answer is wanted again.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// Neighbours with a question in flight at a time, and frames that wait for each of them.
const ASKED: usize = 64;
const FRAMES: usize = 8;

/// A suspect neighbour is probed this often, in such steps (RFC 4861 section 10: MAX_UNICAST_SOLICIT and RETRANS_TIMER,
/// which is longer there); at most [`DOUBTED`] at a time.
const CONFIRMATIONS: u32 = 3;
const CONFIRM_AGAIN: Duration = Duration::from_millis(500);
const DOUBTED: usize = 64;

/// A neighbour that is said to be elsewhere.
pub(super) struct Doubt {
    address: IpAddr,
    asked: u32,
    next: Time,
}

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Neighbour {
    /// Its hardware address.
    Known([u8; 6]),
    /// It was sent a question; the frame leaves when it answers.
    Asked,
    /// It was sent a question, or ought to be, and there is no room for another frame.
    Full,
    /// It has not answered.
    Absent,
}

/// A neighbour with a question in flight.
pub(super) struct Asking {
    address: IpAddr,
    since: Time,
    asked: Time,
    frames: Vec<Vec<u8>>,
}

impl Stack {
    /// The hardware address of a neighbour. If it is not known, `frame` waits for it, in which it then takes the first
    /// six bytes.
    pub(crate) fn raw_neighbour(&mut self, address: IpAddr, frame: Vec<u8>) -> Neighbour {
        if let Some(hardware) = self.wire.link.hardware_of(address) {
            return Neighbour::Known(hardware);
        }
        let now = self.now();
        self.asking.retain(|asking| asking.address == address || now.since(asking.since) < NEIGHBOUR_PATIENCE);
        let Some(at) = self.asking.iter().position(|asking| asking.address == address) else {
            if self.asking.len() == ASKED {
                return Neighbour::Full;
            }
            self.asking.push(Asking { address, since: now, asked: now, frames: vec![frame] });
            self.ask_for(address);
            return Neighbour::Asked;
        };
        let asking = &mut self.asking[at];
        if now.since(asking.since) >= NEIGHBOUR_PATIENCE {
            self.asking.swap_remove(at);
            return Neighbour::Absent;
        }
        let is_again = now.since(asking.asked) >= ASK_AGAIN;
        if is_again {
            asking.asked = now;
        }
        let has_room = asking.frames.len() < FRAMES;
        if has_room {
            asking.frames.push(frame);
        }
        if is_again {
            self.ask_for(address);
        }
        if has_room { Neighbour::Asked } else { Neighbour::Full }
    }

    fn ask_for(&mut self, address: IpAddr) {
        let question = self.wire.link.question(address);
        self.wire.send_or_lose(&question);
    }

    /// Probes those that are suspect since the last frame.
    pub(super) fn doubt(&mut self, now: Time) {
        while let Some(address) = self.wire.link.poll_doubted() {
            // One more is believed to be where it was: a host that raised this many suspicions gains nothing by it.
            if self.doubts.len() < DOUBTED {
                self.doubts.push(Doubt { address, asked: 0, next: now });
                self.pursue_doubts(now);
            }
        }
    }

    /// A neighbour that does not confirm where it is, is forgotten: the next question is to all.
    pub(super) fn pursue_doubts(&mut self, now: Time) {
        let Self { doubts, wire, neighbour_changes, due, .. } = self;
        doubts.retain_mut(|doubt| {
            if !wire.link.is_doubted(doubt.address) {
                return false;
            }
            if doubt.next <= now {
                if doubt.asked == CONFIRMATIONS {
                    wire.link.forget(doubt.address);
                    neighbour_changes.fetch_add(1, Ordering::Release);
                    return false;
                }
                if let Some(question) = wire.link.confirmation(doubt.address) {
                    wire.send_or_lose(&question);
                }
                (doubt.asked, doubt.next) = (doubt.asked + 1, now + CONFIRM_AGAIN);
            }
            *due = [*due, Some(doubt.next)].into_iter().flatten().min();
            true
        });
    }

    /// A neighbour's hardware address was learned: what has waited for it leaves.
    pub(super) fn handle_neighbours(&mut self) {
        self.neighbour_changes.fetch_add(1, Ordering::Release);
        let Self { asking, wire, .. } = self;
        asking.retain_mut(|asking| {
            let Some(hardware) = wire.link.hardware_of(asking.address) else { return true };
            for frame in &mut asking.frames {
                frame[..6].copy_from_slice(&hardware);
                wire.send_or_lose(frame);
            }
            false
        });
    }

    /// Takes a port number of datagrams; 0 takes a free one.
    pub(crate) fn take_raw_port(&mut self, port: u16) -> Result<u16, PortError> {
        let is_free = |port: u16| !self.raw_ports.contains(&port);
        let port = match port {
            0 => {
                let mut random = [0; 2];
                getrandom::fill(&mut random).map_err(|_| PortError::Exhausted)?;
                let from = FIRST_DYNAMIC + u16::from_ne_bytes(random) % (u16::MAX - FIRST_DYNAMIC + 1);
                (from..=u16::MAX).chain(FIRST_DYNAMIC..from).find(|port| is_free(*port)).ok_or(PortError::Exhausted)?
            }
            port if is_free(port) => port,
            _ => return Err(PortError::AddressInUse),
        };
        self.raw_ports.push(port);
        Ok(port)
    }

    pub(crate) fn release_raw_port(&mut self, port: u16) {
        self.raw_ports.retain(|taken| *taken != port);
        self.raw_armed.retain(|(armed, _)| *armed != port);
    }
}
