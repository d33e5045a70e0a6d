//! Lending: bytes stay in place until the other end has copied them.

use core::sync::atomic::Ordering;

use weft_base::{Lending, Lent, NoDigest, Slice};
use weft_memory::Region;

use super::*;

const BYTES: usize = 300_000;
/// A page that no process has.
const NOWHERE: u64 = 8;

/// A pair of ports of which each borrows from the other.
fn borrowing(bench: &mut Bench) -> (HostPort, HostPort) {
    let (mut active, mut passive) = bench.pair();
    assert!(!active.can_lend() && !passive.can_lend());
    assert!(passive.begin_borrowing());
    assert!(active.can_lend() && !passive.can_lend(), "each direction is agreed by itself");
    assert!(active.begin_borrowing() && passive.can_lend());
    (active, passive)
}

fn region(bench: &Bench, bytes: Vec<u8>, access: Access) -> Region {
    bench.registry.register(bench.domain, bytes, access, 0).unwrap()
}

fn contents(bench: &Bench, slice: Slice) -> Vec<u8> {
    let mut bytes = vec![0; slice.length as usize];
    bench.registry.copy_out(&slice, &mut bytes, &mut NoDigest).unwrap();
    bytes
}

fn broken(number: i32) -> PortError {
    PortError::System(number)
}

#[test]
fn what_is_lent_is_copied_and_comes_back_in_order() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = borrowing(&mut bench);
    let bytes = noise(BYTES);
    let from = region(&bench, bytes.clone(), Access::LOCAL_READ);
    let to = region(&bench, vec![0; BYTES], Access::LOCAL_WRITE | Access::LOCAL_READ);
    // The pieces of one side differ from those of the other.
    let (out, back) = (from.slice(..).unwrap(), to.slice(..).unwrap());
    for _ in 0..100 {
        let mut lent = [Lent::default(); 3];
        let pieces = [out.part(200_000, 100_000), out.part(0, 1), out.part(1, 199_999)];
        active.lend(&pieces, &mut lent).unwrap();
        let mut second = [Lent::default()];
        active.lend(&[out.part(7, 13)], &mut second).unwrap();
        assert_eq!(active.take_returned(), Ok(0));
        passive.borrow_into(&lent, &[back.part(0, 123_456), back.part(123_456, 176_544)]).unwrap();
        assert_eq!(contents(&bench, back), [&bytes[200_000..], &bytes[..200_000]].concat());
        assert_eq!(active.take_returned(), Ok(1));
        passive.borrow_into(&second, &[back.part(50, 13)]).unwrap();
        assert_eq!(contents(&bench, back.part(50, 13)), bytes[7..20]);
        assert_eq!((active.take_returned(), active.take_returned()), (Ok(1), Ok(0)));
    }
}

#[test]
fn a_sleeping_lender_is_woken_when_a_run_is_returned() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = borrowing(&mut bench);
    let from = region(&bench, noise(BYTES), Access::LOCAL_READ);
    let to = region(&bench, vec![0; BYTES], Access::LOCAL_WRITE);
    let (out, back) = (from.slice(..).unwrap(), to.slice(..).unwrap());
    let (mut one, mut other) = ([Lent::default()], [Lent::default()]);
    active.lend(&[out], &mut one).unwrap();
    active.lend(&[out], &mut other).unwrap();
    for lent in [one, other] {
        bench.network.arm_port(&mut active, Token(4), WRITE).unwrap();
        assert_eq!(bench.poll(), [], "there is room, but that is not what is waited for");
        passive.borrow_into(&lent, &[back]).unwrap();
        assert!(bench.wait().iter().any(|ready| ready.token == Token(4)));
        assert_eq!(active.take_returned(), Ok(1));
    }
    bench.network.arm_port(&mut active, Token(5), WRITE).unwrap();
    assert!(bench.wait().iter().any(|ready| ready.token == Token(5)), "now it is room again");
    active.lend(&[out], &mut one).unwrap();
    passive.borrow_into(&one, &[back]).unwrap();
    bench.network.arm_port(&mut active, Token(6), WRITE).unwrap();
    assert!(bench.wait().iter().any(|ready| ready.token == Token(6)), "what is back already is told at once");
}

