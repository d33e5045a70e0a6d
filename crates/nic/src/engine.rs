//! The event loop: poll, do what there is to do, never block. The thread that holds the engine is the NIC. How
//! connections come and go is in `arrivals`.

/// What a lower layer may use of an engine. No method: the rest of the engine is used beside it.
macro_rules! io {
    ($engine:expr, $inbox:expr) => {
        Io {
            scratch: &mut $engine.scratch,
            datagrams: &mut $engine.datagrams,
            inbox: $inbox,
            registry: &$engine.registry,
            settings: &$engine.settings,
            counters: &mut $engine.counters,
            random: &mut $engine.random,
            now: $engine.now,
            turn: $engine.turns,
        }
    };
}

mod arrivals;
mod calls;
mod codes;
mod datagrams;
mod delivery;
pub(crate) mod doorbell;
mod endpoints;
mod key_list;
mod known_calls;
pub(crate) mod listening;
mod ports;
mod refusing;
mod served;
pub(crate) mod served_port;
mod serving;
mod showing;
mod shown;
pub(crate) mod stream_table;
pub(crate) mod streams;
mod timers;
mod unread;
mod watching;

use core::time::Duration;
use std::sync::Arc;

use slotmap::{DefaultKey, Key as _, SlotMap};
use weft_base::{Clock, HostId, Random, Readiness, Time};
use weft_memory::Registry;
use weft_rdmap::SendRequest;

use crate::connection::{Connection, Context, Outcome, PacketSinks};
use crate::counters::Counters;
use crate::engine::datagrams::Datagrams;
use crate::engine::doorbell::Doorbell;
use crate::engine::key_list::KeyList;
use crate::engine::listening::Listening;
use crate::engine::ports::{PortKeys, Ports};
use crate::engine::served::Serving;
use crate::engine::served_port::PortServer;
use crate::engine::shown::Showing;
use crate::engine::stream_table::Streams;
use crate::engine::timers::{Queued, Timed, Timers};
use crate::error::PostError;
use crate::ids::{LinkKey, Runner, UpperId};
use crate::lower::{Carrier, ConnectionIds, DatagramKey, Datagrams as _, Inbox, Io, Passed, Pollable as _, Setup as _};
use crate::policy::arming::polls_armed;
use crate::policy::constants::{CLOCK_EVERY_TURNS, LONGEST_LOW_WATER};
use crate::queues::event_count::EventCount;
use crate::queues::queue_pair::QueuePair;
use crate::settings::Settings;

/// Visits in which something was done, after which a caller that always finds something to do shows the counters.
const SHOW_EVERY_VISITS: u32 = 64;

/// How often a port checks that its peer's host still answers ([`weft_base::Port::check_peer`]).
const CHECKS_PER_PEER_TIMEOUT: u32 = 16;
/// However short the time-out, no more often than this.
const SHORTEST_PEER_CHECK: Duration = Duration::from_millis(1);

/// What stands on an engine, and is attended to in each of its turns: a message endpoint.
pub(crate) trait EngineClient: Sized + Send {
    /// Whether there may be something for it to do.
    fn has_work(&self, now: Time) -> bool;
    /// Takes what has completed, and does what follows from it. Returns whether there was anything.
    fn attend<N: Carrier, C: Clock>(&mut self, engine: &mut Engine<N, C, Self>) -> bool;
    /// When it wants to be attended to though nothing has come.
    fn wake_at(&self) -> Option<Time>;
    /// Offers a packet that has come on one of its queue pairs. Returns whether it has taken it.
    fn take_arrival(&mut self, link: LinkKey, queue_pair: &Arc<QueuePair>, packet: &[u8], now: Time) -> bool;
}

/// Those that stand on an engine, by their numbers. Each is taken out while it is attended to, for it uses the engine;
/// those that are closed leave a gap.
struct Uppers<U>(Vec<(Option<Box<U>>, Queued)>);

