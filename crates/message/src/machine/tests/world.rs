//! Machines joined by in-memory streams that keep the order, with all their packets checked.

use core::time::Duration;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use weft_base::{PeerId, Random, Stag, Time};
use weft_wire::message::{PACKET_HEADER_LENGTH, Record};

use crate::host::{BufferId, CallId, Failure, Host, Parts, Received, RemotePart, Ticket};
use crate::machine::{Machine, Receive, Send, Terms};
use crate::matching::Match;
use crate::settings::Settings;

pub(super) type Memory = Rc<RefCell<Vec<u8>>>;

/// The bytes of a message.
pub(super) fn content(number: u64, length: u64) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    Random::new(number).fill(&mut bytes);
    bytes
}

/// An operation of one side on a stream.
#[derive(Debug)]
pub(super) enum Item {
    Packet(Vec<u8>),
    Write { stag: Stag, offset: u64, bytes: Vec<u8> },
    ReadRequest { ticket: Ticket, stag: Stag, offset: u64, length: u64, sink: Memory, at: u64 },
    ReadResponse { ticket: Ticket, bytes: Vec<u8>, sink: Memory, at: u64 },
}

pub(super) struct SendUser {
    pub(super) number: u64,
    pub(super) memory: Memory,
    stags: Vec<Stag>,
    announced: bool,
}

pub(super) struct ReceiveUser {
    pub(super) number: u64,
    pub(super) memory: Memory,
    /// Exposed regions, with the requested offsets.
    stags: Vec<(u64, Stag)>,
}

/// The callbacks of a host.
#[derive(Debug, PartialEq)]
pub(super) enum Report {
    Sent { number: u64, outcome: Result<(), Failure> },
    Received { number: u64, what: Option<Received>, outcome: Result<(), Failure>, last: bool, bytes: Vec<u8> },
}

#[derive(Default)]
pub(super) struct TestHost {
    pub(super) reports: Vec<Report>,
    pub(super) answers: Vec<(Ticket, Result<Vec<u8>, Failure>)>,
    pub(super) connects: Vec<PeerId>,
    pub(super) disconnects: Vec<PeerId>,
    /// Peers that more packets may come from, once there is room for them.
    rooms: Vec<PeerId>,
    /// There is none.
    pub(super) refuse_rooms: bool,
    pub(super) items: Vec<(PeerId, Item)>,
    /// Writes that have not been reported.
    pub(super) written: Vec<(PeerId, Ticket)>,
    pub(super) called: Vec<(PeerId, CallId, Vec<u8>)>,
    regions: HashMap<Stag, (Memory, u64, u64)>,
    buffers: HashMap<BufferId, (Stag, Memory)>,
    pub(super) most_buffers: usize,
    next: u32,
    pub(super) refuse_sinks: bool,
    pub(super) refuse_sources: bool,
    /// Sources may be exposed only while fewer than this are.
    pub(super) most_sources: Option<usize>,
    /// Sends that were announced and have not completed.
    pub(super) announced: usize,
}

impl TestHost {
    /// Two stags, for memory in two parts, when it is long.
    fn expose(&mut self, memory: &Memory, offset: u64, length: u64) -> (Parts, Vec<Stag>) {
        let first = if length > 1000 { length / 3 } else { length };
        let mut parts = Parts::new();
        for (from, length) in [(offset, first), (offset + first, length - first)] {
            if length > 0 {
                self.next += 1;
                let stag = Stag(self.next);
                self.regions.insert(stag, (memory.clone(), from, length));
                parts.push(RemotePart { stag, offset: 1 << 40, length });
            }
        }
        let stags = parts.iter().map(|part| part.stag).collect();
        (parts, stags)
    }

    fn conceal(&mut self, stags: impl IntoIterator<Item = Stag>) {
        for stag in stags {
            assert!(self.regions.remove(&stag).is_some());
        }
    }

    pub(super) fn exposed(&self) -> usize {
        self.regions.len() - self.buffers.len()
    }

    pub(super) fn buffers(&self) -> usize {
        self.buffers.len()
    }

    fn locate(&self, stag: Stag, offset: u64, length: u64) -> (&Memory, usize) {
        let (memory, from, size) = self.regions.get(&stag).expect("a region that is exposed");
        let offset = offset - (1 << 40);
        assert!(offset + length <= *size, "beyond the region");
        (memory, (from + offset) as usize)
    }
}