#[test]
fn copying_a_revoked_run_breaks_the_stream() {
    let mut bench = Bench::new();
    for ends in [Lending::revoke, Port::abort, |port: &mut HostPort| *port = HostPort::Shared(nobodys_port())] {
        let (mut active, mut passive) = borrowing(&mut bench);
        let from = region(&bench, noise(BYTES), Access::LOCAL_READ);
        let to = region(&bench, vec![0; BYTES], Access::LOCAL_WRITE);
        let mut lent = [Lent::default()];
        active.lend(&[from.slice(..).unwrap()], &mut lent).unwrap();
        ends(&mut active);
        assert_eq!(passive.borrow_into(&lent, &[to.slice(..).unwrap()]), Err(PortError::Reset));
        assert_eq!(passive.send(&[Piece::Bytes(b"x")]), Err(PortError::Reset));
    }
}

/// A placeholder for another port, which is dropped.
fn nobodys_port() -> crate::ShmPort {
    crate::ShmPort::refused(Registry::new(1, Limits::default()), "127.0.0.1:1".parse().unwrap())
}

#[test]
fn memory_of_this_side_that_is_gone_is_no_fault_of_the_stream() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = borrowing(&mut bench);
    let bytes = noise(BYTES);
    let from = region(&bench, bytes.clone(), Access::LOCAL_READ);
    let to = region(&bench, vec![0; BYTES], Access::LOCAL_WRITE | Access::LOCAL_READ);
    let (out, mut lent) = (from.slice(..).unwrap(), [Lent::default()]);
    let gone = region(&bench, vec![0; BYTES], Access::LOCAL_WRITE | Access::LOCAL_READ).slice(..).unwrap();
    assert_eq!(active.lend(&[gone], &mut lent), Err(PortError::Memory(gone.region)));
    active.lend(&[out], &mut lent).unwrap();
    assert_eq!(passive.borrow_into(&lent, &[gone]), Err(PortError::Memory(gone.region)));
    assert_eq!(active.take_returned(), Ok(0));
    passive.borrow_into(&lent, &[to.slice(..).unwrap()]).unwrap();
    assert_eq!(contents(&bench, to.slice(..).unwrap()), bytes);
    assert_eq!(active.take_returned(), Ok(1));
}

/// An untrusted peer whose memory the port may read.
fn lending_stranger(bench: &mut Bench) -> (Stranger, HostPort, Box<u64>) {
    let (stranger, mut port) = Stranger::connect(bench);
    assert!(!port.begin_borrowing(), "nothing that proves it is there");
    let number = Box::new(4711);
    let words = stranger.mapping.lending_words(Direction::ToListener);
    for (address, said, good) in [(NOWHERE, 4711, false), (&raw const *number as u64, 4712, false)] {
        words.address.store(address, Ordering::SeqCst);
        words.number.store(said, Ordering::SeqCst);
        assert_eq!(port.begin_borrowing(), good);
        assert_eq!(words.borrows.load(Ordering::SeqCst), 0);
    }
    words.number.store(4711, Ordering::SeqCst);
    assert!(port.begin_borrowing());
    (stranger, port, number)
}

