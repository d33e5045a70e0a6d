//! `fid_eq`: event queues as C's objects.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::{self, NonNull};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use libc::ssize_t;
use weft_libfabric::abi::errno::{FI_EAVAIL, FI_EOVERRUN, FI_ETOOSMALL};
use weft_libfabric::abi::{
    FI_AFFINITY, FI_CLASS_EQ, FI_PEEK, FI_WRITE, fi_eq_attr, fi_eq_entry, fi_eq_err_entry, fi_ops, fi_ops_eq, fid,
    fid_eq, fid_fabric,
};
use weft_lock::{Entered, Rank};

use super::control;
use super::events::{Events, MOST_BYTES, Read};
use super::failure::words;
use super::wait::{Wait, duration};
use crate::border::{
    Header, Held, Object, Users, borrow, close_object, count, give, head, hold, no, status, table, value,
};
use crate::errno::Errno;
use crate::fabric::Fabric;

/// The default number of waiting events.
const DEFAULT_SIZE: usize = 1024;

/// An event queue.
#[repr(C)]
pub(crate) struct EventQueue {
    header: Header<fid_eq>,
    users: Users,
    /// Keeps it open.
    _fabric: Held<Fabric>,
    wait: Wait,
    /// Whether applications may write.
    writable: bool,
    // Threads may sleep here for long, and the standard library's locks survive a fork.
    events: Mutex<Events<Failed>>,
    come: Condvar,
}

/// A failed control operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failed {
    object: usize,
    context: usize,
    data: u64,
    code: c_int,
}

// SAFETY: repr(C), and the header of a `fid_eq` is first.
unsafe impl Object for EventQueue {
    type Fid = fid_eq;
    const CLASS: usize = FI_CLASS_EQ;

    fn users(&self) -> &Users {
        &self.users
    }
}

impl EventQueue {
    /// A control operation on `object` has succeeded.
    ///
    /// # Errors
    /// The queue is full.
    pub(crate) fn report(&self, kind: u32, object: *mut fid, context: *mut c_void, data: u64) -> Result<(), Errno> {
        let entry = [object.expose_provenance() as u64, context.expose_provenance() as u64, data];
        let bytes: Vec<u8> = entry.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.add(|events| events.push(kind, &bytes))
    }

    /// A control operation on `object` has failed.
    ///
    /// # Errors
    /// The queue is full.
    pub(crate) fn report_failure(
        &self,
        object: *mut fid,
        context: *mut c_void,
        data: u64,
        Errno(code): Errno,
    ) -> Result<(), Errno> {
        let (object, context) = (object.expose_provenance(), context.expose_provenance());
        self.add(|events| events.push_failure(Failed { object, context, data, code }))
    }

    /// Whether the application may sleep on the descriptor now.
    pub(super) fn may_sleep(&self) -> bool {
        self.wait.may_sleep(|| !self.events().1.is_empty(), || ())
    }

    fn add(&self, add: impl FnOnce(&mut Events<Failed>) -> bool) -> Result<(), Errno> {
        if !add(&mut self.events().1) {
            return Err(Errno(FI_EOVERRUN));
        }
        self.come.notify_all();
        self.wait.raise();
        Ok(())
    }

    fn take(&self, most: usize, flags: u64) -> Result<(u32, Box<[u8]>), Errno> {
        match self.events().1.read(most, flags & FI_PEEK != 0) {
            Read::Event { kind, bytes } => Ok((kind, bytes)),
            Read::TooShort => Err(Errno(FI_ETOOSMALL)),
            Read::Failure => Err(Errno(FI_EAVAIL)),
            Read::Nothing => Err(Errno::AGAIN),
        }
    }

