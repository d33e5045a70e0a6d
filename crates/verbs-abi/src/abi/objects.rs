//! What a program holds by its address, and how it is made.

use core::ffi::{c_char, c_int, c_uint, c_void};

use libc::{pthread_cond_t, pthread_mutex_t, size_t};

use super::attributes::{ibv_qp_cap, ibv_srq_attr};
use super::context::ibv_context;
use super::work::ibv_sge;

/// Bytes of a name in [`ibv_device`].
pub const IBV_SYSFS_NAME_MAX: usize = 64;
/// Bytes of a path in [`ibv_device`].
pub const IBV_SYSFS_PATH_MAX: usize = 256;

#[repr(C)]
pub struct ibv_device {
    pub _ops: [*mut c_void; 2],
    pub node_type: c_int,
    pub transport_type: c_int,
    pub name: [c_char; IBV_SYSFS_NAME_MAX],
    pub dev_name: [c_char; IBV_SYSFS_NAME_MAX],
    pub dev_path: [c_char; IBV_SYSFS_PATH_MAX],
    pub ibdev_path: [c_char; IBV_SYSFS_PATH_MAX],
}

#[repr(C)]
pub struct ibv_pd {
    pub context: *mut ibv_context,
    pub handle: u32,
}

#[repr(C)]
pub struct ibv_mr {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

#[repr(C)]
pub struct ibv_comp_channel {
    pub context: *mut ibv_context,
    pub fd: c_int,
    pub refcnt: c_int,
}

#[repr(C)]
pub struct ibv_cq {
    pub context: *mut ibv_context,
    pub channel: *mut ibv_comp_channel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
}

#[repr(C)]
pub struct ibv_srq {
    pub context: *mut ibv_context,
    pub srq_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub handle: u32,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
}

#[repr(C)]
pub struct ibv_qp {
    pub context: *mut ibv_context,
    pub qp_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub handle: u32,
    pub qp_num: u32,
    pub state: c_int,
    pub qp_type: c_int,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_async_event {
    /// A `cq`, a `qp` or an `srq`, or the number of a port.
    pub element: *mut c_void,
    pub event_type: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_qp_init_attr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub cap: ibv_qp_cap,
    pub qp_type: c_int,
    pub sq_sig_all: c_int,
}

#[repr(C)]
pub struct ibv_qp_init_attr_ex {
    pub qp_context: *mut c_void,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub cap: ibv_qp_cap,
    pub qp_type: c_int,
    pub sq_sig_all: c_int,
    pub comp_mask: u32,
    pub pd: *mut ibv_pd,
    pub _rest: [u64; 7],
    pub send_ops_flags: u64,
}

#[repr(C)]
pub struct ibv_srq_init_attr_ex {
    pub srq_context: *mut c_void,
    pub attr: ibv_srq_attr,
    pub comp_mask: u32,
    pub srq_type: c_int,
    pub pd: *mut ibv_pd,
    pub _rest: [u64; 3],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_data_buf {
    pub addr: *mut c_void,
    pub length: size_t,
}

#[repr(C)]
pub struct ibv_poll_cq_attr {
    pub comp_mask: u32,
}

#[repr(C)]
pub struct ibv_cq_init_attr_ex {
    pub cqe: u32,
    pub cq_context: *mut c_void,
    pub channel: *mut ibv_comp_channel,
    pub comp_vector: u32,
    pub wc_flags: u64,
    pub comp_mask: u32,
    pub flags: u32,
    pub parent_domain: *mut ibv_pd,
}

/// A function that reads a part of the completion that is polled.
pub type Read<T> = unsafe extern "C" fn(*mut ibv_cq_ex) -> T;

#[repr(C)]
pub struct ibv_cq_ex {
    /// Its fields stand at the beginning.
    pub basic: ibv_cq,
    pub comp_mask: u32,
    pub status: c_int,
    pub wr_id: u64,
    pub start_poll: unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int,
    pub next_poll: Read<c_int>,
    pub end_poll: Read<()>,
    pub read_opcode: Read<c_int>,
    pub read_vendor_err: Read<u32>,
    pub read_byte_len: Read<u32>,
    pub read_imm_data: Read<u32>,
    pub read_qp_num: Read<u32>,
    pub read_src_qp: Read<u32>,
    pub read_wc_flags: Read<c_uint>,
    pub read_slid: Read<u32>,
    pub read_sl: Read<u8>,
    pub read_dlid_path_bits: Read<u8>,
    pub read_completion_ts: Read<u64>,
    pub read_cvlan: Read<u16>,
    pub read_flow_tag: Read<u32>,
    pub read_tm_info: unsafe extern "C" fn(*mut ibv_cq_ex, *mut c_void),
    pub read_completion_wallclock_ns: Read<u64>,
}

/// A function that adds a request, or changes the one that was added last. What it has beside these arguments no such
/// function reads that is refused.
pub type Add = unsafe extern "C" fn(*mut ibv_qp_ex);
/// The same, of a request that names memory of the peer.
pub type AddRemote = unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64);

#[repr(C)]
pub struct ibv_qp_ex {
    pub qp_base: ibv_qp,
    pub comp_mask: u64,
    pub wr_id: u64,
    pub wr_flags: c_uint,
    pub wr_atomic_cmp_swp: unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, u64, u64),
    pub wr_atomic_fetch_add: unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, u64),
    pub wr_bind_mw: Add,
    pub wr_local_inv: Add,
    pub wr_rdma_read: AddRemote,
    pub wr_rdma_write: AddRemote,
    pub wr_rdma_write_imm: unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, u32),
    pub wr_send: Add,
    pub wr_send_imm: unsafe extern "C" fn(*mut ibv_qp_ex, u32),
    pub wr_send_inv: unsafe extern "C" fn(*mut ibv_qp_ex, u32),
    pub wr_send_tso: Add,
    pub wr_set_ud_addr: Add,
    pub wr_set_xrc_srqn: Add,
    pub wr_set_inline_data: unsafe extern "C" fn(*mut ibv_qp_ex, *mut c_void, size_t),
    pub wr_set_inline_data_list: unsafe extern "C" fn(*mut ibv_qp_ex, size_t, *const ibv_data_buf),
    pub wr_set_sge: unsafe extern "C" fn(*mut ibv_qp_ex, u32, u64, u32),
    pub wr_set_sge_list: unsafe extern "C" fn(*mut ibv_qp_ex, size_t, *const ibv_sge),
    pub wr_start: Add,
    pub wr_complete: unsafe extern "C" fn(*mut ibv_qp_ex) -> c_int,
    pub wr_abort: Add,
    pub wr_atomic_write: Add,
    /// Since version 59 to 65.
    pub wr_flush: Add,
}
