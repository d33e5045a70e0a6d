//! Counters of peers' operations (`FI_RMA_EVENT`), as C programs use them.

use core::ffi::c_int;
use core::mem::zeroed;
use core::ptr;

use crate::support::*;
use weft_libfabric::abi::errno::*;
use weft_libfabric::abi::*;

const ALL: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;
/// Time limit of any count in milliseconds.
const LONG_MS: c_int = 120_000;

/// At addresses that are valid for atomic operations.
#[repr(align(8))]
struct Aligned([u8; 64]);

fn wishes() -> Wishes {
    let caps = Wishes::default().caps | FI_RMA_EVENT;
    Wishes { caps, transmit_flags: FI_DELIVERY_COMPLETE, ..Wishes::default() }
}

fn counter(node: &Node) -> *mut fid_cntr {
    let mut counter = ptr::null_mut();
    // SAFETY: A plain C structure, for which zeros are values.
    let mut attributes: fi_cntr_attr = unsafe { zeroed() };
    attributes.wait_obj = FI_WAIT_UNSPEC;
    assert_eq!(call!(node.domain, ops, cntr_open, &raw mut attributes, &raw mut counter, ptr::null_mut()), 0);
    counter
}

/// Waits until the counter has reached this count, and returns its count.
fn wait(counter: *mut fid_cntr, count: u64) -> u64 {
    assert_eq!(call!(counter, ops, wait, count, LONG_MS), 0);
    call!(counter, ops, read)
}

fn enable(node: &Node) {
    assert_eq!(control!(node.endpoint, control, FI_ENABLE, ptr::null_mut()), 0);
}

fn close(objects: &[*mut fid]) {
    for object in objects {
        assert_eq!(control!(*object, close), 0);
    }
}

/// One without counters, and one whose endpoint counts peers' reads and writes separately.
fn watched() -> (Node, Node, [*mut fid_cntr; 2]) {
    let (mut one, mut two) = (Node::new(Wishes { ..wishes() }), Node::disabled(wishes()));
    let counters = [counter(&two), counter(&two)];
    for (counter, flag) in counters.into_iter().zip([FI_REMOTE_READ, FI_REMOTE_WRITE]) {
        assert_eq!(control!(two.endpoint, bind, counter.cast(), flag), 0);
    }
    enable(&two);
    one.know(&two);
    two.know(&one);
    (one, two, counters)
}

/// Closes the endpoint, and then its counters.
fn end(mut node: Node, counters: [*mut fid_cntr; 2]) {
    assert_eq!(control!(counters[0], close), -FI_EBUSY);
    assert_eq!(control!(node.endpoint, close), 0);
    node.endpoint = ptr::null_mut();
    close(&counters.map(|counter| counter.cast()));
}

fn write(node: &Node, bytes: &[u8], address: u64, key: u64) {
    let (start, length, none) = (bytes.as_ptr().cast(), bytes.len(), ptr::null_mut());
    assert_eq!(call!(node.endpoint, rma, write, start, length, none, node.peer, address, key, at(1)), 0);
    node.next();
}

fn atomic(node: &Node, datatype: fi_datatype, address: u64, key: u64) {
    let (operand, none) = (1u64, ptr::null_mut());
    let start = (&raw const operand).cast();
    let (peer, op) = (node.peer, FI_SUM);
    assert_eq!(call!(node.endpoint, atomic, write, start, 1, none, peer, address, key, datatype, op, at(1)), 0);
    node.next();
}

