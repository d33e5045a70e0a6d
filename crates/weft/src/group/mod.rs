//! The ranks of a job: how many, which one this is, and a way to exchange a few bytes before anything is connected, so
//! that it can be.
//!
//! | the ranks are | made with |
//! |---|---|
//! | threads of one process | [`Group::threads`] |
//! | processes that a program starts itself | [`Launch`] there, [`Group::from_environment`] in each |
//! | processes of Hydra's or Slurm's (PMI-1) | [`Group::from_environment`] |
//! | processes of Open MPI's `mpirun` or `prterun`, or Slurm's `--mpi=pmix` (PMIx) | [`Group::from_environment`] |
//! | processes on hosts of a list | [`Group::join`], or [`Group::from_environment`], with the address of rank 0 |
//! | those of another library, which exchanges bytes for them | [`Group::over`] |
//! | this process alone | [`Group::alone`] |
//!
//! But for PMI-1 and PMIx, where the launcher carries them, bytes go over TCP by a bootstrap server: a thread of rank
//! 0, or of the program that has started the ranks. It sends each rank a few bytes in each round; what the ranks give
//! goes from rank to rank along a tree, or by the server where a rank is not reached by the others.
//! It is for set-up: a few exchanges of some kilobytes.
//!
//! # Example
//! ```
//! use weft::group::Group;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ranks = Group::threads(3)?.into_iter().map(|mut group| {
//!     std::thread::spawn(move || {
//!         let mine = format!("rank {} of {}", group.rank(), group.size());
//!         group.all_gather(mine.as_bytes())
//!     })
//! });
//! for rank in ranks.collect::<Vec<_>>() {
//!     let all = rank.join().expect("no panic")?;
//!     assert_eq!(all[2], b"rank 2 of 3");
//! }
//! # Ok(())
//! # }
//! ```

mod bootstrap;
mod error;
mod launch;
mod limits;
mod pmi;
mod pmix;

use core::fmt;
use core::time::Duration;
use std::env;
use std::net::{SocketAddr, TcpListener};

use bootstrap::{Client, Server, Token};
pub use error::GroupError;
pub use launch::Launch;
use pmi::Pmi;
use pmix::Pmix;

/// The ranks of a job, as one of them sees it.
pub struct Group {
    rank: usize,
    size: usize,
    means: Means,
}

/// What gives bytes to all ranks, and returns those of each.
type Exchange = dyn FnMut(&[u8]) -> Result<Vec<Vec<u8>>, GroupError> + Send;

/// How bytes are exchanged.
enum Means {
    Alone,
    Other(Box<Exchange>),
    Bootstrap(Client),
    Pmi(Pmi),
    Pmix(Pmix),
}

impl Group {
    /// The most ranks.
    pub const MOST_RANKS: usize = limits::MOST_RANKS;

    /// The most bytes that one rank gives to [`Group::all_gather`].
    pub const MOST_BYTES: usize = limits::MOST_BYTES;

    /// How long ranks wait for each other by default.
    pub const LIMIT: Duration = limits::LIMIT;

    /// This process, or thread, is the only one.
    #[must_use]
    pub fn alone() -> Self {
        Self { rank: 0, size: 1, means: Means::Alone }
    }

    /// The ranks of something that can exchange bytes among them already, such as an MPI library: `exchange` does for
    /// them what [`Group::all_gather`] does.
    ///
    /// # Errors
    /// No such rank, or too many.
    pub fn over(
        rank: usize,
        size: usize,
        exchange: impl FnMut(&[u8]) -> Result<Vec<Vec<u8>>, GroupError> + Send + 'static,
    ) -> Result<Self, GroupError> {
        check(rank, size)?;
        Ok(Self { rank, size, means: Means::Other(Box::new(exchange)) })
    }

    /// Groups for this many threads of this process, one for each of them.
    ///
    /// # Errors
    /// No loopback address to meet at, or too many ranks.
    pub fn threads(size: usize) -> Result<Vec<Self>, GroupError> {
        let launch = Launch::new(size)?;
        (0..size).map(|rank| launch.join(rank)).collect()
    }

    /// Joins the ranks that meet at the address of rank 0, which must be the same at all of them, as must be `size`.
    /// Rank 0 makes the bootstrap server there. It waits up to `limit` for the others, and they for it.
    ///
    /// Any host that reaches that address may take the place of a rank: use it in networks that you trust.
    ///
    /// # Errors
    /// No such rank; the address can't be used or has no answer. That a rank is missing [`Group::all_gather`] says.
    pub fn join(rank: usize, size: usize, meeting: SocketAddr, limit: Duration) -> Result<Self, GroupError> {
        check(rank, size)?;
        if rank == 0 {
            let at = |error| GroupError::Io { what: "make the bootstrap server", address: Some(meeting), error };
            Server::start(TcpListener::bind(meeting).map_err(at)?, size, Token::NONE, limit).map_err(at)?;
        }
        let client = Client::connect(meeting, rank, size, Token::NONE, limit)?;
        Ok(Self { rank, size, means: Means::Bootstrap(client) })
    }

