//! Callers that come and go, more of them than an endpoint may know at a time.

use core::time::Duration;
use std::collections::HashSet;

use crate::side::{LIMIT, Side};
use weft_base::PeerId;
use weft_nic::{Address, EndpointError, EndpointSettings, Match, ReceivePost, SendPost};
use weft_simulate::{Behaviour, World};

const PEERS: u32 = 8;
const CALLERS: u64 = 100;
const ANY: Option<Match> = Some(Match { tag: 1, ignore: 0 });
const LATER: Option<Match> = Some(Match { tag: 2, ignore: 0 });

fn endpoint() -> (World, Side) {
    let world = World::new(1, Behaviour { delay: Duration::from_micros(10), ..Behaviour::default() });
    let side = Side::with(&world, 1, EndpointSettings { peers: PEERS, ..EndpointSettings::default() });
    (world, side)
}

/// Somebody calls, sends this, and is gone.
fn call(world: &World, here: &Side, id: u64, tags: &[u64]) {
    let caller = Side::with(world, id, EndpointSettings::default());
    let peer = caller.peer(here);
    for tag in tags {
        caller.endpoint.send(SendPost::new(peer, id.to_ne_bytes().to_vec()).tag(*tag)).unwrap();
    }
    assert!(world.run(&[&caller.nic, &here.nic], LIMIT, || caller.count() == tags.len()), "caller {id}");
    assert!(caller.take().iter().all(|event| event.outcome == Ok(())), "caller {id}");
    // What it has sent is there before it ends.
    world.run(&[&caller.nic, &here.nic], Duration::from_millis(1), || false);
    drop(caller);
    world.run(&[&here.nic], Duration::from_secs(10), || false);
}

/// Receives a message, and returns who has sent it.
fn receive(world: &World, here: &Side, matching: Option<Match>, from: u64) -> PeerId {
    let post = ReceivePost::new(vec![0; 8]);
    here.endpoint.receive(ReceivePost { matching, ..post }).unwrap();
    assert!(world.run(&[&here.nic], LIMIT, || here.count() == 1), "the message of {from}");
    let events = here.take();
    assert_eq!((events[0].outcome.clone(), &events[0].buffer.as_ref().unwrap()[..]), (Ok(()), &from.to_ne_bytes()[..]));
    events[0].peer.unwrap()
}

#[test]
fn newcomers_are_let_in_however_many_have_been_there() {
    let (world, here) = endpoint();
    let mut numbers = HashSet::new();
    for id in 2..2 + CALLERS {
        call(&world, &here, id, &[1]);
        let number = receive(&world, &here, ANY, id);
        assert!(numbers.insert(number), "{number:?} is another one's");
        assert!(number.place() < PEERS as usize);
        let address = here.endpoint.peer_address(number).expect("the last is remembered");
        assert_eq!(address.id, id);
    }
    let gone = *numbers.iter().min_by_key(|number| number.0).unwrap();
    assert_eq!(here.endpoint.peer_address(gone), None);
    assert_eq!(here.endpoint.send(SendPost::new(gone, vec![1])), Err(EndpointError::UnknownPeer(gone)));
    assert_eq!(
        here.endpoint.receive(ReceivePost { source: Some(gone), ..ReceivePost::new(vec![0; 8]) }),
        Err(EndpointError::UnknownPeer(gone))
    );
}

#[test]
fn a_caller_that_has_left_something_is_remembered_until_it_is_received() {
    let (world, here) = endpoint();
    call(&world, &here, 2, &[1, 2]);
    let first = receive(&world, &here, ANY, 2);
    for id in 3..3 + CALLERS {
        call(&world, &here, id, &[1]);
        assert_ne!(receive(&world, &here, ANY, id).place(), first.place());
    }
    assert_eq!(receive(&world, &here, LATER, 2), first);
    // Then it goes as the others.
    (200..200 + 3 * u64::from(PEERS)).for_each(|id| {
        call(&world, &here, id, &[1]);
        receive(&world, &here, ANY, id);
    });
    assert_eq!(here.endpoint.peer_address(first), None);
}

#[test]
fn whom_the_application_has_named_or_waits_for_stays() {
    let (world, here) = endpoint();
    call(&world, &here, 2, &[1]);
    let waited_for = receive(&world, &here, ANY, 2);
    here.endpoint.receive(ReceivePost { source: Some(waited_for), ..ReceivePost::new(vec![0; 8]) }).unwrap();
    call(&world, &here, 3, &[1]);
    let named = receive(&world, &here, ANY, 3);
    let address = Address { id: 3, paths: ["10.0.0.1:503".parse().unwrap()].into_iter().collect(), transport: None };
    assert_eq!(here.endpoint.peer(&address), Ok(named), "now it is named");
    for id in 4..4 + CALLERS {
        call(&world, &here, id, &[1]);
        receive(&world, &here, ANY, id);
    }
    for (number, id) in [(named, 3), (waited_for, 2)] {
        assert_eq!(here.endpoint.peer_address(number).map(|address| address.id), Some(id));
    }
    // Nor are they forgotten to make room for those that are named.
    for id in 1000..1000 + u64::from(PEERS) - 3 {
        let address = Address { id, paths: [([10, 0, 0, 1], id as u16).into()].into_iter().collect(), transport: None };
        here.endpoint.peer(&address).unwrap();
    }
    let one_more =
        Address { id: 2000, paths: ["10.0.0.1:2000".parse().unwrap()].into_iter().collect(), transport: None };
    assert!(here.endpoint.peer(&one_more).is_err(), "all are named, or waited for");
}
