//! Byte streams over the kernel's network: both ends of Weft, and ordinary sockets at the other end.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use weft::stream::{Stream, StreamListener};
use weft::verbs::{Context, Progress, Settings};

const LENGTH: usize = 3 << 20;

fn anywhere() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn bytes(seed: usize) -> Vec<u8> {
    (0..LENGTH).map(|at| (at * 7 + at / 251 + seed) as u8).collect()
}

fn pair(context: &Context) -> (Stream, Stream) {
    let listener = StreamListener::bind(context, anywhere()).unwrap();
    let caller = Stream::connect(context, listener.local_address()).unwrap();
    let (called, remote) = listener.accept().unwrap();
    assert_eq!((remote, called.peer_address()), (caller.local_address(), caller.local_address()));
    assert_eq!(caller.peer_address(), listener.local_address());
    (caller, called)
}

/// Writes and reads at the same time, by two threads, until the other end has written all.
fn exchange(stream: &Stream, seed: usize, other: usize) {
    thread::scope(|scope| {
        scope.spawn(|| {
            (&*stream).write_all(&bytes(seed)).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        let mut came = Vec::new();
        (&*stream).read_to_end(&mut came).unwrap();
        assert!(came == bytes(other));
    });
}

#[test]
fn bulk_goes_both_ways_however_the_nic_is_run() {
    for progress in [Progress::Hybrid, Progress::Thread, Progress::Caller] {
        let context = Context::with_settings(Settings { progress, ..Settings::default() }).unwrap();
        let (caller, called) = pair(&context);
        thread::scope(|scope| {
            scope.spawn(|| exchange(&caller, 1, 2));
            exchange(&called, 2, 1);
        });
    }
}

#[test]
fn ordinary_sockets_are_peers_in_both_roles() {
    let context = Context::open().unwrap();
    let listener = StreamListener::bind(&context, anywhere()).unwrap();
    let mut kernel = TcpStream::connect(listener.local_address()).unwrap();
    let (mut called, _) = listener.accept().unwrap();
    kernel.write_all(b"question").unwrap();
    kernel.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    called.read_to_string(&mut text).unwrap();
    // The other direction is still open.
    called.write_all(b"answer").unwrap();
    drop(called);
    kernel.read_to_string(&mut text).unwrap();
    assert_eq!(text, "questionanswer");

    let kernel = TcpListener::bind(anywhere()).unwrap();
    let mut caller = Stream::connect(&context, kernel.local_addr().unwrap()).unwrap();
    let (mut accepted, _) = kernel.accept().unwrap();
    caller.write_all(b"hello").unwrap();
    caller.shutdown(Shutdown::Both).unwrap();
    let mut text = String::new();
    accepted.read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello");
    assert_eq!(caller.write(b"more").unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert_eq!(caller.read(&mut [0; 4]).unwrap(), 0);
}

#[test]
fn what_fails_has_the_kind_of_a_socket_s() {
    let context = Context::open().unwrap();
    let listener = StreamListener::bind(&context, anywhere()).unwrap();
    let at = listener.local_address();
    assert_eq!(StreamListener::bind(&context, at).unwrap_err().kind(), ErrorKind::AddrInUse);
    let nobody_s = "192.0.2.1:1".parse().unwrap();
    assert_eq!(StreamListener::bind(&context, nobody_s).unwrap_err().kind(), ErrorKind::AddrNotAvailable);
    listener.set_nonblocking(true);
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    let short = Duration::from_millis(5);
    listener.set_nonblocking(false);
    assert_eq!(listener.accept_timeout(short).unwrap_err().kind(), ErrorKind::TimedOut);
    drop(listener);
    assert_eq!(Stream::connect(&context, at).unwrap_err().kind(), ErrorKind::ConnectionRefused);

    let (mut caller, mut called) = pair(&context);
    caller.set_nonblocking(true);
    assert_eq!(caller.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::WouldBlock);
    caller.set_nonblocking(false);
    caller.set_read_timeout(Some(short)).unwrap();
    assert_eq!(caller.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::TimedOut);
    assert_eq!(caller.set_read_timeout(Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::InvalidInput);
    caller.set_write_timeout(Some(short)).unwrap();
    let full = loop {
        if let Err(error) = caller.write(&[0; 65_536]) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::TimedOut);
    caller.abort();
    let mut rest = Vec::new();
    assert_eq!(called.read_to_end(&mut rest).unwrap_err().kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_shut_down_ends_a_read_that_waits() {
    let context = Context::open().unwrap();
    let (caller, _called) = pair(&context);
    thread::scope(|scope| {
        let reads = scope.spawn(|| (&caller).read(&mut [0; 4]));
        thread::yield_now();
        caller.shutdown(Shutdown::Read).unwrap();
        assert_eq!(reads.join().unwrap().unwrap(), 0);
    });
}
