//! Discovery, and the objects above an endpoint: fabric and domain.

use core::ffi::{CStr, c_char};
use core::ptr;
use std::ffi::CString;

use super::endpoint::Endpoint;
use super::error::Error;
use super::library::{Library, provider_of};
use super::slots::Slots;
use crate::abi::{
    API_VERSION, FI_CONTEXT, FI_CONTEXT2, FI_EP_RDM, FI_MSG, FI_PROGRESS_MANUAL, FI_SOURCE, FI_TAGGED,
    FI_THREAD_DOMAIN, fi_info, fid, fid_domain, fid_fabric,
};

/// Which of this machine's addresses an endpoint gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local<'a> {
    /// This one.
    At(&'a str),
    /// The one from which this peer is reached.
    Toward(&'a str),
}

/// An open domain of one provider.
#[derive(Debug)]
pub struct Fabric {
    pub(super) library: &'static Library,
    /// The first of the infos that discovery gave; owned.
    pub(super) info: *mut fi_info,
    fabric: *mut fid_fabric,
    pub(super) domain: *mut fid_domain,
}

impl Fabric {
    /// Loads libfabric, finds the provider of this name (any that libfabric knows: `tcp`, `tcp;ofi_rxm`, one of your
    /// own in `FI_PROVIDER_PATH`) with reliable datagrams and tagged messages, and opens it. The objects it gives stay
    /// in the calling thread.
    ///
    /// # Errors
    /// [`Error::NotInstalled`], [`Error::Unusable`], or [`Error::Call`]: "No data available" from `fi_getinfo` means
    /// that there is no such provider, or none that reaches this address.
    pub fn open(provider: &str, local: Local<'_>) -> Result<Self, Error> {
        let library = Library::load()?;
        let info = discover(library, provider, local)?;
        let mut this = Self { library, info, fabric: ptr::null_mut(), domain: ptr::null_mut() };
        // SAFETY: `info` came from fi_getinfo, so its fabric attributes are there; the place for the result is ours. A
        // provider's table has every function of its `size`.
        unsafe {
            let result = (library.fabric)((*info).fabric_attr, &raw mut this.fabric, ptr::null_mut());
            this.check("fi_fabric", result as isize)?;
            let open = (*(*this.fabric).ops).domain.ok_or(Error::Unusable { missing: "fi_domain" })?;
            let result = open(this.fabric, info, &raw mut this.domain, ptr::null_mut());
            this.check("fi_domain", result as isize)?;
        }
        Ok(this)
    }

    /// The provider that answered, with the layers above it, for instance `tcp;ofi_rxm`.
    #[must_use]
    pub fn provider(&self) -> String {
        // SAFETY: `info` is ours until drop.
        unsafe { provider_of(self.info) }.map_or_else(String::new, |provider| provider.name)
    }

    /// The most bytes that [`Endpoint::inject`] takes.
    #[must_use]
    pub fn inject_limit(&self) -> usize {
        // SAFETY: fi_getinfo fills in all attribute structures; `info` is ours until drop.
        unsafe { (*(*self.info).tx_attr).inject_size }
    }

    /// An endpoint with these buffers, ready for use.
    ///
    /// # Errors
    /// [`Error::Call`].
    pub fn endpoint(self, slots: Slots) -> Result<Endpoint, Error> {
        Endpoint::open(self, slots)
    }

    /// `result`, or the error that it means.
    pub(super) fn check(&self, call: &'static str, result: isize) -> Result<isize, Error> {
        if result < 0 { Err(Error::of_call(self.library, call, result)) } else { Ok(result) }
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        // SAFETY: each object is NULL or ours, and what was opened from it is closed already: the endpoint, its queue
        // and its address vector are closed by `Endpoint`, which owns this.
        unsafe {
            close(self.domain.cast());
            close(self.fabric.cast());
            (self.library.freeinfo)(self.info);
        }
    }
}

/// Closes an object; true when it is gone.
///
/// # Safety
/// `object` is NULL or a live object of libfabric, which is not used again when this gives true.
pub(super) unsafe fn close(object: *mut fid) -> bool {
    if object.is_null() {
        return true;
    }
    // SAFETY: by this function's contract; every object starts with a `fid` whose table has `close`.
    unsafe { (*(*object).ops).close.is_some_and(|close| close(object) == 0) }
}

fn discover(library: &Library, provider: &str, local: Local<'_>) -> Result<*mut fi_info, Error> {
    let provider = c_string(provider)?;
    let (node, flags) = match local {
        Local::At(address) => (c_string(address)?, FI_SOURCE),
        Local::Toward(peer) => (c_string(peer)?, 0),
    };
    // With FI_SOURCE a node alone would leave the port open to interpretation: 0 lets the system choose. A peer needs a
    // port, whose number does not matter, for the address only selects the path to it.
    let service: &CStr = if flags == FI_SOURCE { c"0" } else { c"1" };
    let hints = hints(library, &provider)?;
    let mut info = ptr::null_mut();
    // SAFETY: C strings, hints of the library's own making, and a place for the result.
    let result =
        unsafe { (library.getinfo)(API_VERSION, node.as_ptr(), service.as_ptr(), flags, hints, &raw mut info) };
    // SAFETY: the hints came from fi_dupinfo and are not used again; the name in them was allocated by malloc, as it
    // frees it.
    unsafe { (library.freeinfo)(hints) };
    if result < 0 {
        return Err(Error::of_call(library, "fi_getinfo", result as isize));
    }
    Ok(info)
}

/// What is required of a provider. Only fields that libfabric 1.17 has are touched.
fn hints(library: &Library, provider: &CStr) -> Result<*mut fi_info, Error> {
    // SAFETY: of NULL, fi_dupinfo makes an empty info with all attribute structures at the library's own size, or gives
    // NULL.
    let hints = unsafe { (library.dupinfo)(ptr::null()) };
    if hints.is_null() {
        return Err(Error::of_call(library, "fi_allocinfo", -(libc::ENOMEM as isize)));
    }
    // SAFETY: `hints` is ours and complete. The provider's name must come from malloc, because fi_freeinfo frees it.
    unsafe {
        (*hints).caps = FI_MSG | FI_TAGGED;
        // We can serve both: each slot has room for the larger context.
        (*hints).mode = FI_CONTEXT | FI_CONTEXT2;
        (*(*hints).ep_attr).r#type = FI_EP_RDM;
        (*(*hints).domain_attr).threading = FI_THREAD_DOMAIN;
        (*(*hints).domain_attr).control_progress = FI_PROGRESS_MANUAL;
        (*(*hints).domain_attr).data_progress = FI_PROGRESS_MANUAL;
        // No registration modes: neither messages nor this client's buffers need any.
        (*(*hints).domain_attr).mr_mode = 0;
        let name: *mut c_char = libc::strdup(provider.as_ptr());
        (*(*hints).fabric_attr).prov_name = name;
    }
    Ok(hints)
}

fn c_string(name: &str) -> Result<CString, Error> {
    CString::new(name).map_err(|_| Error::BadName { name: name.into() })
}
