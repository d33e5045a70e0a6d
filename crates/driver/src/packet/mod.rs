//! Whole frames of an Ethernet interface (packet(7)).

mod filter;
mod folder;
mod frames;
mod helper;
mod ring;
mod segmentation;

use core::mem;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub use filter::FrameTest;
pub use frames::{FRAME_PIECES, FRAMES, FramePort};
pub use helper::{PacketHelper, PacketOffer, Served};
pub use ring::{Offload, PacketRing, RingFrame};
pub use segmentation::SegmentationLimits;

/// Matches all EtherTypes.
const EVERY_TYPE: u16 = libc::ETH_P_ALL as u16;

/// A socket that receives every frame of an interface, besides the kernel's own network stack, and sends any. It is
/// non-blocking. Opening one needs the capability CAP_NET_RAW in the network namespace.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
    ether_type: u16,
    index: u32,
    hardware: [u8; 6],
    mtu: usize,
}

/// The state of a packet socket's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceState {
    /// It carries frames.
    Up,
    /// It exists, and is down.
    Down,
    /// It was deleted, and a new one has its name.
    Remade,
    /// It was deleted.
    Gone,
}

/// A received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedFrame {
    /// Its length. More than the MTU where the sender leaves segmentation to devices, and never more than the buffer's.
    pub length: usize,
    /// The checksum of its payload was never computed: it comes from this machine, and no wire has carried it.
    pub is_unchecked: bool,
}

impl PacketSocket {
    /// Opens one on an interface, by its name.
    ///
    /// # Errors
    /// There is no such interface, or the privilege is missing; the message says which, and what to do.
    pub fn open(interface: &str) -> io::Result<Self> {
        Self::open_with(interface, EVERY_TYPE, |fd, _| switch_on(fd, libc::PACKET_AUXDATA))
    }

    /// Opens one for frames of an EtherType; `prepare` is called with it and the MTU before it receives anything.
    fn open_with(
        interface: &str,
        ether_type: u16,
        prepare: impl FnOnce(&OwnedFd, usize) -> io::Result<()>,
    ) -> io::Result<Self> {
        Self::bind_with(create(interface)?, interface, ether_type, prepare)
    }

    /// Opens one for another process, which binds it for the frames that it wants: until then it receives nothing. It
    /// then receives the frames that pass the filter, which cannot be changed any more.
    fn open_for_another(interface: &str, tests: &[Vec<FrameTest>]) -> io::Result<OwnedFd> {
        let fd = create(interface)?;
        let (index, ..) = find(&fd, interface)?;
        let tests: Vec<_> = tests.iter().map(Vec::as_slice).collect();
        filter::attach(&fd, &tests)?;
        filter::lock(&fd)?;
        bind(&fd, index, 0)?;
        Ok(fd)
    }

    fn bind_with(
        fd: OwnedFd,
        interface: &str,
        ether_type: u16,
        prepare: impl FnOnce(&OwnedFd, usize) -> io::Result<()>,
    ) -> io::Result<Self> {
        let (index, hardware, mtu) = find(&fd, interface)?;
        switch_on(&fd, libc::PACKET_IGNORE_OUTGOING)?;
        prepare(&fd, mtu)?;
        bind(&fd, index, ether_type)?;
        Ok(Self { fd, ether_type, index: index.unsigned_abs(), hardware, mtu })
    }

    /// Moves the socket to the interface that has the name now; groups must be joined again.
    fn rebind(&mut self, interface: &str) -> io::Result<()> {
        let (index, hardware, mtu) = find(&self.fd, interface)?;
        bind(&self.fd, index, self.ether_type)?;
        (self.index, self.hardware, self.mtu) = (index.unsigned_abs(), hardware, mtu);
        Ok(())
    }

