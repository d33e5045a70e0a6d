//! Address vectors, as C programs use them.

use core::ffi::{CStr, c_char, c_void};
use core::mem::zeroed;
use core::ptr;

use crate::support::*;
use weft_libfabric::abi::errno::*;
use weft_libfabric::abi::*;

/// `192.0.2.x:port`
fn four(last: u8, port: u16) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    bytes[4..8].copy_from_slice(&[192, 0, 2, last]);
    bytes
}

fn insert(node: &Node, addresses: &[[u8; 16]], places: &mut [fi_addr_t], flags: u64, context: *mut c_void) -> i32 {
    call!(node.vector, ops, insert, addresses.as_ptr().cast(), addresses.len(), places.as_mut_ptr(), flags, context)
}

fn lookup(node: &Node, place: fi_addr_t) -> Result<[u8; 16], i32> {
    let (mut bytes, mut length) = ([0; 16], 16);
    match call!(node.vector, ops, lookup, place, bytes.as_mut_ptr().cast(), &raw mut length) {
        0 => Ok(bytes),
        code => Err(-code),
    }
}

#[test]
fn inserted_looked_up_and_removed() {
    let node = Node::disabled(Wishes::default());
    let addresses = [four(1, 1), four(2, 2), four(3, 3)];
    let mut places = [9; 3];
    assert_eq!(insert(&node, &addresses, &mut places, 0, ptr::null_mut()), 3);
    assert_eq!(places, [0, 1, 2], "places in the table");
    assert_eq!(lookup(&node, 1), Ok(addresses[1]));
    assert_eq!(lookup(&node, 3), Err(FI_EINVAL));
    assert_eq!(call!(node.vector, ops, remove, (&raw mut places[1]), 1, 0), 0);
    assert_eq!(lookup(&node, 1), Err(FI_EINVAL));
    assert_eq!(call!(node.vector, ops, remove, (&raw mut places[1]), 1, 0), -FI_EINVAL, "it is removed once");
    assert_eq!(call!(node.vector, ops, remove, ptr::null_mut(), 1, 0), -FI_EINVAL);
    assert_eq!(insert(&node, &[four(4, 4)], &mut places, 0, ptr::null_mut()), 1);
    assert_eq!((places[0], lookup(&node, 1)), (1, Ok(four(4, 4))), "a place that was given up is used again");
}

#[test]
fn addresses_that_are_none_are_marked() {
    let node = Node::disabled(Wishes::default());
    let mut other = four(1, 1);
    other[..2].fill(0xff);
    let addresses = [four(1, 1), four(2, 0), other, four(3, 3)];
    let (mut places, mut errors) = ([9; 4], [9; 4]);
    assert_eq!(insert(&node, &addresses, &mut places, FI_SYNC_ERR, errors.as_mut_ptr().cast()), 2);
    assert_eq!(places, [0, FI_ADDR_NOTAVAIL, FI_ADDR_NOTAVAIL, 1]);
    assert_eq!(errors, [0, FI_EADDRNOTAVAIL, FI_EINVAL, 0]);
    assert_eq!(insert(&node, &addresses, &mut places, FI_AV_USER_ID, ptr::null_mut()), -FI_EBADFLAGS);
    assert_eq!(call!(node.vector, ops, insert, ptr::null(), 1, places.as_mut_ptr(), 0, ptr::null_mut()), -FI_EINVAL);
}

