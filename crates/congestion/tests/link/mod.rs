//! Flows over one bottleneck, in virtual time: a rate, a queue, a delay, loss and disorder behind it.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::BinaryHeap;

use weft_base::{Random, Time};
use weft_congestion::{
    Algorithm, Controller, ControllerSettings, Coupling, Fate, Feedback, Pacer, RoundTripSettings, SentPackets, Timeout,
};

/// Bytes of a packet.
pub(crate) const PACKET: u64 = 1200;

/// What leaves together, at most.
const BURST: Duration = Duration::from_micros(250);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) bytes_per_s: u64,
    pub(crate) round_trip: Duration,
    pub(crate) queue_bytes: u64,
    /// Packets in 1000 that are lost behind the queue.
    pub(crate) lost_per_mille: u64,
    /// Packets in 1000 that come late by half a round trip.
    pub(crate) late_per_mille: u64,
}

impl Link {
    /// What it holds without a queue.
    pub(crate) fn product(&self) -> u64 {
        self.bytes_per_s * self.round_trip.as_micros() as u64 / 1_000_000
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Packet(usize, u64),
    Ack(usize, Vec<(u64, u64)>),
}

/// Counts what is delivered once.
#[derive(Default)]
struct Goodput {
    packets: u64,
}

impl Fate<()> for Goodput {
    fn acked(&mut self, _: u64, (): ()) {
        self.packets += 1;
    }

    fn lost(&mut self, _: u64, (): &mut ()) {}

    /// What it carried was sent again.
    fn late(&mut self, _: u64, (): ()) {}
}

struct Flow {
    sent: SentPackets<()>,
    controller: Controller,
    pacer: Pacer,
    goodput: Goodput,
    was_full: bool,
    probe: bool,
    paced_until: Option<Time>,
    /// When it begins, and how much longer its round trip is than the link's.
    begins: Time,
    farther: Duration,
    /// What the receiver has, from low to high, and packets that are not acknowledged.
    received: Vec<(u64, u64)>,
    unacknowledged: u32,
}

impl Flow {
    fn new(algorithm: Algorithm) -> Self {
        let settings = ControllerSettings { datagram: PACKET as u32, ..ControllerSettings::default() };
        Self {
            sent: SentPackets::new(0, 1 << 14, RoundTripSettings::default()),
            controller: Controller::new(algorithm, settings),
            pacer: Pacer::default(),
            goodput: Goodput::default(),
            was_full: false,
            probe: false,
            paced_until: None,
            begins: Time::ZERO,
            farther: Duration::ZERO,
            received: vec![],
            unacknowledged: 0,
        }
    }

    /// The number of the next packet, if one may leave.
    fn next_packet(&mut self, now: Time) -> Option<u64> {
        self.paced_until = None;
        if !self.sent.has_room() {
            return None;
        }
        if self.sent.in_flight() + PACKET > self.controller.window() && !self.probe {
            self.was_full = true;
            return None;
        }
        let free_at = self.pacer.free_at(BURST);
        if free_at > now && !self.probe {
            self.paced_until = Some(free_at);
            return None;
        }
        let number = self.sent.next_number();
        self.probe = false;
        self.sent.on_sent(number, PACKET as u32, false, (), now).unwrap();
        if self.sent.round_trip().is_known() {
            let round_trip = self.sent.round_trip().smoothed();
            self.pacer.on_sent(PACKET, self.controller.window(), round_trip, now);
        }
        Some(number)
    }

    fn wakes_at(&self) -> Option<Time> {
        let timeout = self.sent.next_timeout();
        let begins = (self.sent.next_number() == 0).then_some(self.begins);
        timeout.into_iter().chain(self.paced_until).chain(begins).min()
    }

    fn wake(&mut self, now: Time) {
        if self.sent.next_number() == 0 {
            return;
        }
        match self.sent.on_timeout(now, &mut self.goodput) {
            Timeout::Early => {}
            Timeout::Losses(feedback) => self.learn(&feedback),
            Timeout::Probe { .. } => self.probe = true,
        }
    }

    fn learn(&mut self, feedback: &Feedback) {
        self.controller.on_feedback(feedback, self.was_full);
        self.was_full = false;
    }

    fn on_ack(&mut self, ranges: &[(u64, u64)], now: Time) {
        let ranges = ranges.iter().rev().map(|(low, high)| *low..=*high);
        let feedback = self.sent.on_ack(ranges, Duration::ZERO, now, &mut self.goodput).unwrap();
        self.learn(&feedback);
    }

