//! IPv6 multicast groups.

use std::io;
use std::net::Ipv6Addr;

use socket2::{Domain, Socket, Type};

/// This host's membership in a group of a link, until it is dropped: the kernel reports it to routers and switches (RFC
/// 3810), which may forward the group's packets to members alone. Needs no privilege.
#[derive(Debug)]
pub struct GroupMembership {
    _socket: Socket,
}

impl GroupMembership {
    /// Joins a group, on the interface of this index.
    ///
    /// # Errors
    /// The kernel has no IPv6, or none on this interface; or it is in too many groups.
    pub fn enter(interface: u32, group: Ipv6Addr) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
        socket.join_multicast_v6(&group, interface)?;
        Ok(Self { _socket: socket })
    }
}
