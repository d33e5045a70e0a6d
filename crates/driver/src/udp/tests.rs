//! Over loopback, which drops datagrams only when a receive buffer is full. Tests wait for events, with a limit that
//! only a failure reaches.

use core::time::Duration;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use proptest::prelude::*;
use weft_base::{
    DatagramBatch, DatagramOptions, DatagramPort, DatagramSent, DomainId, Ecn, Hint, HintKind, Interest, LocalAddress,
    Network, Piece, PortAddress, PortError, Quote, Readiness, ReceivedDatagrams, Token,
};
use weft_memory::{Access, Limits, Registry};

use super::*;
use crate::TcpNetwork;

const PATIENCE: Option<Duration> = Some(weft_testing::PATIENCE);
const READ: Interest = Interest { readable: true, writable: false, least: 1 };
const WRITE: Interest = Interest { readable: false, writable: true, least: 1 };
const PLAIN: DatagramOptions = DatagramOptions { buffer_bytes: None, offload: false };

struct Bench {
    registry: Registry,
    domain: DomainId,
    network: TcpNetwork,
    buffer: Vec<u8>,
}

impl Bench {
    fn new() -> Self {
        let registry = Registry::new(7, Limits::default());
        let domain = registry.allocate_domain().unwrap();
        let network = TcpNetwork::new(registry.clone()).unwrap();
        Self { registry, domain, network, buffer: vec![0; 4 * RECEIVE_BYTES as usize] }
    }

    fn bind(&mut self, local: &str) -> UdpPort {
        self.bind_with(local, DatagramOptions::default())
    }

    fn bind_with(&mut self, local: &str, options: DatagramOptions) -> UdpPort {
        self.network.bind(local.parse().unwrap(), options).unwrap()
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Vec<Readiness> {
        let mut ready = Vec::new();
        self.network.wait(timeout, &mut ready).unwrap();
        ready
    }

    /// The datagrams of a receive, once there are any.
    fn receive(&mut self, port: &mut UdpPort) -> Vec<ReceivedDatagrams> {
        let mut received = Vec::new();
        while port.receive(&mut self.buffer, &mut received).unwrap() == 0 {
            self.network.arm_datagram(port, Token(3), READ).unwrap();
            assert!(!self.wait(PATIENCE).is_empty(), "nothing came");
        }
        received
    }

    /// This many datagrams, and how many of them were merged with others.
    fn datagrams(&mut self, port: &mut UdpPort, count: usize) -> (Vec<Vec<u8>>, usize) {
        let (mut datagrams, mut merged) = (Vec::new(), 0);
        while datagrams.len() < count {
            for run in self.receive(port) {
                let bytes = &self.buffer[run.range];
                let cut: Vec<_> = bytes.chunks(run.segment_size as usize).map(<[u8]>::to_vec).collect();
                merged += if cut.len() > 1 { cut.len() } else { 0 };
                datagrams.extend(cut);
            }
        }
        (datagrams, merged)
    }

    fn hint(&mut self, port: &mut UdpPort) -> Hint {
        loop {
            assert_eq!(port.receive(&mut self.buffer, &mut Vec::new()), Ok(0), "a hint breaks nothing");
            if let Some(hint) = port.poll_hint() {
                return hint;
            }
            self.network.arm_datagram(port, Token(4), READ).unwrap();
            assert!(!self.wait(PATIENCE).is_empty(), "nobody said anything");
        }
    }
}

fn batch(to: PortAddress, segment_size: u32) -> DatagramBatch {
    DatagramBatch { to, from: None, segment_size, ecn: Ecn::NotCapable }
}

fn numbered(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index / 7) as u8).collect()
}

fn has_ipv6() -> bool {
    let there = UdpSocket::bind("[::1]:0").is_ok();
    if !there {
        eprintln!("skipped: this machine has no IPv6 loopback address");
    }
    there
}

fn families() -> Vec<&'static str> {
    let mut families = vec!["127.0.0.1:0"];
    families.extend(has_ipv6().then_some("[::1]:0"));
    families
}

fn loopback(port: &UdpPort, ip: &str) -> PortAddress {
    SocketAddr::new(ip.parse().unwrap(), port.local_address().ip().unwrap().port()).into()
}

