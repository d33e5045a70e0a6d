//! Every error of this crate, and of Weft beneath it, as the code that libfabric's manual pages name for it.

use core::ffi::c_int;
use core::fmt;

use weft_libfabric::abi::errno::*;

/// A positive code of `rdma/fi_errno.h`. Functions of the C interface return it negated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

impl Errno {
    /// An argument that the contract forbids.
    pub(crate) const INVALID: Self = Self(FI_EINVAL);
    /// Something that this provider does not have.
    pub(crate) const NOT_HERE: Self = Self(FI_ENOSYS);
    /// An operation that this object does not do.
    pub(crate) const UNSUPPORTED: Self = Self(FI_EOPNOTSUPP);
    /// Others still use the object.
    pub(crate) const BUSY: Self = Self(FI_EBUSY);
    /// Not now: read completions, and try again.
    pub(crate) const AGAIN: Self = Self(FI_EAGAIN);
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Errno({})", self.0)
    }
}
