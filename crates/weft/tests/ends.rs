//! What goes wrong: requests that are refused, peers that vanish, memory that goes away under work.

mod common;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use common::{ALL, Kind, PATIENCE, Pair, each_kind, pattern};
use weft::verbs::{
    Access, ConnectOptions, ConnectionError, Context, ListenOptions, MAX_GATHER, MAX_INLINE, MemoryError, PostError,
    PostFailure, Progress, QueuePairOptions, Settings, State, Status, StreamError, WorkRequest,
};

/// Takes completions of `end` until there are `count`; each id must come once.
fn ids(end: &common::End, count: usize) -> BTreeSet<(u64, bool)> {
    let mut seen = BTreeSet::new();
    for _ in 0..count {
        let completion = end.next();
        assert!(seen.insert((completion.id, completion.status == Status::Success)), "twice: {completion:?}");
    }
    assert!(end.completions.poll().is_none(), "no more than that");
    seen
}

#[test]
fn the_end_of_the_peer_flushes_each_request_once() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        let (inbox, window) = (pair.empty(100), pair.filled(100));
        for id in 0..50 {
            pair.active.queue_pair.post_receive(id, &[inbox.slice(..).unwrap()]).unwrap();
        }
        let Pair { context, domain, active, passive } = pair;
        drop(passive.queue_pair);
        let mut posted = 50;
        loop {
            let request = WorkRequest::read(inbox.slice(..).unwrap(), window.remote(0)).id(posted);
            match active.queue_pair.post(request) {
                Ok(()) => posted += 1,
                Err(PostError::Ended) => break,
                Err(PostError::QueueFull { .. }) => {
                    context.progress();
                }
                Err(error) => panic!("{error}"),
            }
        }
        let seen = ids(&active, posted as usize);
        assert_eq!(seen, (0..posted).map(|id| (id, false)).collect());
        assert_eq!(active.queue_pair.state(), State::Failed);
        assert!(matches!(active.queue_pair.error(), Some(ConnectionError::Stream(StreamError::Lost(_)))));
        assert_eq!(active.queue_pair.sends_under_way(), 0);
        assert_eq!(active.queue_pair.post_receive(0, &[]), Err(PostError::Ended));
        // Nothing holds the memory any more.
        inbox.deregister().map_err(|(_, error)| error).unwrap();
        drop(domain);
    });
}

#[test]
fn a_queue_pair_that_is_dropped_flushes_its_own_requests_once() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        let (inbox, window) = (pair.empty(100), pair.filled(100));
        for id in 0..20 {
            pair.active.queue_pair.post_receive(id, &[inbox.slice(..).unwrap()]).unwrap();
        }
        let reads = (20..40).map(|id| WorkRequest::read(inbox.slice(..).unwrap(), window.remote(0)).id(id));
        pair.active.queue_pair.post_list(reads).unwrap();
        let Pair { context: _context, domain: _domain, active, passive } = pair;
        let common::End { queue_pair, completions } = active;
        drop(queue_pair);
        let mut seen = BTreeSet::new();
        while let Some(completion) = completions.poll() {
            assert!(seen.insert(completion.id), "twice: {completion:?}");
            assert!(completion.id >= 20 || completion.status == Status::Flushed);
        }
        assert_eq!(seen, (0..40).collect());
        inbox.deregister().map_err(|(_, error)| error).unwrap();
        // The other side is notified of it, too.
        assert!(passive.queue_pair.disconnect(PATIENCE).is_err() || passive.queue_pair.state().has_ended());
    });
}

/// The part of the test below that is another process: connects, sends one message, and waits to be killed.
#[test]
fn the_peer_process() {
    let Ok(address) = std::env::var("WEFT_TEST_CONNECT_TO") else { return };
    let address: SocketAddr = address.parse().unwrap();
    // No thread runs it while it waits for its end: else it would read what comes, for want of a receive.
    let context = Context::with_settings(Settings { progress: Progress::Caller, ..Settings::default() }).unwrap();
    let domain = context.allocate_protection_domain().unwrap();
    let completions = context.create_completion_queue(64).unwrap();
    let queue_pair = domain.create_queue_pair(&completions, &QueuePairOptions::default()).unwrap();
    queue_pair.connect(address, &ConnectOptions { timeout: PATIENCE, ..ConnectOptions::default() }).unwrap();
    queue_pair.post(WorkRequest::send_inline(b"here").unwrap()).unwrap();
    completions.wait(PATIENCE).expect("a completion in time");
    println!("sent");
    std::io::stdout().flush().unwrap();
    let mut line = String::new();
    let _ = std::io::stdin().lock().read_line(&mut line);
}

