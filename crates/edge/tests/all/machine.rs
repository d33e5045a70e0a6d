//! Two connections over a bad network, in virtual time.

use core::time::Duration;
use std::net::SocketAddr;

use crate::world::{Faults, World, address, established};
use weft_base::{Gather, Random, Time};
use weft_edge::{
    Batch, Confirmation, Connection, Ending, Established, Event, Meta, Options, Segment, Settings, Sink, Verdict,
};
use weft_wire::edge::ConnectionId;
use weft_wire::edge::ack::{Ack, EcnCounts, MoreRanges};
use weft_wire::edge::frame::Frame;
use weft_wire::edge::packet::{Builder, Header, Packet};

fn settings(random: &mut Random) -> Settings {
    Settings {
        max_datagram: [1200, 1472, 8972, 65_507][random.below(4) as usize],
        sent_segments: 16 + random.below(200) as usize,
        sent_packets: 64 + random.below(300) as usize,
        credit: 1200 + random.below(100_000) as u32,
        ack_every: 1 + random.below(10) as u32,
        ..Settings::default()
    }
}

fn faults(random: &mut Random) -> Faults {
    let mut one_in = |values: [u64; 3]| values[random.below(3) as usize];
    Faults {
        lose: one_in([0, 5, 30]),
        copy: one_in([0, 3, 20]),
        damage: one_in([0, 20, 100]),
        delay_us: one_in([5, 50, 5000]),
        jitter_us: one_in([0, 20, 3000]),
        carries: one_in([65_507, 1472, 1300]) as usize,
        put_off: one_in([0, 10, 50]),
        receives: one_in([0, 1, 3]),
        partition: false,
        fences: one_in([0, 1, 5]),
        drops_ect: false,
        in_turn: false,
    }
}

#[test]
fn everything_arrives_once_under_all_faults() {
    let first: u64 = std::env::var("WEFT_EDGE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let count: u64 = std::env::var("WEFT_EDGE_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(1500);
    let mut runs = 0;
    for seed in first..first + count {
        let mut random = Random::new(seed);
        let (settings, faults) = (settings(&mut random), faults(&mut random));
        let messages = [random.below(20) as u32, random.below(10) as u32];
        let longest = [100, 3000, 20_000][random.below(3) as usize];
        let mut world = World::new(&settings, faults, messages, longest, seed);
        world.passes = random.one_in(2);
        let run = std::panic::AssertUnwindSafe(|| world.finish());
        if let Err(error) = std::panic::catch_unwind(run) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(error);
        }
        runs += world.sides.iter().map(|side| side.sink.taken_runs).sum::<u64>();
    }
    assert!(runs >= count / 2, "{runs} runs in {count} worlds");
}

/// A segment fenced behind all earlier ones is sent at once where packets arrive in order, and otherwise when those are
/// acknowledged: the peer puts off only the segments that revealed the reordering.
#[test]
fn what_waits_for_others_is_not_put_off_again_and_again() {
    for (faults, most) in [(Faults::none(), 0), (Faults { jitter_us: 300, ..Faults::none() }, 200)] {
        let mut world = World::new(&Settings::default(), Faults { fences: 3, ..faults }, [300, 0], 5000, 5);
        world.finish();
        let (fenced, put_off) = (world.sides[1].sink.fenced, world.sides[1].connection.counters().put_off);
        assert!(fenced > 50 && put_off <= most, "{put_off} of {fenced}");
    }
}

/// The first missing segment is lost, and lost again when it is retransmitted: all later ones are put off, so that no
/// acknowledgement of them shows the second loss.
#[test]
fn a_receiver_that_takes_segments_in_turn_alone_gets_all() {
    for seed in 0..100 {
        let faults = Faults { lose: 4, in_turn: true, ..Faults::none() };
        let mut world = World::new(&Settings::default(), faults, [12, 0], 20_000, seed);
        world.finish();
    }
}

/// The test of the tests: a receiver that claims to have placed a segment that it has not is detected.
#[test]
#[should_panic(expected = "placed")]
fn a_receiver_that_lies_is_noticed() {
    let mut world = World::new(&Settings::default(), Faults::none(), [20, 0], 3000, 1);
    world.sides[1].sink.lies = true;
    world.finish();
}

