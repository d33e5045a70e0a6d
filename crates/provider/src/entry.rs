//! `fi_prov_ini`, libfabric's entry point of the library, and the one of another copy of this code.
//!
//! `libweft-mpi.so`, which is preloaded, has this code too. If libfabric then loads `libweft-fi.so` there are two
//! copies of it in the process, with two of each static: NICs, handlers of signals, what is known of `fork`. Objects of
//! the one must not be used by the other. So the second one that comes is not used at all: `fi_prov_ini` of
//! `libweft-fi.so` gives libfabric the provider of the copy that is there already, if that is of the same version. All
//! of what the two agree on is [`Copied`].

use core::cell::UnsafeCell;
use core::ptr;

use weft_libfabric::abi::{NEWEST_VERSION, fi_context, fi_provider};

use crate::fabric::opening as fabric;
use crate::version::{VERSION, WHOLE_VERSION};
use crate::{info, libfabric};

/// The description of this provider. Its context belongs to libfabric, which writes it.
#[repr(transparent)]
struct Provider(UnsafeCell<fi_provider>);

// SAFETY: Only libfabric writes it, one thread at a time.
unsafe impl Sync for Provider {}

static PROVIDER: Provider = Provider(UnsafeCell::new(fi_provider {
    version: VERSION,
    fi_version: NEWEST_VERSION,
    context: fi_context { internal: [ptr::null_mut(); 4] },
    name: c"weft".as_ptr(),
    getinfo: Some(info::getinfo),
    fabric: Some(fabric::open),
    cleanup: Some(cleanup),
}));

/// What a copy of this code exports, as `weft_provider_1`. The number is that of this structure.
#[repr(C)]
struct Copied {
    /// Its version: [`WHOLE_VERSION`].
    version: u64,
    /// Its provider, for libfabric.
    provider: extern "C" fn() -> *mut fi_provider,
}

#[unsafe(export_name = "weft_provider_1")]
static COPIED: Copied = Copied { version: WHOLE_VERSION, provider: own };

/// The provider's entry point: libfabric calls it when it has loaded the library.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut fi_provider {
    match earlier() {
        Some(copied) => (copied.provider)(),
        None => own(),
    }
}

/// The provider of this copy.
extern "C" fn own() -> *mut fi_provider {
    let provider = PROVIDER.0.get();
    libfabric::begin(provider);
    provider
}

/// A copy of the same version that the process had before, or this one.
fn earlier() -> Option<&'static Copied> {
    // SAFETY: A C string. What is loaded for all comes before what is loaded for one library, as this one may be.
    let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"weft_provider_1".as_ptr()) };
    // SAFETY: Only Weft exports this name, for such a structure, in a library that stays loaded: one that was
    // preloaded, or this one.
    let copied = unsafe { at.cast::<Copied>().as_ref() }?;
    (copied.version == WHOLE_VERSION).then_some(copied)
}

/// Nothing to do: open objects are closed by their owners.
unsafe extern "C" fn cleanup() {}