#[test]
fn a_datagram_goes_and_comes() {
    let mut bench = Bench::new();
    for local in families() {
        let (mut a, mut b) = (bench.bind(local), bench.bind(local));
        assert_eq!(b.receive(&mut bench.buffer, &mut Vec::new()), Ok(0), "nothing is there");
        assert_eq!(a.send(&batch(b.local_address(), 99), &[Piece::Bytes(b"hello")]), Ok(DatagramSent::Taken(1)));
        let received = bench.receive(&mut b);
        let [run] = &received[..] else { panic!("{received:?}") };
        assert_eq!((run.from, run.segment_size, run.ecn), (a.local_address(), 5, Ecn::NotCapable));
        assert_eq!(run.to.map(|to| to.ip), b.local_address().ip().map(|to| to.ip()));
        assert_eq!(&bench.buffer[run.range.clone()], b"hello");
    }
}

#[test]
fn a_batch_is_one_call_and_comes_merged() {
    let mut bench = Bench::new();
    for local in families() {
        let (mut a, mut b) = (bench.bind(local), bench.bind(local));
        let bytes = numbered(10 * 1200 + 500);
        assert_eq!(a.send(&batch(b.local_address(), 1200), &[Piece::Bytes(&bytes)]), Ok(DatagramSent::Taken(11)));
        let (datagrams, merged) = bench.datagrams(&mut b, 11);
        assert_eq!(datagrams, bytes.chunks(1200).map(<[u8]>::to_vec).collect::<Vec<_>>());
        assert!(merged > 1 || !a.takes_many, "loopback keeps what is merged");
    }
}

#[test]
fn without_offload_each_goes_by_itself() {
    let mut bench = Bench::new();
    let (mut a, mut b) = (bench.bind_with("127.0.0.1:0", PLAIN), bench.bind_with("127.0.0.1:0", PLAIN));
    let bytes = numbered(10 * 1200 + 500);
    assert_eq!(a.send(&batch(b.local_address(), 1200), &[Piece::Bytes(&bytes)]), Ok(DatagramSent::Taken(11)));
    let (datagrams, merged) = bench.datagrams(&mut b, 11);
    assert_eq!(datagrams, bytes.chunks(1200).map(<[u8]>::to_vec).collect::<Vec<_>>());
    assert_eq!(merged, 0);
}

#[test]
fn a_kernel_that_refuses_batches_gets_none() {
    let mut bench = Bench::new();
    let (mut a, mut b) = (bench.bind("127.0.0.1:0"), bench.bind("127.0.0.1:0"));
    // Batches must have checksums (udp_send_skb in the kernel), so without them it refuses.
    let (fd, one) = (a.socket.as_fd().as_raw_fd(), 1i32);
    // SAFETY: The descriptor is open; the value is read during the call alone, with its length.
    let done = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_NO_CHECK, (&raw const one).cast(), 4) };
    assert_eq!(done, 0);
    let had = a.takes_many;
    let bytes = numbered(3000);
    for _ in 0..2 {
        assert_eq!(a.send(&batch(b.local_address(), 1000), &[Piece::Bytes(&bytes)]), Ok(DatagramSent::Taken(3)));
        assert_eq!(bench.datagrams(&mut b, 3).0.concat(), bytes);
        assert!(!a.takes_many || !had, "it is not tried again");
    }
}

#[test]
fn more_than_a_call_takes_is_left() {
    let mut bench = Bench::new();
    let (mut a, mut b) = (bench.bind("127.0.0.1:0"), bench.bind("127.0.0.1:0"));
    let bytes = numbered(100 * 10);
    let to = batch(b.local_address(), 10);
    assert_eq!(a.send(&to, &[Piece::Bytes(&bytes)]), Ok(DatagramSent::Taken(64)));
    assert_eq!(bench.datagrams(&mut b, 64).0.concat(), bytes[..640]);
    // One piece for each byte: 25 datagrams have 250 of them.
    let pieces: Vec<_> = bytes.chunks(1).map(Piece::Bytes).collect();
    assert_eq!(a.send(&to, &pieces), Ok(DatagramSent::Taken(25)));
    assert_eq!(bench.datagrams(&mut b, 25).0.concat(), bytes[..250]);
    let large = batch(b.local_address(), 9000);
    assert_eq!(a.send(&large, &[Piece::Bytes(&numbered(80_000))]), Ok(DatagramSent::Taken(7)));
    assert_eq!(bench.datagrams(&mut b, 7).0.concat(), numbered(63_000));
    let one = batch(b.local_address(), 1000);
    assert_eq!(a.send(&one, &pieces), Err(PortError::System(libc::EMSGSIZE)), "a datagram has at most 256 pieces");
    assert_eq!(a.send(&one, &[]), Ok(DatagramSent::Taken(0)), "of nothing, all");
}

