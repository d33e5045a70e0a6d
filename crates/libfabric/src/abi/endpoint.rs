//! `rdma/fi_endpoint.h`, `rdma/fi_cm.h` and `rdma/fi_tagged.h`: endpoints and their operations.

use core::ffi::{c_int, c_void};

use libc::{iovec, ssize_t};

use super::atomic::fi_ops_atomic;
use super::collective::fi_ops_collective;
use super::fabric::{fi_addr_t, fi_rx_attr, fi_tx_attr, fid};
use super::rma::fi_ops_rma;

#[repr(C)]
pub struct fid_ep {
    pub fid: fid,
    pub ops: *mut fi_ops_ep,
    pub cm: *mut fi_ops_cm,
    pub msg: *mut fi_ops_msg,
    pub rma: *mut fi_ops_rma,
    pub tagged: *mut fi_ops_tagged,
    pub atomic: *mut fi_ops_atomic,
    pub collective: *mut fi_ops_collective,
}

/// The one level of `fi_getopt` and `fi_setopt`.
pub const FI_OPT_ENDPOINT: c_int = 0;
/// The options of that level.
pub const FI_OPT_MIN_MULTI_RECV: c_int = 0;
pub const FI_OPT_CM_DATA_SIZE: c_int = 1;
pub const FI_OPT_BUFFERED_MIN: c_int = 2;
pub const FI_OPT_BUFFERED_LIMIT: c_int = 3;
pub const FI_OPT_SEND_BUF_SIZE: c_int = 4;
pub const FI_OPT_RECV_BUF_SIZE: c_int = 5;
pub const FI_OPT_TX_SIZE: c_int = 6;
pub const FI_OPT_RX_SIZE: c_int = 7;
pub const FI_OPT_FI_HMEM_P2P: c_int = 8;
pub const FI_OPT_XPU_TRIGGER: c_int = 9;
/// Not in 1.17, nor is anything below.
pub const FI_OPT_CUDA_API_PERMITTED: c_int = 10;
pub const FI_OPT_SHARED_MEMORY_PERMITTED: c_int = 11;
pub const FI_OPT_MAX_MSG_SIZE: c_int = 12;
pub const FI_OPT_MAX_TAGGED_SIZE: c_int = 13;
pub const FI_OPT_MAX_RMA_SIZE: c_int = 14;
pub const FI_OPT_MAX_ATOMIC_SIZE: c_int = 15;
pub const FI_OPT_INJECT_MSG_SIZE: c_int = 16;
pub const FI_OPT_INJECT_TAGGED_SIZE: c_int = 17;
pub const FI_OPT_INJECT_RMA_SIZE: c_int = 18;
pub const FI_OPT_INJECT_ATOMIC_SIZE: c_int = 19;

#[repr(C)]
pub struct fi_msg {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub context: *mut c_void,
    pub data: u64,
}

#[repr(C)]
pub struct fi_ops_msg {
    pub size: usize,
    pub recv: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            buf: *mut c_void,
            len: usize,
            desc: *mut c_void,
            src_addr: fi_addr_t,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub recvv: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut c_void,
            count: usize,
            src_addr: fi_addr_t,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub recvmsg: Option<unsafe extern "C" fn(*mut fid_ep, msg: *const fi_msg, flags: u64) -> ssize_t>,
    pub send: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            dest_addr: fi_addr_t,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub sendv: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut c_void,
            count: usize,
            dest_addr: fi_addr_t,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub sendmsg: Option<unsafe extern "C" fn(*mut fid_ep, msg: *const fi_msg, flags: u64) -> ssize_t>,
    pub inject:
        Option<unsafe extern "C" fn(*mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t) -> ssize_t>,
    pub senddata: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            data: u64,
            dest_addr: fi_addr_t,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub injectdata: Option<
        unsafe extern "C" fn(*mut fid_ep, buf: *const c_void, len: usize, data: u64, dest_addr: fi_addr_t) -> ssize_t,
    >,
}

