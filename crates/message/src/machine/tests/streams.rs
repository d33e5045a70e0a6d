//! Messages in several packets, sent without a request.

use weft_base::PeerId;

use super::cases::{self, got, tag};
use super::world::{Joint, Node, Report, World, content};
use crate::host::{Failure, Received};
use crate::machine::stage::Stage;
use crate::settings::Settings;

/// Messages up to 5000 bytes are streamed, in packets of 512, of which 4 may be in flight.
fn small() -> Settings {
    Settings { stream_bytes: 5000, alone_bytes: 5000, eager_bytes: 0, unexpected_bytes: 20_000, ..cases::small() }
}

fn sent(number: u64) -> Report {
    Report::Sent { number, outcome: Ok(()) }
}

/// The first packet of the sender has arrived, and nothing else.
fn begin(world: &mut World) {
    for (pair, joint) in world.unsettled() {
        world.settle_joint(pair, joint);
    }
    assert!(world.transmit(0));
    assert!(world.deliver(0, 1));
}

/// Nothing is left at either end.
fn is_clean(world: &World) {
    for at in 0..2 {
        let machine = &world.nodes[at].machine;
        assert!(machine.incoming.is_empty() && machine.packets.is_empty() && machine.outgoing.is_empty());
        assert!(machine.budget.used() == 0 && !machine.is_busy(PeerId(1 - at as u32)));
    }
}

#[test]
fn a_message_of_several_packets_is_not_asked_for() {
    for length in [257, 472, 473, 512, 1000, 4999, 5000] {
        for delivery in [false, true] {
            for early in [false, true] {
                let mut world = World::pair(&small());
                let posted = early.then(|| world.receive(1, Some(0), tag(7), length, None));
                let message = world.send(0, 1, Some(7), length, delivery);
                for (pair, joint) in world.unsettled() {
                    world.settle_joint(pair, joint);
                }
                while world.transmit(0) {}
                // Heads are 32 bytes, or 40, and 8.
                let first = 512 - 8 - if delivery { 40 } else { 32 };
                let packets = 1 + length.saturating_sub(first).div_ceil(512 - 8 - 8);
                assert_eq!(world.packets, packets.min(4) as usize, "{length}");
                world.settle();
                let posted = posted.unwrap_or_else(|| world.receive(1, Some(0), tag(7), length, None));
                world.settle();
                assert_eq!(world.reports(1), [got(posted, message, 7, length)]);
                assert_eq!(world.reports(0), [sent(message)]);
                is_clean(&world);
            }
        }
    }
}

#[test]
fn longer_ones_are_read_while_more_than_two_sends_are_under_way() {
    for (sends, read) in [(1, 0), (2, 2), (9, 9)] {
        // Messages that may be sent before their receive is posted are no exception. The short one counts, and streams
        // in any case.
        let mut world = World::pair(&Settings { alone_bytes: 1000, eager_bytes: 5000, data_credits: 100, ..small() });
        let long: Vec<_> = (0..sends).map(|at| world.send(0, 1, Some(at), 3000, at % 2 == 0)).collect();
        let short = world.send(0, 1, Some(100), 1000, false);
        world.settle();
        let exposed = world.nodes[0].machine.outgoing.values().filter(|send| send.stage == Stage::Exposed).count();
        assert_eq!(exposed, read, "of {sends}");
        let posted = world.receive(1, None, tag(100), 1000, None);
        world.settle();
        assert_eq!(world.reports(1), [got(posted, short, 100, 1000)]);
        for (at, send) in (0..sends).zip(long) {
            let posted = world.receive(1, None, tag(at), 3000, None);
            world.settle();
            assert_eq!(world.reports(1), [got(posted, send, at, 3000)]);
        }
        assert_eq!(world.reports(0).len() as u64, sends + 1);
        is_clean(&world);
    }
}

#[test]
fn what_is_longer_than_streamed_ones_is_asked_for_or_read_as_ever_whatever_is_under_way() {
    for (length, read) in [(3000, 0), (6000, 9)] {
        let settings =
            Settings { stream_bytes: 2000, alone_bytes: 1000, eager_bytes: 5000, data_credits: 100, ..small() };
        let mut world = World::pair(&Settings { unexpected_bytes: 200_000, ..settings });
        for at in 0..9 {
            world.send(0, 1, Some(at), length, false);
        }
        world.settle();
        let exposed = world.nodes[0].machine.outgoing.values().filter(|send| send.stage == Stage::Exposed).count();
        assert_eq!(exposed, read, "of {length} bytes");
    }
}

