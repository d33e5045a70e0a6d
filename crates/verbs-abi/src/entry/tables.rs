//! The tables of functions of an open device. No slot is empty: programs call them without asking.

use core::ffi::{c_int, c_void};
use core::ptr;

use super::devices::{query_device_ex, query_port_sized};
use super::extended_queues::create_cq_ex;
use super::objects::MUTEX;
use super::queue_pairs::{create_qp_ex, post_recv, post_send};
use super::queues::{poll_cq, req_notify_cq};
use super::refused::{weft_verbs_refuse as refuse, weft_verbs_refuse_pointer as refuse_pointer};
use super::shared_receives::{create_srq_ex, post_srq_recv};
use crate::abi::*;

/// Marks a context that lies in a [`verbs_context`].
const EXTENDED: *mut c_void = ptr::without_provenance_mut(usize::MAX);

fn operations() -> ibv_context_ops {
    ibv_context_ops {
        _compat_query_device: refuse,
        _compat_query_port: refuse,
        _compat_pd_and_mr: [refuse_pointer; 5],
        alloc_mw: refuse_pointer,
        bind_mw: refuse,
        dealloc_mw: refuse,
        _compat_create_cq: refuse_pointer,
        poll_cq,
        req_notify_cq,
        _compat_cq_and_srq: [refuse_pointer; 7],
        post_srq_recv,
        _compat_qp: [refuse_pointer; 4],
        post_send,
        post_recv,
        _compat_ah_and_others: [refuse_pointer; 5],
    }
}

/// That of a device.
pub(super) fn verbs_context(device: *mut ibv_device, async_fd: c_int) -> verbs_context {
    verbs_context {
        free_buf: refuse,
        alloc_buf: refuse_pointer,
        dm_export_dmabuf_fd: refuse,
        reg_mr_ex: refuse_pointer,
        dealloc_dmah: refuse,
        alloc_dmah: refuse_pointer,
        query_port: query_port_sized,
        advise_mr: refuse,
        alloc_null_mr: refuse_pointer,
        read_counters: refuse,
        attach_counters_point_flow: refuse,
        create_counters: refuse_pointer,
        destroy_counters: refuse,
        reg_dm_mr: refuse_pointer,
        alloc_dm: refuse_pointer,
        free_dm: refuse,
        modify_flow_action_esp: refuse,
        destroy_flow_action: refuse,
        create_flow_action_esp: refuse_pointer,
        modify_qp_rate_limit: refuse,
        alloc_parent_domain: refuse_pointer,
        dealloc_td: refuse,
        alloc_td: refuse_pointer,
        modify_cq: refuse,
        post_srq_ops: refuse,
        destroy_rwq_ind_table: refuse,
        create_rwq_ind_table: refuse_pointer,
        destroy_wq: refuse,
        modify_wq: refuse,
        create_wq: refuse_pointer,
        query_rt_values: refuse,
        create_cq_ex,
        priv_: ptr::null_mut(),
        query_device_ex,
        ibv_destroy_flow: refuse,
        ABI_placeholder2: refuse,
        ibv_create_flow: refuse_pointer,
        ABI_placeholder1: refuse,
        open_qp: refuse_pointer,
        create_qp_ex,
        get_srq_num: refuse,
        create_srq_ex,
        open_xrcd: refuse_pointer,
        close_xrcd: refuse,
        _ABI_placeholder3: 0,
        sz: size_of::<verbs_context>(),
        context: ibv_context {
            device,
            ops: operations(),
            cmd_fd: -1,
            async_fd,
            num_comp_vectors: 1,
            mutex: MUTEX,
            abi_compat: EXTENDED,
        },
    }
}
