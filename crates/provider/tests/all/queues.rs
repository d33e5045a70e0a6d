//! Completion queues, counters, event queues and poll sets, as C programs use them.

use core::ffi::c_int;
use core::mem::zeroed;
use core::ptr;
use std::time::{Duration, Instant};

use crate::support::*;
use weft_libfabric::abi::errno::*;
use weft_libfabric::abi::*;

/// Waits for one entry. Returns the result of `fi_cq_sread`.
fn wait(node: &Node, timeout: c_int) -> isize {
    // SAFETY: A plain C structure.
    let mut entry: fi_cq_tagged_entry = unsafe { zeroed() };
    call!(node.queue, ops, sread, (&raw mut entry).cast(), 1, ptr::null(), timeout)
}

fn is_readable(descriptor: c_int) -> bool {
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: One structure, for the time of the call.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
}

#[test]
fn formats_show_what_they_have_room_for() {
    for (format, words) in
        [(FI_CQ_FORMAT_CONTEXT, 1), (FI_CQ_FORMAT_MSG, 3), (FI_CQ_FORMAT_DATA, 5), (FI_CQ_FORMAT_TAGGED, 6)]
    {
        let (one, two) = pair(Wishes { format, ..Wishes::default() });
        let mut received = [0; 4];
        for _ in 0..2 {
            assert_eq!(two.receive_tagged(&mut received, 0x77, 0, 0x99), 0);
            assert_eq!(one.send_tagged(b"form", 0x77, 1), 0);
        }
        let mut entries = [0xa5a5_u64; 20];
        let mut read = 0;
        let begin = Instant::now();
        while read < 2 && begin.elapsed() < LONG {
            let into = entries[read * words..].as_mut_ptr().cast();
            read += call!(two.queue, ops, read, into, 2 - read).max(0) as usize;
            one.progress();
        }
        let whole = [0x99, FI_RECV | FI_TAGGED, 4, 0, 0, 0x77];
        assert_eq!(entries[..words], whole[..words]);
        assert_eq!(entries[words..2 * words], whole[..words]);
        assert!(entries[2 * words..].iter().all(|word| *word == 0xa5a5));
    }
}

#[test]
fn a_wait_ends_with_a_completion_or_in_time() {
    let (one, two) = pair(Wishes::default());
    let begin = Instant::now();
    assert_eq!(wait(&two, 30), EAGAIN);
    assert!(begin.elapsed() >= Duration::from_millis(30));
    let mut received = [0; 4];
    assert_eq!(two.receive(&mut received, 2), 0);
    assert_eq!(one.send(b"wake", 1), 0);
    assert_eq!(wait(&two, -1), 1);
    assert_eq!(wait(&one, -1), 1);
    assert_eq!(two.receive(&mut received, 2), 0);
    assert_eq!(call_fid!(two.endpoint, ops, cancel, at(2)), 0);
    assert_eq!(wait(&two, -1), EAVAIL);
    two.failure();
}

#[test]
fn a_wait_is_interrupted() {
    let (_one, two) = pair(Wishes::default());
    let queue = two.queue.expose_provenance();
    let other = std::thread::spawn(move || {
        let queue: *mut fid_cq = ptr::with_exposed_provenance_mut(queue);
        assert_eq!(call!(queue, ops, signal), 0);
    });
    assert_eq!(wait(&two, -1), EAGAIN);
    other.join().unwrap();
}

#[test]
fn a_threshold_is_waited_for() {
    let (one, two) = pair(Wishes { wait_cond: FI_CQ_COND_THRESHOLD, ..Wishes::default() });
    let mut received = [[0; 4]; 3];
    for buffer in &mut received {
        assert_eq!(two.receive(buffer, 2), 0);
        assert_eq!(one.send(b"many", 1), 0);
    }
    let (threshold, mut entries) = (3usize, [0u64; 18]);
    let into = entries.as_mut_ptr().cast();
    assert_eq!(call!(two.queue, ops, sread, into, 3, (&raw const threshold).cast(), -1), 3);
}

#[test]
fn a_queue_without_a_wait_object_refuses_waits() {
    let (one, _two) = pair(Wishes { wait: FI_WAIT_NONE, count: true, ..Wishes::default() });
    let mut descriptor = 0;
    let argument = (&raw mut descriptor).cast();
    assert_eq!(wait(&one, 0), code(FI_EINVAL));
    assert_eq!(call!(one.queue, ops, signal), -FI_EINVAL);
    assert_eq!(control!(one.queue, control, FI_GETWAIT, argument), -FI_ENODATA);
    assert_eq!(call!(one.counter, ops, wait, 1, 0), -FI_EINVAL);
}

