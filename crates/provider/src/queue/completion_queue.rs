//! `fid_cq`: completion queues as C's objects.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::{self, NonNull};
use std::ffi::CString;
use std::sync::Arc;

use libc::ssize_t;
use weft_libfabric::abi::errno::FI_EAGAIN;
use weft_libfabric::abi::{
    FI_ADDR_NOTAVAIL, FI_AFFINITY, FI_CLASS_CQ, FI_CQ_COND_NONE, FI_CQ_COND_THRESHOLD, FI_WAIT_NONE, fi_addr_t,
    fi_cq_attr, fi_cq_err_entry, fi_ops, fi_ops_cq, fi_version, fid, fid_cq, fid_domain,
};
use weft_lock::{Mutex, Rank};

use super::completions::Completions;
use super::control;
use super::entry::{Entry, Format};
use super::failure::{Failure, words};
use super::wait::Wait;
use crate::border::{
    Header, Held, Object, Users, borrow, close_object, count, give, head, hold, no, status, table, value,
};
use crate::domain::Domain;
use crate::errno::Errno;

/// The minimum size of a queue. Applications request the number that they read at a time, which does not limit how many
/// operations they have in flight.
const LEAST_SIZE: usize = 64 * 1024;
/// From this version on applications pass the room for `err_data`.
const ERROR_DATA_SIZED: u32 = fi_version(1, 5);
/// From this version on `fi_cq_err_entry` ends with a source address.
const ERROR_SOURCE: u32 = fi_version(1, 20);

/// A completion queue.
#[repr(C)]
pub(crate) struct CompletionQueue {
    header: Header<fid_cq>,
    users: Users,
    domain: Held<Domain>,
    completions: Arc<Completions>,
    /// Whether waits of the application have a threshold.
    thresholds: bool,
    /// The latest failure that was read and had an explanation: its number, and the text, which `err_data` may point
    /// to.
    explanation: Mutex<(c_int, CString)>,
}

// SAFETY: repr(C), and the header of a `fid_cq` is first.
unsafe impl Object for CompletionQueue {
    type Fid = fid_cq;
    const CLASS: usize = FI_CLASS_CQ;

    fn users(&self) -> &Users {
        &self.users
    }
}

impl CompletionQueue {
    fn new(domain: Held<Domain>, attributes: &fi_cq_attr, context: *mut c_void) -> Result<Self, Errno> {
        if attributes.flags & !FI_AFFINITY != 0 {
            return Err(Errno::NOT_HERE);
        }
        let format = Format::new(attributes.format).ok_or(Errno::INVALID)?;
        let wait = Wait::with_nic(attributes.wait_obj, domain.runs())?;
        let thresholds = match attributes.wait_cond {
            FI_CQ_COND_THRESHOLD => true,
            FI_CQ_COND_NONE => false,
            // Without waits the threshold is unused.
            _ if attributes.wait_obj == FI_WAIT_NONE => false,
            _ => return Err(Errno::INVALID),
        };
        Ok(Self {
            header: Header::new(fid_cq { fid: head::<Self>(context, &OPS), ops: table(&QUEUE_OPS) }),
            users: Users::default(),
            domain,
            completions: Arc::new(Completions::new(attributes.size.max(LEAST_SIZE), format, wait)),
            thresholds,
            explanation: Mutex::new(Rank::FailureText, Default::default()),
        })
    }

    /// The queue that endpoints report to.
    pub(crate) fn completions(&self) -> &Arc<Completions> {
        &self.completions
    }

    /// Whether both belong to the same domain.
    pub(crate) fn is_of(&self, domain: &Held<Domain>) -> bool {
        self.domain.fid() == domain.fid()
    }

    /// Whether there is something to read.
    pub(super) fn is_ready(&self) -> bool {
        self.completions.ring.waiting() > 0
    }

    /// Whether the application may sleep on the descriptor now.
    pub(super) fn may_sleep(&self) -> bool {
        self.completions.wait.may_sleep(|| self.is_ready(), || self.domain.context().watch())
    }

    /// The application's context from opening.
    pub(super) fn user_context(&self) -> *mut c_void {
        // SAFETY: The object exists, and only the application writes this, which must not do so during a call.
        unsafe { (&raw const (*self.header.as_ptr()).fid.context).read() }
    }

