//! Queue pairs whose requests are put together by functions: `ibv_wr_start`, `ibv_wr_send`, `ibv_wr_complete`.
//!
//! A list of requests is kept until it is complete, and then posted as by `ibv_post_send`.

use core::ffi::{c_int, c_void};
use core::ptr;

use libc::size_t;

use super::building::{Building, Built};
use super::objects::QueuePairObject;
use crate::abi::*;
use crate::border::{borrow, lock, status};
use crate::errno::Errno;
use crate::limits;

/// The functions that there are (`IBV_QP_EX_WITH_*`): Write, Write with immediate data, Send, Send with immediate data,
/// Read, compare and swap, fetch and add, Send with invalidate.
pub(super) const KNOWN: u64 = 0x27f;

/// Adds the functions of a queue pair.
pub(super) fn extended(qp_base: ibv_qp) -> ibv_qp_ex {
    ibv_qp_ex {
        qp_base,
        comp_mask: 0,
        wr_id: 0,
        wr_flags: 0,
        wr_atomic_cmp_swp,
        wr_atomic_fetch_add,
        wr_bind_mw: unsupported,
        wr_local_inv: unsupported,
        wr_rdma_read,
        wr_rdma_write,
        wr_rdma_write_imm,
        wr_send,
        wr_send_imm,
        wr_send_inv,
        wr_send_tso: unsupported,
        wr_set_ud_addr: unsupported,
        wr_set_xrc_srqn: unsupported,
        wr_set_inline_data,
        wr_set_inline_data_list,
        wr_set_sge,
        wr_set_sge_list,
        wr_start,
        wr_complete,
        wr_abort,
        wr_atomic_write: unsupported,
        wr_flush: unsupported,
    }
}

/// Does something with the list of a queue pair.
///
/// # Safety
/// NULL, or a queue pair.
unsafe fn with(queue_pair: *mut ibv_qp_ex, act: impl FnOnce(&QueuePairObject, &mut Building)) {
    status(|| {
        // SAFETY: The caller's promise.
        let object = unsafe { borrow::<QueuePairObject>(queue_pair.cast()) }?;
        act(object, &mut lock(&object.building));
        Ok(())
    });
}

/// Adds a request.
///
/// # Safety
/// NULL, or a queue pair.
unsafe fn add(queue_pair: *mut ibv_qp_ex, opcode: c_int, imm_data: u32, wr: ibv_send_wr_remote) {
    let push = |object: &QueuePairObject, building: &mut Building| {
        let c = object.c.get();
        // SAFETY: C writes these fields before it calls, and no other thread does.
        let (wr_id, send_flags) = unsafe { ((*c).wr_id, (*c).wr_flags) };
        let request = ibv_send_wr {
            wr_id,
            next: ptr::null_mut(),
            sg_list: ptr::null_mut(),
            num_sge: 0,
            opcode,
            send_flags: send_flags & !IBV_SEND_INLINE,
            imm_data,
            wr,
            _rest: [0; 7],
        };
        match building.requests.len() < object.init.cap.max_send_wr as usize {
            true => building.requests.push(Built { request, entries: Vec::new(), inline: None }),
            false => building.refuse(Errno::NO_MEMORY),
        }
    };
    // SAFETY: The caller's promise.
    unsafe { with(queue_pair, push) };
}

/// Changes the request that was added last.
///
/// # Safety
/// NULL, or a queue pair.
unsafe fn change(queue_pair: *mut ibv_qp_ex, act: impl FnOnce(&mut Built) -> Result<(), Errno>) {
    // SAFETY: The caller's promise.
    unsafe {
        with(queue_pair, |_, building| {
            let changed = building.requests.last_mut().map_or(Err(Errno::INVALID), act);
            changed.unwrap_or_else(|error| building.refuse(error));
        });
    }
}

const NOWHERE: ibv_send_wr_remote = ibv_send_wr_remote { remote_addr: 0, compare_add: 0, swap: 0, rkey: 0 };

fn remote(rkey: u32, remote_addr: u64) -> ibv_send_wr_remote {
    // `rdma.rkey` lies where `compare_add` begins.
    let [a, b, c, d] = rkey.to_ne_bytes();
    ibv_send_wr_remote { remote_addr, compare_add: u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0]), swap: 0, rkey }
}

unsafe extern "C" fn wr_start(queue_pair: *mut ibv_qp_ex) {
    // SAFETY: C's callers pass a queue pair.
    unsafe { with(queue_pair, |_, building| *building = Building::default()) };
}

unsafe extern "C" fn wr_abort(queue_pair: *mut ibv_qp_ex) {
    // SAFETY: C's callers pass a queue pair.
    unsafe { with(queue_pair, |_, building| *building = Building::default()) };
}

unsafe extern "C" fn wr_complete(queue_pair: *mut ibv_qp_ex) -> c_int {
    let mut result = libc::EINVAL;
    let post = |object: &QueuePairObject, building: &mut Building| {
        let Building { mut requests, error } = core::mem::take(building);
        if let Some(Errno(error)) = error {
            result = error;
            return;
        }
        let mut next = ptr::null_mut();
        for built in requests.iter_mut().rev() {
            built.complete(next);
            next = &raw mut built.request;
        }
        // SAFETY: The list, and what it names of this library, are there until the call returns; what it names of the
        // program is as for `ibv_post_send`.
        let posted = unsafe { object.queue_pair.post_send(next) };
        result = posted.err().map_or(0, |failure| failure.error.0);
    };
    // SAFETY: C's callers pass a queue pair.
    unsafe { with(queue_pair, post) };
    result
}