#[test]
fn payload_is_sent_from_where_it_is() {
    let mut bench = Bench::new();
    let (mut a, mut b) = (bench.bind("127.0.0.1:0"), bench.bind("127.0.0.1:0"));
    let source = bench.registry.register(bench.domain, b"..payload..".to_vec(), Access::LOCAL_READ, 0).unwrap();
    let payload = source.slice(2..9).unwrap();
    let pieces = [Piece::Bytes(b"one"), Piece::Memory(payload), Piece::Bytes(b"two"), Piece::Memory(payload)];
    assert_eq!(a.send(&batch(b.local_address(), 10), &pieces), Ok(DatagramSent::Taken(2)));
    assert_eq!(bench.datagrams(&mut b, 2).0, [b"onepayload", b"twopayload"]);
    drop(source);
    let sent = a.send(&batch(b.local_address(), 10), &pieces);
    assert_eq!(sent, Err(PortError::Memory(payload.region)));
}

#[test]
fn ecn_goes_and_comes() {
    let mut bench = Bench::new();
    let mut pairs: Vec<_> = families().into_iter().map(|local| (local, &local[..local.len() - 2])).collect();
    if has_ipv6() {
        // Either family over one socket.
        pairs.extend([("[::]:0", "127.0.0.1"), ("[::]:0", "[::1]")]);
    }
    for (local, to) in pairs {
        let (mut a, mut b) = (bench.bind(local), bench.bind(local));
        let to = loopback(&b, to.trim_matches(['[', ']']));
        for ecn in [Ecn::NotCapable, Ecn::Capable0, Ecn::Capable1, Ecn::Congested] {
            let sent = a.send(&DatagramBatch { ecn, ..batch(to, 4) }, &[Piece::Bytes(b"onetwo")]);
            assert_eq!(sent, Ok(DatagramSent::Taken(2)));
            let received = bench.receive(&mut b);
            assert!(received.iter().all(|run| run.ecn == ecn), "{local} {ecn:?}: {received:?}");
        }
    }
}

#[test]
fn an_answer_comes_from_where_the_question_went() {
    let mut bench = Bench::new();
    let mut wild = vec!["0.0.0.0:0"];
    wild.extend(has_ipv6().then_some("[::]:0"));
    for local in wild {
        let (mut a, mut b) = (bench.bind("127.0.0.1:0"), bench.bind(local));
        let there = loopback(&b, "127.0.0.2");
        assert_eq!(a.send(&batch(there, 9), &[Piece::Bytes(b"question")]), Ok(DatagramSent::Taken(1)));
        let question = bench.receive(&mut b).remove(0);
        let to = question.to.unwrap();
        assert_eq!((question.from, to.ip), (a.local_address(), there.ip().unwrap().ip()));
        let from = Some(LocalAddress { interface: 0, ..to });
        let answer = DatagramBatch { from, ..batch(question.from, 9) };
        assert_eq!(b.send(&answer, &[Piece::Bytes(b"answer")]), Ok(DatagramSent::Taken(1)));
        assert_eq!(bench.receive(&mut a)[0].from, there);
        // No host has TEST-NET-1 (RFC 5737).
        let foreign = Some(LocalAddress { ip: "192.0.2.1".parse().unwrap(), interface: 0 });
        let sent = b.send(&DatagramBatch { from: foreign, ..answer }, &[Piece::Bytes(b"x")]);
        // Some kernels return EINVAL, some ENETUNREACH.
        assert_eq!(sent, Err(PortError::AddressNotLocal));
        assert_eq!(b.send(&answer, &[Piece::Bytes(b"again")]), Ok(DatagramSent::Taken(1)), "the port stands");
    }
}

