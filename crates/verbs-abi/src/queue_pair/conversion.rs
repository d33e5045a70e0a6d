//! Work requests of the program as the NIC has them, and the NIC's completions as the program has them.

use core::sync::atomic::Ordering;

use weft::verbs::{
    AtomicCode, CompletionKind, MAX_INLINE, RemoteMemory, Slice, Stag, Status, WorkCompletion, WorkRequest,
};

use super::{Post, QueuePair};
use crate::abi::*;
use crate::errno::Errno;
use crate::limits;
use crate::slices::{Slices, Unfit, entries, slices};

/// The bytes that a request sends.
enum Bytes {
    Slices(Slices),
    Inline([u8; MAX_INLINE], usize),
}

impl QueuePair {
    /// The request, as the NIC has it.
    ///
    /// # Errors
    /// It is none that there is, or its memory is not there.
    ///
    /// # Safety
    /// The list of the request can be read; for inline data what it names, too.
    pub(super) unsafe fn convert(&self, post: &mut Post, wr: &ibv_send_wr) -> Result<WorkRequest, Unfit> {
        // SAFETY: The caller's promise.
        let list = unsafe { entries(wr.sg_list, wr.num_sge, self.parts.cap.max_send_sge) }?;
        let is_inline = wr.send_flags & IBV_SEND_INLINE != 0;
        let target = RemoteMemory { stag: Stag(wr.wr.rdma_rkey()), offset: wr.wr.remote_addr };
        let immediate = u32::from_be(wr.imm_data);
        if self.is_unreliable()
            && matches!(wr.opcode, IBV_WR_RDMA_READ | IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD)
        {
            return Err(Errno::INVALID.into());
        }
        let request = match wr.opcode {
            IBV_WR_SEND | IBV_WR_SEND_WITH_INV | IBV_WR_SEND_WITH_IMM => {
                // SAFETY: The caller's promise.
                let request = match unsafe { self.bytes(post, list, is_inline) }? {
                    Bytes::Slices(slices) => {
                        let request = WorkRequest::send_gather(slices.slices());
                        post.list = slices.list;
                        request
                    }
                    Bytes::Inline(bytes, length) => WorkRequest::send_inline(&bytes[..length]),
                };
                let request = request.map_err(Errno::from)?;
                match wr.opcode {
                    IBV_WR_SEND_WITH_INV => request.invalidate(Stag(wr.imm_data)),
                    IBV_WR_SEND_WITH_IMM => request.with_message_immediate(immediate),
                    _ => request,
                }
            }
            IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM => {
                // SAFETY: The caller's promise.
                let request = match unsafe { self.bytes(post, list, is_inline) }? {
                    Bytes::Slices(slices) => {
                        let request = WorkRequest::write_gather(slices.slices(), target);
                        post.list = slices.list;
                        request
                    }
                    Bytes::Inline(bytes, length) => WorkRequest::write_inline(&bytes[..length], target),
                };
                let request = request.map_err(Errno::from)?;
                if wr.opcode == IBV_WR_RDMA_WRITE { request } else { request.with_immediate(immediate.into()) }
            }
            IBV_WR_RDMA_READ => {
                let sink = slices(&self.parts.domain, list)?;
                let request = WorkRequest::read_scatter(sink.slices(), target).map_err(Errno::from)?;
                post.list = sink.list;
                request
            }
            IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => {
                let sink = slices(&self.parts.domain, list)?;
                let &[place] = sink.slices() else { return Err(Errno::INVALID.into()) };
                let target = RemoteMemory { stag: Stag(wr.wr.rkey), offset: wr.wr.remote_addr };
                if wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD {
                    WorkRequest::fetch_add(place, target, wr.wr.compare_add)
                } else {
                    WorkRequest::compare_swap(place, target, wr.wr.compare_add, wr.wr.swap)
                }
            }
            _ => return Err(Errno::UNSUPPORTED.into()),
        };
        Ok(self.flagged(request, wr))
    }

    fn flagged(&self, request: WorkRequest, wr: &ibv_send_wr) -> WorkRequest {
        let says = |flag| wr.send_flags & flag != 0;
        let mut request = request.id(wr.wr_id);
        if !says(IBV_SEND_SIGNALED) && !self.parts.signals_all {
            request = request.unsignaled();
        }
        if says(IBV_SEND_FENCE) {
            request = request.fenced();
        }
        if says(IBV_SEND_SOLICITED) { request.solicited() } else { request }
    }

    /// # Safety
    /// For inline data, what the list names can be read.
    unsafe fn bytes(&self, post: &mut Post, list: &[ibv_sge], is_inline: bool) -> Result<Bytes, Unfit> {
        if !is_inline {
            return Ok(Bytes::Slices(slices(&self.parts.domain, list)?));
        }
        let length = length(list);
        if length > u64::from(self.parts.cap.max_inline_data) {
            return Err(Errno::INVALID.into());
        }
        let length = length as usize;
        if length <= MAX_INLINE {
            let mut short = [0; MAX_INLINE];
            // SAFETY: The caller's promise.
            unsafe { copy_entries(list, &mut short) };
            return Ok(Bytes::Inline(short, length));
        }
        let mut all = [0; limits::INLINE as usize];
        // SAFETY: The caller's promise.
        unsafe { copy_entries(list, &mut all) };
        Ok(Bytes::Slices(Slices::one(self.keep_inline(post, &all[..length])?)))
    }

