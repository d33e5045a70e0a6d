//! Two connections over several links, in virtual time, with the checkers of one rail.

use core::time::Duration;

use crate::world::links::{Link, address_on};
use crate::world::{self, Faults, World};
use weft_base::{Random, Time};
use weft_edge::{Connection, Out, RailAddress, RailState, Settings};

fn settings() -> Settings {
    Settings { rails: 16, credit: 4 << 20, ..Settings::default() }
}

/// Both sides over these links. `messages` of up to 60 000 bytes from either side.
fn joined(links: &[Link], settings: &Settings, messages: [u32; 2], seed: u64) -> World {
    let faults = Faults { delay_us: 0, ..Faults::none() };
    let mut world = World::new(settings, faults, messages, 60_000, seed);
    world.join(links);
    world
}

/// Runs until all links carry data.
fn until_live(world: &mut World) {
    world.run(1_000_000, World::all_live);
}

fn states(connection: &Connection) -> Vec<RailState> {
    connection.rails().map(|rail| rail.state).collect()
}

#[test]
fn sixteen_rails_are_opened_and_no_more() {
    let links = [Link::new(1000, 50); 16];
    let mut world = joined(&links, &settings(), [50, 50], 1);
    until_live(&mut world);
    for side in &world.sides {
        assert_eq!(states(&side.connection), [RailState::Live; 16]);
    }
    world.finish();
    let mut world = joined(&links, &Settings { rails: 3, ..settings() }, [50, 50], 1);
    world.run_for(Duration::from_secs(5));
    assert_eq!(states(&world.sides[1].connection), [RailState::Live; 3]);
    world.finish();
}

#[test]
fn one_rail_is_enough_where_a_side_wants_no_more() {
    for (index, rails) in [(0, [1, 4]), (1, [4, 1])] {
        let faults = Faults { delay_us: 0, ..Faults::none() };
        let of = |side: usize| Settings { rails: rails[side], ..settings() };
        let mut both = [world::established(0, &of(0)), world::established(1, &of(1))];
        (both[0].peer_rails, both[1].peer_rails) = (rails[1], rails[0]);
        // The world has one setting for both: the other side decides what the peer can do.
        let mut world = World::of(&both, &of(index), faults, [20, 20], 3000, 1);
        world.join(&[Link::new(1000, 50); 2]);
        world.run_for(Duration::from_secs(5));
        assert!(world.sides.iter().all(|side| side.connection.rails().count() == 1));
        world.finish();
    }
}

/// An address that has answered nothing gets only challenges, few and small, and never more than one at a time for each
/// rail.
#[test]
fn a_third_party_gets_few_small_challenges() {
    let mut world = joined(&[Link::new(1000, 50); 2], &settings(), [3000, 3000], 1);
    world.links.push(Link { cut: [true, true], ..Link::new(1000, 50) });
    // The called side announces an address that is not its own, again and again.
    for round in 0..20u8 {
        let victim = RailAddress { local: 1, address: address_on(2, 100 + usize::from(round)) };
        let own = RailAddress { local: 0, address: address_on(0, 1) };
        world.sides[1].connection.offer(&[own, victim], world.now);
        world.transmit(1);
        world.run_for(Duration::from_millis(500));
    }
    let (count, bytes) = world.strangers(2);
    assert!((5..=40).contains(&count) && bytes <= 64 * count, "{count} datagrams, {bytes} bytes in 10 s");
    world.finish();
}

