//! Edge: its packets, and a connection with a hostile peer.

use core::time::Duration;
use std::net::SocketAddr;

use weft_base::{Gather, Hint, HintKind, Quote, Random, Time};
use weft_edge::setup::{
    Acceptor, AcceptorSettings, Answering, Call, Caller, Fresh, Heard, HelloOutcome, Key, Outcome, SetupTimes, Words,
};
use weft_edge::{
    Batch, ChallengeKey, Confirmation, Connection, Established, Event, Meta, Options, RailAddress, Segment, Settings,
    Sink, Source, Verdict,
};
use weft_wire::edge::frame::{Close, Frame, NotReady};
use weft_wire::edge::packet::{Builder, Header, Packet, reseal};
use weft_wire::edge::setup::{Message, Setup};
use weft_wire::edge::{BASE_DATAGRAM, ConnectionId, RESET_TOKEN_LENGTH, destination};

const LOCAL: ConnectionId = ConnectionId(0x5555);
const REMOTE: ConnectionId = ConnectionId(0x6666);

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 4791))
}

/// Reads the bytes as each kind of packet; what can be read is the same after it was written again. Then they are
/// taken to an acceptor and to a caller. No answer is longer than the question.
pub fn edge_packet(data: &[u8]) {
    let _ = destination(data);
    if let Ok(setup) = Setup::parse(data) {
        let mut again = vec![];
        setup.emit(&mut again, data.len());
        // A peer that lists versions may do so in any version.
        if !matches!(setup.message, Message::Versions(_)) {
            assert_eq!(Setup::parse(&again), Ok(setup));
        }
    }
    if let Ok(packet) = Packet::parse(data).and_then(|packet| packet.verify(0)) {
        packet.frames().for_each(|frame| drop(format!("{frame:?}")));
    }
    let mut data = data.to_vec();
    if data.len() > 25 {
        let check = weft_wire::Crc32c::of(&[&data[..21], &data[25..]].concat());
        data[21..25].copy_from_slice(&check.to_be_bytes());
    }
    let mut acceptor = acceptor(None);
    for crowded in [false, true] {
        let mut out = vec![];
        let outcome = acceptor.on_hello(&data, address(1), crowded, Time::ZERO, &mut out);
        assert!(out.is_empty() || matches!(outcome, HelloOutcome::Answered | HelloOutcome::Refused(_)));
        assert!(out.len() <= data.len());
    }
    let _ = caller(None).receive(&data, address(2), Time::ZERO);
}

/// What both sides of a set-up with a key say, through an attacker that changes it as the bytes say: the first says
/// which message, each three more change a byte or cut the rest off. The acceptor takes only a call that says what the
/// caller has said, and the caller takes no answer but the one that was given.
pub fn edge_setup(data: &[u8]) {
    let Some((which, script)) = data.split_first() else { return };
    let mut caller = caller(Some(&key(4)));
    let mut acceptor = acceptor(Some(key(4)));
    let mut hello = vec![];
    assert!(caller.transmit(Time::ZERO, &mut hello));
    if which & 1 == 0 {
        change(&mut hello, script);
        let mut out = vec![];
        let outcome = acceptor.on_hello(&hello, address(1), which & 2 != 0, Time::ZERO, &mut out);
        assert!(out.len() <= hello.len());
        if let HelloOutcome::Call(call) = outcome {
            assert_eq!(call.id, LOCAL);
            assert_eq!(Answering::new(&call, &acceptor, fresh(9)).heard(), said(CALLED));
        }
        return;
    }
    let HelloOutcome::Call(call) = acceptor.on_hello(&hello, address(1), false, Time::ZERO, &mut vec![]) else {
        panic!("it has the key")
    };
    let mut out = vec![];
    let theirs = Answering::new(&call, &acceptor, fresh(9)).accept(&ANSWERED, &Settings::default(), &mut out);
    for script in [script, &[]] {
        let mut changed = out.clone();
        change(&mut changed, script);
        match caller.receive(&changed, address(2), Time::ZERO) {
            None => assert!(!script.is_empty(), "the right answer, after others"),
            Some(Outcome::Accepted(ours, heard)) => {
                assert_eq!((heard, ours.remote), (said(ANSWERED), ConnectionId(9)));
                let both = (ours.confirmation, theirs.confirmation);
                assert!(matches!(both, (Confirmation::Say(said), Confirmation::Expect(awaited)) if said == awaited));
                return;
            }
            // An attacker on the path can end a call; it could swallow it, too.
            Some(_) => return,
        }
    }
}

