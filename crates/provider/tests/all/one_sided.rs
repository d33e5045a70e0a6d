//! Reads, writes and atomic operations, as C programs do them.

use core::ffi::c_void;
use core::mem::zeroed;
use core::ptr;

use crate::support::*;
use weft_libfabric::abi::errno::*;
use weft_libfabric::abi::*;

const ALL: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;

/// A peer's view of a region.
fn place(memory: &[u8], region: *mut fid_mr) -> (u64, u64) {
    // SAFETY: A region that is open.
    (memory.as_ptr().addr() as u64, unsafe { (*region).key })
}

/// The bytes that the peers of a test have written, unknown to the compiler.
fn seen(memory: &mut [u8]) -> &[u8] {
    core::hint::black_box(memory)
}

fn write(node: &Node, bytes: &[u8], (address, key): (u64, u64)) -> isize {
    let (start, length, none) = (bytes.as_ptr().cast(), bytes.len(), ptr::null_mut());
    call!(node.endpoint, rma, write, start, length, none, node.peer, address, key, at(1))
}

fn read(node: &Node, bytes: &mut [u8], (address, key): (u64, u64)) -> isize {
    let (start, length, none) = (bytes.as_mut_ptr().cast(), bytes.len(), ptr::null_mut());
    call!(node.endpoint, rma, read, start, length, none, node.peer, address, key, at(2))
}

#[test]
fn written_and_read_back() {
    let (one, two) = pair(Wishes { transmit_flags: FI_DELIVERY_COMPLETE, ..Wishes::default() });
    for length in [1, 8, 5000, 100_000, 3_000_000] {
        let mut memory = vec![0; length];
        let region = two.register(&mut memory, ALL);
        let there = place(&memory, region);
        let sent: Vec<u8> = (0..length).map(|at| (at * 3) as u8).collect();
        assert_eq!(write(&one, &sent, there), 0);
        let entry = one.next_with(&[&two]);
        assert_eq!((entry.flags, entry.op_context), (FI_RMA | FI_WRITE, at(1)));
        assert!(seen(&mut memory) == sent, "{length} bytes");
        let mut back = vec![0; length];
        assert_eq!(read(&one, &mut back, there), 0);
        let entry = one.next_with(&[&two]);
        assert_eq!((entry.flags, entry.op_context), (FI_RMA | FI_READ, at(2)));
        assert!(back == sent, "{length} bytes");
        assert_eq!(control!(region, close), 0);
    }
}

#[test]
fn a_target_that_never_calls_in_is_served() {
    let (one, two) = pair(Wishes::default());
    let mut memory = *b"silent target";
    let region = two.register(&mut memory, ALL);
    let mut back = [0; 13];
    assert_eq!(read(&one, &mut back, place(&memory, region)), 0);
    assert_eq!(one.next().op_context, at(2));
    assert_eq!(&back, b"silent target");
    assert_eq!(control!(region, close), 0);
}

