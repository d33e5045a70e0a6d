//! Pieces as the vectors of one system call.

use core::marker::PhantomData;
use core::mem;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use arrayvec::ArrayVec;
use weft_base::{Piece, PortError, ReceivePiece, Slice};
use weft_memory::{RawSlice, Registry};

use crate::error::last_error;

/// The maximum number of pieces per system call (the kernel's limit is 1024). More take another call.
pub(crate) const PIECES: usize = 64;

const FLAGS: libc::c_int = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
/// No address: the socket is connected.
const NOBODY: *const libc::c_void = core::ptr::null();

/// Addresses, and holds on the memory behind them. It is large, so it is filled in place and never moved.
pub(crate) struct Vectors<'a, const N: usize = PIECES> {
    list: ArrayVec<libc::iovec, N>,
    held: ArrayVec<RawSlice, N>,
    bytes: usize,
    pieces: PhantomData<&'a mut [u8]>,
}

impl<'a, const N: usize> Vectors<'a, N> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { list: ArrayVec::new(), held: ArrayVec::new(), bytes: 0, pieces: PhantomData }
    }

    /// Their total length in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gathers pieces to send: at most `N` of them.
    pub(crate) fn gather(&mut self, registry: &Registry, pieces: &'a [Piece<'_>]) -> Result<(), PortError> {
        for piece in pieces {
            match piece {
                // The system call only reads, though its argument is not const.
                Piece::Bytes(bytes) => self.push(bytes.as_ptr().cast_mut(), bytes.len()),
                Piece::Memory(slice) => self.resolve(registry, slice)?,
            }
        }
        Ok(())
    }

    /// Gathers datagrams of `segment` bytes, of which the last may have fewer: as many whole ones as `N` pieces hold,
    /// with no more than `most` bytes.
    pub(crate) fn gather_segments(
        &mut self,
        registry: &Registry,
        pieces: &'a [Piece<'_>],
        segment: usize,
        most: usize,
    ) -> Result<(), PortError> {
        let mut taken = 0;
        for piece in pieces {
            if self.list.is_full() || self.held.is_full() || self.bytes >= most {
                break;
            }
            self.gather(registry, core::slice::from_ref(piece))?;
            taken += 1;
        }
        if taken < pieces.len() || self.bytes > most {
            self.truncate(self.bytes.min(most) / segment * segment);
            // A datagram of more pieces than the port supports.
            return if self.bytes > 0 { Ok(()) } else { Err(PortError::System(libc::EMSGSIZE)) };
        }
        Ok(())
    }

    /// The vectors. Valid as long as this is.
    pub(crate) fn list(&mut self) -> &mut [libc::iovec] {
        &mut self.list
    }

    /// Vectors of the next `length` bytes, or of the rest, from `start` on. Valid as long as this is.
    pub(crate) fn part(&self, mut start: usize, mut length: usize) -> ArrayVec<libc::iovec, N> {
        let mut part = ArrayVec::new();
        for vector in &self.list {
            let take = vector.iov_len.saturating_sub(start).min(length);
            if take > 0 {
                let base = vector.iov_base.cast::<u8>().wrapping_add(start).cast();
                part.push(libc::iovec { iov_base: base, iov_len: take });
            }
            start = start.saturating_sub(vector.iov_len);
            length -= take;
        }
        part
    }

    /// Addresses and lengths. Valid as long as this is.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (*mut u8, usize)> {
        self.list.iter().map(|vector| (vector.iov_base.cast(), vector.iov_len))
    }

    fn truncate(&mut self, bytes: usize) {
        while let Some(last) = self.list.last_mut().filter(|_| self.bytes > bytes) {
            let cut = last.iov_len.min(self.bytes - bytes);
            last.iov_len -= cut;
            self.bytes -= cut;
            if last.iov_len == 0 {
                self.list.pop();
            }
        }
    }

    /// send(2), or sendmsg(2) for more than one vector. After [`Vectors::gather`].
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>) -> Result<usize, i32> {
        let fd = socket.as_raw_fd();
        if let [one] = self.list[..] {
            // SAFETY: The vector's bytes are valid for reads while this lives: borrowed from the caller, or held in the
            // registry.
            return unsafe { send_one(fd, one) };
        }
        let message = self.message();
        // SAFETY: As above, for all vectors; the message has nothing else.
        unsafe { send_message(fd, &message) }
    }

    /// Collects places to fill: at most `N` of them.
    pub(crate) fn scatter(&mut self, registry: &Registry, pieces: &'a mut [ReceivePiece<'_>]) -> Result<(), PortError> {
        for piece in pieces {
            match piece {
                ReceivePiece::Staging(staging) => self.push(staging.as_mut_ptr(), staging.len()),
                ReceivePiece::Memory(slice) => self.resolve(registry, slice)?,
            }
        }
        Ok(())
    }

    /// recv(2), or recvmsg(2) for more than one vector. After [`Vectors::scatter`].
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> Result<usize, i32> {
        let fd = socket.as_raw_fd();
        if let [one] = self.list[..] {
            // SAFETY: The vector's bytes are valid for writes while this lives: borrowed exclusively from the caller,
            // or held in the registry.
            return unsafe { receive_one(fd, one.iov_base, one.iov_len) };
        }
        let mut message = self.message();
        // SAFETY: As above, for all vectors; the message has nothing else.
        uninterrupted(|| unsafe { libc::syscall(libc::SYS_recvmsg, fd, &raw mut message, libc::MSG_DONTWAIT) })
    }

    fn resolve(&mut self, registry: &Registry, slice: &Slice) -> Result<(), PortError> {
        let held = registry.resolve(slice).map_err(|_| PortError::Memory(slice.region))?;
        self.push(held.pointer().as_ptr(), held.length());
        self.held.push(held);
        Ok(())
    }

    fn push(&mut self, pointer: *mut u8, length: usize) {
        if length > 0 {
            self.list.push(libc::iovec { iov_base: pointer.cast(), iov_len: length });
            self.bytes += length;
        }
    }

    /// The header that refers to these vectors, for as long as they are not moved.
    fn message(&mut self) -> libc::msghdr {
        // SAFETY: All zero is a message header with no name, no vectors and no control data.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = self.list.as_mut_ptr();
        message.msg_iovlen = self.list.len() as _;
        message
    }
}

