//! Over loopback. Tests wait for events, with a limit that only a failure reaches.

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::OnceLock;
use std::thread;
use std::time::Instant;

use socket2::SockRef;
use weft_base::{
    Backlog, Clock, DomainId, Interest, Listener, Network, Piece, Port, PortError, PortOptions, Readiness,
    ReceivePiece, Received, Token, Waker,
};
use weft_memory::{Access, Limits, LocalRight, Registry, RemoteRight};

use super::*;

mod connecting;
mod silence;
mod waiting;

const PATIENCE: Option<Duration> = Some(weft_testing::PATIENCE);
const READ: Interest = Interest { readable: true, writable: false, least: 1 };
const WRITE: Interest = Interest { readable: false, writable: true, least: 1 };
const NOTHING: Interest = Interest { readable: false, writable: false, least: 1 };

struct Bench {
    registry: Registry,
    domain: DomainId,
    network: TcpNetwork,
}

impl Bench {
    fn new() -> Self {
        let registry = Registry::new(7, Limits::default());
        let domain = registry.allocate_domain().unwrap();
        let network = TcpNetwork::new(registry.clone()).unwrap();
        Self { registry, domain, network }
    }

    fn wait(&mut self) -> Vec<Readiness> {
        let mut ready = Vec::new();
        self.network.wait(PATIENCE, &mut ready).unwrap();
        ready
    }

    fn poll(&mut self) -> Vec<Readiness> {
        let mut ready = Vec::new();
        self.network.wait(Some(Duration::ZERO), &mut ready).unwrap();
        ready
    }

    fn listen(&mut self, local: &str) -> TcpListener {
        self.network.listen(local.parse().unwrap(), Backlog(16), PortOptions::default()).unwrap()
    }

    fn accept(&mut self, listener: &mut TcpListener) -> TcpPort {
        loop {
            if let Some(port) = listener.accept().unwrap() {
                return port;
            }
            self.network.arm_listener(listener, Token(1)).unwrap();
            assert!(self.wait().iter().any(|ready| ready.token == Token(1) && ready.readable), "nobody came");
        }
    }

    /// The connecting and the accepted end.
    fn connect(&mut self, listener: &mut TcpListener, remote: SocketAddr, options: PortOptions) -> (TcpPort, TcpPort) {
        let mut active = self.network.connect(remote, options).unwrap();
        let passive = self.accept(listener);
        self.connected(&mut active).unwrap();
        (active, passive)
    }

    fn connected(&mut self, port: &mut TcpPort) -> Result<(), PortError> {
        while !port.poll_connected()? {
            self.network.arm_port(port, Token(2), WRITE).unwrap();
            assert!(!self.wait().is_empty(), "the connect came to nothing");
        }
        Ok(())
    }

    fn pair(&mut self) -> (TcpPort, TcpPort) {
        self.pair_with(PortOptions::default())
    }

    fn pair_with(&mut self, options: PortOptions) -> (TcpPort, TcpPort) {
        let mut listener = self.network.listen("127.0.0.1:0".parse().unwrap(), Backlog(1), options).unwrap();
        let remote = listener.local_address();
        self.connect(&mut listener, remote, options)
    }

    fn receive(&mut self, port: &mut TcpPort, pieces: &mut [ReceivePiece<'_>]) -> Result<Received, PortError> {
        loop {
            match port.receive(pieces)? {
                Received::Nothing => {}
                received => return Ok(received),
            }
            self.network.arm_port(port, Token(3), READ)?;
            assert!(!self.wait().is_empty(), "nothing came");
        }
    }

    fn receive_exactly(&mut self, port: &mut TcpPort, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match self.receive(port, &mut [ReceivePiece::Staging(&mut bytes[filled..])]).unwrap() {
                Received::Bytes(count) => filled += count,
                other => panic!("{other:?} after {filled} of {length} bytes"),
            }
        }
        bytes
    }
}

fn has_ipv6() -> bool {
    let there = std::net::TcpListener::bind("[::1]:0").is_ok();
    if !there {
        eprintln!("skipped: this machine has no IPv6 loopback address");
    }
    there
}

