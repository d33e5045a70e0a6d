//! Packets that the kernel keeps until a program says what becomes of them (NFQUEUE).
//!
//! What comes here is a number and as many bytes as are needed, and what goes back is a verdict.

use std::cell::RefCell;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::socket::{setsockopt, sockopt};
use socket2::{Domain, Protocol, Socket, Type};
use weft_base::Time;

use crate::netlink::{self, Configuration, Queued, Received};

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
/// Packets that may wait for a verdict, in each queue.
const WAITING: u32 = 1 << 17;
/// What may wait to be read, in bytes, where the system allows as much.
const RECEIVE_BUFFER: usize = 16 << 20;
/// A packet that the kernel had for longer before it was read, is taken for one whose clock was set meanwhile.
const OLDEST: Duration = Duration::from_secs(10);

/// What a program needs to know of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueNeeds {
    /// All of their bytes, to change them. If not, only the headers of IP are copied.
    pub whole_packets: bool,
    /// Each packet by itself: the kernel cuts super-packets before, as segmentation offload hands them on.
    pub single_packets: bool,
}

/// Why queues could not be opened.
#[derive(Debug)]
pub enum QueueError {
    /// The capability CAP_NET_ADMIN is missing.
    Right,
    /// Another program reads that queue.
    Taken(u16),
    /// The kernel has no packet queues.
    Lacking,
    /// The operating system refused something else.
    Io(io::Error),
}

impl From<io::Error> for QueueError {
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

/// Packet queues of the network that this process is in. What waits in them is dropped by the kernel with this.
#[derive(Debug)]
pub struct PacketQueues {
    socket: Socket,
    /// A message of the kernel.
    buffer: Vec<u8>,
    /// Verdicts that are to be sent.
    verdicts: Vec<u8>,
    /// Packets of which nothing is left here.
    dropped: Rc<RefCell<Vec<(u16, u32)>>>,
    refused: u64,
    overruns: u64,
    /// As long as some socket wants to know when packets come, the kernel notes it of all.
    _stamps: Option<Socket>,
}

/// A packet that waits in a queue.
#[derive(Debug)]
pub struct QueuedPacket<'a> {
    /// The number of its queue.
    pub queue: u16,
    /// The number of the interface by which it came; 0: none.
    pub from: u32,
    /// The number of the interface by which it is to leave; 0: none.
    pub to: u32,
    /// How long ago the kernel got it. Zero where the kernel does not say.
    pub age: Duration,
    /// Its first bytes, from the header of IP on.
    pub bytes: &'a [u8],
    /// How many it has.
    pub length: usize,
    /// What the kernel keeps.
    pub kept: KeptPacket,
}

/// A packet that the kernel keeps. When this is dropped the kernel drops the packet.
#[derive(Debug)]
pub struct KeptPacket {
    queue: u16,
    /// None: it was forwarded, or is a copy.
    id: Option<u32>,
    dropped: Rc<RefCell<Vec<(u16, u32)>>>,
}

impl Clone for KeptPacket {
    /// A copy of which the kernel knows nothing.
    fn clone(&self) -> Self {
        Self { queue: self.queue, id: None, dropped: Rc::clone(&self.dropped) }
    }
}

impl Drop for KeptPacket {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.dropped.borrow_mut().push((self.queue, id));
        }
    }
}

