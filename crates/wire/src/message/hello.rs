//! What both ends of a connection between endpoints tell each other when they connect, in MPA's private data.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use arrayvec::ArrayVec;

use super::{MIN_PACKET_BYTES, VERSION};
use crate::bytes::{read_u16, read_u32, read_u64, write_u16, write_u32, write_u64};

/// The most addresses of an endpoint.
pub const MAX_ADDRESSES: usize = 4;
/// The most bytes of a [`Hello`].
pub const MAX_HELLO_LENGTH: usize = at::ADDRESSES + MAX_ADDRESSES * at::ADDRESS_LENGTH;
/// Bytes of a [`Refusal`].
pub const REFUSAL_LENGTH: usize = 5;

/// Where each field begins, in bytes.
mod at {
    pub(super) const MAGIC: &[u8; 3] = b"Wms";
    pub(super) const VERSION: usize = 3;
    pub(super) const ID: usize = 4;
    pub(super) const WANTED: usize = 12;
    pub(super) const SERIAL: usize = 20;
    pub(super) const PACKET_BYTES: usize = 28;
    pub(super) const DATA_CREDITS: usize = 32;
    pub(super) const CONTROL_CREDITS: usize = 34;
    pub(super) const COUNT: usize = 36;
    pub(super) const RESERVED: usize = 37;
    pub(super) const ADDRESSES: usize = 40;
    pub(super) const ADDRESS_LENGTH: usize = 24;
    // In an address.
    pub(super) const FAMILY: usize = 0;
    pub(super) const PORT: usize = 2;
    pub(super) const SCOPE: usize = 4;
    pub(super) const IP: usize = 8;
    // In a refusal.
    pub(super) const CODE: usize = 4;
}

/// What both ends of a connection say of themselves, in MPA's private data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Who this is: chosen at random, never 0.
    pub id: u64,
    /// The id of the endpoint that is wanted; 0: whoever it is.
    pub wanted: u64,
    /// Grows with each hello of this endpoint, so that an old request is not taken for a new one.
    pub serial: u64,
    /// The most bytes of a packet to this endpoint. At least [`MIN_PACKET_BYTES`].
    pub packet_bytes: u32,
    /// Packets with messages that may be under way to it. At least 1.
    pub data_credits: u16,
    /// Other packets that may be under way to it. At least 1.
    pub control_credits: u16,
    /// Where it listens, the best first.
    pub addresses: ArrayVec<SocketAddr, MAX_ADDRESSES>,
}

/// Why private data is no hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloError {
    /// It is that of something else.
    Foreign,
    /// Of another version.
    Version(u8),
    /// It ends too early, or has a value that may not be.
    Malformed,
}

/// The version of bytes that are a hello or a refusal, and whether this module can read them.
fn version(bytes: &[u8]) -> Result<(), HelloError> {
    let Some(version) = bytes.strip_prefix(at::MAGIC).and_then(<[u8]>::first) else {
        return Err(HelloError::Foreign);
    };
    if *version == VERSION { Ok(()) } else { Err(HelloError::Version(*version)) }
}

impl Hello {
    /// Reads private data. What follows a hello is not looked at.
    ///
    /// # Errors
    /// It is no hello that this module understands.
    pub fn parse(bytes: &[u8]) -> Result<Self, HelloError> {
        version(bytes)?;
        if bytes.len() < at::ADDRESSES {
            return Err(HelloError::Malformed);
        }
        let count = usize::from(bytes[at::COUNT]);
        let addresses = &bytes[at::ADDRESSES..];
        if count > MAX_ADDRESSES || addresses.len() < count * at::ADDRESS_LENGTH {
            return Err(HelloError::Malformed);
        }
        let addresses =
            addresses.chunks_exact(at::ADDRESS_LENGTH).take(count).map(parse_address).collect::<Option<_>>();
        let this = Self {
            id: read_u64(bytes, at::ID),
            wanted: read_u64(bytes, at::WANTED),
            serial: read_u64(bytes, at::SERIAL),
            packet_bytes: read_u32(bytes, at::PACKET_BYTES),
            data_credits: read_u16(bytes, at::DATA_CREDITS),
            control_credits: read_u16(bytes, at::CONTROL_CREDITS),
            addresses: addresses.ok_or(HelloError::Malformed)?,
        };
        let usable =
            this.id != 0 && this.packet_bytes >= MIN_PACKET_BYTES && this.data_credits > 0 && this.control_credits > 0;
        if usable { Ok(this) } else { Err(HelloError::Malformed) }
    }