impl<U: EngineClient> PacketSinks for Uppers<U> {
    fn take(&mut self, id: UpperId, queue_pair: &Arc<QueuePair>, packet: &[u8], now: Time) -> bool {
        let Some((Some(upper), _)) = self.0.get_mut(id.endpoint) else { return false };
        upper.take_arrival(id.link, queue_pair, packet, now)
    }
}

/// What an engine has a key for.
enum Member<N: Carrier> {
    Connection(Box<Connection<N>>),
    Listener(Box<Listening<N::Listener>>),
}

/// A connection or listener, the keys of its ports, and when it stands in the queue of times.
struct Entry<N: Carrier> {
    member: Member<N>,
    ports: PortKeys,
    queued: Queued,
    /// The datagram port that it uses, and the names by which datagrams find it.
    names: Option<(DatagramKey, ConnectionIds)>,
}

impl<N: Carrier> Entry<N> {
    /// Whether it is a connection over datagrams that was closed, and whose peer does not know all of it yet.
    fn has_last_words(&self) -> bool {
        match &self.member {
            Member::Connection(connection) => connection.lower.names().is_some() && connection.has_last_words(),
            Member::Listener(_) => false,
        }
    }
}

/// How long a connection that is opened here is waited for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConnectTimeout {
    /// For how long, if not as the settings say.
    pub(crate) timeout: Option<Duration>,
    /// That counts for the peer's host alone: once it has taken the stream its program may take as long as that host
    /// answers.
    pub(crate) for_program: bool,
}

/// All connections and listeners of a NIC, and the loop that moves them.
pub(crate) struct Engine<N: Carrier, C: Clock, U> {
    /// Its number in the NIC.
    index: usize,
    pub(crate) network: N,
    clock: C,
    pub(crate) registry: Registry,
    pub(crate) settings: Settings,
    pub(crate) counters: Counters,
    entries: SlotMap<DefaultKey, Entry<N>>,
    ports: Ports,
    datagrams: Datagrams<N>,
    serving: Serving<N>,
    streams: Streams<N>,
    timers: Timers,
    connections: usize,
    listeners: usize,
    scratch: N::Scratch,
    /// For the STags under which peers answer reads.
    random: Random,
    uppers: Uppers<U>,
    /// Connections that are polled in every turn.
    polled: KeyList,
    /// Connections of which the operating system tells only when much has come.
    at_low_water: KeyList,
    /// Those that were polled and are being armed; empty otherwise.
    arming: KeyList,
    /// When they are polled all the same.
    low_water_until: Time,
    rung: Vec<DefaultKey>,
    /// Connections that answer their peers when message endpoints have been attended to.
    answering: Vec<DefaultKey>,
    ready: Vec<Readiness>,
    /// The time of the present turn or command.
    now: Time,
    /// When the host's addresses were read.
    addresses_looked_at: Time,
    /// How often it is to be seen to that a peer's host still answers, if that is left to the engine.
    peer_check: Option<Duration>,
    turns: u32,
    /// Which thread runs it now.
    runner: Runner,
    visits: u32,
    /// When the timer of the NIC's thread was pushed last.
    last_heartbeat: Time,
    /// When armed ports were last polled by epoll.
    asked: Time,
    /// How long a waiting thread has slept in it since then.
    slept: Duration,
    last_sleep: Duration,
    /// Whether work was done since then.
    changed: bool,
    showing: Showing,
    /// The last turn of this visit had nothing to do.
    idle: bool,
    /// Visits in which something was done, since the counters were shown last.
    unshown: u32,
    doorbell: Arc<Doorbell>,
    event_count: Arc<EventCount>,
}

