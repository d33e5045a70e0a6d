//! A connection as the commands use it: short messages, and work requests that are waited for.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use weft::verbs::laboratory::{Laboratory, OutOfOrder};
use weft::verbs::{
    Access, CompletionQueue, ConnectOptions, ConnectionError, ConnectionInfo, Context, Counters, Error, Extensions,
    IncomingConnection, LinkSettings, ListenOptions, Listener, MarkerSpacing, MemoryRegion, MpaOffer, Offer, PostError,
    ProtectionDomain, QueuePair, QueuePairOptions, Rails, RefusedStart, Settings, State, Status, StreamError,
    WorkCompletion, WorkRequest,
};

use crate::environment;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::complain;
use crate::progress::{Progress, Split};
use crate::switch::Switch;
use crate::transport::Transport;

/// The longest message, in bytes.
pub const LONGEST_MESSAGE: usize = 4096;

/// Receives that wait for messages.
const RECEIVES: u32 = 8;

/// Work requests that may be in flight.
const SENDS: u32 = 64;

/// How long a peer is waited for if the command line does not say.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a wait checks for Ctrl-C.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// And how many turns a wait that never sleeps makes before it checks.
const POLLS_PER_CHECK: u32 = 4096;

/// How long a rejection may take to go out.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// This many callers that are refused get a line.
const MOST_REFUSED: u64 = 100;

/// The options of a connection on the command line.
#[derive(Args, Clone, Debug)]
pub struct StreamOptions {
    /// What carries the connection: of a server, which it takes
    #[arg(long, value_enum, default_value_t = Transport::Iwarp)]
    pub transport: Transport,
    /// The checksum over each frame; it is used when either side wants it
    #[arg(long, value_enum, value_name = "ON|OFF", default_value_t = Switch::On)]
    pub crc: Switch,
    /// Ask the peer to put markers into what it sends (Linux siw refuses that) [default: off; on with --link]
    #[arg(long, value_enum, value_name = "ON|OFF")]
    pub markers: Option<Switch>,
    /// MPA revision: of the request of a client, the highest that a server answers
    #[arg(long, value_name = "0|1|2", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub revision: u8,
    /// Give up when the peer has not answered for this long
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub timeout: Duration,
    /// Plain iWARP: say nothing in the private data that only Weft understands
    #[arg(long)]
    pub plain: bool,
    /// The thread that runs the event loop [default: the library's; thread when the split needs it]
    #[arg(long, value_enum)]
    pub progress: Option<Progress>,
    /// Which stages of the iWARP path run on the calling thread, which on the NIC's
    #[arg(long, value_enum, default_value_t = Split::Host)]
    pub split: Split,
    /// Engines that share the connections, and the rails of each that goes over Edge
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub engines: usize,
    /// Have addresses of your own on an interface, such as eth0=10.0.0.9/24,fd00::9/64; iWARP goes there by Weft's own
    /// TCP, Edge in frames of its own (needs CAP_NET_RAW). Or some ports of the host's own address, for iWARP:
    /// eth0=host:40000-40099 (needs CAP_NET_ADMIN too). Behind either a router to hosts beyond the link: ,via=10.0.0.1
    #[arg(long, value_name = "INTERFACE=ADDRESS/BITS,..[,via=ROUTER][@/HELPER]")]
    pub link: Option<LinkSettings>,
    /// Over which interfaces Edge goes, if an address says so.
    #[arg(skip)]
    pub rails: Option<Rails>,
    /// How long a waiting thread polls before it sleeps, if not as the library says.
    #[arg(skip)]
    pub spin: Option<Duration>,
    /// What becomes of what comes out of order over Edge.
    #[arg(skip)]
    pub out_of_order: OutOfOrder,
}

impl StreamOptions {
    /// What a command asks for that leaves its user no choice.
    pub fn usual() -> Self {
        Self {
            transport: Transport::Iwarp,
            crc: Switch::On,
            markers: None,
            revision: 2,
            timeout: PATIENCE,
            plain: false,
            progress: None,
            split: Split::Host,
            engines: 1,
            link: None,
            rails: None,
            spin: None,
            out_of_order: OutOfOrder::default(),
        }
    }

    fn extensions(&self) -> Extensions {
        if self.plain { Extensions::none() } else { Extensions::usual() }
    }

