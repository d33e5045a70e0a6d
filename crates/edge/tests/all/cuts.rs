//! Rails that are cut silently, at many instants and in each direction: how long deliveries in order pause, and how
//! soon a mended rail is used again. In virtual time, so the figures are the same on every machine.
//!
//! `WEFT_EDGE_CUTS` is the number of cuts of each case.

use core::time::Duration;

use crate::world::links::{Link, address_on};
use crate::world::{Faults, World};
use weft_base::Random;
use weft_edge::Settings;

const MS: Duration = Duration::from_millis(1);
/// Which directions are cut: both, from the sender, and to the sender.
const WAYS: [[bool; 2]; 3] = [[true, true], [true, false], [false, true]];
/// Bytes of a message, at most.
const LONGEST: u64 = 60_000;
/// How long a link is cut.
const CUT: Duration = Duration::from_millis(150);

/// Links that are alike, and hosts.
#[derive(Clone, Copy, Debug)]
struct Case {
    rails: usize,
    /// Megabits per second.
    rate: u64,
    /// In one direction.
    delay_us: u64,
    /// Programs run only so often ([`World::runs_every`]).
    runs_every_us: u64,
    /// The receiver is suspended for so long, from a random time before the cut on.
    suspended: Duration,
}

const CASES: [Case; 6] = [
    Case { rails: 2, rate: 100, delay_us: 50, runs_every_us: 0, suspended: Duration::ZERO },
    Case { rails: 3, rate: 50, delay_us: 50, runs_every_us: 300, suspended: Duration::ZERO },
    Case { rails: 4, rate: 50, delay_us: 50, runs_every_us: 0, suspended: Duration::ZERO },
    Case { rails: 4, rate: 400, delay_us: 20, runs_every_us: 0, suspended: Duration::ZERO },
    Case { rails: 4, rate: 50, delay_us: 500, runs_every_us: 1000, suspended: Duration::ZERO },
    Case { rails: 4, rate: 50, delay_us: 50, runs_every_us: 0, suspended: Duration::from_millis(15) },
];