    /// Copies inline data to memory of this library. Its place is used again when as many requests were posted after
    /// it as may be under way, so it has completed.
    fn keep_inline(&self, post: &mut Post, bytes: &[u8]) -> Result<Slice, Errno> {
        let under_way = post.connection.as_ref().map_or(0, weft::verbs::QueuePair::sends_under_way);
        if under_way.max(post.backlog.len()) >= self.parts.cap.max_send_wr as usize {
            return Err(Errno::NO_MEMORY);
        }
        let (places, each) = (u64::from(self.parts.cap.max_send_wr.max(1)), u64::from(limits::INLINE));
        if post.inline.is_none() {
            let access = weft::verbs::Access::LOCAL_READ;
            post.inline = Some(self.parts.domain.domain.allocate((places * each) as usize, access)?);
        }
        let region = post.inline.as_ref().ok_or(Errno::NO_MEMORY)?;
        let start = post.posted % places * each;
        region.write(start, bytes)?;
        Ok(region.slice(start..start + bytes.len() as u64)?)
    }

    /// A finished request, as the program is told.
    pub(super) fn completion(&self, completion: &WorkCompletion, status: i32) -> ibv_wc {
        let mut told = ibv_wc {
            wr_id: completion.id,
            status,
            opcode: opcode(completion.kind),
            byte_len: completion.length,
            qp_num: self.number(),
            src_qp: self.peer_number.load(Ordering::Relaxed),
            ..ibv_wc::default()
        };
        if let Some(immediate) = completion.immediate {
            told.imm_data = (immediate as u32).to_be();
            told.wc_flags |= IBV_WC_WITH_IMM;
        } else if let Some(stag) = completion.invalidated {
            told.imm_data = stag.0;
            told.wc_flags |= IBV_WC_WITH_INV;
        }
        told
    }
}

/// Copies what the entries name.
///
/// # Safety
/// It can be read.
unsafe fn copy_entries(list: &[ibv_sge], to: &mut [u8]) {
    let mut at = 0;
    for entry in list {
        let end = at + entry.length as usize;
        let from = core::ptr::with_exposed_provenance::<u8>(entry.addr as usize);
        // SAFETY: The caller's promise; the place is inside `to`.
        unsafe { core::ptr::copy_nonoverlapping(from, to[at..end].as_mut_ptr(), end - at) };
        at = end;
    }
}

/// Bytes of a list.
fn length(list: &[ibv_sge]) -> u64 {
    list.iter().map(|entry| u64::from(entry.length)).sum()
}

/// The opcode of a completion.
fn opcode(kind: CompletionKind) -> i32 {
    match kind {
        CompletionKind::Send | CompletionKind::Immediate => IBV_WC_SEND,
        CompletionKind::Write | CompletionKind::WriteImmediate => IBV_WC_RDMA_WRITE,
        CompletionKind::Read => IBV_WC_RDMA_READ,
        CompletionKind::Atomic(AtomicCode::FetchAdd) => IBV_WC_FETCH_ADD,
        CompletionKind::Atomic(_) => IBV_WC_COMP_SWAP,
        CompletionKind::Receive => IBV_WC_RECV,
        CompletionKind::ReceiveImmediate => IBV_WC_RECV_RDMA_WITH_IMM,
    }
}

/// The opcode that the completion of a request will have.
pub(super) fn opcode_of_request(opcode: i32) -> i32 {
    match opcode {
        IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM => IBV_WC_RDMA_WRITE,
        IBV_WR_RDMA_READ => IBV_WC_RDMA_READ,
        IBV_WR_ATOMIC_CMP_AND_SWP => IBV_WC_COMP_SWAP,
        IBV_WR_ATOMIC_FETCH_AND_ADD => IBV_WC_FETCH_ADD,
        _ => IBV_WC_SEND,
    }
}

/// The status of a request that did not succeed, where the NIC says why. `None`: the connection ended first.
pub(super) fn failure(status: Status) -> Option<i32> {
    match status {
        Status::Success | Status::Flushed => None,
        Status::LocalLength => Some(IBV_WC_LOC_LEN_ERR),
        Status::LocalProtection => Some(IBV_WC_LOC_PROT_ERR),
        Status::RemoteAccess => Some(IBV_WC_REM_ACCESS_ERR),
        Status::RemoteOperation => Some(IBV_WC_REM_OP_ERR),
        Status::RemoteInvalidRequest => Some(IBV_WC_REM_INV_REQ_ERR),
        Status::NoReceive => Some(IBV_WC_RNR_RETRY_EXC_ERR),
    }
}