#[test]
fn without_faults_nothing_is_sent_twice() {
    for datagram in [1200, 8972, 65_507] {
        let settings = Settings { max_datagram: datagram, credit: 1 << 20, ..Settings::default() };
        let mut world = World::new(&settings, Faults::none(), [200, 0], 30_000, 3);
        world.finish();
        let counters = world.sides[0].connection.counters();
        assert_eq!((counters.segments_repeated, counters.packets_lost), (0, 0), "{counters:?}");
        assert_eq!(world.sides[0].largest_sent, usize::from(datagram));
        assert_eq!(world.sides[1].connection.counters().duplicates, 0);
    }
}

#[test]
fn what_passes_the_queue_takes_the_acknowledgement_along_and_comes_again_when_it_is_lost() {
    for lose in [0, 5] {
        // So that not all of it is sent at once.
        let settings = Settings { credit: 4800, ..Settings::default() };
        let mut world = World::new(&settings, Faults { lose, ..Faults::none() }, [2000, 2000], 0, 3);
        world.passes = true;
        world.finish();
        assert!(world.passed.0 > 10 && world.passed.1 > 20, "{:?}", world.passed);
        let counters = world.sides[0].connection.counters();
        assert_eq!(lose > 0, counters.segments_repeated > 0, "{counters:?}");
    }
}

struct Takes;

impl Sink for Takes {
    fn segment(&mut self, _: u64, _: &[u8], _: u32, _: Options) -> Verdict {
        Verdict::Placed
    }
}

/// Two sides that alternate, each packet this long after the other side's. Returns how many of 200 had an
/// acknowledgement. None is ever due before the next packet is sent.
fn acknowledgements_of_answers(after: Duration) -> usize {
    let settings = Settings::default();
    let mut now = Time::from_nanos(1_000_000_000);
    let mut sides = [0, 1].map(|side| {
        let established = Established { confirmation: Confirmation::Done, ..established(side, &settings) };
        Connection::new(&established, &settings, now)
    });
    let mut batch = Batch::new(8, 1 << 17);
    // A Send of eight bytes, as far as this layer parses it.
    let header = &[[0x41, 0x43].as_slice(), &[0; 16]].concat();
    let send = Segment {
        header,
        bytes: &[7; 8],
        gather: Gather::empty(),
        is_steady: false,
        ack_now: false,
        options: Options::default(),
    };
    let mut count = 0;
    for turn in 0..200 {
        now = now + after;
        let side = turn % 2;
        assert!(sides[side].next_timeout().is_some_and(|at| at >= now), "turn {turn}: something was due before");
        batch.clear();
        assert!(sides[side].can_pass(now));
        sides[side].pass(&send, now, &mut batch);
        let frames = Packet::parse(&batch.bytes).unwrap().frames().collect::<Vec<_>>();
        count += frames.iter().filter(|frame| matches!(frame, Frame::Ack(_))).count();
        let meta = Meta { from: address(side), local: 0, ecn: 0, now };
        sides[1 - side].receive(&batch.bytes, &meta, &mut Takes);
    }
    let acknowledged = sides.each_ref().map(|side| side.next_position() - side.acknowledged());
    assert!(acknowledged.iter().all(|left| *left < 20 * 9), "{acknowledged:?} of 900 are not acknowledged");
    count
}

/// An answer that soon follows another one carries no acknowledgement that the next may carry.
#[test]
fn an_acknowledgement_waits_for_the_last_answer_before_it_is_due() {
    assert!((20..=40).contains(&acknowledgements_of_answers(Duration::from_micros(50))), "one in so many");
    let each = 200 - 1;
    assert_eq!(acknowledgements_of_answers(Duration::from_micros(600)), each, "the next would come too late");
}

#[test]
fn a_segment_without_a_receive_costs_neither_window_nor_life() {
    let faults = Faults { receives: 1, ..Faults::none() };
    let mut world = World::new(&Settings::default(), faults, [60, 0], 3000, 5);
    world.finish();
    let counters = *world.sides[0].connection.counters();
    assert!(counters.held > 10, "{counters:?}");
    assert_eq!(counters.packets_lost - counters.spurious_losses, 0, "{counters:?}");
}

