//! Both ends in one process, and now and then in two. Tests wait for events, with a limit that only a failure reaches.

use core::time::Duration;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::thread;

use socket2::{Domain, SockAddr, Socket, Type};
use weft_base::{
    Backlog, DomainId, Interest, Listener, Network, Piece, Port, PortError, PortOptions, Random, Readiness,
    ReceivePiece, Received, Token,
};
use weft_memory::{Access, Limits, LocalRight, Registry};
use weft_ring::{BROKEN, Capacity, END, Word, Words};

use super::hello::{DECLINED, Hello};
use super::memory::{self, Direction, Mapping};
use super::name::name_of;
use crate::fork::{Sleeper, in_child, start_child, status_of};
use crate::notice::said_by_child;
use crate::passing;
use crate::{HostListener, HostNetwork, HostPort};

mod lending;

const PATIENCE: Option<Duration> = Some(weft_testing::PATIENCE);
const READ: Interest = Interest { readable: true, writable: false, least: 1 };
const WRITE: Interest = Interest { readable: false, writable: true, least: 1 };
const NOTHING: Interest = Interest { readable: false, writable: false, least: 1 };
const PLAIN: PortOptions = PortOptions { local: None, buffer_bytes: None, peer_timeout: None, shared_memory: false };
const SHARED: PortOptions = PortOptions { shared_memory: true, ..PLAIN };
const RING: usize = 128 << 10;

struct Bench {
    registry: Registry,
    domain: DomainId,
    network: HostNetwork,
}

