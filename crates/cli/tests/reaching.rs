//! How endpoints find a path to each other when most of the addresses that they get lead nowhere, between hosts of a
//! lab.
//!
//! Each host has, besides its link: an address that the other has too (as docker gives one to every host), and a
//! network of its own in which no host answers. Endpoints name all of these, the good one last.
//!
//! Where labs cannot be had, each test says why and passes.

use std::env;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use weft::endpoint::{
    Address, Endpoint, EndpointAttributes, EndpointSettings, Event, EventQueue, PeerId, ReceivePost, SendPost,
};
use weft::verbs::Context;
use weft_lab::{Host, Lab, Plan};

/// All endpoints listen here, so that the address that two hosts share leads each of them to itself.
const PORT: u16 = 7000;
/// The address that every host has.
const SHARED: IpAddr = IpAddr::V4(Ipv4Addr::new(172, 17, 0, 1));
/// How long an endpoint tries to reach a peer, all paths together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// A machine may be busy with other things. A connection attempt of the kernel that is not given up takes longer than
/// this.
const PATIENCE: Duration = Duration::from_secs(120);

/// An address of a host in its own network, which the other takes for the same network.
fn lonely(host: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(203, 0, 113, host as u8 + 1))
}

#[test]
fn a_message_finds_the_way_that_is_one() {
    let Some(lab) = lab() else { return };
    let paths = |host: &Host| vec![SHARED, lonely(host.index()), host.address(0)];
    // Only the first knows the other beforehand.
    let mut second = Worker::start(lab.host(1), &format!("answer {}", words(&paths(lab.host(1)))));
    let address = second.line();
    let mut first = Worker::start(lab.host(0), &format!("ask {address} {}", words(&paths(lab.host(0)))));
    assert_eq!(first.line(), "received: hello back");
    assert_eq!(second.line(), "received: hello");
    lab.down().unwrap();
}

#[test]
fn without_a_way_all_that_were_tried_are_named_in_time() {
    let Some(lab) = lab() else { return };
    // The last: where there is no listener.
    let paths = [SHARED, lonely(1), IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), lab.host(1).address(0)];
    let address =
        Address { id: 7, paths: paths.iter().map(|ip| SocketAddr::new(*ip, PORT)).collect(), transport: None };
    let role = format!("ask {} {}", written(&address), words(&[SHARED, lab.host(0).address(0)]));
    let began = Instant::now();
    let said = Worker::start(lab.host(0), &role).line();
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    let attempts = said.strip_prefix("failed: the peer can't be reached: ").unwrap_or_else(|| panic!("{said}"));
    let attempts: Vec<&str> = attempts.split("; ").collect();
    let expected = [
        (SHARED, Some(SHARED), "this endpoint itself listens there"),
        (lonely(1), Some(lonely(0)), "within 5s"),
        (paths[2], None, "no route"),
        (paths[3], Some(lab.host(0).address(0)), "refused"),
    ];
    assert_eq!(attempts.len(), expected.len(), "{said}");
    for (attempt, (to, from, why)) in attempts.iter().zip(expected) {
        let pair = from.map_or_else(String::new, |from| format!("from {from} ")) + &format!("to {to}:{PORT}: ");
        let reason = attempt.strip_prefix(&pair).unwrap_or_else(|| panic!("{attempt:?} instead of {pair:?}"));
        assert!(reason.contains(why), "{attempt:?}, and not {why:?}");
    }
    lab.down().unwrap();
}

