//! Datagram ports in virtual time: what links do to packets reaches the ports, from the seed alone.

use core::time::Duration;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use weft_base::{
    DatagramBatch, DatagramOptions, DatagramPort, DatagramSent, Ecn, Hint, HintKind, Interest, LocalAddress, Network,
    Piece, PortAddress, PortError, Quote, Random, Readiness, ReceivedDatagrams, Time, Token,
};
use weft_emulate::{Chance, Delayed, Loss, Mtu, Queue, Settings};
use weft_memory::{Access, Limits, Registry};
use weft_simulate::{Behaviour, PacketBehaviour, SimulatedDatagramPort, SimulatedNetwork, World};

const A: &str = "10.0.0.1";
const B: &str = "10.0.0.2";
const LONG: Duration = Duration::from_secs(1000);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn host(world: &World, addresses: &[&str]) -> SimulatedNetwork {
    let addresses: Vec<_> = addresses.iter().map(|text| ip(text)).collect();
    world.network(Registry::new(1, Limits::default()), &addresses)
}

fn bind(network: &mut SimulatedNetwork, local: &str) -> SimulatedDatagramPort {
    network.bind(local.parse().unwrap(), DatagramOptions::default()).unwrap()
}

fn batch(to: PortAddress, segment_size: u32) -> DatagramBatch {
    DatagramBatch { to, from: None, segment_size, ecn: Ecn::Capable0 }
}

/// Two hosts, a port on each.
fn pair(world: &World) -> (SimulatedDatagramPort, SimulatedDatagramPort) {
    (bind(&mut host(world, &[A]), "10.0.0.1:7000"), bind(&mut host(world, &[B]), "10.0.0.2:7000"))
}

/// Entries of what is there now, each with its bytes.
fn receive(port: &mut SimulatedDatagramPort) -> Vec<(ReceivedDatagrams, Vec<u8>)> {
    let (mut buffer, mut received) = (vec![0; 200_000], Vec::new());
    assert_eq!(port.receive(&mut buffer, &mut received), Ok(received.len()));
    received.into_iter().map(|run| (run.clone(), buffer[run.range].to_vec())).collect()
}

/// Each datagram that is there now.
fn datagrams(port: &mut SimulatedDatagramPort) -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    loop {
        let runs = receive(port);
        if runs.is_empty() {
            return datagrams;
        }
        for (run, bytes) in runs {
            datagrams.extend(bytes.chunks(run.segment_size as usize).map(<[u8]>::to_vec));
        }
    }
}

fn with_links(world: &World, links: Settings) {
    world.set_packets(PacketBehaviour { links, ..world.packets() });
}

/// All that a network does, at once.
fn all_faults() -> Settings {
    let delayed = |percent| Delayed { chance: Chance::percent(percent), by: Duration::from_millis(3) };
    Settings {
        delay: Duration::from_micros(300),
        jitter: Duration::from_micros(200),
        rate_bits_per_s: Some(50_000_000),
        queue: Queue { bytes: 20_000, mark_at: Some(6000) },
        loss: Loss::bursts(Chance::percent(8), 4),
        reordering: delayed(10),
        duplication: delayed(10),
        corruption: Chance::percent(5),
        mtu: Some(Mtu { bytes: 1200, tells: false }),
        ..Settings::default()
    }
}

/// A datagram of a number, distinguished from a damaged one by a repetition of the number.
fn numbered(number: u32) -> Vec<u8> {
    let mut random = Random::new(u64::from(number));
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.resize(1000, 0);
    random.fill(&mut bytes[4..]);
    bytes
}

fn number(bytes: &[u8]) -> Option<u32> {
    let number = u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?);
    (numbered(number) == bytes).then_some(number)
}