impl Host for TestHost {
    type Send = SendUser;
    type Receive = ReceiveUser;

    fn connect(&mut self, peer: PeerId) {
        self.connects.push(peer);
    }

    fn disconnect(&mut self, peer: PeerId) {
        self.disconnects.push(peer);
    }

    fn make_room(&mut self, peer: PeerId, packets: u16) {
        assert!(packets > 0);
        self.rooms.push(peer);
    }

    fn fetch(&mut self, send: &SendUser, offset: u64, out: &mut [u8]) {
        let offset = offset as usize;
        out.copy_from_slice(&send.memory.borrow()[offset..offset + out.len()]);
    }

    fn place(&mut self, receive: &mut ReceiveUser, offset: u64, bytes: &[u8]) {
        let offset = offset as usize;
        receive.memory.borrow_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn expose_source(&mut self, _: PeerId, send: &mut SendUser) -> Result<Parts, Failure> {
        if self.refuse_sources {
            return Err(Failure::NoMemory);
        }
        if self.most_sources.is_some_and(|most| self.exposed() >= most) {
            return Ok(Parts::new());
        }
        let length = send.memory.borrow().len() as u64;
        let (parts, stags) = self.expose(&send.memory.clone(), 0, length);
        send.stags.extend(stags);
        Ok(parts)
    }

    fn conceal_source(&mut self, send: &mut SendUser) {
        self.conceal(send.stags.drain(..));
    }

    fn expose_sink(
        &mut self,
        _: PeerId,
        receive: &mut ReceiveUser,
        offset: u64,
        length: u64,
    ) -> Result<Parts, Failure> {
        assert!(length > 0 && offset + length <= receive.memory.borrow().len() as u64);
        if self.refuse_sinks {
            return Err(Failure::NoMemory);
        }
        let (parts, stags) = self.expose(&receive.memory.clone(), offset, length);
        assert!(receive.stags.iter().all(|(known, _)| *known != offset), "exposed twice");
        receive.stags.extend(stags.into_iter().map(|stag| (offset, stag)));
        Ok(parts)
    }

    fn conceal_sink(&mut self, receive: &mut ReceiveUser, offset: u64) {
        let of_it = |(known, _): &(u64, Stag)| *known == offset;
        assert!(receive.stags.iter().any(of_it), "it was not exposed");
        self.conceal(receive.stags.extract_if(.., |entry| of_it(entry)).map(|(_, stag)| stag));
    }

    fn read(&mut self, peer: PeerId, ticket: Ticket, receive: &mut ReceiveUser, offset: u64, source: RemotePart) {
        let RemotePart { stag, offset: from, length } = source;
        assert!(offset + length <= receive.memory.borrow().len() as u64);
        let sink = receive.memory.clone();
        self.items.push((peer, Item::ReadRequest { ticket, stag, offset: from, length, sink, at: offset }));
    }

    fn write(&mut self, peer: PeerId, ticket: Ticket, send: &mut SendUser, offset: u64, sink: RemotePart) {
        let (from, to) = (offset as usize, (offset + sink.length) as usize);
        let bytes = send.memory.borrow()[from..to].to_vec();
        self.items.push((peer, Item::Write { stag: sink.stag, offset: sink.offset, bytes }));
        self.written.push((peer, ticket));
    }

    fn allocate(&mut self, _: PeerId, length: u64) -> Option<(BufferId, RemotePart)> {
        if self.buffers.len() >= self.most_buffers {
            return None;
        }
        self.next += 1;
        let (stag, id) = (Stag(self.next), BufferId(u64::from(self.next)));
        let memory = Rc::new(RefCell::new(vec![0xa5; length as usize]));
        self.regions.insert(stag, (memory.clone(), 0, length));
        self.buffers.insert(id, (stag, memory));
        Some((id, RemotePart { stag, offset: 1 << 40, length }))
    }

    fn unload(&mut self, buffer: BufferId, receive: &mut ReceiveUser, offset: u64, length: u64) {
        let bytes = self.buffers[&buffer].1.borrow()[..length as usize].to_vec();
        self.place(receive, offset, &bytes);
    }

    fn free(&mut self, buffer: BufferId) {
        let (stag, _) = self.buffers.remove(&buffer).expect("a buffer that is in use");
        self.regions.remove(&stag);
    }

    fn announced(&mut self, send: &mut SendUser) {
        assert!(!core::mem::replace(&mut send.announced, true), "twice");
        self.announced += 1;
    }

    fn sent(&mut self, mut send: SendUser, outcome: Result<(), Failure>) {
        self.conceal(send.stags.drain(..));
        self.announced -= usize::from(send.announced);
        self.reports.push(Report::Sent { number: send.number, outcome });
    }

    fn received(
        &mut self,
        receive: &mut ReceiveUser,
        what: Option<Received>,
        outcome: Result<(), Failure>,
        last: bool,
    ) {
        if last {
            self.conceal(receive.stags.drain(..).map(|(_, stag)| stag));
        }
        let range = what.map_or(0..0, |what| what.offset as usize..(what.offset + what.length) as usize);
        let bytes = receive.memory.borrow()[range].to_vec();
        self.reports.push(Report::Received { number: receive.number, what, outcome, last, bytes });
    }

    fn called(&mut self, peer: PeerId, call: CallId, body: &[u8]) {
        self.called.push((peer, call, body.to_vec()));
    }

    fn answered(&mut self, ticket: Ticket, answer: Result<&[u8], Failure>) {
        self.answers.push((ticket, answer.map(<[u8]>::to_vec)));
    }
}

pub(super) struct Node {
    pub(super) machine: Machine<TestHost>,
    pub(super) host: TestHost,
}

/// The connection of two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joint {
    Apart,
    Connecting,
    Joined,
    /// This one of the two does not know yet that the connection is lost.
    Half(usize, bool),
}

