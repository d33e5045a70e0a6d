//! A host in user space on a real link (`weft-link`) and the kernel's TCP, through a link that loses and reorders
//! frames: each calls the other, over IPv4 and IPv6, and what is sent comes back.
//!
//! Where this system allows no namespaces, or lacks a program, each test says so and passes.

mod kernel;
mod meddler;

use std::env;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::{Duration, Instant};

use kernel::{ROLE, Worker, byte, kernel_calls, kernel_echo, kernel_echo_at, say};
use weft_base::{
    Backlog, Interest, Listener, Network, Piece, Port, PortError, PortOptions, ReceivePiece, Received, Token,
};
use weft_lab::{BridgeProgram, Carrier, Lab, Link, Plan, Shape, serve_bridge};
use weft_link::{LinkNetwork, LinkPort};
use weft_memory::{Limits, Registry};

/// Nothing here takes this long; a wait without result fails then.
const PATIENCE: Duration = Duration::from_secs(120);
/// Addresses of the link that no kernel has, and some that no host has.
const OURS: &str = "rail0=10.0.0.77/24,fd77:6566:7400::77/64,fe80::77/64";
const OUR_ADDRESSES: [&str; 2] = ["10.0.0.77:7000", "[fd77:6566:7400::77]:7000"];
const OUR_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x77);
const NOBODIES: [&str; 2] = ["10.0.0.99:7000", "[fd77:6566:7400::99]:7000"];
const PORT: u16 = 7000;
/// The variable that says another link to a worker, and ports of the host's own addresses.
const LINK: &str = "WEFT_LAB_LINK";
const HOST: &str = "rail0=host:40000-40009";
const HOST_PORT: u16 = 40_003;
const RAIL: Link = Link { host: None, rail: 0 };

fn bytes_to_send() -> usize {
    env::var("WEFT_LINK_BYTES").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000_000)
}

/// Two hosts, and a link between them that is as good as any.
fn good_lab() -> Option<Lab> {
    match Lab::up(&Plan {
        links: 1,
        rate: None,
        switch: true,
        offloads: false,
        carrier: Some(Carrier::Rings),
        ..Plan::default()
    }) {
        Ok(lab) => Some(lab),
        Err(error) if error.cannot_be_had() => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The same, with a link that is worse than most.
fn lab() -> Option<Lab> {
    let mut lab = good_lab()?;
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
        ["kernel-calls-near"] => kernel_calls(near(OUR_LOCAL, PORT), bytes_to_send()),
        ["kernel-echo-near"] => {
            let (own, interface) = kernel_near();
            say(&own.to_string());
            // The kernel listens at an address of one link with the link's number.
            kernel_echo_at(SocketAddrV6::new(own, 0, 0, interface).into());
        }
        ["calls", address] => calls(address.parse().unwrap()),
        ["calls-near", address, port] => calls(near(address.parse().unwrap(), port.parse().unwrap())),
        ["echo", address] => echo(address.parse().unwrap()),
        ["echo-near"] => echo(near(OUR_LOCAL, PORT)),
        ["holds", peer] => holds(peer.parse().unwrap()),
        ["no-right"] => {
            let registry = Registry::new(77, Limits::default());
            say(&LinkNetwork::with_link(registry, HOST.parse().unwrap()).unwrap_err().to_string());
        }
        ["kernel-reads", address] => {
            let mut stream = std::net::TcpStream::connect((address, 40_010)).unwrap();
            let mut text = [0; 6];
            std::io::Read::read_exact(&mut stream, &mut text).unwrap();
            std::io::Write::write_all(&mut stream, b".").unwrap();
            say(std::str::from_utf8(&text).unwrap());
        }
        ["port-taken"] => port_taken(),
        ["taken", address] => taken(address.parse().unwrap()),
        ["meddler", own, victim] => meddler::meddle(own.parse().unwrap(), victim.parse().unwrap()),
        ["beyond", far] => beyond(far.parse().unwrap()),
        ["fails", closed, nobody] => fails(closed.parse().unwrap(), nobody.parse().unwrap()),
        _ => panic!("{role:?} is no role"),
    }
}

/// The address of IPv6 that the kernel has on the rail for this link alone, and the number of the rail.
fn kernel_near() -> (Ipv6Addr, u32) {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        // Address, number, length, scope (20: one link's), flags (40: it is not certain yet), name.
        let text = std::fs::read_to_string("/proc/net/if_inet6").unwrap();
        let found = text.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [address, number, _, "20", flags, "rail0"] if u32::from_str_radix(flags, 16).unwrap() & 0x40 == 0 => {
                let address = u128::from_str_radix(address, 16).unwrap();
                Some((Ipv6Addr::from(address), u32::from_str_radix(number, 16).unwrap()))
            }
            _ => None,
        });
        if let Some(found) = found {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the kernel has no such address")
}