#[test]
fn all_ways_to_write() {
    let (one, two) = pair(Wishes { transmit_flags: FI_DELIVERY_COMPLETE, ..Wishes::default() });
    let mut memory = [0u8; 16];
    let region = two.register(&mut memory, ALL);
    let (address, key) = place(&memory, region);
    let text = *b"four";
    let (start, none, peer) = (text.as_ptr().cast(), ptr::null_mut::<c_void>(), one.peer);
    let out = pieces([&text[..1], &text[1..]]);
    let remote = fi_rma_iov { addr: address, len: 4, key };
    // SAFETY: A plain C structure.
    let message = fi_msg_rma {
        msg_iov: out.as_ptr(),
        iov_count: 2,
        addr: peer,
        rma_iov: &raw const remote,
        rma_iov_count: 1,
        context: at(1),
        data: 6,
        ..unsafe { zeroed() }
    };
    let both = FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE;
    // Each with the immediate data that the target gets, and whether this side gets a completion.
    let writes: [(&dyn Fn() -> isize, u64, bool); 5] = [
        (&|| call!(one.endpoint, rma, writev, out.as_ptr(), none.cast(), 2, peer, address, key, at(1)), 0, true),
        (&|| call!(one.endpoint, rma, writemsg, &raw const message, both), 6, true),
        (&|| call!(one.endpoint, rma, writedata, start, 4, none, 5, peer, address, key, at(1)), 5, true),
        (&|| call!(one.endpoint, rma, injectdata, start, 4, 7, peer, address, key), 7, false),
        (&|| call!(one.endpoint, rma, inject, start, 4, peer, address, key), 0, false),
    ];
    for (write, data, shown) in writes {
        memory.fill(0);
        assert_eq!(write(), 0);
        if shown {
            assert_eq!(one.next_with(&[&two]).flags, FI_RMA | FI_WRITE);
        }
        if data != 0 {
            let entry = two.next_with(&[&one]);
            let flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA;
            assert_eq!((entry.flags, entry.data, entry.len, entry.op_context), (flags, data, 4, ptr::null_mut()));
        }
        while seen(&mut memory)[..4] != text {
            one.progress();
            two.progress();
        }
    }
    let mut wrong = message;
    wrong.rma_iov_count = 5;
    assert_eq!(call!(one.endpoint, rma, writemsg, &raw const wrong, 0), code(FI_EINVAL));
    assert_eq!(control!(region, close), 0);
}

#[test]
fn rights_and_bounds_hold() {
    let (one, two) = pair(Wishes { transmit_flags: FI_DELIVERY_COMPLETE, ..Wishes::default() });
    let (mut memory, mut back) = ([1u8; 8], [0u8; 8]);
    let region = two.register(&mut memory, FI_REMOTE_READ);
    let (address, key) = place(&memory, region);
    let denied = || {
        let failure = one.next_failure();
        assert_eq!(failure.entry.err, FI_EACCES, "{}", failure.words);
    };
    assert_eq!(write(&one, &[2; 8], (address, key)), 0);
    denied();
    assert_eq!(read(&one, &mut back, (address + 1, key)), 0);
    denied();
    assert_eq!(read(&one, &mut back, (address, key ^ 0x55)), 0);
    denied();
    assert_eq!(read(&one, &mut back, (address, 1 << 40)), code(FI_EKEYREJECTED));
    // Valid operations still work.
    assert_eq!(read(&one, &mut back, (address, key)), 0);
    one.next_with(&[&two]);
    assert_eq!((back, memory), ([1; 8], [1; 8]));
    assert_eq!(control!(region, close), 0);
    assert_eq!(read(&one, &mut back, (address, key)), 0);
    denied();
}

/// An atomic operation on one 64-bit element.
struct Element<'a> {
    node: &'a Node,
    there: (u64, u64),
}

impl Element<'_> {
    fn base(&self, op: fi_op, operand: u64) {
        let (start, none, peer) = ((&raw const operand).cast(), ptr::null_mut(), self.node.peer);
        let (endpoint, (address, key)) = (self.node.endpoint, self.there);
        assert_eq!(call!(endpoint, atomic, write, start, 1, none, peer, address, key, FI_UINT64, op, at(1)), 0);
        assert_eq!(self.node.next().flags, FI_ATOMIC | FI_WRITE);
    }

    fn fetch(&self, op: fi_op, operand: u64) -> u64 {
        let (mut result, none, peer) = (0u64, ptr::null_mut::<c_void>(), self.node.peer);
        let (start, into) = ((&raw const operand).cast(), (&raw mut result).cast());
        let (endpoint, (address, key)) = (self.node.endpoint, self.there);
        let status =
            call!(endpoint, atomic, readwrite, start, 1, none, into, none, peer, address, key, FI_UINT64, op, at(1));
        assert_eq!(status, 0);
        assert_eq!(self.node.next().flags, FI_ATOMIC | FI_READ);
        core::hint::black_box(result)
    }

    fn compare(&self, op: fi_op, operand: u64, compare: u64) -> u64 {
        let (mut result, none, peer) = (0u64, ptr::null_mut::<c_void>(), self.node.peer);
        let (start, with) = ((&raw const operand).cast(), (&raw const compare).cast());
        let (into, endpoint, (address, key)) = ((&raw mut result).cast(), self.node.endpoint, self.there);
        #[rustfmt::skip]
        let status = call!(
            endpoint, atomic, compwrite, start, 1, none, with, none, into, none, peer, address, key, FI_UINT64, op,
            at(1)
        );
        assert_eq!(status, 0);
        assert_eq!(self.node.next().flags, FI_ATOMIC | FI_READ);
        core::hint::black_box(result)
    }
}