/// An event between the machines.
pub(super) enum Seen {
    Record { from: usize, to: usize, record: Record },
    Lost { at: usize, other: usize, abrupt: bool },
}

pub(super) struct World {
    pub(super) nodes: Vec<Node>,
    pub(super) joints: HashMap<(usize, usize), Joint>,
    pub(super) streams: HashMap<(usize, usize), VecDeque<Item>>,
    pub(super) now: Time,
    /// What machines are told of a new connection.
    pub(super) round_trip: Duration,
    pub(super) seen: Vec<Seen>,
    pub(super) watch_arrivals: bool,
    pub(super) packets: usize,
    pub(super) credit_packets: HashMap<(usize, usize), usize>,
    next_number: u64,
    /// Connections requested while the old one was not closed.
    wanted: HashSet<(usize, usize)>,
}

fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

impl World {
    pub(super) fn new(settings: &[Settings]) -> Self {
        let node = |settings: &Settings| Node {
            machine: Machine::new(settings.clone(), 5),
            host: TestHost { most_buffers: usize::MAX, ..TestHost::default() },
        };
        Self {
            nodes: settings.iter().map(node).collect(),
            joints: HashMap::new(),
            streams: HashMap::new(),
            now: Time::ZERO,
            round_trip: Duration::ZERO,
            seen: Vec::new(),
            watch_arrivals: false,
            packets: 0,
            credit_packets: HashMap::new(),
            next_number: 0,
            wanted: HashSet::new(),
        }
    }

    pub(super) fn pair(settings: &Settings) -> Self {
        Self::new(&[settings.clone(), settings.clone()])
    }

    fn terms(&self, node: usize) -> Terms {
        let settings = self.nodes[node].machine.settings();
        Terms {
            packet_bytes: settings.packet_bytes,
            data_credits: settings.data_credits,
            control_credits: settings.control_credits,
        }
    }

    pub(super) fn send(&mut self, from: usize, to: usize, tag: Option<u64>, length: u64, delivery: bool) -> u64 {
        self.next_number += 1;
        let number = self.next_number;
        let memory = Rc::new(RefCell::new(content(number, length)));
        let user = SendUser { number, memory, stags: Vec::new(), announced: false };
        let peer = PeerId(to as u32);
        let Node { machine, host } = &mut self.nodes[from];
        machine.send(Send { peer, tag, data: Some(number), length, delivery, user }, host);
        self.flush(from);
        number
    }

    pub(super) fn receive_post(
        &mut self,
        source: Option<usize>,
        matching: Option<Match>,
        length: u64,
        many: Option<u64>,
    ) -> Receive<ReceiveUser> {
        self.next_number += 1;
        let memory = Rc::new(RefCell::new(vec![0xa5; length as usize]));
        let user = ReceiveUser { number: self.next_number, memory, stags: Vec::new() };
        Receive { source: source.map(|source| PeerId(source as u32)), matching, length, many, user }
    }

