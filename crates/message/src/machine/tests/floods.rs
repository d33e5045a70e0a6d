//! More messages than are kept, and one behind them that is waited for.

use weft_base::PeerId;

use super::cases::{self, got, tag};
use super::world::{Report, World, content};
use crate::host::Received;
use crate::settings::Settings;

/// Messages up to 5000 bytes are streamed, and 20 000 bytes of them are kept.
fn small() -> Settings {
    Settings {
        stream_bytes: 5000,
        alone_bytes: 5000,
        eager_bytes: 5000,
        unexpected_bytes: 20_000,
        unexpected_messages: 50_000,
        ..cases::small()
    }
}

fn received_from(source: usize, number: u64, message: u64, length: u64) -> Report {
    let what = Received { source: PeerId(source as u32), tag: 2, data: Some(message), offset: 0, length };
    Report::Received { number, what: Some(what), outcome: Ok(()), last: true, bytes: content(message, length) }
}

#[test]
fn what_is_waited_for_passes_12_000_messages_that_are_not() {
    for length in [0, 8, 256, 257, 400, 3000, 5000, 5001] {
        for delivery in [false, true] {
            let mut world = World::pair(&small());
            let many: Vec<_> = (0..12_000).map(|_| world.send(0, 1, Some(1), length, delivery)).collect();
            let last = world.send(0, 1, Some(2), length, delivery);
            world.settle();
            // None of them waits to be sent, so that none delays the next ones.
            let open = world.nodes[0].machine.outgoing.len();
            assert_eq!(
                (world.nodes[0].host.announced, world.nodes[0].machine.peers.at(PeerId(1)).queue.len()),
                (open, 0)
            );
            let posted = world.receive(1, Some(0), tag(2), length, None);
            world.settle();
            assert_eq!(world.reports(1), [got(posted, last, 2, length)]);
            let budget = &world.nodes[1].machine.budget;
            assert!(budget.used() <= 20_000 && budget.beyond() <= 20_000 && world.nodes[1].machine.packets.is_empty());
            for number in many {
                let posted = world.receive(1, Some(0), tag(1), length, None);
                world.settle();
                assert_eq!(world.reports(1), [got(posted, number, 1, length)]);
            }
            assert_eq!(world.reports(0).len(), 12_001);
            assert!(!world.nodes[1].machine.budget.is_scarce());
        }
    }
}

#[test]
fn what_stays_with_its_sender_is_fetched_before_it_is_received() {
    let mut world = World::pair(&small());
    let many: Vec<_> = (0..200).map(|_| world.send(0, 1, Some(1), 4000, false)).collect();
    world.settle();
    let staying = |world: &World| world.nodes[1].machine.staying.len();
    assert!(staying(&world) > 190, "{} stay", staying(&world));
    let mut ready = 0;
    for number in many {
        let posted = world.receive(1, Some(0), tag(1), 4000, None);
        // Does it complete at once, without a round trip to the sender?
        let mut reports = world.reports(1);
        ready += usize::from(!reports.is_empty());
        world.settle();
        reports.extend(world.reports(1));
        assert_eq!(reports, [got(posted, number, 1, 4000)]);
        let budget = &world.nodes[1].machine.budget;
        assert!(budget.used() <= 20_000 && budget.beyond() <= 20_000);
    }
    assert!(ready > 190, "{ready} were complete");
    let machine = &world.nodes[1].machine;
    assert!(machine.staying.is_empty() && machine.budget.used() == 0 && !machine.budget.is_scarce());
}

#[test]
fn long_messages_that_cannot_be_exposed_now_are_asked_for() {
    let mut world = World::pair(&small());
    world.nodes[0].host.most_sources = Some(20);
    let sends: Vec<_> = (0..200).map(|at| world.send(0, 1, Some(at), 6000, at % 2 == 0)).collect();
    world.settle();
    // Each is in two parts.
    assert_eq!((world.nodes[0].host.exposed(), world.nodes[0].host.announced), (20, 200));
    assert_eq!((world.nodes[1].host.buffers(), world.reports(0).len()), (0, 0), "they wait for their receives");
    for (at, send) in (0..200).zip(sends).collect::<Vec<_>>().into_iter().rev() {
        let posted = world.receive(1, Some(0), tag(at), 6000, None);
        world.settle();
        assert_eq!(world.reports(1), [got(posted, send, at, 6000)]);
    }
    assert_eq!((world.reports(0).len(), world.nodes[0].host.announced), (200, 0));
}

