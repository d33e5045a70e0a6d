//! `rdma/fi_collective.h`: the table that every endpoint has, whether or not it does collectives.

use core::ffi::c_void;

use libc::ssize_t;

use super::atomic::{fi_datatype, fi_op};
use super::endpoint::fid_ep;
use super::fabric::fi_addr_t;

#[repr(C)]
pub struct fi_ops_collective {
    pub size: usize,
    pub barrier: Option<unsafe extern "C" fn(*mut fid_ep, coll_addr: fi_addr_t, context: *mut c_void) -> ssize_t>,
    pub broadcast: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            buf: *mut c_void,
            count: usize,
            desc: *mut c_void,
            coll_addr: fi_addr_t,
            root_addr: fi_addr_t,
            fi_datatype,
            flags: u64,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub alltoall: Option<fi_collective_plain_t>,
    pub allreduce: Option<fi_collective_reduce_t>,
    pub allgather: Option<fi_collective_plain_t>,
    pub reduce_scatter: Option<fi_collective_reduce_t>,
    pub reduce: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            coll_addr: fi_addr_t,
            root_addr: fi_addr_t,
            fi_datatype,
            fi_op,
            flags: u64,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub scatter: Option<fi_collective_rooted_t>,
    pub gather: Option<fi_collective_rooted_t>,
    /// Takes a `struct fi_msg_collective` and `struct fi_ioc`.
    pub msg: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            msg: *const c_void,
            resultv: *mut c_void,
            result_desc: *mut *mut c_void,
            result_count: usize,
            flags: u64,
        ) -> ssize_t,
    >,
    pub barrier2:
        Option<unsafe extern "C" fn(*mut fid_ep, coll_addr: fi_addr_t, flags: u64, context: *mut c_void) -> ssize_t>,
}

/// Everybody gives and takes.
pub type fi_collective_plain_t = unsafe extern "C" fn(
    *mut fid_ep,
    buf: *const c_void,
    count: usize,
    desc: *mut c_void,
    result: *mut c_void,
    result_desc: *mut c_void,
    coll_addr: fi_addr_t,
    fi_datatype,
    flags: u64,
    context: *mut c_void,
) -> ssize_t;

/// Everybody gives and takes, and something is computed.
pub type fi_collective_reduce_t = unsafe extern "C" fn(
    *mut fid_ep,
    buf: *const c_void,
    count: usize,
    desc: *mut c_void,
    result: *mut c_void,
    result_desc: *mut c_void,
    coll_addr: fi_addr_t,
    fi_datatype,
    fi_op,
    flags: u64,
    context: *mut c_void,
) -> ssize_t;

/// One gives or takes everything.
pub type fi_collective_rooted_t = unsafe extern "C" fn(
    *mut fid_ep,
    buf: *const c_void,
    count: usize,
    desc: *mut c_void,
    result: *mut c_void,
    result_desc: *mut c_void,
    coll_addr: fi_addr_t,
    root_addr: fi_addr_t,
    fi_datatype,
    flags: u64,
    context: *mut c_void,
) -> ssize_t;
