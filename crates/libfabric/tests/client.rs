//! Two endpoints of a real provider talk to each other, when libfabric is installed.

use std::time::Instant;

use weft_libfabric::{Completion, Endpoint, Error, Fabric, Library, Local, Operation, PeerAddress, Posted, Slots};
use weft_testing::PATIENCE;

const TAG: u64 = 0x77;

fn installed() -> bool {
    match Library::load() {
        Ok(_) => true,
        Err(reason) => {
            println!("skipped: {reason}");
            false
        }
    }
}

fn endpoint(slots: usize, bytes: usize) -> Endpoint {
    Fabric::open("tcp", Local::At("127.0.0.1")).unwrap().endpoint(Slots::new(slots, bytes)).unwrap()
}

/// Two endpoints that know each other.
fn pair(slots: usize, bytes: usize) -> [(Endpoint, PeerAddress); 2] {
    let (mut a, mut b) = (endpoint(slots, bytes), endpoint(slots, bytes));
    let to_b = a.insert(&b.address().unwrap()).unwrap();
    let to_a = b.insert(&a.address().unwrap()).unwrap();
    [(a, to_b), (b, to_a)]
}

/// Posts until the provider takes it, while both sides make progress.
fn post(mut operation: impl FnMut() -> Result<Posted, Error>, mut progress: impl FnMut()) {
    let start = Instant::now();
    while operation().unwrap() == Posted::TryAgain {
        progress();
        assert!(start.elapsed() < PATIENCE, "the provider takes no operation");
    }
}

/// Polls both until `wanted` operations are done on each; gives what was done on the second.
fn finish(a: &mut Endpoint, b: &mut Endpoint, wanted: [usize; 2]) -> Vec<Completion> {
    let mut done = [0; 2];
    let mut completions = Vec::new();
    let start = Instant::now();
    while done[0] < wanted[0] || done[1] < wanted[1] {
        done[0] += a.poll(|_| {}).unwrap();
        done[1] += b.poll(|completion| completions.push(completion)).unwrap();
        assert!(start.elapsed() < PATIENCE, "{done:?} of {wanted:?} operations are done");
    }
    completions
}

#[test]
fn a_message_arrives_with_its_tag() {
    if !installed() {
        return;
    }
    for length in [0, 8, 100_000] {
        let [(mut a, to_b), (mut b, to_a)] = pair(2, 100_000);
        assert_eq!(b.receive(to_a, 1, length, TAG).unwrap(), Posted::Accepted);
        assert_eq!(b.slots().bytes(1), Err(Error::SlotBusy { slot: 1 }), "the provider owns it");
        a.bytes_mut(0).unwrap().fill(0x5c);
        post(
            || a.send(to_b, 0, length, TAG),
            || {
                b.poll(|_| {}).unwrap();
            },
        );
        let completions = finish(&mut a, &mut b, [1, 1]);
        assert_eq!(completions, [Completion { slot: 1, operation: Operation::Receive, length, tag: TAG }]);
        assert!(b.slots().bytes(1).unwrap()[..length].iter().all(|byte| *byte == 0x5c));
    }
}

#[test]
fn a_small_message_is_injected() {
    if !installed() {
        return;
    }
    let [(mut a, to_b), (mut b, to_a)] = pair(1, 64);
    assert!(a.fabric().inject_limit() >= 8);
    assert_eq!(b.receive(to_a, 0, 64, TAG).unwrap(), Posted::Accepted);
    let start = Instant::now();
    while a.inject(to_b, b"injected", TAG).unwrap() == Posted::TryAgain {
        a.poll(|_| {}).unwrap();
        b.poll(|_| {}).unwrap();
        assert!(start.elapsed() < PATIENCE, "the provider takes no message");
    }
    let completions = finish(&mut a, &mut b, [0, 1]);
    assert_eq!(completions[0].length, 8);
    assert_eq!(&b.slots().bytes(0).unwrap()[..8], b"injected");
    let long = vec![0; a.fabric().inject_limit() + 1];
    assert_eq!(a.inject(to_b, &long, TAG), Err(Error::TooLong { length: long.len(), limit: long.len() - 1 }));
}

#[test]
fn a_message_too_long_for_its_buffer_is_an_error() {
    if !installed() {
        return;
    }
    let [(mut a, to_b), (mut b, to_a)] = pair(1, 64);
    assert_eq!(b.receive(to_a, 0, 8, TAG).unwrap(), Posted::Accepted);
    let start = Instant::now();
    while a.send(to_b, 0, 64, TAG).unwrap() == Posted::TryAgain {
        a.poll(|_| {}).unwrap();
        b.poll(|_| {}).unwrap();
        assert!(start.elapsed() < PATIENCE, "the provider takes no message");
    }
    let error = loop {
        let _ = a.poll(|_| {});
        match b.poll(|completion| panic!("{completion:?}")) {
            Ok(_) => assert!(start.elapsed() < PATIENCE, "no error came"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Completion { slot: Some(0), .. }), "{error}");
    assert!(b.slots().bytes(0).is_ok(), "the slot is idle again");
}

#[test]
fn an_unknown_provider_is_an_error() {
    if !installed() {
        return;
    }
    let error = Fabric::open("no-such-provider", Local::At("127.0.0.1")).unwrap_err();
    assert!(matches!(error, Error::Call { call: "fi_getinfo", .. }), "{error}");
    assert!(error.to_string().contains("fi_getinfo failed"), "{error}");
    assert!(matches!(Fabric::open("a\0b", Local::At("127.0.0.1")), Err(Error::BadName { .. })));
}

#[test]
fn providers_are_listed() {
    if !installed() {
        return;
    }
    let library = Library::load().unwrap();
    assert!(library.version() >= (1, 17));
    assert!(library.providers().unwrap().iter().any(|provider| provider.name.starts_with("tcp")));
}