    pub(super) fn receive(
        &mut self,
        at: usize,
        source: Option<usize>,
        matching: Option<Match>,
        length: u64,
        many: Option<u64>,
    ) -> u64 {
        let post = self.receive_post(source, matching, length, many);
        let number = post.user.number;
        let Node { machine, host } = &mut self.nodes[at];
        machine.receive(post, host);
        self.flush(at);
        number
    }

    /// Puts a node's operations into its streams.
    pub(super) fn flush(&mut self, at: usize) {
        let Node { machine, host } = &mut self.nodes[at];
        for peer in host.rooms.drain(..) {
            machine.handle_room(peer, !host.refuse_rooms);
        }
        for (peer, item) in host.items.drain(..) {
            let to = peer.0 as usize;
            if self.joints.get(&pair(at, to)) == Some(&Joint::Joined) {
                self.streams.entry((at, to)).or_default().push_back(item);
            }
        }
        let connects = core::mem::take(&mut host.connects);
        for peer in core::mem::take(&mut host.disconnects) {
            let to = peer.0 as usize;
            self.nodes[at].host.written.retain(|(other, _)| *other != peer);
            self.drop_stream(to, at);
            match self.joints[&pair(at, to)] {
                Joint::Joined => {
                    self.joints.insert(pair(at, to), Joint::Half(to, false));
                }
                Joint::Half(late, _) if late == at => self.end(at, to),
                other => panic!("disconnected while {other:?}"),
            }
        }
        for peer in connects {
            let pair = pair(at, peer.0 as usize);
            match self.joints.entry(pair).or_insert(Joint::Apart) {
                joint @ Joint::Apart => *joint = Joint::Connecting,
                Joint::Connecting => {}
                Joint::Joined => panic!("connected twice"),
                Joint::Half(..) => {
                    self.wanted.insert(pair);
                }
            }
        }
    }

    fn drop_stream(&mut self, from: usize, to: usize) {
        self.streams.remove(&(from, to));
        self.credit_packets.remove(&(from, to));
    }

    /// Both know that the connection is lost.
    fn end(&mut self, a: usize, b: usize) {
        self.drop_stream(a, b);
        self.drop_stream(b, a);
        let joint = if self.wanted.remove(&pair(a, b)) { Joint::Connecting } else { Joint::Apart };
        self.joints.insert(pair(a, b), joint);
    }

    /// A requested connection is established.
    pub(super) fn join(&mut self, a: usize, b: usize) {
        assert_eq!(self.joints.insert(pair(a, b), Joint::Joined), Some(Joint::Connecting));
        let ends = [(a, b), (b, a)];
        // A node that is its own peer has one end.
        for (at, other) in ends.into_iter().take(if a == b { 1 } else { 2 }) {
            let terms = self.terms(other);
            let Node { machine, host } = &mut self.nodes[at];
            machine.handle_connected(PeerId(other as u32), terms, self.now, host);
            machine.note_round_trip(PeerId(other as u32), self.round_trip);
            self.flush(at);
        }
    }

    /// A connection is lost: `first` knows at once, the other later.
    pub(super) fn cut(&mut self, first: usize, other: usize) {
        let joint = self.joints.insert(pair(first, other), Joint::Half(other, true));
        assert!(matches!(joint, Some(Joint::Joined | Joint::Connecting)));
        self.drop_stream(first, other);
        self.drop_stream(other, first);
        self.lose(first, other, true);
        if joint == Some(Joint::Connecting) {
            self.end_half(first, other);
        }
    }

    /// The other one knows too.
    pub(super) fn end_half(&mut self, a: usize, b: usize) {
        let Some(&Joint::Half(late, abrupt)) = self.joints.get(&pair(a, b)) else { panic!("not half") };
        let other = if late == a { b } else { a };
        self.lose(late, other, abrupt);
        self.end(a, b);
    }

    fn lose(&mut self, at: usize, other: usize, abrupt: bool) {
        let peer = PeerId(other as u32);
        let Node { machine, host } = &mut self.nodes[at];
        host.written.retain(|(other, _)| *other != peer);
        host.called.retain(|(other, ..)| *other != peer);
        machine.handle_lost(peer, abrupt, host);
        self.seen.push(Seen::Lost { at, other, abrupt });
        self.flush(at);
    }

