//! The packets of a simulated world: links between addresses, ports that they reach, and errors for those that reach
//! none.

use core::ops::Range;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use weft_base::{Ecn, Hint, HintKind, PortError, Quote, Random, Time};
use weft_emulate::{Admission, Chance, Delayed, Link, Loss, Mtu, Packet, Queue, Settings, Statistics};
use weft_scenario::{Direction, Scenario};

/// Hints that wait to be taken. More are forgotten, as an operating system does.
const HINTS: usize = 32;
/// Bytes of a receive buffer that a packet takes beside its payload.
const PACKET_OVERHEAD: u32 = 512;

/// How the hosts of a simulated world treat datagrams, and the default of its links.
#[derive(Clone, Copy, Debug)]
pub struct PacketBehaviour {
    /// How links treat packets: each direction between two addresses is one. [`World::set_way`](crate::World::set_way)
    /// makes differences.
    pub links: Settings,
    /// Bytes of the largest packet that a host's own interface takes, headers of IP and UDP included. A send of more
    /// gets an error.
    pub interface_mtu: u32,
    /// How often a send takes fewer datagrams than it is given, but at least one.
    pub takes_fewer: Chance,
    /// How often a received datagram is merged with the one before it, where both allow that.
    pub merges: Chance,
    /// Whether hosts answer with an error when no program has a port.
    pub refuses: bool,
    /// Bytes of the receive buffer of a port that asks for nothing.
    pub receive_buffer: u32,
    /// Bytes of the largest receive buffer that is granted.
    pub largest_receive_buffer: u32,
}

impl Default for PacketBehaviour {
    /// Hosts as Linux makes them, 100 microseconds apart; nothing is lost.
    fn default() -> Self {
        let delay = core::time::Duration::from_micros(100);
        Self {
            links: Settings { delay, ..Settings::default() },
            interface_mtu: 1500,
            takes_fewer: Chance::percent(10),
            merges: Chance::percent(80),
            refuses: true,
            receive_buffer: 212_992,
            largest_receive_buffer: 8 << 20,
        }
    }
}

impl PacketBehaviour {
    /// The faults of this seed, some of them together: loss, alone or in bursts, disorder, copies, damage, a slow
    /// link with a short queue, marks, small packets.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x4544_4745_5041_434b);
        let micros = |most: u64, random: &mut Random| core::time::Duration::from_micros(1 + random.below(most));
        let delayed = |random: &mut Random| {
            let percent = if random.one_in(2) { 0 } else { 1 + random.below(20) as u32 };
            Delayed { chance: Chance::percent(percent), by: micros(2000, random) }
        };
        let (reordering, duplication) = (delayed(&mut random), delayed(&mut random));
        let share = Chance::per_million(random.below(100_000) as u32);
        let loss = match random.below(3) {
            0 => Loss::None,
            1 => Loss::Independent(share),
            // Short ones: they last for a number of packets, however seldom those are sent.
            _ => Loss::bursts(Chance::per_million(random.below(50_000) as u32), 2 + random.below(2) as u32),
        };
        let rate_bits_per_s = random.one_in(3).then(|| 10_000_000 + random.below(1_000_000_000));
        let bytes = 10_000 + random.below(500_000);
        let mark_at = random.one_in(3).then_some(bytes / 3);
        let mtu = random.one_in(4).then(|| Mtu { bytes: 1228 + random.below(300) as u32, tells: random.one_in(2) });
        let links = Settings {
            delay: micros(3000, &mut random),
            jitter: micros(500, &mut random),
            rate_bits_per_s,
            queue: Queue { bytes, mark_at },
            loss,
            reordering,
            duplication,
            corruption: Chance::per_million(if random.one_in(2) { 0 } else { random.below(20_000) as u32 }),
            clears_ecn: random.one_in(4),
            mtu,
            ..Settings::default()
        };
        let interface_mtu = [1500, 9000, 65_535][random.below(3) as usize];
        let largest_receive_buffer = [32 << 10, 212_992, 8 << 20][random.below(3) as usize];
        let merges = Chance::percent(random.below(101) as u32);
        Self { links, interface_mtu, largest_receive_buffer, merges, ..Self::default() }
    }
}

/// Where a packet comes from and goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) host: usize,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
}

/// A link: of which host, from which of its addresses, to which. The host counts, for several may have the same
/// address.
type Way = (usize, IpAddr, IpAddr);

