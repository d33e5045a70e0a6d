//! Connecting: addresses, listeners, children by fork.

use super::*;

#[test]
fn connect_and_accept() {
    let mut bench = Bench::new();
    let mut families = vec!["127.0.0.1:0"];
    families.extend(has_ipv6().then_some("[::1]:0"));
    for local in families {
        let mut listener = bench.listen(local);
        assert!(listener.accept().unwrap().is_none());
        let remote = listener.local_address();
        let (mut active, mut passive) = bench.connect(&mut listener, remote, PortOptions::default());
        assert_eq!(active.remote_address(), remote);
        assert_eq!(passive.local_address().unwrap(), remote);
        assert_eq!(passive.remote_address(), active.local_address().unwrap());
        assert_eq!(passive.poll_connected(), Ok(true));
        assert!(active.segment_size() > 1000 && passive.segment_size() > 1000);
        assert_eq!(active.send(&[Piece::Bytes(b"hello")]), Ok(5));
        assert_eq!(bench.receive_exactly(&mut passive, 5), b"hello");
    }
}

#[test]
fn the_unspecified_ipv6_address_accepts_both() {
    if !has_ipv6() {
        return;
    }
    let mut bench = Bench::new();
    let mut listener = bench.listen("[::]:0");
    let number = listener.local_address().port();
    for remote in ["127.0.0.1", "::1"] {
        let remote = SocketAddr::new(remote.parse().unwrap(), number);
        let (active, passive) = bench.connect(&mut listener, remote, PortOptions::default());
        assert_eq!(passive.local_address().unwrap(), remote);
        assert_eq!(passive.remote_address(), active.local_address().unwrap());
    }
}

#[test]
fn a_local_address_can_be_chosen() {
    let mut bench = Bench::new();
    let mut listener = bench.listen("127.0.0.1:0");
    let remote = listener.local_address();
    let options = PortOptions { local: Some("127.0.0.2:0".parse().unwrap()), ..PortOptions::default() };
    let (active, passive) = bench.connect(&mut listener, remote, options);
    assert_eq!(active.local_address().unwrap().ip().to_string(), "127.0.0.2");
    assert_eq!(passive.remote_address().ip().to_string(), "127.0.0.2");
}

#[test]
fn nobody_listens() {
    let mut bench = Bench::new();
    // Bound but not listening: no other process can take the port number meanwhile.
    let holder = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    holder.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    let remote = holder.local_addr().unwrap().as_socket().unwrap();
    let mut port = bench.network.connect(remote, PortOptions::default()).unwrap();
    assert_eq!(bench.connected(&mut port), Err(PortError::Refused));
    assert_eq!(port.poll_connected(), Err(PortError::Refused), "it stays so");
    assert_eq!(port.send(&[Piece::Bytes(b"x")]), Err(PortError::Refused));
    assert_eq!(port.receive(&mut [ReceivePiece::Staging(&mut [0])]), Err(PortError::Refused));
}

#[test]
fn a_child_keeps_no_peer_waiting() {
    let (mut bench, mut other) = (Bench::new(), Bench::new());
    let listener = bench.listen("127.0.0.1:0");
    let address = listener.local_address();
    let (active, mut passive) = bench.pair();
    let (mut here, mut there) = other.pair();
    let child = fork::Sleeper::new();
    // What the parent ends has ended, while the child lives ...
    drop((active, listener));
    bench.network.arm_port(&mut passive, Token(5), READ).unwrap();
    assert!(bench.wait().iter().any(|ready| ready.token == Token(5) && ready.readable));
    assert_eq!(passive.receive(&mut [ReceivePiece::Staging(&mut [0])]), Ok(Received::End));
    let mut late = bench.network.connect(address, PortOptions::default()).unwrap();
    assert_eq!(bench.connected(&mut late), Err(PortError::Refused));
    // ... and its other connections still work.
    assert_eq!(here.send(&[Piece::Bytes(b"x")]), Ok(1));
    other.network.arm_port(&mut there, Token(6), READ).unwrap();
    assert!(other.wait().iter().any(|ready| ready.token == Token(6) && ready.readable));
    drop(child);
}

#[test]
fn a_child_may_use_the_numbers_of_sockets_and_drop_copies() {
    let mut bench = Bench::new();
    let (mut active, mut passive) = bench.pair();
    let number = active.descriptor().unwrap().as_raw_fd();
    let status = fork::in_child(|| {
        // SAFETY: Checks a number; only the copy in this child is dropped.
        unsafe {
            let mut kind = 0;
            let mut length = size_of_val(&kind) as libc::socklen_t;
            libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_DOMAIN, (&raw mut kind).cast(), &raw mut length);
            drop(core::ptr::read(&raw const active));
            core::ffi::c_int::from(kind == libc::AF_UNIX && libc::fcntl(number, libc::F_GETFD) >= 0)
        }
    });
    assert_eq!(status, 1, "the number is taken, by nothing of the parent's");
    assert_eq!(active.send(&[Piece::Bytes(b"x")]), Ok(1));
    bench.network.arm_port(&mut passive, Token(5), READ).unwrap();
    assert!(bench.wait().iter().any(|ready| ready.token == Token(5)));
}

#[test]
fn addresses_that_cannot_be_used() {
    let mut bench = Bench::new();
    let listener = bench.listen("127.0.0.1:0");
    let options = PortOptions::default();
    let twice = bench.network.listen(listener.local_address(), Backlog(1), options).map(drop);
    assert_eq!(twice, Err(PortError::AddressInUse));
    // No host has TEST-NET-1 (RFC 5737).
    let foreign: SocketAddr = "192.0.2.1:0".parse().unwrap();
    assert_eq!(bench.network.listen(foreign, Backlog(1), options).map(drop), Err(PortError::AddressNotLocal));
    let from_there = PortOptions { local: Some(foreign), ..options };
    let connected = bench.network.connect(listener.local_address(), from_there).map(drop);
    assert_eq!(connected, Err(PortError::AddressNotLocal));
}