/// As many sends as make a second socket, received one by one.
fn make_second(bench: &mut Bench, a: &mut UdpPort, b: &mut UdpPort, batch: &DatagramBatch) {
    for _ in 0..64 {
        assert_eq!(a.send(batch, &[Piece::Bytes(b"ping")]), Ok(DatagramSent::Taken(1)));
        assert_eq!(bench.datagrams(b, 1).0, [b"ping"]);
    }
    assert!(a.connected.is_some());
}

#[test]
fn the_peer_that_gets_most_has_a_socket_of_its_own() {
    let mut bench = Bench::new();
    let mut pairs: Vec<_> = families().into_iter().map(|local| (local, local.trim_end_matches(":0"))).collect();
    pairs.push(("0.0.0.0:0", "127.0.0.1"));
    if has_ipv6() {
        pairs.extend([("[::]:0", "127.0.0.1"), ("[::]:0", "[::1]")]);
    }
    for (local, ip) in pairs {
        let ip = ip.trim_matches(['[', ']']);
        let (mut a, mut b, mut other) = (bench.bind(local), bench.bind(local), bench.bind(local));
        let from = Some(LocalAddress { ip: ip.parse().unwrap(), interface: 0 });
        let [at_a, at_b, at_other] = [&a, &b, &other].map(|port| loopback(port, ip));
        let to = |to| DatagramBatch { from, ..batch(to, 8) };
        make_second(&mut bench, &mut a, &mut b, &to(at_b));
        make_second(&mut bench, &mut b, &mut a, &to(at_a));
        for _ in 0..200 {
            for (sender, to) in [(&mut b, at_a), (&mut other, at_a)] {
                let sent = sender
                    .send(&DatagramBatch { from, ecn: Ecn::Capable0, ..batch(to, 3) }, &[Piece::Bytes(b"oneten")]);
                assert_eq!(sent, Ok(DatagramSent::Taken(2)), "{local} {ip}");
            }
            let mut count = [0; 2];
            while count != [2, 2] {
                for run in bench.receive(&mut a) {
                    let sender = [at_b, at_other].iter().position(|sender| *sender == run.from).unwrap();
                    assert_eq!((run.to.unwrap().ip.to_string(), run.ecn), (ip.to_owned(), Ecn::Capable0));
                    count[sender] += run.range.len() / 3;
                }
            }
        }
        assert_eq!(b.counters().overflowed + a.counters().overflowed, 0);
        let number = a.local_address().ip().unwrap();
        assert_eq!(bench.network.bind(number, PLAIN).map(drop), Err(PortError::AddressInUse), "it is no one else's");
        let sharing = socket2::Socket::new(socket2::Domain::for_address(number), socket2::Type::DGRAM, None).unwrap();
        sharing.set_reuse_port(true).unwrap();
        let taken = sharing.bind(&number.into()).unwrap_err();
        assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse, "nor is it who would share it");
    }
}

/// Before a second socket is connected it may get datagrams for the first one.
#[test]
fn what_came_before_a_socket_was_connected_keeps_its_sender() {
    let [peer, stranger] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let own = UdpSocket::bind("127.0.0.1:0").unwrap();
    own.set_nonblocking(true).unwrap();
    let (at, peer_at) = (own.local_addr().unwrap(), peer.local_addr().unwrap());
    stranger.send_to(b"before", at).unwrap();
    own.connect(peer_at).unwrap();
    peer.send_to(b"behind", at).unwrap();
    let held = Held::make(|| Ok(own.try_clone()?.into())).unwrap();
    let mut port = PortSocket::new(held, None, Some(peer_at));
    let (mut buffer, mut counters) = ([0; 64], DatagramCounters::default());
    let mut sender = || {
        port.receiver.fill(port.held.as_fd(), &mut buffer, (64, 1)).ok()?;
        port.read(&mut counters, 0, 0)?.from.ip()
    };
    assert_eq!([sender(), sender(), sender()], [stranger.local_addr().ok(), Some(peer_at), None]);
    peer.send_to(b"again", at).unwrap();
    assert_eq!([sender(), sender()], [Some(peer_at), None]);
}

