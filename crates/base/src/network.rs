//! What the NIC needs from an operating system, or from a simulation of one.
//!
//! A [`Network`] makes [`Port`]s (one reliable byte stream each), [`Listener`]s and [`DatagramPort`]s, and tells when
//! they have something to do. `weft-driver` implements these over TCP and UDP sockets, `weft-simulate` over queues in
//! virtual time: the same NIC runs on both.

use core::fmt;
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::{DatagramOptions, DatagramPort, InterfaceName, LocalAddress, RegionId, Slice, StreamPosition, Time, Token};

/// One entry of a gather list: what a port sends next.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    /// Headers, and small payloads that were copied.
    Bytes(&'a [u8]),
    /// Payload that stays where it is. The port resolves it when it sends.
    Memory(Slice),
}

/// One entry of a scatter list: where received bytes go.
#[derive(Debug)]
pub enum ReceivePiece<'a> {
    /// The NIC's own staging memory.
    Staging(&'a mut [u8]),
    /// The final place. Rights and bounds for exactly these bytes were checked before (the rule of early placement).
    Memory(Slice),
}

impl ReceivePiece<'_> {
    /// Bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        match self {
            Self::Staging(staging) => staging.len(),
            Self::Memory(slice) => slice.length as usize,
        }
    }
}

/// Bytes that one end of a stream lends to the other: they stay where they are, in the memory of its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lent {
    /// Where they are, as the process that lends them addresses them.
    pub address: u64,
    /// How many they are.
    pub length: u32,
}

/// What a receive brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// This many bytes (at least 1), filling the pieces in order.
    Bytes(usize),
    /// Nothing is there now.
    Nothing,
    /// The peer has closed its direction; nothing will ever come.
    End,
}

