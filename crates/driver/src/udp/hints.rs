//! ICMP messages about sent datagrams: the socket's error queue (ip(7), IP_RECVERR).

use core::mem;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, BorrowedFd};

use weft_base::{Hint, HintKind, PortAddress, Quote};

use super::address::{self, Name, array};
use super::control::Control;
use crate::error::last_error;

/// The maximum number of queued hints. Further ones are dropped: hints may be lost in the network as well.
const HINTS: usize = 32;
/// The maximum number of entries read from the socket's queue at once: an attacker may fill it as fast as it is
/// emptied.
const ENTRIES: usize = 256;
/// `struct sock_extended_err`.
const EXTENDED_ERROR: usize = 16;
/// Bytes of the headers of IP (without options) and UDP.
const HEADERS_IPV4: u32 = 28;
const HEADERS_IPV6: u32 = 48;

#[derive(Debug)]
pub(crate) struct Hints {
    waiting: VecDeque<Hint>,
    /// Whether the socket's queue may have more.
    is_more: bool,
}

/// The result of emptying the socket's queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Drained {
    /// A datagram was too large for the first link, which carries this many bytes.
    pub(crate) link_carries: Option<u32>,
    /// Whether there were network errors: the error of a system call may be about these.
    pub(crate) any_icmp: bool,
}

/// One entry of the queue.
enum Entry {
    /// A datagram was too large for the first link, which carries this many bytes. Not a hint: the call that sent it
    /// fails.
    TooLargeHere(u32),
    Hint(Hint),
    Other,
}

impl Hints {
    pub(crate) fn new() -> Self {
        Self { waiting: VecDeque::with_capacity(HINTS), is_more: false }
    }

    /// Whether there are none, and the socket's queue is known to have no more.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && !self.is_more
    }

    pub(crate) fn poll(&mut self, socket: BorrowedFd<'_>) -> Option<Hint> {
        if self.waiting.is_empty() && mem::take(&mut self.is_more) {
            self.drain(socket);
        }
        self.waiting.pop_front()
    }

    /// Reads everything from the socket's queue.
    pub(crate) fn drain(&mut self, socket: BorrowedFd<'_>) -> Drained {
        let mut drained = Drained::default();
        for _ in 0..ENTRIES {
            let Some(entry) = next(socket) else { return drained };
            match entry {
                Entry::TooLargeHere(bytes) => drained.link_carries = Some(bytes),
                Entry::Hint(hint) => {
                    drained.any_icmp = true;
                    if self.waiting.len() < HINTS {
                        self.waiting.push_back(hint);
                    }
                }
                Entry::Other => {}
            }
        }
        self.is_more = true;
        drained
    }
}

/// Reads one entry of the queue.
fn next(socket: BorrowedFd<'_>) -> Option<Entry> {
    let (mut name, mut control, mut quote) = (Name::EMPTY, Control::EMPTY, [0_u8; Quote::MOST]);
    // recv(2), MSG_ERRQUEUE: the received bytes are the payload of the datagram that caused the error.
    let mut payload = libc::iovec { iov_base: quote.as_mut_ptr().cast(), iov_len: quote.len() };
    // SAFETY: All zero is a message header with no name, no vectors and no control data.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = name.pointer();
    message.msg_namelen = Name::room();
    message.msg_iov = &raw mut payload;
    message.msg_iovlen = 1;
    message.msg_control = control.pointer();
    message.msg_controllen = Control::room() as _;
    let quoted = loop {
        let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
        // SAFETY: Name, payload and control data have the given lengths, and live longer than the call.
        let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
        if let Ok(received) = usize::try_from(received) {
            break received.min(quote.len());
        }
        if last_error() != libc::EINTR {
            return None;
        }
    };
    let quote = Quote::of(&quote[..quoted]);
    Some(read(&name, &control, message.msg_controllen as usize, quote).unwrap_or(Entry::Other))
}

fn read(name: &Name, control: &Control, length: usize, quote: Quote) -> Option<Entry> {
    let to = PortAddress::from(name.address()?);
    let of_error = |level, kind| {
        matches!((level, kind), (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR))
    };
    let (_, _, data) = control.messages(length).find(|(level, kind, _)| of_error(*level, *kind))?;
    let number = i32::from_ne_bytes(array(data, 0)?);
    let origin = *data.get(4)?;
    // Of the IP packet, in these entries.
    let headers = if name.address()?.is_ipv4() { HEADERS_IPV4 } else { HEADERS_IPV6 };
    let largest = u32::from_ne_bytes(array(data, 8)?).saturating_sub(headers);
    let what = match (origin, number) {
        (libc::SO_EE_ORIGIN_LOCAL, libc::EMSGSIZE) => return Some(Entry::TooLargeHere(largest)),
        (libc::SO_EE_ORIGIN_LOCAL | libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6, _) => kind(number, largest),
        _ => return None,
    };
    let by = data.get(EXTENDED_ERROR..).and_then(address::parse).map(|by| by.ip());
    Some(Entry::Hint(Hint { to, by, what, quote }))
}

/// Maps the error numbers of ICMP types and codes.
const fn kind(number: i32, largest: u32) -> HintKind {
    match number {
        libc::ECONNREFUSED => HintKind::Refused,
        libc::EMSGSIZE => HintKind::TooLarge(largest),
        _ => HintKind::Unreachable,
    }
}

/// Whether a failed send can only be due to ICMP about an earlier datagram: no route, and no link of this host, has
/// this error.
pub(crate) const fn is_of_icmp_alone(number: i32) -> bool {
    matches!(number, libc::ECONNREFUSED | libc::EHOSTDOWN | libc::ENONET | libc::ENOPROTOOPT | libc::EPROTO)
}

/// Whether a call may have failed because of ICMP about an earlier one (icmp(7); `icmp_err_convert` in the kernel).
pub(crate) const fn is_of_icmp(number: i32) -> bool {
    matches!(
        number,
        libc::ECONNREFUSED
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::ENONET
            | libc::ENOPROTOOPT
            | libc::EOPNOTSUPP
            | libc::EPROTO
            | libc::EACCES
            | libc::EMSGSIZE
    )
}