    /// What the options leave open is as the environment sets it.
    fn settings(&self) -> Settings {
        let usual = environment::parameters().nic_settings();
        Settings {
            start_timeout: self.timeout,
            progress: self.split.progress(self.progress).map_or(usual.progress, Into::into),
            engines: self.engines,
            rail_engines: self.engines,
            spin: self.spin.unwrap_or(usual.spin),
            laboratory: Laboratory { out_of_order: self.out_of_order, ..self.split.laboratory(self.progress) },
            rails: self.rails.clone().unwrap_or(usual.rails),
            ..usual
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write seconds, from 0.001 to 86400".into()),
    }
}

/// The first address of a host.
pub fn resolve(host: &str, port: u16) -> Result<SocketAddr, Failure> {
    let unknown = |why: String| Failure::Runtime(format!("{host}: no such address or host{why}"));
    // In brackets an address of IPv6 is as good as without.
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let mut found = (bare, port).to_socket_addrs().map_err(|error| unknown(format!(" ({error})")))?;
    found.next().ok_or_else(|| unknown(String::new()))
}

/// Says on standard error where it listens; with port 0 no peer could know.
pub fn announce(listener: &Listener) {
    complain(format_args!("listening on {}", listener.local_address()));
}

/// How many reads a side answers, and has in flight, at a time.
#[derive(Clone, Copy, Debug)]
pub struct Depths {
    /// RDMA Reads of the peer that are answered at once.
    pub ird: u16,
    /// RDMA Reads of this side that may be in flight.
    pub ord: u16,
}

/// A NIC, and how to connect with it.
#[derive(Clone)]
pub struct Endpoint {
    context: Context,
    options: StreamOptions,
    depths: Depths,
    interrupt: Interrupt,
    /// Callers that were refused.
    refused: Arc<AtomicU64>,
}

impl Endpoint {
    /// Opens a NIC as the options say.
    ///
    /// # Errors
    ///
    /// The system refuses it, or the options contradict each other.
    pub fn open(options: &StreamOptions, depths: Depths, interrupt: &Interrupt) -> Result<Self, Failure> {
        let settings = options.settings();
        settings.check().map_err(|error| Failure::Usage(error.to_string()))?;
        let context = match &options.link {
            Some(link) => Context::with_link(settings, link.clone())
                .map_err(|error| Failure::Runtime(format!("cannot open the NIC: {error}"))),
            None => Context::with_settings(settings).map_err(failed("cannot open the NIC")),
        }?;
        let (options, interrupt) = (options.clone(), interrupt.clone());
        Ok(Self { context, options, depths, interrupt, refused: Arc::default() })
    }

    /// What its NIC has counted.
    pub fn counters(&self) -> Counters {
        self.context.counters()
    }

    /// Listens.
    pub fn listen(&self, address: SocketAddr) -> Result<Listener, Failure> {
        let usual = ListenOptions::default();
        let listen = ListenOptions { offer: self.offer(usual.offer), ..usual };
        self.context.listen(address, &listen).map_err(failed(format!("cannot listen on {address}")))
    }

    fn offer(&self, usual: Offer) -> Offer {
        let mpa = MpaOffer {
            crc: self.options.crc == Switch::On,
            markers: (self.options.markers == Some(Switch::On)).then_some(MarkerSpacing::Standard),
            early: self.options.markers != Some(Switch::Off),
            revision: self.options.revision,
            extensions: self.options.extensions(),
            ..usual.mpa
        };
        Offer { ird: self.depths.ird, ord: self.depths.ord, mpa, transport: self.options.transport.into() }
    }

    /// Waits for a peer's request, as long as it takes.
    pub fn next_request(&self, listener: &Listener) -> Result<IncomingConnection, Failure> {
        loop {
            if let Some(request) = self.next_request_within(listener, None)? {
                return Ok(request);
            }
        }
    }

    /// Waits for a peer's request for a moment, or for this time.
    pub fn next_request_within(
        &self,
        listener: &Listener,
        longest: Option<Duration>,
    ) -> Result<Option<IncomingConnection>, Failure> {
        let accepted = listener.accept(Some(longest.unwrap_or(CHECK_INTERVAL)));
        self.report_refused(listener);
        match accepted {
            Ok(request) => Ok(Some(request)),
            Err(Error::TimedOut(_)) if self.interrupt.has_come() => Err(Failure::Interrupted),
            Err(Error::TimedOut(_)) => Ok(None),
            Err(error) => Err(Failure::Runtime(format!("cannot accept: {error}"))),
        }
    }