    unsafe fn wait(
        &self,
        into: (*mut c_void, usize, *mut fi_addr_t),
        condition: *const c_void,
        timeout: c_int,
    ) -> Result<usize, Errno> {
        if !self.completions.wait.blocks() || (into.0.is_null() && into.1 > 0) {
            return Err(Errno::INVALID);
        }
        let due = match NonNull::new(condition.cast::<usize>().cast_mut()) {
            // SAFETY: Not NULL, and then it is a `size_t`, because the application has chosen so.
            Some(threshold) if self.thresholds => unsafe { threshold.read() }.max(1),
            _ => 1,
        };
        // SAFETY: C promises the room.
        unsafe { self.completions.wait_and_read(self.domain.context(), into, due, timeout) }
    }

    unsafe fn read_failure(&self, to: *mut fi_cq_err_entry) -> Result<usize, Errno> {
        let to = NonNull::new(to).ok_or(Errno::INVALID)?.as_ptr();
        let (entry, failure) = self.completions.ring.take_failure().ok_or(Errno(FI_EAGAIN))?;
        let version = self.domain.api_version();
        // SAFETY: C promises the structure of its version; later fields are not accessed. `err_data` is one of the
        // application's if its size says so.
        unsafe {
            write_failure(to, &entry, &failure);
            if version >= ERROR_SOURCE {
                (&raw mut (*to).src_addr).write(FI_ADDR_NOTAVAIL);
            }
            if failure.is_expected() {
                // There is no explanation, and programs expect that: they do not initialise these fields, so that they
                // may have any value.
                (&raw mut (*to).err_data).write(ptr::null_mut());
                if version >= ERROR_DATA_SIZED {
                    (&raw mut (*to).err_data_size).write(0);
                }
                return Ok(1);
            }
            let explanation = explain(&failure);
            let text = explanation.as_bytes_with_nul();
            let room = if version >= ERROR_DATA_SIZED { (&raw const (*to).err_data_size).read() } else { 0 };
            let data = (&raw const (*to).err_data).read();
            if room > 0 && !data.is_null() {
                let length = text.len().min(room);
                ptr::copy_nonoverlapping(text.as_ptr(), data.cast(), length);
                data.cast::<u8>().add(length - 1).write(0);
                (&raw mut (*to).err_data_size).write(length);
            } else {
                (&raw mut (*to).err_data).write(text.as_ptr().cast_mut().cast());
                if version >= ERROR_DATA_SIZED {
                    (&raw mut (*to).err_data_size).write(text.len());
                }
            }
            // The text stays in place when its owner moves.
            *self.explanation.lock() = (failure.kind as c_int, explanation);
        }
        Ok(1)
    }
}

/// Writes the fields that every version of the structure has, except `err_data`.
///
/// # Safety
/// `to` can be written.
unsafe fn write_failure(to: *mut fi_cq_err_entry, entry: &Entry, failure: &Failure) {
    // SAFETY: The caller promises that these fields are there.
    unsafe {
        (&raw mut (*to).op_context).write(ptr::with_exposed_provenance_mut(entry.context));
        (&raw mut (*to).flags).write(entry.flags);
        (&raw mut (*to).len).write(entry.length);
        (&raw mut (*to).buf).write(ptr::with_exposed_provenance_mut(entry.buffer));
        (&raw mut (*to).data).write(entry.data);
        (&raw mut (*to).tag).write(entry.tag);
        (&raw mut (*to).olen).write(failure.overflow as usize);
        (&raw mut (*to).err).write(failure.code);
        (&raw mut (*to).prov_errno).write(failure.kind as c_int);
    }
}

fn explain(failure: &Failure) -> CString {
    CString::new(&*failure.text).unwrap_or_else(|_| failure.kind.text().into())
}

/// `fi_cq_open`.
pub(crate) unsafe extern "C" fn cq_open(
    domain: *mut fid_domain,
    attributes: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    status(|| {
        let attributes = NonNull::new(attributes).ok_or(Errno::INVALID)?.as_ptr();
        // SAFETY: libfabric's callers pass a domain of ours, the attributes of their version (`xpu_ctx` is not read,
        // which 1.17 lacks), and room for an address; or NULL.
        unsafe {
            let attributes = fi_cq_attr {
                size: (&raw const (*attributes).size).read(),
                flags: (&raw const (*attributes).flags).read(),
                format: (&raw const (*attributes).format).read(),
                wait_obj: (&raw const (*attributes).wait_obj).read(),
                signaling_vector: 0,
                wait_cond: (&raw const (*attributes).wait_cond).read(),
                wait_set: ptr::null_mut(),
                xpu_ctx: ptr::null_mut(),
            };
            let queue = CompletionQueue::new(hold::<Domain>(domain)?, &attributes, context)?;
            give(queue, cq)
        }
    })
}

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(close_object::<CompletionQueue>),
    bind: no(),
    control: Some(cq_control),
    ops_open: no(),
    tostr: no(),
    ops_set: no(),
};