/// Four bytes before an unreadable page. It stays until the process ends.
fn before_nothing() -> u64 {
    let (size, kind) = (8192, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: A new mapping at an address of the kernel's choice.
    let start = unsafe { libc::mmap(core::ptr::null_mut(), size, libc::PROT_READ, kind, -1, 0) };
    assert_ne!(start, libc::MAP_FAILED);
    // SAFETY: Its second page, which is unused.
    assert_eq!(unsafe { libc::mprotect(start.cast::<u8>().add(4096).cast(), 4096, libc::PROT_NONE) }, 0);
    start as u64 + 4092
}

#[test]
fn an_untrusted_lender_is_checked() {
    let mut bench = Bench::new();
    let to = region(&bench, vec![0; 16], Access::LOCAL_WRITE);
    let back = [to.slice(..8).unwrap()];
    // A run that was never counted.
    let (_stranger, mut port, number) = lending_stranger(&mut bench);
    let at = |address| [Lent { address, length: 8 }];
    let here = &raw const *number as u64;
    assert_eq!(port.borrow_into(&at(here), &back), Err(broken(libc::EPROTO)));
    // One at an invalid address; and one whose end is at an invalid address.
    let (stranger, mut port, _number) = lending_stranger(&mut bench);
    stranger.mapping.runs(Direction::ToListener).store(Word::Produced, 1);
    assert_eq!(port.borrow_into(&at(NOWHERE), &back), Err(PortError::Unreadable(libc::EFAULT)));
    let (stranger, mut port, _number) = lending_stranger(&mut bench);
    stranger.mapping.runs(Direction::ToListener).store(Word::Produced, 1);
    let end = before_nothing();
    assert_eq!(port.borrow_into(&at(end), &back), Err(PortError::Unreadable(libc::EFAULT)));
    // More runs than there can be.
    let (stranger, mut port, number) = lending_stranger(&mut bench);
    stranger.mapping.runs(Direction::ToListener).store(Word::Produced, 65);
    assert_eq!(port.borrow_into(&at(&raw const *number as u64), &back), Err(broken(libc::EPROTO)));
    // Ended: another process may have its number.
    let (stranger, mut port, number) = lending_stranger(&mut bench);
    stranger.mapping.runs(Direction::ToListener).store(Word::Produced, 1);
    drop(stranger);
    assert_eq!(port.borrow_into(&at(&raw const *number as u64), &back), Err(PortError::Reset));
    // It returns a run that it never borrowed.
    let (stranger, mut port, _number) = lending_stranger(&mut bench);
    stranger.mapping.lending_words(Direction::ToCaller).borrows.store(1, Ordering::SeqCst);
    assert!(port.can_lend());
    port.lend(&back, &mut [Lent::default()]).unwrap();
    stranger.mapping.runs(Direction::ToCaller).store(Word::Consumed, 2);
    assert_eq!(port.take_returned(), Err(broken(libc::EPROTO)));
    // It has ended, and returns nothing.
    let (stranger, mut port, _number) = lending_stranger(&mut bench);
    stranger.mapping.lending_words(Direction::ToCaller).borrows.store(1, Ordering::SeqCst);
    port.lend(&back, &mut [Lent::default()]).unwrap();
    assert_eq!(port.take_returned(), Ok(0));
    drop(stranger);
    assert_eq!((0..1000).find_map(|_| port.take_returned().err()), Some(PortError::Reset));
}

#[test]
fn no_more_is_lent_than_can_be_counted() {
    let mut bench = Bench::new();
    let (mut active, _passive) = borrowing(&mut bench);
    let from = region(&bench, noise(64), Access::LOCAL_READ);
    let lent = &mut [Lent::default()];
    for _ in 0..64 {
        active.lend(&[from.slice(..).unwrap()], lent).unwrap();
    }
    assert_eq!(active.lend(&[from.slice(..).unwrap()], lent), Err(PortError::Exhausted));
}

/// A copy of this process that has a given number, which is free. `None`: this process may not choose (that takes
/// CAP_CHECKPOINT_RESTORE), or the kernel is older than Linux 5.5.
fn child_with_number(number: libc::pid_t) -> Option<libc::pid_t> {
    // SAFETY: All zero is a request for a child like fork's.
    let mut wanted: libc::clone_args = unsafe { core::mem::zeroed() };
    (wanted.exit_signal, wanted.set_tid, wanted.set_tid_size) = (libc::SIGCHLD as u64, &raw const number as u64, 1);
    // SAFETY: The request, and the number that it points to, are read during the call alone; without a stack of its own
    // the child runs on like one of fork(2).
    let child = unsafe { libc::syscall(libc::SYS_clone3, &raw const wanted, size_of_val(&wanted)) };
    (child >= 0).then_some(child as libc::pid_t)
}

fn kill(child: libc::pid_t) {
    // SAFETY: Calls without memory, for a process of this test's.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, core::ptr::null_mut(), 0);
    }
}

