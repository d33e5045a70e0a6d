//! Edge in frames of its own between two hosts of a lab, through a link that loses, repeats, reorders and damages
//! them, and while a stranger sends what is none.
//!
//! Where this system allows no namespaces, or lacks a program, the test says so and passes.

mod running;

use std::env;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use running::{Ended, Running, words};
use weft::verbs::{
    Access, CompletionQueue, ConnectOptions, ConnectionError, Context, Error, ListenOptions, LowerInfo, MemoryRegion,
    Offer, PortError, QueuePair, QueuePairOptions, RemoteMemory, Settings, Stag, Status, Transport, WorkCompletion,
    WorkRequest,
};
use weft_driver::PacketSocket;
use weft_lab::{BridgeProgram, Carrier, Host, Lab, Link, Plan, Shape, Way};
use weft_wire::raw::{ETHER_TYPE, HEADER_LENGTH_IPV6, Header};

const WEFT: &str = env!("CARGO_BIN_EXE_weft");
/// The variable that says to a worker what it does.
const ROLE: &str = "WEFT_RAW_ROLE";
/// Nothing here takes this long; a wait without result fails then.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(100));
/// Addresses of the link that no kernel has, and one that no host has.
struct Addresses {
    server: &'static str,
    client: &'static str,
    nobody: &'static str,
}

const FOUR: Addresses = Addresses { server: "10.0.0.77", client: "10.0.0.78", nobody: "10.0.0.99" };
const SIX: Addresses =
    Addresses { server: "fd77:6566:7400::77", client: "fd77:6566:7400::78", nobody: "fd77:6566:7400::99" };

impl Addresses {
    /// Of the kind of this one.
    fn beside(remote: SocketAddr) -> Self {
        if remote.is_ipv4() { FOUR } else { SIX }
    }
}

/// A link with this address.
fn link(address: &str) -> String {
    format!("rail0={address}/{}", if address.contains(':') { 64 } else { 24 })
}

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}

const BYTES: usize = 300_000;
const ROUNDS: u64 = 5;
/// The immediate data behind the last round.
const OVER: u64 = u64::MAX;

fn pattern(round: u64) -> Vec<u8> {
    (0..BYTES as u64).map(|at| (at % 251 + at / 65_521 + round) as u8).collect()
}

