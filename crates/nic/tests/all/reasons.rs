//! What fails says why.

use core::time::Duration;

use crate::side::{LIMIT, Side, connect};
use weft_nic::{
    AttemptFailure, ConnectionError, EndpointFailure, EndpointSettings, Level, Limits, Match, Progress, ReceivePost,
    SendPost, Settings, TransferPost, Transport, Warning,
};
use weft_simulate::{Behaviour, World};

fn world() -> World {
    World::new(1, Behaviour { delay: Duration::from_micros(10), ..Behaviour::default() })
}

fn side(world: &World, id: u64) -> Side {
    Side::with(world, id, EndpointSettings::default())
}

#[test]
fn a_limit_of_this_side_is_named() {
    let world = world();
    let limits = Limits { connections: 1, ..Limits::default() };
    let nic = world.nic(Settings { progress: Progress::Caller, limits, ..Settings::default() });
    let here = Side::on(nic, 1, EndpointSettings::default(), None);
    let (first, second) = (side(&world, 2), side(&world, 3));
    connect(&world, &here, &first);
    here.endpoint.send(SendPost::new(here.peer(&second), vec![1])).unwrap();
    assert!(world.run(&[&here.nic], LIMIT, || here.count() == 1));
    let failure = here.take().remove(0).outcome.expect_err("there is no room for another connection");
    assert!(failure.to_string().contains("limit `connections` of 1 is reached"), "{failure}");
}

/// Each is told by its own endpoint what both speak, in place of finding nobody.
#[test]
fn endpoints_that_speak_different_transports_are_told_both() {
    let speaking = |world: &World, id, transport| {
        Side::with(world, id, EndpointSettings { transport, ..EndpointSettings::default() })
    };
    for (ours, theirs) in [(Transport::Iwarp, Transport::Edge), (Transport::Edge, Transport::SharedMemoryOrIwarp)] {
        let world = world();
        let (here, there) = (speaking(&world, 1, ours), speaking(&world, 2, theirs));
        for (caller, called, ours, theirs) in [(&here, &there, ours, theirs), (&there, &here, theirs, ours)] {
            caller.endpoint.send(SendPost::new(caller.peer(called), vec![1])).unwrap();
            assert!(world.run(&[&here.nic, &there.nic], LIMIT, || caller.count() == 1));
            let failure = caller.take().remove(0).outcome.expect_err("they do not find each other");
            let EndpointFailure::Unreachable(attempts) = &failure else { panic!("{failure}") };
            assert_eq!(attempts.0[0].failure, AttemptFailure::Transport { ours, theirs });
            let words = format!("this endpoint speaks {}, and the endpoint there {}", ours.name(), theirs.name());
            assert!(failure.to_string().contains(&words), "{failure}");
        }
    }
}

#[test]
fn which_transports_find_which() {
    let found = |caller: Transport| Transport::ALL.map(|listener| u8::from(caller.finds(listener)));
    // In the order of `ALL`: iwarp, edge, shm, shm+iwarp, shm+edge, auto.
    let (iwarp, edge, shm) = ([1, 0, 1, 1, 1, 1], [0, 1, 0, 0, 1, 1], [0, 0, 1, 1, 1, 1]);
    assert_eq!(Transport::ALL.map(found), [iwarp, edge, shm, iwarp, [1; 6], [1; 6]]);
    for transport in Transport::ALL {
        assert_eq!(Transport::of_name(&transport.name().to_uppercase()), Some(transport));
    }
    assert_eq!(Transport::of_name("tcp"), None);
}

#[test]
fn what_closing_ends_was_closed() {
    for reads in [false, true] {
        let world = world();
        let (here, there) = (side(&world, 1), side(&world, 2));
        let peer = connect(&world, &here, &there);
        let post = TransferPost::new(peer, vec![1; 64], there.place(0)).level(Level::Delivered);
        if reads { here.endpoint.read(post) } else { here.endpoint.write(post) }.unwrap();
        let _ = here.endpoint.close();
        let events = here.take();
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].outcome, Err(EndpointFailure::Closed), "reads: {reads}");
    }
}

