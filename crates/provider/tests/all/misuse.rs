//! Violations of the contract, and missing peers: the error of the manual pages, and never undefined behaviour.

use core::ffi::{c_int, c_void};
use core::mem::zeroed;
use core::ptr;

use crate::support::*;
use weft_libfabric::abi::errno::*;
use weft_libfabric::abi::*;

#[test]
fn null_is_refused_everywhere() {
    let (one, _two) = pair(Wishes::default());
    let (none, nowhere, peer) = (ptr::null_mut::<c_void>(), ptr::null_mut(), one.peer);
    let invalid = code(FI_EINVAL);
    let endpoint = one.endpoint;
    // Invalid memory with a length.
    assert_eq!(call!(endpoint, msg, send, none, 8, none, peer, none), invalid);
    assert_eq!(call!(endpoint, msg, recv, none, 8, none, peer, none), invalid);
    assert_eq!(call!(endpoint, msg, sendv, ptr::null(), nowhere, 2, peer, none), invalid);
    assert_eq!(call!(endpoint, msg, sendmsg, ptr::null(), 0), invalid);
    assert_eq!(call!(endpoint, msg, recvmsg, ptr::null(), 0), invalid);
    assert_eq!(call!(endpoint, tagged, recvmsg, ptr::null(), FI_PEEK), invalid);
    assert_eq!(call!(endpoint, tagged, inject, none, 8, peer, 1), invalid);
    assert_eq!(call!(endpoint, rma, readmsg, ptr::null(), 0), invalid);
    assert_eq!(call!(endpoint, rma, read, none, 8, none, peer, 0, 0, none), invalid);
    assert_eq!(call!(endpoint, atomic, writemsg, ptr::null(), 0), invalid);
    assert_eq!(call!(endpoint, atomic, writevalid, FI_INT8, FI_SUM, ptr::null_mut()), -FI_EINVAL);
    assert_eq!(
        call!(endpoint, atomic, write, none, 2, none, peer, 0, 0, FI_UINT64, FI_SUM, none),
        invalid,
        "operands that are nowhere"
    );
    let operand = 1u64;
    let start = (&raw const operand).cast();
    assert_eq!(
        call!(endpoint, atomic, readwrite, start, 1, none, none, none, peer, 0, 0, FI_UINT64, FI_SUM, none),
        invalid,
        "a result that is nowhere"
    );
    assert_eq!(call_fid!(endpoint, cm, getname, none, ptr::null_mut()), -FI_EINVAL);
    assert_eq!(call!(one.queue, ops, read, none, 1), invalid);
    assert_eq!(call!(one.queue, ops, readerr, ptr::null_mut(), 0), invalid);
    assert_eq!(control!(endpoint, control, FI_ALIAS, none), -FI_EINVAL);
    assert_eq!(control!(endpoint, bind, ptr::null_mut(), 0), -FI_EOPBADSTATE);
    // Functions get no object at all, or another's.
    // SAFETY: NULL, or objects that are open.
    unsafe {
        let send = (*(*endpoint).msg).send.unwrap();
        assert_eq!(send(ptr::null_mut(), start, 8, none, peer, none), invalid);
        assert_eq!(send(one.queue.cast(), start, 8, none, peer, none), invalid);
        let cq_open = (*(*one.domain).ops).cq_open.unwrap();
        let mut queue = ptr::null_mut();
        assert_eq!(cq_open(one.domain, ptr::null_mut(), &raw mut queue, none), -FI_EINVAL);
        let mut attributes: fi_cq_attr = zeroed();
        assert_eq!(cq_open(one.domain, &raw mut attributes, ptr::null_mut(), none), -FI_EINVAL);
        assert_eq!(cq_open(ptr::null_mut(), &raw mut attributes, &raw mut queue, none), -FI_EINVAL);
    }
}

#[test]
fn every_slot_has_a_function() {
    let (one, _two) = pair(Wishes::default());
    // SAFETY: Tables of functions are nothing but a size and pointers, which are NULL or not.
    unsafe fn full<T>(table: *const T) {
        let words = size_of::<T>() / size_of::<usize>();
        // SAFETY: As above.
        let words = unsafe { core::slice::from_raw_parts(table.cast::<usize>(), words) };
        assert_eq!(words[0], size_of::<T>());
        assert!(words.iter().all(|word| *word != 0), "{}", core::any::type_name::<T>());
    }
    // SAFETY: Objects that are open.
    unsafe {
        full((*one.endpoint).fid.ops);
        full((*one.endpoint).ops);
        full((*one.endpoint).cm);
        full((*one.endpoint).msg);
        full((*one.endpoint).rma);
        full((*one.endpoint).tagged);
        full((*one.endpoint).atomic);
        full((*one.endpoint).collective);
        full((*one.queue).fid.ops);
        full((*one.queue).ops);
        full((*one.vector).ops);
        full((*one.domain).ops);
        full((*one.domain).mr);
        full((*one.fabric).ops);
        let barrier = (*(*one.endpoint).collective).barrier.unwrap();
        assert_eq!(barrier(one.endpoint, 0, ptr::null_mut()), code(FI_ENOSYS));
    }
}

