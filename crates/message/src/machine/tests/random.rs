//! Many things at a time, from a seed.

use std::collections::HashMap;
use std::time::Duration;

use weft_base::{PeerId, Random, Time};

use super::model::{Message, Model, same};
use super::world::{Joint, Node, World};
use crate::host::Ticket;
use crate::matching::Match;
use crate::settings::Settings;

struct Run {
    world: World,
    model: Model,
    random: Random,
    nodes: usize,
    claims: Vec<(usize, u64, Message)>,
    next_claim: u64,
    calls: HashMap<u64, Vec<u8>>,
    next_call: u64,
}

/// The parameters of a test.
#[derive(Clone, Copy)]
struct Course {
    nodes: usize,
    cuts: bool,
    idle: bool,
}

fn settings(random: &mut Random, course: Course) -> Settings {
    let packet_bytes = 256 + random.below(600) as u32;
    Settings {
        packet_bytes,
        short_bytes: 16 + random.below(u64::from(packet_bytes) - Settings::PACKET_OVERHEAD as u64) as u32 / 2,
        stream_bytes: random.below(1500),
        alone_bytes: random.below(1500),
        far_bytes: random.below(3000),
        eager_bytes: 400 + random.below(1500),
        fragment_bytes: 1 + random.below(900),
        fragments_under_way: 1 + random.below(4) as u16,
        data_credits: 1 + random.below(5) as u16,
        extra_credits: random.below(20) as u32,
        control_credits: 1 + random.below(3) as u16,
        unexpected_bytes: random.below(6000),
        unexpected_messages: random.below(20) as u32,
        idle_timeout: course.idle.then(|| Duration::from_nanos(1 + random.below(300))),
    }
}

impl Run {
    fn new(seed: u64, course: Course) -> Self {
        let mut random = Random::new(seed);
        let settings: Vec<_> = (0..course.nodes).map(|_| settings(&mut random, course)).collect();
        let mut world = World::new(&settings);
        world.watch_arrivals = true;
        world.round_trip = Duration::from_millis(random.below(3));
        for node in &mut world.nodes {
            node.host.most_buffers = if random.one_in(3) { 1 } else { 1000 };
        }
        Self {
            world,
            model: Model::new(course.nodes),
            random,
            nodes: course.nodes,
            claims: Vec::new(),
            next_claim: 0,
            calls: HashMap::new(),
            next_call: 0,
        }
    }

    fn two(&mut self) -> (usize, usize) {
        let a = self.random.below(self.nodes as u64) as usize;
        let b = (a + 1 + self.random.below(self.nodes as u64 - 1) as usize) % self.nodes;
        (a, b)
    }

    fn tag(&mut self) -> Option<u64> {
        (!self.random.one_in(5)).then(|| self.random.below(4))
    }

    fn length(&mut self) -> u64 {
        match self.random.below(8) {
            0 => 0,
            1..=4 => self.random.below(100),
            5 => self.random.below(600),
            6 => self.random.below(2000),
            _ => self.random.below(5000),
        }
    }

    fn pattern(&mut self, other: usize) -> (Option<usize>, Option<Match>) {
        let source = (!self.random.one_in(3)).then_some(other);
        let ignore = match self.random.below(5) {
            0 => u64::MAX,
            1 => 1,
            _ => 0,
        };
        (source, self.tag().map(|tag| Match { tag, ignore }))
    }

    fn step(&mut self, course: Course) {
        let (a, b) = self.two();
        match self.random.below(40) {
            0..=5 => self.send(a, b),
            6..=11 => self.receive(a, b),
            12 => self.claim(a, b),
            13 => self.end_claim(),
            14 => self.cancel(a),
            15 => self.call(a, b),
            16 => self.answer(a),
            17..=18 => self.settle_joint(),
            19 if course.cuts && self.random.one_in(8) => self.cut(),
            20 if course.idle => self.pass_time(a),
            20..=25 => {
                self.world.transmit(a);
            }
            26..=28 => {
                self.world.report_write(a);
            }
            _ => {
                self.world.deliver(a, b);
            }
        }
        self.model.observe(&mut self.world);
        self.check_answers();
    }

    fn send(&mut self, from: usize, to: usize) {
        let (tag, length, delivery) = (self.tag(), self.length(), self.random.one_in(3));
        let number = self.world.send(from, to, tag, length, delivery);
        self.model.send(number, from, to, tag, length, delivery);
    }

