//! The C functions as a program calls them, with both ends in this process: connections, work, errors.

mod ends;

use std::ffi::{c_int, c_void};
use std::ptr;
use std::time::{Duration, Instant};

use ends::{ALL_RIGHTS, Device, End, PATIENCE, connect, fill};
use weft_verbs::abi::*;
use weft_verbs::entry::*;

#[test]
fn messages_writes_reads_and_atomics() {
    let device = Device::open();
    let (mut one, mut other) = (End::new(&device), End::new(&device));
    fill(&mut one, 0, b"a message");
    fill(&mut one, 100, b"written");
    fill(&mut other, 500, b"read from there");
    fill(&mut other, 1024, &7u64.to_ne_bytes());
    connect(&one, &other);

    assert_eq!(other.post_receive(1, other.entry(2000, 64)), 0);
    assert_eq!(one.post(End::request(2, IBV_WR_SEND), one.entry(0, 9)), 0);
    let received = other.expect(1, IBV_WC_SUCCESS);
    assert_eq!((received.opcode, received.byte_len, received.src_qp), (IBV_WC_RECV, 9, one.number()));
    assert_eq!(other.bytes(2000, 9), b"a message");
    assert_eq!(one.expect(2, IBV_WC_SUCCESS).opcode, IBV_WC_SEND);

    assert_eq!(one.post_to(3, IBV_WR_RDMA_WRITE, one.entry(100, 7), other.remote(3000)), 0);
    assert_eq!(one.expect(3, IBV_WC_SUCCESS).opcode, IBV_WC_RDMA_WRITE);
    assert_eq!(other.bytes(3000, 7), b"written", "in place when it completes");

    assert_eq!(one.post_to(4, IBV_WR_RDMA_READ, one.entry(4000, 15), other.remote(500)), 0);
    let read = one.expect(4, IBV_WC_SUCCESS);
    assert_eq!((read.opcode, read.byte_len), (IBV_WC_RDMA_READ, 15));
    assert_eq!(one.bytes(4000, 15), b"read from there");

    let mut add = End::request(5, IBV_WR_ATOMIC_FETCH_AND_ADD);
    let (address, key) = other.remote(1024);
    add.wr = ibv_send_wr_remote { remote_addr: address, compare_add: 5, swap: 0, rkey: key };
    assert_eq!(one.post(add, one.entry(4096, 8)), 0);
    assert_eq!(one.expect(5, IBV_WC_SUCCESS).opcode, IBV_WC_FETCH_ADD);
    let mut swap = End::request(6, IBV_WR_ATOMIC_CMP_AND_SWP);
    swap.wr = ibv_send_wr_remote { remote_addr: address, compare_add: 12, swap: 99, rkey: key };
    assert_eq!(one.post(swap, one.entry(4104, 8)), 0);
    assert_eq!(one.expect(6, IBV_WC_SUCCESS).opcode, IBV_WC_COMP_SWAP);
    assert_eq!(one.bytes(4096, 16), [7u64.to_ne_bytes(), 12u64.to_ne_bytes()].concat());
    assert_eq!(other.bytes(1024, 8), 99u64.to_ne_bytes());

    assert_eq!(other.post_receive(7, other.entry(0, 0)), 0);
    let mut noted = End::request(8, IBV_WR_RDMA_WRITE_WITH_IMM);
    noted.imm_data = 0x1234_5678_u32.to_be();
    noted.wr.remote_addr = other.remote(5000).0;
    let [a, b, c, d] = key.to_ne_bytes();
    noted.wr.compare_add = u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]);
    assert_eq!(one.post(noted, one.entry(100, 7)), 0);
    let told = other.expect(7, IBV_WC_SUCCESS);
    assert_eq!((told.opcode, told.byte_len), (IBV_WC_RECV_RDMA_WITH_IMM, 7));
    assert_eq!((u32::from_be(told.imm_data), told.wc_flags & IBV_WC_WITH_IMM), (0x1234_5678, IBV_WC_WITH_IMM));
    one.expect(8, IBV_WC_SUCCESS);

    for (id, length, flags) in [(10, 0, 0), (12, 7, 0), (14, 7, IBV_SEND_INLINE), (16, 3000, IBV_SEND_SOLICITED)] {
        fill(&mut one, 0, &vec![id as u8; length]);
        assert_eq!(other.post_receive(id, other.entry(2000, 3000)), 0);
        let mut sent = End::request(id + 1, IBV_WR_SEND_WITH_IMM);
        sent.send_flags |= flags;
        sent.imm_data = (0x8000_0000 | length as u32).to_be();
        assert_eq!(one.post(sent, one.entry(0, length)), 0);
        let told = other.expect(id, IBV_WC_SUCCESS);
        assert_eq!((told.opcode, told.byte_len as usize, told.wc_flags), (IBV_WC_RECV, length, IBV_WC_WITH_IMM));
        assert_eq!(u32::from_be(told.imm_data), 0x8000_0000 | length as u32);
        assert_eq!(other.bytes(2000, length), vec![id as u8; length]);
        assert_eq!(one.expect(id + 1, IBV_WC_SUCCESS).opcode, IBV_WC_SEND);
    }
    one.destroy_all();
    other.destroy_all();
    device.close();
}