    fn wait_and_take(&self, most: usize, timeout: c_int, flags: u64) -> Result<(u32, Box<[u8]>), Errno> {
        let end = duration(timeout).and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let taken = self.take(most, flags);
            if taken != Err(Errno::AGAIN) {
                return taken;
            }
            let (_entered, events) = self.events();
            if !events.is_empty() {
                continue;
            }
            match end.map(|end| end.saturating_duration_since(Instant::now())) {
                Some(left) if left.is_zero() => return Err(Errno::AGAIN),
                Some(left) => drop(self.come.wait_timeout(events, left)),
                None => drop(self.come.wait(events)),
            }
        }
    }

    /// A panic while it was locked leaves it valid: every change is one call.
    fn events(&self) -> (Entered, MutexGuard<'_, Events<Failed>>) {
        (Rank::ControlEvents.enter(), self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// `fi_eq_open`.
pub(crate) unsafe extern "C" fn eq_open(
    fabric: *mut fid_fabric,
    attributes: *mut fi_eq_attr,
    eq: *mut *mut fid_eq,
    context: *mut c_void,
) -> c_int {
    status(|| {
        let attributes = NonNull::new(attributes).ok_or(Errno::INVALID)?.as_ptr();
        // SAFETY: libfabric's callers pass a fabric of ours, attributes, and room for an address; or NULL.
        unsafe {
            let fabric = hold::<Fabric>(fabric)?;
            let flags = (&raw const (*attributes).flags).read();
            if flags & !(FI_WRITE | FI_AFFINITY) != 0 {
                return Err(Errno::NOT_HERE);
            }
            let wait = Wait::new((&raw const (*attributes).wait_obj).read())?;
            let size = (&raw const (*attributes).size).read();
            let queue = EventQueue {
                header: Header::new(fid_eq { fid: head::<EventQueue>(context, &OPS), ops: table(&EVENT_OPS) }),
                users: Users::default(),
                _fabric: fabric,
                wait,
                writable: flags & FI_WRITE != 0,
                events: Mutex::new(Events::new(if size == 0 { DEFAULT_SIZE } else { size })),
                come: Condvar::new(),
            };
            give(queue, eq)
        }
    })
}

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(close_object::<EventQueue>),
    bind: no(),
    control: Some(eq_control),
    ops_open: no(),
    tostr: no(),
    ops_set: no(),
};

static EVENT_OPS: fi_ops_eq = fi_ops_eq {
    size: size_of::<fi_ops_eq>(),
    read: Some(read),
    readerr: Some(readerr),
    write: Some(write),
    sread: Some(sread),
    strerror: Some(strerror),
};

unsafe extern "C" fn eq_control(eq: *mut fid, command: c_int, argument: *mut c_void) -> c_int {
    // SAFETY: A queue of ours, and what the command needs, or NULL.
    status(|| unsafe { control(&borrow::<EventQueue>(eq.cast())?.wait, command, argument) })
}

unsafe extern "C" fn read(eq: *mut fid_eq, event: *mut u32, buffer: *mut c_void, length: usize, flags: u64) -> ssize_t {
    // SAFETY: A queue of ours, and room for an event's number and this many bytes; or NULL.
    count(|| unsafe {
        let queue = borrow::<EventQueue>(eq)?;
        show(event, buffer, length, || queue.take(length, flags))
    })
}

unsafe extern "C" fn sread(
    eq: *mut fid_eq,
    event: *mut u32,
    buffer: *mut c_void,
    length: usize,
    timeout: c_int,
    flags: u64,
) -> ssize_t {
    // SAFETY: A queue of ours, and room for an event's number and this many bytes; or NULL.
    count(|| unsafe {
        let queue = borrow::<EventQueue>(eq)?;
        if !queue.wait.blocks() {
            return Err(Errno::INVALID);
        }
        show(event, buffer, length, || queue.wait_and_take(length, timeout, flags))
    })
}

/// Writes an event to the application's buffers.
///
/// # Safety
/// `event` can be written, `buffer` has `length` bytes; or they are NULL.
unsafe fn show(
    event: *mut u32,
    buffer: *mut c_void,
    length: usize,
    take: impl FnOnce() -> Result<(u32, Box<[u8]>), Errno>,
) -> Result<usize, Errno> {
    if event.is_null() || (buffer.is_null() && length > 0) {
        return Err(Errno::INVALID);
    }
    let (kind, bytes) = take()?;
    // SAFETY: The caller promises the room, and the event is not longer.
    unsafe {
        event.write(kind);
        if !bytes.is_empty() {
            ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.cast(), bytes.len());
        }
    }
    Ok(bytes.len())
}

unsafe extern "C" fn readerr(eq: *mut fid_eq, to: *mut fi_eq_err_entry, flags: u64) -> ssize_t {
    count(|| {
        // SAFETY: A queue of ours, or NULL.
        let queue = unsafe { borrow::<EventQueue>(eq) }?;
        let to = NonNull::new(to).ok_or(Errno::INVALID)?.as_ptr();
        let failed = queue.events().1.read_failure(flags & FI_PEEK != 0).ok_or(Errno::AGAIN)?;
        // SAFETY: Not NULL, so C promises the structure. Its last field is not accessed, which the first versions lack:
        // there is no data.
        unsafe {
            (&raw mut (*to).fid).write(ptr::with_exposed_provenance_mut(failed.object));
            (&raw mut (*to).context).write(ptr::with_exposed_provenance_mut(failed.context));
            (&raw mut (*to).data).write(failed.data);
            (&raw mut (*to).err).write(failed.code);
            (&raw mut (*to).prov_errno).write(0);
            (&raw mut (*to).err_data).write(ptr::null_mut());
        }
        Ok(size_of::<fi_eq_err_entry>())
    })
}

unsafe extern "C" fn write(eq: *mut fid_eq, event: u32, buffer: *const c_void, length: usize, _flags: u64) -> ssize_t {
    count(|| {
        // SAFETY: A queue of ours, or NULL.
        let queue = unsafe { borrow::<EventQueue>(eq) }?;
        if !queue.writable || buffer.is_null() || length > MOST_BYTES {
            return Err(Errno::INVALID);
        }
        // SAFETY: Not NULL, so C promises this many bytes.
        let bytes = unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), length) };
        queue.add(|events| events.push(event, bytes))?;
        Ok(length)
    })
}

unsafe extern "C" fn strerror(
    _eq: *mut fid_eq,
    _number: c_int,
    _explanation: *const c_void,
    buffer: *mut c_char,
    length: usize,
) -> *const c_char {
    // SAFETY: The buffer has this many bytes, or is NULL. Failures of control operations have no explanation.
    value(c"".as_ptr(), || unsafe { Ok(words(0, ptr::null(), buffer, length)) })
}

const _: () = assert!(size_of::<fi_eq_entry>() == 3 * size_of::<u64>());