#[test]
fn mixed_pieces_go_and_come() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    let source = bench.registry.register(bench.domain, b"..payload..".to_vec(), Access::LOCAL_READ, 0).unwrap();
    let sink = bench.registry.register(bench.domain, vec![b'.'; 12], Access::REMOTE_WRITE, 0).unwrap();
    let pieces = [
        Piece::Bytes(b"head"),
        Piece::Bytes(b""),
        Piece::Memory(source.slice(2..9).unwrap()),
        Piece::Memory(source.slice(3..3).unwrap()),
        Piece::Bytes(b"tail"),
    ];
    assert_eq!(active.send(&pieces), Ok(15));

    let granted = bench.registry.check_remote(bench.domain, sink.stag(), 3, 7, RemoteRight::Write).unwrap();
    let (mut head, mut tail) = ([0; 4], [0; 10]);
    let mut places = [
        ReceivePiece::Staging(&mut head),
        ReceivePiece::Memory(granted),
        ReceivePiece::Staging(&mut []),
        ReceivePiece::Staging(&mut tail),
    ];
    assert_eq!(bench.receive(&mut passive, &mut places), Ok(Received::Bytes(15)));
    assert_eq!((&head, &tail[..4]), (b"head", &b"tail"[..]));
    assert_eq!(sink.to_vec(), b"...payload..");

    // One piece takes another path through the kernel.
    assert_eq!(passive.send(&[Piece::Memory(sink.slice(3..10).unwrap())]), Ok(7));
    let slice = sink.slice(0..7).unwrap();
    assert_eq!(bench.receive(&mut active, &mut [ReceivePiece::Memory(slice)]), Ok(Received::Bytes(7)));
    assert_eq!(sink.to_vec(), b"payloadoad..");
}

#[test]
fn more_pieces_than_one_system_call_takes() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    let bytes: Vec<u8> = (0..1000u32).map(|at| at as u8).collect();
    let source = bench.registry.register(bench.domain, bytes.clone(), Access::LOCAL_READ, 0).unwrap();
    let pieces: Vec<_> = (0..500)
        .flat_map(|at| {
            let memory = source.slice(at * 2..at * 2 + 1).unwrap();
            [Piece::Memory(memory), Piece::Bytes(&bytes[at as usize * 2 + 1..][..1])]
        })
        .collect();
    assert_eq!(active.send(&pieces), Ok(1000));
    let mut out = vec![0; 1000];
    let mut filled = 0;
    while filled < 1000 {
        let mut places: Vec<_> = out[filled..].chunks_mut(1).map(ReceivePiece::Staging).collect();
        match bench.receive(&mut passive, &mut places).unwrap() {
            Received::Bytes(count) => filled += count,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(out, bytes);
}

#[test]
fn no_room_is_not_the_end() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    assert_eq!(active.send(&[]), Ok(0));
    assert_eq!(active.send(&[Piece::Bytes(b"")]), Ok(0));
    assert_eq!(active.send(&[Piece::Bytes(b"x")]), Ok(1));
    bench.network.arm_port(&mut passive, Token(5), READ).unwrap();
    bench.wait();
    assert_eq!(passive.receive(&mut []), Ok(Received::Nothing));
    assert_eq!(passive.receive(&mut [ReceivePiece::Staging(&mut [])]), Ok(Received::Nothing));
    assert_eq!(bench.receive_exactly(&mut passive, 1), b"x");
    assert_eq!(passive.receive(&mut [ReceivePiece::Staging(&mut [0])]), Ok(Received::Nothing));
}

#[test]
fn a_full_connection_takes_less_and_then_nothing() {
    let mut bench = Bench::new();
    let (mut active, mut passive) =
        bench.pair_with(PortOptions { buffer_bytes: Some(16 << 10), ..PortOptions::default() });
    let block: Vec<u8> = (0..65_536u32).map(|at| (at % 251) as u8).collect();
    let mut sent = 0;
    loop {
        let taken = active.send(&[Piece::Bytes(&block[..1000]), Piece::Bytes(&block[1000..])]).unwrap();
        sent += taken;
        if taken == 0 {
            break;
        }
        assert!(sent < 64 << 20, "the buffers have no end");
        // The pattern continues where it stopped.
        let rest = &block[taken % block.len()..];
        if !rest.is_empty() && taken < block.len() {
            let more = active.send(&[Piece::Bytes(rest)]).unwrap();
            sent += more;
            if more < rest.len() {
                break;
            }
        }
    }
    assert!(sent > 0);
    let received = bench.receive_exactly(&mut passive, sent);
    assert!(received.iter().enumerate().all(|(at, byte)| *byte == ((at % 65_536) % 251) as u8));
    bench.network.arm_port(&mut active, Token(9), WRITE).unwrap();
    assert!(bench.wait().iter().any(|ready| ready.token == Token(9) && ready.writable));
    assert!(active.send(&[Piece::Bytes(b"room again")]).unwrap() > 0);
}

