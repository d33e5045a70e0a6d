//! `fi_ops_tagged`: messages with tags.

use core::ffi::c_void;
use core::ptr::{self, NonNull};

use libc::{iovec, ssize_t};
use weft::endpoint::Match;
use weft_libfabric::abi::{FI_MULTI_RECV, FI_REMOTE_CQ_DATA, fi_addr_t, fi_msg_tagged, fi_ops_tagged, fid_ep};

use super::flags::{TAGGED_RECEIVE, TRANSMIT, check};
use super::handle::ep;
use super::memory::{lend, lend_all};
use super::message::{Receive, Send};
use crate::border::count;
use crate::errno::Errno;

pub(super) static OPS: fi_ops_tagged = fi_ops_tagged {
    size: size_of::<fi_ops_tagged>(),
    recv: Some(recv),
    recvv: Some(recvv),
    recvmsg: Some(recvmsg),
    send: Some(send),
    sendv: Some(sendv),
    sendmsg: Some(sendmsg),
    inject: Some(inject),
    senddata: Some(senddata),
    injectdata: Some(injectdata),
};

unsafe extern "C" fn recv(
    endpoint: *mut fid_ep,
    buffer: *mut c_void,
    length: usize,
    _description: *mut c_void,
    from: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there until the completion.
    count(|| unsafe {
        let endpoint = ep(endpoint)?;
        let memory = lend(buffer, length)?;
        let matching = Some(Match { tag, ignore });
        let receive = Receive { memory, start: None, from, matching, context };
        endpoint.core.receive(receive, endpoint.receive_flags() & !FI_MULTI_RECV)
    })
}

unsafe extern "C" fn recvv(
    endpoint: *mut fid_ep,
    pieces: *const iovec,
    _descriptions: *mut *mut c_void,
    pieces_count: usize,
    from: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there until the completion.
    count(|| unsafe {
        let endpoint = ep(endpoint)?;
        let memory = lend_all(pieces, pieces_count)?;
        let matching = Some(Match { tag, ignore });
        let receive = Receive { memory, start: None, from, matching, context };
        endpoint.core.receive(receive, endpoint.receive_flags() & !FI_MULTI_RECV)
    })
}

unsafe extern "C" fn recvmsg(endpoint: *mut fid_ep, message: *const fi_msg_tagged, flags: u64) -> ssize_t {
    count(|| {
        check(flags, TAGGED_RECEIVE)?;
        let message = NonNull::new(message.cast_mut()).ok_or(Errno::INVALID)?;
        // SAFETY: An endpoint of ours; not NULL, so C promises the structure, and memory that is there until the
        // completion.
        unsafe {
            let message = message.as_ref();
            let receive = Receive {
                memory: lend_all(message.msg_iov, message.iov_count)?,
                start: None,
                from: message.addr,
                matching: Some(Match { tag: message.tag, ignore: message.ignore }),
                context: message.context,
            };
            ep(endpoint)?.core.receive_or_peek(receive, flags)
        }
    })
}

unsafe extern "C" fn send(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: usize,
    _description: *mut c_void,
    to: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there until the completion.
    count(|| unsafe {
        let endpoint = ep(endpoint)?;
        let send = Send { memory: lend(buffer, length)?, to, tag: Some(tag), data: None, context };
        endpoint.core.send(send, endpoint.transmit_flags())
    })
}

unsafe extern "C" fn sendv(
    endpoint: *mut fid_ep,
    pieces: *const iovec,
    _descriptions: *mut *mut c_void,
    pieces_count: usize,
    to: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there until the completion.
    count(|| unsafe {
        let endpoint = ep(endpoint)?;
        let send = Send { memory: lend_all(pieces, pieces_count)?, to, tag: Some(tag), data: None, context };
        endpoint.core.send(send, endpoint.transmit_flags())
    })
}

unsafe extern "C" fn sendmsg(endpoint: *mut fid_ep, message: *const fi_msg_tagged, flags: u64) -> ssize_t {
    count(|| {
        check(flags, TRANSMIT)?;
        let message = NonNull::new(message.cast_mut()).ok_or(Errno::INVALID)?;
        // SAFETY: An endpoint of ours; not NULL, so C promises the structure, and memory that is there until the
        // completion.
        unsafe {
            let message = message.as_ref();
            let send = Send {
                memory: lend_all(message.msg_iov, message.iov_count)?,
                to: message.addr,
                tag: Some(message.tag),
                data: (flags & FI_REMOTE_CQ_DATA != 0).then_some(message.data),
                context: message.context,
            };
            ep(endpoint)?.core.send(send, flags)
        }
    })
}

unsafe extern "C" fn inject(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: usize,
    to: fi_addr_t,
    tag: u64,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there during the call.
    count(|| unsafe {
        let endpoint = ep(endpoint)?;
        let send = Send { memory: lend(buffer, length)?, to, tag: Some(tag), data: None, context: ptr::null_mut() };
        endpoint.core.inject(send, endpoint.transmit_flags())
    })
}

unsafe extern "C" fn senddata(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: usize,
    _description: *mut c_void,
    data: u64,
    to: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there until the completion.
    count(|| unsafe {
        let endpoint = ep(endpoint)?;
        let send = Send { memory: lend(buffer, length)?, to, tag: Some(tag), data: Some(data), context };
        endpoint.core.send(send, endpoint.transmit_flags())
    })
}

unsafe extern "C" fn injectdata(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: usize,
    data: u64,
    to: fi_addr_t,
    tag: u64,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there during the call.
    count(|| unsafe {
        let endpoint = ep(endpoint)?;
        let (data, context) = (Some(data), ptr::null_mut());
        let send = Send { memory: lend(buffer, length)?, to, tag: Some(tag), data, context };
        endpoint.core.inject(send, endpoint.transmit_flags())
    })
}