#[test]
fn what_is_waited_for_passes_the_windows_of_many_peers() {
    // Each of them sends as much as it has credits for before it knows of the others.
    let settings = Settings { unexpected_bytes: 60_000, ..small() };
    let mut world = World::new(&vec![settings; 31]);
    for from in 1..31 {
        for _ in 0..100 {
            world.send(from, 0, Some(1), 400, false);
        }
    }
    let lasts: Vec<_> = (1..31).map(|from| world.send(from, 0, Some(2), 400, false)).collect();
    for (pair, joint) in world.unsettled() {
        world.settle_joint(pair, joint);
    }
    (1..31).for_each(|from| while world.transmit(from) {});
    world.settle();
    assert!(world.nodes[0].machine.budget.beyond() > 0 && world.nodes[0].machine.packets.is_empty());
    for (from, last) in (1..31).zip(lasts) {
        let posted = world.receive(0, Some(from), tag(2), 400, None);
        world.settle();
        assert_eq!(world.reports(0), [received_from(from, posted, last, 400)]);
    }
}

#[test]
fn a_sender_of_more_messages_than_there_are_places_for_is_slowed_down_and_nothing_is_lost() {
    for length in [0, 8, 400, 5001] {
        let mut world = World::pair(&Settings { unexpected_messages: 100, ..small() });
        let many: Vec<_> = (0..1000).map(|_| world.send(0, 1, Some(1), length, false)).collect();
        world.settle();
        let machine = &world.nodes[1].machine;
        assert_eq!((machine.budget.taken(), machine.packets.len()), (100, 4));
        assert!(machine.budget.is_scarce());
        for number in many {
            let posted = world.receive(1, Some(0), tag(1), length, None);
            world.settle();
            assert_eq!(world.reports(1), [got(posted, number, 1, length)]);
        }
        assert!(!world.nodes[1].machine.budget.is_scarce());
    }
}

#[test]
fn a_message_that_does_not_fit_blocks_no_other() {
    // The last one of these does not fit now, or never will.
    for long in [&[1500, 1500, 1500][..], &[4000]] {
        let settings = Settings { unexpected_bytes: 3000, unexpected_messages: 12, data_credits: 14, ..small() };
        let mut world = World::new(&vec![settings; 4]);
        for (from, length) in [(1, 0), (2, 0), (3, 0)] {
            world.receive(0, Some(from), tag(9), length, None);
            world.send(from, 0, Some(9), length, false);
        }
        world.settle();
        world.reports(0);
        // All of it is in flight before its sender knows that memory is scarce.
        let sent: Vec<_> = long.iter().map(|length| (world.send(1, 0, Some(1), *length, false), *length)).collect();
        while world.transmit(1) {}
        world.settle();
        let held = world.nodes[0].machine.packets.len();
        assert!(held > 0 && world.nodes[0].machine.budget.is_scarce());
        // One peer takes the remaining places, and another one's packets are held.
        let places = 12 - world.nodes[0].machine.budget.taken();
        for _ in 0..places {
            world.send(2, 0, Some(1), 8, false);
        }
        world.settle();
        for _ in 0..14 {
            world.send(3, 0, Some(1), 8, false);
            world.settle();
        }
        let last = world.send(3, 0, Some(2), 8, false);
        world.settle();
        assert_eq!(world.nodes[0].machine.packets.len(), held + 14);
        let posted = world.receive(0, Some(3), tag(2), 8, None);
        for _ in 0..places {
            world.receive(0, Some(2), tag(1), 8, None);
        }
        world.settle();
        assert_eq!(world.reports(0).pop(), Some(received_from(3, posted, last, 8)));
        for (number, length) in sent {
            world.receive(0, Some(1), tag(1), length, None);
            world.settle();
            let reports = world.reports(0);
            let [Report::Received { what: Some(what), outcome: Ok(()), .. }] = &reports[..] else {
                panic!("{reports:?}")
            };
            assert_eq!(what.data, Some(number));
        }
        (0..14).for_each(|_| {
            world.receive(0, Some(3), tag(1), 8, None);
        });
        assert!(world.nodes[0].machine.packets.is_empty() && !world.nodes[0].machine.budget.is_scarce());
    }
}