#[test]
fn flags_that_an_operation_does_not_know() {
    let (one, _two) = pair(Wishes::default());
    // SAFETY: Plain C structures.
    let (message, transfer, atomic): (fi_msg, fi_msg_rma, fi_msg_atomic) = unsafe { zeroed() };
    let refused = code(FI_EBADFLAGS);
    for flags in [FI_COMMIT_COMPLETE, FI_TRIGGER, FI_MULTICAST, FI_PEEK, 1 << 63] {
        assert_eq!(call!(one.endpoint, msg, sendmsg, &raw const message, flags), refused);
        assert_eq!(call!(one.endpoint, msg, recvmsg, &raw const message, flags), refused);
        assert_eq!(call!(one.endpoint, rma, writemsg, &raw const transfer, flags), refused);
        assert_eq!(call!(one.endpoint, atomic, writemsg, &raw const atomic, flags), refused);
    }
    assert_eq!(call!(one.endpoint, rma, readmsg, &raw const transfer, FI_REMOTE_CQ_DATA), refused);
    let mut both = FI_TRANSMIT | FI_RECV;
    assert_eq!(control!(one.endpoint, control, FI_GETOPSFLAG, (&raw mut both).cast()), -FI_EINVAL);
    let mut unknown = FI_TRANSMIT | FI_PEEK;
    assert_eq!(control!(one.endpoint, control, FI_SETOPSFLAG, (&raw mut unknown).cast()), -FI_EBADFLAGS);
    assert_eq!(control!(one.endpoint, control, FI_BACKLOG, (&raw mut both).cast()), -FI_ENOSYS);
}

#[test]
fn nothing_goes_before_it_is_enabled() {
    let node = Node::disabled(Wishes::default());
    let (state, mut received) = (code(FI_EOPBADSTATE), [0; 4]);
    assert_eq!(node.receive(&mut received, 1), state);
    assert_eq!(node.send(&[], 1), state);
    assert_eq!(call_fid!(node.endpoint, ops, cancel, at(1)), state);
    assert_eq!(call!(node.endpoint, ops, tx_size_left), state);
    assert_eq!(control!(node.endpoint, control, FI_ENABLE, ptr::null_mut()), 0);
    assert_eq!(control!(node.endpoint, control, FI_ENABLE, ptr::null_mut()), -FI_EOPBADSTATE);
    assert_eq!(control!(node.endpoint, bind, node.queue.cast(), FI_RECV), -FI_EOPBADSTATE);
    assert!(call!(node.endpoint, ops, tx_size_left) > 0);
    assert_eq!(node.receive(&mut received, 1), 0);
}

#[test]
fn what_must_be_bound_and_how() {
    let node = Node::disabled(Wishes::default());
    let other = Node::disabled(Wishes::default());
    let queue = node.queue.cast();
    let bare = Node::unbound(Wishes::default());
    assert_eq!(control!(bare.endpoint, control, FI_ENABLE, ptr::null_mut()), -FI_ENOAV);
    assert_eq!(control!(bare.endpoint, bind, other.vector.cast(), 0), 0);
    assert_eq!(control!(bare.endpoint, control, FI_ENABLE, ptr::null_mut()), -FI_ENOCQ);
    assert_eq!(control!(node.endpoint, bind, queue, FI_RECV), -FI_EINVAL, "there is one");
    assert_eq!(control!(node.endpoint, bind, node.vector.cast(), 0), -FI_EINVAL, "there is one");
    assert_eq!(control!(node.endpoint, bind, queue, 0), -FI_EINVAL);
    assert_eq!(control!(bare.endpoint, bind, queue, FI_RECV | FI_PEEK), -FI_EBADFLAGS);
    assert_eq!(control!(bare.endpoint, bind, queue, FI_RECV), -FI_EDOMAIN);
    assert_eq!(control!(bare.endpoint, bind, bare.domain.cast(), 0), -FI_EINVAL);
    assert_eq!(control!(node.queue, close), -FI_EBUSY);
    drop(bare);
}

#[test]
fn unknown_addresses() {
    let (one, _two) = pair(Wishes::default());
    for address in [one.peer + 1, FI_ADDR_UNSPEC] {
        let status = call!(one.endpoint, msg, send, ptr::null(), 0, ptr::null_mut(), address, ptr::null_mut());
        assert_eq!(status, code(FI_EADDRNOTAVAIL));
    }
}

#[test]
fn a_name_is_cut_where_there_is_no_room() {
    let (one, _two) = pair(Wishes::default());
    let (mut name, mut length) = ([0xa5u8; 64], 2);
    assert_eq!(call_fid!(one.endpoint, cm, getname, name.as_mut_ptr().cast(), &raw mut length), -FI_ETOOSMALL);
    assert!(length > 2 && length <= 64);
    assert_eq!(core::hint::black_box(&mut name)[2], 0xa5);
    assert_eq!(call_fid!(one.endpoint, cm, getname, name.as_mut_ptr().cast(), &raw mut length), 0);
    assert_eq!(call_fid!(one.endpoint, cm, setname, name.as_mut_ptr().cast(), length), -FI_EOPBADSTATE);
}