#[test]
fn inline_data_of_each_length_and_unsignaled_work() {
    let device = Device::open();
    let (mut one, other) = (End::new(&device), End::new(&device));
    connect(&one, &other);
    let lengths = [0usize, 1, 127, 128, 129, 500, 512];
    for (id, length) in lengths.into_iter().enumerate() {
        let bytes: Vec<u8> = (0..length).map(|at| (at + id) as u8).collect();
        fill(&mut one, 0, &bytes);
        assert_eq!(other.post_receive(id as u64, other.entry(1000, 600)), 0);
        let mut request = End::request(100 + id as u64, IBV_WR_SEND);
        request.send_flags = IBV_SEND_INLINE;
        if length == 512 {
            request.send_flags |= IBV_SEND_SIGNALED;
        }
        assert_eq!(one.post(request, one.entry(0, length)), 0);
        // Its bytes may be used again at once.
        fill(&mut one, 0, &vec![0xff; length]);
        assert_eq!(other.expect(id as u64, IBV_WC_SUCCESS).byte_len as usize, length);
        assert_eq!(other.bytes(1000, length), bytes, "{length} bytes");
    }
    assert_eq!(one.expect(106, IBV_WC_SUCCESS).opcode, IBV_WC_SEND);
    assert!(one.poll().is_none(), "work that is not signaled has no completion");
    // Several that the peer does not take yet have a place each.
    for id in 0..3u8 {
        fill(&mut one, 0, &[id; 300]);
        let mut request = End::request(id.into(), IBV_WR_SEND);
        request.send_flags |= IBV_SEND_INLINE;
        assert_eq!(one.post(request, one.entry(0, 300)), 0);
    }
    for id in 0..3u8 {
        assert_eq!(other.post_receive(id.into(), other.entry(1000 * usize::from(id), 300)), 0);
    }
    for id in 0..3u8 {
        other.expect(id.into(), IBV_WC_SUCCESS);
        assert_eq!(other.bytes(1000 * usize::from(id), 300), [id; 300]);
        one.expect(id.into(), IBV_WC_SUCCESS);
    }
    let mut long = End::request(1, IBV_WR_SEND);
    long.send_flags |= IBV_SEND_INLINE;
    assert_eq!(one.post(long, one.entry(0, 513)), libc::EINVAL);
    one.destroy_all();
    other.destroy_all();
    device.close();
}

