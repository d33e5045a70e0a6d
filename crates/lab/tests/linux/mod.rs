//! The kernel's TCP as it plays scripts, in a network namespace of its own: a veth pair, with the kernel at one end and
//! a packet socket at the other.
//!
//! Time is real here, so it is judged with slack: what leaves may come a little earlier and later than the script says.
//! A machine that does not let this process run is no fault of the kernel: [`Linux::stall`] says how long it did not.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4};
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, io};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{Domain, Protocol, Socket, TcpKeepalive, Type};
use weft_driver::PacketSocket;
use weft_tcp::{Arrived, Checksum, EthernetLink, Flow, Segment};

use crate::script::said::checksum;
use crate::script::{Outcome, Subject, bytes, duration, number};

const KERNEL: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, 1), 1000);
const SCRIPT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, 77), 2000);

/// What answers a segment, or a call, does so within that.
const AT_ONCE: Duration = Duration::from_millis(15);
/// So long nothing has to leave until it counts as nothing.
const SILENCE: Duration = Duration::from_millis(4);
/// Timers may fire this much earlier and later: some ticks of the slowest clock that is usual, and an eighth.
const SLACK: Duration = Duration::from_millis(20);
/// How long one poll lasts; what is longer is a stall.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A kernel that leaves out what would blur the picture: limits of answers, compressed acknowledgements, what it
/// remembers of earlier connections.
const SETTINGS: [(&str, &str); 17] = [
    ("tcp_congestion_control", "reno"),
    ("tcp_ecn", "0"),
    ("tcp_fastopen", "0"),
    ("tcp_autocorking", "0"),
    ("tcp_comp_sack_nr", "0"),
    ("tcp_invalid_ratelimit", "0"),
    ("tcp_challenge_ack_limit", "2147483647"),
    ("tcp_no_metrics_save", "1"),
    ("tcp_syn_linear_timeouts", "0"),
    ("tcp_syncookies", "0"),
    ("tcp_rfc1337", "1"),
    ("tcp_mtu_probing", "0"),
    ("tcp_min_snd_mss", "48"),
    ("tcp_moderate_rcvbuf", "0"),
    ("tcp_backlog_ack_defer", "0"),
    ("ip_unprivileged_port_start", "0"),
    ("icmp_ratelimit", "0"),
];

pub(crate) struct Linux {
    wire: Option<(PacketSocket, EthernetLink, [u8; 6])>,
    mtu: u16,
    window: u32,
    sysctls: Vec<(&'static str, &'static str)>,
    keep_alive: Option<Duration>,
    give_up: Option<Duration>,
    listener: Option<Socket>,
    socket: Option<Socket>,
    /// It has sent more than a SYN.
    is_open: bool,
    left: VecDeque<(Instant, Segment, Vec<u8>)>,
    /// The IP header of the last packet that left, and what an ICMP message quotes of the rest.
    last_packet: Vec<u8>,
    /// When something was last done to it, and how much time of the script has passed since.
    done: Instant,
    passed: Duration,
    written: u64,
    read: u64,
    stall: Duration,
}

fn text(error: io::Error) -> String {
    error.to_string()
}

fn ip(line: &str) -> Outcome {
    // The search path of a user often lacks the folders of the system.
    let output = Command::new("ip").env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin").args(line.split(' ')).output();
    let output = output.map_err(text)?;
    let words = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("ip {line}: {}", words.trim())) }
}

impl Linux {
    pub(crate) fn new() -> Self {
        Self {
            wire: None,
            mtu: 1040,
            window: 60_000,
            sysctls: vec![("tcp_timestamps", "0")],
            keep_alive: None,
            give_up: None,
            listener: None,
            socket: None,
            is_open: false,
            left: VecDeque::new(),
            last_packet: Vec::new(),
            done: Instant::now(),
            passed: Duration::ZERO,
            written: 0,
            read: 0,
            stall: Duration::ZERO,
        }
    }

    /// The longest time that this process was not let run when it wanted to, since the script began.
    pub(crate) const fn stall(&self) -> Duration {
        self.stall
    }