/// An address of this link alone.
fn near(address: Ipv6Addr, port: u16) -> SocketAddr {
    SocketAddrV6::new(address, port, 0, kernel_near().1).into()
}

/// A network of the link, and the waiting for it.
struct Own {
    network: LinkNetwork,
    began: Instant,
}

impl Own {
    fn new() -> Self {
        let registry = Registry::new(77, Limits::default());
        let link = env::var(LINK).unwrap_or_else(|_| OURS.to_owned());
        Self { network: LinkNetwork::with_link(registry, link.parse().unwrap()).unwrap(), began: Instant::now() }
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

    /// Works until something of the kernel's is there.
    fn until<T>(&mut self, mut take: impl FnMut() -> std::io::Result<T>) -> T {
        loop {
            assert!(self.began.elapsed() < PATIENCE, "it hangs");
            self.network.wait(Some(Duration::from_millis(1)), &mut Vec::new()).unwrap();
            match take() {
                Ok(value) => return value,
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock, "{error}"),
            }
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
fn echo(address: SocketAddr) {
    let mut own = Own::new();
    let mut listener = own.network.listen(address, Backlog(4), PortOptions::default()).unwrap();
    assert_eq!(listener.local_address(), address);
    let again = own.network.listen(address, Backlog(4), PortOptions::default());
    assert_eq!(again.unwrap_err(), PortError::AddressInUse);
    // The number is this address's, not the host's.
    let others = OUR_ADDRESSES.map(|other| other.parse::<SocketAddr>().unwrap());
    for other in others.into_iter().filter(|other| *other != address && env::var(LINK).is_err()) {
        own.network.listen(other, Backlog(4), PortOptions::default()).unwrap();
    }
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

/// No gateway is named.
fn beyond(far: SocketAddr) {
    let mut own = Own::new();
    assert_eq!(own.network.connect(far, PortOptions::default()).unwrap_err(), PortError::NoGateway);
    let local = OUR_ADDRESSES.map(|address| address.parse::<SocketAddr>().unwrap());
    let local = local.into_iter().find(|local| local.is_ipv4() == far.is_ipv4());
    let options = PortOptions { local, ..PortOptions::default() };
    assert_eq!(own.network.connect(far, options).unwrap_err(), PortError::NoGateway);
    assert!(PortError::NoGateway.to_string().contains("via="));
    say("done");
}

/// No process listens at `closed`; no host has `nobody`.
fn fails(closed: SocketAddr, nobody: SocketAddr) {
    let mut own = Own::new();
    assert_eq!(own.connect(closed).unwrap_err(), PortError::Refused);
    assert_eq!(own.connect(nobody).unwrap_err(), PortError::Unreachable);
    say("done");
}

/// Has the host's ports until it is killed, and knows a peer. What the kernel's own sockets do beside it, with their
/// callers, is the kernel's: though this side checks each frame, it answers none of theirs.
fn holds(peer: SocketAddr) {
    let mut own = Own::new();
    assert_eq!(tables(), 1);
    let reserved = std::net::TcpListener::bind(("0.0.0.0", HOST_PORT)).unwrap_err();
    assert_eq!(reserved.kind(), std::io::ErrorKind::AddrInUse);
    let kernel = std::net::TcpListener::bind(("::", 40_010)).unwrap();
    kernel.set_nonblocking(true).unwrap();
    assert_eq!(own.connect(peer).unwrap_err(), PortError::Refused);
    say("ready");
    loop {
        let mut stream = own.until(|| kernel.accept().map(|(stream, _)| stream));
        stream.set_nonblocking(true).unwrap();
        std::io::Write::write_all(&mut stream, b"kernel").unwrap();
        let heard = own.until(|| std::io::Read::read(&mut stream, &mut [0]));
        assert_eq!(heard, 1);
        say("done");
    }
}

/// Tables of the firewall in this host.
fn tables() -> usize {
    let output = std::process::Command::new("nft").args(["list", "tables"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().count()
}

/// A socket of the kernel's has one of the ports; nothing is left of what was begun.
fn port_taken() {
    let _taken = std::net::TcpListener::bind(("127.0.0.1", HOST_PORT)).unwrap();
    let registry = Registry::new(77, Limits::default());
    let error = LinkNetwork::with_link(registry.clone(), HOST.parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains("port 40003 of 40000-40009 cannot be reserved"), "{error}");
    assert_eq!(tables(), 0);
    drop(_taken);
    let link = LinkNetwork::with_link(registry, HOST.parse().unwrap()).unwrap();
    assert_eq!(tables(), 1);
    drop(link);
    assert_eq!(tables(), 0);
    say("done");
}

/// Another host has the address.
fn taken(address: IpAddr) {
    let registry = Registry::new(77, Limits::default());
    let link = format!("rail0=fd77:6566:7400::77/64,{address}/64");
    let error = LinkNetwork::with_link(registry, link.parse().unwrap()).unwrap_err().to_string();
    assert!(error.contains(&format!("the address {address} is taken on rail0, by ")), "{error}");
    say("done");
}

fn link_calls_the_kernel(lab: &Lab, address: IpAddr) {
    let mut kernel = Worker::start(lab.host(1), &format!("kernel-echo {address}"));
    let remote = SocketAddr::new(address, kernel.says().parse().unwrap());
    let mut own = Worker::start(lab.host(0), &format!("calls {remote}"));
    assert!(own.says() == "done" && own.succeeds());
    assert!(kernel.says() == "done" && kernel.succeeds());
}

fn kernel_calls_the_link(lab: &Lab, echo: &str, calls: &str) {
    let mut own = Worker::start(lab.host(0), echo);
    assert_eq!(own.says(), "ready");
    let mut kernel = Worker::start(lab.host(1), calls);
    assert!(kernel.says() == "done" && kernel.succeeds());
    assert!(own.says() == "done" && own.succeeds());
}

#[test]
fn the_link_calls_the_kernel() {
    let Some(lab) = lab() else { return };
    link_calls_the_kernel(&lab, lab.host(1).address(0));
}

#[test]
fn the_kernel_calls_the_link() {
    let Some(lab) = lab() else { return };
    let [four, _] = OUR_ADDRESSES;
    kernel_calls_the_link(&lab, &format!("echo {four}"), &format!("kernel-calls {four}"));
}

#[test]
fn the_link_calls_the_kernel_over_ipv6() {
    let Some(lab) = lab() else { return };
    let Some(address) = lab.host(1).address_v6(0) else { return };
    link_calls_the_kernel(&lab, address);
}

#[test]
fn the_kernel_calls_the_link_over_ipv6() {
    let Some(lab) = lab() else { return };
    if lab.host(1).address_v6(0).is_some() {
        let [_, six] = OUR_ADDRESSES;
        kernel_calls_the_link(&lab, &format!("echo {six}"), &format!("kernel-calls {six}"));
    }
}

#[test]
fn addresses_of_one_link_work_with_the_number_of_its_interface() {
    let Some(lab) = lab() else { return };
    if lab.host(1).address_v6(0).is_none() {
        return;
    }
    kernel_calls_the_link(&lab, "echo-near", "kernel-calls-near");
    let mut kernel = Worker::start(lab.host(1), "kernel-echo-near");
    let (address, port) = (kernel.says(), kernel.says());
    let mut own = Worker::start(lab.host(0), &format!("calls-near {address} {port}"));
    assert!(own.says() == "done" && own.succeeds());
    assert!(kernel.says() == "done" && kernel.succeeds());
}

#[test]
fn an_address_of_ipv6_that_somebody_has_is_refused() {
    let Some(lab) = good_lab() else { return };
    let Some(address) = lab.host(1).address_v6(0) else { return };
    let mut taken = Worker::start(lab.host(0), &format!("taken {address}"));
    assert!(taken.says() == "done" && taken.succeeds());
}

/// An attacker on the link says that the neighbour is elsewhere, and that packets are too big for paths that cannot be;
/// and, as a router would, that they are too big for one that can.
#[test]
fn liars_change_nothing_and_the_path_s_word_makes_segments_smaller() {
    let Some(lab) = good_lab() else { return };
    let Some(address) = lab.host(1).address_v6(0) else { return };
    let [_, victim] = OUR_ADDRESSES;
    let victim = victim.parse::<SocketAddr>().unwrap().ip();
    let mut meddler = Worker::start(lab.host(1), &format!("meddler {address} {victim}"));
    assert_eq!(meddler.says(), "ready");
    link_calls_the_kernel(&lab, address);
    let said = meddler.says();
    let counts: Vec<u64> = said.split(' ').map(|count| count.parse().unwrap()).collect();
    let [larger, fitting, lies] = counts[..] else { panic!("{said}") };
    assert!(larger > 0 && lies > 0 && fitting > 0 && meddler.succeeds(), "larger, fitting and lies: {said}");
}

/// Whether this system has the program that sets the rule.
fn has_nft() -> bool {
    let is_there =
        ["/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft"].iter().any(|path| std::path::Path::new(path).exists());
    if !is_there {
        println!("skipped: there is no nft");
    }
    is_there
}

fn with_ports_of_the_host(lab: &Lab, role: &str) -> Worker {
    Worker::start_with(lab.host(0), role, &[(LINK, HOST)])
}

/// The kernel has the address, and would answer each segment with a reset if its firewall let it.
#[test]
fn a_range_of_the_host_s_ports_is_our_tcp_s_in_both_roles_over_both_kinds_of_ip() {
    let Some(lab) = lab() else { return };
    if !has_nft() {
        return;
    }
    let addresses = |host: usize| [Some(lab.host(host).address(0)), lab.host(host).address_v6(0)].into_iter().flatten();
    for (ours, theirs) in addresses(0).zip(addresses(1)) {
        let mut kernel = Worker::start(lab.host(1), &format!("kernel-echo {theirs}"));
        let remote = SocketAddr::new(theirs, kernel.says().parse().unwrap());
        let mut own = with_ports_of_the_host(&lab, &format!("calls {remote}"));
        assert!(own.says() == "done" && own.succeeds());
        assert!(kernel.says() == "done" && kernel.succeeds());

        let address = SocketAddr::new(ours, HOST_PORT);
        let mut own = with_ports_of_the_host(&lab, &format!("echo {address}"));
        assert_eq!(own.says(), "ready");
        let mut kernel = Worker::start(lab.host(1), &format!("kernel-calls {address}"));
        assert!(kernel.says() == "done" && kernel.succeeds());
        assert!(own.says() == "done" && own.succeeds());
    }
    let nobodies = NOBODIES.into_iter().zip(addresses(1));
    for (nobody, theirs) in nobodies {
        let mut fails = with_ports_of_the_host(&lab, &format!("fails {} {nobody}", SocketAddr::new(theirs, 9)));
        assert!(fails.says() == "done" && fails.succeeds());
    }
}

/// The kernel takes the table away when the process that had it has ended.
fn await_no_table(lab: &Lab) {
    let until = Instant::now() + PATIENCE;
    loop {
        let mut nft = lab.host(0).command("nft");
        let output = nft.args(["list", "tables"]).output().unwrap();
        if output.status.success() && output.stdout.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "{output:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_rule_is_gone_with_who_has_set_it_however_it_ends() {
    let Some(lab) = good_lab() else { return };
    if !has_nft() {
        return;
    }
    let mut taken = Worker::start(lab.host(0), "port-taken");
    assert!(taken.says() == "done" && taken.succeeds());
    let addresses = |host: usize| [Some(lab.host(host).address(0)), lab.host(host).address_v6(0)].into_iter().flatten();
    for (address, theirs) in addresses(0).zip(addresses(1)) {
        let mut holds = with_ports_of_the_host(&lab, &format!("holds {}", SocketAddr::new(theirs, 9)));
        assert_eq!(holds.says(), "ready");
        let mut kernel = Worker::start(lab.host(1), &format!("kernel-reads {address}"));
        assert!(kernel.says() == "kernel" && holds.says() == "done");
        holds.kill();
        await_no_table(&lab);
    }
    let mut own = with_ports_of_the_host(&lab, "port-taken");
    assert!(own.says() == "done" && own.succeeds(), "the next start has the ports");
}

/// The words say which right is missing.
#[test]
fn without_the_right_to_set_the_rule_the_words_say_so() {
    let Some(lab) = good_lab() else { return };
    if !has_nft() {
        return;
    }
    let mut command = lab.host(0).command("setpriv");
    command.args(["--bounding-set=-net_admin", "--inh-caps=-net_admin"]).arg(env::current_exe().unwrap());
    let mut worker = Worker::start_by(command, "no-right", &[]);
    let said = worker.says();
    assert!(said.contains("CAP_NET_ADMIN") && worker.succeeds(), "{said}");
}

#[test]
fn who_is_not_there_is_told_from_who_does_not_listen() {
    let Some(lab) = lab() else { return };
    let addresses = [Some(lab.host(1).address(0)), lab.host(1).address_v6(0)];
    for (address, nobody) in addresses.into_iter().flatten().zip(NOBODIES) {
        let closed = SocketAddr::new(address, 9);
        let mut fails = Worker::start(lab.host(0), &format!("fails {closed} {nobody}"));
        assert!(fails.says() == "done" && fails.succeeds());
    }
}

/// No kernel says how long segments may be: the link's MTU does, less the headers of either kind of IP.
#[test]
fn two_links_call_each_other_over_both_kinds_of_ip() {
    let Some(lab) = good_lab() else { return };
    let theirs = "rail0=10.0.0.78/24,fd77:6566:7400::78/64";
    for ours in OUR_ADDRESSES {
        let mut echo = Worker::start(lab.host(0), &format!("echo {ours}"));
        assert_eq!(echo.says(), "ready");
        let mut calls = Worker::start_with(lab.host(1), &format!("calls {ours}"), &[(LINK, theirs)]);
        assert!(calls.says() == "done" && calls.succeeds());
        assert!(echo.says() == "done" && echo.succeeds());
    }
}

/// Addresses of a host behind a router.
const FAR: [&str; 2] = ["192.0.2.1", "2001:db8::1"];

fn run(host: &weft_lab::Host, command: &str) {
    let mut words = command.split(' ');
    let output = host.command(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
}

/// Host 1 is a router between the first link and host 2, and its way to that carries less than the link. `None`, too,
/// where there is no IPv6.
fn routed_lab() -> Option<Lab> {
    let plan = Plan { hosts: 3, links: 2, rate: None, offloads: false, ..Plan::default() };
    let lab = match Lab::up(&plan) {
        Ok(lab) => lab,
        Err(error) if error.cannot_be_had() => {
            println!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let (router, far) = (lab.host(1), lab.host(2));
    let six = |host: usize| lab.host(host).address_v6(1);
    let (router_six, far_six) = six(1).zip(six(2))?;
    let ours = OUR_ADDRESSES.map(|address| address.parse::<SocketAddr>().unwrap().ip());
    let [four, six] = FAR;
    for forward in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
        run(router, &format!("sysctl -qw net/{forward}=1"));
    }
    run(far, "ip link set lo up");
    run(far, &format!("ip address add {four}/32 dev lo"));
    run(far, &format!("ip address add {six}/128 dev lo nodad"));
    for (back, to, by, through) in
        [(ours[0], four, router.address(1), far.address(1)), (ours[1], six, router_six, far_six)]
    {
        run(router, &format!("ip route add {to} via {through} dev rail1 mtu lock 1300"));
        run(far, &format!("ip route add {back} via {by} dev rail1"));
    }
    Some(lab)
}

#[test]
fn beyond_the_link_peers_are_reached_by_a_gateway_and_only_by_one() {
    let Some(lab) = routed_lab() else { return };
    let [four, six] = [Some(lab.host(1).address(0)), lab.host(1).address_v6(0)].map(Option::unwrap);
    let link = format!("rail0=10.0.0.77/24,fd77:6566:7400::77/64,via={four},via={six}");
    let own = |role: &str| Worker::start_with(lab.host(0), role, &[(LINK, &link)]);
    for (far, ours) in FAR.into_iter().zip(OUR_ADDRESSES) {
        let far: IpAddr = far.parse().unwrap();
        let mut kernel = Worker::start(lab.host(2), &format!("kernel-echo {far}"));
        let remote = SocketAddr::new(far, kernel.says().parse().unwrap());
        let mut calls = own(&format!("calls {remote}"));
        assert!(calls.says() == "done" && calls.succeeds());
        assert!(kernel.says() == "done" && kernel.succeeds());

        let mut echo = own(&format!("echo {ours}"));
        assert_eq!(echo.says(), "ready");
        let mut kernel = Worker::start(lab.host(2), &format!("kernel-calls {ours}"));
        assert!(kernel.says() == "done" && kernel.succeeds());
        assert!(echo.says() == "done" && echo.succeeds());

        let mut beyond = Worker::start(lab.host(0), &format!("beyond {remote}"));
        assert!(beyond.says() == "done" && beyond.succeeds());
    }
}

/// The senders leave segmentation to the devices, and these carry what was not cut.
#[test]
fn frames_that_nobody_has_cut_go_both_ways() {
    let plan = Plan { links: 1, rate: None, switch: true, offloads: true, ..Plan::default() };
    let lab = match Lab::up(&plan) {
        Ok(lab) => lab,
        Err(error) if error.cannot_be_had() => return println!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    };
    let addresses = [Some(lab.host(1).address(0)), lab.host(1).address_v6(0)];
    for (address, ours) in addresses.into_iter().zip(OUR_ADDRESSES) {
        let Some(address) = address else { continue };
        link_calls_the_kernel(&lab, address);
        kernel_calls_the_link(&lab, &format!("echo {ours}"), &format!("kernel-calls {ours}"));
    }
    let [ours, _] = OUR_ADDRESSES;
    let mut echo = Worker::start(lab.host(0), &format!("echo {ours}"));
    assert_eq!(echo.says(), "ready");
    let mut calls = Worker::start_with(lab.host(1), &format!("calls {ours}"), &[(LINK, "rail0=10.0.0.78/24")]);
    assert!(calls.says() == "done" && calls.succeeds());
    assert!(echo.says() == "done" && echo.succeeds());
}
