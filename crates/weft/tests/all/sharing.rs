//! Queues shared by many: queue pairs on one completion queue, on one shared receive queue, threads on all of them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::common::{ALL, Kind, PATIENCE, each_kind};
use weft::verbs::{
    CompletionKind, CompletionQueue, ConnectOptions, Context, Error, ListenOptions, PostError, Progress,
    ProtectionDomain, QueuePair, QueuePairOptions, SharedReceiveQueue, Status, WorkRequest,
};

/// Connected pairs of queue pairs, active first, which all complete on one queue.
fn connect(
    count: usize,
    kind: Kind,
    context: &Context,
    domain: &ProtectionDomain,
    completions: &CompletionQueue,
    shared: Option<&SharedReceiveQueue>,
) -> Vec<[QueuePair; 2]> {
    let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
    let options = QueuePairOptions { send_depth: 16, receive_depth: 16 };
    let make = |shared| domain.create_queue_pair_with(completions, completions, shared, &options).unwrap();
    let mut pairs = Vec::new();
    for _ in 0..count {
        let [active, passive] = [make(None), make(shared)];
        active.start_connect(listener.local_address(), &ConnectOptions::default()).unwrap();
        listener.accept(PATIENCE).unwrap().accept(&passive, &[]).unwrap();
        active.wait_connected(PATIENCE).unwrap();
        pairs.push([active, passive]);
    }
    pairs
}

#[test]
fn a_hundred_connections_on_one_context() {
    each_kind(|kind| {
        let context = kind.context();
        let domain = context.allocate_protection_domain().unwrap();
        let completions = context.create_completion_queue(4096).unwrap();
        let pairs = connect(100, kind, &context, &domain, &completions, None);
        let inbox = domain.allocate(8 * 100, ALL).unwrap();
        for (at, [_, passive]) in (0u64..).zip(&pairs) {
            passive.post_receive(at, &[inbox.slice(at * 8..at * 8 + 8).unwrap()]).unwrap();
        }
        for (at, [active, _]) in (0u64..).zip(&pairs) {
            active.post(WorkRequest::send_inline(&at.to_ne_bytes()).unwrap().unsignaled()).unwrap();
        }
        let mut heard = HashSet::new();
        while heard.len() < 100 {
            let received = completions.wait(PATIENCE).expect("a message in time");
            assert_eq!((received.status, received.kind), (Status::Success, CompletionKind::Receive));
            assert_eq!(received.queue_pair, pairs[received.id as usize][1].number());
            assert_eq!(inbox.load_u64(received.id * 8, Ordering::Acquire).unwrap(), received.id);
            assert!(heard.insert(received.id));
        }
        assert_eq!(context.counters().connections, 200);
        // One goes, the others stay.
        let mut pairs = pairs;
        drop(pairs.remove(50));
        let [active, passive] = &pairs[98];
        passive.post_receive(1000, &[inbox.slice(0..8).unwrap()]).unwrap();
        active.post(WorkRequest::send_inline(b"still on").unwrap().unsignaled()).unwrap();
        let last = completions.wait_for(|completion| completion.id == 1000, PATIENCE).unwrap();
        assert_eq!(last.queue_pair, passive.number());
    });
}

#[test]
fn queue_pairs_share_receives() {
    each_kind(|kind| {
        let context = kind.context();
        let domain = context.allocate_protection_domain().unwrap();
        let completions = context.create_completion_queue(256).unwrap();
        let shared = domain.create_shared_receive_queue(&completions, 64).unwrap();
        let pairs = connect(4, kind, &context, &domain, &completions, Some(&shared));
        let inbox = domain.allocate(64 * 8, ALL).unwrap();
        let sink = |slot: u64| [inbox.slice(slot * 8..slot * 8 + 8).unwrap()];
        for slot in 0..64 {
            shared.post_receive(slot, &sink(slot)).unwrap();
        }
        assert_eq!(shared.post_receive(64, &sink(0)), Err(PostError::QueueFull { depth: 64 }));
        assert_eq!(pairs[0][1].post_receive(64, &sink(0)), Err(PostError::SharedReceiveQueue));
        let mut expected = [0u64; 4];
        for round in 0..50u64 {
            for (at, [active, _]) in (0u64..).zip(&pairs) {
                let word = (at << 32 | round).to_ne_bytes();
                active.post(WorkRequest::send_inline(&word).unwrap().unsignaled()).unwrap();
            }
            for _ in 0..4 {
                let received = completions.wait(PATIENCE).expect("a message in time");
                assert_eq!(received.status, Status::Success);
                let word = inbox.load_u64(received.id * 8, Ordering::Acquire).unwrap();
                let (from, number) = ((word >> 32) as usize, word as u32);
                assert_eq!(received.queue_pair, pairs[from][1].number());
                assert_eq!(u64::from(number), expected[from]);
                expected[from] += 1;
                shared.post_receive(received.id, &sink(received.id)).unwrap();
            }
        }
        // The end of one queue pair leaves the receives to the others.
        assert_eq!(shared.len(), 64);
        drop(pairs);
        assert_eq!(shared.len(), 64);
        assert!(completions.poll().is_none());
    });
}

