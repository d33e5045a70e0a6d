//! What both ends of a connection between endpoints tell each other when they connect, in MPA's private data.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use arrayvec::ArrayVec;
use weft_base::HostId;

use super::{MIN_PACKET_BYTES, VERSION};
use crate::bytes::{read_u16, read_u32, read_u64, write_u16, write_u32, write_u64};

/// The most addresses of an endpoint.
pub const MAX_ADDRESSES: usize = 4;
/// Bytes of a [`Hello::nonce`].
pub const NONCE_LENGTH: usize = 16;
/// Bytes of a [`Hello::host`].
const HOST_LENGTH: usize = 24;
/// Bytes of a [`Hello::proof`], and of the one that answers it.
pub const PROOF_LENGTH: usize = 32;
/// The most bytes of a [`Hello`].
pub const MAX_HELLO_LENGTH: usize =
    at::ADDRESSES + MAX_ADDRESSES * at::ADDRESS_LENGTH + at::VALUE * 3 + HOST_LENGTH + NONCE_LENGTH + PROOF_LENGTH;
/// Bytes of a [`Refusal`].
pub const REFUSAL_LENGTH: usize = 5;
/// Bytes of a [`Confirmation`].
pub const CONFIRMATION_LENGTH: usize = at::CODE + PROOF_LENGTH;
/// Bytes of a [`Verdict`].
pub const VERDICT_LENGTH: usize = 16;

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
    // In an extension.
    pub(super) const KIND: usize = 0;
    pub(super) const LENGTH: usize = 2;
    pub(super) const VALUE: usize = 4;
    // In a refusal, and in a verdict.
    pub(super) const CODE: usize = 4;
    pub(super) const VERDICT_SERIAL: usize = 8;
}

/// Kinds of what may follow the addresses of a hello.
mod kind {
    /// A peer that does not know an extension with this bit must refuse; others are skipped.
    pub(super) const MUST: u16 = 0x8000;
    pub(super) const NONCE: u16 = MUST | 1;
    pub(super) const PROOF: u16 = MUST | 2;
    pub(super) const HOST: u16 = 3;
}

/// What both ends of a connection say of themselves, in MPA's private data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The sender's identity: chosen at random, never 0.
    pub id: u64,
    /// The id of the endpoint that is wanted; 0: any.
    pub wanted: u64,
    /// Grows with each hello of this endpoint, so that an old request is not taken for a new one.
    pub serial: u64,
    /// The most bytes of a packet to this endpoint. At least [`MIN_PACKET_BYTES`].
    pub packet_bytes: u32,
    /// Packets with messages that may be in flight to it. At least 1.
    pub data_credits: u16,
    /// Other packets that may be in flight to it. At least 1.
    pub control_credits: u16,
    /// Where it listens, the best first.
    pub addresses: ArrayVec<SocketAddr, MAX_ADDRESSES>,
    /// The host that it runs on, and the boot that this is from.
    pub host: Option<HostId>,
    /// Of an endpoint that has a job key: never the same twice.
    pub nonce: Option<[u8; NONCE_LENGTH]>,
    /// In the answer to a hello with a nonce: the proof that the answering side has the key. It is over both hellos, up
    /// to itself, and is their last field.
    pub proof: Option<[u8; PROOF_LENGTH]>,
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
    /// It has an extension of this kind, which must be understood, and is not.
    Extension(u16),
}

/// The version of bytes that are a hello or a refusal, and whether this module can read them.
fn version(bytes: &[u8]) -> Result<(), HelloError> {
    let Some(version) = bytes.strip_prefix(at::MAGIC).and_then(<[u8]>::first) else {
        return Err(HelloError::Foreign);
    };
    if *version == VERSION { Ok(()) } else { Err(HelloError::Version(*version)) }
}

