//! How many ways a message takes over a long path, in virtual time: one, as long as it fits into the window, whenever
//! it is sent.

use core::time::Duration;

use crate::world::{Faults, World};
use weft_edge::Settings;

const WAY: Duration = Duration::from_millis(50);
/// Room for an acknowledgement that is delayed.
const ONE: f64 = 1.05;

/// Two hosts whose interfaces carry 1472 bytes. Neither side knows that: it tries what a loopback carries.
fn far_apart() -> World {
    let settings = Settings { max_datagram: 65_000, credit: 4 << 20, ..Settings::default() };
    let faults = Faults { delay_us: WAY.as_micros() as u64, ..Faults::none() };
    let mut world = World::new(&settings, faults, [0, 0], 0, 1);
    world.interface = 1472;
    world
}

/// How many ways it takes until a message from a side is in place at the other one.
fn ways(world: &mut World, side: usize, bytes: u32) -> f64 {
    let begin = world.now;
    world.sides[side].source.begin_message(bytes);
    world.transmit(side);
    world.run(100_000, |world| {
        let source = &world.sides[side].source;
        !source.has_begun() && world.sides[1 - side].sink.in_place() == source.end
    });
    (world.now - begin).as_secs_f64() / WAY.as_secs_f64()
}

#[test]
fn the_first_message_takes_one_way() {
    for bytes in [1, 1024, 4096, 8192] {
        let got = ways(&mut far_apart(), 0, bytes);
        assert!(got <= ONE, "{bytes} bytes: {got} ways");
    }
}

/// As in a ring of processes: each answers as soon as it has the other's message. Meanwhile larger datagrams are tried.
#[test]
fn a_message_that_fits_into_the_window_takes_one_way_each_time() {
    for bytes in [1, 1024, 4096, 8192] {
        let mut world = far_apart();
        for round in 0..40 {
            let got = ways(&mut world, round % 2, bytes);
            assert!(got <= ONE, "{bytes} bytes, message {round}: {got} ways");
        }
        assert_eq!(world.sides[0].connection.datagram_size() > 1200, bytes >= 1024, "{bytes}");
    }
}

#[test]
fn messages_after_a_pause_take_one_way() {
    for pause_ms in [10, 60, 150, 3000] {
        let mut world = far_apart();
        for message in 0..20 {
            let got = ways(&mut world, 0, 4096);
            assert!(got <= ONE, "message {message}, pauses of {pause_ms} ms: {got} ways");
            world.run_for(Duration::from_millis(pause_ms));
        }
    }
}

/// A longer one takes the round trips of slow start at first, and later what the pacer spreads it over.
#[test]
fn long_messages_take_few_ways_once_the_window_has_grown() {
    let mut world = far_apart();
    let took: Vec<f64> = (0..12).map(|message| ways(&mut world, message % 2, 65_536)).collect();
    println!("{took:?}");
    assert!(took.iter().all(|ways| *ways <= 7.0), "{took:?}");
    assert!(took[10..].iter().all(|ways| *ways <= 2.0), "{took:?}");
}
