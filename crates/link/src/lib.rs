//! Weft's own TCP on a raw link: a host in user space, with an address on an Ethernet that the kernel does not have.
//!
//! [`LinkNetwork`] is a [`Network`](weft_base::Network) of two: what goes to the network of its [`LinkSettings`] goes
//! by `weft-tcp` and frames of the interface (`weft-driver`'s `PacketRing`), all else by the kernel (`HostNetwork`). It
//! needs the right CAP_NET_RAW, and the interface must not let devices cut or join segments (`ethtool -K eth0 tso off
//! gso off gro off`, here and, on virtual links, at the peer): frames longer than the MTU are lost.
//!
//! One address belongs to one network: two that have it reset each other's connections. Nobody else answers for it, so
//! connections end with the network that has them. Peers are on the link itself: there is no gateway.
//!
//! Segments that come early are kept until what is missing has come, as the kernel does.
#![forbid(unsafe_code)]

mod listener;
mod network;
mod port;
mod settings;
mod stack;

pub use listener::LinkListener;
pub use network::LinkNetwork;
pub use port::LinkPort;
pub use settings::{LinkSettings, ParseLinkError};