#[test]
fn a_descriptor_wakes_a_sleeping_thread() {
    let (one, two) = pair(Wishes { wait: FI_WAIT_FD, count: true, ..Wishes::default() });
    let (mut descriptor, mut kind) = (-1, 0);
    for object in [two.queue.cast::<fid>(), two.counter.cast()] {
        assert_eq!(control!(object, control, FI_GETWAIT, (&raw mut descriptor).cast()), 0);
        assert_eq!(control!(object, control, FI_GETWAITOBJ, (&raw mut kind).cast()), 0);
        assert_eq!(kind, FI_WAIT_FD);
        let mut objects = [object];
        let mut may_sleep = || call!(two.fabric, ops, trywait, objects.as_mut_ptr(), 1);
        assert_eq!(may_sleep(), 0);
        assert!(!is_readable(descriptor));
        let mut received = [0; 4];
        assert_eq!(two.receive(&mut received, 2), 0);
        assert_eq!(one.send(b"wake", 1), 0);
        // The receiver makes no calls.
        let begin = Instant::now();
        while !is_readable(descriptor) {
            one.progress();
            assert!(begin.elapsed() < LONG);
        }
        if object == two.queue.cast() {
            assert_eq!(may_sleep(), -FI_EAGAIN);
        }
        assert_eq!(two.next().len, 4);
        assert_eq!(may_sleep(), 0);
        assert!(!is_readable(descriptor));
    }
}

#[test]
fn a_counter_waits_and_is_set() {
    let (one, _two) = pair(Wishes { count: true, ..Wishes::default() });
    let counter = one.counter;
    assert_eq!(call!(counter, ops, wait, 1, 20), -FI_ETIMEDOUT);
    assert_eq!((call!(counter, ops, set, 5), call!(counter, ops, add, 2)), (0, 0));
    assert_eq!(call!(counter, ops, wait, 7, -1), 0);
    assert_eq!((call!(counter, ops, seterr, 1), call!(counter, ops, adderr, 2)), (0, 0));
    assert_eq!((call!(counter, ops, read), call!(counter, ops, readerr)), (7, 3));
    let address = counter.expose_provenance();
    let other = std::thread::spawn(move || {
        let counter: *mut fid_cntr = ptr::with_exposed_provenance_mut(address);
        assert_eq!(call!(counter, ops, add, 1), 0);
    });
    assert_eq!(call!(counter, ops, wait, 8, -1), 0);
    other.join().unwrap();
}

#[test]
fn a_failure_ends_a_counters_wait() {
    let (one, _two) = pair(Wishes { count: true, ..Wishes::default() });
    let mut received = [0; 4];
    assert_eq!(one.receive(&mut received, 2), 0);
    let address = one.endpoint.expose_provenance();
    let other = std::thread::spawn(move || {
        let endpoint: *mut fid_ep = ptr::with_exposed_provenance_mut(address);
        assert_eq!(call_fid!(endpoint, ops, cancel, at(2)), 0);
    });
    // The other thread may be faster than the wait, which then knows of no new failure.
    let status = call!(one.counter, ops, wait, 1, 200);
    assert!([-FI_EAVAIL, -FI_ETIMEDOUT].contains(&status), "{status}");
    other.join().unwrap();
    assert_eq!(call!(one.counter, ops, readerr), 1);
    assert_eq!(one.next_failure().entry.err, FI_ECANCELED);
}

#[test]
fn failures_are_explained_where_the_application_wants() {
    let (one, two) = pair(Wishes::default());
    let mut received = [0; 2];
    assert_eq!(two.receive(&mut received, 2), 0);
    assert_eq!(one.send(b"long", 1), 0);
    let begin = Instant::now();
    while two.poll().err() != Some(EAVAIL) {
        assert!(begin.elapsed() < LONG);
    }
    let mut room = [0xffu8; 12];
    // SAFETY: A plain C structure.
    let mut entry: fi_cq_err_entry = unsafe { zeroed() };
    (entry.err_data, entry.err_data_size) = (room.as_mut_ptr().cast(), room.len());
    // This version has no source address.
    entry.src_addr = 77;
    assert_eq!(call!(two.queue, ops, readerr, &raw mut entry, 0), 1);
    assert_eq!((entry.err_data_size, entry.src_addr), (12, 77));
    let mut words = [0x55; 20];
    let (buffer, length) = (words.as_mut_ptr(), words.len());
    call!(two.queue, ops, strerror, entry.prov_errno, entry.err_data, buffer, length);
    assert_eq!(core::hint::black_box(&mut room), b"the message\0");
    assert_eq!(words[..12].iter().map(|c| *c as u8).collect::<Vec<_>>(), b"the message\0");
    assert_eq!(call!(two.queue, ops, readerr, &raw mut entry, 0), EAGAIN);
    // By its number alone it is explained too, and nothing is truncated.
    let words = call!(two.queue, ops, strerror, entry.prov_errno, ptr::null(), ptr::null_mut(), 0);
    // SAFETY: A C string that is there until the next read.
    let words = unsafe { core::ffi::CStr::from_ptr(words) }.to_str().unwrap();
    assert!(words.contains("4 bytes") && words.contains("room for 2"), "{words}");
}

