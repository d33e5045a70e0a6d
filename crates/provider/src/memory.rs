//! `fid_mr`: memory that peers may access.
//!
//! A region's key is its STag. With `FI_MR_PROV_KEY` it is one that cannot be guessed, otherwise the application
//! chooses it. Places in a region are virtual addresses (`FI_MR_VIRT_ADDR`), or otherwise offsets. Memory that only
//! this side uses need not be registered: each operation lends its own.

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};

use std::sync::{Arc, OnceLock};

use libc::iovec;
use weft::verbs::{Access, MemoryRegion, RegionAttributes, RemoteRight, Watch};
use weft_libfabric::abi::errno::FI_EDOMAIN;
use weft_libfabric::abi::{
    FI_CLASS_CNTR, FI_CLASS_EP, FI_CLASS_MR, FI_ENABLE, FI_HMEM_SYSTEM, FI_READ, FI_RECV, FI_REMOTE_READ,
    FI_REMOTE_WRITE, FI_RMA_EVENT, FI_SEND, FI_WRITE, fi_mr_attr, fi_ops, fi_ops_mr, fi_version, fid, fid_domain,
    fid_mr,
};

use crate::border::{Header, Held, Object, Users, borrow, close_object, give, head, hold, no, status};
use crate::domain::Domain;
use crate::endpoint::Endpoint;
use crate::errno::Errno;
use crate::queue::{Counter, class};
use crate::remote::RegionWatch;

/// From this version on `fi_mr_attr` has the kind of memory.
const MEMORY_KINDS: u32 = fi_version(1, 10);

/// A registered region. When it is closed, peers cannot access it any more once the call has returned.
#[repr(C)]
pub(crate) struct Region {
    header: Header<fid_mr>,
    users: Users,
    watch: Option<Arc<RegionWatch>>,
    counters: OnceLock<Held<Counter>>,
    more_counters: OnceLock<Held<Counter>>,
    /// Dropped before its domain.
    _region: MemoryRegion,
    domain: Held<Domain>,
}

// SAFETY: repr(C), and the header of a `fid_mr` is first.
unsafe impl Object for Region {
    type Fid = fid_mr;
    const CLASS: usize = FI_CLASS_MR;

    fn users(&self) -> &Users {
        &self.users
    }
}

/// The functions of `fid_domain::mr`.
pub(crate) static MEMORY: fi_ops_mr =
    fi_ops_mr { size: size_of::<fi_ops_mr>(), reg: Some(reg), regv: Some(regv), regattr: Some(regattr) };

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(close_object::<Region>),
    bind: Some(bind),
    control: Some(control),
    ops_open: no(),
    tostr: no(),
    ops_set: no(),
};

/// The parameters of a registration.
struct Request {
    start: *mut c_void,
    length: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    context: *mut c_void,
}

impl Request {
    /// # Safety
    /// The memory is there until the region is closed; `to` is NULL or can be written.
    unsafe fn register(self, domain: Held<Domain>, to: *mut *mut fid_mr) -> Result<(), Errno> {
        check_flags(&domain, self.flags)?;
        let start = NonNull::new(self.start.cast::<u8>()).ok_or(Errno::INVALID)?;
        if self.length == 0 || self.offset != 0 {
            return Err(Errno::INVALID);
        }
        let registration = domain.registration();
        let mut attributes = RegionAttributes::new(rights(self.access)?);
        attributes.stag = registration.stag(attributes.access, self.requested_key)?;
        let watch = domain.remote().map(|endpoints| Arc::new(RegionWatch::new(endpoints)));
        attributes.watch = watch.clone().map(|watch| watch as Arc<dyn Watch>);
        if registration.by_address {
            attributes.base = start.expose_provenance().get() as u64;
        }
        let writable = attributes.access.is_remotely_writable();
        // SAFETY: The caller promises that it stays. The application reads what peers write there only when it knows
        // that they have (fi_mr(3)).
        let memory = unsafe { weft::endpoint::Buffer::foreign_checked(start, self.length, writable) }?;
        let region = domain.protection().register_with(memory, &attributes)?;
        let key = u64::from(region.stag().0);
        let header = fid_mr { fid: head::<Region>(self.context, &OPS), mem_desc: ptr::null_mut(), key };
        let region = Region {
            header: Header::new(header),
            users: Users::default(),
            watch,
            counters: OnceLock::new(),
            more_counters: OnceLock::new(),
            _region: region,
            domain,
        };
        // SAFETY: The caller promises as much.
        unsafe { give(region, to) }
    }
}

