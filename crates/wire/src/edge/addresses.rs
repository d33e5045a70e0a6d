//! Where else a host is found: what a connection's further rails lead to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::EdgeError;
use super::reader::Reader;

/// The most addresses in a list, and the most rails of a connection.
pub const MAX_RAILS: usize = 16;
/// The most bytes of a list: each address with its kind and port.
pub const MAX_ADDRESSES_LENGTH: usize = MAX_RAILS * 19;

const V4: u8 = 4;
const V6: u8 = 6;

/// A list of addresses. It takes the place of the list before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses<'a> {
    /// Counts the lists of a connection's side: of two the one with the higher number counts.
    pub serial: u32,
    packed: &'a [u8],
}

impl<'a> Addresses<'a> {
    /// Of addresses that [`pack_address`] wrote.
    ///
    /// # Errors
    /// One of them can't be read, or they are more than [`MAX_RAILS`].
    pub fn packed(serial: u32, packed: &'a [u8]) -> Result<Self, EdgeError> {
        let mut reader = Reader(packed);
        let mut count = 0;
        while !reader.0.is_empty() {
            parse_address(&mut reader)?;
            count += 1;
        }
        if count > MAX_RAILS {
            return Err(EdgeError::Value("the number of addresses"));
        }
        Ok(Self { serial, packed })
    }

    /// An empty list: the sender is found nowhere else any more.
    #[must_use]
    pub const fn none(serial: u32) -> Self {
        Self { serial, packed: &[] }
    }

    /// The addresses.
    pub fn iter(&self) -> impl Iterator<Item = SocketAddr> + use<'a> {
        let mut reader = Reader(self.packed);
        core::iter::from_fn(move || parse_address(&mut reader).ok())
    }

    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, EdgeError> {
        let serial = reader.u32()?;
        Self::packed(serial, reader.counted(MAX_ADDRESSES_LENGTH, "the length of addresses")?)
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.serial.to_be_bytes());
        out.extend_from_slice(&(self.packed.len() as u16).to_be_bytes());
        out.extend_from_slice(self.packed);
    }

    /// Bytes of the frame, with the type.
    #[must_use]
    pub fn length(&self) -> usize {
        1 + 4 + 2 + self.packed.len()
    }
}

/// Writes an address at the end of `out`.
pub fn pack_address(address: SocketAddr, out: &mut impl Extend<u8>) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.extend([V4]);
            out.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            out.extend([V6]);
            out.extend(ip.octets());
        }
    }
    out.extend(address.port().to_be_bytes());
}

fn parse_address(reader: &mut Reader<'_>) -> Result<SocketAddr, EdgeError> {
    let ip: IpAddr = match reader.u8()? {
        V4 => Ipv4Addr::from(reader.array::<4>()?).into(),
        V6 => Ipv6Addr::from(reader.array::<16>()?).into(),
        _ => return Err(EdgeError::Value("the kind of an address")),
    };
    match reader.u16()? {
        0 => Err(EdgeError::Value("the port of an address")),
        port if is_one_host(ip) => Ok(SocketAddr::new(ip, port)),
        _ => Err(EdgeError::Value("an address")),
    }
}

/// Whether a datagram to it reaches one host that it names.
fn is_one_host(ip: IpAddr) -> bool {
    // What an IPv6 address wraps is what an IPv4 socket would send to.
    let ip = ip.to_canonical();
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !(ip.is_multicast() || ip.is_unspecified() || is_broadcast)
}