static QUEUE_OPS: fi_ops_cq = fi_ops_cq {
    size: size_of::<fi_ops_cq>(),
    read: Some(read),
    readfrom: Some(readfrom),
    readerr: Some(readerr),
    sread: Some(sread),
    sreadfrom: Some(sreadfrom),
    signal: Some(signal),
    strerror: Some(strerror),
    export_xpu: no(),
};

unsafe extern "C" fn cq_control(cq: *mut fid, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: A queue of ours, and what the command needs, or NULL.
    status(|| unsafe { control(&borrow::<CompletionQueue>(cq.cast())?.completions.wait, command, argument) })
}

unsafe extern "C" fn read(cq: *mut fid_cq, buffer: *mut c_void, entries: usize) -> ssize_t {
    // SAFETY: As for `readfrom`.
    unsafe { readfrom(cq, buffer, entries, ptr::null_mut()) }
}

unsafe extern "C" fn readfrom(
    cq: *mut fid_cq,
    buffer: *mut c_void,
    entries: usize,
    sources: *mut fi_addr_t,
) -> ssize_t {
    count(|| {
        // SAFETY: A queue of ours, or NULL.
        let queue = unsafe { borrow::<CompletionQueue>(cq) }?;
        // SAFETY: C promises room for as many entries of the queue's format, and as many addresses if there are any.
        unsafe { queue.completions.read(queue.domain.context(), buffer, entries, sources) }
    })
}

unsafe extern "C" fn readerr(cq: *mut fid_cq, to: *mut fi_cq_err_entry, _flags: u64) -> ssize_t {
    // SAFETY: A queue of ours, and a structure of the caller's version, or NULL.
    count(|| unsafe { borrow::<CompletionQueue>(cq)?.read_failure(to) })
}

unsafe extern "C" fn sread(
    cq: *mut fid_cq,
    buffer: *mut c_void,
    entries: usize,
    condition: *const c_void,
    timeout: c_int,
) -> ssize_t {
    // SAFETY: As for `sreadfrom`.
    unsafe { sreadfrom(cq, buffer, entries, ptr::null_mut(), condition, timeout) }
}

unsafe extern "C" fn sreadfrom(
    cq: *mut fid_cq,
    buffer: *mut c_void,
    entries: usize,
    sources: *mut fi_addr_t,
    condition: *const c_void,
    timeout: c_int,
) -> ssize_t {
    // SAFETY: A queue of ours, and room for as many entries and addresses, or NULL.
    count(|| unsafe { borrow::<CompletionQueue>(cq)?.wait((buffer, entries, sources), condition, timeout) })
}

unsafe extern "C" fn signal(cq: *mut fid_cq) -> c_int {
    status(|| {
        // SAFETY: A queue of ours, or NULL.
        let queue = unsafe { borrow::<CompletionQueue>(cq) }?;
        if !queue.completions.wait.blocks() {
            return Err(Errno::INVALID);
        }
        queue.completions.interrupt(queue.domain.context());
        Ok(())
    })
}

unsafe extern "C" fn strerror(
    cq: *mut fid_cq,
    number: c_int,
    explanation: *const c_void,
    buffer: *mut c_char,
    length: usize,
) -> *const c_char {
    // SAFETY: A queue of ours. The explanation is one that `readerr` gave, and so ends with a NUL, or NULL; the buffer
    // has this many bytes, or is NULL.
    value(c"".as_ptr(), || unsafe {
        // Many programs pass the number alone, right after they have read the failure: its explanation says more than
        // its kind.
        let latest = borrow::<CompletionQueue>(cq)?.explanation.lock();
        let known = if explanation.is_null() && latest.0 == number { latest.1.as_ptr().cast() } else { explanation };
        Ok(words(number, known, buffer, length))
    })
}