impl<N: Carrier, C: Clock, U: EngineClient> Engine<N, C, U> {
    #[expect(clippy::too_many_arguments, reason = "each is of its own type, and only the NIC calls this")]
    pub(crate) fn new(
        index: usize,
        network: N,
        clock: C,
        registry: Registry,
        settings: Settings,
        mut random: Random,
        host: Option<HostId>,
        port_servers: Arc<[Arc<PortServer<N>>]>,
        event_count: Arc<EventCount>,
    ) -> Self {
        let now = clock.now();
        let checked = network.checks_peers().then_some(settings.peer_timeout).flatten();
        let peer_check = checked.map(|timeout| (timeout / CHECKS_PER_PEER_TIMEOUT).max(SHORTEST_PEER_CHECK));
        Self {
            index,
            network,
            clock,
            registry,
            datagrams: Datagrams::new(&mut random.fork(), host, settings.key.clone()),
            doorbell: Arc::clone(&port_servers[index].doorbell),
            serving: Serving::new(port_servers, index),
            settings,
            counters: Counters::default(),
            entries: SlotMap::new(),
            ports: Ports::default(),
            streams: Streams::default(),
            timers: Timers::default(),
            connections: 0,
            listeners: 0,
            scratch: N::Scratch::default(),
            random,
            uppers: Uppers(Vec::new()),
            polled: KeyList::with_capacity(64),
            at_low_water: KeyList::with_capacity(64),
            arming: KeyList::with_capacity(64),
            low_water_until: Time::ZERO,
            rung: Vec::with_capacity(64),
            answering: Vec::with_capacity(64),
            ready: Vec::with_capacity(64),
            now,
            addresses_looked_at: now,
            peer_check,
            turns: 0,
            runner: Runner::Visitor,
            visits: 0,
            last_heartbeat: Time::ZERO,
            asked: Time::ZERO,
            slept: Duration::ZERO,
            last_sleep: Duration::ZERO,
            changed: true,
            showing: Showing::default(),
            idle: true,
            unshown: 0,
            event_count,
        }
    }

    /// The time of the present turn or command.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// A command begins.
    pub(crate) fn read_clock(&mut self) {
        self.now = self.clock.now();
    }

    /// Another reading of the clock is used for it.
    pub(crate) fn set_clock(&mut self, now: Time) {
        self.now = now;
    }

    /// Counts a visit.
    pub(crate) fn count_visit(&mut self) -> u32 {
        self.visits = self.visits.wrapping_add(1);
        self.visits
    }

    /// Which thread runs it from now on.
    pub(crate) fn set_runner(&mut self, runner: Runner) {
        self.runner = runner;
        self.idle = false;
    }

    /// Whether that much time has passed since this last returned true.
    pub(crate) fn is_heartbeat_due(&mut self, after: Duration) -> bool {
        let due = self.now.since(self.last_heartbeat) >= after;
        if due {
            self.last_heartbeat = self.now;
        }
        due
    }

    /// How long the last sleep of a waiting thread took.
    pub(crate) const fn last_sleep(&self) -> Duration {
        self.last_sleep
    }

    /// How long a waiting thread has slept in it since the last call.
    pub(crate) fn take_slept(&mut self) -> Duration {
        core::mem::take(&mut self.slept)
    }

    /// Whether the counters are to be shown now: something was done since, and it is a quiet moment. Callers that are
    /// never idle show them now and then.
    pub(crate) fn is_show_due(&mut self) -> bool {
        if !self.changed {
            return false;
        }
        self.unshown += 1;
        let busy = self.runner == Runner::Visitor && !self.idle;
        if busy && self.unshown < SHOW_EVERY_VISITS {
            return false;
        }
        self.changed = false;
        self.unshown = 0;
        true
    }

    /// Time until something has to be done though no packet arrives: a timer runs off, or there is what the
    /// operating system can't watch. To show the counters does not count.
    pub(crate) fn until_due(&self) -> Option<Duration> {
        if self.is_watched() { self.timers.next().map(|at| at.since(self.now)) } else { Some(Duration::ZERO) }
    }

    /// Whether the operating system watches all connections and ports while all threads sleep. The others are polled.
    fn is_watched(&self) -> bool {
        self.polled.is_empty() && !self.datagrams.any_polled() && !self.serving.any_polled()
    }