    /// The group that the process that started this one has put it in: a [`Launch`] (`WEFT_RANK`, `WEFT_SIZE`,
    /// `WEFT_MEETING`, `WEFT_TOKEN`), a script that starts ranks on hosts of its own (the same without `WEFT_TOKEN`:
    /// [`Group::join`] at that address), or a launcher that speaks PMI-1 (`PMI_RANK`, `PMI_SIZE`, `PMI_FD`) or PMIx
    /// (`PMIX_NAMESPACE`, `PMIX_RANK`; libpmix is loaded). The first of these that is present counts. `None`: none is.
    /// A process that is also an MPI program's must not ask: the launcher speaks with its MPI library. Under PMIx a
    /// process that has dropped its last group has left its job, and gets no other.
    ///
    /// # Errors
    /// What the environment says makes no sense, or the server or launcher that is named there does not answer;
    /// [`GroupError::Pmix`]: there is no libpmix, or the launcher's answer is no rank of a job.
    pub fn from_environment() -> Result<Option<Self>, GroupError> {
        if env::var_os("WEFT_RANK").is_some() {
            return launch::from_environment().map(Some);
        }
        let are_there = |names: [&str; 2]| names.iter().all(|name| env::var_os(name).is_some());
        if are_there(["PMI_RANK", "PMI_FD"]) {
            let (rank, size) = (number("PMI_RANK")?, number("PMI_SIZE")?);
            check(rank, size)?;
            let pmi = Pmi::open(number("PMI_FD")?, rank, size)?;
            return Ok(Some(Self { rank, size, means: Means::Pmi(pmi) }));
        }
        if are_there(["PMIX_NAMESPACE", "PMIX_RANK"]) {
            let pmix = Pmix::connect()?;
            let (rank, size) = (pmix.rank(), pmix.size());
            check(rank, size)?;
            return Ok(Some(Self { rank, size, means: Means::Pmix(pmix) }));
        }
        Ok(None)
    }

    /// Which rank this is, from 0.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// How many there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Gives these bytes to all ranks, and returns those of each, in their order. All ranks call it, as often as each
    /// other; lengths may differ.
    ///
    /// # Errors
    /// More than [`Group::MOST_BYTES`]; a rank that is lost or late, by its number. The group is of no use then.
    pub fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, GroupError> {
        if bytes.len() > Self::MOST_BYTES {
            return Err(GroupError::TooLong { length: bytes.len(), most: Self::MOST_BYTES });
        }
        match &mut self.means {
            Means::Alone => Ok(vec![bytes.to_vec()]),
            Means::Other(exchange) => exchange(bytes).and_then(|all| whole(all, self.size)),
            Means::Bootstrap(client) => client.all_gather(bytes),
            Means::Pmi(pmi) => pmi.all_gather(bytes),
            Means::Pmix(pmix) => pmix.all_gather(bytes),
        }
    }

    /// Waits until all ranks have called it.
    ///
    /// # Errors
    /// As [`Group::all_gather`].
    pub fn barrier(&mut self) -> Result<(), GroupError> {
        self.all_gather(&[]).map(|_| ())
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({} of {})", self.rank, self.size)
    }
}

fn check(rank: usize, size: usize) -> Result<(), GroupError> {
    if rank < size && size <= Group::MOST_RANKS { Ok(()) } else { Err(GroupError::NoSuchRank { rank, size }) }
}

/// What an exchange has given, if it is of all ranks.
fn whole(all: Vec<Vec<u8>>, size: usize) -> Result<Vec<Vec<u8>>, GroupError> {
    match all.len() == size {
        true => Ok(all),
        false => Err(GroupError::Protocol(format!("bytes of {} ranks where there are {size}", all.len()))),
    }
}

fn text(name: &'static str) -> Result<String, GroupError> {
    let value = env::var_os(name).unwrap_or_default();
    value.into_string().map_err(|value| GroupError::Environment { name, value: value.to_string_lossy().into_owned() })
}

fn number<T: core::str::FromStr>(name: &'static str) -> Result<T, GroupError> {
    let value = text(name)?;
    value.parse().map_err(|_| GroupError::Environment { name, value })
}
