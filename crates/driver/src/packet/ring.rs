//! Frames by a ring of memory that is shared with the kernel: TPACKET_V2 (Documentation/networking/packet_mmap.rst).

use core::sync::atomic::{AtomicU32, Ordering};
use core::{mem, ptr, slice};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use socket2::SockRef;

use super::filter::{self, FrameTest};
use super::{EVERY_TYPE, InterfaceState, PacketSocket, helper, is_full, set_option, set_option_of, switch_on};

/// The size of a ring in bytes. It bounds what may wait to be read.
const RING_BYTES: usize = 4 << 20;
/// The kernel's data before a frame: its own header, an address, `virtio_net_hdr`, and gaps.
const HEADROOM: usize = 128;
/// Ethernet's header, and a VLAN tag.
const FRAME_HEADER: usize = 18;
/// The offset of a VLAN tag in a frame: behind the two hardware addresses.
const VLAN_AT: usize = 12;
/// `struct virtio_net_hdr` of linux/virtio_net.h: flags, kind of segmentation, and four numbers of 16 bits.
const VIRTIO_HEADER: usize = 10;
/// Its flags VIRTIO_NET_HDR_F_NEEDS_CSUM, the sender left the checksum to the device, and VIRTIO_NET_HDR_F_DATA_VALID,
/// the device has found it good.
const NEEDS_CHECKSUM: u8 = 1;
const CHECKED: u8 = 2;
/// Its kinds of segmentation VIRTIO_NET_HDR_GSO_TCPV4 and VIRTIO_NET_HDR_GSO_TCPV6.
const CUT_IPV4: u8 = 1;
const CUT_IPV6: u8 = 4;
/// The offset of the checksum in a TCP header (RFC 9293 section 3.1).
const TCP_CHECKSUM_AT: u16 = 16;
/// Of linux/if_packet.h: frames longer than those of the ring can be read from the socket.
const PACKET_COPY_THRESH: libc::c_int = 7;
/// The longest frame that is read from the socket: the longest IP packet, behind the header of Ethernet.
const LONGEST: usize = FRAME_HEADER + 65_575;

/// A [`PacketSocket`] that reads without a system call per frame, and completes checksums that senders left to their
/// devices, so that a frame can be forwarded on another link.
#[derive(Debug)]
pub struct PacketRing {
    ring: Ring,
    socket: PacketSocket,
    /// Buffer for a frame that is longer than those of the ring, behind its `virtio_net_hdr`; empty if such frames are
    /// not accepted.
    long: Vec<u8>,
}

/// Work on a frame with a TCP segment that is left to the interface; what the interface cannot do, the kernel does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// The offset of TCP's header. The bytes from there are checksummed, and the checksum completed, in whose place the
    /// sum of the pseudo-header must be. 0: no work.
    pub transport_at: u16,
    /// Bytes of all headers, Ethernet's included.
    pub headers: u16,
    /// Payload bytes of each frame into which it is cut, the last of which may have fewer. 0: it is not cut.
    pub cut: u16,
    /// It is a packet of IPv6.
    pub is_ipv6: bool,
}

impl Offload {
    /// As `virtio_net_hdr`, in native byte order.
    fn header(&self) -> [u8; VIRTIO_HEADER] {
        let mut header = [0; VIRTIO_HEADER];
        if self.transport_at == 0 {
            return header;
        }
        let kind = if self.is_ipv6 { CUT_IPV6 } else { CUT_IPV4 };
        (header[0], header[1]) = (NEEDS_CHECKSUM, if self.cut > 0 { kind } else { 0 });
        for (at, number) in [(2, self.headers), (4, self.cut), (6, self.transport_at), (8, TCP_CHECKSUM_AT)] {
            header[at..at + 2].copy_from_slice(&number.to_ne_bytes());
        }
        header
    }
}

/// The result of [`PacketRing::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingFrame {
    /// A whole frame, with its checksum.
    Whole,
    /// A frame that no link carries: longer than the interface sends, or meant to be cut by a device. It is dropped.
    TooLong,
}