#[test]
fn a_message_waits_for_its_receive_and_work_for_its_connection() {
    let device = Device::open();
    let (mut one, other) = (End::new(&device), End::new(&device));
    fill(&mut one, 0, b"early");
    one.initialize();
    one.receive_from(other.number());
    one.send_with(0);
    assert_eq!(one.post(End::request(1, IBV_WR_SEND), one.entry(0, 5)), 0);
    assert!(one.poll().is_none(), "the peer is not there yet");
    other.initialize();
    other.receive_from(one.number());
    for _ in 0..100 {
        assert!(one.poll().is_none(), "the peer has no receive yet");
    }
    assert_eq!(other.post_receive(2, other.entry(0, 16)), 0);
    other.expect(2, IBV_WC_SUCCESS);
    one.expect(1, IBV_WC_SUCCESS);
    assert_eq!(other.bytes(0, 5), b"early");
    one.destroy_all();
    other.destroy_all();
    device.close();
}

#[test]
fn a_queue_pair_is_connected_to_itself_and_again_after_a_reset() {
    let device = Device::open();
    let mut one = End::new(&device);
    fill(&mut one, 0, b"to myself");
    for round in 0..2 {
        one.initialize();
        one.receive_from(one.number());
        one.send_with(14);
        assert_eq!(one.post_receive(1, one.entry(100 + round, 16)), 0);
        assert_eq!(one.post(End::request(2, IBV_WR_SEND), one.entry(0, 9)), 0);
        let mut ids = [one.complete(), one.complete()].map(|done| (done.wr_id, done.status));
        ids.sort_unstable();
        assert_eq!(ids, [(1, IBV_WC_SUCCESS), (2, IBV_WC_SUCCESS)]);
        assert_eq!(one.bytes(100 + round, 9), b"to myself");
        assert_eq!(one.post_receive(3, one.entry(0, 16)), 0);
        let mut attr = ibv_qp_attr { qp_state: IBV_QPS_RESET, ..ibv_qp_attr::default() };
        assert_eq!(one.modify(&mut attr, IBV_QP_STATE), 0);
        assert!(one.poll().is_none(), "a reset flushes nothing");
    }
    one.destroy_all();
    device.close();
}

#[test]
fn what_is_wrong_with_memory_is_a_completion() {
    let device = Device::open();
    let ends = || (End::new(&device), End::new(&device));

    let (one, other) = ends();
    connect(&one, &other);
    assert_eq!(one.post_receive(9, one.entry(0, 8)), 0);
    let unknown = ibv_sge { lkey: one.key() ^ 1, ..one.entry(0, 8) };
    assert_eq!(one.post(End::request(1, IBV_WR_SEND), unknown), 0);
    one.expect(1, IBV_WC_LOC_PROT_ERR);
    one.expect(9, IBV_WC_WR_FLUSH_ERR);
    assert_eq!(one.state(), IBV_QPS_ERR);
    assert_eq!(one.post(End::request(2, IBV_WR_SEND), one.entry(0, 8)), 0);
    one.expect(2, IBV_WC_WR_FLUSH_ERR);
    one.destroy_all();
    other.destroy_all();

    let (one, other) = ends();
    connect(&one, &other);
    let (address, key) = other.remote(0);
    assert_eq!(one.post_to(1, IBV_WR_RDMA_WRITE, one.entry(0, 8), (address, key ^ 1)), 0);
    one.expect(1, IBV_WC_REM_ACCESS_ERR);
    let mut event = ibv_async_event { element: ptr::null_mut(), event_type: -1 };
    // SAFETY: An open device, and room for the event.
    unsafe {
        assert_eq!(weft_ibv_get_async_event(device.context, &raw mut event), 0);
        assert_eq!((event.event_type, event.element.cast()), (IBV_EVENT_QP_ACCESS_ERR, other.queue_pair));
        weft_ibv_ack_async_event(&raw mut event);
    }
    assert_eq!(other.state(), IBV_QPS_ERR);
    one.destroy_all();
    other.destroy_all();

    let (one, other) = ends();
    connect(&one, &other);
    assert_eq!(other.post_receive(1, other.entry(0, 4)), 0);
    assert_eq!(one.post(End::request(2, IBV_WR_SEND), one.entry(0, 8)), 0);
    other.expect(1, IBV_WC_LOC_LEN_ERR);
    one.expect(2, IBV_WC_REM_INV_REQ_ERR);
    one.destroy_all();
    other.destroy_all();
    device.close();
}