/// A request that this library does not have: the list is refused.
unsafe extern "C" fn unsupported(queue_pair: *mut ibv_qp_ex) {
    // SAFETY: C's callers pass a queue pair.
    unsafe { with(queue_pair, |_, building| building.refuse(Errno::UNSUPPORTED)) };
}

unsafe extern "C" fn wr_send(queue_pair: *mut ibv_qp_ex) {
    // SAFETY: C's callers pass a queue pair.
    unsafe { add(queue_pair, IBV_WR_SEND, 0, NOWHERE) };
}

unsafe extern "C" fn wr_send_imm(queue_pair: *mut ibv_qp_ex, immediate: u32) {
    // SAFETY: C's callers pass a queue pair.
    unsafe { add(queue_pair, IBV_WR_SEND_WITH_IMM, immediate, NOWHERE) };
}

unsafe extern "C" fn wr_send_inv(queue_pair: *mut ibv_qp_ex, rkey: u32) {
    // SAFETY: C's callers pass a queue pair.
    unsafe { add(queue_pair, IBV_WR_SEND_WITH_INV, rkey, NOWHERE) };
}

unsafe extern "C" fn wr_rdma_read(queue_pair: *mut ibv_qp_ex, rkey: u32, address: u64) {
    // SAFETY: C's callers pass a queue pair.
    unsafe { add(queue_pair, IBV_WR_RDMA_READ, 0, remote(rkey, address)) };
}

unsafe extern "C" fn wr_rdma_write(queue_pair: *mut ibv_qp_ex, rkey: u32, address: u64) {
    // SAFETY: C's callers pass a queue pair.
    unsafe { add(queue_pair, IBV_WR_RDMA_WRITE, 0, remote(rkey, address)) };
}

unsafe extern "C" fn wr_rdma_write_imm(queue_pair: *mut ibv_qp_ex, rkey: u32, address: u64, immediate: u32) {
    // SAFETY: C's callers pass a queue pair.
    unsafe { add(queue_pair, IBV_WR_RDMA_WRITE_WITH_IMM, immediate, remote(rkey, address)) };
}

unsafe extern "C" fn wr_atomic_cmp_swp(queue_pair: *mut ibv_qp_ex, rkey: u32, address: u64, compare: u64, swap: u64) {
    let remote = ibv_send_wr_remote { remote_addr: address, compare_add: compare, swap, rkey };
    // SAFETY: C's callers pass a queue pair.
    unsafe { add(queue_pair, IBV_WR_ATOMIC_CMP_AND_SWP, 0, remote) };
}

unsafe extern "C" fn wr_atomic_fetch_add(queue_pair: *mut ibv_qp_ex, rkey: u32, address: u64, more: u64) {
    let remote = ibv_send_wr_remote { remote_addr: address, compare_add: more, swap: 0, rkey };
    // SAFETY: C's callers pass a queue pair.
    unsafe { add(queue_pair, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, remote) };
}

unsafe extern "C" fn wr_set_sge(queue_pair: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    let set = |built: &mut Built| {
        built.entries = vec![ibv_sge { addr, length, lkey }];
        Ok(())
    };
    // SAFETY: C's callers pass a queue pair.
    unsafe { change(queue_pair, set) };
}

unsafe extern "C" fn wr_set_sge_list(queue_pair: *mut ibv_qp_ex, count: size_t, list: *const ibv_sge) {
    // SAFETY: C's callers pass a list with this number of entries.
    let entries = || unsafe { pieces(count, list, limits::GATHER) }.map(<[ibv_sge]>::to_vec);
    let set = |built: &mut Built| entries().map(|entries| built.entries = entries);
    // SAFETY: C's callers pass a queue pair.
    unsafe { change(queue_pair, set) };
}

unsafe extern "C" fn wr_set_inline_data(queue_pair: *mut ibv_qp_ex, address: *mut c_void, length: size_t) {
    let one = ibv_data_buf { addr: address, length };
    // SAFETY: C's callers pass a queue pair, and bytes that can be read.
    unsafe { wr_set_inline_data_list(queue_pair, 1, &raw const one) };
}

unsafe extern "C" fn wr_set_inline_data_list(queue_pair: *mut ibv_qp_ex, count: size_t, list: *const ibv_data_buf) {
    const MOST: usize = limits::INLINE as usize;
    let bytes = || {
        let mut bytes = Vec::new();
        // SAFETY: C's callers pass a list with this number of pieces.
        for piece in unsafe { pieces(count, list, MOST) }?.iter().filter(|piece| piece.length > 0) {
            if piece.addr.is_null() || piece.length > MOST - bytes.len() {
                return Err(Errno::INVALID);
            }
            // SAFETY: C's callers pass pieces whose bytes can be read.
            bytes.extend_from_slice(unsafe { core::slice::from_raw_parts(piece.addr.cast::<u8>(), piece.length) });
        }
        Ok(bytes)
    };
    let set = |built: &mut Built| bytes().map(|bytes| built.inline = Some(bytes));
    // SAFETY: C's callers pass a queue pair.
    unsafe { change(queue_pair, set) };
}

/// A list of C's, of which nothing is read where it has more than `most` pieces.
///
/// # Errors
/// It is that, or NULL.
///
/// # Safety
/// NULL, or a list with this number of pieces.
unsafe fn pieces<'a, T>(count: size_t, list: *const T, most: usize) -> Result<&'a [T], Errno> {
    match count {
        0 => Ok(&[]),
        _ if list.is_null() || count > most => Err(Errno::INVALID),
        // SAFETY: The caller's promise.
        _ => Ok(unsafe { core::slice::from_raw_parts(list, count) }),
    }
}