    fn build(&mut self) -> Outcome {
        for (name, value) in SETTINGS.iter().chain(&self.sysctls) {
            // Which of them there are depends on the kernel.
            let _ = fs::write(format!("/proc/sys/net/ipv4/{name}"), value);
        }
        for name in ["all", "default"] {
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        }
        ip("link add kernel gso_max_segs 1 type veth peer name script")?;
        ip(&format!("link set kernel mtu {} up", self.mtu))?;
        ip("link set script up")?;
        ip(&format!("address add {}/24 dev kernel", KERNEL.ip()))?;
        ip(&format!("route replace 10.9.0.0/24 dev kernel src {} window {}", KERNEL.ip(), self.window))?;
        let wire = PacketSocket::open("script").map_err(text)?;
        let own = wire.hardware();
        let hardware: String = own.map(|byte| format!("{byte:02x}")).join(":");
        ip(&format!("neighbour replace {} lladdr {hardware} dev kernel nud permanent", SCRIPT.ip()))?;
        let kernel = PacketSocket::open("kernel").map_err(text)?.hardware();
        self.wire = Some((wire, EthernetLink::new(own, *SCRIPT.ip(), 1), kernel));
        Ok(())
    }

    fn new_socket(&self) -> io::Result<Socket> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_reuse_address(true)?;
        socket.set_tcp_nodelay(true)?;
        // Room for what the scripts write, and enough for the window to be what the route says.
        socket.set_send_buffer_size(100_000)?;
        socket.set_recv_buffer_size(200_000)?;
        if let Some(idle) = self.keep_alive {
            let interval = Duration::from_secs(1);
            socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(idle).with_interval(interval).with_retries(2))?;
        }
        if self.give_up.is_some() {
            socket.set_tcp_user_timeout(self.give_up)?;
        }
        socket.bind(&SocketAddr::from(KERNEL).into())?;
        Ok(socket)
    }

    /// Sends a packet to the kernel.
    fn launch(&mut self, source: Ipv4Addr, protocol: u8, payload: &[u8]) -> Outcome {
        let (wire, _, kernel) = self.wire.as_ref().ok_or("nobody connects or listens")?;
        let mut frame = [&kernel[..], &wire.hardware(), &[8, 0]].concat();
        let mut header = vec![0x45, 0];
        header.extend((20 + payload.len() as u16).to_be_bytes());
        header.extend([0, 0, 0, 0, 64, protocol, 0, 0]);
        header.extend(source.octets());
        header.extend(KERNEL.ip().octets());
        let sum = checksum(&header, &[]);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        frame.extend(header);
        frame.extend(payload);
        wire.send(&frame).map_err(text)?;
        Ok(())
    }

    /// What has left and was not yet expected by a script, after a poll of at most that length.
    fn poll(&mut self, most: Duration) -> Outcome {
        let Some((wire, link, _)) = &mut self.wire else { return Ok(()) };
        let began = Instant::now();
        let millis = PollTimeout::from(most.min(POLL_INTERVAL).as_millis().max(1) as u16);
        poll(&mut [PollFd::new(wire.as_fd(), PollFlags::POLLIN)], millis).map_err(|error| error.to_string())?;
        self.stall = self.stall.max(began.elapsed().saturating_sub(POLL_INTERVAL));
        let mut buffer = [0; 70_000];
        while let Some(frame) = wire.receive(&mut buffer).map_err(text)? {
            let checksum = if frame.is_unchecked { Checksum::Trusted } else { Checksum::Verify };
            let bytes = &buffer[..frame.length];
            if let Arrived::Segment(_, segment, payload) = link.parse(bytes, checksum) {
                self.last_packet = bytes[14..bytes.len().min(14 + 28)].to_vec();
                self.left.push_back((Instant::now(), segment, bytes[payload].to_vec()));
            }
        }
        Ok(())
    }

    fn note_lateness(&mut self, end: Instant) {
        self.stall = self.stall.max(Instant::now().saturating_duration_since(end));
    }

    /// When something leaves that the script says leaves now: not before the first, not after the second.
    fn due(&self) -> (Instant, Instant) {
        let slack = if self.passed.is_zero() { Duration::ZERO } else { SLACK + self.passed / 8 };
        let due = self.done + self.passed;
        (self.done + self.passed.saturating_sub(slack), due + slack.max(AT_ONCE))
    }

    /// Sleeps until it is time for what comes next.
    fn come_to_now(&mut self) -> Outcome {
        let due = self.done + self.passed;
        while due > Instant::now() {
            self.poll(due.saturating_duration_since(Instant::now()))?;
        }
        (self.done, self.passed) = (Instant::now(), Duration::ZERO);
        // The kernel's timers have run on meanwhile: what comes of it may show many lines later.
        self.stall = self.stall.max(self.done - due);
        if let Some(Ok((socket, _))) = self.listener.as_ref().filter(|_| self.socket.is_none()).map(Socket::accept) {
            socket.set_nonblocking(true).map_err(text)?;
            self.socket = Some(socket);
        }
        // Acknowledgements are put off from the start, which the kernel does not do by itself.
        if let Some(socket) = self.socket.as_ref().filter(|_| self.is_open) {
            let _ = socket.set_tcp_quickack(false);
        }
        Ok(())
    }

    /// The connection of a call that came.
    fn accept(&mut self) -> Outcome<&Socket> {
        let end = Instant::now() + AT_ONCE;
        while let Some(listener) = self.listener.as_ref().filter(|_| self.socket.is_none()) {
            match listener.accept() {
                Ok((socket, _)) => {
                    socket.set_nonblocking(true).map_err(text)?;
                    self.socket = Some(socket);
                }
                Err(error) if Instant::now() > end => return Err(text(error)),
                Err(_) => self.poll(POLL_INTERVAL)?,
            }
        }
        self.socket.as_ref().ok_or("there is no connection".to_owned())
    }

    /// RFC 1191 section 4: a router says what passes.
    fn say_what_passes(&mut self, mss: u16) -> Outcome {
        let mut message = vec![3, 4, 0, 0, 0, 0];
        message.extend((mss + 40).to_be_bytes());
        message.extend(&self.last_packet);
        let sum = checksum(&message, &[]);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        self.launch(*SCRIPT.ip(), 1, &message)
    }

    fn write(&mut self, length: u64) -> Outcome {
        let bytes = bytes(1 + self.written, 1 + self.written + length);
        let took = self.accept()?.send(&bytes).map_err(text)? as u64;
        self.written += took;
        if took == length { Ok(()) } else { Err(format!("{took} were taken")) }
    }

    fn read(&mut self, length: u64) -> Outcome {
        let mut read = vec![0; length as usize];
        let (mut took, end) = (0, Instant::now() + AT_ONCE);
        while took < read.len() && Instant::now() < end {
            match io::Read::read(&mut self.accept()?, &mut read[took..]) {
                Ok(0) => break,
                Ok(more) => took += more,
                Err(_) => self.poll(POLL_INTERVAL)?,
            }
        }
        if took as u64 != length || read != bytes(1 + self.read, 1 + self.read + length) {
            return Err(format!("{took} were read: {read:?}"));
        }
        self.read += length;
        Ok(())
    }

    fn state(&self) -> Outcome<String> {
        let table = fs::read_to_string("/proc/net/tcp").map_err(text)?;
        let mut states = table.lines().filter_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (local, remote, state) = (words.next()?, words.next()?, words.next()?);
            (local.ends_with(":03E8") && remote.ends_with(":07D0")).then_some(state)
        });
        Ok(match states.next() {
            Some("01") => "Established",
            Some("02") => "SynSent",
            Some("03" | "0C") => "SynReceived",
            Some("04") => "FinWait1",
            Some("05") => "FinWait2",
            Some("06") => "TimeWait",
            Some("08") => "CloseWait",
            Some("09") => "LastAck",
            Some("0B") => "Closing",
            _ => "Closed",
        }
        .to_owned())
    }

    /// None after a call that leaves the user no socket to ask.
    fn error(&self) -> Outcome<Option<String>> {
        let Some(socket) = &self.socket else { return Ok(None) };
        let error = socket.take_error().map_err(text)?;
        Ok(Some(match error.as_ref().map(io::Error::kind) {
            None => "none".to_owned(),
            Some(io::ErrorKind::ConnectionRefused) => "Refused".to_owned(),
            Some(io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe) => "Reset".to_owned(),
            Some(io::ErrorKind::TimedOut) => format!("TimedOut({:?})", self.give_up.unwrap_or_default()),
            Some(other) => format!("{other:?}"),
        }))
    }
}