#[test]
fn a_region_that_changes_keeps_its_keys() {
    let device = Device::open();
    let (mut one, other) = (End::new(&device), End::new(&device));
    fill(&mut one, 0, b"elsewhere");
    connect(&one, &other);
    let (old, key) = other.remote(0);
    let mut place = vec![0u8; 64].into_boxed_slice();
    let change = |address: *mut c_void| {
        let flags = IBV_REREG_MR_CHANGE_TRANSLATION;
        // SAFETY: A region that nothing uses; memory that outlives it, or none.
        unsafe { weft_ibv_rereg_mr(other.region, flags, ptr::null_mut(), address, 64, 0) }
    };
    assert_eq!(change(ptr::without_provenance_mut(4096)), IBV_REREG_MR_ERR_INPUT);
    assert_eq!(one.post_to(1, IBV_WR_RDMA_WRITE, one.entry(0, 9), (old, key)), 0);
    one.expect(1, IBV_WC_SUCCESS);
    assert_eq!(other.bytes(0, 9), b"elsewhere", "as it was before");
    assert_eq!((change(place.as_mut_ptr().cast()), other.key()), (0, key));
    assert_eq!(one.post_to(2, IBV_WR_RDMA_WRITE, one.entry(0, 9), (place.as_ptr().addr() as u64, key)), 0);
    one.expect(2, IBV_WC_SUCCESS);
    // SAFETY: Inside the memory, which the NIC writes no more.
    assert_eq!(unsafe { place.as_ptr().cast::<[u8; 9]>().read_volatile() }, *b"elsewhere");
    assert_eq!(one.post_to(3, IBV_WR_RDMA_WRITE, one.entry(0, 9), (old, key)), 0);
    one.expect(3, IBV_WC_REM_ACCESS_ERR);
    one.destroy_all();
    other.destroy_all();
    device.close();
}

#[test]
fn work_for_a_peer_that_never_comes_ends() {
    let device = Device::open();
    let one = End::new(&device);
    one.initialize();
    // A queue pair of this process that there is not.
    one.receive_from(one.number() ^ (1 << 20));
    one.send_with(1);
    for id in 1..=2 {
        assert_eq!(one.post(End::request(id, IBV_WR_SEND), one.entry(0, 8)), 0);
    }
    one.expect(1, IBV_WC_RETRY_EXC_ERR);
    one.expect(2, IBV_WC_WR_FLUSH_ERR);
    one.destroy_all();
    device.close();
}

#[test]
fn a_peer_that_goes_leaves_posted_receives_alone() {
    let device = Device::open();
    let (one, other) = (End::new(&device), End::new(&device));
    connect(&one, &other);
    assert_eq!(one.post_receive(1, one.entry(0, 8)), 0);
    assert_eq!(other.post_receive(1, other.entry(0, 8)), 0);
    assert_eq!(one.post(End::request(2, IBV_WR_SEND), one.entry(0, 8)), 0);
    other.expect(1, IBV_WC_SUCCESS);
    one.expect(2, IBV_WC_SUCCESS);
    other.destroy_all();
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(50) {
        assert!(one.poll().is_none(), "the receive was flushed");
    }
    assert_eq!(one.post(End::request(3, IBV_WR_SEND), one.entry(0, 8)), 0);
    let mut ends = [one.complete(), one.complete()].map(|end| (end.wr_id, end.status));
    ends.sort_unstable();
    assert_eq!(ends, [(1, IBV_WC_WR_FLUSH_ERR), (3, IBV_WC_RETRY_EXC_ERR)]);
    one.destroy_all();
    device.close();
}