fn cuts(usual: usize) -> usize {
    std::env::var("WEFT_EDGE_CUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Both sides over the links of a case, with queues of 4 ms. Messages have up to `longest` bytes.
fn joined(case: &Case, messages: [u32; 2], longest: u64, seed: u64) -> World {
    let settings = Settings { rails: 16, credit: 4 << 20, ..Settings::default() };
    let faults = Faults { delay_us: 0, ..Faults::none() };
    let mut world = World::new(&settings, faults, messages, longest, seed);
    world.runs_every = Duration::from_micros(case.runs_every_us);
    world.join(&vec![Link { queue: case.rate * 500, ..Link::new(case.rate, case.delay_us) }; case.rails]);
    world.run(1_000_000, World::all_live);
    world
}

fn in_place(world: &World) -> [u64; 2] {
    [0, 1].map(|side| world.sides[side].sink.in_place())
}

/// Whether a side has all that the other has to send.
fn has_all(world: &World, side: usize) -> bool {
    let source = &world.sides[1 - side].source;
    source.left == 0 && in_place(world)[side] == source.end
}

/// The longest time without a delivery in order to one of these sides, in this time or until everything is
/// acknowledged.
fn pause(world: &mut World, sides: &[usize], time: Duration) -> Duration {
    let until = world.now + time;
    let (mut last, mut since) = (in_place(world), [world.now; 2]);
    let mut longest = Duration::ZERO;
    while world.now < until && !world.all_acknowledged() && world.step() {
        for side in sides {
            let (placed, had_all) = (in_place(world)[*side], has_all(world, *side));
            if placed > last[*side] || had_all {
                longest = longest.max(if placed > last[*side] { world.now - since[*side] } else { Duration::ZERO });
                (last[*side], since[*side]) = (placed, world.now);
            }
        }
    }
    let waiting = sides.iter().filter(|side| !has_all(world, **side));
    longest.max(waiting.map(|side| world.now - since[*side]).max().unwrap_or_default())
}

/// The value that this many hundredths of all do not exceed.
fn percentile(values: &mut [Duration], hundredths: usize) -> Duration {
    values.sort_unstable();
    values[(values.len() * hundredths).div_ceil(100).max(1) - 1]
}

fn cut(world: &mut World, random: &mut Random) -> (usize, [bool; 2]) {
    let link = random.below(world.links.len() as u64) as usize;
    let way = WAYS[random.below(WAYS.len() as u64) as usize];
    world.links[link].cut = way;
    (link, way)
}

/// The time from now to the beginning of the first tenth of a second in which 95 % of `usual` bytes are delivered.
fn recovery(world: &mut World, usual: u64) -> Duration {
    let mut delivered = vec![in_place(world)[1]];
    for step in 0..200 {
        world.run_for(10 * MS);
        delivered.push(in_place(world)[1]);
        if step >= 9 && delivered[step + 1] - delivered[step - 9] >= usual * 95 / 100 {
            return MS * 10 * (step as u32 - 9);
        }
    }
    panic!("it is not at its speed again after 2 s")
}

/// P9 of a busy stream: half of all pauses are shorter than 10 ms, 99 of 100 shorter than 30; speed is back after a
/// probe of the rail that was cut, and slow start.
#[test]
fn a_cut_in_bulk_pauses_deliveries_for_milliseconds() {
    for (seed, case) in (1..).zip(&CASES) {
        let mut world = joined(case, [1_000_000, 0], LONGEST, seed);
        let mut random = Random::new(seed);
        world.run_for(500 * MS);
        let (mut pauses, mut recoveries) = (vec![], vec![]);
        for number in 0..cuts(6) {
            world.run_for(Duration::from_micros(random.below(50_000)));
            let before = in_place(&world)[1];
            world.run_for(100 * MS);
            let usual = in_place(&world)[1] - before;
            if !case.suspended.is_zero() {
                (world.sides[1].stopped, world.sides[1].keeps) = (true, true);
                world.run_for(Duration::from_micros(random.below(case.suspended.as_micros() as u64)));
            }
            let (link, way) = cut(&mut world, &mut random);
            let begin = world.now;
            if !case.suspended.is_zero() {
                world.run_for(case.suspended / 3);
                world.resume(1);
            }
            let left = CUT.saturating_sub(world.now - begin);
            let longest = pause(&mut world, &[1], left);
            println!("{case:?}, cut {number}: {longest:?}, {way:?}");
            pauses.push(longest);
            world.links[link].cut = [false, false];
            recoveries.push(recovery(&mut world, usual));
        }
        let figures = [(&mut pauses, [50, 99]), (&mut recoveries, [50, 99])].map(|(all, parts)| {
            let [median, worst] = parts.map(|part| percentile(all, part));
            (median, worst)
        });
        println!("{case:?}: pauses {:?}, recoveries {:?}", figures[0], figures[1]);
        assert!(figures[0].0 <= 10 * MS && figures[0].1 <= 30 * MS, "{case:?}: {pauses:?}");
        assert!(figures[1].0 <= 150 * MS && figures[1].1 <= 500 * MS, "{case:?}: {recoveries:?}");
        assert_eq!(world.sides[1].connection.counters().false_acks, 0);
    }
}

/// The last packets of messages, in both directions, while all rails become idle: no acknowledgement of a later packet
/// will come, and the others have nothing in flight.
#[test]
fn a_cut_rail_holds_up_the_end_of_a_message_for_milliseconds() {
    for (seed, case) in (1..).zip(CASES.iter().filter(|case| case.suspended.is_zero())) {
        let mut world = joined(case, [5, 5], LONGEST, seed);
        let mut random = Random::new(seed);
        world.run(1_000_000, World::all_acknowledged);
        let mut pauses = vec![];
        for _ in 0..cuts(25) {
            for side in 0..2 {
                world.sides[side].source.left += 1 + random.below(3) as u32;
                world.transmit(side);
            }
            world.run_for(Duration::from_micros(random.below(2000)));
            let (link, _) = cut(&mut world, &mut random);
            pauses.push(pause(&mut world, &[0, 1], 2000 * MS));
            world.run_for(Duration::from_micros(random.below(300_000)));
            world.links[link].cut = [false, false];
            world.run(1_000_000, |world| world.all_acknowledged() && world.all_live());
            world.run_for(Duration::from_micros(random.below(300_000)));
        }
        let (median, worst) = (percentile(&mut pauses, 50), percentile(&mut pauses, 99));
        println!("{case:?}: {median:?}, {worst:?}");
        assert!(median <= 10 * MS && worst <= 30 * MS, "{case:?}: {pauses:?}");
        world.finish();
    }
}

/// The other rail is idle when one is missed, and acknowledges at once only what requests it. Short messages, with
/// short round trips: there is little time for a timer, or for the delay of an acknowledgement.
#[test]
fn idle_rails_are_probed_and_their_first_answer_decides() {
    for (seed, runs_every_us) in [0, 50, 100, 200, 300, 500, 1000].into_iter().enumerate() {
        let case = Case { rails: 2, rate: 1000, delay_us: 20, runs_every_us, suspended: Duration::ZERO };
        let mut world = joined(&case, [0, 0], LONGEST / 6, seed as u64);
        let mut used = [0; 2];
        for _ in 0..300 {
            let before = [0, 1].map(|link| world.links[link].passed[0]);
            send(&mut world);
            world.run_for(3 * MS);
            used = [0, 1].map(|link| world.links[link].passed[0] - before[link]);
        }
        // Short messages leave on the one with the shorter round trip.
        world.links[usize::from(used[1] > used[0])].cut = [true, true];
        let mut pauses = vec![];
        for _ in 0..20 {
            send(&mut world);
            pauses.push(pause(&mut world, &[1], 1000 * MS));
            world.run_for(20 * MS);
        }
        println!("hosts run every {runs_every_us} us: {pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= 10 * MS), "{pauses:?}");
        assert_eq!(world.sides[0].connection.counters().rails_left, 1);
    }
}

/// The first of the other rails that answers decides. Another one has a round trip of 100 ms: it is not waited for.
#[test]
fn a_slow_rail_does_not_delay_the_decision() {
    let case = Case { rails: 2, rate: 100, delay_us: 50, runs_every_us: 0, suspended: Duration::ZERO };
    for seed in 0..10 {
        let mut world = joined(&case, [0, 0], LONGEST / 2, seed);
        world.links.push(Link::new(100, 50_000));
        (0..2).for_each(|side| world.sides[side].addresses.push(address_on(2, side)));
        (0..2).for_each(|side| world.offer(side, &[0, 1, 2]));
        world.run(1_000_000, World::all_live);
        for _ in 0..30 {
            send(&mut world);
            world.run_for(10 * MS);
        }
        world.links[seed as usize % 2].cut = [true, true];
        let mut pauses = vec![];
        for _ in 0..5 {
            send(&mut world);
            pauses.push(pause(&mut world, &[1], 1000 * MS));
            world.run_for(20 * MS);
        }
        println!("{pauses:?}");
        assert!(pauses.iter().all(|pause| *pause <= 20 * MS), "{pauses:?}");
    }
}

/// One message, of the sender.
fn send(world: &mut World) {
    world.sides[0].source.left = 1;
    world.transmit(0);
}

/// The hosts lose an address, and get it back, one after the other.
#[test]
fn an_address_that_comes_back_is_used_at_once() {
    for first in 0..2 {
        let case = Case { rails: 3, rate: 50, delay_us: 50, runs_every_us: 0, suspended: Duration::ZERO };
        let mut world = joined(&case, [1_000_000, 0], LONGEST, 1);
        world.run_for(2000 * MS);
        for _ in 0..5 {
            for (links, time) in [(&[0, 2][..], 1500 * MS), (&[0, 1, 2][..], Duration::ZERO)] {
                world.offer(first, links);
                world.run_for(20 * MS);
                world.offer(1 - first, links);
                world.run_for(time);
            }
            let begin = world.now;
            world.run(100_000, World::all_live);
            let took = world.now - begin;
            assert!(took <= 50 * MS, "side {first} first: {took:?}");
        }
    }
}

/// A peer that is suspended answers on no rail, and then on all: none has failed.
#[test]
fn a_suspended_peer_is_no_failed_rail() {
    for seed in 0..10 {
        let case = Case { rails: 4, rate: 100, delay_us: 100, runs_every_us: 100, suspended: Duration::ZERO };
        let mut world = joined(&case, [1_000_000, 0], LONGEST, seed);
        world.run_for(300 * MS);
        for _ in 0..5 {
            (world.sides[1].stopped, world.sides[1].keeps) = (true, true);
            world.run_for(Duration::from_millis(5 + 7 * seed));
            world.resume(1);
            world.run_for(50 * MS);
        }
        assert_eq!(world.sides[0].connection.counters().rails_left, 0, "seed {seed}");
    }
}