#[test]
fn atomics_of_each_family() {
    let (one, two) = pair(Wishes { transmit_flags: FI_DELIVERY_COMPLETE, ..Wishes::default() });
    let mut memory = 10u64.to_ne_bytes().repeat(2);
    // An aligned element among them.
    let aligned = memory.as_ptr().align_offset(8);
    memory[aligned..aligned + 8].copy_from_slice(&10u64.to_ne_bytes());
    let region = two.register(&mut memory, ALL);
    let (address, key) = place(&memory[aligned..], region);
    let element = Element { node: &one, there: (address, key) };
    element.base(FI_SUM, 5);
    assert_eq!(element.fetch(FI_PROD, 2), 15);
    assert_eq!(element.fetch(FI_ATOMIC_READ, 0), 30);
    assert_eq!(element.compare(FI_CSWAP, 7, 31), 30);
    assert_eq!(element.compare(FI_CSWAP, 7, 30), 30);
    assert_eq!(element.compare(FI_MSWAP, 0xf0, 0xf0), 7);
    element.base(FI_ATOMIC_WRITE, 3);
    assert_eq!(element.fetch(FI_BXOR, 1), 3);
    assert_eq!(element.fetch(FI_SUM, 1), 2);
    assert_eq!(control!(region, close), 0);
}

#[test]
fn atomics_on_many_elements_in_pieces() {
    let (one, two) = pair(Wishes { transmit_flags: FI_DELIVERY_COMPLETE, ..Wishes::default() });
    let mut memory: Vec<f64> = (0..100).map(f64::from).collect();
    let bytes = ptr::slice_from_raw_parts_mut(memory.as_mut_ptr().cast::<u8>(), 800);
    // SAFETY: The bytes of the elements.
    let region = two.register(unsafe { &mut *bytes }, ALL);
    // SAFETY: A region that is open.
    let (address, key) = (memory.as_ptr().addr() as u64, unsafe { (*region).key });
    let (mut first, mut second, mut old) = ([1.0f64; 40], [2.0f64; 60], [0.0f64; 100]);
    let operands =
        [fi_ioc { addr: first.as_mut_ptr().cast(), count: 40 }, fi_ioc { addr: second.as_mut_ptr().cast(), count: 60 }];
    let mut result = [fi_ioc { addr: old.as_mut_ptr().cast(), count: 100 }];
    let remote = fi_rma_ioc { addr: address, count: 100, key };
    // SAFETY: A plain C structure.
    let mut message = fi_msg_atomic {
        msg_iov: operands.as_ptr(),
        iov_count: 2,
        addr: one.peer,
        rma_iov: &raw const remote,
        rma_iov_count: 1,
        datatype: FI_DOUBLE,
        op: FI_SUM,
        context: at(1),
        ..unsafe { zeroed() }
    };
    let none = ptr::null_mut();
    let post = |message: &fi_msg_atomic, result: &mut [fi_ioc]| {
        call!(one.endpoint, atomic, readwritemsg, ptr::from_ref(message), result.as_mut_ptr(), none, 1, 0)
    };
    assert_eq!(post(&message, &mut result), 0);
    one.next_with(&[&two]);
    let old = core::hint::black_box(&mut old);
    assert!((0..100).all(|number| old[number] == number as f64));
    let memory = core::hint::black_box(&mut memory);
    assert!((0..100).all(|number| memory[number] == number as f64 + if number < 40 { 1.0 } else { 2.0 }));
    // Lengths that do not match, and unsupported operations.
    let mut short = [fi_ioc { addr: old.as_mut_ptr().cast(), count: 99 }];
    assert_eq!(post(&message, &mut short), code(FI_EINVAL));
    message.op = FI_BOR;
    assert_eq!(post(&message, &mut result), code(FI_EOPNOTSUPP));
    assert_eq!(control!(region, close), 0);
}

