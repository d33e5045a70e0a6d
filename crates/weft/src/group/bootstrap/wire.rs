//! What ranks and their bootstrap server write and read.

use core::fmt;
use core::time::Duration;
use std::io::{self, Read, Write as _};
use std::net::TcpStream;

use super::super::error::GroupError;

const MAGIC: &[u8; 8] = b"WEFTGRP2";
/// Bytes of what a rank says first, to the server and to its parent.
pub(super) const HELLO: usize = 34;
/// Bytes of it in version 1.
const OLD_HELLO: usize = 32;
/// Connections beyond those of the ranks, which may be of strangers, at a time.
pub(super) const STRANGERS: usize = 64;
/// The longest that a bootstrap server says when something is wrong, in bytes.
pub(super) const LONGEST: usize = 1024;
/// How often connections are polled that are awaited.
pub(super) const PAUSE: Duration = Duration::from_millis(2);

/// Kinds of what the server says.
pub(super) mod kind {
    pub(in super::super) const ROUND: u8 = 0;
    pub(in super::super) const COMPLAINT: u8 = 1;
    pub(in super::super) const PLACE: u8 = 2;
    pub(in super::super) const BY_TREE: u8 = 3;
    pub(in super::super) const BY_SERVER: u8 = 4;
}

/// What the ranks of a launch know, and no other program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Token(u128);

impl Token {
    pub(in super::super) const NONE: Self = Self(0);

    pub(in super::super) fn random() -> Result<Self, GroupError> {
        let half = || {
            let failed = |error: getrandom::Error| io::Error::other(error.to_string());
            let wrap = |error| GroupError::Io { what: "get a random number", address: None, error };
            getrandom::u64().map(u128::from).map_err(failed).map_err(wrap)
        };
        Ok(Self(half()? << 64 | half()?))
    }

    pub(in super::super) fn parse(text: &str) -> Option<Self> {
        u128::from_str_radix(text, 16).ok().map(Self)
    }

    pub(super) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    pub(super) fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// What a rank says first.
#[derive(Clone, Copy)]
pub(super) struct Hello {
    pub(super) token: Token,
    pub(super) rank: usize,
    pub(super) size: usize,
    /// Where it listens for its children in the tree.
    pub(super) port: u16,
}

impl Hello {
    pub(super) fn emit(&self) -> Vec<u8> {
        let (rank, size) = (self.rank as u32, self.size as u32);
        let token = self.token.to_bytes();
        [&MAGIC[..], &token, &rank.to_be_bytes(), &size.to_be_bytes(), &self.port.to_be_bytes()].concat()
    }

    /// `None`: no rank says that.
    pub(super) fn parse(bytes: &[u8; HELLO]) -> Option<Self> {
        let number = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
        let mut token = [0; 16];
        token.copy_from_slice(&bytes[8..24]);
        let port = u16::from_be_bytes([bytes[32], bytes[33]]);
        let hello = Self { token: Token::from_bytes(token), rank: number(24), size: number(28), port };
        (bytes[..8] == MAGIC[..]).then_some(hello)
    }

    /// Takes it from a caller that knows this token. A caller of another version gets an error that says so; strangers
    /// get no answer.
    pub(super) fn take(stream: &mut TcpStream, token: Token) -> io::Result<Self> {
        let mut bytes = [0; HELLO];
        stream.read_exact(&mut bytes[..OLD_HELLO])?;
        let (name, version) = bytes[..8].split_at(7);
        let (known, own) = MAGIC.split_at(7);
        if name != known || bytes[8..24] != token.to_bytes() {
            return Err(io::Error::other("a stranger"));
        }
        if version != own {
            let (theirs, ours) = (version.escape_ascii(), own.escape_ascii());
            let text = format!(
                "this rank speaks version {theirs} of the bootstrap protocol, and its server version {ours}: use one \
                 version of Weft for all ranks"
            );
            stream.write_all(&complaint(&text))?;
            return Err(io::Error::other("another version"));
        }
        stream.read_exact(&mut bytes[OLD_HELLO..])?;
        Self::parse(&bytes).ok_or_else(|| io::Error::other("a stranger"))
    }
}

/// Why nothing came of reading.
pub(super) enum Failure {
    Io(io::Error),
    Group(GroupError),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

pub(super) fn take<const N: usize>(stream: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn take_frame(stream: &mut TcpStream, most: usize) -> Result<Vec<u8>, Failure> {
    let length = u32::from_be_bytes(take(stream)?) as usize;
    if length > most {
        return Err(Failure::Group(GroupError::Protocol(format!("{length} bytes where at most {most} may be"))));
    }
    // Memory is taken as bytes come.
    let mut bytes = Vec::new();
    let taken = stream.take(length as u64).read_to_end(&mut bytes)?;
    if taken < length { Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()) } else { Ok(bytes) }
}

pub(super) fn frame(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

pub(super) fn complaint(text: &str) -> Vec<u8> {
    let text = &text.as_bytes()[..text.len().min(LONGEST)];
    [&[kind::COMPLAINT][..], &frame(text)].concat()
}