/// One end of a reliable, ordered byte stream. No call blocks.
pub trait Port {
    /// Sends from the pieces in order, as much as fits now. Returns how many bytes were taken, 0 when none fit.
    ///
    /// # Errors
    /// The stream is broken, or a piece names memory that is gone. Nothing of this call was sent then.
    fn send(&mut self, pieces: &[Piece<'_>]) -> Result<usize, PortError>;

    /// Receives into the pieces in order, as much as is there now.
    ///
    /// # Errors
    /// The stream is broken, or a piece names memory that is gone. Nothing was received by this call then.
    fn receive(&mut self, pieces: &mut [ReceivePiece<'_>]) -> Result<Received, PortError>;

    /// Whether nothing has come since the last [`Port::receive`], which the port knows without a system call. `false`:
    /// unknown, or it is time for a call that finds out more.
    fn is_still(&mut self) -> bool {
        false
    }

    /// Whether the stream is established. `Ok(false)` while a connect is in progress.
    ///
    /// # Errors
    /// The connect failed.
    fn poll_connected(&mut self) -> Result<bool, PortError>;

    /// Checks whether the peer's host still answers, where that is left to the port's holder
    /// ([`Network::checks_peers`]). To be called every sixteenth of [`PortOptions::peer_timeout`]; on a port that
    /// waits for no answer the call costs next to nothing.
    ///
    /// # Errors
    /// [`PortError::TimedOut`]: the peer's host has not answered for that time. Each later call that sends or receives
    /// returns it too, the latter after all bytes that were received before.
    fn check_peer(&mut self, _now: Time) -> Result<(), PortError> {
        Ok(())
    }

    /// Payload bytes of one packet on this path: MPA's EMSS (RFC 5044 section 4.5). May change when the path does.
    fn segment_size(&self) -> u32;

    /// Whether nothing can change bytes in flight, so that a checksum over them finds nothing: they do not leave
    /// memory.
    fn keeps_bytes(&self) -> bool {
        false
    }

    /// The address of this end.
    ///
    /// # Errors
    /// The stream is broken.
    fn local_address(&self) -> Result<SocketAddr, PortError>;

    /// The address of the other end.
    fn remote_address(&self) -> SocketAddr;

    /// Sends what was taken, then the end of the stream. Receiving continues.
    fn close_send(&mut self);

    /// Bytes that were taken and that the peer's host has not acknowledged yet, the end of the stream included; 0 where
    /// that is unknown. What is acknowledged reaches the peer's program even if this port is dropped now.
    fn unacknowledged(&self) -> usize {
        0
    }

    /// The shortest round trip to the peer's host so far; `None` where it is unknown.
    fn round_trip(&self) -> Option<Duration> {
        None
    }

    /// Breaks the stream at once; the peer sees a reset. Dropping a port without this closes it gracefully.
    fn abort(&mut self);
}

/// A port that may know where its packets begin and end, and have what comes before it is in order. One that does not
/// is a byte stream, as all of this is by default.
pub trait Segmented: Port {
    /// As [`Port::send`]. `units` says how long the units are that the pieces begin with, one after the other; the
    /// first may be the rest of one. A port that knows where its packets begin and end sends each unit in one of them,
    /// where it fits, and takes whole ones as far as it can.
    ///
    /// # Errors
    /// As [`Port::send`].
    fn send_units(&mut self, pieces: &[Piece<'_>], _units: &mut dyn Iterator<Item = u32>) -> Result<usize, PortError> {
        self.send(pieces)
    }

    /// Whether it can deliver what comes out of order as it comes: [`Segmented::begin_segments`].
    fn shows_segments(&self) -> bool {
        false
    }

    /// From now on [`Segmented::receive_segments`] delivers what comes, and [`Port::receive`] no more. Returns the
    /// position in the peer's stream of the first byte that was not received. `None`: it has bytes in order only, and
    /// nothing changes.
    fn begin_segments(&mut self) -> Option<StreamPosition> {
        None
    }

    /// Delivers received segments, in any order, after [`Segmented::begin_segments`]: each byte once, with its position
    /// in the peer's stream. A segment for which `take` returns `false` is kept, and delivered again when more has been
    /// received; the receive window bounds how much is kept. Returns the number of bytes delivered for the first time.
    ///
    /// # Errors
    /// The stream is broken.
    fn receive_segments(
        &mut self,
        _take: &mut dyn FnMut(StreamPosition, &[u8]) -> bool,
    ) -> Result<Received, PortError> {
        Ok(Received::Nothing)
    }
}

/// A port whose ends may read each other's memory, in one host. By default it can't.
pub trait Lending: Port {
    /// From now on this end borrows: the other may lend what it has to send ([`Lending::lend`]). Returns whether this
    /// process can read the other's memory; where it can't, all bytes go through the stream.
    fn begin_borrowing(&mut self) -> bool {
        false
    }

    /// Whether the other end borrows. It may begin to, and stop when it can't read this process's memory any more; what
    /// is lent then comes back all the same.
    fn can_lend(&mut self) -> bool {
        false
    }

    /// Lends one run of bytes, of [`crate::MAX_GATHER`] slices at most, and says in `lent` where each lies. Bytes of
    /// the stream are to tell the other end, which reads them by [`Lending::borrow_into`]. They stay as they are until
    /// [`Lending::take_returned`] counts the run, or [`Lending::revoke`].
    ///
    /// # Errors
    /// A slice can't be touched (any more). Nothing is lent then.
    fn lend(&mut self, slices: &[Slice], _lent: &mut [Lent]) -> Result<(), PortError> {
        Err(PortError::Memory(slices.first().map_or(RegionId { index: 0, generation: 0 }, |slice| slice.region)))
    }

    /// How many of the runs that were lent, in their order, the other end has given back since the last call. While
    /// [`Interest::writable`] is armed, the return of one of them is reported.
    ///
    /// # Errors
    /// The other end gives back what it never had.
    fn take_returned(&mut self) -> Result<usize, PortError> {
        Ok(0)
    }

    /// What is lent may not be read any more: the other end finds its stream broken if it does.
    fn revoke(&mut self) {}

    /// Copies the next run that the other end lends into place, from the place that it has named, and gives it back.
    /// Both lists have equally many bytes.
    ///
    /// # Errors
    /// The stream is broken, by this too, where the other end has not lent as much, or not there, or not any more; or a
    /// slice can't be touched (any more).
    fn borrow_into(&mut self, _lent: &[Lent], _into: &[Slice]) -> Result<(), PortError> {
        Err(PortError::Reset)
    }
}

/// Accepts incoming streams.
pub trait Listener {
    /// The ports it makes.
    type Port: Port;

    /// The next stream that has come, if one has.
    ///
    /// # Errors
    /// The operating system refused (no more descriptors, for example); the listener itself stays open and may be
    /// polled again.
    fn accept(&mut self) -> Result<Option<Self::Port>, PortError>;

    /// The next stream that has come, if one has, though [`Listener::accept`] has returned [`PortError::Exhausted`]: on
    /// a descriptor that is kept for this, so that the caller can get the reason for its refusal, and for nothing else.
    ///
    /// # Errors
    /// There is no such descriptor now, or the operating system refused.
    fn accept_to_refuse(&mut self) -> Result<Option<Self::Port>, PortError> {
        Err(PortError::Exhausted)
    }

    /// How many descriptors this process may have open at a time, if that is known.
    fn descriptor_limit(&self) -> Option<u64> {
        None
    }

    /// Where it listens, with the port number that was chosen when 0 was requested.
    fn local_address(&self) -> SocketAddr;
}

/// How many streams may wait to be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog(pub u32);

/// Settings of a new stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortOptions {
    /// The local address to connect from. `None`: the operating system chooses.
    pub local: Option<SocketAddr>,
    /// Bytes of the operating system's send and receive buffer, each. `None`: it chooses, and adapts.
    pub buffer_bytes: Option<u32>,
    /// How long the peer's host may leave unanswered what it must answer before the stream breaks with
    /// [`PortError::TimedOut`]: bytes, a probe of its window while it takes none, or a question whether it is there
    /// while nothing is sent. A host that answers is never too slow, whatever its programs do. `None`: as long as the
    /// operating system is patient (a quarter of an hour, or for ever when nothing is sent).
    pub peer_timeout: Option<Duration>,
    /// A connect goes through memory that both processes share, or fails; a listener takes such streams beside the
    /// others. Only where [`Network::shares_memory`] says so: others ignore it.
    pub shared_memory: bool,
}

/// What a port or listener wants to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Bytes, an end, an error, or a new stream.
    pub readable: bool,
    /// Room to send, or the end of a connect. While something is lent ([`Lending::lend`]), its return; room then only
    /// where the last send had found too little.
    pub writable: bool,
    /// Fewer bytes than this need not be reported, unless no more can come: the stream has ended, or its buffer is
    /// full. At least 1; more is a hint, and what is there can be received at any time.
    pub least: u32,
}

impl Interest {
    /// Nothing is to be reported any more.
    pub const NOTHING: Self = Self { readable: false, writable: false, least: 1 };
}

/// A port or listener that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// Which.
    pub token: Token,
    /// Bytes, an end, an error, or a new stream.
    pub readable: bool,
    /// Room to send, or the end of a connect.
    pub writable: bool,
}

/// Ends a [`Network::wait`] from another thread. A wake that comes before the wait ends it as well.
pub trait Waker: Send + Sync {
    /// Wakes.
    fn wake(&self);
}

/// Where a thread of the NIC's own sleeps while others may run the engine: outside of the [`Network`], whose
/// [`Network::wait`] is for the holder. One thread at a time sleeps, the same that is pinned; the other calls may come
/// from any thread. At first packets are off and no timer runs.
pub trait Watch: Send + Sync {
    /// Sleeps until the network has something to do (only while packets are on), the timer has run off, it was woken,
    /// or `timeout` has passed (`None`: for ever; zero: not at all). Never takes events from the network: they are for
    /// the next [`Network::wait`]. Returns whether the network has something to do.
    fn sleep(&self, timeout: Option<Duration>) -> bool;

    /// Whether packets end a sleep, one in progress included. What waits already counts too: while it is not taken from
    /// the network, each sleep ends at once.
    fn set_packets(&self, on: bool);

    /// Ends the sleep in progress, or the next one, in `after` from now; replaces an earlier time.
    fn set_timer(&self, after: Duration);

    /// The timer ends no sleep any more, until it is set again. A network may leave it running.
    fn stop_timer(&self) {}

    /// Ends the sleep in progress, or the next one.
    fn wake(&self);

    /// The processor on which the calling thread runs, as far as can be known.
    fn processor(&self) -> Option<u32> {
        None
    }

    /// The number of the calling thread, for [`Watch::thread_times`].
    fn thread(&self) -> Option<u32> {
        None
    }

    /// For how long the thread with this number has run and has waited for a processor, as far as can be known. The
    /// system may count a wait when it ends, and a run at its next tick.
    fn thread_times(&self, _thread: u32) -> Option<ThreadTimes> {
        None
    }

    /// How many threads want to run now, on how many processors, as far as can be known.
    fn run_queue(&self) -> Option<RunQueue> {
        None
    }

    /// Pins the calling thread, which must be the NIC's own, to this processor, if it is allowed there; `None` restores
    /// its affinity. Returns whether that has changed.
    fn pin(&self, _processor: Option<u32>) -> bool {
        false
    }

    /// The calling thread, which must be the NIC's own, runs for a short time each time that it is woken: as far as the
    /// system lets it, it runs at once then, also where another thread computes.
    fn be_prompt(&self) {}
}

/// For how long a thread has run, and has waited for a processor while it was ready to run, since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// It ran.
    pub ran: Duration,
    /// It waited for a processor.
    pub waited: Duration,
}

/// How many threads want to run, and the processors that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunQueue {
    /// Threads of the whole machine that run or are ready to.
    pub runnable: usize,
    /// Processors of the whole machine.
    pub processors: usize,
    /// As many of them as this process may use, by its affinity and the quota of its control group.
    pub usable: usize,
}

