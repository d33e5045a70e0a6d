//! `rdma/fi_domain.h`: domains and address vectors.

use core::ffi::{c_char, c_int, c_void};

use super::endpoint::fid_ep;
use super::eq::{fi_cntr_attr, fi_cq_attr, fi_poll_attr, fid_cntr, fid_cq, fid_poll};
use super::fabric::{fi_addr_t, fi_av_type, fi_info, fi_rx_attr, fi_tx_attr, fid};

#[repr(C)]
pub struct fi_av_attr {
    pub r#type: fi_av_type,
    pub rx_ctx_bits: c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: u64,
}

#[repr(C)]
pub struct fid_av {
    pub fid: fid,
    pub ops: *mut fi_ops_av,
}

#[repr(C)]
pub struct fi_ops_av {
    pub size: usize,
    pub insert:
        Option<unsafe extern "C" fn(*mut fid_av, *const c_void, usize, *mut fi_addr_t, u64, *mut c_void) -> c_int>,
    pub insertsvc: Option<
        unsafe extern "C" fn(*mut fid_av, *const c_char, *const c_char, *mut fi_addr_t, u64, *mut c_void) -> c_int,
    >,
    pub insertsym: Option<
        unsafe extern "C" fn(
            *mut fid_av,
            *const c_char,
            usize,
            *const c_char,
            usize,
            *mut fi_addr_t,
            u64,
            *mut c_void,
        ) -> c_int,
    >,
    pub remove: Option<unsafe extern "C" fn(*mut fid_av, *mut fi_addr_t, usize, u64) -> c_int>,
    pub lookup: Option<unsafe extern "C" fn(*mut fid_av, fi_addr_t, *mut c_void, *mut usize) -> c_int>,
    pub straddr: Option<unsafe extern "C" fn(*mut fid_av, *const c_void, *mut c_char, *mut usize) -> *const c_char>,
    /// Takes a `struct fi_av_set_attr`, gives a `struct fid_av_set`.
    pub av_set: Option<unsafe extern "C" fn(*mut fid_av, *mut c_void, *mut *mut c_void, *mut c_void) -> c_int>,
    /// Not in 1.17, nor is anything below.
    pub insert_auth_key: Option<unsafe extern "C" fn(*mut fid_av, *const c_void, usize, *mut fi_addr_t, u64) -> c_int>,
    pub lookup_auth_key: Option<unsafe extern "C" fn(*mut fid_av, fi_addr_t, *mut c_void, *mut usize) -> c_int>,
    pub set_user_id: Option<unsafe extern "C" fn(*mut fid_av, fi_addr_t, fi_addr_t, u64) -> c_int>,
    pub lookup2:
        Option<unsafe extern "C" fn(*mut fid_av, fi_addr_t, *mut c_void, *mut usize, u64, *mut c_void) -> c_int>,
}

#[repr(C)]
pub struct fid_domain {
    pub fid: fid,
    pub ops: *mut fi_ops_domain,
    /// A `struct fi_ops_mr`.
    pub mr: *mut c_void,
}

#[repr(C)]
pub struct fi_ops_domain {
    pub size: usize,
    pub av_open: Option<unsafe extern "C" fn(*mut fid_domain, *mut fi_av_attr, *mut *mut fid_av, *mut c_void) -> c_int>,
    pub cq_open: Option<unsafe extern "C" fn(*mut fid_domain, *mut fi_cq_attr, *mut *mut fid_cq, *mut c_void) -> c_int>,
    pub endpoint: Option<unsafe extern "C" fn(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int>,
    pub scalable_ep:
        Option<unsafe extern "C" fn(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int>,
    pub cntr_open:
        Option<unsafe extern "C" fn(*mut fid_domain, *mut fi_cntr_attr, *mut *mut fid_cntr, *mut c_void) -> c_int>,
    pub poll_open: Option<unsafe extern "C" fn(*mut fid_domain, *mut fi_poll_attr, *mut *mut fid_poll) -> c_int>,
    /// Gives a `struct fid_stx`.
    pub stx_ctx: Option<unsafe extern "C" fn(*mut fid_domain, *mut fi_tx_attr, *mut *mut c_void, *mut c_void) -> c_int>,
    pub srx_ctx: Option<unsafe extern "C" fn(*mut fid_domain, *mut fi_rx_attr, *mut *mut fid_ep, *mut c_void) -> c_int>,
    /// Takes an `enum fi_datatype`, an `enum fi_op` and a `struct fi_atomic_attr`.
    pub query_atomic: Option<unsafe extern "C" fn(*mut fid_domain, c_int, c_int, *mut c_void, u64) -> c_int>,
    /// Takes an `enum fi_collective_op` and a `struct fi_collective_attr`.
    pub query_collective: Option<unsafe extern "C" fn(*mut fid_domain, c_int, *mut c_void, u64) -> c_int>,
    pub endpoint2:
        Option<unsafe extern "C" fn(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, u64, *mut c_void) -> c_int>,
    /// Not in 1.17.
    pub xpu_ctx: Option<unsafe extern "C" fn(*mut fid_domain, *mut c_void, *mut *mut c_void, *mut c_void) -> c_int>,
}
