//! Throughput of a connection over paths with delay, in virtual time: its window must grow to the path's
//! bandwidth-delay product, also where the pacer delays packets.

use core::time::Duration;

use crate::world::links::Link;
use crate::world::{Faults, World};
use weft_edge::Settings;

/// Bytes of a full datagram, bytes of it that are not payload, and the overhead of Ethernet, IP and UDP.
const DATAGRAM: f64 = 1472.0;
const OVERHEAD: f64 = 47.0;
const AROUND: f64 = 66.0;
const SECOND: Duration = Duration::from_secs(1);

/// This many links of `rate` Mb/s each, whose queues hold one bandwidth-delay product. One side sends `messages`.
fn world(links: usize, rate: u64, round_trip_ms: u64, messages: u32, seed: u64) -> World {
    world_with(
        Settings { rails: 16, credit: 8 << 20, ..Settings::default() },
        links,
        rate,
        round_trip_ms,
        messages,
        seed,
    )
}

fn world_with(settings: Settings, links: usize, rate: u64, round_trip_ms: u64, messages: u32, seed: u64) -> World {
    // Packets sent before the links exist take as long as later ones.
    let faults = Faults { delay_us: round_trip_ms * 500, ..Faults::none() };
    let mut world = World::new(&settings, faults, [messages, 0], 60_000, seed);
    world.join(&vec![Link { queue: rate * round_trip_ms * 125, ..Link::new(rate, 0) }; links]);
    world
}

/// Runs for this many seconds. Returns acknowledged payload in megabits per second.
fn rate(world: &mut World, seconds: u32) -> f64 {
    let (begin, before) = (world.now, world.sides[0].connection.acknowledged());
    (0..seconds).for_each(|_| world.run_for(SECOND));
    let bytes = world.sides[0].connection.acknowledged() - before;
    bytes as f64 * 8.0 / (world.now - begin).as_micros() as f64
}

/// Payload in megabits per second that links of `rate` Mb/s in all carry.
fn carries(rate: u64) -> f64 {
    rate as f64 * (DATAGRAM - OVERHEAD) / (DATAGRAM + AROUND)
}

/// Hosts that run at once, and busy hosts whose timers are late and which receive everything since then together: there
/// the pacer delays packets most of the time.
#[test]
fn the_window_grows_over_a_path_with_delay() {
    for (round_trip_ms, least) in [(20, 0.7 * carries(200)), (100, 0.7 * carries(200))] {
        for (seed, runs_every_us) in (1..).zip([0, 500, 1000, 2000, 4000]) {
            let mut world = world(1, 200, round_trip_ms, 1_000_000, seed);
            world.runs_every = Duration::from_micros(runs_every_us);
            world.run_for(2 * SECOND);
            let got = rate(&mut world, 2);
            let window = world.sides[0].connection.window();
            println!("{round_trip_ms} ms, hosts run every {runs_every_us} us: {got:.1} Mb/s, window {window}");
            assert!(got >= least, "{round_trip_ms} ms, hosts run every {runs_every_us} us: {got} Mb/s of {least}");
        }
    }
}

#[test]
fn it_stays_large_for_ten_seconds() {
    let mut world = world(1, 200, 100, 1_000_000, 9);
    world.runs_every = Duration::from_millis(1);
    world.run_for(2 * SECOND);
    for second in 2..12 {
        let got = rate(&mut world, 1);
        assert!(got >= 0.9 * carries(200), "{got} Mb/s in second {second}");
    }
}

#[test]
fn four_rails_with_delay_grow_as_well() {
    for (seed, runs_every_us) in [(1, 0), (2, 1000)] {
        let mut world = world(4, 50, 100, 1_000_000, seed);
        world.runs_every = Duration::from_micros(runs_every_us);
        world.run_for(4 * SECOND);
        let got = rate(&mut world, 2);
        println!("hosts run every {runs_every_us} us: {got:.1} Mb/s");
        assert!(got >= 0.9 * carries(200), "hosts run every {runs_every_us} us: {got} Mb/s");
    }
}

/// The path holds 2.5 MB, and the peer's socket 256 KiB: its credit bounds what may wait there, not what is under way.
#[test]
fn a_long_path_holds_more_than_the_socket_of_the_peer() {
    let settings = Settings { rails: 16, credit: 256 << 10, ..Settings::default() };
    let mut world = world_with(settings, 1, 200, 100, 1_000_000, 3);
    world.run_for(3 * SECOND);
    let got = rate(&mut world, 2);
    assert!(got >= 0.9 * carries(200), "{got} Mb/s");
}

/// Where a connection may remember no more, the path is not filled: 2 MiB for 0.1 s are 167 Mb/s.
#[test]
fn bytes_in_flight_are_bounded() {
    let settings = Settings { rails: 16, credit: 8 << 20, in_flight_bytes: 2 << 20, ..Settings::default() };
    let mut world = world_with(settings, 1, 200, 100, 1_000_000, 4);
    world.run_for(3 * SECOND);
    let got = rate(&mut world, 2);
    assert!((120.0..170.0).contains(&got), "{got} Mb/s");
}

/// Slow start continues after an idle time.
#[test]
fn the_window_grows_after_a_pause() {
    let mut world = world(1, 200, 100, 3, 1);
    world.runs_every = Duration::from_millis(1);
    world.run_for(3 * SECOND);
    let before = world.sides[0].connection.window();
    world.sides[0].source.left = 1_000_000;
    world.transmit(0);
    world.run_for(2 * SECOND);
    let got = rate(&mut world, 2);
    assert!(got >= 100.0, "{got} Mb/s, the window was {before}");
}

/// A sender of short bursts, each of which the pacer spreads, needs no larger window, and gets none.
#[test]
fn bursts_that_leave_the_window_unused_do_not_make_it_grow() {
    let mut world = world(1, 200, 100, 20, 1);
    world.run_for(2 * SECOND);
    let mut windows = vec![];
    for _ in 0..40 {
        // About 60 kB every 200 ms.
        world.sides[0].source.left = 3;
        world.transmit(0);
        world.run_for(SECOND / 5);
        windows.push(world.sides[0].connection.window());
    }
    let last = windows[windows.len() - 1];
    assert!(last <= 600_000, "{windows:?}");
}

/// A suspended host receives everything afterwards: nothing is lost, so the window stays (RFC 9002 section 7.6). The
/// sender has probed the peer several times meanwhile.
#[test]
fn a_suspended_host_costs_no_window() {
    for seed in 0..10 {
        let mut world = world(1, 200, 4, 1_000_000, seed);
        world.sides[1].keeps = true;
        world.run_for(2 * SECOND);
        let before = world.sides[0].connection.window();
        world.sides[1].stopped = true;
        world.run_for(SECOND / 10);
        world.resume(1);
        world.run_for(SECOND / 50);
        let (after, counters) = (world.sides[0].connection.window(), world.sides[0].connection.counters());
        assert!(counters.probes >= 3, "{counters:?}");
        assert!(after >= before / 2, "{before} before, {after} after; {counters:?}, seed {seed}");
        let got = rate(&mut world, 1);
        assert!(got >= 0.7 * carries(200), "{got} Mb/s, seed {seed}");
    }
}
