//! Programs that break the rules of libibverbs, alone and with many threads: what they do wrong is an error, and
//! touches nothing. `tests/verbs/contract` has more of them, in C.

#[allow(dead_code, reason = "loopback.rs uses the rest")]
mod ends;

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use ends::{ALL_RIGHTS, Device, End, connect, fill};
use weft_verbs::abi::*;
use weft_verbs::entry::*;

/// One test at a time: the address of an object that one has destroyed may be an object of another's.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A shared receive queue that holds this number of receives.
fn shared_receives(device: &Device, count: u32) -> *mut ibv_srq {
    let attr = ibv_srq_attr { max_wr: count, max_sge: 1, srq_limit: 0 };
    let mut init = ibv_srq_init_attr { srq_context: ptr::null_mut(), attr };
    // SAFETY: A protection domain.
    let shared = unsafe { weft_ibv_create_srq(device.domain, &raw mut init) };
    assert!(!shared.is_null());
    shared
}

/// A peer posts after the other end has destroyed or reset its queue pair: its work fails, and touches nothing there.
#[test]
fn what_comes_after_the_end_of_a_queue_pair_touches_nothing() {
    const RECEIVES: u64 = 8;
    let (_alone, device) = (alone(), Device::open());
    let (queue, shared) = (device.queue(64, ptr::null_mut()), shared_receives(&device, RECEIVES as u32));
    let sink = End::new(&device);
    for id in 0..RECEIVES {
        let mut entry = sink.entry(64 * id as usize, 64);
        let mut request = ibv_recv_wr { wr_id: id, next: ptr::null_mut(), sg_list: &raw mut entry, num_sge: 1 };
        let mut bad = ptr::null_mut();
        // SAFETY: A shared receive queue, and a request.
        assert_eq!(unsafe { (device.operations().post_srq_recv)(shared, &raw mut request, &raw mut bad) }, 0);
    }
    for (opcode, is_reset) in
        [(IBV_WR_RDMA_WRITE, false), (IBV_WR_SEND, false), (IBV_WR_RDMA_WRITE, true), (IBV_WR_SEND, true)]
    {
        let (mut one, other) = (End::new(&device), End::with(&device, queue, shared, ALL_RIGHTS));
        connect(&one, &other);
        fill(&mut one, 0, b"in time.too late");
        assert_eq!(one.post_to(1, IBV_WR_RDMA_WRITE, one.entry(0, 8), other.remote(0)), 0);
        one.expect(1, IBV_WC_SUCCESS);
        let mut reset = ibv_qp_attr { qp_state: IBV_QPS_RESET, ..ibv_qp_attr::default() };
        match is_reset {
            true => assert_eq!(other.modify(&mut reset, IBV_QP_STATE), 0),
            // SAFETY: It is not used any more.
            false => assert_eq!(unsafe { weft_ibv_destroy_qp(other.queue_pair) }, 0),
        }
        assert_eq!(one.post_to(2, opcode, one.entry(8, 8), other.remote(0)), 0);
        let ended = one.complete();
        assert_eq!(ended.wr_id, 2);
        assert_ne!(ended.status, IBV_WC_SUCCESS, "{opcode} after the end");
        assert_eq!(other.bytes(0, 8), b"in time.", "{opcode} after the end");
        one.destroy_all();
        // SAFETY: Nothing uses them any more.
        unsafe {
            assert_eq!(if is_reset { weft_ibv_destroy_qp(other.queue_pair) } else { 0 }, 0);
            assert_eq!(weft_ibv_dereg_mr(other.region), 0);
        }
    }
    // All receives are still there, for others.
    let (one, other) = (End::new(&device), End::with(&device, queue, shared, ALL_RIGHTS));
    connect(&one, &other);
    for id in 0..RECEIVES {
        assert_eq!(one.post(End::request(100 + id, IBV_WR_SEND), one.entry(0, 8)), 0);
        one.expect(100 + id, IBV_WC_SUCCESS);
        other.expect(id, IBV_WC_SUCCESS);
    }
    one.destroy_all();
    other.destroy();
    sink.destroy_all();
    // SAFETY: Nothing uses them any more.
    unsafe {
        assert_eq!(weft_ibv_destroy_srq(shared), 0);
        assert_eq!(weft_ibv_destroy_cq(queue), 0);
    }
    device.close();
}

/// An object of C's, for several threads.
struct Shared<T>(*mut T);

// SAFETY: What is done with it is what the C interface has several threads do.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: As above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

/// What 16 threads get that do this at the same time.
fn by_sixteen(act: impl Fn() -> c_int + Sync) -> Vec<c_int> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(&act)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn of_sixteen_threads_that_destroy_an_object_one_does() {
    let (_alone, device) = (alone(), Device::open());
    let destroyed = |answers: Vec<c_int>| {
        assert_eq!(answers.iter().filter(|answer| **answer == 0).count(), 1, "{answers:?}");
        assert!(answers.iter().all(|answer| [0, libc::EINVAL].contains(answer)), "{answers:?}");
    };
    for _ in 0..20 {
        let (one, other) = (End::new(&device), End::new(&device));
        connect(&one, &other);
        assert_eq!(one.post_receive(1, one.entry(0, 8)), 0);
        let (queue_pair, queue, region) = (Shared(one.queue_pair), Shared(one.queue), Shared(one.region));
        let shared = Shared(shared_receives(&device, 8));
        // SAFETY: An object, or one that was destroyed.
        unsafe {
            destroyed(by_sixteen(|| weft_ibv_destroy_qp(queue_pair.get())));
            destroyed(by_sixteen(|| weft_ibv_destroy_cq(queue.get())));
            destroyed(by_sixteen(|| weft_ibv_dereg_mr(region.get())));
            destroyed(by_sixteen(|| weft_ibv_destroy_srq(shared.get())));
        }
        other.destroy_all();
    }
    device.close();
}

