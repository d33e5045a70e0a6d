//! Packets of set-up: the caller's identity, what both sides can do, and what is agreed.
//!
//! The first 25 bytes are the same in all versions, so that an unknown version can be answered.

use super::reader::Reader;
use super::{ConnectionId, EdgeError, RESET_TOKEN_LENGTH, VERSION};
use crate::Crc32c;

pub(super) const FORM: u8 = 0xc0;
pub(super) const RESET: u8 = 0xc8;
const CHECK: usize = 21;

/// Bytes before the message: type, version, both ids, check.
pub const HEADER_LENGTH: usize = 25;
/// Bytes of a packet that says that a connection is not known.
pub const RESET_LENGTH: usize = 9 + RESET_TOKEN_LENGTH;
/// The most bytes of the application's private data.
pub const MAX_PRIVATE_DATA: usize = 512;
/// The most bytes of a cookie.
pub const MAX_COOKIE: usize = 64;
/// The most versions in a list.
pub const MAX_VERSIONS: usize = 8;
/// The most bytes of offers, all together.
pub const MAX_OFFERS: usize = 256;
/// Bytes of the number that makes a hello unlike any other.
pub const NONCE_LENGTH: usize = 16;
/// Bytes of a hello's proof: the first message of a handshake, a public key and a tag.
pub const CALL_PROOF_LENGTH: usize = 32 + 16;
/// Bytes of an accept's proof: the second message, a public key, a digest and a tag.
pub const ANSWER_PROOF_LENGTH: usize = 32 + 32 + 16;

/// The byte before a proof: there is none, or it is a message of the handshake. 1 was a code over both hellos once,
/// which no end takes any more.
mod proof {
    pub(super) const NONE: u8 = 0;
    pub(super) const HANDSHAKE: u8 = 2;
}

mod kind {
    pub(super) const HELLO: u8 = 0xc1;
    pub(super) const ACCEPT: u8 = 0xc2;
    pub(super) const REJECT: u8 = 0xc3;
    pub(super) const RETRY: u8 = 0xc4;
    pub(super) const VERSIONS: u8 = 0xc5;
    pub(super) const WAIT: u8 = 0xc6;
}

/// A packet of set-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup<'a> {
    /// What the receiver calls the connection; zero in a hello.
    pub destination: ConnectionId,
    /// What the sender calls it; zero in a retry and in a list of versions, whose sender keeps nothing.
    pub source: ConnectionId,
    /// What it says.
    pub message: Message<'a>,
}

/// What a packet of set-up says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A peer calls.
    Hello(Hello<'a>),
    /// The call is accepted.
    Accept(Accept<'a>),
    /// It is not.
    Reject {
        /// Why, as far as Edge knows.
        reason: Reject,
        /// What the application says about it.
        private_data: &'a [u8],
    },
    /// Send it again, with this cookie: there are too many calls, and nothing is kept for an address that may be
    /// forged.
    Retry {
        /// To be sent back as it is.
        cookie: &'a [u8],
    },
    /// The versions that are spoken here.
    Versions(Versions<'a>),
    /// The call was received; the answer takes time.
    Wait,
}

/// What one side can do and what it grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms<'a> {
    /// Random: makes this hello, and all that is proved about it, unlike any other.
    pub nonce: [u8; NONCE_LENGTH],
    /// What this side would show if it forgot the connection.
    pub reset_token: [u8; RESET_TOKEN_LENGTH],
    /// Bytes of datagrams that the other side may have in flight at first.
    pub credit: u32,
    /// After how long without a word this side gives the other up, in milliseconds.
    pub peer_timeout_ms: u32,
    /// How long an acknowledgement may be put off, in microseconds.
    pub max_ack_delay_us: u32,
    /// The largest datagram that this side takes, in bytes above UDP.
    pub max_datagram: u16,
    /// Reads of the peer that this side takes at a time (IRD).
    pub inbound_reads: u16,
    /// Reads that it wants to have in flight (ORD).
    pub outbound_reads: u16,
    /// The most rails that it can use.
    pub rails: u8,
    /// What the application says.
    pub private_data: &'a [u8],
    /// What else there is.
    pub offers: Offers<'a>,
}

/// The first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// What the caller can do.
    pub terms: Terms<'a>,
    /// All versions that the caller speaks: the answer proves that none of them was taken out.
    pub versions: Versions<'a>,
    /// What a retry gave, or nothing.
    pub cookie: &'a [u8],
    /// Begins the handshake with which a key is proved, over all of [`Setup::covered`].
    pub proof: Option<&'a [u8; CALL_PROOF_LENGTH]>,
}