/// An attacker on the path opens a rail from a spoofed address: only path challenges are sent there.
#[test]
fn a_rail_from_an_address_that_does_not_answer_carries_nothing() {
    use weft_wire::edge::ConnectionId;
    use weft_wire::edge::frame::Frame;
    use weft_wire::edge::packet::{Builder, Header};

    let mut world = joined(&[Link::new(1000, 50)], &settings(), [2000, 2000], 1);
    world.run_for(Duration::from_millis(20));
    world.links.push(Link { cut: [true, true], ..Link::new(1000, 50) });
    for number in 0..100 {
        let mut bytes = vec![];
        let destination = ConnectionId(101);
        let header = Header { ack_now: true, key_phase: false, rail: 1 + number as u8 % 4, destination, number };
        let mut builder = Builder::new(&mut bytes, &header);
        builder.frame(&Frame::Challenge([7; 8]));
        builder.finish();
        world.inject(1, bytes, address_on(1, 77), address_on(0, 1), Duration::from_millis(number * 10));
    }
    world.run_for(Duration::from_secs(20));
    assert_eq!(world.live(1), [true, false]);
    let (count, bytes) = world.strangers(1);
    // An answer to each, and five challenges for each of four rails, some repeated.
    assert!(bytes <= 64 * count && count <= 200, "{count} datagrams, {bytes} bytes");
    world.finish();
}

#[test]
fn pairs_that_do_not_reach_are_given_up_and_others_tried() {
    // The addresses of one side are listed in another order, and one link is cut.
    let links = [Link::new(1000, 50), Link { cut: [true, true], ..Link::new(1000, 50) }, Link::new(1000, 50)];
    let mut world = joined(&links, &settings(), [100, 100], 1);
    world.offer(1, &[2, 1, 0]);
    world.run_for(Duration::from_secs(20));
    assert_eq!((world.live(0), world.live(1)), (vec![true, false, true], vec![true, false, true]));
    world.links[1].cut = [false, false];
    world.run_for(Duration::from_secs(70));
    assert_eq!((world.live(0), world.live(1)), (vec![true; 3], vec![true; 3]));
    world.finish();
}

/// RFC 9000 section 8.2.1: short challenges pass there, and each packet with data would be lost.
#[test]
fn a_link_that_does_not_carry_the_least_datagram_is_not_used() {
    let links = [Link::new(100, 50), Link { carries: 1199, ..Link::new(100, 50) }, Link::new(100, 50)];
    let mut world = joined(&links, &settings(), [200, 200], 1);
    world.run_for(Duration::from_secs(20));
    assert_eq!((world.live(0), world.live(1)), (vec![true, false, true], vec![true, false, true]));
    assert_eq!(world.sides[0].connection.rails().nth(1).and_then(|rail| rail.out), Some(Out::Unanswered));
    world.finish();
    assert_eq!(world.sides[0].connection.counters().rails_left, 0);
}

#[test]
fn what_is_not_offered_any_more_is_closed_and_comes_again() {
    let mut world = joined(&[Link::new(100, 500); 3], &settings(), [3000, 3000], 1);
    until_live(&mut world);
    for side in [1, 0] {
        world.offer(side, &[0, 2]);
        world.run_for(Duration::from_secs(2));
        assert_eq!(world.live(0), [true, false, true], "side {side}");
        world.offer(side, &[0, 1, 2]);
        world.run_for(Duration::from_secs(4));
        assert_eq!(world.live(0), [true, true, true], "side {side}");
    }
    world.finish();
}

/// By link, the share of all bytes that a side has sent over it.
fn shares(world: &World, side: usize, before: &[u64]) -> Vec<f64> {
    let bytes: Vec<u64> = world.links.iter().zip(before).map(|(link, before)| link.passed[side] - before).collect();
    let all: u64 = bytes.iter().sum();
    bytes.iter().map(|bytes| *bytes as f64 / all as f64).collect()
}

/// The used share of the links' capacity, with all rails open and grown.
fn used(links: &[Link], settings: &Settings, time: Duration) -> (f64, Vec<f64>, World) {
    let mut world = joined(links, settings, [1_000_000, 0], 1);
    until_live(&mut world);
    world.run_for(Duration::from_secs(2));
    let before: Vec<u64> = world.links.iter().map(|link| link.passed[0]).collect();
    let (acknowledged, begin) = (world.sides[0].connection.acknowledged(), world.now);
    world.run_for(time);
    let rate = (world.sides[0].connection.acknowledged() - acknowledged) as f64 * 8.0;
    let most: u64 = links.iter().map(|link| link.rate).sum();
    let payload = (1472.0 - 47.0) / (1472.0 + 66.0);
    let most = most as f64 * (world.now - begin).as_micros() as f64 * payload;
    let shares = shares(&world, 0, &before);
    (rate / most, shares, world)
}

