//! C's socket addresses.

use core::ffi::c_void;
use core::mem::size_of;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The bytes of a `struct sockaddr_in` or `struct sockaddr_in6`.
pub(crate) fn bytes(address: &SocketAddr) -> Vec<u8> {
    match address {
        SocketAddr::V4(four) => {
            let family = (libc::AF_INET as u16).to_ne_bytes();
            [&family[..], &four.port().to_be_bytes(), &four.ip().octets(), &[0; 8]].concat()
        }
        SocketAddr::V6(six) => {
            let family = (libc::AF_INET6 as u16).to_ne_bytes();
            let flow = six.flowinfo().to_be_bytes();
            let scope = six.scope_id().to_ne_bytes();
            [&family[..], &six.port().to_be_bytes(), &flow, &six.ip().octets(), &scope].concat()
        }
    }
}

/// Reads a socket address. `None` for another family.
///
/// # Safety
/// A structure of its family can be read there.
pub(crate) unsafe fn read(at: *const c_void) -> Option<SocketAddr> {
    // SAFETY: Every socket address begins with its family.
    let family = unsafe { at.cast::<libc::sa_family_t>().read_unaligned() };
    match libc::c_int::from(family) {
        libc::AF_INET => {
            // SAFETY: The family says that it is one.
            let four = unsafe { at.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from_bits(u32::from_be(four.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(four.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: The family says that it is one.
            let six = unsafe { at.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(six.sin6_addr.s6_addr);
            let (port, flow) = (u16::from_be(six.sin6_port), u32::from_be(six.sin6_flowinfo));
            Some(SocketAddrV6::new(ip, port, flow, six.sin6_scope_id).into())
        }
        _ => None,
    }
}

const _: () = assert!(size_of::<libc::sockaddr_in>() == 16 && size_of::<libc::sockaddr_in6>() == 28);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for text in ["192.0.2.1:5000", "[2001:db8::7]:65535", "[fe80::1%3]:1"] {
            let address: SocketAddr = text.parse().unwrap();
            let bytes = bytes(&address);
            assert_eq!(bytes.len(), if address.is_ipv4() { 16 } else { 28 });
            // SAFETY: The bytes are a socket address.
            assert_eq!(unsafe { read(bytes.as_ptr().cast()) }, Some(address));
        }
    }

    #[test]
    fn another_family_is_none() {
        let bytes = [0u8; 28];
        // SAFETY: Its family can be read, and nothing more is.
        assert_eq!(unsafe { read(bytes.as_ptr().cast()) }, None);
    }
}