#[repr(C)]
pub struct fi_ops_ep {
    pub size: usize,
    pub cancel: Option<unsafe extern "C" fn(*mut fid, *mut c_void) -> ssize_t>,
    pub getopt: Option<unsafe extern "C" fn(*mut fid, c_int, c_int, *mut c_void, *mut usize) -> c_int>,
    pub setopt: Option<unsafe extern "C" fn(*mut fid, c_int, c_int, *const c_void, usize) -> c_int>,
    pub tx_ctx:
        Option<unsafe extern "C" fn(*mut fid_ep, c_int, *mut fi_tx_attr, *mut *mut fid_ep, *mut c_void) -> c_int>,
    pub rx_ctx:
        Option<unsafe extern "C" fn(*mut fid_ep, c_int, *mut fi_rx_attr, *mut *mut fid_ep, *mut c_void) -> c_int>,
    pub rx_size_left: Option<unsafe extern "C" fn(*mut fid_ep) -> ssize_t>,
    pub tx_size_left: Option<unsafe extern "C" fn(*mut fid_ep) -> ssize_t>,
    /// Not in 1.17.
    pub export_xpu: Option<unsafe extern "C" fn(*mut fid_ep, u64, *mut c_void) -> c_int>,
}

#[repr(C)]
pub struct fi_ops_cm {
    pub size: usize,
    pub setname: Option<unsafe extern "C" fn(*mut fid, *mut c_void, usize) -> c_int>,
    pub getname: Option<unsafe extern "C" fn(*mut fid, *mut c_void, *mut usize) -> c_int>,
    pub getpeer: Option<unsafe extern "C" fn(*mut fid_ep, *mut c_void, *mut usize) -> c_int>,
    pub connect: Option<unsafe extern "C" fn(*mut fid_ep, *const c_void, *const c_void, usize) -> c_int>,
    /// Of a `struct fid_pep`.
    pub listen: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    pub accept: Option<unsafe extern "C" fn(*mut fid_ep, *const c_void, usize) -> c_int>,
    /// Of a `struct fid_pep`.
    pub reject: Option<unsafe extern "C" fn(*mut c_void, *mut fid, *const c_void, usize) -> c_int>,
    pub shutdown: Option<unsafe extern "C" fn(*mut fid_ep, u64) -> c_int>,
    /// Gives a `struct fid_mc`.
    pub join: Option<unsafe extern "C" fn(*mut fid_ep, *const c_void, u64, *mut *mut c_void, *mut c_void) -> c_int>,
}

#[repr(C)]
pub struct fi_msg_tagged {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: fi_addr_t,
    pub tag: u64,
    pub ignore: u64,
    pub context: *mut c_void,
    pub data: u64,
}

#[repr(C)]
pub struct fi_ops_tagged {
    pub size: usize,
    pub recv: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            buf: *mut c_void,
            len: usize,
            desc: *mut c_void,
            src_addr: fi_addr_t,
            tag: u64,
            ignore: u64,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub recvv: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut c_void,
            count: usize,
            src_addr: fi_addr_t,
            tag: u64,
            ignore: u64,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub recvmsg: Option<unsafe extern "C" fn(*mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> ssize_t>,
    pub send: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            dest_addr: fi_addr_t,
            tag: u64,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub sendv: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut c_void,
            count: usize,
            dest_addr: fi_addr_t,
            tag: u64,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub sendmsg: Option<unsafe extern "C" fn(*mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> ssize_t>,
    pub inject: Option<
        unsafe extern "C" fn(*mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t, tag: u64) -> ssize_t,
    >,
    pub senddata: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            data: u64,
            dest_addr: fi_addr_t,
            tag: u64,
            context: *mut c_void,
        ) -> ssize_t,
    >,
    pub injectdata: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            buf: *const c_void,
            len: usize,
            data: u64,
            dest_addr: fi_addr_t,
            tag: u64,
        ) -> ssize_t,
    >,
}