/// A thread changes attributes again and again while work fails.
#[test]
fn a_change_of_attributes_takes_no_failure_back() {
    let (_alone, device) = (alone(), Device::open());
    for _ in 0..100 {
        let one = End::new(&device);
        one.initialize();
        one.receive_from(one.number() ^ (1 << 20));
        one.send_with(0);
        let queue_pair = Shared(one.queue_pair);
        let (has_begun, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut attr = ibv_qp_attr { qp_state: IBV_QPS_RTS, ..ibv_qp_attr::default() };
                while !is_over.load(Ordering::Relaxed) {
                    // SAFETY: A queue pair.
                    unsafe { weft_ibv_modify_qp(queue_pair.get(), &raw mut attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS) };
                    has_begun.store(true, Ordering::Relaxed);
                }
            });
            while !has_begun.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            let unknown = ibv_sge { lkey: one.key() ^ 1, ..one.entry(0, 8) };
            assert_eq!(one.post(End::request(1, IBV_WR_SEND), unknown), 0);
            one.expect(1, IBV_WC_LOC_PROT_ERR);
            let state = one.state();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(state, IBV_QPS_ERR);
        });
        assert_eq!(one.state(), IBV_QPS_ERR);
        one.destroy_all();
    }
    device.close();
}

/// Counts that no list has, and pieces that are not there: nothing of them is read.
#[test]
fn lists_of_functions_are_checked_before_they_are_read() {
    let (_alone, device) = (alone(), Device::open());
    // SAFETY: As programs call them, with what they return; what is wrong about the lists is not read.
    unsafe {
        let verbs =
            device.context.cast::<u8>().sub(std::mem::offset_of!(verbs_context, context)).cast::<verbs_context>();
        let queue = device.queue(16, ptr::null_mut());
        let mut init: ibv_qp_init_attr_ex = std::mem::zeroed();
        (init.send_cq, init.recv_cq, init.pd) = (queue, queue, device.domain);
        init.cap = ibv_qp_cap { max_send_wr: 8, max_send_sge: 2, max_inline_data: 64, ..ibv_qp_cap::default() };
        init.qp_type = IBV_QPT_RC;
        init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        init.send_ops_flags = 1 << 2;
        let made = ((*verbs).create_qp_ex)(device.context, &raw mut init);
        let by_functions = weft_ibv_qp_to_qp_ex(made);
        assert!(!by_functions.is_null());
        let posts = &*by_functions;
        let after = |build: &dyn Fn()| {
            (posts.wr_start)(by_functions);
            (posts.wr_send)(by_functions);
            build();
            (posts.wr_complete)(by_functions)
        };
        let mut byte = 0u8;
        let at = (&raw mut byte).cast::<c_void>();
        let piece = |length| ibv_data_buf { addr: at, length };
        let (entry, one) = (ibv_sge::default(), piece(1));
        let wrong: [(&str, &dyn Fn()); 7] = [
            ("a huge list", &|| (posts.wr_set_sge_list)(by_functions, usize::MAX, &raw const entry)),
            ("no list", &|| (posts.wr_set_sge_list)(by_functions, 1, ptr::null())),
            ("huge data", &|| (posts.wr_set_inline_data)(by_functions, at, usize::MAX)),
            ("data of 2^32 bytes", &|| (posts.wr_set_inline_data)(by_functions, at, 1 << 32)),
            ("no data", &|| (posts.wr_set_inline_data)(by_functions, ptr::null_mut(), 8)),
            ("a huge list of data", &|| (posts.wr_set_inline_data_list)(by_functions, usize::MAX, &raw const one)),
            ("pieces that are too long together", &|| {
                let pieces = [piece(1), piece(usize::MAX)];
                (posts.wr_set_inline_data_list)(by_functions, 2, pieces.as_ptr());
            }),
        ];
        for (what, build) in wrong {
            assert_eq!(after(build), libc::EINVAL, "{what}");
        }
        // More requests than the queue holds; and something for a request that there is not.
        let many = || (0..8).for_each(|_| (posts.wr_send)(by_functions));
        assert_eq!(after(&many), libc::ENOMEM);
        (posts.wr_start)(by_functions);
        (posts.wr_set_sge)(by_functions, 0, 0, 0);
        assert_eq!((posts.wr_complete)(by_functions), libc::EINVAL);
        (posts.wr_start)(by_functions);
        assert_eq!((posts.wr_complete)(by_functions), 0, "an empty list");
        assert_eq!(weft_ibv_destroy_qp(made), 0);
        assert_eq!(weft_ibv_destroy_cq(queue), 0);
    }
    device.close();
}