#[test]
fn what_is_there_goes_to_a_receive_at_once_and_the_rest_follows() {
    for room in [0, 100, 300, 3000] {
        let mut world = World::pair(&small());
        let message = world.send(0, 1, Some(7), 3000, true);
        begin(&mut world);
        assert_eq!(world.nodes[1].machine.budget.used(), 4096, "room for all of it is reserved");
        let posted = world.receive(1, None, tag(7), room, None);
        assert_eq!(world.nodes[1].machine.budget.used(), 0);
        world.settle();
        let outcome = if room < 3000 { Err(Failure::Truncated { length: 3000 }) } else { Ok(()) };
        let what = Received { source: PeerId(0), tag: 7, data: Some(message), offset: 0, length: room };
        let bytes = content(message, 3000)[..room as usize].to_vec();
        assert_eq!(
            world.reports(1),
            [Report::Received { number: posted, what: Some(what), outcome, last: true, bytes }]
        );
        assert_eq!(world.reports(0), [sent(message)]);
        is_clean(&world);
    }
}

#[test]
fn without_a_budget_the_packets_of_a_message_keep_their_credits_until_it_is_received() {
    let mut world = World::pair(&Settings { unexpected_bytes: 0, ..small() });
    let message = world.send(0, 1, Some(7), 3000, false);
    let other = world.send(0, 1, Some(8), 3000, false);
    world.settle();
    assert_eq!((world.nodes[1].machine.packets.len(), world.packets), (4, 4), "the sender waits");
    let posted = world.receive(1, None, tag(7), 3000, None);
    world.settle();
    assert_eq!(world.reports(1), [got(posted, message, 7, 3000)]);
    assert_eq!(world.nodes[1].machine.packets.len(), 4, "those of the other");
    let posted = world.receive(1, None, tag(8), 3000, None);
    world.settle();
    assert_eq!(world.reports(1), [got(posted, other, 8, 3000)]);
    is_clean(&world);
}

#[test]
fn a_budget_that_comes_later_takes_what_has_come_and_what_follows() {
    // Enough credits that both are sent before the sender knows that memory is scarce.
    let settings = Settings { unexpected_bytes: 5000, unexpected_messages: 1, data_credits: 20, ..small() };
    let mut world = World::pair(&settings);
    let first = world.send(0, 1, Some(1), 4000, false);
    let second = world.send(0, 1, Some(2), 4000, false);
    world.settle();
    assert_eq!(world.nodes[1].machine.packets.len(), 9);
    let posted = world.receive(1, None, tag(1), 4000, None);
    world.settle();
    assert_eq!(world.reports(1), [got(posted, first, 1, 4000)]);
    assert_eq!((world.nodes[1].machine.packets.len(), world.nodes[1].machine.budget.used()), (0, 4096));
    assert_eq!(world.reports(0), [sent(first), sent(second)]);
    let posted = world.receive(1, None, tag(2), 4000, None);
    assert_eq!(world.reports(1), [got(posted, second, 2, 4000)]);
    world.settle();
    is_clean(&world);
}

#[test]
fn messages_can_be_received_in_any_order_though_few_of_them_can_be_kept() {
    let long_packets = Settings { packet_bytes: 2500, short_bytes: 2000, eager_bytes: 5000, ..small() };
    // All are requested, and buffers must not take what the requests need.
    let asked = Settings { stream_bytes: 0, eager_bytes: 5000, ..small() };
    for (length, settings) in [(200, small()), (2000, small()), (4000, small()), (2000, long_packets), (2000, asked)] {
        let mut world = World::pair(&Settings { unexpected_bytes: 64_000, ..settings });
        let sends: Vec<_> = (0..100).map(|at| world.send(0, 1, Some(at), length, at % 3 == 0)).collect();
        world.settle();
        let mut done = 0;
        for (at, send) in (0..100).zip(sends).collect::<Vec<_>>().into_iter().rev() {
            let posted = world.receive(1, None, tag(at), length, None);
            world.settle();
            assert_eq!(world.reports(1), [got(posted, send, at, length)], "{length}");
            done += world.reports(0).len();
        }
        assert_eq!(world.reports(0).len() + done, 100);
        is_clean(&world);
    }
}

#[test]
fn short_messages_and_the_ends_of_long_ones_share_packets() {
    let mut world = World::pair(&Settings { data_credits: 100, ..small() });
    let receives: Vec<_> = (0..20).map(|at| world.receive(1, Some(0), tag(at), 700, None)).collect();
    let lengths = |at: u64| if at.is_multiple_of(2) { 700 } else { 40 };
    let sends: Vec<_> = (0..20).map(|at| world.send(0, 1, Some(at), lengths(at), at % 3 == 0)).collect();
    world.settle();
    let expected: Vec<_> = receives
        .iter()
        .zip(&sends)
        .zip(0..)
        .map(|((receive, send), tag)| got(*receive, *send, tag, lengths(tag)))
        .collect();
    assert_eq!(world.reports(1), expected);
    assert!(world.packets < 2 * 10 + 10, "{} packets", world.packets);
    is_clean(&world);
}