#[test]
fn a_process_that_is_killed_flushes_each_request_of_its_peer_once() {
    each_kind(|kind| {
        let context = kind.context();
        let domain = context.allocate_protection_domain().unwrap();
        let end = common::End::new(&context, &domain, &QueuePairOptions::default());
        let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_peer_process", "--nocapture"])
            .env("WEFT_TEST_CONNECT_TO", listener.local_address().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let inbox = domain.allocate(8, ALL).unwrap();
        for id in 0..10 {
            end.queue_pair.post_receive(id, &[inbox.slice(..).unwrap()]).unwrap();
        }
        listener.accept(PATIENCE).unwrap().accept(&end.queue_pair, &[]).unwrap();
        end.done(0);
        let said = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok)
            .any(|line| line.contains("sent"));
        assert!(said);
        // 8 MB do not fit into what TCP buffers, so some of these are in flight when the peer dies.
        let bulk = domain.register(pattern(8 << 20), ALL).unwrap();
        let writes = (100..140).map(|id| WorkRequest::send(bulk.slice(..).unwrap()).id(id));
        end.queue_pair.post_list(writes).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let seen = ids(&end, 9 + 40);
        let expected: BTreeSet<u64> = (1..10).chain(100..140).collect();
        assert_eq!(seen.iter().map(|(id, _)| *id).collect::<BTreeSet<_>>(), expected);
        assert!(seen.contains(&(139, false)), "the last one can't have gone out");
        assert!(matches!(end.queue_pair.error(), Some(ConnectionError::Stream(_))), "{:?}", end.queue_pair.error());
        bulk.deregister().map_err(|(_, error)| error).unwrap();
    });
}

#[test]
fn a_full_queue_says_so_and_loses_nothing() {
    each_kind(|kind| {
        let context = kind.context();
        let domain = context.allocate_protection_domain().unwrap();
        let options = QueuePairOptions { send_depth: 4, receive_depth: 3 };
        let (a, b) = (common::End::new(&context, &domain, &options), common::End::new(&context, &domain, &options));
        for id in 0..3 {
            a.queue_pair.post_receive(id, &[]).unwrap();
        }
        assert_eq!(a.queue_pair.post_receive(3, &[]), Err(PostError::QueueFull { depth: 3 }));
        let write = || WorkRequest::send_inline(&[]).unwrap();
        assert_eq!(b.queue_pair.post(write()), Err(PostError::NotReady(State::Idle)));
        let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
        b.queue_pair.start_connect(listener.local_address(), &ConnectOptions::default()).unwrap();
        assert_eq!(b.queue_pair.post(write()), Err(PostError::NotReady(State::Connecting)));
        listener.accept(PATIENCE).unwrap().accept(&a.queue_pair, &[]).unwrap();
        b.queue_pair.wait_connected(PATIENCE).unwrap();
        // Reads of what the passive side answers only when the NIC is run: here no thread runs it between the requests
        // of a list.
        let (sink, source) = (domain.allocate(8, ALL).unwrap(), domain.allocate(8, ALL).unwrap());
        let reads = (10..16).map(|id| WorkRequest::read(sink.slice(..).unwrap(), source.remote(0)).id(id));
        let failure = b.queue_pair.post_list(reads).unwrap_err();
        assert_eq!(failure, PostFailure { posted: 4, error: PostError::QueueFull { depth: 4 } });
        for id in 10..14 {
            b.done(id);
        }
        b.queue_pair.post(WorkRequest::read(sink.slice(..).unwrap(), source.remote(0)).id(14)).unwrap();
        b.done(14);
    });
}

#[test]
fn a_full_completion_queue_says_so() {
    each_kind(|kind| {
        let context = kind.context();
        let domain = context.allocate_protection_domain().unwrap();
        let small = context.create_completion_queue(2).unwrap();
        let large = context.create_completion_queue(64).unwrap();
        let options = QueuePairOptions::default();
        let active = domain.create_queue_pair(&small, &options).unwrap();
        let passive = domain.create_queue_pair(&large, &options).unwrap();
        let listener = context.listen(kind.any(), &ListenOptions::default()).unwrap();
        active.start_connect(listener.local_address(), &ConnectOptions::default()).unwrap();
        listener.accept(PATIENCE).unwrap().accept(&passive, &[]).unwrap();
        active.wait_connected(PATIENCE).unwrap();
        let window = domain.allocate(8, ALL).unwrap();
        let write = |id| WorkRequest::write_inline(b"12345678", window.remote(0)).unwrap().id(id);
        active.post_list([write(1), write(2)]).unwrap();
        // Whether they have completed or not, their places are taken until they are polled.
        assert_eq!(active.post(write(3)), Err(PostError::CompletionQueueFull { capacity: 2 }));
        assert_eq!(active.post_receive(4, &[]), Err(PostError::CompletionQueueFull { capacity: 2 }));
        assert_eq!(small.wait(PATIENCE).map(|completion| completion.id), Some(1));
        active.post(write(3)).unwrap();
        assert_eq!(small.wait(PATIENCE).map(|completion| completion.id), Some(2));
        assert_eq!(small.wait(PATIENCE).map(|completion| completion.id), Some(3));
    });
}