#[test]
fn what_a_program_expects_to_fail_writes_no_explanation() {
    let (_one, two) = pair(Wishes::default());
    let mut received = [0; 2];
    let canceled = || {
        assert_eq!(two.receive_tagged(&mut received, 7, 0, 2), 0);
        assert_eq!(call_fid!(two.endpoint, ops, cancel, at(2)), 0);
    };
    let peeked = || {
        // SAFETY: A plain C structure.
        let message = fi_msg_tagged { addr: FI_ADDR_UNSPEC, context: at(2), ..unsafe { zeroed() } };
        assert_eq!(call!(two.endpoint, tagged, recvmsg, &raw const message, FI_PEEK), 0);
    };
    let (mut canceled, peeked) = (canceled, peeked);
    let mut failures: [(&mut dyn FnMut(), c_int); 2] = [(&mut canceled, FI_ECANCELED), (&mut { peeked }, FI_ENOMSG)];
    for (fail, err) in &mut failures {
        fail();
        let begin = Instant::now();
        while two.poll().err() != Some(EAVAIL) {
            assert!(begin.elapsed() < LONG);
        }
        // An uninitialised structure: the buffer may be anything.
        // SAFETY: A plain C structure.
        let mut entry: fi_cq_err_entry = unsafe { zeroed() };
        (entry.err_data, entry.err_data_size) = (at(0xdead_beef), 0xa5a5_a5a5);
        assert_eq!(call!(two.queue, ops, readerr, &raw mut entry, 0), 1);
        assert_eq!((entry.err, entry.err_data, entry.err_data_size), (*err, ptr::null_mut(), 0));
        let words = call!(two.queue, ops, strerror, entry.prov_errno, entry.err_data, ptr::null_mut(), 0);
        // SAFETY: A C string of the provider's.
        assert!(!unsafe { core::ffi::CStr::from_ptr(words) }.is_empty());
    }
}

#[test]
fn failures_have_the_fields_of_the_applications_version() {
    for (version, sized, source) in
        [(fi_version(1, 4), false, false), (fi_version(1, 17), true, false), (fi_version(2, 0), true, true)]
    {
        let (one, two) = pair(Wishes { version, ..Wishes::default() });
        let mut received = [0; 2];
        assert_eq!(one.receive(&mut received, 2), 0);
        assert_eq!(two.send(b"long", 1), 0);
        let begin = Instant::now();
        while one.poll().err() != Some(EAVAIL) {
            two.progress();
            assert!(begin.elapsed() < LONG);
        }
        // SAFETY: A plain C structure.
        let mut entry: fi_cq_err_entry = unsafe { zeroed() };
        (entry.src_addr, entry.err_data_size) = (77, if sized { 0 } else { 55 });
        assert_eq!(call!(one.queue, ops, readerr, &raw mut entry, 0), 1);
        assert_eq!(entry.src_addr, if source { FI_ADDR_NOTAVAIL } else { 77 });
        // SAFETY: A C string that is there until the next read.
        let words = unsafe { core::ffi::CStr::from_ptr(entry.err_data.cast()) };
        assert_eq!(entry.err_data_size, if sized { words.count_bytes() + 1 } else { 55 });
    }
}

#[test]
fn a_queue_that_is_not_read_accepts_nothing_more() {
    const SIZE: usize = 5000;
    let (one, two) = pair(Wishes { queue_size: SIZE, ..Wishes::default() });
    let mut sent = 0;
    let begin = Instant::now();
    loop {
        match call!(one.endpoint, msg, send, ptr::null(), 0, ptr::null_mut(), one.peer, at(1)) {
            0 => sent += 1,
            EAGAIN if sent >= SIZE => break,
            EAGAIN => {}
            error => panic!("{error}"),
        }
        one.progress();
        two.progress();
        assert!(begin.elapsed() < LONG);
    }
    for _ in 0..sent {
        one.next_with(&[&two]);
    }
    assert_eq!(one.send(&[], 1), 0);
    one.next_with(&[&two]);
}

