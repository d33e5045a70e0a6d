//! Messages as Sends of a queue pair, with an atomic addition between every few of them.

use core::fmt;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Instant;

use weft::verbs::{
    Access, CompletionKind, CompletionQueue, ConnectOptions, Context, Error, ListenOptions, MemoryRegion, Offer,
    PostError, ProtectionDomain, QueuePair, QueuePairOptions, Rails, RemoteMemory, Settings, Stag, Status,
    WorkCompletion, WorkRequest,
};

use crate::experiments::cuts::pipe::ends::{CHECK_INTERVAL, Operations, PATIENCE, Receiving, Sending, window};
use weft_command::connection::failed;
use weft_command::environment;
use weft_command::failure::Failure;
use weft_command::transport::Transport;

/// Messages between two atomics.
const MESSAGES_PER_ATOMIC: u64 = 64;
/// Atomics that may be in flight: as many as a connection usually agrees to.
const ATOMICS: u64 = 16;
/// Messages of credit that may be in flight, and that the sender has receives for.
const CREDITS: u64 = 64;
/// Bytes of a credit, of an atomic's result, of its counter.
const WORD: u64 = 8;
/// Completions that are taken at a time.
const BATCH: usize = 64;

/// A queue pair with its NIC.
struct Connection {
    queue_pair: QueuePair,
    completions: CompletionQueue,
    domain: ProtectionDomain,
    context: Context,
}

impl Connection {
    fn open(sends: u64, receives: u64) -> Result<Self, Failure> {
        let settings = Settings { rails: Rails::All { flows: 1 }, ..environment::parameters().nic_settings() };
        let make = || {
            let context = Context::with_settings(settings)?;
            let domain = context.allocate_protection_domain()?;
            let completions = context.create_completion_queue((sends + receives) as usize)?;
            let depths = QueuePairOptions { send_depth: sends as u32, receive_depth: receives as u32 };
            let queue_pair = domain.create_queue_pair(&completions, &depths)?;
            Ok(Self { queue_pair, completions, domain, context })
        };
        make().map_err(failed("cannot make a queue pair"))
    }

    fn allocate(&self, bytes: u64, access: Access) -> Result<MemoryRegion, Failure> {
        self.domain.allocate(bytes as usize, access).map_err(failed("cannot register memory"))
    }

    fn post_receive(&self, region: &MemoryRegion, slot: u64, size: u64) -> Result<(), PostError> {
        let slice = region.slice(slot * size..(slot + 1) * size).map_err(PostError::Memory)?;
        self.queue_pair.post_receive(slot, &[slice])
    }

    /// The next completions, after a wait if there are none.
    fn completions(&self, batch: &mut Vec<WorkCompletion>) {
        batch.clear();
        if self.completions.poll_into(batch, BATCH) == 0 {
            batch.extend(self.completions.wait(Some(CHECK_INTERVAL)));
        }
    }

    /// What the end of the connection means: nothing, if it was closed in order.
    fn ending(&self, otherwise: &str) -> Result<(), Failure> {
        match self.queue_pair.error() {
            Some(error) => Err(Failure::Runtime(format!("the connection was lost: {error}"))),
            None if self.queue_pair.state().has_ended() => Ok(()),
            None => Err(Failure::Runtime(otherwise.to_owned())),
        }
    }

    fn disconnect(&self) -> Result<(), Failure> {
        match self.queue_pair.disconnect(Some(PATIENCE)) {
            Ok(()) => Ok(()),
            Err(Error::TimedOut(after)) => {
                Err(Failure::Runtime(format!("the peer did not close its connection within {after:?}")))
            }
            Err(error) => Err(failed("the connection failed while it was closed")(error)),
        }
    }
}

fn offer(usual: Offer, transport: Transport) -> Offer {
    Offer { ird: ATOMICS as u16, ord: ATOMICS as u16, transport: transport.into(), ..usual }
}

fn broken<E: fmt::Display>(what: &str) -> impl Fn(E) -> Failure {
    move |error| Failure::Runtime(format!("{what}: {error}"))
}

/// The sending end.
pub(crate) struct Sender {
    connection: Connection,
    size: u64,
    window: u64,
    /// A place for each message in flight.
    messages: MemoryRegion,
    credits: MemoryRegion,
    /// Results of atomics.
    results: MemoryRegion,
    counter: RemoteMemory,
    sent: u64,
    completed: u64,
    atomics: u64,
    operations: Operations,
    credit: u64,
    batch: Vec<WorkCompletion>,
}