#[test]
fn unlike_rates_carry_their_share() {
    let links = [Link::new(40, 200), Link::new(20, 200), Link::new(10, 200)];
    let (part, shares, world) = used(&links, &settings(), Duration::from_secs(2));
    assert!(part > 0.97, "{part} {shares:?} {:?}", world.sides[0].connection.counters());
    for (share, expected) in shares.iter().zip([4.0 / 7.0, 2.0 / 7.0, 1.0 / 7.0]) {
        assert!((share - expected).abs() < 0.03, "{shares:?}");
    }
}

#[test]
fn unlike_delays_carry_their_share() {
    let links = [Link::new(40, 50), Link::new(40, 4000)];
    let (part, shares, world) = used(&links, &settings(), Duration::from_secs(2));
    assert!(part > 0.97, "{part} {shares:?} {:?}", world.sides[0].connection.counters());
    assert!(shares.iter().all(|share| (share - 0.5).abs() < 0.05), "{shares:?}");
}

/// The longest time without an acknowledgement, and the total acknowledged in all this time.
fn pause(world: &mut World, time: Duration) -> (Duration, u64) {
    let until = world.now + time;
    let first = world.sides[0].connection.acknowledged();
    let (mut longest, mut last, mut since) = (Duration::ZERO, first, world.now);
    while world.now < until && world.step() {
        let acknowledged = world.sides[0].connection.acknowledged();
        if acknowledged > last {
            longest = longest.max(world.now - since);
            (last, since) = (acknowledged, world.now);
        }
    }
    (longest.max(world.now - since), last - first)
}

/// P9: a cut rail is demoted within three round trips and 20 ms, whichever direction is cut, and is used again within a
/// second.
#[test]
fn a_cut_rail_is_soon_demoted_and_rejoined() {
    for (rate, delay_us) in [(200, 50), (50, 1000), (20, 10_000)] {
        for (cut, index) in [([true, true], 0), ([true, false], 1), ([false, true], 1), ([true, true], 1)] {
            let link = Link { queue: 60_000, ..Link::new(rate, delay_us) };
            let mut world = joined(&[link; 2], &settings(), [1_000_000, 0], 1);
            until_live(&mut world);
            world.run_for(Duration::from_secs(2));
            let trip = world.sides[0].connection.rails().filter_map(|rail| rail.round_trip).max().unwrap_or_default();
            world.links[index].cut = cut;
            let (longest, _) = pause(&mut world, Duration::from_millis(500));
            let limit = 3 * trip + Duration::from_millis(20);
            assert!(longest <= limit, "{rate} Mb/s, cut {cut:?}: {longest:?}, {trip:?} round trip");
            let (_, alone) = pause(&mut world, Duration::from_millis(500));
            assert_eq!(world.sides[0].connection.rails().nth(index).map(|rail| rail.state), Some(RailState::Silent));
            world.links[index].cut = [false, false];
            world.run_for(Duration::from_secs(1));
            let (_, both) = pause(&mut world, Duration::from_millis(500));
            assert!(both as f64 > alone as f64 * 1.8, "{rate} Mb/s, cut {cut:?}: {alone} alone, {both} together");
        }
    }
}

/// One of two rails fails, and while it is silent the other one does, for good. When the first is mended, each side
/// gets packets of the other only over the rail that it trusts less.
#[test]
fn a_rail_that_failed_first_carries_everything_when_the_last_one_has_failed() {
    let mut world = joined(&[Link::new(100, 200); 2], &settings(), [3000, 3000], 1);
    until_live(&mut world);
    world.links[0].cut = [true, true];
    world.run_for(Duration::from_millis(200));
    for side in &world.sides {
        assert_eq!(states(&side.connection), [RailState::Silent, RailState::Live]);
    }
    world.links[1].cut = [true, true];
    world.run_for(Duration::from_secs(3));
    for side in &world.sides {
        assert_eq!(states(&side.connection), [RailState::Silent; 2]);
    }
    world.links[0].cut = [false, false];
    world.run_for(Duration::from_secs(3));
    for side in &world.sides {
        assert_eq!(states(&side.connection), [RailState::Live, RailState::Silent]);
    }
    world.finish();
}

