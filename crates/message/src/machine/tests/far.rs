//! Machines far from each other: how many round trips messages take.

use core::ops::RangeInclusive;
use core::time::Duration;

use weft_base::PeerId;

use super::cases::{self, tag};
use super::world::{Report, World};
use crate::machine::Violation;
use crate::settings::Settings;

const WAY: Duration = Duration::from_millis(4);

/// With 4 under way at a time, 400 packets take 100 round trips; the last answer does not count, and the first message
/// may still have its credit.
const FIXED: RangeInclusive<usize> = 199..=201;

/// Packets of 512 bytes, of which 4 may be under way at first.
fn settings(extra_credits: u32) -> Settings {
    Settings {
        data_credits: 4,
        extra_credits,
        short_bytes: 400,
        fragment_bytes: 1 << 20,
        unexpected_bytes: 1 << 20,
        ..cases::small()
    }
}

/// A pair that is joined.
fn joined(settings: &Settings) -> World {
    let mut world = World::pair(settings);
    world.receive(1, None, tag(0), 400, None);
    world.send(0, 1, Some(0), 400, false);
    world.settle();
    assert_eq!((world.reports(0).len(), world.reports(1).len()), (1, 1));
    world
}

/// Time goes on by one way: what was under way comes, and what can be sent then is.
fn pass(world: &mut World, way: Duration) {
    let under_way = [(0, 1), (1, 0)].map(|ends| world.streams.get(&ends).map_or(0, |items| items.len()));
    world.now = world.now + way;
    for ((from, to), count) in [(0, 1), (1, 0)].into_iter().zip(under_way) {
        (0..count).for_each(|_| assert!(world.deliver(from, to)));
    }
    for at in 0..2 {
        while world.transmit(at) {}
    }
}

/// Ways that go by until this many messages, each a packet, are at the other side.
fn ways(world: &mut World, messages: u64, way: Duration) -> usize {
    for at in 0..messages {
        world.receive(1, None, tag(at), 400, None);
        world.send(0, 1, Some(at), 400, false);
    }
    while world.transmit(0) {}
    let mut received = 0;
    for ways in 1.. {
        pass(world, way);
        received +=
            world.reports(1).into_iter().filter(|report| matches!(report, Report::Received { .. })).count() as u64;
        if received == messages {
            world.settle();
            return ways;
        }
    }
    unreachable!()
}

#[test]
fn a_long_way_is_filled_after_some_round_trips() {
    assert!(FIXED.contains(&ways(&mut joined(&settings(0)), 400, WAY)));
    let mut world = joined(&settings(1020));
    let first = ways(&mut world, 400, WAY);
    assert!(first <= 30, "{first}");
    // From then on it is filled from the start.
    let next = ways(&mut world, 400, WAY);
    assert!(next <= 7, "{next}");
    assert_eq!(world.nodes[1].machine.extra_credits % 4, 0);
    assert!(world.nodes[1].machine.extra_credits >= 252);
    assert_eq!(world.nodes[0].machine.extra_credits, 0, "a side that receives little grants no extra credits");
}

#[test]
fn a_long_message_waits_for_no_round_trip_when_there_are_credits_for_it() {
    // A request and a read take three ways, and what comes then is 40 packets long. Too long a message is read, too.
    for (length, far_bytes, round_trip, at_last) in
        [(20_000, 20_000, 2 * WAY, 1), (20_000, 19_999, 2 * WAY, 3), (20_000, 20_000, WAY / 5, 3)]
    {
        let mut world = World::pair(&Settings { far_bytes, ..settings(1020) });
        world.round_trip = round_trip;
        let mut times = Vec::new();
        for _ in 0..8 {
            world.receive(1, None, tag(7), length, None);
            world.send(0, 1, Some(7), length, false);
            for (pair, joint) in world.unsettled() {
                world.settle_joint(pair, joint);
            }
            while world.transmit(0) {}
            let ways = (1..).find(|_| {
                pass(&mut world, WAY);
                !world.reports(1).is_empty()
            });
            times.extend(ways);
            world.settle();
        }
        assert_eq!((times[0], times[7]), (3, at_last), "{times:?}");
    }
}

#[test]
fn writes_that_cost_credits_are_many_at_a_time_too() {
    for extra_credits in [0, 1020] {
        let mut world = joined(&settings(extra_credits));
        let (mut left, mut ways) = (400, 0);
        while left > 0 {
            let (mut written, now) = (0, world.now);
            while left > 0 && world.nodes[0].machine.reserve_packet(PeerId(1), now) {
                (left, written) = (left - 1, written + 1);
            }
            pass(&mut world, WAY);
            for _ in 0..written {
                assert_eq!(world.nodes[1].machine.handle_other_packet(PeerId(0)), Ok(()));
            }
            while world.transmit(1) {}
            ways += 1;
        }
        assert_eq!(ways <= 40, extra_credits > 0, "{ways}");
    }
}

#[test]
fn neighbours_and_those_for_whom_there_is_no_room_get_no_more() {
    let mut near = joined(&settings(1020));
    assert!(FIXED.contains(&ways(&mut near, 400, Duration::from_micros(400))));
    assert_eq!(near.nodes[1].machine.extra_credits, 0);

    let mut full = joined(&settings(1020));
    full.nodes[1].host.refuse_rooms = true;
    assert!(FIXED.contains(&ways(&mut full, 400, WAY)));
    assert_eq!(full.nodes[1].machine.extra_credits, 0);
}

#[test]
fn extra_credits_are_of_all_peers_together_and_come_back_with_the_connection() {
    let mut world = joined(&settings(13));
    // From 4 to 8 to 16 takes 12 of them; another 16 are not there.
    ways(&mut world, 400, WAY);
    assert_eq!(world.nodes[1].machine.extra_credits, 12);
    world.cut(1, 0);
    assert_eq!(world.nodes[1].machine.extra_credits, 0);
}

#[test]
fn a_peer_whose_messages_are_not_received_is_granted_no_more() {
    let few = Settings { unexpected_messages: 0, ..settings(1020) };
    let mut world = joined(&few);
    for at in 0..100 {
        world.send(0, 1, Some(at), 400, false);
    }
    for _ in 0..20 {
        pass(&mut world, WAY);
    }
    assert_eq!(world.nodes[1].machine.extra_credits, 0);
}

#[test]
fn a_grant_without_a_request_is_a_violation() {
    let mut world = joined(&settings(1020));
    let super::world::Node { machine, host } = &mut world.nodes[0];
    let bytes = [1, 2, 0, 0, 0, 0, 4, 0];
    let now = world.now;
    let refused = machine.handle_packet(PeerId(1), &bytes, now, host);
    assert_eq!(refused, Err(Violation("more credits are granted than were wanted")));
}
