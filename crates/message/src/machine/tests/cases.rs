//! One thing at a time.

use weft_base::PeerId;

use super::world::{Told, World, content};
use crate::host::{Failure, Received, Ticket};
use crate::matching::Match;
use crate::settings::Settings;

fn small() -> Settings {
    Settings {
        packet_bytes: 512,
        short_bytes: 256,
        eager_bytes: 2000,
        fragment_bytes: 700,
        fragments_under_way: 2,
        data_credits: 4,
        control_credits: 2,
        unexpected_bytes: 8000,
        idle_timeout: None,
    }
}

fn tag(tag: u64) -> Option<Match> {
    Some(Match { tag, ignore: 0 })
}

fn got(number: u64, message: u64, message_tag: u64, length: u64) -> Told {
    let what = Received { source: PeerId(0), tag: message_tag, data: Some(message), offset: 0, length };
    Told::Received { number, what: Some(what), outcome: Ok(()), last: true, bytes: content(message, length) }
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
                let sent = Told::Sent { number: message, outcome: Ok(()) };
                assert_eq!(world.told(0), if finished { vec![sent] } else { vec![] }, "{length} {delivery} {early}");
                let posted = posted.unwrap_or_else(|| world.receive(1, Some(0), tag(7), length, None));
                world.settle();
                assert_eq!(world.told(1), [got(posted, message, 7, length)]);
                assert_eq!(world.told(0).len(), usize::from(!finished));
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
                let expected = Told::Received { number: posted, what: Some(what), outcome, last: true, bytes };
                assert_eq!(world.told(1), [expected]);
                assert_eq!(world.told(0), [Told::Sent { number: message, outcome: Ok(()) }]);
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
    assert_eq!(world.told(1), expected);
}

#[test]
fn a_call_is_answered() {
    let mut world = World::pair(&small());
    let super::world::Node { machine, host } = &mut world.nodes[0];
    machine.call(PeerId(1), Ticket(77), b"question", host);
    world.flush(0);
    world.settle();
    let (peer, call, body) = world.nodes[1].host.called.pop().expect("it was called");
    assert_eq!((peer, body.as_slice()), (PeerId(0), b"question".as_slice()));
    world.nodes[1].machine.answer(call, b"42");
    world.nodes[1].machine.answer(call, b"twice");
    world.settle();
    assert_eq!(world.nodes[0].host.answers, [(Ticket(77), Ok(b"42".to_vec()))]);
}
