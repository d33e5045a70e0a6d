//! Reporting to applications: completion queues, counters, event queues, and poll sets of them.

mod completion_queue;
mod completions;
mod count;
mod counter;
mod entry;
mod event_queue;
mod events;
mod failure;
mod poll_set;
mod ring;
mod tally;
mod wait;

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

pub(crate) use completion_queue::{CompletionQueue, cq_open};
pub(crate) use completions::{Completions, Sources};
pub(crate) use counter::{Counter, cntr_open};
pub(crate) use entry::{Entry, Source};
pub(crate) use event_queue::{EventQueue, eq_open};
pub(crate) use failure::Failure;
pub(crate) use poll_set::{class, poll_open};
pub(crate) use tally::Tally;
use wait::{NoWait, Wait};
use weft_libfabric::abi::errno::FI_ENODATA;
use weft_libfabric::abi::{
    FI_CLASS_CNTR, FI_CLASS_CQ, FI_CLASS_EQ, FI_GETWAIT, FI_GETWAITOBJ, fi_wait_obj, fid, fid_fabric,
};

use crate::border::{borrow, status};
use crate::errno::Errno;
use crate::stderr;

/// `fi_trywait`: whether the application may sleep on the descriptors of these objects.
pub(crate) unsafe extern "C" fn try_wait(_fabric: *mut fid_fabric, objects: *mut *mut fid, count: c_int) -> c_int {
    status(|| {
        let count = usize::try_from(count).map_err(|_| Errno::INVALID)?;
        let objects = NonNull::new(objects).ok_or(Errno::INVALID)?.as_ptr();
        for number in 0..count {
            // SAFETY: C promises an array of this many objects of ours.
            if !unsafe { may_sleep(objects.add(number).read()) }? {
                return Err(Errno::AGAIN);
            }
        }
        Ok(())
    })
}

/// # Safety
/// An object of ours, or NULL.
unsafe fn may_sleep(object: *mut fid) -> Result<bool, Errno> {
    // SAFETY: The caller promises an object of ours, and the class says which.
    unsafe {
        match class(object)? {
            FI_CLASS_CQ => borrow::<CompletionQueue>(object.cast()).map(CompletionQueue::may_sleep),
            FI_CLASS_CNTR => borrow::<Counter>(object.cast()).map(Counter::may_sleep),
            FI_CLASS_EQ => borrow::<EventQueue>(object.cast()).map(EventQueue::may_sleep),
            _ => Err(Errno::INVALID),
        }
    }
}

/// `fi_control` of an object with a wait object.
///
/// # Safety
/// `argument` is what the command needs, or NULL.
unsafe fn control(wait: &Wait, command: c_int, argument: *mut c_void) -> Result<(), Errno> {
    let argument = NonNull::new(argument).ok_or(Errno::INVALID);
    match command {
        FI_GETWAIT => {
            let descriptor = wait.descriptor().ok_or(Errno(FI_ENODATA))?;
            // SAFETY: For a descriptor C passes an `int *`.
            unsafe { argument?.cast::<c_int>().write(descriptor) };
        }
        FI_GETWAITOBJ => {
            // SAFETY: C passes an `enum fi_wait_obj *`.
            unsafe { argument?.cast::<fi_wait_obj>().write(wait.object()) };
        }
        _ => return Err(Errno::NOT_HERE),
    }
    Ok(())
}

impl From<NoWait> for Errno {
    fn from(error: NoWait) -> Self {
        match error {
            NoWait::Kind(_) => Self::NOT_HERE,
            NoWait::Asleep => {
                stderr::complain_once(
                    "FI_WAIT_FD can't be had with FI_WEFT_PROGRESS=caller: nobody runs the NIC while the program \
                     sleeps on the descriptor, so it would never wake; set FI_WEFT_PROGRESS to hybrid or thread, or \
                     wait with calls (FI_WAIT_UNSPEC)",
                );
                Self::NOT_HERE
            }
            NoWait::System(error) => weft::verbs::Error::Port(error).into(),
        }
    }
}
