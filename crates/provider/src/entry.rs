//! `fi_prov_ini`, which libfabric looks for in the library.

use core::cell::UnsafeCell;
use core::ptr;

use weft_libfabric::abi::{NEWEST_VERSION, fi_context, fi_provider, fi_version};

use crate::{fabric, info, libfabric};

/// This provider's own version, in one word.
pub(crate) const VERSION: u32 = {
    // Numbers of a version are digits and nothing else.
    const fn number(text: &str) -> u16 {
        match u16::from_str_radix(text, 10) {
            Ok(number) => number,
            Err(_) => panic!("a version number"),
        }
    }
    fi_version(number(env!("CARGO_PKG_VERSION_MAJOR")), number(env!("CARGO_PKG_VERSION_MINOR")))
};

/// What libfabric knows of this provider. Its context is libfabric's own, who writes it.
#[repr(transparent)]
struct Provider(UnsafeCell<fi_provider>);

// SAFETY: Only libfabric writes it, and it sees to it that nobody does so at the same time.
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
    libfabric::stay_loaded();
    libfabric::define_parameters();
    provider()
}

/// This provider, as libfabric's functions want it.
pub(crate) const fn provider() -> *mut fi_provider {
    PROVIDER.0.get()
}

/// There is nothing to do: what is open is closed by who has opened it.
unsafe extern "C" fn cleanup() {}