impl Hello {
    /// Reads private data.
    ///
    /// # Errors
    /// It is no hello that this module understands.
    pub fn parse(bytes: &[u8]) -> Result<Self, HelloError> {
        version(bytes)?;
        if bytes.len() < at::ADDRESSES {
            return Err(HelloError::Malformed);
        }
        let count = usize::from(bytes[at::COUNT]);
        let rest = &bytes[at::ADDRESSES..];
        if count > MAX_ADDRESSES || rest.len() < count * at::ADDRESS_LENGTH {
            return Err(HelloError::Malformed);
        }
        let (addresses, extensions) = rest.split_at(count * at::ADDRESS_LENGTH);
        let Extensions { host, nonce, proof } = parse_extensions(extensions)?;
        let addresses = addresses.chunks_exact(at::ADDRESS_LENGTH).map(parse_address).collect::<Option<_>>();
        let this = Self {
            id: read_u64(bytes, at::ID),
            wanted: read_u64(bytes, at::WANTED),
            serial: read_u64(bytes, at::SERIAL),
            packet_bytes: read_u32(bytes, at::PACKET_BYTES),
            data_credits: read_u16(bytes, at::DATA_CREDITS),
            control_credits: read_u16(bytes, at::CONTROL_CREDITS),
            addresses: addresses.ok_or(HelloError::Malformed)?,
            host,
            nonce,
            proof,
        };
        let usable =
            this.id != 0 && this.packet_bytes >= MIN_PACKET_BYTES && this.data_credits > 0 && this.control_credits > 0;
        if usable { Ok(this) } else { Err(HelloError::Malformed) }
    }

    /// Bytes of this hello.
    #[must_use]
    pub const fn length(&self) -> usize {
        let host = if self.host.is_some() { at::VALUE + HOST_LENGTH } else { 0 };
        let nonce = if self.nonce.is_some() { at::VALUE + NONCE_LENGTH } else { 0 };
        let proof = if self.proof.is_some() { at::VALUE + PROOF_LENGTH } else { 0 };
        at::ADDRESSES + self.addresses.len() * at::ADDRESS_LENGTH + host + nonce + proof
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
        let mut rest = &mut bytes[at::ADDRESSES + self.addresses.len() * at::ADDRESS_LENGTH..];
        if let Some(host) = &self.host {
            let mut value = [0; HOST_LENGTH];
            value[..16].copy_from_slice(&host.boot);
            write_u64(&mut value, 16, host.network);
            rest = emit_extension(kind::HOST, &value, rest);
        }
        if let Some(nonce) = &self.nonce {
            rest = emit_extension(kind::NONCE, nonce, rest);
        }
        if let Some(proof) = &self.proof {
            emit_extension(kind::PROOF, proof, rest);
        }
        self.length()
    }

    /// What the proof of this hello is about, of its bytes.
    #[must_use]
    pub fn before_proof<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let proof = if self.proof.is_some() { at::VALUE + PROOF_LENGTH } else { 0 };
        &bytes[..bytes.len().saturating_sub(proof)]
    }
}

#[derive(Default)]
struct Extensions {
    host: Option<HostId>,
    nonce: Option<[u8; NONCE_LENGTH]>,
    proof: Option<[u8; PROOF_LENGTH]>,
}

/// What follows the addresses: each with its kind and length. Each kind once, and nothing after a proof.
fn parse_extensions(mut bytes: &[u8]) -> Result<Extensions, HelloError> {
    let mut found = Extensions::default();
    while !bytes.is_empty() {
        if bytes.len() < at::VALUE || found.proof.is_some() {
            return Err(HelloError::Malformed);
        }
        let (kind, length) = (read_u16(bytes, at::KIND), usize::from(read_u16(bytes, at::LENGTH)));
        let (value, rest) = bytes[at::VALUE..].split_at_checked(length).ok_or(HelloError::Malformed)?;
        match kind {
            kind::HOST if found.host.is_none() => found.host = Some(parse_host(value)?),
            kind::NONCE if found.nonce.is_none() => {
                found.nonce = Some(value.try_into().map_err(|_| HelloError::Malformed)?);
            }
            kind::HOST | kind::NONCE => return Err(HelloError::Malformed),
            kind::PROOF => found.proof = Some(value.try_into().map_err(|_| HelloError::Malformed)?),
            other if other & kind::MUST != 0 => return Err(HelloError::Extension(other)),
            _ => {}
        }
        bytes = rest;
    }
    Ok(found)
}

fn parse_host(value: &[u8]) -> Result<HostId, HelloError> {
    let (boot, network) = value.split_first_chunk().ok_or(HelloError::Malformed)?;
    let network = network.try_into().map_err(|_| HelloError::Malformed)?;
    Ok(HostId { boot: *boot, network: u64::from_be_bytes(network) })
}

