//! Makes sockets with the settings that all of them have.

use core::time::Duration;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use weft_base::{Backlog, PortError, PortOptions};

use crate::error::port_error;
use crate::held::Held;
use crate::pulse::Answers;

/// A connect in progress, or one that has already been refused.
pub(crate) fn connect(remote: SocketAddr, options: &PortOptions) -> Result<(Held, Option<PortError>), PortError> {
    let socket = prepare(remote, options).map_err(|error| port_error(&error))?;
    if let Some(local) = options.local {
        socket.bind(&local.into()).map_err(|error| port_error(&error))?;
    }
    match socket.connect(&remote.into()) {
        Ok(()) => Ok((socket, None)),
        Err(error) => match (error.raw_os_error(), port_error(&error)) {
            (Some(libc::EINPROGRESS | libc::EINTR), _) => Ok((socket, None)),
            // On loopback the answer is there at once; elsewhere it is received later. It is reported the same way.
            (_, refused @ PortError::Refused) => Ok((socket, Some(refused))),
            // No address was requested: the operating system has no free port number.
            (Some(libc::EADDRNOTAVAIL), _) if options.local.is_none() => Err(PortError::Exhausted),
            (Some(libc::EAGAIN), _) => Err(PortError::Exhausted),
            (_, other) => Err(other),
        },
    }
}

/// Breaks the stream of a socket, even if other processes hold a copy of it. The peer is sent a reset.
pub(crate) fn disconnect(socket: &Socket) {
    let nobody = libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: [0; 14] };
    // connect(2): an address without a family dissolves the association. It can only fail where there is none. SAFETY:
    // The descriptor is open as long as `socket` is borrowed; the address is read during the call alone, with its
    // length.
    unsafe { libc::connect(socket.as_raw_fd(), &raw const nobody, size_of_val(&nobody) as libc::socklen_t) };
}

/// With fewer bytes a socket is not readable for epoll(7), unless it has ended or its buffer is nearly full (socket(7),
/// SO_RCVLOWAT). The kernel limits it to half of the largest buffer, and makes the buffer large enough.
pub(crate) fn set_least(socket: &Socket, bytes: u32) {
    let value = i32::try_from(bytes).unwrap_or(i32::MAX);
    // SAFETY: The descriptor is open as long as `socket` is borrowed; the value is read during the call alone, with its
    // length.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    // A system without it reports fewer bytes, which does no harm.
}

/// Bytes written that the peer's host has not acknowledged, unsent ones included (tcp(7), SIOCOUTQ). 0 when the stream
/// is broken.
pub(crate) fn unacknowledged(socket: &Socket) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: The descriptor is open as long as `socket` is borrowed; the value is written during the call alone.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result < 0 { 0 } else { usize::try_from(bytes).unwrap_or(0) }
}

/// Bytes of the kernel's memory used by what a socket has received: unread bytes, and TCP segments that wait for
/// earlier ones (sock_diag(7), `SK_MEMINFO_RMEM_ALLOC`, by the option `SO_MEMINFO`). Each packet counts with the
/// kernel's overhead. `None`: the system does not report it.
#[must_use]
pub fn received_memory(socket: &impl AsFd) -> Option<u64> {
    let mut words = [0_u32; 16];
    let mut length = size_of_val(&words) as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: The descriptor is open as long as `socket` is borrowed; no more than `length` bytes are written, to
    // `words`.
    let done =
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_MEMINFO, words.as_mut_ptr().cast(), &raw mut length) };
    (done == 0 && length >= 4).then(|| u64::from(words[0]))
}

/// A listening socket. Accepted ones inherit its options (tcp(7), socket(7)).
pub(crate) fn listen(local: SocketAddr, backlog: Backlog, options: &PortOptions) -> Result<Held, PortError> {
    let make = || -> io::Result<Held> {
        let socket = prepare(local, options)?;
        // Lingering connections of an earlier process must not block the address.
        socket.set_reuse_address(true)?;
        if local.is_ipv6() {
            // `[::]` accepts IPv4 too, as mapped addresses; others cannot.
            socket.set_only_v6(!local.ip().is_unspecified())?;
        }
        socket.bind(&local.into())?;
        socket.listen(i32::try_from(backlog.0).unwrap_or(i32::MAX).max(1))?;
        Ok(socket)
    };
    make().map_err(|error| port_error(&error))
}