#[test]
fn a_peer_that_is_silent_is_slow_then_gone() {
    // The probes of 75 s don't fit into so few slots.
    let settings = Settings { sent_packets: 40, ..Settings::default() };
    let mut world = World::new(&settings, Faults::none(), [1000, 0], 3000, 5);
    world.run_for(Duration::from_millis(2));
    world.sides[1].stopped = true;
    world.run_for(Duration::from_secs(75));
    world.sides[1].stopped = false;
    assert_eq!(world.ending(0), None);
    world.run(100_000, World::all_acknowledged);
    world.faults.partition = true;
    let begin = world.now;
    world.run(10_000, |world| world.ending(0).is_some() && world.ending(1).is_some());
    assert_eq!((world.ending(0), world.ending(1)), (Some(&Ending::Gone), Some(&Ending::Gone)));
    let took = world.now - begin;
    assert!(took <= Settings::default().peer_timeout + Duration::from_secs(1), "{took:?}");
    assert!(world.sides[0].connection.counters().probes >= 1);
}

#[test]
fn an_idle_connection_lives() {
    let mut world = World::new(&Settings::default(), Faults::none(), [1, 1], 3000, 5);
    world.run_for(Duration::from_secs(1000));
    world.finish();
}

#[test]
fn an_abort_says_why() {
    for lose in [0, 3] {
        let faults = Faults { lose, ..Faults::none() };
        let mut world = World::new(&Settings::default(), faults, [1000, 1000], 3000, 5);
        world.run_for(Duration::from_millis(5));
        world.sides[0].connection.abort(b"terminate");
        world.transmit(0);
        world.run(10_000, |world| world.ending(0).is_some() && world.ending(1).is_some());
        assert_eq!(world.ending(0), Some(&Ending::Aborted));
        assert_eq!(world.ending(1), Some(&Ending::PeerAborted(b"terminate".iter().copied().collect())));
        world.run(10_000, |world| world.sides.iter().all(|side| side.connection.is_over()));
    }
}

#[test]
fn one_side_may_close_first_and_says_so_when_all_is_placed() {
    for seed in 0..50 {
        let faults = Faults { lose: 5, jitter_us: 300, ..Faults::none() };
        let mut world = World::new(&Settings::default(), faults, [10, 100], 3000, seed);
        world.sides[0].connection.close();
        world.run(20_000, |world| world.sides[1].events.contains(&Event::PeerClosed));
        let (sent, placed) = (&world.sides[0].source, &world.sides[1].sink);
        assert_eq!((sent.left, placed.in_place()), (0, sent.end));
        world.finish();
    }
}

/// The acknowledgement waits for an answer, and the program ends before it is due.
#[test]
fn what_was_received_before_an_abort_is_acknowledged() {
    let mut world = World::new(&Settings::default(), Faults::none(), [1, 0], 500, 5);
    world.run(10_000, World::all_acknowledged);
    world.sides[0].source.left = 1;
    world.transmit(0);
    world.run(1000, |world| world.sides[1].sink.in_place() == world.sides[0].source.end);
    assert!(world.sides[0].connection.acknowledged() < world.sides[0].source.end, "not yet");
    world.sides[1].connection.abort(b"the program ends");
    world.transmit(1);
    world.run(10_000, |world| world.ending(0).is_some());
    assert!(matches!(world.ending(0), Some(Ending::PeerAborted(_))), "{:?}", world.ending(0));
    assert_eq!(world.sides[0].connection.acknowledged(), world.sides[0].source.end);
}

#[test]
fn a_token_that_was_agreed_ends_it_and_another_does_not() {
    let mut world = World::new(&Settings::default(), Faults::none(), [10, 0], 3000, 5);
    let now = world.now;
    let connection = &mut world.sides[0].connection;
    assert!(!connection.receive_reset(&[9; 16], now));
    assert!(connection.receive_reset(&[0; 16], now) && connection.is_over());
    assert_eq!(connection.poll_event(), Some(Event::Ended(Ending::Reset)));
}

#[test]
fn a_peer_that_moves_is_challenged_first() {
    let mut world = World::new(&Settings::default(), Faults::none(), [3000, 3000], 3000, 5);
    world.run_for(Duration::from_millis(2));
    world.sides[0].addresses[0] = address(5);
    world.run(10_000, |world| world.sides[1].events.contains(&Event::Moved(address(5))));
    assert_eq!(world.sides[1].connection.peer_address(), address(5));
    world.finish();
}

