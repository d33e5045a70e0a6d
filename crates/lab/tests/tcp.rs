//! Weft's TCP and the kernel's, over a real link: each calls the other, and what is sent comes back, though frames
//! are lost and come late in both directions.
//!
//! Where this system allows no namespaces, or lacks a program, each test says so and passes.

mod kernel;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use std::{env, thread};

use kernel::{ROLE, Worker, byte, kernel_calls, kernel_echo, say};
use weft_base::{Clock, Random, StreamPosition, Time};
use weft_driver::{MonotonicClock, PacketSocket};
use weft_lab::{Lab, Plan};
use weft_tcp::{
    Answer, Arrived, Checksum, Connection, EthernetLink, FRAME_OVERHEAD, Flow, InitialNumbers, LinkError, Listener,
    MAX_HEADER, ReceivePolicy, Settings, State,
};

/// Nothing here takes this long; a wait without result fails then.
const PATIENCE: Duration = Duration::from_secs(120);
/// An address of the link that no kernel has.
const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 77);
const PORT: u16 = 7000;

fn bytes_to_send() -> usize {
    env::var("WEFT_TCP_BYTES").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000_000)
}

fn lab(offloads: bool) -> Option<Lab> {
    match Lab::up(&Plan { links: 1, rate: None, offloads, ..Plan::default() }) {
        Ok(lab) => Some(lab),
        Err(error) if error.cannot_be_had() => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// What a worker does; without a role it is no test.
#[test]
fn worker() {
    let Ok(role) = env::var(ROLE) else { return };
    let mut words = role.split(' ');
    let mut next = || words.next().unwrap_or_default().to_owned();
    match next().as_str() {
        "kernel-echo" => kernel_echo(next().parse().unwrap()),
        "kernel-calls" => kernel_calls(next().parse().unwrap(), bytes_to_send()),
        "weft-calls" => Weft::new(&next(), &next()).call(next().parse().unwrap()),
        "weft-echo" => Weft::new(&next(), &next()).echo(),
        other => panic!("{other} is no role"),
    }
}

/// Weft's TCP on a packet socket, and a network that is worse than the link is.
struct Weft {
    socket: PacketSocket,
    link: EthernetLink,
    clock: MonotonicClock,
    random: Random,
    settings: Settings,
    /// Frames that come, or leave, later.
    late: Vec<(Time, bool, Vec<u8>, Checksum)>,
    connection: Option<Box<Connection>>,
    listener: Option<Listener>,
    came: Vec<u8>,
    /// With `Place`: whether each byte was received.
    placed: Vec<bool>,
    since: Instant,
}

impl Weft {
    fn new(interface: &str, policy: &str) -> Self {
        let policy = match policy {
            "place" => ReceivePolicy::Place,
            "drop" => ReceivePolicy::Drop,
            _ => ReceivePolicy::Buffer,
        };
        let socket = PacketSocket::open(interface).unwrap();
        let mss = (socket.mtu() - 40) as u16;
        Self {
            link: EthernetLink::new(socket.hardware(), OURS, 16),
            socket,
            clock: MonotonicClock::new(),
            random: Random::new(u64::from(std::process::id())),
            settings: Settings { policy, mss, ..Settings::default() },
            late: Vec::new(),
            connection: None,
            listener: None,
            came: vec![0; bytes_to_send()],
            placed: vec![false; bytes_to_send()],
            since: Instant::now(),
        }
    }

    fn numbers(&mut self) -> InitialNumbers {
        let mut key = [0; 32];
        self.random.fill(&mut key);
        InitialNumbers::new(&key)
    }

    /// Calls the kernel, sends all, and wants it back.
    fn call(mut self, remote: SocketAddr) {
        let flow = Flow { local: SocketAddr::new(OURS.into(), 40_000), remote };
        let now = self.clock.now();
        let initial = self.numbers().of(&flow, now);
        self.connection = Some(Box::new(Connection::connect(flow, self.settings, initial, now).unwrap()));
        let (total, mut written, mut read) = (bytes_to_send(), 0, 0);
        let bytes: Vec<u8> = (0..total).map(byte).collect();
        self.until(|weft| {
            let connection = weft.connection.as_mut().unwrap();
            written += connection.write(&bytes[written..]);
            // Before it has begun, closing would be as if it had never called.
            if written == total && connection.state().is_synchronised() {
                connection.close();
            }
            read += connection.read(&mut weft.came[read..]);
            assert_eq!(connection.error(), None);
            connection.is_finished()
        });
        let connection = self.connection.as_ref().unwrap();
        assert_eq!(connection.received(), StreamPosition(total as u64));
        assert!(self.came == bytes, "what comes back is something else");
        say(&format!("done: {:?}", connection.counters()));
        // The side that closed first waits for what may be lost of the end.
        self.until(|weft| matches!(weft.connection.as_ref().unwrap().state(), State::TimeWait | State::Closed));
        let ended = Instant::now();
        self.until(|_| ended.elapsed() > Duration::from_millis(500));
    }

    /// Takes a call, and sends back what comes.
    fn echo(mut self) {
        let numbers = self.numbers();
        self.listener = Some(Listener::new(self.settings, numbers, 8).unwrap());
        say("ready");
        let mut waiting = Vec::new();
        self.until(|weft| {
            let Some(connection) = weft.connection.as_mut() else { return false };
            let mut buffer = [0; 10_000];
            if waiting.len() < 100_000 {
                let length = connection.read(&mut buffer);
                waiting.extend_from_slice(&buffer[..length]);
            }
            let written = connection.write(&waiting);
            waiting.drain(..written);
            if connection.is_finished() && connection.readable() == 0 && waiting.is_empty() {
                connection.close();
            }
            assert_eq!(connection.error(), None);
            connection.state() == State::Closed
        });
        say(&format!("done: {:?}", self.connection.as_ref().unwrap().counters()));
    }

    fn until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        let mut buffer = vec![0; 70_000];
        while !done(self) {
            let connection = self.connection.as_ref().map(|one| (one.state(), one.error(), one.counters()));
            assert!(self.since.elapsed() < PATIENCE, "it hangs: {connection:?}");
            let is_busy = self.receive(&mut buffer);
            self.let_time_pass();
            self.transmit();
            if !is_busy {
                thread::sleep(Duration::from_micros(50));
            }
        }
        self.transmit();
    }

    fn receive(&mut self, buffer: &mut [u8]) -> bool {
        let mut is_busy = false;
        while let Some(frame) = self.socket.receive(buffer).unwrap() {
            let checksum = if frame.is_unchecked { Checksum::Trusted } else { Checksum::Verify };
            if self.passes(&buffer[..frame.length], false, checksum) {
                self.arrive(&buffer[..frame.length], checksum);
            }
            is_busy = true;
        }
        is_busy
    }

    /// One in a hundred is lost, one in twenty comes up to 3 ms late.
    fn passes(&mut self, frame: &[u8], leaves: bool, checksum: Checksum) -> bool {
        if self.random.one_in(100) {
            return false;
        }
        if self.random.one_in(20) {
            let at = self.clock.now() + Duration::from_micros(self.random.below(3000));
            self.late.push((at, leaves, frame.to_vec(), checksum));
            return false;
        }
        true
    }

    fn arrive(&mut self, frame: &[u8], checksum: Checksum) {
        let now = self.clock.now();
        let (flow, segment, range) = match self.link.parse(frame, checksum) {
            Arrived::Segment(flow, segment, range) => (flow, segment, range),
            Arrived::Answer(answer) => {
                self.socket.send(&answer).unwrap();
                return;
            }
            Arrived::Nothing | Arrived::Neighbour(_) | Arrived::Taken(..) | Arrived::TooBig { .. } => return,
        };
        if self.connection.is_none() && flow.local.port() == PORT {
            let Some(listener) = self.listener.as_mut() else { return };
            match listener.handle(&flow, &segment, range.len(), now) {
                Answer::Nothing => return,
                Answer::Reply(reply) => return self.launch(|link, out| link.emit(&flow, &reply, &[], out)),
                Answer::Accepted(connection) => self.connection = Some(connection),
            }
        }
        let (came, placed) = (&mut self.came, &mut self.placed);
        let mut sink = |position: StreamPosition, bytes: &[u8]| {
            let range = position.0 as usize..position.0 as usize + bytes.len();
            assert!(placed[range.clone()].iter().all(|is_there| !is_there), "{range:?} comes twice");
            placed[range.clone()].fill(true);
            came[range].copy_from_slice(bytes);
            true
        };
        if let Some(connection) = self.connection.as_mut().filter(|connection| *connection.flow() == flow) {
            connection.handle(&segment, &frame[range], &mut sink, now);
        }
    }

    fn let_time_pass(&mut self) {
        let now = self.clock.now();
        while let Some(index) = self.late.iter().position(|(at, ..)| *at <= now) {
            let (_, leaves, frame, checksum) = self.late.swap_remove(index);
            if leaves {
                self.socket.send(&frame).unwrap();
            } else {
                self.arrive(&frame, checksum);
            }
        }
        if let Some(connection) = &mut self.connection {
            connection.handle_timeout(now);
        }
        let mut again = Vec::new();
        if let Some(listener) = &mut self.listener {
            listener.handle_timeout(now, |flow, segment| again.push((*flow, segment)));
        }
        for (flow, segment) in again {
            self.launch(|link, out| link.emit(&flow, &segment, &[], out));
        }
    }

    fn transmit(&mut self) {
        let now = self.clock.now();
        while let Some(mut connection) = self.connection.take() {
            let outgoing = connection.poll_transmit(now);
            if let Some(outgoing) = &outgoing {
                let mut payload = vec![0; outgoing.payload_length()];
                connection.copy_payload(&outgoing.payload, &mut payload);
                self.launch(|link, out| link.emit(connection.flow(), &outgoing.segment, &payload, out));
            }
            self.connection = Some(connection);
            if outgoing.is_none() {
                break;
            }
        }
    }

    /// Sends a frame. One for an unknown neighbour is lost, as if the network had lost it.
    fn launch(&mut self, emit: impl FnOnce(&EthernetLink, &mut [u8]) -> Result<usize, LinkError>) {
        let mut out = vec![0; FRAME_OVERHEAD + MAX_HEADER + 10_000];
        match emit(&self.link, &mut out) {
            Ok(length) => {
                if self.passes(&out[..length], true, Checksum::Verify) {
                    self.socket.send(&out[..length]).unwrap();
                }
            }
            Err(LinkError::Unknown(address)) => {
                self.socket.send(&self.link.question(address)).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn weft_calls_the_kernel(policy: &str, offloads: bool) {
    let Some(lab) = lab(offloads) else { return };
    let mut kernel = Worker::start(lab.host(1), &format!("kernel-echo {}", lab.host(1).address(0)));
    let remote = SocketAddr::new(lab.host(1).address(0), kernel.says().parse().unwrap());
    let mut weft = Worker::start(lab.host(0), &format!("weft-calls rail0 {policy} {remote}"));
    println!("{policy}: {}", weft.says());
    assert_eq!(kernel.says(), "done");
    assert!(weft.succeeds());
}

#[test]
fn weft_calls_the_kernel_and_places_what_comes_back() {
    weft_calls_the_kernel("place", false);
}

#[test]
fn weft_calls_the_kernel_and_buffers_what_comes_back() {
    weft_calls_the_kernel("buffer", true);
}

#[test]
fn the_kernel_calls_weft() {
    let Some(lab) = lab(true) else { return };
    let mut weft = Worker::start(lab.host(0), "weft-echo rail0 buffer");
    assert_eq!(weft.says(), "ready");
    let mut kernel = Worker::start(lab.host(1), &format!("kernel-calls {OURS}:{PORT}"));
    assert_eq!(kernel.says(), "done");
    println!("{}", weft.says());
}
