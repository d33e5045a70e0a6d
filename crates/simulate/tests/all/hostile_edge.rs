//! A NIC's datagram port, and an attacker that sends arbitrary datagrams to it: the attacker gets no more bytes than it
//! sends, holds no more than is meant for callers, and honest callers are not disturbed.

use core::time::Duration;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use weft_base::{
    DatagramBatch, DatagramOptions, DatagramPort, Ecn, Edge, Gather, Hint, HintKind, LocalAddress, Network, Piece,
    Quote, Random, Slice,
};
use weft_emulate::{Chance, Loss, Settings as Link};
use weft_memory::{Access, Limits, Region, Registry};
use weft_nic::{JobKey, QueuePair, QueuePairAttributes, Settings, State};
use weft_rdmap::{Operation, Payload, ReceiveRequest, RequestFlags, SendRequest, Status};
use weft_simulate::{Behaviour, End, PacketBehaviour, Pair, PairOptions, SimulatedDatagramPort, World};
use weft_wire::edge::ConnectionId;
use weft_wire::edge::setup::{Accept, Hello, Message, Offers, Setup, Terms, Versions};

/// A hello has as many bytes.
const HELLO: usize = 1200;
/// Where the NIC listens.
const NIC: ([u8; 4], u16) = ([10, 0, 0, 1], 700);

/// An attacker with a port at any address it likes.
struct Attacker {
    port: SimulatedDatagramPort,
    random: Random,
    sent: u64,
    heard: u64,
    /// He knows that the others have a job key, but not which.
    is_keyed: bool,
}

impl Attacker {
    fn new(world: &World, is_keyed: bool) -> Self {
        let mut network = world.network(Registry::new(1, Limits::default()), &[]);
        let port = network.bind("0.0.0.0:4000".parse().unwrap(), DatagramOptions::default()).unwrap();
        Self { port, random: Random::new(7), sent: 0, heard: 0, is_keyed }
    }

    fn say(&mut self, bytes: &[u8], from: Ipv4Addr) {
        let from = Some(LocalAddress { ip: IpAddr::V4(from), interface: 0 });
        let segment_size = bytes.len().max(1) as u32;
        let to = SocketAddr::from(NIC).into();
        let batch = DatagramBatch { to, from, segment_size, ecn: Ecn::NotCapable };
        self.port.send(&batch, &[Piece::Bytes(bytes)]).unwrap();
        self.sent += bytes.len() as u64;
    }

    fn hello(&mut self) -> Vec<u8> {
        let terms = Terms {
            nonce: core::array::from_fn(|_| self.random.below(256) as u8),
            reset_token: [3; 16],
            credit: 100_000,
            peer_timeout_ms: 60_000,
            max_ack_delay_us: 1000,
            max_datagram: 1472,
            inbound_reads: 16,
            outbound_reads: 16,
            rails: 1,
            private_data: b"let me in",
            offers: if self.is_keyed { Offers::packed(&[0x82, 0, 0]).unwrap() } else { Offers::default() },
        };
        let forged = [self.random.below(256) as u8; 48];
        let proof = (self.is_keyed && !self.random.one_in(4)).then_some(&forged);
        let message = Message::Hello(Hello { terms, versions: Versions::OURS, cookie: &[], proof });
        let mut bytes = Vec::new();
        let source = ConnectionId(self.random.next_u64() | 1);
        Setup { destination: ConnectionId::default(), source, message }.emit(&mut bytes, HELLO);
        bytes
    }

    /// Some of each: noise, what begins like something, the same again, and calls from everywhere.
    fn disturb(&mut self) {
        let somewhere = Ipv4Addr::from(0x0b00_0000 | self.random.below(1 << 24) as u32);
        let mut bytes = self.hello();
        match self.random.below(5) {
            0 => {
                bytes.truncate(self.random.below(HELLO as u64) as usize + 1);
                self.random.fill(&mut bytes);
            }
            1 => bytes.truncate(self.random.below(HELLO as u64) as usize + 1),
            2 => {
                let at = self.random.below(HELLO as u64) as usize;
                bytes[at] ^= 1 << self.random.below(8);
            }
            3 => (0..3).for_each(|_| self.say(&bytes, somewhere)),
            _ => {}
        }
        self.say(&bytes, somewhere);
    }