/// Two rails fail at the same time, one in each direction: packets pass over one, their acknowledgements over the
/// other.
#[test]
fn rails_that_pass_in_unlike_directions_carry_everything_together() {
    for seed in 1..5 {
        let mut world = joined(&[Link::new(100, 200); 2], &settings(), [300, 300], seed);
        until_live(&mut world);
        world.links[0].cut = [true, false];
        world.links[1].cut = [false, true];
        world.finish();
    }
}

/// A suspended host has made round trips long on all rails. A rail that is cut right after has no other samples; the
/// new short ones of the other rails suffice.
#[test]
fn a_rail_that_is_cut_after_a_pause_is_soon_demoted() {
    // Mb/s of a rail, its delay, and the time that it needs to be used to the full.
    for (rate, delay_us, full_ms) in [(1000, 50, 200), (200, 50, 500), (50, 1000, 1000)] {
        for after_ms in [1_u64, 5, 20] {
            let link = Link { queue: 500_000, ..Link::new(rate, delay_us) };
            let mut world = joined(&[link; 4], &settings(), [1_000_000, 0], after_ms);
            until_live(&mut world);
            world.run_for(Duration::from_millis(full_ms));
            let trip = world.sides[0].connection.rails().filter_map(|rail| rail.round_trip).max().unwrap_or_default();
            world.sides[1].stopped = true;
            world.run_for(Duration::from_millis(150));
            world.resume(1);
            world.run_for(Duration::from_millis(after_ms));
            world.links[1].cut = [true, true];
            let (longest, _) = pause(&mut world, Duration::from_millis(500));
            // An eighth of the pause is in the smoothed round trip.
            let limit = 3 * trip + Duration::from_millis(80);
            assert!(longest <= limit, "{rate} Mb/s, {after_ms} ms after it: {longest:?}, {trip:?} round trip");
        }
    }
}

/// All rails are silent at once: the peer is slow. Nothing is demoted, and little is sent.
#[test]
fn a_peer_that_stops_is_not_dead_rails() {
    let mut world = joined(&[Link::new(100, 1000); 3], &settings(), [1_000_000, 0], 1);
    until_live(&mut world);
    world.run_for(Duration::from_secs(1));
    world.links.iter_mut().for_each(|link| link.cut = [true, true]);
    let before = world.sides[0].connection.counters().packets_sent;
    world.run_for(Duration::from_secs(60));
    let sent = world.sides[0].connection.counters().packets_sent - before;
    // Three windows, and a few probes on each rail.
    assert!(sent < 3 * 200 + 3 * 150, "{sent} packets");
    world.links.iter_mut().for_each(|link| link.cut = [false, false]);
    world.run_for(Duration::from_secs(2));
    assert_eq!(states(&world.sides[0].connection), [RailState::Live; 3]);
    assert_eq!(world.sides[0].connection.counters().rails_left, 0);
}

/// System calls and wake-ups dominate the cost of bulk: packets are sent together on a rail, and acknowledged together.
/// And nothing is sent twice: a full window does not mean that nothing is left to send.
#[test]
fn bulk_takes_few_calls_and_few_acknowledgements() {
    let link = Link { queue: 1_000_000, ..Link::new(1000, 500) };
    let mut world = joined(&[link; 4], &settings(), [0, 0], 1);
    until_live(&mut world);
    let before = world.sides.each_ref().map(|side| (side.connection.counters().packets_sent, side.calls));
    world.sides[0].source.left = 700;
    world.transmit(0);
    world.run(1_000_000, World::all_acknowledged);
    let after = world.sides.each_ref().map(|side| (side.connection.counters().packets_sent, side.calls));
    let (packets, calls) = (after[0].0 - before[0].0, after[0].1 - before[0].1);
    let acknowledgements = after[1].0 - before[1].0;
    assert!(packets > 10_000 && packets > 10 * calls, "{packets} packets in {calls} calls");
    assert!(packets > 12 * acknowledgements, "{acknowledgements} acknowledgements of {packets} packets");
    let overtaken = world.sides[0].connection.counters().overtaken;
    assert!(overtaken * 100 < packets, "{overtaken} of {packets} packets were sent twice over rails that are alike");
    world.finish();
}

