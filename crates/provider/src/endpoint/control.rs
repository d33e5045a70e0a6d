//! `fi_control` of endpoints: enabling, aliases, default flags.

use core::ffi::{c_int, c_void};
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use std::sync::Arc;

use weft_libfabric::abi::{FI_ALIAS, FI_ENABLE, FI_GETOPSFLAG, FI_RECV, FI_SETOPSFLAG, FI_TRANSMIT, fi_alias, fid};

use super::flags::{self, check};
use super::handle::{Endpoint, ep};
use crate::border::{give, status};
use crate::errno::Errno;

pub(super) unsafe extern "C" fn control(endpoint: *mut fid, command: c_int, argument: *mut c_void) -> c_int {
    status(|| {
        // SAFETY: An endpoint of ours, or NULL.
        let endpoint = unsafe { ep(endpoint.cast()) }?;
        let argument = NonNull::new(argument).ok_or(Errno::INVALID);
        match command {
            FI_ENABLE => endpoint.core.enable(),
            FI_ALIAS => {
                // SAFETY: C passes a `struct fi_alias`, whose `fid` is NULL or can be written.
                unsafe { endpoint.alias(argument?.cast::<fi_alias>().as_ref()) }
            }
            FI_GETOPSFLAG => {
                // SAFETY: C passes an `uint64_t`.
                let word = unsafe { argument?.cast::<u64>().as_mut() };
                *word = endpoint.flags_of(*word)?.load(Ordering::Relaxed);
                Ok(())
            }
            FI_SETOPSFLAG => {
                // SAFETY: C passes an `uint64_t`.
                endpoint.set_flags(unsafe { *argument?.cast::<u64>().as_ref() })
            }
            _ => Err(Errno::NOT_HERE),
        }
    })
}

impl Endpoint {
    /// # Safety
    /// `alias.fid` is NULL or can be written.
    unsafe fn alias(&self, alias: &fi_alias) -> Result<(), Errno> {
        let other = Self::new(Arc::clone(&self.core), self.user_context(), self.transmit_flags(), self.receive_flags());
        other.set_flags(alias.flags)?;
        // SAFETY: The caller promises as much; a `fid_ep` begins with a `fid`.
        unsafe { give(other, alias.fid.cast()) }
    }

    /// Sets the default flags of the one direction among them.
    fn set_flags(&self, flags: u64) -> Result<(), Errno> {
        let place = self.flags_of(flags)?;
        let known = if flags & FI_TRANSMIT == 0 { flags::RECEIVE } else { flags::TRANSMIT };
        let flags = flags & !(FI_TRANSMIT | FI_RECV);
        check(flags, known)?;
        place.store(flags, Ordering::Relaxed);
        Ok(())
    }

    /// The default flags of the direction among these flags.
    fn flags_of(&self, flags: u64) -> Result<&core::sync::atomic::AtomicU64, Errno> {
        match (flags & FI_TRANSMIT != 0, flags & FI_RECV != 0) {
            (true, false) => Ok(&self.transmit_flags),
            (false, true) => Ok(&self.receive_flags),
            _ => Err(Errno::INVALID),
        }
    }
}