/// Writes an extension and returns what is left of `bytes`.
fn emit_extension<'a>(kind: u16, value: &[u8], bytes: &'a mut [u8]) -> &'a mut [u8] {
    let (extension, rest) = bytes.split_at_mut(at::VALUE + value.len());
    write_u16(extension, at::KIND, kind);
    write_u16(extension, at::LENGTH, value.len() as u16);
    extension[at::VALUE..].copy_from_slice(value);
    rest
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
    /// The caller's hello has an extension that must be understood, and is not.
    Extension,
    /// Its process has no file descriptors left for another connection.
    Exhausted,
}

/// Codes of refusals.
const REFUSALS: [(u8, Refusal); 10] = [
    (1, Refusal::Tie),
    (2, Refusal::SomebodyElse),
    (3, Refusal::Version),
    (4, Refusal::Full),
    (5, Refusal::Itself),
    (6, Refusal::Elsewhere),
    (7, Refusal::KeyWanted),
    (8, Refusal::NoKey),
    (9, Refusal::Extension),
    (10, Refusal::Exhausted),
];

impl Refusal {
    /// Reads the private data of a reject.
    ///
    /// # Errors
    /// It is no refusal that this module understands.
    pub fn parse(bytes: &[u8]) -> Result<Self, HelloError> {
        version(bytes)?;
        let code = bytes.get(at::CODE).ok_or(HelloError::Malformed)?;
        Self::of(*code).ok_or(HelloError::Malformed)
    }

    fn of(code: u8) -> Option<Self> {
        REFUSALS.iter().find(|(known, _)| *known == code).map(|(_, refusal)| *refusal)
    }

    fn code(self) -> u8 {
        // All of them have one.
        REFUSALS.iter().find(|(_, known)| *known == self).map_or(0, |(code, _)| *code)
    }

    /// Its bytes.
    #[must_use]
    pub fn emit(self) -> [u8; REFUSAL_LENGTH] {
        let [w, m, s] = *at::MAGIC;
        [w, m, s, VERSION, self.code()]
    }
}

/// The first packet of a side that has opened a connection and has a job key: its own proof, over both hellos.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmation(pub [u8; PROOF_LENGTH]);

impl Confirmation {
    /// Reads a packet.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(bytes: &[u8]) -> Result<Self, HelloError> {
        version(bytes)?;
        bytes[at::CODE..].try_into().map(Self).map_err(|_| HelloError::Malformed)
    }

    /// Its bytes.
    #[must_use]
    pub fn emit(&self) -> [u8; CONFIRMATION_LENGTH] {
        let mut bytes = [0; CONFIRMATION_LENGTH];
        bytes[..at::VERSION].copy_from_slice(at::MAGIC);
        bytes[at::VERSION] = VERSION;
        bytes[at::CODE..].copy_from_slice(&self.0);
        bytes
    }
}

/// The answer to a [`Confirmation`]: only then may the side that opened the connection use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the one between the two.
    Connected {
        /// The serial of the sender, which counts from now on instead of that of its hello.
        serial: u64,
    },
    /// It is not.
    Refused(Refusal),
}