/// The application posts a request only when another one completes, and the two rails have somewhat different round
/// trips. The faster rail idles now and then, and must not retransmit what is in flight on the slower one.
#[test]
fn where_a_program_waits_for_completions_rails_that_are_nearly_alike_send_nothing_twice() {
    let mut world = joined(&[Link::new(1000, 250), Link::new(1000, 400)], &settings(), [0, 0], 1);
    until_live(&mut world);
    for _ in 0..10_000 {
        let source = &mut world.sides[0].source;
        let in_flight = source.end - world.sides[0].connection.acknowledged();
        source.left = (200_000_u64.saturating_sub(in_flight) / 30_000) as u32;
        world.transmit(0);
        world.run_for(Duration::from_micros(20));
    }
    let counters = world.sides[0].connection.counters();
    let (packets, overtaken) = (counters.packets_sent, counters.overtaken);
    assert!(packets > 10_000 && overtaken * 100 < packets, "{overtaken} of {packets} packets were sent twice");
    world.sides[0].source.left = 0;
    world.finish();
}

/// A short link behind a queue of 4 ms, as a rate limit of the host makes it: the window is much more than a round trip
/// of the link holds, and half of what waits in the queue is acknowledged at a time.
#[test]
fn where_a_queue_stands_a_call_takes_much_and_so_does_an_acknowledgement() {
    let link = Link { queue: 500_000, ..Link::new(1000, 25) };
    let mut world = joined(&[link], &Settings { rails: 1, ..settings() }, [1_000_000, 0], 1);
    world.set_batches(44);
    world.run_for(Duration::from_millis(300));
    let counts = |world: &World| {
        let sent = world.sides.each_ref().map(|side| side.connection.counters().packets_sent);
        [sent[0], sent[1], world.sides[0].calls]
    };
    let before = counts(&world);
    world.run_for(Duration::from_millis(100));
    let after = counts(&world);
    let [packets, acknowledgements, calls] = [0, 1, 2].map(|what| after[what] - before[what]);
    println!(
        "{packets} packets in {calls} calls, {acknowledgements} acknowledgements, window {}",
        world.sides[0].connection.window()
    );
    assert!(packets > 7500, "{packets} packets: the link is not full");
    assert!(packets > 20 * calls && packets > 20 * acknowledgements, "{packets}, {calls}, {acknowledgements}");
}

/// Short links behind long queues: the windows are far more than what the links hold, and all of that may be in flight.
#[test]
fn the_segments_in_flight_are_bounded_by_the_windows_and_not_by_a_number_for_all_rails() {
    let link = Link { queue: 500_000, ..Link::new(1000, 25) };
    let mut world = joined(&[link; 8], &settings(), [1_000_000, 0], 1);
    until_live(&mut world);
    world.run_for(Duration::from_millis(300));
    let connection = &world.sides[0].connection;
    let in_flight = connection.next_position() - connection.acknowledged();
    assert!((2_500_000..=32 << 20).contains(&in_flight), "{in_flight} bytes in flight");
}

/// The receiver's gaps never exceed the segments that one side may have in flight.
#[test]
fn the_reorder_window_has_a_limit() {
    let settings = Settings { sent_segments: 64, in_flight_bytes: 64 * 1472, ..settings() };
    let mut world = joined(&[Link::new(100, 50), Link::new(100, 20_000)], &settings, [300, 0], 1);
    until_live(&mut world);
    let mut most = 0;
    world.run(1_000_000, |world| {
        let connection = &world.sides[0].connection;
        most = most.max(connection.next_position() - connection.acknowledged());
        world.all_acknowledged()
    });
    assert!((20_000..=64 * 1473).contains(&most), "{most}");
    world.finish();
}

