//! An endpoint as C's object.

use ::core::ffi::c_void;
use ::core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use weft_libfabric::abi::{FI_CLASS_EP, fid_ep};

use super::core::Core;
use crate::border::{Header, Object, Users, borrow};
use crate::errno::Errno;

/// An endpoint, or an alias of one.
#[repr(C)]
pub(crate) struct Endpoint {
    pub(super) header: Header<fid_ep>,
    pub(super) users: Users,
    /// Default flags of operations that this side begins.
    pub(super) transmit_flags: AtomicU64,
    /// Default flags of receives.
    pub(super) receive_flags: AtomicU64,
    pub(super) core: Arc<Core>,
}

// SAFETY: repr(C), and the header of a `fid_ep` is first.
unsafe impl Object for Endpoint {
    type Fid = fid_ep;
    const CLASS: usize = FI_CLASS_EP;

    fn users(&self) -> &Users {
        &self.users
    }
}

impl Endpoint {
    #[inline]
    pub(super) fn transmit_flags(&self) -> u64 {
        self.transmit_flags.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn receive_flags(&self) -> u64 {
        self.receive_flags.load(Ordering::Relaxed)
    }

    /// The application's context from opening.
    pub(super) fn user_context(&self) -> *mut c_void {
        // SAFETY: The object exists, and only the application writes this, which must not do so during a call.
        unsafe { (&raw const (*self.header.as_ptr()).fid.context).read() }
    }
}

/// An endpoint of C's.
///
/// # Errors
/// NULL, or another object.
///
/// # Safety
/// As for [`borrow`].
#[inline]
pub(super) unsafe fn ep<'a>(endpoint: *mut fid_ep) -> Result<&'a Endpoint, Errno> {
    // SAFETY: This function's contract is that one's.
    unsafe { borrow::<Endpoint>(endpoint) }
}