/// One end sends numbered datagrams until the other has sent each of them back. Returns all that came, with when it
/// did.
fn exchange(seed: u64) -> (Vec<(Time, Vec<u8>)>, World) {
    const COUNT: u32 = 200;
    let world = World::new(seed, Behaviour::default());
    with_links(&world, all_faults());
    let (mut a, mut b) = pair(&world);
    world.cut(ip(A), ip(B), world.now() + Duration::from_millis(2)..world.now() + Duration::from_millis(12));
    let mut missing: BTreeSet<u32> = (0..COUNT).collect();
    let (mut came, mut next_round) = (Vec::new(), world.now());
    let end = world.now() + LONG;
    while !missing.is_empty() {
        assert!(world.now() < end, "seed {seed}: {} are missing", missing.len());
        if world.now() >= next_round {
            next_round = world.now() + Duration::from_millis(10);
            // Is dropped, and no router reports it.
            let probe = a.send(&batch(b.local_address(), 1300), &[Piece::Bytes(&[0; 1300])]);
            assert_eq!(probe, Ok(DatagramSent::Taken(1)));
            let bytes: Vec<u8> = missing.iter().take(30).flat_map(|number| numbered(*number)).collect();
            assert!(matches!(
                a.send(&batch(b.local_address(), 1000), &[Piece::Bytes(&bytes)]),
                Ok(DatagramSent::Taken(1..))
            ));
        }
        for bytes in datagrams(&mut b) {
            let sent = b.send(&batch(a.local_address(), 1000), &[Piece::Bytes(&bytes)]);
            assert_eq!(sent, Ok(DatagramSent::Taken(1)));
            came.push((world.now(), bytes));
        }
        for bytes in datagrams(&mut a) {
            number(&bytes).map(|number| missing.remove(&number));
            came.push((world.now(), bytes));
        }
        world.advance(next_round.since(world.now()).max(Duration::from_nanos(1)));
    }
    (came, world)
}

#[test]
fn an_exchange_survives_all_faults_and_all_packets_are_accounted_for() {
    let mut seen = weft_emulate::Statistics::default();
    for seed in 0..50 {
        let (came, world) = exchange(seed);
        let (statistics, on_the_way) = world.packet_statistics();
        let gone =
            statistics.delivered + statistics.lost + statistics.overflowed + statistics.cut + statistics.too_large;
        assert_eq!(statistics.sent + statistics.duplicated, gone + on_the_way as u64, "seed {seed}");
        assert!(statistics.delivered >= came.len() as u64);
        let damaged = came.iter().filter(|(_, bytes)| number(bytes).is_none()).count();
        assert!(damaged > 0, "seed {seed}");
        seen = seen + statistics;
    }
    let each = [
        seen.lost,
        seen.too_large,
        seen.overflowed,
        seen.cut,
        seen.duplicated,
        seen.held_back,
        seen.corrupted,
        seen.marked,
    ];
    assert!(each.iter().all(|count| *count > 0), "{seen:?}");
}