/// A port, as the network sees it.
pub(crate) struct Bound {
    host: usize,
    local: SocketAddr,
    room: u32,
    used: u32,
    pub(crate) arrived: VecDeque<Packet<Route>>,
    pub(crate) hints: VecDeque<Hint>,
    pub(crate) overflowed: u64,
}

impl Bound {
    fn take(&mut self, packet: Packet<Route>) {
        let bytes = packet.bytes.len() as u32 + PACKET_OVERHEAD;
        if self.used + bytes > self.room {
            self.overflowed += 1;
        } else {
            self.used += bytes;
            self.arrived.push_back(packet);
        }
    }

    /// The next packet, taken out of the buffer.
    pub(crate) fn next(&mut self) -> Option<Packet<Route>> {
        let packet = self.arrived.pop_front()?;
        self.used -= packet.bytes.len() as u32 + PACKET_OVERHEAD;
        Some(packet)
    }
}

/// All hosts, ports and links.
pub(crate) struct Packets {
    pub(crate) behaviour: PacketBehaviour,
    pub(crate) random: Random,
    /// The addresses of each host. One without any has any address that is requested.
    hosts: Vec<Vec<IpAddr>>,
    /// Addresses that a host had and has no more: nothing answers there, not even with an error.
    left: Vec<IpAddr>,
    ports: BTreeMap<u64, Bound>,
    next_port: u64,
    ways: BTreeMap<(IpAddr, IpAddr), Settings>,
    /// Links between two addresses that do what a direction of a scenario says, and when that began.
    scenarios: BTreeMap<(IpAddr, IpAddr), (Arc<Scenario>, Direction, Time)>,
    /// Partitions of all hosts' links between two addresses.
    cuts: Vec<((IpAddr, IpAddr), Range<Time>)>,
    links: BTreeMap<Way, Link<Route>>,
    /// Hints for ports, by the time at which they arrive.
    hints: BTreeMap<(Time, u64), (usize, SocketAddr, Hint)>,
    next_hint: u64,
    /// Nothing arrives, hints included, before.
    earliest: Time,
}

/// So late that it never comes.
const NEVER: Time = Time::from_nanos(u64::MAX);

impl Packets {
    pub(crate) fn new(random: Random) -> Self {
        Self {
            behaviour: PacketBehaviour::default(),
            random,
            hosts: Vec::new(),
            left: Vec::new(),
            ports: BTreeMap::new(),
            next_port: 0,
            ways: BTreeMap::new(),
            scenarios: BTreeMap::new(),
            cuts: Vec::new(),
            links: BTreeMap::new(),
            hints: BTreeMap::new(),
            next_hint: 0,
            earliest: NEVER,
        }
    }

    pub(crate) fn add_host(&mut self, addresses: &[IpAddr]) -> usize {
        self.hosts.push(addresses.to_vec());
        self.hosts.len() - 1
    }

    /// A host has these addresses from now on, and none of those before. Nothing comes to those any more.
    pub(crate) fn set_addresses(&mut self, host: usize, addresses: &[IpAddr]) {
        let before = core::mem::replace(&mut self.hosts[host], addresses.to_vec());
        self.left.extend(before);
        self.left.retain(|ip| !addresses.contains(ip));
    }

    pub(crate) fn addresses(&self, host: usize) -> &[IpAddr] {
        &self.hosts[host]
    }

    pub(crate) fn has(&self, host: usize, ip: IpAddr) -> bool {
        self.hosts[host].is_empty() || self.hosts[host].contains(&ip)
    }

    /// The address from which a host sends unless another is given.
    pub(crate) fn source(&self, host: usize, to: IpAddr) -> IpAddr {
        let same_family = |ip: &&IpAddr| ip.is_ipv4() == to.is_ipv4();
        self.hosts[host].iter().find(same_family).copied().unwrap_or(to)
    }

    pub(crate) fn bind(&mut self, host: usize, local: SocketAddr, room: Option<u32>) -> Result<u64, PortError> {
        if !local.ip().is_unspecified() && !self.has(host, local.ip()) {
            return Err(PortError::AddressNotLocal);
        }
        if self.ports.values().any(|bound| self.collide(bound, host, local)) {
            return Err(PortError::AddressInUse);
        }
        let room = room.unwrap_or(self.behaviour.receive_buffer).min(self.behaviour.largest_receive_buffer);
        let (arrived, hints) = (VecDeque::new(), VecDeque::new());
        let bound = Bound { host, local, room, used: 0, arrived, hints, overflowed: 0 };
        self.next_port += 1;
        self.ports.insert(self.next_port, bound);
        Ok(self.next_port)
    }

