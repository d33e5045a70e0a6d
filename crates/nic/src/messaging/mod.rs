//! Message endpoints: `weft-message` joined to queue pairs, in the engine. The thread that runs the engine matches
//! messages, answers peers and executes atomics, so they make progress while the application computes.

mod atomic;
mod atomic_post;
mod buffer_pool;
mod by_links;
mod closing;
mod connect;
mod core;
mod ending;
mod host;
mod in_use;
mod inbox;
mod late;
mod leaving;
mod link;
mod loopback;
mod peers;
mod phase;
mod proving;
mod request;
mod sending;
mod transfer;
mod unconfirmed;
mod unique_queue;
mod waiting;
mod watched_links;

use crate::offer::Transport;
use ::core::time::Duration;
use std::net::SocketAddr;

pub use self::atomic_post::AtomicPost;
pub(crate) use self::closing::{Closable, Closing, Movement};
pub(crate) use self::connect::offer;
pub(crate) use self::core::{Core as EndpointEngine, Opening};
pub use self::request::*;

/// The engine, with message endpoints on it.
pub(crate) type Engine<N, C> = crate::engine::Engine<N, C, EndpointEngine>;

/// Sizes and limits of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSettings {
    /// Protocols, credits, and what is kept for unexpected messages.
    pub messages: weft_message::Settings,
    /// Messages and writes up to this many bytes may be injected: copied, so that no thread waits for them. Programs
    /// that ask for delivery-complete, as MPICH does, wait for the peer's answer to all others.
    pub inject_bytes: u32,
    /// Bytes of injected messages that have not gone out, or that stay here until their receives are posted. Beyond
    /// them nothing is injected.
    pub injected_bytes: u64,
    /// Operand bytes of one atomic operation, at most.
    pub atomic_bytes: u32,
    /// Sends, transfers and atomics under way, at most, without the sends of `announced_depth`.
    pub send_depth: u32,
    /// Sends that have gone out, or were announced to their peers, and wait for the receives to be posted there, at
    /// most. Beyond them nothing is sent until some of them are received.
    pub announced_depth: u32,
    /// Receives posted, at most.
    pub receive_depth: u32,
    /// Peers known, at most, and no more than 1 048 575. Callers that the application has not named are forgotten some
    /// time after they have left: when more than a quarter of all have, or another one needs the place. Then their
    /// numbers name no peer.
    pub peers: u32,
    /// How long to try to reach a peer's host, all its paths together. Its program may take longer:
    /// [`Self::reply_timeout`].
    pub connect_timeout: Duration,
    /// How long a peer's program may take to answer once its host has taken the connection: it may compute, without a
    /// thread that runs its NIC, or be stopped. Or another program has the port by now, takes what arrives and does not
    /// answer. After [`Self::LATE`] the application gets a warning ([`Warning::NoReply`]); when this is over, what
    /// waits for the peer fails as [`EndpointFailure::Unreachable`]. `None`: no limit.
    pub reply_timeout: Option<Duration>,
    /// Closing waits until what was accepted is delivered, and gives up when nothing has moved towards the peers for
    /// this long. What they receive slowly still gets there, however long it takes all together. `None`:
    /// [`Self::LINGER`], and connections that are being set up have [`Self::connect_timeout`] from the moment of
    /// closing.
    pub linger: Option<Duration>,
    /// What carries the connections, where the network has a choice: how peers are called, and what callers may use.
    pub transport: Transport,
}

impl EndpointSettings {
    /// The most bytes that an endpoint keeps because of what its peers send, when this many of them are connected at a
    /// time. What the application has posted, and peers as such, are not counted.
    #[must_use]
    pub fn most_kept(&self, connections: u64) -> u64 {
        let packet_bytes = u64::from(self.messages.packet_bytes);
        let packets = 2 * u64::from(link::slots(&self.messages)) * packet_bytes;
        let spare = buffer_pool::MOST_BYTES as u64 + u64::from(self.messages.extra_credits) * packet_bytes;
        self.messages.most_kept(connections).saturating_add(spare).saturating_add(packets.saturating_mul(connections))
    }
}

impl Default for EndpointSettings {
    fn default() -> Self {
        Self {
            messages: weft_message::Settings::default(),
            inject_bytes: 16 * 1024,
            injected_bytes: 1 << 30,
            atomic_bytes: 8192,
            send_depth: 4096,
            announced_depth: 1 << 20,
            receive_depth: 1 << 20,
            peers: 1 << 16,
            connect_timeout: Duration::from_secs(10),
            reply_timeout: Some(Duration::from_secs(600)),
            linger: None,
            transport: Transport::default(),
        }
    }
}

impl EndpointSettings {
    /// How long nothing may move while an endpoint is closed, unless [`Self::linger`] says otherwise.
    pub const LINGER: Duration = Duration::from_secs(2);
    /// When the application gets a warning that a peer's host has taken the connection and its program does not answer.
    pub const LATE: Duration = Duration::from_secs(10);
}

/// How an endpoint is opened.
#[derive(Clone, Debug)]
pub struct EndpointAttributes {
    /// Where to listen. Port 0 takes a free one.
    pub bind: SocketAddr,
    /// Under which addresses peers reach it, the best first, if it listens on all of the machine's. The port is put in.
    pub paths: Vec<std::net::IpAddr>,
    /// Sizes and limits.
    pub settings: EndpointSettings,
    /// The engine of the NIC that it belongs to, from 0; its connections are there too. `None`: the first.
    pub engine: Option<usize>,
    /// The secret of all endpoints of the job: peers without it are not let in. `None`: every peer that reaches the
    /// port is.
    pub key: Option<crate::key::JobKey>,
}

impl EndpointAttributes {
    /// An endpoint at this address alone, with default settings.
    #[must_use]
    pub fn at(bind: SocketAddr) -> Self {
        Self { bind, paths: Vec::new(), settings: EndpointSettings::default(), engine: None, key: None }
    }
}