fn bare_lab(links: usize) -> Option<Lab> {
    match Lab::up(&Plan { links, rate: None, switch: true, carrier: Some(Carrier::Rings), ..Plan::default() }) {
        Ok(lab) => Some(lab),
        Err(error) if error.cannot_be_had() => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn lab() -> Option<Lab> {
    let mut lab = bare_lab(1)?;
    let shape = Shape {
        loss_millionths: 20_000,
        reorder_millionths: 50_000,
        reorder_by: Duration::from_millis(1),
        duplicate_millionths: 10_000,
        corrupt_millionths: 10_000,
        ..Shape::default()
    };
    let arguments = ["lab", "bridge"].map(Into::into).to_vec();
    let program = BridgeProgram { program: WEFT.into(), arguments, environment: Vec::new() };
    lab.shape(Link { host: None, rail: 0 }, &shape, &program).unwrap();
    Some(lab)
}

/// This program again, in a host, with a role.
fn start(host: &Host, role: &str) -> Running {
    let mut command = host.command(env::current_exe().unwrap());
    command.env(ROLE, role);
    Running::start_by(command, &words("--exact worker --nocapture --test-threads=1"))
}

/// What a worker does; without a role it is no test.
#[test]
fn worker() {
    let Ok(role) = env::var(ROLE) else { return };
    match role.split(';').collect::<Vec<_>>()[..] {
        ["server", address] => serve(address),
        ["client", remote] => call(remote.parse().unwrap()),
        ["caller over rails", remote] => call_over_rails(remote.parse().unwrap()),
        ["stranger", hardware, remote] => disturb(hardware, remote.parse().unwrap()),
        _ => panic!("{role:?} is no role"),
    }
}

struct End {
    context: Context,
    queue_pair: QueuePair,
    completions: CompletionQueue,
}

impl End {
    fn new(link: &str) -> Self {
        let context = Context::with_link(Settings::default(), link.parse().unwrap()).unwrap();
        let domain = context.allocate_protection_domain().unwrap();
        let completions = context.create_completion_queue(256).unwrap();
        let queue_pair = domain.create_queue_pair(&completions, &QueuePairOptions::default()).unwrap();
        Self { context, queue_pair, completions }
    }

    fn memory(&self, bytes: usize) -> MemoryRegion {
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC;
        self.queue_pair.domain().allocate(bytes, access).unwrap()
    }

    fn next(&self) -> WorkCompletion {
        let done = self.completions.wait(PATIENCE).expect("it hangs");
        assert_eq!(done.status, Status::Success, "{:?}", self.queue_pair.error());
        done
    }

    fn post(&self, request: WorkRequest) {
        self.queue_pair.post(request).unwrap();
        self.next();
    }
}

fn offer() -> Offer {
    Offer { transport: Transport::Edge, ..ConnectOptions::default().offer }
}

/// Lets the peer write and read its memory, and compares the bytes that were written.
fn serve(address: &str) {
    let end = End::new(&link(address));
    let listen = ListenOptions { offer: offer(), ..ListenOptions::default() };
    let listener = end.context.listen(at(address, 0), &listen).unwrap();
    let again = end.context.listen(listener.local_address(), &listen);
    assert!(matches!(again, Err(Error::Port(PortError::AddressInUse))), "{:?}", again.err());
    let hardware = PacketSocket::open("rail0").unwrap().hardware().map(|byte| format!("{byte:02x}")).join("-");
    println!("worker: {hardware} {}", listener.local_address());
    let window = end.memory(BYTES + 8);
    let inbox = end.memory(64);
    let post = |id| end.queue_pair.post_receive(id, &[inbox.slice(..).unwrap()]).unwrap();
    (0..4).for_each(post);
    let RemoteMemory { stag, offset } = window.remote(0);
    let words = [&stag.0.to_be_bytes()[..], &offset.to_be_bytes()].concat();
    listener.accept(PATIENCE).unwrap().accept(&end.queue_pair, &words).unwrap();
    end.queue_pair.wait_connected(PATIENCE).unwrap();
    for round in 0.. {
        let immediate = end.next().immediate;
        if immediate == Some(OVER) {
            break;
        }
        assert_eq!(immediate, Some(round));
        let mut text = [0; 5];
        assert_eq!(end.next().length, 5);
        inbox.read(0, &mut text).unwrap();
        assert_eq!(&text, b"hello");
        let mut bytes = vec![0; BYTES];
        window.read(0, &mut bytes).unwrap();
        assert!(bytes == pattern(round), "round {round}");
        [4, 5].into_iter().for_each(post);
        end.queue_pair.post(WorkRequest::send_inline(b"seen").unwrap().unsignaled()).unwrap();
    }
    end.queue_pair.disconnect(PATIENCE).unwrap();
    println!("worker: done");
}

/// The memory of a server that the client writes to and reads.
struct Caller {
    end: End,
    stag: Stag,
    base: u64,
    memories: [MemoryRegion; 4],
}

impl Caller {
    fn connect(remote: SocketAddr) -> Self {
        let own = Addresses::beside(remote).client;
        let end = End::new(&link(own));
        let connect = ConnectOptions { offer: offer(), ..ConnectOptions::default() };
        let info = end.queue_pair.connect(remote, &connect).unwrap();
        assert_eq!((info.lower.clone(), info.local.ip()), (LowerInfo::Edge, own.parse().unwrap()));
        let number = |at: usize| u32::from_be_bytes(info.private_data[at..at + 4].try_into().unwrap());
        let (stag, base) = (Stag(number(0)), u64::from(number(4)) << 32 | u64::from(number(8)));
        let memories = [BYTES, BYTES, 8, 64].map(|bytes| end.memory(bytes));
        Self { end, stag, base, memories }
    }

    /// Does all that there is to do.
    fn round(&self, round: u64) {
        let at = |offset: usize| RemoteMemory { stag: self.stag, offset: self.base + offset as u64 };
        let (end, [outbox, back, word, inbox]) = (&self.end, &self.memories);
        end.queue_pair.post_receive(round, &[inbox.slice(..).unwrap()]).unwrap();
        outbox.write(0, &pattern(round)).unwrap();
        end.post(WorkRequest::write(outbox.slice(..).unwrap(), at(0)));
        end.post(WorkRequest::read(back.slice(..).unwrap(), at(0)));
        assert!(back.to_vec() == pattern(round), "round {round}");
        end.post(WorkRequest::fetch_add(word.slice(..).unwrap(), at(BYTES), 3));
        assert_eq!(word.to_vec(), (round * 3).to_ne_bytes());
        end.post(WorkRequest::compare_swap(word.slice(..).unwrap(), at(BYTES), round * 3 + 3, round * 3 + 3));
        assert_eq!(word.to_vec(), (round * 3 + 3).to_ne_bytes());
        end.post(WorkRequest::immediate(round));
        end.queue_pair.post(WorkRequest::send_inline(b"hello").unwrap().unsignaled()).unwrap();
        assert_eq!(end.next().length, 4);
    }

    fn finish(&self) {
        self.end.post(WorkRequest::immediate(OVER));
        self.end.queue_pair.disconnect(PATIENCE).unwrap();
    }
}

fn call(remote: SocketAddr) {
    let caller = Caller::connect(remote);
    (0..ROUNDS).for_each(|round| caller.round(round));
    assert!(caller.end.context.counters().lost_datagrams > 0, "the link should have lost some");
    caller.finish();
    let connect = ConnectOptions { offer: offer(), ..ConnectOptions::default() };
    let error = more(&caller.end).connect(at(Addresses::beside(remote).nobody, 7000), &connect).unwrap_err();
    assert!(
        matches!(error, Error::Connection(ConnectionError::Connect { error: PortError::Unreachable, .. })),
        "{error:?}"
    );
    println!("worker: done");
}

/// The link is cut when there is another rail, by UDP over another interface, which then carries all.
fn call_over_rails(remote: SocketAddr) {
    let caller = Caller::connect(remote);
    let began = Instant::now();
    let mut round = 0;
    let mut until = |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            assert!(began.elapsed() < PATIENCE.unwrap(), "it hangs");
            caller.round(round);
            round += 1;
        }
    };
    let counters = || caller.end.context.counters();
    until(&|| counters().rails_opened > 0);
    println!("worker: cut");
    until(&|| counters().rails_left > 0);
    (round..round + ROUNDS).for_each(|round| caller.round(round));
    caller.finish();
    println!("worker: done");
}