/// send(2) of bytes that the caller has: short calls need no vectors.
pub(crate) fn send_bytes(socket: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, i32> {
    let one = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: The bytes are borrowed; the system call only reads them, though a vector is not const.
    unsafe { send_one(socket.as_raw_fd(), one) }
}

/// recv(2) into bytes that the caller has.
pub(crate) fn receive_bytes(socket: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, i32> {
    let (at, length) = (into.as_mut_ptr(), into.len());
    // SAFETY: The bytes are borrowed exclusively; there is no address.
    unsafe { receive_one(socket.as_raw_fd(), at.cast(), length) }
}

/// sendmsg(2), or send(2) for a single vector: the kernel has less to fetch then.
///
/// # Safety
/// The name, control data and vectors of the message are valid for reads during the call.
pub(crate) unsafe fn send_message(fd: RawFd, message: &libc::msghdr) -> Result<usize, i32> {
    if message.msg_iovlen == 1 && message.msg_namelen == 0 && message.msg_controllen == 0 {
        // SAFETY: There is one vector, of bytes that are valid for reads.
        return unsafe { send_one(fd, *message.msg_iov) };
    }
    let pointer: *const libc::msghdr = message;
    // SAFETY: The message's references are valid.
    uninterrupted(|| unsafe { libc::syscall(libc::SYS_sendmsg, fd, pointer, FLAGS) })
}

/// send(2).
///
/// # Safety
/// The vector's bytes are valid for reads during the call.
unsafe fn send_one(fd: RawFd, one: libc::iovec) -> Result<usize, i32> {
    // SAFETY: The bytes are valid for reads; there is no address.
    uninterrupted(|| unsafe { libc::syscall(libc::SYS_sendto, fd, one.iov_base, one.iov_len, FLAGS, NOBODY, 0) })
}

/// recv(2).
///
/// # Safety
/// `length` bytes from `at` on are valid for writes during the call.
unsafe fn receive_one(fd: RawFd, at: *mut libc::c_void, length: usize) -> Result<usize, i32> {
    // SAFETY: The bytes are valid for writes; there is no address.
    uninterrupted(|| unsafe { libc::syscall(libc::SYS_recvfrom, fd, at, length, libc::MSG_DONTWAIT, NOBODY, NOBODY) })
}

/// Retries interrupted calls, without the C library's wrappers of send(2) and recv(2) for thread cancellation: two
/// exchanges of a shared word each, while many a call is an empty poll.
pub(crate) fn uninterrupted(mut call: impl FnMut() -> libc::c_long) -> Result<usize, i32> {
    loop {
        match usize::try_from(call()) {
            Ok(bytes) => return Ok(bytes),
            Err(_) => match last_error() {
                libc::EINTR => {}
                number => return Err(number),
            },
        }
    }
}
