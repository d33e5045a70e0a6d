//! The host: its link, its connections, its listeners, and what each of them waits for.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slotmap::{DefaultKey, SlotMap};
use weft_base::{Clock, Interest, PortError, Readiness, Time, Token, Waker};
use weft_driver::{GroupMembership, MonotonicClock, TimerFd};
use weft_tcp::{CallerPorts, Flow, InitialNumbers, KeepAlive, LEAST_MTU, Settings, State, TimeWaits, solicited_node};

use crate::settings::LinkSettings;

mod arriving;
mod driving;
mod host_ports;
mod interface;
mod leaving;
mod listening;
mod neighbours;
mod opening;
mod paths;
mod probing;
mod stream;
mod train;
mod wire;

use host_ports::HostPorts;
use interface::Absence;
use listening::Listening;
pub(crate) use neighbours::Neighbour;
use neighbours::{Asking, Doubt};
use paths::Paths;
use stream::Stream;
pub(crate) use wire::{Wire, frame_tests};

/// Connections of one host, those included that are ending, but for TIME-WAIT. Without room for another, calls are
/// ignored, and callers call again.
const MOST_STREAMS: usize = 1024;
/// Connections in TIME-WAIT beside them, of about 300 bytes each. The oldest is forgotten for one more: 1600 may end in
/// a second without that.
const TIME_WAITS: usize = 16_384;
/// EINVAL: settings that no connection can have.
const INVALID: i32 = 22;
/// The first of the ports for callers (RFC 6335 section 6).
const FIRST_DYNAMIC: u16 = 49_152;
/// A neighbour that does not tell its hardware address for this long is not there.
const NEIGHBOUR_PATIENCE: Duration = Duration::from_secs(3);
/// How long the side that closed first remembers a connection. Less than RFC 9293 has: the links are short.
const TIME_WAIT: Duration = Duration::from_secs(10);
/// A connection that no thread holds any more may take this long to end.
const ORPHAN_PATIENCE: Duration = Duration::from_secs(60);
/// Bytes that the header of IPv6 has more than that of IPv4.
const IPV6_MORE: u16 = 20;

/// A host that its network and its ports share.
#[derive(Clone)]
pub(crate) struct Shared {
    stack: Arc<Mutex<Stack>>,
    neighbour_changes: Arc<AtomicU64>,
}

