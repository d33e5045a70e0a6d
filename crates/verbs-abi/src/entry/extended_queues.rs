//! Completion queues whose completions are read one by one: `ibv_create_cq_ex` and `ibv_start_poll`.

use core::ffi::{c_int, c_void};

use super::objects::CompletionObject;
use super::queues::create;
use crate::abi::*;
use crate::border::{borrow, pointer, status};
use crate::errno::Errno;

/// Adds the functions of a completion queue.
pub(super) fn extended(basic: ibv_cq) -> ibv_cq_ex {
    ibv_cq_ex {
        basic,
        comp_mask: 0,
        status: 0,
        wr_id: 0,
        start_poll,
        next_poll,
        end_poll,
        read_opcode,
        read_vendor_err,
        read_byte_len,
        read_imm_data,
        read_qp_num,
        read_src_qp,
        read_wc_flags,
        read_slid,
        read_sl,
        read_dlid_path_bits,
        read_completion_ts: nothing,
        read_cvlan: nothing,
        read_flow_tag: nothing,
        read_tm_info,
        read_completion_wallclock_ns: nothing,
    }
}

pub(super) unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    init: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    pointer(|| {
        // SAFETY: C's callers pass NULL or something that can be read.
        let init = unsafe { init.as_ref() }.ok_or(Errno::INVALID)?;
        let flags = if init.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS != 0 { init.flags } else { 0 };
        let known = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
        if init.comp_mask & !IBV_CQ_INIT_ATTR_MASK_FLAGS != 0
            || init.wc_flags & !IBV_WC_STANDARD_FLAGS != 0
            || flags & !known != 0
        {
            crate::log::info(format_args!("refused: a completion queue with timestamps, tags or a parent domain"));
            return Err(Errno::UNSUPPORTED);
        }
        let entries = c_int::try_from(init.cqe).map_err(|_| Errno::INVALID)?;
        let vector = c_int::try_from(init.comp_vector).map_err(|_| Errno::INVALID)?;
        // SAFETY: C's callers pass an open device and a channel, or NULL.
        unsafe { create(context, entries, init.cq_context, init.channel, vector) }.map(<*mut ibv_cq>::cast)
    })
}

/// Takes the next completion, which is read then.
///
/// # Safety
/// A completion queue that no other thread polls.
unsafe fn next(queue: *mut ibv_cq_ex) -> c_int {
    status(|| {
        // SAFETY: The caller's promise.
        let object = unsafe { borrow::<CompletionObject>(queue.cast()) }?;
        let mut completion = [ibv_wc::default()];
        if object.queue.poll(&mut completion) == 0 {
            return Err(Errno(libc::ENOENT));
        }
        let [completion] = completion;
        // SAFETY: No other thread polls the queue, and C reads these fields between its calls alone.
        unsafe {
            (*object.c.get()).status = completion.status;
            (*object.c.get()).wr_id = completion.wr_id;
            *object.current.get() = completion;
        }
        Ok(())
    })
}

unsafe extern "C" fn start_poll(queue: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    // SAFETY: C's callers pass NULL or something that can be read.
    if unsafe { attr.as_ref() }.is_some_and(|attr| attr.comp_mask != 0) {
        return libc::EINVAL;
    }
    // SAFETY: C's callers pass a completion queue that no other thread polls.
    unsafe { next(queue) }
}

unsafe extern "C" fn next_poll(queue: *mut ibv_cq_ex) -> c_int {
    // SAFETY: C's callers pass a completion queue that no other thread polls.
    unsafe { next(queue) }
}

unsafe extern "C" fn end_poll(_: *mut ibv_cq_ex) {}

/// What this library has of it: nothing.
unsafe extern "C" fn nothing<T: Default>(_: *mut ibv_cq_ex) -> T {
    T::default()
}

unsafe extern "C" fn read_tm_info(_: *mut ibv_cq_ex, _: *mut c_void) {}

/// The completion that was taken last.
///
/// # Safety
/// A completion queue that no other thread polls.
unsafe fn current(queue: *mut ibv_cq_ex) -> ibv_wc {
    // SAFETY: The caller's promise.
    unsafe {
        borrow::<CompletionObject>(queue.cast()).map_or_else(|_| ibv_wc::default(), |object| *object.current.get())
    }
}

macro_rules! readers {
    ($($name:ident -> $type:ty: $field:ident;)*) => {
        $(
            unsafe extern "C" fn $name(queue: *mut ibv_cq_ex) -> $type {
                // SAFETY: C's callers pass a completion queue that no other thread polls.
                unsafe { current(queue) }.$field.into()
            }
        )*
    };
}

readers! {
    read_opcode -> c_int: opcode;
    read_vendor_err -> u32: vendor_err;
    read_byte_len -> u32: byte_len;
    read_imm_data -> u32: imm_data;
    read_qp_num -> u32: qp_num;
    read_src_qp -> u32: src_qp;
    read_wc_flags -> u32: wc_flags;
    read_slid -> u32: slid;
    read_sl -> u8: sl;
    read_dlid_path_bits -> u8: dlid_path_bits;
}