    /// Bytes of this hello.
    #[must_use]
    pub const fn length(&self) -> usize {
        at::ADDRESSES + self.addresses.len() * at::ADDRESS_LENGTH
    }

    /// Writes it at the start of `bytes` and returns its length.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`Hello::length`].
    pub fn emit(&self, bytes: &mut [u8]) -> usize {
        bytes[..at::VERSION].copy_from_slice(at::MAGIC);
        bytes[at::VERSION] = VERSION;
        write_u64(bytes, at::ID, self.id);
        write_u64(bytes, at::WANTED, self.wanted);
        write_u64(bytes, at::SERIAL, self.serial);
        write_u32(bytes, at::PACKET_BYTES, self.packet_bytes);
        write_u16(bytes, at::DATA_CREDITS, self.data_credits);
        write_u16(bytes, at::CONTROL_CREDITS, self.control_credits);
        bytes[at::COUNT] = self.addresses.len() as u8;
        bytes[at::RESERVED..at::ADDRESSES].fill(0);
        for (address, at) in self.addresses.iter().zip(bytes[at::ADDRESSES..].chunks_exact_mut(at::ADDRESS_LENGTH)) {
            emit_address(address, at);
        }
        self.length()
    }
}

fn parse_address(bytes: &[u8]) -> Option<SocketAddr> {
    let port = read_u16(bytes, at::PORT);
    let ip = &bytes[at::IP..];
    match bytes[at::FAMILY] {
        4 => {
            let ip: [u8; 4] = ip[..4].try_into().ok()?;
            Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(ip)), port))
        }
        6 => {
            let ip: [u8; 16] = ip.try_into().ok()?;
            Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, read_u32(bytes, at::SCOPE)).into())
        }
        _ => None,
    }
}

fn emit_address(address: &SocketAddr, bytes: &mut [u8]) {
    bytes.fill(0);
    write_u16(bytes, at::PORT, address.port());
    match address {
        SocketAddr::V4(address) => {
            bytes[at::FAMILY] = 4;
            bytes[at::IP..at::IP + 4].copy_from_slice(&address.ip().octets());
        }
        SocketAddr::V6(address) => {
            bytes[at::FAMILY] = 6;
            write_u32(bytes, at::SCOPE, address.scope_id());
            bytes[at::IP..].copy_from_slice(&address.ip().octets());
        }
    }
}

/// Why an endpoint refuses a connection: the private data of a reject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Both have connected to each other: the other connection is the one to use.
    Tie,
    /// Another endpoint was wanted than the one that listens there.
    SomebodyElse,
    /// It does not understand this version. [`HelloError::Version`] has its own, when this is read there.
    Version,
    /// It has no room for another connection.
    Full,
    /// The caller has its own id: it has called itself.
    Itself,
    /// The caller comes from an address that is none of those of the endpoint with its id, and has proved nothing.
    Elsewhere,
    /// It has a job key, and the caller has shown none.
    KeyWanted,
    /// The caller has a job key, and it has none.
    NoKey,
}

/// Codes of refusals.
const REFUSALS: [(u8, Refusal); 8] = [
    (1, Refusal::Tie),
    (2, Refusal::SomebodyElse),
    (3, Refusal::Version),
    (4, Refusal::Full),
    (5, Refusal::Itself),
    (6, Refusal::Elsewhere),
    (7, Refusal::KeyWanted),
    (8, Refusal::NoKey),
];

