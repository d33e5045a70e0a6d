//! Asynchronous events of an open device.

use core::ffi::c_int;

use super::objects::{CompletionObject, ContextObject, QueuePairObject, SharedReceivesObject};
use crate::abi::*;
use crate::border::{find_to_count, status};
use crate::errno::Errno;
use crate::events::Acknowledgments;
use crate::semaphore;

/// Waits for an event. A thread that waits can be canceled: until it has waited nothing is held.
///
/// # Safety
/// `context` is NULL or an open device; `event` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn weft_ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    if context.is_null() || event.is_null() {
        Errno::INVALID.set();
        return -1;
    }
    loop {
        // SAFETY: Not NULL, so it is an open device.
        let fd = unsafe { (*context).async_fd };
        if !semaphore::wait(fd) {
            return -1;
        }
        let found = status(|| {
            // SAFETY: The caller's promise.
            let events = &unsafe { ContextObject::of(context) }?.events;
            // SAFETY: An event that was not withdrawn: who destroys its object has yet to do that, for which it waits.
            let found = events.take(|event| unsafe { owed(&event.to_c(), Acknowledgments::got) });
            let found = found.ok_or(Errno(libc::EAGAIN))?.to_c();
            // SAFETY: Not NULL, so it can be written.
            unsafe { event.write(found) };
            Ok(())
        });
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

/// Does something with the acknowledgments of the object that an event is about, if it is there.
///
/// # Safety
/// The object is not destroyed meanwhile.
unsafe fn owed(event: &ibv_async_event, act: impl FnOnce(&Acknowledgments)) {
    // SAFETY: The caller's promise; what is no object of the type is not found.
    unsafe {
        match event.event_type {
            IBV_EVENT_CQ_ERR => {
                if let Ok(object) = find_to_count::<CompletionObject>(event.element.cast()) {
                    act(&object.queue.async_events);
                }
            }
            IBV_EVENT_SRQ_LIMIT_REACHED => {
                if let Ok(object) = find_to_count::<SharedReceivesObject>(event.element.cast()) {
                    act(&object.receives.acknowledgments);
                }
            }
            _ => {
                if let Ok(object) = find_to_count::<QueuePairObject>(event.element.cast()) {
                    act(&object.queue_pair.acknowledgments);
                }
            }
        }
    }
}

/// # Safety
/// NULL, or an event that the program got.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_ack_async_event(event: *mut ibv_async_event) {
    status(|| {
        // SAFETY: The caller's promise.
        let event = unsafe { event.as_ref() }.ok_or(Errno::INVALID)?;
        // SAFETY: The object of an event that was not acknowledged is there.
        unsafe { owed(event, |acknowledgments| acknowledgments.acknowledge(1)) };
        Ok(())
    });
}
