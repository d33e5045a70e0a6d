//! Paths that change, and paths that drop what is marked with ECT, in virtual time (RFC 9000 sections 9.4 and 13.4.2).

use core::time::Duration;
use std::net::SocketAddr;

use crate::world::links::address_on;
use crate::world::{Faults, World};
use weft_edge::{Event, Settings};

const MS: Duration = Duration::from_millis(1);

fn world(faults: Faults, messages: u32) -> World {
    let settings = Settings { credit: 1 << 20, max_datagram: 8972, ..Settings::default() };
    World::new(&settings, faults, [messages, messages], 3000, 5)
}

/// The time until all messages are acknowledged.
fn until_acknowledged(world: &mut World) -> Duration {
    let begin = world.now;
    world.run(200_000, World::all_acknowledged);
    world.now - begin
}

fn marked(world: &World) -> u64 {
    world.sides[0].marked
}

/// Adds this many messages at both sides.
fn post(world: &mut World, messages: u32) {
    for side in 0..2 {
        world.sides[side].source.left = messages;
        world.transmit(side);
    }
}

#[test]
fn a_path_that_drops_marked_packets_from_the_start_costs_two_probes() {
    // So few that all are marked for some time.
    let mut world = world(Faults { drops_ect: true, ..Faults::none() }, 1);
    let took = until_acknowledged(&mut world);
    // The assumed round trip is 100 ms, so the second probe is sent after 0.9 s; first by one side, then by the other.
    assert!(took <= 2000 * MS, "{took:?}");
    let before = marked(&world);
    post(&mut world, 200);
    let took = until_acknowledged(&mut world);
    assert!(took <= 50 * MS && marked(&world) == before, "{took:?}, {before} and {} marked", marked(&world));
    world.finish();
}

#[test]
fn a_path_that_drops_marked_packets_later_costs_a_few_probes_and_then_none_is_marked() {
    let mut world = world(Faults::none(), 200);
    until_acknowledged(&mut world);
    let before = marked(&world);
    assert!(before > 50, "marks arrive");
    world.faults.drops_ect = true;
    for round in 0..4 {
        post(&mut world, 200);
        let took = until_acknowledged(&mut world);
        let most = if round == 0 { 200 } else { 100 };
        assert!(took <= most * MS, "{took:?} in round {round}");
    }
    let before = marked(&world);
    post(&mut world, 200);
    until_acknowledged(&mut world);
    assert_eq!(marked(&world), before);
    world.finish();
}

/// A pause is not the fault of marks: marking continues.
#[test]
fn marks_go_on_after_a_pause() {
    let mut world = world(Faults::none(), 100);
    until_acknowledged(&mut world);
    world.faults.partition = true;
    post(&mut world, 100);
    world.run_for(60 * MS);
    world.faults.partition = false;
    until_acknowledged(&mut world);
    let before = marked(&world);
    post(&mut world, 500);
    until_acknowledged(&mut world);
    assert!(marked(&world) >= before + 50, "{} marked", marked(&world) - before);
    world.finish();
}

/// One side moves to another address. Runs until the other one has validated it.
fn move_to(world: &mut World, to: SocketAddr) {
    world.sides[1].addresses[0] = to;
    post(world, 1000);
    world.run(100_000, |world| world.sides[0].events.contains(&Event::Moved(to)));
}

#[test]
fn marks_are_tried_again_on_another_path() {
    let mut world = world(Faults { drops_ect: true, ..Faults::none() }, 200);
    until_acknowledged(&mut world);
    let before = marked(&world);
    world.faults.drops_ect = false;
    move_to(&mut world, address_on(0, 5));
    until_acknowledged(&mut world);
    assert!(marked(&world) >= before + 50, "{} marked", marked(&world) - before);
    world.finish();
}

/// What was known of the old path does not apply to another one, except where only the port has changed: that is a NAT
/// on the same path.
#[test]
fn another_path_begins_with_the_first_window_and_the_least_datagram() {
    let here = address_on(0, 1);
    for (to, is_same) in [(address_on(0, 5), false), (SocketAddr::new(here.ip(), 7777), true)] {
        let mut world = world(Faults::none(), 3000);
        world.run_for(50 * MS);
        let known = |world: &World| {
            let connection = &world.sides[0].connection;
            (connection.window(), connection.datagram_size())
        };
        let (window, size) = known(&world);
        assert!(window > 100_000 && size == 8972, "{window} {size}");
        move_to(&mut world, to);
        if is_same {
            assert!(known(&world).0 > 12_000 && known(&world).1 == 8972, "{:?}", known(&world));
        } else {
            assert_eq!(known(&world), (12_000, 1200));
        }
        until_acknowledged(&mut world);
        world.finish();
    }
}

/// RFC 9000 section 8.2.3: short challenges pass there, and each full datagram would be lost.
#[test]
fn a_peer_is_not_followed_to_a_path_that_does_not_carry_the_least_datagram() {
    let mut world = world(Faults::none(), 100);
    until_acknowledged(&mut world);
    let (before, moved) = (world.sides[0].connection.peer_address(), address_on(0, 5));
    world.sides[1].addresses[0] = moved;
    world.faults.carries = 1199;
    post(&mut world, 1);
    world.run_for(5000 * MS);
    assert_eq!(world.sides[0].connection.peer_address(), before);
    world.faults.carries = 1200;
    world.run(200_000, |world| world.sides[0].events.contains(&Event::Moved(moved)));
    until_acknowledged(&mut world);
    world.finish();
}

/// The round trip of the new path is used at once, and packets in flight are retransmitted.
#[test]
fn another_path_has_a_round_trip_of_its_own() {
    let mut world = world(Faults { delay_us: 40_000, ..Faults::none() }, 100);
    until_acknowledged(&mut world);
    world.faults.delay_us = 100;
    move_to(&mut world, address_on(0, 5));
    let round_trip = world.sides[0].connection.round_trip();
    assert!(round_trip <= 10 * MS, "{round_trip:?}");
    until_acknowledged(&mut world);
    world.finish();
}
