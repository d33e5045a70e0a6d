//! A process without rights has its packet socket from `weft link-helper`, in a host of a lab.
//!
//! Where this system allows no namespaces, or lacks a program, the test says so and passes.

mod running;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use running::{Ended, Running, weft, words};
use socket2::SockRef;
use weft_driver::{PacketRing, PacketSocket, RingFrame};
use weft_lab::{Host, Lab, Plan};

const WEFT: &str = env!("CARGO_BIN_EXE_weft");
/// The variable that says to a worker what it does.
const ROLE: &str = "WEFT_HELPER_ROLE";
const LINK: &str = "rail0=10.0.0.77/24,fd77:6566:7400::77/64";
const HOST: &str = "rail0=host:40000-40009";
/// Nothing here takes this long; a wait without result fails then.
const PATIENCE: Duration = Duration::from_secs(100);

fn lab() -> Option<Lab> {
    match Lab::up(&Plan { links: 1, rate: None, offloads: false, ..Plan::default() }) {
        Ok(lab) => Some(lab),
        Err(error) if error.cannot_be_had() => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Where a helper listens, for this test alone.
fn path(name: &str) -> PathBuf {
    env::temp_dir().join(format!("weft-link-{name}-{}", std::process::id()))
}

/// A command that runs a program in a host without any right.
fn without_rights(host: &Host, program: &str) -> Command {
    let mut command = host.command("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]).arg(program);
    command
}

fn helper(host: &Host, link: &str, path: &Path, users: &str) -> Running {
    let line = format!("link-helper --link {link} --socket {} --uid {users}", path.display());
    let helper = Running::start_by(host.command(WEFT), &words(&line));
    helper.await_text("serving ");
    helper
}

/// Ends it as a service manager does, and it leaves nothing.
fn ends_cleanly(helper: Running, path: &Path) {
    assert!(path.exists());
    helper.interrupt();
    let ended = helper.end();
    assert!(ended.code == Some(0) && !path.exists(), "{ended:?}");
}

fn both_well(client: Running, server: Running) {
    let (client, server) = (client.end(), server.end());
    assert_eq!((client.code, server.code), (Some(0), Some(0)), "client: {}\nserver: {}", client.text, server.text);
}

/// What a worker does; without a role it is no test.
#[test]
fn worker() {
    let Ok(role) = env::var(ROLE) else { return };
    match role.split(' ').collect::<Vec<_>>()[..] {
        ["listens", path] => listen(path.as_ref()),
        ["sends", hardware] => send(hardware),
        _ => panic!("{role:?} is no role"),
    }
}

fn start(mut command: Command, role: &str) -> Running {
    command.env(ROLE, role);
    Running::start_by(command, &words("--exact worker --nocapture --test-threads=1"))
}

/// Frames of the sender, each with a letter at its end: what is for the link, and what is for others.
fn frames(to: [u8; 6], from: [u8; 6]) -> Vec<(u8, Vec<u8>)> {
    let ipv4 =
        |protocol: u8, to: [u8; 4]| [&[0x45, 0, 0, 60, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 2][..], &to].concat();
    let ipv6 = |protocol: u8, last: u8| {
        let address = |last| [0xfd, 0x77, 0x65, 0x66, 0x74, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
        [&[0x60, 0, 0, 0, 0, 20, protocol, 255][..], &address(2), &address(last)].concat()
    };
    let frame = |letter: u8, kind: [u8; 2], packet: Vec<u8>| {
        let mut bytes = [&to[..], &from, &kind, &packet].concat();
        bytes.resize(99, 0);
        bytes.push(letter);
        (letter, bytes)
    };
    vec![
        frame(b'a', [8, 0], ipv4(6, [10, 0, 0, 1])),
        frame(b'b', [8, 0], ipv4(17, [10, 0, 0, 77])),
        frame(b'C', [8, 0], ipv4(6, [10, 0, 0, 77])),
        frame(b'd', [0x86, 0xdd], ipv6(6, 1)),
        frame(b'e', [0x86, 0xdd], ipv6(17, 0x77)),
        frame(b'F', [0x86, 0xdd], ipv6(6, 0x77)),
        frame(b'g', [0x88, 0xb5], vec![0; 40]),
        frame(b'H', [8, 6], vec![0; 28]),
    ]
}

/// Sends them again and again, until it is ended.
fn send(hardware: &str) {
    let to: Vec<u8> = hardware.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    let socket = PacketSocket::open("rail0").unwrap();
    let frames = frames(to.try_into().unwrap(), socket.hardware());
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        for (_, frame) in &frames {
            let _ = socket.send(frame);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Has a socket from the helper, tries to remove its filter, and receives what is the link's and nothing else.
fn listen(path: &Path) {
    let without = PacketSocket::open("rail0").unwrap_err().to_string();
    assert!(without.contains("CAP_NET_RAW") && without.contains("link-helper"), "{without}");
    let other = PacketRing::from_helper(path, "rail0=10.0.0.78/24", "rail0").unwrap_err().to_string();
    assert!(other.contains("not rail0=10.0.0.78/24"), "{other}");
    let mut ring = PacketRing::from_helper(path, LINK, "rail0").unwrap();
    let away = SockRef::from(&ring).detach_filter().unwrap_err();
    assert_eq!(away.kind(), std::io::ErrorKind::PermissionDenied);
    println!("worker: {}", ring.hardware().map(|byte| format!("{byte:02x}")).join(":"));
    let (mut received, mut bytes) = (Vec::new(), Vec::new());
    let until = Instant::now() + PATIENCE;
    // Each of the three some times, so that the others have come as often.
    while ![b'C', b'F', b'H'].iter().all(|wanted| received.iter().filter(|letter| *letter == wanted).count() > 20) {
        assert!(Instant::now() < until, "it hangs: {received:?}");
        if ring.receive(&mut bytes) == Some(RingFrame::Whole) && bytes.len() == 100 {
            received.push(bytes[99]);
        }
    }
    assert!(received.iter().all(u8::is_ascii_uppercase), "{received:?}");
    println!("worker: done");
}

#[test]
fn a_filter_that_stays_lets_through_what_is_the_link_s() {
    let Some(lab) = lab() else { return };
    let path = path("filter");
    let helper = helper(lab.host(0), LINK, &path, "0");
    let program = env::current_exe().unwrap();
    let program = program.to_str().unwrap();
    let listens = start(without_rights(lab.host(0), program), &format!("listens {}", path.display()));
    let line = listens.await_text("worker: ");
    let hardware = line.split_once("worker: ").unwrap().1;
    let sends = start(lab.host(1).command(program), &format!("sends {hardware}"));
    let Ended { code, text } = listens.end();
    assert!(code == Some(0) && text.contains("worker: done"), "{text}");
    drop(sends);
    ends_cleanly(helper, &path);
    lab.down().unwrap();
}

#[test]
fn who_has_no_right_goes_by_weft_s_own_tcp_all_the_same() {
    let Some(lab) = lab() else { return };
    let path = path("rping");
    let helper = helper(lab.host(0), LINK, &path, "7,0");
    let server = |link: &str, address: &str| {
        let line = format!("rping -s -a {address} -p 0 --timeout 60 --link {link}");
        Running::start_by(without_rights(lab.host(0), WEFT), &words(&line))
    };
    let client = |address: &str, port: &str| {
        let line = format!("rping -c -a {address} -p {port} -C 10 -S 20000 -V --timeout 60");
        Running::start_by(lab.host(1).command(WEFT), &words(&line))
    };
    let ended = server(LINK, "10.0.0.77").end();
    assert!(ended.code == Some(1) && ended.text.contains("CAP_NET_RAW"), "{}", ended.text);
    let helped = format!("{LINK}@{}", path.display());
    for address in ["10.0.0.77", "fd77:6566:7400::77"] {
        let server = server(&helped, address);
        both_well(client(address, &server.port()), server);
    }
    ends_cleanly(helper, &path);
    let ended = server(&helped, "10.0.0.77").end();
    assert!(ended.code == Some(1) && ended.text.contains("weft link-helper"), "{}", ended.text);
    if PathBuf::from("/usr/sbin/nft").exists() {
        // Ports of the host's own address: the rule is the helper's.
        let helper = self::helper(lab.host(0), HOST, &path, "0");
        let server = server(&format!("{HOST}@{}", path.display()), "10.0.0.1");
        let port = server.port();
        assert!((40_000..40_010).contains(&port.parse::<u16>().unwrap()), "{port}");
        both_well(client("10.0.0.1", &port), server);
        ends_cleanly(helper, &path);
    }
    lab.down().unwrap();
}

#[test]
fn a_user_who_is_not_trusted_is_refused() {
    let Some(lab) = lab() else { return };
    let path = path("refused");
    let mut killed = helper(lab.host(0), LINK, &path, "4711");
    let line = format!("rping -s -a 10.0.0.77 -p 0 --link {LINK}@{}", path.display());
    let refused = Running::start_by(without_rights(lab.host(0), WEFT), &words(&line)).end();
    let is_told = refused.text.contains("it does not trust user 0");
    assert!(refused.code == Some(1) && is_told, "{}", refused.text);
    killed.await_text("user 0 is refused");
    // What one that was killed leaves is put away by the next; two at a time there are not.
    killed.kill();
    let _ = killed.end();
    assert!(path.exists());
    let next = helper(lab.host(0), LINK, &path, "0");
    let line = format!("link-helper --link {LINK} --socket {} --uid 0", path.display());
    let second = Running::start_by(lab.host(0).command(WEFT), &words(&line)).end();
    assert!(second.code == Some(1) && second.text.contains("another helper"), "{}", second.text);
    ends_cleanly(next, &path);
    lab.down().unwrap();
}

#[test]
fn what_cannot_be_served_is_said() {
    let ended = weft(&["link-helper", "--link", "eth0", "--socket", "/x", "--uid", "0"]);
    assert!(ended.code == Some(2) && ended.text.contains("eth0=10.0.0.9/24"), "{}", ended.text);
    let ended = weft(&["link-helper", "--link", "no-such=10.0.0.9/24@/x", "--socket", "/x", "--uid", "0"]);
    assert!(ended.code == Some(2) && ended.text.contains("leave it out"), "{}", ended.text);
    let ended = weft(&["link-helper", "--link", "no-such=10.0.0.9/24", "--socket", "/x", "--uid", "0"]);
    let is_told = ended.text.contains("no-such");
    assert!(ended.code == Some(1) && is_told, "{}", ended.text);
}
