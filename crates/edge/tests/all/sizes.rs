//! The size of datagrams while the path stops, loses packets or carries less for a while, in virtual time (RFC 8899).

use core::time::Duration;

use crate::world::links::Link;
use crate::world::{Faults, World};
use weft_edge::Settings;

const FULL: usize = 8972;
const MS: Duration = Duration::from_millis(1);

/// One side sends over a link of 100 Mb/s with a round trip of 1 ms and a short queue, which is known to carry full
/// datagrams.
fn sending(seed: u64) -> World {
    let settings = Settings { max_datagram: FULL as u16, credit: 1 << 20, ..Settings::default() };
    let mut world = World::new(&settings, Faults { delay_us: 500, ..Faults::none() }, [1_000_000, 0], 60_000, seed);
    world.join(&[Link { queue: 20_000, ..Link::new(100, 0) }]);
    world.run(100_000, |world| size(world) == FULL);
    world
}

fn size(world: &World) -> usize {
    world.sides[0].connection.datagram_size()
}

fn black_holes(world: &World) -> u64 {
    world.sides[0].connection.counters().black_holes
}

/// The time until datagrams have a certain size.
fn until(world: &mut World, is_right: impl Fn(usize) -> bool) -> Duration {
    let begin = world.now;
    world.run(200_000, |world| is_right(size(world)));
    world.now - begin
}

/// A host that was suspended for a while has lost all packets, large and small: that is no black hole.
#[test]
fn datagrams_are_full_again_soon_after_a_pause() {
    for seed in 0..20 {
        let mut world = sending(seed);
        world.run_for((1 + seed as u32) * MS);
        world.sides[1].stopped = true;
        world.run_for(100 * MS);
        assert_eq!(size(&world), 1200, "large ones are doubted meanwhile");
        world.sides[1].stopped = false;
        // A silent peer is next probed after as long as it was silent.
        let took = until(&mut world, |size| size == FULL);
        assert!(took <= 200 * MS, "{took:?}, seed {seed}");
        assert_eq!(black_holes(&world), 0);
    }
}

/// The same, but packets received meanwhile wait in its socket: their acknowledgement shows that large ones pass.
#[test]
fn datagrams_are_full_again_within_round_trips_of_an_answer() {
    for seed in 0..20 {
        let mut world = sending(seed);
        let cut = |world: &mut World, cut| world.faults.partition = cut;
        world.run_for((5 + seed as u32) * MS);
        cut(&mut world, true);
        world.run_for(60 * MS);
        assert_eq!(size(&world), 1200);
        cut(&mut world, false);
        let received = world.sides[0].connection.counters().packets_received;
        world.run(10_000, |world| world.sides[0].connection.counters().packets_received > received);
        let took = until(&mut world, |size| size == FULL);
        assert!(took <= 3 * MS, "{took:?} after the first answer, seed {seed}");
        assert_eq!(black_holes(&world), 0);
    }
}

/// One datagram of ten is lost, whatever its size.
#[test]
fn random_loss_is_no_black_hole() {
    for seed in 0..4 {
        let mut world = sending(seed);
        world.faults.lose = 10;
        let (mut small, steps) = (0, 4000);
        for _ in 0..steps {
            world.run_for(MS);
            small += usize::from(size(&world) < FULL - 100);
        }
        assert!(small <= steps / 5, "{small} of {steps} ms with small datagrams, seed {seed}");
    }
}

/// A black hole: large ones are lost, and small ones pass. The working size is found, and later larger ones are tried
/// again.
#[test]
fn a_black_hole_is_found_soon_and_larger_datagrams_come_back() {
    for (seed, carries) in (0..).zip([1400, 1210, 5000]) {
        let mut world = sending(seed);
        world.run_for(20 * MS);
        let before = world.sides[0].connection.acknowledged();
        world.faults.carries = carries;
        let took = until(&mut world, |size| size <= carries);
        assert!(took <= 100 * MS, "{took:?} until it is doubted");
        world.run_for(200 * MS);
        assert!((carries - 32..=carries).contains(&size(&world)), "{} of {carries}", size(&world));
        assert_eq!(black_holes(&world), 1);
        assert!(world.sides[0].connection.acknowledged() > before && size(&world) <= carries);
        world.faults.carries = 65_507;
        // PMTU_RAISE_TIMER.
        let raise_after = Settings::default().raise_after;
        world.sides[0].source.left = 0;
        world.run(100_000, World::all_acknowledged);
        (0..raise_after.as_secs()).for_each(|_| world.run_for(1000 * MS));
        world.sides[0].source.left = 100;
        world.transmit(0);
        until(&mut world, |size| size == FULL);
    }
}

/// An interface has its MTU lowered and raised again. It reports it when it refuses a datagram that is too large.
#[test]
fn datagrams_grow_again_with_the_mtu_of_the_interface() {
    let mut world = sending(1);
    world.faults.carries = 1472;
    let now = world.now;
    world.sides[0].connection.hint_link_carries(0, 1472, now);
    assert_eq!(size(&world), 1472);
    for _ in 0..9 {
        world.run_for(1000 * MS);
        assert_eq!(size(&world), 1472);
    }
    world.faults.carries = 65_507;
    let took = until(&mut world, |size| size == FULL);
    assert!(took <= 2000 * MS, "{took:?}");
}
