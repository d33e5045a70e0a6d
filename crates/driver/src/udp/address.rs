//! Socket addresses in the kernel's layout (`struct sockaddr_in`, `struct sockaddr_in6`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Bytes of the larger of the two.
const BYTES: usize = 28;

/// One address, for the kernel to read or to write.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct Name {
    bytes: [u8; BYTES],
}

impl Name {
    pub(crate) const EMPTY: Self = Self { bytes: [0; BYTES] };

    /// The address for a socket of this family: one for IPv6 uses mapped IPv4.
    pub(crate) fn new(address: SocketAddr, is_ipv6: bool) -> Self {
        match address {
            SocketAddr::V4(v4) if !is_ipv6 => Self::v4(*v4.ip(), v4.port()),
            SocketAddr::V4(v4) => Self::v6(&SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0)),
            SocketAddr::V6(v6) => Self::v6(&v6),
        }
    }

    fn v4(ip: Ipv4Addr, port: u16) -> Self {
        let mut name = Self::with_family(libc::AF_INET, port);
        name.bytes[4..8].copy_from_slice(&ip.octets());
        name
    }

    fn v6(address: &SocketAddrV6) -> Self {
        let mut name = Self::with_family(libc::AF_INET6, address.port());
        name.bytes[4..8].copy_from_slice(&address.flowinfo().to_be_bytes());
        name.bytes[8..24].copy_from_slice(&address.ip().octets());
        name.bytes[24..28].copy_from_slice(&address.scope_id().to_ne_bytes());
        name
    }

    fn with_family(family: i32, port: u16) -> Self {
        let mut name = Self::EMPTY;
        name.bytes[..2].copy_from_slice(&(family as libc::sa_family_t).to_ne_bytes());
        name.bytes[2..4].copy_from_slice(&port.to_be_bytes());
        name
    }

    /// For the kernel to read, or to write to.
    pub(crate) const fn pointer(&mut self) -> *mut libc::c_void {
        self.bytes.as_mut_ptr().cast()
    }

    /// Bytes there are.
    pub(crate) const fn room() -> libc::socklen_t {
        BYTES as libc::socklen_t
    }

    /// Bytes that the address has.
    pub(crate) fn length(&self) -> libc::socklen_t {
        if self.family() == libc::AF_INET { 16 } else { 28 }
    }

    /// The address, with mapped IPv4 as IPv4. `None`: it is of another family.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        parse(&self.bytes)
    }

    fn family(&self) -> i32 {
        i32::from(libc::sa_family_t::from_ne_bytes([self.bytes[0], self.bytes[1]]))
    }
}

/// The socket address at the start of `bytes`, as [`Name::address`] gives it.
pub(crate) fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(libc::sa_family_t::from_ne_bytes(array(bytes, 0)?));
    let port = u16::from_be_bytes(array(bytes, 2)?);
    match family {
        libc::AF_INET => Some(SocketAddr::new(array::<4>(bytes, 4)?.into(), port)),
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(array::<16>(bytes, 8)?);
            match ip.to_canonical() {
                IpAddr::V4(ip) => Some(SocketAddr::new(ip.into(), port)),
                // Without its scope a link-local address means nothing. The flow label is not part of an address.
                IpAddr::V6(ip) => Some(SocketAddrV6::new(ip, port, 0, u32::from_ne_bytes(array(bytes, 24)?)).into()),
            }
        }
        _ => None,
    }
}

/// `N` bytes from `at` on, if they exist.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_system() {
        for text in ["10.1.2.3:4567", "[2001:db8::1]:1", "[fe80::1%7]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            let mut name = Name::new(address, address.is_ipv6());
            let theirs = socket2::SockAddr::from(address);
            assert_eq!(name.length(), theirs.len());
            // SAFETY: Both have as many bytes.
            let (a, b) = unsafe {
                let length = theirs.len() as usize;
                let ours = core::slice::from_raw_parts(name.pointer().cast::<u8>(), length);
                (ours, core::slice::from_raw_parts(theirs.as_ptr().cast::<u8>(), length))
            };
            assert_eq!(a, b, "{text}");
            assert_eq!(name.address(), Some(address));
        }
    }

    #[test]
    fn ipv4_is_mapped_for_an_ipv6_socket_and_back() {
        let address: SocketAddr = "10.1.2.3:4567".parse().unwrap();
        let name = Name::new(address, true);
        assert_eq!((name.length(), name.address()), (28, Some(address)));
    }

    #[test]
    fn what_is_cut_or_foreign_is_nothing() {
        assert_eq!(Name::EMPTY.address(), None);
        assert_eq!(parse(&Name::new("[::1]:2".parse().unwrap(), true).bytes[..20]), None);
    }
}