/// The second message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept<'a> {
    /// What the answerer can do.
    pub terms: Terms<'a>,
    /// Proves a key, over the hello and over all of [`Setup::covered`].
    pub proof: Option<&'a [u8; ANSWER_PROOF_LENGTH]>,
}

/// Why a call is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// The application says no.
    Application,
    /// No acceptor listens.
    NobodyListens,
    /// A named limit is reached.
    Full,
    /// An offer that must be understood is not.
    NotUnderstood,
    /// One side has a key, the other not.
    Key,
    /// Both have a key, but not the same one.
    OtherKey,
    /// A reason of a later version.
    Other(u16),
}

/// A list of versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions<'a>(&'a [u8]);

/// Offers: values with a type and a length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offers<'a>(&'a [u8]);

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer<'a> {
    /// Its type: 0 to 127.
    pub kind: u8,
    /// A peer that does not know it must reject the call.
    pub must_understand: bool,
    /// Its value.
    pub value: &'a [u8],
}

/// The part of both that comes first in every version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invariant {
    /// Whether it is a hello: only that is answered with a list of versions.
    pub hello: bool,
    /// The version.
    pub version: u32,
    /// What the receiver calls the connection.
    pub destination: ConnectionId,
    /// What the sender calls it.
    pub source: ConnectionId,
}

/// Reads what is the same in all versions, and the check, which is too.
///
/// # Errors
/// It is no packet of set-up, too short, or damaged.
pub fn invariant(datagram: &[u8]) -> Result<Invariant, EdgeError> {
    let mut reader = Reader(datagram);
    let first = reader.u8()?;
    if first & FORM != FORM || first == RESET {
        return Err(EdgeError::NotEdge);
    }
    let invariant = Invariant {
        hello: first == kind::HELLO,
        version: reader.u32()?,
        destination: ConnectionId(reader.u64()?),
        source: ConnectionId(reader.u64()?),
    };
    if reader.u32()? == check(datagram) { Ok(invariant) } else { Err(EdgeError::Check) }
}

fn check(datagram: &[u8]) -> u32 {
    let mut crc = Crc32c::new();
    weft_base::Digest::update(&mut crc, &datagram[..CHECK]);
    weft_base::Digest::update(&mut crc, &datagram[HEADER_LENGTH..]);
    crc.value()
}

impl<'a> Setup<'a> {
    /// Reads a packet of this version.
    ///
    /// # Errors
    /// It is damaged, of another version, or holds what can't be.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, EdgeError> {
        let Invariant { version, destination, source, .. } = invariant(datagram)?;
        let mut reader = Reader(&datagram[HEADER_LENGTH..]);
        let message = match datagram[0] {
            // A peer that lists versions has none in common with the asker.
            kind::VERSIONS => Message::Versions(Versions::parse(&mut reader)?),
            _ if version != VERSION => return Err(EdgeError::Version(version)),
            other => parse_message(other, &mut reader)?,
        };
        Ok(Self { destination, source, message })
    }

    /// What the proof of a hello or an accept covers: the packet up to the proof, without the check, and a hello
    /// without a cookie, since a caller may be sent for one after its call was let in.
    #[must_use]
    pub fn covered(&self) -> Vec<u8> {
        let message = match self.message {
            Message::Hello(hello) => Message::Hello(Hello { cookie: &[], proof: None, ..hello }),
            Message::Accept(accept) => Message::Accept(Accept { proof: None, ..accept }),
            other => other,
        };
        let mut bytes = Vec::new();
        Setup { message, ..*self }.emit(&mut bytes, 0);
        if matches!(message, Message::Hello(_) | Message::Accept(_)) {
            // That there is no proof.
            bytes.pop();
        }
        bytes.drain(CHECK..HEADER_LENGTH);
        bytes
    }

    /// Writes the packet at the end of `out`, padded with zeros to at least `pad_to` bytes.
    ///
    /// # Panics
    /// When a part is longer than its limit.
    pub fn emit(&self, out: &mut Vec<u8>, pad_to: usize) {
        let start = out.len();
        out.push(self.message.kind());
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&self.destination.0.to_be_bytes());
        out.extend_from_slice(&self.source.0.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        self.message.emit(out);
        out.resize(out.len().max(start + pad_to), 0);
        seal(&mut out[start..]);
    }
}

