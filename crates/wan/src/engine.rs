//! Packets from a carrier, through the links of a scenario, and on.

use std::io;
use std::time::Duration;

use weft_base::{Clock, Time};
use weft_driver::WaitSet;
use weft_emulate::{Link, Packet};
use weft_scenario::{Direction, Scenario};

use crate::carrier::{Carrier, Rewrite};
use crate::ecn::WriteEcn;
use crate::report::{DirectionReport, LatenessLog, Report};

/// How often interfaces are seen to while nothing comes.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Both directions, and the carrier that they are for.
pub(crate) struct Engine<C: Carrier, K> {
    name: &'static str,
    carrier: C,
    clock: K,
    start: Time,
    ways: [Way<Measured<C::Tag>>; 2],
    /// Whether the links damage packets at some time.
    damages: bool,
    /// What changes packets once their link has let them go, in this order. Translation of addresses would be one more.
    rewrites: Vec<Box<dyn Rewrite>>,
    checked: Time,
}

/// A packet's tag, and how many bytes of IP it has.
type Measured<T> = (T, usize);

/// One direction.
struct Way<T> {
    link: Link<T>,
    delay: Duration,
    lateness: LatenessLog,
    bytes: u64,
    delivered_bytes: u64,
}

impl<T: Clone> Way<T> {
    fn new(scenario: &Scenario, direction: Direction, start: Time) -> Self {
        let delays = scenario.changes(direction).map(|(_, conditions)| conditions.delay);
        Self {
            link: scenario.link(direction, start, 0),
            delay: delays.filter(|delay| !delay.is_zero()).min().unwrap_or_default(),
            lateness: LatenessLog::new(),
            bytes: 0,
            delivered_bytes: 0,
        }
    }
}

impl<C: Carrier, K: Clock> Engine<C, K> {
    /// The scenario starts now.
    pub(crate) fn new(name: &'static str, carrier: C, clock: K, scenario: &Scenario) -> Self {
        let start = clock.now();
        Self {
            name,
            carrier,
            ways: Direction::ALL.map(|direction| Way::new(scenario, direction, start)),
            damages: damages(scenario),
            rewrites: vec![Box::new(WriteEcn)],
            start,
            checked: start,
            clock,
        }
    }

    /// Has `waits` report what comes.
    pub(crate) fn wait_in(&self, waits: &WaitSet) -> io::Result<()> {
        self.carrier.wait_in(waits)
    }

    /// Carries what there is; `is_told`: something was reported of the carrier. Says how long nothing more is to be
    /// done, unless something comes.
    pub(crate) fn work(&mut self, is_told: bool) -> io::Result<Duration> {
        let before = self.packets();
        let more = self.take_in()?;
        if is_told && self.packets() == before {
            // That no packet has come is about an interface, which says so until somebody asks.
            self.carrier.check()?;
        }
        let now = self.clock.now();
        self.put_out(now)?;
        self.carrier.flush()?;
        if now.since(self.checked) >= CHECK_EVERY {
            self.checked = now;
            self.carrier.check()?;
        }
        if more {
            return Ok(Duration::ZERO);
        }
        let next = self.ways.iter().filter_map(|way| way.link.next_time()).min();
        let left = next.map(|next| next.since(self.clock.now()));
        Ok(left.map_or(CHECK_EVERY, |left| left.min(CHECK_EVERY)))
    }

    fn take_in(&mut self) -> io::Result<bool> {
        let Self { carrier, clock, ways, .. } = self;
        carrier.receive(|direction, packet, length| {
            let way = &mut ways[index(direction)];
            way.bytes += length as u64;
            let Packet { bytes, ecn, tag } = packet;
            // An MTU that it has is a black hole (RFC 2923 section 2.1): there is nothing to tell.
            way.link.send_part(Packet { bytes, ecn, tag: (tag, length) }, length, clock.now());
        })
    }

    /// Packets that have come.
    fn packets(&self) -> u64 {
        self.ways.iter().map(|way| way.link.statistics().sent).sum()
    }

    fn put_out(&mut self, now: Time) -> io::Result<()> {
        for direction in Direction::ALL {
            let way = &mut self.ways[index(direction)];
            while let Some((due, packet)) = way.link.deliver_timed(now) {
                let Packet { mut bytes, ecn, tag: (tag, length) } = packet;
                let ip = bytes.get_mut(C::IP_AT..).unwrap_or_default();
                let changes = self.rewrites.iter_mut().map(|rewrite| rewrite.rewrite(ip, ecn));
                let is_changed = changes.fold(self.damages, |is_changed, changes| is_changed | changes);
                way.delivered_bytes += length as u64;
                self.carrier.put_out(direction, Packet { bytes, ecn, tag }, is_changed)?;
                way.lateness.record(self.clock.now().since(due));
            }
        }
        Ok(())
    }

    /// What it has done until now.
    pub(crate) fn report(&self) -> Report {
        let directions = [0, 1].map(|index| {
            let way = &self.ways[index];
            DirectionReport {
                delay_ns: u64::try_from(way.delay.as_nanos()).unwrap_or(u64::MAX),
                bytes: way.bytes,
                delivered_bytes: way.delivered_bytes,
                on_the_way: way.link.in_flight() as u64,
                ..DirectionReport::new(way.link.statistics(), way.lateness.lateness())
            }
        });
        Report::new(self.name, self.clock.now().since(self.start), directions, self.carrier.losses())
    }
}

fn damages(scenario: &Scenario) -> bool {
    let all = Direction::ALL.into_iter().flat_map(|direction| scenario.changes(direction));
    all.into_iter().any(|(_, conditions)| conditions.corrupt_millionths > 0)
}

const fn index(direction: Direction) -> usize {
    match direction {
        Direction::Forward => 0,
        Direction::Reverse => 1,
    }
}
