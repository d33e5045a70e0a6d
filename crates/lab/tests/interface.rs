//! What Weft's own TCP and the NIC above it do when the interface of their link goes down, comes up, is deleted and is
//! made again. Each turn of the waiting is counted: an interface that is not there costs a few, not a processor.
//!
//! Where this system allows no namespaces, or lacks a program, each test says so and passes.

mod kernel;

use std::env;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernel::{ROLE, Worker, say};
use weft_base::{
    Backlog, DatagramBatch, DatagramOptions, DatagramPort, Ecn, Interest, InterfaceName, Listener, Network, Piece,
    Port, PortAddress, PortError, PortOptions, ReceivePiece, Received, Token,
};
use weft_lab::{Host, Lab, Plan};
use weft_link::{LinkDatagram, LinkListener, LinkNetwork, LinkPort};
use weft_memory::{Limits, Registry};

/// Nothing here takes this long; a wait without result fails then.
const PATIENCE: Duration = Duration::from_secs(60);
const LINK: &str = "c0=10.7.0.77/24";
const OURS: &str = "10.7.0.77:7000";
const LISTENER: Token = Token(1);
const STREAM: Token = Token(2);
/// Turns of the waiting in a test. A wait that finds something readable that no call reads makes as many in a
/// millisecond.
const TURNS: u64 = 2000;