/// Writes the check of a packet that is complete but for it.
fn seal(packet: &mut [u8]) {
    let check = check(packet);
    packet[CHECK..HEADER_LENGTH].copy_from_slice(&check.to_be_bytes());
}

fn parse_message<'a>(kind: u8, reader: &mut Reader<'a>) -> Result<Message<'a>, EdgeError> {
    Ok(match kind {
        kind::HELLO => Message::Hello(Hello {
            versions: Versions::parse(reader)?,
            cookie: reader.counted(MAX_COOKIE, "the length of a cookie")?,
            terms: Terms::parse(reader)?,
            proof: parse_proof(reader)?,
        }),
        kind::ACCEPT => Message::Accept(Accept { terms: Terms::parse(reader)?, proof: parse_proof(reader)? }),
        kind::REJECT => Message::Reject { reason: Reject::from_wire(reader.u16()?), private_data: private(reader)? },
        kind::RETRY => Message::Retry { cookie: reader.counted(MAX_COOKIE, "the length of a cookie")? },
        kind::WAIT => Message::Wait,
        other => return Err(EdgeError::Frame(other)),
    })
}

fn parse_proof<'a, const N: usize>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8; N]>, EdgeError> {
    match reader.u8()? {
        proof::NONE => Ok(None),
        proof::HANDSHAKE => Ok(Some(reader.chunk()?)),
        _ => Err(EdgeError::Value("the kind of a proof")),
    }
}

fn emit_proof(out: &mut Vec<u8>, proof: Option<&[u8]>) {
    out.push(if proof.is_some() { proof::HANDSHAKE } else { proof::NONE });
    out.extend_from_slice(proof.unwrap_or_default());
}

fn private<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], EdgeError> {
    reader.counted(MAX_PRIVATE_DATA, "the length of private data")
}

impl Message<'_> {
    const fn kind(&self) -> u8 {
        match self {
            Self::Hello(_) => kind::HELLO,
            Self::Accept(_) => kind::ACCEPT,
            Self::Reject { .. } => kind::REJECT,
            Self::Retry { .. } => kind::RETRY,
            Self::Versions(_) => kind::VERSIONS,
            Self::Wait => kind::WAIT,
        }
    }

    fn emit(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello(hello) => {
                hello.versions.emit(out);
                emit_counted(out, hello.cookie, MAX_COOKIE);
                hello.terms.emit(out);
                emit_proof(out, hello.proof.map(|proof| &proof[..]));
            }
            Self::Accept(accept) => {
                accept.terms.emit(out);
                emit_proof(out, accept.proof.map(|proof| &proof[..]));
            }
            Self::Reject { reason, private_data } => {
                out.extend_from_slice(&reason.to_wire().to_be_bytes());
                emit_counted(out, private_data, MAX_PRIVATE_DATA);
            }
            Self::Retry { cookie } => emit_counted(out, cookie, MAX_COOKIE),
            Self::Versions(versions) => versions.emit(out),
            Self::Wait => {}
        }
    }
}

fn emit_counted(out: &mut Vec<u8>, bytes: &[u8], most: usize) {
    assert!(bytes.len() <= most, "{} bytes where at most {most} may stand", bytes.len());
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}

impl<'a> Terms<'a> {
    fn parse(reader: &mut Reader<'a>) -> Result<Self, EdgeError> {
        Ok(Self {
            nonce: reader.array()?,
            reset_token: reader.array()?,
            credit: reader.u32()?,
            peer_timeout_ms: reader.u32()?,
            max_ack_delay_us: reader.u32()?,
            max_datagram: reader.u16()?,
            inbound_reads: reader.u16()?,
            outbound_reads: reader.u16()?,
            rails: reader.u8()?,
            private_data: private(reader)?,
            offers: Offers::parse(reader)?,
        })
    }

    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.nonce);
        out.extend_from_slice(&self.reset_token);
        for word in [self.credit, self.peer_timeout_ms, self.max_ack_delay_us] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        for half in [self.max_datagram, self.inbound_reads, self.outbound_reads] {
            out.extend_from_slice(&half.to_be_bytes());
        }
        out.push(self.rails);
        emit_counted(out, self.private_data, MAX_PRIVATE_DATA);
        emit_counted(out, self.offers.0, MAX_OFFERS);
    }
}