#[test]
fn a_message_that_is_not_whole_can_be_thrown_away_or_claimed() {
    for budget in [0, 20_000] {
        let mut world = World::pair(&Settings { unexpected_bytes: budget, ..small() });
        let first = world.send(0, 1, Some(1), 3000, true);
        begin(&mut world);
        let Node { machine, host } = &mut world.nodes[1];
        assert_eq!(machine.discard(None, tag(1), host).map(|found| found.length), Some(3000));
        assert_eq!(machine.budget.used(), 0);
        world.settle();
        assert_eq!(world.reports(0), [sent(first)]);
        is_clean(&world);
        let second = world.send(0, 1, Some(2), 3000, true);
        begin(&mut world);
        assert_eq!(world.nodes[1].machine.peek(None, tag(2), Some(8)).map(|found| found.length), Some(3000));
        let post = world.receive_post(None, None, 3000, None);
        let number = post.user.number;
        let Node { machine, host } = &mut world.nodes[1];
        assert!(machine.receive_claimed(8, post, host).is_ok());
        assert_eq!(world.reports(1), []);
        world.settle();
        assert_eq!(world.reports(1), [got(number, second, 2, 3000)]);
        assert_eq!(world.reports(0), [sent(second)]);
        is_clean(&world);
    }
}

/// The outcome of a message whose sender is lost in the middle of it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Unexpected,
    Landed,
    Claimed,
    Discarded,
}

#[test]
fn a_sender_that_is_lost_in_the_middle_of_a_message_leaves_nothing_behind() {
    for fate in [Fate::Unexpected, Fate::Landed, Fate::Claimed, Fate::Discarded] {
        for budget in [0, 20_000] {
            let mut world = World::pair(&Settings { unexpected_bytes: budget, ..small() });
            let message = world.send(0, 1, Some(1), 3000, false);
            begin(&mut world);
            if fate == Fate::Landed {
                world.receive(1, None, tag(1), 3000, None);
            }
            let Node { machine, host } = &mut world.nodes[1];
            match fate {
                Fate::Claimed => assert!(machine.peek(None, tag(1), Some(3)).is_some()),
                Fate::Discarded => assert!(machine.discard(None, tag(1), host).is_some()),
                _ => {}
            }
            world.cut(0, 1);
            world.settle();
            assert_eq!(world.reports(0), [Report::Sent { number: message, outcome: Err(Failure::PeerLost) }]);
            if fate == Fate::Claimed {
                let post = world.receive_post(None, None, 3000, None);
                let Node { machine, host } = &mut world.nodes[1];
                assert!(machine.receive_claimed(3, post, host).is_ok());
            }
            let reports = world.reports(1);
            let failed = matches!(reports[..], [Report::Received { outcome: Err(Failure::PeerLost), last: true, .. }]);
            assert_eq!(failed, matches!(fate, Fate::Landed | Fate::Claimed), "{fate:?} {reports:?}");
            is_clean(&world);
            // The next connection starts empty.
            assert_eq!(world.joints[&(0, 1)], Joint::Apart);
            let message = world.send(0, 1, Some(5), 2000, false);
            let posted = world.receive(1, None, tag(5), 2000, None);
            world.settle();
            assert_eq!(world.reports(1), [got(posted, message, 5, 2000)]);
            is_clean(&world);
        }
    }
}

#[test]
fn a_message_that_has_begun_is_not_canceled() {
    let mut world = World::pair(&Settings { unexpected_bytes: 0, ..small() });
    let begun = world.send(0, 1, Some(1), 3000, false);
    let waits = world.send(0, 1, Some(2), 3000, false);
    world.settle();
    let Node { machine, host } = &mut world.nodes[0];
    assert!(!machine.cancel_send(|user| user.number == begun, host));
    assert!(machine.cancel_send(|user| user.number == waits, host));
    assert_eq!(world.reports(0), [Report::Sent { number: waits, outcome: Err(Failure::Canceled) }]);
    let posted = world.receive(1, None, None, 0, None);
    let got_it = world.receive(1, None, tag(1), 3000, None);
    world.settle();
    assert_eq!(world.reports(1), [got(got_it, begun, 1, 3000)]);
    let Node { machine, host } = &mut world.nodes[1];
    assert!(machine.cancel_receive(|user| user.number == posted, host));
}

#[test]
fn a_message_too_long_for_the_packets_of_a_peer_is_streamed_in_smaller_ones() {
    let tiny = Settings { packet_bytes: 256, short_bytes: 100, ..small() };
    let mut world = World::new(&[small(), tiny]);
    let posted = world.receive(1, None, tag(1), 250, None);
    let message = world.send(0, 1, Some(1), 250, false);
    world.settle();
    assert_eq!(world.reports(1), [got(posted, message, 1, 250)]);
    assert_eq!(world.reports(0), [sent(message)]);
    is_clean(&world);
}