#[test]
fn what_comes_to_a_socket_that_was_made_meanwhile_ends_a_wait() {
    let mut bench = Bench::new();
    let (mut a, mut b) = (bench.bind("127.0.0.1:0"), bench.bind("127.0.0.1:0"));
    bench.network.arm_datagram(&mut a, Token(8), READ).unwrap();
    let to_b = batch(b.local_address(), 4);
    make_second(&mut bench, &mut a, &mut b, &to_b);
    let to_a = batch(a.local_address(), 4);
    for round in 0..3 {
        assert_eq!(b.send(&to_a, &[Piece::Bytes(b"here")]), Ok(DatagramSent::Taken(1)));
        let ready = bench.wait(PATIENCE);
        assert_eq!(ready, [Readiness { token: Token(8), readable: true, writable: false }], "round {round}");
        assert_eq!(bench.datagrams(&mut a, 1).0, [b"here"]);
        bench.network.arm_datagram(&mut a, Token(8), READ).unwrap();
    }
    // The other socket is armed as well.
    let mut other = bench.bind("127.0.0.1:0");
    assert_eq!(other.send(&to_a, &[Piece::Bytes(b"more")]), Ok(DatagramSent::Taken(1)));
    assert_eq!(bench.wait(PATIENCE).len(), 1);
    assert_eq!(bench.datagrams(&mut a, 1).0, [b"more"]);
}

#[test]
fn a_peer_that_is_sent_nothing_any_more_has_no_socket_of_its_own() {
    let mut bench = Bench::new();
    let [mut a, mut b, mut other] = [(); 3].map(|()| bench.bind("127.0.0.1:0"));
    let (at_b, at_other) = (b.local_address(), other.local_address());
    make_second(&mut bench, &mut a, &mut b, &batch(at_b, 4));
    let to_a = batch(a.local_address(), 4);
    for round in 0..64 {
        assert_eq!(b.send(&to_a, &[Piece::Bytes(b"left")]), Ok(DatagramSent::Taken(1)));
        assert_eq!(a.send(&batch(at_other, 4), &[Piece::Bytes(b"ping")]), Ok(DatagramSent::Taken(1)));
        assert_eq!(a.connected.as_ref().unwrap().is_left, round == 63);
    }
    assert_eq!(bench.datagrams(&mut a, 64).0, vec![b"left"; 64], "nothing is lost with it");
    assert_eq!(bench.datagrams(&mut other, 64).0.len(), 64);
    while a.connected.is_some() {
        assert_eq!(a.receive(&mut bench.buffer, &mut Vec::new()), Ok(0));
    }
    assert_eq!(b.send(&to_a, &[Piece::Bytes(b"more")]), Ok(DatagramSent::Taken(1)));
    assert_eq!(bench.datagrams(&mut a, 1).0, [b"more"]);
    // Sends that change all the time make no sockets.
    for round in 0..200 {
        let to = if round % 100 < 50 { at_b } else { at_other };
        assert_eq!(a.send(&batch(to, 4), &[Piece::Bytes(b"turn")]), Ok(DatagramSent::Taken(1)));
        assert!(a.connected.is_none());
    }
}

#[test]
fn a_socket_of_its_own_that_sends_no_more_is_given_up() {
    let mut bench = Bench::new();
    let (mut a, mut b) = (bench.bind("127.0.0.1:0"), bench.bind("127.0.0.1:0"));
    let to = batch(b.local_address(), 4);
    make_second(&mut bench, &mut a, &mut b, &to);
    // SAFETY: A socket without other users; the call reads and writes no memory.
    unsafe { libc::shutdown(a.connected.as_ref().unwrap().socket.as_fd().as_raw_fd(), libc::SHUT_WR) };
    assert_eq!(b.send(&batch(a.local_address(), 4), &[Piece::Bytes(b"kept")]), Ok(DatagramSent::Taken(1)));
    for _ in 0..2 {
        assert_eq!(a.send(&to, &[Piece::Bytes(b"last")]), Ok(DatagramSent::Taken(1)));
        assert_eq!(bench.datagrams(&mut b, 1).0, [b"last"]);
    }
    assert!(a.connected.is_some(), "something has come by it");
    assert_eq!(bench.datagrams(&mut a, 1).0, [b"kept"]);
    while a.connected.is_some() {
        assert_eq!(a.receive(&mut bench.buffer, &mut Vec::new()), Ok(0));
    }
}

