//! Waiting for ports: interest, wakers, wait sets.

use super::*;

#[test]
fn interest_is_for_one_report() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    assert!(bench.poll().is_empty());
    active.send(&[Piece::Bytes(b"x")]).unwrap();
    assert!(bench.poll().is_empty(), "not armed");

    bench.network.arm_port(&mut passive, Token(5), READ).unwrap();
    let readable = Readiness { token: Token(5), readable: true, writable: false };
    assert_eq!(bench.wait(), [readable]);
    assert!(bench.poll().is_empty(), "reported once");

    bench.network.arm_port(&mut passive, Token(5), READ).unwrap();
    bench.network.arm_port(&mut passive, Token(6), Interest { readable: true, writable: true, least: 1 }).unwrap();
    assert_eq!(bench.wait(), [Readiness { token: Token(6), readable: true, writable: true }], "the later one counts");

    bench.network.arm_port(&mut passive, Token(5), READ).unwrap();
    bench.network.arm_port(&mut passive, Token(5), NOTHING).unwrap();
    bench.network.arm_port(&mut passive, Token(5), NOTHING).unwrap();
    drop(active);
    assert!(bench.poll().is_empty(), "disarmed, even for the end");

    let mut listener = bench.listen("127.0.0.1:0");
    bench.network.arm_listener(&listener, Token(7)).unwrap();
    let _active = bench.network.connect(listener.local_address(), PortOptions::default()).unwrap();
    assert_eq!(bench.wait(), [Readiness { token: Token(7), readable: true, writable: false }]);
    assert!(bench.poll().is_empty());
    assert!(listener.accept().unwrap().is_some());
}

#[test]
fn few_bytes_do_not_wake_a_wait_for_many_unless_they_are_the_last() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    let arm = |bench: &mut Bench, passive: &mut TcpPort, least| {
        bench.network.arm_port(passive, Token(5), Interest { least, ..READ }).unwrap();
    };
    let send =
        |active: &mut TcpPort, count: usize| assert_eq!(active.send(&[Piece::Bytes(&[7; 100][..count])]), Ok(count));
    arm(&mut bench, &mut passive, 100);
    send(&mut active, 99);
    assert!(bench.poll().is_empty(), "one is missing");
    send(&mut active, 1);
    assert_eq!(bench.wait().len(), 1);
    bench.receive_exactly(&mut passive, 100);

    arm(&mut bench, &mut passive, 100);
    send(&mut active, 1);
    assert!(bench.poll().is_empty());
    arm(&mut bench, &mut passive, 1);
    assert_eq!(bench.wait().len(), 1, "arming again makes do with less");
    arm(&mut bench, &mut passive, 2);
    assert!(bench.poll().is_empty(), "and asks for more");
    drop(active);
    assert_eq!(bench.wait().len(), 1, "no more can come");
    assert_eq!(bench.receive_exactly(&mut passive, 1), [7]);
}

#[test]
fn a_full_buffer_wakes_a_wait_for_more() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    bench.network.arm_port(&mut passive, Token(5), Interest { least: u32::MAX, ..READ }).unwrap();
    let (chunk, told) = (vec![7; 1 << 20], AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !told.load(Ordering::Acquire) {
                active.send(&[Piece::Bytes(&chunk)]).unwrap();
            }
        });
        let ready = bench.wait();
        told.store(true, Ordering::Release);
        assert_eq!(ready.len(), 1);
    });
}

#[test]
fn a_waker_ends_a_wait() {
    let mut bench = Bench::new();
    let waker = bench.network.waker();
    waker.wake();
    waker.wake();
    let mut ready = Vec::new();
    bench.network.wait(None, &mut ready).unwrap();
    // Both were one: a poll finds nothing, and the descriptor is not readable.
    assert!(!is_readable(bench.network.poll_fd()));
    thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| waker.wake()).join().unwrap();
            bench.network.wait(None, &mut ready).unwrap();
        }
        scope.spawn(|| waker.wake());
        bench.network.wait(None, &mut ready).unwrap();
    });
    assert!(ready.is_empty());
}

/// Wakes and waits alternate on two threads; a lost wake would wait forever.
#[test]
fn no_wake_is_lost() {
    use std::sync::atomic::{AtomicU32, Ordering};
    const ROUNDS: u32 = 20_000;
    let mut bench = Bench::new();
    let waker = bench.network.waker();
    let (asked, done) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                asked.store(round, Ordering::Release);
                waker.wake();
                // Sometimes in step, sometimes far ahead.
                while round % 7 == 0 && done.load(Ordering::Acquire) < round {
                    thread::yield_now();
                }
            }
        });
        let mut ready = Vec::new();
        while done.load(Ordering::Relaxed) < ROUNDS {
            let begun = std::time::Instant::now();
            bench.network.wait(PATIENCE, &mut ready).unwrap();
            assert!(begun.elapsed() < PATIENCE.unwrap_or_default(), "a wake was lost");
            done.store(asked.load(Ordering::Acquire), Ordering::Release);
        }
    });
}

#[test]
fn a_wait_ends_in_time_and_not_before() {
    let mut bench = Bench::new();
    for micros in [1, 300, 2000] {
        let timeout = Duration::from_micros(micros);
        let begun = std::time::Instant::now();
        let mut ready = Vec::new();
        bench.network.wait(Some(timeout), &mut ready).unwrap();
        assert!(begun.elapsed() >= timeout && ready.is_empty());
    }
}

#[test]
fn events_and_wait_sets() {
    let (first, second) = (EventFd::new().unwrap(), EventFd::new().unwrap());
    let set = WaitSet::new().unwrap();
    set.add(&first, 1).unwrap();
    set.add(&second, 2).unwrap();
    let mut keys = Vec::new();
    set.wait(Some(Duration::ZERO), &mut keys).unwrap();
    assert!(keys.is_empty() && !first.drain());

    second.signal();
    second.wake();
    assert!(is_readable(second.as_fd()) && is_readable(set.as_fd()));
    set.wait(None, &mut keys).unwrap();
    set.wait(None, &mut keys).unwrap();
    assert_eq!(keys, [2, 2], "until drained");
    assert!(second.drain() && !second.drain());
    assert!(!is_readable(set.as_fd()));

    first.signal();
    set.add(&first, 10).unwrap();
    keys.clear();
    set.wait(None, &mut keys).unwrap();
    assert_eq!(keys, [10]);
    set.remove(&first).unwrap();
    set.remove(&first).unwrap();
    assert!(!is_readable(set.as_fd()));
}

#[test]
fn a_network_can_be_waited_for_from_outside() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    let set = WaitSet::new().unwrap();
    set.add(&bench.network.poll_fd(), 1).unwrap();
    bench.network.arm_port(&mut passive, Token(5), READ).unwrap();
    assert!(!is_readable(set.as_fd()));
    active.send(&[Piece::Bytes(b"x")]).unwrap();
    let mut keys = Vec::new();
    set.wait(PATIENCE, &mut keys).unwrap();
    assert_eq!(keys, [1]);
    assert_eq!(bench.poll().len(), 1);
    assert!(!is_readable(set.as_fd()));
}
