//! Protection domains and memory regions.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_uint, c_void};
use std::sync::{Arc, Mutex};

use libc::size_t;

use super::objects::{ContextObject, DomainObject, RegionObject};
use crate::abi::*;
use crate::border::{Counted as _, Using, find, give, lock, pointer, status, take};
use crate::errno::Errno;
use crate::memory::{Domain, Place, Registration};

/// # Safety
/// NULL, or an open device.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    pointer(|| {
        // SAFETY: The caller's promise.
        let opened = unsafe { ContextObject::of(context) }?;
        let domain = opened.process.nic.context.allocate_protection_domain()?;
        let c = UnsafeCell::new(ibv_pd { context, handle: 0 });
        let (process, events) = (Arc::clone(&opened.process), Arc::clone(&opened.events));
        Ok(give(Box::new(DomainObject { c, domain: Arc::new(Domain::new(domain)), process, events })))
    })
}

/// # Safety
/// A protection domain, which is not used any more if this succeeds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_dealloc_pd(domain: *mut ibv_pd) -> c_int {
    // SAFETY: The caller's promise.
    status(|| unsafe { take::<DomainObject>(domain, |object| object.domain.users().none()) }.map(drop))
}

/// # Safety
/// `domain` is a protection domain; the memory is the program's.
unsafe fn register(domain: *mut ibv_pd, place: Place) -> Result<*mut ibv_mr, Errno> {
    // SAFETY: The caller's promise.
    let object = unsafe { find::<DomainObject>(domain) }?;
    // SAFETY: The program keeps the rules of registered memory.
    let registration = unsafe { Registration::new(Using::new(&object.domain), place) }?;
    // SAFETY: An object of C's, which only reads this field.
    let context = unsafe { (*object.c.get()).context };
    let c = ibv_mr {
        context,
        pd: domain,
        addr: core::ptr::with_exposed_provenance_mut(place.address),
        length: place.length,
        handle: 0,
        lkey: registration.key(),
        rkey: registration.key(),
    };
    Ok(give(Box::new(RegionObject { c: UnsafeCell::new(c), registration: Mutex::new(Some(registration)) })))
}

/// # Safety
/// `domain` is a protection domain; the memory is the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_reg_mr(
    domain: *mut ibv_pd,
    address: *mut c_void,
    length: size_t,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: The caller's promise.
    unsafe { weft_ibv_reg_mr_iova2(domain, address, length, address.addr() as u64, access.cast_unsigned()) }
}

/// # Safety
/// `domain` is a protection domain; the memory is the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_reg_mr_iova(
    domain: *mut ibv_pd,
    address: *mut c_void,
    length: size_t,
    base: u64,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: The caller's promise.
    unsafe { weft_ibv_reg_mr_iova2(domain, address, length, base, access.cast_unsigned()) }
}

/// # Safety
/// `domain` is a protection domain; the memory is the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_reg_mr_iova2(
    domain: *mut ibv_pd,
    address: *mut c_void,
    length: size_t,
    base: u64,
    access: c_uint,
) -> *mut ibv_mr {
    let place = Place { address: address.expose_provenance(), length, base, access };
    // SAFETY: The caller's promise.
    pointer(|| unsafe { register(domain, place) })
}

/// # Safety
/// A region, which is not used any more if this succeeds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_dereg_mr(region: *mut ibv_mr) -> c_int {
    // SAFETY: The caller's promise.
    status(|| unsafe { take::<RegionObject>(region, |_| Ok(())) }.map(drop))
}

/// Changes a region: it is registered anew, under the same keys.
///
/// # Safety
/// `region` is a region that no other thread uses; `domain` is a protection domain where it is to change; the memory is
/// the program's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_rereg_mr(
    region: *mut ibv_mr,
    flags: c_int,
    domain: *mut ibv_pd,
    address: *mut c_void,
    length: size_t,
    access: c_int,
) -> c_int {
    let mut outcome = IBV_REREG_MR_ERR_INPUT;
    let result = status(|| {
        // SAFETY: The caller's promise.
        unsafe { register_anew(region, flags, domain, address, (length, access.cast_unsigned()), &mut outcome) }
    });
    if result == 0 {
        return 0;
    }
    Errno(result).set();
    outcome
}

/// # Safety
/// As for [`weft_ibv_rereg_mr`].
unsafe fn register_anew(
    region: *mut ibv_mr,
    flags: c_int,
    domain: *mut ibv_pd,
    address: *mut c_void,
    (length, access): (size_t, c_uint),
    outcome: &mut c_int,
) -> Result<(), Errno> {
    const KNOWN: c_int = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
    if flags == 0 || flags & !KNOWN != 0 {
        return Err(Errno::INVALID);
    }
    // SAFETY: The caller's promise.
    let object = unsafe { find::<RegionObject>(region) }?;
    let mut registration = lock(&object.registration);
    let before = registration.as_ref().ok_or(Errno::INVALID)?;
    // SAFETY: The object's own structure, which no other thread uses now.
    let c = unsafe { &mut *object.c.get() };
    let new_domain = match flags & IBV_REREG_MR_CHANGE_PD != 0 {
        // SAFETY: The caller's promise.
        true => Using::new(&unsafe { find::<DomainObject>(domain) }?.domain),
        false => Using::new(before.domain()),
    };
    let mut place = before.place();
    if flags & IBV_REREG_MR_CHANGE_TRANSLATION != 0 {
        place = Place { address: address.expose_provenance(), length, base: address.addr() as u64, ..place };
    }
    if flags & IBV_REREG_MR_CHANGE_ACCESS != 0 {
        place.access = access;
    }
    let before = registration.take().ok_or(Errno::INVALID)?;
    // SAFETY: The program keeps the rules of registered memory.
    let after = unsafe { before.replaced(new_domain, place) }.map_err(|(left, error)| {
        if left.is_none() {
            *outcome = IBV_REREG_MR_ERR_CMD;
        }
        *registration = left;
        error
    })?;
    if flags & IBV_REREG_MR_CHANGE_PD != 0 {
        c.pd = domain;
    }
    c.addr = core::ptr::with_exposed_provenance_mut(place.address);
    c.length = place.length;
    *registration = Some(after);
    Ok(())
}

/// # Safety
/// None: no memory has to be kept from children.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_dontfork_range(_start: *mut c_void, _length: size_t) -> c_int {
    0
}

/// # Safety
/// None: no memory has to be kept from children.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_dofork_range(_start: *mut c_void, _length: size_t) -> c_int {
    0
}

/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_fork_init() -> c_int {
    0
}

/// # Safety
/// None.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_ibv_is_fork_initialized() -> c_int {
    IBV_FORK_UNNEEDED
}