#[test]
fn one_direction_ends_and_the_other_goes_on() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    active.send(&[Piece::Bytes(b"last")]).unwrap();
    active.close_send();
    assert_eq!(bench.receive_exactly(&mut passive, 4), b"last");
    let mut byte = [0];
    for _ in 0..2 {
        let end = bench.receive(&mut passive, &mut [ReceivePiece::Staging(&mut byte)]);
        assert_eq!(end, Ok(Received::End));
    }
    assert_eq!(passive.send(&[Piece::Bytes(b"still")]), Ok(5));
    assert_eq!(bench.receive_exactly(&mut active, 5), b"still");
    assert_eq!(active.send(&[Piece::Bytes(b"x")]), Err(PortError::Reset), "after close_send");
}

#[test]
fn dropping_closes_gracefully() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    active.send(&[Piece::Bytes(b"bye")]).unwrap();
    drop(active);
    assert_eq!(bench.receive_exactly(&mut passive, 3), b"bye");
    let end = bench.receive(&mut passive, &mut [ReceivePiece::Staging(&mut [0])]);
    assert_eq!(end, Ok(Received::End));
}

#[test]
fn the_peer_of_an_abort_sees_a_reset() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    active.abort();
    for _ in 0..2 {
        let seen = bench.receive(&mut passive, &mut [ReceivePiece::Staging(&mut [0])]);
        assert_eq!(seen, Err(PortError::Reset));
    }
    assert_eq!(passive.send(&[Piece::Bytes(b"x")]), Err(PortError::Reset));
    assert_eq!(active.send(&[Piece::Bytes(b"x")]), Err(PortError::Reset));
    assert_eq!(active.receive(&mut [ReceivePiece::Staging(&mut [0])]), Err(PortError::Reset));
    assert_eq!(active.local_address(), Err(PortError::Reset));
    assert_eq!(bench.network.arm_port(&mut active, Token(1), READ), Err(PortError::Reset));
    active.abort();
    active.close_send();
}

/// Like a forked child made while the connection was open.
#[test]
fn the_peer_of_an_abort_sees_a_reset_though_another_process_holds_a_copy() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    let copy = active.descriptor().unwrap().try_clone_to_owned().unwrap();
    active.abort();
    let seen = bench.receive(&mut passive, &mut [ReceivePiece::Staging(&mut [0])]);
    assert_eq!(seen, Err(PortError::Reset));
    drop(copy);
}

/// The kernel reports the reset to the send and would show the receiver an end.
#[test]
fn bytes_before_a_reset_are_received_and_then_the_reset() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    active.send(&[Piece::Bytes(b"why")]).unwrap();
    bench.network.arm_port(&mut passive, Token(4), READ).unwrap();
    bench.wait();
    active.abort();
    while passive.send(&[Piece::Bytes(b"x")]).is_ok() {
        thread::yield_now();
    }
    assert_eq!(bench.receive_exactly(&mut passive, 3), b"why");
    for _ in 0..2 {
        let seen = passive.receive(&mut [ReceivePiece::Staging(&mut [0])]);
        assert_eq!(seen, Err(PortError::Reset));
    }
}