/// Sandia OpenSHMEM binds its counters of puts and gets after `fi_enable`, as the tcp, sockets and verbs providers
/// permit.
#[test]
fn counters_are_bound_before_and_after_an_endpoint_is_enabled() {
    let (mut one, mut two) = (Node::new(wishes()), Node::disabled(wishes()));
    let counters = [counter(&two), counter(&two)];
    assert_eq!(control!(two.endpoint, bind, counters[0].cast(), FI_REMOTE_READ), 0);
    enable(&two);
    assert_eq!(control!(two.endpoint, bind, counters[1].cast(), FI_REMOTE_WRITE), 0);
    assert_eq!(control!(two.endpoint, bind, counters[1].cast(), FI_REMOTE_WRITE), -FI_EINVAL, "it counts already");
    let own = [counter(&one), counter(&one)];
    for (counter, flag) in own.into_iter().zip([FI_SEND | FI_WRITE, FI_READ | FI_RECV]) {
        assert_eq!(control!(one.endpoint, bind, counter.cast(), flag), 0);
    }
    one.know(&two);
    two.know(&one);

    let mut memory = Aligned([0; 64]);
    let region = two.register(&mut memory.0, ALL);
    // SAFETY: A region that is open.
    let (address, key) = (memory.0.as_ptr().addr() as u64, unsafe { (*region).key });
    for written in 1..=3 {
        write(&one, &[7; 8], address, key);
        assert_eq!(wait(counters[1], written), written);
        assert_eq!(wait(own[0], written), written);
    }
    let mut read = [0u8; 8];
    let (into, none) = (read.as_mut_ptr().cast(), ptr::null_mut());
    assert_eq!(call!(one.endpoint, rma, read, into, 8, none, one.peer, address, key, at(1)), 0);
    one.next();
    assert_eq!(wait(own[1], 1), 1);
    assert_eq!((wait(counters[0], 1), read), (1, [7; 8]));

    end(one, own);
    close(&[region.cast()]);
    end(two, counters);
}

#[test]
fn each_operation_of_a_peer_counts_once() {
    let (one, two, [reads, writes]) = watched();
    let mut memory = Aligned([0; 64]);
    let region = two.register(&mut memory.0, ALL);
    // SAFETY: A region that is open.
    let (address, key) = (memory.0.as_ptr().addr() as u64, unsafe { (*region).key });

    write(&one, b"short", address, key);
    assert_eq!(wait(writes, 1), 1);
    let (text, none) = (*b"data", ptr::null_mut());
    let start = text.as_ptr().cast();
    assert_eq!(call!(one.endpoint, rma, writedata, start, 4, none, 5, one.peer, address, key, at(1)), 0);
    one.next();
    assert_eq!((wait(writes, 2), two.next().data), (2, 5));
    // One that RFC 7306 has, and one that is sent as a call.
    atomic(&one, FI_UINT64, address, key);
    assert_eq!(wait(writes, 3), 3);
    atomic(&one, FI_UINT16, address, key);
    assert_eq!(wait(writes, 4), 4);
    let mut back = [0u8; 16];
    let into = back.as_mut_ptr().cast();
    assert_eq!(call!(one.endpoint, rma, read, into, 16, none, one.peer, address, key, at(2)), 0);
    one.next();
    assert_eq!((wait(reads, 1), wait(writes, 4)), (1, 4));

    // Refused operations count nothing, nor does anything that is no peer's access to registered memory.
    assert_eq!(call!(one.endpoint, rma, read, into, 16, none, one.peer, address + 60, key, at(2)), 0);
    one.next_failure();
    assert_eq!((call!(reads, ops, read), call!(writes, ops, read)), (1, 4));
    close(&[region.cast()]);
    end(two, [reads, writes]);
}

#[test]
fn a_write_of_many_segments_counts_when_it_is_there_and_messages_do_not() {
    let (one, two, [reads, writes]) = watched();
    let mut memory = vec![0u8; 1_000_000];
    let region = two.register(&mut memory, ALL);
    // SAFETY: A region that is open.
    let (address, key) = (memory.as_ptr().addr() as u64, unsafe { (*region).key });
    let sent: Vec<u8> = (0..memory.len()).map(|at| (at * 7) as u8).collect();
    for round in 1..=3 {
        memory.fill(0);
        let (start, length, none) = (sent.as_ptr().cast(), sent.len(), ptr::null_mut());
        assert_eq!(call!(one.endpoint, rma, write, start, length, none, one.peer, address, key, at(1)), 0);
        assert_eq!(wait(writes, round), round);
        assert!(*core::hint::black_box(&mut memory) == sent, "it is there when it is counted");
        one.next();
    }
    // The protocol reads or writes a long message out of and into memory of its own.
    let mut received = vec![0u8; 1_000_000];
    assert_eq!(two.receive(&mut received, 2), 0);
    assert_eq!(one.send(&sent, 1), 0);
    two.next_with(&[&one]);
    one.next_with(&[&two]);
    assert!(received == sent);
    assert_eq!((call!(reads, ops, read), call!(writes, ops, read)), (0, 3));
    close(&[region.cast()]);
    end(two, [reads, writes]);
}

