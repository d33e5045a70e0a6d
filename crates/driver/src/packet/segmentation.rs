//! The size of a frame that an interface cuts into segments: rtnetlink(7).

use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, connect, recv, send, socket,
};

/// Bytes of `struct nlmsghdr`, of `struct ifinfomsg` and of an attribute's header (linux/netlink.h, rtnetlink.h).
const MESSAGE_HEADER: usize = 16;
const LINK_HEADER: usize = 16;
const ATTRIBUTE_HEADER: usize = 4;
/// Messages and attributes begin at multiples of this (NLMSG_ALIGNTO, RTA_ALIGNTO).
const ALIGNMENT: usize = 4;
/// The attribute IFLA_GSO_IPV4_MAX_SIZE of linux/if_link.h, since Linux 6.3.
const GSO_IPV4_MAX_SIZE: u16 = 63;
/// Room for the answer about one interface, statistics and address families included.
const ANSWER_BYTES: usize = 32 << 10;

/// The limits of an interface for frames that it, or the kernel, cuts into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentationLimits {
    /// The maximum bytes of such a frame, headers included. A longer one is cut by the kernel, or dropped.
    pub frame_bytes: usize,
    /// The maximum number of segments of one frame; at least 1.
    pub segments: usize,
}

impl SegmentationLimits {
    /// Linux's limits for an interface without its own: GSO_LEGACY_MAX_SIZE and GSO_MAX_SEGS of linux/netdevice.h.
    pub const USUAL: Self = Self { frame_bytes: 65_536, segments: 65_535 };

    /// Asks the kernel about the interface of this index. It takes two system calls on a new socket, and no privilege.
    /// [`SegmentationLimits::USUAL`] where the kernel does not answer.
    #[must_use]
    pub fn of(interface: u32) -> Self {
        ask(interface).unwrap_or(Self::USUAL)
    }

    /// Parses an answer of the kernel; `None` when it is invalid.
    fn parse(answer: &[u8]) -> Option<Self> {
        let half = |bytes: &[u8], at: usize| Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let length = u32::from_ne_bytes(*answer.first_chunk()?) as usize;
        if half(answer, 4)? != libc::RTM_NEWLINK {
            return None;
        }
        let mut limits = Self::USUAL;
        let mut rest = answer.get(MESSAGE_HEADER + LINK_HEADER..length)?;
        while let (Some(length), Some(kind)) = (half(rest, 0), half(rest, 2)) {
            let length = usize::from(length);
            let Some(value) = rest.get(ATTRIBUTE_HEADER..length) else { break };
            let number = value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes) as usize);
            match (kind, number) {
                // One bounds IPv6 and, in older kernels, both; the other IPv4. The smaller one is within both.
                (libc::IFLA_GSO_MAX_SIZE | GSO_IPV4_MAX_SIZE, Some(bytes)) => {
                    limits.frame_bytes = limits.frame_bytes.min(bytes);
                }
                (libc::IFLA_GSO_MAX_SEGS, Some(segments)) => limits.segments = limits.segments.min(segments.max(1)),
                _ => (),
            }
            rest = rest.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
        }
        Some(limits)
    }
}

fn ask(interface: u32) -> Option<SegmentationLimits> {
    let fd: OwnedFd =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute).ok()?;
    connect(fd.as_raw_fd(), &NetlinkAddr::new(0, 0)).ok()?;
    send(fd.as_raw_fd(), &question(interface), MsgFlags::empty()).ok()?;
    let mut answer = vec![0; ANSWER_BYTES];
    // The kernel has answered within the call before, so this does not wait; if it ever would, there is no answer.
    let length = recv(fd.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT).ok()?;
    SegmentationLimits::parse(answer.get(..length)?)
}

/// RTM_GETLINK for one interface.
fn question(interface: u32) -> [u8; MESSAGE_HEADER + LINK_HEADER] {
    let mut bytes = [0; MESSAGE_HEADER + LINK_HEADER];
    bytes[..4].copy_from_slice(&((MESSAGE_HEADER + LINK_HEADER) as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&libc::RTM_GETLINK.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
    bytes[MESSAGE_HEADER + 4..MESSAGE_HEADER + 8].copy_from_slice(&interface.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let length = (ATTRIBUTE_HEADER + value.len()) as u16;
        let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        bytes
    }

    fn answer(attributes: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = question(7).to_vec();
        bytes.extend(attributes.concat());
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes[4..6].copy_from_slice(&libc::RTM_NEWLINK.to_ne_bytes());
        bytes
    }

    #[test]
    fn the_least_of_what_an_interface_says_is_its_limit() {
        let name = attribute(libc::IFLA_IFNAME, b"eth0\0");
        let number = |kind, value: u32| attribute(kind, &value.to_ne_bytes());
        let both = answer(&[
            name.clone(),
            number(libc::IFLA_GSO_MAX_SIZE, 60_000),
            number(libc::IFLA_GSO_MAX_SEGS, 1),
            number(GSO_IPV4_MAX_SIZE, 1600),
        ]);
        assert_eq!(SegmentationLimits::parse(&both), Some(SegmentationLimits { frame_bytes: 1600, segments: 1 }));
        assert_eq!(SegmentationLimits::parse(&answer(&[name])), Some(SegmentationLimits::USUAL));
        let none = answer(&[number(libc::IFLA_GSO_MAX_SEGS, 0), number(libc::IFLA_GSO_MAX_SIZE, 600_000)]);
        let limits = SegmentationLimits { segments: 1, ..SegmentationLimits::USUAL };
        assert_eq!(SegmentationLimits::parse(&none), Some(limits), "a packet of IP is not longer than 64 KiB here");
    }

    #[test]
    fn an_answer_that_is_cut_or_none_says_nothing() {
        let whole = answer(&[attribute(libc::IFLA_GSO_MAX_SEGS, &1_u32.to_ne_bytes())]);
        (0..whole.len()).for_each(|length| assert_eq!(SegmentationLimits::parse(&whole[..length]), None, "{length}"));
        assert_eq!(SegmentationLimits::parse(&question(7)), None, "it is a question");
        let mut lies = whole;
        lies[MESSAGE_HEADER + LINK_HEADER..][..2].copy_from_slice(&0_u16.to_ne_bytes());
        assert_eq!(SegmentationLimits::parse(&lies), Some(SegmentationLimits::USUAL));
    }

    #[test]
    fn the_kernel_tells_of_the_loopback_and_of_nothing_else() {
        // The loopback has index 1 in each namespace.
        let limits = ask(1).unwrap();
        assert!(limits.frame_bytes >= 1500 && limits.segments >= 1, "{limits:?}");
        assert_eq!(SegmentationLimits::of(u32::MAX >> 1), SegmentationLimits::USUAL);
    }
}
