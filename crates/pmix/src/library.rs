//! The shared library: loaded once, never unloaded, since it has threads of its own.

use core::ffi::{CStr, c_int};
use std::sync::OnceLock;

use libloading::os::unix::{RTLD_LOCAL, RTLD_NOW};

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
        // SAFETY: Loading runs the library's constructors, which is what its user asks for.
        let library = unsafe { libloading::os::unix::Library::open(Some("libpmix.so.2"), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| Error::NotInstalled { reason: error.to_string() })?;
        // SAFETY: each function type is the one that the headers declare for that name (see `abi`).
        let functions = unsafe {
            Self {
                init: function(&library, "PMIx_Init")?,
                finalize: function(&library, "PMIx_Finalize")?,
                put: function(&library, "PMIx_Put")?,
                commit: function(&library, "PMIx_Commit")?,
                fence: function(&library, "PMIx_Fence")?,
                get: function(&library, "PMIx_Get")?,
                error_string: function(&library, "PMIx_Error_string")?,
            }
        };
        // It stays loaded.
        core::mem::forget(library);
        Ok(functions)
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
/// `T` is the type of the function of that name. The library is never unloaded.
unsafe fn function<T: Copy>(library: &libloading::os::unix::Library, name: &'static str) -> Result<T, Error> {
    // SAFETY: the caller's promise.
    let found = unsafe { library.get::<T>(name.as_bytes()) };
    found.map(|function| *function).map_err(|_| Error::Unusable { missing: name })
}