    /// A packet has arrived: the acknowledgement, if there is one.
    fn receive(&mut self, number: u64) -> Option<Vec<(u64, u64)>> {
        let in_order = self.received.last().is_none_or(|(_, high)| number == high + 1);
        let at = self.received.partition_point(|(_, high)| *high < number);
        self.received.insert(at, (number, number));
        for index in [at + 1, at] {
            if index > 0 && index < self.received.len() && self.received[index - 1].1 + 1 == self.received[index].0 {
                self.received[index - 1].1 = self.received.remove(index).1;
            }
        }
        if self.received.len() > 32 {
            self.received.remove(0);
        }
        self.unacknowledged += 1;
        let is_due = !in_order || self.unacknowledged >= 2 || self.sent.in_flight_packets() <= 4;
        is_due.then(|| {
            self.unacknowledged = 0;
            self.received.clone()
        })
    }
}

/// Bytes per second that each flow has delivered in `time`, after `warm_up`.
pub(crate) fn run(link: Link, algorithms: &[Algorithm], warm_up: Duration, time: Duration, seed: u64) -> Vec<u64> {
    run_coupled(link, algorithms, 0, warm_up, time, seed)
}

/// The same; so many of the flows, the first ones, grow together as one.
pub(crate) fn run_coupled(
    link: Link,
    algorithms: &[Algorithm],
    coupled: usize,
    warm_up: Duration,
    time: Duration,
    seed: u64,
) -> Vec<u64> {
    let flows = algorithms.iter().map(|algorithm| Flow::new(*algorithm)).collect();
    run_flows(link, flows, coupled, warm_up, time, seed)
}

/// The same of flows that begin at a time of their own, each with a round trip that is longer than the link's by so
/// much.
pub(crate) fn run_unlike(
    link: Link,
    flows: &[(Algorithm, Duration, Duration)],
    warm_up: Duration,
    time: Duration,
) -> Vec<u64> {
    let flow = |(algorithm, begins, farther): &(Algorithm, Duration, Duration)| Flow {
        begins: Time::ZERO + *begins,
        farther: *farther,
        ..Flow::new(*algorithm)
    };
    run_flows(link, flows.iter().map(flow).collect(), 0, warm_up, time, 7)
}

fn run_flows(link: Link, flows: Vec<Flow>, coupled: usize, warm_up: Duration, time: Duration, seed: u64) -> Vec<u64> {
    let mut world = World {
        link,
        coupled,
        flows,
        events: BinaryHeap::new(),
        order: 0,
        busy_until: Time::ZERO,
        random: Random::new(seed),
    };
    let begin = Time::ZERO + warm_up;
    world.run_until(begin);
    let before = world.flows.iter().map(|flow| flow.goodput.packets).collect::<Vec<_>>();
    world.run_until(begin + time);
    let packets = world.flows.iter().zip(before).map(|(flow, before)| flow.goodput.packets - before);
    packets.map(|packets| packets * PACKET * 1000 / time.as_millis() as u64).collect()
}

struct World {
    link: Link,
    coupled: usize,
    flows: Vec<Flow>,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    order: u64,
    busy_until: Time,
    random: Random,
}

impl World {
    fn run_until(&mut self, end: Time) {
        loop {
            let wake = (0..self.flows.len()).filter_map(|flow| Some((self.flows[flow].wakes_at()?, flow))).min();
            let event = self.events.peek().map(|Reverse((at, ..))| *at);
            match (wake, event) {
                (Some((at, flow)), event) if event.is_none_or(|event| at < event) => {
                    if at > end {
                        return;
                    }
                    self.couple(flow);
                    self.flows[flow].wake(at);
                    self.send(flow, at);
                }
                (_, Some(at)) if at <= end => self.next_event(),
                _ => return,
            }
        }
    }

    /// A flow is about to learn something.
    fn couple(&mut self, flow: usize) {
        if flow < self.coupled {
            let flows = self.flows[..self.coupled].iter();
            let coupling =
                Coupling::of(flows.map(|flow| (flow.controller.window(), flow.sent.round_trip().smoothed())));
            self.flows[flow].controller.set_coupling(coupling);
        }
    }

    fn next_event(&mut self) {
        let Some(Reverse((now, _, event))) = self.events.pop() else { return };
        match event {
            Event::Packet(flow, number) => {
                if let Some(ranges) = self.flows[flow].receive(number) {
                    self.push(now + (self.link.round_trip + self.flows[flow].farther) / 2, Event::Ack(flow, ranges));
                }
            }
            Event::Ack(flow, ranges) => {
                self.couple(flow);
                self.flows[flow].on_ack(&ranges, now);
                self.send(flow, now);
            }
        }
    }

    fn push(&mut self, at: Time, event: Event) {
        self.order += 1;
        self.events.push(Reverse((at, self.order, event)));
    }

    fn send(&mut self, flow: usize, now: Time) {
        while let Some(number) = self.flows[flow].next_packet(now) {
            let waits = self.busy_until.since(now);
            let queued = waits.as_nanos() as u64 * self.link.bytes_per_s / 1_000_000_000;
            if queued + PACKET > self.link.queue_bytes {
                continue;
            }
            let takes = Duration::from_nanos(PACKET * 1_000_000_000 / self.link.bytes_per_s);
            self.busy_until = self.busy_until.max(now) + takes;
            let lost = self.random.below(1000) < self.link.lost_per_mille;
            let late = self.random.below(1000) < self.link.late_per_mille;
            if !lost {
                let half = (self.link.round_trip + self.flows[flow].farther) / 2;
                let delay = if late { half * 2 } else { half };
                self.push(self.busy_until + delay, Event::Packet(flow, number));
            }
        }
    }
}