/// The last packets of a message went over the slow rail: the fast one retransmits them instead of waiting.
#[test]
fn an_idle_fast_rail_overtakes_a_slow_one() {
    let mut world = joined(&[Link::new(100, 100), Link::new(100, 50_000)], &settings(), [0, 0], 1);
    until_live(&mut world);
    world.sides[0].source.left = 20;
    world.transmit(0);
    let begin = world.now;
    world.run(1_000_000, World::all_acknowledged);
    let counters = *world.sides[0].connection.counters();
    let bytes = world.sides[0].source.end;
    // Some 400 kB at 100 Mb/s; what the slow rail has carried would be acknowledged only after 100 ms.
    let alone = Duration::from_micros(bytes * 8 * 108 / 100 / 100);
    let took = world.now - begin;
    assert!(alone < Duration::from_millis(60) && took < alone + Duration::from_millis(20), "{took:?} {counters:?}");
    assert!(counters.overtaken > 0, "{counters:?}");
    world.finish();
}

/// A rail with a small MTU gets segments that were made for a large one, in parts.
#[test]
fn segments_are_cut_for_a_rail_with_a_smaller_mtu() {
    let settings = Settings { max_datagram: 8972, ..settings() };
    let large = Link { lose: 20, ..Link::new(100, 300) };
    let small = Link { carries: 1300, ..Link::new(100, 300) };
    let mut world = joined(&[large, small], &settings, [600, 600], 1);
    world.run(1_000_000, World::all_acknowledged);
    let connection = &world.sides[0].connection;
    let sizes: Vec<usize> = connection.rails().map(|rail| rail.datagram_size).collect();
    assert!(sizes[0] == 8972 && (1260..=1300).contains(&sizes[1]), "{sizes:?}");
    assert!(connection.counters().segments_repeated > 0);
    world.finish();
}

fn random_link(random: &mut Random) -> Link {
    let mut one_of = |values: [u64; 4]| values[random.below(4) as usize];
    Link {
        lose: one_of([0, 0, 100, 10]),
        carries: one_of([65_507, 8972, 1472, 1250]) as usize,
        queue: one_of([5000, 30_000, 150_000, 1_000_000]),
        ..Link::new(one_of([0, 1000, 100, 10]), one_of([5, 100, 2000, 20_000]))
    }
}

fn random_faults(random: &mut Random) -> Faults {
    let mut one_in = |values: [u64; 3]| values[random.below(3) as usize];
    Faults {
        copy: one_in([0, 3, 20]),
        damage: one_in([0, 20, 100]),
        delay_us: 0,
        jitter_us: one_in([0, 20, 3000]),
        put_off: one_in([0, 10, 50]),
        receives: one_in([0, 1, 3]),
        fences: one_in([0, 1, 5]),
        ..Faults::none()
    }
}

fn random_settings(random: &mut Random) -> Settings {
    Settings {
        rails: 1 + random.below(6) as u8,
        max_datagram: [1200, 1472, 8972, 65_507][random.below(4) as usize],
        sent_segments: 16 + random.below(200) as usize,
        sent_packets: 64 + random.below(300) as usize,
        credit: 2400 + random.below(200_000) as u32,
        ack_every: 1 + random.below(10) as u32,
        ..Settings::default()
    }
}

/// Links are cut and restored at random, in one direction or both; at most all but one, and at times all.
fn cut_and_mend(world: &mut World, random: &mut Random, until: Time) {
    while world.now < until && !world.all_acknowledged() {
        world.run_for(Duration::from_micros(100 + random.below(30_000)));
        let link = random.below(world.links.len() as u64) as usize;
        world.links[link].cut = [(false, false), (true, true), (true, false), (false, true)]
            .map(|(one, other)| [one, other])[random.below(4) as usize];
    }
    world.links.iter_mut().for_each(|link| link.cut = [false, false]);
}

