//! Two of them through a network that does everything wrong that a network may: each byte arrives once, no byte is
//! wrong, and it always comes to an end. `WEFT_TCP_RUNS` says how many worlds, `WEFT_TCP_SEED` which is the first.

use core::time::Duration;

use weft_base::Random;
use weft_tcp::{ReceivePolicy, Settings, State};

mod world;

use world::{Faults, Trains, World};

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);
const POLICIES: [ReceivePolicy; 3] = [ReceivePolicy::Place, ReceivePolicy::Buffer, ReceivePolicy::Drop];

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

fn settings(policy: ReceivePolicy) -> Settings {
    Settings { policy, send_buffer: 100_000, receive_window: 100_000, ..Settings::default() }
}

#[test]
fn without_faults_nothing_is_sent_twice() {
    for policy in POLICIES {
        let faults = Faults { delay_us: 500, ..Faults::default() };
        let mut world = World::new(1, [settings(policy); 2], [300_000, 200_000], faults);
        assert!(world.run(HOUR, World::is_done));
        world.check();
        for side in 0..2 {
            let counters = world.connection(side).counters();
            assert_eq!((counters.retransmitted, counters.dropped, counters.unacceptable), (0, 0, 0), "{policy:?}");
        }
        // Data, an acknowledgement of every second segment, and a few of each at the start and the end.
        assert!(world.carried < 700, "{} segments for 350 of data", world.carried);
    }
}

#[test]
fn after_the_last_segment_has_died_all_is_over() {
    let mut world = World::new(2, [settings(ReceivePolicy::Buffer); 2], [1000, 0], Faults::default());
    world.trace = std::env::var_os("WEFT_TCP_TRACE").is_some();
    assert!(world.run(HOUR, |world| {
        let closed = |index: usize| world.sides[index].connection.as_ref().map(|one| one.state());
        (closed(0), closed(1)) == (Some(State::Closed), Some(State::Closed))
    }));
    world.check();
    assert_eq!(world.connection(0).next_timeout(), None);
}

/// A world by its seed: settings, amounts and faults.
fn any_world(seed: u64) -> World {
    let mut random = Random::new(seed);
    let mut one = || Settings {
        policy: POLICIES[random.below(3) as usize],
        mss: [536, 1460, 8960][random.below(3) as usize],
        receive_window: [3000, 65_535, 300_000][random.below(3) as usize],
        send_buffer: [5000, 100_000][random.below(2) as usize],
        ranges: [1, 4, 256][random.below(3) as usize],
        segments: [2, 30, 4096][random.below(3) as usize],
        sack: !random.one_in(4),
        timestamps: !random.one_in(3),
        give_up: 10 * MINUTE,
        // A side that the peer forgets while the last acknowledgement is lost, again and again, is reset, and rightly
        // so.
        time_wait: 10 * MINUTE,
        ..Settings::default()
    };
    let settings = [one(), one()];
    let mut often = |least: u64, most: u64| if random.one_in(2) { 0 } else { least + random.below(most) };
    let faults = Faults {
        lose: often(4, 60),
        copy: often(4, 60),
        damage: often(8, 60),
        late: often(2, 30),
        cut: often(2, 20),
        join: often(2, 20),
        delay_us: 100 + often(1, 40_000),
        late_us: 30_000,
        refuse: often(4, 20),
    };
    let mut amount = || [0, 1, random.below(300_000)][random.below(3) as usize];
    let amounts = [amount(), amount()];
    let mut world = World::new(random.next_u64(), settings, amounts, faults);
    world.sides[1].reads = [u64::MAX, 700][random.below(2) as usize];
    world
}

#[test]
fn whatever_the_network_does_each_byte_arrives_once() {
    let first = from_environment("WEFT_TCP_SEED", 1);
    for seed in first..first + from_environment("WEFT_TCP_RUNS", 150) {
        let mut world = any_world(seed);
        world.trace = std::env::var_os("WEFT_TCP_TRACE").is_some();
        // While the worst of these last, a side that gave up would have a reason.
        let done = world.run(MINUTE, World::is_done) || {
            world.faults = Faults { delay_us: world.faults.delay_us, ..Faults::default() };
            world.run(HOUR, World::is_done)
        };
        let states = world.sides.iter().map(|side| side.connection.as_ref().map(|one| (one.state(), one.error())));
        assert!(done, "seed {seed}: it hangs in {:?}", states.collect::<Vec<_>>());
        println!("seed {seed}");
        world.check();
    }
}

#[test]
fn when_nothing_passes_it_gives_up_and_says_so() {
    let mut world = World::new(5, [settings(ReceivePolicy::Buffer); 2], [500_000, 0], Faults::default());
    world.faults.delay_us = 100;
    assert!(world.run(HOUR, |world| world.sides[1].seen.read > 10_000));
    world.faults.lose = 1;
    assert!(world.run(HOUR, |world| world.sides[0].connection.as_ref().unwrap().state() == State::Closed));
    let error = world.connection(0).error().unwrap();
    assert_eq!(error.to_string(), "the peer has not answered for 120s: check the path to it");
}

#[test]
fn late_segments_are_placed_at_once_and_cost_nothing() {
    let settings = settings(ReceivePolicy::Place);
    let faults = Faults { delay_us: 1000, late: 20, late_us: 200, ..Faults::default() };
    let mut world = World::new(6, [settings; 2], [2_000_000, 0], faults);
    assert!(world.run(HOUR, World::is_done));
    world.check();
    assert!(world.sides[1].seen.early > 100, "{} segments came early", world.sides[1].seen.early);
    let again = world.connection(0).counters().retransmitted;
    assert!(again < 20, "{again} of 1400 were sent again, and none was lost");
}

/// A bridge in user space is behind a device that cuts nothing: it drops what is longer than the MTU.
#[test]
fn where_trains_vanish_segments_leave_by_themselves_after_two() {
    let faults = Faults { delay_us: 500, ..Faults::default() };
    let mut world = World::new(7, [settings(ReceivePolicy::Buffer); 2], [1_000_000, 0], faults);
    world.trains = Trains::Dropped;
    // Two of them are noticed by a time-out of 200 ms each, or by what follows them.
    let done = world.run(Duration::from_secs(2), World::is_done);
    assert!(done, "{} bytes in 2 s, {} trains", world.sides[1].seen.read, world.trains_sent);
    world.check();
    // What one turn sends may be two trains, where a unit ends within.
    assert!(world.trains_sent <= 4, "{} trains", world.trains_sent);
    assert!(world.connection(0).trains_avoided_since().is_some());
}

#[test]
fn an_interruption_does_not_end_the_trains() {
    let faults = Faults { delay_us: 500, ..Faults::default() };
    let mut world = World::new(8, [settings(ReceivePolicy::Buffer); 2], [2_000_000, 0], faults);
    world.trains = Trains::Cut;
    for read in [300_000, 900_000] {
        assert!(world.run(HOUR, |world| world.sides[1].seen.read > read));
        world.faults.lose = 1;
        world.run(Duration::from_millis(700), World::is_done);
        world.faults.lose = 0;
        let before = world.trains_sent;
        assert!(world.run(HOUR, |world| world.trains_sent > before + 3), "they go on");
    }
    assert!(world.run(HOUR, World::is_done));
    world.check();
    assert_eq!(world.connection(0).trains_avoided_since(), None);
}
