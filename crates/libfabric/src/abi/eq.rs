//! `rdma/fi_eq.h`: completion queues, and the names of its other objects.

use core::ffi::{c_char, c_int, c_void};

use libc::ssize_t;

use super::fabric::{fi_addr_t, fid};

/// A type that the tables of operations name and that nothing here looks into.
macro_rules! opaque {
    ($($name:ident),*) => { $(#[repr(C)] pub struct $name { _private: [u8; 0] })* };
}
opaque!(fid_wait, fid_poll, fid_eq, fid_cntr, fi_wait_attr, fi_poll_attr, fi_eq_attr, fi_cntr_attr);

pub type fi_wait_obj = c_int;
pub const FI_WAIT_NONE: fi_wait_obj = 0;

pub type fi_cq_format = c_int;
pub const FI_CQ_FORMAT_TAGGED: fi_cq_format = 4;

pub type fi_cq_wait_cond = c_int;
pub const FI_CQ_COND_NONE: fi_cq_wait_cond = 0;

#[repr(C)]
pub struct fi_cq_attr {
    pub size: usize,
    pub flags: u64,
    pub format: fi_cq_format,
    pub wait_obj: fi_wait_obj,
    pub signaling_vector: c_int,
    pub wait_cond: fi_cq_wait_cond,
    pub wait_set: *mut fid_wait,
    /// Not in 1.17.
    pub xpu_ctx: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_cq_tagged_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
}

#[repr(C)]
pub struct fi_cq_err_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
    /// Not in 1.17.
    pub src_addr: fi_addr_t,
}

#[repr(C)]
pub struct fid_cq {
    pub fid: fid,
    pub ops: *mut fi_ops_cq,
}

#[repr(C)]
pub struct fi_ops_cq {
    pub size: usize,
    pub read: Option<unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize) -> ssize_t>,
    pub readfrom: Option<unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize, *mut fi_addr_t) -> ssize_t>,
    pub readerr: Option<unsafe extern "C" fn(*mut fid_cq, *mut fi_cq_err_entry, u64) -> ssize_t>,
    pub sread: Option<unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize, *const c_void, c_int) -> ssize_t>,
    pub sreadfrom:
        Option<unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize, *mut fi_addr_t, *const c_void, c_int) -> ssize_t>,
    pub signal: Option<unsafe extern "C" fn(*mut fid_cq) -> c_int>,
    pub strerror: Option<unsafe extern "C" fn(*mut fid_cq, c_int, *const c_void, *mut c_char, usize) -> *const c_char>,
    /// Not in 1.17.
    pub export_xpu: Option<unsafe extern "C" fn(*mut fid_cq, u64, *mut c_void) -> c_int>,
}