/// The tag of networks whose streams carry iWARP: MPA over each port ([`Network::Stack`]).
#[derive(Clone, Copy, Debug)]
pub struct Iwarp;

/// The tag of networks whose streams are Edge's: over datagram ports.
#[derive(Clone, Copy, Debug)]
pub struct Edge;

/// The tag of networks whose connections say which of both carries them, iWARP or Edge.
#[derive(Clone, Copy, Debug)]
pub struct IwarpOrEdge;

/// An address of this host, and the interface that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAddress {
    /// The interface's name.
    pub interface: String,
    /// The address, and the interface's number.
    pub address: LocalAddress,
    /// Bits of its subnet: this interface reaches hosts with the same bits without a router.
    pub prefix: u8,
    /// Whether the interface has a carrier, as far as is known.
    pub is_running: bool,
}

impl HostAddress {
    /// Whether this address and `other` are in one subnet.
    #[must_use]
    pub fn is_beside(&self, other: IpAddr) -> bool {
        let differ = match (self.address.ip, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => u128::from(own.to_bits() ^ other.to_bits()) << 96,
            (IpAddr::V6(own), IpAddr::V6(other)) => own.to_bits() ^ other.to_bits(),
            _ => return false,
        };
        differ.leading_zeros() >= u32::from(self.prefix)
    }
}