#[test]
fn everything_arrives_once_while_rails_are_cut() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("WEFT_EDGE_SEED").unwrap_or(0);
    // These have found something: a timer that was over after it was handled, since a rail was opened after it or since
    // refusals waited for a rail that answers; and a packet that was cut off, which was taken for a duplicate.
    let known = [1947, 13_868, 14_470, 23_967].into_iter().filter(|_| number("WEFT_EDGE_SEED").is_none());
    for seed in (first..first + number("WEFT_EDGE_RUNS").unwrap_or(400)).chain(known) {
        let run = std::panic::AssertUnwindSafe(|| {
            let mut random = Random::new(seed);
            let (settings, faults) = (random_settings(&mut random), random_faults(&mut random));
            let links: Vec<Link> = (0..1 + random.below(5)).map(|_| random_link(&mut random)).collect();
            let messages = [random.below(30) as u32, random.below(15) as u32];
            let longest = [100, 3000, 20_000][random.below(3) as usize];
            let mut world = World::new(&settings, faults, messages, longest, seed);
            world.join(&links);
            let until = world.now + Duration::from_secs(random.below(3));
            cut_and_mend(&mut world, &mut random, until);
            world.finish();
        });
        if let Err(error) = std::panic::catch_unwind(run) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(error);
        }
    }
}

/// The share of one connection with this many flows over a link beside another with one, in per cent of both.
fn share_of_flows(flows: u8, couples: bool, seed: u64) -> u64 {
    let link = Link { queue: 250_000, ..Link::new(100, 10_000) };
    let world = |flows, seed| {
        let mut world = joined(&[], &Settings { couples, ..settings() }, [1_000_000, 0], seed);
        world.join_by_flows(link, flows);
        world
    };
    let mut worlds = [world(flows, seed), world(1, seed + 1)];
    let mut shared = link;
    let mut run_for = |time: Duration| {
        let before = worlds.each_ref().map(|world| world.sides[0].connection.acknowledged());
        let until = worlds[0].now.max(worlds[1].now) + time;
        // Each takes over the link's state from the other.
        let mut next = worlds.each_ref().map(World::next_at);
        while let Some(first) = (0..worlds.len()).min_by_key(|index| next[*index])
            && next[first].is_some_and(|at| at < until)
        {
            worlds[first].links[0] = shared;
            worlds[first].step();
            shared = worlds[first].links[0];
            next[first] = worlds[first].next_at();
        }
        assert_eq!(worlds[0].sides[0].connection.rails().count(), usize::from(flows));
        let after = worlds.each_ref().map(|world| world.sides[0].connection.acknowledged());
        let [first, second] = [after[0] - before[0], after[1] - before[1]];
        first * 100 / (first + second)
    };
    // It returns slowly what it took too much of at the start.
    run_for(Duration::from_secs(25));
    run_for(Duration::from_secs(10))
}

/// RFC 6356: four flows of one connection take about what one flow of another connection takes; uncoupled, four parts
/// of five. With one seed the share is anything from 22 to 42 %, so the mean of several counts: at least 30 %, as for
/// any two flows that share a queue of one bandwidth-delay product.
#[test]
fn flows_over_one_link_share_it_as_one_does() {
    const SEEDS: [u64; 4] = [1, 3, 5, 7];
    let shares = SEEDS.map(|seed| share_of_flows(4, true, seed));
    let (together, alone) = (shares.iter().sum::<u64>() / SEEDS.len() as u64, share_of_flows(4, false, 1));
    assert!((30..=65).contains(&together) && alone >= 72, "{shares:?} % coupled, {alone} % on their own");
}

#[test]
fn flows_over_one_link_are_rails_of_their_own() {
    let mut world = joined(&[], &settings(), [300, 300], 1);
    world.join_by_flows(Link::new(1000, 50), 16);
    world.run(1_000_000, |world| (0..2).all(|side| states(&world.sides[side].connection) == [RailState::Live; 16]));
    for side in &world.sides {
        let mut ports: Vec<u16> =
            side.connection.rails().filter_map(|rail| rail.place).map(|(_, to)| to.port()).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 16, "each leads to a port of its own");
    }
    world.finish();
}