#[test]
fn requests_that_are_wrong_are_refused_by_name() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        let other = pair.context.allocate_protection_domain().unwrap();
        let foreign = other.allocate(8, ALL).unwrap();
        let constant = pair.domain.register(pattern(8), Access::LOCAL_READ).unwrap();
        let (good, gone) = (pair.empty(64), pair.empty(8));
        let stale = gone.slice(..).unwrap();
        drop(gone);
        let queue_pair = &pair.active.queue_pair;
        let memory = |result: Result<(), PostError>| match result {
            Err(PostError::Memory(error)) => error,
            other => panic!("{other:?}"),
        };

        let wrong_domain = memory(queue_pair.post(WorkRequest::send(foreign.slice(..).unwrap())));
        assert!(matches!(wrong_domain, MemoryError::WrongDomain { .. }), "{wrong_domain:?}");
        let wrong_domain = memory(queue_pair.post_receive(1, &[foreign.slice(..).unwrap()]));
        assert!(matches!(wrong_domain, MemoryError::WrongDomain { .. }), "{wrong_domain:?}");
        let right = memory(queue_pair.post_receive(1, &[constant.slice(..).unwrap()]));
        assert!(matches!(right, MemoryError::NotPermitted { .. }), "{right:?}");
        let right = memory(queue_pair.post(WorkRequest::read(constant.slice(..).unwrap(), good.remote(0))));
        assert!(matches!(right, MemoryError::NotPermitted { .. }), "{right:?}");
        let gone = memory(queue_pair.post(WorkRequest::send(stale)));
        assert!(matches!(gone, MemoryError::Gone(_)), "{gone:?}");
        assert!(matches!(good.slice(60..65), Err(MemoryError::OutOfBounds { .. })));

        let long = [0; MAX_INLINE + 1];
        let refused = WorkRequest::send_inline(&long).map(drop);
        assert_eq!(refused, Err(PostError::InlineTooLong { length: MAX_INLINE + 1, most: MAX_INLINE }));
        let slices = [good.slice(0..1).unwrap(); MAX_GATHER + 1];
        assert_eq!(WorkRequest::send_gather(&slices).map(drop), Err(PostError::TooLong));
        assert_eq!(queue_pair.post_receive(1, &slices), Err(PostError::TooLong));
        let four = good.slice(0..4).unwrap();
        let atomic = queue_pair.post(WorkRequest::fetch_add(four, good.remote(0), 1));
        assert_eq!(atomic, Err(PostError::AtomicSink { length: 4 }));
        let wrapping = queue_pair.post(WorkRequest::write(four, good.remote(0).at(u64::MAX - 1)));
        assert_eq!(wrapping, Err(PostError::OffsetWraps { offset: u64::MAX - 1, length: 4 }));

        // Nothing of all that is left over: the queue pair works, and nothing completes.
        assert_eq!(queue_pair.sends_under_way(), 0);
        assert!(pair.active.completions.poll().is_none());
        queue_pair.post(WorkRequest::write(four, good.remote(8)).id(9)).unwrap();
        pair.active.done(9);
    });
}

#[test]
fn what_was_not_agreed_is_refused() {
    each_kind(|kind| {
        let mut connect = ConnectOptions::default();
        connect.offer.ord = 0;
        connect.offer.mpa.extensions.atomics_and_immediates = false;
        let pair = Pair::with(kind.context(), kind, &connect, &ListenOptions::default());
        let memory = pair.empty(8);
        let slice = memory.slice(..).unwrap();
        let queue_pair = &pair.active.queue_pair;
        assert_eq!(queue_pair.post(WorkRequest::immediate(1)), Err(PostError::NotAgreed));
        assert_eq!(queue_pair.post(WorkRequest::swap(slice, memory.remote(0), 1)), Err(PostError::NotAgreed));
        assert_eq!(queue_pair.post(WorkRequest::read(slice, memory.remote(0))), Err(PostError::NoReads));
        queue_pair.post(WorkRequest::write(slice, memory.remote(0)).id(1)).unwrap();
        pair.active.done(1);
    });
}