/// A packet that was recorded and replayed from another address moves nothing.
#[test]
fn a_replay_from_elsewhere_moves_nothing() {
    let mut world = World::new(&Settings::default(), Faults::none(), [100, 100], 3000, 5);
    world.run_for(Duration::from_millis(1));
    for seed in 0..200 {
        let mut bytes = vec![0; 18 + seed as usize];
        Random::new(seed).fill(&mut bytes);
        bytes[..2].copy_from_slice(&[0x41, 0]);
        bytes[2..10].copy_from_slice(&101u64.to_be_bytes());
        world.inject(1, bytes, address(9), address(1), Duration::ZERO);
    }
    world.run_for(Duration::from_millis(1));
    assert!(world.sides[1].connection.counters().unreadable >= 200);
    assert_eq!(world.sides[1].connection.peer_address(), address(0));
    world.finish();
}

/// A frame that an attacker on the path forges in the peer's name.
fn forged(number: u64, frame: &Frame<'_>) -> Vec<u8> {
    let mut bytes = vec![];
    let destination = ConnectionId(101);
    let header = Header { ack_now: false, key_phase: false, rail: 0, destination, number };
    let mut builder = Builder::new(&mut bytes, &header);
    builder.frame(frame);
    builder.finish();
    bytes
}

#[test]
fn an_unanswered_challenge_moves_nothing() {
    let mut world = World::new(&Settings::default(), Faults::none(), [10, 10], 3000, 5);
    world.run_for(Duration::from_millis(50));
    let events = world.sides[1].events.clone();
    for (number, frame) in [(5000, Frame::Ping), (5001, Frame::Response([0; 8])), (5002, Frame::Ping)] {
        world.inject(1, forged(number, &frame), address(9), address(1), Duration::ZERO);
        world.step();
        assert_eq!(world.sides[1].connection.peer_address(), address(0));
    }
    world.run_for(Duration::from_secs(10));
    assert_eq!(world.sides[1].connection.peer_address(), address(0));
    assert_eq!((&world.sides[1].events, world.sides[1].connection.counters().false_frames), (&events, 1));
}

/// The challenge that one side has sent to this address since the last call.
fn challenge_to(world: &mut World, to: SocketAddr) -> Option<[u8; 8]> {
    let seen = std::mem::take(&mut world.seen.as_mut().expect("it is watched").1);
    let packets = seen.iter().filter(|(_, went)| *went == to).map(|(bytes, _)| bytes);
    packets.filter_map(|bytes| Packet::parse(bytes).ok()?.verify(0).ok()).find_map(|packet| {
        packet.frames().find_map(|frame| if let Frame::Challenge(bytes) = frame { Some(bytes) } else { None })
    })
}

/// RFC 9000 section 8.1: at most three times the bytes that came from there.
#[test]
fn an_address_that_has_not_answered_gets_three_times_what_came_from_it() {
    let mut world = World::new(&Settings::default(), Faults::none(), [10, 10], 3000, 5);
    world.run_for(Duration::from_millis(50));
    world.seen = Some((1, vec![]));
    let (mut came, mut got) = (0, 0);
    for round in 1..=3 {
        let (ping, ask) = (forged(4999 + 2 * round, &Frame::Ping), forged(5000 + 2 * round, &Frame::Challenge([7; 8])));
        for packet in if round < 3 { vec![ping] } else { vec![ping, ask] } {
            came += packet.len();
            world.inject(1, packet, address(9), address(1), Duration::ZERO);
        }
        world.run_for(Duration::from_secs(10));
        let seen = std::mem::take(&mut world.seen.as_mut().expect("it is watched").1);
        let sent: usize = seen.iter().filter(|(_, to)| *to == address(9)).map(|(bytes, _)| bytes.len()).sum();
        got += sent;
        assert!(sent > 0 && got <= 3 * came, "{got} bytes for {came} in round {round}");
    }
}

/// RFC 9000 section 8.2.4: the new path may have a much longer round trip than the old one, of 0.1 ms here.
#[test]
fn a_longer_path_has_time_to_answer_a_challenge() {
    let mut world = World::new(&Settings::default(), Faults::none(), [10, 10], 3000, 5);
    world.run_for(Duration::from_millis(50));
    world.seen = Some((1, vec![]));
    world.inject(1, forged(5000, &Frame::Ping), address(9), address(1), Duration::ZERO);
    world.step();
    let bytes = challenge_to(&mut world, address(9)).expect("a challenge");
    let round_trip = Duration::from_millis(250);
    world.inject(1, forged(5001, &Frame::Response(bytes)), address(9), address(1), round_trip);
    world.run_for(round_trip);
    let larger = challenge_to(&mut world, address(9)).expect("the first is answered, and one of 1200 bytes follows");
    assert_ne!(larger, bytes, "the first is not repeated so soon");
    world.inject(1, forged(5002, &Frame::Response(larger)), address(9), address(1), round_trip);
    world.run_for(round_trip);
    assert_eq!(world.sides[1].connection.peer_address(), address(9));
}