    /// Reflects received datagrams, from the address they were sent to.
    fn reflect(&mut self) {
        let (mut buffer, mut received) = (vec![0; 1 << 20], Vec::new());
        self.port.receive(&mut buffer, &mut received).unwrap();
        for run in received {
            self.heard += run.range.len() as u64;
            let Some(IpAddr::V4(to)) = run.to.map(|to| to.ip) else { continue };
            for datagram in buffer[run.range.clone()].to_vec().chunks(run.segment_size as usize) {
                self.say(datagram, to);
            }
        }
    }
}

fn inbox(end: &End<Edge>, receives: u64) -> Region {
    let region = end.nic.registry().register(end.domain, vec![0; 4096], Access::LOCAL_WRITE, 0).unwrap();
    for id in 0..receives {
        let sink = Gather::from(Slice { region: region.id(), offset: 0, length: 4096 });
        end.nic.post_receive(&end.queue_pair, ReceiveRequest { id, sink }).unwrap();
    }
    region
}

fn send(end: &End<Edge>, id: u64) {
    let payload = Payload::Inline(weft_rdmap::InlineBytes::new(&[1, 2, 3, 4]).unwrap());
    let operation = Operation::Send { payload, solicited: false, invalidate: None };
    end.nic
        .post_send(
            &end.queue_pair,
            [SendRequest { id, operation, signaled: true, fence: false, flags: RequestFlags::NONE }],
        )
        .unwrap();
}

#[test]
fn who_behaves_is_served_and_who_does_not_gets_nothing_out_of_it() {
    let requests = serve(None);
    assert!(requests > 1, "{requests}");
}

/// No caller without the key reaches the application.
#[test]
fn who_has_the_key_is_served_and_nobody_else_is_even_heard() {
    assert_eq!(serve(Some(JobKey::new(b"the key of this job").unwrap())), 1);
}

/// Returns how many callers the application was notified of.
fn serve(key: Option<JobKey>) -> u32 {
    const MESSAGES: u64 = 40;
    const BACKLOG: u32 = 8;
    let world = World::new(11, Behaviour::default());
    let is_keyed = key.is_some();
    let options = PairOptions { settings: Settings { key, ..Settings::default() }, ..PairOptions::default() };
    let pair = Pair::<Edge>::unconnected(&world, &options);
    let (active, passive) = (&pair.active, &pair.passive);
    let listener = passive.nic.listen(NIC.into(), BACKLOG, options.passive).unwrap();
    let mut attacker = Attacker::new(&world, is_keyed);
    let _inbox = inbox(passive, MESSAGES);
    // The flood is there before any other caller.
    let mut requests = 0;
    for _ in 0..300 {
        (0..5).for_each(|_| attacker.disturb());
        pair.run(Duration::from_micros(300), || false);
        attacker.reflect();
    }
    active.nic.connect(&active.queue_pair, NIC.into(), None, options.active, b"a friend").unwrap();
    let (mut posted, mut received) = (0, Vec::new());
    let (mut most, mut first) = (0, None);
    for _ in 0..4000 {
        attacker.disturb();
        pair.run(Duration::from_micros(500), || false);
        attacker.reflect();
        most = most.max(passive.nic.counters().connections);
        while let Some((request, info)) = listener.next_request().unwrap() {
            requests += 1;
            if info.private_data == b"a friend" {
                passive.nic.accept(request, &passive.queue_pair, b"welcome", None).unwrap();
            } else {
                passive.nic.reject(request, b"a stranger").unwrap();
            }
        }
        first.get_or_insert(requests);
        if active.queue_pair.state() == State::Ready && posted < MESSAGES {
            send(active, posted);
            posted += 1;
        }
        passive.take_receives(&mut received);
        if received.len() as u64 == MESSAGES {
            break;
        }
    }
    assert_eq!((posted, received.len() as u64), (MESSAGES, MESSAGES), "{:?}", active.queue_pair.error());
    assert!(received.iter().all(|completion| completion.status == Status::Success));
    assert!(first <= Some(BACKLOG), "{first:?} have waited");
    assert_eq!(most, 1, "only one connection was accepted");
    assert!(attacker.heard < attacker.sent, "{} of {}", attacker.heard, attacker.sent);
    // When the attacker stops, so does everything.
    pair.run(Duration::from_secs(30), || false);
    attacker.reflect();
    let before = attacker.heard;
    pair.run(Duration::from_secs(30), || false);
    attacker.reflect();
    assert_eq!(attacker.heard, before);
    assert_eq!(active.queue_pair.state(), State::Ready);
    requests
}

