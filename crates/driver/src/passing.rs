//! Unix sockets: the peer's credentials, and passing of descriptors (unix(7)).

use core::mem;
use core::time::Duration;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use socket2::Socket;

use crate::user;
use crate::vectors::uninterrupted;

/// Never block, and never raise a signal.
const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

/// Poll events of a socket whose peer has closed it.
const HUNG_UP: i16 = libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR;

/// Room for a control message with one descriptor, aligned as such messages must be.
#[repr(C)]
union Control {
    header: libc::cmsghdr,
    bytes: [u8; 64],
}

/// The peer's process and user when it made its socket, or connected. A process without a number in this namespace is
/// 0.
pub(crate) fn peer(socket: &Socket) -> Option<libc::ucred> {
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of_val(&credentials) as libc::socklen_t;
    // SAFETY: No more than `length` bytes are written, during the call alone.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut credentials).cast(),
            &raw mut length,
        )
    };
    (done == 0).then_some(credentials)
}

/// The peer's user. `None`: the peer has ended, or its user is not mapped in this user namespace and cannot be
/// distinguished from others.
pub(crate) fn peer_user(socket: &Socket) -> Option<u32> {
    peer(socket).map(|peer| peer.uid).filter(|uid| user::is_unambiguous(*uid))
}

/// Whether that is this process's user.
pub(crate) fn is_own_user(socket: &Socket) -> bool {
    peer_user(socket) == Some(user::own())
}

/// Sends a message with a descriptor.
pub(crate) fn send_with(socket: &Socket, bytes: &[u8], fd: BorrowedFd<'_>) -> Result<(), i32> {
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control { bytes: [0; 64] };
    let mut message = message(&mut vector, &mut control);
    // SAFETY: The control buffer has room for one header and one descriptor (64 bytes), which the macros compute from
    // the given lengths; everything lives until the call returns.
    let sent = unsafe {
        message.msg_controllen = libc::CMSG_SPACE(size_of::<i32>() as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as _;
        libc::CMSG_DATA(header).cast::<i32>().write_unaligned(fd.as_raw_fd());
        uninterrupted(|| libc::sendmsg(socket.as_raw_fd(), &raw const message, FLAGS) as libc::c_long)?
    };
    if sent == bytes.len() { Ok(()) } else { Err(libc::EMSGSIZE) }
}

/// Receives a message, and its descriptor if it has exactly one; others are closed.
pub(crate) fn receive_with(socket: &Socket, bytes: &mut [u8]) -> Result<(usize, Option<OwnedFd>), i32> {
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut control = Control { bytes: [0; 64] };
    let mut message = message(&mut vector, &mut control);
    let space = usize::from(u16::try_from(size_of::<i32>()).unwrap_or(0)) as u32;
    // Room for one: the kernel closes others, and reports it.
    // SAFETY: Computes a number.
    message.msg_controllen = unsafe { libc::CMSG_LEN(space) } as _;
    let flags = FLAGS | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: The buffers have the given lengths, and live until the call returns.
    let received =
        uninterrupted(|| unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) as libc::c_long })?;
    // SAFETY: The kernel has written a control message, or none, into the buffer that `message` refers to.
    let fd = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let is_one = !header.is_null()
            && ((*header).cmsg_level, (*header).cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS)
            && (*header).cmsg_len as usize == libc::CMSG_LEN(space) as usize;
        // A new descriptor of this process that has no other owner.
        is_one.then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<i32>().read_unaligned()))
    };
    let cut = message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0;
    if cut { Err(libc::EMSGSIZE) } else { Ok((received, fd)) }
}

/// Sends a message. One that finds no room is dropped: there are enough wake-ups queued then.
pub(crate) fn send(socket: &Socket, bytes: &[u8]) -> Result<(), i32> {
    // SAFETY: The bytes are read during the call alone.
    uninterrupted(|| unsafe {
        libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), FLAGS) as libc::c_long
    })
    .map(drop)
}

/// Receives a message, without its descriptors. 0: the peer has closed.
pub(crate) fn receive(socket: &Socket, bytes: &mut [u8]) -> Result<usize, i32> {
    // SAFETY: The buffer is written during the call alone.
    uninterrupted(|| unsafe {
        libc::recv(socket.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), FLAGS) as libc::c_long
    })
}

