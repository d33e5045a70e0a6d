//! Weft's own TCP, and Edge without IP, on a raw link: a host in user space, with addresses of IPv4 and IPv6 on an
//! Ethernet that the kernel does not have.
//!
//! [`LinkNetwork`] is a [`Network`](weft_base::Network) of two: what goes to the network of its [`LinkSettings`] goes
//! by `weft-tcp` or, as datagrams, in frames of their own, over packet sockets of the interface; all else by the kernel
//! (`HostNetwork`). It needs the capability CAP_NET_RAW.
//!
//! Segments of a stream leave many at a time: the interface cuts them and completes their checksums, or the kernel
//! does. Frames longer than the MTU, which senders and devices make that do the same, are taken as they come.
//!
//! Datagrams have an EtherType of their own and no IP ([`RawPort`]), and stay on the link. Each port takes 4 MiB of the
//! kernel's memory, and the right once more when it is made.
//!
//! Instead of addresses of its own a link can have some ports of the host's ([`LinkSettings::ports`]): then the kernel
//! is kept from answering by a rule of its firewall, which needs the capability CAP_NET_ADMIN and the program `nft`.
//!
//! A process that has no right to open packet sockets can have one from a [`LinkHelper`].
//!
//! One address belongs to one network: two that have it reset each other's connections. No other host answers for it,
//! so connections end with the network that has them. Peers are on the link itself, or beyond a gateway that
//! [`LinkSettings::gateways`] names.
//!
//! A stream begins in order: segments that come early are kept until what is missing has come, as the kernel does. Its
//! user may have them as they come instead ([`begin_segments`](weft_base::Segmented::begin_segments)), as the NIC does
//! where it can place them: then none is kept here for longer than until the user polls.
#![forbid(unsafe_code)]

mod helper;
mod inbox;
mod listener;
mod network;
mod port;
mod raw;
mod settings;
mod stack;

pub use helper::LinkHelper;
pub use listener::LinkListener;
pub use network::LinkNetwork;
pub use port::LinkPort;
pub use raw::{LinkDatagram, RawPort};
pub use weft_driver::Served;

pub use settings::{LinkAddress, LinkSettings, ParseLinkError, PortRange};
