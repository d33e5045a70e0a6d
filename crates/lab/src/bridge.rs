//! A switch in user space: frames of shaped rails go from port to port by way of the emulator.
//!
//! It is a process of its own, in the namespace of the lab's switch. Its standard input brings lines of JSON, each with
//! all its ports, or ask how late it was; it answers each with a line. It ends when its standard input does.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::sys::prctl;
use serde::{Deserialize, Serialize};
use weft_base::{Clock, Ecn, Random, Time};
use weft_driver::{MonotonicClock, WaitSet, shorten_slice};
use weft_emulate::{Link, Packet};

use crate::lateness::{Lateness, LatenessLog};
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
}

/// A line of its standard input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// From now on these are the ports.
    Ports(Vec<PortPlan>),
    /// Say how late frames were since this was asked last.
    Lateness,
}

/// What it answers: how late frames were, if that was asked and there were any.
pub(crate) type Answer = Result<Option<Lateness>, String>;

struct Port {
    plan: PortPlan,
    ring: RingPort,
    from_host: Link<()>,
    to_host: Link<()>,
}

/// The switch.
struct Bridge {
    clock: MonotonicClock,
    ports: Vec<Port>,
    /// Which port an address of a rail was last seen at.
    addresses: HashMap<(usize, [u8; 6]), usize>,
    waits: WaitSet,
    /// How late frames of any port were.
    lateness: LatenessLog,
}

/// What of the standard input has no end of line yet.
struct Orders {
    input: File,
    line: Vec<u8>,
}

/// The key of the standard input among what is waited for; ports have their numbers.
const ORDERS: u64 = u64::MAX;

/// How late the kernel may fire a timer of this thread, in nanoseconds, to spare wake-ups: not at all.
const TIMER_SLACK_NS: u64 = 1;

/// Is the switch of a lab's shaped links until standard input ends. Whoever uses [`Lab::shape`](crate::Lab::shape)
/// names a program that calls this.
///
/// # Errors
/// The operating system refused what it needs, or standard input says what is not understood.
pub fn serve_bridge() -> io::Result<()> {
    let mut orders = Orders { input: File::from(io::stdin().as_fd().try_clone_to_owned()?), line: Vec::new() };
    let waits = WaitSet::new().map_err(io::Error::other)?;
    waits.add(&orders.input, ORDERS).map_err(io::Error::other)?;
    // Without these it is later, and otherwise does what it should.
    let _ = prctl::set_timerslack(TIMER_SLACK_NS);
    shorten_slice();
    let (clock, lateness) = (MonotonicClock::new(), LatenessLog::new());
    let mut bridge = Bridge { clock, ports: Vec::new(), addresses: HashMap::new(), waits, lateness };
    let mut keys = Vec::new();
    loop {
        keys.clear();
        let timeout = bridge.work();
        bridge.waits.wait(timeout, &mut keys).map_err(io::Error::other)?;
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
    /// From now on these are the ports. Frames under way in those that stay are not lost.
    fn set_ports(&mut self, plans: Vec<PortPlan>) -> io::Result<()> {
        let mut old = std::mem::take(&mut self.ports);
        self.addresses.clear();
        for plan in plans {
            let known = old.iter().position(|port| port.plan.interface == plan.interface);
            let port = match known {
                Some(index) => old.swap_remove(index).change(plan),
                None => Port::open(plan)?,
            };
            self.waits.add(&port.ring, self.ports.len() as u64).map_err(io::Error::other)?;
            self.ports.push(port);
        }
        Ok(())
    }

    /// Carries what there is. Says how long nothing more is to be done; `None`: until something comes.
    fn work(&mut self) -> Option<Duration> {
        let mut more = false;
        for index in 0..self.ports.len() {
            more |= self.take_in(index);
        }
        let now = self.clock.now();
        // By when they come, whichever port it is: each link hears of times that don't run backwards. What comes late
        // to the second link is not later for it.
        while let Some(index) = self.next_port(now) {
            if let Some((at, packet)) = self.ports[index].from_host.deliver_timed(now) {
                self.forward(index, packet, at);
            }
        }
        let Self { ports, clock, lateness, .. } = self;
        ports.iter_mut().for_each(|port| port.put_out(now, clock, lateness));
        if more {
            return Some(Duration::ZERO);
        }
        self.next_time().map(|at| at.since(self.clock.now()))
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
        let Self { ports, clock, .. } = self;
        let Port { ring, from_host, .. } = &mut ports[index];
        ring.receive(|bytes| {
            let packet = Packet { bytes, ecn: Ecn::NotCapable, tag: () };
            from_host.send(packet, clock.now());
        })
    }

    /// Sends a frame to the port of its addressee, or to all others.
    fn forward(&mut self, from: usize, packet: Packet<()>, now: Time) {
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
            port.ring.clear_error();
        }
    }
}

impl Port {
    fn open(plan: PortPlan) -> io::Result<Self> {
        let ring = RingPort::open(&plan.interface)?;
        // The same lab has the same chances each time.
        let mut random = Random::new((plan.rail * 64 + plan.host) as u64);
        let from_host = Link::new(plan.from_host.settings(), random.fork());
        let to_host = Link::new(plan.to_host.settings(), random.fork());
        Ok(Self { plan, ring, from_host, to_host })
    }

    fn change(mut self, plan: PortPlan) -> Self {
        self.from_host.set_settings(plan.from_host.settings());
        self.to_host.set_settings(plan.to_host.settings());
        Self { plan, ..self }
    }

    /// Sends what is due. How late that is, counts both links: the second has from the first when a frame was due.
    fn put_out(&mut self, now: Time, clock: &MonotonicClock, lateness: &mut LatenessLog) {
        while let Some((due, packet)) = self.to_host.deliver_timed(now) {
            self.ring.send(packet.bytes);
            lateness.record(clock.now().since(due));
        }
    }
}