    fn receive(&mut self, at: usize, other: usize) {
        let (source, matching) = self.pattern(other);
        let many = self.random.one_in(4).then(|| self.random.below(300));
        let length = self.length();
        let number = self.world.receive(at, source, matching, length, many);
        self.model.receive(at, number, source, matching, length, many);
    }

    fn claim(&mut self, at: usize, other: usize) {
        let (source, matching) = self.pattern(other);
        let peer = source.map(|source| PeerId(source as u32));
        let expected = self.model.peek(at, source, matching).cloned();
        let Node { machine, host } = &mut self.world.nodes[at];
        same(machine.peek(peer, matching, None), expected.as_ref());
        if self.random.one_in(3) {
            same(machine.discard(peer, matching, host), expected.as_ref());
            if let Some(message) = expected {
                self.model.claim(at, message.number);
                self.model.throw_away(message.number);
            }
        } else {
            self.next_claim += 1;
            same(machine.peek(peer, matching, Some(self.next_claim)), expected.as_ref());
            if let Some(message) = expected {
                self.model.claim(at, message.number);
                self.claims.push((at, self.next_claim, message));
            }
        }
        self.world.flush(at);
    }

    fn end_claim(&mut self) {
        if self.claims.is_empty() {
            return;
        }
        let index = self.random.below(self.claims.len() as u64) as usize;
        let (at, claim, message) = self.claims.swap_remove(index);
        if self.random.one_in(3) {
            let Node { machine, host } = &mut self.world.nodes[at];
            assert!(machine.discard_claimed(claim, host).is_some());
            self.model.throw_away(message.number);
        } else {
            let length = self.length();
            let post = self.world.receive_post(None, None, length, None);
            self.model.receive_claimed(at, post.user.number, length, &message);
            let Node { machine, host } = &mut self.world.nodes[at];
            assert!(machine.receive_claimed(claim, post, host).is_ok());
            let again = self.world.receive_post(None, None, 0, None);
            let Node { machine, host } = &mut self.world.nodes[at];
            assert!(machine.receive_claimed(claim, again, host).is_err());
        }
        self.world.flush(at);
    }

    fn cancel(&mut self, at: usize) {
        let Node { machine, host } = &mut self.world.nodes[at];
        if self.random.one_in(2) {
            let posted = self.model.posted(at);
            if let Some(oldest) = posted.get(self.random.below(posted.len().max(1) as u64) as usize) {
                let wanted = oldest.number;
                assert!(machine.cancel_receive(|user| user.number == wanted, host));
                assert!(self.model.cancel_receive(at, wanted));
            }
        } else {
            let mut seen = 0;
            let least = self.random.below(1000);
            if machine.cancel_send(
                |user| {
                    let fits = user.number >= least;
                    seen = if fits && (seen == 0 || user.number < seen) { user.number } else { seen };
                    fits
                },
                host,
            ) {
                self.model.cancel_send(seen);
            }
        }
        self.world.flush(at);
    }

    fn call(&mut self, from: usize, to: usize) {
        self.next_call += 1;
        let mut body = vec![0; self.random.below(60) as usize];
        self.random.fill(&mut body);
        let Node { machine, host } = &mut self.world.nodes[from];
        machine.call(PeerId(to as u32), Ticket(self.next_call), &body, host);
        self.calls.insert(self.next_call, body);
        self.world.flush(from);
    }

    fn answer(&mut self, at: usize) {
        let Node { machine, host } = &mut self.world.nodes[at];
        if let Some((_, call, mut body)) = host.called.pop() {
            body.reverse();
            machine.answer(call, &body, host);
        }
    }

    fn check_answers(&mut self) {
        for node in &mut self.world.nodes {
            for (ticket, answer) in core::mem::take(&mut node.host.answers) {
                let mut body = self.calls.remove(&ticket.0).expect("answered once");
                body.reverse();
                assert!(answer.is_err() || answer == Ok(body));
            }
        }
    }

    fn settle_joint(&mut self) {
        let unsettled = self.world.unsettled();
        if let Some((pair, joint)) = unsettled.get(self.random.below(unsettled.len().max(1) as u64) as usize) {
            self.world.settle_joint(*pair, *joint);
        }
    }

