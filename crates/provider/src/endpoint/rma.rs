//! `fi_ops_rma`: reads and writes of peers' memory.

use core::ffi::c_void;
use core::ptr::NonNull;

use libc::{iovec, ssize_t};
use weft::endpoint::{EndpointError, IoBuffer, RemotePiece, RemotePlace, Stag, TransferPost};
use weft_libfabric::abi::errno::FI_EKEYREJECTED;
use weft_libfabric::abi::{FI_REMOTE_CQ_DATA, fi_addr_t, fi_msg_rma, fi_ops_rma, fid_ep};

use super::core::{Active, Core};
use super::flags::{TRANSMIT, Transmit, check};
use super::handle::{Endpoint, ep};
use super::memory::{lend, lend_all};
use crate::border::count;
use crate::errno::Errno;
use crate::info::PIECES;

pub(super) static OPS: fi_ops_rma = fi_ops_rma {
    size: size_of::<fi_ops_rma>(),
    read: Some(read),
    readv: Some(readv),
    readmsg: Some(readmsg),
    write: Some(write),
    writev: Some(writev),
    writemsg: Some(writemsg),
    inject: Some(inject),
    writedata: Some(writedata),
    injectdata: Some(injectdata),
};

/// A read or a write.
struct Transfer {
    memory: IoBuffer,
    peer: fi_addr_t,
    place: RemotePlace,
    /// If there are any, instead of `place`.
    pieces: Vec<RemotePiece>,
    data: Option<u64>,
    context: *mut c_void,
}

impl Core {
    fn read(&self, transfer: Transfer, flags: u64) -> Result<usize, Errno> {
        let how = |active: &Active| Transmit::new(flags, active.selective_transmits);
        // A read's memory is never the application's before its bytes are here.
        self.transfer(transfer, how, |endpoint, post| endpoint.read(TransferPost { inject: false, ..post }))
    }

    fn write(&self, transfer: Transfer, flags: u64) -> Result<usize, Errno> {
        let how = |active: &Active| {
            Transmit::new(flags, active.selective_transmits).counted(flags, active.report.tallies.counts_writes())
        };
        self.transfer(transfer, how, weft::endpoint::Endpoint::write)
    }

    fn inject_write(&self, transfer: Transfer, flags: u64) -> Result<usize, Errno> {
        let how = |active: &Active| Transmit::injected(flags).counted(flags, active.report.tallies.counts_writes());
        self.transfer(transfer, how, weft::endpoint::Endpoint::write)
    }

    fn transfer(
        &self,
        transfer: Transfer,
        how: impl FnOnce(&Active) -> Transmit,
        post: impl FnOnce(&weft::endpoint::Endpoint, TransferPost) -> Result<(), EndpointError>,
    ) -> Result<usize, Errno> {
        let (active, peer) = self.transmit_to(transfer.peer)?;
        let how = how(active);
        self.post_one_sided(active, how.op_flags, |op_flags| {
            let transfer = TransferPost {
                peer,
                memory: transfer.memory,
                place: transfer.place,
                pieces: transfer.pieces,
                data: transfer.data,
                inject: how.inject,
                level: how.level,
                fence: how.fence,
                context: transfer.context.expose_provenance() as u64,
                op_flags: op_flags.to_bits(),
            };
            post(&active.endpoint, transfer)
        })
    }
}

/// A place in a peer's memory, by `fi_mr_key` and virtual address.
pub(super) fn place(address: u64, key: u64) -> Result<RemotePlace, Errno> {
    let stag = u32::try_from(key).map_err(|_| Errno(FI_EKEYREJECTED))?;
    Ok(RemotePlace { stag: Stag(stag), offset: address })
}

/// # Safety
/// As for `fi_readmsg` and `fi_writemsg`, or NULL.
unsafe fn of_message(message: *const fi_msg_rma, flags: u64) -> Result<Transfer, Errno> {
    check(flags, TRANSMIT)?;
    let message = NonNull::new(message.cast_mut()).ok_or(Errno::INVALID)?;
    // SAFETY: Not NULL, so C promises the structure, its arrays, and what they point to.
    unsafe {
        let message = message.as_ref();
        let memory = lend_all(message.msg_iov, message.iov_count)?;
        // At most `rma_iov_limit` pieces at the peer.
        if !(1..=PIECES).contains(&message.rma_iov_count) || message.rma_iov.is_null() {
            return Err(Errno::INVALID);
        }
        let remote = core::slice::from_raw_parts(message.rma_iov, message.rma_iov_count);
        let length = remote.iter().try_fold(0usize, |sum, piece| sum.checked_add(piece.len));
        if length != Some(memory.length()) {
            return Err(Errno::INVALID);
        }
        // One piece is a place, which allocates nothing.
        let mut pieces = Vec::new();
        for piece in remote.iter().filter(|_| remote.len() > 1) {
            pieces.push(RemotePiece { place: place(piece.addr, piece.key)?, length: piece.len as u64 });
        }
        // Each piece has a length; the place has the total.
        let place = if remote.len() > 1 { pieces[0].place } else { place(remote[0].addr, remote[0].key)? };
        Ok(Transfer {
            memory,
            peer: message.addr,
            place,
            pieces,
            data: (flags & FI_REMOTE_CQ_DATA != 0).then_some(message.data),
            context: message.context,
        })
    }
}