impl Bench {
    fn new() -> Self {
        let registry = Registry::new(7, Limits::default());
        let domain = registry.allocate_domain().unwrap();
        let network = HostNetwork::new(registry.clone()).unwrap();
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

    fn listen(&mut self, local: &str) -> HostListener {
        self.network.listen(local.parse().unwrap(), Backlog(16), SHARED).unwrap()
    }

    fn accept(&mut self, listener: &mut HostListener) -> HostPort {
        loop {
            if let Some(port) = listener.accept().unwrap() {
                return port;
            }
            self.network.arm_listener(listener, Token(1)).unwrap();
            assert!(self.wait().iter().any(|ready| ready.token == Token(1) && ready.readable), "nobody came");
        }
    }

    fn connect(&mut self, remote: SocketAddr) -> HostPort {
        self.network.connect(remote, SHARED).unwrap()
    }

    fn connected(&mut self, port: &mut HostPort) {
        while !port.poll_connected().unwrap() {
            self.network.arm_port(port, Token(2), WRITE).unwrap();
            assert!(!self.wait().is_empty(), "the connect came to nothing");
        }
    }

    fn pair(&mut self) -> (HostPort, HostPort) {
        let mut listener = self.listen("127.0.0.1:0");
        let mut active = self.connect(listener.local_address());
        let mut passive = self.accept(&mut listener);
        self.connected(&mut passive);
        self.connected(&mut active);
        assert!(matches!((&active, &passive), (HostPort::Shared(_), HostPort::Shared(_))));
        (active, passive)
    }

    fn receive(&mut self, port: &mut HostPort, pieces: &mut [ReceivePiece<'_>]) -> Result<Received, PortError> {
        loop {
            match port.receive(pieces)? {
                Received::Nothing => {}
                received => return Ok(received),
            }
            self.network.arm_port(port, Token(3), READ)?;
            assert!(!self.wait().is_empty(), "nothing came");
        }
    }

    fn receive_exactly(&mut self, port: &mut HostPort, length: usize) -> Vec<u8> {
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

    fn end(&mut self, port: &mut HostPort) -> Result<Received, PortError> {
        self.receive(port, &mut [ReceivePiece::Staging(&mut [0; 64])])
    }

    fn send_all(&mut self, port: &mut HostPort, bytes: &[u8]) {
        let mut sent = 0;
        while sent < bytes.len() {
            match port.send(&[Piece::Bytes(&bytes[sent..])]).unwrap() {
                0 => {
                    self.network.arm_port(port, Token(4), WRITE).unwrap();
                    assert!(!self.wait().is_empty(), "no room came");
                }
                taken => sent += taken,
            }
        }
    }
}

fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    Random::new(1).fill(&mut bytes);
    bytes
}

#[test]
fn both_ends_say_the_addresses_that_tcp_would() {
    let mut bench = Bench::new();
    for (listens, connects) in [("127.0.0.1:0", "127.0.0.1"), ("0.0.0.0:0", "127.0.0.2"), ("127.0.0.3:0", "127.0.0.3")]
    {
        let mut listener = bench.listen(listens);
        let remote = SocketAddr::new(connects.parse().unwrap(), listener.local_address().port());
        let mut active = bench.connect(remote);
        assert!(active.poll_connected().unwrap(), "as with TCP, the listener's program need not have run");
        assert_eq!(active.send(&[Piece::Bytes(b"early")]), Ok(5));
        let mut passive = bench.accept(&mut listener);
        bench.connected(&mut passive);
        bench.connected(&mut active);
        assert_eq!(bench.receive_exactly(&mut passive, 5), b"early");
        assert_eq!(active.remote_address(), remote);
        assert_eq!(passive.local_address(), Ok(remote));
        assert_eq!(active.local_address(), Ok(passive.remote_address()));
        assert_eq!(passive.remote_address().ip(), remote.ip());
    }
}

#[test]
fn only_what_both_want_is_shared() {
    let mut bench = Bench::new();
    assert!(bench.network.shares_memory());
    let mut listener = bench.network.listen("127.0.0.1:0".parse().unwrap(), Backlog(1), PLAIN).unwrap();
    let mut active = bench.connect(listener.local_address());
    assert_eq!(active.poll_connected(), Err(PortError::NotShared));
    assert!(listener.accept().unwrap().is_none());
    let mut listener = bench.listen("127.0.0.1:0");
    let mut active = bench.network.connect(listener.local_address(), PLAIN).unwrap();
    let passive = bench.accept(&mut listener);
    bench.connected(&mut active);
    assert!(matches!((&active, &passive), (HostPort::Tcp(_), HostPort::Tcp(_))));
    assert!(!active.keeps_bytes() && !passive.keeps_bytes());
    let (active, passive) = bench.pair();
    assert!(active.keeps_bytes() && passive.keeps_bytes());
    // A second listener cannot have the name: it serves TCP alone.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let squatter = Socket::new(Domain::UNIX, Type::SEQPACKET, None).unwrap();
    squatter.bind(&SockAddr::unix(name_of(taken)).unwrap()).unwrap();
    let _listener = bench.listen(&taken.to_string());
    assert_eq!(bench.connect(taken).poll_connected(), Err(PortError::NotShared));
}

#[test]
fn mixed_pieces_go_and_come() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    let bytes = noise(100_000);
    let from = bench.registry.register(bench.domain, bytes.clone(), Access::LOCAL_READ, 0).unwrap();
    let to = bench.registry.register(bench.domain, vec![0; 100_000], Access::LOCAL_WRITE, 0).unwrap();
    let (out, mut back) = (from.slice(..).unwrap(), to.slice(..).unwrap());
    bench.registry.pin(bench.domain, out, LocalRight::Read).unwrap();
    bench.registry.pin(bench.domain, back, LocalRight::Write).unwrap();
    for _ in 0..5 {
        let pieces = [Piece::Bytes(b"head"), Piece::Bytes(b""), Piece::Memory(out), Piece::Bytes(b"tail!")];
        assert_eq!(active.send(&pieces), Ok(100_009));
        let (mut head, mut tail, mut staging) = ([0; 4], [0; 5], [0; 10]);
        back.length = 100_000 - 10;
        let mut pieces = [
            ReceivePiece::Staging(&mut head),
            ReceivePiece::Staging(&mut staging),
            ReceivePiece::Memory(back),
            ReceivePiece::Staging(&mut tail),
        ];
        assert_eq!(passive.receive(&mut pieces), Ok(Received::Bytes(100_009)));
        assert_eq!((&head, &tail, &staging[..]), (b"head", b"tail!", &bytes[..10]));
        let mut placed = vec![0; 99_990];
        bench.registry.copy_out(&back, &mut placed, &mut weft_base::NoDigest).unwrap();
        assert_eq!(placed, bytes[10..]);
    }
}

#[test]
fn a_full_ring_takes_less_and_then_nothing_and_tells_of_room() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    let bytes = noise(RING + 7);
    assert_eq!(active.send(&[Piece::Bytes(&bytes)]), Ok(RING));
    assert_eq!(active.send(&[Piece::Bytes(&bytes)]), Ok(0));
    bench.network.arm_port(&mut active, Token(4), WRITE).unwrap();
    assert_eq!(bench.poll(), []);
    assert_eq!(bench.receive_exactly(&mut passive, 100), bytes[..100]);
    assert_eq!(bench.poll(), [], "a little room is not worth waking for");
    assert_eq!(bench.receive_exactly(&mut passive, RING / 4), bytes[100..RING / 4 + 100]);
    assert!(bench.wait().iter().any(|ready| ready.token == Token(4) && ready.writable));
    bench.network.arm_port(&mut active, Token(5), WRITE).unwrap();
    assert!(bench.wait().iter().any(|ready| ready.token == Token(5)), "what is ready already is told at once");
    assert_eq!(bench.poll(), []);
}