    /// Time until something has to happen by itself.
    pub(crate) fn until_deadline(&self) -> Option<Duration> {
        let deadline = self.timers.next().map(|at| at.since(self.now));
        let low_water = if self.at_low_water.is_empty() { None } else { Some(self.low_water_until.since(self.now)) };
        let low_water = if self.is_watched() { low_water } else { Some(LONGEST_LOW_WATER) };
        let shows = self.showing.at().map(|at| at.since(self.now));
        [deadline, low_water, shows, self.until_read()].into_iter().flatten().min()
    }

    /// One turn of the loop. Returns whether anything was done.
    pub(crate) fn turn(&mut self) -> bool {
        self.turns = self.turns.wrapping_add(1);
        match self.runner {
            Runner::Visitor | Runner::Waiter => self.counters.caller_turns += 1,
            Runner::Thread => self.counters.thread_turns += 1,
        }
        if N::Lower::MEASURES_TIME || self.turns.is_multiple_of(CLOCK_EVERY_TURNS) {
            self.read_clock();
        }
        if !self.at_low_water.is_empty() {
            self.check_low_water();
        }
        let mut progress = self.answer_doorbell();
        progress |= self.poll_datagrams();
        progress |= self.poll_served();
        progress |= self.poll_connections();
        // Where something was found it does not count.
        let any_armed = !progress && self.any_armed();
        let since = self.now.since(self.asked);
        if polls_armed(!self.polled.is_empty(), progress, any_armed, self.turns, since) {
            progress |= self.poll_armed(Some(Duration::ZERO));
        }
        progress |= self.handle_times();
        if !self.uppers.0.is_empty() {
            progress |= self.attend_endpoints();
        }
        self.answer_peers();
        self.changed |= progress;
        self.idle = !progress;
        progress
    }

    /// Whether the operating system watches something that it is to be asked about in this turn.
    fn any_armed(&self) -> bool {
        self.polled.len() < self.connections
            || self.streams.are_open()
            || self.serving.any_armed()
            || self.datagrams.is_poll_due(self.turns)
    }

    /// Turns since the beginning, modulo 2^32.
    pub(crate) fn turn_number(&self) -> u32 {
        self.turns
    }

    /// Whether a calling thread runs it just now that comes back as it likes, and the NIC's thread sees to what it
    /// leaves behind.
    pub(crate) fn is_visited(&self) -> bool {
        self.runner == Runner::Visitor && self.settings.progress.is_automatic()
    }

    fn answer_peers(&mut self) {
        while let Some(key) = self.answering.pop() {
            self.with_connection(key, |connection, cx| {
                connection.is_listed_to_answer = false;
                connection.answer(cx)
            });
        }
    }

    /// Does what the doorbell was rung for, and nothing else.
    pub(crate) fn attend_doorbell(&mut self) {
        self.answer_doorbell();
    }

    /// Sleeps until something happens, `longest` has passed, or the doorbell rings.
    pub(crate) fn park(&mut self, longest: Option<Duration>) {
        self.arm_low_water();
        // What came before the ports were armed is reported at once, since arming checks what is there.
        if self.doorbell.park() {
            let timeout = [longest, self.until_deadline()].into_iter().flatten().min();
            self.counters.parks += 1;
            self.read_clock();
            let before = self.now;
            self.poll_armed(timeout);
            self.read_clock();
            self.last_sleep = self.now.since(before);
            self.slept += self.last_sleep;
            self.changed = true;
        }
        self.doorbell.unpark();
    }

    #[inline]
    fn answer_doorbell(&mut self) -> bool {
        let has_rung = self.doorbell.has_rung();
        if has_rung {
            self.send_rung();
        }
        has_rung
    }

    fn send_rung(&mut self) {
        let mut rung = core::mem::take(&mut self.rung);
        self.doorbell.answer(&mut rung);
        for key in rung.drain(..) {
            if key.is_null() {
                self.attend_served_ports();
            } else {
                self.send_posted(key);
            }
        }
        self.rung = rung;
    }