impl Subject for &mut Linux {
    const NAME: &'static str = "linux";

    fn flow(&self) -> Flow {
        Flow { local: KERNEL.into(), remote: SCRIPT.into() }
    }

    fn set(&mut self, name: &str, value: &str) -> Outcome {
        let switch = if value == "on" { "1" } else { "0" };
        match name {
            "mss" => self.mtu = 40 + number::<u16>(value)?,
            "window" => self.window = number(value)?,
            "sack" => self.sysctls.push(("tcp_sack", switch)),
            "timestamps" => self.sysctls.push(("tcp_timestamps", switch)),
            "give_up" => self.give_up = Some(duration(value)?),
            "keep_alive" => self.keep_alive = Some(duration(value)?),
            // How the user takes data, not what the network sees.
            "policy" if value != "drop" => {}
            _ => return Err(format!("the kernel has no setting {name} {value}")),
        }
        Ok(())
    }

    fn begin(&mut self, listens: bool) -> Outcome {
        self.build()?;
        let socket = self.new_socket().map_err(text)?;
        (self.done, self.passed) = (Instant::now(), Duration::ZERO);
        if listens {
            let _ = socket.set_tcp_quickack(false);
            self.is_open = true;
            socket.listen(4).map_err(text)?;
            self.listener = Some(socket);
        } else {
            match socket.connect(&SocketAddr::from(SCRIPT).into()) {
                Err(error) if error.raw_os_error() != Some(nix::libc::EINPROGRESS) => return Err(text(error)),
                _ => self.socket = Some(socket),
            }
        }
        Ok(())
    }

