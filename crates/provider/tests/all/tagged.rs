//! Messages with tags, as C programs send, receive and peek at them.

use core::ffi::c_void;
use core::mem::zeroed;
use core::ptr;

use crate::support::*;
use weft_libfabric::abi::errno::*;
use weft_libfabric::abi::*;

const SENT: u64 = FI_SEND | FI_TAGGED;
const RECEIVED: u64 = FI_RECV | FI_TAGGED;

/// A message for `fi_trecvmsg`.
fn wanted(tag: u64, ignore: u64, context: usize) -> fi_msg_tagged {
    // SAFETY: A plain C structure.
    fi_msg_tagged { addr: FI_ADDR_UNSPEC, tag, ignore, context: at(context), ..unsafe { zeroed() } }
}

fn ask(node: &Node, message: &fi_msg_tagged, flags: u64) -> isize {
    call!(node.endpoint, tagged, recvmsg, core::ptr::from_ref(message), flags)
}

#[test]
fn tags_choose_the_receive() {
    let (one, two) = pair(Wishes::default());
    let (mut exact, mut any) = ([0; 8], [0; 8]);
    assert_eq!(two.receive_tagged(&mut exact, 0x11, 0, 20), 0);
    assert_eq!(two.receive_tagged(&mut any, 0xff00, 0xff, 21), 0);
    for (tag, text, context) in [(0xff42, b"masked", 21), (0x11, b"exact!", 20)] {
        assert_eq!(one.send_tagged(text, tag, 1), 0);
        let entry = two.next_with(&[&one]);
        assert_eq!((entry.flags, entry.tag, entry.op_context), (RECEIVED, tag, at(context)));
        assert_eq!(one.next_with(&[&two]).flags, SENT);
    }
    assert_eq!((&exact[..6], &any[..6]), (&b"exact!"[..], &b"masked"[..]));
}

#[test]
fn messages_with_one_tag_stay_in_order() {
    let (one, two) = pair(Wishes::default());
    // Short, eager and long ones, which use different protocols.
    let lengths: Vec<usize> = (0..60).map(|number| [8, 30_000, 200_000][number % 3] + number).collect();
    let long = vec![1; 300_000];
    for length in &lengths {
        while one.send_tagged(&long[..*length], 5, 1) == EAGAIN {}
    }
    let mut received = vec![0; 300_000];
    for length in lengths {
        assert_eq!(two.receive_tagged(&mut received, 5, 0, 2), 0);
        assert_eq!(two.next_with(&[&one]).len, length);
    }
}

#[test]
fn all_ways_to_send() {
    let (one, two) = pair(Wishes::default());
    let (text, mut received) = (*b"tagged", [0; 8]);
    let (start, length, none, peer) = (text.as_ptr().cast(), 6, ptr::null_mut::<c_void>(), one.peer);
    let out = pieces([&text[..3], &text[3..]]);
    let mut message = fi_msg_tagged { msg_iov: out.as_ptr(), iov_count: 2, addr: peer, data: 9, ..wanted(3, 0, 1) };
    let sends: [(&dyn Fn() -> isize, u64); 5] = [
        (&|| call!(one.endpoint, tagged, sendv, out.as_ptr(), none.cast(), 2, peer, 3, at(1)), 0),
        (&|| call!(one.endpoint, tagged, sendmsg, &raw const message, FI_REMOTE_CQ_DATA | FI_INJECT), 9),
        (&|| call!(one.endpoint, tagged, inject, start, length, peer, 3), 0),
        (&|| call!(one.endpoint, tagged, senddata, start, length, none, 8, peer, 3, at(1)), 8),
        (&|| call!(one.endpoint, tagged, injectdata, start, length, 7, peer, 3), 7),
    ];
    for (send, data) in sends {
        received.fill(0);
        assert_eq!(two.receive_tagged(&mut received, 3, 0, 2), 0);
        assert_eq!(send(), 0);
        let entry = two.next_with(&[&one]);
        let flags = if data == 0 { RECEIVED } else { RECEIVED | FI_REMOTE_CQ_DATA };
        assert_eq!((entry.flags, entry.tag, entry.data, &received[..6]), (flags, 3, data, &text[..]));
    }
    message.tag = 4;
    let into = pieces([&received[..2], &received[2..]]);
    let vector = call!(two.endpoint, tagged, recvv, into.as_ptr(), none.cast(), 2, FI_ADDR_UNSPEC, 4, 0, at(2));
    assert_eq!(vector, 0);
    assert_eq!(call!(one.endpoint, tagged, sendmsg, &raw const message, 0), 0);
    assert_eq!(two.next_with(&[&one]).tag, 4);
}