#[test]
fn what_there_is_can_be_asked() {
    let (one, _two) = pair(Wishes::default());
    let mut count = 0;
    assert_eq!(call!(one.endpoint, atomic, writevalid, FI_INT32, FI_SUM, &raw mut count), 0);
    assert!(count >= 1024);
    assert_eq!(call!(one.endpoint, atomic, readwritevalid, FI_INT32, FI_ATOMIC_READ, &raw mut count), 0);
    assert_eq!(call!(one.endpoint, atomic, compwritevalid, FI_DOUBLE, FI_CSWAP_GE, &raw mut count), 0);
    let refused = -FI_EOPNOTSUPP;
    assert_eq!(call!(one.endpoint, atomic, writevalid, FI_LONG_DOUBLE, FI_SUM, &raw mut count), refused);
    assert_eq!(call!(one.endpoint, atomic, writevalid, FI_INT32, FI_ATOMIC_READ, &raw mut count), refused);
    assert_eq!(call!(one.endpoint, atomic, compwritevalid, FI_INT32, FI_SUM, &raw mut count), refused);
    let mut attributes = fi_atomic_attr { count: 0, size: 0 };
    let mut query =
        |datatype, op, flags| call!(one.domain, ops, query_atomic, datatype, op, &raw mut attributes, flags);
    assert_eq!(query(FI_DOUBLE_COMPLEX, FI_SUM, 0), 0);
    assert_eq!(query(FI_INT8, FI_CSWAP, FI_COMPARE_ATOMIC), 0);
    assert_eq!(query(FI_INT8, FI_SUM, FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC), -FI_EINVAL);
    assert_eq!(query(FI_INT8, FI_SUM, FI_TAGGED), refused);
    assert_eq!(attributes.size, 1);
}

#[test]
fn regions_that_cannot_be() {
    let (one, _two) = pair(Wishes::default());
    let (mut memory, mut region) = ([0u8; 8], ptr::null_mut());
    let start: *const c_void = memory.as_mut_ptr().cast();
    let reg = |start: *const c_void, length, access, offset, flags, region: *mut *mut fid_mr| {
        // SAFETY: Memory that outlives the region, or NULL.
        unsafe {
            let reg = (*(*one.domain).mr).reg.unwrap();
            reg(one.domain.cast(), start, length, access, offset, 0, flags, region, ptr::null_mut())
        }
    };
    assert_eq!(reg(ptr::null(), 8, ALL, 0, 0, &raw mut region), -FI_EINVAL);
    assert_eq!(reg(start, 0, ALL, 0, 0, &raw mut region), -FI_EINVAL);
    assert_eq!(reg(start, 8, ALL | FI_COLLECTIVE, 0, 0, &raw mut region), -FI_EINVAL);
    assert_eq!(reg(start, 8, ALL, 4, 0, &raw mut region), -FI_EINVAL);
    assert_eq!(reg(start, 8, ALL, 0, FI_RMA_EVENT, &raw mut region), -FI_EBADFLAGS);
    assert_eq!(reg(start, 8, ALL, 0, 0, ptr::null_mut()), -FI_EINVAL);
    let attributes = pieces([&memory[..4], &memory[4..]]);
    // SAFETY: A plain C structure.
    let attributes = fi_mr_attr { mr_iov: attributes.as_ptr(), iov_count: 2, access: ALL, ..unsafe { zeroed() } };
    // SAFETY: Attributes, and room for an address.
    let status = unsafe {
        let regattr = (*(*one.domain).mr).regattr.unwrap();
        regattr(one.domain.cast(), &raw const attributes, 0, &raw mut region)
    };
    assert_eq!(status, 0);
    assert_eq!(control!(region, bind, one.endpoint.cast(), 0), 0);
    assert_eq!(control!(region, control, FI_ENABLE, ptr::null_mut()), 0);
    assert_eq!(control!(one.domain, close), -FI_EBUSY);
    assert_eq!(control!(region, close), 0);
}