    pub(crate) fn unbind(&mut self, port: u64) {
        self.ports.remove(&port);
    }

    pub(crate) fn port(&mut self, port: u64) -> &mut Bound {
        self.ports.get_mut(&port).expect("a port is bound until it is dropped")
    }

    /// Whether something waits at the port. One that is gone is never reported again.
    pub(crate) fn is_readable(&self, port: u64) -> bool {
        self.ports.get(&port).is_some_and(|bound| !bound.arrived.is_empty() || !bound.hints.is_empty())
    }

    pub(crate) fn room(&self, port: u64) -> u32 {
        self.ports[&port].room
    }

    /// Two hosts that may have any address are one in this.
    fn collide(&self, bound: &Bound, host: usize, local: SocketAddr) -> bool {
        let same_host = bound.host == host || (self.hosts[bound.host].is_empty() && self.hosts[host].is_empty());
        let (a, b) = (bound.local.ip(), local.ip());
        let overlap = a == b || (same_host && (covers(a, b) || covers(b, a)));
        bound.local.port() == local.port() && overlap && (same_host || !b.is_unspecified())
    }

    pub(crate) fn send(&mut self, bytes: Vec<u8>, ecn: Ecn, route: Route, now: Time) {
        let way = (route.host, route.from.ip(), route.to.ip());
        let quote = Quote::of(&bytes);
        let link = self.link(way);
        if let Admission::TooLarge(largest) = link.send(Packet { bytes, ecn, tag: route }, now) {
            // There and back again.
            let heard = now + link.settings().delay * 2;
            self.tell(route, None, (HintKind::TooLarge(largest), quote), heard);
        }
        let arrival = self.links.get(&way).and_then(Link::next_time);
        self.earliest = self.earliest.min(arrival.unwrap_or(NEVER));
    }

    /// Whether the next of a port's packets is merged with the one before.
    pub(crate) fn merges(&mut self) -> bool {
        self.behaviour.merges.happens(&mut self.random)
    }

    fn link(&mut self, way: Way) -> &mut Link<Route> {
        let Self { links, ways, scenarios, cuts, behaviour, random, .. } = self;
        links.entry(way).or_insert_with(|| {
            let pair = (way.1, way.2);
            if let Some((scenario, direction, start)) = scenarios.get(&pair) {
                // A scenario counts all of a packet from the header of IP on.
                return scenario.link(*direction, *start, if way.1.is_ipv4() { 28 } else { 48 });
            }
            let mut link = Link::new(*ways.get(&pair).unwrap_or(&behaviour.links), random.fork());
            cuts.iter().filter(|(cut, _)| *cut == pair).for_each(|(_, span)| link.cut(span.clone()));
            link
        })
    }

    /// Tells the sender of a packet what became of it, and quotes the packet.
    fn tell(&mut self, route: Route, by: Option<IpAddr>, (what, quote): (HintKind, Quote), heard: Time) {
        let hint = Hint { to: route.to.into(), by, what, quote };
        self.hints.insert((heard, self.next_hint), (route.host, route.from, hint));
        self.next_hint += 1;
        self.earliest = self.earliest.min(heard);
    }

    /// A forged hint goes to every port.
    pub(crate) fn forge_hint(&mut self, hint: Hint) {
        for port in self.ports.values_mut().filter(|port| port.hints.len() < HINTS) {
            port.hints.push_back(hint);
        }
    }

    /// Brings what has arrived by now to its ports.
    pub(crate) fn pump(&mut self, now: Time) {
        if self.earliest > now {
            return;
        }
        while let Some((at, way)) = self.next_link().filter(|(at, _)| *at <= now) {
            if let Some(packet) = self.links.get_mut(&way).and_then(|link| link.deliver(at)) {
                self.arrive(packet, at);
            }
        }
        while let Some(entry) = self.hints.first_entry().filter(|entry| entry.key().0 <= now) {
            let (host, from, hint) = entry.remove();
            let port = self.find(from, Some(host)).map(|port| self.port(port));
            if let Some(port) = port.filter(|port| port.hints.len() < HINTS) {
                port.hints.push_back(hint);
            }
        }
        let hint = self.hints.keys().next().map(|(at, _)| *at);
        let arrival = self.next_link().map(|(at, _)| at);
        self.earliest = arrival.into_iter().chain(hint).min().unwrap_or(NEVER);
    }

