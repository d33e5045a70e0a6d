//! Packets by the kernel's packet queues (NFQUEUE): behind the routing decision of a router between two IP networks.
//!
//! The kernel keeps the packets. What comes here is a number and as many bytes as are needed, and what goes back is a
//! verdict; so super-packets pass whole where nothing is about single packets, and nothing of them is copied.

use std::cell::RefCell;
use std::io::{self, Read};
use std::mem;
use std::rc::Rc;

use socket2::{Domain, Protocol, Socket, Type};
use weft_driver::WaitSet;
use weft_emulate::Packet;
use weft_scenario::{Direction, Scenario};

use crate::carrier::{Carrier, Losses};
use crate::ecn;
use crate::netlink::{self, Configuration, Heard, Queued};

/// Packets that are taken in before others have their turn.
const BATCH: usize = 64;
/// Bytes of verdicts that are sent in one call.
const VERDICTS: usize = 16 << 10;
/// The largest packet, and what netlink puts around it.
const LARGEST_MESSAGE: usize = 68 << 10;
/// What is copied where nothing changes packets: the headers of IP.
const HEADERS: u32 = 64;
/// All of a packet, as long as the kernel hands over.
const WHOLE: u32 = 65_531;
/// Packets that may wait for a verdict, in each direction.
const WAITING: u32 = 1 << 17;
/// What may wait to be read, in bytes, where the system allows as much.
const RECEIVE_BUFFER: usize = 16 << 20;
/// Buffers that are kept to be used again.
const SPARE: usize = 1024;

/// Two queues, one for each direction.
#[derive(Debug)]
pub(crate) struct QueueCarrier {
    socket: Socket,
    /// The numbers of the queues.
    queues: [u16; 2],
    /// A message of the kernel.
    buffer: Vec<u8>,
    /// Verdicts that are to be sent.
    verdicts: Vec<u8>,
    /// Packets that the scenario has lost.
    dropped: Rc<RefCell<Vec<(u16, u32)>>>,
    spare: Vec<Vec<u8>>,
    losses: Losses,
}

/// A packet that the kernel keeps. When this is dropped the kernel drops the packet.
#[derive(Debug)]
pub(crate) struct Kept {
    queue: u16,
    /// None: it has gone on, or is a copy.
    id: Option<u32>,
    dropped: Rc<RefCell<Vec<(u16, u32)>>>,
}

impl Clone for Kept {
    /// A copy of which the kernel knows nothing.
    fn clone(&self) -> Self {
        Self { queue: self.queue, id: None, dropped: Rc::clone(&self.dropped) }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.dropped.borrow_mut().push((self.queue, id));
        }
    }
}

/// Why queues could not be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The capability CAP_NET_ADMIN is missing.
    Right,
    /// Another program reads that queue.
    Taken(u16),
    /// The kernel has no packet queues.
    Lacking,
    Io(io::Error),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            // EPERM, EACCES.
            Some(1 | 13) => Self::Right,
            // EINVAL, EPROTONOSUPPORT, EOPNOTSUPP.
            Some(22 | 93 | 95) => Self::Lacking,
            _ => Self::Io(error),
        }
    }
}

impl QueueCarrier {
    /// Becomes the reader of two queues, forward and reverse, for such a scenario.
    pub(crate) fn open(queues: [u16; 2], scenario: &Scenario) -> Result<Self, OpenError> {
        let (family, protocol) = (Domain::from(netlink::FAMILY), Protocol::from(netlink::PROTOCOL));
        let mut socket = Socket::new(family, Type::RAW, Some(protocol))?;
        // As much as the system allows.
        let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
        let copy = if scenario.changes_packets() { WHOLE } else { HEADERS };
        let super_packets = !scenario.needs_single_packets();
        let configuration = Configuration { copy, packets: WAITING, super_packets };
        for queue in queues {
            for message in netlink::configure(queue, configuration) {
                socket.send(&message)?;
                answer(&mut socket).map_err(|error| match error.raw_os_error() {
                    // EBUSY.
                    Some(16) => OpenError::Taken(queue),
                    _ => error.into(),
                })?;
            }
        }
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            queues,
            buffer: vec![0; LARGEST_MESSAGE],
            verdicts: Vec::with_capacity(VERDICTS + LARGEST_MESSAGE),
            dropped: Rc::default(),
            spare: Vec::new(),
            losses: Losses::default(),
        })
    }

    fn drop_lost(&mut self) {
        for (queue, id) in self.dropped.borrow_mut().drain(..) {
            netlink::verdict(&mut self.verdicts, queue, id, false, None);
        }
    }

    fn recycle(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < SPARE {
            self.spare.push(bytes);
        }
    }
}

