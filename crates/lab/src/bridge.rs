//! A switch in user space: packets of shaped rails go from port to port by way of the emulator. By rings it has their
//! frames, and sends them by itself. By the kernel's packet queues it has their numbers, and the kernel, which routes
//! between the ports, sends them when the switch says so.
//!
//! It is a process of its own, in the namespace of the lab's switch. Its standard input brings lines of JSON, each with
//! all its ports, or ask how late it was; it answers each with a line. It ends when its standard input does.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::net::if_::if_nametoindex;
use serde::{Deserialize, Serialize};
use weft_base::{Clock, Ecn, Random, Time};
use weft_driver::{MonotonicClock, WaitSet};
use weft_emulate::{Link, Packet, Settings};

use crate::carrier::Carrier;
use crate::lateness::{Lateness, LatenessLog};
use crate::packet_queue::{KeptPacket, PacketQueues, QueueError, QueueNeeds, came};
use crate::punctual::Punctual;
use crate::ring_port::RingPort;
use crate::shape::Shape;

/// Hardware addresses that it remembers. Frames to others go to all ports.
const ADDRESSES: usize = 4096;
/// The longest line that is understood, in bytes.
const LINE: usize = 4 << 20;
/// What its answers begin with, so that whatever else the program writes is not taken for one.
pub(crate) const ANSWER: &str = "weft-bridge: ";

/// A port of the switch: a host's cable to a rail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortPlan {
    pub(crate) host: usize,
    pub(crate) rail: usize,
    pub(crate) interface: String,
    pub(crate) from_host: Shape,
    pub(crate) to_host: Shape,
    pub(crate) carrier: Carrier,
}

/// A line of its standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// From now on these are the ports.
    Ports(Vec<PortPlan>),
    /// Report how late frames were since the last report.
    Lateness,
}

/// What it answers: how late frames were, if the request was for that and there were any.
pub(crate) type Answer = Result<Option<Lateness>, String>;

struct Port {
    plan: PortPlan,
    end: End,
    from_host: Link<Tag>,
    to_host: Link<Tag>,
}

/// How a port's packets come and go.
enum End {
    Ring(RingPort),
    /// By the queue of its rail. The number of the interface.
    Queue(u32),
}

/// What goes with a packet.
#[derive(Clone, Debug)]
enum Tag {
    /// Nothing: its bytes are the frame.
    Frame,
    /// What the kernel keeps, to which interface it goes, and its length.
    Kept(KeptPacket, u32, usize),
}

/// The switch.
struct Bridge {
    clock: MonotonicClock,
    ports: Vec<Port>,
    /// The queue of each rail that has one: its number is the rail's.
    queues: BTreeMap<u16, PacketQueues>,
    /// Which port has which interface, of those with queues.
    interfaces: HashMap<u32, usize>,
    /// Which port an address of a rail was last seen at.
    addresses: HashMap<(usize, [u8; 6]), usize>,
    waits: WaitSet,
    /// How late frames of any port were.
    lateness: LatenessLog,
    /// The latest time that the links got: none of them gets an earlier one.
    told: Time,
    /// When packets that leave now should have left.
    due: Vec<Time>,
}

/// What of the standard input has no end of line yet.
struct Orders {
    input: File,
    line: Vec<u8>,
}

/// The key of the standard input among what is waited for; ports have their numbers, and queues all the same key.
const ORDERS: u64 = u64::MAX;
const QUEUES: u64 = u64::MAX - 1;

/// Is the switch of a lab's shaped links until standard input ends. A user of [`Lab::shape`](crate::Lab::shape) names a
/// program that calls this.
///
/// # Errors
/// The operating system refused what it needs, or standard input says what is not understood.
pub fn serve_bridge() -> io::Result<()> {
    let mut orders = Orders { input: File::from(io::stdin().as_fd().try_clone_to_owned()?), line: Vec::new() };
    let waits = WaitSet::new().map_err(io::Error::other)?;
    waits.add(&orders.input, ORDERS).map_err(io::Error::other)?;
    let (clock, lateness) = (MonotonicClock::new(), LatenessLog::new());
    let mut punctual = Punctual::new(MonotonicClock::new());
    let mut bridge = Bridge {
        told: clock.now(),
        clock,
        ports: Vec::new(),
        queues: BTreeMap::new(),
        interfaces: HashMap::new(),
        addresses: HashMap::new(),
        waits,
        lateness,
        due: Vec::new(),
    };
    let mut keys = Vec::new();
    loop {
        keys.clear();
        let timeout = bridge.work()?;
        punctual.wait(&bridge.waits, timeout, &mut keys)?;
        if keys.contains(&ORDERS) && !orders.read(&mut bridge)? {
            return Ok(());
        }
        bridge.clear_errors(&keys);
    }
}