/// Two hosts as above; `None`, and a line that says why, where they cannot be had.
fn lab() -> Option<Lab> {
    let lab = match Lab::up(&Plan { rate: None, ..Plan::default() }) {
        Ok(lab) => lab,
        Err(error) if error.cannot_be_had() => {
            println!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    for host in lab.hosts() {
        let (own, other) = (lonely(host.index()), lonely(1 - host.index()));
        let script = format!(
            "ip link add docker0 type bridge && ip address add {SHARED}/16 dev docker0 && ip link set docker0 up &&
             ip link add lonely type veth peer name nobody && ip link set nobody up && ip link set lonely up &&
             ip address add {own}/24 dev lonely &&
             ip neighbour replace {other} lladdr 02:00:00:00:00:99 nud permanent dev lonely"
        );
        let output = host.command("sh").args(["-c", &script]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    Some(lab)
}

// --- the programs that run in hosts: this test program, started again with a role

const ROLE: &str = "WEFT_REACHING_TEST_ROLE";

/// A process with a role. Dropping it ends it.
struct Worker {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Worker {
    fn start(host: &Host, role: &str) -> Self {
        let mut command = host.command(env::current_exe().unwrap());
        command.args(["--exact", "a_process_with_a_role", "--nocapture", "--quiet"]).env(ROLE, role);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The next line that is for us; the test harness writes others.
    fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it ended without a word");
            if let Some((_, words)) = line.split_once("role: ") {
                return words.trim().to_owned();
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test: with a role in the environment, what `Worker` starts.
#[test]
fn a_process_with_a_role() {
    let Ok(role) = env::var(ROLE) else { return };
    let mut words = role.split(' ');
    match words.next() {
        Some("answer") => answer(&End::open(words)),
        Some("ask") => {
            let peer = read(words.next().unwrap());
            ask(&End::open(words), &peer);
        }
        _ => panic!("{role:?} is no role"),
    }
}

fn answer(end: &End) {
    println!("role: {}", written(&end.endpoint.address()));
    let (text, from) = end.receive();
    end.endpoint.send(SendPost::new(from, format!("{text} back").into_bytes())).unwrap();
    let sent = end.next();
    assert!(sent.outcome.is_ok(), "{sent:?}");
    println!("role: received: {text}");
    // The other has received it when this is ended from outside.
    end.receive();
}

fn ask(end: &End, peer: &Address) {
    let peer = end.endpoint.peer(peer).unwrap();
    end.endpoint.send(SendPost::new(peer, b"hello".to_vec())).unwrap();
    if let Err(failure) = end.next().outcome {
        return println!("role: failed: {failure}");
    }
    let (text, from) = end.receive();
    assert_eq!(from, peer);
    println!("role: received: {text}");
}

/// An endpoint on all addresses of its host.
struct End {
    endpoint: Endpoint,
    events: EventQueue,
}

impl End {
    /// One that names these addresses.
    fn open<'a>(paths: impl Iterator<Item = &'a str>) -> Self {
        let context = Context::open().unwrap();
        let domain = context.allocate_protection_domain().unwrap();
        let events = EventQueue::new(&context).unwrap();
        let attributes = EndpointAttributes {
            bind: SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT),
            paths: paths.map(|path| path.parse().unwrap()).collect(),
            settings: EndpointSettings { connect_timeout: CONNECT_TIMEOUT, ..EndpointSettings::default() },
            engine: None,
            key: None,
        };
        let endpoint = Endpoint::open(&domain, &attributes, Arc::new(events.clone())).unwrap();
        Self { endpoint, events }
    }

    fn next(&self) -> Event {
        self.events.wait(Some(PATIENCE)).expect("a completion in time")
    }

    /// The next message, and whose it is.
    fn receive(&self) -> (String, PeerId) {
        self.endpoint.receive(ReceivePost::new(vec![0; 64])).unwrap();
        let event = self.next();
        assert!(event.outcome.is_ok(), "{event:?}");
        let buffer = event.buffer.expect("the buffer comes back");
        let text = String::from_utf8_lossy(&buffer[..event.length as usize]).into_owned();
        (text, event.peer.expect("a message has a sender"))
    }
}

fn words(paths: &[IpAddr]) -> String {
    paths.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(" ")
}

/// An address as one word: its identity, and then each path.
fn written(address: &Address) -> String {
    format!("{},{address}", address.id)
}

fn read(text: &str) -> Address {
    let (id, paths) = text.split_once(',').unwrap();
    Address {
        id: id.parse().unwrap(),
        paths: paths.split(',').map(|path| path.parse().unwrap()).collect(),
        transport: None,
    }
}