    /// A node sends one packet, if it can.
    pub(super) fn transmit(&mut self, at: usize) -> bool {
        let Some(peer) = self.nodes[at].machine.next_ready() else { return false };
        let to = peer.0 as usize;
        let mut out = vec![0xa5; self.terms(to).packet_bytes as usize];
        let Node { machine, host } = &mut self.nodes[at];
        let packet = machine.poll_packet(peer, &mut out, self.now, host);
        self.flush(at);
        if let Some(length) = packet {
            out.truncate(length);
            self.packets += 1;
            if self.joints.get(&pair(at, to)) == Some(&Joint::Joined) {
                if out[1] == 2 {
                    let under_way = self.credit_packets.entry((at, to)).or_default();
                    *under_way += 1;
                    assert!(*under_way <= usize::from(crate::RESERVED_PACKETS), "more than are reserved for");
                }
                self.streams.entry((at, to)).or_default().push_back(Item::Packet(out));
            }
        }
        true
    }

    /// The first item of a stream arrives.
    pub(super) fn deliver(&mut self, from: usize, to: usize) -> bool {
        let Some(item) = self.streams.get_mut(&(from, to)).and_then(VecDeque::pop_front) else { return false };
        let peer = PeerId(from as u32);
        let Node { machine, host } = &mut self.nodes[to];
        match item {
            Item::Packet(bytes) => {
                if bytes[1] == 2 {
                    *self.credit_packets.get_mut(&(from, to)).expect("it was counted") -= 1;
                }
                if self.watch_arrivals {
                    let mut rest = &bytes[PACKET_HEADER_LENGTH..];
                    while !rest.is_empty() {
                        let (record, head, body) = Record::parse(rest).expect("a good record");
                        rest = &rest[head + body.len()..];
                        self.seen.push(Seen::Record { from, to, record });
                    }
                }
                machine.handle_packet(peer, &bytes, self.now, host).expect("no violation");
            }
            Item::Write { stag, offset, bytes } => {
                let (memory, at) = host.locate(stag, offset, bytes.len() as u64);
                memory.borrow_mut()[at..at + bytes.len()].copy_from_slice(&bytes);
            }
            Item::ReadRequest { ticket, stag, offset, length, sink, at } => {
                let (memory, from) = host.locate(stag, offset, length);
                let bytes = memory.borrow()[from..from + length as usize].to_vec();
                host.items.push((peer, Item::ReadResponse { ticket, bytes, sink, at }));
            }
            Item::ReadResponse { ticket, bytes, sink, at } => {
                let at = at as usize;
                sink.borrow_mut()[at..at + bytes.len()].copy_from_slice(&bytes);
                machine.handle_transferred(ticket, Ok(()), host);
            }
        }
        self.flush(to);
        true
    }

    /// One write is reported.
    pub(super) fn report_write(&mut self, at: usize) -> bool {
        let Node { machine, host } = &mut self.nodes[at];
        if host.written.is_empty() {
            return false;
        }
        let (_, ticket) = host.written.remove(0);
        machine.handle_transferred(ticket, Ok(()), host);
        self.flush(at);
        true
    }

    /// The connections in a transition.
    pub(super) fn unsettled(&self) -> Vec<((usize, usize), Joint)> {
        let mut joints: Vec<_> = self.joints.iter().map(|(pair, joint)| (*pair, *joint)).collect();
        joints.retain(|(_, joint)| matches!(joint, Joint::Connecting | Joint::Half(..)));
        joints.sort_unstable_by_key(|(pair, _)| *pair);
        joints
    }

    pub(super) fn settle_joint(&mut self, (a, b): (usize, usize), joint: Joint) {
        match joint {
            Joint::Connecting => self.join(a, b),
            Joint::Half(late, false)
                if self.streams.get(&(a + b - late, late)).is_some_and(|left| !left.is_empty()) =>
            {
                // Packets sent before the end arrive before it.
                self.deliver(a + b - late, late);
            }
            _ => self.end_half(a, b),
        }
    }

    /// Runs everything that can happen without the applications.
    pub(super) fn settle(&mut self) {
        loop {
            let mut busy = false;
            for at in 0..self.nodes.len() {
                busy |= self.transmit(at);
                busy |= self.report_write(at);
                for from in 0..self.nodes.len() {
                    busy |= self.deliver(from, at);
                }
            }
            for (pair, joint) in self.unsettled() {
                busy = true;
                self.settle_joint(pair, joint);
            }
            if !busy {
                return;
            }
        }
    }

    pub(super) fn reports(&mut self, at: usize) -> Vec<Report> {
        core::mem::take(&mut self.nodes[at].host.reports)
    }
}