#[test]
fn a_poll_set_names_members_with_news() {
    let (one, two) = pair(Wishes { count: true, ..Wishes::default() });
    let mut set: *mut fid_poll = ptr::null_mut();
    let mut attributes = fi_poll_attr { flags: 0 };
    assert_eq!(call!(two.domain, ops, poll_open, &raw mut attributes, &raw mut set), 0);
    // SAFETY: The application's own field.
    unsafe {
        (*two.queue).fid.context = at(100);
        (*two.counter).fid.context = at(200);
    }
    assert_eq!(call!(set, ops, poll_add, two.queue.cast(), 0), 0);
    assert_eq!(call!(set, ops, poll_add, two.counter.cast(), 0), 0);
    assert_eq!(call!(set, ops, poll_add, two.vector.cast(), 0), -FI_EINVAL);
    let mut contexts = [ptr::null_mut(); 4];
    let poll = |contexts: &mut [_; 4]| call!(set, ops, poll, contexts.as_mut_ptr(), 4);
    assert_eq!(poll(&mut contexts), 0);
    let mut received = [0; 4];
    assert_eq!(two.receive(&mut received, 2), 0);
    assert_eq!(one.send(b"poll", 1), 0);
    let begin = Instant::now();
    while call!(two.counter, ops, read) == 0 {
        one.progress();
        assert!(begin.elapsed() < LONG);
    }
    assert_eq!((poll(&mut contexts), contexts[0], contexts[1]), (2, at(100), at(200)));
    // The queue still has its completion, the counter nothing new.
    assert_eq!((poll(&mut contexts), contexts[0]), (1, at(100)));
    assert_eq!(control!(set, close), -FI_EBUSY);
    assert_eq!(control!(two.queue, close), -FI_EBUSY);
    assert_eq!(call!(set, ops, poll_del, two.queue.cast(), 0), 0);
    assert_eq!(call!(set, ops, poll_del, two.queue.cast(), 0), -FI_EINVAL);
    assert_eq!(call!(set, ops, poll_del, two.counter.cast(), 0), 0);
    assert_eq!(control!(set, close), 0);
}

#[test]
fn an_event_queue_carries_the_applications_events() {
    let node = Node::unbound(Wishes::default());
    // SAFETY: A plain C structure.
    let mut attributes = fi_eq_attr { wait_obj: FI_WAIT_FD, flags: FI_WRITE, ..unsafe { zeroed() } };
    let mut queue: *mut fid_eq = ptr::null_mut();
    assert_eq!(call!(node.fabric, ops, eq_open, &raw mut attributes, &raw mut queue, ptr::null_mut()), 0);
    assert_eq!(control!(node.endpoint, bind, queue.cast(), 0), 0);
    assert_eq!(control!(queue, close), -FI_EBUSY);
    let (mut event, mut descriptor) = (0u32, -1);
    assert_eq!(control!(queue, control, FI_GETWAIT, (&raw mut descriptor).cast()), 0);
    let entry = fi_eq_entry { fid: node.endpoint.cast(), context: at(3), data: 9 };
    let mut back = fi_eq_entry { fid: ptr::null_mut(), context: ptr::null_mut(), data: 0 };
    let length = size_of::<fi_eq_entry>();
    let into = (&raw mut back).cast();
    assert_eq!(call!(queue, ops, read, &raw mut event, into, length, 0), EAGAIN);
    assert_eq!(call!(queue, ops, sread, &raw mut event, into, length, 10, 0), EAGAIN);
    assert!(!is_readable(descriptor));
    assert_eq!(call!(queue, ops, write, FI_NOTIFY, (&raw const entry).cast(), length, 0), length as isize);
    assert!(is_readable(descriptor));
    assert_eq!(call!(queue, ops, read, &raw mut event, into, 4, 0), code(FI_ETOOSMALL));
    for flags in [FI_PEEK, 0] {
        assert_eq!(call!(queue, ops, sread, &raw mut event, into, length, -1, flags), length as isize);
    }
    assert_eq!((event, back.context, back.data, back.fid), (FI_NOTIFY, at(3), 9, node.endpoint.cast()));
    assert_eq!(call!(queue, ops, readerr, ptr::null_mut(), 0), code(FI_EINVAL));
    // The endpoint holds it until it is closed.
    let (fabric, domain, endpoint) = (node.fabric, node.domain, node.endpoint);
    std::mem::forget(node);
    for object in [endpoint.cast::<fid>(), queue.cast(), domain.cast(), fabric.cast()] {
        assert_eq!(control!(object, close), 0);
    }
}