/// Device memory is not supported, and counting only where the domain was opened for it.
fn check_flags(domain: &Domain, flags: u64) -> Result<(), Errno> {
    let known = if domain.remote().is_some() { FI_RMA_EVENT } else { 0 };
    if flags & !known == 0 { Ok(()) } else { Err(Errno::BAD_FLAGS) }
}

/// The rights that an application grants. Atomic operations are writes: a peer that may only read can do none, not even
/// those that change nothing.
fn rights(access: u64) -> Result<Access, Errno> {
    if access & !(FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE) != 0 {
        return Err(Errno::INVALID);
    }
    let mut rights = Access::LOCAL_READ;
    // Receives, and reads from peers, write here.
    for (flags, right) in [
        (FI_RECV | FI_READ, Access::LOCAL_WRITE),
        (FI_REMOTE_READ, Access::REMOTE_READ),
        (FI_REMOTE_WRITE, Access::REMOTE_WRITE | Access::REMOTE_ATOMIC),
    ] {
        if access & flags != 0 {
            rights |= right;
        }
    }
    Ok(rights)
}

/// Joins pieces into one contiguous run.
///
/// # Errors
/// None, or one that does not begin where the one before it ends.
///
/// # Safety
/// NULL, or an array of `count`.
unsafe fn join(pieces: *const iovec, count: usize) -> Result<(*mut c_void, usize), Errno> {
    if pieces.is_null() || count == 0 {
        return Err(Errno::INVALID);
    }
    // SAFETY: Not NULL, so the caller promises this many.
    let pieces = unsafe { core::slice::from_raw_parts(pieces, count) };
    let start = pieces[0].iov_base;
    let mut length = 0usize;
    for piece in pieces {
        if piece.iov_base.addr() != start.addr().wrapping_add(length) {
            return Err(Errno::INVALID);
        }
        length = length.checked_add(piece.iov_len).ok_or(Errno::INVALID)?;
    }
    Ok((start, length))
}

unsafe extern "C" fn reg(
    domain: *mut fid,
    start: *const c_void,
    length: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    to: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: A domain of ours, and memory that is there until the region is closed; or NULL.
    status(|| unsafe {
        let domain = hold::<Domain>(domain.cast::<fid_domain>())?;
        Request { start: start.cast_mut(), length, access, offset, requested_key, flags, context }.register(domain, to)
    })
}

unsafe extern "C" fn regv(
    domain: *mut fid,
    pieces: *const iovec,
    count: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    to: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: A domain of ours, and memory that is there until the region is closed; or NULL.
    status(|| unsafe {
        let domain = hold::<Domain>(domain.cast::<fid_domain>())?;
        let (start, length) = join(pieces, count)?;
        Request { start, length, access, offset, requested_key, flags, context }.register(domain, to)
    })
}

unsafe extern "C" fn regattr(
    domain: *mut fid,
    attributes: *const fi_mr_attr,
    flags: u64,
    to: *mut *mut fid_mr,
) -> c_int {
    status(|| {
        let attributes = NonNull::new(attributes.cast_mut()).ok_or(Errno::INVALID)?.as_ptr();
        // SAFETY: A domain of ours, attributes of its version, of which no later fields are read, and memory that is
        // there until the region is closed; or NULL.
        unsafe {
            let domain = hold::<Domain>(domain.cast::<fid_domain>())?;
            if domain.api_version() >= MEMORY_KINDS && (&raw const (*attributes).iface).read() != FI_HMEM_SYSTEM {
                return Err(Errno::NOT_HERE);
            }
            // Before anything else is read: with flags, `mr_iov` may be something else.
            check_flags(&domain, flags)?;
            let (start, length) =
                join((&raw const (*attributes).mr_iov).read(), (&raw const (*attributes).iov_count).read())?;
            let request = Request {
                start,
                length,
                access: (&raw const (*attributes).access).read(),
                offset: (&raw const (*attributes).offset).read(),
                requested_key: (&raw const (*attributes).requested_key).read(),
                flags,
                context: (&raw const (*attributes).context).read(),
            };
            request.register(domain, to)
        }
    })
}

