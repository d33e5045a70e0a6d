//! The shared library: loaded once, never unloaded, since it has threads of its own.

use core::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use crate::abi::{Commit, ErrorString, Fence, Finalize, Get, Init, Put};
use crate::error::Error;

/// libpmix, loaded into this process.
pub(crate) struct Library {
    pub(crate) init: Init,
    pub(crate) finalize: Finalize,
    pub(crate) put: Put,
    pub(crate) commit: Commit,
    pub(crate) fence: Fence,
    pub(crate) get: Get,
    error_string: ErrorString,
}

impl Library {
    /// Loads `libpmix.so.2`, the name that PMIx 3, 4 and 5 have, from where the dynamic loader finds it. The first call
    /// loads; later ones give the same library, or the same error.
    ///
    /// # Errors
    /// [`Error::NotInstalled`], [`Error::Unusable`].
    pub(crate) fn load() -> Result<&'static Self, Error> {
        static LIBRARY: OnceLock<Result<Library, Error>> = OnceLock::new();
        LIBRARY.get_or_init(Self::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Self, Error> {
        // libpmix loads modules of its own, which find its symbols by themselves.
        // SAFETY: the name is a C string. Loading runs the library's constructors, which is what its user asks for.
        let handle = unsafe { libc::dlopen(c"libpmix.so.2".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(Error::NotInstalled { reason: loader_message() });
        }
        // SAFETY: each function type is the one that the headers declare for that name (see `abi`).
        unsafe {
            Ok(Self {
                init: core::mem::transmute::<*mut c_void, Init>(symbol(handle, c"PMIx_Init")?),
                finalize: core::mem::transmute::<*mut c_void, Finalize>(symbol(handle, c"PMIx_Finalize")?),
                put: core::mem::transmute::<*mut c_void, Put>(symbol(handle, c"PMIx_Put")?),
                commit: core::mem::transmute::<*mut c_void, Commit>(symbol(handle, c"PMIx_Commit")?),
                fence: core::mem::transmute::<*mut c_void, Fence>(symbol(handle, c"PMIx_Fence")?),
                get: core::mem::transmute::<*mut c_void, Get>(symbol(handle, c"PMIx_Get")?),
                error_string: core::mem::transmute::<*mut c_void, ErrorString>(symbol(handle, c"PMIx_Error_string")?),
            })
        }
    }

    /// An error if a call has not succeeded.
    pub(crate) fn check(
        &self,
        function: &'static str,
        about: impl FnOnce() -> String,
        status: c_int,
    ) -> Result<(), Error> {
        if status == crate::abi::SUCCESS {
            return Ok(());
        }
        Err(Error::Call { function, about: about(), status, text: self.describe(status) })
    }

    fn describe(&self, status: c_int) -> String {
        // SAFETY: takes any status and returns a static string, or NULL.
        let text = unsafe { (self.error_string)(status) };
        if text.is_null() {
            return "status".into();
        }
        // SAFETY: not NULL, so it is a C string that lives as long as the library.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
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
