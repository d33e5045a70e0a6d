//! Real packets between two hosts with a long way between them, by both carriers.
//!
//! Times are reported, not judged: a busy machine is late. What is judged is what no machine can be wrong about: no
//! packet is early, and the shares that a seed gives.
//!
//! Where this system allows no namespaces, or lacks a program, each test says so and passes.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use weft_lab::{Host, Lab, Process};
use weft_wan::{Attached, CarrierProgram, Kind, Plan, Report, Wan, WanError, serve};

/// The variable that says to this program, started again, what it does.
const ROLE: &str = "WEFT_WAN_ROLE";
/// Nothing here takes this long.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a datagram of the tests.
const DATAGRAM: usize = 200;

/// What a process does that is started again; without a role it is no test.
#[test]
fn a_process_with_a_role() {
    let Ok(role) = env::var(ROLE) else { return };
    match role.split(' ').collect::<Vec<_>>()[..] {
        ["carry"] => serve().unwrap_or_else(|error| eprintln!("failed: {error}")),
        ["count", local] => count(local.parse().unwrap()),
        ["pace", remote, count, gap_us] => {
            pace(remote.parse().unwrap(), count.parse().unwrap(), gap_us.parse().unwrap());
        }
        ["drain", local] => drain(local.parse().unwrap()),
        ["fill", remote, bytes] => fill(remote.parse().unwrap(), bytes.parse().unwrap()),
        ["echo", local] => echo(local.parse().unwrap()),
        ["ask", remote] => ask(remote.parse().unwrap()),
        ["keep"] => keep(),
        ["attach", one] => attach(&[one]),
        ["too-long", one, other] => too_long([one, other]),
        ["attach", one, other] => attach(&[one, other]),
        _ => panic!("{role:?} is no role"),
    }
}

fn say(what: &str) {
    println!("role: {what}");
}