#[test]
fn a_shared_queue_belongs_to_its_domain() {
    let context = Context::open().unwrap();
    let [domain, other] = [(), ()].map(|()| context.allocate_protection_domain().unwrap());
    let completions = context.create_completion_queue(8).unwrap();
    let shared = domain.create_shared_receive_queue(&completions, 4).unwrap();
    let options = QueuePairOptions::default();
    let made = |domain: &ProtectionDomain| {
        domain.create_queue_pair_with(&completions, &completions, Some(&shared), &options).map(drop)
    };
    assert_eq!(made(&other), Err(Error::DomainMismatch));
    assert_eq!(made(&domain), Ok(()));
}

/// A connection whose passive end takes from a shared queue and receives on a completion queue of its own.
fn on_a_queue_of_its_own(
    kind: Kind,
    context: &Context,
    shared: &SharedReceiveQueue,
    sends: &CompletionQueue,
    receives: &CompletionQueue,
) -> [QueuePair; 2] {
    let domain = shared.domain();
    let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
    let options = QueuePairOptions { send_depth: 16, receive_depth: 16 };
    let active = domain.create_queue_pair(sends, &options).unwrap();
    let passive = domain.create_queue_pair_with(sends, receives, Some(shared), &options).unwrap();
    active.start_connect(listener.local_address(), &ConnectOptions::default()).unwrap();
    listener.accept(PATIENCE).unwrap().accept(&passive, &[]).unwrap();
    active.wait_connected(PATIENCE).unwrap();
    [active, passive]
}

#[test]
fn queue_pairs_on_one_shared_queue_have_their_own_completion_queues() {
    each_kind(|kind| {
        let context = kind.context();
        let domain = context.allocate_protection_domain().unwrap();
        let make = |capacity| context.create_completion_queue(capacity).unwrap();
        let (sends, of_shared, own) = (make(64), make(4), [make(2), make(2)]);
        let shared = domain.create_shared_receive_queue(&of_shared, 4).unwrap();
        let pairs = own.each_ref().map(|own| on_a_queue_of_its_own(kind, &context, &shared, &sends, own));
        (0..4).for_each(|id| shared.post_receive(id, &[]).unwrap());
        // Its places are taken, and move to where the receives complete.
        assert_eq!(shared.post_receive(4, &[]), Err(PostError::QueueFull { depth: 4 }));
        for id in 0..200 {
            let at = id as usize % 3 % 2;
            pairs[at][0].post(WorkRequest::send_inline(&[]).unwrap().unsignaled()).unwrap();
            let received = own[at].wait(PATIENCE).expect("a message in time");
            assert_eq!((received.id, received.queue_pair), (id, pairs[at][1].number()));
            assert!(of_shared.is_empty() && own[1 - at].is_empty());
            shared.post_receive(id + 4, &[]).unwrap();
        }
        assert_eq!(shared.close(), [200, 201, 202, 203]);
        // All places are free again.
        let again = domain.create_shared_receive_queue(&of_shared, 4).unwrap();
        (0..4).for_each(|id| again.post_receive(id, &[]).unwrap());
    });
}

/// Where the queue has no room, it is as if no receive were posted: over iWARP that ends the connection, and nothing is
/// lost of what was there.
#[test]
fn a_receive_from_a_shared_queue_finds_no_room_in_a_full_completion_queue() {
    let kind = Kind::plain(Progress::Hybrid);
    let context = kind.context();
    let domain = context.allocate_protection_domain().unwrap();
    let make = |capacity| context.create_completion_queue(capacity).unwrap();
    let (sends, of_shared, own) = (make(64), make(8), make(2));
    let shared = domain.create_shared_receive_queue(&of_shared, 8).unwrap();
    let [active, passive] = on_a_queue_of_its_own(kind, &context, &shared, &sends, &own);
    (0..5).for_each(|id| shared.post_receive(id, &[]).unwrap());
    for _ in 0..3 {
        active.post(WorkRequest::send_inline(&[]).unwrap().unsignaled()).unwrap();
    }
    assert!(context.wait_until(PATIENCE, || passive.state().has_ended()));
    let ids = [own.poll(), own.poll(), own.poll()].map(|completion| completion.map(|completion| completion.id));
    assert_eq!(ids, [Some(0), Some(1), None]);
    assert_eq!(shared.len(), 3);
}

