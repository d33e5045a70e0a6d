//! The process at the other end of a connection, by a descriptor that never refers to another one (pidfd_open(2)). A
//! number alone may: once a process has ended and was waited for, the next may get its number, while a child of the
//! first still holds the socket.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

use socket2::Socket;

use super::memory::FileId;
use crate::listener::has_descriptors;
use crate::passing;
use crate::vectors::uninterrupted;

/// A process that was the peer, and has its number as long as `descriptor` is not readable.
#[derive(Debug)]
pub(super) struct PeerProcess {
    number: libc::pid_t,
    descriptor: OwnedFd,
}

impl PeerProcess {
    /// The process that connected, or listened, at the other end. `None`: it has no number here, or has ended, or the
    /// kernel cannot distinguish it from another process.
    pub(super) fn of(socket: &Socket, shared: FileId) -> Option<Self> {
        // The last descriptors are reserved for the program: without one nothing is read.
        if !has_descriptors() {
            return None;
        }
        let number = passing::peer(socket)?.pid;
        let descriptor = match passing::peer_pidfd(socket) {
            Ok(descriptor) => descriptor,
            // Older than Linux 6.5.
            Err(libc::ENOPROTOOPT) => by_number(number, shared)?,
            Err(_) => return None,
        };
        (number > 0).then_some(Self { number, descriptor })
    }

    pub(super) const fn number(&self) -> libc::pid_t {
        self.number
    }
}

impl AsFd for PeerProcess {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// The process that has this number now, if it is the peer: it has mapped the connection's memory, which children do
/// not inherit and which is passed to no other process.
fn by_number(number: libc::pid_t, shared: FileId) -> Option<OwnedFd> {
    // SAFETY: The call accesses no memory. It exists since Linux 5.3.
    let opened = uninterrupted(|| unsafe { libc::syscall(libc::SYS_pidfd_open, number, 0) }).ok()?;
    // SAFETY: A new descriptor that has no other owner.
    let descriptor = unsafe { OwnedFd::from_raw_fd(i32::try_from(opened).ok()?) };
    // The file belongs to the process of the descriptor if that still runs afterwards.
    (maps(number, shared) && !passing::is_readable(descriptor.as_fd())).then_some(descriptor)
}

/// Whether a process maps a file (proc_pid_maps(5)).
fn maps(number: libc::pid_t, file: FileId) -> bool {
    // Its numbers belong to another namespace where /proc is that one's.
    let is_own = fs::read_link("/proc/self").is_ok_and(|own| own.to_str() == Some(&std::process::id().to_string()));
    let Ok(list) = fs::File::open(format!("/proc/{number}/maps")) else { return false };
    is_own && BufReader::new(list).lines().map_while(Result::ok).any(|line| file_of(&line) == Some(file))
}

/// The file of a line: `start-end mode offset major:minor inode name`.
fn file_of(line: &str) -> Option<FileId> {
    let mut fields = line.split_ascii_whitespace().skip(3);
    let (major, minor) = fields.next()?.split_once(':')?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    Some(FileId { device: libc::makedev(number(major)?, number(minor)?), inode: fields.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use weft_ring::Capacity;

    use super::super::memory::{self, Mapping};
    use super::*;
    use crate::fork::Sleeper;

    #[test]
    fn the_file_of_a_mapping_is_read_from_its_line() {
        let line = "7f00-7f01 rw-s 00000000 fe:1f 4711                       /memfd:weft-shm (deleted)";
        assert_eq!(file_of(line), Some(FileId { device: libc::makedev(0xfe, 0x1f), inode: 4711 }));
        assert_eq!(file_of("7f00-7f01 rw-p"), None);
        assert_eq!(file_of(""), None);
    }

    #[test]
    fn the_process_of_a_number_must_have_the_memory_mapped() {
        let capacity = Capacity::new(4096).unwrap();
        let memory = memory::make(capacity).unwrap();
        let mapping = Mapping::map(memory.as_fd(), capacity).unwrap();
        let own = libc::pid_t::try_from(std::process::id()).unwrap();
        assert!(by_number(own, mapping.file()).is_some());
        let child = Sleeper::new();
        assert!(by_number(child.number(), mapping.file()).is_none(), "a child has not the memory of its parent");
        drop(mapping);
    }
}