#[test]
fn nodes_and_services() {
    let node = Node::disabled(Wishes::default());
    let mut places = [9; 4];
    let names = (c"192.0.2.9".as_ptr(), c"5000".as_ptr());
    let one = call!(node.vector, ops, insertsvc, names.0, names.1, places.as_mut_ptr(), 0, ptr::null_mut());
    assert_eq!((one, lookup(&node, 0)), (1, Ok(four(9, 5000))));
    let all = call!(node.vector, ops, insertsym, names.0, 2, names.1, 2, places.as_mut_ptr(), 0, ptr::null_mut());
    assert_eq!((all, places), (4, [1, 2, 3, 4]));
    let expected = [four(9, 5000), four(9, 5001), four(10, 5000), four(10, 5001)];
    assert_eq!(places.map(|place| lookup(&node, place).unwrap()), expected);
    let text = c"fi_sockaddr_in://192.0.2.7:7".as_ptr();
    assert_eq!(call!(node.vector, ops, insertsvc, text, ptr::null(), places.as_mut_ptr(), 0, ptr::null_mut()), 1);
    assert_eq!(lookup(&node, places[0]), Ok(four(7, 7)));
    assert_eq!(call!(node.vector, ops, insertsvc, ptr::null(), names.1, places.as_mut_ptr(), 0, ptr::null_mut()), 0);
}

#[test]
fn addresses_as_words() {
    let node = Node::disabled(Wishes::default());
    let address = four(8, 80);
    let describe = |room: usize| {
        let (mut text, mut length) = ([0x55 as c_char; 64], room);
        let start = text.as_mut_ptr();
        assert_eq!(
            call!(node.vector, ops, straddr, address.as_ptr().cast(), start, &raw mut length),
            start.cast_const()
        );
        assert_eq!(text[room..], [0x55; 64][room..], "nothing behind the room");
        // SAFETY: It ends within the room.
        (unsafe { CStr::from_ptr(start) }.to_str().unwrap().to_owned(), length)
    };
    assert_eq!(describe(64), ("fi_sockaddr_in://192.0.2.8:80".into(), 30));
    assert_eq!(describe(10), ("fi_sockad".into(), 30));
}

#[test]
fn an_event_queue_is_told_what_became_of_it() {
    let node = Node::unbound(Wishes::default());
    // SAFETY: Zeros are these attributes and entries.
    let (mut attributes, mut queues): (fi_av_attr, fi_eq_attr) = unsafe { zeroed() };
    attributes.flags = FI_EVENT;
    let (mut vector, mut queue) = (ptr::null_mut(), ptr::null_mut());
    assert_eq!(call!(node.domain, ops, av_open, &raw mut attributes, &raw mut vector, ptr::null_mut()), 0);
    assert_eq!(call!(node.fabric, ops, eq_open, &raw mut queues, &raw mut queue, ptr::null_mut()), 0);
    let (addresses, mut places) = ([four(1, 0), four(2, 2)], [9; 2]);
    let insert = |places: &mut [fi_addr_t]| {
        call!(vector, ops, insert, addresses.as_ptr().cast(), 2, places.as_mut_ptr(), 0, at(5))
    };
    assert_eq!(insert(&mut places), -FI_ENOEQ);
    assert_eq!(control!(vector, bind, queue.cast(), 0), 0);
    assert_eq!(insert(&mut places), 0);

    // SAFETY: Zeros are these entries.
    let (mut failure, mut entry): (fi_eq_err_entry, fi_eq_entry) = unsafe { zeroed() };
    let mut event = 99;
    let mut read = || call!(queue, ops, read, &raw mut event, (&raw mut entry).cast(), size_of::<fi_eq_entry>(), 0);
    assert_eq!(read(), EAVAIL);
    assert_eq!(call!(queue, ops, readerr, &raw mut failure, 0), size_of::<fi_eq_err_entry>() as isize);
    assert_eq!((failure.data, failure.err, failure.context), (0, FI_EADDRNOTAVAIL, at(5)));
    assert_eq!(read(), size_of::<fi_eq_entry>() as isize);
    assert_eq!((event, entry.data, entry.context, entry.fid), (FI_AV_COMPLETE, 1, at(5), vector.cast()));
    assert_eq!(places, [FI_ADDR_NOTAVAIL, 0]);
    assert_eq!((control!(vector, close), control!(queue, close)), (0, 0));
}
