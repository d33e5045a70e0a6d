//! Messages without tags, as C programs send and receive them.

use core::mem::zeroed;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::support::*;
use weft_libfabric::abi::errno::*;
use weft_libfabric::abi::*;

const SENT: u64 = FI_SEND | FI_MSG;
const RECEIVED: u64 = FI_RECV | FI_MSG;

#[test]
fn a_message_of_every_size() {
    let (one, two) = pair(Wishes::default());
    for (number, length) in [1, 8, 4096, 16 * 1024, 20_000, 70_000, 5_000_000].into_iter().enumerate() {
        let sent: Vec<u8> = (0..length).map(|at| (at * 7 + number) as u8).collect();
        let mut received = vec![0; length];
        assert_eq!(two.receive(&mut received, 2), 0);
        assert_eq!(one.send(&sent, 1), 0);
        let entry = two.next_with(&[&one]);
        assert_eq!((entry.op_context as usize, entry.flags, entry.len), (2, RECEIVED, length));
        let entry = one.next_with(&[&two]);
        assert_eq!((entry.op_context as usize, entry.flags), (1, SENT));
        assert!(received == sent, "{length} bytes");
    }
}

#[test]
fn no_bytes_may_be_anywhere() {
    let (one, two) = pair(Wishes::default());
    let (none, peer) = (ptr::null_mut(), one.peer);
    assert_eq!(call!(two.endpoint, msg, recv, none, 0, none, FI_ADDR_UNSPEC, at(2)), 0);
    assert_eq!(call!(one.endpoint, msg, send, none, 0, none, peer, at(1)), 0);
    assert_eq!((two.next_with(&[&one]).len, one.next().op_context as usize), (0, 1));
}

#[test]
fn pieces_are_one_run_of_bytes() {
    let (one, two) = pair(Wishes::default());
    let (first, second, mut head, mut tail) = (*b"out of ", *b"pieces", [0; 3], [0; 20]);
    let (out, none) = (pieces([&first, &second]), ptr::null_mut());
    let into = pieces([&head, &tail]);
    assert_eq!(call!(two.endpoint, msg, recvv, into.as_ptr(), none, 2, FI_ADDR_UNSPEC, at(2)), 0);
    assert_eq!(call!(one.endpoint, msg, sendv, out.as_ptr(), none, 2, one.peer, at(1)), 0);
    assert_eq!(two.next_with(&[&one]).len, 13);
    // The compiler must not assume that what C has written is unchanged.
    let (head, tail) = (core::hint::black_box(&mut head), core::hint::black_box(&mut tail));
    assert_eq!((&head[..], &tail[..10]), (&b"out"[..], &b" of pieces"[..]));
    let five = pieces([&first; 5]);
    assert_eq!(call!(one.endpoint, msg, sendv, five.as_ptr(), none, 5, one.peer, none.cast()), code(FI_EINVAL));
}

#[test]
fn immediate_data_comes_along() {
    let (one, two) = pair(Wishes::default());
    let (bytes, mut received) = (*b"data", [0; 8]);
    let (start, length, none, peer) = (bytes.as_ptr().cast(), 4, ptr::null_mut(), one.peer);
    let out = pieces([&bytes]);
    // SAFETY: A plain C structure.
    let mut message: fi_msg = unsafe { zeroed() };
    (message.msg_iov, message.iov_count, message.addr, message.data) = (out.as_ptr(), 1, peer, 44);
    let sends: [&dyn Fn() -> isize; 3] = [
        &|| call!(one.endpoint, msg, senddata, start, length, none, 42, peer, none),
        &|| call!(one.endpoint, msg, injectdata, start, length, 43, peer),
        &|| call!(one.endpoint, msg, sendmsg, &raw const message, FI_REMOTE_CQ_DATA),
    ];
    for (send, data) in sends.into_iter().zip(42..) {
        assert_eq!(two.receive(&mut received, 2), 0);
        assert_eq!(send(), 0);
        let entry = two.next_with(&[&one]);
        assert_eq!((entry.flags, entry.data, entry.len), (RECEIVED | FI_REMOTE_CQ_DATA, data, 4));
    }
}