#[test]
fn a_write_comes_behind_what_was_sent_before_it() {
    const SENDS: usize = 30;
    let (one, two) = pair(Wishes { transmit_flags: 0, ..Wishes::default() });
    let (mut memory, text) = ([0u8; 8], *b"order");
    let region = two.register(&mut memory, FI_REMOTE_WRITE);
    // SAFETY: A region that is there.
    let key = unsafe { (*region).key };
    let (address, start, none) = (memory.as_ptr().addr() as u64, text.as_ptr().cast(), ptr::null_mut());
    for round in 0..20 {
        let mut received = [0; 8];
        for _ in 0..SENDS {
            assert_eq!(two.receive(&mut received, 2), 0);
        }
        // Posted without polling completions: the later ones wait to be sent together.
        for _ in 0..SENDS {
            assert_eq!(one.send(&text, 1), 0);
        }
        assert_eq!(call!(one.endpoint, rma, writedata, start, 5, none, round, one.peer, address, key, at(3)), 0);
        for number in 0..SENDS {
            let entry = two.next_with(&[&one]);
            assert_eq!(entry.flags, FI_RECV | FI_MSG, "the write passed {} sends", SENDS - number);
        }
        let entry = two.next_with(&[&one]);
        assert_eq!((entry.flags & FI_REMOTE_WRITE, entry.data), (FI_REMOTE_WRITE, round));
        for _ in 0..=SENDS {
            one.next_with(&[&two]);
        }
    }
    assert_eq!(control!(region, close), 0);
}

#[test]
fn memory_of_a_peer_may_be_in_pieces() {
    let (one, two) = pair(Wishes { transmit_flags: FI_DELIVERY_COMPLETE, ..Wishes::default() });
    let (mut first, mut second) = ([0u8; 16], [0u8; 100_000]);
    let all = FI_REMOTE_WRITE | FI_REMOTE_READ;
    let regions = [two.register(&mut first, all), two.register(&mut second, all)];
    let text: Vec<u8> = (0..90_010u32).map(|at| (at * 7 + 3) as u8).collect();
    let mut back = vec![0u8; text.len()];
    let at_peer = |bytes: &[u8], from: usize, length, region: *mut fid_mr| {
        // SAFETY: A region that is there.
        fi_rma_iov { addr: bytes[from..].as_ptr().addr() as u64, len: length, key: unsafe { (*region).key } }
    };
    let remote = [
        at_peer(&second, 50, 45_000, regions[1]),
        at_peer(&first, 6, 10, regions[0]),
        at_peer(&second, 50_000, 45_000, regions[1]),
    ];
    let (out, into) = (pieces([&text[..7], &text[7..]]), pieces([&back]));
    let message = fi_msg_rma {
        msg_iov: out.as_ptr(),
        iov_count: 2,
        addr: one.peer,
        rma_iov: remote.as_ptr(),
        rma_iov_count: 3,
        context: at(1),
        data: 9,
        // SAFETY: A plain C structure.
        ..unsafe { zeroed() }
    };
    let flags = FI_DELIVERY_COMPLETE | FI_REMOTE_CQ_DATA;
    assert_eq!(call!(one.endpoint, rma, writemsg, &raw const message, flags), 0);
    assert_eq!(one.next_with(&[&two]).flags, FI_RMA | FI_WRITE);
    assert_eq!(two.next_with(&[&one]).data, 9);
    let (first, second) = (seen(&mut first), seen(&mut second));
    assert!(second[50..45_050] == text[..45_000] && first[6..] == text[45_000..45_010]);
    assert!(second[50_000..95_000] == text[45_010..] && first[..6] == [0; 6] && second[95_000..] == [0; 5000]);
    let read = fi_msg_rma { msg_iov: into.as_ptr(), iov_count: 1, ..message };
    assert_eq!(call!(one.endpoint, rma, readmsg, &raw const read, 0), 0);
    assert_eq!(one.next_with(&[&two]).flags, FI_RMA | FI_READ);
    assert!(*core::hint::black_box(&mut back) == text);
    // Another length than here.
    let short = fi_msg_rma { rma_iov_count: 2, ..message };
    assert_eq!(call!(one.endpoint, rma, writemsg, &raw const short, 0), code(FI_EINVAL));
    for region in regions {
        assert_eq!(control!(region, close), 0);
    }
}

