//! The host: its link, its connections, its listeners, and what each of them waits for.

use core::ops::RangeInclusive;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slotmap::{DefaultKey, SlotMap};
use weft_base::{Clock, Interest, PortError, Readiness, StreamPosition, Time, Token, Waker};
use weft_driver::{GroupMembership, MonotonicClock, RingFrame, TimerFd};
use weft_tcp::{
    Answer, Arrived, Checksum, Connection, ConnectionError, FRAME_OVERHEAD, Flow, InitialNumbers, KeepAlive, LEAST_MTU,
    Listener, MAX_HEADER, Segment, Settings, State, solicited_node,
};

use crate::inbox::Inbox;
use crate::settings::{LinkSettings, without_scope};

mod arriving;
mod host_ports;
mod leaving;
mod neighbours;
mod probing;
mod wire;

use host_ports::HostPorts;
pub(crate) use neighbours::Neighbour;
use neighbours::{Asking, Doubt};
pub(crate) use wire::{Wire, frame_tests};

/// Connections of one host, those that are ending included.
const MOST_STREAMS: usize = 1024;
/// Frames that are taken before anything is sent.
const FRAMES_AT_ONCE: usize = 128;
/// EINVAL: settings that no connection can have.
const INVALID: i32 = 22;
/// The first of the ports for who calls (RFC 6335 section 6).
const FIRST_DYNAMIC: u16 = 49_152;
/// A neighbour that does not tell its hardware address for so long is not there.
const NEIGHBOUR_PATIENCE: Duration = Duration::from_secs(3);
/// How long the side that closed first remembers a connection. Less than RFC 9293 has: the links are short.
const TIME_WAIT: Duration = Duration::from_secs(10);
/// A connection that nobody holds any more may take so long to end.
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
        // Whoever panicked with it, frames and connections are whole between two calls.
        self.stack.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often neighbours have told their hardware addresses.
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
    /// Streams that may have something to send.
    busy: VecDeque<DefaultKey>,
    listeners: Vec<Listening>,
    next_port: u16,
    frame: Vec<u8>,
    ready: Vec<Readiness>,
    waker: Arc<dyn Waker>,
    asking: Vec<Asking>,
    doubts: Vec<Doubt>,
    neighbour_changes: Arc<AtomicU64>,
    /// That the kernel says for us which groups this host is in.
    _groups: Vec<GroupMembership>,
    /// That the kernel's TCP leaves our ports of the host's addresses alone.
    _host: Option<HostPorts>,
    /// The packet socket came from a helper.
    is_helped: bool,
    /// Port numbers of datagrams that are taken.
    raw_ports: Vec<u16>,
}

/// A connection and who waits for it.
pub(crate) struct Stream {
    pub(crate) connection: Box<Connection>,
    /// What has come and was not taken, where segments are shown as they come.
    arrived: Option<Inbox>,
    /// Bytes that may be there so, or on the way.
    window: u32,
    /// The number of the segment that stands last of what was sent.
    sent: Option<u32>,
    armed: Option<(Token, Interest)>,
    began: Time,
    /// Nobody holds it any more, since then.
    orphan: Option<Time>,
    /// It ended because of this, whatever TCP says.
    error: Option<PortError>,
    is_busy: bool,
}

/// An address and port number that takes calls.
struct Listening {
    local: SocketAddr,
    listener: Listener,
    backlog: usize,
    accepted: VecDeque<DefaultKey>,
    armed: Option<Token>,
}