impl Sender {
    pub(crate) fn connect(transport: Transport, to: SocketAddr, size: usize) -> Result<Self, Failure> {
        let (size, window) = (size as u64, window(size));
        let connection = Connection::open(window + ATOMICS, CREDITS)?;
        let messages = connection.allocate(window * size, Access::LOCAL_READ)?;
        let credits = connection.allocate(CREDITS * WORD, Access::LOCAL_WRITE)?;
        let results = connection.allocate(ATOMICS * WORD, Access::LOCAL_WRITE)?;
        for slot in 0..CREDITS {
            connection.post_receive(&credits, slot, WORD).map_err(broken("cannot post a receive"))?;
        }
        let usual = ConnectOptions::default();
        let options = ConnectOptions { offer: offer(usual.offer, transport), ..usual };
        let info = connection.queue_pair.connect(to, &options).map_err(failed(format!("cannot connect to {to}")))?;
        let counter = read_place(&info.private_data)?;
        let (operations, batch) = (Operations::default(), Vec::with_capacity(BATCH));
        let (sent, completed, atomics, credit) = (0, 0, 0, 0);
        Ok(Self {
            connection,
            size,
            window,
            messages,
            credits,
            results,
            counter,
            sent,
            completed,
            atomics,
            operations,
            credit,
            batch,
        })
    }

    /// Adds 1 to the peer's counter, if there is room.
    fn count(&mut self) -> Result<(), Failure> {
        if self.atomics - self.operations.completed == ATOMICS {
            return Ok(());
        }
        let place = self.atomics % ATOMICS * WORD;
        let sink = self.results.slice(place..place + WORD).map_err(broken("an atomic"))?;
        let request = WorkRequest::fetch_add(sink, self.counter, 1).id(self.atomics);
        self.connection.queue_pair.post(request).map_err(broken("cannot post an atomic"))?;
        self.atomics += 1;
        Ok(())
    }

    fn take(&mut self, completion: &WorkCompletion) -> Result<(), Failure> {
        if completion.status != Status::Success {
            self.connection.ending("a request failed")?;
            return Err(Failure::Runtime("the peer closed the connection before the end".into()));
        }
        match completion.kind {
            CompletionKind::Send => self.completed += 1,
            CompletionKind::Atomic(_) => {
                let place = completion.id % ATOMICS * WORD;
                let before = self.results.load_u64(place, Ordering::Relaxed);
                self.operations.wrong += u64::from(before != Ok(completion.id));
                self.operations.completed += 1;
            }
            _ => {
                let mut word = [0; WORD as usize];
                self.credits.read(completion.id * WORD, &mut word).map_err(broken("a credit"))?;
                self.credit = self.credit.max(u64::from_le_bytes(word));
                self.connection
                    .post_receive(&self.credits, completion.id, WORD)
                    .or_else(|error| self.connection.ending(&error.to_string()))?;
            }
        }
        Ok(())
    }
}

impl Sending for Sender {
    fn try_send(&mut self, sequence: u64, message: &[u8]) -> Result<bool, Failure> {
        if self.sent - self.completed == self.window {
            return Ok(false);
        }
        let place = sequence % self.window * self.size;
        let memory = || broken("a message");
        self.messages.write(place, message).map_err(memory())?;
        let slice = self.messages.slice(place..place + self.size).map_err(memory())?;
        self.connection.queue_pair.post(WorkRequest::send(slice)).map_err(broken("cannot send"))?;
        self.sent += 1;
        if self.sent.is_multiple_of(MESSAGES_PER_ATOMIC) {
            self.count()?;
        }
        Ok(true)
    }

    fn wait(&mut self) -> Result<u64, Failure> {
        let mut batch = std::mem::take(&mut self.batch);
        self.connection.completions(&mut batch);
        let taken = batch.iter().try_for_each(|completion| self.take(completion));
        self.batch = batch;
        taken.map(|()| self.credit)
    }

    fn close(mut self: Box<Self>) -> Result<Option<Operations>, Failure> {
        let until = Instant::now() + PATIENCE;
        while self.completed < self.sent || self.operations.completed < self.atomics {
            self.wait()?;
            if Instant::now() > until {
                let left = self.sent - self.completed;
                return Err(Failure::Runtime(format!("{left} sends did not complete within {PATIENCE:?}")));
            }
        }
        self.connection.disconnect()?;
        Ok(Some(self.operations))
    }
}

/// The receiving end.
pub(crate) struct Receiver {
    connection: Connection,
    size: u64,
    messages: MemoryRegion,
    counter: MemoryRegion,
    /// What the sender is still to be notified of, if it could not be sent yet.
    owed: Option<u64>,
    message: Vec<u8>,
    batch: Vec<WorkCompletion>,
}