#[test]
fn memory_that_is_gone_is_named_and_nothing_is_moved() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    let region = bench.registry.register(bench.domain, vec![7; 4], Access::REMOTE_WRITE, 0).unwrap();
    let slice = region.slice(..).unwrap();
    let granted = bench.registry.check_remote(bench.domain, region.stag(), 0, 4, RemoteRight::Write).unwrap();
    region.invalidate();
    active.send(&[Piece::Bytes(b"1234")]).unwrap();
    bench.network.arm_port(&mut passive, Token(4), READ).unwrap();
    bench.wait();
    let mut places = [ReceivePiece::Memory(granted)];
    assert_eq!(passive.receive(&mut places), Err(PortError::Memory(granted.region)));
    assert_eq!(bench.receive_exactly(&mut passive, 4), b"1234", "the stream still stands");

    // In flight it may be sent, even without its owner.
    bench.registry.pin(bench.domain, slice, LocalRight::Read).unwrap();
    drop(region);
    assert_eq!(active.send(&[Piece::Memory(slice)]), Ok(4));
    bench.registry.unpin(slice);
    let pieces = [Piece::Bytes(b"lost"), Piece::Memory(slice)];
    assert_eq!(active.send(&pieces), Err(PortError::Memory(slice.region)));
    assert_eq!(active.send(&[Piece::Bytes(b"next")]), Ok(4));
    assert_eq!(bench.receive_exactly(&mut passive, 8), b"\x07\x07\x07\x07next");
}

#[test]
fn options_reach_both_ends() {
    let mut bench = Bench::new();
    let timeout = Duration::from_secs(12);
    let options = PortOptions { peer_timeout: Some(timeout), buffer_bytes: Some(100_000), ..PortOptions::default() };
    let (active, passive) = bench.pair_with(options);
    for port in [&active, &passive] {
        let fd = port.descriptor().unwrap();
        let socket = SockRef::from(&fd);
        assert_eq!(socket.tcp_user_timeout().unwrap(), None, "it would count a closed window");
        assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap() && socket.nonblocking().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(6));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(2));
        // The kernel doubles the given value (socket(7)).
        assert!(socket.send_buffer_size().unwrap() >= 100_000 && socket.recv_buffer_size().unwrap() >= 100_000);
    }
    let (plain, _peer) = bench.pair();
    assert!(!SockRef::from(&plain.descriptor().unwrap()).keepalive().unwrap());
    // Shorter than the resolution of keepalives.
    bench.pair_with(PortOptions { peer_timeout: Some(Duration::from_nanos(1)), ..PortOptions::default() });
}

/// Long enough for a machine under load, and short enough to wait for.
const PEER_TIMEOUT: Duration = Duration::from_millis(1600);

#[test]
fn every_descriptor_closes_on_exec() {
    let mut bench = Bench::new();
    let listener = bench.listen("127.0.0.1:0");
    let (active, passive) = bench.pair();
    let (event, set) = (EventFd::new().unwrap(), WaitSet::new().unwrap());
    let descriptors = [
        bench.network.poll_fd(),
        listener.as_fd(),
        active.descriptor().unwrap(),
        passive.descriptor().unwrap(),
        event.as_fd(),
        set.as_fd(),
    ];
    for fd in descriptors {
        // SAFETY: Reads the flags of an open descriptor.
        let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFD) };
        assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC, "descriptor {fd:?}");
    }
}

#[test]
fn the_segment_size_follows_the_path() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    let block = vec![1; 64 << 10];
    let mut moved = 0;
    while moved < 8 << 20 {
        let sent = active.send(&[Piece::Bytes(&block)]).unwrap();
        bench.receive_exactly(&mut passive, sent);
        moved += sent;
    }
    let now = SockRef::from(&active.descriptor().unwrap()).tcp_mss().unwrap();
    assert_eq!(active.segment_size(), now);
}

#[test]
fn ports_may_change_threads() {
    fn movable<T: Send>() {}
    movable::<TcpNetwork>();
    movable::<TcpPort>();
    movable::<TcpListener>();
    fn shared<T: Sync>() {}
    shared::<EventFd>();
    shared::<WaitSet>();
    shared::<MonotonicClock>();
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: One entry, valid during the call, which does not wait.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
}

#[test]
fn a_watch_sleeps_until_its_network_has_something_to_do_and_takes_nothing() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    let watch = bench.network.watch().unwrap();
    watch.set_packets(true);
    bench.network.arm_port(&mut passive, Token(5), READ).unwrap();
    assert_eq!(active.send(&[Piece::Bytes(b"x")]), Ok(1));
    // Would last forever.
    watch.sleep(None);
    assert_eq!(bench.wait(), [Readiness { token: Token(5), readable: true, writable: false }]);
    // The same for a call that ends the network's own wait.
    bench.network.waker().wake();
    watch.sleep(None);
    assert_eq!(bench.poll(), []);
}