/// A maker of ports and listeners, and the one place to wait for them.
///
/// Interest is one-shot: once reported by [`Network::wait`], a token is silent until it is armed again. So a port that
/// is being polled anyway wakes no thread.
pub trait Network {
    /// The ports it makes.
    type Port: Segmented + Lending;
    /// The listeners it makes.
    type Listener: Listener<Port = Self::Port>;
    /// The datagram ports it makes.
    type Datagram: DatagramPort;
    /// Which lower layer protocol RDMA streams have on it: a tag, to which the NIC gives the meaning.
    type Stack;

    /// Starts to connect. The port is returned at once; [`Port::poll_connected`] says when the stream is established.
    ///
    /// # Errors
    /// The address cannot be used, or the operating system refused.
    fn connect(&mut self, remote: SocketAddr, options: PortOptions) -> Result<Self::Port, PortError>;

    /// Listens. Port number 0 takes a free one.
    ///
    /// # Errors
    /// The address cannot be used (taken, not of this machine, not permitted).
    fn listen(
        &mut self,
        local: SocketAddr,
        backlog: Backlog,
        options: PortOptions,
    ) -> Result<Self::Listener, PortError>;

    /// Makes a datagram port at an address of this host. Port number 0 takes a free one; an unspecified address takes
    /// what comes to any.
    ///
    /// # Errors
    /// The address cannot be used (taken, not of this machine, not permitted).
    fn bind(&mut self, local: SocketAddr, options: DatagramOptions) -> Result<Self::Datagram, PortError>;

    /// Asks to report `token` once when the port is ready for `interest`. An earlier interest of the port is replaced.
    ///
    /// # Errors
    /// The operating system refused.
    fn arm_port(&mut self, port: &mut Self::Port, token: Token, interest: Interest) -> Result<(), PortError>;

