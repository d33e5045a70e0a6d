//! Whether the addresses of this host, or the carriers of its interfaces, may have changed: rtnetlink(7).

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc::{RTMGRP_IPV4_IFADDR, RTMGRP_IPV6_IFADDR, RTMGRP_LINK};
use nix::sys::socket::{AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, socket};

/// Receives notifications of changes in the network namespace in which it was made.
#[derive(Debug)]
pub(crate) struct AddressWatch(OwnedFd);

impl AddressWatch {
    /// `None` where the kernel gives no such socket.
    pub(crate) fn new() -> Option<Self> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let fd = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute).ok()?;
        let groups = (RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR) as u32;
        bind(fd.as_raw_fd(), &NetlinkAddr::new(0, groups)).ok()?;
        Some(Self(fd))
    }

    /// Whether any notification was received since the last call. Its contents are not read: the caller queries the
    /// addresses.
    pub(crate) fn has_changed(&self) -> bool {
        let mut changed = false;
        let mut words = [0; 4096];
        loop {
            match recv(self.0.as_raw_fd(), &mut words, MsgFlags::empty()) {
                Ok(_) | Err(Errno::EINTR) => changed = true,
                // The socket's buffer has overflowed.
                Err(Errno::ENOBUFS) => changed = true,
                Err(_) => return changed,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_reported_once() {
        let watch = AddressWatch::new().unwrap();
        watch.has_changed();
        // Another program may change an interface just now, but not each time.
        assert!((0..100).any(|_| !watch.has_changed()));
    }
}