fn more(end: &End) -> QueuePair {
    end.queue_pair.domain().create_queue_pair(&end.completions, &QueuePairOptions::default()).unwrap()
}

/// Sends frames that have no datagram, or one that is for no port, until it is ended.
fn disturb(hardware: &str, remote: SocketAddr) {
    let socket = PacketSocket::open("rail0").unwrap();
    // With colons it could not be distinguished from an address.
    let mut head: Vec<u8> = hardware.split('-').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    head.extend_from_slice(&socket.hardware());
    head.extend_from_slice(&ETHER_TYPE.to_be_bytes());
    let client = Addresses::beside(remote).client;
    let [nobody, many, other] =
        if remote.is_ipv4() { ["0.0.0.0", "224.0.0.1", "10.9.9.9"] } else { ["::", "ff02::1", "2001:db8::1"] };
    let good = Header { source: at(client, 50_000), destination: remote, length: 100 };
    let emit = |header: Header| {
        let mut bytes = [0; HEADER_LENGTH_IPV6];
        let length = header.emit(&mut bytes);
        bytes[..length].to_vec()
    };
    let headers = [
        // Fewer bytes than it says, all that there can be, none.
        emit(Header { length: 1400, ..good }),
        emit(Header { length: u16::MAX, ..good }),
        emit(Header { length: 0, ..good }),
        // Sources that cannot be answered: an unspecified address, all, another network, the receiver itself.
        emit(Header { source: at(nobody, 1), ..good }),
        emit(Header { source: at(many, 1), ..good }),
        emit(Header { source: at(other, 1), ..good }),
        emit(Header { source: remote, ..good }),
        emit(Header { source: at(client, 0), ..good }),
        // A datagram that is noise, of another version, to another port, and a header that is cut.
        emit(good),
        [&[9, 0x57][..], &emit(good)[2..]].concat(),
        emit(Header { destination: SocketAddr::new(remote.ip(), 1), ..good }),
        emit(good)[..10].to_vec(),
    ];
    println!("worker: ready");
    let until = Instant::now() + PATIENCE.unwrap();
    while Instant::now() < until {
        for (at, header) in headers.iter().enumerate() {
            let mut frame = head.clone();
            frame.extend_from_slice(header);
            if header.len() > 10 {
                frame.extend((0..100).map(|byte: u8| byte.wrapping_mul(37) ^ at as u8));
            }
            let _ = socket.send(&frame);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn ended_well(running: Running) {
    let Ended { code, text } = running.end();
    assert!(code == Some(0) && text.contains("worker: done"), "{text}");
}

#[test]
fn verbs_go_in_frames_of_their_own_whatever_becomes_of_these() {
    let Some(lab) = lab() else { return };
    for Addresses { server, .. } in [FOUR, SIX] {
        let server = start(lab.host(0), &format!("server;{server}"));
        let (hardware, address) = listening(&server);
        let stranger = start(lab.host(1), &format!("stranger;{hardware};{address}"));
        stranger.await_text("worker: ready");
        let client = start(lab.host(1), &format!("client;{address}"));
        ended_well(client);
        ended_well(server);
        drop(stranger);
    }
    lab.down().unwrap();
}

/// The address at which a server listens, and the hardware address that it has.
fn listening(server: &Running) -> (String, String) {
    let line = server.await_text("worker: ");
    let (_, said) = line.split_once("worker: ").unwrap();
    let (hardware, address) = said.split_once(' ').unwrap();
    (hardware.to_owned(), address.to_owned())
}

#[test]
fn udp_on_another_interface_is_a_further_rail() {
    let Some(mut lab) = bare_lab(2) else { return };
    let server = start(lab.host(0), &format!("server;{}", FOUR.server));
    let (_, address) = listening(&server);
    let client = start(lab.host(1), &format!("caller over rails;{address}"));
    client.await_text("worker: cut");
    lab.cut(Link { host: None, rail: 0 }, Way::Silent).unwrap();
    ended_well(client);
    ended_well(server);
    lab.down().unwrap();
}

#[test]
fn commands_go_by_them_too() {
    let Some(lab) = lab() else { return };
    for (Addresses { server, client, .. }, progress) in
        [(FOUR, "hybrid"), (FOUR, "thread"), (SIX, "thread"), (FOUR, "caller"), (SIX, "caller")]
    {
        let both = format!("--transport edge --timeout 60 --progress {progress}");
        let listens = format!("rping -s -a {server} -p 0 {both} --link {}", link(server));
        let running = Running::start_by(lab.host(0).command(WEFT), &words(&listens));
        let port = running.port();
        let calls = format!("rping -c -a {server} -p {port} -C 30 -S 50000 -V {both} --link {}", link(client));
        let caller = Running::start_by(lab.host(1).command(WEFT), &words(&calls));
        let (caller, running) = (caller.end(), running.end());
        let codes = (caller.code, running.code);
        assert_eq!(codes, (Some(0), Some(0)), "client: {}\nserver: {}", caller.text, running.text);
    }
    lab.down().unwrap();
}
