//! Frames of one EtherType, received without a copy or a system call per frame.

use core::mem;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use arrayvec::ArrayVec;
use socket2::SockRef;
use weft_base::{DatagramSent, Piece, PortError};
use weft_memory::Registry;

use super::filter::{self, FrameTest};
use super::ring::Ring;
use super::{PacketSocket, set_option};
use crate::error::{from_number, would_block};
use crate::vectors::{Vectors, send_message, uninterrupted};

/// The maximum number of frames per call.
pub const FRAMES: usize = 64;
/// The maximum number of pieces per call.
pub const FRAME_PIECES: usize = 256;

/// A frame of at most this many bytes is copied behind its header: two vectors cost the kernel more.
const SHORT: usize = 2048;

/// A packet socket for the frames of one EtherType that pass a filter. Received frames are read in the kernel's ring.
#[derive(Debug)]
pub struct FramePort {
    ring: Ring,
    socket: PacketSocket,
    overflowed: u64,
    dropped: u64,
    cut: u64,
}

/// The outcome of one system call.
enum Outcome {
    Sent(usize),
    NoRoom,
    Dropped,
    TooLarge,
    Failed(i32),
}

impl FramePort {
    /// Opens one on an interface, by its name, for frames of this EtherType for which all tests are true. It takes 4
    /// MiB of the kernel's memory, and requests a send buffer of `send_buffer` bytes.
    ///
    /// # Errors
    /// There is no such interface, or the privilege is missing: the message says which, and what to do; the kernel has
    /// no memory.
    pub fn open(interface: &str, ether_type: u16, tests: &[FrameTest], send_buffer: Option<u32>) -> io::Result<Self> {
        let mut ring = None;
        let socket = PacketSocket::open_with(interface, ether_type, |fd, mtu| {
            filter::attach(fd, &[tests])?;
            if let Some(bytes) = send_buffer {
                // The kernel grants as much as the system's limits allow, without an error.
                SockRef::from(fd).set_send_buffer_size(bytes as usize)?;
            }
            set_option(fd, libc::PACKET_VERSION, &libc::tpacket_versions::TPACKET_V2)?;
            ring = Some(Ring::map(fd, mtu)?);
            Ok(())
        })?;
        let ring = ring.ok_or(io::ErrorKind::Other)?;
        Ok(Self { ring, socket, overflowed: 0, dropped: 0, cut: 0 })
    }

    /// The hardware address of the interface.
    #[must_use]
    pub const fn hardware(&self) -> [u8; 6] {
        self.socket.hardware()
    }

    /// The largest packet that the interface sends, without the header of Ethernet, in bytes.
    #[must_use]
    pub const fn mtu(&self) -> usize {
        self.socket.mtu()
    }