/// The faster end of a ping-pong destroys its queue pairs while the other end still polls its last completions, and
/// has sent more than it needs.
#[test]
fn work_that_a_peer_leaves_unanswered_fails_when_its_time_is_up() {
    let device = Device::open();
    let (one, other) = (End::new(&device), End::new(&device));
    for (end, peer) in [(&one, &other), (&other, &one)] {
        end.initialize();
        end.receive_from(peer.number());
        // 69 seconds.
        end.send_with(24);
    }
    assert_eq!(other.post_receive(1, other.entry(0, 8)), 0);
    for id in 1..=2 {
        assert_eq!(one.post(End::request(id, IBV_WR_SEND), one.entry(0, 8)), 0);
    }
    other.expect(1, IBV_WC_SUCCESS);
    one.expect(1, IBV_WC_SUCCESS);
    other.destroy_all();
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(50) {
        assert!(one.poll().is_none(), "the peer is given up too early");
    }
    assert_eq!(one.post(End::request(3, IBV_WR_SEND), one.entry(0, 8)), 0);
    assert!(one.poll().is_none(), "the peer is given up too early");
    let mut failed = ibv_qp_attr { qp_state: IBV_QPS_ERR, ..ibv_qp_attr::default() };
    assert_eq!(one.modify(&mut failed, IBV_QP_STATE), 0);
    one.expect(2, IBV_WC_WR_FLUSH_ERR);
    one.expect(3, IBV_WC_WR_FLUSH_ERR);
    one.destroy_all();
    device.close();
}

#[test]
fn a_channel_tells_of_a_completion_and_a_shared_queue_of_its_limit() {
    let device = Device::open();
    // SAFETY: As programs call them, with what they return.
    unsafe {
        let channel = weft_ibv_create_comp_channel(device.context);
        let queue = device.queue(16, channel);
        let mut init = ibv_srq_init_attr {
            srq_context: ptr::null_mut(),
            attr: ibv_srq_attr { max_wr: 8, max_sge: 1, srq_limit: 0 },
        };
        let shared = weft_ibv_create_srq(device.domain, &raw mut init);
        assert!(!shared.is_null());
        let one = End::new(&device);
        let other = End::with(&device, queue, shared, ALL_RIGHTS);
        connect(&one, &other);
        for id in 1..=2 {
            let mut entry = other.entry(64 * id, 64);
            let mut request =
                ibv_recv_wr { wr_id: id as u64, next: ptr::null_mut(), sg_list: &raw mut entry, num_sge: 1 };
            let mut bad = ptr::null_mut();
            assert_eq!((device.operations().post_srq_recv)(shared, &raw mut request, &raw mut bad), 0);
        }
        let mut limit = ibv_srq_attr { srq_limit: 2, ..ibv_srq_attr::default() };
        assert_eq!(weft_ibv_modify_srq(shared, &raw mut limit, IBV_SRQ_LIMIT), 0);
        assert_eq!(other.post_receive(1, other.entry(0, 8)), libc::EINVAL, "it has a shared queue");

        assert_eq!((device.operations().req_notify_cq)(queue, 0), 0);
        assert_eq!(one.post(End::request(5, IBV_WR_SEND), one.entry(0, 8)), 0);
        let (mut found, mut found_context) = (ptr::null_mut(), ptr::null_mut::<c_void>());
        assert_eq!(weft_ibv_get_cq_event(channel, &raw mut found, &raw mut found_context), 0);
        assert_eq!(found, queue);
        other.expect(1, IBV_WC_SUCCESS);
        one.expect(5, IBV_WC_SUCCESS);
        let mut event = ibv_async_event { element: ptr::null_mut(), event_type: -1 };
        assert_eq!(weft_ibv_get_async_event(device.context, &raw mut event), 0);
        assert_eq!((event.event_type, event.element.cast()), (IBV_EVENT_SRQ_LIMIT_REACHED, shared));
        weft_ibv_ack_async_event(&raw mut event);

        libc::fcntl((*channel).fd, libc::F_SETFL, libc::O_NONBLOCK);
        assert_eq!(weft_ibv_get_cq_event(channel, &raw mut found, &raw mut found_context), -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EAGAIN));
        assert_eq!(weft_ibv_destroy_srq(shared), libc::EBUSY);
        assert_eq!(weft_ibv_destroy_comp_channel(channel), libc::EBUSY);
        other.destroy();
        weft_ibv_ack_cq_events(queue, 1);
        assert_eq!(weft_ibv_destroy_cq(queue), 0);
        assert_eq!(weft_ibv_destroy_srq(shared), 0);
        assert_eq!(weft_ibv_destroy_comp_channel(channel), 0);
        one.destroy_all();
    }
    device.close();
}