#[test]
fn a_message_that_is_too_long_ends_the_stream_on_both_sides() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        let (inbox, from) = (pair.empty(10), pair.filled(11));
        pair.passive.queue_pair.post_receive(1, &[inbox.slice(..).unwrap()]).unwrap();
        pair.passive.queue_pair.post_receive(2, &[inbox.slice(..).unwrap()]).unwrap();
        pair.active.queue_pair.post(WorkRequest::send(from.slice(..).unwrap()).unsignaled()).unwrap();
        let (first, second) = (pair.passive.next(), pair.passive.next());
        assert_eq!((first.id, first.status), (1, Status::LocalLength));
        assert_eq!((second.id, second.status), (2, Status::Flushed));
        pair.wait_for_end();
        assert_eq!(inbox.to_vec(), [0; 10], "not a byte was placed");
        let error = pair.active.queue_pair.error();
        assert!(matches!(error, Some(ConnectionError::Stream(StreamError::Peer(_)))), "{error:?}");
    });
}

#[test]
fn a_message_without_a_receive_ends_the_stream_on_both_sides() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        pair.active.queue_pair.post(WorkRequest::send_inline(b"hello?").unwrap().unsignaled()).unwrap();
        pair.wait_for_end();
        let (active, passive) = (pair.active.queue_pair.error(), pair.passive.queue_pair.error());
        assert!(matches!(active, Some(ConnectionError::Stream(StreamError::Peer(_)))), "{active:?}");
        assert!(matches!(passive, Some(ConnectionError::Stream(StreamError::Violation(_)))), "{passive:?}");
        let refused = pair.active.queue_pair.post(WorkRequest::immediate(0)).unwrap_err();
        assert_eq!(refused, PostError::Ended);
        for words in [refused.to_string(), Status::Flushed.to_string()] {
            assert!(words.contains("`error()` tells why"), "it leads to the cause: {words}");
        }
    });
}

#[test]
fn memory_in_use_is_not_given_back() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        let inbox = pair.empty(8);
        pair.passive.queue_pair.post_receive(1, &[inbox.slice(..).unwrap()]).unwrap();
        let (inbox, error) = inbox.deregister().unwrap_err();
        assert_eq!(error, MemoryError::InFlight { pins: 1 });
        pair.active.queue_pair.post(WorkRequest::send_inline(b"now then").unwrap().unsignaled()).unwrap();
        pair.passive.done(1);
        assert_eq!(inbox.to_vec(), b"now then");
        let buffer = inbox.deregister().map_err(|(_, error)| error).unwrap();
        drop(buffer);
    });
}

#[test]
fn a_region_that_is_dropped_in_flight_stays_until_its_work_is_done() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        const LENGTH: usize = 16 << 20;
        let to = pair.empty(LENGTH);
        pair.passive.queue_pair.post_receive(1, &[to.slice(..).unwrap()]).unwrap();
        let from = pair.filled(LENGTH);
        pair.active.queue_pair.post(WorkRequest::send(from.slice(..).unwrap()).id(2)).unwrap();
        drop(from);
        pair.active.done(2);
        pair.passive.done(1);
        assert!(to.to_vec() == pattern(LENGTH));
    });
}

#[test]
fn a_window_that_is_dropped_while_it_is_written_ends_the_stream() {
    each_kind(|kind| {
        let pair = Pair::new(kind);
        let (from, window) = (pair.filled(1 << 20), pair.empty(1 << 20));
        let target = window.remote(0);
        let mut window = Some(window);
        for id in 0.. {
            match pair.active.queue_pair.post(WorkRequest::write(from.slice(..).unwrap(), target).id(id)) {
                Ok(()) => {}
                Err(PostError::Ended) => break,
                Err(error) => panic!("{error}"),
            }
            if id == 3 {
                drop(window.take());
            }
            pair.active.next();
        }
        pair.wait_for_end();
        let error = pair.passive.queue_pair.error();
        assert!(matches!(error, Some(ConnectionError::Stream(StreamError::Violation(_)))), "{error:?}");
    });
}

#[test]
fn a_context_outlives_its_handle_and_closes_with_the_last_of_its_parts() {
    for progress in [Progress::Caller, Progress::Hybrid, Progress::Thread] {
        let kind = Kind::plain(progress);
        let Pair { context, domain, active, passive } = Pair::new(kind);
        drop((context, domain));
        passive.queue_pair.post_receive(1, &[]).unwrap();
        active.queue_pair.post(WorkRequest::send_inline(&[]).unwrap().id(2)).unwrap();
        active.done(2);
        passive.done(1);
        drop((active, passive));
    }
}