/// What the kernel answers.
fn answer(socket: &mut Socket) -> io::Result<()> {
    let mut buffer = vec![0; LARGEST_MESSAGE];
    loop {
        let length = socket.read(&mut buffer)?;
        let mut answer = None;
        netlink::hear(&buffer[..length], |heard| {
            if let Heard::Answer(code) = heard {
                answer = answer.or(Some(code));
            }
        });
        match answer {
            Some(0) => return Ok(()),
            Some(code) => return Err(io::Error::from_raw_os_error(code)),
            // A packet, which came before the queue was as it is to be.
            None => (),
        }
    }
}

impl Carrier for QueueCarrier {
    type Tag = Kept;
    const IP_AT: usize = 0;

    fn receive(&mut self, mut take: impl FnMut(Direction, Packet<Kept>, usize)) -> io::Result<bool> {
        for _ in 0..BATCH {
            let length = match self.socket.read(&mut self.buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // ENOBUFS: packets were lost on the way here.
                Err(error) if error.raw_os_error() == Some(105) => {
                    self.losses.overruns += 1;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let Self { buffer, queues, dropped, spare, losses, .. } = self;
            netlink::hear(&buffer[..length], |heard| match heard {
                Heard::Packet(Queued { queue, id, bytes, length }) => {
                    let direction = if queue == queues[0] { Direction::Forward } else { Direction::Reverse };
                    let mut own = spare.pop().unwrap_or_default();
                    own.clear();
                    own.extend_from_slice(bytes);
                    let tag = Kept { queue, id: Some(id), dropped: Rc::clone(dropped) };
                    take(direction, Packet { ecn: ecn::read(&own), bytes: own, tag }, length);
                }
                // A verdict about a packet that has gone, with its interface.
                Heard::Answer(_) => losses.refused += 1,
                Heard::Other => (),
            });
        }
        Ok(true)
    }

    fn put_out(&mut self, _: Direction, mut packet: Packet<Kept>, is_changed: bool) -> io::Result<()> {
        if let Some(id) = packet.tag.id.take() {
            let changed = is_changed.then_some(&packet.bytes[..]);
            netlink::verdict(&mut self.verdicts, packet.tag.queue, id, true, changed);
        }
        self.recycle(mem::take(&mut packet.bytes));
        if self.verdicts.len() >= VERDICTS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drop_lost();
        if self.verdicts.is_empty() {
            return Ok(());
        }
        let sent = self.socket.send(&self.verdicts);
        self.verdicts.clear();
        sent.map(|_| ())
    }

    fn wait_in(&self, waits: &WaitSet) -> io::Result<()> {
        waits.add(&self.socket, 0).map_err(io::Error::other)
    }

    fn check(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn losses(&self) -> Losses {
        self.losses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_base::Ecn;

    #[test]
    fn a_packet_that_is_dropped_is_told_and_its_copy_is_not() {
        let dropped = Rc::<RefCell<Vec<_>>>::default();
        let kept = Kept { queue: 3, id: Some(9), dropped: Rc::clone(&dropped) };
        drop(kept.clone());
        assert!(dropped.borrow().is_empty());
        drop(Packet { bytes: vec![], ecn: Ecn::NotCapable, tag: kept });
        assert_eq!(*dropped.borrow(), [(3, 9)]);
    }

    #[test]
    fn why_a_queue_can_not_be_opened_is_told_apart() {
        let of = |code| OpenError::from(io::Error::from_raw_os_error(code));
        assert!(matches!(of(1), OpenError::Right) && matches!(of(93), OpenError::Lacking));
        assert!(matches!(of(12), OpenError::Io(_)));
    }
}