    /// A line for each caller that was refused before there was a request, as far as there are not too many of them.
    fn report_refused(&self, listener: &Listener) {
        let (refused, more) = listener.take_refused();
        let (new, told) = (refused.len() as u64 + more, self.refused.load(Ordering::Relaxed));
        if new == 0 {
            return;
        }
        self.refused.store(told + new, Ordering::Relaxed);
        for RefusedStart { remote, error } in refused.iter().take(MOST_REFUSED.saturating_sub(told) as usize) {
            complain(format_args!("weft: refused {remote}: {error}"));
        }
        if told < MOST_REFUSED && told + new > MOST_REFUSED {
            complain("weft: further callers are refused without a line");
        }
    }

    /// Accepts a request.
    pub fn accept(&self, request: IncomingConnection) -> Result<Link, Failure> {
        let link = Link::new(self)?;
        let peer = request.info().remote;
        request.accept(&link.queue_pair, &[]).map_err(failed(format!("cannot accept {peer}")))?;
        Ok(link)
    }

    /// Gives what was sent last the time to leave, before the NIC closes.
    pub fn settle(&self) {
        let until = Instant::now() + self.options.timeout.min(LAST_WORDS);
        while Instant::now() < until {
            if !self.context.progress() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Waits for the end of a start-up, and checks for Ctrl-C meanwhile. The next step finds whether it came in time.
    fn wait_until_connected(&self, queue_pair: &QueuePair) -> Result<(), Failure> {
        let until = Instant::now() + self.options.timeout;
        while queue_pair.state() == State::Connecting && Instant::now() < until {
            if self.interrupt.has_come() {
                return Err(Failure::Interrupted);
            }
            if !self.context.progress() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// Connects, from `local` if it is given.
    pub fn connect(&self, remote: SocketAddr, local: Option<SocketAddr>) -> Result<Link, Failure> {
        let link = Link::new(self)?;
        let usual = ConnectOptions::default();
        let connect = ConnectOptions { local, offer: self.offer(usual.offer), ..usual };
        let cannot = || failed(format!("cannot connect to {remote}"));
        link.queue_pair.start_connect(remote, &connect).map_err(cannot())?;
        self.wait_until_connected(&link.queue_pair)?;
        link.queue_pair.wait_connected(Some(Duration::ZERO)).map_err(|error| match error {
            Error::TimedOut(_) => cannot()(Error::TimedOut(self.options.timeout)),
            other => cannot()(other),
        })?;
        Ok(link)
    }
}

/// One end of a connection.
pub struct Link {
    /// Its protection domain.
    pub domain: ProtectionDomain,
    /// Its queue pair.
    pub queue_pair: QueuePair,
    sends: CompletionQueue,
    receives: CompletionQueue,
    inbox: MemoryRegion,
    patience: Duration,
    interrupt: Interrupt,
}

impl Link {
    fn new(endpoint: &Endpoint) -> Result<Self, Failure> {
        let make = || {
            let domain = endpoint.context.allocate_protection_domain()?;
            let sends = endpoint.context.create_completion_queue(SENDS as usize)?;
            let receives = endpoint.context.create_completion_queue(RECEIVES as usize)?;
            let depths = QueuePairOptions { send_depth: SENDS, receive_depth: RECEIVES };
            let queue_pair = domain.create_queue_pair_with(&sends, &receives, None, &depths)?;
            let inbox = domain.allocate(LONGEST_MESSAGE * RECEIVES as usize, Access::LOCAL_WRITE)?;
            let (patience, interrupt) = (endpoint.options.timeout, endpoint.interrupt.clone());
            Ok(Self { domain, queue_pair, sends, receives, inbox, patience, interrupt })
        };
        let link = make().map_err(failed("cannot make a queue pair"))?;
        for slot in 0..u64::from(RECEIVES) {
            link.post_receive(slot).map_err(|error| Failure::Runtime(error.to_string()))?;
        }
        Ok(link)
    }

    fn post_receive(&self, slot: u64) -> Result<(), LinkError> {
        let start = slot * LONGEST_MESSAGE as u64;
        let slice = self.inbox.slice(start..start + LONGEST_MESSAGE as u64).map_err(PostError::Memory)?;
        Ok(self.queue_pair.post_receive(slot, &[slice])?)
    }

    /// What was agreed with the peer.
    pub fn info(&self) -> Result<std::sync::Arc<ConnectionInfo>, LinkError> {
        self.queue_pair.info().ok_or_else(|| self.cause("not connected"))
    }

    /// Posts a work request.
    pub fn post(&self, request: WorkRequest) -> Result<(), LinkError> {
        self.queue_pair.post(request).map_err(|error| match error {
            PostError::Ended => self.ending(),
            other => other.into(),
        })
    }

    /// Sends a message of at most [`weft::verbs::MAX_INLINE`] bytes, once there is room: the peer may have got what was
    /// sent, and answered, while the acknowledgement was lost. For a caller that waits for no completion of what was
    /// posted before.
    pub fn send(&self, message: &[u8]) -> Result<(), LinkError> {
        let (request, began) = (WorkRequest::send_inline(message)?.unsignaled(), Instant::now());
        loop {
            match self.queue_pair.post(request.clone()) {
                Err(PostError::QueueFull { .. }) if began.elapsed() < self.patience && !self.interrupt.has_come() => {
                    self.poll();
                }
                Err(PostError::Ended) => return Err(self.ending()),
                other => return other.map_err(Into::into),
            }
        }
    }

    /// Waits for the next message and puts it at the start of `buffer`. Returns its length.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<usize, LinkError> {
        let completion = self.wait(&self.receives)?;
        self.take(completion, buffer)
    }

    /// As [`Link::receive`], of a peer that may take any time: what it does meanwhile needs no message. The NIC detects
    /// a peer that is gone.
    pub fn receive_in_time(&self, buffer: &mut [u8]) -> Result<usize, LinkError> {
        loop {
            match self.receive(buffer) {
                Err(LinkError::TimedOut(_)) => {}
                outcome => return outcome,
            }
        }
    }

    /// Waits for a Write of the peer that notifies ([`WorkRequest::notify`]), and makes room for the next notice.
    ///
    /// # Errors
    ///
    /// As those of [`Link::receive`].
    pub fn await_notice(&self) -> Result<(), LinkError> {
        let completion = self.wait(&self.receives)?;
        self.post_receive(completion.id).or_else(|error| self.unless_received(error))
    }

    /// Whether a message has come, or the end.
    pub fn has_come(&self) -> bool {
        !self.receives.is_empty()
    }

    /// Runs the NIC for a turn, if callers do. For a side that waits for no completion of what it has sent.
    pub fn poll(&self) {
        let _ = self.sends.poll();
    }

    /// How long the peer is waited for.
    pub fn patience(&self) -> Duration {
        self.patience
    }

    fn take(&self, completion: WorkCompletion, buffer: &mut [u8]) -> Result<usize, LinkError> {
        if completion.status != Status::Success {
            return Err(self.why(completion.status));
        }
        let length = completion.length as usize;
        let Some(message) = buffer.get_mut(..length) else {
            return Err(LinkError::Broken(format!(
                "the peer sent a message of {length} bytes, at most {} are expected",
                buffer.len()
            )));
        };
        self.inbox.read(completion.id * LONGEST_MESSAGE as u64, message).map_err(PostError::Memory)?;
        self.post_receive(completion.id).or_else(|error| self.unless_received(error))?;
        Ok(length)
    }

    /// A message that is here counts, even if the connection has ended right behind it.
    fn unless_received(&self, error: LinkError) -> Result<(), LinkError> {
        let ended = matches!(error, LinkError::Post(PostError::Ended)) || self.queue_pair.state().has_ended();
        if ended { Ok(()) } else { Err(error) }
    }

    /// As [`Link::receive`], for messages that come at once: never sleeps.
    pub fn receive_spinning(&self, buffer: &mut [u8]) -> Result<usize, LinkError> {
        let until = Instant::now() + self.patience;
        loop {
            for _ in 0..POLLS_PER_CHECK {
                if let Some(completion) = self.receives.poll() {
                    return self.take(completion, buffer);
                }
            }
            if self.interrupt.has_come() {
                return Err(LinkError::Interrupted);
            }
            if Instant::now() >= until {
                return Err(LinkError::TimedOut(self.patience));
            }
        }
    }

    /// Waits for the oldest work request that was posted signaled, unless the process is to end: on a fast machine
    /// something may always have completed just now.
    pub fn finish(&self) -> Result<WorkCompletion, LinkError> {
        if self.interrupt.has_come() {
            return Err(LinkError::Interrupted);
        }
        self.wait(&self.sends)
    }

    /// Waits until the peer closes. Whatever else it does is an error.
    pub fn await_close(&self) -> Result<(), LinkError> {
        match self.wait(&self.receives) {
            Err(LinkError::Closed) => Ok(()),
            Err(error) => Err(error),
            Ok(completion) => Err(LinkError::Broken(format!(
                "the peer sent a message of {} bytes where it should have closed the connection",
                completion.length
            ))),
        }
    }

    /// Closes, and waits until the peer has closed too.
    pub fn close(&self) -> Result<(), LinkError> {
        match self.queue_pair.disconnect(Some(self.patience)) {
            Ok(()) => Ok(()),
            Err(Error::TimedOut(after)) => Err(LinkError::TimedOut(after)),
            Err(_) => Err(self.cause("the connection failed while it was closed")),
        }
    }

    fn wait(&self, queue: &CompletionQueue) -> Result<WorkCompletion, LinkError> {
        let until = Instant::now() + self.patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match queue.wait(Some(left.min(CHECK_INTERVAL))) {
                Some(completion) if completion.status == Status::Success => return Ok(completion),
                Some(completion) => return Err(self.why(completion.status)),
                None if self.interrupt.has_come() => return Err(LinkError::Interrupted),
                None if left.is_zero() => return Err(LinkError::TimedOut(self.patience)),
                None => {}
            }
        }
    }

    /// Why a work request failed.
    fn why(&self, status: Status) -> LinkError {
        match status {
            // Says by itself that the connection has ended. Another thread may run the engine: the queue pair's state
            // follows, while the error, if there is one, was there first.
            Status::Flushed => self.ending(),
            other => self.cause(other),
        }
    }

    /// Why the connection, which has ended, did so.
    fn ending(&self) -> LinkError {
        self.queue_pair.error().map_or(LinkError::Closed, LinkError::Ended)
    }

    /// Why the connection ended; `otherwise` if it has not.
    fn cause(&self, otherwise: impl fmt::Display) -> LinkError {
        match self.queue_pair.error() {
            Some(error) => LinkError::Ended(error),
            None if self.queue_pair.state().has_ended() => LinkError::Closed,
            None => LinkError::Broken(otherwise.to_string()),
        }
    }
}

/// Why a connection does not continue.
#[derive(Debug)]
pub enum LinkError {
    /// The peer closed it in order.
    Closed,
    /// The peer says nothing.
    TimedOut(Duration),
    /// Ctrl-C.
    Interrupted,
    /// It ended by an error.
    Ended(ConnectionError),
    /// The peer does not keep to what the two sides have to say to each other.
    Broken(String),
    /// A work request was not taken.
    Post(PostError),
}

impl LinkError {
    /// A command's failure, while doing `what`.
    pub fn during(self, what: impl fmt::Display) -> Failure {
        match self {
            Self::Interrupted => Failure::Interrupted,
            other => Failure::Runtime(format!("{what}: {other}")),
        }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the peer closed the connection"),
            Self::TimedOut(after) => {
                write!(f, "timed out: the peer has not answered for {after:?}; it may be gone, or overloaded")
            }
            Self::Interrupted => f.write_str("interrupted"),
            Self::Ended(ConnectionError::Stream(StreamError::Lost(how))) => write!(f, "connection lost: {how}"),
            Self::Ended(error) => write!(f, "{error}"),
            Self::Broken(what) => f.write_str(what),
            Self::Post(error) => write!(f, "{error}"),
        }
    }
}

impl From<PostError> for LinkError {
    fn from(error: PostError) -> Self {
        Self::Post(error)
    }
}

/// A failure of the NIC while doing `what`.
pub fn failed(what: impl fmt::Display) -> impl FnOnce(Error) -> Failure {
    move |error| Failure::Runtime(format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_read() {
        assert_eq!(seconds("3"), Ok(Duration::from_secs(3)));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["", "0", "-1", "nan", "inf", "1e9", "3s"] {
            assert!(seconds(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn addresses_are_read_with_and_without_brackets() {
        for host in ["::1", "[::1]"] {
            assert_eq!(resolve(host, 7).unwrap(), "[::1]:7".parse().unwrap());
        }
        assert_eq!(resolve("127.0.0.1", 0).unwrap().port(), 0);
    }
}