    fn cut(&mut self) {
        let (a, b) = self.two();
        let joint = self.world.joints.get(&(a.min(b), a.max(b))).copied();
        if matches!(joint, Some(Joint::Joined | Joint::Connecting)) {
            self.world.cut(a, b);
        }
    }

    fn pass_time(&mut self, at: usize) {
        self.world.now = self.world.now + Duration::from_nanos(self.random.below(200));
        let now = self.world.now;
        let Node { machine, host } = &mut self.world.nodes[at];
        let next = machine.handle_time(now, host);
        assert!(next.is_none_or(|next| next > now));
        self.world.flush(at);
    }

    fn check_bounds(&self, course: Course) {
        for node in &self.world.nodes {
            let settings = node.machine.settings();
            let budget = &node.machine.budget;
            assert!(budget.used() <= settings.unexpected_bytes && budget.beyond() <= settings.unexpected_bytes);
            assert!(budget.taken() <= settings.unexpected_messages as usize);
            let extra = node.machine.extra_credits;
            assert!(extra <= settings.extra_credits);
            let most = usize::from(settings.data_credits) * (self.nodes - 1) + extra as usize;
            assert!(node.machine.packets.len() <= most);
            let mut held = node.machine.incoming.values().flat_map(|incoming| &incoming.packets);
            assert!(course.cuts || held.all(|packet| node.machine.packets.contains_key(*packet)));
        }
    }

    /// The applications receive everything, and then nothing may be left.
    fn finish(&mut self, course: Course) {
        for _ in 0..10_000 {
            self.world.settle();
            self.model.observe(&mut self.world);
            let mut quiet = true;
            for at in 0..self.nodes {
                while !self.world.nodes[at].host.called.is_empty() {
                    self.answer(at);
                    quiet = false;
                }
                while let Some(message) = self.model.unexpected(at).first().cloned() {
                    let matching = message.tag.map(|tag| Match { tag, ignore: 0 });
                    let number = self.world.receive(at, None, matching, message.length, None);
                    self.model.receive(at, number, None, matching, message.length, None);
                    self.model.observe(&mut self.world);
                    quiet = false;
                }
            }
            while !self.claims.is_empty() {
                self.end_claim();
                quiet = false;
            }
            self.check_answers();
            if quiet {
                break;
            }
        }
        for at in 0..self.nodes {
            for posted in self.model.posted(at) {
                let Node { machine, host } = &mut self.world.nodes[at];
                assert!(machine.cancel_receive(|user| user.number == posted.number, host));
                self.model.cancel_receive(at, posted.number);
            }
        }
        self.model.observe(&mut self.world);
        self.model.forgive(course.cuts);
        self.model.finish();
        assert!(self.calls.is_empty(), "calls were not answered");
        for node in &self.world.nodes {
            let machine = &node.machine;
            assert!(machine.incoming.is_empty() && machine.outgoing.is_empty() && machine.receives.is_empty());
            assert!(machine.packets.is_empty() && machine.called.is_empty() && machine.calls.is_empty());
            assert!((0..self.nodes).all(|peer| !machine.is_busy(PeerId(peer as u32))));
            assert_eq!((machine.budget.used(), node.host.exposed(), node.host.buffers()), (0, 0, 0));
            assert_eq!((machine.budget.beyond(), machine.budget.taken(), machine.budget.is_scarce()), (0, 0, false));
        }
    }
}

fn run(seed: u64, course: Course) -> Time {
    let mut run = Run::new(seed, course);
    for _ in 0..600 {
        run.step(course);
        run.check_bounds(course);
    }
    run.finish(course);
    run.world.now
}

fn run_all(course: Course) {
    let from = std::env::var("WEFT_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = from.map_or(0..400, |seed| seed..seed + 1);
    for seed in seeds {
        let result = std::panic::catch_unwind(|| run(seed, course));
        assert!(result.is_ok(), "seed {seed}");
    }
}

#[test]
fn two_of_them() {
    run_all(Course { nodes: 2, cuts: false, idle: false });
}

#[test]
fn three_of_them() {
    run_all(Course { nodes: 3, cuts: false, idle: false });
}

#[test]
fn three_that_lose_each_other() {
    run_all(Course { nodes: 3, cuts: true, idle: false });
}

#[test]
fn two_that_close_when_idle() {
    run_all(Course { nodes: 2, cuts: false, idle: true });
}

#[test]
fn three_with_everything() {
    run_all(Course { nodes: 3, cuts: true, idle: true });
}
