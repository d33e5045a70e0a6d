//! Message endpoints: `weft-message` joined to queue pairs, in the engine. Whoever runs the engine matches messages, answers peers and executes atomics, so they make progress
//! while the application computes.

mod request;

use core::time::Duration;
use std::net::SocketAddr;

pub use request::*;

/// Sizes and limits of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointSettings {
    /// Protocols, credits, and what is kept for unexpected messages.
    pub messages: weft_message::Settings,
    /// Messages and writes up to so many bytes may be injected.
    pub inject_bytes: u32,
    /// Operand bytes of one atomic operation, at most.
    pub atomic_bytes: u32,
    /// Sends, transfers and atomics under way, at most.
    pub send_depth: u32,
    /// Receives posted, at most.
    pub receive_depth: u32,
    /// Peers known, at most.
    pub peers: u32,
    /// How long to try to reach a peer, all its ways together.
    pub connect_timeout: Duration,
    /// How long closing waits until what was sent has gone out.
    pub linger: Duration,
}

impl Default for EndpointSettings {
    fn default() -> Self {
        Self {
            messages: weft_message::Settings::default(),
            inject_bytes: 4096,
            atomic_bytes: 8192,
            send_depth: 4096,
            receive_depth: 1 << 20,
            peers: 1 << 16,
            connect_timeout: Duration::from_secs(10),
            linger: Duration::from_secs(2),
        }
    }
}

/// How an endpoint is opened.
#[derive(Clone, Debug)]
pub struct EndpointAttributes {
    /// Where to listen. Port 0 takes a free one.
    pub bind: SocketAddr,
    /// Under which addresses peers reach it, the best first, if it listens on all of the machine's. The port is put in.
    pub ways: Vec<std::net::IpAddr>,
    /// Sizes and limits.
    pub settings: EndpointSettings,
}
