//! One machine of messages, between an application that asks for anything and peers that say anything.

use core::time::Duration;
use std::collections::HashSet;

use weft_base::{PeerId, Random, Stag, Time};
use weft_message::{
    BufferId, CallId, Failure, Host, Machine, Match, Parts, Receive, Received, RemotePart, Send, Settings, Terms,
    Ticket,
};
use weft_wire::message::{Class, Envelope, Outcome, PACKET_HEADER_LENGTH, PacketHeader, Record};

/// Peers of the machine.
const PEERS: u32 = 3;
/// The most operations of one input; what follows is ignored.
const MOST_OPERATIONS: usize = 300;
/// Bytes of a packet.
const PACKET: u32 = 512;
/// Buffers that there are for unexpected messages.
const BUFFERS: usize = 4;
/// What a peer is granted, and grants.
const TERMS: Terms = Terms { packet_bytes: PACKET, data_credits: 3, control_credits: 2 };

/// Sequences of what an application asks for and of packets, well-formed or not. Nothing panics, nothing outside of
/// what was lent is touched, and each request ends once.
pub fn messages(data: &[u8]) {
    let mut run = Run::new(data);
    for _ in 0..MOST_OPERATIONS {
        let Some(code) = run.script.next() else { break };
        run.step(code);
    }
    run.finish();
}

/// What the bytes of an input say.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self) -> u8 {
        self.next().unwrap_or_default()
    }

    fn word(&mut self) -> u64 {
        u64::from(self.byte()) << 8 | u64::from(self.byte())
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let (now, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        now.to_vec()
    }
}

/// A request: its number, and the bytes of its memory.
struct User {
    number: u64,
    length: u64,
}

/// A host that keeps account of everything.
#[derive(Default)]
struct Account {
    open: HashSet<u64>,
    buffers: HashSet<BufferId>,
    transfers: Vec<(PeerId, Ticket)>,
    called: Vec<CallId>,
    /// Names of messages that peers can have seen.
    seen: Vec<u64>,
    next: u64,
}

impl Account {
    fn request(&mut self, length: u64) -> User {
        self.next += 1;
        self.open.insert(self.next);
        User { number: self.next, length }
    }

    fn end(&mut self, number: u64) {
        assert!(self.open.remove(&number), "request {number} ends twice");
    }

    fn parts(length: u64) -> Parts {
        [RemotePart { stag: Stag(7), offset: 0, length }].into_iter().filter(|part| part.length > 0).collect()
    }
}

impl Host for Account {
    type Send = User;
    type Receive = User;

    fn connect(&mut self, _: PeerId) {}

    fn disconnect(&mut self, peer: PeerId) {
        self.transfers.retain(|(other, _)| *other != peer);
    }

    fn fetch(&mut self, send: &User, offset: u64, out: &mut [u8]) {
        assert!(offset + out.len() as u64 <= send.length, "beyond what is sent");
    }

    fn place(&mut self, receive: &mut User, offset: u64, bytes: &[u8]) {
        assert!(offset + bytes.len() as u64 <= receive.length, "beyond the receive's memory");
    }

    fn expose_source(&mut self, _: PeerId, send: &mut User) -> Result<Parts, Failure> {
        Ok(Self::parts(send.length))
    }

    fn conceal_source(&mut self, _: &mut User) {}

    fn expose_sink(&mut self, _: PeerId, receive: &mut User, offset: u64, length: u64) -> Result<Parts, Failure> {
        assert!(offset + length <= receive.length, "beyond the receive's memory");
        Ok(Self::parts(length))
    }

    fn conceal_sink(&mut self, _: &mut User, _: u64) {}

    fn read(&mut self, peer: PeerId, ticket: Ticket, receive: &mut User, offset: u64, source: RemotePart) {
        assert!(offset + source.length <= receive.length, "beyond the receive's memory");
        self.transfers.push((peer, ticket));
    }

    fn write(&mut self, peer: PeerId, ticket: Ticket, send: &mut User, offset: u64, sink: RemotePart) {
        assert!(offset + sink.length <= send.length, "beyond what is sent");
        self.transfers.push((peer, ticket));
    }

    fn allocate(&mut self, _: PeerId, length: u64) -> Option<(BufferId, RemotePart)> {
        if self.buffers.len() >= BUFFERS {
            return None;
        }
        self.next += 1;
        let buffer = BufferId(self.next);
        self.buffers.insert(buffer);
        Some((buffer, RemotePart { stag: Stag(8), offset: 0, length }))
    }

    fn unload(&mut self, buffer: BufferId, receive: &mut User, offset: u64, length: u64) {
        assert!(self.buffers.contains(&buffer), "a buffer that was given back");
        assert!(offset + length <= receive.length, "beyond the receive's memory");
    }

    fn free(&mut self, buffer: BufferId) {
        assert!(self.buffers.remove(&buffer), "a buffer is given back twice");
    }