/// In a process of its own: connects, proves that it may be read, lends the bytes at `lent` and, on a signal through
/// `told`, ends, leaving a child that holds its socket.
fn leave_a_socket(remote: SocketAddr, mut told: std::io::PipeReader, mut tells: std::io::PipeWriter) -> ! {
    use std::io::{Read, Write};
    let (socket, capacity) = (reach(remote), Capacity::new(4096).unwrap());
    let memory = memory::make(capacity).unwrap();
    let mapping = Mapping::map(memory.as_fd(), capacity).unwrap();
    let number = Box::new(4711_u64);
    let words = mapping.lending_words(Direction::ToListener);
    words.address.store(&raw const *number as u64, Ordering::SeqCst);
    words.number.store(*number, Ordering::SeqCst);
    mapping.runs(Direction::ToListener).store(Word::Produced, 1);
    let hello = Hello { capacity, from: "127.0.0.9:9".parse().unwrap(), to: remote };
    passing::send_with(&socket, &hello.encode(), memory.as_fd()).unwrap();
    told.read_exact(&mut [0]).unwrap();
    // SAFETY: The child only sleeps, and this process exits at once.
    unsafe {
        match libc::fork() {
            0 => loop {
                libc::pause();
            },
            child => {
                tells.write_all(&child.to_ne_bytes()).unwrap();
                libc::_exit(0);
            }
        }
    }
}

#[test]
fn a_process_that_reuses_the_peer_s_number_is_not_read() {
    use std::io::{Read, Write};
    const SKIPPED: i32 = 2;
    const SECRET: [u8; 8] = *b"a secret";
    // In a process with no other threads, which may be copied as it is.
    let outcome = in_child(|| {
        let mut bench = Bench::new();
        let mut listener = bench.listen("127.0.0.1:0");
        let remote = listener.local_address();
        let (told, mut tell) = std::io::pipe().unwrap();
        let (mut hears, tells) = std::io::pipe().unwrap();
        // SAFETY: The child shares nothing. It allocates, which the C library allows after a fork.
        let peer = match unsafe { libc::fork() } {
            0 => leave_a_socket(remote, told, tells),
            peer => peer,
        };
        let mut port = bench.accept(&mut listener);
        bench.connected(&mut port);
        assert!(port.begin_borrowing());
        tell.write_all(&[0]).unwrap();
        let mut heir = [0; 4];
        hears.read_exact(&mut heir).unwrap();
        // SAFETY: Our own child: from now on its number is free.
        assert_eq!(unsafe { libc::waitpid(peer, core::ptr::null_mut(), 0) }, peer);
        let mut memory = Box::new([0; 8]);
        let address = memory.as_ptr() as u64;
        let (mut is_ready, mut ready) = std::io::pipe().unwrap();
        let stranger = child_with_number(peer);
        if stranger == Some(0) {
            *memory = SECRET;
            ready.write_all(&[0]).unwrap();
            loop {
                // SAFETY: Sleeps.
                unsafe { libc::pause() };
            }
        }
        let place = region(&bench, vec![0; 8], Access::LOCAL_WRITE | Access::LOCAL_READ);
        let to = place.slice(..).unwrap();
        let borrowed = stranger.map(|_| {
            is_ready.read_exact(&mut [0]).unwrap();
            port.borrow_into(&[Lent { address, length: 8 }], &[to])
        });
        stranger.into_iter().for_each(kill);
        kill(libc::pid_t::from_ne_bytes(heir));
        match borrowed {
            None => SKIPPED,
            Some(outcome) => i32::from(outcome != Err(PortError::Reset) || contents(&bench, to) != [0; 8]),
        }
    });
    match outcome {
        SKIPPED => eprintln!("skipped: this process may not choose the numbers of its children"),
        outcome => assert_eq!(outcome, 0, "1: another process was read"),
    }
}

