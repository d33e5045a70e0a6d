//! Many short connections to a listener of Weft's own TCP, which closes first, and ends that are used again at once.
//!
//! Where this system allows no namespaces, or lacks a program, each test says so and passes.

mod kernel;

use std::env;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use kernel::{ROLE, Worker, say};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use weft_base::{Backlog, Listener, Network, Port, PortOptions, Token};
use weft_lab::{Lab, Plan};
use weft_link::LinkNetwork;
use weft_memory::{Limits, Registry};

/// Nothing here takes this long; a wait without result fails then.
const PATIENCE: Duration = Duration::from_secs(60);
const OURS: &str = "10.0.0.77:7000";
/// If each had one of the 1024 places of streams for the 10 s of TIME-WAIT, these would take 70 s; they take about 5.
const CALLS: usize = 8000;
const CALLERS: usize = 20;

/// What a worker does; without a role it is no test.
#[test]
fn worker() {
    let Ok(role) = env::var(ROLE) else { return };
    match role.split(' ').collect::<Vec<_>>()[..] {
        ["serves"] => serves(),
        ["calls"] => calls(),
        ["calls-again"] => calls_again(),
        _ => panic!("{role:?} is no role"),
    }
}

/// Closes each stream as soon as it is there, until it is killed.
fn serves() {
    let registry = Registry::new(77, Limits::default());
    let mut network = LinkNetwork::with_link(registry, "rail0=10.0.0.77/24".parse().unwrap()).unwrap();
    let mut listener = network.listen(OURS.parse().unwrap(), Backlog(64), PortOptions::default()).unwrap();
    say("ready");
    loop {
        while let Some(mut port) = listener.accept().unwrap() {
            port.close_send();
        }
        network.arm_listener(&listener, Token(1)).unwrap();
        network.wait(Some(Duration::from_secs(1)), &mut Vec::new()).unwrap();
    }
}

/// Each call gets the end of the stream, and not a reset.
fn calls() {
    let remote: SocketAddr = OURS.parse().unwrap();
    let began = Instant::now();
    let one = move || {
        for _ in 0..CALLS / CALLERS {
            let mut stream = TcpStream::connect_timeout(&remote, PATIENCE).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
        }
    };
    let callers: Vec<_> = (0..CALLERS).map(|_| thread::spawn(one)).collect();
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    say(&began.elapsed().as_millis().to_string());
}

/// From one port, again and again: the earlier connection is in TIME-WAIT at the other side, and the kernel sends its
/// SYN again after 1 s, 2 s, 4 s, as long as it is not answered.
fn calls_again() {
    let began = Instant::now();
    for round in 0..10 {
        let mut stream = loop {
            match call_from(50_000) {
                Ok(stream) => break stream,
                // The last acknowledgement of the earlier one has not come yet.
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable && began.elapsed() < PATIENCE => {
                    thread::sleep(Duration::from_millis(1));
                }
                Err(error) => panic!("round {round}: {error}"),
            }
        };
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "round {round}");
    }
    say(&began.elapsed().as_millis().to_string());
}

fn call_from(port: u16) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&SockAddr::from(SocketAddr::from(([0, 0, 0, 0], port))))?;
    socket.connect_timeout(&SockAddr::from(OURS.parse::<SocketAddr>().unwrap()), PATIENCE)?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn lab() -> Option<(Lab, Worker)> {
    let lab = match Lab::up(&Plan { links: 1, rate: None, switch: true, ..Plan::default() }) {
        Ok(lab) => lab,
        Err(error) if error.cannot_be_had() => {
            println!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let mut server = Worker::start(lab.host(0), "serves");
    assert_eq!(server.says(), "ready");
    Some((lab, server))
}

fn within_patience(millis: &str) {
    println!("{millis} ms");
    assert!(Duration::from_millis(millis.parse().unwrap()) < PATIENCE, "it took {millis} ms");
}

#[test]
fn a_listener_that_closes_first_takes_more_calls_than_it_has_places() {
    let Some((lab, mut server)) = lab() else { return };
    let mut callers = Worker::start(lab.host(1), "calls");
    within_patience(&callers.says());
    assert!(callers.succeeds());
    server.kill();
}

/// Calls that wait for the end of TIME-WAIT take 10 s each.
#[test]
fn the_ends_of_a_connection_in_time_wait_are_used_again_by_a_newer_call() {
    let Some((lab, mut server)) = lab() else { return };
    let mut caller = Worker::start(lab.host(1), "calls-again");
    within_patience(&caller.says());
    assert!(caller.succeeds());
    server.kill();
}