/// It is asked for when its sender is connected again.
#[test]
fn a_message_that_was_set_aside_says_why_its_sender_was_lost() {
    let world = world();
    let (here, there) = (side(&world, 1), side(&world, 2));
    let peer = there.peer(&here);
    // Too long to be kept.
    there.endpoint.send(SendPost::new(peer, vec![1; 1 << 20]).tag(5)).unwrap();
    let matching = Match { tag: 5, ignore: 0 };
    let claim = || here.endpoint.peek(None, Some(matching), Some(9)).unwrap().is_some();
    assert!(world.run(&[&here.nic, &there.nic], LIMIT, claim));
    world.set_behaviour(Behaviour { break_after: Some(1), ..Behaviour::default() });
    there.endpoint.send(SendPost::new(peer, vec![1])).unwrap();
    world.run(&[&here.nic, &there.nic], LIMIT, || false);
    world.set_behaviour(Behaviour::default());
    drop(there);
    world.run(&[&here.nic], LIMIT, || false);
    connect(&world, &here, &side(&world, 2));
    here.endpoint.receive_claimed(9, ReceivePost::new(vec![0; 1 << 20])).unwrap();
    assert!(world.run(&[&here.nic], LIMIT, || here.count() == 1));
    let outcome = here.take().remove(0).outcome;
    let Err(EndpointFailure::Lost(error)) = outcome else { panic!("{outcome:?}") };
    assert!(matches!(error, ConnectionError::Stream(_)), "{error:?}");
}

/// Its callers hear why, one by one; those that it has are served, and when it has descriptors again, so are others.
#[test]
fn callers_of_a_process_without_descriptors_are_told_so() {
    let world = world();
    let (there, first) = (side(&world, 1), side(&world, 2));
    connect(&world, &first, &there);
    let short = Behaviour { delay: Duration::from_micros(10), no_descriptors: true, ..Behaviour::default() };
    world.set_behaviour(short);
    let callers: Vec<_> = (3..13).map(|id| side(&world, id)).collect();
    for caller in &callers {
        caller.endpoint.send(SendPost::new(caller.peer(&there), vec![1])).unwrap();
    }
    let nics: Vec<_> = callers.iter().chain([&there, &first]).map(|side| &side.nic).collect();
    assert!(world.run(&nics, Duration::from_secs(5), || callers.iter().all(|caller| caller.count() == 1)));
    for caller in &callers {
        let failure = caller.take().remove(0).outcome.expect_err("it has no descriptors");
        let EndpointFailure::Unreachable(attempts) = &failure else { panic!("{failure}") };
        assert_eq!(attempts.0[0].failure, AttemptFailure::Exhausted);
        assert!(failure.to_string().contains("`ulimit -n`"), "{failure}");
    }
    assert_eq!(there.take_warnings(), [Warning::NoDescriptors { limit: None }], "said once");
    first.endpoint.send(SendPost::new(first.peer(&there), vec![1])).unwrap();
    there.endpoint.receive(ReceivePost::new(vec![0; 8])).unwrap();
    crate::side::run(&world, [&first, &there], [1, 1]);
    assert!(first.take().iter().chain(&there.take()).all(|event| event.outcome == Ok(())));
    world.set_behaviour(Behaviour { no_descriptors: false, ..short });
    connect(&world, &callers[0], &there);
    assert_eq!(there.take_warnings(), []);
}

/// It is short for a moment only: nobody is refused.
#[test]
fn callers_wait_a_while_for_descriptors() {
    let world = world();
    let (there, caller) = (side(&world, 1), side(&world, 2));
    let short = Behaviour { delay: Duration::from_micros(10), no_descriptors: true, ..Behaviour::default() };
    world.set_behaviour(short);
    caller.endpoint.send(SendPost::new(caller.peer(&there), vec![7; 8])).unwrap();
    world.run(&[&caller.nic, &there.nic], Duration::from_millis(800), || false);
    world.set_behaviour(Behaviour { no_descriptors: false, ..short });
    there.endpoint.receive(ReceivePost::new(vec![0; 8])).unwrap();
    crate::side::run(&world, [&caller, &there], [1, 1]);
    assert!(caller.take().iter().chain(&there.take()).all(|event| event.outcome == Ok(())));
    assert_eq!(there.take_warnings(), []);
}