impl Orders {
    /// Reads what is there, and obeys. False: it has ended.
    fn read(&mut self, bridge: &mut Bridge) -> io::Result<bool> {
        let mut buffer = [0; 1 << 16];
        let length = self.input.read(&mut buffer)?;
        self.line.extend_from_slice(&buffer[..length]);
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            let answer: Answer = match serde_json::from_slice(&line)? {
                Order::Ports(plans) => bridge.set_ports(plans).map(|()| None).map_err(|error| error.to_string()),
                Order::Lateness => Ok(bridge.lateness.take()),
            };
            let mut out = io::stdout().lock();
            writeln!(out, "{ANSWER}{}", serde_json::to_string(&answer)?)?;
            out.flush()?;
        }
        Ok(length > 0 && self.line.len() < LINE)
    }
}

impl Bridge {
    /// From now on these are the ports. Frames in flight in those that stay are not lost.
    fn set_ports(&mut self, plans: Vec<PortPlan>) -> io::Result<()> {
        let mut old = std::mem::take(&mut self.ports);
        self.addresses.clear();
        self.interfaces.clear();
        self.set_queues(&plans)?;
        for plan in plans {
            let is_same = |port: &Port| port.plan.interface == plan.interface && port.plan.carrier == plan.carrier;
            let known = old.iter().position(is_same);
            let port = match known {
                Some(index) => old.swap_remove(index).change(plan),
                None => Port::open(plan)?,
            };
            match &port.end {
                End::Ring(ring) => self.waits.add(ring, self.ports.len() as u64).map_err(io::Error::other)?,
                End::Queue(interface) => {
                    self.interfaces.insert(*interface, self.ports.len());
                }
            }
            self.ports.push(port);
        }
        Ok(())
    }

    /// Reads the queues that these ports need, and no others. What waits in one that is not needed any more is lost.
    fn set_queues(&mut self, plans: &[PortPlan]) -> io::Result<()> {
        let mut needed = BTreeMap::new();
        for plan in plans.iter().filter(|plan| plan.carrier == Carrier::Queue) {
            let number = u16::try_from(plan.rail).map_err(io::Error::other)?;
            *needed.entry(number).or_insert(false) |= plan.needs_single_packets();
        }
        self.queues.retain(|number, _| needed.contains_key(number));
        for (number, single_packets) in needed {
            let needs = QueueNeeds { whole_packets: false, single_packets };
            if let Some(queue) = self.queues.get_mut(&number) {
                queue.change(number, needs)?;
                continue;
            }
            let queue = PacketQueues::open(&[number], needs).map_err(refused)?;
            self.waits.add(&queue, QUEUES).map_err(io::Error::other)?;
            self.queues.insert(number, queue);
        }
        Ok(())
    }

    /// Carries what there is. Says how long nothing more is to be done; `None`: until something comes.
    fn work(&mut self) -> io::Result<Option<Duration>> {
        let mut more = self.take_queued()?;
        for index in 0..self.ports.len() {
            more |= self.take_in(index);
        }
        let now = self.clock.now();
        self.told = self.told.max(now);
        // In the order of their arrival, whichever port it is: each link gets times that don't run backwards. What
        // comes late to the second link is not later for it.
        while let Some(index) = self.next_port(now) {
            if let Some((at, packet)) = self.ports[index].from_host.deliver_timed(now) {
                self.forward(index, packet, at);
            }
        }
        self.put_out(now)?;
        if more {
            return Ok(Some(Duration::ZERO));
        }
        Ok(self.next_time().map(|at| at.since(self.clock.now())))
    }

    /// Sends what is due. How late that is, counts both links: the second has from the first when a packet was due.
    fn put_out(&mut self, now: Time) -> io::Result<()> {
        let Self { ports, queues, due, .. } = self;
        for port in ports {
            while let Some((at, packet)) = port.to_host.deliver_timed(now) {
                due.push(at);
                match (&mut port.end, packet.tag) {
                    (End::Ring(ring), Tag::Frame) => ring.send(packet.bytes),
                    (_, Tag::Kept(kept, ..)) => {
                        // Without its queue the kernel has dropped it.
                        let queue = u16::try_from(port.plan.rail).ok().and_then(|number| queues.get_mut(&number));
                        queue.map_or(Ok(()), |queue| queue.release(kept, None))?;
                    }
                    (End::Queue(_), Tag::Frame) => (),
                }
            }
        }
        self.queues.values_mut().try_for_each(PacketQueues::flush)?;
        if !self.due.is_empty() {
            let now = self.clock.now();
            self.due.drain(..).for_each(|at| self.lateness.record(now.since(at)));
        }
        Ok(())
    }

    /// Takes packets from the queues. Whether there may be more.
    fn take_queued(&mut self) -> io::Result<bool> {
        let Self { queues, ports, interfaces, clock, told, .. } = self;
        let mut more = false;
        for queue in queues.values_mut() {
            more |= queue.receive(|packet| {
                // One of an interface that is no port any more is lost.
                let Some(port) = interfaces.get(&packet.from).and_then(|index| ports.get_mut(*index)) else { return };
                // It came when the kernel got it, not when it was read.
                *told = (*told).max(came(clock.now(), packet.age));
                let tag = Tag::Kept(packet.kept, packet.to, packet.length);
                let kept = Packet { bytes: Vec::new(), ecn: Ecn::NotCapable, tag };
                port.from_host.send_part(kept, packet.length, *told);
            })?;
        }
        Ok(more)
    }

