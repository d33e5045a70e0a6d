//! Paths that drop what is marked with ECT, in virtual time (RFC 9000 section 13.4.2).

mod world;

use core::time::Duration;

use weft_edge::Settings;
use world::{Faults, World};

const MS: Duration = Duration::from_millis(1);

fn world(faults: Faults, messages: u32) -> World {
    let settings = Settings { credit: 1 << 20, max_datagram: 8972, ..Settings::default() };
    World::new(&settings, faults, [messages, messages], 3000, 5)
}

/// How long until all that there is to send is acknowledged.
fn until_acknowledged(world: &mut World) -> Duration {
    let begin = world.now;
    world.run(200_000, World::all_acknowledged);
    world.now - begin
}

fn marked(world: &World) -> u64 {
    world.sides[0].marked
}

/// Both sides have so many messages more.
fn post(world: &mut World, messages: u32) {
    for side in 0..2 {
        world.sides[side].source.left = messages;
        world.transmit(side);
    }
}

#[test]
fn a_path_that_drops_marked_packets_from_the_start_costs_two_probes() {
    // So few that there is none without a mark before long.
    let mut world = world(Faults { drops_ect: true, ..Faults::none() }, 1);
    let took = until_acknowledged(&mut world);
    // The round trip that is assumed is 100 ms, so the second probe comes after 0.9 s; of one side, and then of the
    // other one.
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

/// A pause is no fault of marks: they go on.
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