/// A lab, of which one host is all that is needed: it has both ends of a cable.
fn lab() -> Option<Lab> {
    match Lab::up(&Plan { links: 1, rate: None, ..Plan::default() }) {
        Ok(lab) => Some(lab),
        Err(error) if error.cannot_be_had() => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn ip(host: &Host, line: &str) {
    let output = host.command("ip").args(line.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {line}: {output:?}");
}

fn make(host: &Host) {
    ip(host, "link add c0 type veth peer name c1");
    ip(host, "link set c0 up");
    ip(host, "address add 10.7.0.1/24 dev c1");
    ip(host, "link set c1 up");
}

/// What a worker does; without a role it is no test.
#[test]
fn worker() {
    let Ok(role) = env::var(ROLE) else { return };
    match role.split(' ').collect::<Vec<_>>()[..] {
        ["serves"] => Server::new().serve(),
        ["datagrams", folder] => datagrams(Path::new(folder)),
        ["pings", folder, rounds] => pings(Path::new(folder), rounds.parse().unwrap()),
        _ => panic!("{role:?} is no role"),
    }
}

/// The kernel's TCP sends a byte and wants it back, each time that there is a file of the round's number.
fn pings(folder: &Path, rounds: u32) {
    let remote: SocketAddr = OURS.parse().unwrap();
    let mut stream = TcpStream::connect_timeout(&remote, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    say("connected");
    for round in 0..rounds {
        while !folder.join(round.to_string()).exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        stream.write_all(b"x").unwrap();
        let came = stream.read_exact(&mut [0]);
        say(if came.is_ok() { "pong" } else { "nothing" });
    }
}

/// A peer that calls, and pings on command.
struct Caller {
    worker: Worker,
    folder: PathBuf,
    round: u32,
}

impl Caller {
    fn start(host: &Host, name: &str) -> Self {
        let folder = env::temp_dir().join(format!("weft-interface-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut worker = Worker::start(host, &format!("pings {} 100", folder.display()));
        assert_eq!(worker.says(), "connected");
        Self { worker, folder, round: 0 }
    }

    fn ping(&mut self) {
        std::fs::write(self.folder.join(self.round.to_string()), []).unwrap();
        self.round += 1;
        assert_eq!(self.worker.says(), "pong");
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.worker.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Takes calls by own TCP, sends back what comes, and tells of errors. It ends when both ways to it have failed.
struct Server {
    network: LinkNetwork,
    listener: LinkListener,
    streams: Vec<LinkPort>,
    turns: u64,
}

impl Server {
    fn new() -> Self {
        let registry = Registry::new(77, Limits::default());
        let mut network = LinkNetwork::with_link(registry, LINK.parse().unwrap()).unwrap();
        let listener = network.listen(OURS.parse().unwrap(), Backlog(4), PortOptions::default()).unwrap();
        Self { network, listener, streams: Vec::new(), turns: 0 }
    }

    fn serve(mut self) {
        say("ready");
        let began = Instant::now();
        loop {
            assert!(began.elapsed() < PATIENCE, "nothing ends");
            match self.listener.accept() {
                Ok(port) => self.streams.extend(port),
                Err(error) => break self.end(error),
            }
            self.echo();
            self.network.arm_listener(&self.listener, LISTENER).unwrap();
            for port in &mut self.streams {
                let interest = Interest { readable: true, writable: false, least: 1 };
                self.network.arm_port(port, STREAM, interest).unwrap();
            }
            self.network.wait(Some(Duration::from_secs(1)), &mut Vec::new()).unwrap();
            self.turns += 1;
        }
    }

    fn echo(&mut self) {
        for port in &mut self.streams {
            let mut buffer = [0; 100];
            if let Ok(Received::Bytes(length)) = port.receive(&mut [ReceivePiece::Staging(&mut buffer)]) {
                assert_eq!(port.send(&[Piece::Bytes(&buffer[..length])]).unwrap(), length);
            }
        }
    }

    /// Streams have the same error, and so have new ones, until the interface is there again.
    fn end(mut self, error: PortError) {
        assert_eq!(error, PortError::InterfaceGone(InterfaceName::new("c0")));
        for port in &mut self.streams {
            let mut buffer = [0; 100];
            assert_eq!(port.receive(&mut [ReceivePiece::Staging(&mut buffer)]), Err(error));
            assert_eq!(port.send(&[Piece::Bytes(b"x")]), Err(error));
        }
        let remote = "10.7.0.1:9".parse().unwrap();
        assert_eq!(self.network.connect(remote, PortOptions::default()).unwrap_err(), error);
        assert_eq!(error.to_string().split(':').next(), Some("the network interface c0 is gone"));
        say(&format!("{} {}", self.streams.len(), self.turns));
        let began = Instant::now();
        let turns = self.turns;
        // As long as the test takes to make it again. The address is the old listener's as long as that is not closed.
        let other = "10.7.0.77:7001".parse().unwrap();
        let _listener = loop {
            assert!(began.elapsed() < PATIENCE, "it is not found again");
            self.network.wait(Some(Duration::from_secs(1)), &mut Vec::new()).unwrap();
            self.turns += 1;
            match self.network.listen(other, Backlog(4), PortOptions::default()) {
                Ok(listener) => break listener,
                Err(again) => assert_eq!(again, error),
            }
        };
        say(&format!("{}", self.turns - turns));
        self.call();
    }

    /// Calls by the new interface.
    fn call(&mut self) {
        let remote = "10.7.0.1:9".parse().unwrap();
        let mut port = self.network.connect(remote, PortOptions::default()).unwrap();
        let refused = loop {
            match port.poll_connected() {
                Ok(false) => self.network.wait(Some(Duration::from_millis(50)), &mut Vec::new()).unwrap(),
                other => break other,
            }
        };
        assert_eq!(refused, Err(PortError::Refused), "the kernel answers");
        say("again");
    }
}

/// One end of a cable, and a datagram port there.
struct End {
    network: LinkNetwork,
    port: LinkDatagram,
    turns: u64,
}

impl End {
    fn new(link: &str) -> Self {
        let mut network = LinkNetwork::with_link(Registry::new(78, Limits::default()), link.parse().unwrap()).unwrap();
        let (_, address) = link.split_once('=').unwrap();
        let local = SocketAddr::new(address.split('/').next().unwrap().parse().unwrap(), 0);
        let port = network.bind(local, DatagramOptions::default()).unwrap();
        assert!(matches!(port, LinkDatagram::Raw(_)));
        Self { network, port, turns: 0 }
    }

    /// Receives what is there, then waits for more. Returns the last datagram.
    fn turn(&mut self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; self.port.limits().receive_bytes as usize * 4];
        let mut received = Vec::new();
        self.port.receive(&mut buffer, &mut received).unwrap();
        let last = received.pop().map(|one| buffer[one.range].to_vec());
        let interest = Interest { readable: true, writable: false, least: 1 };
        self.network.arm_datagram(&mut self.port, STREAM, interest).unwrap();
        self.network.wait(Some(Duration::from_millis(20)), &mut Vec::new()).unwrap();
        self.turns += 1;
        last
    }

    fn send(&mut self, to: PortAddress, bytes: &[u8]) {
        let batch = DatagramBatch { to, from: None, segment_size: 100, ecn: Ecn::NotCapable };
        // What an interface that is away does not take is lost.
        let _ = self.port.send(&batch, &[Piece::Bytes(bytes)]);
    }
}

/// Two hosts in user space, one at each end of a cable, which is made anew between the first datagram and the second.
fn datagrams(folder: &Path) {
    let mut ends = [End::new("c0=10.7.0.77/24"), End::new("c1=10.7.0.78/24")];
    let began = Instant::now();
    for (round, word) in ["first", "second"].into_iter().enumerate() {
        while !folder.join(round.to_string()).exists() {
            ends.iter_mut().for_each(|end| drop(end.turn()));
        }
        for (from, to) in [(0, 1), (1, 0)] {
            let address = ends[to].port.local_address();
            // Retransmits as an application does that needs delivery.
            while ends[to].turn().as_deref() != Some(word.as_bytes()) {
                assert!(began.elapsed() < PATIENCE, "{word} does not come");
                ends[from].send(address, word.as_bytes());
                ends[from].turn();
            }
        }
        say(&(ends[0].turns + ends[1].turns).to_string());
    }
}

/// How many streams had ended, and how many turns that took.
fn numbers(said: &str) -> Vec<u64> {
    said.split(' ').map(|word| word.parse().unwrap()).collect()
}

#[test]
fn a_link_survives_its_interface_being_down_and_made_anew_and_a_deletion_is_told() {
    let Some(lab) = lab() else { return };
    let host = lab.host(0);
    make(host);
    let mut server = Worker::start(host, "serves");
    assert_eq!(server.says(), "ready");
    let mut caller = Caller::start(host, "first");
    caller.ping();

    ip(host, "link set c0 down");
    std::thread::sleep(Duration::from_millis(500));
    ip(host, "link set c0 up");
    caller.ping();

    // As a program does that makes it anew.
    ip(host, "link del c0");
    make(host);
    caller.ping();
    let mut other = Caller::start(host, "second");
    other.ping();

    ip(host, "link del c0");
    let [streams, turns] = numbers(&server.says())[..] else { panic!("two numbers") };
    assert_eq!(streams, 2);
    assert!(turns < TURNS, "{turns} turns");
    std::thread::sleep(Duration::from_millis(500));
    make(host);
    let [turns] = numbers(&server.says())[..] else { panic!("a number") };
    assert!(turns < TURNS, "{turns} turns");
    assert_eq!(server.says(), "again");
    assert!(server.succeeds());
}

#[test]
fn datagram_ports_follow_an_interface_that_is_made_anew() {
    let Some(lab) = lab() else { return };
    let host = lab.host(0);
    make(host);
    let folder = env::temp_dir().join(format!("weft-interface-{}-raw", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut worker = Worker::start(host, &format!("datagrams {}", folder.display()));
    std::fs::write(folder.join("0"), []).unwrap();
    let [before] = numbers(&worker.says())[..] else { panic!("a number") };
    ip(host, "link del c0");
    std::thread::sleep(Duration::from_millis(300));
    make(host);
    std::fs::write(folder.join("1"), []).unwrap();
    let [after] = numbers(&worker.says())[..] else { panic!("a number") };
    assert!(after - before < TURNS, "{} turns", after - before);
    assert!(worker.succeeds());
    std::fs::remove_dir_all(&folder).unwrap();
}
