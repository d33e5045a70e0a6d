//! `fi_getopt`, `fi_setopt`.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use weft_libfabric::abi::errno::{FI_ENOPROTOOPT, FI_ETOOSMALL};
use weft_libfabric::abi::{
    FI_OPT_CM_DATA_SIZE, FI_OPT_ENDPOINT, FI_OPT_INJECT_ATOMIC_SIZE, FI_OPT_INJECT_MSG_SIZE, FI_OPT_INJECT_RMA_SIZE,
    FI_OPT_INJECT_TAGGED_SIZE, FI_OPT_MAX_ATOMIC_SIZE, FI_OPT_MIN_MULTI_RECV, fid,
};

use super::core::Core;
use super::handle::ep;
use crate::border::status;
use crate::errno::Errno;

const NO_OPTION: Errno = Errno(FI_ENOPROTOOPT);

impl Core {
    /// The value of an option: all supported ones are a `size_t`.
    fn option(&self, option: c_int) -> Result<usize, Errno> {
        let settings = self.domain.settings();
        Ok(match option {
            FI_OPT_MIN_MULTI_RECV => self.min_multi_receive.load(Ordering::Relaxed) as usize,
            // Peers don't connect by calls of the application.
            FI_OPT_CM_DATA_SIZE => 0,
            FI_OPT_MAX_ATOMIC_SIZE | FI_OPT_INJECT_ATOMIC_SIZE => settings.atomic_bytes as usize,
            FI_OPT_INJECT_MSG_SIZE | FI_OPT_INJECT_TAGGED_SIZE | FI_OPT_INJECT_RMA_SIZE => {
                settings.inject_bytes as usize
            }
            _ => return Err(NO_OPTION),
        })
    }

    fn set_option(&self, option: c_int, value: usize) -> Result<(), Errno> {
        match option {
            FI_OPT_MIN_MULTI_RECV => {
                self.min_multi_receive.store(value as u64, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(NO_OPTION),
        }
    }
}

pub(super) unsafe extern "C" fn getopt(
    endpoint: *mut fid,
    level: c_int,
    option: c_int,
    to: *mut c_void,
    length: *mut usize,
) -> c_int {
    status(|| {
        // SAFETY: An endpoint of ours, or NULL.
        let value = option_of_level(level).and_then(|()| unsafe { ep(endpoint.cast()) }?.core.option(option))?;
        let length = NonNull::new(length).ok_or(Errno::INVALID)?;
        // SAFETY: Not NULL, so C promises a length, and this many bytes at `to`.
        unsafe {
            let room = length.replace(size_of::<usize>());
            if to.is_null() || room < size_of::<usize>() {
                return Err(Errno(FI_ETOOSMALL));
            }
            to.cast::<usize>().write_unaligned(value);
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn setopt(
    endpoint: *mut fid,
    level: c_int,
    option: c_int,
    from: *const c_void,
    length: usize,
) -> c_int {
    status(|| {
        option_of_level(level)?;
        // SAFETY: An endpoint of ours, or NULL.
        let endpoint = unsafe { ep(endpoint.cast()) }?;
        // An unknown option is reported first, whatever its value is.
        endpoint.core.option(option)?;
        if from.is_null() || length != size_of::<usize>() {
            return Err(Errno::INVALID);
        }
        // SAFETY: Not NULL, so C promises this many bytes.
        endpoint.core.set_option(option, unsafe { from.cast::<usize>().read_unaligned() })
    })
}

fn option_of_level(level: c_int) -> Result<(), Errno> {
    if level == FI_OPT_ENDPOINT { Ok(()) } else { Err(NO_OPTION) }
}
