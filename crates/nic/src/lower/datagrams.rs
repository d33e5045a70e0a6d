//! What a lower layer over datagrams has of its engine: the ports that many connections share, what has arrived for one
//! of them, and how a datagram finds the connection that it is for.

use core::any::Any;
use std::net::{IpAddr, SocketAddr};

use slotmap::DefaultKey;
use weft_base::{DatagramBatch, DatagramLimits, DatagramPort, DatagramSent, Ecn, LocalAddress, Piece, PortError};
use weft_memory::Registry;

use crate::offer::Offer;

/// A datagram port of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramKey(pub(crate) DefaultKey);

/// A datagram port at one address of this host, from which rails leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RailPort {
    /// The port.
    pub port: DatagramKey,
    /// The address, and the interface that datagrams leave by.
    pub from: LocalAddress,
    /// The how-manieth flow from there.
    pub flow: u8,
    /// Where others find it.
    pub address: SocketAddr,
}

/// The datagram ports of an engine. Many connections share one; the engine receives, and knows from
/// [`Datagrams::destination`](crate::lower::Datagrams::destination) which connection a datagram is for.
pub trait DatagramPorts: RailPorts + ServedPorts {
    /// Sends, as [`weft_base::DatagramPort::send`].
    ///
    /// # Errors
    /// As there; or the port is gone.
    fn send(
        &mut self,
        port: DatagramKey,
        batch: &DatagramBatch,
        pieces: &[Piece<'_>],
    ) -> Result<DatagramSent, PortError>;

    /// What it takes at most.
    fn limits(&self, port: DatagramKey) -> DatagramLimits;

    /// Where it is bound.
    fn local_address(&self, port: DatagramKey) -> Option<SocketAddr>;

    /// Bytes that each peer may have under way to it, so that all together fit into its buffer.
    fn credit(&self, port: DatagramKey) -> u32;

    /// How many datagrams have found its buffer full.
    fn overflowed(&self, port: DatagramKey) -> u64;

    /// Has the connection with this name driven when there is room to send again.
    fn wait_for_room(&mut self, port: DatagramKey, name: u64);

    /// A hello has come that was proved as far as it can be. False where its name, which only its sender can
    /// change, is that of one that was a call before: another host repeats it.
    fn note_call(&mut self, name: u128) -> bool;

    /// The call of a hello has come to nothing.
    fn forget_call(&mut self, name: u128);

    /// Bytes that cannot be guessed, and that give nothing away about others.
    fn secret_bytes(&mut self) -> [u8; 64];

    /// The key of the reset tokens of connections that begin at a port. A program that is started anew on this host,
    /// and binds a port to the same address, has it again: it is made of the boot, the network namespace and that
    /// address, so it is no secret to a peer that knows them.
    fn reset_key(&self, port: DatagramKey) -> [u8; 32];
}

/// The ports of an engine by this host's addresses, for rails.
pub trait RailPorts {
    /// The ports from which further rails leave, one for each flow from each of this host's addresses that rails may
    /// use.
    fn rails(&self) -> &[RailPort];

    /// The name of the interface that has this address, where that is known.
    fn interface_of(&self, address: IpAddr) -> Option<&str>;

    /// This address of the host with its interface, if the peer is in its subnet. Of several interfaces in one subnet
    /// the routes name one for all addresses.
    fn beside(&self, own: IpAddr, peer: IpAddr) -> Option<LocalAddress>;

    /// The connection with this name leaves a port at one address, which this host has no more, for one that leaves
    /// from wherever the routes say. `None`: there is none now.
    fn move_to_any(&mut self, port: DatagramKey, name: u64) -> Option<DatagramKey>;

    /// How often the host's addresses, or the carriers of their interfaces, have changed.
    fn rails_serial(&self) -> u32;
}

/// Ports of an engine that other engines of the NIC serve: they receive there, check payload, gather and send, on cores
/// of their own.
pub trait ServedPorts {
    /// Whether any port is served by another engine of the NIC.
    fn any_served(&self) -> bool;

    /// Has the engine that serves the port send what `fill` puts into the transmit batch, which is a
    /// [`Leaving::TxBatch`] of the connection's lower layer. False where that is this engine, or the other one takes
    /// nothing now: then `fill` was not called.
    fn post(&mut self, port: DatagramKey, fill: &mut dyn FnMut(&mut dyn Any)) -> bool;

    /// The number of the transmit batch that is posted next at this port. `None`: all others have left.
    fn posted(&self, port: DatagramKey) -> Option<u64>;

    /// Whether all transmit batches before this one have left, in so far as nothing reads their memory any more. If
    /// not, the connection with this name is driven when they have.
    fn have_left(&mut self, port: DatagramKey, mark: u64, name: u64) -> bool;

    /// Throws away the transmit batches of the connection with this name that wait at the port.
    fn take_back(&mut self, port: DatagramKey, name: u64);
}

/// What sending has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFailure {
    /// A datagram on this rail, of this many bytes, is larger than the link carries, which is that many, if that is
    /// known.
    TooLarge(u8, u32, Option<u32>),
    /// The interface of this rail takes nothing.
    Unreachable(u8),
    /// The address that this rail leaves from is not this host's any more, and by which way it leaves.
    SourceGone(u8, u8),
}

/// Datagrams of one connection that leave by a port which another engine serves, as the lower layer packs them. Their
/// payload is where the work requests have it, and is copied by that engine.
pub trait TxBatch: Default + Send + Any {
    /// What this end calls the connection that sends it. 0: it is of no connection.
    fn name(&self) -> u64;

