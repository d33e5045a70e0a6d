//! Edge in frames of its own between two hosts of a lab, through a link that loses, repeats, reorders and damages
//! them, and while a stranger sends what is none.
//!
//! Where this system allows no namespaces, or lacks a program, the test says so and passes.

mod running;

use std::env;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

use running::{Ended, Running, words};
use weft::verbs::{
    Access, CompletionQueue, ConnectOptions, ConnectionError, Context, Error, ListenOptions, LowerInfo, MemoryRegion,
    Offer, PortError, QueuePair, QueuePairOptions, RemoteMemory, Settings, Stag, Status, Transport, WorkCompletion,
    WorkRequest,
};
use weft_driver::PacketSocket;
use weft_lab::{BridgeProgram, Host, Lab, Link, Plan, Shape, Way};
use weft_wire::raw::{ETHER_TYPE, Header};

const WEFT: &str = env!("CARGO_BIN_EXE_weft");
/// The variable that says to a worker what it does.
const ROLE: &str = "WEFT_RAW_ROLE";
/// Nothing here takes this long; what waits in vain fails then.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(100));
/// Addresses of the link that no kernel has, and one that nobody has.
const SERVER: &str = "rail0=10.0.0.77/24";
const CLIENT: &str = "rail0=10.0.0.78/24";
const NOBODY: &str = "10.0.0.99:7000";
const BYTES: usize = 300_000;
const ROUNDS: u64 = 5;
/// The immediate data behind the last round.
const OVER: u64 = u64::MAX;

fn pattern(round: u64) -> Vec<u8> {
    (0..BYTES as u64).map(|at| (at % 251 + at / 65_521 + round) as u8).collect()
}

fn bare_lab(links: usize) -> Option<Lab> {
    match Lab::up(&Plan { links, rate: None, switch: true, ..Plan::default() }) {
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
        ["server"] => serve(),
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

/// Lets itself be written to and read, and looks at what has come.
fn serve() {
    let end = End::new(SERVER);
    let listen = ListenOptions { offer: offer(), ..ListenOptions::default() };
    let listener = end.context.listen("10.0.0.77:0".parse().unwrap(), &listen).unwrap();
    let again = end.context.listen(listener.local_address(), &listen);
    assert!(matches!(again, Err(Error::Port(PortError::AddressInUse))), "{:?}", again.err());
    let hardware = PacketSocket::open("rail0").unwrap().hardware().map(|byte| format!("{byte:02x}")).join(":");
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
        let end = End::new(CLIENT);
        let connect = ConnectOptions { offer: offer(), ..ConnectOptions::default() };
        let info = end.queue_pair.connect(remote, &connect).unwrap();
        let own: Ipv4Addr = "10.0.0.78".parse().unwrap();
        assert_eq!((info.lower.clone(), info.local.ip()), (LowerInfo::Edge, own.into()));
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
    let error = more(&caller.end).connect(NOBODY.parse().unwrap(), &connect).unwrap_err();
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

/// Sends frames that have no datagram, or one that is nobody's, until it is ended.
fn disturb(hardware: &str, remote: SocketAddrV4) {
    let socket = PacketSocket::open("rail0").unwrap();
    let mut head: Vec<u8> = hardware.split(':').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    head.extend_from_slice(&socket.hardware());
    head.extend_from_slice(&ETHER_TYPE.to_be_bytes());
    let good = Header { source: "10.0.0.78:50000".parse().unwrap(), destination: remote, length: 100 };
    let headers = [
        // Fewer bytes than it says, all that there can be, none.
        Header { length: 1400, ..good }.emit().to_vec(),
        Header { length: u16::MAX, ..good }.emit().to_vec(),
        Header { length: 0, ..good }.emit().to_vec(),
        // Who cannot be answered: nobody, all, another network, the receiver itself.
        Header { source: "0.0.0.0:1".parse().unwrap(), ..good }.emit().to_vec(),
        Header { source: "224.0.0.1:1".parse().unwrap(), ..good }.emit().to_vec(),
        Header { source: "10.9.9.9:1".parse().unwrap(), ..good }.emit().to_vec(),
        Header { source: remote, ..good }.emit().to_vec(),
        Header { source: "10.0.0.78:0".parse().unwrap(), ..good }.emit().to_vec(),
        // A datagram that is noise, of another version, to another port, and a header that is cut.
        good.emit().to_vec(),
        [&[2, 0x57][..], &good.emit()[2..]].concat(),
        Header { destination: SocketAddrV4::new(*remote.ip(), 1), ..good }.emit().to_vec(),
        good.emit()[..10].to_vec(),
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
    let server = start(lab.host(0), "server");
    let (hardware, address) = heard(&server);
    let stranger = start(lab.host(1), &format!("stranger;{hardware};{address}"));
    stranger.await_text("worker: ready");
    let client = start(lab.host(1), &format!("client;{address}"));
    ended_well(client);
    ended_well(server);
    drop(stranger);
    lab.down().unwrap();
}

/// The address at which a server listens, and the hardware address that it has.
fn heard(server: &Running) -> (String, String) {
    let line = server.await_text("worker: ");
    let (_, said) = line.split_once("worker: ").unwrap();
    let (hardware, address) = said.split_once(' ').unwrap();
    (hardware.to_owned(), address.to_owned())
}

#[test]
fn udp_on_another_interface_is_a_further_rail() {
    let Some(mut lab) = bare_lab(2) else { return };
    let server = start(lab.host(0), "server");
    let (_, address) = heard(&server);
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
    for progress in ["hybrid", "thread", "caller"] {
        let both = format!("--transport edge --timeout 60 --progress {progress}");
        let listens = format!("rping -s -a 10.0.0.77 -p 0 {both} --link {SERVER}");
        let server = Running::start_by(lab.host(0).command(WEFT), &words(&listens));
        let calls = format!("rping -c -a 10.0.0.77 -p {} -C 30 -S 50000 -V {both} --link {CLIENT}", server.port());
        let client = Running::start_by(lab.host(1).command(WEFT), &words(&calls));
        let (client, server) = (client.end(), server.end());
        assert_eq!((client.code, server.code), (Some(0), Some(0)), "client: {}\nserver: {}", client.text, server.text);
    }
    lab.down().unwrap();
}