#[test]
fn an_endpoint_counts_what_came_to_it_and_a_region_what_was_done_to_it() {
    let (mut one, two, [reads, writes]) = watched();
    let (mut memory, mut other) = ([0u8; 8], [0u8; 8]);
    let regions = [two.register(&mut memory, ALL), two.register(&mut other, ALL)];
    let of_region = counter(&two);
    assert_eq!(control!(regions[0], bind, of_region.cast(), FI_REMOTE_WRITE), 0);
    // One counter for each direction.
    assert_eq!(control!(regions[0], bind, of_region.cast(), FI_REMOTE_WRITE), -FI_EINVAL);
    assert_eq!(control!(regions[1], bind, of_region.cast(), FI_SEND), -FI_EBADFLAGS);
    let mut second = ptr::null_mut();
    assert_eq!(call!(two.domain, ops, endpoint, two.info, &raw mut second, ptr::null_mut()), 0);
    assert_eq!(control!(second, bind, two.queue.cast(), FI_TRANSMIT | FI_RECV), 0);
    assert_eq!(control!(second, bind, two.vector.cast(), 0), 0);
    assert_eq!(control!(second, control, FI_ENABLE, ptr::null_mut()), 0);

    // SAFETY: Regions that are open.
    let [first_key, other_key] = regions.map(|region| unsafe { (*region).key });
    let (first, other_place) = (memory.as_ptr().addr() as u64, other.as_ptr().addr() as u64);
    write(&one, b"a", first, first_key);
    write(&one, b"b", other_place, other_key);
    assert_eq!((wait(writes, 2), wait(of_region, 1)), (2, 1));
    one.know_endpoint(second);
    write(&one, b"c", first, first_key);
    assert_eq!((wait(of_region, 2), call!(writes, ops, read)), (2, 2));
    assert_eq!(call!(reads, ops, read), 0);
    assert_eq!(control!(of_region, close), -FI_EBUSY);
    close(&[second.cast(), regions[0].cast(), regions[1].cast(), of_region.cast()]);
    end(two, [reads, writes]);
}

#[test]
fn an_endpoint_counts_what_it_does_to_itself() {
    let (_one, mut two, [reads, writes]) = watched();
    let mut memory = Aligned([0; 64]);
    let region = two.register(&mut memory.0, ALL);
    // SAFETY: A region that is open.
    let (address, key) = (memory.0.as_ptr().addr() as u64, unsafe { (*region).key });
    two.know_endpoint(two.endpoint);
    write(&two, b"self", address, key);
    atomic(&two, FI_UINT64, address, key);
    assert_eq!((wait(writes, 2), call!(reads, ops, read)), (2, 0));
    close(&[region.cast()]);
    end(two, [reads, writes]);
}

#[test]
fn without_a_request_there_are_none() {
    let node = Node::disabled(Wishes::default());
    let counter = counter(&node);
    assert_eq!(control!(node.endpoint, bind, counter.cast(), FI_REMOTE_WRITE), -FI_EBADFLAGS);
    let mut memory = [0u8; 8];
    let region = node.register(&mut memory, ALL);
    assert_eq!(control!(region, bind, counter.cast(), FI_REMOTE_WRITE), -FI_EINVAL);
    close(&[region.cast(), counter.cast()]);

    let node = Node::disabled(wishes());
    let (mut memory, mut region) = ([0u8; 8], ptr::null_mut());
    // SAFETY: Memory that outlives the region.
    let status = unsafe {
        let reg = (*(*node.domain).mr).reg.unwrap();
        let start = memory.as_mut_ptr().cast_const().cast();
        reg(node.domain.cast(), start, 8, ALL, 0, 0, FI_RMA_EVENT, &raw mut region, ptr::null_mut())
    };
    assert_eq!(status, 0);
    close(&[region.cast()]);
}