impl Stack {
    /// Where the addresses are of IPv6, this takes the second for which they are probed.
    ///
    /// # Errors
    /// The interface cannot be used so, or somebody has one of the addresses; the message says why.
    pub(crate) fn new(settings: LinkSettings, waker: Arc<dyn Waker>) -> io::Result<Self> {
        let settings = settings.with_addresses_of_host()?;
        let (ring, is_helped) = wire::open(&settings)?;
        let host = settings.ports.map(|ports| HostPorts::take(&settings, ports, is_helped)).transpose()?;
        check_mtu(&settings, ring.mtu())?;
        let mss = u16::try_from(ring.mtu().saturating_sub(40)).unwrap_or(u16::MAX).min(65_495);
        let tcp = Settings { mss, time_wait: TIME_WAIT, ..Settings::default() };
        tcp.check().map_err(io::Error::other)?;
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        let timer = TimerFd::new().map_err(io::Error::other)?;
        let wire = Wire::new(ring, &settings, FRAME_OVERHEAD + MAX_HEADER + usize::from(mss));
        let groups = enter_groups(&wire, &settings);
        let mut stack = Self {
            wire,
            settings,
            tcp,
            clock: MonotonicClock::new(),
            timer,
            timer_at: None,
            due: None,
            numbers: InitialNumbers::new(&key),
            streams: SlotMap::with_capacity(MOST_STREAMS),
            by_flow: HashMap::with_capacity(MOST_STREAMS),
            busy: VecDeque::with_capacity(MOST_STREAMS),
            listeners: Vec::new(),
            next_port: u16::from_be_bytes([key[0], key[1]]),
            frame: Vec::with_capacity(1 << 16),
            ready: Vec::new(),
            waker,
            asking: Vec::new(),
            doubts: Vec::new(),
            neighbour_changes: Arc::default(),
            _groups: groups,
            _host: host,
            is_helped,
            raw_ports: Vec::new(),
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
        let mss = if of.is_ipv6() { self.tcp.mss - IPV6_MORE } else { self.tcp.mss };
        let usual = Settings { mss, ..self.tcp };
        let Some(patience) = peer_timeout else { return usual };
        let quarter = (patience / 4).max(Duration::from_millis(1));
        let keep_alive = Some(KeepAlive { idle: quarter, interval: quarter, probes: 3 });
        Settings { give_up: patience, connect_timeout: patience, keep_alive, ..usual }
    }

    /// Calls a peer.
    pub(crate) fn connect(
        &mut self,
        remote: SocketAddr,
        port: u16,
        peer_timeout: Option<Duration>,
    ) -> Result<DefaultKey, PortError> {
        if self.streams.len() >= MOST_STREAMS {
            return Err(PortError::Exhausted);
        }
        let flow = self.free_flow(without_scope(remote), port)?;
        let now = self.now();
        let initial = self.numbers.of(&flow, now);
        let connection = Connection::connect(flow, self.tcp(remote.ip(), peer_timeout), initial, now)
            .map_err(|_| PortError::System(INVALID))?;
        let key = self.insert(Box::new(connection), now);
        self.touch(key);
        self.drive();
        Ok(key)
    }

    fn insert(&mut self, connection: Box<Connection>, now: Time) -> DefaultKey {
        let flow = *connection.flow();
        let window = self.tcp.receive_window;
        let stream = Stream {
            connection,
            arrived: None,
            window,
            sent: None,
            armed: None,
            began: now,
            orphan: None,
            error: None,
            is_busy: false,
        };
        let key = self.streams.insert(stream);
        self.by_flow.insert(flow, key);
        key
    }

    /// Port numbers of which any may be taken.
    fn ports_for_callers(&self) -> RangeInclusive<u16> {
        self.settings.ports.map_or(FIRST_DYNAMIC..=u16::MAX, |ports| ports.first..=ports.last)
    }

    fn free_flow(&mut self, remote: SocketAddr, port: u16) -> Result<Flow, PortError> {
        let own = self.settings.source_to(remote.ip()).ok_or(PortError::Unreachable)?;
        let local = |port| Flow { local: SocketAddr::new(own, port), remote };
        if port != 0 {
            let flow = local(port);
            return if self.by_flow.contains_key(&flow) { Err(PortError::AddressInUse) } else { Ok(flow) };
        }
        let ports = self.ports_for_callers();
        // Never all that there are.
        let count = ports.end() - ports.start() + 1;
        for step in 0..count {
            let port = ports.start() + self.next_port.wrapping_add(step) % count;
            let flow = local(port);
            if !self.by_flow.contains_key(&flow) && self.listeners.iter().all(|listening| listening.local != flow.local)
            {
                self.next_port = self.next_port.wrapping_add(step + 1);
                return Ok(flow);
            }
        }
        Err(PortError::Exhausted)
    }

    /// Takes calls at an address and port; port 0 takes a free one. Returns where.
    pub(crate) fn listen(
        &mut self,
        local: SocketAddr,
        backlog: usize,
        peer_timeout: Option<Duration>,
    ) -> Result<SocketAddr, PortError> {
        let at = |port| SocketAddr::new(local.ip(), port);
        let is_taken = |port: u16| self.listeners.iter().any(|listening| listening.local == at(port));
        let free = match local.port() {
            0 => self.ports_for_callers().find(|port| !is_taken(*port)),
            port => Some(port).filter(|port| !is_taken(*port)),
        };
        let local = at(free.ok_or(PortError::AddressInUse)?);
        let backlog = backlog.clamp(1, MOST_STREAMS);
        let listener = Listener::new(self.tcp(local.ip(), peer_timeout), self.numbers.clone(), backlog)
            .map_err(|_| PortError::System(INVALID))?;
        let accepted = VecDeque::with_capacity(backlog);
        self.listeners.push(Listening { local, listener, backlog, accepted, armed: None });
        Ok(local)
    }

    /// Nobody takes calls there any more; those that nobody has taken are reset.
    pub(crate) fn close_listener(&mut self, local: SocketAddr) {
        let Some(index) = self.listeners.iter().position(|listening| listening.local == local) else { return };
        let listening = self.listeners.swap_remove(index);
        for key in listening.accepted {
            self.abort(key);
            self.release(key);
        }
    }

    pub(crate) fn accept(&mut self, local: SocketAddr) -> Option<DefaultKey> {
        self.listening(local)?.accepted.pop_front()
    }

    fn listening(&mut self, local: SocketAddr) -> Option<&mut Listening> {
        self.listeners.iter_mut().find(|listening| listening.local == local)
    }

    pub(crate) fn arm_listener(&mut self, local: SocketAddr, token: Token) {
        if let Some(listening) = self.listening(local) {
            listening.armed = Some(token);
            self.tell_listener(local);
        }
    }

    fn tell_listener(&mut self, local: SocketAddr) {
        let Some(listening) = self.listening(local).filter(|listening| !listening.accepted.is_empty()) else { return };
        if let Some(token) = listening.armed.take() {
            self.ready.push(Readiness { token, readable: true, writable: false });
            self.waker.wake();
        }
    }

    pub(crate) fn arm(&mut self, key: DefaultKey, token: Token, interest: Interest) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.armed = (interest.readable || interest.writable).then_some((token, interest));
            self.tell(key);
        }
    }

    /// Whoever waits for what the stream has now is told.
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

    /// Whether a connection that nobody holds any more has not been heard out by its peer.
    pub(crate) fn owes(&self) -> bool {
        self.streams.values().any(|stream| stream.orphan.is_some() && stream.is_unheard())
    }

    /// Takes what has come, lets time pass, and sends what may leave.
    pub(crate) fn drive(&mut self) {
        // Most often nothing is there, and then the clock is not even asked.
        if !self.wire.has_frame() && self.busy.is_empty() && self.due.is_none() && self.timer_at.is_none() {
            return;
        }
        let now = self.now();
        for _ in 0..FRAMES_AT_ONCE {
            let mut frame = core::mem::take(&mut self.frame);
            let came = self.wire.receive(&mut frame);
            if came == Some(RingFrame::Whole) {
                self.arrive(&frame, now);
            }
            self.frame = frame;
            if came.is_none() {
                break;
            }
        }
        self.let_time_pass(now);
        self.transmit(now);
        self.set_timer(now);
    }

    fn let_time_pass(&mut self, now: Time) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        self.repeat_answers(now);
        self.pursue_doubts(now);
        let keys: Vec<DefaultKey> = self.streams.keys().collect();
        for key in keys {
            let Some(stream) = self.streams.get_mut(key) else { continue };
            if stream.orphan.is_some_and(|since| now.since(since) >= ORPHAN_PATIENCE) {
                stream.connection.abort();
            }
            stream.connection.handle_timeout(now);
            self.touch(key);
        }
    }

    fn note_due(&mut self, at: Option<Time>) {
        self.due = [self.due, at].into_iter().flatten().min();
    }

    /// A timer that runs off too early costs less than one that is set for each segment.
    fn set_timer(&mut self, now: Time) {
        if self.timer_at.is_some_and(|at| at <= now) {
            self.timer.drain();
            self.timer_at = None;
        }
        if let Some(due) = self.due
            && self.timer_at.is_none_or(|at| due < at)
        {
            self.timer.set(due.since(now));
            self.timer_at = Some(due);
        }
    }

    fn touch(&mut self, key: DefaultKey) {
        if let Some(stream) = self.streams.get_mut(key)
            && !stream.is_busy
        {
            stream.is_busy = true;
            self.busy.push_back(key);
        }
    }

    /// After a call on a stream that may have made something to send.
    pub(crate) fn drive_stream(&mut self, key: DefaultKey) {
        self.touch(key);
        let now = self.now();
        self.transmit(now);
        self.set_timer(now);
    }
}

