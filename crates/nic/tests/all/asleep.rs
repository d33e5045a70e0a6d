//! Peers whose program sleeps while a connection to them is opened, and whose host takes it: they are waited for.

use core::time::Duration;
use std::net::SocketAddr;

use crate::side::{LIMIT, Side};
use weft_mpa::ReadyKinds;
use weft_nic::{
    Address, ConnectionError, EndpointError, EndpointFailure, EndpointSettings, JobKey, MpaOffer, Offer, Progress,
    ReceivePost, SendPost, Settings,
};
use weft_simulate::{Behaviour, RawPeer, World};
use weft_wire::message::Refusal;

/// Longer than anything that has a clock.
const SLEEP: Duration = Duration::from_secs(200);

fn world() -> World {
    World::new(1, Behaviour { delay: Duration::from_micros(10), ..Behaviour::default() })
}

/// An endpoint with a key, or without.
fn side(world: &World, id: u64, has_key: bool) -> Side {
    let key = has_key.then(|| JobKey::new(&[7; 32]).unwrap());
    Side::guarded(world, id, EndpointSettings::default(), key)
}

/// Time passes, and only `awake` does something.
fn sleep(world: &World, awake: &Side) {
    world.run(&[&awake.nic], SLEEP, || false);
    assert_eq!(awake.count(), 0, "{:?}", awake.take());
}

/// What was sent before arrives, once.
fn arrives(world: &World, from: &Side, to: &Side) {
    to.endpoint.receive(ReceivePost::new(vec![0; 8]).context(2)).unwrap();
    let came = world.run(&[&from.nic, &to.nic], 2 * SLEEP, || from.count() > 0 && to.count() > 0);
    assert!(
        came,
        "it does not arrive: {:?}, {:?}, {:?} {:?}",
        from.take(),
        to.take(),
        from.nic.counters(),
        to.nic.counters()
    );
    world.run(&[&from.nic, &to.nic], LIMIT, || false);
    for side in [from, to] {
        let events = side.take();
        let [event] = &events[..] else { panic!("one each: {events:?}") };
        assert_eq!(event.outcome, Ok(()));
    }
}

#[test]
fn a_message_waits_until_its_receiver_wakes() {
    for has_key in [false, true] {
        let world = world();
        let [here, there] = [1, 2].map(|id| side(&world, id, has_key));
        here.endpoint.send(SendPost::new(here.peer(&there), vec![7; 8])).unwrap();
        sleep(&world, &here);
        arrives(&world, &here, &there);
        assert_eq!(here.nic.counters().failed_starts, 0, "it was one attempt");
    }
}

/// Who answers proves that it has the key, and then sleeps.
#[test]
fn a_message_waits_for_a_verdict_that_is_late() {
    let world = world();
    let [here, there] = [1, 2].map(|id| side(&world, id, true));
    here.endpoint.send(SendPost::new(here.peer(&there), vec![7; 8])).unwrap();
    assert!(world.run(&[&here.nic, &there.nic], LIMIT, || here.nic.counters().connections == 1));
    sleep(&world, &here);
    arrives(&world, &here, &there);
}

/// One of the paths leads to somebody who never answers: the others are tried, again and again.
#[test]
fn with_several_ways_each_gets_its_turn_until_the_peer_wakes() {
    for ports in [[503, 502, 9], [502, 503, 9]] {
        let world = world();
        let [here, there, _silent] = [1, 2, 3].map(|id| side(&world, id, false));
        let paths = ports.map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
        let peer = here.endpoint.peer(&Address { id: 2, paths: paths.into_iter().collect(), transport: None }).unwrap();
        here.endpoint.send(SendPost::new(peer, vec![7; 8])).unwrap();
        sleep(&world, &here);
        arrives(&world, &here, &there);
        // Of the calls that came while it slept only the last is answered.
        assert_eq!(there.nic.counters().connections, 1);
        assert!(there.nic.counters().failed_starts > 0, "there were others");
    }
}

