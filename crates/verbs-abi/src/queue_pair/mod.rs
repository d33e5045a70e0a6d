//! Queue pairs: what a program says of them, the work that it posts, and what becomes of it.
//!
//! A queue pair of libibverbs outlives its connections: each is a queue pair of the NIC, made for one attempt to
//! connect. Receives are in a receive queue of their own that all those share, so they stay when a connection ends.
//!
//! The lock of the work (`post`) is held while the NIC is used. What the NIC calls (`complete`) never takes it.

mod attributes;
mod conversion;
mod ending;
mod posting;
mod receives;
mod state;
mod unanswered;

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use weft::verbs::{MemoryRegion, QueuePair as Connection, SliceList, WorkRequest};

pub(crate) use attributes::{Changed, Target};
pub(crate) use ending::Fate;
use receives::Receives;
use unanswered::Unanswered;

use crate::abi::{IBV_QPS_RESET, IBV_QPT_UC, ibv_qp_attr, ibv_qp_cap};
use crate::border::lock;
use crate::completion::CompletionQueue;
use crate::errno::Errno;
use crate::events::{Acknowledgments, AsyncEvents};
use crate::memory::Domain;
use crate::nic::Nic;
use crate::shared_receive::SharedReceives;

/// What a queue pair is made of.
pub(crate) struct Parts {
    pub(crate) number: u32,
    pub(crate) nic: Arc<Nic>,
    pub(crate) events: Arc<AsyncEvents>,
    pub(crate) domain: Arc<Domain>,
    pub(crate) send_completions: Arc<CompletionQueue>,
    pub(crate) receive_completions: Arc<CompletionQueue>,
    pub(crate) shared_receives: Option<Arc<SharedReceives>>,
    /// As granted.
    pub(crate) cap: ibv_qp_cap,
    pub(crate) kind: i32,
    pub(crate) signals_all: bool,
    /// Of the device: which address each index of the table of GIDs has.
    pub(crate) addresses: Vec<IpAddr>,
    /// Of the device: the largest path MTU.
    pub(crate) largest_mtu: i32,
}

/// A queue pair.
pub(crate) struct QueuePair {
    pub(crate) parts: Parts,
    receives: Receives,
    attributes: Mutex<ibv_qp_attr>,
    /// Of the attributes, for completions: the number of the peer's queue pair.
    peer_number: AtomicU32,
    /// One of `IBV_QPS_*`.
    state: AtomicI32,
    /// The work has failed, and not all of it is flushed yet.
    is_broken: AtomicBool,
    post: Mutex<Post>,
    /// After the lock of the work.
    unanswered: Mutex<Unanswered>,
    /// Held while all work is given up, which a program that resets it and the thread of the rendezvous may both do.
    /// Before the lock of the work.
    ending: Mutex<()>,
    /// C's address of it.
    address: AtomicUsize,
    pub(crate) acknowledgments: Acknowledgments,
}

/// What was posted, and where it goes.
#[derive(Default)]
struct Post {
    connection: Option<Connection>,
    /// The other end of a queue pair that is connected to itself.
    echo: Option<Connection>,
    /// The connection takes work.
    is_ready: bool,
    /// Destroyed: no connection may be given to it any more.
    is_gone: bool,
    /// The number of the timer of the peer ([`Target::rnr_timer`]), once there is a connection.
    peer_timer: u8,
    /// Posted while there was no connection.
    backlog: VecDeque<Waiting>,
    /// Since when there is work and no connection.
    waits_since: Option<Instant>,
    /// Memory for inline data that is longer than the NIC takes: one place for each request that may be under way.
    inline: Option<MemoryRegion>,
    /// The list of slices of the request that is being posted, where it has more than the request itself holds.
    list: Option<SliceList>,
    /// Requests posted so far.
    posted: u64,
}

/// A request that waits for the connection.
struct Waiting {
    request: WorkRequest,
    /// What it names.
    list: Option<SliceList>,
    id: u64,
    /// Its opcode as a completion has it.
    opcode: i32,
}

impl QueuePair {
    /// # Errors
    /// A limit is reached.
    pub(crate) fn new(parts: Parts) -> Result<Self, Errno> {
        let receives = Receives::new(&parts)?;
        Ok(Self {
            receives,
            attributes: Mutex::new(ibv_qp_attr { cap: parts.cap, ..ibv_qp_attr::default() }),
            peer_number: AtomicU32::new(0),
            state: AtomicI32::new(IBV_QPS_RESET),
            is_broken: AtomicBool::new(false),
            post: Mutex::default(),
            unanswered: Mutex::default(),
            ending: Mutex::default(),
            address: AtomicUsize::new(0),
            acknowledgments: Acknowledgments::default(),
            parts,
        })
    }

    /// C knows it by this address from now on.
    pub(crate) fn set_address(&self, address: usize) {
        self.address.store(address, Ordering::Release);
    }

    /// Its number on this host.
    pub(crate) fn number(&self) -> u32 {
        self.parts.number
    }

    /// One of `IBV_QPS_*`.
    pub(crate) fn state(&self) -> i32 {
        self.state.load(Ordering::Acquire)
    }

    /// Whether it has no reads and atomics.
    fn is_unreliable(&self) -> bool {
        self.parts.kind == IBV_QPT_UC
    }

    fn push_event(&self, kind: i32) {
        let address = self.address.load(Ordering::Acquire);
        if address != 0 {
            self.parts.events.push(kind, address);
        }
    }

    /// Whether it has a connection, or one is being set up: no call is for it then. `is_own`: the caller is this queue
    /// pair itself.
    pub(crate) fn is_taken(&self, is_own: bool) -> bool {
        let post = lock(&self.post);
        if is_own { post.echo.is_some() } else { post.connection.is_some() }
    }

    /// Whether it waits for a connection: it has a target, and neither a connection nor an end.
    pub(crate) fn wants_connection(&self) -> bool {
        let post = lock(&self.post);
        !post.is_gone && post.connection.is_none() && self.target().is_some() && self.is_receiving()
    }
}
