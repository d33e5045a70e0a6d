//! The shared library: loaded once, never unloaded.

use core::ffi::{CStr, c_int, c_void};
use core::ptr;
use std::sync::OnceLock;

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
    /// The name that the dynamic loader is asked for.
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
        // SAFETY: the name is a C string. Loading runs the library's constructors, which is what its user asks for.
        let handle = unsafe { libc::dlopen(c"libfabric.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(Error::NotInstalled { reason: loader_message() });
        }
        // SAFETY: each function type is the one that the headers declare for that name (see `abi::fabric`). The default
        // version of a symbol is taken; that only appends fields to structures, and those are allocated by the library
        // itself.
        unsafe {
            Ok(Self {
                getinfo: core::mem::transmute::<*mut c_void, fi_getinfo_t>(symbol(handle, c"fi_getinfo")?),
                freeinfo: core::mem::transmute::<*mut c_void, fi_freeinfo_t>(symbol(handle, c"fi_freeinfo")?),
                dupinfo: core::mem::transmute::<*mut c_void, fi_dupinfo_t>(symbol(handle, c"fi_dupinfo")?),
                fabric: core::mem::transmute::<*mut c_void, fi_fabric_t>(symbol(handle, c"fi_fabric")?),
                version: core::mem::transmute::<*mut c_void, fi_version_t>(symbol(handle, c"fi_version")?),
                strerror: core::mem::transmute::<*mut c_void, fi_strerror_t>(symbol(handle, c"fi_strerror")?),
            })
        }
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
/// `handle` came from `dlopen`.
unsafe fn symbol(handle: *mut c_void, name: &'static CStr) -> Result<*mut c_void, Error> {
    // SAFETY: a handle of dlopen and a C string.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if address.is_null() { Err(Error::Unusable { missing: name.to_str().unwrap_or("function") }) } else { Ok(address) }
}

fn loader_message() -> String {
    // SAFETY: returns NULL or a C string that lives until this thread's next call of the loader.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the dynamic loader gave no reason".into();
    }
    // SAFETY: not NULL, see above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