#[test]
fn what_is_too_large_is_told_with_what_passes() {
    let mut bench = Bench::new();
    let (mut a, mut b) = (bench.bind("127.0.0.1:0"), bench.bind("127.0.0.1:0"));
    let bytes = numbered(70_000);
    let to = b.local_address();
    assert!(matches!(a.send(&batch(to, 70_000), &[Piece::Bytes(&bytes)]), Ok(DatagramSent::TooLarge(_))));
    assert_eq!(a.send(&batch(to, 100), &[Piece::Bytes(b"x")]), Ok(DatagramSent::Taken(1)), "the port stands");
    assert_eq!(bench.datagrams(&mut b, 1).0, [b"x"]);
    if has_ipv6() {
        // Loopback carries 65 536 bytes, of which 48 are headers.
        let (mut a, b) = (bench.bind("[::1]:0"), bench.bind("[::1]:0"));
        let sent = a.send(&batch(b.local_address(), 65_500), &[Piece::Bytes(&bytes[..65_500])]);
        assert_eq!(sent, Ok(DatagramSent::TooLarge(Some(65_488))));
        assert_eq!(a.poll_hint(), None, "it was told");
    }
}

/// In a network namespace of its own, whose loopback has Ethernet's MTU.
#[test]
fn on_a_link_as_small_as_ethernets() {
    const NAME: &str = "udp::tests::on_a_link_as_small_as_ethernets";
    const INSIDE: &str = "WEFT_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return large_and_small_on_a_small_link();
    }
    let namespace = |script: &str| {
        let mut command = std::process::Command::new("unshare");
        command.args(["-Urn", "sh", "-c", script]).arg(std::env::current_exe().unwrap()).env(INSIDE, "1");
        command.output().ok().map(|output| (output.status.success(), output))
    };
    let make = "ip link set lo up mtu 1500 && ip -6 addr show dev lo | grep -q ::1";
    if !namespace(make).is_some_and(|(is_made, _)| is_made) {
        return eprintln!("skipped: this system makes no network namespaces");
    }
    let (passed, output) = namespace(&format!("{make} && exec \"$0\" --exact {NAME}")).unwrap();
    assert!(passed, "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}

fn large_and_small_on_a_small_link() {
    for (local, largest) in [("127.0.0.1:0", 1472), ("[::1]:0", 1452)] {
        for options in [DatagramOptions::default(), PLAIN] {
            let mut bench = Bench::new();
            let (mut a, mut b) = (bench.bind_with(local, options), bench.bind_with(local, options));
            let to = b.local_address();
            let bytes = numbered(10 * largest);
            for count in [1, 5] {
                let large = &bytes[..count * (largest + 1)];
                let sent = a.send(&batch(to, largest as u32 + 1), &[Piece::Bytes(large)]);
                assert_eq!(sent, Ok(DatagramSent::TooLarge(Some(largest as u32))), "{local}, {count}, {options:?}");
            }
            assert_eq!(a.takes_many, options.offload, "that was no fault of the batches");
            assert_eq!(a.send(&batch(to, largest as u32), &[Piece::Bytes(&bytes)]), Ok(DatagramSent::Taken(10)));
            assert_eq!(bench.datagrams(&mut b, 10).0.concat(), bytes);
            assert_eq!(a.poll_hint(), None);
        }
    }
}

#[test]
fn a_closed_port_is_a_hint() {
    let mut bench = Bench::new();
    for local in families() {
        let mut a = bench.bind(local);
        // Connected to another, so it receives nothing from here, and no other process can get its number.
        let holder = UdpSocket::bind(local).unwrap();
        holder.connect(holder.local_addr().unwrap()).unwrap();
        let to = holder.local_addr().unwrap().into();
        assert_eq!(a.poll_hint(), None);
        assert_eq!(a.send(&batch(to, 9), &[Piece::Bytes(b"hello")]), Ok(DatagramSent::Taken(1)));
        let by = to.ip().map(|address| address.ip());
        assert_eq!(bench.hint(&mut a), Hint { to, by, what: HintKind::Refused, quote: Quote::of(b"hello") });
        assert_eq!(a.poll_hint(), None);
        // Nor over a socket of its own, made after enough sends.
        for _ in 0..100 {
            assert_eq!(a.send(&batch(to, 9), &[Piece::Bytes(b"hello")]), Ok(DatagramSent::Taken(1)));
        }
        assert!(a.connected.is_some());
        assert_eq!(bench.hint(&mut a), Hint { to, by, what: HintKind::Refused, quote: Quote::of(b"hello") });
        while a.poll_hint().is_some() {}
        // Unread, it fails no sends to others.
        let mut b = bench.bind(local);
        for round in 0..3 {
            assert_eq!(a.send(&batch(to, 9), &[Piece::Bytes(b"hello")]), Ok(DatagramSent::Taken(1)));
            let sent = a.send(&batch(b.local_address(), 2), &[Piece::Bytes(b"abcd")]);
            assert_eq!(sent, Ok(DatagramSent::Taken(2)), "round {round}");
            assert_eq!(bench.datagrams(&mut b, 2).0.concat(), b"abcd");
        }
        assert_eq!(a.poll_hint().map(|hint| hint.what), Some(HintKind::Refused));
        assert!(a.takes_many || !bench.bind(local).takes_many, "it was no fault of the batch");
    }
}

#[test]
fn unread_hints_block_no_datagrams() {
    let mut bench = Bench::new();
    let small = DatagramOptions { buffer_bytes: Some(2048), offload: false };
    let (mut a, mut b) = (bench.bind_with("127.0.0.1:0", small), bench.bind_with("127.0.0.1:0", PLAIN));
    let holder = UdpSocket::bind("127.0.0.1:0").unwrap();
    holder.connect(holder.local_addr().unwrap()).unwrap();
    let nobody = batch(holder.local_addr().unwrap().into(), 9);
    let to = batch(a.local_address(), 9);
    for round in 0..200 {
        assert_eq!(a.send(&nobody, &[Piece::Bytes(b"hello")]), Ok(DatagramSent::Taken(1)));
        let mut received = Vec::new();
        assert_eq!(a.receive(&mut bench.buffer, &mut received), Ok(0), "round {round}");
    }
    assert_eq!(b.send(&to, &[Piece::Bytes(b"data")]), Ok(DatagramSent::Taken(1)));
    assert_eq!(bench.datagrams(&mut a, 1).0, [b"data"]);
    let hints = core::iter::from_fn(|| a.poll_hint()).count();
    assert!((1..=200).contains(&hints), "some are kept, not without a bound: {hints}");
}

#[test]
fn what_finds_the_buffer_full_is_counted() {
    let mut bench = Bench::new();
    let small = DatagramOptions { buffer_bytes: Some(8192), offload: false };
    let (mut a, mut b) = (bench.bind_with("127.0.0.1:0", PLAIN), bench.bind_with("127.0.0.1:0", small));
    let to = batch(b.local_address(), 1000);
    let bytes = numbered(1000);
    let (mut received, mut before) = (Vec::new(), 0);
    for round in 1..=3 {
        for _ in 0..100 {
            assert_eq!(a.send(&to, &[Piece::Bytes(&bytes)]), Ok(DatagramSent::Taken(1)));
        }
        while b.receive(&mut bench.buffer, &mut received).unwrap() > 0 {}
        // The next one reports it.
        assert_eq!(a.send(&to, &[Piece::Bytes(&bytes)]), Ok(DatagramSent::Taken(1)));
        received.extend(bench.receive(&mut b));
        let overflowed = b.counters().overflowed;
        assert!(overflowed > before);
        assert_eq!(received.len() as u64 + overflowed, 101 * round);
        before = overflowed;
    }
}

#[test]
fn what_does_not_fit_into_its_part_is_cut_and_counted() {
    let mut bench = Bench::new();
    let (mut a, mut b) = (bench.bind("127.0.0.1:0"), bench.bind("127.0.0.1:0"));
    for bytes in [&b"toolong"[..], b"fits"] {
        assert_eq!(a.send(&batch(b.local_address(), 9), &[Piece::Bytes(bytes)]), Ok(DatagramSent::Taken(1)));
    }
    bench.buffer.truncate(4);
    assert_eq!(bench.datagrams(&mut b, 1).0, [b"fits"]);
    assert_eq!(b.counters().cut, 1);
    assert_eq!(b.receive(&mut [], &mut Vec::new()), Ok(0));
}

#[test]
fn interest_is_told_once() {
    let mut bench = Bench::new();
    let (mut a, mut b) = (bench.bind("127.0.0.1:0"), bench.bind("127.0.0.1:0"));
    bench.network.arm_datagram(&mut b, Token(8), READ).unwrap();
    bench.network.arm_datagram(&mut a, Token(9), WRITE).unwrap();
    let ready = bench.wait(PATIENCE);
    assert_eq!(ready, [Readiness { token: Token(9), readable: false, writable: true }]);
    assert_eq!(a.send(&batch(b.local_address(), 9), &[Piece::Bytes(b"x")]), Ok(DatagramSent::Taken(1)));
    let ready = bench.wait(PATIENCE);
    assert_eq!(ready, [Readiness { token: Token(8), readable: true, writable: false }]);
    assert_eq!(bench.wait(Some(Duration::ZERO)), [], "silent until it is armed again");
}

#[test]
fn buffers_are_as_large_as_granted() {
    let mut bench = Bench::new();
    let limits = |bytes| DatagramOptions { buffer_bytes: Some(bytes), ..PLAIN };
    let small = bench.bind_with("127.0.0.1:0", limits(16 << 10)).limits();
    let huge = bench.bind_with("127.0.0.1:0", limits(1 << 30)).limits();
    assert!(small.receive_buffer_bytes >= 16 << 10 && small.send_buffer_bytes >= 16 << 10);
    assert!(huge.receive_buffer_bytes > small.receive_buffer_bytes);
    assert!(huge.receive_buffer_bytes < 1 << 30 || std::fs::read_to_string("/proc/sys/net/core/rmem_max").is_err());
}

#[test]
fn addresses_that_cannot_be_used() {
    let mut bench = Bench::new();
    let first = bench.bind("127.0.0.1:0");
    let mut bind = |local: SocketAddr| bench.network.bind(local, DatagramOptions::default()).map(drop);
    assert_eq!(bind(first.local_address().ip().unwrap()), Err(PortError::AddressInUse));
    assert_eq!(bind("192.0.2.1:0".parse().unwrap()), Err(PortError::AddressNotLocal));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn however_the_bytes_are_cut_into_pieces(
        cuts in proptest::collection::vec(0..3000usize, 1..40),
        segment in 1..2000usize,
        offload: bool,
    ) {
        let mut bench = Bench::new();
        let options = DatagramOptions { offload, ..PLAIN };
        let (mut a, mut b) = (bench.bind_with("127.0.0.1:0", options), bench.bind_with("127.0.0.1:0", options));
        let bytes = numbered(cuts.iter().sum());
        let mut rest = &bytes[..];
        let pieces: Vec<_> = cuts.iter().map(|length| {
            let (piece, later) = rest.split_at(*length);
            rest = later;
            Piece::Bytes(piece)
        }).collect();
        let DatagramSent::Taken(count) = a.send(&batch(b.local_address(), segment as u32), &pieces).unwrap() else {
            panic!("too large");
        };
        let count = count as usize;
        // As many as a call takes: all, if their bytes fit, though the last be a short one.
        let all = bytes.len().div_ceil(segment).min(64);
        let fits = (all * segment).min(bytes.len()) <= BATCH_BYTES as usize;
        prop_assert_eq!(count, if fits { all } else { BATCH_BYTES as usize / segment });
        if count > 0 {
            let (datagrams, _) = bench.datagrams(&mut b, count);
            let expected: Vec<_> = bytes.chunks(segment).take(count).map(<[u8]>::to_vec).collect();
            prop_assert_eq!(datagrams, expected);
        }
    }
}