/// Sends this hint about the peer to all ports, with quotes of packets that no host has sent: none, one that is cut
/// off, of set-up, of a connection.
fn forge(world: &World, peer: SocketAddr, what: HintKind) {
    let mut hello = [0; 24];
    hello[..5].copy_from_slice(&[0xc1, 0, 0, 0, 1]);
    hello[20] = 7;
    let packet = [&[0x41, 0][..], &[7; 16]].concat();
    for quote in [&[][..], &[0x41, 0, 1], &hello, &packet] {
        world.forge_hint(Hint { to: peer.into(), by: Some(peer.ip()), what, quote: Quote::of(quote) });
    }
}

const FORGED: [HintKind; 3] = [HintKind::Refused, HintKind::Unreachable, HintKind::TooLarge(1200)];

/// An attacker that knows only the addresses and ports can send any hint about a call that has no answer yet.
#[test]
fn a_call_is_not_failed_by_who_does_not_quote_it() {
    let world = World::new(3, Behaviour::default());
    world.set_packets(PacketBehaviour { refuses: false, ..world.packets() });
    let options = PairOptions::default();
    let pair = Pair::<Edge>::unconnected(&world, &options);
    let (active, passive) = (&pair.active, &pair.passive);
    active.nic.connect(&active.queue_pair, NIC.into(), None, options.active, b"").unwrap();
    for _ in 0..50 {
        FORGED.into_iter().for_each(|what| forge(&world, NIC.into(), what));
        pair.run(Duration::from_millis(10), || false);
        assert_eq!(active.queue_pair.state(), State::Connecting, "{:?}", active.queue_pair.error());
    }
    let listener = passive.nic.listen(NIC.into(), 4, options.passive).unwrap();
    pair.run(Duration::from_secs(5), || {
        if let Some((request, _)) = listener.next_request().unwrap() {
            passive.nic.accept(request, &passive.queue_pair, b"", None).unwrap();
        }
        active.queue_pair.state() != State::Connecting
    });
    assert_eq!(active.queue_pair.state(), State::Ready, "{:?}", active.queue_pair.error());
}

/// Nor does it touch an established connection, however often: not a packet is sent for it.
#[test]
fn a_connection_does_not_hear_who_does_not_quote_it() {
    let options = PairOptions::default();
    let pair = Pair::<Edge>::unconnected(&World::new(4, Behaviour::default()), &options);
    assert!(pair.connect(&options));
    pair.run(Duration::from_millis(100), || false);
    let sends = |end: &End<Edge>| end.nic.counters().sends;
    let before = [sends(&pair.active), sends(&pair.passive)];
    let peers = [&pair.active, &pair.passive].map(|end| end.queue_pair.info().unwrap().remote);
    for _ in 0..100 {
        for (peer, what) in peers.into_iter().flat_map(|peer| FORGED.map(|what| (peer, what))) {
            forge(&pair.world, peer, what);
            pair.run(Duration::from_micros(100), || false);
        }
    }
    assert_eq!([sends(&pair.active), sends(&pair.passive)], before);
    assert_eq!([&pair.active, &pair.passive].map(|end| end.queue_pair.state()), [State::Ready; 2]);
}

/// A program that accepts every caller, at once, each on a queue pair of its own.
struct Welcoming<'a> {
    end: &'a End<Edge>,
    listener: weft_nic::Listener,
    accepted: Vec<(SocketAddr, Arc<QueuePair>)>,
}

impl<'a> Welcoming<'a> {
    fn new(end: &'a End<Edge>, backlog: u32, options: &PairOptions) -> Self {
        let listener = end.nic.listen(NIC.into(), backlog, options.passive).unwrap();
        Self { end, listener, accepted: Vec::new() }
    }

    fn welcome(&mut self) {
        while let Some((request, info)) = self.listener.next_request().unwrap() {
            let attributes = QueuePairAttributes {
                domain: self.end.domain,
                send_completions: Arc::clone(&self.end.sends),
                receive_completions: Arc::clone(&self.end.receives),
                send_depth: 8,
                receive_depth: 8,
                shared_receives: None,
            };
            let queue_pair = self.end.nic.create_queue_pair(&attributes).unwrap();
            self.end.nic.accept(request, &queue_pair, b"welcome", None).unwrap();
            self.accepted.push((info.remote, queue_pair));
        }
    }

    fn count(&self, state: State) -> usize {
        self.accepted.iter().filter(|(_, queue_pair)| queue_pair.state() == state).count()
    }
}