    fn bring(&mut self, segment: &[u8], from_itself: bool) -> Outcome {
        self.come_to_now()?;
        self.launch(if from_itself { *KERNEL.ip() } else { *SCRIPT.ip() }, 6, segment)?;
        self.done = Instant::now();
        Ok(())
    }

    fn next(&mut self) -> Outcome<Option<(Segment, Vec<u8>)>> {
        let (first, last) = self.due();
        loop {
            self.note_lateness(last);
            if !self.left.is_empty() {
                break;
            }
            self.poll(last.saturating_duration_since(Instant::now()))?;
            if self.left.is_empty() && Instant::now() >= last {
                break;
            }
        }
        let Some((at, segment, payload)) = self.left.pop_front() else { return Ok(None) };
        self.is_open |= !segment.flags.syn && !segment.flags.rst;
        if at < first {
            return Err(format!("it leaves {:?} too early", first - at));
        }
        Ok(Some((segment, payload)))
    }

    fn next_by_now(&mut self) -> Outcome<Option<(Segment, Vec<u8>)>> {
        let (first, _) = self.due();
        let end = if self.passed.is_zero() { self.done + SILENCE } else { first };
        self.note_lateness(end);
        while self.left.is_empty() && Instant::now() < end {
            self.poll(end.saturating_duration_since(Instant::now()))?;
        }
        // What has left since then is on time for what is expected next.
        let is_early = self.left.front().is_some_and(|(at, ..)| self.passed.is_zero() || *at < end);
        Ok(if is_early { self.left.pop_front().map(|(_, segment, payload)| (segment, payload)) } else { None })
    }

    fn wait(&mut self, time: Duration) -> Outcome {
        self.passed += time;
        Ok(())
    }

    fn call(&mut self, word: &str, rest: &str) -> Outcome {
        self.come_to_now()?;
        match word {
            "write" => self.write(number(rest)?)?,
            "read" => self.read(number(rest)?)?,
            "path" => self.say_what_passes(number(rest)?)?,
            // The peer has not answered: there is nothing to shut down.
            "close" if self.state()? == "SynSent" => self.socket = None,
            "close" => self.accept()?.shutdown(Shutdown::Write).map_err(text)?,
            "abort" => {
                self.accept()?.set_linger(Some(Duration::ZERO)).map_err(text)?;
                self.socket = None;
            }
            _ => return Err(format!("the kernel has no {word}")),
        }
        self.done = Instant::now();
        Ok(())
    }

    fn ask(&mut self, word: &str) -> Outcome<Option<String>> {
        self.come_to_now()?;
        match word {
            "state" => self.state().map(Some),
            "error" => self.error(),
            _ => Ok(None),
        }
    }
}