#[test]
fn few_bytes_do_not_wake_a_wait_for_many_unless_they_are_the_last() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    let many = Interest { least: 10, ..READ };
    bench.network.arm_port(&mut passive, Token(5), many).unwrap();
    assert_eq!(active.send(&[Piece::Bytes(&[1; 9])]), Ok(9));
    assert_eq!(bench.poll(), []);
    assert_eq!(active.send(&[Piece::Bytes(&[1])]), Ok(1));
    assert!(bench.wait().iter().any(|ready| ready.token == Token(5) && ready.readable));
    bench.receive_exactly(&mut passive, 10);
    bench.network.arm_port(&mut passive, Token(6), many).unwrap();
    assert_eq!(active.send(&[Piece::Bytes(&[1])]), Ok(1));
    active.close_send();
    assert!(bench.wait().iter().any(|ready| ready.token == Token(6)));
    bench.network.arm_port(&mut passive, Token(7), NOTHING).unwrap();
    drop(active);
    assert_eq!(bench.poll(), []);
}

#[test]
fn one_direction_ends_and_the_other_goes_on() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    assert_eq!(active.send(&[Piece::Bytes(b"last")]), Ok(4));
    active.close_send();
    assert_eq!(active.send(&[Piece::Bytes(b"more")]), Ok(0));
    assert_eq!(bench.receive_exactly(&mut passive, 4), b"last");
    assert_eq!(bench.end(&mut passive), Ok(Received::End));
    assert_eq!(passive.send(&[Piece::Bytes(b"answer")]), Ok(6));
    assert_eq!(bench.receive_exactly(&mut active, 6), b"answer");
    // Bytes written before it was dropped can still be read.
    assert_eq!(passive.send(&[Piece::Bytes(b"bye")]), Ok(3));
    drop(passive);
    assert_eq!(bench.receive_exactly(&mut active, 3), b"bye");
    assert_eq!(bench.end(&mut active), Ok(Received::End));
}

#[test]
fn the_peer_of_an_abort_sees_a_reset() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    assert_eq!(active.send(&[Piece::Bytes(b"lost")]), Ok(4));
    active.abort();
    assert_eq!(active.send(&[Piece::Bytes(b"more")]), Err(PortError::Reset));
    assert_eq!(bench.end(&mut passive), Err(PortError::Reset));
    assert_eq!(passive.send(&[Piece::Bytes(b"more")]), Err(PortError::Reset));
}

#[test]
fn memory_that_is_gone_is_named_and_nothing_is_moved() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    let region = bench.registry.register(bench.domain, vec![1; 64], Access::LOCAL_WRITE, 0).unwrap();
    let slice = region.slice(..).unwrap();
    drop(region);
    assert_eq!(active.send(&[Piece::Bytes(b"x"), Piece::Memory(slice)]), Err(PortError::Memory(slice.region)));
    assert_eq!(active.send(&[Piece::Bytes(b"there")]), Ok(5));
    let outcome = bench.receive(&mut passive, &mut [ReceivePiece::Memory(slice)]);
    assert_eq!(outcome, Err(PortError::Memory(slice.region)));
    assert_eq!(bench.receive_exactly(&mut passive, 5), b"there");
}