/// The address, with mapped IPv4 as IPv4.
pub(crate) fn plain_address(address: &SockAddr) -> Option<SocketAddr> {
    let address = address.as_socket()?;
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => Some(SocketAddr::new(ip.into(), address.port())),
        // Keeps the scope, without which a link-local address means nothing.
        IpAddr::V6(_) => Some(address),
    }
}

fn prepare(address: SocketAddr, options: &PortOptions) -> io::Result<Held> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Held::make(|| Socket::new_raw(Domain::for_address(address), kind, Some(Protocol::TCP)))?;
    socket.set_tcp_nodelay(true)?;
    if let Some(bytes) = options.buffer_bytes {
        socket.set_send_buffer_size(bytes as usize)?;
        socket.set_recv_buffer_size(bytes as usize)?;
    }
    if let Some(timeout) = options.peer_timeout {
        watch_peer(&socket, timeout)?;
    }
    Ok(socket)
}

/// The kernel's knowledge of a connected socket's peer.
pub(crate) fn answers(socket: &Socket) -> Option<Answers> {
    let info = tcp_info(socket)?;
    Some(Answers {
        unacknowledged: info.tcpi_unacked > 0,
        probes: info.tcpi_probes,
        unsent: info.tcpi_notsent_bytes > 0,
        last: Duration::from_millis(info.tcpi_last_ack_recv.into()),
    })
}

/// The shortest round trip that the kernel has seen on a connected socket.
pub(crate) fn round_trip(socket: &Socket) -> Option<Duration> {
    // All bits are set while there was none.
    let least = tcp_info(socket).map(|info| info.tcpi_min_rtt).filter(|least| (1..u32::MAX).contains(least))?;
    Some(Duration::from_micros(least.into()))
}

/// What the kernel knows of a connected socket (tcp(7), TCP_INFO).
fn tcp_info(socket: &Socket) -> Option<libc::tcp_info> {
    // SAFETY: Numbers, of which zero is one.
    let mut info: libc::tcp_info = unsafe { core::mem::zeroed() };
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: The descriptor is open as long as `socket` is borrowed; no more than `length` bytes are written to
    // `info`, during the call.
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, (&raw mut info).cast(), &raw mut length)
    };
    (done == 0).then_some(info)
}

/// Breaks the stream when the peer is silent for `timeout` while nothing is sent: by keepalives that start at half the
/// time. These have a resolution of whole seconds, so it takes at least two. While sent bytes are unacknowledged there
/// are none, and [`TcpPort::check_peer`](crate::TcpPort) checks.
fn watch_peer(socket: &Socket, timeout: Duration) -> io::Result<()> {
    probe_often(socket, timeout / 8);
    let seconds = |duration: Duration| Duration::from_secs(duration.as_secs().clamp(1, 32_767));
    let probes =
        TcpKeepalive::new().with_time(seconds(timeout / 2)).with_interval(seconds(timeout / 6)).with_retries(3);
    socket.set_tcp_keepalive(&probes)
}

/// Makes the kernel retransmit, and probe a closed window, at least this often; without it, after some minutes, that is
/// every two. The kernel allows 1 s to 120 s, and before Linux 6.15 has no such option: there, a host that vanishes
/// while its window is closed for long is noticed later.
fn probe_often(socket: &Socket, interval: Duration) {
    /// `linux/tcp.h`.
    const TCP_RTO_MAX_MS: libc::c_int = 44;
    let value = interval.as_millis().clamp(1000, 120_000) as libc::c_int;
    // SAFETY: The descriptor is open as long as `socket` is borrowed; the value is read during the call alone, with its
    // length.
    unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_RTO_MAX_MS,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
}
