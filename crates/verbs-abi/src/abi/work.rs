//! Work requests and completions.

use core::ffi::{c_int, c_uint};

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ibv_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

/// What is remote of a request: the longest member of the C union, `atomic`. `rdma` has its `rkey` where `compare_add`
/// begins.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_send_wr_remote {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

impl ibv_send_wr_remote {
    /// `rdma.rkey`: the first four bytes of `compare_add` as they lie in memory.
    pub(crate) fn rdma_rkey(&self) -> u32 {
        let [a, b, c, d, ..] = self.compare_add.to_ne_bytes();
        u32::from_ne_bytes([a, b, c, d])
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr {
    pub wr_id: u64,
    pub next: *mut ibv_send_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    pub opcode: c_int,
    pub send_flags: c_uint,
    /// Immediate data, in network byte order; or the rkey to invalidate.
    pub imm_data: u32,
    pub wr: ibv_send_wr_remote,
    /// `qp_type`, and the union of `bind_mw` and `tso`.
    pub _rest: [u64; 7],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_recv_wr {
    pub wr_id: u64,
    pub next: *mut ibv_recv_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ibv_wc {
    pub wr_id: u64,
    pub status: c_int,
    pub opcode: c_int,
    pub vendor_err: u32,
    pub byte_len: u32,
    /// Immediate data, in network byte order; or the rkey that was invalidated.
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}