impl PacketRing {
    /// Opens one on an interface, by its name. It takes 4 MiB of the kernel's memory.
    ///
    /// # Errors
    /// As [`PacketSocket::open`]; the kernel has no memory.
    pub fn open(interface: &str) -> io::Result<Self> {
        Self::open_for(interface, &[&[]])
    }

    /// As [`PacketRing::open`], for frames for which all tests of one of the alternatives are true.
    ///
    /// # Errors
    /// The same.
    pub fn open_for(interface: &str, alternatives: &[&[FrameTest]]) -> io::Result<Self> {
        let mut ring = None;
        let socket = PacketSocket::open_with(interface, EVERY_TYPE, |fd, mtu| {
            filter::attach(fd, alternatives)?;
            ring = Some(prepare(fd, mtu)?);
            Ok(())
        })?;
        Ok(Self { ring: ring.ok_or(io::ErrorKind::Other)?, socket, long: Vec::new() })
    }

    /// As [`PacketRing::open`], with a socket of the [`PacketHelper`](super::PacketHelper) that listens at this path,
    /// which it offers under this name. Needs no privilege.
    ///
    /// # Errors
    /// No helper listens there, it offers something else, or it does not trust this process's user; the interface does
    /// not exist. The message says which.
    pub fn from_helper(path: &Path, name: &str, interface: &str) -> io::Result<Self> {
        let mut ring = None;
        let socket = PacketSocket::bind_with(helper::ask(path, name)?, interface, EVERY_TYPE, |fd, mtu| {
            ring = Some(prepare(fd, mtu)?);
            Ok(())
        })?;
        Ok(Self { ring: ring.ok_or(io::ErrorKind::Other)?, socket, long: Vec::new() })
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

    /// The number of the interface.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.socket.index()
    }

    /// The state of the interface, which had this name. After a deletion [`PacketRing::rebind`] gets the new one.
    #[must_use]
    pub fn interface_state(&self, interface: &str) -> InterfaceState {
        self.socket.interface_state(interface)
    }

    /// Moves the ring to the interface that has this name now, with the same filter and descriptor. Groups must be
    /// joined again. Needs no privilege.
    ///
    /// # Errors
    /// There is no such interface.
    pub fn rebind(&mut self, interface: &str) -> io::Result<()> {
        self.socket.rebind(interface)
    }

    /// Makes the interface accept frames for a multicast group, by its hardware address, until this ring is dropped.
    ///
    /// # Errors
    /// The interface does not support groups.
    pub fn join(&self, group: [u8; 6]) -> io::Result<()> {
        self.socket.join(group)
    }

    /// Whether a frame is there.
    #[must_use]
    pub fn has_frame(&self) -> bool {
        self.ring.has_frame()
    }

    /// Reads the next frame, if there is one, into `bytes`.
    pub fn receive(&mut self, bytes: &mut Vec<u8>) -> Option<RingFrame> {
        let header = self.ring.arrived()?;
        let frame = self.ring.frame(&header, VIRTIO_HEADER).map(|frame| frame.split_at(VIRTIO_HEADER));
        let result = frame.map_or(RingFrame::TooLong, |(virtio, frame)| take(&header, virtio, frame, bytes));
        self.ring.release();
        Some(result)
    }

    /// Passes the next frame to `take` in place, if there is one, and returns it to the kernel. The second argument is
    /// whether its checksum need not be checked: a device has found it good, or it was never computed, for no wire has
    /// carried the frame. `Some(None)`: a frame that is truncated, or has a VLAN tag.
    pub fn show<T>(&mut self, take: impl FnOnce(&[u8], bool) -> T) -> Option<Option<T>> {
        let header = self.ring.arrived()?;
        let is_tagged = header.tp_status & libc::TP_STATUS_VLAN_VALID != 0;
        if header.tp_status & libc::TP_STATUS_COPY != 0 {
            // The ring has its beginning alone; the whole one waits at the socket.
            self.ring.release();
            let frame = self.receive_long().filter(|_| !is_tagged);
            return Some(frame.map(|frame| show(frame, take)));
        }
        let frame = self.ring.frame(&header, VIRTIO_HEADER).filter(|_| header.tp_snaplen == header.tp_len);
        let shown = frame.filter(|_| !is_tagged).map(|frame| show(frame, take));
        self.ring.release();
        Some(shown)
    }