#[test]
fn requests_by_functions_and_completions_one_by_one() {
    let device = Device::open();
    // SAFETY: As programs call them, with what they return.
    unsafe {
        let verbs =
            device.context.cast::<u8>().sub(std::mem::offset_of!(verbs_context, context)).cast::<verbs_context>();
        assert_eq!((*verbs).sz, size_of::<verbs_context>());
        let mut attr: ibv_cq_init_attr_ex = std::mem::zeroed();
        (attr.cqe, attr.wc_flags) = (16, IBV_WC_STANDARD_FLAGS);
        let queue = ((*verbs).create_cq_ex)(device.context, &raw mut attr);
        assert!(!queue.is_null());
        attr.wc_flags |= 1 << 7;
        assert!(((*verbs).create_cq_ex)(device.context, &raw mut attr).is_null(), "timestamps");

        let mut init: ibv_qp_init_attr_ex = std::mem::zeroed();
        (init.send_cq, init.recv_cq, init.pd) = (queue.cast(), queue.cast(), device.domain);
        init.cap = ibv_qp_cap { max_send_wr: 8, max_send_sge: 2, max_inline_data: 64, ..ibv_qp_cap::default() };
        init.qp_type = IBV_QPT_RC;
        init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        init.send_ops_flags = 1 | 1 << 2;
        let made = ((*verbs).create_qp_ex)(device.context, &raw mut init);
        assert!(!made.is_null(), "{}", std::io::Error::last_os_error());
        init.send_ops_flags = 1 << 8;
        assert!(((*verbs).create_qp_ex)(device.context, &raw mut init).is_null(), "memory windows");
        let by_functions = weft_ibv_qp_to_qp_ex(made);
        assert!(!by_functions.is_null());

        let mut one = End::with(&device, queue.cast(), ptr::null_mut(), ALL_RIGHTS);
        assert!(weft_ibv_qp_to_qp_ex(one.queue_pair).is_null());
        assert_eq!(weft_ibv_destroy_qp(one.queue_pair), 0);
        one.queue_pair = made;
        let other = End::new(&device);
        fill(&mut one, 0, b"by functions");
        connect(&one, &other);
        assert_eq!(other.post_receive(7, other.entry(0, 64)), 0);
        let posts = &*by_functions;
        (posts.wr_start)(by_functions);
        (*by_functions).wr_id = 1;
        (*by_functions).wr_flags = 0;
        let (address, key) = other.remote(1000);
        (posts.wr_rdma_write)(by_functions, key, address);
        (posts.wr_set_sge)(by_functions, one.key(), one.entry(0, 12).addr, 12);
        (*by_functions).wr_id = 2;
        (*by_functions).wr_flags = IBV_SEND_SIGNALED;
        (posts.wr_send)(by_functions);
        let mut inline = *b"inline";
        (posts.wr_set_inline_data)(by_functions, inline.as_mut_ptr().cast(), 6);
        assert_eq!((posts.wr_complete)(by_functions), 0);
        assert_eq!(other.expect(7, IBV_WC_SUCCESS).byte_len, 6);
        assert_eq!((other.bytes(0, 6), other.bytes(1000, 12)), (b"inline".to_vec(), b"by functions".to_vec()));

        let began = Instant::now();
        let polls = &*queue;
        while (polls.start_poll)(queue, ptr::null_mut()) != 0 {
            assert!(began.elapsed() < PATIENCE, "no completion comes");
        }
        assert_eq!(((*queue).wr_id, (*queue).status, (polls.read_opcode)(queue)), (2, IBV_WC_SUCCESS, IBV_WC_SEND));
        assert_eq!((polls.read_qp_num)(queue), (*made).qp_num);
        assert_eq!((polls.next_poll)(queue), libc::ENOENT);
        (polls.end_poll)(queue);

        (posts.wr_start)(by_functions);
        (posts.wr_send_tso)(by_functions);
        assert_eq!((posts.wr_complete)(by_functions), libc::EOPNOTSUPP);
        one.destroy_all();
        other.destroy_all();
    }
    device.close();
}

