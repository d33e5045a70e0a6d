//! `fid_cntr`: counters of completed operations as C's objects.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;
use std::sync::Arc;

use weft_libfabric::abi::errno::{FI_EAVAIL, FI_ETIMEDOUT};
use weft_libfabric::abi::{
    FI_CLASS_CNTR, FI_CNTR_EVENTS_COMP, fi_cntr_attr, fi_ops, fi_ops_cntr, fid, fid_cntr, fid_domain,
};

use super::control;
use super::count::{Count, Counted, Reached};
use super::tally::Tally;
use super::wait::{Wait, duration};
use crate::border::{Header, Held, Object, Users, borrow, close_object, give, head, hold, no, status, table, value};
use crate::domain::Domain;
use crate::errno::Errno;

/// A counter.
#[repr(C)]
pub(crate) struct Counter {
    header: Header<fid_cntr>,
    users: Users,
    domain: Held<Domain>,
    tally: Arc<Tally>,
}

// SAFETY: repr(C), and the header of a `fid_cntr` is first.
unsafe impl Object for Counter {
    type Fid = fid_cntr;
    const CLASS: usize = FI_CLASS_CNTR;

    fn users(&self) -> &Users {
        &self.users
    }
}

impl Counter {
    /// The tally of endpoints that count here.
    pub(crate) fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// Whether both belong to the same domain.
    pub(crate) fn is_of(&self, domain: &Held<Domain>) -> bool {
        self.domain.fid() == domain.fid()
    }

    pub(super) fn get(&self) -> Counted {
        self.tally.count.get()
    }

    /// Runs the NIC for a turn, where callers run it.
    pub(super) fn progress(&self) {
        self.domain.context().progress_as_caller();
    }

    /// Whether the application may sleep on the descriptor now, if it knows of this count.
    pub(super) fn may_sleep(&self) -> bool {
        let known = self.get();
        self.tally.wait.may_sleep(|| self.get() != known, || self.domain.context().watch())
    }

    /// The application's context from opening.
    pub(super) fn user_context(&self) -> *mut c_void {
        // SAFETY: The object exists, and only the application writes this, which must not do so during a call.
        unsafe { (&raw const (*self.header.as_ptr()).fid.context).read() }
    }

    /// Changes the counts, and wakes waiting threads.
    fn change(&self, change: impl FnOnce(&Count)) {
        change(&self.tally.count);
        self.tally.wait.raise();
        if self.tally.wait.blocks() {
            self.domain.context().nudge();
        }
    }

    fn wait_for(&self, threshold: u64, timeout: c_int) -> Result<(), Errno> {
        if !self.tally.wait.blocks() {
            return Err(Errno::INVALID);
        }
        let begin = self.get();
        let mut reached = Reached::NotYet;
        self.domain.context().wait_until(duration(timeout), || {
            reached = self.tally.count.reached(threshold, begin);
            reached != Reached::NotYet
        });
        match reached {
            Reached::Threshold => Ok(()),
            Reached::Failure => Err(Errno(FI_EAVAIL)),
            Reached::NotYet => Err(Errno(FI_ETIMEDOUT)),
        }
    }
}

/// `fi_cntr_open`.
pub(crate) unsafe extern "C" fn cntr_open(
    domain: *mut fid_domain,
    attributes: *mut fi_cntr_attr,
    cntr: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    status(|| {
        let attributes = NonNull::new(attributes).ok_or(Errno::INVALID)?.as_ptr();
        // SAFETY: libfabric's callers pass a domain of ours, the attributes of their version (`xpu_ctx` is not read,
        // which 1.17 lacks), and room for an address; or NULL.
        unsafe {
            let domain = hold::<Domain>(domain)?;
            if (&raw const (*attributes).flags).read() != 0 {
                return Err(Errno::NOT_HERE);
            }
            if (&raw const (*attributes).events).read() != FI_CNTR_EVENTS_COMP {
                return Err(Errno::NOT_HERE);
            }
            let wait = Wait::with_nic((&raw const (*attributes).wait_obj).read(), domain.runs())?;
            let header = Header::new(fid_cntr { fid: head::<Counter>(context, &OPS), ops: table(&COUNTER_OPS) });
            let tally = Arc::new(Tally { count: Count::default(), wait });
            give(Counter { header, users: Users::default(), domain, tally }, cntr)
        }
    })
}

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(close_object::<Counter>),
    bind: no(),
    control: Some(cntr_control),
    ops_open: no(),
    tostr: no(),
    ops_set: no(),
};

static COUNTER_OPS: fi_ops_cntr = fi_ops_cntr {
    size: size_of::<fi_ops_cntr>(),
    read: Some(read),
    readerr: Some(readerr),
    add: Some(add),
    set: Some(set),
    wait: Some(wait),
    adderr: Some(adderr),
    seterr: Some(seterr),
    export_xpu: no(),
};

unsafe extern "C" fn cntr_control(cntr: *mut fid, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: A counter of ours, and what the command needs, or NULL.
    status(|| unsafe { control(&borrow::<Counter>(cntr.cast())?.tally.wait, command, argument) })
}

unsafe extern "C" fn read(cntr: *mut fid_cntr) -> u64 {
    value(0, || {
        // SAFETY: A counter of ours, or NULL.
        let counter = unsafe { borrow::<Counter>(cntr) }?;
        counter.progress();
        Ok(counter.get().successes)
    })
}

unsafe extern "C" fn readerr(cntr: *mut fid_cntr) -> u64 {
    value(0, || {
        // SAFETY: A counter of ours, or NULL.
        let counter = unsafe { borrow::<Counter>(cntr) }?;
        counter.progress();
        Ok(counter.get().failures)
    })
}

unsafe extern "C" fn add(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: A counter of ours, or NULL.
    unsafe { change(cntr, |count| count.add(value)) }
}

unsafe extern "C" fn set(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: A counter of ours, or NULL.
    unsafe { change(cntr, |count| count.set(value)) }
}

unsafe extern "C" fn adderr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: A counter of ours, or NULL.
    unsafe { change(cntr, |count| count.add_failures(value)) }
}

unsafe extern "C" fn seterr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: A counter of ours, or NULL.
    unsafe { change(cntr, |count| count.set_failures(value)) }
}

/// # Safety
/// A counter of ours, or NULL.
unsafe fn change(cntr: *mut fid_cntr, change: impl FnOnce(&Count)) -> c_int {
    status(|| {
        // SAFETY: The caller promises as much.
        unsafe { borrow::<Counter>(cntr) }?.change(change);
        Ok(())
    })
}

unsafe extern "C" fn wait(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int {
    // SAFETY: A counter of ours, or NULL.
    status(|| unsafe { borrow::<Counter>(cntr) }?.wait_for(threshold, timeout))
}