#[test]
fn a_seed_is_a_run() {
    let run = |seed| exchange(seed).0;
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn a_datagram_takes_the_delay_and_arrives_where_it_was_sent() {
    let world = World::new(1, Behaviour::default());
    let (mut a, mut b) = pair(&world);
    let begun = world.now();
    assert_eq!(a.send(&batch(b.local_address(), 9), &[Piece::Bytes(b"hello")]), Ok(DatagramSent::Taken(1)));
    assert_eq!(receive(&mut b), []);
    assert!(world.advance(LONG));
    assert_eq!(world.now() - begun, Duration::from_micros(100));
    let [(run, bytes)] = &receive(&mut b)[..] else { panic!("one came") };
    assert_eq!((&bytes[..], run.from, run.ecn), (&b"hello"[..], a.local_address(), Ecn::Capable0));
    assert_eq!(run.to, Some(LocalAddress { ip: ip(B), interface: 0 }));
    assert!(!world.advance(LONG), "nothing else comes");
}

#[test]
fn merged_runs_are_of_one_sender_one_mark_and_one_size() {
    let world = World::new(3, Behaviour::default());
    world.set_packets(PacketBehaviour { merges: Chance::ALWAYS, takes_fewer: Chance::NEVER, ..world.packets() });
    let (mut a, mut b) = pair(&world);
    let to = batch(b.local_address(), 4);
    let send = |a: &mut SimulatedDatagramPort, to: &DatagramBatch, bytes: &[u8]| {
        assert!(matches!(a.send(to, &[Piece::Bytes(bytes)]), Ok(DatagramSent::Taken(1..))));
    };
    send(&mut a, &to, b"aaaabbbbcc");
    send(&mut a, &to, b"ddddeeee");
    send(&mut a, &DatagramBatch { ecn: Ecn::NotCapable, ..to }, b"ffff");
    world.advance(LONG);
    let runs: Vec<_> = receive(&mut b).into_iter().map(|(run, bytes)| (run.segment_size, bytes)).collect();
    let expected = [&b"aaaabbbbcc"[..], b"ddddeeee", b"ffff"].map(|bytes| (4, bytes.to_vec()));
    assert_eq!(runs, expected);
}

#[test]
fn payload_is_sent_from_memory() {
    let world = World::new(1, Behaviour::default());
    let registry = Registry::new(1, Limits::default());
    let domain = registry.allocate_domain().unwrap();
    let source = registry.register(domain, b"payload".to_vec(), Access::LOCAL_READ, 0).unwrap();
    let mut a = bind(&mut world.network(registry, &[ip(A)]), "10.0.0.1:1");
    let mut b = bind(&mut host(&world, &[B]), "10.0.0.2:1");
    let slice = source.slice(0..7).unwrap();
    let pieces = [Piece::Bytes(b"the "), Piece::Memory(slice)];
    assert_eq!(a.send(&batch(b.local_address(), 99), &pieces), Ok(DatagramSent::Taken(1)));
    world.advance(LONG);
    assert_eq!(datagrams(&mut b), [b"the payload"]);
    drop(source);
    assert_eq!(a.send(&batch(b.local_address(), 99), &pieces), Err(PortError::Memory(slice.region)));
}

#[test]
fn addresses_are_of_their_host_and_taken_once() {
    let world = World::new(1, Behaviour::default());
    let (mut one, mut two, mut any) = (host(&world, &[A, "fd00::1"]), host(&world, &[B]), host(&world, &[]));
    let refused = |network: &mut SimulatedNetwork, local: &str| {
        network.bind(local.parse().unwrap(), DatagramOptions::default()).map(drop).unwrap_err()
    };
    let first = bind(&mut one, "10.0.0.1:5000");
    assert_eq!(refused(&mut one, "10.0.0.1:5000"), PortError::AddressInUse);
    assert_eq!(refused(&mut one, "[::]:5000"), PortError::AddressInUse);
    assert_eq!(refused(&mut two, "10.0.0.1:5001"), PortError::AddressNotLocal);
    let _elsewhere = bind(&mut two, "0.0.0.0:5000");
    let _whatever = bind(&mut any, "10.9.9.9:5000");
    drop(first);
    let again = bind(&mut one, "0.0.0.0:5000");
    let (free, other) = (bind(&mut one, "0.0.0.0:0"), bind(&mut one, "0.0.0.0:0"));
    let number = |port: &SimulatedDatagramPort| port.local_address().ip().unwrap().port();
    assert!(number(&again) == 5000 && number(&free) != 0 && number(&free) != number(&other));
}

#[test]
fn an_unspecified_address_takes_what_comes_to_any_and_answers_from_there() {
    let world = World::new(1, Behaviour::default());
    let mut server = bind(&mut host(&world, &[B, "10.0.1.2", "fd00::2"]), "[::]:9");
    let _other = bind(&mut host(&world, &["10.0.0.3"]), "[::]:9");
    let mut client = bind(&mut host(&world, &[A]), "10.0.0.1:0");
    let there: SocketAddr = "10.0.1.2:9".parse().unwrap();
    assert_eq!(client.send(&batch(there.into(), 9), &[Piece::Bytes(b"question")]), Ok(DatagramSent::Taken(1)));
    world.advance(LONG);
    let (question, _) = receive(&mut server).remove(0);
    assert_eq!(question.to.map(|to| to.ip), Some(there.ip()));
    let answer = DatagramBatch { from: question.to, ..batch(question.from, 9) };
    assert_eq!(server.send(&answer, &[Piece::Bytes(b"answer")]), Ok(DatagramSent::Taken(1)));
    world.advance(LONG);
    assert_eq!(receive(&mut client)[0].0.from, there.into());
    let foreign = Some(LocalAddress { ip: ip("10.7.7.7"), interface: 0 });
    let sent = server.send(&DatagramBatch { from: foreign, ..answer }, &[Piece::Bytes(b"x")]);
    assert_eq!(sent, Err(PortError::AddressNotLocal));
}

#[test]
fn that_nobody_is_there_is_a_hint_after_a_round_trip() {
    let world = World::new(1, Behaviour::default());
    let mut a = bind(&mut host(&world, &[A]), "10.0.0.1:1");
    let nobody: PortAddress = "10.0.0.2:1".parse::<SocketAddr>().unwrap().into();
    let ask = |a: &mut SimulatedDatagramPort| {
        assert_eq!(a.send(&batch(nobody, 9), &[Piece::Bytes(b"x")]), Ok(DatagramSent::Taken(1)));
        let begun = world.now();
        while world.advance(LONG) {
            if let Some(hint) = a.poll_hint() {
                assert_eq!(world.now() - begun, Duration::from_micros(200));
                return Some(hint);
            }
        }
        a.poll_hint()
    };
    assert_eq!(
        ask(&mut a),
        Some(Hint { to: nobody, by: Some(ip(B)), what: HintKind::Refused, quote: Quote::of(b"x") })
    );
    assert_eq!(a.poll_hint(), None);
    world.cut(ip(B), ip(A), world.now()..Time::from_nanos(u64::MAX));
    assert_eq!(ask(&mut a), None, "the answer finds no way");
    world.mend();
    world.set_packets(PacketBehaviour { refuses: false, ..world.packets() });
    assert_eq!(ask(&mut a), None, "nobody says anything");
}

#[test]
fn what_is_too_large_is_told_at_once_later_or_never() {
    let world = World::new(1, Behaviour::default());
    let (mut a, mut b) = pair(&world);
    let bytes = [7; 1473];
    let send = |a: &mut SimulatedDatagramPort, length: usize| {
        a.send(&batch("10.0.0.2:7000".parse::<SocketAddr>().unwrap().into(), 1473), &[Piece::Bytes(&bytes[..length])])
    };
    assert_eq!(send(&mut a, 1473), Ok(DatagramSent::TooLarge(Some(1472))), "for its own interface");
    for tells in [true, false] {
        let mtu = Some(Mtu { bytes: 1300, tells });
        world.set_way(ip(A), ip(B), Settings { mtu, ..world.packets().links });
        assert_eq!(send(&mut a, 1273), Ok(DatagramSent::Taken(1)));
        assert_eq!(a.poll_hint(), None, "not yet");
        assert_eq!(world.advance(LONG), tells);
        assert_eq!(a.poll_hint().map(|hint| hint.what), tells.then_some(HintKind::TooLarge(1272)));
        assert_eq!(send(&mut a, 1272), Ok(DatagramSent::Taken(1)));
        world.advance(LONG);
        assert_eq!(datagrams(&mut b), [vec![7; 1272]]);
    }
}

#[test]
fn a_full_buffer_overflows_and_counts() {
    let world = World::new(1, Behaviour::default());
    let mut a = bind(&mut host(&world, &[A]), "10.0.0.1:1");
    let options = DatagramOptions { buffer_bytes: Some(5000), ..DatagramOptions::default() };
    let mut b = host(&world, &[B]).bind("10.0.0.2:1".parse().unwrap(), options).unwrap();
    assert_eq!(b.limits().receive_buffer_bytes, 5000);
    for _ in 0..10 {
        assert_eq!(a.send(&batch(b.local_address(), 1000), &[Piece::Bytes(&[1; 1000])]), Ok(DatagramSent::Taken(1)));
    }
    world.advance(LONG);
    assert_eq!((datagrams(&mut b).len(), b.counters().overflowed), (3, 7));
    assert_eq!(a.send(&batch(b.local_address(), 1000), &[Piece::Bytes(b"later")]), Ok(DatagramSent::Taken(1)));
    world.advance(LONG);
    assert_eq!(datagrams(&mut b), [b"later"]);
    let huge = DatagramOptions { buffer_bytes: Some(u32::MAX), ..options };
    let limits = host(&world, &[B]).bind("10.0.0.2:2".parse().unwrap(), huge).unwrap().limits();
    assert_eq!(limits.receive_buffer_bytes, world.packets().largest_receive_buffer);
}

#[test]
fn interest_is_told_once() {
    let world = World::new(1, Behaviour::default());
    let mut network = host(&world, &[A, B]);
    let (mut a, mut b) = (bind(&mut network, "10.0.0.1:1"), bind(&mut network, "10.0.0.2:1"));
    let wait = |network: &mut SimulatedNetwork| {
        let mut ready = Vec::new();
        network.wait(None, &mut ready).unwrap();
        ready
    };
    network.arm_datagram(&mut a, Token(1), Interest { readable: false, writable: true, least: 1 }).unwrap();
    network.arm_datagram(&mut b, Token(2), Interest { readable: true, writable: false, least: 1 }).unwrap();
    assert_eq!(wait(&mut network), [Readiness { token: Token(1), readable: false, writable: true }]);
    assert_eq!(a.send(&batch(b.local_address(), 9), &[Piece::Bytes(b"x")]), Ok(DatagramSent::Taken(1)));
    assert_eq!(wait(&mut network), [], "it is on the way");
    world.advance(LONG);
    assert_eq!(wait(&mut network), [Readiness { token: Token(2), readable: true, writable: false }]);
    assert_eq!(wait(&mut network), [], "silent until it is armed again");
}

#[test]
fn each_direction_and_each_way_is_a_link_of_its_own() {
    let world = World::new(1, Behaviour::default());
    let (mut a, mut b) = pair(&world);
    let slow = Settings { delay: Duration::from_millis(50), ..world.packets().links };
    world.set_way(ip(A), ip(B), slow);
    assert_eq!(a.send(&batch(b.local_address(), 9), &[Piece::Bytes(b"x")]), Ok(DatagramSent::Taken(1)));
    assert_eq!(b.send(&batch(a.local_address(), 9), &[Piece::Bytes(b"y")]), Ok(DatagramSent::Taken(1)));
    let begun = world.now();
    world.advance(LONG);
    assert_eq!((datagrams(&mut a).len(), world.now() - begun), (1, Duration::from_micros(100)));
    world.advance(LONG);
    assert_eq!((datagrams(&mut b).len(), world.now() - begun), (1, Duration::from_millis(50)));
    assert_eq!(world.way_statistics(ip(A), ip(B)).0.delivered, 1);
    assert_eq!(world.packet_statistics().0.delivered, 2);
    // What was set apart stays when the rest changes.
    with_links(&world, Settings { delay: Duration::from_millis(1), ..slow });
    assert_eq!(a.send(&batch(b.local_address(), 9), &[Piece::Bytes(b"x")]), Ok(DatagramSent::Taken(1)));
    let begun = world.now();
    world.advance(LONG);
    assert_eq!(world.now() - begun, Duration::from_millis(50));
}
