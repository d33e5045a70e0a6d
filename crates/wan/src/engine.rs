//! Packets from a carrier, through the links of a scenario, and on.

use std::io;
use std::time::Duration;

use weft_base::{Clock, Time};
use weft_driver::WaitSet;
use weft_emulate::{Link, Packet};
use weft_lab::{LatenessLog, came};
use weft_scenario::{Direction, Scenario};

use crate::carrier::{Carrier, Rewrite, Taken};
use crate::ecn::WriteEcn;
use crate::report::{DirectionReport, Report};

/// How often interfaces are checked while nothing comes.
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
    /// The latest time that the links got: none of them gets an earlier one.
    told: Time,
    /// When packets that leave with the next flush should have left, and in which direction.
    due: Vec<(usize, Time)>,
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
            told: start,
            due: Vec::new(),
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
            // Without a packet it is about an interface, whose error stays until it is read.
            self.carrier.check()?;
        }
        let now = self.clock.now();
        self.put_out(now)?;
        self.carrier.flush()?;
        self.record();
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
        let Self { carrier, clock, ways, told, .. } = self;
        carrier.receive(|direction, packet, Taken { length, age }| {
            let way = &mut ways[index(direction)];
            way.bytes += length as u64;
            let Packet { bytes, ecn, tag } = packet;
            // It came when the kernel got it, not when it was read.
            *told = (*told).max(came(clock.now(), age));
            // An MTU that it has is a black hole (RFC 2923 section 2.1): there is nothing to tell.
            way.link.send_part(Packet { bytes, ecn, tag: (tag, length) }, length, *told);
        })
    }

    /// Packets that have come.
    fn packets(&self) -> u64 {
        self.ways.iter().map(|way| way.link.statistics().sent).sum()
    }

    fn put_out(&mut self, now: Time) -> io::Result<()> {
        self.told = self.told.max(now);
        for direction in Direction::ALL {
            let way = &mut self.ways[index(direction)];
            while let Some((due, packet)) = way.link.deliver_timed(now) {
                let Packet { mut bytes, ecn, tag: (tag, length) } = packet;
                let ip = bytes.get_mut(C::IP_AT..).unwrap_or_default();
                let changes = self.rewrites.iter_mut().map(|rewrite| rewrite.rewrite(ip, ecn));
                let is_changed = changes.fold(self.damages, |is_changed, changes| is_changed | changes);
                way.delivered_bytes += length as u64;
                self.carrier.put_out(direction, Packet { bytes, ecn, tag }, is_changed)?;
                self.due.push((index(direction), due));
            }
        }
        Ok(())
    }

    /// Notes how late those were that have left.
    fn record(&mut self) {
        if self.due.is_empty() {
            return;
        }
        let now = self.clock.now();
        for (way, due) in self.due.drain(..) {
            self.ways[way].lateness.record(now.since(due));
        }
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

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::net::{IpAddr, SocketAddr};
    use std::rc::Rc;

    use weft_base::{DatagramBatch, DatagramOptions, DatagramPort, Ecn, Network, Piece, Random};
    use weft_memory::{Limits, Registry};
    use weft_simulate::{Behaviour, World};

    use super::*;
    use crate::carrier::Losses;

    /// The time of a test.
    #[derive(Clone, Default)]
    struct Watch(Rc<Cell<u64>>);

    impl Clock for Watch {
        fn now(&self) -> Time {
            Time::from_nanos(self.0.get())
        }
    }

    /// Packets by their lengths, and when they came out.
    #[derive(Clone, Default)]
    struct Memory {
        watch: Watch,
        coming: Rc<RefCell<Vec<usize>>>,
        gone: Rc<RefCell<Vec<(u64, usize)>>>,
    }

    impl Carrier for Memory {
        type Tag = ();
        const IP_AT: usize = 0;

        fn receive(&mut self, mut take: impl FnMut(Direction, Packet<()>, Taken)) -> io::Result<bool> {
            for length in self.coming.borrow_mut().drain(..) {
                let mut bytes = vec![0; length];
                (bytes[0], bytes[1]) = (0x45, 2);
                take(
                    Direction::Forward,
                    Packet { bytes, ecn: Ecn::Capable0, tag: () },
                    Taken { length, age: Duration::ZERO },
                );
            }
            Ok(false)
        }

        fn put_out(&mut self, _: Direction, packet: Packet<()>, _: bool) -> io::Result<()> {
            self.gone.borrow_mut().push((self.watch.0.get(), packet.bytes.len() - HEADERS));
            Ok(())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn wait_in(&self, _: &WaitSet) -> io::Result<()> {
            Ok(())
        }

        fn check(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn losses(&self) -> Losses {
            Losses::default()
        }
    }

    /// Headers of IP and UDP.
    const HEADERS: usize = 28;
    const SCENARIO: &str = r#"
        seed = 11
        [both]
        delay = "3ms"
        normal = "1ms"
        correlation = 30
        loss = 5
        burst = 3
        reorder = 4
        duplicate = 2
        rate = "20M"
        codel = "1ms"
        codel-interval = "10ms"
        corrupt = 1
        [[step]]
        at = "0.2s"
        both.rate = "8M"
        both.overtake = true
        [[step]]
        at = "0.4s"
        forward.cut = true
        [[step]]
        at = "0.5s"
        forward = { cut = false, good-to-bad = 5, bad-to-good = 20, pareto = "2ms", trace = "x.trace" }
        reverse.delay = "9ms"
    "#;

    fn scenario() -> Scenario {
        Scenario::parse(SCENARIO, |_| Ok("1\n2\n2\n9\n".to_owned())).unwrap()
    }

    /// When packets are sent, and how long their payload is, by which they are known.
    fn sends() -> Vec<(u64, usize)> {
        let mut random = Random::new(5);
        let mut now = 0;
        let next = |number: usize| {
            now += random.below(1_000_000);
            (now, 100 + number)
        };
        (0..1300).map(next).collect()
    }

    /// What comes of them by the carrier of a real network.
    fn by_engine() -> Vec<(u64, usize)> {
        let memory = Memory::default();
        let watch = memory.watch.clone();
        let mut engine = Engine::new("memory", memory.clone(), watch.clone(), &scenario());
        let last = sends().last().unwrap().0 + 1_000_000_000;
        for (at, length) in sends().into_iter().map(|(at, length)| (at, Some(length))).chain([(last, None)]) {
            while watch.0.get() < at {
                let left = engine.work(false).unwrap().as_nanos() as u64;
                watch.0.set(at.min(watch.0.get() + left.max(1)));
            }
            // What is due by now comes out before the next one goes in, in both worlds.
            engine.work(false).unwrap();
            memory.coming.borrow_mut().extend(length.map(|length| length + HEADERS));
            engine.work(false).unwrap();
        }
        let report = engine.report();
        assert_eq!(report.forward.packets, 1300);
        let each = [
            report.forward.lost,
            report.forward.codel_dropped + report.forward.marked,
            report.forward.cut,
            report.forward.held_back,
            report.forward.duplicated,
            report.forward.corrupted,
        ];
        assert!(each.iter().all(|count| *count > 0), "{report}");
        assert_eq!(report.forward.lateness.max_ns, 0, "the clock of this test stops where something is due");
        drop(engine);
        memory.gone.take()
    }

    /// What comes of them in the simulator.
    fn by_simulator() -> Vec<(u64, usize)> {
        let world = World::new(1, Behaviour::default());
        let [a, b] = ["10.0.0.1:7000", "10.1.0.2:7000"].map(|text| text.parse::<SocketAddr>().unwrap());
        let mut ports = [a, b].map(|address| {
            let ips: [IpAddr; 1] = [address.ip()];
            let mut network = world.network(Registry::new(1, Limits::default()), &ips);
            network.bind(address, DatagramOptions { buffer_bytes: Some(8 << 20), ..Default::default() }).unwrap()
        });
        let start = world.now();
        world.set_scenario(a.ip(), b.ip(), &scenario());
        let mut came = Vec::new();
        let (mut buffer, mut received) = (vec![0; 200_000], Vec::new());
        let last = sends().last().unwrap().0 + 1_000_000_000;
        for (at, length) in sends().into_iter().map(|(at, length)| (at, Some(length))).chain([(last, None)]) {
            let until = start + Duration::from_nanos(at);
            while world.now() < until {
                world.advance(until.since(world.now()));
                let now = world.now().since(start).as_nanos() as u64;
                while ports[1].receive(&mut buffer, &mut received).unwrap() > 0 {
                    for run in received.drain(..) {
                        let lengths = buffer[run.range].chunks(run.segment_size as usize).map(<[u8]>::len);
                        came.extend(lengths.map(|length| (now, length)));
                    }
                }
            }
            if let Some(length) = length {
                let batch = DatagramBatch { to: b.into(), from: None, segment_size: 2000, ecn: Ecn::Capable0 };
                ports[0].send(&batch, &[Piece::Bytes(&vec![0; length])]).unwrap();
            }
        }
        came
    }

    #[test]
    fn the_simulator_does_the_same_to_the_same_packets() {
        let (engine, simulator) = (by_engine(), by_simulator());
        assert!(engine.len() > 500, "{}", engine.len());
        assert_eq!(engine, simulator);
        assert_eq!(engine, by_engine(), "and again");
    }
}
