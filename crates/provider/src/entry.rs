//! `fi_prov_ini`, libfabric's entry point of the library.

use core::cell::UnsafeCell;
use core::ptr;

use weft_libfabric::abi::{NEWEST_VERSION, fi_context, fi_provider};

use crate::fabric::opening as fabric;
use crate::version::VERSION;
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

/// The provider's entry point: libfabric calls it when it has loaded the library.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut fi_provider {
    let provider = PROVIDER.0.get();
    libfabric::begin(provider);
    provider
}

/// Nothing to do: open objects are closed by their owners.
unsafe extern "C" fn cleanup() {}