/// This program, with a role.
struct Worker {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Worker {
    fn start(mut command: Command, role: &str) -> Self {
        command.args(arguments()).env(ROLE, role).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    fn in_host(host: &Host, role: &str) -> Self {
        Self::start(host.command(env::current_exe().unwrap()), role)
    }

    fn says(&mut self) -> String {
        let mut line = String::new();
        while self.lines.read_line(&mut line).unwrap() > 0 {
            if let Some((_, words)) = line.split_once("role: ") {
                return words.trim().to_owned();
            }
            line.clear();
        }
        panic!("it ended without a word: {:?}", self.child.wait());
    }

    fn ends(mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn arguments() -> [&'static str; 4] {
    ["--exact", "a_process_with_a_role", "--nocapture", "--quiet"]
}

fn program() -> CarrierProgram {
    CarrierProgram {
        program: env::current_exe().unwrap(),
        arguments: arguments().map(Into::into).to_vec(),
        environment: vec![(ROLE.into(), "carry".into())],
    }
}

fn plan(kind: Kind, scenario: &str) -> Plan {
    Plan { kind, scenario: scenario.to_owned(), folder: PathBuf::new(), mtu: 1500 }
}

fn up(kind: Kind, scenario: &str) -> Option<Wan> {
    match Wan::up(&plan(kind, scenario), &program()) {
        Ok(wan) => Some(wan),
        Err(error) if error.cannot_be_had() => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{kind}: {error}"),
    }
}

/// The machine's clock, which both hosts share, in nanoseconds.
fn now() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// Sends numbered datagrams with the time, this far apart.
fn pace(remote: SocketAddr, count: u32, gap_us: u64) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(remote).unwrap();
    let begun = Instant::now();
    for number in 0..count {
        let due = Duration::from_micros(gap_us) * number;
        if let Some(left) = due.checked_sub(begun.elapsed()) {
            thread::sleep(left);
        }
        let mut bytes = [0; DATAGRAM];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        bytes[4..12].copy_from_slice(&now().to_be_bytes());
        socket.send(&bytes).unwrap();
    }
    // The last datagram, until it is received.
    for _ in 0..50 {
        // The other end goes when it has received it.
        let _ = socket.send(b"end");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Counts them, and says how many came, out of order, twice, and how long they took.
fn count(local: SocketAddr) {
    let socket = UdpSocket::bind(local).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    say("ready");
    let (mut took, mut seen, mut late, mut twice, mut highest) =
        (Vec::new(), std::collections::HashSet::new(), 0, 0, None);
    let mut bytes = [0; 2048];
    loop {
        let length = socket.recv(&mut bytes).unwrap();
        if length != DATAGRAM {
            break;
        }
        let number = u32::from_be_bytes(bytes[..4].try_into().unwrap());
        took.push(now() - u64::from_be_bytes(bytes[4..12].try_into().unwrap()));
        late += u32::from(highest.is_some_and(|highest| number < highest));
        twice += u32::from(!seen.insert(number));
        highest = highest.max(Some(number));
    }
    took.sort_unstable();
    let at = |share: usize| took.get(took.len() * share / 100).copied().unwrap_or_default();
    say(&format!("{} {late} {twice} {} {} {}", took.len(), at(0), at(50), at(99)));
}

fn drain(local: SocketAddr) {
    let listener = TcpListener::bind(local).unwrap();
    say("ready");
    let (mut stream, _) = listener.accept().unwrap();
    let bytes = std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
    stream.write_all(&[1]).unwrap();
    say(&bytes.to_string());
}

fn fill(remote: SocketAddr, bytes: usize) {
    let mut stream = TcpStream::connect(remote).unwrap();
    stream.write_all(&vec![7; bytes]).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    stream.read_exact(&mut [0]).unwrap();
}

fn echo(local: SocketAddr) {
    let socket = UdpSocket::bind(local).unwrap();
    say("ready");
    let mut bytes = [0; 2048];
    loop {
        let (length, from) = socket.recv_from(&mut bytes).unwrap();
        socket.send_to(&bytes[..length], from).unwrap();
    }
}

/// Says how long the shortest of some round trips took, in nanoseconds.
fn ask(remote: SocketAddr) {
    let local = if remote.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(local).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.connect(remote).unwrap();
    let mut least = u64::MAX;
    for _ in 0..5 {
        let begun = now();
        socket.send(&[7; DATAGRAM]).unwrap();
        socket.recv(&mut [0; DATAGRAM]).unwrap();
        least = least.min(now() - begun);
    }
    say(&least.to_string());
}

/// The shortest of some round trips between two hosts.
fn round_trip(from: &Host, to: &Host, address: IpAddr) -> Duration {
    let target = SocketAddr::new(address, 7000);
    let mut server = Worker::in_host(to, &format!("echo {target}"));
    assert_eq!(server.says(), "ready");
    let said = Worker::in_host(from, &format!("ask {target}")).says();
    Duration::from_nanos(said.parse().unwrap())
}

fn keep() {
    let wan = up(Kind::Queue, "both.delay = \"1ms\"").unwrap();
    let processes = [0, 1].map(|index| wan.host(index).holder().id);
    say(&format!("{} {} {}", wan.carrier(), processes[0], processes[1]));
    thread::sleep(PATIENCE);
}

fn attach(interfaces: &[&str]) {
    let attached = match interfaces {
        [one] => Attached::to_one(one, "both.delay = \"20ms\"", "".as_ref(), &program()),
        [one, other] => Attached::between([one, other], "both.delay = \"20ms\"", "".as_ref(), &program()),
        _ => unreachable!("one or two"),
    };
    let mut attached = match attached {
        Ok(attached) => attached,
        Err(error) => return say(&format!("refused {} {error}", matches!(error, WanError::Right(_)))),
    };
    say("ready");
    let until = Instant::now() + PATIENCE;
    while attached.is_whole() {
        assert!(Instant::now() < until);
        thread::sleep(Duration::from_millis(5));
    }
    say(&attached.failure().to_string());
}

/// Prints the report on frames that are longer than the MTU, when some have come.
fn too_long(interfaces: [&str; 2]) {
    let mut attached = Attached::between(interfaces, "both.delay = \"1ms\"", "".as_ref(), &program()).unwrap();
    say("ready");
    let until = Instant::now() + PATIENCE;
    while attached.report().unwrap().too_long == 0 {
        assert!(Instant::now() < until);
        thread::sleep(Duration::from_millis(5));
    }
    say(&attached.report().unwrap().to_string().replace('\n', "; "));
}

/// What came of a paced stream from the first host to the second, or back.
#[derive(Debug)]
struct Counted {
    came: u32,
    out_of_order: u32,
    twice: u32,
    least_ns: u64,
    p50_ns: u64,
    p99_ns: u64,
}

fn paced(wan: &Wan, from: usize, count: u32, gap_us: u64) -> Counted {
    let target = SocketAddr::new(wan.address(1 - from), 7000);
    let mut receiver = Worker::in_host(wan.host(1 - from), &format!("count {target}"));
    assert_eq!(receiver.says(), "ready");
    Worker::in_host(wan.host(from), &format!("pace {target} {count} {gap_us}")).ends();
    let said = receiver.says();
    let numbers: Vec<u64> = said.split(' ').map(|number| number.parse().unwrap()).collect();
    let [came, out_of_order, twice] = [0, 1, 2].map(|index| numbers[index] as u32);
    Counted { came, out_of_order, twice, least_ns: numbers[3], p50_ns: numbers[4], p99_ns: numbers[5] }
}

fn tell(kind: Kind, what: &str, counted: &Counted, report: &Report) {
    println!(
        "{kind}, {what}: p50 {:.3} ms, p99 {:.3} ms; {report}",
        counted.p50_ns as f64 / 1e6,
        counted.p99_ns as f64 / 1e6
    );
}

/// How unlikely a count is, in standard deviations.
fn z(count: u32, of: u32, share: f64) -> f64 {
    let (count, of) = (f64::from(count), f64::from(of));
    (count - of * share) / (of * share * (1.0 - share)).sqrt()
}

const KINDS: [Kind; 2] = [Kind::Queue, Kind::Rings];

#[test]
fn packets_are_never_early_and_each_direction_has_its_own_delay() {
    for kind in KINDS {
        let Some(mut wan) = up(kind, "forward.delay = \"4ms\"\nreverse.delay = \"9ms\"") else { return };
        for (from, delay_ns) in [(0, 4_000_000), (1, 9_000_000)] {
            let counted = paced(&wan, from, 500, 500);
            assert_eq!((counted.came, counted.out_of_order, counted.twice), (500, 0, 0), "{kind}: {counted:?}");
            assert!(counted.least_ns >= delay_ns, "{kind}: {counted:?}");
            tell(kind, "asked for 4 ms, and 9 ms back", &counted, &wan.report().unwrap());
        }
        let report = wan.report().unwrap();
        assert_eq!((report.forward.delay_ns, report.reverse.delay_ns), (4_000_000, 9_000_000));
        assert!(report.forward.lateness.max_ns > 0 && report.forward.delivered >= 500);
        wan.down().unwrap();
    }
}

#[test]
fn losses_reordering_and_copies_are_as_frequent_as_asked_for() {
    const COUNT: u32 = 3000;
    for kind in KINDS {
        let mut text = "seed = 3\nforward.loss = 5\nforward.reorder = 5\nforward.reorder-by = \"30ms\"\n".to_owned();
        if kind == Kind::Rings {
            text += "forward.duplicate = 5\n";
        }
        let Some(mut wan) = up(kind, &text) else { return };
        let counted = paced(&wan, 0, COUNT, 300);
        let report = wan.report().unwrap();
        tell(kind, "5 % each", &counted, &report);
        let packets = report.forward.packets as u32;
        assert!(z(report.forward.lost as u32, packets, 0.05).abs() < 5.0, "{kind}: {report}");
        assert!(z(COUNT - (counted.came - counted.twice), COUNT, 0.05).abs() < 5.0, "{kind}: {counted:?}");
        assert!(counted.out_of_order > COUNT / 100, "{kind}: {counted:?}");
        if kind == Kind::Rings {
            assert!(z(counted.twice, COUNT, 0.0475).abs() < 5.0, "{counted:?}");
        }
        wan.down().unwrap();
    }
}

#[test]
fn nothing_passes_while_it_is_cut_and_all_does_again() {
    let text = "[[step]]\nat = \"0.4s\"\nboth.cut = true\n[[step]]\nat = \"0.8s\"\nboth.cut = false\n";
    for kind in KINDS {
        let Some(mut wan) = up(kind, text) else { return };
        let counted = paced(&wan, 0, 1000, 1000);
        let report = wan.report().unwrap();
        // When the stream began depends on the machine; that it continued behind the cut does not.
        assert!(counted.came > 0 && u64::from(1000 - counted.came) <= report.forward.cut, "{kind}: {report}");
        assert_eq!(report.forward.lost, 0);
        wan.down().unwrap();
    }
}

#[test]
fn super_packets_are_whole_where_nothing_is_about_single_ones() {
    const BYTES: usize = 4 << 20;
    for (kind, text, is_whole) in [
        (Kind::Queue, "both.delay = \"1ms\"", true),
        (Kind::Queue, "both.delay = \"1ms\"\nboth.loss = 0.0001", false),
        (Kind::Rings, "both.delay = \"1ms\"", false),
    ] {
        let Some(mut wan) = up(kind, text) else { return };
        let target = SocketAddr::new(wan.address(1), 7000);
        let mut receiver = Worker::in_host(wan.host(1), &format!("drain {target}"));
        assert_eq!(receiver.says(), "ready");
        Worker::in_host(wan.host(0), &format!("fill {target} {BYTES}")).ends();
        assert_eq!(receiver.says(), BYTES.to_string());
        let report = wan.report().unwrap();
        let mean = report.forward.bytes / report.forward.packets;
        assert_eq!(mean > 1500, is_whole, "{kind}: {mean} bytes each; {report}");
        assert!(report.forward.delivered_bytes >= BYTES as u64, "{kind}: {report}");
        wan.down().unwrap();
    }
}

#[test]
fn damage_does_not_pass_for_data() {
    const BYTES: usize = 200_000;
    for kind in KINDS {
        let text = "forward.corrupt = 3\nforward.corrupt-bits = 1\nboth.delay = \"1ms\"";
        let Some(mut wan) = up(kind, text) else { return };
        let target = SocketAddr::new(wan.address(1), 7000);
        let mut receiver = Worker::in_host(wan.host(1), &format!("drain {target}"));
        assert_eq!(receiver.says(), "ready");
        Worker::in_host(wan.host(0), &format!("fill {target} {BYTES}")).ends();
        assert_eq!(receiver.says(), BYTES.to_string());
        assert!(wan.report().unwrap().forward.corrupted > 0, "{kind}: {}", wan.report().unwrap());
        wan.down().unwrap();
    }
}

#[test]
fn ipv6_has_the_same_way() {
    let Some(wan) = up(Kind::Queue, "both.delay = \"3ms\"") else { return };
    let Some(address) = wan.host(1).address_v6(1) else { return };
    let took = round_trip(wan.host(0), wan.host(1), address);
    assert!(took >= Duration::from_millis(6), "{took:?}");
}

#[test]
fn a_carrier_that_is_killed_is_told() {
    let Some(mut wan) = up(Kind::Queue, "both.delay = \"1ms\"") else { return };
    assert!(wan.is_whole());
    let status = Command::new("kill").args(["-KILL", &wan.carrier().to_string()]).status().unwrap();
    assert!(status.success());
    let until = Instant::now() + PATIENCE;
    while wan.is_whole() {
        assert!(Instant::now() < until);
        thread::sleep(Duration::from_millis(5));
    }
    let words = wan.failure().to_string();
    assert!(words.contains("signal: 9"), "{words}");
    wan.down().unwrap();
}

#[test]
fn nothing_is_left_when_the_one_that_made_it_is_killed() {
    if up(Kind::Queue, "").is_none() {
        return;
    }
    let mut keeper = Worker::start(Command::new(env::current_exe().unwrap()), "keep");
    let said = keeper.says();
    let ids = said.split(' ').map(|id| id.parse().unwrap());
    let processes: Vec<_> = ids.map(|id| Process::find(id).unwrap()).collect();
    keeper.child.kill().unwrap();
    let until = Instant::now() + PATIENCE;
    while processes.iter().any(Process::is_alive) {
        assert!(Instant::now() < until, "{processes:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn lab() -> Option<Lab> {
    match Lab::up(&weft_lab::Plan { hosts: 3, links: 2, rate: None, ..weft_lab::Plan::default() }) {
        Ok(lab) => Some(lab),
        Err(error) if error.cannot_be_had() => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn rules(host: &Host) -> String {
    let output = host.command("iptables").args(["-t", "mangle", "-S"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().filter(|line| line.contains("NFQUEUE")).collect()
}

#[test]
fn it_stands_in_front_of_an_interface_and_leaves_no_rules_behind() {
    let Some(lab) = lab() else { return };
    let host = lab.host(0);
    let mut attached = Worker::in_host(host, "attach rail0");
    match attached.says().as_str() {
        "ready" => (),
        said => return println!("skipped: {said}"),
    }
    assert!(rules(host).contains("--queue-bypass"), "{}", rules(host));
    let took = round_trip(host, lab.host(1), lab.host(1).address(0));
    assert!(took >= Duration::from_millis(40), "{took:?}");
    // It is killed, and a second process takes the rules away.
    attached.child.kill().unwrap();
    let until = Instant::now() + PATIENCE;
    while !rules(host).is_empty() {
        assert!(Instant::now() < until, "{}", rules(host));
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_interface_that_goes_away_is_told() {
    let Some(lab) = lab() else { return };
    let middle = lab.host(2);
    let mut attached = Worker::in_host(middle, "attach rail0 rail1");
    assert_eq!(attached.says(), "ready");
    assert!(middle.command("ip").args(["link", "delete", "rail1"]).status().unwrap().success());
    let words = attached.says();
    assert!(words.contains("rail1 has gone"), "{words}");
    let mut attached = Worker::in_host(middle, "attach rail0");
    assert_eq!(attached.says(), "ready");
    assert!(middle.command("ip").args(["link", "delete", "rail0"]).status().unwrap().success());
    let words = attached.says();
    assert!(words.contains("rail0 has gone"), "{words}");
    assert_eq!(rules(middle), "");
}

#[test]
fn frames_longer_than_the_mtu_are_counted_and_it_is_said_what_to_do() {
    let Some(lab) = lab() else { return };
    let (from, middle) = (lab.host(0), lab.host(2));
    let mut attached = Worker::in_host(middle, "too-long rail0 rail1");
    assert_eq!(attached.says(), "ready");
    // Segmentation offload hands the middle's kernel more than a wire would carry.
    let target = SocketAddr::new(middle.address(0), 7000);
    let mut receiver = Worker::in_host(middle, &format!("drain {target}"));
    assert_eq!(receiver.says(), "ready");
    Worker::in_host(from, &format!("fill {target} {}", 1 << 20)).ends();
    let words = attached.says();
    assert!(words.contains("longer than the MTU and were dropped: switch segmentation offload off"), "{words}");
}

#[test]
fn what_is_missing_is_told_in_words() {
    let one = |role: &str| {
        let mut command = Command::new("unshare");
        // A user with no right over this network.
        command.args(["--user", "--"]).arg(env::current_exe().unwrap());
        Worker::start(command, role).says()
    };
    let Some(lab) = lab() else { return };
    // The same in a host, which has two interfaces.
    let mut command = lab.host(0).command("unshare");
    command.args(["--user", "--"]).arg(env::current_exe().unwrap());
    let said = Worker::start(command, "attach rail0 rail1").says();
    assert!(said.starts_with("refused true") && said.contains("CAP_NET_RAW"), "{said}");
    let said = one("attach lo");
    assert!(said.starts_with("refused true") && said.contains("CAP_NET_ADMIN"), "{said}");
    let said = Worker::start(Command::new(env::current_exe().unwrap()), "attach nonesuch").says();
    assert!(said.starts_with("refused false there is no interface \"nonesuch\"; there are lo"), "{said}");
    let said = Worker::start(Command::new(env::current_exe().unwrap()), "attach lo lo").says();
    assert!(said.starts_with("refused false lo twice"), "{said}");
    let error = Wan::up(&plan(Kind::Queue, "both.duplicate = 1"), &program()).unwrap_err();
    assert!(error.is_callers() && error.to_string().contains("--carrier rings"), "{error}");
    let error = Wan::up(&plan(Kind::Queue, "both.dleay = 1"), &program()).unwrap_err();
    assert!(error.is_callers() && error.to_string().starts_with("line 1: there is no key"), "{error}");
}
