//! Address vectors: tables of peers' addresses. `fi_addr_t` is the index, whether it was opened as `FI_AV_MAP` or
//! `FI_AV_TABLE`.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::size_of;
use core::sync::atomic::{AtomicU64, Ordering};
use std::ffi::CString;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

use weft::endpoint::Address;
use weft_libfabric::abi::errno::{FI_EADDRNOTAVAIL, FI_EINVAL, FI_ENOEQ};
use weft_libfabric::abi::{
    FI_ADDR_NOTAVAIL, FI_AV_COMPLETE, FI_AV_MAP, FI_AV_TABLE, FI_AV_UNSPEC, FI_CLASS_AV, FI_EVENT, FI_MORE,
    FI_SYMMETRIC, FI_SYNC_ERR, fi_addr_t, fi_av_attr, fi_ops, fi_ops_av, fid, fid_av, fid_domain,
};
use weft_lock::{Rank, RwLock};

use super::entries::Entries;
use super::resolve::{Lookup, name, resolve};
use super::{Format, text};
use crate::border::{Header, Held, Object, Users, borrow, close_object, give, head, hold, no, number, status, table};
use crate::domain::Domain;
use crate::errno::Errno;
use crate::queue::EventQueue;

/// An opened address vector.
#[repr(C)]
pub(crate) struct AddressVector {
    header: Header<fid_av>,
    users: Users,
    format: Format,
    generation: AtomicU64,
    entries: RwLock<Entries>,
    /// Whether insertions are reported to an event queue, though they complete at once.
    reports: bool,
    events: OnceLock<Held<EventQueue>>,
    domain: Held<Domain>,
}

// SAFETY: repr(C), and the header is first.
unsafe impl Object for AddressVector {
    type Fid = fid_av;
    const CLASS: usize = FI_CLASS_AV;

    fn users(&self) -> &Users {
        &self.users
    }
}

impl AddressVector {
    /// Changes with every insertion and removal: while it is the same, so are the results of the other functions.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The address at an index. `None` when there is none.
    pub(crate) fn address(&self, index: fi_addr_t) -> Option<Address> {
        self.entries.read().get(index).cloned()
    }

    /// The index of an address: of an entry with the same endpoint id, or otherwise of one with a path in common,
    /// unless their ids differ. `None` when it was not inserted.
    pub(crate) fn index_of(&self, address: &Address) -> Option<fi_addr_t> {
        self.entries.read().find(address)
    }

    fn insert(&self, address: Address) -> fi_addr_t {
        let mut entries = self.entries.write();
        let index = entries.insert(address);
        self.generation.fetch_add(1, Ordering::Release);
        index
    }

    fn remove(&self, index: fi_addr_t) -> Option<Address> {
        let mut entries = self.entries.write();
        let removed = entries.remove(index)?;
        self.generation.fetch_add(1, Ordering::Release);
        Some(removed)
    }
}

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(close_object::<AddressVector>),
    bind: Some(bind),
    control: no(),
    ops_open: no(),
    tostr: no(),
    ops_set: no(),
};

static VECTOR: fi_ops_av = fi_ops_av {
    size: size_of::<fi_ops_av>(),
    insert: Some(insert),
    insertsvc: Some(insert_service),
    insertsym: Some(insert_symmetric),
    remove: Some(remove),
    lookup: Some(lookup),
    straddr: Some(describe),
    av_set: no(),
    insert_auth_key: no(),
    lookup_auth_key: no(),
    set_user_id: no(),
    lookup2: no(),
};