    fn next_time(&self) -> Option<Time> {
        self.ports.iter().flat_map(|port| [port.from_host.next_time(), port.to_host.next_time()]).flatten().min()
    }

    /// The port whose link from its host has something to do first, by now.
    fn next_port(&self, now: Time) -> Option<usize> {
        let times =
            self.ports.iter().enumerate().filter_map(|(index, port)| Some((port.from_host.next_time()?, index)));
        times.filter(|(at, _)| *at <= now).min().map(|(_, index)| index)
    }

    /// Takes frames from a port. Whether there may be more.
    fn take_in(&mut self, index: usize) -> bool {
        let Self { ports, clock, told, .. } = self;
        let Port { end: End::Ring(ring), from_host, .. } = &mut ports[index] else { return false };
        ring.receive(|bytes| {
            *told = (*told).max(clock.now());
            from_host.send(Packet { bytes, ecn: Ecn::NotCapable, tag: Tag::Frame }, *told);
        })
    }

    /// Sends a packet to the port that the kernel has found for it.
    fn forward_kept(&mut self, packet: Packet<Tag>, now: Time) {
        let Tag::Kept(_, to, length) = packet.tag else { return };
        if let Some(index) = self.interfaces.get(&to) {
            self.ports[*index].to_host.send_part(packet, length, now);
        }
    }

    /// Sends a frame to the port of its addressee, or to all others.
    fn forward(&mut self, from: usize, packet: Packet<Tag>, now: Time) {
        if let Tag::Kept(..) = packet.tag {
            return self.forward_kept(packet, now);
        }
        let rail = self.ports[from].plan.rail;
        let address = |at: usize| core::array::from_fn(|index| packet.bytes[at + index]);
        let (to, source): ([u8; 6], [u8; 6]) = (address(0), address(6));
        let is_known = self.addresses.contains_key(&(rail, source));
        if is_known || self.addresses.len() < ADDRESSES {
            self.addresses.insert((rail, source), from);
        }
        if let Some(index) = self.addresses.get(&(rail, to)) {
            if *index != from {
                self.ports[*index].to_host.send(packet, now);
            }
            return;
        }
        let is_other = |(index, port): &(usize, &mut Port)| *index != from && port.plan.rail == rail;
        for (_, port) in self.ports.iter_mut().enumerate().filter(is_other) {
            port.to_host.send(packet.clone(), now);
        }
    }

    fn clear_errors(&self, keys: &[u64]) {
        for port in keys.iter().filter_map(|key| self.ports.get(usize::try_from(*key).ok()?)) {
            if let End::Ring(ring) = &port.end {
                ring.clear_error();
            }
        }
    }
}

/// Why there is no queue, in words.
fn refused(error: QueueError) -> io::Error {
    match error {
        QueueError::Right => io::Error::from(io::ErrorKind::PermissionDenied),
        QueueError::Taken(queue) => io::Error::other(format!("another program reads packet queue {queue}")),
        QueueError::Lacking => io::Error::other(
            "this kernel has no packet queues (CONFIG_NETFILTER_NETLINK_QUEUE); as root: modprobe nfnetlink_queue, or \
             use --carrier rings",
        ),
        QueueError::Io(error) => error,
    }
}

impl PortPlan {
    /// What the emulator does to packets. Of those that queues carry, the kernel has the rate.
    fn settings(&self, shape: &Shape) -> Settings {
        let settings = shape.settings();
        match self.carrier {
            Carrier::Queue => Settings { rate_bits_per_s: None, ..settings },
            Carrier::Rings => settings,
        }
    }

    fn needs_single_packets(&self) -> bool {
        self.from_host.needs_single_packets() || self.to_host.needs_single_packets()
    }
}

impl Port {
    fn open(plan: PortPlan) -> io::Result<Self> {
        let end = match plan.carrier {
            Carrier::Rings => End::Ring(RingPort::open(&plan.interface)?),
            Carrier::Queue => End::Queue(if_nametoindex(plan.interface.as_str())?),
        };
        // The same lab has the same chances each time.
        let mut random = Random::new((plan.rail * 64 + plan.host) as u64);
        let from_host = Link::new(plan.settings(&plan.from_host), random.fork());
        let to_host = Link::new(plan.settings(&plan.to_host), random.fork());
        Ok(Self { plan, end, from_host, to_host })
    }

    fn change(mut self, plan: PortPlan) -> Self {
        self.from_host.set_settings(plan.settings(&plan.from_host));
        self.to_host.set_settings(plan.settings(&plan.to_host));
        Self { plan, ..self }
    }
}