#[test]
fn sends_that_are_not_signaled_take_no_place_and_are_told_when_they_fail() {
    each_kind(|kind| {
        let context = kind.context();
        let domain = context.allocate_protection_domain().unwrap();
        let [small, large] = [1, 64].map(|capacity| context.create_completion_queue(capacity).unwrap());
        let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
        let options = QueuePairOptions { send_depth: 16, receive_depth: 16 };
        let active = domain.create_queue_pair(&small, &options).unwrap();
        let passive = domain.create_queue_pair(&large, &options).unwrap();
        active.start_connect(listener.local_address(), &ConnectOptions::default()).unwrap();
        listener.accept(PATIENCE).unwrap().accept(&passive, &[]).unwrap();
        active.wait_connected(PATIENCE).unwrap();
        let (window, sink) = (domain.allocate(8, ALL).unwrap(), domain.allocate(8, ALL).unwrap());
        let write = |id| WorkRequest::write_inline(b"12345678", window.remote(0)).unwrap().id(id);
        for round in 0..10 {
            active.post_list((0..15).map(|id| write(id).unsignaled()).chain([write(100 + round)])).unwrap();
            assert_eq!(small.wait(PATIENCE).map(|completion| completion.id), Some(100 + round));
        }
        // Reads of memory that is not there: the first one fails, the others are flushed, and each gets a completion.
        let gone = domain.allocate(8, ALL).unwrap();
        let remote = gone.remote(0);
        drop(gone);
        let read = |id| WorkRequest::read(sink.slice(..).unwrap(), remote).id(id).unsignaled();
        active.post_list((0..8).map(read)).unwrap();
        for id in 0..8 {
            let failed = small.wait(PATIENCE).expect("a completion in time");
            assert!(failed.id == id && failed.status != Status::Success, "{failed:?}");
        }
        assert!(small.is_empty());
    });
}

#[test]
fn threads_post_on_queue_pairs_of_their_own_and_poll_one_completion_queue() {
    const THREADS: u64 = 4;
    const WRITES: u64 = 2000;
    each_kind(|kind| {
        let context = kind.context();
        let domain = context.allocate_protection_domain().unwrap();
        let completions = context.create_completion_queue(1024).unwrap();
        let pairs = connect(THREADS as usize, kind, &context, &domain, &completions, None);
        let windows = domain.allocate(THREADS as usize * 8, ALL).unwrap();
        let (polled, sum) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for (at, [active, _]) in (0u64..).zip(&pairs) {
                let (completions, windows, polled, sum) = (&completions, &windows, &polled, &sum);
                scope.spawn(move || {
                    let target = windows.remote(at * 8);
                    let mut posted = 0;
                    // A thread that polls may get any thread's completion, so all poll until all have come.
                    while polled.load(Ordering::Acquire) < THREADS * WRITES {
                        if posted < WRITES {
                            let word = (posted + 1).to_ne_bytes();
                            match active.post(WorkRequest::write_inline(&word, target).unwrap().id(posted)) {
                                Ok(()) => posted += 1,
                                Err(PostError::QueueFull { depth: 16 }) => {}
                                Err(error) => panic!("{error}"),
                            }
                        }
                        if let Some(completion) = completions.poll() {
                            assert_eq!(completion.status, Status::Success);
                            sum.fetch_add(completion.id, Ordering::AcqRel);
                            polled.fetch_add(1, Ordering::AcqRel);
                        } else {
                            thread::yield_now();
                        }
                    }
                    assert_eq!(posted, WRITES);
                });
            }
        });
        assert_eq!(sum.into_inner(), THREADS * (WRITES - 1) * WRITES / 2, "each once");
        for (at, [active, passive]) in (0u64..).zip(&pairs) {
            // What was written before a message has arrived before it.
            passive.post_receive(at, &[]).unwrap();
            active.post(WorkRequest::send_inline(&[]).unwrap().unsignaled()).unwrap();
            completions.wait_for(|completion| completion.id == at, PATIENCE).unwrap();
            assert_eq!(windows.load_u64(at * 8, Ordering::Acquire).unwrap(), WRITES);
        }
    });
}

#[test]
fn a_waiting_thread_is_served_by_one_that_polls() {
    let kind = Kind::plain(Progress::Caller);
    let context = kind.context();
    let domain = context.allocate_protection_domain().unwrap();
    let [sends, receives] = [(), ()].map(|()| context.create_completion_queue(128).unwrap());
    let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
    let options = QueuePairOptions::default();
    let active = domain.create_queue_pair(&sends, &options).unwrap();
    let passive = domain.create_queue_pair(&receives, &options).unwrap();
    active.start_connect(listener.local_address(), &ConnectOptions::default()).unwrap();
    listener.accept(PATIENCE).unwrap().accept(&passive, &[]).unwrap();
    active.wait_connected(PATIENCE).unwrap();
    for id in 0..100 {
        passive.post_receive(id, &[]).unwrap();
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            for id in 0..100 {
                assert_eq!(receives.wait(PATIENCE).expect("a message in time").id, id);
            }
        });
        for id in 0..100 {
            active.post(WorkRequest::send_inline(&[]).unwrap().id(id)).unwrap();
            assert_eq!(sends.wait(PATIENCE).expect("a completion in time").id, id);
        }
    });
}