    fn arrive(&mut self, packet: Packet<Route>, at: Time) {
        if let Some(port) = self.find(packet.tag.to, None) {
            self.port(port).take(packet);
        } else if self.behaviour.refuses && !self.left.contains(&packet.tag.to.ip()) {
            let (route, quote) = (packet.tag, Quote::of(&packet.bytes));
            // The answer takes the path back, if that is open, and is never lost there: no test counts on that.
            let (delay, is_cut) = self.way_back(route, at);
            if !is_cut {
                self.tell(route, Some(route.to.ip()), (HintKind::Refused, quote), at + delay);
            }
        }
    }

    fn way_back(&self, route: Route, at: Time) -> (core::time::Duration, bool) {
        let pair = (route.to.ip(), route.from.ip());
        let settings = self.ways.get(&pair).unwrap_or(&self.behaviour.links);
        (settings.delay, self.cuts.iter().any(|(cut, span)| *cut == pair && span.contains(&at)))
    }

    /// The port that has this address: its own before one that has all.
    fn find(&self, address: SocketAddr, host: Option<usize>) -> Option<u64> {
        let ip = address.ip();
        let fits = |bound: &Bound| {
            bound.local.port() == address.port()
                && host.is_none_or(|host| host == bound.host)
                && (bound.local.ip() == ip || covers(bound.local.ip(), ip))
                && self.has(bound.host, ip)
        };
        let rank = |bound: &Bound| (bound.local.ip().is_unspecified(), self.hosts[bound.host].is_empty());
        let found = self.ports.iter().filter(|(_, bound)| fits(bound)).min_by_key(|(_, bound)| rank(bound));
        found.map(|(port, _)| *port)
    }

    fn next_link(&self) -> Option<(Time, Way)> {
        self.links.iter().filter_map(|(way, link)| Some((link.next_time()?, *way))).min()
    }

    /// When the next packet or hint arrives that has not yet.
    pub(crate) fn next_time(&self) -> Option<Time> {
        Some(self.earliest).filter(|at| *at < NEVER)
    }

    fn links_between(&mut self, pair: (IpAddr, IpAddr)) -> impl Iterator<Item = &mut Link<Route>> {
        self.links.iter_mut().filter(move |((_, from, to), _)| (*from, *to) == pair).map(|(_, link)| link)
    }

    pub(crate) fn set_behaviour(&mut self, behaviour: PacketBehaviour) {
        self.behaviour = behaviour;
        for ((_, from, to), link) in &mut self.links {
            if !self.ways.contains_key(&(*from, *to)) {
                link.set_settings(behaviour.links);
            }
        }
    }

    pub(crate) fn set_way(&mut self, from: IpAddr, to: IpAddr, settings: Settings) {
        self.ways.insert((from, to), settings);
        self.links_between((from, to)).for_each(|link| link.set_settings(settings));
    }

    pub(crate) fn set_scenario(&mut self, from: IpAddr, to: IpAddr, scenario: &Scenario, now: Time) {
        let scenario = Arc::new(scenario.clone());
        for (pair, direction) in [((from, to), Direction::Forward), ((to, from), Direction::Reverse)] {
            self.links.retain(|(_, from, to), _| (*from, *to) != pair);
            self.scenarios.insert(pair, (Arc::clone(&scenario), direction, now));
        }
    }

    pub(crate) fn cut(&mut self, from: IpAddr, to: IpAddr, span: &Range<Time>) {
        self.cuts.push(((from, to), span.clone()));
        self.links_between((from, to)).for_each(|link| link.cut(span.clone()));
    }

    pub(crate) fn mend(&mut self) {
        self.cuts.clear();
        self.links.values_mut().for_each(Link::mend);
    }

    /// What became of the packets of all links from one address to another (`None`: any) together.
    pub(crate) fn statistics(&self, pair: Option<(IpAddr, IpAddr)>) -> (Statistics, usize) {
        let of_pair = |(_, from, to): &Way| pair.is_none_or(|pair| pair == (*from, *to));
        let links = self.links.iter().filter(|(way, _)| of_pair(way)).map(|(_, link)| link);
        links.fold((Statistics::default(), 0), |(sum, on_the_way), link| {
            (sum + link.statistics(), on_the_way + link.in_flight())
        })
    }
}

/// Whether a port on `any` takes what comes to `ip`: the unspecified address of IPv6 takes IPv4 as well.
const fn covers(any: IpAddr, ip: IpAddr) -> bool {
    any.is_unspecified() && (any.is_ipv6() || ip.is_ipv4())
}
