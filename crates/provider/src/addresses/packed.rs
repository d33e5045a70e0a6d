//! Weft's own format: 64 bytes, because MPI libraries have a name buffer of that length.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | `we` |
//! | 2 | version: 1 |
//! | 3 | number of addresses |
//! | 4..6 | port, big-endian: the same for all of them |
//! | 6 | transport: 0 unspecified, 1 iwarp, 2 edge, 3 shm, 4 shm+iwarp, 5 auto, 6 shm+edge |
//! | 7 | 0 |
//! | 8..16 | endpoint id, big-endian |
//! | 16..64 | the addresses: 4 and an IPv4 address, or 6 and an IPv6 address; then 0 |

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weft::endpoint::{Address, MAX_ADDRESSES};
use weft::verbs::Transport;

/// Length of an address in bytes.
pub(crate) const LENGTH: usize = 64;

const MARK: [u8; 3] = *b"we\x01";
const HEADER: usize = 16;

/// The bytes of an address. IPv6 addresses for which there is no room are left out; so are paths with another port than
/// the first. `None` without a path.
pub(crate) fn write(address: &Address) -> Option<[u8; LENGTH]> {
    let port = address.paths.first()?.port();
    let mut bytes = [0; LENGTH];
    bytes[..3].copy_from_slice(&MARK);
    bytes[4..6].copy_from_slice(&port.to_be_bytes());
    bytes[6] = address.transport.map_or(0, code);
    bytes[8..HEADER].copy_from_slice(&address.id.to_be_bytes());
    let mut at = HEADER;
    for path in address.paths.iter().filter(|path| path.port() == port) {
        let entry = match path.ip() {
            IpAddr::V4(four) => [&[4][..], &four.octets()].concat(),
            IpAddr::V6(six) => [&[6][..], &six.octets()].concat(),
        };
        if let Some(room) = bytes.get_mut(at..at + entry.len()) {
            room.copy_from_slice(&entry);
            at += entry.len();
            bytes[3] += 1;
        }
    }
    Some(bytes)
}

/// Parses an address. `None` when it is invalid.
pub(crate) fn read(bytes: &[u8; LENGTH]) -> Option<Address> {
    if bytes[..3] != MARK || usize::from(bytes[3]) > MAX_ADDRESSES {
        return None;
    }
    let port = u16::from_be_bytes([bytes[4], bytes[5]]);
    let (id, mut rest) = bytes[8..].split_first_chunk::<8>()?;
    // A number of a later version is ignored.
    let transport = Transport::ALL.into_iter().find(|transport| code(*transport) == bytes[6]);
    let mut address = Address { id: u64::from_be_bytes(*id), paths: Default::default(), transport };
    for _ in 0..bytes[3] {
        let (family, behind) = rest.split_first()?;
        let (ip, behind) = match family {
            4 => behind.split_first_chunk::<4>().map(|(four, behind)| (Ipv4Addr::from(*four).into(), behind))?,
            6 => behind.split_first_chunk::<16>().map(|(six, behind)| (IpAddr::from(Ipv6Addr::from(*six)), behind))?,
            _ => return None,
        };
        address.paths.push(SocketAddr::new(ip, port));
        rest = behind;
    }
    (!address.paths.is_empty()).then_some(address)
}

/// The number of a transport.
const fn code(transport: Transport) -> u8 {
    match transport {
        Transport::Iwarp => 1,
        Transport::Edge => 2,
        Transport::SharedMemory => 3,
        Transport::SharedMemoryOrIwarp => 4,
        Transport::Auto => 5,
        Transport::SharedMemoryOrEdge => 6,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(id: u64, paths: &[&str]) -> Address {
        Address { id, paths: paths.iter().map(|path| path.parse().unwrap()).collect(), transport: None }
    }

    #[test]
    fn exact_bytes() {
        let bytes = write(&address(0x0102, &["192.0.2.1:5000", "[2001:db8::1]:5000"])).unwrap();
        assert_eq!(bytes[..16], *b"we\x01\x02\x13\x88\0\0\0\0\0\0\0\0\x01\x02");
        assert_eq!(bytes[16..21], [4, 192, 0, 2, 1]);
        assert_eq!(bytes[21..38], [6, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(bytes[38..], [0; 26]);
    }

    #[test]
    fn there_and_back() {
        for paths in [
            &["192.0.2.1:5000"][..],
            &["192.0.2.1:5000", "192.0.2.2:5000", "192.0.2.3:5000", "192.0.2.4:5000"],
            &["[2001:db8::1]:5000", "[2001:db8::2]:5000", "192.0.2.2:5000"],
        ] {
            for transport in [None].into_iter().chain(Transport::ALL.map(Some)) {
                let address = Address { transport, ..address(u64::MAX, paths) };
                assert_eq!(read(&write(&address).unwrap()), Some(address));
            }
        }
    }

    #[test]
    fn a_transport_of_a_later_version_is_none() {
        let edge = Address { transport: Some(Transport::Edge), ..address(1, &["192.0.2.1:5000"]) };
        let mut bytes = write(&edge).unwrap();
        assert_eq!(bytes[6..8], [2, 0]);
        bytes[6] = 77;
        assert_eq!(read(&bytes), Some(Address { transport: None, ..edge }));
    }

    #[test]
    fn what_has_no_room_is_left_out() {
        let four = ["[2001:db8::1]:7", "[2001:db8::2]:7", "[2001:db8::3]:7", "192.0.2.2:7"];
        let paths = read(&write(&address(1, &four)).unwrap()).unwrap().paths;
        assert_eq!(paths.as_slice(), &address(1, &[four[0], four[1], four[3]]).paths[..]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_address_or_none(mut bytes in prop::array::uniform32(any::<u8>()), marked in any::<bool>()) {
            if marked {
                bytes[..3].copy_from_slice(&MARK);
                bytes[3] %= 6;
            }
            let mut whole = [0; LENGTH];
            whole[..32].copy_from_slice(&bytes);
            if let Some(address) = read(&whole) {
                let again = read(&write(&address).unwrap());
                prop_assert_eq!(again, Some(address));
            }
        }

        #[test]
        fn any_address_comes_back(
            id: u64,
            port: u16,
            four in prop::collection::vec(any::<u32>(), 1..=2),
            six in prop::collection::vec(any::<u128>(), 0..=2),
        ) {
            let four = four.into_iter().map(|bits| IpAddr::V4(bits.into()));
            let six = six.into_iter().map(|bits| IpAddr::V6(bits.into()));
            let paths = six.chain(four).map(|ip| SocketAddr::new(ip, port)).collect();
            let address = Address { id, paths, transport: None };
            prop_assert_eq!(read(&write(&address).unwrap()), Some(address));
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let good = write(&address(1, &["192.0.2.1:5000"])).unwrap();
        for (at, value) in [(0, b'x'), (2, 2), (3, 0), (3, 2), (3, 5), (16, 5)] {
            let mut bad = good;
            bad[at] = value;
            assert_eq!(read(&bad), None, "byte {at} is {value}");
        }
        assert_eq!(write(&address(1, &[])), None);
    }
}