/// One that was given up has not been reset yet: it looks as if the caller waited for an answer.
#[test]
fn a_call_that_was_given_up_is_not_answered() {
    let world = world();
    let [here, there, _silent] = [1, 2, 3].map(|id| side(&world, id, false));
    let paths = [502, 503].map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
    let peer = here.endpoint.peer(&Address { id: 2, paths: paths.into_iter().collect(), transport: None }).unwrap();
    here.endpoint.send(SendPost::new(peer, vec![7; 8])).unwrap();
    let given_up = EndpointSettings::default().connect_timeout / 2 + Duration::from_millis(500);
    world.run(&[&here.nic], given_up, || false);
    assert_eq!(here.nic.counters().failed_starts, 1);
    arrives(&world, &here, &there);
    assert_eq!(there.nic.counters().connections, 1);
}

/// Nobody has run its NIC for long, and so nobody has looked at the clock.
#[test]
fn what_is_begun_after_a_sleep_has_its_whole_time() {
    let world = world();
    let [here, there] = [1, 2].map(|id| side(&world, id, false));
    sleep(&world, &there);
    here.endpoint.send(SendPost::new(here.peer(&there), vec![7; 8])).unwrap();
    arrives(&world, &here, &there);
    let sleeper = side(&world, 3, false);
    let _slow = RawPeer::connect(&world, sleeper.endpoint.address().paths[0]).unwrap();
    sleep(&world, &here);
    world.run(&[&sleeper.nic], Duration::from_secs(1), || false);
    assert_eq!(sleeper.nic.counters().failed_starts, 0, "it may still say what it wants");
}

#[test]
fn a_peer_that_never_wakes_is_an_error_once_its_host_says_so() {
    let world = world();
    let [here, there] = [1, 2].map(|id| side(&world, id, false));
    here.endpoint.send(SendPost::new(here.peer(&there), vec![7; 8])).unwrap();
    sleep(&world, &here);
    drop(there);
    assert!(world.run(&[&here.nic], LIMIT, || here.count() == 1));
    let events = here.take();
    assert!(matches!(&events[0].outcome, Err(EndpointFailure::Unreachable(_))), "{events:?}");
}

/// A program that will wait no longer is told.
#[test]
fn closing_ends_the_wait_and_says_what_was_not_delivered() {
    let world = world();
    let [here, there] = [1, 2].map(|id| side(&world, id, false));
    here.endpoint.send(SendPost::new(here.peer(&there), vec![7; 8])).unwrap();
    sleep(&world, &here);
    let undelivered = here.endpoint.close().expect_err("the peer sleeps");
    assert_eq!(undelivered.requests, 1);
    assert_eq!(here.endpoint.send(SendPost::new(weft_base::PeerId(1), vec![])), Err(EndpointError::Closed));
    let reason = undelivered.reason.expect("a reason");
    assert!(!matches!(reason, EndpointFailure::Lost(ConnectionError::NoAnswer { .. })), "{reason:?}");
}

/// It may have lost what it said, so it is called again; but not for ever.
#[test]
fn a_peer_that_says_it_is_calling_and_never_does_is_called_four_times() {
    let world = world();
    let here = side(&world, 1, false);
    let nic = world.nic(Settings { progress: Progress::Caller, ..Settings::default() });
    let mpa = MpaOffer { ready_to_receive: Some(ReadyKinds::all()), ..MpaOffer::default() };
    let offer = Offer { mpa, ..Offer::default() };
    let listener = nic.listen(SocketAddr::from(([10, 0, 0, 1], 700)), 4, offer).unwrap();
    let address = Address { id: 2, paths: [listener.local_address()].into_iter().collect(), transport: None };
    let peer = here.endpoint.peer(&address).unwrap();
    here.endpoint.send(SendPost::new(peer, vec![7; 8])).unwrap();
    let mut calls = 0;
    let over = world.run(&[&here.nic, &nic], LIMIT, || {
        while let Ok(Some((request, _))) = listener.next_request() {
            nic.reject(request, &Refusal::Tie.emit()).unwrap();
            calls += 1;
        }
        here.count() > 0
    });
    assert!(over, "it is called for ever");
    let events = here.take();
    assert!(matches!(events[0].outcome, Err(EndpointFailure::Unreachable(_))), "{events:?}");
    assert_eq!(calls, 4);
}
