//! The operating system: TCP and UDP sockets, shared memory, the clock, readiness and wake-ups. Linux.
//!
//! [`TcpNetwork`] is `weft-base`'s [`Network`](weft_base::Network) over the kernel's TCP and UDP. Its ports send from
//! registered memory, and streams receive into it, without a copy in user space: the registry resolves a
//! [`Slice`](weft_base::Slice) only for the duration of the system call.
//!
//! [`HostNetwork`] is the same, with shared memory between processes of one host where both request it.
//!
//! [`board`] publishes a NIC's counters to other processes, [`fork`] distinguishes a child from its parent.
//!
//! All sockets are non-blocking, have no Nagle delay, and close on exec, as all descriptors of this crate do.

mod address_watch;
pub mod board;
mod clock;
mod cpu_affinity;
mod cpu_pressure;
mod epoll;
mod epoll_watch;
mod error;
mod event;
#[cfg(test)]
mod forbidden;
pub mod fork;
mod held;
mod host;
mod host_address;
mod host_network;
mod inherited;
mod job_rank;
mod listener;
mod membership;
mod network;
mod notice;
mod packet;
mod passing;
mod port;
mod port_rule;
mod pulse;
mod shm;
mod socket;
mod time_slice;
mod timer;
mod udp;
mod user;
mod vectors;
mod wait_set;
mod waker;

pub use clock::MonotonicClock;
pub use cpu_affinity::allowed_processors;
pub use event::EventFd;
pub use host::host_id;
pub use host_address::{host_addresses, interface_addresses, interface_names, running_addresses};
pub use host_network::{HostListener, HostNetwork, HostPort};
pub use inherited::take_inherited;
pub use job_rank::job_rank;
pub use listener::TcpListener;
pub use membership::GroupMembership;
pub use network::TcpNetwork;
pub use packet::{
    FRAME_PIECES, FRAMES, FramePort, FrameTest, InterfaceState, Offload, PacketHelper, PacketOffer, PacketRing,
    PacketSocket, ReceivedFrame, RingFrame, SegmentationLimits, Served,
};
pub use port::TcpPort;
pub use port_rule::{PortReservation, PortRule};
pub use shm::ShmPort;
pub use socket::received_memory;
pub use time_slice::shorten_slice;
pub use timer::TimerFd;
pub use udp::UdpPort;
pub use wait_set::WaitSet;

#[cfg(test)]
mod tests;