#[test]
fn the_contract_broken_is_an_error() {
    let device = Device::open();
    let one = End::new(&device);
    // SAFETY: NULL, what is destroyed already, and objects that are there.
    unsafe {
        assert!(weft_ibv_open_device(ptr::null_mut()).is_null());
        assert!(weft_ibv_alloc_pd(ptr::null_mut()).is_null());
        assert!(weft_ibv_create_qp(device.domain, ptr::null_mut()).is_null());
        assert!(weft_ibv_create_cq(device.context, 0, ptr::null_mut(), ptr::null_mut(), 0).is_null());
        assert!(weft_ibv_create_cq(device.context, 1, ptr::null_mut(), ptr::null_mut(), 1).is_null());
        assert_eq!(weft_ibv_destroy_qp(ptr::null_mut()), libc::EINVAL);
        assert_eq!(weft_ibv_dealloc_pd(device.domain), libc::EBUSY);
        assert_eq!(weft_ibv_destroy_cq(one.queue), libc::EBUSY);
        assert_eq!(weft_ibv_destroy_cq(one.queue_pair.cast()), libc::EINVAL, "another kind of object");
        let other = weft_ibv_create_cq(device.context, 1, ptr::null_mut(), ptr::null_mut(), 0);
        assert_eq!(weft_ibv_destroy_cq(other), 0);
        assert_eq!(weft_ibv_destroy_cq(other), libc::EINVAL, "twice");
        let mut none = 0u8;
        let write = IBV_ACCESS_REMOTE_WRITE as c_int;
        assert!(weft_ibv_reg_mr(device.domain, (&raw mut none).cast(), 1, write).is_null());
        assert!(weft_ibv_reg_mr(device.domain, ptr::without_provenance_mut(4096), 4096, 0).is_null());
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EFAULT));
    }
    assert_eq!(one.post(End::request(1, IBV_WR_SEND), one.entry(0, 8)), libc::EINVAL, "in the state RESET");
    assert_eq!(one.post_receive(1, one.entry(0, 8)), libc::EINVAL);
    one.initialize();
    assert_eq!(one.post(End::request(1, IBV_WR_SEND), one.entry(0, 8)), libc::EINVAL);
    assert_eq!(one.post_receive(1, one.entry(0, 8)), 0);
    let mut attr = ibv_qp_attr { qp_state: IBV_QPS_RTS, ..ibv_qp_attr::default() };
    assert_eq!(one.modify(&mut attr, IBV_QP_STATE), libc::EINVAL, "a step is left out");
    assert_eq!(one.state(), IBV_QPS_INIT);
    let mut attr = ibv_qp_attr { qp_state: IBV_QPS_ERR, ..ibv_qp_attr::default() };
    assert_eq!(one.modify(&mut attr, IBV_QP_STATE), 0);
    one.expect(1, IBV_WC_WR_FLUSH_ERR);
    one.destroy_all();
    device.close();
}
