//! `fi_getname`, `fi_setname`.

use core::ffi::{c_int, c_void};

use weft_libfabric::abi::errno::FI_ETOOSMALL;
use weft_libfabric::abi::fid;

use super::handle::ep;
use crate::addresses::Place;
use crate::border::status;
use crate::errno::Errno;

pub(super) unsafe extern "C" fn getname(endpoint: *mut fid, to: *mut c_void, length: *mut usize) -> c_int {
    status(|| {
        // SAFETY: An endpoint of ours, or NULL.
        let core = &unsafe { ep(endpoint.cast()) }?.core;
        let address = core.address()?;
        // SAFETY: C promises a length, and this many bytes; or NULL.
        let cut = unsafe { core.domain.format().give(&address, to, length) }?;
        if cut { Err(Errno(FI_ETOOSMALL)) } else { Ok(()) }
    })
}

pub(super) unsafe extern "C" fn setname(endpoint: *mut fid, from: *mut c_void, length: usize) -> c_int {
    status(|| {
        // SAFETY: An endpoint of ours, or NULL.
        let core = &unsafe { ep(endpoint.cast()) }?.core;
        core.check_inactive()?;
        if length == 0 {
            return Err(Errno::INVALID);
        }
        // SAFETY: C promises an address of the domain's format, or NULL.
        let address = unsafe { core.domain.format().read(from) }?;
        *core.place.lock() = Place::of_address(&address);
        Ok(())
    })
}
