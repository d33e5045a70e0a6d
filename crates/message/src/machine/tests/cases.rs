//! One thing at a time.

use std::time::Duration;

use weft_base::{PeerId, Time};

use super::world::{Joint, Node, Report, World, content};
use crate::host::{Failure, Received, Ticket};
use crate::matching::Match;
use crate::settings::Settings;

pub(super) fn small() -> Settings {
    Settings {
        packet_bytes: 512,
        short_bytes: 256,
        stream_bytes: 0,
        alone_bytes: 0,
        far_bytes: 0,
        eager_bytes: 2000,
        fragment_bytes: 700,
        fragments_under_way: 2,
        data_credits: 4,
        extra_credits: 0,
        control_credits: 2,
        unexpected_bytes: 8000,
        unexpected_messages: 1000,
        idle_timeout: None,
    }
}

pub(super) fn tag(tag: u64) -> Option<Match> {
    Some(Match { tag, ignore: 0 })
}

pub(super) fn got(number: u64, message: u64, message_tag: u64, length: u64) -> Report {
    let what = Received { source: PeerId(0), tag: message_tag, data: Some(message), offset: 0, length };
    Report::Received { number, what: Some(what), outcome: Ok(()), last: true, bytes: content(message, length) }
}

#[test]
fn every_protocol_both_ways_round() {
    for length in [0, 1, 256, 257, 2000, 2001, 10_000] {
        for delivery in [false, true] {
            for early in [false, true] {
                let mut world = World::pair(&small());
                let posted = early.then(|| world.receive(1, Some(0), tag(7), length, None));
                let message = world.send(0, 1, Some(7), length, delivery);
                world.settle();
                let finished = early || length <= 2000 && !delivery;
                let sent = Report::Sent { number: message, outcome: Ok(()) };
                assert_eq!(world.reports(0), if finished { vec![sent] } else { vec![] }, "{length} {delivery} {early}");
                let posted = posted.unwrap_or_else(|| world.receive(1, Some(0), tag(7), length, None));
                world.settle();
                assert_eq!(world.reports(1), [got(posted, message, 7, length)]);
                assert_eq!(world.reports(0).len(), usize::from(!finished));
                assert_eq!((world.nodes[0].host.exposed(), world.nodes[1].host.exposed()), (0, 0));
                assert_eq!(world.nodes[1].host.buffers(), 0);
                assert!(!world.nodes[0].machine.is_busy(PeerId(1)) && !world.nodes[1].machine.is_busy(PeerId(0)));
                assert_eq!(world.nodes[1].machine.budget.used(), 0);
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_cut_off_and_the_sender_does_not_mind() {
    for length in [100, 1000, 10_000] {
        for room in [0, 10, 99] {
            for early in [false, true] {
                let mut world = World::pair(&small());
                let mut posted = 0;
                if early {
                    posted = world.receive(1, None, None, room, None);
                }
                let message = world.send(0, 1, None, length, true);
                world.settle();
                if !early {
                    posted = world.receive(1, None, None, room, None);
                    world.settle();
                }
                let what = Received { source: PeerId(0), tag: 0, data: Some(message), offset: 0, length: room };
                let bytes = content(message, length)[..room as usize].to_vec();
                let outcome = Err(Failure::Truncated { length });
                let expected = Report::Received { number: posted, what: Some(what), outcome, last: true, bytes };
                assert_eq!(world.reports(1), [expected]);
                assert_eq!(world.reports(0), [Report::Sent { number: message, outcome: Ok(()) }]);
            }
        }
    }
}

#[test]
fn many_short_messages_go_in_one_packet() {
    let mut world = World::pair(&Settings::default());
    let receives: Vec<_> = (0..100).map(|at| world.receive(1, Some(0), tag(at), 8, None)).collect();
    let sends: Vec<_> = (0..100).map(|at| world.send(0, 1, Some(at), 8, false)).collect();
    world.settle();
    assert_eq!(world.packets, 1);
    let expected: Vec<_> =
        receives.iter().zip(&sends).zip(0..).map(|((receive, send), tag)| got(*receive, *send, tag, 8)).collect();
    assert_eq!(world.reports(1), expected);
}

#[test]
fn a_call_is_answered() {
    let mut world = World::pair(&small());
    let Node { machine, host } = &mut world.nodes[0];
    machine.call(PeerId(1), Ticket(77), b"question", host);
    world.flush(0);
    world.settle();
    let (peer, call, body) = world.nodes[1].host.called.pop().expect("it was called");
    assert_eq!((peer, body.as_slice()), (PeerId(0), b"question".as_slice()));
    let Node { machine, host } = &mut world.nodes[1];
    machine.answer(call, b"42", host);
    machine.answer(call, b"twice", host);
    world.settle();
    assert_eq!(world.nodes[0].host.answers, [(Ticket(77), Ok(b"42".to_vec()))]);
}

/// One message, alone in its packet.
fn send_alone(world: &mut World, tag: u64, length: u64) -> u64 {
    let number = world.send(0, 1, Some(tag), length, false);
    world.settle();
    number
}

#[test]
fn one_credit_is_enough_for_those_that_are_received() {
    // Three of four credits are withheld for messages that no receive takes.
    let mut world = World::pair(&Settings { unexpected_messages: 0, ..small() });
    let kept: Vec<_> = (0..3).map(|tag| send_alone(&mut world, tag, 200)).collect();
    assert_eq!(world.nodes[1].machine.packets.len(), 3);
    let receives: Vec<_> = (0..20).map(|_| world.receive(1, Some(0), tag(9), 200, None)).collect();
    let sends: Vec<_> = (0..20).map(|_| send_alone(&mut world, 9, 200)).collect();
    let expected: Vec<_> = receives.iter().zip(&sends).map(|(receive, send)| got(*receive, *send, 9, 200)).collect();
    assert_eq!(world.reports(1), expected);
    let receives: Vec<_> = (0..3).map(|at| world.receive(1, Some(0), tag(at), 200, None)).collect();
    let expected: Vec<_> =
        receives.iter().zip(&kept).zip(0..).map(|((receive, send), tag)| got(*receive, *send, tag, 200)).collect();
    assert_eq!(world.reports(1), expected);
    assert!(world.nodes[1].machine.packets.is_empty());
}

#[test]
fn what_the_budget_gets_back_goes_to_those_that_wait_for_it() {
    // Room for two: the others keep the credits until one of the two is received.
    let mut world = World::pair(&Settings { unexpected_messages: 2, ..small() });
    for tag in 0..6 {
        send_alone(&mut world, tag, 200);
    }
    let last = send_alone(&mut world, 9, 200);
    assert_eq!(world.nodes[1].machine.packets.len(), 4);
    world.receive(1, Some(0), tag(0), 200, None);
    world.settle();
    assert_eq!(world.nodes[1].machine.matcher.unexpected_count(), 6, "the seventh was received");
    let posted = world.receive(1, Some(0), tag(9), 200, None);
    assert_eq!(world.reports(1).pop(), Some(got(posted, last, 9, 200)));
}

#[test]
fn the_oldest_of_those_that_wait_is_next_though_others_are_received_meanwhile() {
    let mut world = World::pair(&Settings { unexpected_messages: 1, data_credits: 20, ..small() });
    // One has the only place; 18 are held, more than are checked in one turn.
    for tag in 0..19 {
        send_alone(&mut world, tag, 8);
    }
    assert_eq!(world.nodes[1].machine.packets.len(), 18);
    // A held message returns no place, and so changes no turn.
    world.receive(1, Some(0), tag(18), 8, None);
    world.receive(1, Some(0), tag(0), 8, None);
    let kept = world.nodes[1].machine.incoming.values().filter(|incoming| incoming.has_place);
    assert_eq!(kept.map(|incoming| incoming.envelope.tag).collect::<Vec<_>>(), [Some(1)]);
}

#[test]
fn a_message_gets_a_buffer_only_while_half_of_the_budget_is_free() {
    // A buffer of 2000 bytes costs 4096: the third would fit, but messages in flight may need that half.
    let mut world = World::pair(&Settings { unexpected_bytes: 3 * 4096, ..small() });
    let sent: Vec<_> = (0..3).map(|tag| send_alone(&mut world, tag, 2000)).collect();
    assert_eq!((world.nodes[1].host.buffers(), world.nodes[1].machine.budget.used()), (2, 2 * 4096));
    assert!(world.nodes[1].machine.packets.is_empty());
    for (message, at) in sent.into_iter().zip(0..) {
        let posted = world.receive(1, Some(0), tag(at), 2000, None);
        world.settle();
        assert_eq!(world.reports(1), [got(posted, message, at, 2000)]);
    }
}

#[test]
fn both_flood_each_other_and_receive_later() {
    for (data_credits, control_credits) in [(1, 1), (2, 1), (1, 2), (4, 2)] {
        for unexpected_bytes in [0, 1000, 100_000] {
            let settings = Settings { data_credits, control_credits, unexpected_bytes, ..small() };
            let mut world = World::pair(&settings);
            let lengths = [0, 10, 250, 300, 2000, 5000];
            let number = |at: u64| lengths[(at % 6) as usize];
            for at in 0..120 {
                world.send(0, 1, Some(at), number(at), at % 3 == 0);
                world.send(1, 0, Some(at), number(at), at % 3 == 0);
            }
            world.settle();
            for at in (0..120).rev() {
                world.receive(0, Some(1), tag(at), number(at), None);
                world.receive(1, Some(0), tag(at), number(at), None);
                world.settle();
            }
            for at in 0..2 {
                let reports = world.reports(at);
                assert_eq!(reports.len(), 240, "{data_credits} {control_credits} {unexpected_bytes}");
                let is_good = |report: &Report| {
                    matches!(report, Report::Sent { outcome: Ok(()), .. } | Report::Received { outcome: Ok(()), .. })
                };
                assert!(reports.iter().all(is_good));
            }
        }
    }
}

#[test]
fn a_receive_of_many_takes_messages_of_all_kinds_one_after_the_other() {
    let mut world = World::pair(&small());
    let posted = world.receive(1, None, None, 5000, Some(1000));
    let mut offset = 0;
    let mut expected = Vec::new();
    for length in [100, 1000, 3000] {
        let message = world.send(0, 1, None, length, false);
        let what = Received { source: PeerId(0), tag: 0, data: Some(message), offset, length };
        let last = length == 3000;
        expected.push(Report::Received {
            number: posted,
            what: Some(what),
            outcome: Ok(()),
            last,
            bytes: content(message, length),
        });
        offset += length;
    }
    world.settle();
    assert_eq!(world.reports(1), expected);
    assert_eq!(world.nodes[1].host.exposed(), 0);
}

#[test]
fn each_message_of_a_receive_of_many_has_its_place_to_itself_and_only_until_it_is_written() {
    let mut world = World::new(&vec![small(); 3]);
    let posted = world.receive(2, None, None, 9000, Some(1000));
    let first = world.send(0, 2, None, 500, false);
    let second = world.send(1, 2, None, 600, false);
    // Both have been told where to write, and only the first has written.
    for (pair, joint) in world.unsettled() {
        world.settle_joint(pair, joint);
    }
    for from in 0..2 {
        assert!(world.transmit(from) && world.deliver(from, 2) && world.transmit(2) && world.deliver(2, from));
    }
    assert_eq!(world.nodes[2].host.exposed(), 2);
    while world.transmit(0) || world.deliver(0, 2) {}
    assert_eq!(world.nodes[2].host.exposed(), 1, "what is written can't be written again");
    world.settle();
    let received = |source, message, offset, length| {
        let what = Received { source: PeerId(source), tag: 0, data: Some(message), offset, length };
        let bytes = content(message, length);
        Report::Received { number: posted, what: Some(what), outcome: Ok(()), last: false, bytes }
    };
    assert_eq!(world.reports(2), [received(0, first, 0, 500), received(1, second, 500, 600)]);
    assert_eq!(world.nodes[2].host.exposed(), 0);
}

#[test]
fn a_receive_of_many_that_is_canceled_ends_after_what_is_on_its_way() {
    let mut world = World::pair(&small());
    let posted = world.receive(1, None, None, 9000, Some(1));
    let message = world.send(0, 1, None, 5000, false);
    while world.nodes[1].machine.incoming.is_empty() {
        for (pair, joint) in world.unsettled() {
            world.settle_joint(pair, joint);
        }
        world.transmit(0);
        world.deliver(0, 1);
    }
    let Node { machine, host } = &mut world.nodes[1];
    assert!(machine.cancel_receive(|user| user.number == posted, host));
    assert!(!machine.cancel_receive(|user| user.number == posted, host));
    world.settle();
    let what = Received { source: PeerId(0), tag: 0, data: Some(message), offset: 0, length: 5000 };
    let bytes = content(message, 5000);
    assert_eq!(
        world.reports(1),
        [
            Report::Received { number: posted, what: Some(what), outcome: Ok(()), last: false, bytes },
            Report::Received { number: posted, what: None, outcome: Err(Failure::Canceled), last: true, bytes: vec![] },
        ]
    );
}

#[test]
fn memory_that_cannot_be_exposed_fails_both_or_the_one() {
    let mut world = World::pair(&small());
    world.nodes[1].host.refuse_sinks = true;
    let posted = world.receive(1, None, None, 1000, None);
    let message = world.send(0, 1, None, 1000, false);
    world.settle();
    assert_eq!(world.reports(0), [Report::Sent { number: message, outcome: Err(Failure::Refused) }]);
    let what = Received { source: PeerId(0), tag: 0, data: Some(message), offset: 0, length: 0 };
    let outcome = Err(Failure::NoMemory);
    let expected = Report::Received { number: posted, what: Some(what), outcome, last: true, bytes: vec![] };
    assert_eq!(world.reports(1), [expected]);
    world.nodes[0].host.refuse_sources = true;
    let message = world.send(0, 1, None, 5000, false);
    world.settle();
    assert_eq!(world.reports(0), [Report::Sent { number: message, outcome: Err(Failure::NoMemory) }]);
    assert_eq!(world.reports(1), []);
}

#[test]
fn a_claimed_message_whose_sender_is_lost_fails_its_receive() {
    let mut world = World::pair(&small());
    world.send(0, 1, None, 5000, false);
    world.settle();
    assert!(world.nodes[1].machine.peek(None, None, Some(8)).is_some());
    assert!(world.nodes[1].machine.peek(None, None, Some(8)).is_none());
    world.cut(0, 1);
    world.settle();
    let post = world.receive_post(None, None, 5000, None);
    let Node { machine, host } = &mut world.nodes[1];
    assert!(machine.receive_claimed(8, post, host).is_ok());
    let reports = world.reports(1);
    let [Report::Received { outcome: Err(Failure::PeerLost), last: true, .. }] = &reports[..] else {
        panic!("{reports:?}")
    };
}

#[test]
fn receives_for_a_peer_alone_fail_when_it_is_lost_abruptly() {
    for abrupt in [false, true] {
        let mut world = World::pair(&small());
        send_alone(&mut world, 0, 1);
        let alone = world.receive(1, Some(0), tag(7), 10, None);
        world.receive(1, None, tag(7), 10, None);
        let Node { machine, host } = &mut world.nodes[1];
        machine.handle_lost(PeerId(0), abrupt, host);
        let failed =
            Report::Received { number: alone, what: None, outcome: Err(Failure::PeerLost), last: true, bytes: vec![] };
        assert_eq!(world.reports(1), if abrupt { vec![failed] } else { vec![] });
    }
}

fn idle() -> Settings {
    Settings { idle_timeout: Some(Duration::from_secs(1)), ..small() }
}

/// Time passes at some of them.
fn pass(world: &mut World, nodes: &[usize], time: Duration) {
    world.now = world.now + time;
    for at in nodes {
        let Node { machine, host } = &mut world.nodes[*at];
        assert!(machine.handle_time(world.now, host).is_some_and(|next| next > world.now));
        world.flush(*at);
    }
}

#[test]
fn an_idle_connection_is_closed_and_opened_again() {
    for both in [false, true] {
        let mut world = World::pair(&idle());
        world.receive(1, Some(0), tag(1), 10, None);
        send_alone(&mut world, 1, 10);
        let nodes: &[usize] = if both { &[0, 1] } else { &[0] };
        pass(&mut world, nodes, Duration::from_millis(500));
        world.settle();
        assert_eq!(world.joints[&(0, 1)], Joint::Joined);
        pass(&mut world, nodes, Duration::from_secs(1));
        // A message sent while it closes uses the next connection.
        let number = world.send(0, 1, Some(1), 10, false);
        let back = world.send(1, 0, Some(1), 10, false);
        world.settle();
        assert_eq!(world.joints[&(0, 1)], Joint::Joined);
        pass(&mut world, nodes, Duration::from_secs(3));
        world.settle();
        assert_eq!(world.joints[&(0, 1)], Joint::Apart, "{both}");
        let posted = world.receive(1, Some(0), tag(1), 10, None);
        assert_eq!(world.reports(1).pop(), Some(got(posted, number, 1, 10)));
        world.receive(0, Some(1), tag(1), 10, None);
        let reports = world.reports(0);
        assert!(
            matches!(reports.last(), Some(Report::Received { what: Some(what), .. }) if what.data == Some(back)),
            "{reports:?}"
        );
    }
}

#[test]
fn a_connection_with_something_under_way_is_not_closed() {
    let mut world = World::pair(&idle());
    world.send(0, 1, Some(1), 5000, false);
    world.settle();
    pass(&mut world, &[0, 1], Duration::from_secs(5));
    world.settle();
    assert_eq!(world.joints[&(0, 1)], Joint::Joined);
    world.receive(1, Some(0), tag(1), 5000, None);
    world.settle();
    world.nodes[1].machine.hold(PeerId(0));
    pass(&mut world, &[0, 1], Duration::from_secs(5));
    world.settle();
    assert_eq!(world.joints[&(0, 1)], Joint::Joined);
    world.nodes[1].machine.release(PeerId(0));
    pass(&mut world, &[0, 1], Duration::from_secs(5));
    world.settle();
    assert_eq!(world.joints[&(0, 1)], Joint::Apart);
}

#[test]
fn a_reserved_credit_precedes_the_next_message() {
    let mut world = World::pair(&Settings { data_credits: 1, ..small() });
    send_alone(&mut world, 1, 10);
    assert!(world.nodes[0].machine.reserve_packet(PeerId(1), Time::ZERO));
    assert!(!world.nodes[0].machine.reserve_packet(PeerId(1), Time::ZERO));
    let number = world.send(0, 1, Some(2), 10, false);
    assert!(!world.transmit(0));
    assert_eq!(world.nodes[1].machine.handle_other_packet(PeerId(0)), Ok(()));
    assert!(world.transmit(1), "the credit goes back alone");
    world.deliver(1, 0);
    assert_eq!(world.nodes[0].machine.next_ready(), Some(PeerId(1)));
    assert!(world.nodes[0].machine.reserve_packet(PeerId(1), Time::ZERO), "it was kept");
    assert_eq!(world.nodes[1].machine.handle_other_packet(PeerId(0)), Ok(()));
    world.settle();
    world.reports(1);
    let posted = world.receive(1, None, tag(2), 10, None);
    assert_eq!(world.reports(1), [got(posted, number, 2, 10)]);
}

#[test]
fn the_last_credit_is_left_to_a_reservation_also_when_no_peer_was_named() {
    let mut world = World::pair(&Settings { data_credits: 1, ..small() });
    send_alone(&mut world, 1, 10);
    assert!(world.nodes[0].machine.reserve_packet(PeerId(1), Time::ZERO));
    assert!(!world.nodes[0].machine.reserve_packet(PeerId(1), Time::ZERO));
    world.send(0, 1, Some(2), 10, false);
    assert_eq!(world.nodes[1].machine.handle_other_packet(PeerId(0)), Ok(()));
    assert!(world.transmit(1) && world.deliver(1, 0), "the credit is back");
    // Packets for which there was no room are requested without being named.
    let Node { machine, host } = &mut world.nodes[0];
    assert_eq!(machine.poll_packet(PeerId(1), &mut [0; 512], world.now, host), None);
    assert!(machine.reserve_packet(PeerId(1), Time::ZERO));
}

#[test]
fn the_last_credit_is_left_to_a_reservation_also_after_a_packet_that_needed_none() {
    let mut world = World::pair(&Settings { data_credits: 1, ..small() });
    send_alone(&mut world, 1, 10);
    assert!(world.nodes[0].machine.reserve_packet(PeerId(1), Time::ZERO));
    assert!(!world.nodes[0].machine.reserve_packet(PeerId(1), Time::ZERO));
    world.send(0, 1, Some(2), 10, false);
    // The peer's acknowledgement is about a message of its own, for which there are other credits.
    world.receive(0, Some(1), tag(3), 10, None);
    world.send(1, 0, Some(3), 10, true);
    assert!(world.transmit(1) && world.deliver(1, 0));
    assert!(world.transmit(0) && world.deliver(0, 1));
    assert!(world.nodes[0].machine.peers.at(PeerId(1)).controls.is_empty(), "it was sent");
    assert_eq!(world.nodes[1].machine.handle_other_packet(PeerId(0)), Ok(()));
    assert!(world.transmit(1) && world.deliver(1, 0), "the credit is back");
    let Node { machine, host } = &mut world.nodes[0];
    assert_eq!(machine.poll_packet(PeerId(1), &mut [0; 512], world.now, host), None);
    assert!(machine.reserve_packet(PeerId(1), Time::ZERO));
}

#[test]
fn a_connection_is_not_closed_while_packets_are_held() {
    let mut world = World::pair(&Settings { unexpected_messages: 0, ..idle() });
    let number = send_alone(&mut world, 1, 10);
    assert_eq!(world.nodes[1].machine.packets.len(), 1);
    // Neither may the receiver ask for it, nor agree when the sender asks.
    for nodes in [&[1][..], &[0]] {
        pass(&mut world, nodes, Duration::from_secs(5));
        world.settle();
        assert_eq!((world.joints[&(0, 1)], world.nodes[1].machine.packets.len()), (Joint::Joined, 1));
    }
    let posted = world.receive(1, Some(0), tag(1), 10, None);
    assert_eq!(world.reports(1), [got(posted, number, 1, 10)]);
    world.settle();
    pass(&mut world, &[0, 1], Duration::from_secs(5));
    world.settle();
    assert_eq!(world.joints[&(0, 1)], Joint::Apart);
}

#[test]
fn a_machine_can_be_its_own_peer() {
    let settings = Settings { data_credits: 1, control_credits: 1, unexpected_bytes: 0, ..small() };
    for length in [0, 100, 2000, 5000] {
        for early in [false, true] {
            let mut world = World::new(core::slice::from_ref(&settings));
            let mut posted = 0;
            if early {
                posted = world.receive(0, Some(0), tag(3), length, None);
            }
            let message = world.send(0, 0, Some(3), length, true);
            world.settle();
            if !early {
                posted = world.receive(0, Some(0), tag(3), length, None);
                world.settle();
            }
            let sent = Report::Sent { number: message, outcome: Ok(()) };
            assert_eq!(world.reports(0), [got(posted, message, 3, length), sent]);
            assert!(!world.nodes[0].machine.is_busy(PeerId(0)));
        }
    }
}
