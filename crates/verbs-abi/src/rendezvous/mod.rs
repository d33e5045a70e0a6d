//! How two queue pairs find each other that know only GID and number: no daemon, no shared file.
//!
//! The process listens at one port for TCP and UDP, which the numbers of its queue pairs tell. When a queue pair is
//! told of its peer (the state `RTR`), the one with the smaller name, GID and number compared as bytes, calls the
//! other. Each side tells the other what it is by a [`record::Record`].

mod calls;
mod numbers;
mod record;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weft::verbs::{
    ConnectOptions, Error, Extensions, ListenOptions, Listener, MpaOffer, Offer, PortError, QueuePair as Connection,
    ReadyKinds, Transport,
};

use crate::border::lock;
use crate::device::has_six;
use crate::errno::Errno;
use crate::nic::Nic;
use crate::queue_pair::QueuePair;
use numbers::{Numbers, PORTS, first_port};

/// How long a connection may take to close, once its queue pair is gone.
const CLOSING: Duration = Duration::from_secs(2);
/// How long the end of the process waits for connections to close.
const LINGER: Duration = Duration::from_millis(200);
/// How long the NIC goes on after that: what was received is acknowledged within a millisecond.
const LAST_TURNS: Duration = Duration::from_millis(4);

/// The queue pairs of the process, and where they are called.
pub(crate) struct Rendezvous {
    nic: Arc<Nic>,
    transport: Transport,
    first_port: u16,
    known: Mutex<Known>,
    /// Connections whose queue pairs are gone, and since when.
    closing: Mutex<Vec<(Connection, Instant)>>,
}

struct Known {
    numbers: Numbers,
    queue_pairs: HashMap<u32, Arc<QueuePair>>,
}

impl Rendezvous {
    /// Takes a port, and starts the thread that connects.
    ///
    /// # Errors
    /// No port of the range is free, or no thread is to be had.
    pub(crate) fn open(nic: &Arc<Nic>) -> Result<Arc<Self>, Errno> {
        let (transport, first_port) = (transport(), first_port());
        let start = getrandom::u32().map_err(|_| Errno(libc::EIO))?;
        let (listener, port) = listen(nic, transport, first_port, start)?;
        let known = Known { numbers: Numbers::new(port, start >> 12), queue_pairs: HashMap::new() };
        let (known, closing) = (Mutex::new(known), Mutex::default());
        let shared = Arc::new(Self { nic: Arc::clone(nic), transport, first_port, known, closing });
        let calls = calls::Calls::new(Arc::clone(&shared), listener);
        let thread = std::thread::Builder::new().name("weft-verbs".into()).spawn(move || calls.run());
        thread.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EAGAIN)))?;
        Ok(shared)
    }

    /// A number for a queue pair. `None`: the process has as many as it can have.
    pub(crate) fn take_number(&self) -> Option<u32> {
        lock(&self.known).numbers.take()
    }

    /// Gives back a number whose queue pair did not come to be, or is gone.
    pub(crate) fn release_number(&self, number: u32) {
        lock(&self.known).numbers.release(number);
    }

    /// There is a queue pair.
    pub(crate) fn add(&self, queue_pair: &Arc<QueuePair>) {
        lock(&self.known).queue_pairs.insert(queue_pair.number(), Arc::clone(queue_pair));
    }

    /// A queue pair goes. Its number is still its own.
    pub(crate) fn remove(&self, queue_pair: &QueuePair) {
        let removed = lock(&self.known).queue_pairs.remove(&queue_pair.number());
        drop(removed);
    }

    /// A queue pair knows its peer.
    pub(crate) fn connect(&self, queue_pair: &QueuePair) {
        self.nic.bell().ring(queue_pair.number());
    }

    /// Closes connections whose queue pair is gone or reset: what was sent still reaches the peer.
    pub(crate) fn close(&self, connections: Vec<Connection>) {
        if connections.is_empty() {
            return;
        }
        connections.iter().for_each(Connection::start_disconnect);
        let now = Instant::now();
        lock(&self.closing).extend(connections.into_iter().map(|connection| (connection, now)));
        // Number 0 is no queue pair's.
        self.nic.bell().ring(0);
    }

    /// The process ends: connections that are being closed have a moment, and what was received is acknowledged.
    pub(crate) fn linger(&self) {
        let end = Instant::now() + LINGER;
        while self.is_closing() && Instant::now() < end {
            self.nic.progress();
            std::thread::sleep(Duration::from_micros(200));
        }
        let end = Instant::now() + LAST_TURNS;
        while Instant::now() < end {
            self.nic.progress();
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn is_closing(&self) -> bool {
        lock(&self.closing).iter().any(|(connection, _)| !connection.state().has_ended())
    }

    /// Drops the connections that have closed, or had their time. Returns whether others are left.
    fn drop_closed(&self) -> bool {
        let mut closing = lock(&self.closing);
        let (over, left): (Vec<_>, Vec<_>) = closing
            .drain(..)
            .partition(|(connection, since)| connection.state().has_ended() || since.elapsed() > CLOSING);
        let is_left = !left.is_empty();
        *closing = left;
        drop(closing);
        drop(over);
        is_left
    }

    fn find(&self, number: u32) -> Option<Arc<QueuePair>> {
        lock(&self.known).queue_pairs.get(&number).cloned()
    }

    fn options(&self, private_data: Vec<u8>, local: SocketAddr) -> ConnectOptions {
        let defaults = ConnectOptions::default();
        let mpa = with_receipts(MpaOffer { ready_to_receive: Some(ReadyKinds::all()), ..defaults.offer.mpa });
        let offer = Offer { transport: self.transport, mpa, ..defaults.offer };
        ConnectOptions { local: Some(local), private_data, offer, ..defaults }
    }
}

/// Over MPA too work completes in place at the peer, and a Send waits for a receive.
fn with_receipts(mpa: MpaOffer) -> MpaOffer {
    MpaOffer { extensions: Extensions { receipts: true, ..mpa.extensions }, ..mpa }
}

/// What carries connections: Edge, or what `WEFT_VERBS_CARRIER` says.
fn transport() -> Transport {
    let Ok(name) = std::env::var("WEFT_VERBS_CARRIER") else { return Transport::Edge };
    Transport::of_name(name.trim()).unwrap_or_else(|| {
        let names = Transport::ALL.map(Transport::name).join(", ");
        crate::log::say(format_args!("WEFT_VERBS_CARRIER={name}: write one of {names}; edge is taken"));
        Transport::Edge
    })
}

/// Listens at a port of the range that is free, from a random one on.
fn listen(nic: &Nic, transport: Transport, first: u16, start: u32) -> Result<(Listener, u16), Errno> {
    let defaults = ListenOptions::default();
    let mpa = with_receipts(defaults.offer.mpa);
    let options = ListenOptions { offer: Offer { transport, mpa, ..defaults.offer }, ..defaults };
    let from = (start % u32::from(PORTS)) as u16;
    // A socket of IPv6 is called by IPv4 as well.
    let any: IpAddr = if has_six() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    for step in 0..PORTS {
        let port = first + (from + step) % PORTS;
        match nic.context.listen(SocketAddr::new(any, port), &options) {
            Ok(listener) => return Ok((listener, port)),
            Err(Error::Port(PortError::AddressInUse)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    crate::log::say(format_args!("no port from {first} to {} is free", first + (PORTS - 1)));
    Err(Errno(libc::EADDRINUSE))
}
