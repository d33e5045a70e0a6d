//! Ranks that a program starts itself.

use std::env;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;

use super::bootstrap::{Client, Server, Token};
use super::{Group, GroupError, Means, check, number, text};

/// The bootstrap server for ranks that this program starts on this host: processes ([`Launch::command`]) or threads
/// ([`Launch::join`]). It stays until all ranks have left, also when this is dropped.
#[derive(Debug)]
pub struct Launch {
    address: SocketAddr,
    size: usize,
    token: Token,
}

impl Launch {
    /// A bootstrap server for this many ranks, on the loopback address. Only callers that present its token are
    /// admitted.
    ///
    /// # Errors
    /// No loopback address, no randomness, or too many ranks.
    pub fn new(size: usize) -> Result<Self, GroupError> {
        check(0, size)?;
        let failed = |error| GroupError::Io { what: "make a bootstrap server on the loopback", address: None, error };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let token = Token::random()?;
        Server::start(listener, size, token, Group::LIMIT).map_err(failed)?;
        Ok(Self { address, size, token })
    }

    /// Makes a command's process this rank: it finds its group by [`Group::from_environment`].
    pub fn command<'a>(&self, rank: usize, command: &'a mut Command) -> &'a mut Command {
        command
            .env("WEFT_RANK", rank.to_string())
            .env("WEFT_SIZE", self.size.to_string())
            .env("WEFT_MEETING", self.address.to_string())
            .env("WEFT_TOKEN", self.token.to_string())
    }

    /// The group of a rank that is a thread of this process.
    ///
    /// # Errors
    /// No such rank, or the bootstrap server is gone.
    pub fn join(&self, rank: usize) -> Result<Group, GroupError> {
        join(rank, self.size, self.address, self.token)
    }
}

pub(super) fn from_environment() -> Result<Group, GroupError> {
    let (rank, size, meeting) = (number("WEFT_RANK")?, number("WEFT_SIZE")?, number("WEFT_MEETING")?);
    if env::var_os("WEFT_TOKEN").is_none() {
        return Group::join(rank, size, meeting, Group::LIMIT);
    }
    let value = text("WEFT_TOKEN")?;
    let token = Token::parse(&value).ok_or(GroupError::Environment { name: "WEFT_TOKEN", value })?;
    join(rank, size, meeting, token)
}

fn join(rank: usize, size: usize, address: SocketAddr, token: Token) -> Result<Group, GroupError> {
    check(rank, size)?;
    let client = Client::connect(address, rank, size, token, Group::LIMIT)?;
    Ok(Group { rank, size, means: Means::Bootstrap(client) })
}
