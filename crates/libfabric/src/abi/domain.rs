//! `rdma/fi_domain.h`: domains and address vectors.

use core::ffi::{c_char, c_int, c_void};

use libc::iovec;

use super::atomic::{fi_atomic_attr, fi_datatype, fi_op};
use super::endpoint::fid_ep;
use super::eq::{fi_cntr_attr, fi_cq_attr, fi_poll_attr, fid_cntr, fid_cq, fid_poll};
use super::fabric::{fi_addr_t, fi_av_type, fi_info, fi_rx_attr, fi_tx_attr, fid};

/// `fi_av_open` and `fi_av_insert`: addresses are those of one service after the other.
pub const FI_SYMMETRIC: u64 = 1 << 59;
/// `fi_av_insert`: the context is an array of `int`, one error for each address.
pub const FI_SYNC_ERR: u64 = 1 << 58;
/// `fi_getinfo` and `fi_av_open`: the address vector holds everybody there is.
pub const FI_UNIVERSE: u64 = 1 << 57;
/// `fi_av_open`: others may only read it.
pub const FI_AV_READ_ONLY: u64 = super::fabric::FI_READ;

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
    pub mr: *mut fi_ops_mr,
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
    pub query_atomic:
        Option<unsafe extern "C" fn(*mut fid_domain, fi_datatype, fi_op, *mut fi_atomic_attr, u64) -> c_int>,
    /// Takes an `enum fi_collective_op` and a `struct fi_collective_attr`.
    pub query_collective: Option<unsafe extern "C" fn(*mut fid_domain, c_int, *mut c_void, u64) -> c_int>,
    pub endpoint2:
        Option<unsafe extern "C" fn(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, u64, *mut c_void) -> c_int>,
    /// Not in 1.17.
    pub xpu_ctx: Option<unsafe extern "C" fn(*mut fid_domain, *mut c_void, *mut *mut c_void, *mut c_void) -> c_int>,
}

#[repr(C)]
pub struct fid_mr {
    pub fid: fid,
    pub mem_desc: *mut c_void,
    pub key: u64,
}

pub type fi_hmem_iface = c_int;
pub const FI_HMEM_SYSTEM: fi_hmem_iface = 0;

#[repr(C)]
pub struct fi_mr_attr {
    /// Or, with `FI_MR_DMABUF`, a `struct fi_mr_dmabuf`.
    pub mr_iov: *const iovec,
    pub iov_count: usize,
    pub access: u64,
    pub offset: u64,
    pub requested_key: u64,
    pub context: *mut c_void,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
    pub iface: fi_hmem_iface,
    /// A union of the devices' numbers.
    pub device: u64,
    /// Not in 1.17, nor is anything below.
    pub hmem_data: *mut c_void,
    pub page_size: usize,
    pub base_mr: *const fid_mr,
    pub sub_mr_cnt: usize,
}

/// `fi_mr_regattr`: the memory is a DMA buffer, not an array of iovec. Not in 1.17.
pub const FI_MR_DMABUF: u64 = 1 << 40;

#[repr(C)]
pub struct fi_ops_mr {
    pub size: usize,
    pub reg: Option<
        unsafe extern "C" fn(
            *mut fid,
            buf: *const c_void,
            len: usize,
            access: u64,
            offset: u64,
            requested_key: u64,
            flags: u64,
            mr: *mut *mut fid_mr,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub regv: Option<
        unsafe extern "C" fn(
            *mut fid,
            iov: *const iovec,
            count: usize,
            access: u64,
            offset: u64,
            requested_key: u64,
            flags: u64,
            mr: *mut *mut fid_mr,
            context: *mut c_void,
        ) -> c_int,
    >,
    pub regattr:
        Option<unsafe extern "C" fn(*mut fid, attr: *const fi_mr_attr, flags: u64, mr: *mut *mut fid_mr) -> c_int>,
}