/// `fi_av_open`.
///
/// # Safety
/// As libfabric's: the pointers are NULL or valid.
pub(crate) unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attributes: *mut fi_av_attr,
    to: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    status(|| {
        if attributes.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: libfabric's callers pass what fi_domain gave, or NULL; the attributes have had these fields from the
        // beginning.
        let (domain, attributes) = unsafe { (hold::<Domain>(domain)?, &mut *attributes) };
        // Sharing between processes is not supported.
        if !attributes.name.is_null() || attributes.flags & !(FI_SYMMETRIC | FI_EVENT) != 0 {
            return Err(Errno::NOT_HERE);
        }
        match attributes.r#type {
            FI_AV_UNSPEC => attributes.r#type = FI_AV_TABLE,
            FI_AV_MAP | FI_AV_TABLE => {}
            _ => return Err(Errno::INVALID),
        }
        let header = fid_av { fid: head::<AddressVector>(context, &OPS), ops: table(&VECTOR) };
        let vector = AddressVector {
            header: Header::new(header),
            users: Users::default(),
            format: domain.format(),
            generation: AtomicU64::new(1),
            entries: RwLock::new(Rank::AddressVector, Entries::default()),
            reports: attributes.flags & FI_EVENT != 0,
            events: OnceLock::new(),
            domain,
        };
        // SAFETY: `to` is NULL or can be written.
        unsafe { give(vector, to) }
    })
}

/// `fi_av_bind`: the event queue to which insertions are reported.
unsafe extern "C" fn bind(vector: *mut fid, queue: *mut fid, flags: u64) -> c_int {
    status(|| {
        if flags != 0 {
            return Err(Errno::BAD_FLAGS);
        }
        // SAFETY: libfabric's callers pass what fi_av_open and fi_eq_open gave, or NULL.
        let (vector, queue) = unsafe { (borrow::<AddressVector>(vector.cast())?, hold::<EventQueue>(queue.cast())?) };
        vector.events.set(queue).map_err(|_| Errno::INVALID)
    })
}

/// The destination of an insertion's results.
struct Results<'a> {
    vector: &'a AddressVector,
    places: *mut fi_addr_t,
    errors: *mut c_int,
    events: Option<&'a EventQueue>,
    context: *mut c_void,
    inserted: c_int,
    next: usize,
}

impl<'a> Results<'a> {
    /// # Errors
    /// Unknown flags; or results are to be reported, and there is no event queue.
    ///
    /// # Safety
    /// `places` is NULL, or this many can be written there as there are addresses; with `FI_SYNC_ERR`, so can errors at
    /// `context`.
    unsafe fn new(
        vector: &'a AddressVector,
        places: *mut fi_addr_t,
        flags: u64,
        context: *mut c_void,
    ) -> Result<Self, Errno> {
        if flags & !(FI_MORE | FI_SYNC_ERR | FI_EVENT) != 0 {
            return Err(Errno::BAD_FLAGS);
        }
        let events = match vector.events.get().or_else(|| vector.domain.events()) {
            Some(events) if vector.reports => Some(&**events),
            None if vector.reports => return Err(Errno(FI_ENOEQ)),
            _ => None,
        };
        let errors = if flags & FI_SYNC_ERR == 0 { core::ptr::null_mut() } else { context.cast() };
        Ok(Self { vector, places, errors, events, context, inserted: 0, next: 0 })
    }

    /// Inserts the next address, or records its error.
    fn take(&mut self, address: Result<Address, c_int>) -> Result<(), Errno> {
        let (place, error) = match address.and_then(reachable) {
            Ok(address) => (self.vector.insert(address), 0),
            Err(error) => (FI_ADDR_NOTAVAIL, error),
        };
        self.inserted += c_int::from(error == 0);
        // SAFETY: By the contract of `new` there is room for as many as there are addresses, if anywhere.
        unsafe {
            if !self.places.is_null() {
                self.places.add(self.next).write(place);
            }
            if !self.errors.is_null() {
                self.errors.add(self.next).write(error);
            }
        }
        let number = self.next as u64;
        self.next += 1;
        match self.events.filter(|_| error != 0) {
            Some(events) => events.report_failure(self.fid(), self.context, number, Errno(error)),
            None => Ok(()),
        }
    }

    /// The result of the call: the number of inserted addresses, or 0 where an event reports that.
    fn finish(self) -> Result<c_int, Errno> {
        let Some(events) = self.events else { return Ok(self.inserted) };
        events.report(FI_AV_COMPLETE, self.fid(), self.context, self.inserted as u64)?;
        Ok(0)
    }

    const fn fid(&self) -> *mut fid {
        self.vector.header.as_ptr().cast()
    }
}