    /// The addresses of this host by which others may reach it, for Edge's rails: without the loopback's and those of
    /// one link. None where they are unknown.
    fn host_addresses(&mut self) -> Vec<HostAddress> {
        Vec::new()
    }

    /// From which of this host's addresses datagrams to a peer leave, where the network knows and the operating system
    /// does not. `None`: that is for its routes to say.
    fn source_to(&self, _peer: IpAddr) -> Option<IpAddr> {
        None
    }

    /// Whether [`Network::host_addresses`] may return other addresses than the last time. Cheap where the network is
    /// notified of changes.
    fn may_have_other_addresses(&mut self) -> bool {
        true
    }

    /// Whether [`Port::check_peer`] is to be called for its ports.
    fn checks_peers(&self) -> bool {
        false
    }

    /// Whether streams that were dropped have bytes that their peers have not acknowledged, and that are lost when the
    /// network goes.
    fn owes(&self) -> bool {
        false
    }

    /// Whether it knows [`PortOptions::shared_memory`].
    fn shares_memory(&self) -> bool {
        false
    }

    /// Asks to report `token` once when a stream waits to be accepted.
    ///
    /// # Errors
    /// The operating system refused.
    fn arm_listener(&mut self, listener: &Self::Listener, token: Token) -> Result<(), PortError>;

    /// Asks to report `token` once when the port is ready for `interest`: a datagram or a [`Hint`](crate::Hint) has
    /// come, or a send may take something. Of [`Interest::least`] nothing is made. An earlier interest of the port is
    /// replaced.
    ///
    /// # Errors
    /// The operating system refused.
    fn arm_datagram(&mut self, port: &mut Self::Datagram, token: Token, interest: Interest) -> Result<(), PortError>;

    /// Waits until something armed is ready, the waker was used, or `timeout` has passed (`None`: for ever; zero: only
    /// polls). Appends what is ready.
    ///
    /// # Errors
    /// The operating system refused.
    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Readiness>) -> Result<(), PortError>;

    /// A handle that ends [`Network::wait`] from another thread.
    fn waker(&self) -> Arc<dyn Waker>;

    /// Makes a place to sleep that this network's readiness can end; it may outlive the network.
    ///
    /// # Errors
    /// The operating system has no descriptors left.
    fn watch(&self) -> Result<Arc<dyn Watch>, PortError>;
}

/// Why a port, listener or network call failed. `Copy`, so that a completion can hold it; the number of the operating
/// system is kept where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortError {
    /// The peer broke the stream, or the stream was aborted.
    Reset,
    /// The peer's host answers that it has no listener there.
    Refused,
    /// No process shares memory at that address ([`PortOptions::shared_memory`]).
    NotShared,
    /// The listener there can't take the memory that is to be shared.
    Declined,
    /// The operating system gives this process no memory to share (memfd_create(2)), by its error number.
    NoSharedMemory(i32),
    /// The peer, or the network on the path, did not answer in time.
    TimedOut,
    /// No way to that address is known.
    Unreachable,
    /// It is beyond the networks of a raw link that has no gateway, and the host has no route there either.
    NoGateway,
    /// The interface of a raw link was deleted. What it carried is over; as soon as one of that name is there again,
    /// new streams and listeners have it.
    InterfaceGone(InterfaceName),
    /// The peer's address has port 0, which no listener can have.
    NoPort,
    /// The interface that leads to the peer carries no datagrams of the least size that the protocol needs.
    SmallMtu {
        /// The interface's MTU, in bytes, where the operating system says it.
        mtu: Option<u32>,
        /// The least that is needed.
        needed: u32,
    },
    /// The local address is taken.
    AddressInUse,
    /// The local address is not of this machine.
    AddressNotLocal,
    /// The operating system does not permit it.
    NotPermitted,
    /// A limit of the operating system (descriptors, memory) is reached.
    Exhausted,
    /// A slice names a region that is no longer registered, or reaches outside it.
    Memory(RegionId),
    /// What the peer lends ([`Lending::lend`]) can't be read where it says, by the operating system's error number.
    Unreadable(i32),
    /// Anything else, with the operating system's error number.
    System(i32),
}

