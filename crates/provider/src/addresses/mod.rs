//! Formats of endpoints' addresses, and address vectors.
//!
//! | format | contents |
//! |---|---|
//! | `FI_SOCKADDR_IN`, `FI_SOCKADDR_IN6`, `FI_SOCKADDR` | one path to the endpoint, without its id |
//! | `FI_ADDR_STR` | `fi_sockaddr_in://192.0.2.1:5000?also=2001:db8::1&id=1f&by=edge`: paths, id and transport |
//! | Weft's own ([`packed`]) | 64 bytes: up to four paths, id, transport |

mod entries;
pub(crate) mod packed;
pub(crate) mod resolve;
pub(crate) mod sockaddr;
pub(crate) mod text;
pub(crate) mod vector;

use core::ffi::{CStr, c_char, c_int, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weft::endpoint::Address;
use weft_libfabric::abi::{
    FI_ADDR_STR, FI_PROV_SPECIFIC, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_SOCKADDR_IP, fi_info,
};

use crate::errno::Errno;
use crate::interfaces;

/// The number of Weft's own format, and of its protocol: "weft" in ASCII, in the range of providers.
pub(crate) const OWN: u32 = FI_PROV_SPECIFIC | u32::from_be_bytes(*b"weft");

/// Formats of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// `struct sockaddr_in`.
    Ip4,
    /// `struct sockaddr_in6`.
    Ip6,
    /// Either of both, by its family.
    Ip,
    /// A string.
    Text,
    /// [`packed`].
    Packed,
}

impl Format {
    /// The format with this number of `rdma/fabric.h`. `FI_FORMAT_UNSPEC` is none of them: the caller chooses one.
    pub(crate) const fn from_number(number: u32) -> Option<Self> {
        match number {
            FI_SOCKADDR_IN => Some(Self::Ip4),
            FI_SOCKADDR_IN6 => Some(Self::Ip6),
            FI_SOCKADDR | FI_SOCKADDR_IP => Some(Self::Ip),
            FI_ADDR_STR => Some(Self::Text),
            OWN => Some(Self::Packed),
            _ => None,
        }
    }

    /// The bytes of an address in this format, as returned by `fi_getname`. `None` when it has no path of that family.
    pub(crate) fn bytes(self, address: &Address) -> Option<Vec<u8>> {
        match self {
            Self::Ip4 => address.paths.iter().find(|path| path.is_ipv4()).map(sockaddr::bytes),
            Self::Ip6 => address.paths.iter().find(|path| path.is_ipv6()).map(sockaddr::bytes),
            Self::Ip => address.paths.first().map(sockaddr::bytes),
            Self::Text => text::write(address).map(|text| [text.as_bytes(), &[0]].concat()),
            Self::Packed => packed::write(address).map(|bytes| bytes.to_vec()),
        }
    }