    /// Moves it to the interface that has this name now, with the same filter and descriptor.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn rebind(&mut self, interface: &str) -> io::Result<()> {
        self.socket.rebind(interface)
    }

    /// Bytes of the receive ring, and of the send buffer, as the kernel counts them.
    #[must_use]
    pub fn buffers(&self) -> (u32, u32) {
        let send = SockRef::from(&self.socket.fd).send_buffer_size().unwrap_or(0);
        (self.ring.bytes() as u32, u32::try_from(send).unwrap_or(u32::MAX))
    }

    /// Frames dropped because the ring was full (known with the next received frame), frames lost after they were
    /// accepted, and frames received truncated.
    #[must_use]
    pub const fn lost(&self) -> [u64; 3] {
        [self.overflowed, self.dropped, self.cut]
    }

    /// Passes the next frame to `take`, if there is one, and returns it to the kernel.
    pub fn receive<T>(&mut self, mut take: impl FnMut(&[u8]) -> T) -> Option<T> {
        while let Some(header) = self.ring.arrived() {
            if header.tp_status & libc::TP_STATUS_LOSING != 0 {
                self.count_losses();
            }
            let frame = self.ring.frame(&header, 0).filter(|_| header.tp_snaplen == header.tp_len);
            let taken = frame.map(&mut take);
            self.ring.release();
            if taken.is_some() {
                return taken;
            }
            self.cut += 1;
        }
        None
    }

    /// Reading resets the kernel's counters.
    fn count_losses(&mut self) {
        // SAFETY: All zero is a count of nothing.
        let mut statistics: libc::tpacket_stats = unsafe { mem::zeroed() };
        let mut length = size_of_val(&statistics) as libc::socklen_t;
        let fd = self.socket.fd.as_raw_fd();
        // SAFETY: This many bytes are written to `statistics` during the call.
        let done = unsafe {
            let pointer = (&raw mut statistics).cast();
            libc::getsockopt(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, pointer, &raw mut length)
        };
        if done == 0 {
            self.overflowed += u64::from(statistics.tp_drops);
        }
    }

    /// Sends the bytes of `pieces` as frames of `segment` bytes each, of which the last may have fewer, behind a header
    /// that `head` makes for each length.
    ///
    /// # Errors
    /// Nothing was sent: the interface is down or removed, or a piece refers to deregistered memory.
    pub fn send<const HEAD: usize>(
        &mut self,
        registry: &Registry,
        pieces: &[Piece<'_>],
        segment: usize,
        head: impl Fn(usize) -> [u8; HEAD],
    ) -> Result<DatagramSent, PortError> {
        if let [Piece::Bytes(bytes)] = pieces
            && bytes.len() <= segment
            && HEAD + bytes.len() <= SHORT
        {
            let mut frame = ArrayVec::<u8, SHORT>::new();
            // There is room for both.
            let _ = frame.try_extend_from_slice(&head(bytes.len()));
            let _ = frame.try_extend_from_slice(bytes);
            return self.send_all(&mut [message(&mut [vector(&frame)])]);
        }
        let most = segment * FRAMES;
        let mut vectors: Vectors<'_, FRAME_PIECES> = Vectors::new();
        vectors.gather_segments(registry, pieces, segment, most)?;
        let bytes = vectors.bytes();
        if bytes <= segment {
            let head = head(bytes);
            let mut list: ArrayVec<libc::iovec, { FRAME_PIECES + 1 }> = ArrayVec::new();
            list.push(vector(&head));
            list.extend(
                vectors.addresses().map(|(base, length)| libc::iovec { iov_base: base.cast(), iov_len: length }),
            );
            return self.send_all(&mut [message(&mut list)]);
        }
        let heads: ArrayVec<[u8; HEAD], FRAMES> =
            (0..bytes).step_by(segment).map(|start| head(segment.min(bytes - start))).collect();
        // Each frame has its header, and a piece may span two of them.
        let mut list: ArrayVec<libc::iovec, { FRAME_PIECES + 2 * FRAMES }> = ArrayVec::new();
        let mut ends: ArrayVec<usize, FRAMES> = ArrayVec::new();
        for (at, head) in heads.iter().enumerate() {
            list.push(vector(head));
            list.extend(vectors.part(at * segment, segment));
            ends.push(list.len());
        }
        let mut rest = &mut list[..];
        let mut begin = 0;
        let mut messages: ArrayVec<libc::mmsghdr, FRAMES> = ArrayVec::new();
        for end in ends {
            let (now, later) = rest.split_at_mut(end - begin);
            messages.push(message(now));
            (rest, begin) = (later, end);
        }
        self.send_all(&mut messages)
    }

    fn send_all(&mut self, messages: &mut [libc::mmsghdr]) -> Result<DatagramSent, PortError> {
        let mut taken = 0;
        while taken < messages.len() {
            match self.attempt(&mut messages[taken..]) {
                Outcome::Sent(count) => taken += count,
                Outcome::Dropped => {
                    self.dropped += 1;
                    taken += 1;
                }
                Outcome::NoRoom => break,
                // The next call reports either.
                Outcome::TooLarge | Outcome::Failed(_) if taken > 0 => break,
                Outcome::TooLarge => return Ok(DatagramSent::TooLarge(None)),
                Outcome::Failed(number) => return Err(from_number(number)),
            }
        }
        Ok(DatagramSent::Taken(taken as u32))
    }

    /// Sends messages whose vectors are valid for reads during the call, one or many.
    fn attempt(&self, messages: &mut [libc::mmsghdr]) -> Outcome {
        let fd = self.socket.fd.as_raw_fd();
        let sent = match messages {
            [one] => {
                // SAFETY: The header refers to vectors that live as long as it is borrowed.
                unsafe { send_message(fd, &one.msg_hdr) }.map(|_| 1)
            }
            many => {
                let (first, count) = (many.as_mut_ptr(), many.len());
                // SAFETY: This many headers are there, each of which names vectors that live as long.
                uninterrupted(|| unsafe { libc::syscall(libc::SYS_sendmmsg, fd, first, count, libc::MSG_DONTWAIT) })
            }
        };
        match sent {
            Ok(count) => Outcome::Sent(count),
            Err(number) if would_block(number) => Outcome::NoRoom,
            // The queue of the interface was full.
            Err(libc::ENOBUFS) => Outcome::Dropped,
            Err(libc::EMSGSIZE) => Outcome::TooLarge,
            Err(number) => Outcome::Failed(number),
        }
    }

    /// An event of the interface since the last call, such as that it went down. Until it is read, the descriptor is
    /// readable.
    ///
    /// # Errors
    /// The operating system refused.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        SockRef::from(&self.socket.fd).take_error()
    }
}