impl Reject {
    const fn to_wire(self) -> u16 {
        match self {
            Self::Application => 0,
            Self::NobodyListens => 1,
            Self::Full => 2,
            Self::NotUnderstood => 3,
            Self::Key => 4,
            Self::OtherKey => 5,
            Self::Other(other) => other,
        }
    }

    const fn from_wire(value: u16) -> Self {
        match value {
            0 => Self::Application,
            1 => Self::NobodyListens,
            2 => Self::Full,
            3 => Self::NotUnderstood,
            4 => Self::Key,
            5 => Self::OtherKey,
            other => Self::Other(other),
        }
    }
}

impl<'a> Versions<'a> {
    /// The one version that this module speaks.
    pub const OURS: Versions<'static> = Versions(&VERSION.to_be_bytes());

    /// Of versions as they are on the wire, 4 bytes each.
    ///
    /// # Errors
    /// It is not a whole number of versions, or more than [`MAX_VERSIONS`].
    pub fn packed(bytes: &'a [u8]) -> Result<Self, EdgeError> {
        let fits = bytes.len().is_multiple_of(4) && bytes.len() <= 4 * MAX_VERSIONS;
        if fits { Ok(Self(bytes)) } else { Err(EdgeError::Value("a list of versions")) }
    }

    /// The versions.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.0.chunks_exact(4).map(|bytes| crate::bytes::read_u32(bytes, 0))
    }

    fn parse(reader: &mut Reader<'a>) -> Result<Self, EdgeError> {
        Self::packed(reader.counted(4 * MAX_VERSIONS, "a list of versions")?)
    }

    fn emit(&self, out: &mut Vec<u8>) {
        emit_counted(out, self.0, 4 * MAX_VERSIONS);
    }
}

impl<'a> Offers<'a> {
    /// Of offers that [`Offer::emit`] wrote.
    ///
    /// # Errors
    /// One of them is cut off, or they are longer than [`MAX_OFFERS`].
    pub fn packed(bytes: &'a [u8]) -> Result<Self, EdgeError> {
        if bytes.len() > MAX_OFFERS {
            return Err(EdgeError::Value("the length of offers"));
        }
        let mut reader = Reader(bytes);
        while !reader.0.is_empty() {
            Offer::parse(&mut reader)?;
        }
        Ok(Self(bytes))
    }

    /// The offers.
    pub fn iter(&self) -> impl Iterator<Item = Offer<'a>> + use<'a> {
        let mut reader = Reader(self.0);
        core::iter::from_fn(move || Offer::parse(&mut reader).ok())
    }

    fn parse(reader: &mut Reader<'a>) -> Result<Self, EdgeError> {
        Self::packed(reader.counted(MAX_OFFERS, "the length of offers")?)
    }
}

impl<'a> Offer<'a> {
    const MUST: u8 = 0x80;

    fn parse(reader: &mut Reader<'a>) -> Result<Self, EdgeError> {
        let first = reader.u8()?;
        let value = reader.counted(MAX_OFFERS, "the length of an offer")?;
        Ok(Self { kind: first & !Self::MUST, must_understand: first & Self::MUST != 0, value })
    }

    /// Writes the offer at the end of `out`.
    pub fn emit(&self, out: &mut Vec<u8>) {
        out.push(self.kind & !Self::MUST | if self.must_understand { Self::MUST } else { 0 });
        emit_counted(out, self.value, MAX_OFFERS);
    }
}

/// The packet that says that the sender knows nothing of what it once called `source`.
#[must_use]
pub fn reset(source: ConnectionId, token: &[u8; RESET_TOKEN_LENGTH]) -> [u8; RESET_LENGTH] {
    let mut packet = [RESET; RESET_LENGTH];
    packet[1..9].copy_from_slice(&source.0.to_be_bytes());
    packet[9..].copy_from_slice(token);
    packet
}

/// The token of such a packet.
///
/// # Errors
/// It is not one.
pub fn reset_token(datagram: &[u8]) -> Result<[u8; RESET_TOKEN_LENGTH], EdgeError> {
    let mut reader = Reader(datagram);
    if reader.u8()? != RESET {
        return Err(EdgeError::NotEdge);
    }
    reader.take(8)?;
    reader.array()
}