impl Verdict {
    /// Reads a packet.
    ///
    /// # Errors
    /// It is none that this module understands.
    pub fn parse(bytes: &[u8]) -> Result<Self, HelloError> {
        version(bytes)?;
        if bytes.len() != VERDICT_LENGTH {
            return Err(HelloError::Malformed);
        }
        match bytes[at::CODE] {
            0 => Ok(Self::Connected { serial: read_u64(bytes, at::VERDICT_SERIAL) }),
            code => Refusal::of(code).map(Self::Refused).ok_or(HelloError::Malformed),
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn emit(self) -> [u8; VERDICT_LENGTH] {
        let mut bytes = [0; VERDICT_LENGTH];
        bytes[..at::VERSION].copy_from_slice(at::MAGIC);
        bytes[at::VERSION] = VERSION;
        match self {
            Self::Connected { serial } => write_u64(&mut bytes, at::VERDICT_SERIAL, serial),
            Self::Refused(refusal) => bytes[at::CODE] = refusal.code(),
        }
        bytes
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
            host: None,
            nonce: None,
            proof: None,
        }
    }

    fn bytes_of(hello: &Hello) -> Vec<u8> {
        let mut bytes = [0xa5; MAX_HELLO_LENGTH];
        let length = hello.emit(&mut bytes);
        assert_eq!(length, hello.length());
        bytes[..length].to_vec()
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
        let parse = |hello: &Hello| Hello::parse(&bytes_of(hello));
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
        assert_eq!(Refusal::parse(b"Wms\x01\x0b"), Err(HelloError::Malformed));
        assert_eq!(Refusal::parse(b"Wms\x07\x01"), Err(HelloError::Version(7)));
    }

    #[test]
    fn exact_bytes_of_what_a_key_adds() {
        let plain = bytes_of(&example());
        let hello = Hello { nonce: Some([7; 16]), proof: Some([9; 32]), ..example() };
        let mut expected = plain.clone();
        expected.extend([0x80, 1, 0, 16]);
        expected.extend([7; 16]);
        let before_proof = expected.clone();
        expected.extend([0x80, 2, 0, 32]);
        expected.extend([9; 32]);
        assert_eq!(bytes_of(&hello), expected);
        assert_eq!(Hello::parse(&expected), Ok(hello.clone()));
        assert_eq!(hello.before_proof(&expected), before_proof);
        assert_eq!(example().before_proof(&plain), plain);
        for shorter in plain.len() + 1..expected.len() {
            let parsed = Hello::parse(&expected[..shorter]);
            assert_eq!(parsed.is_ok(), shorter == before_proof.len(), "{shorter}: {parsed:?}");
        }
        let host = Some(HostId { boot: [3; 16], network: 4 });
        let longest = Hello { addresses: [example().addresses[0]; MAX_ADDRESSES].into(), host, ..hello };
        assert_eq!(longest.length(), MAX_HELLO_LENGTH);
    }

    #[test]
    fn a_hello_can_grow() {
        let plain = bytes_of(&example());
        let with = |extensions: &[&[u8]]| Hello::parse(&[&plain[..], &extensions.concat()].concat());
        let nonce = [&[0x80, 1, 0, 16][..], &[7; 16]].concat();
        let proof = [&[0x80, 2, 0, 32][..], &[9; 32]].concat();
        assert_eq!(with(&[&[0x12, 0x34, 0, 3, 1, 2, 3], &[0, 1, 0, 0]]), Ok(example()), "what is not known is skipped");
        let keyed = Hello { nonce: Some([7; 16]), ..example() };
        assert_eq!(with(&[&[0x12, 0x34, 0, 0], &nonce, &[0, 2, 0, 1, 5]]), Ok(keyed));
        assert_eq!(with(&[&[0x92, 0x34, 0, 0]]), Err(HelloError::Extension(0x9234)));
        for malformed in [
            &[&[0x12][..]][..],
            &[&[0x12, 0x34, 0, 4, 1, 2, 3]],
            &[&[0x80, 1, 0, 15], &[7; 15]],
            &[&[0x80, 2, 0, 33], &[7; 33]],
            &[&nonce, &nonce],
            &[&proof, &proof],
            &[&proof, &nonce],
            &[&proof, &[0, 1, 0, 0]],
        ] {
            assert_eq!(with(malformed), Err(HelloError::Malformed), "{malformed:x?}");
        }
    }

    #[test]
    fn the_first_packets_of_who_has_a_key_both_ways() {
        let confirmation = Confirmation(core::array::from_fn(|at| at as u8));
        let bytes = confirmation.emit();
        assert_eq!(bytes[..6], *b"Wms\x01\0\x01");
        assert_eq!(Confirmation::parse(&bytes), Ok(confirmation));
        assert_eq!(Confirmation::parse(&bytes[..35]), Err(HelloError::Malformed));
        assert_eq!(Confirmation::parse(&[&bytes[..], &[0]].concat()), Err(HelloError::Malformed));
        let connected = Verdict::Connected { serial: 0x0102_0304_0506_0708 };
        assert_eq!(connected.emit(), *b"Wms\x01\0\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08");
        let refused = Verdict::Refused(Refusal::Tie);
        assert_eq!(refused.emit(), *b"Wms\x01\x01\0\0\0\0\0\0\0\0\0\0\0");
        for verdict in [connected, refused] {
            assert_eq!(Verdict::parse(&verdict.emit()), Ok(verdict));
            assert_eq!(Verdict::parse(&verdict.emit()[..15]), Err(HelloError::Malformed));
        }
        assert_eq!(Verdict::parse(b"Wms\x01\x63\0\0\0\0\0\0\0\0\0\0\0"), Err(HelloError::Malformed));
    }

    fn addresses() -> impl Strategy<Value = ArrayVec<SocketAddr, MAX_ADDRESSES>> {
        let v4 = (any::<[u8; 4]>(), any::<u16>()).prop_map(SocketAddr::from);
        let v6 = (any::<[u8; 16]>(), any::<u16>(), any::<u32>())
            .prop_map(|(ip, port, scope)| SocketAddr::from(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope)));
        proptest::collection::vec(prop_oneof![v4, v6], 0..=MAX_ADDRESSES)
            .prop_map(|addresses| addresses.into_iter().collect())
    }

