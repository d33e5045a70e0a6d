//! Memory that a program unmaps while operations use it, or that must not be written: an error of that operation, never
//! the process's end.

use core::ptr;
use std::process::Command;

use crate::support::*;
use weft_libfabric::abi::*;

const PAGE: usize = 4096;
const EFAULT: i32 = libc::EFAULT;
/// Runs this test over one transport.
const TRANSPORT: &str = "FI_WEFT_TRANSPORT";

/// Pages of the test's own, to which it has no reference while others use them.
struct Pages {
    start: *mut u8,
    length: usize,
}

impl Pages {
    fn new(length: usize, rights: i32) -> Self {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: A new mapping, wherever there is room.
        let start = unsafe { libc::mmap(ptr::null_mut(), length, rights, kind, -1, 0) };
        assert!(start != libc::MAP_FAILED);
        Self { start: start.cast(), length }
    }

    fn writable(length: usize) -> Self {
        Self::new(length, libc::PROT_READ | libc::PROT_WRITE)
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: They are mapped, and there is no other reference to them.
        unsafe { core::slice::from_raw_parts_mut(self.start, self.length) }
    }

    /// No other mapping may get these addresses meanwhile, so they stay reserved.
    fn take_away(&self) {
        // SAFETY: There is no reference to them.
        assert_eq!(unsafe { libc::mprotect(self.start.cast(), self.length, libc::PROT_NONE) }, 0);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: They are not used any more.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

#[test]
fn peers_get_no_right_to_write_read_only_memory() {
    let (one, _two) = pair(Wishes::default());
    let mut memory = Pages::new(3 * PAGE, libc::PROT_READ);
    assert_eq!(one.register_as(memory.bytes(), FI_REMOTE_WRITE | FI_REMOTE_READ, 0), Err(-EFAULT));
    let region = one.register_as(memory.bytes(), FI_REMOTE_READ, 0).unwrap();
    assert_eq!(control!(region, close), 0);
    memory.take_away();
    assert_eq!(one.register_as(memory.bytes(), FI_REMOTE_READ, 0), Err(-EFAULT));
}

/// Lengths that are sent as one packet, as several, and by the protocol for long messages.
const LENGTHS: [usize; 4] = [PAGE, 5 * PAGE, 16 * PAGE, 256 * PAGE];

#[test]
fn work_fails_whose_memory_has_gone_and_the_process_lives() {
    if std::env::var_os(TRANSPORT).is_none() {
        for transport in ["shm", "iwarp", "edge"] {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child
                .args(["--exact", "vanishing::work_fails_whose_memory_has_gone_and_the_process_lives"])
                .env(TRANSPORT, transport);
            let output = child.output().unwrap();
            assert!(
                output.status.success(),
                "{transport}: {:?}\n{}",
                output.status,
                String::from_utf8_lossy(&output.stdout)
            );
        }
        return;
    }
    for length in LENGTHS {
        a_peer_writes_and_reads(length);
        a_message_comes(length);
        a_message_goes(length);
    }
}

fn a_peer_writes_and_reads(length: usize) {
    for reads in [false, true] {
        let (mut bytes, mut gone) = (vec![7u8; length], Pages::writable(length));
        let (one, two) = pair(Wishes { transmit_flags: FI_DELIVERY_COMPLETE, ..Wishes::default() });
        let region = two.register(gone.bytes(), FI_REMOTE_READ | FI_REMOTE_WRITE);
        // SAFETY: A region that is open.
        let (address, key) = (gone.start.expose_provenance() as u64, unsafe { (*region).key });
        gone.take_away();
        let (start, none, endpoint) = (bytes.as_mut_ptr(), ptr::null_mut(), one.endpoint);
        let posted = if reads {
            call!(endpoint, rma, read, start.cast(), length, none, one.peer, address, key, at(1))
        } else {
            call!(endpoint, rma, write, start.cast(), length, none, one.peer, address, key, at(1))
        };
        assert_eq!(posted, 0);
        assert_ne!(fails(&one, &two), 0, "{length}, reads: {reads}");
        assert_eq!(control!(region, close), 0);
    }
}

fn a_message_comes(length: usize) {
    // Memory is dropped after its users.
    let (sent, mut memory) = (vec![7; length], Pages::writable(length));
    let (one, two) = pair(Wishes::default());
    assert_eq!(two.receive(memory.bytes(), 2), 0);
    memory.take_away();
    assert_eq!(one.send(&sent, 1), 0);
    assert_ne!(fails(&two, &one), 0, "{length}");
}

fn a_message_goes(length: usize) {
    let (mut received, mut memory) = (vec![0; length], Pages::writable(length));
    let (one, two) = pair(Wishes::default());
    // The connection is open, and the peer has no receive: the protocol decides where the message waits.
    let gone = memory.bytes().as_ptr();
    memory.take_away();
    let none = ptr::null_mut();
    assert_eq!(call!(one.endpoint, msg, send, gone.cast(), length, none, one.peer, at(1)), 0);
    assert_eq!(two.receive(&mut received, 2), 0);
    assert_ne!(fails(&one, &two), 0, "{length}");
    assert!(received.iter().all(|byte| *byte == 0), "nothing of it is taken for a message");
}

/// Waits for the failure of the one, while the other runs too.
fn fails(one: &Node, other: &Node) -> i32 {
    loop {
        match one.poll() {
            Err(EAVAIL) => return one.failure().entry.err,
            Err(EAGAIN) => other.progress(),
            other => panic!("fi_cq_read says {:?}", other.map(|entry| entry.flags)),
        }
    }
}
