//! Shared receive queues.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use std::sync::Arc;

use super::objects::{COND, DomainObject, MUTEX, SharedReceivesObject};
use crate::abi::*;
use crate::border::{Counted as _, Using, begin_end, borrow, find, finish_end, give, pointer, status};
use crate::errno::Errno;
use crate::limits;
use crate::shared_receive::SharedReceives;
use crate::slices::entries;

/// # Safety
/// `domain` is NULL or a protection domain; `init` is NULL or can be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_create_srq(domain: *mut ibv_pd, init: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    pointer(|| {
        // SAFETY: The caller's promise.
        let init = unsafe { init.as_mut() }.ok_or(Errno::INVALID)?;
        // SAFETY: The caller's promise.
        unsafe { create(domain, init.srq_context, &mut init.attr) }
    })
}

/// # Safety
/// `domain` is NULL or a protection domain.
unsafe fn create(
    domain: *mut ibv_pd,
    srq_context: *mut core::ffi::c_void,
    attr: &mut ibv_srq_attr,
) -> Result<*mut ibv_srq, Errno> {
    // SAFETY: The caller's promise.
    let object = unsafe { find::<DomainObject>(domain) }?;
    if attr.max_wr == 0 || attr.max_wr > limits::REQUESTS || attr.max_sge > limits::GATHER as u32 {
        return Err(Errno::INVALID);
    }
    let granted = ibv_srq_attr { max_wr: attr.max_wr, max_sge: limits::GATHER as u32, srq_limit: 0 };
    let receives = SharedReceives::new(&object.process.nic, &object.events, Arc::clone(&object.domain), granted)?;
    let receives = Arc::new(receives);
    attr.max_sge = granted.max_sge;
    // SAFETY: An object of C's, which only reads this field.
    let context = unsafe { (*object.c.get()).context };
    let c = ibv_srq { context, srq_context, pd: domain, handle: 0, mutex: MUTEX, cond: COND, events_completed: 0 };
    let _uses = Using::new(&object.domain);
    let made = SharedReceivesObject { c: UnsafeCell::new(c), receives: Arc::clone(&receives), _uses };
    let given = give(Box::new(made));
    receives.set_address(given.expose_provenance());
    Ok(given)
}

pub(super) unsafe extern "C" fn create_srq_ex(
    context: *mut ibv_context,
    init: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    const KNOWN: u32 = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    pointer(|| {
        // SAFETY: C's callers pass NULL or something that can be read and written.
        let init = unsafe { init.as_mut() }.ok_or(Errno::INVALID)?;
        let is_basic = init.comp_mask & IBV_SRQ_INIT_ATTR_TYPE == 0 || init.srq_type == 0;
        if context.is_null() || init.comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 {
            return Err(Errno::INVALID);
        }
        if init.comp_mask & !KNOWN != 0 || !is_basic {
            crate::log::info(format_args!("refused: a shared receive queue of another type than the basic one"));
            return Err(Errno::UNSUPPORTED);
        }
        // SAFETY: C's callers pass a protection domain.
        unsafe { create(init.pd, init.srq_context, &mut init.attr) }
    })
}

/// # Safety
/// `queue` is NULL or a shared receive queue; `attr` is NULL or can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_modify_srq(queue: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int {
    status(|| {
        // SAFETY: The caller's promise.
        let (object, attr) = unsafe { (find::<SharedReceivesObject>(queue)?, attr.as_ref()) };
        let attr = attr.ok_or(Errno::INVALID)?;
        if mask & IBV_SRQ_MAX_WR != 0 {
            crate::log::info(format_args!("refused: a shared receive queue keeps its size"));
            return Err(Errno::UNSUPPORTED);
        }
        if mask & !IBV_SRQ_LIMIT != 0 {
            return Err(Errno::INVALID);
        }
        if mask & IBV_SRQ_LIMIT != 0 { object.receives.set_limit(attr.srq_limit) } else { Ok(()) }
    })
}

/// # Safety
/// `queue` is NULL or a shared receive queue; `attr` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_query_srq(queue: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    status(|| {
        // SAFETY: The caller's promise.
        let object = unsafe { find::<SharedReceivesObject>(queue) }?;
        if attr.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: Not NULL, so it can be written.
        unsafe { attr.write(object.receives.attributes()) };
        Ok(())
    })
}

/// # Safety
/// A shared receive queue, which is not used any more if this succeeds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_destroy_srq(queue: *mut ibv_srq) -> c_int {
    status(|| {
        // SAFETY: The caller's promise.
        let object = unsafe { begin_end::<SharedReceivesObject>(queue, |object| object.receives.users().none()) }?;
        object.receives.end();
        // SAFETY: Begun above.
        drop(unsafe { finish_end::<SharedReceivesObject>(queue) });
        Ok(())
    })
}

pub(super) unsafe extern "C" fn post_srq_recv(
    queue: *mut ibv_srq,
    list: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    let mut next = list;
    let result = status(|| {
        // SAFETY: C's callers pass a shared receive queue, or NULL.
        let object = unsafe { borrow::<SharedReceivesObject>(queue) }?;
        // SAFETY: A list that ends with NULL.
        while let Some(request) = unsafe { next.as_ref() } {
            // SAFETY: The entries of a request can be read.
            let list = unsafe { entries(request.sg_list, request.num_sge, limits::GATHER as u32) }?;
            object.receives.post(request.wr_id, list)?;
            next = request.next;
        }
        Ok(())
    });
    if result != 0 && !bad.is_null() {
        // SAFETY: C's callers pass something that can be written.
        unsafe { bad.write(next) };
    }
    result
}