#[test]
fn a_peer_that_moves_on_is_challenged_there_too() {
    let mut world = World::new(&Settings::default(), Faults::none(), [10, 10], 3000, 5);
    world.run_for(Duration::from_millis(50));
    world.seen = Some((1, vec![]));
    let mut challenged = |number: u64, from: usize, after: u64| {
        world.inject(1, forged(number, &Frame::Ping), address(from), address(1), Duration::ZERO);
        world.run_for(Duration::from_millis(after));
        challenge_to(&mut world, address(from)).is_some()
    };
    assert!(challenged(5000, 9, 100));
    assert!(!challenged(5001, 8, 300), "one at a time");
    assert!(challenged(5002, 8, 10), "the other one has not answered in time");
}

/// A peer that acknowledges packets that it has not received cannot know which numbers are skipped.
#[test]
fn an_acknowledgement_of_a_number_that_was_skipped_ends_the_connection() {
    let mut world = World::new(&Settings::default(), Faults::none(), [0, 1500], 3000, 5);
    world.run(100_000, World::all_acknowledged);
    let last = world.sides[1].connection.counters().packets_sent - 1;
    let ecn = EcnCounts { ect0: 0, ect1: 0, ce: 0 };
    let more = MoreRanges::default();
    let some = Ack { rail: 0, largest: last, first: 0, delay_us: 0, ecn, credit: 100_000, overflows: 0, more };
    world.inject(1, forged(1 << 20, &Frame::Ack(some)), address(0), address(1), Duration::ZERO);
    world.run_for(Duration::from_millis(1));
    assert_eq!(world.ending(1), None);
    let all = Ack { first: last as u32, ..some };
    world.inject(1, forged((1 << 20) + 1, &Frame::Ack(all)), address(0), address(1), Duration::ZERO);
    world.run_for(Duration::from_millis(50));
    assert_eq!(world.ending(1), Some(&Ending::Misbehaved));
    assert!(matches!(world.ending(0), Some(Ending::PeerAborted(_))), "{:?}", world.ending(0));
}

#[test]
fn no_more_is_under_way_than_the_credit() {
    let settings = Settings { credit: 6000, ..Settings::default() };
    // Of a longer path the credit bounds a part alone.
    let faults = Faults { delay_us: 1500, ..Faults::none() };
    let mut world = World::new(&settings, faults, [100, 0], 3000, 5);
    let mut most = 0;
    for _ in 0..2000 {
        world.step();
        most = most.max(world.under_way(1));
    }
    // A probe of the path and acknowledgements are not held back.
    assert!((4800..6000 + 1472 + 200).contains(&most), "{most}");
    world.finish();
}

#[test]
fn what_is_held_is_not_sent_again_and_again() {
    let faults = Faults { receives: 1, ..Faults::none() };
    let mut world = World::new(&Settings::default(), faults, [60, 0], 3000, 5);
    world.no_receives = true;
    world.run_for(Duration::from_secs(100));
    let counters = *world.sides[0].connection.counters();
    assert!((1..100).contains(&counters.segments_repeated), "{counters:?}");
    assert_eq!(world.ending(0), None);
    world.no_receives = false;
    // The request for receives was lost while there were none.
    world.run(10_000, World::all_acknowledged);
    world.finish();
}

/// A network that only reorders costs no window, once it is known.
#[test]
fn disorder_is_no_loss() {
    let settings = Settings { credit: 1 << 20, ..Settings::default() };
    let faults = Faults { jitter_us: 300, ..Faults::none() };
    let mut world = World::new(&settings, faults, [400, 0], 20_000, 5);
    world.run(100_000, World::all_acknowledged);
    // Retransmissions may have arrived before the late packets, which undo the last reduction.
    world.run_for(Duration::from_millis(5));
    let counters = world.sides[0].connection.counters();
    let window = world.sides[0].connection.window();
    // Losses that are already forgotten cannot be undone.
    assert!(counters.packets_lost > 0 && counters.packets_lost - counters.spurious_losses <= 2, "{counters:?}");
    assert_eq!(counters.black_holes, 0, "{counters:?}");
    assert!(window > 50_000, "{window} {counters:?}");
    world.finish();
}