const CALLED: Words<'static> = Words { private_data: b"please", inbound_reads: 1, outbound_reads: 2 };
const ANSWERED: Words<'static> = Words { private_data: b"welcome", inbound_reads: 3, outbound_reads: 4 };

fn said(words: Words<'_>) -> Heard {
    let Words { private_data, inbound_reads, outbound_reads } = words;
    Heard { private_data: private_data.to_vec(), inbound_reads, outbound_reads }
}

/// Changes a packet, and makes its check good again.
fn change(packet: &mut Vec<u8>, script: &[u8]) {
    for step in script.chunks_exact(3) {
        let at = usize::from(step[0]) * 5 + usize::from(step[1] & 7);
        match packet.get_mut(at) {
            Some(_) if step[2] == 0 => packet.truncate(at),
            Some(byte) => *byte ^= step[2],
            None => {}
        }
    }
    if packet.len() > 25 {
        let check = weft_wire::Crc32c::of(&[&packet[..21], &packet[25..]].concat());
        packet[21..25].copy_from_slice(&check.to_be_bytes());
    }
}

fn key(byte: u8) -> Key {
    Key::new(&[byte; 32]).expect("long enough")
}

fn acceptor(key_of_job: Option<Key>) -> Acceptor {
    let cookie_lifetime = Duration::from_secs(10);
    Acceptor::new(AcceptorSettings { key: key_of_job, host: key(1), secret: key(2), cookie_lifetime })
}

fn fresh(id: u64) -> Fresh {
    Fresh { id: ConnectionId(id), nonce: [1; 16], seed: 1, secret: [id as u8; 32] }
}

fn caller(key_of_job: Option<&Key>) -> Caller {
    let times = SetupTimes::default();
    let call = Call { to: address(2), fresh: fresh(LOCAL.0), key: key_of_job, host: &key(3), words: CALLED, times };
    Caller::new(&call, &Settings::default(), Time::ZERO)
}

/// What a script of bytes says, one after the other.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

struct Supply {
    left: u32,
    bytes: Vec<u8>,
}

impl Source for Supply {
    fn next(&mut self, budget: u32) -> Option<Segment<'_>> {
        self.left = self.left.checked_sub(1)?;
        let length = (budget as usize - 18 - Options::MAX_LENGTH).min(self.bytes.len());
        // Untagged, Last.
        const HEADER: [u8; 18] = [0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        let ack_now = self.left.is_multiple_of(3);
        let options = Options { unordered: self.left.is_multiple_of(5), after: 0 };
        let (bytes, gather) = (&self.bytes[..length], Gather::empty());
        Some(Segment { header: &HEADER, bytes, gather, is_steady: false, ack_now, options })
    }
}

struct Verdicts(Random);

impl Sink for Verdicts {
    fn segment(&mut self, position: u64, ulpdu: &[u8], _: u32, options: Options) -> Verdict {
        assert!(options.after <= position);
        assert!(ulpdu.len() >= 14);
        match self.0.below(8) {
            0 => Verdict::Later,
            1 => Verdict::NotReady,
            2 => Verdict::BadPayload,
            3 => Verdict::Duplicate,
            4 => Verdict::Fatal,
            _ => Verdict::Placed,
        }
    }
}