/// In a process of its own: lends two runs and sends their addresses, then cannot be read any more.
fn lend_and_hide(remote: SocketAddr, mut told: std::io::PipeReader, mut tells: std::io::PipeWriter) -> i32 {
    use std::io::{Read, Write};
    let dumpable = |yes: libc::c_ulong| {
        // SAFETY: A call about this process without memory.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, yes, 0, 0, 0) }, 0);
    };
    dumpable(1);
    let mut bench = Bench::new();
    let mut port = bench.connect(remote);
    bench.connected(&mut port);
    told.read_exact(&mut [0]).unwrap();
    assert!(port.can_lend());
    let memory = region(&bench, noise(BYTES), Access::LOCAL_READ);
    let from = memory.slice(..).unwrap();
    let mut lent = [Lent::default(); 3];
    port.lend(&[from.part(100, BYTES as u32 - 100), from.part(0, 100)], &mut lent[..2]).unwrap();
    port.lend(&[from.part(7, 40_000)], &mut lent[2..]).unwrap();
    dumpable(0);
    lent.iter().for_each(|lent| tells.write_all(&lent.address.to_ne_bytes()).unwrap());
    let mut returned = 0;
    while returned < 2 {
        bench.network.arm_port(&mut port, Token(1), Interest { readable: true, ..WRITE }).unwrap();
        bench.wait();
        returned += port.take_returned().unwrap();
    }
    i32::from(port.can_lend())
}

#[test]
fn what_was_lent_arrives_though_its_process_can_t_be_read_any_more() {
    use std::io::{Read, Write};
    let outcome = in_child(|| {
        // Root may read every process.
        // SAFETY: Calls about this process without memory.
        assert!(unsafe { libc::geteuid() != 0 || libc::setresuid(65_533, 65_533, 65_533) == 0 });
        let mut bench = Bench::new();
        let mut listener = bench.listen("127.0.0.1:0");
        let remote = listener.local_address();
        let (told, mut tell) = std::io::pipe().unwrap();
        let (mut hears, tells) = std::io::pipe().unwrap();
        let lender = start_child(|| lend_and_hide(remote, told, tells));
        let mut port = bench.accept(&mut listener);
        bench.connected(&mut port);
        assert!(port.begin_borrowing());
        tell.write_all(&[0]).unwrap();
        let mut lent = [BYTES as u32 - 100, 100, 40_000].map(|length| Lent { address: 0, length });
        for lent in &mut lent {
            let mut address = [0; 8];
            hears.read_exact(&mut address).unwrap();
            lent.address = u64::from_ne_bytes(address);
        }
        let memory = region(&bench, vec![0; 2 * BYTES], Access::LOCAL_WRITE | Access::LOCAL_READ);
        let to = memory.slice(..).unwrap();
        let whole = [to.part(0, 1000), to.part(1000, BYTES as u32 - 1000)];
        port.borrow_into(&lent[..2], &whole).unwrap();
        port.borrow_into(&lent[2..], &[to.part(BYTES as u32, 40_000)]).unwrap();
        let bytes = noise(BYTES);
        assert!(contents(&bench, to.part(0, BYTES as u32)) == [&bytes[100..], &bytes[..100]].concat());
        assert!(contents(&bench, to.part(BYTES as u32, 40_000)) == bytes[7..40_007]);
        // The stream is unaffected: the other side ends it in order.
        assert_eq!(bench.end(&mut port), Ok(Received::End));
        status_of(lender)
    });
    assert_eq!(outcome, 0, "101: a panic; 1: more would be lent");
}

#[test]
fn what_is_passed_in_place_of_loans_is_judged() {
    let mut bench = Bench::new();
    let to = region(&bench, vec![0; 16], Access::LOCAL_WRITE);
    let back = [to.slice(..8).unwrap()];
    let pipe = std::io::pipe().unwrap().0;
    let [short, good] = [7, 8].map(|bytes| memory::create(bytes).unwrap());
    for (passed, outcome) in
        [(short.as_fd(), Err(broken(libc::EPROTO))), (pipe.as_fd(), Err(broken(libc::EPROTO))), (good.as_fd(), Ok(()))]
    {
        let (stranger, _port) = Stranger::connect(&mut bench);
        let (own, other) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).unwrap();
        let mut lender =
            super::super::lending::Lender::new(&std::sync::Arc::new(stranger.mapping), Direction::ToCaller);
        passing::send(&other, &[0]).unwrap();
        passing::send_with(&other, &[super::super::passed::PASSED], passed).unwrap();
        assert_eq!(super::super::passed::take(&own, || lender.pass(&own), &bench.registry, &back), outcome);
        // No copy is passed any more.
        drop(other);
        let gone = super::super::passed::take(&own, || lender.pass(&own), &bench.registry, &back);
        assert_eq!(gone, Err(PortError::Reset));
    }
}
