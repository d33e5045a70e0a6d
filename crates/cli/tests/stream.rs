//! Byte streams over Weft's own TCP between two hosts of a lab, through a link that loses and reorders frames: among
//! themselves beside an RDMA connection, and with the kernel's sockets in both roles.
//!
//! Where this system allows no namespaces, or lacks a program, the test says so and passes.

mod running;

use std::env;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use running::{Running, words};
use weft::stream::{Stream, StreamListener};
use weft::verbs::{
    Access, CompletionQueue, ConnectOptions, Context, ListenOptions, MemoryRegion, QueuePair, QueuePairOptions,
    Settings, WorkRequest,
};
use weft_lab::{BridgeProgram, Carrier, Host, Lab, Link, Plan, Shape};

/// The variable that says to a worker what it does.
const ROLE: &str = "WEFT_STREAM_ROLE";
/// Addresses of the link that no kernel has.
const LINKS: [&str; 2] = ["rail0=10.0.0.77/24,fd77:6566:7400::77/64", "rail0=fd77:6566:7400::78/64,10.0.0.78/24"];
/// The first of them, of both kinds, and those of the caller and of no host.
const SERVER: [&str; 2] = ["10.0.0.77", "fd77:6566:7400::77"];
const CALLER: [&str; 2] = ["10.0.0.78", "fd77:6566:7400::78"];
const NOBODY: [&str; 2] = ["10.0.0.99", "fd77:6566:7400::99"];
const RDMA_PORT: u16 = 7000;
/// Nothing here takes this long; a wait without result fails then.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(100));
/// Streams at the same time, and bytes of each.
const STREAMS: usize = 24;
const LENGTH: usize = 150_000;

fn bytes(seed: usize) -> Vec<u8> {
    (0..LENGTH).map(|at| (at % 251 + at / 65_521 + seed) as u8).collect()
}