    /// Takes bytes that the caller has, as [`DatagramPort::send`] does.
    fn fill(&mut self, batch: &DatagramBatch, bytes: &[u8]);
}

/// A transmit batch on its way out, at the engine that serves the port.
pub trait Leaving: Default + Send {
    /// What it is loaded from.
    type TxBatch: TxBatch;

    /// Whether nothing waits.
    fn is_empty(&self) -> bool;

    /// Copies a transmit batch's payload: from here on its memory is not read. A datagram whose memory is gone is as
    /// one that was lost: that memory goes only when no connection wants the datagram any more.
    fn load(&mut self, tx_batch: &Self::TxBatch, registry: &Registry);

    /// Sends until all has left or the port has no room, and reports each connection of which a datagram could not
    /// leave. Returns the bytes and the calls that it took.
    fn send(
        &mut self,
        port: &mut impl DatagramPort,
        limits: &DatagramLimits,
        tell: impl FnMut(u64, SendFailure),
    ) -> (usize, u64);
}

/// Where no datagrams leave.
impl TxBatch for () {
    fn name(&self) -> u64 {
        0
    }

    fn fill(&mut self, _: &DatagramBatch, _: &[u8]) {}
}

/// Where no datagrams leave.
impl Leaving for () {
    type TxBatch = ();

    fn is_empty(&self) -> bool {
        true
    }

    fn load(&mut self, (): &(), _: &Registry) {}

    fn send(&mut self, _: &mut impl DatagramPort, _: &DatagramLimits, _: impl FnMut(u64, SendFailure)) -> (usize, u64) {
        (0, 0)
    }
}

/// Datagrams that have come for one connection, the oldest first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inbox<'a> {
    port: Option<DatagramKey>,
    bytes: &'a [u8],
    entries: &'a [InboxEntry],
    /// Bytes of the first entry that were taken.
    taken: usize,
}

/// Where datagrams lie that have come together, and what is known of them.
#[derive(Clone, Debug)]
pub(crate) struct InboxEntry {
    pub(crate) range: core::ops::Range<usize>,
    /// Bytes of each but the last, which may have fewer. At least 1.
    pub(crate) size: usize,
    pub(crate) from: SocketAddr,
    pub(crate) to: Option<LocalAddress>,
    pub(crate) ecn: Ecn,
    pub(crate) is_checked: bool,
}

/// A datagram that has come.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its sender, as far as the IP header says.
    pub from: SocketAddr,
    /// Where it came to, if that is known.
    pub to: Option<LocalAddress>,
    /// Its mark.
    pub ecn: Ecn,
    /// [`Datagrams::is_good`](crate::lower::Datagrams::is_good) has checked it already, on another core.
    pub is_checked: bool,
}

/// Datagrams that have come together: of one sender, with one mark.
#[derive(Clone, Copy, Debug)]
pub struct DatagramRun<'a> {
    /// The first one, but with the bytes of all.
    pub all: Datagram<'a>,
    /// Bytes of each but the last, which may have fewer.
    pub size: usize,
}

impl<'a> Inbox<'a> {
    pub(crate) const fn new(port: DatagramKey, bytes: &'a [u8], entries: &'a [InboxEntry]) -> Self {
        Self { port: Some(port), bytes, entries, taken: 0 }
    }

    /// Takes the next datagrams that have come together.
    pub fn next_run(&mut self) -> Option<DatagramRun<'a>> {
        let (entry, rest) = self.entries.split_first()?;
        let bytes = self.bytes.get(entry.range.start + self.taken..entry.range.end)?;
        (self.entries, self.taken) = (rest, 0);
        let InboxEntry { from, to, ecn, is_checked, size, .. } = *entry;
        Some(DatagramRun { all: Datagram { bytes, from, to, ecn, is_checked }, size })
    }

    /// The port that they have come to.
    #[must_use]
    pub const fn port(&self) -> Option<DatagramKey> {
        self.port
    }

    /// Whether nothing has come.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<'a> Iterator for Inbox<'a> {
    type Item = Datagram<'a>;

    fn next(&mut self) -> Option<Datagram<'a>> {
        let (whole, taken) = (*self, self.taken);
        let DatagramRun { all, size } = self.next_run()?;
        if all.bytes.len() <= size {
            return Some(all);
        }
        *self = Self { taken: taken + size, ..whole };
        Some(Datagram { bytes: &all.bytes[..size], ..all })
    }
}

/// Which connection a datagram is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The connection that this end calls so.
    Own(u64),
    /// The connection that the sender calls so: it has just called, or knows nothing of it any more.
    Peer(u64),
    /// The connection that the sender called so, and knows nothing of any more. It may come from the address of any
    /// rail.
    Forgotten(u64),
    /// It is not known.
    Nobody,
}

impl Destination {
    /// Whether it may be a call: of something that this end has no name for.
    pub(crate) const fn is_call(self) -> bool {
        matches!(self, Self::Peer(_))
    }
}

/// The names by which datagrams find a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionIds {
    /// What this end calls it.
    pub own: u64,
    /// Where the peer is and what it calls it, once that is known.
    pub peer: Option<(SocketAddr, u64)>,
}

/// A datagram at a port that is for no connection there is.
#[derive(Clone, Copy, Debug)]
pub struct Unmatched<'a> {
    /// The datagram.
    pub datagram: Datagram<'a>,
    /// Where it came to.
    pub port: DatagramKey,
    /// What the listener at the port offers. `None`: there is none, or there is no room for another call.
    pub offer: Option<Offer>,
    /// There are many calls, so an address is to be proved first.
    pub is_crowded: bool,
}
