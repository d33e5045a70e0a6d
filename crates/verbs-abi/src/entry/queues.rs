//! Completion queues.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use std::sync::Arc;

use super::extended_queues::extended;
use super::objects::{COND, ChannelObject, CompletionObject, ContextObject, MUTEX};
use crate::abi::*;
use crate::border::{Counted as _, Using, begin_end, borrow, find, finish_end, give, pointer, status};
use crate::completion::CompletionQueue;
use crate::errno::Errno;
use crate::limits;

/// Room for as many entries as are wanted.
fn capacity(entries: c_int) -> Result<usize, Errno> {
    u32::try_from(entries)
        .ok()
        .filter(|entries| (1..=limits::COMPLETIONS).contains(entries))
        .map(|entries| entries as usize)
        .ok_or(Errno::INVALID)
}

/// # Safety
/// `context` is NULL or an open device; `channel` is NULL or a channel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_create_cq(
    context: *mut ibv_context,
    entries: c_int,
    queue_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    // SAFETY: The caller's promise.
    pointer(|| unsafe { create(context, entries, queue_context, channel, vector) })
}

/// # Safety
/// `context` is NULL or an open device; `channel` is NULL or a channel.
pub(super) unsafe fn create(
    context: *mut ibv_context,
    entries: c_int,
    queue_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> Result<*mut ibv_cq, Errno> {
    // SAFETY: The caller's promise.
    let opened = unsafe { ContextObject::of(context) }?;
    let capacity = capacity(entries)?;
    if vector != 0 {
        return Err(Errno::INVALID);
    }
    let using = match channel.is_null() {
        true => None,
        // SAFETY: The caller's promise; C only reads the field.
        false => match unsafe { (find::<ChannelObject>(channel)?, (*channel).context == context) } {
            (found, true) => Some(Using::new(&found.channel)),
            (_, false) => {
                crate::log::info(format_args!("refused: a completion queue with a channel of another open device"));
                return Err(Errno::INVALID);
            }
        },
    };
    let told = using.as_ref().map(|using| Arc::clone(using.shared()));
    let queue = Arc::new(CompletionQueue::new(&opened.process.nic, &opened.events, told, capacity));
    let basic = ibv_cq {
        context,
        channel,
        cq_context: queue_context,
        handle: 0,
        cqe: entries,
        mutex: MUTEX,
        cond: COND,
        comp_events_completed: 0,
        async_events_completed: 0,
    };
    let c = UnsafeCell::new(extended(basic));
    let current = UnsafeCell::new(ibv_wc::default());
    let given = give(Box::new(CompletionObject { c, queue: Arc::clone(&queue), current, _channel: using }));
    queue.set_address(given.expose_provenance());
    Ok(given)
}

/// # Safety
/// A completion queue that no other thread polls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_resize_cq(queue: *mut ibv_cq, entries: c_int) -> c_int {
    status(|| {
        // SAFETY: The caller's promise.
        let object = unsafe { find::<CompletionObject>(queue) }?;
        object.queue.resize(capacity(entries)?)?;
        // SAFETY: The caller's promise.
        unsafe { (*object.c.get()).basic.cqe = entries };
        Ok(())
    })
}

/// # Safety
/// A completion queue, which is not used any more if this succeeds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_destroy_cq(queue: *mut ibv_cq) -> c_int {
    status(|| {
        // SAFETY: The caller's promise.
        let object = unsafe { begin_end::<CompletionObject>(queue, |object| object.queue.users().none()) }?;
        // While it waits for acknowledgments, the program finds the queue.
        object.queue.end();
        // SAFETY: Begun above.
        drop(unsafe { finish_end::<CompletionObject>(queue) });
        Ok(())
    })
}

pub(super) unsafe extern "C" fn poll_cq(queue: *mut ibv_cq, most: c_int, to: *mut ibv_wc) -> c_int {
    let mut count = 0;
    let result = status(|| {
        // SAFETY: C's callers pass a completion queue, or NULL.
        let object = unsafe { borrow::<CompletionObject>(queue) }?;
        let most = usize::try_from(most).map_err(|_| Errno::INVALID)?;
        if most == 0 {
            return Ok(());
        }
        if to.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: C's callers say how many entries can be written. Any bytes are a completion, so none has to be
        // initialised before.
        count = object.queue.poll(unsafe { core::slice::from_raw_parts_mut(to, most) });
        Ok(())
    });
    if result == 0 { count as c_int } else { -result }
}

pub(super) unsafe extern "C" fn req_notify_cq(queue: *mut ibv_cq, solicited_only: c_int) -> c_int {
    status(|| {
        // SAFETY: C's callers pass a completion queue, or NULL.
        unsafe { borrow::<CompletionObject>(queue) }?.queue.arm(solicited_only != 0);
        Ok(())
    })
}