#[test]
fn injected_memory_is_free_at_once_without_a_completion() {
    let (one, two) = pair(Wishes::default());
    let (mut bytes, mut received) = ([7u8; 64], [0; 64]);
    assert_eq!(call!(one.endpoint, msg, inject, bytes.as_ptr().cast(), 64, one.peer), 0);
    bytes.fill(9);
    assert_eq!(two.receive(&mut received, 2), 0);
    assert_eq!(two.next_with(&[&one]).len, 64);
    assert_eq!(received, [7; 64]);
    assert_eq!(one.poll().err(), Some(EAGAIN));
    let long = vec![0u8; 1 << 20];
    assert_eq!(call!(one.endpoint, msg, inject, long.as_ptr().cast(), long.len(), one.peer), code(FI_EMSGSIZE));
}

#[test]
fn a_buffer_takes_many_messages() {
    let (one, two) = pair(Wishes::default());
    let mut buffer = [0u8; 100];
    let least = 40usize;
    let (option, size) = ((&raw const least).cast(), size_of::<usize>());
    assert_eq!(call_fid!(two.endpoint, ops, setopt, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, option, size), 0);
    let into = pieces([&buffer]);
    // SAFETY: A plain C structure.
    let mut message: fi_msg = unsafe { zeroed() };
    (message.msg_iov, message.iov_count, message.addr) = (into.as_ptr(), 1, FI_ADDR_UNSPEC);
    message.context = at(5);
    assert_eq!(call!(two.endpoint, msg, recvmsg, &raw const message, FI_MULTI_RECV), 0);
    let start = buffer.as_mut_ptr().addr();
    for (text, end) in [(&b"the first"[..], false), (b"another", false), (&[9; 50], true)] {
        assert_eq!(one.send(text, 1), 0);
        let entry = two.next_with(&[&one]);
        assert_eq!((entry.op_context as usize, entry.len), (5, text.len()));
        let offset = entry.buf.addr() - start;
        assert_eq!(&core::hint::black_box(&mut buffer)[offset..offset + text.len()], text);
        // The end may be reported with the last message, or after it.
        if end && entry.flags & FI_MULTI_RECV == 0 {
            assert_eq!(two.next_with(&[&one]).flags, FI_MULTI_RECV);
        } else {
            assert_eq!(entry.flags, if end { RECEIVED | FI_MULTI_RECV } else { RECEIVED });
        }
    }
}

#[test]
fn what_does_not_fit_is_said_to_be_lost() {
    let (one, two) = pair(Wishes::default());
    for length in [10, 50_000, 300_000] {
        let (sent, mut received) = (vec![3; length], [0; 4]);
        assert_eq!(two.receive(&mut received, 2), 0);
        assert_eq!(one.send(&sent, 1), 0);
        let failure = two.next_failure();
        assert_eq!((failure.entry.err, failure.entry.op_context as usize), (FI_ETRUNC, 2));
        assert_eq!((failure.entry.len, failure.entry.olen), (4, length - 4));
        assert!(failure.words.contains(&format!("{length} bytes")), "{}", failure.words);
        assert_eq!(received, [3; 4]);
        one.next_with(&[&two]);
    }
}

#[test]
fn a_receive_is_canceled_once() {
    let (one, _two) = pair(Wishes::default());
    let mut received = [0; 4];
    assert_eq!(one.receive(&mut received, 0xabc), 0);
    assert_eq!(call_fid!(one.endpoint, ops, cancel, at(0xabc)), 0);
    let failure = one.next_failure();
    assert_eq!((failure.entry.err, failure.entry.op_context as usize), (FI_ECANCELED, 0xabc));
    assert_eq!(call_fid!(one.endpoint, ops, cancel, at(0xabc)), code(FI_ENOENT));
}

