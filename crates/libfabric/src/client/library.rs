//! The shared library: loaded once, never unloaded.

use core::ffi::{CStr, c_int};
use core::ptr;
use std::sync::OnceLock;

use libloading::os::unix::{RTLD_LOCAL, RTLD_NOW};

use super::error::Error;
use crate::abi::{
    API_VERSION, fi_dupinfo_t, fi_fabric_t, fi_freeinfo_t, fi_getinfo_t, fi_info, fi_strerror_t, fi_version_t,
};

/// libfabric, loaded into this process.
#[derive(Debug)]
pub struct Library {
    pub(super) getinfo: fi_getinfo_t,
    pub(super) freeinfo: fi_freeinfo_t,
    pub(super) dupinfo: fi_dupinfo_t,
    pub(super) fabric: fi_fabric_t,
    version: fi_version_t,
    strerror: fi_strerror_t,
}

/// A provider that libfabric offers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Provider {
    /// Its name, for instance `tcp` or `tcp;ofi_rxm`.
    pub name: String,
    /// Its own version, major and minor.
    pub version: (u16, u16),
}

impl Library {
    /// The name that the dynamic loader gets.
    pub const FILE: &str = "libfabric.so.1";

    /// Loads `libfabric.so.1` from where the dynamic loader finds it. The first call loads; later ones give the same
    /// library, or the same error.
    ///
    /// # Errors
    /// [`Error::NotInstalled`], [`Error::Unusable`].
    pub fn load() -> Result<&'static Self, Error> {
        static LIBRARY: OnceLock<Result<Library, Error>> = OnceLock::new();
        LIBRARY.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Self, Error> {
        // SAFETY: Loading runs the library's constructors, which is what its user asks for.
        let library = unsafe { libloading::os::unix::Library::open(Some(Self::FILE), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| Error::NotInstalled { reason: error.to_string() })?;
        // SAFETY: each function type is the one that the headers declare for that name (see `abi::fabric`). The default
        // version of a symbol is taken; that only appends fields to structures, and those are allocated by the library
        // itself.
        let functions = unsafe {
            Self {
                getinfo: function(&library, "fi_getinfo")?,
                freeinfo: function(&library, "fi_freeinfo")?,
                dupinfo: function(&library, "fi_dupinfo")?,
                fabric: function(&library, "fi_fabric")?,
                version: function(&library, "fi_version")?,
                strerror: function(&library, "fi_strerror")?,
            }
        };
        // It stays loaded.
        core::mem::forget(library);
        Ok(functions)
    }

    /// The library's version, major and minor.
    #[must_use]
    pub fn version(&self) -> (u16, u16) {
        // SAFETY: takes nothing, returns a word.
        split(unsafe { (self.version)() })
    }

    /// The providers that offer anything at all on this machine, sorted, each once. Takes some milliseconds.
    ///
    /// # Errors
    /// [`Error::Call`] when libfabric can't say.
    pub fn providers(&self) -> Result<Vec<Provider>, Error> {
        let mut first: *mut fi_info = ptr::null_mut();
        // SAFETY: node, service and hints may be NULL; `first` is written when the call succeeds.
        let result = unsafe { (self.getinfo)(API_VERSION, ptr::null(), ptr::null(), 0, ptr::null(), &raw mut first) };
        if result < 0 {
            return Err(Error::of_call(self, "fi_getinfo", result as isize));
        }
        let mut providers = Vec::new();
        let mut info = first;
        while !info.is_null() {
            // SAFETY: `info` is an element of the list that fi_getinfo returned, which lives until fi_freeinfo below.
            // Its fabric attributes and their provider name are C objects that it owns, or NULL.
            unsafe {
                providers.extend(provider_of(info));
                info = (*info).next;
            }
        }
        // SAFETY: `first` came from fi_getinfo and is not used again.
        unsafe { (self.freeinfo)(first) };
        providers.sort();
        providers.dedup();
        Ok(providers)
    }

    /// libfabric's words for a positive code.
    pub(super) fn describe(&self, code: c_int) -> String {
        // SAFETY: takes any code and returns a static string, or NULL.
        let text = unsafe { (self.strerror)(code) };
        if text.is_null() {
            return format!("error {code}");
        }
        // SAFETY: not NULL, so it is a C string that lives as long as the library.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

/// # Safety
/// `info` is an element of a list that `fi_getinfo` returned and that has not been freed.
pub(super) unsafe fn provider_of(info: *const fi_info) -> Option<Provider> {
    // SAFETY: by this function's contract the pointers are NULL or lead to live objects.
    unsafe {
        let attributes = (*info).fabric_attr;
        if attributes.is_null() || (*attributes).prov_name.is_null() {
            return None;
        }
        let name = CStr::from_ptr((*attributes).prov_name).to_string_lossy().into_owned();
        Some(Provider { name, version: split((*attributes).prov_version) })
    }
}

const fn split(version: u32) -> (u16, u16) {
    ((version >> 16) as u16, version as u16)
}

/// # Safety
/// `T` is the type of the function of that name. The library is never unloaded.
unsafe fn function<T: Copy>(library: &libloading::os::unix::Library, name: &'static str) -> Result<T, Error> {
    // SAFETY: the caller's promise.
    let found = unsafe { library.get::<T>(name.as_bytes()) };
    found.map(|function| *function).map_err(|_| Error::Unusable { missing: name })
}