impl Receiver {
    pub(crate) fn accept(
        transport: Transport,
        at: SocketAddr,
        size: usize,
        announce: impl FnOnce(&[u16]) -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let (receives, message) = (window(size), vec![0; size]);
        let size = size as u64;
        let connection = Connection::open(CREDITS, receives)?;
        let messages = connection.allocate(receives * size, Access::LOCAL_WRITE)?;
        let counter = connection.allocate(WORD, Access::LOCAL_WRITE | Access::REMOTE_ATOMIC)?;
        for slot in 0..receives {
            connection.post_receive(&messages, slot, size).map_err(broken("cannot post a receive"))?;
        }
        let usual = ListenOptions::default();
        let options = ListenOptions { offer: offer(usual.offer, transport), ..usual };
        let listener = connection.context.listen(at, &options).map_err(failed(format!("cannot listen on {at}")))?;
        announce(&[listener.local_address().port()])?;
        let request = listener.accept(Some(PATIENCE)).map_err(failed("cannot accept"))?;
        let accepted = request.accept(&connection.queue_pair, &place_words(counter.remote(0)));
        accepted.map_err(failed("cannot accept"))?;
        connection.queue_pair.wait_connected(Some(PATIENCE)).map_err(failed("cannot accept"))?;
        Ok(Self { connection, size, messages, counter, owed: None, message, batch: Vec::with_capacity(BATCH) })
    }

    /// Takes a completion. Whether it was none of a closed connection.
    fn take(&mut self, completion: &WorkCompletion, deliver: &mut dyn FnMut(&[u8])) -> Result<bool, Failure> {
        if completion.status != Status::Success {
            return self.connection.ending("a request failed").map(|()| false);
        }
        if completion.kind == CompletionKind::Send {
            return Ok(true);
        }
        let length = (completion.length as usize).min(self.message.len());
        let message = &mut self.message[..length];
        let read = self.messages.read(completion.id * self.size, message);
        read.map_err(broken("a message"))?;
        deliver(message);
        self.connection
            .post_receive(&self.messages, completion.id, self.size)
            .or_else(|error| self.connection.ending(&error.to_string()))?;
        Ok(true)
    }
}

impl Receiving for Receiver {
    fn receive(&mut self, deliver: &mut dyn FnMut(&[u8])) -> Result<bool, Failure> {
        let mut batch = std::mem::take(&mut self.batch);
        self.connection.completions(&mut batch);
        let mut goes_on = !(batch.is_empty() && self.connection.queue_pair.state().has_ended());
        for completion in &batch {
            goes_on &= self.take(completion, deliver)?;
        }
        self.batch = batch;
        if !goes_on {
            return self.connection.ending("it did not end").map(|()| false);
        }
        match self.owed.take() {
            Some(taken) => self.credit(taken).map(|()| true),
            None => Ok(true),
        }
    }

    fn credit(&mut self, taken: u64) -> Result<(), Failure> {
        let said =
            WorkRequest::send_inline(&taken.to_le_bytes()).and_then(|request| self.connection.queue_pair.post(request));
        match said {
            Ok(()) | Err(PostError::Ended) => Ok(()),
            Err(PostError::QueueFull { .. } | PostError::CompletionQueueFull { .. }) => {
                self.owed = Some(taken);
                Ok(())
            }
            Err(error) => Err(broken("cannot send a credit")(error)),
        }
    }

    fn close(self: Box<Self>) -> Result<Option<u64>, Failure> {
        self.connection.disconnect()?;
        let counter = self.counter.load_u64(0, Ordering::Acquire);
        counter.map(Some).map_err(broken("the counter"))
    }
}

/// Where the peer's counter is, as private data: the STag and the offset.
fn place_words(place: RemoteMemory) -> [u8; 12] {
    let mut words = [0; 12];
    words[..4].copy_from_slice(&place.stag.0.to_be_bytes());
    words[4..].copy_from_slice(&place.offset.to_be_bytes());
    words
}

fn read_place(words: &[u8]) -> Result<RemoteMemory, Failure> {
    let (stag, offset) = words
        .split_first_chunk::<4>()
        .and_then(|(stag, rest)| Some((stag, rest.first_chunk::<8>()?)))
        .ok_or_else(|| Failure::Runtime(format!("the peer sent {} bytes of private data, not 12", words.len())))?;
    Ok(RemoteMemory { stag: Stag(u32::from_be_bytes(*stag)), offset: u64::from_be_bytes(*offset) })
}