impl AsFd for FramePort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn vector(bytes: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

/// A message of these vectors, valid as long as they are not moved.
fn message(list: &mut [libc::iovec]) -> libc::mmsghdr {
    // SAFETY: All zero is a message header with no name, no vectors and no control data.
    let mut message: libc::mmsghdr = unsafe { mem::zeroed() };
    message.msg_hdr.msg_iov = list.as_mut_ptr();
    message.msg_hdr.msg_iovlen = list.len() as _;
    message
}

#[cfg(test)]
mod tests {
    use weft_memory::Limits;

    use super::*;

    /// The first two bytes of this test's frames behind the header, since the loopback is shared.
    const TYPE: u16 = 0x88b6;

    fn open(tests: &[FrameTest]) -> Option<FramePort> {
        match FramePort::open("lo", TYPE, tests, Some(1 << 20)) {
            Ok(port) => Some(port),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Ethernet's header, the number of this process, and the length.
    fn head(length: usize) -> [u8; 20] {
        let mut head = [0; 20];
        head[12..14].copy_from_slice(&TYPE.to_be_bytes());
        head[14..18].copy_from_slice(&std::process::id().to_be_bytes());
        head[18..].copy_from_slice(&(length as u16).to_be_bytes());
        head
    }

    /// All sent frames arrive in order: the loopback loses nothing as long as there is room.
    #[test]
    fn frames_are_cut_from_pieces_and_come_one_by_one() {
        let Some(mut port) = open(&[FrameTest::Word(14, std::process::id())]) else { return };
        let registry = Registry::new(1, Limits::default());
        let bytes: Vec<u8> = (0..250).collect();
        let (one, two) = bytes.split_at(130);
        // The ring holds few of the loopback's long frames.
        for segment in [1000, 250, 100, 9] {
            let pieces = [Piece::Bytes(one), Piece::Bytes(two)];
            let count = bytes.len().div_ceil(segment) as u32;
            assert_eq!(port.send(&registry, &pieces, segment, head), Ok(DatagramSent::Taken(count)));
            let mut came = Vec::new();
            for _ in 0..count {
                let take = |frame: &[u8]| {
                    assert_eq!(frame[..20], head(frame.len() - 20));
                    frame[20..].to_vec()
                };
                let frame = loop {
                    if let Some(frame) = port.receive(take) {
                        break frame;
                    }
                };
                assert!(frame.len() <= segment);
                came.extend(frame);
            }
            assert_eq!(came, bytes);
        }
        assert_eq!(port.receive(<[u8]>::to_vec), None);
        let long = vec![0; port.mtu() + 1];
        let sent = port.send(&registry, &[Piece::Bytes(&long)], long.len(), head);
        assert_eq!(sent, Ok(DatagramSent::TooLarge(None)));
        assert_eq!(port.lost(), [0; 3]);
    }

    #[test]
    fn what_the_filter_leaves_out_does_not_come_and_what_overflows_is_counted() {
        let none = [FrameTest::Word(14, !std::process::id())];
        let (Some(mut deaf), Some(mut port)) = (open(&none), open(&[FrameTest::Word(14, std::process::id() ^ 1)]))
        else {
            return;
        };
        let registry = Registry::new(1, Limits::default());
        let head = |length| {
            let mut head = head(length);
            head[14..18].copy_from_slice(&(std::process::id() ^ 1).to_be_bytes());
            head
        };
        let frames = port.ring.bytes() / 2048 + 100;
        let mut sent = 0;
        while sent < frames {
            match port.send(&registry, &[Piece::Bytes(b"x")], 1, head) {
                Ok(DatagramSent::Taken(count)) => sent += count as usize,
                other => panic!("{other:?}"),
            }
        }
        let mut came = 0;
        while port.receive(|_| ()).is_some() {
            came += 1;
        }
        assert_eq!(deaf.receive(|_| ()), None);
        // The next one reports it.
        port.send(&registry, &[Piece::Bytes(b"x")], 1, head).unwrap();
        while port.receive(|_| ()).is_none() {}
        let [overflowed, dropped, cut] = port.lost();
        assert_eq!((came + overflowed as usize, dropped, cut), (frames, 0, 0), "{came} came");
        assert!(overflowed > 0);
    }
}