#[test]
fn options_that_there_are() {
    let (one, _two) = pair(Wishes::default());
    let (mut value, mut length) = (77usize, size_of::<usize>());
    let get = |option, value: &mut usize, length: &mut usize| {
        let value = ptr::from_mut(value).cast();
        call_fid!(one.endpoint, ops, getopt, FI_OPT_ENDPOINT, option, value, ptr::from_mut(length))
    };
    assert_eq!(get(FI_OPT_CM_DATA_SIZE, &mut value, &mut length), 0);
    assert_eq!(value, 0);
    assert_eq!(get(FI_OPT_BUFFERED_MIN, &mut value, &mut length), -FI_ENOPROTOOPT);
    let set = |option, value: &usize, length| {
        call_fid!(one.endpoint, ops, setopt, FI_OPT_ENDPOINT, option, ptr::from_ref(value).cast(), length)
    };
    assert_eq!(set(FI_OPT_MIN_MULTI_RECV, &5000, 8), 0);
    assert_eq!(set(FI_OPT_MIN_MULTI_RECV, &5000, 4), -FI_EINVAL);
    assert_eq!(set(FI_OPT_CM_DATA_SIZE, &5000, 8), -FI_ENOPROTOOPT);
    assert_eq!(get(FI_OPT_MIN_MULTI_RECV, &mut value, &mut length), 0);
    assert_eq!(value, 5000);
    length = 3;
    assert_eq!(get(FI_OPT_MIN_MULTI_RECV, &mut value, &mut length), -FI_ETOOSMALL);
    assert_eq!(length, size_of::<usize>());
}

#[test]
fn a_peer_that_is_not_there_is_said_so() {
    let mut one = Node::new(Wishes::default());
    let gone = Node::new(Wishes::default());
    one.know(&gone);
    drop(gone);
    let mut received = [0; 4];
    let region = one.register(&mut received, FI_REMOTE_READ);
    assert_eq!(one.send(b"lost", 5), 0);
    let failure = one.next_failure();
    assert_eq!((failure.entry.err, failure.entry.op_context), (FI_ECONNREFUSED, at(5)));
    assert_eq!(failure.entry.flags, FI_SEND | FI_MSG);
    assert!(failure.words.contains("127.0.0.1") && failure.words.contains("refused"), "{}", failure.words);
    // An injected message has no context of its own.
    assert_eq!(call!(one.endpoint, msg, inject, b"lost".as_ptr().cast(), 4, one.peer), 0);
    assert_eq!(one.next_failure().entry.op_context, at(MARK));
    assert_eq!(control!(region, close), 0);
}

#[test]
fn what_is_under_way_is_dropped_with_the_endpoint() {
    let (one, two) = pair(Wishes::default());
    let mut received = vec![0; 1000];
    for _ in 0..100 {
        assert_eq!(two.receive(&mut received, 2), 0);
    }
    drop(two);
    drop(one);
}

/// The thread ends at a permitted point: after the call, with its completion read.
#[test]
fn a_thread_that_is_canceled_inside_a_call_ends_behind_it() {
    type Start = extern "C" fn(*mut c_void) -> *mut c_void;
    unsafe extern "C-unwind" {
        fn pthread_cancel(thread: libc::pthread_t) -> c_int;
        fn pthread_testcancel();
    }
    /// The canceled thread: it waits for a message, reads it, and is canceled after that.
    extern "C-unwind" fn wait(node: *mut c_void) -> *mut c_void {
        // SAFETY: The test keeps the node until this thread has ended.
        let node = unsafe { &*node.cast::<Node>() };
        // SAFETY: A plain C structure.
        let mut entry: fi_cq_tagged_entry = unsafe { zeroed() };
        let read = call!(node.queue, ops, sread, (&raw mut entry).cast(), 1, ptr::null(), -1);
        if read != 1 {
            return at(1);
        }
        // SAFETY: Nothing on this thread's stack has to be dropped.
        unsafe { pthread_testcancel() };
        at(2)
    }
    let (one, two) = pair(Wishes::default());
    let mut received = [0; 4];
    assert_eq!(two.receive(&mut received, 2), 0);
    let mut thread = 0;
    let mut ended = ptr::null_mut();
    // SAFETY: The node outlives the thread, which is joined.
    unsafe {
        // Cancellation may unwind it, which the type that libc has for it does not say.
        let start: Start = core::mem::transmute(wait as extern "C-unwind" fn(*mut c_void) -> *mut c_void);
        assert_eq!(libc::pthread_create(&raw mut thread, ptr::null(), start, (&raw const two).cast_mut().cast()), 0);
        // Perhaps it waits by now, perhaps not: it is canceled in the call or right after it.
        std::thread::sleep(core::time::Duration::from_millis(20));
        assert_eq!(pthread_cancel(thread), 0);
        assert_eq!(one.send(b"last", 1), 0);
        one.next();
        assert_eq!(libc::pthread_join(thread, &raw mut ended), 0);
    }
    const CANCELED: usize = usize::MAX;
    assert_eq!(ended.addr(), CANCELED);
    assert_eq!(&received, b"last");
}