/// Checks that an address can be connected to.
fn reachable(address: Address) -> Result<Address, c_int> {
    let good = |path: &SocketAddr| !path.ip().is_unspecified() && path.port() != 0;
    if !address.paths.is_empty() && address.paths.iter().all(good) { Ok(address) } else { Err(FI_EADDRNOTAVAIL) }
}

unsafe extern "C" fn insert(
    vector: *mut fid_av,
    addresses: *const c_void,
    count: usize,
    places: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    number(|| {
        // SAFETY: libfabric's callers pass what fi_av_open gave, or NULL.
        let vector = unsafe { borrow::<AddressVector>(vector) }?;
        // SAFETY: The same promise as to this function.
        let mut results = unsafe { Results::new(vector, places, flags, context) }?;
        if addresses.is_null() && count > 0 {
            return Err(Errno::INVALID);
        }
        let mut at = addresses;
        for left in (0..count).rev() {
            // SAFETY: `at` is the beginning of one of them; the text format has an array of pointers.
            let (address, step) = unsafe {
                let begin = if vector.format == Format::Text { at.cast::<*const c_void>().read() } else { at };
                (vector.format.read(begin), vector.format.step(at))
            };
            results.take(address.map_err(|Errno(code)| code))?;
            if left > 0 {
                // SAFETY: There is another one behind it.
                at = unsafe { at.byte_add(step) };
            }
        }
        results.finish()
    })
}

unsafe extern "C" fn insert_service(
    vector: *mut fid_av,
    node: *const c_char,
    service: *const c_char,
    place: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    number(|| {
        // SAFETY: libfabric's callers pass what fi_av_open gave, or NULL, room for one result, and names or NULL.
        let (vector, node, service) = unsafe { (borrow::<AddressVector>(vector)?, name(node)?, name(service)?) };
        // SAFETY: The same promise as to this function.
        let mut results = unsafe { Results::new(vector, place, flags, context) }?;
        results.take(named(vector.format, node, service))?;
        results.finish()
    })
}

unsafe extern "C" fn insert_symmetric(
    vector: *mut fid_av,
    node: *const c_char,
    nodes: usize,
    service: *const c_char,
    services: usize,
    places: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    number(|| {
        // SAFETY: libfabric's callers pass what fi_av_open gave, or NULL, room for a result of each, and names or NULL.
        let (vector, node, service) = unsafe { (borrow::<AddressVector>(vector)?, name(node)?, name(service)?) };
        // SAFETY: The same promise as to this function.
        let mut results = unsafe { Results::new(vector, places, flags, context) }?;
        let (Some(node), Some(service)) = (node, service) else { return Err(Errno::INVALID) };
        for which in 0..nodes {
            let node = counted_node(node, which);
            for port in 0..services {
                let service = counted(service, port);
                let address = match (&node, &service) {
                    (Some(node), Some(service)) => named(vector.format, Some(node), Some(service)),
                    _ => Err(FI_EINVAL),
                };
                results.take(address)?;
            }
        }
        results.finish()
    })
}

/// The address of a node and service in a format.
fn named(format: Format, node: Option<&CStr>, service: Option<&CStr>) -> Result<Address, c_int> {
    let node = node.ok_or(FI_EINVAL)?;
    if let Some(address) = node.to_str().ok().filter(|node| text::is_address(node)) {
        return if service.is_none() { text::read(address).ok_or(FI_EINVAL) } else { Err(FI_EINVAL) };
    }
    let fits = |path: &SocketAddr| format.takes(path);
    let path = resolve(Some(node), service, Lookup::default()).into_iter().find(fits).ok_or(FI_EADDRNOTAVAIL)?;
    Ok(Address::from(path))
}

/// The node that is `more` after this one: the next address, or the name with a higher number at its end.
fn counted_node(node: &CStr, more: usize) -> Option<CString> {
    let text = node.to_str().ok()?;
    let next = match text.parse::<IpAddr>() {
        Ok(IpAddr::V4(four)) => {
            four.to_bits().checked_add(u32::try_from(more).ok()?).map(|bits| IpAddr::V4(bits.into()))
        }
        Ok(IpAddr::V6(six)) => six.to_bits().checked_add(more as u128).map(|bits| IpAddr::V6(bits.into())),
        Err(_) => return counted(node, more),
    };
    CString::new(next?.to_string()).ok()
}