/// A sequence of operations on a connection: datagrams with good checks and any content, time, sending, closing.
/// Nothing panics, what is acknowledged never falls or passes what was sent, it ends once, and it finishes when the
/// peer does not answer.
pub fn edge_connection(data: &[u8]) {
    let mut script = Script(data);
    let settings = Settings {
        sent_segments: 32,
        sent_packets: 64,
        rails: 4,
        peer_timeout: Duration::from_secs(5),
        ..Settings::default()
    };
    let confirmation = match script.byte() & 3 {
        0 => Confirmation::Say([0; 32]),
        1 => Confirmation::Expect([0; 32]),
        _ => Confirmation::Done,
    };
    let established = Established {
        local: LOCAL,
        remote: REMOTE,
        to: address(2),
        peer_credit: 100_000,
        peer_ack_delay: Duration::from_millis(1),
        peer_max_datagram: 9000,
        peer_rails: 4,
        peer_timeout: Duration::from_secs(5),
        peer_keeps_options: true,
        reset_token: [3; RESET_TOKEN_LENGTH],
        confirmation,
        took: None,
        seed: 1,
        challenges: ChallengeKey::new([1; 32]),
    };
    let mut now = Time::from_nanos(1_000_000_000);
    let mut run = Run {
        connection: Connection::new(&established, &settings, now),
        source: Supply { left: 0, bytes: vec![7; 700] },
        sink: Verdicts(Random::new(u64::from(script.byte()))),
        batch: Batch::new(8, 128 << 10),
        acknowledged: 0,
        ended: 0,
    };
    let mut number = 0;
    while !script.0.is_empty() {
        match script.byte() % 12 {
            0 => now = now + Duration::from_micros(u64::from(script.byte()) * 100),
            1 => now = now + Duration::from_millis(u64::from(script.byte()) * 10),
            2 => run.source.left += u32::from(script.byte()),
            3 if script.byte() < 20 => run.connection.close(),
            3 if script.byte() < 20 => run.connection.abort(b"reason"),
            4 => run.connection.receives_posted(),
            5 => run.hint(&mut script, now),
            7 => run.connection.hint_down(script.byte() % 3, now),
            8 => run.connection.set_blocked(u16::from(script.byte() & 7)),
            9 => {
                let own = |local: u8| RailAddress { local, address: address(10 + local) };
                let count = script.byte() % 5;
                run.connection.offer(&(0..count).map(own).collect::<Vec<_>>(), now);
            }
            6 => run.connection.hint_link_carries(0, usize::from(script.byte()) * 40, now),
            _ => {
                number += u64::from(script.byte() % 3);
                run.receive(&mut script, number, now);
            }
        }
        run.turn(now);
    }
    run.connection.abort(b"done");
    for _ in 0..1000 {
        let Some(at) = run.connection.next_timeout() else { break };
        now = now.max(at);
        run.turn(now);
    }
    assert!(run.connection.is_over() && run.ended == 1, "it ends: {:#?}", run.connection);
}

struct Run {
    connection: Connection,
    source: Supply,
    sink: Verdicts,
    batch: Batch,
    acknowledged: u64,
    ended: u32,
}

impl Run {
    fn receive(&mut self, script: &mut Script<'_>, number: u64, now: Time) {
        let kind = script.byte();
        let mut packet = vec![0x41 | (kind & 8), kind >> 6];
        packet.extend_from_slice(&LOCAL.0.to_be_bytes());
        packet.extend_from_slice(&(number as u32).to_be_bytes());
        packet.extend_from_slice(&[0; 4]);
        let length = usize::from(script.byte());
        packet.extend_from_slice(script.take(length));
        reseal(&mut packet, number);
        let from = script.byte();
        let meta = Meta { from: address(2 + from / 200), local: from & 3, ecn: script.byte(), now };
        self.connection.receive(&packet, &meta, &mut self.sink);
    }

    /// A router on the path quotes a packet, perhaps one in flight.
    fn hint(&mut self, script: &mut Script<'_>, now: Time) {
        let kind = script.byte();
        let mut quoted = vec![0x41, kind >> 6];
        quoted.extend_from_slice(&REMOTE.0.to_be_bytes());
        quoted.extend_from_slice(&u32::from(script.byte()).to_be_bytes());
        quoted.extend_from_slice(&[0; 4]);
        quoted.truncate(usize::from(script.byte() | 16));
        let what = match kind & 3 {
            0 => HintKind::Unreachable,
            1 => HintKind::TooLarge(u32::from(script.byte()) * 40),
            _ => HintKind::Refused,
        };
        let to = address(2 + (kind >> 2 & 1));
        let by = (kind & 8 != 0).then_some(to.ip());
        self.connection.take_hint(&Hint { to: to.into(), by, what, quote: Quote::of(&quoted) }, now);
    }