    fn announced(&mut self, send: &mut User) {
        assert!(self.open.contains(&send.number), "request {} is announced after its end", send.number);
    }

    fn sent(&mut self, send: User, _: Result<(), Failure>) {
        self.end(send.number);
    }

    fn received(&mut self, receive: &mut User, what: Option<Received>, _: Result<(), Failure>, last: bool) {
        assert!(what.is_none_or(|what| what.offset + what.length <= receive.length), "beyond the receive's memory");
        if last {
            self.end(receive.number);
        }
    }

    fn called(&mut self, _: PeerId, call: CallId, _: &[u8]) {
        self.called.push(call);
    }

    fn answered(&mut self, ticket: Ticket, _: Result<&[u8], Failure>) {
        self.end(ticket.0);
    }
}

struct Run<'a> {
    script: Script<'a>,
    machine: Machine<Account>,
    host: Account,
    now: Time,
    claims: u64,
}

impl<'a> Run<'a> {
    fn new(data: &'a [u8]) -> Self {
        let mut script = Script(data);
        let settings = Settings {
            packet_bytes: PACKET,
            short_bytes: 16 + u32::from(script.byte()),
            stream_bytes: script.word() % 2000,
            alone_bytes: script.word() % 2000,
            eager_bytes: 300 + script.word() % 3000,
            fragment_bytes: 50 + script.word() % 1000,
            fragments_under_way: 2,
            far_bytes: 4000,
            data_credits: TERMS.data_credits,
            extra_credits: 12,
            control_credits: TERMS.control_credits,
            unexpected_bytes: script.word() % 8000,
            unexpected_messages: u32::from(script.byte()),
            idle_timeout: Some(Duration::from_micros(50)),
        };
        Self {
            script,
            machine: Machine::new(settings, 1),
            host: Account::default(),
            now: Time::from_nanos(1),
            claims: 0,
        }
    }

    fn step(&mut self, code: u8) {
        let peer = PeerId(u32::from(code >> 5) % PEERS);
        let Self { machine, host, script, now, claims } = self;
        match code & 0x1f {
            0..=2 => {
                let (tag, length) = (tag(script), script.word() % 5000);
                let (data, delivery) = (length.is_multiple_of(3).then_some(length), length.is_multiple_of(2));
                let user = host.request(length);
                machine.send(Send { peer, tag, data, length, delivery, user }, host);
            }
            3..=5 => {
                let receive = receive(script, peer, host);
                machine.receive(receive, host);
            }
            6 => {
                let ticket = Ticket(host.request(0).number);
                machine.call(peer, ticket, &script.take(16), host);
            }
            7 => {
                if let Some(call) = host.called.pop() {
                    let body = script.take(16);
                    machine.answer(call, &body, host);
                }
            }
            8 => drop(machine.cancel_send(|user| user.number % 4 == u64::from(code) % 4, host)),
            9 => drop(machine.cancel_receive(|user| user.number % 4 == u64::from(code) % 4, host)),
            10 => {
                *claims += 1;
                let _ = machine.peek(None, tag(script).map(|tag| Match { tag, ignore: 1 }), Some(*claims));
            }
            11 => drop(machine.discard(Some(peer), Some(Match { tag: 0, ignore: u64::MAX }), host)),
            12 => {
                let receive = receive(script, peer, host);
                let number = receive.user.number;
                if machine.receive_claimed(script.word() % (*claims + 1), receive, host).is_err() {
                    host.open.remove(&number);
                }
            }
            13 => drop(machine.discard_claimed(script.word() % (*claims + 1), host)),
            14 => {
                host.transfers.retain(|(other, _)| *other != peer);
                machine.handle_connected(peer, TERMS, *now, host);
            }
            15 if script.byte() < 64 => self.lose(peer),
            16 => {
                *now = *now + Duration::from_micros(script.word() % 100);
                machine.handle_time(*now, host);
            }
            17..=18 if !host.transfers.is_empty() => {
                let index = script.word() as usize % host.transfers.len();
                let (_, ticket) = host.transfers.swap_remove(index);
                let outcome = if script.byte() < 200 { Ok(()) } else { Err(Failure::PeerLost) };
                machine.handle_transferred(ticket, outcome, host);
            }
            19 => drop(machine.reserve_packet(peer, *now)),
            20..=22 => self.poll(peer),
            23 => {
                let bytes = script.take(40);
                self.feed(peer, &bytes);
            }
            _ => {
                let packet = packet(script, &host.seen);
                self.feed(peer, &packet);
            }
        }
    }

    fn poll(&mut self, peer: PeerId) {
        let mut out = [0xa5; PACKET as usize];
        let ready = self.machine.next_ready().unwrap_or(peer);
        if let Some(length) = self.machine.poll_packet(ready, &mut out, self.now, &mut self.host) {
            self.note(&out[PACKET_HEADER_LENGTH..length]);
        }
    }