/// Links of IPv6 carry packets of so many bytes (RFC 8200 section 5).
fn check_mtu(settings: &LinkSettings, mtu: usize) -> io::Result<()> {
    if settings.all_v6().next().is_none() || mtu >= LEAST_MTU as usize {
        return Ok(());
    }
    let interface = &settings.interface;
    Err(io::Error::other(format!("{interface} carries packets of {mtu} bytes, and IPv6 takes {LEAST_MTU}")))
}

/// Has the interface take what is for the groups of the addresses. What is not to be had is done without: the kernel
/// may know no IPv6 there, and then switches are not told; an interface that knows no groups takes all frames.
fn enter_groups(wire: &Wire, settings: &LinkSettings) -> Vec<GroupMembership> {
    let enter = |address| {
        let _ = wire.join(address);
        GroupMembership::enter(wire.index(), solicited_node(address)).ok()
    };
    // In those of its own addresses the host is already.
    settings.all_v6().filter(|_| settings.ports.is_none()).filter_map(enter).collect()
}

impl Drop for Stack {
    /// Nobody answers for the address any more: what was not ended is reset, as far as frames leave now.
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

impl Stream {
    /// Why it is broken, if it is.
    pub(crate) fn error(&self) -> Option<PortError> {
        let of_tcp = self.connection.error().map(|error| match error {
            ConnectionError::Refused => PortError::Refused,
            ConnectionError::TimedOut(_) => PortError::TimedOut,
            ConnectionError::Reset | ConnectionError::Aborted => PortError::Reset,
        });
        self.error.or(of_tcp)
    }