#[repr(align(8))]
struct Aligned([u8; 8]);

#[test]
fn the_application_may_choose_keys_and_count_offsets() {
    let wishes = Wishes { registration: 0, transmit_flags: FI_DELIVERY_COMPLETE, ..Wishes::default() };
    let (one, two) = pair(wishes);
    // SAFETY: An info of the node.
    let domain = unsafe { &*(*two.info).domain_attr };
    assert_eq!((domain.mr_mode, domain.mr_key_size), (0, 4));
    // At an address that is valid for an atomic operation.
    let (mut memory, mut other) = (Aligned([0u8; 8]), [0u8; 8]);
    let memory = &mut memory.0;
    let region = two.register_as(memory, ALL, 0).unwrap();
    // SAFETY: A region that is open.
    assert_eq!(unsafe { (*region).key }, 0);
    assert_eq!(two.register_as(&mut other, ALL, 0), Err(-FI_ENOKEY));
    assert_eq!(two.register_as(&mut other, ALL, 1 << 32), Err(-FI_EKEYREJECTED));
    let highest = two.register_as(&mut other, ALL, u64::from(u32::MAX)).unwrap();
    // Each domain has keys of its own.
    let mut mine = [0u8; 8];
    let of_one = one.register_as(&mut mine, ALL, 0).unwrap();

    assert_eq!(write(&one, b"text", (2, 0)), 0);
    one.next_with(&[&two]);
    assert_eq!(write(&one, b"last", (4, u64::from(u32::MAX))), 0);
    one.next_with(&[&two]);
    assert_eq!((seen(memory), seen(&mut other)), (&b"\0\0text\0\0"[..], &b"\0\0\0\0last"[..]));
    let mut back = [0; 4];
    assert_eq!(read(&one, &mut back, (3, 0)), 0);
    one.next_with(&[&two]);
    assert_eq!(&back, b"ext\0");
    let element = Element { node: &one, there: (0, 0) };
    element.base(FI_ATOMIC_WRITE, 5);
    assert_eq!(element.fetch(FI_SUM, 1), 5);

    // The key of a closed region can be reused at once.
    assert_eq!(control!(region, close), 0);
    let again = two.register_as(memory, FI_REMOTE_READ, 0).unwrap();
    assert_eq!(read(&one, &mut back, (0, 0)), 0);
    one.next_with(&[&two]);
    assert_eq!(back, 6u64.to_ne_bytes()[..4]);
    for region in [again, highest, of_one] {
        assert_eq!(control!(region, close), 0);
    }
    assert_eq!(mine, [0; 8]);
}

#[test]
fn addresses_go_with_keys_of_the_application_and_offsets_with_the_providers() {
    for registration in [FI_MR_VIRT_ADDR, FI_MR_PROV_KEY, FI_MR_SCALABLE] {
        let wishes = Wishes { registration, transmit_flags: FI_DELIVERY_COMPLETE, ..Wishes::default() };
        let (one, two) = pair(wishes);
        let mut memory = [0u8; 8];
        let region = two.register_as(&mut memory, ALL, 77).unwrap();
        let (address, key) = place(&memory, region);
        let there = if registration == FI_MR_VIRT_ADDR { address } else { 0 };
        assert_eq!(key == 77, registration != FI_MR_PROV_KEY);
        assert_eq!(write(&one, b"text", (there + 4, key)), 0);
        one.next_with(&[&two]);
        assert_eq!(seen(&mut memory), b"\0\0\0\0text");
        assert_eq!(control!(region, close), 0);
    }
}