#[test]
fn no_wake_is_lost() {
    const TURNS: usize = 3000;
    let mut bench = Bench::new();
    let mut listener = bench.listen("127.0.0.1:0");
    let remote = listener.local_address();
    let other = thread::spawn(move || {
        let mut bench = Bench::new();
        let mut port = bench.connect(remote);
        bench.connected(&mut port);
        for turn in 0..TURNS {
            let length = 1 + turn * 977 % (3 * RING / 2);
            bench.send_all(&mut port, &vec![turn as u8; length]);
            assert_eq!(bench.receive_exactly(&mut port, 1), [turn as u8]);
        }
    });
    let mut port = bench.accept(&mut listener);
    for turn in 0..TURNS {
        let length = 1 + turn * 977 % (3 * RING / 2);
        assert_eq!(bench.receive_exactly(&mut port, length), vec![turn as u8; length]);
        bench.send_all(&mut port, &[turn as u8]);
    }
    assert_eq!(bench.end(&mut port), Ok(Received::End));
    other.join().unwrap();
}

#[test]
fn a_child_keeps_no_peer_waiting() {
    let mut bench = Bench::new();
    let mut listener = bench.listen("127.0.0.1:0");
    let address = listener.local_address();
    let mut active = bench.connect(address);
    let mut passive = bench.accept(&mut listener);
    bench.connected(&mut passive);
    bench.connected(&mut active);
    let _child = Sleeper::new();
    drop(active);
    assert_eq!(bench.end(&mut passive), Ok(Received::End));
    drop(listener);
    // A child that another test makes at this very moment may have a copy of the listener until it has closed it.
    let mut port = bench.connect(address);
    let refused = port.poll_connected().and_then(|_| bench.end(&mut port));
    assert!(matches!(refused, Err(PortError::NotShared | PortError::Reset)), "{refused:?}");
}

#[test]
fn a_child_may_drop_copies() {
    let mut bench = Bench::new();
    let (active, mut passive) = bench.pair();
    let mut copy = Some(active);
    let outcome = in_child(|| {
        drop(copy.take());
        0
    });
    assert_eq!(outcome, 0);
    let mut active = copy.unwrap();
    assert_eq!(active.send(&[Piece::Bytes(b"still here")]), Ok(10));
    assert_eq!(bench.receive_exactly(&mut passive, 10), b"still here");
}

// --- untrusted peers

/// An untrusted peer that sends a valid hello, and then writes anything.
struct Stranger {
    socket: Socket,
    mapping: Mapping,
}

/// An address without a listener. Only this process uses it, so that no other process takes the port meanwhile.
fn free_address() -> SocketAddr {
    let [.., high, low] = std::process::id().to_be_bytes();
    std::net::TcpListener::bind((std::net::Ipv4Addr::new(127, 77, high, low), 0)).unwrap().local_addr().unwrap()
}

fn reach(remote: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None).unwrap();
    socket.connect(&SockAddr::unix(name_of(remote)).unwrap()).unwrap();
    socket
}

impl Stranger {
    fn connect(bench: &mut Bench) -> (Self, HostPort) {
        let mut listener = bench.listen("127.0.0.1:0");
        let socket = reach(listener.local_address());
        let capacity = Capacity::new(4096).unwrap();
        let memory = memory::make(capacity).unwrap();
        let mapping = Mapping::map(memory.as_fd(), capacity).unwrap();
        let hello = Hello { capacity, from: "127.0.0.9:9".parse().unwrap(), to: listener.local_address() };
        passing::send_with(&socket, &hello.encode(), memory.as_fd()).unwrap();
        let mut port = bench.accept(&mut listener);
        bench.connected(&mut port);
        assert_eq!(port.remote_address(), hello.from);
        (Self { socket, mapping }, port)
    }

    fn write(&self, direction: Direction, word: Word, value: u64) {
        self.mapping.block(direction).store(word, value);
        passing::send(&self.socket, &[0]).unwrap();
    }
}