    /// Whether the handshake is over.
    pub(crate) fn is_open(&self) -> bool {
        self.connection.state().is_synchronised()
    }

    /// From now on what comes is taken by [`Stream::take_arrived`]. Returns where what was not read begins.
    pub(crate) fn show_segments(&mut self) -> StreamPosition {
        let position = StreamPosition(self.connection.received().0 - self.connection.readable());
        let arrived = self.arrived.get_or_insert_default();
        self.connection.place(&mut |position: StreamPosition, bytes: &[u8]| {
            arrived.push(position, bytes);
            true
        });
        self.offer_room();
        position
    }

    /// Takes what has come, for one that is empty.
    pub(crate) fn take_arrived(&mut self, into: &mut Inbox) {
        if let Some(arrived) = &mut self.arrived {
            core::mem::swap(arrived, into);
            self.offer_room();
        }
    }

    /// A segment leaves.
    fn note_sent(&mut self, sequence: u32) {
        if self.sent.is_none_or(|last| (sequence.wrapping_sub(last) as i32) > 0) {
            self.sent = Some(sequence);
        }
    }

    /// Somebody says that the segment of this number was too large for the path, which carries packets of so many
    /// bytes. It is believed only of what is on the way (RFC 5927 section 4.1), and never makes segments larger. True:
    /// they are smaller now.
    fn narrow(&mut self, sequence: u32, mtu: u32) -> bool {
        let on_the_way = self.connection.unacknowledged();
        let back = self.sent.map_or(u32::MAX, |last| last.wrapping_sub(sequence));
        let Some(mss) = u16::try_from(mtu).ok().and_then(|mtu| mtu.checked_sub(40 + IPV6_MORE)) else { return false };
        let before = self.connection.segment_size();
        if u64::from(back) >= on_the_way || u64::from(mss) >= before {
            return false;
        }
        self.connection.set_path_mss(mss);
        self.connection.segment_size() < before
    }

    /// A segment of the peer.
    fn handle(&mut self, segment: &Segment, payload: &[u8], now: Time) {
        let arrived = &mut self.arrived;
        let mut sink = |position: StreamPosition, bytes: &[u8]| {
            if let Some(arrived) = arrived {
                arrived.push(position, bytes);
            }
            true
        };
        self.connection.handle(segment, payload, &mut sink, now);
        self.offer_room();
    }

    /// What waits to be taken has used up so much of the window.
    fn offer_room(&mut self) {
        if let Some(arrived) = &self.arrived {
            let used = u32::try_from(arrived.length()).unwrap_or(u32::MAX);
            self.connection.offer(self.window.saturating_sub(used));
        }
    }

    fn has_unread(&self) -> bool {
        self.connection.readable() > 0 || self.arrived.as_ref().is_some_and(|arrived| !arrived.is_empty())
    }

    fn is_readable(&self, least: u32) -> bool {
        if self.arrived.as_ref().is_some_and(|arrived| !arrived.is_empty()) {
            return true;
        }
        let have = self.connection.readable();
        let enough = u64::from(least.clamp(1, 1 << 18));
        have >= enough || self.connection.is_finished() || self.has_ended()
    }

    fn is_writable(&self) -> bool {
        let room = self.connection.room();
        self.has_ended() || (self.is_open() && room > 0 && room >= self.connection.unacknowledged())
    }

    /// Whether the peer has not acknowledged all, the end included.
    fn is_unheard(&self) -> bool {
        let ends = matches!(self.connection.state(), State::FinWait1 | State::Closing | State::LastAck);
        !self.has_ended() && (ends || self.connection.unacknowledged() > 0)
    }

    fn has_ended(&self) -> bool {
        self.error.is_some() || self.connection.state() == State::Closed
    }
}