    /// The state of the interface, which had this name. It may have another one now.
    fn interface_state(&self, interface: &str) -> InterfaceState {
        let is_up = request_of(interface).and_then(|mut request| {
            request.ifr_ifru.ifru_ifindex = self.index as libc::c_int;
            // SAFETY: This request reads a number, and writes the name of the interface that has it.
            unsafe { control(&self.fd, libc::SIOCGIFNAME as _, &mut request) }?;
            // SAFETY: This request reads the name, and writes flags.
            unsafe { control(&self.fd, libc::SIOCGIFFLAGS as _, &mut request) }?;
            // SAFETY: The flags were written just now.
            Ok(unsafe { request.ifr_ifru.ifru_flags } & libc::IFF_UP as libc::c_short != 0)
        });
        match is_up {
            Ok(true) => InterfaceState::Up,
            Ok(false) => InterfaceState::Down,
            Err(_) if describe(&self.fd, interface).is_ok() => InterfaceState::Remade,
            Err(_) => InterfaceState::Gone,
        }
    }

    /// The index of the interface.
    #[must_use]
    pub const fn index(&self) -> u32 {
        self.index
    }

    /// Makes the interface accept frames for a multicast group, until this socket is closed.
    fn join(&self, group: [u8; 6]) -> io::Result<()> {
        // SAFETY: All zero is a request about no interface.
        let mut request: libc::packet_mreq = unsafe { mem::zeroed() };
        request.mr_ifindex = self.index as libc::c_int;
        request.mr_type = libc::PACKET_MR_MULTICAST as libc::c_ushort;
        request.mr_alen = group.len() as libc::c_ushort;
        request.mr_address[..group.len()].copy_from_slice(&group);
        set_option(&self.fd, libc::PACKET_ADD_MEMBERSHIP, &request)
    }

    /// The hardware address of the interface.
    #[must_use]
    pub const fn hardware(&self) -> [u8; 6] {
        self.hardware
    }

    /// The largest packet that the interface sends, without the header of Ethernet, in bytes.
    #[must_use]
    pub const fn mtu(&self) -> usize {
        self.mtu
    }

    /// Sends a frame. False: there is no room for it now.
    ///
    /// # Errors
    /// The interface is down or removed, or the frame is longer than it sends.
    pub fn send(&self, frame: &[u8]) -> io::Result<bool> {
        loop {
            // SAFETY: As many bytes are read from `frame` during the call.
            let sent = unsafe { libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
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

    /// Receives a frame, if there is one. One longer than `buffer` is truncated, and is best treated as damaged: 64 KiB
    /// and 14 bytes hold the longest.
    ///
    /// # Errors
    /// The interface is down or removed.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<ReceivedFrame>> {
        let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let mut control = [0_u64; 8];
        // SAFETY: All zero is a valid, empty message header.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control) as _;
        loop {
            // SAFETY: The header refers to buffers that are borrowed exclusively, with their lengths.
            let length = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &raw mut header, 0) };
            if length >= 0 {
                return Ok(Some(ReceivedFrame { length: length as usize, is_unchecked: is_unchecked(&header) }));
            }
            match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => (),
                error if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                error => return Err(error),
            }
        }
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn is_full(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS)
}

/// A packet socket without a protocol yet: it receives nothing before it is bound.
fn create(interface: &str) -> io::Result<OwnedFd> {
    // SAFETY: Takes numbers, returns a descriptor or -1.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        let error = io::Error::last_os_error();
        let word = "needs the capability CAP_NET_RAW: be root, or in a user and network namespace of your own, or get \
                    it from a helper (weft link-helper)";
        return Err(io::Error::new(error.kind(), format!("a packet socket on {interface} {word} ({error})")));
    }
    // SAFETY: A new descriptor that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Describes an interface; errors contain its name.
fn find(fd: &OwnedFd, interface: &str) -> io::Result<(i32, [u8; 6], usize)> {
    describe(fd, interface).map_err(|error| io::Error::new(error.kind(), format!("the interface {interface}: {error}")))
}

