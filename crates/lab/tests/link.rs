//! A host in user space on a real link (`weft-link`) and the kernel's TCP, through a link that loses and reorders
//! frames: each calls the other, and what is sent comes back.
//!
//! Where this system allows no namespaces, or lacks a program, each test says so and passes.

mod kernel;

use std::env;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use kernel::{ROLE, Worker, byte, kernel_calls, kernel_echo, say};
use weft_base::{
    Backlog, Interest, Listener, Network, Piece, Port, PortError, PortOptions, ReceivePiece, Received, Token,
};
use weft_lab::{BridgeProgram, Lab, Link, Plan, Shape, serve_bridge};
use weft_link::{LinkNetwork, LinkPort};
use weft_memory::{Limits, Registry};

/// Nothing here takes this long; what waits in vain fails then.
const PATIENCE: Duration = Duration::from_secs(120);
/// An address of the link that no kernel has, and one that nobody has.
const OURS: &str = "rail0=10.0.0.77/24";
const OUR_ADDRESS: &str = "10.0.0.77:7000";
const NOBODY: &str = "10.0.0.99:7000";
const RAIL: Link = Link { host: None, rail: 0 };

fn bytes_to_send() -> usize {
    env::var("WEFT_LINK_BYTES").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000_000)
}

/// Two hosts, and a link between them that is worse than most.
fn lab() -> Option<Lab> {
    let mut lab = match Lab::up(&Plan { links: 1, rate: None, switch: true, offloads: false, ..Plan::default() }) {
        Ok(lab) => lab,
        Err(error) if error.cannot_be_had() => {
            println!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let shape = Shape {
        loss_millionths: 10_000,
        reorder_millionths: 50_000,
        reorder_by: Duration::from_millis(1),
        duplicate_millionths: 5000,
        corrupt_millionths: 1000,
        // Two can cancel out in a checksum of 16 bits, which is all that TCP has.
        corrupt_bits: Some(1),
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
        ["kernel-echo", address] => kernel_echo(address.parse().unwrap()),
        ["kernel-calls", address] => kernel_calls(address.parse().unwrap(), bytes_to_send()),
        ["calls", address] => calls(address.parse().unwrap()),
        ["echo"] => echo(),
        ["fails", closed, nobody] => fails(closed.parse().unwrap(), nobody.parse().unwrap()),
        _ => panic!("{role:?} is no role"),
    }
}

/// A network of the link, and the waiting for it.
struct Own {
    network: LinkNetwork,
    began: Instant,
}

impl Own {
    fn new() -> Self {
        let registry = Registry::new(77, Limits::default());
        Self { network: LinkNetwork::with_link(registry, OURS.parse().unwrap()).unwrap(), began: Instant::now() }
    }

    /// Sleeps until the port is ready for that.
    fn sleep(&mut self, port: &mut LinkPort, readable: bool, writable: bool) {
        let interest = Interest { readable, writable, least: 1 };
        self.network.arm_port(port, Token(1), interest).unwrap();
        self.wait();
    }

    fn wait(&mut self) {
        let mut ready = Vec::new();
        while ready.is_empty() {
            assert!(self.began.elapsed() < PATIENCE, "it hangs");
            self.network.wait(Some(Duration::from_secs(1)), &mut ready).unwrap();
        }
    }

    fn connect(&mut self, remote: SocketAddr) -> Result<LinkPort, PortError> {
        let mut port = self.network.connect(remote, PortOptions::default())?;
        while !port.poll_connected()? {
            self.sleep(&mut port, false, true);
        }
        assert!(matches!(port, LinkPort::Own(_)) && port.remote_address() == remote);
        Ok(port)
    }

    /// Until the peer has all, the end included.
    fn finish(&mut self, port: &LinkPort) {
        while port.unacknowledged() > 0 {
            assert!(self.began.elapsed() < PATIENCE, "it hangs");
            self.network.wait(Some(Duration::from_millis(1)), &mut Vec::new()).unwrap();
        }
    }
}

fn receive(port: &mut LinkPort, buffer: &mut [u8]) -> Received {
    let (first, second) = buffer.split_at_mut(100);
    port.receive(&mut [ReceivePiece::Staging(first), ReceivePiece::Staging(second)]).unwrap()
}

/// Calls the kernel, sends all, and wants it back.
fn calls(remote: SocketAddr) {
    let mut own = Own::new();
    let mut port = own.connect(remote).unwrap();
    let bytes: Vec<u8> = (0..bytes_to_send()).map(byte).collect();
    let (mut sent, mut came, mut buffer) = (0, Vec::new(), vec![0; 50_000]);
    loop {
        let rest = &bytes[sent..];
        let half = rest.len() / 2;
        let taken = port.send(&[Piece::Bytes(&rest[..half]), Piece::Bytes(&rest[half..])]).unwrap();
        sent += taken;
        if taken > 0 && sent == bytes.len() {
            port.close_send();
        }
        match receive(&mut port, &mut buffer) {
            Received::Bytes(length) => came.extend_from_slice(&buffer[..length]),
            Received::Nothing if taken == 0 => own.sleep(&mut port, true, sent < bytes.len()),
            Received::Nothing => {}
            Received::End => break,
        }
    }
    assert!(came == bytes, "what comes back is something else: {} bytes", came.len());
    own.finish(&port);
    say("done");
}

/// Takes a call, and sends back what comes.
fn echo() {
    let mut own = Own::new();
    let address: SocketAddr = OUR_ADDRESS.parse().unwrap();
    let mut listener = own.network.listen(address, Backlog(4), PortOptions::default()).unwrap();
    let again = own.network.listen(address, Backlog(4), PortOptions::default());
    assert_eq!(again.unwrap_err(), PortError::AddressInUse);
    say("ready");
    let mut port = loop {
        own.network.arm_listener(&listener, Token(2)).unwrap();
        own.wait();
        if let Some(port) = listener.accept().unwrap() {
            break port;
        }
    };
    let (mut waiting, mut buffer) = (Vec::new(), vec![0; 50_000]);
    loop {
        let came = if waiting.len() < 100_000 { receive(&mut port, &mut buffer) } else { Received::Nothing };
        if let Received::Bytes(length) = came {
            waiting.extend_from_slice(&buffer[..length]);
        }
        let taken = port.send(&[Piece::Bytes(&waiting)]).unwrap();
        waiting.drain(..taken);
        match came {
            Received::End if waiting.is_empty() => break,
            Received::Nothing | Received::End if taken == 0 => {
                own.sleep(&mut port, waiting.len() < 100_000 && came == Received::Nothing, !waiting.is_empty());
            }
            _ => {}
        }
    }
    port.close_send();
    own.finish(&port);
    say("done");
}

/// Nobody listens there; nobody is there.
fn fails(closed: SocketAddr, nobody: SocketAddr) {
    let mut own = Own::new();
    assert_eq!(own.connect(closed).unwrap_err(), PortError::Refused);
    assert_eq!(own.connect(nobody).unwrap_err(), PortError::Unreachable);
    say("done");
}

#[test]
fn the_link_calls_the_kernel() {
    let Some(lab) = lab() else { return };
    let mut kernel = Worker::start(lab.host(1), &format!("kernel-echo {}", lab.host(1).address(0)));
    let remote = SocketAddr::new(lab.host(1).address(0), kernel.says().parse().unwrap());
    let mut own = Worker::start(lab.host(0), &format!("calls {remote}"));
    assert!(own.says() == "done" && own.succeeds());
    assert!(kernel.says() == "done" && kernel.succeeds());
}

#[test]
fn the_kernel_calls_the_link() {
    let Some(lab) = lab() else { return };
    let mut own = Worker::start(lab.host(0), "echo");
    assert_eq!(own.says(), "ready");
    let mut kernel = Worker::start(lab.host(1), &format!("kernel-calls {OUR_ADDRESS}"));
    assert!(kernel.says() == "done" && kernel.succeeds());
    assert!(own.says() == "done" && own.succeeds());
}

#[test]
fn who_is_not_there_is_told_from_who_does_not_listen() {
    let Some(lab) = lab() else { return };
    let closed = SocketAddr::new(lab.host(1).address(0), 9);
    let mut fails = Worker::start(lab.host(0), &format!("fails {closed} {NOBODY}"));
    assert!(fails.says() == "done" && fails.succeeds());
}