impl PacketQueues {
    /// Becomes the reader of these queues.
    ///
    /// # Errors
    /// A right is missing, another program reads one of them, or the kernel has none.
    pub fn open(queues: &[u16], needs: QueueNeeds) -> Result<Self, QueueError> {
        let (family, protocol) = (Domain::from(netlink::FAMILY), Protocol::from(netlink::PROTOCOL));
        let mut socket = Socket::new(family, Type::RAW, Some(protocol))?;
        // As much as the system allows.
        let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
        for queue in queues {
            for message in netlink::configure(*queue, configuration(needs)) {
                socket.send(&message)?;
                answer(&mut socket).map_err(|error| match error.raw_os_error() {
                    // EBUSY.
                    Some(16) => QueueError::Taken(*queue),
                    _ => error.into(),
                })?;
            }
        }
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            buffer: vec![0; LARGEST_MESSAGE],
            verdicts: Vec::with_capacity(VERDICTS + LARGEST_MESSAGE),
            dropped: Rc::default(),
            refused: 0,
            overruns: 0,
            _stamps: stamps().ok(),
        })
    }

    /// From now on a queue hands over packets like this. Those that wait in it stay as they are.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn change(&mut self, queue: u16, needs: QueueNeeds) -> io::Result<()> {
        // It has done so when the call is over, and its answer is one of many.
        let [_, like] = netlink::configure(queue, configuration(needs));
        self.socket.send(&like).map(drop)
    }

    /// Takes packets in, a batch at most. Whether there may be more.
    ///
    /// # Errors
    /// The operating system refused.
    pub fn receive(&mut self, mut take: impl FnMut(QueuedPacket<'_>)) -> io::Result<bool> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        for _ in 0..BATCH {
            let length = match self.socket.read(&mut self.buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // ENOBUFS: packets were lost before they came here.
                Err(error) if error.raw_os_error() == Some(105) => {
                    self.overruns += 1;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let Self { buffer, dropped, refused, .. } = self;
            netlink::parse(&buffer[..length], |received| match received {
                Received::Packet(Queued { queue, id, from, to, arrival, bytes, length }) => {
                    let kept = KeptPacket { queue, id: Some(id), dropped: Rc::clone(dropped) };
                    let age = arrival.map_or(Duration::ZERO, |arrival| age(arrival, now));
                    take(QueuedPacket { queue, from, to, age, bytes, length, kept });
                }
                Received::Answer(0) | Received::Other => (),
                // A verdict about a packet that has gone, with its interface.
                Received::Answer(_) => *refused += 1,
            });
        }
        Ok(true)
    }

    /// Has the kernel take a packet on, with these bytes if not with its own: at the latest with the next
    /// [`PacketQueues::flush`].
    ///
    /// # Errors
    /// The operating system refused.
    pub fn release(&mut self, mut kept: KeptPacket, changed: Option<&[u8]>) -> io::Result<()> {
        if let Some(id) = kept.id.take() {
            netlink::verdict(&mut self.verdicts, kept.queue, id, true, changed);
        }
        if self.verdicts.len() >= VERDICTS { self.flush() } else { Ok(()) }
    }

    /// Tells the kernel what has become of packets.
    ///
    /// # Errors
    /// The operating system refused.
    pub fn flush(&mut self) -> io::Result<()> {
        for (queue, id) in self.dropped.borrow_mut().drain(..) {
            netlink::verdict(&mut self.verdicts, queue, id, false, None);
        }
        if self.verdicts.is_empty() {
            return Ok(());
        }
        let sent = self.socket.send(&self.verdicts);
        self.verdicts.clear();
        sent.map(drop)
    }

    /// Packets that the kernel did not take on: their interface has gone.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Times at which the kernel had no room to hand over packets; it does not say how many were lost.
    #[must_use]
    pub const fn overruns(&self) -> u64 {
        self.overruns
    }
}

impl AsFd for PacketQueues {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn configuration(needs: QueueNeeds) -> Configuration {
    let copy = if needs.whole_packets { WHOLE } else { HEADERS };
    Configuration { copy, packets: WAITING, super_packets: !needs.single_packets }
}

/// A socket that has the kernel note when packets come (socket(7), `SO_TIMESTAMPNS`).
fn stamps() -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    Ok(socket)
}

/// How long ago a packet came; nothing where the clock of the day was set meanwhile.
fn age(arrival: Duration, now: Duration) -> Duration {
    let age = now.saturating_sub(arrival);
    if age < OLDEST { age } else { Duration::ZERO }
}

/// When a packet came that is this old now.
#[must_use]
pub fn came(now: Time, age: Duration) -> Time {
    Time::ZERO + now.since(Time::ZERO).saturating_sub(age)
}

/// What the kernel answers.
fn answer(socket: &mut Socket) -> io::Result<()> {
    let mut buffer = vec![0; LARGEST_MESSAGE];
    loop {
        let length = socket.read(&mut buffer)?;
        let mut answer = None;
        netlink::parse(&buffer[..length], |received| {
            if let Received::Answer(code) = received {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_that_is_dropped_is_told_and_its_copy_is_not() {
        let dropped = Rc::<RefCell<Vec<_>>>::default();
        let kept = KeptPacket { queue: 3, id: Some(9), dropped: Rc::clone(&dropped) };
        drop(kept.clone());
        assert!(dropped.borrow().is_empty());
        drop(kept);
        assert_eq!(*dropped.borrow(), [(3, 9)]);
    }

    #[test]
    fn why_a_queue_can_not_be_opened_is_told_apart() {
        let of = |code| QueueError::from(io::Error::from_raw_os_error(code));
        assert!(matches!(of(1), QueueError::Right) && matches!(of(93), QueueError::Lacking));
        assert!(matches!(of(12), QueueError::Io(_)));
    }

    #[test]
    fn an_age_is_none_where_the_clock_was_set() {
        let at = Duration::from_secs;
        assert_eq!(age(at(1000), at(1001)), at(1));
        assert_eq!(age(at(1001), at(1000)), Duration::ZERO);
        assert_eq!(age(at(0), at(1000)), Duration::ZERO);
        let now = Time::from_nanos(1000);
        let came = |nanos| came(now, Duration::from_nanos(nanos)).as_nanos();
        assert_eq!((came(0), came(400), came(2000)), (1000, 600, 0));
    }
}