    /// Sends what was posted on a connection, and leaves receiving to the next turn.
    pub(crate) fn send_posted(&mut self, key: DefaultKey) {
        self.changed = true;
        self.start_polling(key);
        self.with_connection(key, Connection::send_posted);
    }

    /// A connection, and what it may use.
    fn split(&mut self, key: DefaultKey) -> Option<(&mut Connection<N>, Context<'_, N::Scratch>)> {
        self.split_with(key, Inbox::default())
    }

    /// The same, with datagrams that have come for it.
    fn split_with<'a>(
        &'a mut self,
        key: DefaultKey,
        inbox: Inbox<'a>,
    ) -> Option<(&'a mut Connection<N>, Context<'a, N::Scratch>)> {
        let Some(Entry { member: Member::Connection(connection), .. }) = self.entries.get_mut(key) else { return None };
        let io = io!(self, inbox);
        let cx = Context { io, packets: &mut self.uppers };
        Some((connection, cx))
    }

    /// Has a packet of an endpoint written straight into its frame; [`Engine::send_posted`] sends it. See
    /// [`Connection::pass_packet`].
    pub(crate) fn pass_packet(
        &mut self,
        key: DefaultKey,
        most: usize,
        write: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Passed {
        let Some((connection, mut cx)) = self.split(key) else { return Passed::Not };
        connection.pass_packet(most, &mut cx, write)
    }

    /// Sends a short request of a queue pair at once. See [`Connection::pass_request`].
    pub(crate) fn pass_request(
        &mut self,
        key: DefaultKey,
        queue_pair: &Arc<QueuePair>,
        request: &SendRequest,
    ) -> Option<Result<(), PostError>> {
        let (connection, mut cx) = self.split(key)?;
        let passed = connection.pass_request(queue_pair, request, &mut cx)?;
        let is_settled = connection.is_polled && connection.is_fast();
        self.changed = true;
        if !is_settled {
            self.start_polling(key);
            self.queue(key);
        }
        Some(passed)
    }

    /// Does something with a connection, and what follows from it.
    fn with_connection(
        &mut self,
        key: DefaultKey,
        act: impl FnOnce(&mut Connection<N>, &mut Context<'_, N::Scratch>) -> Outcome,
    ) -> Option<Outcome> {
        self.with_inbox(key, Inbox::default(), act)
    }

    /// The same, with datagrams that have come for it.
    fn with_inbox(
        &mut self,
        key: DefaultKey,
        inbox: Inbox<'_>,
        act: impl FnOnce(&mut Connection<N>, &mut Context<'_, N::Scratch>) -> Outcome,
    ) -> Option<Outcome> {
        let (connection, mut cx) = self.split_with(key, inbox)?;
        let outcome = act(connection, &mut cx);
        self.queue(key);
        match outcome {
            Outcome::Over => self.remove(key),
            Outcome::Request(listener) => self.announce(listener, key),
            Outcome::Idle | Outcome::Progress => {}
        }
        Some(outcome)
    }

    fn remove(&mut self, key: DefaultKey) {
        let Some(Entry { member: Member::Connection(connection), ports, names, .. }) = self.entries.remove(key) else {
            return;
        };
        self.ports.remove(&ports);
        if let Some((port, names)) = names {
            self.datagrams.remove(port, &names);
            self.drop_if_unused(port.0);
        }
        if connection.is_polled {
            self.polled.remove(key);
        }
        self.connections -= 1;
        if let Some(listener) = connection.listener {
            if let Some(refused) = connection.refused
                && let Some(listening) = self.listening(listener)
            {
                listening.refuse(*refused);
            }
            self.forget_pending(listener, key);
        }
        self.event_count.turn();
    }

    /// A connection is decided, or gone: its listener has room for another.
    fn forget_pending(&mut self, listener: DefaultKey, key: DefaultKey) {
        if let Some(listening) = self.listening(listener) {
            listening.forget(key);
            self.arm(listener, 1);
        }
    }

    // --- times

    /// Puts a connection or listener into the queue of times, if it is not there early enough.
    #[inline]
    fn queue(&mut self, key: DefaultKey) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let at = match &mut entry.member {
            // Runs after each poll of a connection. The time in the queue is mostly early enough.
            Member::Connection(connection) => {
                if entry.queued.at().is_some_and(|at| !connection.may_wake_before(at)) {
                    return;
                }
                connection.wake_at()
            }
            Member::Listener(listening) => listening.again_at,
        };
        self.timers.want(Timed::Key(key), &mut entry.queued, at);
    }

    /// Sees to those whose time has come. Returns whether there were any.
    fn handle_times(&mut self) -> bool {
        let mut any = false;
        // What wants to come up again at once does so in the next turn.
        let now = self.now;
        let mut left = self.timers.length();
        while left > 0
            && let Some((at, whose)) = self.timers.pop(now)
        {
            left -= 1;
            any |= match whose {
                Timed::Key(key) => self.handle_time_of(key, at),
                Timed::EngineClient(number) => self.handle_time_of_upper(number, at),
            };
        }
        any
    }

    fn handle_time_of(&mut self, key: DefaultKey, at: Time) -> bool {
        let Some(entry) = self.entries.get_mut(key) else { return false };
        if !entry.queued.take(at) {
            return false;
        }
        let wanted = match &entry.member {
            Member::Connection(connection) => connection.wake_at(),
            Member::Listener(listening) => listening.again_at,
        };
        if wanted.is_none_or(|wanted| wanted > self.now) {
            self.timers.want(Timed::Key(key), &mut entry.queued, wanted);
            return false;
        }
        match &mut entry.member {
            Member::Connection(connection) => {
                let now = self.now;
                let answers = connection.check_peer(now);
                let is_due = connection.wake_at().is_some_and(|at| at <= now);
                connection.lower.try_another(&mut self.network, now);
                if is_due {
                    // What it says last is sent, and it is polled until it is over.
                    self.start_polling(key);
                    self.with_connection(key, Connection::handle_time);
                } else if answers == Some(false) {
                    self.start_connection(key);
                }
                if answers.is_some() {
                    self.check_peer_later(key);
                }
            }
            Member::Listener(_) => self.accept_ports(key),
        }
        true
    }

    /// It is attended to in this turn, as all are.
    fn handle_time_of_upper(&mut self, number: usize, at: Time) -> bool {
        let Some((_, queued)) = self.uppers.0.get_mut(number) else { return false };
        queued.take(at)
    }

    /// Has a connection check whether its peer's host still answers, when that is due for all: one wake-up is enough
    /// for them.
    fn check_peer_later(&mut self, key: DefaultKey) {
        let Some(interval) = self.peer_check else { return };
        let rounds = self.now.since(Time::ZERO).as_nanos() / interval.as_nanos();
        let at = Time::ZERO + interval.saturating_mul(u32::try_from(rounds + 1).unwrap_or(u32::MAX));
        if let Some(connection) = self.connection_mut(key) {
            connection.set_peer_check(Some(at));
            self.queue(key);
        }
    }

    // --- members

    fn connection(&self, key: DefaultKey) -> Option<&Connection<N>> {
        match self.entries.get(key) {
            Some(Entry { member: Member::Connection(connection), .. }) => Some(connection),
            _ => None,
        }
    }

    fn connection_mut(&mut self, key: DefaultKey) -> Option<&mut Connection<N>> {
        match self.entries.get_mut(key) {
            Some(Entry { member: Member::Connection(connection), .. }) => Some(connection),
            _ => None,
        }
    }

    fn listening(&mut self, key: DefaultKey) -> Option<&mut Listening<N::Listener>> {
        match self.entries.get_mut(key) {
            Some(Entry { member: Member::Listener(listening), .. }) => Some(listening),
            _ => None,
        }
    }

    /// When something has to happen by itself next.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.timers.next()
    }
}