impl Shared {
    pub(crate) fn new(stack: Stack) -> Self {
        let neighbour_changes = Arc::clone(&stack.neighbour_changes);
        Self { stack: Arc::new(Mutex::new(stack)), neighbour_changes }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Stack> {
        // If a thread panicked with it, frames and connections are whole between two calls.
        self.stack.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often hardware addresses of neighbours were learned.
    pub(crate) fn neighbour_changes(&self) -> u64 {
        self.neighbour_changes.load(Ordering::Acquire)
    }
}

/// All of a host.
pub(crate) struct Stack {
    settings: LinkSettings,
    tcp: Settings,
    wire: Wire,
    clock: MonotonicClock,
    timer: TimerFd,
    /// When the timer runs off, and when something is due.
    timer_at: Option<Time>,
    due: Option<Time>,
    numbers: InitialNumbers,
    streams: SlotMap<DefaultKey, Stream>,
    by_flow: HashMap<Flow, DefaultKey>,
    /// What is left of connections that no thread holds and that are in TIME-WAIT.
    waits: TimeWaits,
    /// Streams that may have something to send.
    busy: VecDeque<DefaultKey>,
    listeners: Vec<Listening>,
    /// What ports of callers are chosen with.
    ports: CallerPorts,
    ready: Vec<Readiness>,
    waker: Arc<dyn Waker>,
    /// Paths that lose trains.
    paths: Paths,
    asking: Vec<Asking>,
    doubts: Vec<Doubt>,
    neighbour_changes: Arc<AtomicU64>,
    /// That the kernel says for us which groups this host is in.
    groups: Vec<GroupMembership>,
    /// That the kernel's TCP leaves our ports of the host's addresses alone.
    _host: Option<HostPorts>,
    /// The packet socket came from a helper.
    is_helped: bool,
    /// Port numbers of datagrams that are taken, and by what token some of them are waited for.
    raw_ports: Vec<u16>,
    raw_armed: Vec<(u16, Token)>,
    /// The interface is down or gone.
    absence: Option<Absence>,
}

impl Stack {
    /// Where the addresses are of IPv6, this takes the second for which they are probed.
    ///
    /// # Errors
    /// The interface cannot be used so, or another host has one of the addresses; the message says why.
    pub(crate) fn new(settings: LinkSettings, waker: Arc<dyn Waker>) -> io::Result<Self> {
        let settings = settings.with_addresses_of_host()?;
        let (ring, is_helped) = wire::open(&settings)?;
        let host = settings.ports.map(|ports| HostPorts::take(&settings, ports, is_helped)).transpose()?;
        check_mtu(&settings, ring.mtu())?;
        let tcp = Settings { mss: segment_size(ring.mtu()), time_wait: TIME_WAIT, ..Settings::default() };
        tcp.check().map_err(io::Error::other)?;
        let [mut for_numbers, mut for_ports] = [[0; 32]; 2];
        getrandom::fill(&mut for_numbers).and_then(|()| getrandom::fill(&mut for_ports)).map_err(io::Error::other)?;
        let timer = TimerFd::new().map_err(io::Error::other)?;
        let clock = MonotonicClock::new();
        let wire = Wire::new(ring, &settings, clock.now());
        let groups = enter_groups(&wire, &settings);
        let mut stack = Self {
            wire,
            settings,
            tcp,
            clock,
            timer,
            timer_at: None,
            due: None,
            numbers: InitialNumbers::new(&for_numbers),
            streams: SlotMap::with_capacity(MOST_STREAMS),
            by_flow: HashMap::with_capacity(MOST_STREAMS),
            waits: TimeWaits::new(TIME_WAITS),
            busy: VecDeque::with_capacity(MOST_STREAMS),
            listeners: Vec::new(),
            ports: CallerPorts::new(&for_ports),
            ready: Vec::new(),
            waker,
            paths: Paths::default(),
            asking: Vec::new(),
            doubts: Vec::new(),
            neighbour_changes: Arc::default(),
            groups,
            _host: host,
            is_helped,
            raw_ports: Vec::new(),
            raw_armed: Vec::new(),
            absence: None,
        };
        stack.probe()?;
        Ok(stack)
    }

    pub(crate) const fn wire(&self) -> &Wire {
        &self.wire
    }

    pub(crate) const fn timer(&self) -> &TimerFd {
        &self.timer
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Whether frames without IP go by the link: those of the host's addresses are the kernel's, and a helper gives a
    /// socket for nothing else.
    pub(crate) const fn has_datagrams(&self) -> bool {
        self.settings.ports.is_none() && !self.is_helped
    }

    /// The number of the interface.
    pub(crate) const fn interface(&self) -> u32 {
        self.wire.index()
    }

    /// Of a connection from or to an address of this kind.
    fn tcp(&self, of: IpAddr, peer_timeout: Option<Duration>) -> Settings {
        let usual = Settings { mss: mss_of(&self.tcp, of), ..self.tcp };
        let Some(patience) = peer_timeout else { return usual };
        let quarter = (patience / 4).max(Duration::from_millis(1));
        let keep_alive = Some(KeepAlive { idle: quarter, interval: quarter, probes: 3 });
        Settings { give_up: patience, connect_timeout: patience, keep_alive, ..usual }
    }

    pub(crate) fn arm(&mut self, key: DefaultKey, token: Token, interest: Interest) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.armed = (interest.readable || interest.writable).then_some((token, interest));
            self.tell(key);
        }
    }

    /// Wakes the thread that waits for what the stream has now.
    fn tell(&mut self, key: DefaultKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let Some((token, interest)) = stream.armed else { return };
        let readable = interest.readable && stream.is_readable(interest.least);
        let writable = interest.writable && stream.is_writable();
        if readable || writable {
            stream.armed = None;
            self.ready.push(Readiness { token, readable, writable });
            self.waker.wake();
        }
    }

    pub(crate) fn take_ready(&mut self, ready: &mut Vec<Readiness>) {
        ready.append(&mut self.ready);
    }

    pub(crate) fn stream(&mut self, key: DefaultKey) -> Result<&mut Stream, PortError> {
        self.streams.get_mut(key).ok_or(PortError::Reset)
    }

    pub(crate) fn abort(&mut self, key: DefaultKey) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.connection.abort();
            stream.error.get_or_insert(PortError::Reset);
            self.touch(key);
            self.drive();
        }
    }

    /// Its port is gone: it ends by itself, in order when all that came was received.
    pub(crate) fn release(&mut self, key: DefaultKey) {
        let now = self.now();
        let Some(stream) = self.streams.get_mut(key) else { return };
        (stream.orphan, stream.armed) = (Some(now), None);
        if stream.has_unread() || !stream.connection.state().is_synchronised() {
            stream.connection.abort();
        } else {
            stream.connection.close();
        }
        self.touch(key);
        self.drive();
    }

    /// Whether the peer of a connection that no thread holds any more has not yet acknowledged all of it.
    pub(crate) fn owes(&self) -> bool {
        self.streams.values().any(|stream| stream.orphan.is_some() && stream.is_unacknowledged())
    }
}

