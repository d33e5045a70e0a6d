//! An open device, with its tables of functions.

use core::ffi::{c_int, c_void};

use libc::{pthread_mutex_t, size_t};

use super::attributes::{ibv_device_attr_ex, ibv_port_attr};
use super::objects::{
    ibv_cq, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_device, ibv_qp, ibv_qp_init_attr_ex, ibv_srq, ibv_srq_init_attr_ex,
};
use super::work::{ibv_recv_wr, ibv_send_wr, ibv_wc};

/// A function that only refuses, and reads none of its arguments.
pub type Refusing = unsafe extern "C" fn() -> c_int;
/// The same, of a function that returns an object.
pub type RefusingPointer = unsafe extern "C" fn() -> *mut c_void;

pub type PollCq = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;
pub type ReqNotifyCq = unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int;
pub type PostSrqRecv = unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;
pub type PostSend = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;
pub type PostRecv = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;
pub type QueryPort = unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, size_t) -> c_int;
pub type QueryDeviceEx =
    unsafe extern "C" fn(*mut ibv_context, *const c_void, *mut ibv_device_attr_ex, size_t) -> c_int;
pub type CreateCqEx = unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex;
pub type CreateQpEx = unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp;
pub type CreateSrqEx = unsafe extern "C" fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq;

#[repr(C)]
pub struct ibv_context_ops {
    pub _compat_query_device: Refusing,
    pub _compat_query_port: Refusing,
    pub _compat_pd_and_mr: [RefusingPointer; 5],
    pub alloc_mw: RefusingPointer,
    pub bind_mw: Refusing,
    pub dealloc_mw: Refusing,
    pub _compat_create_cq: RefusingPointer,
    pub poll_cq: PollCq,
    pub req_notify_cq: ReqNotifyCq,
    pub _compat_cq_and_srq: [RefusingPointer; 7],
    pub post_srq_recv: PostSrqRecv,
    pub _compat_qp: [RefusingPointer; 4],
    pub post_send: PostSend,
    pub post_recv: PostRecv,
    pub _compat_ah_and_others: [RefusingPointer; 5],
}

#[repr(C)]
pub struct ibv_context {
    pub device: *mut ibv_device,
    pub ops: ibv_context_ops,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub mutex: pthread_mutex_t,
    pub abi_compat: *mut c_void,
}

/// It grows at its front: a program finds what it knows by the distance from its end.
#[repr(C)]
pub struct verbs_context {
    // Since version 59 to 64.
    pub free_buf: Refusing,
    pub alloc_buf: RefusingPointer,
    pub dm_export_dmabuf_fd: Refusing,
    pub reg_mr_ex: RefusingPointer,
    pub dealloc_dmah: Refusing,
    pub alloc_dmah: RefusingPointer,
    // Version 44.
    pub query_port: QueryPort,
    pub advise_mr: Refusing,
    pub alloc_null_mr: RefusingPointer,
    pub read_counters: Refusing,
    pub attach_counters_point_flow: Refusing,
    pub create_counters: RefusingPointer,
    pub destroy_counters: Refusing,
    pub reg_dm_mr: RefusingPointer,
    pub alloc_dm: RefusingPointer,
    pub free_dm: Refusing,
    pub modify_flow_action_esp: Refusing,
    pub destroy_flow_action: Refusing,
    pub create_flow_action_esp: RefusingPointer,
    pub modify_qp_rate_limit: Refusing,
    pub alloc_parent_domain: RefusingPointer,
    pub dealloc_td: Refusing,
    pub alloc_td: RefusingPointer,
    pub modify_cq: Refusing,
    pub post_srq_ops: Refusing,
    pub destroy_rwq_ind_table: Refusing,
    pub create_rwq_ind_table: RefusingPointer,
    pub destroy_wq: Refusing,
    pub modify_wq: Refusing,
    pub create_wq: RefusingPointer,
    pub query_rt_values: Refusing,
    pub create_cq_ex: CreateCqEx,
    pub priv_: *mut c_void,
    pub query_device_ex: QueryDeviceEx,
    pub ibv_destroy_flow: Refusing,
    pub ABI_placeholder2: Refusing,
    pub ibv_create_flow: RefusingPointer,
    pub ABI_placeholder1: Refusing,
    pub open_qp: RefusingPointer,
    pub create_qp_ex: CreateQpEx,
    pub get_srq_num: Refusing,
    pub create_srq_ex: CreateSrqEx,
    pub open_xrcd: RefusingPointer,
    pub close_xrcd: Refusing,
    pub _ABI_placeholder3: u64,
    pub sz: size_t,
    pub context: ibv_context,
}