    /// Writes an address to C's buffer, as `fi_getname` and `fi_av_lookup` do: as much as there is room for. Sets
    /// `length` to its whole length. Returns whether it was truncated.
    ///
    /// # Errors
    /// NULL, or an address without this format.
    ///
    /// # Safety
    /// `length` is NULL or can be read and written; this many bytes at `to` can be written, or it is NULL.
    pub(crate) unsafe fn give(self, address: &Address, to: *mut c_void, length: *mut usize) -> Result<bool, Errno> {
        if length.is_null() {
            return Err(Errno::INVALID);
        }
        let bytes = self.bytes(address).ok_or(Errno::INVALID)?;
        // SAFETY: Not NULL, and then it can be read.
        let room = if to.is_null() { 0 } else { unsafe { length.read() } };
        let now = room.min(bytes.len());
        // SAFETY: This many bytes can be written at `to`, or they are none; and the length can be written.
        unsafe {
            if now > 0 {
                core::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), now);
            }
            length.write(bytes.len());
        }
        Ok(room < bytes.len())
    }

    /// Reads an address of C's.
    ///
    /// # Errors
    /// NULL, or bytes that are no address of this format.
    ///
    /// # Safety
    /// `at` is NULL or the beginning of an address of this format.
    pub(crate) unsafe fn read(self, at: *const c_void) -> Result<Address, Errno> {
        if at.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: Not NULL, so it is the beginning of an address; each reads as much as its format has.
        let address = unsafe {
            match self {
                Self::Ip4 | Self::Ip6 | Self::Ip => {
                    sockaddr::read(at).filter(|path| self.takes(path)).map(Address::from)
                }
                Self::Text => CStr::from_ptr(at.cast::<c_char>()).to_str().ok().and_then(text::read),
                Self::Packed => packed::read(&at.cast::<[u8; packed::LENGTH]>().read()),
            }
        };
        address.ok_or(Errno::INVALID)
    }

    /// The distance to the next address in an array. The text format has pointers there.
    ///
    /// # Safety
    /// `at` is the beginning of an address in an array.
    pub(crate) unsafe fn step(self, at: *const c_void) -> usize {
        match self {
            Self::Packed => packed::LENGTH,
            Self::Text => size_of::<*const c_char>(),
            Self::Ip4 => size_of::<libc::sockaddr_in>(),
            Self::Ip6 => size_of::<libc::sockaddr_in6>(),
            // SAFETY: It is a socket address, and begins with its family.
            Self::Ip => match c_int::from(unsafe { at.cast::<libc::sa_family_t>().read_unaligned() }) {
                libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
                _ => size_of::<libc::sockaddr_in>(),
            },
        }
    }

    /// Whether the format supports such a path.
    pub(crate) const fn takes(self, path: &SocketAddr) -> bool {
        match self {
            Self::Ip4 => path.is_ipv4(),
            Self::Ip6 => path.is_ipv6(),
            _ => true,
        }
    }
}

/// Where an endpoint that is opened with this info listens, and its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The address to listen at.
    pub(crate) bind: SocketAddr,
    /// The addresses at which peers reach it. Empty when it listens at one.
    pub(crate) paths: Vec<IpAddr>,
}

impl Place {
    /// From the source address of an info: exactly that, if it is a socket address; all addresses of the machine that
    /// it lists, if it is Weft's own; and all of the machine's if there is none.
    ///
    /// # Errors
    /// An address that does not match the format.
    ///
    /// # Safety
    /// `info` is a result of `fi_getinfo`, as the application has changed it, or a copy of that.
    pub(crate) unsafe fn of_info(info: *const fi_info) -> Result<Self, Errno> {
        // SAFETY: The fields are there in all versions.
        let (number, source, length) = unsafe { ((*info).addr_format, (*info).src_addr, (*info).src_addrlen) };
        if source.is_null() || length == 0 {
            return Ok(Self::anywhere(0, interfaces::addresses()));
        }
        let format = Format::from_number(number).ok_or(Errno::INVALID)?;
        // SAFETY: The application says that it is an address of this format.
        let address = unsafe { format.read(source) }?;
        Ok(Self::of_address(&address))
    }

    /// Of an address.
    pub(crate) fn of_address(address: &Address) -> Self {
        match address.paths.as_slice() {
            [] => Self::anywhere(0, interfaces::addresses()),
            [one] if one.ip().is_unspecified() => Self::anywhere(one.port(), interfaces::addresses()),
            [one] => Self { bind: *one, paths: Vec::new() },
            [first, ..] => Self::anywhere(first.port(), address.paths.iter().map(SocketAddr::ip).collect()),
        }
    }

    fn anywhere(port: u16, paths: Vec<IpAddr>) -> Self {
        let any = if paths.iter().any(IpAddr::is_ipv6) {
            IpAddr::V6(Ipv6Addr::UNSPECIFIED)
        } else {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        };
        Self { bind: SocketAddr::new(any, port), paths }
    }
}