/// Bytes of a segment of TCP over IPv4, options and payload, in a packet of this length.
fn segment_size(mtu: usize) -> u16 {
    u16::try_from(mtu.saturating_sub(40)).unwrap_or(u16::MAX).min(65_495)
}

/// The same with settings for IPv4, over the kind of IP that a peer has.
const fn mss_of(tcp: &Settings, peer: IpAddr) -> u16 {
    if peer.is_ipv6() { tcp.mss.saturating_sub(IPV6_MORE) } else { tcp.mss }
}

/// Links of IPv6 carry packets of this many bytes (RFC 8200 section 5).
fn check_mtu(settings: &LinkSettings, mtu: usize) -> io::Result<()> {
    if settings.all_v6().next().is_none() || mtu >= LEAST_MTU as usize {
        return Ok(());
    }
    let interface = &settings.interface;
    Err(io::Error::other(format!("{interface} carries packets of {mtu} bytes, and IPv6 takes {LEAST_MTU}")))
}

/// Has the interface take what is for the groups of the addresses. What fails is ignored: the kernel may know no IPv6
/// there, and then switches are not notified; an interface that knows no groups takes all frames.
fn enter_groups(wire: &Wire, settings: &LinkSettings) -> Vec<GroupMembership> {
    let enter = |address| {
        let _ = wire.join(address);
        GroupMembership::enter(wire.index(), solicited_node(address)).ok()
    };
    // In those of its own addresses the host is already.
    settings.all_v6().filter(|_| settings.ports.is_none()).filter_map(enter).collect()
}

impl Drop for Stack {
    /// No host answers for the address any more: what was not ended is reset, as far as frames leave now.
    fn drop(&mut self) {
        // The last acknowledgement may be here already, and then nothing is to be reset.
        self.drive();
        let now = self.now();
        let keys: Vec<DefaultKey> = self.streams.keys().collect();
        for key in keys {
            let Some(stream) = self.streams.get_mut(key) else { continue };
            let is_said = matches!(stream.connection.state(), State::FinWait2 | State::TimeWait | State::Closed);
            if !is_said {
                stream.connection.abort();
                self.touch(key);
            }
        }
        self.transmit(now);
    }
}
