//! `rdma/fabric.h`: discovery, attributes, the object every descriptor starts with.

use core::ffi::{c_char, c_int, c_void};

use super::domain::fid_domain;
use super::eq::{fi_eq_attr, fi_wait_attr, fid_eq, fid_wait};

/// A version as libfabric writes it in one word.
#[must_use]
pub const fn fi_version(major: u16, minor: u16) -> u32 {
    (major as u32) << 16 | minor as u32
}

/// The version of the interface that the client asks for: what Debian 12 has, and every later library still serves.
pub const API_VERSION: u32 = fi_version(1, 17);

pub const FI_MSG: u64 = 1 << 1;
pub const FI_TAGGED: u64 = 1 << 3;
pub const FI_RECV: u64 = 1 << 10;
pub const FI_SEND: u64 = 1 << 11;
pub const FI_TRANSMIT: u64 = FI_SEND;
/// `fi_getinfo`: node and service name the local address, not the peer's.
pub const FI_SOURCE: u64 = 1 << 57;

/// Mode: each operation's context is a [`fi_context`] that belongs to the provider until completion.
pub const FI_CONTEXT: u64 = 1 << 59;
/// Mode: as [`FI_CONTEXT`], with a [`fi_context2`].
pub const FI_CONTEXT2: u64 = 1 << 52;

pub type fi_addr_t = u64;

pub type fi_av_type = c_int;
pub const FI_AV_UNSPEC: fi_av_type = 0;
pub const FI_AV_MAP: fi_av_type = 1;
pub const FI_AV_TABLE: fi_av_type = 2;

pub type fi_progress = c_int;
pub const FI_PROGRESS_UNSPEC: fi_progress = 0;
pub const FI_PROGRESS_MANUAL: fi_progress = 2;

pub type fi_threading = c_int;
/// The caller serialises all calls on one domain.
pub const FI_THREAD_DOMAIN: fi_threading = 3;

pub type fi_resource_mgmt = c_int;
pub const FI_RM_ENABLED: fi_resource_mgmt = 2;

pub type fi_ep_type = c_int;
pub const FI_EP_RDM: fi_ep_type = 3;

/// `fi_control`: make an endpoint ready.
pub const FI_ENABLE: c_int = 6;

#[repr(C)]
pub struct fi_tx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
    pub rma_iov_limit: usize,
    pub tclass: u32,
}

#[repr(C)]
pub struct fi_rx_attr {
    pub caps: u64,
    pub mode: u64,
    pub op_flags: u64,
    pub msg_order: u64,
    pub comp_order: u64,
    pub total_buffered_recv: usize,
    pub size: usize,
    pub iov_limit: usize,
}

#[repr(C)]
pub struct fi_ep_attr {
    pub r#type: fi_ep_type,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
    pub msg_prefix_size: usize,
    pub max_order_raw_size: usize,
    pub max_order_war_size: usize,
    pub max_order_waw_size: usize,
    pub mem_tag_format: u64,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
    /// Not in 1.17.
    pub xpu_ctx: *mut c_void,
}

#[repr(C)]
pub struct fi_domain_attr {
    pub domain: *mut fid_domain,
    pub name: *mut c_char,
    pub threading: fi_threading,
    pub control_progress: fi_progress,
    pub data_progress: fi_progress,
    pub resource_mgmt: fi_resource_mgmt,
    pub av_type: fi_av_type,
    pub mr_mode: c_int,
    pub mr_key_size: usize,
    pub cq_data_size: usize,
    pub cq_cnt: usize,
    pub ep_cnt: usize,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub max_ep_tx_ctx: usize,
    pub max_ep_rx_ctx: usize,
    pub max_ep_stx_ctx: usize,
    pub max_ep_srx_ctx: usize,
    pub cntr_cnt: usize,
    pub mr_iov_limit: usize,
    pub caps: u64,
    pub mode: u64,
    pub auth_key: *mut u8,
    pub auth_key_size: usize,
    pub max_err_data: usize,
    pub mr_cnt: usize,
    pub tclass: u32,
    /// Not in 1.17, nor is anything below.
    pub max_ep_auth_key: usize,
    pub max_group_id: u32,
    pub max_cntr_value: u64,
    pub max_err_cntr_value: u64,
    pub max_xpu_ctx_cnt: usize,
}

