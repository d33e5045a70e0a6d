//! The hello on the Unix socket, byte by byte, numbers big-endian. It is from a process of the same user, but
//! untrusted.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use weft_ring::Capacity;

/// The prefix of a hello; the last digit is the version.
const MAGIC: [u8; 8] = *b"WeftShm1";
/// Bytes of a hello.
pub(super) const HELLO_BYTES: usize = 8 + 4 + 2 * ADDRESS_BYTES;
/// The answer of a listener that cannot map the memory, before it ends the stream. A wake-up is 0.
pub(super) const DECLINED: u8 = 1;
/// An IPv6 address, or a mapped IPv4 one, and a port number.
const ADDRESS_BYTES: usize = 16 + 2;

/// The caller's message, with which it passes the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    /// Bytes of each of the two rings.
    pub(super) capacity: Capacity,
    /// Its own address, as TCP would show it.
    pub(super) from: SocketAddr,
    /// The address that it connects to.
    pub(super) to: SocketAddr,
}

impl Hello {
    pub(super) fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&(self.capacity.bytes() as u32).to_be_bytes());
        bytes[12..12 + ADDRESS_BYTES].copy_from_slice(&encode_address(self.from));
        bytes[12 + ADDRESS_BYTES..].copy_from_slice(&encode_address(self.to));
        bytes
    }

    /// `None` if it is invalid, or of another version.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HELLO_BYTES] = bytes.try_into().ok()?;
        let (magic, rest) = bytes.split_first_chunk::<8>()?;
        let (capacity, rest) = rest.split_first_chunk::<4>()?;
        let (from, rest) = rest.split_first_chunk()?;
        let (to, _) = rest.split_first_chunk()?;
        let capacity = Capacity::new(u32::from_be_bytes(*capacity))?;
        (*magic == MAGIC).then(|| Self { capacity, from: decode_address(from), to: decode_address(to) })
    }
}

fn encode_address(address: SocketAddr) -> [u8; ADDRESS_BYTES] {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; ADDRESS_BYTES];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&address.port().to_be_bytes());
    bytes
}

fn decode_address(bytes: &[u8; ADDRESS_BYTES]) -> SocketAddr {
    let mut ip = [0; 16];
    ip.copy_from_slice(&bytes[..16]);
    SocketAddr::new(Ipv6Addr::from(ip).to_canonical(), u16::from_be_bytes([bytes[16], bytes[17]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_there_and_back() {
        let hello = Hello {
            capacity: Capacity::new(1 << 17).unwrap(),
            from: "127.0.0.1:40000".parse().unwrap(),
            to: "[2001:db8::1]:7471".parse().unwrap(),
        };
        let bytes = hello.encode();
        assert_eq!(&bytes[..12], b"WeftShm1\x00\x02\x00\x00");
        assert_eq!(bytes[22..30], [0xff, 0xff, 127, 0, 0, 1, 0x9c, 0x40]);
        assert_eq!(Hello::decode(&bytes), Some(hello));
    }

    #[test]
    fn what_is_none_is_refused() {
        let hello = Hello {
            capacity: Capacity::new(64).unwrap(),
            from: "127.0.0.1:1".parse().unwrap(),
            to: "127.0.0.1:2".parse().unwrap(),
        };
        let good = hello.encode();
        assert_eq!(Hello::decode(&good[1..]), None);
        assert_eq!(Hello::decode(&[]), None);
        for at in 0..12 {
            let mut bad = good;
            bad[at] ^= 0x81;
            assert_eq!(Hello::decode(&bad), None, "byte {at}");
        }
    }
}