/// Thousands of hellos from addresses that are not there: the program is notified of a few, none of them has a
/// connection, and they are gone after ten seconds. A caller that calls meanwhile is served in the moment that it takes
/// to validate its address.
#[test]
fn callers_that_never_confirm_have_no_connection_and_are_soon_gone() {
    const BACKLOG: u32 = 32;
    let world = World::new(21, Behaviour::default());
    let options = PairOptions::default();
    let pair = Pair::<Edge>::unconnected(&world, &options);
    let mut server = Welcoming::new(&pair.passive, BACKLOG, &options);
    let mut attacker = Attacker::new(&world, false);
    let flood = |attacker: &mut Attacker, server: &mut Welcoming<'_>, count: u32| {
        for number in 0..count {
            let hello = attacker.hello();
            attacker.say(&hello, Ipv4Addr::from(0x0b00_0000 | number));
            if number % 8 == 0 {
                pair.run(Duration::from_micros(300), || false);
                server.welcome();
            }
        }
    };
    flood(&mut attacker, &mut server, 2000);
    let heard = server.accepted.len();
    assert!((1..=BACKLOG as usize / 2).contains(&heard), "the program has heard of {heard} callers");
    assert_eq!((server.count(State::Connecting), server.count(State::Ready)), (heard, 0));
    assert_eq!(pair.passive.nic.counters().connections, 0);
    let begun = world.now();
    pair.active.nic.connect(&pair.active.queue_pair, NIC.into(), None, options.active, b"a friend").unwrap();
    while pair.active.queue_pair.state() == State::Connecting {
        flood(&mut attacker, &mut server, 8);
    }
    pair.run(Duration::from_secs(5), || server.count(State::Ready) == 1);
    assert!(world.now() - begun < Duration::from_millis(100), "{:?}", world.now() - begun);
    assert_eq!((pair.active.queue_pair.state(), server.count(State::Ready)), (State::Ready, 1));
    assert_eq!(pair.passive.nic.counters().connections, 1);
    // In good time the others fail, and others may call.
    pair.run(Duration::from_secs(11), || false);
    assert_eq!((server.count(State::Failed), server.count(State::Ready)), (heard, 1));
    let failed = server.accepted.iter().find_map(|(_, queue_pair)| queue_pair.error()).unwrap();
    assert!(failed.to_string().contains("did not confirm"), "{failed}");
    flood(&mut attacker, &mut server, 100);
    assert!(server.accepted.len() > heard + 1);
}

/// One hello that an attacker has recorded, with the proof of the job key in it, sent again from everywhere, is one
/// call, and fails.
#[test]
fn a_recorded_hello_is_one_call_however_often_and_from_wherever_it_is_said() {
    for key in [None, Some(JobKey::new(b"the key of this job").unwrap())] {
        let world = World::new(22, Behaviour::default());
        let options = PairOptions { settings: Settings { key, ..Settings::default() }, ..PairOptions::default() };
        let pair = Pair::<Edge>::unconnected(&world, &options);
        let mut server = Welcoming::new(&pair.passive, 4096, &options);
        let mut attacker = Attacker::new(&world, false);
        // A friend calls where the attacker is, and says what it would say to any peer.
        let trap = SocketAddr::from(([10, 66, 0, 1], 4000));
        pair.active.nic.connect(&pair.active.queue_pair, trap, None, options.active, b"a friend").unwrap();
        let (mut buffer, mut received) = (vec![0; 1 << 20], Vec::new());
        pair.run(Duration::from_millis(10), || false);
        attacker.port.receive(&mut buffer, &mut received).unwrap();
        let hello = buffer[received[0].range.clone()][..HELLO].to_vec();
        pair.active.nic.abandon(&pair.active.queue_pair);
        for number in 0..1500 {
            attacker.say(&hello, Ipv4Addr::from(0x0b00_0000 | number));
            pair.run(Duration::from_micros(300), || false);
            server.welcome();
        }
        assert_eq!((server.accepted.len(), server.count(State::Connecting)), (1, 1));
        pair.run(Duration::from_secs(11), || false);
        assert_eq!((server.count(State::Failed), pair.passive.nic.counters().connections), (1, 0));
    }
}

