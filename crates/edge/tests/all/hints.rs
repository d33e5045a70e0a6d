//! Hints (ICMP): a peer that is alive loses nothing by false ones, and a peer whose program has ended is detected.

use core::mem;
use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use crate::world::{Faults, World, address};
use weft_base::{Hint, HintKind, Quote};
use weft_edge::{Ending, Settings};

const KINDS: [HintKind; 3] = [HintKind::Refused, HintKind::Unreachable, HintKind::TooLarge(1280)];

/// Both sides are set up, have searched the MTU, and are idle. Side 0's datagrams are recorded.
fn quiet() -> World {
    let mut world = World::new(&Settings::default(), Faults::none(), [40, 40], 20_000, 5);
    world.run(100_000, World::all_acknowledged);
    world.run_for(Duration::from_millis(100));
    assert_eq!(world.sides[0].connection.datagram_size(), 1472);
    world.seen = Some((0, vec![]));
    world
}

fn hint(what: HintKind, (quoted, to): &(Vec<u8>, SocketAddr), by: Option<IpAddr>) -> Hint {
    Hint { to: (*to).into(), by, what, quote: Quote::of(quoted) }
}

fn seen(world: &mut World) -> Vec<(Vec<u8>, SocketAddr)> {
    mem::take(&mut world.seen.as_mut().expect("packets are recorded").1)
}

/// Reports each recorded datagram to its sender at once: no process has that port.
fn refuse_all(world: &mut World) {
    let side = world.seen.as_ref().expect("packets are recorded").0;
    for datagram in seen(world) {
        let refused = hint(HintKind::Refused, &datagram, Some(datagram.1.ip()));
        world.sides[side].connection.take_hint(&refused, world.now);
        world.transmit(side);
    }
}

fn sent(world: &World) -> u64 {
    world.sides[0].connection.counters().packets_sent
}

#[test]
fn a_hint_that_quotes_no_packet_in_flight_is_ignored() {
    let mut world = quiet();
    // One that is acknowledged, and one that is not.
    world.sides[0].source.left = 1;
    world.transmit(0);
    world.run(1000, World::all_acknowledged);
    let settled = seen(&mut world).pop().expect("a datagram");
    world.sides[0].source.left = 1;
    world.transmit(0);
    let under_way = seen(&mut world).pop().expect("a datagram");
    let changed = |at: usize| {
        let mut bytes = under_way.0.clone();
        bytes[at] ^= 1;
        (bytes, under_way.1)
    };
    let forged = [
        (vec![], under_way.1),
        (vec![0; 8], under_way.1),
        (under_way.0[..17].to_vec(), under_way.1),
        settled,
        // Of another connection, of a number that was never sent, of another rail, and sent elsewhere.
        changed(9),
        changed(10),
        changed(1),
        (under_way.0.clone(), address(0)),
    ];
    let before = sent(&world);
    for (forged, what) in forged.iter().flat_map(|forged| KINDS.map(|what| (forged, what))) {
        let forged = hint(what, forged, Some(forged.1.ip()));
        assert!(!world.sides[0].connection.take_hint(&forged, world.now), "{forged:?}");
        world.transmit(0);
    }
    assert_eq!(sent(&world), before, "not a packet");
    assert_eq!(world.sides[0].connection.datagram_size(), 1472);
    assert_eq!(world.sides[0].connection.counters().false_hints, forged.len() as u64 * 3);
    world.finish();
}

/// An attacker sees each packet, and reports at once that it was refused: the peer, which answers, is not lost, idle or
/// not.
#[test]
fn a_peer_that_answers_is_not_lost_though_each_packet_is_said_to_be_refused() {
    let mut world = quiet();
    world.sides[0].source.left = 100;
    world.transmit(0);
    let until = world.now + Duration::from_secs(300);
    while world.now < until && world.step() {
        refuse_all(&mut world);
    }
    assert_eq!(world.ending(0), None);
    // Reports from before its last answer do not make a pause of it an end.
    world.seen = None;
    world.sides[1].stopped = true;
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.ending(0), None, "it has been silent for 5 s, and was not reported since");
    world.resume(1);
    world.finish();
}

/// Nor do false hints cause more than a few packets.
#[test]
fn hints_that_quote_a_packet_start_a_probe_now_and_then() {
    let mut world = quiet();
    world.sides[0].source.left = 1;
    world.transmit(0);
    world.sides[1].stopped = true;
    let quoted = seen(&mut world).pop().expect("a datagram");
    let before = sent(&world);
    for _ in 0..1000 {
        for what in [HintKind::Refused, HintKind::Unreachable] {
            let hint = hint(what, &quoted, Some(quoted.1.ip()));
            assert!(world.sides[0].connection.take_hint(&hint, world.now));
            world.transmit(0);
        }
    }
    assert!((1..=2).contains(&(sent(&world) - before)), "one probe, and what is under way again");
    world.sides[1].stopped = false;
    world.finish();
}

