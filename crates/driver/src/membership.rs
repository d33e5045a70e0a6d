//! Groups of IPv6.

use std::io;
use std::net::Ipv6Addr;

use socket2::{Domain, Socket, Type};

/// That this host is in a group of a link, as long as this is there: the kernel tells routers and switches so (RFC
/// 3810), which may pass the group's packets on to nobody else. It takes no right.
#[derive(Debug)]
pub struct GroupMembership {
    _socket: Socket,
}

impl GroupMembership {
    /// Enters a group, on the interface of this number.
    ///
    /// # Errors
    /// The kernel has no IPv6, or none on this interface; or it is in too many groups.
    pub fn enter(interface: u32, group: Ipv6Addr) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
        socket.join_multicast_v6(&group, interface)?;
        Ok(Self { _socket: socket })
    }
}
