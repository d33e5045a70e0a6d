//! Weft's own TCP through a shaped rail, whose bridge takes no frame that is longer than the MTU: what leaves there is
//! cut before, whatever the devices of the hosts say that they could do.
//!
//! Where this system allows no namespaces, or lacks a program, each test says so and passes.

mod kernel;

use std::env;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use kernel::{ROLE, Worker, byte, say};
use weft_base::{Interest, Network, Piece, Port, PortOptions, Token};
use weft_lab::{BridgeProgram, Carrier, Lab, Link, Plan, Shape, serve_bridge};
use weft_link::{LinkNetwork, LinkPort};
use weft_memory::{Limits, Registry};
use weft_tcp::Counters;

/// Nothing here takes this long; a wait without result fails then.
const PATIENCE: Duration = Duration::from_secs(120);
const BYTES: usize = 1_000_000;
const RAIL: Link = Link { host: None, rail: 0 };

/// Two hosts whose devices take frames of 64 KiB, and a rail between them that loses nothing.
fn lab() -> Option<Lab> {
    let mut lab =
        match Lab::up(&Plan { links: 1, rate: None, switch: true, carrier: Some(Carrier::Rings), ..Plan::default() }) {
            Ok(lab) => lab,
            Err(error) if error.cannot_be_had() => {
                println!("skipped: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
    let shape = Shape {
        rate: Some("100M".parse().unwrap()),
        // More than is in flight at once: nothing is dropped.
        queue_bytes: Some(4_000_000),
        delay: Duration::from_millis(1),
        ..Shape::default()
    };
    let program = BridgeProgram {
        program: env::current_exe().unwrap(),
        arguments: ["--exact", "worker", "--nocapture", "--quiet"].map(Into::into).to_vec(),
        environment: vec![(ROLE.into(), "bridge".into())],
    };
    lab.shape(RAIL, &shape, &program).unwrap();
    Some(lab)
}

/// What a worker does; without a role it is no test.
#[test]
fn worker() {
    let Ok(role) = env::var(ROLE) else { return };
    match role.split(' ').collect::<Vec<_>>()[..] {
        ["bridge"] => serve_bridge().unwrap(),
        ["takes", address] => takes(address),
        ["sends", remote] => sends(remote.parse().unwrap()),
        ["kernel-sends", remote] => kernel_sends(remote.parse().unwrap()),
        _ => panic!("{role:?} is no role"),
    }
}

/// Takes streams by the kernel's TCP, and says of each when all is there.
fn takes(address: &str) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    say(&listener.local_addr().unwrap().port().to_string());
    for stream in listener.incoming() {
        let (mut stream, mut came) = (stream.unwrap(), Vec::new());
        stream.read_to_end(&mut came).unwrap();
        let is_good = came.iter().enumerate().all(|(at, have)| *have == byte(at));
        say(if is_good { "good" } else { "wrong" });
        stream.write_all(b".").unwrap();
    }
}

fn kernel_sends(remote: SocketAddr) {
    let bytes: Vec<u8> = (0..BYTES).map(byte).collect();
    let began = Instant::now();
    let mut stream = TcpStream::connect(remote).unwrap();
    stream.write_all(&bytes).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    stream.read_exact(&mut [0]).unwrap();
    say(&format!("{}", began.elapsed().as_millis()));
}

/// The same by Weft's own TCP; prints the milliseconds, the segments that were sent and retransmitted, and the trains.
fn sends(remote: SocketAddr) {
    let registry = Registry::new(77, Limits::default());
    let mut network = LinkNetwork::with_link(registry, "rail0=10.0.0.77/24".parse().unwrap()).unwrap();
    let bytes: Vec<u8> = (0..BYTES).map(byte).collect();
    let began = Instant::now();
    let mut port = network.connect(remote, PortOptions::default()).unwrap();
    let mut sent = 0;
    let counters = loop {
        assert!(began.elapsed() < PATIENCE, "it hangs: {:?}", port.counters());
        if port.poll_connected().unwrap() && sent < bytes.len() {
            sent += port.send(&[Piece::Bytes(&bytes[sent..])]).unwrap();
            if sent == bytes.len() {
                port.close_send();
            }
        }
        if let Some(counters) = all_acknowledged(&port, sent) {
            break counters;
        }
        let interest = Interest { readable: false, writable: sent < bytes.len(), least: 1 };
        network.arm_port(&mut port, Token(1), interest).unwrap();
        network.wait(Some(Duration::from_millis(1)), &mut Vec::new()).unwrap();
    };
    let Counters { sent, retransmitted, trains, .. } = counters;
    say(&format!("{} {sent} {retransmitted} {trains}", began.elapsed().as_millis()));
}

fn all_acknowledged(port: &LinkPort, sent: usize) -> Option<Counters> {
    port.counters().filter(|_| sent == BYTES && port.unacknowledged() == 0)
}

/// What own TCP did.
struct Done {
    millis: u64,
    again: u64,
    trains: u64,
}

/// Own TCP sends from the first host to the second.
fn send(lab: &Lab, taker: &mut Worker, remote: SocketAddr) -> Done {
    let mut own = Worker::start(lab.host(0), &format!("sends {remote}"));
    let said = own.says();
    let numbers: Vec<u64> = said.split(' ').map(|word| word.parse().unwrap()).collect();
    let [millis, sent, again, trains] = numbers[..] else { panic!("{said}") };
    assert!(taker.says() == "good" && own.succeeds());
    println!("{millis} ms, {sent} segments, {again} of them again, {trains} trains");
    Done { millis, again, trains }
}

/// What the device of the first host says that it takes.
fn set_limits(lab: &Lab, limits: &str) {
    let words = format!("link set rail0 {limits}");
    let output = lab.host(0).command("ip").args(words.split(' ')).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn taker(lab: &Lab) -> (Worker, SocketAddr) {
    let address = lab.host(1).address(0);
    let mut taker = Worker::start(lab.host(1), &format!("takes {address}"));
    let remote = SocketAddr::new(address, taker.says().parse().unwrap());
    (taker, remote)
}

/// What is retransmitted is counted, not the time, which is the machine's. Frames of many segments would all vanish,
/// and every segment would be retransmitted, one for each time-out.
#[test]
fn a_shaped_rail_carries_own_tcp_as_it_carries_the_kernel_s() {
    let Some(lab) = lab() else { return };
    let (mut taker, remote) = taker(&lab);
    let own = send(&lab, &mut taker, remote);
    let mut kernel = Worker::start(lab.host(0), &format!("kernel-sends {remote}"));
    let kernel_s: u64 = kernel.says().parse().unwrap();
    assert!(taker.says() == "good" && kernel.succeeds());
    println!("own TCP {} ms, the kernel's {kernel_s} ms", own.millis);
    assert_eq!(own.trains, 0);
    assert!(own.again <= 35, "{} of 700 segments were sent again, and none was lost", own.again);
}

/// The kernel itself would not cut them: of such frames it does not know the number of segments in time.
#[test]
fn a_device_that_takes_one_segment_gets_no_train() {
    let Some(lab) = lab() else { return };
    set_limits(&lab, "gso_max_segs 1 gso_max_size 65536");
    let (mut taker, remote) = taker(&lab);
    assert_eq!(send(&lab, &mut taker, remote).trains, 0);
}

/// The device says that it cuts frames of 64 KiB, and hands them to a bridge that does not.
#[test]
fn where_a_device_promises_more_than_its_path_keeps_trains_end() {
    let Some(lab) = lab() else { return };
    set_limits(&lab, "gso_max_segs 65535 gso_max_size 65536");
    let (mut taker, remote) = taker(&lab);
    let done = send(&lab, &mut taker, remote);
    assert!((1..=6).contains(&done.trains), "{} trains", done.trains);
    assert!(done.again <= 200, "{} of 700 segments were sent again: those of a few trains are lost", done.again);
}
