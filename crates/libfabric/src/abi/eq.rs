//! `rdma/fi_eq.h`: event and completion queues, counters, wait and poll sets.

use core::ffi::{c_char, c_int, c_void};

use libc::ssize_t;

use super::fabric::{fi_addr_t, fid};

pub type fi_wait_obj = c_int;
pub const FI_WAIT_NONE: fi_wait_obj = 0;
pub const FI_WAIT_UNSPEC: fi_wait_obj = 1;
pub const FI_WAIT_SET: fi_wait_obj = 2;
pub const FI_WAIT_FD: fi_wait_obj = 3;
pub const FI_WAIT_MUTEX_COND: fi_wait_obj = 4;
pub const FI_WAIT_YIELD: fi_wait_obj = 5;
pub const FI_WAIT_POLLFD: fi_wait_obj = 6;

pub type fi_cq_format = c_int;
pub const FI_CQ_FORMAT_UNSPEC: fi_cq_format = 0;
pub const FI_CQ_FORMAT_CONTEXT: fi_cq_format = 1;
pub const FI_CQ_FORMAT_MSG: fi_cq_format = 2;
pub const FI_CQ_FORMAT_DATA: fi_cq_format = 3;
pub const FI_CQ_FORMAT_TAGGED: fi_cq_format = 4;

pub type fi_cq_wait_cond = c_int;
pub const FI_CQ_COND_NONE: fi_cq_wait_cond = 0;
/// The condition is a `size_t`: this many completions.
pub const FI_CQ_COND_THRESHOLD: fi_cq_wait_cond = 1;

pub type fi_cntr_events = c_int;
pub const FI_CNTR_EVENTS_COMP: fi_cntr_events = 0;
/// Counts bytes. Not in 1.17.
pub const FI_CNTR_EVENTS_BYTES: fi_cntr_events = 1;

/// Events of an event queue.
pub const FI_NOTIFY: u32 = 0;
pub const FI_CONNREQ: u32 = 1;
pub const FI_CONNECTED: u32 = 2;
pub const FI_SHUTDOWN: u32 = 3;
pub const FI_MR_COMPLETE: u32 = 4;
pub const FI_AV_COMPLETE: u32 = 5;
pub const FI_JOIN_COMPLETE: u32 = 6;

#[repr(C)]
pub struct fi_wait_attr {
    pub wait_obj: fi_wait_obj,
    pub flags: u64,
}

#[repr(C)]
pub struct fi_ops_wait {
    pub size: usize,
    pub wait: Option<unsafe extern "C" fn(*mut fid_wait, timeout: c_int) -> c_int>,
}

#[repr(C)]
pub struct fid_wait {
    pub fid: fid,
    pub ops: *mut fi_ops_wait,
}

/// What [`super::FI_GETWAIT`] gives of [`FI_WAIT_POLLFD`].
#[repr(C)]
pub struct fi_wait_pollfd {
    pub change_index: u64,
    pub nfds: usize,
    pub fd: *mut libc::pollfd,
}

#[repr(C)]
pub struct fi_poll_attr {
    pub flags: u64,
}

#[repr(C)]
pub struct fi_ops_poll {
    pub size: usize,
    pub poll: Option<unsafe extern "C" fn(*mut fid_poll, context: *mut *mut c_void, count: c_int) -> c_int>,
    pub poll_add: Option<unsafe extern "C" fn(*mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int>,
    pub poll_del: Option<unsafe extern "C" fn(*mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int>,
}

#[repr(C)]
pub struct fid_poll {
    pub fid: fid,
    pub ops: *mut fi_ops_poll,
}

#[repr(C)]
pub struct fi_eq_attr {
    pub size: usize,
    pub flags: u64,
    pub wait_obj: fi_wait_obj,
    pub signaling_vector: c_int,
    pub wait_set: *mut fid_wait,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_eq_entry {
    pub fid: *mut fid,
    pub context: *mut c_void,
    pub data: u64,
}

#[repr(C)]
pub struct fi_eq_err_entry {
    pub fid: *mut fid,
    pub context: *mut c_void,
    pub data: u64,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
    pub err_data_size: usize,
}

#[repr(C)]
pub struct fi_ops_eq {
    pub size: usize,
    pub read:
        Option<unsafe extern "C" fn(*mut fid_eq, event: *mut u32, buf: *mut c_void, len: usize, flags: u64) -> ssize_t>,
    pub readerr: Option<unsafe extern "C" fn(*mut fid_eq, buf: *mut fi_eq_err_entry, flags: u64) -> ssize_t>,
    pub write:
        Option<unsafe extern "C" fn(*mut fid_eq, event: u32, buf: *const c_void, len: usize, flags: u64) -> ssize_t>,
    pub sread: Option<
        unsafe extern "C" fn(
            *mut fid_eq,
            event: *mut u32,
            buf: *mut c_void,
            len: usize,
            timeout: c_int,
            flags: u64,
        ) -> ssize_t,
    >,
    pub strerror: Option<unsafe extern "C" fn(*mut fid_eq, c_int, *const c_void, *mut c_char, usize) -> *const c_char>,
}

#[repr(C)]
pub struct fid_eq {
    pub fid: fid,
    pub ops: *mut fi_ops_eq,
}

#[repr(C)]
pub struct fi_cntr_attr {
    pub events: fi_cntr_events,
    pub wait_obj: fi_wait_obj,
    pub wait_set: *mut fid_wait,
    pub flags: u64,
    /// Not in 1.17.
    pub xpu_ctx: *mut c_void,
}

#[repr(C)]
pub struct fi_ops_cntr {
    pub size: usize,
    pub read: Option<unsafe extern "C" fn(*mut fid_cntr) -> u64>,
    pub readerr: Option<unsafe extern "C" fn(*mut fid_cntr) -> u64>,
    pub add: Option<unsafe extern "C" fn(*mut fid_cntr, value: u64) -> c_int>,
    pub set: Option<unsafe extern "C" fn(*mut fid_cntr, value: u64) -> c_int>,
    pub wait: Option<unsafe extern "C" fn(*mut fid_cntr, threshold: u64, timeout: c_int) -> c_int>,
    pub adderr: Option<unsafe extern "C" fn(*mut fid_cntr, value: u64) -> c_int>,
    pub seterr: Option<unsafe extern "C" fn(*mut fid_cntr, value: u64) -> c_int>,
    /// Not in 1.17.
    pub export_xpu: Option<unsafe extern "C" fn(*mut fid_cntr, u64, *mut c_void) -> c_int>,
}

#[repr(C)]
pub struct fid_cntr {
    pub fid: fid,
    pub ops: *mut fi_ops_cntr,
}

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

/// A completion in [`FI_CQ_FORMAT_CONTEXT`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_cq_entry {
    pub op_context: *mut c_void,
}

/// In [`FI_CQ_FORMAT_MSG`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_cq_msg_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
}

/// In [`FI_CQ_FORMAT_DATA`].
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fi_cq_data_entry {
    pub op_context: *mut c_void,
    pub flags: u64,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
}

/// In [`FI_CQ_FORMAT_TAGGED`].
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
