//! Networks of real virtual links on one machine, made without root: hosts are network namespaces, links are veth pairs
//! that a token bucket holds to a rate.
//!
//! ```no_run
//! use weft_lab::{Lab, Plan};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let lab = Lab::up(&Plan { links: 2, ..Plan::default() })?;
//! let status = lab.host(1).command("ping").args(["-c", "1"]).arg(lab.host(0).address(0).to_string()).status()?;
//! assert!(status.success()); lab.down()?;
//! # Ok(())
//! # }
//! ```
//!
//! A namespace lives as long as a process in it. Each has a holder, a shell that reads from a pipe whose other end only
//! this process has: when this process ends, however it does, the pipe closes, and the holder kills what still runs in
//! its namespace and ends. So nothing is ever left behind, and nothing has to be cleaned up later.
//!
//! The work is done by `unshare` and `nsenter` of util-linux, `ip` and `tc` of iproute2, and `ethtool`. Inside a lab a
//! process has user id 0 and every right over the lab's network, and outside of it those that its user has.
#![forbid(unsafe_code)]

mod bridge;
mod bridge_process;
mod carrier;
mod cluster;
mod cut;
mod error;
mod holder;
mod host;
mod lateness;
mod limits;
mod link;
mod netlink;
mod network;
mod packet_queue;
mod plan;
mod process;
mod punctual;
mod ring_port;
mod routing;
mod shape;
mod shaping;
mod tools;
mod up;
mod wan;

pub use bridge::serve_bridge;
pub use bridge_process::BridgeProgram;
pub use carrier::Carrier;
pub use cluster::{CLUSTERS, Cluster, LONGEST_NAME, WanLink, check_name};
pub use error::LabError;
pub use host::{Host, Rail};
pub use lateness::{Lateness, LatenessLog};
pub use limits::{BitsPerSecond, HOSTS, LINKS, MTU, RATE};
pub use link::{Link, WanCut, Way};
pub use packet_queue::{KeptPacket, PacketQueues, QueueError, QueueNeeds, QueuedPacket, came};
pub use plan::{Plan, USUAL_CONGESTION_CONTROLS};
pub use process::Process;
pub use punctual::Punctual;
pub use ring_port::RingPort;
pub use shape::{BURST, DELAY, FLIPS, QUEUE, Shape};
pub use tools::find as find_program;
pub use up::Lab;