impl Region {
    /// Counts peers' operations on it.
    fn bind_counter(&self, counter: &Held<Counter>, flags: u64) -> Result<(), Errno> {
        let watch = self.watch.as_ref().ok_or(Errno::INVALID)?;
        if flags & (FI_REMOTE_READ | FI_REMOTE_WRITE) == 0 || flags & !(FI_REMOTE_READ | FI_REMOTE_WRITE) != 0 {
            return Err(Errno::BAD_FLAGS);
        }
        if !counter.is_of(&self.domain) {
            return Err(Errno(FI_EDOMAIN));
        }
        // At most one for each direction.
        self.counters
            .set(counter.clone())
            .or_else(|counter| self.more_counters.set(counter))
            .map_err(|_| Errno::INVALID)?;
        for (flag, right) in [(FI_REMOTE_READ, RemoteRight::Read), (FI_REMOTE_WRITE, RemoteRight::Write)] {
            if flags & flag != 0 && !watch.bind(right, counter.tally()) {
                return Err(Errno::INVALID);
            }
        }
        Ok(())
    }
}

/// Regions belong to domains, so that binding one to an endpoint changes nothing; but an application that supports
/// `FI_MR_ENDPOINT` may do so.
unsafe extern "C" fn bind(region: *mut fid, other: *mut fid, flags: u64) -> c_int {
    status(|| {
        // SAFETY: Objects of ours, or NULL; the class says which.
        unsafe {
            let region = borrow::<Region>(region.cast())?;
            match class(other)? {
                FI_CLASS_CNTR => region.bind_counter(&hold(other.cast())?, flags),
                FI_CLASS_EP => borrow::<Endpoint>(other.cast()).map(|_| ()),
                _ => Err(Errno::NOT_HERE),
            }
        }
    })
}

unsafe extern "C" fn control(region: *mut fid, command: c_int, _argument: *mut c_void) -> c_int {
    status(|| {
        // SAFETY: A region of ours, or NULL.
        unsafe { borrow::<Region>(region.cast()) }?;
        // It is usable from the beginning.
        if command == FI_ENABLE { Ok(()) } else { Err(Errno::NOT_HERE) }
    })
}

#[cfg(test)]
mod tests {
    use weft_libfabric::abi::FI_ATOMIC;

    use super::*;

    #[test]
    fn a_right_to_read_is_no_right_to_change() {
        assert_eq!(rights(FI_SEND | FI_WRITE), Ok(Access::LOCAL_READ));
        assert_eq!(rights(FI_REMOTE_READ | FI_READ), Ok(Access::LOCAL_WRITE | Access::REMOTE_READ));
        assert_eq!(rights(FI_REMOTE_WRITE), Ok(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC));
        assert_eq!(rights(FI_ATOMIC), Err(Errno::INVALID));
    }

    #[test]
    fn pieces_that_touch_are_one() {
        let bytes = [0u8; 8];
        let piece = |from: usize, length| iovec { iov_base: bytes[from..].as_ptr().cast_mut().cast(), iov_len: length };
        // SAFETY: Arrays of this length.
        unsafe {
            let (start, length) = join([piece(0, 3), piece(3, 5)].as_ptr(), 2).unwrap();
            assert_eq!((start.cast_const().cast(), length), (bytes.as_ptr(), 8));
            assert_eq!(join([piece(0, 3), piece(4, 4)].as_ptr(), 2), Err(Errno::INVALID));
            assert_eq!(join(ptr::null(), 1), Err(Errno::INVALID));
            assert_eq!(join([piece(0, usize::MAX), piece(0, 2)].as_ptr(), 2).err(), Some(Errno::INVALID));
        }
    }
}