unsafe extern "C" fn read(
    endpoint: *mut fid_ep,
    buffer: *mut c_void,
    length: usize,
    _description: *mut c_void,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there until the completion.
    count(|| unsafe {
        let endpoint: &Endpoint = ep(endpoint)?;
        let place = place(address, key)?;
        let transfer = Transfer { memory: lend(buffer, length)?, peer, place, pieces: Vec::new(), data: None, context };
        endpoint.core.read(transfer, endpoint.transmit_flags())
    })
}

unsafe extern "C" fn readv(
    endpoint: *mut fid_ep,
    pieces: *const iovec,
    _descriptions: *mut *mut c_void,
    pieces_count: usize,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there until the completion.
    count(|| unsafe {
        let endpoint: &Endpoint = ep(endpoint)?;
        let place = place(address, key)?;
        let transfer =
            Transfer { memory: lend_all(pieces, pieces_count)?, peer, place, pieces: Vec::new(), data: None, context };
        endpoint.core.read(transfer, endpoint.transmit_flags())
    })
}

unsafe extern "C" fn readmsg(endpoint: *mut fid_ep, message: *const fi_msg_rma, flags: u64) -> ssize_t {
    // SAFETY: An endpoint of ours, and a message whose memory is there until the completion.
    count(|| unsafe {
        let endpoint: &Endpoint = ep(endpoint)?;
        if flags & FI_REMOTE_CQ_DATA != 0 {
            return Err(Errno::BAD_FLAGS);
        }
        endpoint.core.read(of_message(message, flags)?, flags)
    })
}

unsafe extern "C" fn write(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: usize,
    _description: *mut c_void,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there until the completion.
    count(|| unsafe {
        let endpoint: &Endpoint = ep(endpoint)?;
        let place = place(address, key)?;
        let transfer = Transfer { memory: lend(buffer, length)?, peer, place, pieces: Vec::new(), data: None, context };
        endpoint.core.write(transfer, endpoint.transmit_flags())
    })
}

unsafe extern "C" fn writev(
    endpoint: *mut fid_ep,
    pieces: *const iovec,
    _descriptions: *mut *mut c_void,
    pieces_count: usize,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there until the completion.
    count(|| unsafe {
        let endpoint: &Endpoint = ep(endpoint)?;
        let place = place(address, key)?;
        let transfer =
            Transfer { memory: lend_all(pieces, pieces_count)?, peer, place, pieces: Vec::new(), data: None, context };
        endpoint.core.write(transfer, endpoint.transmit_flags())
    })
}

unsafe extern "C" fn writemsg(endpoint: *mut fid_ep, message: *const fi_msg_rma, flags: u64) -> ssize_t {
    // SAFETY: An endpoint of ours, and a message whose memory is there until the completion.
    count(|| unsafe { ep(endpoint)?.core.write(of_message(message, flags)?, flags) })
}

unsafe extern "C" fn inject(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: usize,
    peer: fi_addr_t,
    address: u64,
    key: u64,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there during the call.
    count(|| unsafe {
        let endpoint: &Endpoint = ep(endpoint)?;
        let (place, context) = (place(address, key)?, core::ptr::null_mut());
        let transfer = Transfer { memory: lend(buffer, length)?, peer, place, pieces: Vec::new(), data: None, context };
        endpoint.core.inject_write(transfer, endpoint.transmit_flags())
    })
}

unsafe extern "C" fn writedata(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: usize,
    _description: *mut c_void,
    data: u64,
    peer: fi_addr_t,
    address: u64,
    key: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there until the completion.
    count(|| unsafe {
        let endpoint: &Endpoint = ep(endpoint)?;
        let place = place(address, key)?;
        let transfer =
            Transfer { memory: lend(buffer, length)?, peer, place, pieces: Vec::new(), data: Some(data), context };
        endpoint.core.write(transfer, endpoint.transmit_flags())
    })
}

unsafe extern "C" fn injectdata(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: usize,
    data: u64,
    peer: fi_addr_t,
    address: u64,
    key: u64,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there during the call.
    count(|| unsafe {
        let endpoint: &Endpoint = ep(endpoint)?;
        let (place, context) = (place(address, key)?, core::ptr::null_mut());
        let transfer =
            Transfer { memory: lend(buffer, length)?, peer, place, pieces: Vec::new(), data: Some(data), context };
        endpoint.core.inject_write(transfer, endpoint.transmit_flags())
    })
}