impl Refusal {
    /// Reads the private data of a reject.
    ///
    /// # Errors
    /// It is no refusal that this module understands.
    pub fn parse(bytes: &[u8]) -> Result<Self, HelloError> {
        version(bytes)?;
        let code = bytes.get(at::CODE).ok_or(HelloError::Malformed)?;
        let known = REFUSALS.iter().find(|(known, _)| known == code);
        known.map(|(_, refusal)| *refusal).ok_or(HelloError::Malformed)
    }

    /// Its bytes.
    #[must_use]
    pub fn emit(self) -> [u8; REFUSAL_LENGTH] {
        let [w, m, s] = *at::MAGIC;
        // All of them have one.
        let code = REFUSALS.iter().find(|(_, known)| *known == self).map_or(0, |(code, _)| *code);
        [w, m, s, VERSION, code]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example() -> Hello {
        Hello {
            id: 0x0102_0304_0506_0708,
            wanted: 0x1112_1314_1516_1718,
            serial: 0x2122_2324_2526_2728,
            packet_bytes: 0x0001_4080,
            data_credits: 16,
            control_credits: 8,
            addresses: [
                SocketAddr::from(([192, 0, 2, 1], 0x1234)),
                SocketAddrV6::new(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1), 0x5678, 0, 3).into(),
            ]
            .into_iter()
            .collect(),
        }
    }

    #[test]
    fn exact_bytes_of_a_hello_both_ways() {
        let mut bytes = [0xa5; MAX_HELLO_LENGTH];
        let length = example().emit(&mut bytes);
        let mut expected = b"Wms\x01".to_vec();
        expected.extend([1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
        expected.extend([0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28]);
        expected.extend([0, 1, 0x40, 0x80, 0, 16, 0, 8, 2, 0, 0, 0]);
        expected.extend([4, 0, 0x12, 0x34, 0, 0, 0, 0, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([6, 0, 0x56, 0x78, 0, 0, 0, 3, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(&bytes[..length], expected);
        assert!(bytes[length..].iter().all(|byte| *byte == 0xa5));
        assert_eq!(Hello::parse(&expected), Ok(example()));
        for shorter in 4..expected.len() {
            assert_eq!(Hello::parse(&expected[..shorter]), Err(HelloError::Malformed));
        }
    }

    #[test]
    fn a_hello_that_cannot_be_is_refused() {
        let parse = |hello: &Hello| {
            let mut bytes = [0xa5; MAX_HELLO_LENGTH];
            let length = hello.emit(&mut bytes);
            Hello::parse(&bytes[..length])
        };
        for hello in [
            Hello { id: 0, ..example() },
            Hello { packet_bytes: MIN_PACKET_BYTES - 1, ..example() },
            Hello { data_credits: 0, ..example() },
            Hello { control_credits: 0, ..example() },
        ] {
            assert_eq!(parse(&hello), Err(HelloError::Malformed));
        }
        assert_eq!(Hello::parse(b""), Err(HelloError::Foreign));
        assert_eq!(Hello::parse(b"Wms"), Err(HelloError::Foreign));
        assert_eq!(Hello::parse(b"Wmt\x01"), Err(HelloError::Foreign));
        assert_eq!(Hello::parse(b"Wms\x02"), Err(HelloError::Version(2)));
    }

    #[test]
    fn refusals_both_ways() {
        for (code, refusal) in REFUSALS {
            assert_eq!(refusal.emit(), [b'W', b'm', b's', 1, code]);
            assert_eq!(Refusal::parse(&refusal.emit()), Ok(refusal));
        }
        assert_eq!(Refusal::parse(b"Wms\x01"), Err(HelloError::Malformed));
        assert_eq!(Refusal::parse(b"Wms\x01\x09"), Err(HelloError::Malformed));
        assert_eq!(Refusal::parse(b"Wms\x07\x01"), Err(HelloError::Version(7)));
    }

    proptest! {
        #[test]
        fn any_private_data_parses_without_panic(mut bytes: Vec<u8>, greeted: bool) {
            if greeted && bytes.len() >= 4 {
                bytes[..4].copy_from_slice(b"Wms\x01");
            }
            let _ = Hello::parse(&bytes);
            let _ = Refusal::parse(&bytes);
        }
    }
}