/// The program may send to a caller that was accepted at once, and close; both happen when the caller has confirmed.
#[test]
fn what_is_posted_and_closed_before_the_caller_confirms_follows_then() {
    for closes in [false, true] {
        let world = World::new(23, Behaviour::default());
        let options = PairOptions::default();
        let pair = Pair::<Edge>::unconnected(&world, &options);
        let (active, passive) = (&pair.active, &pair.passive);
        let _inbox = inbox(active, 1);
        let listener = passive.nic.listen(NIC.into(), 4, options.passive).unwrap();
        active.nic.connect(&active.queue_pair, NIC.into(), None, options.active, b"").unwrap();
        let mut request = None;
        pair.run(Duration::from_secs(1), || {
            request = request.or(listener.next_request().unwrap().map(|(request, _)| request));
            request.is_some()
        });
        let usual = world.packets();
        let loss = Loss::Independent(Chance::percent(100));
        world.set_packets(PacketBehaviour { links: Link { loss, ..usual.links }, ..usual });
        passive.nic.accept(request.unwrap(), &passive.queue_pair, b"", None).unwrap();
        send(passive, 7);
        if closes {
            passive.nic.close(&passive.queue_pair);
        }
        pair.run(Duration::from_secs(2), || false);
        let waits = if closes { State::Closing } else { State::Connecting };
        assert_eq!(passive.queue_pair.state(), waits);
        world.set_packets(usual);
        let mut received = Vec::new();
        pair.run(Duration::from_secs(5), || {
            active.take_receives(&mut received);
            !received.is_empty()
        });
        assert_eq!(received.first().map(|completion| completion.status), Some(Status::Success));
        if closes {
            active.nic.close(&active.queue_pair);
            pair.run(Duration::from_secs(5), || passive.queue_pair.state() == State::Closed);
        }
        let expected = if closes { State::Closed } else { State::Ready };
        assert_eq!(passive.queue_pair.state(), expected, "{:?}", passive.queue_pair.error());
    }
}

/// The outcome, as text, of a call that gets a wrong answer.
fn answered_with(key: Option<JobKey>, answer: impl Fn(&Hello<'_>) -> Message<'static>) -> String {
    let world = World::new(24, Behaviour::default());
    let options = PairOptions { settings: Settings { key, ..Settings::default() }, ..PairOptions::default() };
    let pair = Pair::<Edge>::unconnected(&world, &options);
    let mut attacker = Attacker::new(&world, false);
    let active = &pair.active;
    let remote = SocketAddr::from(([10, 66, 0, 1], 4000));
    active.nic.connect(&active.queue_pair, remote, None, options.active, b"").unwrap();
    let mut buffer = vec![0; 1 << 20];
    while active.queue_pair.state() == State::Connecting {
        pair.run(Duration::from_millis(100), || false);
        let mut received = Vec::new();
        attacker.port.receive(&mut buffer, &mut received).unwrap();
        for run in received {
            let Ok(setup) = Setup::parse(&buffer[run.range.clone()][..HELLO]) else { continue };
            let Message::Hello(hello) = &setup.message else { continue };
            let mut bytes = Vec::new();
            let message = answer(hello);
            Setup { destination: setup.source, source: ConnectionId(9), message }.emit(&mut bytes, 0);
            let from = run.to.map(|to| LocalAddress { interface: 0, ..to });
            let segment_size = bytes.len() as u32;
            let batch = DatagramBatch { to: run.from, from, segment_size, ecn: Ecn::NotCapable };
            attacker.port.send(&batch, &[Piece::Bytes(&bytes)]).unwrap();
        }
    }
    active.queue_pair.error().unwrap().to_string()
}

#[test]
fn a_call_that_is_answered_wrongly_is_told_in_words_that_fit() {
    let accept = |proof| {
        let terms = Terms {
            nonce: [1; 16],
            reset_token: [3; 16],
            credit: 100_000,
            peer_timeout_ms: 60_000,
            max_ack_delay_us: 1000,
            max_datagram: 1472,
            inbound_reads: 16,
            outbound_reads: 16,
            rails: 1,
            private_data: b"",
            offers: Offers::default(),
        };
        Message::Accept(Accept { terms, proof })
    };
    let said = answered_with(None, |_| Message::Wait);
    assert!(said.contains("has heard the call") && !said.contains("MPA"), "{said}");
    let said = answered_with(None, |_| accept(Some(&[7; 80])));
    assert!(said.contains("this side has none"), "{said}");
    let said = answered_with(Some(JobKey::new(b"the key of this job").unwrap()), |_| accept(None));
    assert!(said.contains("does not prove that it has the job key of this side"), "{said}");
}