/// Its host reports each packet, and nothing else is received.
#[test]
fn a_peer_whose_program_has_ended_is_lost() {
    let mut world = quiet();
    world.sides[0].source.left = 1;
    world.transmit(0);
    world.run(1000, World::all_acknowledged);
    world.sides[0].source.left = 1;
    world.sides[1].stopped = true;
    world.transmit(0);
    let begun = world.now;
    while world.ending(0).is_none() && world.step() {
        refuse_all(&mut world);
    }
    assert_eq!(world.ending(0), Some(&Ending::Reset));
    let took = world.now - begun;
    assert!((Duration::from_secs(2)..Duration::from_millis(2200)).contains(&took), "{took:?}");
}

/// Also while nothing is in flight, at any time, at either side, right after a message too: it is known within three
/// seconds.
#[test]
fn a_peer_whose_program_has_ended_is_lost_within_three_seconds_when_nothing_is_under_way() {
    for (quarters, lost) in (0..16).flat_map(|quarters| [0, 1].map(|lost| (quarters, lost))) {
        let mut world = quiet();
        world.sides[0].source.left = 1;
        world.transmit(0);
        world.run(1000, World::all_acknowledged);
        let until = world.now + Duration::from_millis(250) * quarters;
        while world.next_at().is_some_and(|at| at <= until) {
            world.step();
        }
        world.now = until;
        world.sides[lost].stopped = true;
        world.seen = Some((1 - lost, vec![]));
        while world.ending(1 - lost).is_none() && world.step() {
            refuse_all(&mut world);
        }
        assert_eq!(world.ending(1 - lost), Some(&Ending::Reset));
        let took = world.now - until;
        assert!(took <= Duration::from_secs(3), "{quarters}, {lost}: {took:?}");
    }
}

/// An idle connection costs one probe and one answer in 1.5 s, from one side, and all connections probe at the same
/// time.
#[test]
fn quiet_connections_ask_seldom_and_together() {
    let asked = [0, 700, 1300].map(|later_ms| {
        let mut world = quiet();
        let until = world.now + Duration::from_millis(later_ms);
        while world.next_at().is_some_and(|at| at <= until) {
            world.step();
        }
        world.now = until;
        world.sides[0].source.left = 1;
        world.transmit(0);
        world.run(1000, World::all_acknowledged);
        world.run_for(Duration::from_secs(10));
        let count = |world: &World| [0, 1].map(|side| world.sides[side].connection.counters().packets_sent);
        let before = count(&world);
        let mut times = vec![];
        world.seen = Some((0, vec![]));
        let until = world.now + Duration::from_secs(100);
        while world.now < until && world.step() {
            if !seen(&mut world).is_empty() {
                times.push(world.now);
            }
        }
        let sent = count(&world);
        assert!((65..=67).contains(&(sent[0] - before[0])) && (65..=67).contains(&(sent[1] - before[1])), "{sent:?}");
        times.iter().map(|at| at.as_nanos() % 1_500_000_000).collect::<std::collections::BTreeSet<_>>()
    });
    assert_eq!((asked[0].len(), &asked[1], &asked[2]), (1, &asked[0], &asked[0]));
}

/// A host is trusted about its own ports alone, and not after one report: it may come from a rule of its firewall.
#[test]
fn a_silent_peer_is_not_lost_by_hints_of_others_nor_by_one_report() {
    for says_once in [false, true] {
        let mut world = quiet();
        world.sides[0].source.left = 1;
        world.sides[1].stopped = true;
        world.transmit(0);
        let until = world.now + Duration::from_secs(60);
        let mut said = 0;
        while world.now < until && world.step() {
            for datagram in seen(&mut world) {
                let by = if says_once { datagram.1.ip() } else { address(0).ip() };
                if !says_once || said == 0 {
                    let refused = hint(HintKind::Refused, &datagram, Some(by));
                    said += u32::from(world.sides[0].connection.take_hint(&refused, world.now));
                    world.transmit(0);
                }
            }
        }
        assert!(said > 0);
        assert_eq!(world.ending(0), None, "{says_once}");
        world.sides[1].stopped = false;
        world.finish();
    }
}

#[test]
fn a_hinted_size_is_probed_and_none_below_the_floor_is_used() {
    let mut world = quiet();
    let size = |world: &World| world.sides[0].connection.datagram_size();
    world.sides[0].source.left = 20;
    world.transmit(0);
    let large = seen(&mut world).into_iter().find(|(bytes, _)| bytes.len() > 1400).expect("a large one");
    let too_large = |passes| hint(HintKind::TooLarge(passes), &large, None);
    for passes in [0, 100, 1199, 1472, 9000] {
        assert!(world.sides[0].connection.take_hint(&too_large(passes), world.now));
        assert_eq!(size(&world), 1472, "{passes}");
    }
    assert!(world.sides[0].connection.take_hint(&too_large(1280), world.now));
    assert_eq!(size(&world), 1280);
    // The report was false: soon everything is as before.
    world.seen = None;
    world.run_for(Duration::from_secs(6));
    assert_eq!(size(&world), 1472);
    world.finish();
}