#[test]
fn positions_that_jump_end_that_connection() {
    let broken = Err(PortError::System(libc::EPROTO));
    let mut bench = Bench::new();
    for position in [4097, u64::MAX >> 2, 4097 | END] {
        let (stranger, mut port) = Stranger::connect(&mut bench);
        stranger.write(Direction::ToListener, Word::Produced, position);
        assert_eq!(bench.end(&mut port), broken, "{position:x}");
        assert_eq!(port.send(&[Piece::Bytes(b"x")]), Err(PortError::System(libc::EPROTO)));
    }
    let (stranger, mut port) = Stranger::connect(&mut bench);
    stranger.write(Direction::ToCaller, Word::Consumed, 1);
    assert_eq!(port.send(&[Piece::Bytes(&[0; 5000])]), Err(PortError::System(libc::EPROTO)));
    let (stranger, mut port) = Stranger::connect(&mut bench);
    stranger.write(Direction::ToListener, Word::Produced, BROKEN);
    assert_eq!(bench.end(&mut port), Err(PortError::Reset));
}

#[test]
fn a_dead_peer_is_noticed_once_its_last_bytes_are_read() {
    let mut bench = Bench::new();
    let (stranger, mut port) = Stranger::connect(&mut bench);
    // SAFETY: An array as long as the span.
    unsafe {
        stranger.mapping.copy_in(Direction::ToListener, weft_ring::Span { offset: 0, length: 5 }, b"words".as_ptr());
    }
    stranger.write(Direction::ToListener, Word::Produced, 5);
    drop(stranger);
    assert_eq!(bench.receive_exactly(&mut port, 5), b"words");
    assert_eq!(bench.end(&mut port), Err(PortError::Reset));
    // Also by a side that polls, and never sleeps.
    let (stranger, mut port) = Stranger::connect(&mut bench);
    assert_eq!(port.receive(&mut [ReceivePiece::Staging(&mut [0; 8])]), Ok(Received::Nothing));
    drop(stranger);
    // A child that another test has forked keeps the socket open until it runs its program.
    let mut polled = None;
    for _ in 0..10_000 {
        polled = (0..1000).find_map(|_| port.receive(&mut [ReceivePiece::Staging(&mut [0; 8])]).err());
        if polled.is_some() {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(polled, Some(PortError::Reset));
    assert_eq!(port.send(&[Piece::Bytes(b"x")]), Err(PortError::Reset));
}

#[test]
fn signals_for_nothing_do_no_harm() {
    let mut bench = Bench::new();
    let (stranger, mut port) = Stranger::connect(&mut bench);
    while passing::send(&stranger.socket, &[0; 8]).is_ok() {}
    for _ in 0..3 {
        assert_eq!(port.receive(&mut [ReceivePiece::Staging(&mut [0; 8])]), Ok(Received::Nothing));
        bench.network.arm_port(&mut port, Token(3), READ).unwrap();
    }
    bench.network.arm_port(&mut port, Token(3), READ).unwrap();
    stranger.write(Direction::ToListener, Word::Produced, 3);
    assert!(bench.wait().iter().any(|ready| ready.token == Token(3)));
    assert_eq!(bench.receive_exactly(&mut port, 3), [0; 3]);
    // A ring that is never emptied accepts its capacity.
    assert_eq!(port.send(&[Piece::Bytes(&[0; 5000])]), Ok(4096));
    assert_eq!(port.send(&[Piece::Bytes(&[0; 5000])]), Ok(0));
}

#[test]
fn first_words_that_are_none_are_refused() {
    let mut bench = Bench::new();
    let mut listener = bench.listen("127.0.0.1:0");
    let capacity = Capacity::new(4096).unwrap();
    let memory = memory::make(capacity).unwrap();
    let hello = |capacity| Hello { capacity, from: listener.local_address(), to: listener.local_address() }.encode();
    let mut far = hello(capacity);
    // 192.0.2.1, which no host has (RFC 5737).
    far[24..28].copy_from_slice(&[192, 0, 2, 1]);
    let (good, larger) = (hello(capacity), hello(Capacity::new(8192).unwrap()));
    let mut to_group = good;
    to_group[42..46].copy_from_slice(&[224, 0, 0, 1]);
    // More than Weft itself makes, by a process of the same user that would make this one allocate any amount.
    let huge = Capacity::new(2 * RING as u32).unwrap();
    let (huge_memory, huge) = (memory::make(huge).unwrap(), hello(huge));
    let mut long = [0; 64];
    long[..good.len()].copy_from_slice(&good);
    let null = std::fs::File::open("/dev/null").unwrap();
    type Words<'a> = &'a dyn Fn(&Socket) -> Result<(), i32>;
    let cases: [(&str, Words<'_>); 9] = [
        ("rings of any size", &|socket| passing::send_with(socket, &huge, huge_memory.as_fd())),
        ("a call to a group of hosts", &|socket| passing::send_with(socket, &to_group, memory.as_fd())),
        ("an address of another host", &|socket| passing::send_with(socket, &far, memory.as_fd())),
        ("no memory", &|socket| passing::send(socket, &good)),
        ("another size", &|socket| passing::send_with(socket, &larger, memory.as_fd())),
        ("too long", &|socket| passing::send_with(socket, &long, memory.as_fd())),
        ("too short", &|socket| passing::send_with(socket, &good[..20], memory.as_fd())),
        ("another file", &|socket| passing::send_with(socket, &good, null.as_fd())),
        ("nothing", &|socket| socket.shutdown(std::net::Shutdown::Both).map_err(|_| 0)),
    ];
    for (what, say) in cases {
        let socket = reach(listener.local_address());
        let mut port = bench.accept(&mut listener);
        assert_eq!(port.receive(&mut [ReceivePiece::Staging(&mut [0; 8])]), Ok(Received::Nothing), "{what}");
        assert_eq!(port.send(&[Piece::Bytes(b"early")]), Ok(0), "{what}");
        say(&socket).unwrap();
        assert!(bench.end(&mut port).is_err(), "{what}");
        drop(port);
        let mut answer = [0; 8];
        let answered = passing::receive(&socket, &mut answer).map(|length| answer[..length].to_vec());
        let declined = if what == "nothing" { vec![] } else { vec![DECLINED] };
        assert_eq!(answered, Ok(declined), "{what}");
    }
}

#[test]
fn callers_leave_descriptors_to_the_program() {
    const LIMIT: u64 = 128;
    // An eighth, except the one of the caller that is not accepted: both ends are in this process.
    const LEFT: usize = 128 / 8 - 1;
    let outcome = in_child(|| {
        let limit = libc::rlimit { rlim_cur: LIMIT, rlim_max: LIMIT };
        // SAFETY: No descriptor of this process is used any more; the structure is read during the call alone.
        unsafe {
            assert_eq!(libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0), 0);
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
        }
        let mut bench = Bench::new();
        let mut listener = bench.listen("127.0.0.1:0");
        let (mut callers, mut ports) = (vec![], vec![]);
        while let Ok(socket) = Socket::new(Domain::UNIX, Type::SEQPACKET, None) {
            socket.connect(&SockAddr::unix(name_of(listener.local_address())).unwrap()).unwrap();
            callers.push(socket);
            match listener.accept() {
                Ok(port) => ports.push(port.expect("somebody has come")),
                Err(error) => {
                    assert_eq!(error, PortError::Exhausted);
                    break;
                }
            }
        }
        let left: Vec<_> = core::iter::from_fn(|| Socket::new(Domain::UNIX, Type::SEQPACKET, None).ok()).collect();
        i32::from(ports.len() < 20) + 2 * i32::from(left.len() < LEFT)
    });
    assert_eq!(outcome, 0, "1: too few callers were taken; 2: they have left too little");
}

#[test]
fn a_name_of_another_process_is_reported() {
    let outcome = said_by_child(|| {
        let at = free_address();
        let squatter = Socket::new(Domain::UNIX, Type::SEQPACKET, None).unwrap();
        squatter.bind(&SockAddr::unix(name_of(at)).unwrap()).unwrap();
        let mut bench = Bench::new();
        let mut listener = bench.listen(&at.to_string());
        let mut port = bench.network.connect(at, PLAIN).unwrap();
        let accepted = bench.accept(&mut listener);
        bench.connected(&mut port);
        drop((bench.listen("127.0.0.1:0"), accepted));
        0
    });
    let (said, status) = outcome;
    assert_eq!(status, 0, "TCP goes on: {said}");
    let is_told = said.contains("@weft-shm-") && said.contains("another process has") && said.lines().count() == 1;
    assert!(is_told, "{said}");
}

#[test]
fn a_declined_caller_knows_it() {
    let mut bench = Bench::new();
    // A listener that declines everything, at a free address.
    let at = free_address();
    let declining = Socket::new(Domain::UNIX, Type::SEQPACKET, None).unwrap();
    declining.bind(&SockAddr::unix(name_of(at)).unwrap()).unwrap();
    declining.listen(4).unwrap();
    let mut decline = |signals: usize| {
        let port = bench.connect(at);
        let (socket, _) = declining.accept().unwrap();
        (0..signals).for_each(|_| passing::send(&socket, &[0]).unwrap());
        passing::send(&socket, &[DECLINED]).unwrap();
        port
    };
    let nothing = &mut [0; 8];
    for signals in [0, 3] {
        let mut port = decline(signals);
        let polled = (0..1000).find_map(|_| port.receive(&mut [ReceivePiece::Staging(nothing)]).err());
        assert_eq!(polled, Some(PortError::Declined));
        assert_eq!(port.send(&[Piece::Bytes(b"x")]), Err(PortError::Declined));
    }
    let mut port = decline(1);
    assert_eq!(bench.end(&mut port), Err(PortError::Declined), "who sleeps");
}

#[test]
fn another_user_is_turned_away() {
    let mut bench = Bench::new();
    let mut listener = bench.listen("127.0.0.1:0");
    let address = SockAddr::unix(name_of(listener.local_address())).unwrap();
    let outcome = in_child(|| {
        // SAFETY: Calls that are allowed after a fork; the address has the given length.
        unsafe {
            if libc::setresuid(65_534, 65_534, 65_534) != 0 {
                return 2;
            }
            let socket = libc::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0);
            i32::from(libc::connect(socket, address.as_ptr().cast(), address.len()) == 0)
        }
    });
    match outcome {
        2 => eprintln!("skipped: only root can be another user"),
        connected => {
            assert_eq!(connected, 1);
            assert!(listener.accept().unwrap().is_none());
        }
    }
}

/// `WEFT_KILLS` is the number of repetitions; 1000 now and then.
#[test]
fn a_process_that_is_killed_while_it_writes_leaves_good_bytes_and_then_a_reset() {
    let kills = std::env::var("WEFT_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(10);
    let mut random = Random::new(20);
    for kill in 0..kills {
        let mut bench = Bench::new();
        let mut listener = bench.listen("127.0.0.1:0");
        let address = listener.local_address();
        let child = spawn_writer(address);
        let mut port = bench.accept(&mut listener);
        let most = random.below(4_000_000);
        let (mut received, mut buffer) = (0u64, vec![0; 10_000]);
        let error = loop {
            match bench.receive(&mut port, &mut [ReceivePiece::Staging(&mut buffer)]) {
                Ok(Received::Bytes(count)) => {
                    let good = (received..).take(count).map(|at| (at % 251) as u8);
                    assert!(good.eq(buffer[..count].iter().copied()), "bytes at {received} of kill {kill}");
                    received += count as u64;
                }
                Ok(other) => panic!("{other:?}"),
                Err(error) => break error,
            }
            if received >= most {
                // SAFETY: Our own child, which has not been waited for.
                unsafe { libc::kill(child, libc::SIGKILL) };
            }
        };
        assert_eq!(error, PortError::Reset);
        // SAFETY: As above.
        unsafe { libc::waitpid(child, core::ptr::null_mut(), 0) };
    }
}

/// A child that connects and writes forever.
fn spawn_writer(address: SocketAddr) -> libc::pid_t {
    // SAFETY: The child shares nothing. It allocates, which the C library allows after a fork.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            let mut bench = Bench::new();
            let mut port = bench.connect(address);
            bench.connected(&mut port);
            let pattern: Vec<u8> = (0..251 * 100).map(|at| (at % 251) as u8).collect();
            loop {
                bench.send_all(&mut port, &pattern);
            }
        }
        child => child,
    }
}
