//! `fid_poll`: sets of completion queues and counters that are polled together.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;

use weft_libfabric::abi::{
    FI_CLASS_CNTR, FI_CLASS_CQ, FI_CLASS_POLL, fi_ops, fi_ops_poll, fi_poll_attr, fid, fid_domain, fid_poll,
};
use weft_lock::{Mutex, Rank};

use super::completion_queue::CompletionQueue;
use super::count::Counted;
use super::counter::Counter;
use crate::border::{Header, Held, Object, Users, borrow, close, give, head, hold, no, number, status, table};
use crate::domain::Domain;
use crate::errno::Errno;

/// A poll set.
#[repr(C)]
pub(crate) struct PollSet {
    header: Header<fid_poll>,
    users: Users,
    domain: Held<Domain>,
    members: Mutex<Vec<Member>>,
}

enum Member {
    Queue(Held<CompletionQueue>),
    Counter {
        counter: Held<Counter>,
        /// The counts that the application has seen.
        seen: Counted,
    },
}

// SAFETY: repr(C), and the header of a `fid_poll` is first.
unsafe impl Object for PollSet {
    type Fid = fid_poll;
    const CLASS: usize = FI_CLASS_POLL;

    fn users(&self) -> &Users {
        &self.users
    }
}

impl Member {
    /// # Safety
    /// NULL, or an object of ours.
    unsafe fn new(member: *mut fid) -> Result<Self, Errno> {
        // SAFETY: The caller promises as much.
        unsafe {
            match class(member)? {
                FI_CLASS_CQ => Ok(Self::Queue(hold(member.cast())?)),
                FI_CLASS_CNTR => {
                    let counter = hold::<Counter>(member.cast())?;
                    let seen = counter.get();
                    Ok(Self::Counter { counter, seen })
                }
                _ => Err(Errno::INVALID),
            }
        }
    }

    fn fid(&self) -> *mut fid {
        match self {
            Self::Queue(queue) => queue.fid().cast(),
            Self::Counter { counter, .. } => counter.fid().cast(),
        }
    }

    /// The member's context, if it has something new.
    fn news(&mut self) -> Option<*mut c_void> {
        match self {
            Self::Queue(queue) => queue.is_ready().then(|| queue.user_context()),
            Self::Counter { counter, seen } => {
                let now = counter.get();
                let before = core::mem::replace(seen, now);
                (now != before).then(|| counter.user_context())
            }
        }
    }
}

/// The class of an object.
///
/// # Safety
/// NULL, or an object of ours.
pub(crate) unsafe fn class(object: *mut fid) -> Result<usize, Errno> {
    let object = NonNull::new(object).ok_or(Errno::INVALID)?.as_ptr();
    // SAFETY: Not NULL, so an object, and all begin with a `fid`.
    Ok(unsafe { (&raw const (*object).fclass).read() })
}

impl PollSet {
    fn poll(&self, contexts: &mut [*mut c_void]) -> usize {
        self.domain.context().progress_as_caller();
        let mut members = self.members.lock();
        let news = members.iter_mut().filter_map(Member::news);
        // A member beyond the last place is not polled, so that its news is kept.
        contexts.iter_mut().zip(news).map(|(place, context)| *place = context).count()
    }

    fn add(&self, member: Member) -> Result<(), Errno> {
        let mut members = self.members.lock();
        if members.iter().any(|other| other.fid() == member.fid()) {
            return Err(Errno::BUSY);
        }
        members.push(member);
        Ok(())
    }

    fn remove(&self, member: *mut fid) -> Result<(), Errno> {
        let mut members = self.members.lock();
        let place = members.iter().position(|other| other.fid() == member).ok_or(Errno::INVALID)?;
        members.remove(place);
        Ok(())
    }
}

/// `fi_poll_open`.
pub(crate) unsafe extern "C" fn poll_open(
    domain: *mut fid_domain,
    attributes: *mut fi_poll_attr,
    set: *mut *mut fid_poll,
) -> c_int {
    status(|| {
        // SAFETY: libfabric's callers pass a domain of ours, attributes, and room for an address; or NULL.
        unsafe {
            let domain = hold::<Domain>(domain)?;
            if NonNull::new(attributes).is_some_and(|attributes| attributes.read().flags != 0) {
                return Err(Errno::INVALID);
            }
            let header =
                Header::new(fid_poll { fid: head::<PollSet>(core::ptr::null_mut(), &OPS), ops: table(&POLL_OPS) });
            give(
                PollSet { header, users: Users::default(), domain, members: Mutex::new(Rank::PollSet, Vec::new()) },
                set,
            )
        }
    })
}

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(poll_close),
    bind: no(),
    control: no(),
    ops_open: no(),
    tostr: no(),
    ops_set: no(),
};

static POLL_OPS: fi_ops_poll = fi_ops_poll {
    size: size_of::<fi_ops_poll>(),
    poll: Some(poll),
    poll_add: Some(poll_add),
    poll_del: Some(poll_del),
};

unsafe extern "C" fn poll_close(set: *mut fid) -> c_int {
    status(|| {
        // SAFETY: A poll set of ours, or NULL, which C does not use any more when it is closed.
        unsafe {
            if !borrow::<PollSet>(set.cast())?.members.lock().is_empty() {
                return Err(Errno::BUSY);
            }
            close::<PollSet>(set)
        }
    })
}

unsafe extern "C" fn poll(set: *mut fid_poll, contexts: *mut *mut c_void, count: c_int) -> c_int {
    number(|| {
        // SAFETY: A poll set of ours, or NULL.
        let set = unsafe { borrow::<PollSet>(set) }?;
        let count = usize::try_from(count).map_err(|_| Errno::INVALID)?;
        if contexts.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: Not NULL, so C promises room for `count` of them; they are zeroed first, for they need not be
        // initialised.
        let contexts = unsafe {
            contexts.write_bytes(0, count);
            core::slice::from_raw_parts_mut(contexts, count)
        };
        Ok(set.poll(contexts) as c_int)
    })
}

unsafe extern "C" fn poll_add(set: *mut fid_poll, member: *mut fid, flags: u64) -> c_int {
    status(|| {
        if flags != 0 {
            return Err(Errno::INVALID);
        }
        // SAFETY: Objects of ours, or NULL.
        unsafe { borrow::<PollSet>(set)?.add(Member::new(member)?) }
    })
}

unsafe extern "C" fn poll_del(set: *mut fid_poll, member: *mut fid, flags: u64) -> c_int {
    status(|| {
        if flags != 0 {
            return Err(Errno::INVALID);
        }
        // SAFETY: A poll set of ours, or NULL.
        unsafe { borrow::<PollSet>(set)?.remove(member) }
    })
}