#[test]
fn a_buffer_for_many_is_canceled_by_its_context() {
    let (one, _two) = pair(Wishes::default());
    let buffer = [0u8; 100];
    let into = pieces([&buffer]);
    // SAFETY: A plain C structure.
    let mut message: fi_msg = unsafe { zeroed() };
    (message.msg_iov, message.iov_count, message.addr) = (into.as_ptr(), 1, FI_ADDR_UNSPEC);
    message.context = at(0xdef);
    assert_eq!(call!(one.endpoint, msg, recvmsg, &raw const message, FI_MULTI_RECV), 0);
    assert_eq!(call_fid!(one.endpoint, ops, cancel, at(0xdef)), 0);
    let failure = one.next_failure();
    assert_eq!((failure.entry.err, failure.entry.op_context as usize), (FI_ECANCELED, 0xdef));
    assert_eq!(failure.entry.flags & FI_MULTI_RECV, FI_MULTI_RECV);
}

#[test]
fn the_source_of_a_message() {
    let (one, mut two) = pair(Wishes::default());
    let mut stranger = Node::new(Wishes::default());
    stranger.know(&two);
    let mut received = [0; 4];
    let read_from = |node: &Node, other: &Node| loop {
        // SAFETY: A plain C structure.
        let (mut entry, mut source): (fi_cq_tagged_entry, _) = unsafe { (zeroed(), 77) };
        match call!(node.queue, ops, readfrom, (&raw mut entry).cast(), 1, &raw mut source) {
            1 => return source,
            EAGAIN => other.progress(),
            error => panic!("{error}"),
        }
    };
    for (node, known) in [(&one, true), (&stranger, false)] {
        assert_eq!(two.receive(&mut received, 2), 0);
        assert_eq!(node.send(b"it's", 1), 0);
        let source = read_from(&two, node);
        assert_eq!(source, if known { two.peer } else { FI_ADDR_NOTAVAIL });
    }
    // Known by now, and found again.
    let address = two.know(&stranger);
    assert_eq!(two.receive(&mut received, 2), 0);
    assert_eq!(stranger.send(b"me", 1), 0);
    assert_eq!(read_from(&two, &stranger), address);
}

#[test]
fn a_directed_receive_waits_for_its_sender() {
    let (one, mut two) = pair(Wishes::default());
    let mut other = Node::new(Wishes::default());
    other.know(&two);
    let (of_one, of_other) = (two.peer, two.know(&other));
    let (mut first, mut second) = ([0; 3], [0; 3]);
    assert_eq!(two.receive_from(&mut first, of_one, 10), 0);
    assert_eq!(two.receive_from(&mut second, of_other, 20), 0);
    assert_eq!(other.send(b"oth", 1), 0);
    assert_eq!(two.next_with(&[&other]).op_context as usize, 20);
    assert_eq!(one.send(b"one", 1), 0);
    assert_eq!(two.next_with(&[&one]).op_context as usize, 10);
    assert_eq!((first, second), (*b"one", *b"oth"));
}

#[test]
fn unrequested_completions_are_counted_and_not_reported() {
    let wishes = Wishes { selective: FI_SELECTIVE_COMPLETION, count: true, ..Wishes::default() };
    let (one, two) = pair(wishes);
    let (bytes, mut received) = (*b"quiet", [0; 8]);
    let out = pieces([&bytes]);
    // SAFETY: A plain C structure.
    let mut message: fi_msg = unsafe { zeroed() };
    (message.msg_iov, message.iov_count, message.addr) = (out.as_ptr(), 1, one.peer);
    for flags in [0, FI_COMPLETION] {
        assert_eq!(two.receive(&mut received, 2), 0);
        assert_eq!(call!(one.endpoint, msg, sendmsg, &raw const message, flags), 0);
    }
    assert_eq!(call!(two.counter, ops, wait, 2, LONG.as_millis() as i32), 0);
    assert_eq!(call!(one.counter, ops, wait, 2, LONG.as_millis() as i32), 0);
    assert_eq!(one.next().flags, SENT);
    assert_eq!((one.poll().err(), two.poll().err()), (Some(EAGAIN), Some(EAGAIN)));
    assert_eq!((call!(two.counter, ops, read), call!(two.counter, ops, readerr)), (2, 0));
}

