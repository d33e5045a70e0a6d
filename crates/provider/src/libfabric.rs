//! libfabric's services to this provider: it lists parameters, keeps a log, and loads and unloads it. Its functions are
//! looked up in the copy of it in this process, for it is never linked.

use core::ffi::{CStr, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::ffi::CString;
use std::sync::OnceLock;

use weft::settings::{Audience, TUNE, VARIABLES, tune_help};
use weft_libfabric::abi::{
    FI_LOG_CORE, FI_PARAM_STRING, fi_log_enabled_t, fi_log_level, fi_log_t, fi_param_define_t, fi_provider,
};

use crate::loaded;

/// Functions of libfabric.
struct Libfabric {
    define: fi_param_define_t,
    is_enabled: fi_log_enabled_t,
    log: fi_log_t,
}

/// This provider, since libfabric has loaded it; NULL before.
static PROVIDER: AtomicPtr<fi_provider> = AtomicPtr::new(ptr::null_mut());

/// libfabric has loaded this library as this provider: keeps it loaded, and defines its variables.
pub(crate) fn begin(provider: *mut fi_provider) {
    PROVIDER.store(provider, Ordering::Relaxed);
    stay_loaded(provider);
    define_parameters(provider);
}

/// Defines the user's variables, for `fi_info -e`.
fn define_parameters(provider: *mut fi_provider) {
    let Some(libfabric) = libfabric() else { return };
    let users = VARIABLES.iter().filter(|variable| variable.audience == Audience::Users);
    let users = users.map(|variable| (variable.key(), variable.description()));
    for (name, help) in users.chain([(TUNE.to_ascii_lowercase(), tune_help())]) {
        let (Ok(name), Ok(help)) = (CString::new(name), CString::new(help)) else { continue };
        // SAFETY: The provider is a static; libfabric copies both texts. The help is the argument of a format with one
        // place for a string.
        unsafe { (libfabric.define)(provider, name.as_ptr(), FI_PARAM_STRING, c"%s".as_ptr(), help.as_ptr()) };
    }
}

/// Writes a line into libfabric's log (`FI_LOG_LEVEL`), if there is a libfabric.
pub(crate) fn log(level: fi_log_level, text: &str) {
    let (Some(libfabric), provider) = (libfabric(), PROVIDER.load(Ordering::Relaxed)) else { return };
    // SAFETY: The provider is a static.
    if provider.is_null() || unsafe { (libfabric.is_enabled)(provider, level, FI_LOG_CORE) } == 0 {
        return;
    }
    let Ok(text) = CString::new(text) else { return };
    // SAFETY: The provider is a static. The text is the argument of a format with one place for a string.
    unsafe {
        (libfabric.log)(provider, level, FI_LOG_CORE, c"weft".as_ptr(), 0, c"%s\n".as_ptr(), text.as_ptr());
    }
}

/// Keeps this library loaded, which libfabric would unload at its end: threads of a NIC that is still open run in it.
fn stay_loaded(provider: *mut fi_provider) {
    let mut about = libc::Dl_info {
        dli_fname: ptr::null(),
        dli_fbase: ptr::null_mut(),
        dli_sname: ptr::null(),
        dli_saddr: ptr::null_mut(),
    };
    // The provider's address cannot be that of another library's symbol of the same name.
    // SAFETY: The structure can be written.
    if unsafe { libc::dladdr(provider.cast(), &raw mut about) } == 0 || about.dli_fname.is_null() {
        return;
    }
    // SAFETY: The name is that of a loaded object. Where this is linked into a program, it is the program's, and
    // nothing happens.
    let _ = unsafe { libc::dlopen(about.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
}

fn libfabric() -> Option<&'static Libfabric> {
    static FOUND: OnceLock<Option<Libfabric>> = OnceLock::new();
    FOUND.get_or_init(Libfabric::find).as_ref()
}

impl Libfabric {
    fn find() -> Option<Self> {
        // SAFETY: The types are those of the headers, for these names.
        unsafe {
            Some(Self {
                define: core::mem::transmute::<*mut c_void, fi_param_define_t>(function(c"fi_param_define")?),
                is_enabled: core::mem::transmute::<*mut c_void, fi_log_enabled_t>(function(c"fi_log_enabled")?),
                log: core::mem::transmute::<*mut c_void, fi_log_t>(function(c"fi_log")?),
            })
        }
    }
}

/// A function of the libfabric in this process: in the global scope, or otherwise, for MPI libraries load it privately,
/// in an object with its name.
fn function(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: A C string.
    let global = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    let found = Some(global).filter(|address| !address.is_null());
    found.or_else(|| loaded::find(name, |file| file.starts_with(b"libfabric")))
}