/// A name whose number at its end is `more` higher. Without a number, only the name itself.
fn counted(name: &CStr, more: usize) -> Option<CString> {
    if more == 0 {
        return Some(name.to_owned());
    }
    let text = name.to_str().ok()?;
    let digits = text.len() - text.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (name, first) = text.split_at(digits);
    let last = first.parse::<usize>().ok()?.checked_add(more)?;
    CString::new(format!("{name}{last:0width$}", width = first.len())).ok()
}

unsafe extern "C" fn remove(vector: *mut fid_av, places: *mut fi_addr_t, count: usize, flags: u64) -> c_int {
    status(|| {
        if flags != 0 {
            return Err(Errno::BAD_FLAGS);
        }
        if places.is_null() && count > 0 {
            return Err(Errno::INVALID);
        }
        // SAFETY: libfabric's callers pass what fi_av_open gave, or NULL.
        let vector = unsafe { borrow::<AddressVector>(vector) }?;
        for which in 0..count {
            // SAFETY: There are this many places.
            let place = unsafe { places.add(which).read() };
            vector.remove(place).ok_or(Errno::INVALID)?;
        }
        Ok(())
    })
}

unsafe extern "C" fn lookup(vector: *mut fid_av, place: fi_addr_t, to: *mut c_void, length: *mut usize) -> c_int {
    status(|| {
        // SAFETY: libfabric's callers pass what fi_av_open gave, or NULL.
        let vector = unsafe { borrow::<AddressVector>(vector) }?;
        let address = vector.address(place).ok_or(Errno::INVALID)?;
        // SAFETY: The length is that of the buffer. A truncated address is no error: the length reports it.
        unsafe { vector.format.give(&address, to, length) }.map(drop)
    })
}

unsafe extern "C" fn describe(
    vector: *mut fid_av,
    address: *const c_void,
    to: *mut c_char,
    length: *mut usize,
) -> *const c_char {
    let _ = status(|| {
        if length.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: libfabric's callers pass what fi_av_open gave, or NULL, and an address of its format, or NULL.
        let address = unsafe { borrow::<AddressVector>(vector)?.format.read(address) }?;
        let text = text::write(&address).and_then(|text| CString::new(text).ok()).ok_or(Errno::INVALID)?;
        let bytes = text.as_bytes_with_nul();
        // SAFETY: The length says how many bytes can be written; the last that is written ends the string.
        unsafe {
            let room = if to.is_null() { 0 } else { length.read() };
            length.write(bytes.len());
            if let Some(last) = room.min(bytes.len()).checked_sub(1) {
                core::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), last);
                to.add(last).write(0);
            }
        }
        Ok(())
    });
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(id: u64, paths: &[&str]) -> Address {
        Address { id, paths: paths.iter().map(|path| path.parse().unwrap()).collect(), transport: None }
    }

    #[test]
    fn impossible_addresses_are_refused() {
        for paths in [&[][..], &["0.0.0.0:7"], &["192.0.2.1:0"], &["192.0.2.1:7", "[::]:7"]] {
            assert_eq!(reachable(address(0, paths)), Err(FI_EADDRNOTAVAIL), "{paths:?}");
        }
        assert!(reachable(address(0, &["192.0.2.1:7"])).is_ok());
    }

    #[test]
    fn names_are_counted() {
        let node = |name: &CStr, more| counted_node(name, more).map(|name| name.into_string().unwrap());
        assert_eq!(node(c"10.1.1.1", 1).as_deref(), Some("10.1.1.2"));
        assert_eq!(node(c"10.1.1.255", 1).as_deref(), Some("10.1.2.0"));
        assert_eq!(node(c"2001:db8::ff", 1).as_deref(), Some("2001:db8::100"));
        assert_eq!(node(c"host10", 1).as_deref(), Some("host11"));
        assert_eq!(node(c"host09", 1).as_deref(), Some("host10"));
        assert_eq!(node(c"host", 0).as_deref(), Some("host"));
        assert_eq!(node(c"host", 1), None);
        assert_eq!(node(c"255.255.255.255", 1), None);
    }
}