#[test]
fn delivery_is_known_when_it_completes() {
    for level in [FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE] {
        let (one, two) = pair(Wishes { transmit_flags: level, ..Wishes::default() });
        let mut received = [0; 4];
        assert_eq!(two.receive(&mut received, 2), 0);
        assert_eq!(one.send(b"here", 1), 0);
        assert_eq!(one.next_with(&[&two]).flags, SENT);
        assert_eq!(two.poll().map(|entry| entry.len), Ok(4));
    }
}

#[test]
fn aliases_differ_in_their_flags_alone() {
    let (one, two) = pair(Wishes { selective: FI_SELECTIVE_COMPLETION, ..Wishes::default() });
    let mut other: *mut fid_ep = ptr::null_mut();
    let mut alias = fi_alias { fid: (&raw mut other).cast(), flags: FI_TRANSMIT | FI_COMPLETION };
    assert_eq!(control!(one.endpoint, control, FI_ALIAS, (&raw mut alias).cast()), 0);
    let mut flags = FI_TRANSMIT;
    assert_eq!(control!(other, control, FI_GETOPSFLAG, (&raw mut flags).cast()), 0);
    assert_eq!(flags, FI_COMPLETION);
    let mut received = [0; 4];
    for (endpoint, shown) in [(one.endpoint, false), (other, true)] {
        assert_eq!(two.receive(&mut received, 2), 0);
        let (start, none) = (b"same".as_ptr().cast(), ptr::null_mut());
        assert_eq!(call!(endpoint, msg, send, start, 4, none, one.peer, at(1)), 0);
        if shown {
            assert_eq!(one.next_with(&[&two]).flags, SENT);
        }
    }
    assert_eq!(control!(other, close), 0);
}

#[test]
fn threads_share_endpoints_and_queues() {
    const EACH: usize = 2000;
    let (one, two) = pair(Wishes::default());
    let (one, two) = (Shared(&one), Shared(&two));
    let retry = |post: &dyn Fn() -> isize, node: &Node| {
        while match post() {
            0 => false,
            EAGAIN => true,
            error => panic!("{error}"),
        } {
            node.progress();
        }
    };
    let (read, begin) = (AtomicUsize::new(0), Instant::now());
    std::thread::scope(|scope| {
        for thread in 0..2 {
            scope.spawn(move || {
                let Shared(node) = { one };
                for number in 0..EACH {
                    let value = (thread * EACH + number) as u64;
                    let (start, peer) = ((&raw const value).cast(), node.peer);
                    retry(&|| call!(node.endpoint, tagged, inject, start, 8, peer, thread as u64), node);
                }
            });
            let read = &read;
            scope.spawn(move || {
                let Shared(node) = { two };
                let mut values = vec![0u64; EACH];
                for value in &mut values {
                    let (start, none, from) = (ptr::from_mut(value).cast(), ptr::null_mut(), FI_ADDR_UNSPEC);
                    let (endpoint, tag) = (node.endpoint, thread as u64);
                    retry(&|| call!(endpoint, tagged, recv, start, 8, none, from, tag, 0, none), node);
                }
                // Either may read completions of the other's operations.
                while read.load(Ordering::Acquire) < 2 * EACH {
                    match node.poll() {
                        Ok(_) => _ = read.fetch_add(1, Ordering::AcqRel),
                        Err(error) => assert_eq!(error, EAGAIN),
                    }
                    assert!(begin.elapsed() < LONG);
                }
                // Each thread's messages are in its order.
                let first = (thread * EACH) as u64;
                assert!(
                    core::hint::black_box(&mut values).iter().zip(first..).all(|(value, expected)| *value == expected)
                );
            });
        }
    });
}