    fn hellos() -> impl Strategy<Value = Hello> {
        let numbers = (1u64.., any::<u64>(), any::<u64>(), MIN_PACKET_BYTES.., 1u16.., 1u16..);
        let host = any::<Option<([u8; 16], u64)>>();
        let host = host.prop_map(|host| host.map(|(boot, network)| HostId { boot, network }));
        (numbers, addresses(), host, any::<Option<[u8; 16]>>(), any::<Option<[u8; 32]>>()).prop_map(
            |((id, wanted, serial, packet_bytes, data_credits, control_credits), addresses, host, nonce, proof)| {
                Hello { id, wanted, serial, packet_bytes, data_credits, control_credits, addresses, host, nonce, proof }
            },
        )
    }

    proptest! {
        #[test]
        fn any_hello_there_and_back(hello in hellos()) {
            prop_assert_eq!(Hello::parse(&bytes_of(&hello)), Ok(hello));
        }

        #[test]
        fn unknown_entries_are_skipped_at_any_place(
            hello in hellos(), kind in 4u16..0x8000, value: [u8; 9], length in 0usize..9,
        ) {
            let without = Hello { nonce: None, proof: None, ..hello.clone() };
            let (before, after) = (bytes_of(&without), bytes_of(&hello)[without.length()..].to_vec());
            let unknown = [&kind.to_be_bytes()[..], &(length as u16).to_be_bytes(), &value[..length]].concat();
            prop_assert_eq!(Hello::parse(&[before, unknown, after].concat()), Ok(hello));
        }

        #[test]
        fn a_hello_with_a_changed_byte_parses_without_panic(hello in hellos(), at: prop::sample::Index, to: u8) {
            let mut bytes = bytes_of(&hello);
            let at = at.index(bytes.len());
            bytes[at] = to;
            if let Ok(read) = Hello::parse(&bytes) {
                prop_assert_eq!(Hello::parse(&bytes_of(&read)), Ok(read));
            }
        }

        #[test]
        fn any_private_data_parses_without_panic(mut bytes: Vec<u8>, greeted: bool) {
            if greeted && bytes.len() >= 4 {
                bytes[..4].copy_from_slice(b"Wms\x01");
            }
            let _ = Hello::parse(&bytes);
            let _ = Refusal::parse(&bytes);
            let _ = Confirmation::parse(&bytes);
            let _ = Verdict::parse(&bytes);
        }
    }

    #[test]
    fn the_host_stands_in_it_once_or_not_at_all() {
        let host = Some(HostId { boot: *b"what boot it was", network: 0x0102_0304_0506_0708 });
        let hello = Hello { host, nonce: Some([7; NONCE_LENGTH]), ..example() };
        let bytes = bytes_of(&hello);
        assert_eq!(Hello::parse(&bytes), Ok(hello.clone()));
        let without = bytes_of(&example()).len();
        assert_eq!(bytes[without..without + 20], *b"\0\x03\0\x18what boot it was");
        let twice = [&bytes[..], &bytes[without..without + 28]].concat();
        assert_eq!(Hello::parse(&twice), Err(HelloError::Malformed));
        let mut short = bytes_of(&Hello { host, ..example() });
        short.pop();
        short[without + 3] -= 1;
        assert_eq!(Hello::parse(&short), Err(HelloError::Malformed));
    }
}
