//! Makes UDP sockets with the settings that all of them have.

use core::num::NonZeroU32;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use socket2::{Domain, Protocol, Socket, Type};
use weft_base::{DatagramOptions, Ecn, LocalAddress, PortError};

use crate::error::{last_error, port_error};
use crate::held::Held;

/// A socket, and the kernel's support for it.
pub(crate) struct Made {
    pub(crate) socket: Held,
    /// Whether it accepts GSO batches (Linux 4.18).
    pub(crate) takes_many: bool,
}

pub(crate) fn bind(local: SocketAddr, options: &DatagramOptions) -> Result<Made, PortError> {
    make(local, options).map_err(|error| port_error(&error))
}

/// A second socket with the number of `port`, from this address and to this peer alone: it gets the datagrams of that
/// peer. Until it is connected it may get datagrams for the other one.
pub(super) fn connect(port: &Held, from: LocalAddress, to: SocketAddr, options: &DatagramOptions) -> io::Result<Held> {
    let local = port.local_addr()?.as_socket().ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))?;
    let from_there = in_family(SocketAddr::new(from.ip, local.port()), local.is_ipv6());
    let socket = new(from_there, options)?;
    // By this interface alone (since Linux 5.7 without a privilege).
    socket.bind_device_by_index_v4(NonZeroU32::new(from.interface))?;
    // Only sockets of the same user share the number, and only meanwhile (socket(7), SO_REUSEPORT).
    socket.set_reuse_port(true)?;
    port.set_reuse_port(true)?;
    let bound = socket.bind(&from_there.into());
    port.set_reuse_port(false)?;
    bound?;
    socket.set_reuse_port(false)?;
    socket.connect(&in_family(to, local.is_ipv6()).into())?;
    Ok(socket)
}

/// The address for a socket of this family: one for IPv6 uses mapped IPv4.
fn in_family(address: SocketAddr, is_ipv6: bool) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if is_ipv6 => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        address => address,
    }
}

/// Whether this host does not have the address (any more). Only after an error about it: it takes three system calls.
pub(super) fn is_foreign(ip: IpAddr) -> bool {
    let at = SocketAddr::new(ip, 0);
    let try_bind = || Socket::new(Domain::for_address(at), Type::DGRAM.cloexec(), None)?.bind(&at.into());
    try_bind().is_err_and(|error: io::Error| error.raw_os_error() == Some(libc::EADDRNOTAVAIL))
}

fn make(local: SocketAddr, options: &DatagramOptions) -> io::Result<Made> {
    let socket = new(local, options)?;
    let takes_many = options.offload && set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
    socket.bind(&local.into())?;
    Ok(Made { socket, takes_many })
}

/// An unbound socket.
fn new(local: SocketAddr, options: &DatagramOptions) -> io::Result<Held> {
    let kind = Type::DGRAM.nonblocking().cloexec();
    let socket = Held::make(|| Socket::new_raw(Domain::for_address(local), kind, Some(Protocol::UDP)))?;
    if let Some(bytes) = options.buffer_bytes {
        // The kernel grants as much as the system's limits allow (socket(7), rmem_max), without an error.
        socket.set_send_buffer_size(bytes as usize)?;
        socket.set_recv_buffer_size(bytes as usize)?;
    }
    set_ipv4(&socket, local)?;
    if local.is_ipv6() {
        set_ipv6(&socket, local)?;
    }
    // Without it the kernel's drops stay unknown, which does no harm.
    let _ = set(&socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
    if options.offload {
        // Received datagrams may be merged (Linux 5.0). A system without it delivers them one by one.
        let _ = set(&socket, libc::SOL_UDP, libc::UDP_GRO, 1);
    }
    Ok(socket)
}

/// Sets the default ECN mark of a socket; an IPv6 socket carries IPv4 too. False when the kernel refuses.
pub(crate) fn set_ecn(socket: BorrowedFd<'_>, ecn: Ecn, is_ipv6: bool) -> bool {
    let bits = i32::from(ecn.bits());
    let set = |level, option| set_raw(socket.as_raw_fd(), level, option, bits).is_ok();
    set(libc::IPPROTO_IP, libc::IP_TOS) && (!is_ipv6 || set(libc::IPPROTO_IPV6, libc::IPV6_TCLASS))
}

/// Also for an IPv6 socket, which carries IPv4 too.
fn set_ipv4(socket: &Socket, local: SocketAddr) -> io::Result<()> {
    let set = |option, value| set(socket, libc::IPPROTO_IP, option, value);
    // "Don't fragment", and the kernel ignores ICMP about the path's MTU, which can be forged: the protocol above
    // checks it.
    set(libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
    // A socket at one address receives at that one only.
    if local.is_ipv4() && local.ip().is_unspecified() {
        set(libc::IP_PKTINFO, 1)?;
    }
    // A system without these reports less.
    let _ = set(libc::IP_RECVTOS, 1);
    let _ = set(libc::IP_RECVERR, 1);
    Ok(())
}

fn set_ipv6(socket: &Socket, local: SocketAddr) -> io::Result<()> {
    let set = |option, value| set(socket, libc::IPPROTO_IPV6, option, value);
    // `[::]` accepts IPv4 too, as mapped addresses; others cannot, except one bound to a mapped address.
    socket.set_only_v6(!local.ip().is_unspecified() && local.ip().to_canonical().is_ipv6())?;
    set(libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
    set(libc::IPV6_DONTFRAG, 1)?;
    set(libc::IPV6_RECVPKTINFO, 1)?;
    let _ = set(libc::IPV6_RECVTCLASS, 1);
    let _ = set(libc::IPV6_RECVERR, 1);
    Ok(())
}

fn set(socket: &Socket, level: i32, option: i32, value: i32) -> io::Result<()> {
    set_raw(socket.as_raw_fd(), level, option, value)
}

fn set_raw(fd: RawFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    // SAFETY: The kernel detects a descriptor that is not open; the value is read during the call alone, with its
    // length.
    let done = unsafe {
        let (value, length) = (&raw const value, size_of_val(&value) as libc::socklen_t);
        libc::setsockopt(fd, level, option, value.cast(), length)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(last_error())) }
}
