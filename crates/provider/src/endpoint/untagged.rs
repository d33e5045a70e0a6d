//! `fi_ops_msg`: messages without tags.

use core::ffi::c_void;
use core::ptr::{self, NonNull};

use libc::{iovec, ssize_t};
use weft_libfabric::abi::{FI_REMOTE_CQ_DATA, fi_addr_t, fi_msg, fi_ops_msg, fid_ep};

use super::flags::{RECEIVE, TRANSMIT, check};
use super::handle::ep;
use super::memory::{lend, lend_all, start};
use super::message::{Receive, Send};
use crate::border::count;
use crate::errno::Errno;

pub(super) static OPS: fi_ops_msg = fi_ops_msg {
    size: size_of::<fi_ops_msg>(),
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
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there until the completion.
    count(|| unsafe {
        let endpoint = ep(endpoint)?;
        let memory = lend(buffer, length)?;
        let receive = Receive { memory, start: Some(buffer), from, matching: None, context };
        endpoint.core.receive(receive, endpoint.receive_flags())
    })
}

unsafe extern "C" fn recvv(
    endpoint: *mut fid_ep,
    pieces: *const iovec,
    _descriptions: *mut *mut c_void,
    pieces_count: usize,
    from: fi_addr_t,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there until the completion.
    count(|| unsafe {
        let endpoint = ep(endpoint)?;
        let memory = lend_all(pieces, pieces_count)?;
        let receive = Receive { memory, start: start(pieces, pieces_count), from, matching: None, context };
        endpoint.core.receive(receive, endpoint.receive_flags())
    })
}

unsafe extern "C" fn recvmsg(endpoint: *mut fid_ep, message: *const fi_msg, flags: u64) -> ssize_t {
    count(|| {
        check(flags, RECEIVE)?;
        let message = NonNull::new(message.cast_mut()).ok_or(Errno::INVALID)?;
        // SAFETY: An endpoint of ours; not NULL, so C promises the structure, and memory that is there until the
        // completion.
        unsafe {
            let message = message.as_ref();
            let memory = lend_all(message.msg_iov, message.iov_count)?;
            let start = start(message.msg_iov, message.iov_count);
            let receive = Receive { memory, start, from: message.addr, matching: None, context: message.context };
            ep(endpoint)?.core.receive(receive, flags)
        }
    })
}

unsafe extern "C" fn send(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: usize,
    _description: *mut c_void,
    to: fi_addr_t,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there until the completion.
    count(|| unsafe {
        let endpoint = ep(endpoint)?;
        let send = Send { memory: lend(buffer, length)?, to, tag: None, data: None, context };
        endpoint.core.send(send, endpoint.transmit_flags())
    })
}

unsafe extern "C" fn sendv(
    endpoint: *mut fid_ep,
    pieces: *const iovec,
    _descriptions: *mut *mut c_void,
    pieces_count: usize,
    to: fi_addr_t,
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there until the completion.
    count(|| unsafe {
        let endpoint = ep(endpoint)?;
        let send = Send { memory: lend_all(pieces, pieces_count)?, to, tag: None, data: None, context };
        endpoint.core.send(send, endpoint.transmit_flags())
    })
}

unsafe extern "C" fn sendmsg(endpoint: *mut fid_ep, message: *const fi_msg, flags: u64) -> ssize_t {
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
                tag: None,
                data: (flags & FI_REMOTE_CQ_DATA != 0).then_some(message.data),
                context: message.context,
            };
            ep(endpoint)?.core.send(send, flags)
        }
    })
}

unsafe extern "C" fn inject(endpoint: *mut fid_ep, buffer: *const c_void, length: usize, to: fi_addr_t) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there during the call.
    count(|| unsafe {
        let endpoint = ep(endpoint)?;
        let send = Send { memory: lend(buffer, length)?, to, tag: None, data: None, context: ptr::null_mut() };
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
    context: *mut c_void,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there until the completion.
    count(|| unsafe {
        let endpoint = ep(endpoint)?;
        let send = Send { memory: lend(buffer, length)?, to, tag: None, data: Some(data), context };
        endpoint.core.send(send, endpoint.transmit_flags())
    })
}

unsafe extern "C" fn injectdata(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: usize,
    data: u64,
    to: fi_addr_t,
) -> ssize_t {
    // SAFETY: An endpoint of ours, and memory that is there during the call.
    count(|| unsafe {
        let endpoint = ep(endpoint)?;
        let send = Send { memory: lend(buffer, length)?, to, tag: None, data: Some(data), context: ptr::null_mut() };
        endpoint.core.inject(send, endpoint.transmit_flags())
    })
}
