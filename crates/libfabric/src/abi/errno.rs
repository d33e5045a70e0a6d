//! `rdma/fi_errno.h`: what calls return negated. Codes below [`FI_EOTHER`] are those of `errno.h`.

use core::ffi::c_int;

pub const FI_EAGAIN: c_int = libc::EAGAIN;
pub const FI_ENODATA: c_int = libc::ENODATA;
pub const FI_EOTHER: c_int = 256;
/// A completion queue holds an error: read it with `readerr`.
pub const FI_EAVAIL: c_int = 259;