    /// Peers answer with names that they have received.
    fn note(&mut self, mut records: &[u8]) {
        while !records.is_empty() {
            let (record, head, body) = Record::parse(records).expect("what the machine says is well-formed");
            records = &records[head + body.len()..];
            self.host.seen.extend(match record {
                Record::Request { id, .. } | Record::Call { id, .. } => Some(id),
                Record::Short { acknowledge, .. } | Record::Start { acknowledge, .. } => acknowledge,
                Record::Clear { sink_id, .. } => Some(sink_id),
                _ => None,
            });
        }
    }

    fn feed(&mut self, peer: PeerId, packet: &[u8]) {
        if self.machine.handle_packet(peer, packet, self.now, &mut self.host).is_err() {
            self.lose(peer);
        }
    }

    fn lose(&mut self, peer: PeerId) {
        self.host.transfers.retain(|(other, _)| *other != peer);
        self.machine.handle_lost(peer, true, &mut self.host);
    }

    /// When all is lost, and what waited canceled, everything has ended.
    fn finish(mut self) {
        for peer in (0..PEERS).map(PeerId) {
            // Once by agreement, perhaps, which keeps what waits; then not.
            self.lose(peer);
            self.lose(peer);
        }
        while self.machine.cancel_receive(|_| true, &mut self.host) {}
        assert!(self.host.open.is_empty(), "requests {:?} have not ended", self.host.open);
    }
}

fn tag(script: &mut Script<'_>) -> Option<u64> {
    let byte = script.byte();
    (byte < 200).then_some(u64::from(byte % 3))
}

fn receive(script: &mut Script<'_>, peer: PeerId, host: &mut Account) -> Receive<User> {
    let (matching, length, how) = (tag(script), script.word() % 5000, script.byte());
    Receive {
        source: (how & 1 == 0).then_some(peer),
        matching: matching.map(|tag| Match { tag, ignore: u64::from(how & 2) }),
        length,
        many: (how & 4 == 0).then_some(length / 4),
        user: host.request(length),
    }
}

/// A packet of nearly right records.
fn packet(script: &mut Script<'_>, seen: &[u64]) -> Vec<u8> {
    let how = script.byte();
    let class = [Class::Data, Class::Data, Class::Control, Class::Credits][usize::from(how & 3)];
    let (data_credits, control_credits) = (u16::from(how >> 2 & 1), u16::from(how >> 3 & 1));
    let mut bytes = vec![0; PACKET_HEADER_LENGTH];
    let [scarce, waited, doubled] = [1, 2, 4].map(|flag| data_credits & flag != 0);
    PacketHeader { class, data_credits, control_credits, scarce, waited, doubled }.emit(&mut bytes);
    let records = if class == Class::Credits { 0 } else { how >> 4 & 3 };
    for _ in 0..records {
        let record = record(script, seen);
        let start = bytes.len();
        bytes.resize(start + record.length() + record.body_length(), 0);
        record.emit(&mut bytes[start..]);
    }
    bytes
}

fn record(script: &mut Script<'_>, seen: &[u64]) -> Record {
    let (kind, length) = (script.byte(), script.word() % 3000);
    let envelope = Envelope { tag: tag(script), data: (kind & 1 == 0).then_some(5) };
    let id = script.word();
    let id = if seen.is_empty() { id } else { seen[id as usize % seen.len()] };
    let outcome = if kind & 0x40 == 0 { Outcome::Done } else { Outcome::Refused };
    let parts = Account::parts(length);
    match kind % 12 {
        0 => Record::Short { envelope, acknowledge: (kind & 2 == 0).then_some(id), length: length as u32 % 100 },
        1 => Record::Request { envelope, id, length, delivery: kind & 8 == 0, source: Parts::new() },
        2 => Record::Request { envelope, id, length, delivery: kind & 8 == 0, source: parts },
        3 => Record::Clear { id, sink_id: length, sink: parts },
        4 => Record::Written { sink_id: id },
        5 => Record::Taken { id, outcome },
        6 => Record::Call { id, length: length as u32 % 40 },
        7 => Record::Answer { id, outcome, length: if outcome == Outcome::Done { length as u32 % 40 } else { 0 } },
        8 => Record::Close,
        9 => Record::Start {
            envelope,
            acknowledge: (kind & 2 == 0).then_some(id),
            whole: length,
            length: length as u32 % 200,
        },
        10 => Record::More { length: length as u32 % 200 },
        _ => Record::CloseAnswer { agreed: kind & 0x10 == 0 },
    }
}

/// Random scripts that begin with every peer connected.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    (0..40u64)
        .map(|seed| {
            let mut random = Random::new(seed);
            let mut bytes = vec![0; 30 + random.below(700) as usize];
            random.fill(&mut bytes);
            for peer in 0..PEERS as u8 {
                bytes[11 + usize::from(peer)] = peer << 5 | 14;
            }
            bytes
        })
        .collect()
}
