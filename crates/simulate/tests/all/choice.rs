//! iWARP or Edge, whichever answers: in virtual time, on a network that carries both, or only one.

use core::time::Duration;

use weft_base::{IwarpOrEdge, PortError, Time};
use weft_emulate::{Chance, Loss, Settings};
use weft_nic::{ConnectionError, LowerInfo, Offer, Transport};
use weft_simulate::{Behaviour, PacketBehaviour, Pair, PairOptions, RingBehaviour, World};

/// Connects with [`Transport::Auto`]. Returns what carries the connection, and when it was established.
fn connect(packets: PacketBehaviour, listens: Transport) -> (LowerInfo, Duration) {
    let world = World::new(3, Behaviour::default());
    world.set_packets(packets);
    let mut options = PairOptions::default();
    options.active = Offer { transport: Transport::Auto, ..options.active };
    options.passive = Offer { transport: listens, ..options.passive };
    let pair = Pair::<IwarpOrEdge>::unconnected(&world, &options);
    assert!(pair.connect(&options), "{:?}", pair.active.queue_pair.error());
    let [active, passive] = [&pair.active, &pair.passive].map(|end| end.queue_pair.info().unwrap().lower.clone());
    assert_eq!(matches!(active, LowerInfo::Edge), matches!(passive, LowerInfo::Edge));
    let counters = pair.active.nic.counters();
    let by_edge = u64::from(matches!(active, LowerInfo::Edge));
    assert_eq!((counters.edge_connections, counters.fallbacks), (by_edge, 1 - by_edge));
    (active, world.now().since(Time::ZERO))
}

fn with(links: Settings) -> PacketBehaviour {
    PacketBehaviour { links, ..PacketBehaviour::default() }
}

const SOON: Duration = Duration::from_millis(5);

#[test]
fn edge_where_datagrams_pass() {
    let (lower, took) = connect(PacketBehaviour::default(), Transport::Auto);
    assert!(matches!(lower, LowerInfo::Edge) && took < SOON, "{lower:?} after {took:?}");
}

#[test]
fn iwarp_after_a_quarter_of_a_second_where_none_pass() {
    let nothing = Settings { loss: Loss::Independent(Chance::percent(100)), ..with(Settings::default()).links };
    let (lower, took) = connect(with(nothing), Transport::Auto);
    let wait = Duration::from_millis(250);
    assert!(matches!(lower, LowerInfo::Mpa(_)) && (wait..wait + SOON).contains(&took), "{lower:?} after {took:?}");
}

#[test]
fn iwarp_at_once_where_nobody_listens_for_edge() {
    let (lower, took) = connect(PacketBehaviour::default(), Transport::Iwarp);
    assert!(matches!(lower, LowerInfo::Mpa(_)) && took < SOON, "{lower:?} after {took:?}");
}

#[test]
fn iwarp_later_where_nobody_says_that_nobody_listens_for_edge() {
    let silent = PacketBehaviour { refuses: false, ..PacketBehaviour::default() };
    let (lower, took) = connect(silent, Transport::Iwarp);
    let wait = Duration::from_millis(250);
    assert!(matches!(lower, LowerInfo::Mpa(_)) && (wait..wait + SOON).contains(&took), "{lower:?} after {took:?}");
}

/// Edge's first datagram has 1200 bytes above UDP: one byte of MTU is missing.
fn small_mtu() -> PacketBehaviour {
    PacketBehaviour { interface_mtu: 1227, ..PacketBehaviour::default() }
}

#[test]
fn iwarp_at_once_where_the_own_interface_is_too_small_for_edge() {
    let (lower, took) = connect(small_mtu(), Transport::Auto);
    assert!(matches!(lower, LowerInfo::Mpa(_)) && took < SOON, "{lower:?} after {took:?}");
}

#[test]
fn edge_says_at_once_that_the_own_interface_is_too_small() {
    let world = World::new(3, Behaviour::default());
    world.set_packets(small_mtu());
    let mut options = PairOptions::default();
    (options.active.transport, options.passive.transport) = (Transport::Edge, Transport::Edge);
    let pair = Pair::<IwarpOrEdge>::unconnected(&world, &options);
    assert!(!pair.connect(&options));
    let took = world.now().since(Time::ZERO);
    let error = pair.active.queue_pair.error().unwrap();
    let small = PortError::SmallMtu { mtu: Some(1227), needed: 1228 };
    assert!(matches!(&error, ConnectionError::Connect { error, .. } if *error == small), "{error:?}");
    let words = error.to_string();
    assert!(took < SOON && words.contains("MTU of 1227 bytes") && words.contains("1228"), "{words} after {took:?}");
}

#[test]
fn edge_where_the_answer_takes_most_of_that_time() {
    let links = PacketBehaviour::default().links;
    let late = with(Settings { delay: Duration::from_millis(100), ..links });
    let (lower, took) = connect(late, Transport::Auto);
    assert!(matches!(lower, LowerInfo::Edge) && took < Duration::from_millis(500), "{lower:?} after {took:?}");
}

/// A pair that goes through shared memory until the listening side answers.
fn declined(transport: Transport) -> (World, PairOptions, Pair<IwarpOrEdge>) {
    let ring = Some(RingBehaviour { declines_after: Some(SOON), ..RingBehaviour::default() });
    let world = World::new(3, Behaviour { ring, ..Behaviour::default() });
    let mut options = PairOptions::default();
    options.active = Offer { transport, ..options.active };
    options.passive = Offer { transport: Transport::Auto, ..options.passive };
    let pair = Pair::unconnected(&world, &options);
    (world, options, pair)
}

#[test]
fn iwarp_where_shared_memory_is_declined() {
    for transport in [Transport::SharedMemoryOrIwarp, Transport::Auto] {
        let (world, options, pair) = declined(transport);
        assert!(pair.connect(&options), "{:?}", pair.active.queue_pair.error());
        let took = world.now().since(Time::ZERO);
        let lower = pair.active.queue_pair.info().unwrap().lower.clone();
        let is_checked = matches!(&lower, LowerInfo::Mpa(mpa) if mpa.crc);
        assert!(is_checked && (SOON..2 * SOON).contains(&took), "{transport:?}: {lower:?} after {took:?}");
        let counters = pair.active.nic.counters();
        assert_eq!((counters.shared_memory_connections, counters.fallbacks), (0, 1));
    }
    let (_, options, pair) = declined(Transport::SharedMemory);
    assert!(!pair.connect(&options));
    let error = pair.active.queue_pair.error();
    let is_said = matches!(&error, Some(ConnectionError::Connect { error: PortError::Declined, .. }));
    assert!(is_said, "{error:?}");
}
