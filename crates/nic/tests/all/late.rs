//! A peer whose host takes the connection, and whose program does not answer.

use core::time::Duration;

use crate::side::Side;
use weft_nic::{
    AttemptFailure, ConnectionError, EndpointFailure, EndpointSettings, JobKey, ReceivePost, SendPost, Transport,
    Warning,
};
use weft_simulate::{Behaviour, RingBehaviour, World};

const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

fn settings(transport: Transport) -> EndpointSettings {
    EndpointSettings { reply_timeout: Some(REPLY_TIMEOUT), transport, ..EndpointSettings::default() }
}

fn world() -> World {
    World::new(1, Behaviour { delay: Duration::from_micros(10), ..Behaviour::default() })
}

#[test]
fn a_program_that_never_answers_is_told_of_and_then_everything_for_it_fails() {
    tell_of_a_silent_program(&world(), Transport::Iwarp);
}

#[test]
fn a_program_that_takes_shared_memory_and_never_answers_is_no_different() {
    let ring = Some(RingBehaviour::default());
    let world = World::new(1, Behaviour { ring, ..Behaviour::default() });
    tell_of_a_silent_program(&world, Transport::SharedMemory);
}

fn tell_of_a_silent_program(world: &World, transport: Transport) {
    let [here, silent] = [1, 2].map(|id| Side::with(world, id, settings(transport)));
    let peer = here.peer(&silent);
    for _ in 0..3 {
        here.endpoint.send(SendPost::new(peer, vec![1; 100])).unwrap();
    }
    // Nobody runs the other NIC.
    world.run(&[&here.nic], EndpointSettings::LATE - Duration::from_secs(1), || false);
    assert_eq!(here.take_warnings(), [], "it may be slow");
    world.run(&[&here.nic], Duration::from_secs(2), || false);
    let warnings = here.take_warnings();
    let [Warning::NoReply { remote, waited_for, until }] = warnings[..] else { panic!("{warnings:?}") };
    assert_eq!((remote, until), (silent.endpoint.address().paths[0], Some(REPLY_TIMEOUT)));
    assert!(waited_for >= EndpointSettings::LATE, "{waited_for:?}");
    assert_eq!(here.count(), 0, "it is still waited for");
    assert!(world.run(&[&here.nic], REPLY_TIMEOUT, || here.count() == 3));
    for event in here.take() {
        let Err(EndpointFailure::Unreachable(attempts)) = &event.outcome else { panic!("{event:?}") };
        let [attempt] = &attempts.0[..] else { panic!("{attempts}") };
        let AttemptFailure::Connection(failure) = &attempt.failure else { panic!("{attempts}") };
        let ConnectionError::NoAnswer { remote: whom, waited_for, is_connected, .. } = failure else {
            panic!("{failure}");
        };
        assert_eq!((*whom, *waited_for, *is_connected), (remote, REPLY_TIMEOUT, true));
    }
    assert_eq!(here.take_warnings(), [], "told once");
}

#[test]
fn a_program_that_answers_late_gets_everything() {
    let world = world();
    let [here, slow] = [1, 2].map(|id| Side::with(&world, id, settings(Transport::Iwarp)));
    here.endpoint.send(SendPost::new(here.peer(&slow), vec![1; 100])).unwrap();
    world.run(&[&here.nic], REPLY_TIMEOUT - Duration::from_secs(1), || false);
    slow.endpoint.receive(ReceivePost::new(vec![0; 100])).unwrap();
    crate::side::run(&world, [&here, &slow], [1, 1]);
    assert!(here.take().iter().chain(&slow.take()).all(|event| event.outcome == Ok(())));
}

/// With a key the answer is not enough: a verdict must follow.
#[test]
fn a_program_that_stops_before_its_verdict_is_no_different() {
    let world = world();
    let key = || Some(JobKey::new(b"a key of sixteen bytes or more").unwrap());
    let [here, stops] = [1, 2].map(|id| Side::guarded(&world, id, settings(Transport::Iwarp), key()));
    here.endpoint.send(SendPost::new(here.peer(&stops), vec![1; 100])).unwrap();
    let is_answered = || {
        stops.nic.progress();
        stops.nic.counters().connections > 0
    };
    assert!(world.run(&[&here.nic], Duration::from_secs(1), is_answered));
    assert!(world.run(&[&here.nic], REPLY_TIMEOUT + Duration::from_secs(5), || here.count() == 1));
    assert_eq!(here.take_warnings().len(), 1);
    let event = here.take().remove(0);
    assert!(matches!(event.outcome, Err(EndpointFailure::Unreachable(_))), "{event:?}");
}