/// Peeks until there is something: the message may be in flight.
fn peek(node: &Node, message: &fi_msg_tagged, flags: u64) -> fi_cq_tagged_entry {
    loop {
        assert_eq!(ask(node, message, FI_PEEK | flags), 0);
        match node.poll() {
            Ok(entry) => return entry,
            Err(EAVAIL) => assert_eq!(node.failure().entry.err, FI_ENOMSG),
            Err(error) => panic!("a peek completes at once: {error}"),
        }
    }
}

#[test]
fn a_peek_finds_a_received_message() {
    let (one, two) = pair(Wishes::default());
    let message = wanted(7, 0, 30);
    assert_eq!(ask(&two, &message, FI_PEEK), 0);
    let failure = two.next_failure();
    assert_eq!((failure.entry.err, failure.entry.op_context), (FI_ENOMSG, at(30)));
    for text in [&b"one"[..], b"three"] {
        assert_eq!(one.send_tagged(text, 7, 1), 0);
    }
    // A peek takes nothing.
    for _ in 0..2 {
        let entry = peek(&two, &message, 0);
        assert_eq!((entry.op_context, entry.flags, entry.len, entry.tag), (at(30), RECEIVED, 3, 7));
    }
    let mut received = [0; 8];
    for length in [3, 5] {
        assert_eq!(two.receive_tagged(&mut received, 7, 0, 2), 0);
        assert_eq!(two.next_with(&[&one]).len, length);
    }
}

#[test]
fn a_claimed_message_waits_for_its_receive() {
    let (one, two) = pair(Wishes::default());
    for length in [10, 40_000, 400_000] {
        let (sent, mut first, mut second) = (vec![1; length], vec![0; length], [0; 4]);
        assert_eq!(one.send_tagged(&sent, 7, 1), 0);
        assert_eq!(one.send_tagged(b"next", 7, 1), 0);
        assert_eq!(peek(&two, &wanted(7, 0, 30), FI_CLAIM).len, length);
        assert_eq!(two.receive_tagged(&mut second, 7, 0, 31), 0);
        assert_eq!(two.next_with(&[&one]).op_context, at(31));
        let into = pieces([&first]);
        let claimed = fi_msg_tagged { msg_iov: into.as_ptr(), iov_count: 1, ..wanted(7, 0, 30) };
        assert_eq!(ask(&two, &claimed, FI_CLAIM), 0);
        assert_eq!(two.next_with(&[&one]).op_context, at(30));
        assert!(*core::hint::black_box(&mut first) == sent && second == *b"next");
        assert_eq!(ask(&two, &claimed, FI_CLAIM), code(FI_ENOMSG), "it is claimed once");
        for _ in 0..2 {
            one.next_with(&[&two]);
        }
    }
}

#[test]
fn what_is_discarded_is_gone() {
    let (one, two) = pair(Wishes::default());
    for text in [&b"1"[..], b"22", b"333"] {
        assert_eq!(one.send_tagged(text, 7, 1), 0);
    }
    assert_eq!(peek(&two, &wanted(7, 0, 30), FI_DISCARD).len, 1);
    assert_eq!(peek(&two, &wanted(7, 0, 31), FI_CLAIM).len, 2);
    assert_eq!(ask(&two, &wanted(7, 0, 31), FI_CLAIM | FI_DISCARD), 0);
    let thrown = two.next();
    assert_eq!((thrown.op_context, thrown.flags, thrown.tag, thrown.len), (at(31), RECEIVED, 7, 2));
    assert_eq!(peek(&two, &wanted(7, 0, 32), 0).len, 3);
}

#[test]
fn flags_that_do_not_go_together() {
    let (_one, two) = pair(Wishes::default());
    for flags in [FI_DISCARD, FI_PEEK | FI_CLAIM | FI_DISCARD, FI_MULTI_RECV, FI_INJECT] {
        assert_eq!(ask(&two, &wanted(7, 0, 30), flags), code(FI_EBADFLAGS), "{flags:#x}");
    }
    assert_eq!(ask(&two, &wanted(7, 0, 0), FI_PEEK | FI_CLAIM), code(FI_EINVAL));
}