#[repr(C)]
pub struct fi_fabric_attr {
    pub fabric: *mut fid_fabric,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
    pub prov_version: u32,
    pub api_version: u32,
}

#[repr(C)]
pub struct fi_info {
    pub next: *mut fi_info,
    pub caps: u64,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: *mut fid,
    pub tx_attr: *mut fi_tx_attr,
    pub rx_attr: *mut fi_rx_attr,
    pub ep_attr: *mut fi_ep_attr,
    pub domain_attr: *mut fi_domain_attr,
    pub fabric_attr: *mut fi_fabric_attr,
    /// A `struct fid_nic`.
    pub nic: *mut c_void,
}

#[repr(C)]
pub struct fid {
    pub fclass: usize,
    pub context: *mut c_void,
    pub ops: *mut fi_ops,
}

#[repr(C)]
pub struct fi_ops {
    pub size: usize,
    pub close: Option<unsafe extern "C" fn(*mut fid) -> c_int>,
    pub bind: Option<unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int>,
    pub control: Option<unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int>,
    pub ops_open: Option<unsafe extern "C" fn(*mut fid, *const c_char, u64, *mut *mut c_void, *mut c_void) -> c_int>,
    pub tostr: Option<unsafe extern "C" fn(*const fid, *mut c_char, usize) -> c_int>,
    pub ops_set: Option<unsafe extern "C" fn(*mut fid, *const c_char, u64, *mut c_void, *mut c_void) -> c_int>,
}

#[repr(C)]
pub struct fid_fabric {
    pub fid: fid,
    pub ops: *mut fi_ops_fabric,
    pub api_version: u32,
}

#[repr(C)]
pub struct fi_ops_fabric {
    pub size: usize,
    pub domain: Option<unsafe extern "C" fn(*mut fid_fabric, *mut fi_info, *mut *mut fid_domain, *mut c_void) -> c_int>,
    /// Gives a `struct fid_pep`.
    pub passive_ep: Option<unsafe extern "C" fn(*mut fid_fabric, *mut fi_info, *mut *mut c_void, *mut c_void) -> c_int>,
    pub eq_open: Option<unsafe extern "C" fn(*mut fid_fabric, *mut fi_eq_attr, *mut *mut fid_eq, *mut c_void) -> c_int>,
    pub wait_open: Option<unsafe extern "C" fn(*mut fid_fabric, *mut fi_wait_attr, *mut *mut fid_wait) -> c_int>,
    pub trywait: Option<unsafe extern "C" fn(*mut fid_fabric, *mut *mut fid, c_int) -> c_int>,
    pub domain2:
        Option<unsafe extern "C" fn(*mut fid_fabric, *mut fi_info, *mut *mut fid_domain, u64, *mut c_void) -> c_int>,
}

/// Room that a provider with mode [`FI_CONTEXT`] uses while an operation is pending.
#[repr(C)]
pub struct fi_context {
    pub internal: [*mut c_void; 4],
}

/// Room that a provider with mode [`FI_CONTEXT2`] uses while an operation is pending.
#[repr(C)]
pub struct fi_context2 {
    pub internal: [*mut c_void; 8],
}

/// `fi_getinfo`.
pub type fi_getinfo_t = unsafe extern "C" fn(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int;
/// `fi_freeinfo`.
pub type fi_freeinfo_t = unsafe extern "C" fn(info: *mut fi_info);
/// `fi_dupinfo`; of NULL it makes an empty one with all attribute structures.
pub type fi_dupinfo_t = unsafe extern "C" fn(info: *const fi_info) -> *mut fi_info;
/// `fi_fabric`.
pub type fi_fabric_t =
    unsafe extern "C" fn(attr: *mut fi_fabric_attr, fabric: *mut *mut fid_fabric, context: *mut c_void) -> c_int;
/// `fi_version`.
pub type fi_version_t = unsafe extern "C" fn() -> u32;
/// `fi_strerror`; takes the positive code.
pub type fi_strerror_t = unsafe extern "C" fn(errnum: c_int) -> *const c_char;
