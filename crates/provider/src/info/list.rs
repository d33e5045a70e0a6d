//! A list of `fi_info` in C's form, made with C's allocator: `fi_freeinfo` frees every part of it separately.

use core::ffi::{c_char, c_void};
use core::mem::size_of;
use core::ptr;

use weft_libfabric::abi::{fi_domain_attr, fi_ep_attr, fi_fabric_attr, fi_info, fi_rx_attr, fi_tx_attr};

use super::hints::Handle;
use super::interface_offers::InterfaceOffer;
use super::offer::Offer;
use crate::errno::Errno;

/// A list, until it is given to C.
pub(super) struct List {
    first: *mut fi_info,
    last: *mut fi_info,
}

impl List {
    pub(super) const fn new() -> Self {
        Self { first: ptr::null_mut(), last: ptr::null_mut() }
    }

    /// Appends an info.
    ///
    /// # Errors
    /// No memory is left.
    pub(super) fn push(
        &mut self,
        offer: &Offer,
        interface_offer: &InterfaceOffer,
        api_version: u32,
        handle: Option<Handle>,
    ) -> Result<(), Errno> {
        // SAFETY: All zeros are an info, with nothing in it; and the last of this list is one.
        let info = unsafe {
            let info = copy(&core::mem::zeroed::<fi_info>())?;
            match self.last.is_null() {
                true => self.first = info,
                false => (*self.last).next = info,
            }
            &mut *info
        };
        self.last = info;
        info.caps = offer.caps;
        info.addr_format = interface_offer.format;
        info.handle = handle.map_or(ptr::null_mut(), |Handle(handle)| handle);
        info.tx_attr = copy(&offer.transmit)?;
        info.rx_attr = copy(&offer.receive)?;
        info.ep_attr = copy(&offer.endpoint)?;
        info.domain_attr = copy(&offer.domain)?;
        // libfabric itself writes the provider's name and version into it.
        let fabric = fi_fabric_attr {
            fabric: ptr::null_mut(),
            name: ptr::null_mut(),
            prov_name: ptr::null_mut(),
            prov_version: crate::version::VERSION,
            api_version,
        };
        info.fabric_attr = copy(&fabric)?;
        // SAFETY: Both were made just now.
        unsafe {
            (*info.fabric_attr).name = string(&interface_offer.fabric)?;
            (*info.domain_attr).name = string(&interface_offer.domain)?;
        }
        (info.src_addr, info.src_addrlen) = (bytes(&interface_offer.source)?, interface_offer.source.len());
        (info.dest_addr, info.dest_addrlen) = (bytes(&interface_offer.destination)?, interface_offer.destination.len());
        Ok(())
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.first.is_null()
    }

    /// Gives it to C.
    pub(super) const fn into_raw(self) -> *mut fi_info {
        let first = self.first;
        core::mem::forget(self);
        first
    }
}

impl Drop for List {
    fn drop(&mut self) {
        let mut info = self.first;
        while !info.is_null() {
            // SAFETY: Every part came from C's allocator, or is NULL, and has no other owner.
            unsafe {
                let next = (*info).next;
                free_info(info);
                info = next;
            }
        }
    }
}

/// # Safety
/// An info of a list of this module, which is not used afterwards.
unsafe fn free_info(info: *mut fi_info) {
    // SAFETY: Every part came from C's allocator, or is NULL.
    unsafe {
        if let Some(fabric) = (*info).fabric_attr.as_ref() {
            libc::free(fabric.name.cast());
        }
        if let Some(domain) = (*info).domain_attr.as_ref() {
            libc::free(domain.name.cast());
        }
        for part in [
            (*info).src_addr,
            (*info).dest_addr,
            (*info).tx_attr.cast(),
            (*info).rx_attr.cast(),
            (*info).ep_attr.cast(),
            (*info).domain_attr.cast(),
            (*info).fabric_attr.cast(),
            info.cast(),
        ] {
            libc::free(part);
        }
    }
}

/// Structures that can be copied byte by byte, and own none of their pointers.
trait Plain {}
impl Plain for fi_info {}
impl Plain for fi_tx_attr {}
impl Plain for fi_rx_attr {}
impl Plain for fi_ep_attr {}
impl Plain for fi_domain_attr {}
impl Plain for fi_fabric_attr {}

fn copy<T: Plain>(value: &T) -> Result<*mut T, Errno> {
    // SAFETY: This many bytes can be read, padding included, for they are only copied.
    unsafe { duplicate(ptr::from_ref(value).cast(), size_of::<T>()) }.map(<*mut c_void>::cast)
}

fn bytes(bytes: &[u8]) -> Result<*mut c_void, Errno> {
    if bytes.is_empty() {
        return Ok(ptr::null_mut());
    }
    // SAFETY: This many bytes can be read.
    unsafe { duplicate(bytes.as_ptr(), bytes.len()) }
}

fn string(text: &str) -> Result<*mut c_char, Errno> {
    bytes(&[text.as_bytes(), &[0]].concat()).map(<*mut c_void>::cast)
}

/// # Safety
/// This many bytes can be read, at least one.
unsafe fn duplicate(from: *const u8, length: usize) -> Result<*mut c_void, Errno> {
    // SAFETY: Any length is allowed.
    let to = unsafe { libc::malloc(length) };
    if to.is_null() {
        return Err(Errno::NO_MEMORY);
    }
    // SAFETY: The one has this many bytes by contract, the other was just allocated with as many.
    unsafe { ptr::copy_nonoverlapping(from, to.cast::<u8>(), length) };
    Ok(to)
}