/// Whether the peer has closed its end; nothing is received.
pub(crate) fn has_hung_up(socket: &Socket) -> bool {
    let [found] = poll([(socket.as_fd(), libc::POLLRDHUP)]);
    found & HUNG_UP != 0
}

/// As [`has_hung_up`], or whether a process has ended (its pidfd_open(2) descriptor is readable then), by one system
/// call.
pub(crate) fn has_hung_up_or_ended(socket: &Socket, process: BorrowedFd<'_>) -> bool {
    let [of_socket, of_process] = poll([(socket.as_fd(), libc::POLLRDHUP), (process, libc::POLLIN)]);
    of_socket & HUNG_UP != 0 || of_process != 0
}

/// Whether the descriptor is readable. Of a process's descriptor: whether the process has ended.
pub(crate) fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    poll([(descriptor, libc::POLLIN)]) != [0]
}

/// Waits until there is something to receive, or the peer has closed; no longer than `most`.
pub(crate) fn wait_readable(socket: &Socket, most: Duration) {
    let mut entry = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // Rounded up to milliseconds, so that the caller does not spin for the last one.
    let milliseconds = i32::try_from(most.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
    // SAFETY: One structure is read and written during the call alone. After an interruption the caller polls again.
    unsafe { libc::poll(&raw mut entry, 1, milliseconds) };
}

/// A descriptor of the process at the other end ([`peer`]), which never refers to another one.
///
/// # Errors
/// ENOPROTOOPT: the kernel is older than Linux 6.5. Others: that process has ended.
pub(crate) fn peer_pidfd(socket: &Socket) -> Result<OwnedFd, i32> {
    let mut descriptor: i32 = -1;
    let mut length = size_of_val(&descriptor) as libc::socklen_t;
    // SAFETY: No more than `length` bytes are written, during the call alone.
    uninterrupted(|| unsafe {
        let value = (&raw mut descriptor).cast();
        let option = libc::SO_PEERPIDFD;
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, value, &raw mut length) as libc::c_long
    })?;
    // SAFETY: A new descriptor of this process that has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The events of each descriptor, without waiting. Where the call fails, all events.
fn poll<const N: usize>(wanted: [(BorrowedFd<'_>, i16); N]) -> [i16; N] {
    let mut list = wanted.map(|(fd, events)| libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 });
    // SAFETY: As many structures are read and written during the call alone.
    let outcome = uninterrupted(|| unsafe { libc::poll(list.as_mut_ptr(), N as libc::nfds_t, 0) as libc::c_long });
    list.map(|entry| if outcome.is_ok() { entry.revents } else { !0 })
}

fn message(vector: &mut libc::iovec, control: &mut Control) -> libc::msghdr {
    // SAFETY: All zero is a message header with no name, no vectors and no control data.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = vector;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut *control).cast();
    message
}

#[cfg(test)]
mod tests {
    use socket2::{Domain, Type};

    use super::*;
    use crate::fork::in_child;

    /// Whether two ends of one process belong to the same user, in a child that has first run `before`.
    fn is_own_user_after(before: impl FnOnce() -> bool) -> Option<bool> {
        let outcome = in_child(|| {
            if !before() {
                return 2;
            }
            let (one, _other) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).unwrap();
            i32::from(is_own_user(&one))
        });
        (outcome != 2).then_some(outcome == 1)
    }

    #[test]
    fn a_user_without_a_number_is_not_the_same_user() {
        assert_eq!(is_own_user_after(|| true), Some(true));
        // SAFETY: A call without memory.
        match is_own_user_after(|| unsafe { libc::unshare(libc::CLONE_NEWUSER) } == 0) {
            Some(is_own) => assert!(!is_own, "without a map every user reads as the overflow number"),
            None => eprintln!("skipped: this system allows no user namespaces"),
        }
    }

    #[test]
    fn the_overflow_user_is_ordinary_where_all_users_are_mapped() {
        let is_first_namespace = std::fs::read_to_string("/proc/self/uid_map").unwrap().contains("4294967295");
        // SAFETY: A call without memory.
        match is_own_user_after(|| unsafe { libc::setresuid(65_534, 65_534, 65_534) } == 0) {
            Some(is_own) => assert_eq!(is_own, is_first_namespace),
            None => eprintln!("skipped: only root can be another user"),
        }
    }
}
