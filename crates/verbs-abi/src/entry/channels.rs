//! Completion channels, and their events.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use super::objects::{ChannelObject, CompletionObject, ContextObject};
use crate::abi::*;
use crate::border::{Counted as _, find, find_to_count, give, pointer, status, take};
use crate::completion::Channel;
use crate::errno::Errno;
use crate::semaphore;

/// # Safety
/// NULL, or an open device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    pointer(|| {
        // SAFETY: The caller's promise.
        unsafe { ContextObject::of(context) }?;
        let channel = Arc::new(Channel::new()?);
        let c = UnsafeCell::new(ibv_comp_channel { context, fd: channel.descriptor(), refcnt: 0 });
        Ok(give(Box::new(ChannelObject { c, channel })))
    })
}

/// # Safety
/// A channel, which is not used any more if this succeeds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: The caller's promise.
    status(|| unsafe { take::<ChannelObject>(channel, |object| object.channel.users().none()) }.map(drop))
}

/// Waits for an event. A thread that waits can be canceled: until it has waited nothing is held.
///
/// # Safety
/// `channel` is NULL or a channel; `queue` and `queue_context` are NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn weft_ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    queue: *mut *mut ibv_cq,
    queue_context: *mut *mut c_void,
) -> c_int {
    if channel.is_null() {
        Errno::INVALID.set();
        return -1;
    }
    loop {
        // SAFETY: Not NULL, so it is a channel.
        let fd = unsafe { (*channel).fd };
        // SAFETY: As above.
        let channel_context = unsafe { (*channel).context };
        leave_to_thread(channel_context);
        if !semaphore::wait(fd) {
            return -1;
        }
        // SAFETY: The caller's promise.
        let found = status(|| unsafe { take_event(channel, queue, queue_context) });
        match found {
            0 => return 0,
            // It was withdrawn meanwhile.
            libc::EAGAIN => {}
            error => {
                Errno(error).set();
                return -1;
            }
        }
    }
}

/// The calling thread is about to sleep: the NIC's own goes on.
fn leave_to_thread(context: *mut ibv_context) {
    status(|| {
        // SAFETY: The context of a channel, which outlives it.
        unsafe { ContextObject::of(context) }?.process.nic.context.watch();
        Ok(())
    });
}

/// # Safety
/// As for [`weft_ibv_get_cq_event`].
unsafe fn take_event(
    channel: *mut ibv_comp_channel,
    queue: *mut *mut ibv_cq,
    queue_context: *mut *mut c_void,
) -> Result<(), Errno> {
    // SAFETY: The caller's promise.
    let channel = unsafe { &find::<ChannelObject>(channel)?.channel };
    let taken = channel.take(|address| {
        let found = core::ptr::with_exposed_provenance_mut::<ibv_cq>(address);
        // SAFETY: A queue whose events were not withdrawn: who destroys it has yet to do that, for which it waits.
        let object = unsafe { find_to_count::<CompletionObject>(found) }?;
        object.queue.channel_events.got();
        // SAFETY: C writes the field before it shares the queue.
        Ok::<_, Errno>((found, unsafe { (*object.c.get()).basic.cq_context }))
    });
    let (found, context) = taken.ok_or(Errno(libc::EAGAIN))??;
    if !queue.is_null() {
        // SAFETY: The caller's promise.
        unsafe { queue.write(found) };
    }
    if !queue_context.is_null() {
        // SAFETY: The caller's promise.
        unsafe { queue_context.write(context) };
    }
    Ok(())
}

/// # Safety
/// NULL, or a completion queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_ack_cq_events(queue: *mut ibv_cq, count: c_uint) {
    status(|| {
        // SAFETY: The caller's promise.
        unsafe { find_to_count::<CompletionObject>(queue) }?.queue.channel_events.acknowledge(count);
        Ok(())
    });
}