/// Index, hardware address and MTU of an interface (netdevice(7)).
fn describe(fd: &OwnedFd, interface: &str) -> io::Result<(i32, [u8; 6], usize)> {
    let mut request = request_of(interface)?;
    let mut ask = |what: libc::c_ulong| {
        // SAFETY: These requests read the name and write to the union.
        unsafe { control(fd, what, &mut request) }?;
        Ok::<_, io::Error>(request.ifr_ifru)
    };
    // SAFETY: This request writes an interface's index.
    let index = unsafe { ask(libc::SIOCGIFINDEX as _)?.ifru_ifindex };
    // SAFETY: This request writes an MTU.
    let mtu = unsafe { ask(libc::SIOCGIFMTU as _)?.ifru_mtu };
    // SAFETY: This request writes a hardware address.
    let hardware = unsafe { ask(libc::SIOCGIFHWADDR as _)?.ifru_hwaddr };
    let byte = |at: usize| hardware.sa_data[at] as u8;
    Ok((index, core::array::from_fn(byte), usize::try_from(mtu).unwrap_or(0)))
}

/// A request about the interface of this name.
fn request_of(interface: &str) -> io::Result<libc::ifreq> {
    let name = CString::new(interface)?;
    // SAFETY: All zero is a request about no interface.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let bytes = name.as_bytes_with_nul();
    if bytes.len() > request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(request)
}

/// # Safety
/// It is a request that reads and writes only `request`.
unsafe fn control(fd: &OwnedFd, what: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: As the caller promises.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), what as _, &raw mut *request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn switch_on(fd: &OwnedFd, option: libc::c_int) -> io::Result<()> {
    set_option::<libc::c_int>(fd, option, &1)
}

/// Sets an option whose value has no pointers, like all options of packet sockets used here.
fn set_option<T: Copy>(fd: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    set_option_of(fd, libc::SOL_PACKET, option, value)
}

/// The same at any level.
fn set_option_of<T: Copy>(fd: &OwnedFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let (pointer, length) = ((&raw const *value).cast(), size_of::<T>() as libc::socklen_t);
    // SAFETY: As many bytes are read from `value` during the call.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, pointer, length) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn bind(fd: &OwnedFd, index: i32, protocol: u16) -> io::Result<()> {
    // SAFETY: All zero is an address of no family.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index;
    let (pointer, length) = ((&raw const address).cast(), size_of_val(&address) as libc::socklen_t);
    // SAFETY: As many bytes are read from `address` during the call.
    let done = unsafe { libc::bind(fd.as_raw_fd(), pointer, length) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Parses the kernel's metadata of a frame.
fn is_unchecked(header: &libc::msghdr) -> bool {
    // SAFETY: The kernel has filled the control buffer and reported how much of it.
    let message = unsafe { libc::CMSG_FIRSTHDR(header) };
    if message.is_null() {
        return false;
    }
    // SAFETY: The macro guarantees a whole header there.
    let (level, kind) = unsafe { ((*message).cmsg_level, (*message).cmsg_type) };
    if (level, kind) != (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
        return false;
    }
    // SAFETY: For this kind the kernel writes this structure, whole, and aligned or not.
    let auxiliary = unsafe { libc::CMSG_DATA(message).cast::<libc::tpacket_auxdata>().read_unaligned() };
    auxiliary.tp_status & libc::TP_STATUS_CSUMNOTREADY != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the privilege the error names it; with it, the loopback returns what was sent.
    #[test]
    fn a_frame_comes_back_by_the_loopback_or_the_right_is_missing() {
        let socket = match PacketSocket::open("lo") {
            Ok(socket) => socket,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return assert!(error.to_string().contains("CAP_NET_RAW"), "{error}");
            }
            Err(error) => panic!("{error}"),
        };
        assert!(socket.mtu() >= 1500 && socket.hardware() == [0; 6]);
        // An unused EtherType, for experiments (RFC 9542 section 2.2), and a number of our own.
        let mut frame = [0; 60];
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        frame[14..18].copy_from_slice(&std::process::id().to_ne_bytes());
        let mut buffer = vec![0; 70_000];
        // The loopback is shared.
        let found = (0..1000).any(|_| {
            let _ = socket.send(&frame);
            core::iter::from_fn(|| socket.receive(&mut buffer).ok().flatten().map(|one| buffer[..one.length] == frame))
                .any(|is_it| is_it)
        });
        assert!(found);
    }

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        for name in ["weft-none", "a-name-that-is-much-too-long", "nul\0"] {
            let error = PacketSocket::open(name).unwrap_err().to_string();
            assert!(error.contains("CAP_NET_RAW") || error.contains("the interface"), "{error}");
        }
    }
}