impl PortError {
    /// Whether it is about memory of this process alone: a slice that is not registered any more, or memory that is not
    /// mapped, as where a program has freed it under work (EFAULT, 14 with Linux on each architecture).
    #[must_use]
    pub const fn is_of_memory(&self) -> bool {
        const EFAULT: i32 = 14;
        matches!(self, Self::Memory(_) | Self::System(EFAULT))
    }
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reset => f.write_str("the connection was reset"),
            Self::Refused => f.write_str("connection refused: no listener at that address and port"),
            Self::NotShared => f.write_str(
                "nobody shares memory there: that takes a process of the same user, on this host and in this network \
                 namespace, which listens for it (transport shm, shm+iwarp, shm+edge or auto)",
            ),
            Self::Declined => f.write_str(
                "the process that listens there can't take shared memory: it is short of memory or descriptors, or of \
                 another version of Weft; connect by transport iwarp",
            ),
            Self::NoSharedMemory(number) => write!(
                f,
                "the operating system gives no memory to share (memfd_create: {}): permit that call, which the filter \
                 of a container may refuse, or connect by transport iwarp or edge",
                std::io::Error::from_raw_os_error(*number)
            ),
            Self::TimedOut => f.write_str("timed out: the peer or the network on the way did not answer"),
            Self::Unreachable => f.write_str("no route to that address"),
            Self::NoGateway => f.write_str(
                "no route to that address: it is in none of the raw link's networks, and the link has no gateway; name \
                 one, as in eth0=10.0.0.9/24,via=10.0.0.1",
            ),
            Self::InterfaceGone(name) => {
                write!(f, "the network interface {name} is gone: make it again, then connect or listen again")
            }
            Self::NoPort => f.write_str("port 0 has no listener: name the port that the peer listens at"),
            Self::SmallMtu { mtu, needed } => {
                match mtu {
                    Some(mtu) => write!(f, "the interface that leads there has an MTU of {mtu} bytes, and Edge needs")?,
                    None => {
                        f.write_str("the interface that leads there has a smaller MTU than Edge needs, which is")?
                    }
                }
                write!(f, " {needed}: raise it (ip link set dev NAME mtu {needed}), or connect by transport iwarp")
            }
            Self::AddressInUse => f.write_str("the local address and port are in use"),
            Self::AddressNotLocal => f.write_str("the local address does not belong to this machine"),
            Self::NotPermitted => f.write_str("the operating system does not permit it"),
            Self::Exhausted => {
                f.write_str("a limit of the operating system is reached: open files (`ulimit -n`) or memory")
            }
            Self::Memory(region) => {
                write!(f, "memory region {}.{} is no longer registered", region.index, region.generation)
            }
            Self::Unreadable(number) => write!(
                f,
                "the peer's memory can't be read where it lends it ({}): it belongs to a device, or its process \
                 permits that no more; a peer with FI_WEFT_TUNE=lend=off (Settings::lend_threshold) lends nothing",
                std::io::Error::from_raw_os_error(*number)
            ),
            Self::System(number) => write!(f, "{}", std::io::Error::from_raw_os_error(*number)),
        }
    }
}

impl std::error::Error for PortError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_host_is_beside_an_address() {
        for (own, prefix, other, is_beside) in [
            ("10.1.2.3", 24, "10.1.2.250", true),
            ("10.1.2.3", 24, "10.1.3.3", false),
            ("10.1.2.3", 0, "192.0.2.1", true),
            ("10.1.2.3", 32, "10.1.2.4", false),
            ("10.1.2.3", 128, "10.1.2.4", false),
            ("fd00::1", 64, "fd00::ffff", true),
            ("fd00::1", 64, "fd00:0:0:1::1", false),
            ("10.1.2.3", 0, "fd00::1", false),
        ] {
            let address = LocalAddress { ip: own.parse().unwrap(), interface: 1 };
            let host = HostAddress { interface: "eth0".into(), address, prefix, is_running: true };
            assert_eq!(host.is_beside(other.parse().unwrap()), is_beside, "{own}/{prefix} {other}");
        }
    }

    #[test]
    fn memory_that_is_not_mapped_is_memory_of_this_process() {
        let region = RegionId { index: 1, generation: 1 };
        assert!(PortError::Memory(region).is_of_memory() && PortError::System(14).is_of_memory());
        // EIO, and memory of the peer's.
        assert!(!PortError::System(5).is_of_memory() && !PortError::Unreadable(14).is_of_memory());
    }
}