    /// What a NIC does after anything has happened.
    fn turn(&mut self, now: Time) {
        if self.connection.next_timeout().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
        }
        self.batch.clear();
        self.connection.transmit(&mut self.source, now, &mut self.batch);
        assert!(self.batch.datagrams.iter().all(|datagram| datagram.length <= 1472.max(BASE_DATAGRAM)));
        let acknowledged = self.connection.acknowledged();
        assert!((self.acknowledged..=self.connection.next_position()).contains(&acknowledged));
        self.acknowledged = acknowledged;
        while let Some(event) = self.connection.poll_event() {
            self.ended += u32::from(matches!(event, Event::Ended(_)));
        }
    }
}

/// Packets of each kind.
pub(crate) fn packets() -> Vec<Vec<u8>> {
    let mut hello = vec![];
    caller(None).transmit(Time::ZERO, &mut hello);
    let mut packets = vec![hello];
    for message in [Message::Wait, Message::Retry { cookie: b"cookie" }] {
        let mut bytes = vec![];
        Setup { destination: LOCAL, source: ConnectionId(4), message }.emit(&mut bytes, 0);
        packets.push(bytes);
    }
    let mut bytes = vec![];
    let header = Header { ack_now: true, key_phase: false, rail: 0, destination: LOCAL, number: 0 };
    let mut builder = Builder::new(&mut bytes, &header);
    frames().iter().for_each(|frame| builder.frame(frame));
    builder.finish();
    packets.push(bytes);
    packets
}

/// Scripts that change nothing, and others that change something in each part of each message.
pub(crate) fn setups() -> Vec<Vec<u8>> {
    let mut setups = vec![vec![0], vec![1], vec![2]];
    for which in [0, 1] {
        setups.extend((0..40).map(|at| vec![which, at, at & 7, 1 << (at & 7)]));
    }
    setups
}

fn frames() -> [Frame<'static>; 5] {
    [
        Frame::Ping,
        Frame::NotReady(NotReady { rail: 0, number: 0, position: 0, round: 0 }),
        Frame::GoOn { round: 1 },
        Frame::Close(Close { abortive: false, end: 0, reason: b"" }),
        Frame::Challenge([1; 8]),
    ]
}

/// Scripts with packets in them that mean something.
pub(crate) fn scripts() -> Vec<Vec<u8>> {
    (0..40u64).map(|seed| script(&mut Random::new(seed))).collect()
}

fn script(random: &mut Random) -> Vec<u8> {
    let mut script = vec![random.next_u64() as u8, random.next_u64() as u8, 2, 100];
    for _ in 0..random.below(20) {
        let mut frames = vec![];
        match random.below(6) {
            // An acknowledgement of the first few packets.
            0 | 1 => {
                let largest = random.below(12) as u8;
                frames = [&[2, 0][..], &[0, 0, 0, 0, 0, 0, 0, largest], &[0, 0, 0, largest / 2]].concat();
                frames.extend_from_slice(&[0; 4 + 12 + 2]);
                frames.extend_from_slice(&[0xff, 0xff, 0, 0, 0, 0, 0]);
            }
            2 => frames = [&[5, 0][..], &[0; 7], &[random.below(8) as u8], &[0; 12]].concat(),
            3 => frames = vec![6, 0, 0, 0, random.below(4) as u8],
            4 => frames = [&[4, 0, 0, 0, 0, 0, random.below(9) as u8, 0, 14, 0xc1, 0x40][..], &[0; 16]].concat(),
            _ => frames.extend_from_slice(&[[1; 12], [8; 12], [7; 12]][random.below(3) as usize]),
        }
        script.extend_from_slice(&[8, 1 + random.below(2) as u8, 8, frames.len() as u8]);
        script.extend_from_slice(&frames);
        script.extend_from_slice(&[0, 2, 1, random.below(30) as u8]);
    }
    script
}