fn lab() -> Option<Lab> {
    let mut lab = match Lab::up(&Plan {
        links: 1,
        rate: None,
        switch: true,
        offloads: false,
        carrier: Some(Carrier::Rings),
        ..Plan::default()
    }) {
        Ok(lab) => lab,
        Err(error) if error.cannot_be_had() => {
            println!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let loss_millionths = 5000;
    let (reorder_millionths, reorder_by) = (20_000, Duration::from_millis(1));
    shape(&mut lab, &Shape { loss_millionths, reorder_millionths, reorder_by, ..Shape::default() });
    Some(lab)
}

fn shape(lab: &mut Lab, shape: &Shape) {
    let arguments = ["lab", "bridge"].map(Into::into).to_vec();
    let program = BridgeProgram { program: env!("CARGO_BIN_EXE_weft").into(), arguments, environment: Vec::new() };
    lab.shape(Link { host: None, rail: 0 }, shape, &program).unwrap();
}

/// This program again, in a host.
fn start(host: &Host, role: &str) -> Running {
    let mut command = host.command(env::current_exe().unwrap());
    command.env(ROLE, role);
    Running::start_by(command, &words("--exact worker --nocapture --test-threads=1"))
}

/// What a worker does; without a role it is no test.
#[test]
fn worker() {
    let Ok(role) = env::var(ROLE) else { return };
    match role.split(' ').collect::<Vec<_>>()[..] {
        ["serves", address, calls] => serve(address.parse().unwrap(), calls.parse().unwrap(), false),
        ["serves-beside", address, calls] => serve(address.parse().unwrap(), calls.parse().unwrap(), true),
        ["calls", remote] => call(remote.parse().unwrap()),
        ["kernel-serves", address, calls] => kernel_serve(address.parse().unwrap(), calls.parse().unwrap()),
        ["kernel-calls", remote] => kernel_call(remote.parse().unwrap()),
        ["fails", closed, server] => fail(closed.parse().unwrap(), server.parse().unwrap()),
        _ => panic!("{role:?} is no role"),
    }
}

fn open(link: &str) -> Context {
    Context::with_link(Settings::default(), link.parse().unwrap()).unwrap()
}

/// Receives all, sends it back, and is gone at once.
fn echo(mut stream: impl Read + Write) {
    let mut all = Vec::new();
    if stream.read_to_end(&mut all).is_ok() {
        stream.write_all(&all).unwrap();
    }
}

/// Sends, ends its direction, and has it all back.
fn converse(mut stream: impl Read + Write, seed: usize, end: impl FnOnce()) {
    stream.write_all(&bytes(seed)).unwrap();
    end();
    let mut came = Vec::new();
    stream.read_to_end(&mut came).unwrap();
    assert!(came == bytes(seed), "{} of {LENGTH}", came.len());
}

/// An RDMA connection's end.
struct End {
    queue_pair: QueuePair,
    completions: CompletionQueue,
    inbox: MemoryRegion,
}

impl End {
    fn new(context: &Context) -> Self {
        let domain = context.allocate_protection_domain().unwrap();
        let completions = context.create_completion_queue(64).unwrap();
        let queue_pair = domain.create_queue_pair(&completions, &QueuePairOptions::default()).unwrap();
        let inbox = domain.allocate(64, Access::LOCAL_WRITE).unwrap();
        queue_pair.post_receive(1, &[inbox.slice(..).unwrap()]).unwrap();
        Self { queue_pair, completions, inbox }
    }

    fn send(&self, text: &[u8]) {
        self.queue_pair.post(WorkRequest::send_inline(text).unwrap().id(2)).unwrap();
    }

    fn receive(&self) -> Vec<u8> {
        let came = self.completions.wait_for(|completion| completion.id == 1, PATIENCE).unwrap();
        let mut text = vec![0; came.length as usize];
        self.inbox.read(0, &mut text).unwrap();
        text
    }

    /// Closes when all is acknowledged: a process that ends without that takes back what the link has lost or put
    /// behind. The peer may have everything, and be gone.
    fn close(&self) {
        let _ = self.queue_pair.disconnect(PATIENCE);
    }
}

/// Echoes that many streams, and one message by RDMA if that is wanted. Ends without waiting for its peers.
fn serve(address: IpAddr, calls: usize, is_beside_rdma: bool) {
    let context = open(LINKS[0]);
    let at_rdma = SocketAddr::new(address, RDMA_PORT);
    let rdma = context.listen(at_rdma, &ListenOptions::default()).unwrap();
    let listener = StreamListener::bind(&context, SocketAddr::new(address, 0)).unwrap();
    // One number is one or the other.
    let taken = StreamListener::bind(&context, at_rdma).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    println!("listening on {}", listener.local_address());
    let end = End::new(&context);
    thread::scope(|scope| {
        for stream in listener.incoming().take(calls) {
            scope.spawn(|| echo(stream.unwrap()));
        }
        if is_beside_rdma {
            rdma.accept(PATIENCE).unwrap().accept(&end.queue_pair, &[]).unwrap();
            let text = end.receive();
            end.send(&text);
            end.close();
        }
    });
}

/// Many streams; to another Weft also an RDMA connection on the same link.
fn call(remote: SocketAddr) {
    let context = open(LINKS[1]);
    let kind = usize::from(remote.is_ipv6());
    let rdma = (remote.ip().to_string() == SERVER[kind]).then(|| End::new(&context));
    if let Some(end) = &rdma {
        let at_rdma = SocketAddr::new(remote.ip(), RDMA_PORT);
        end.queue_pair.start_connect(at_rdma, &ConnectOptions::default()).unwrap();
    }
    thread::scope(|scope| {
        for seed in 0..STREAMS {
            let context = &context;
            scope.spawn(move || {
                let stream = Stream::connect(context, remote).unwrap();
                assert_eq!(stream.local_address().ip().to_string(), CALLER[kind]);
                converse(&stream, seed, || stream.shutdown(Shutdown::Write).unwrap());
            });
        }
    });
    if let Some(end) = rdma {
        end.queue_pair.wait_connected(PATIENCE).unwrap();
        end.send(b"beside streams");
        assert_eq!(end.receive(), b"beside streams");
        end.close();
    }
}

fn kernel_serve(address: IpAddr, calls: usize) {
    let listener = TcpListener::bind((address, 0)).unwrap();
    println!("listening on {}", listener.local_addr().unwrap());
    thread::scope(|scope| {
        for stream in listener.incoming().take(calls) {
            scope.spawn(|| echo(stream.unwrap()));
        }
    });
}

fn kernel_call(remote: SocketAddr) {
    thread::scope(|scope| {
        for seed in 0..STREAMS {
            scope.spawn(move || {
                let stream = TcpStream::connect(remote).unwrap();
                converse(&stream, seed, || stream.shutdown(Shutdown::Write).unwrap());
            });
        }
    });
}

/// What does not come about, or breaks, says how.
fn fail(closed: SocketAddr, server: SocketAddr) {
    let context = open(LINKS[1]);
    let nobody = SocketAddr::new(NOBODY[usize::from(server.is_ipv6())].parse().unwrap(), 7000);
    let kind_of = |remote| Stream::connect(&context, remote).unwrap_err().kind();
    assert_eq!(kind_of(closed), ErrorKind::ConnectionRefused);
    assert_eq!(kind_of(nobody), ErrorKind::HostUnreachable);
    let short = Duration::from_millis(5);
    let error = Stream::connect_timeout(&context, nobody, short).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let begun = Stream::start_connect(&context, nobody, None).unwrap();
    assert_eq!((&begun).write(b"early").unwrap_err().kind(), ErrorKind::NotConnected);
    let mut stream = Stream::connect(&context, server).unwrap();
    stream.set_read_timeout(Some(short)).unwrap();
    assert_eq!(stream.read(&mut [0; 4]).unwrap_err().kind(), ErrorKind::TimedOut);
    stream.abort();
}

fn ends_well(running: Running) {
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{}", ended.text);
}

#[test]
fn streams_go_by_weft_s_own_tcp_to_itself_and_to_the_kernel_s() {
    let Some(mut lab) = lab() else { return };
    let kernels = [Some(lab.host(0).address(0)), lab.host(0).address_v6(0)];
    let servers = || SERVER.map(|own| own.parse().unwrap()).into_iter().zip(kernels.into_iter().flatten());
    servers().for_each(|(own, kernel)| go(&lab, own, kernel));
    // A reset is sent once: where it is lost, an end that waits for more never gets it.
    shape(&mut lab, &Shape::default());
    servers().for_each(|(own, kernel)| fail_with(&lab, own, kernel));
    lab.down().unwrap();
}

/// With a server at an address of the link's, and at one of the kernel's.
fn go(lab: &Lab, own: IpAddr, kernel: IpAddr) {
    let at = |address, server: &Running| SocketAddr::new(address, server.port().parse().unwrap());
    for (serves, calls, address) in
        [("serves-beside", "calls", own), ("serves", "kernel-calls", own), ("kernel-serves", "calls", kernel)]
    {
        let server = start(lab.host(0), &format!("{serves} {address} {STREAMS}"));
        ends_well(start(lab.host(1), &format!("{calls} {}", at(address, &server))));
        ends_well(server);
    }
}

/// The same servers, called by a client that fails and breaks off.
fn fail_with(lab: &Lab, own: IpAddr, kernel: IpAddr) {
    let at = |address, server: &Running| SocketAddr::new(address, server.port().parse().unwrap());
    for (serves, address) in [("serves", own), ("kernel-serves", kernel)] {
        let server = start(lab.host(0), &format!("{serves} {address} 1"));
        let closed = SocketAddr::new(address, 1);
        ends_well(start(lab.host(1), &format!("fails {closed} {}", at(address, &server))));
        // Its stream was reset.
        ends_well(server);
    }
}