    /// Makes [`PacketRing::show`] accept frames that are longer than the interface sends: where senders leave
    /// segmentation to devices, or a device has merged received ones. Otherwise they are [`RingFrame::TooLong`]. They
    /// take up to 4 MiB more of the kernel's memory; as much as the system allows, without the capability
    /// CAP_NET_ADMIN.
    ///
    /// # Errors
    /// The kernel is too old.
    pub fn with_long_frames(mut self) -> io::Result<Self> {
        let bytes = RING_BYTES as libc::c_int;
        if set_option_of(&self.socket.fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes).is_err() {
            // As much as the system's limits allow is granted, without an error.
            SockRef::from(&self.socket.fd).set_recv_buffer_size(RING_BYTES)?;
        }
        self.long = vec![0; VIRTIO_HEADER + LONGEST];
        // Frames longer than those of the ring are copied, whatever the number.
        set_option::<libc::c_int>(&self.socket.fd, PACKET_COPY_THRESH, &1)?;
        Ok(self)
    }

    fn receive_long(&mut self) -> Option<&[u8]> {
        let (fd, room) = (self.socket.fd.as_raw_fd(), self.long.len());
        loop {
            // SAFETY: At most `room` bytes are written to `long` during the call.
            let length = unsafe { libc::recv(fd, self.long.as_mut_ptr().cast(), room, libc::MSG_TRUNC) };
            match usize::try_from(length) {
                Ok(length) => return self.long.get(..length).filter(|frame| frame.len() > VIRTIO_HEADER),
                Err(_) if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    /// Sends a frame. False: there is no room for it now.
    ///
    /// # Errors
    /// The interface is down or removed, or the frame is longer than it sends.
    pub fn send(&self, frame: &[u8]) -> io::Result<bool> {
        self.write([&[0; VIRTIO_HEADER], frame])
    }

    /// Sends a frame in three parts, the first of which has all headers, with work left to the interface. False: there
    /// is no room for it now.
    ///
    /// # Errors
    /// As [`PacketRing::send`]. `InvalidInput`: the kernel does not support this work.
    pub fn send_parts(&self, offload: &Offload, [first, second, third]: [&[u8]; 3]) -> io::Result<bool> {
        self.write([&offload.header(), first, second, third])
    }

    fn write<const PARTS: usize>(&self, parts: [&[u8]; PARTS]) -> io::Result<bool> {
        let vectors = parts.map(|part| libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() });
        loop {
            // SAFETY: As many buffers are given, which are read during the call.
            let sent = unsafe { libc::writev(self.socket.fd.as_raw_fd(), vectors.as_ptr(), PARTS as libc::c_int) };
            if sent >= 0 {
                return Ok(true);
            }
            match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => (),
                error if is_full(&error) => return Ok(false),
                error => return Err(error),
            }
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

/// Before the socket receives anything.
fn prepare(fd: &OwnedFd, mtu: usize) -> io::Result<Ring> {
    set_option(fd, libc::PACKET_VERSION, &libc::tpacket_versions::TPACKET_V2)?;
    switch_on(fd, libc::PACKET_VNET_HDR)?;
    Ring::map(fd, mtu)
}

impl AsFd for PacketRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The frames of the shared ring, in order.
#[derive(Debug)]
pub(super) struct Ring {
    memory: Memory,
    frame_bytes: usize,
    /// The frame that the kernel fills next.
    at: usize,
}

impl Ring {
    /// Makes the kernel put a socket's received frames into memory of its own. Frames have at most `mtu` bytes above
    /// Ethernet's header.
    pub(super) fn map(fd: &OwnedFd, mtu: usize) -> io::Result<Self> {
        let frame_bytes = (mtu + FRAME_HEADER + HEADROOM).next_power_of_two().max(2048);
        let request = request(frame_bytes);
        set_option(fd, libc::PACKET_RX_RING, &request)?;
        let memory = Memory::map(fd, request.tp_block_size as usize * request.tp_block_nr as usize)?;
        Ok(Self { memory, frame_bytes, at: 0 })
    }

    /// Bytes of its memory.
    pub(super) const fn bytes(&self) -> usize {
        self.memory.length
    }

    /// Whether the next frame is there.
    fn has_frame(&self) -> bool {
        self.memory.status(self.at).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// The header of the next frame, if there is one. It is this process's until [`Ring::release`].
    pub(super) fn arrived(&self) -> Option<libc::tpacket2_hdr> {
        self.has_frame().then(|| self.memory.header(self.at))
    }

    /// The frame with that header, and this many bytes before it. `None` when they would not be within the ring.
    pub(super) fn frame(&self, header: &libc::tpacket2_hdr, before: usize) -> Option<&[u8]> {
        self.memory.frame(self.at, header, before, self.frame_bytes)
    }

    /// Returns the frame to the kernel.
    pub(super) fn release(&mut self) {
        self.memory.status(self.at).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.at = (self.at + self.frame_bytes) % self.memory.length;
    }
}

/// A ring of frames of this size, a power of two.
fn request(frame_bytes: usize) -> libc::tpacket_req {
    let block = frame_bytes.max(1 << 16);
    libc::tpacket_req {
        tp_block_size: block as libc::c_uint,
        tp_block_nr: (RING_BYTES / block) as libc::c_uint,
        tp_frame_size: frame_bytes as libc::c_uint,
        tp_frame_nr: (RING_BYTES / frame_bytes) as libc::c_uint,
    }
}

/// Passes a frame behind its `virtio_net_hdr` to `take`, and whether its checksum need not be checked.
fn show<T>(frame: &[u8], take: impl FnOnce(&[u8], bool) -> T) -> T {
    let (virtio, frame) = frame.split_at(VIRTIO_HEADER);
    take(frame, virtio[0] & (NEEDS_CHECKSUM | CHECKED) != 0)
}

/// Copies a frame, with its tag and its checksum in place.
fn take(header: &libc::tpacket2_hdr, virtio: &[u8], frame: &[u8], bytes: &mut Vec<u8>) -> RingFrame {
    let kind = virtio[1];
    if header.tp_snaplen != header.tp_len || kind != 0 || frame.len() < VLAN_AT {
        return RingFrame::TooLong;
    }
    bytes.clear();
    bytes.extend_from_slice(&frame[..VLAN_AT]);
    let mut tag = 0;
    if header.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
        bytes.extend_from_slice(&header.tp_vlan_tpid.to_be_bytes());
        bytes.extend_from_slice(&header.tp_vlan_tci.to_be_bytes());
        tag = 4;
    }
    bytes.extend_from_slice(&frame[VLAN_AT..]);
    if virtio[0] & NEEDS_CHECKSUM != 0 {
        let number = |at: usize| usize::from(u16::from_ne_bytes([virtio[at], virtio[at + 1]]));
        complete_checksum(bytes, tag + number(6), number(8));
    }
    RingFrame::Whole
}

/// Computes the Internet checksum (RFC 1071) of the bytes from `start` on, and writes it at `offset` from there, where
/// the sum of the pseudo-header is.
fn complete_checksum(frame: &mut [u8], start: usize, offset: usize) {
    let at = start + offset;
    if at + 2 > frame.len() {
        return;
    }
    // Two words at a time: carries are added when the sum is folded.
    let (pairs, rest) = frame[start..].as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let number = |pair: &[u8; 4]| u64::from(u32::from_be_bytes(*pair));
    let mut sum: u64 = pairs.iter().chain([&last]).map(number).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // For UDP, 0 means that there is none (RFC 768); for others 0xffff is the same number.
    let sum = match !(sum as u16) {
        0 => 0xffff,
        sum => sum,
    };
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// The ring's memory, mapped.
#[derive(Debug)]
struct Memory {
    start: *mut u8,
    length: usize,
}

// SAFETY: The pointer has no other owner in this process.
unsafe impl Send for Memory {}

impl Memory {
    fn map(fd: &impl AsRawFd, length: usize) -> io::Result<Self> {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: A new mapping, at a place that the kernel chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, rights, flags, fd.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(Self { start: start.cast(), length })
        }
    }

    /// The first word of the frame: whether the kernel owns the frame, or this process.
    fn status(&self, at: usize) -> &AtomicU32 {
        assert!(at + mem::size_of::<libc::tpacket2_hdr>() <= self.length);
        // SAFETY: Within the mapping, and aligned, for frames are; the kernel writes the word as a whole.
        unsafe { AtomicU32::from_ptr(self.start.add(at).cast()) }
    }

    /// The header of the frame, which this process must own.
    fn header(&self, at: usize) -> libc::tpacket2_hdr {
        assert!(at + mem::size_of::<libc::tpacket2_hdr>() <= self.length);
        // SAFETY: Within the mapping; the kernel does not write to a frame that this process owns.
        unsafe { self.start.add(at).cast::<libc::tpacket2_hdr>().read() }
    }

    /// The frame with this header, which this process must own, and this many bytes before it. `None` when they would
    /// exceed its room.
    fn frame(&self, at: usize, header: &libc::tpacket2_hdr, before: usize, room: usize) -> Option<&[u8]> {
        let (start, length) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        let begin = start.checked_sub(before)?;
        if start.checked_add(length)? > room || at + room > self.length {
            return None;
        }
        // SAFETY: Within the mapping by the test above; the kernel does not write to a frame that this process owns.
        Some(unsafe { slice::from_raw_parts(self.start.add(at + begin), before + length) })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: The mapping is this value's alone, and no borrow of it is left.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the privilege the error names it; with it, the loopback returns what was sent.
    #[test]
    fn a_frame_comes_back_by_the_loopback_or_the_right_is_missing() {
        let mut ring = match PacketRing::open("lo") {
            Ok(ring) => ring,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
            }
            Err(error) => panic!("{error}"),
        };
        let mut frame = [0; 60];
        // An unused EtherType, for experiments (RFC 9542 section 2.2), and a number of our own.
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        frame[14..18].copy_from_slice(&std::process::id().to_ne_bytes());
        let mut bytes = Vec::new();
        // More than the ring holds, so that it wraps. The loopback is shared.
        let mut found = 0;
        for _ in 0..1_000_000 {
            let _ = ring.send(&frame);
            while ring.receive(&mut bytes).is_some() {
                found += usize::from(bytes == frame);
            }
            if found > 100 {
                return;
            }
        }
        panic!("{found} frames came back");
    }

    /// The example of RFC 1071 section 3: its sum is ddf2.
    #[test]
    fn a_checksum_is_completed_where_it_belongs() {
        let mut frame = [0xaa, 0xaa, 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7, 0, 0];
        complete_checksum(&mut frame, 2, 8);
        assert_eq!(frame, [0xaa, 0xaa, 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7, 0x22, 0x0d]);
        // An odd end is padded with a zero.
        let mut odd = [0, 0, 0x12];
        complete_checksum(&mut odd, 0, 0);
        assert_eq!(odd[..2], [0xed, 0xff]);
        // 0 is written as ffff, and nothing outside is written.
        let mut zero = [0xff, 0xff, 0, 0];
        complete_checksum(&mut zero, 0, 2);
        assert_eq!(zero[2..], [0xff, 0xff]);
        complete_checksum(&mut zero, 2, 1);
        complete_checksum(&mut zero, 60_000, 60_000);
        assert_eq!(zero, [0xff, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn what_is_to_be_done_is_said_as_linux_says_it() {
        assert_eq!(Offload::default().header(), [0; VIRTIO_HEADER]);
        let summed = Offload { transport_at: 0x22, headers: 0x36, cut: 0, is_ipv6: true };
        let number = u16::to_ne_bytes;
        let header = |kind: u8, numbers: [u16; 4]| [&[1, kind][..], &numbers.map(number).concat()].concat();
        assert_eq!(summed.header(), header(0, [0x36, 0, 0x22, 16])[..]);
        assert_eq!(Offload { cut: 1448, ..summed }.header(), header(4, [0x36, 1448, 0x22, 16])[..]);
        let ipv4 = Offload { cut: 1448, is_ipv6: false, ..summed };
        assert_eq!(ipv4.header(), header(1, [0x36, 1448, 0x22, 16])[..]);
    }

    /// A missing checksum of a frame that no wire has carried is accepted, and one without a flag is to be checked.
    #[test]
    fn the_loopback_shows_frames_where_they_stand_and_what_is_known_of_their_checksums() {
        // Of IPv4 and TCP, with ports that identify this process.
        let own = FrameTest::Word(34, std::process::id());
        let mut ring = match PacketRing::open_for("lo", &[&[FrameTest::Half(12, 0x0800), own]]) {
            Ok(ring) => ring.with_long_frames().unwrap(),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return,
            Err(error) => panic!("{error}"),
        };
        let mut head = [0; 54];
        head[12..14].copy_from_slice(&[8, 0]);
        head[14..24].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6]);
        // From and to unused addresses, so that no host answers.
        head[26..34].copy_from_slice(&[127, 9, 9, 9, 127, 9, 9, 10]);
        head[34..38].copy_from_slice(&std::process::id().to_be_bytes());
        head[46] = 0x50;
        let offload = Offload { transport_at: 34, headers: 54, cut: 0, is_ipv6: false };
        for (offload, length, is_checked) in
            [(offload, 1000, true), (Offload { cut: 1000, ..offload }, 9000, true), (Offload::default(), 1000, false)]
        {
            head[16..18].copy_from_slice(&(40 + length as u16).to_be_bytes());
            let payload: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let (first, second) = payload.split_at(300);
            assert!(ring.send_parts(&offload, [&head, first, second]).unwrap());
            let mut came = Vec::new();
            while came.len() < length {
                let shown = ring.show(|frame, checked| {
                    assert_eq!(checked, is_checked);
                    frame[54..].to_vec()
                });
                came.extend(shown.flatten().unwrap_or_default());
            }
            assert_eq!(came, payload);
        }
        assert!(ring.show(|_, _| ()).is_none());
    }

    #[test]
    fn a_tag_goes_back_into_its_frame_and_a_super_packet_is_refused() {
        // SAFETY: All zero is a valid, empty header.
        let mut header: libc::tpacket2_hdr = unsafe { mem::zeroed() };
        let frame: Vec<u8> = (0..20).collect();
        let mut bytes = Vec::new();
        assert_eq!(take(&header, &[0; VIRTIO_HEADER], &frame, &mut bytes), RingFrame::Whole);
        assert_eq!(bytes, frame);
        (header.tp_status, header.tp_vlan_tpid, header.tp_vlan_tci) = (libc::TP_STATUS_VLAN_VALID, 0x8100, 5);
        assert_eq!(take(&header, &[0; VIRTIO_HEADER], &frame, &mut bytes), RingFrame::Whole);
        assert_eq!((&bytes[..12], &bytes[12..16], &bytes[16..]), (&frame[..12], &[0x81, 0, 0, 5][..], &frame[12..]));
        let mut virtio = [0; VIRTIO_HEADER];
        virtio[1] = 1;
        assert_eq!(take(&header, &virtio, &frame, &mut bytes), RingFrame::TooLong);
        header.tp_len = 1;
        assert_eq!(take(&header, &[0; VIRTIO_HEADER], &frame, &mut bytes), RingFrame::TooLong);
    }
}
