//! RDMA writes beside a computation: each stream is a queue pair, and has a place in the server's memory. The server's
//! application sees them when it reads that memory, and calls in for nothing but to say when the streams are to flow.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weft::verbs::{
    Access, CompletionQueue, Context, Error, Listener, MemoryRegion, ProtectionDomain, QueuePair, QueuePairOptions,
    RemoteMemory, Stag, State, Status, WorkRequest,
};

use crate::contestants::carry::{self, Carried, Offered};
use crate::contestants::weft::demands::{CONNECT_LIMIT, resolve};
use crate::contestants::weft::settings::Settings;
use crate::model::contestant::{Side, other};
use crate::model::job::{Job, Role};
use crate::model::measure::Measured;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Messages of a stream that may be in flight. Its queue has room for more: a place may come free a moment after the
/// completion is seen.
const DEPTH: usize = 128;
/// Streams that the client begins at a time: fewer than a listener lets wait.
const AT_A_TIME: usize = 8;
/// The longest sleep while connections come about.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);
/// Completions that are taken at a time.
const BATCH: usize = 64;

struct Streams {
    context: Context,
    domain: ProtectionDomain,
    completions: CompletionQueue,
    settings: Settings,
    listener: Option<Listener>,
    /// Of the server a place for each stream; of the client one for what the server tells.
    inbox: MemoryRegion,
    /// Kept until both sides are done.
    queue_pairs: Vec<QueuePair>,
}

/// What the other side must know.
#[derive(Serialize, Deserialize)]
struct Address {
    port: Option<u16>,
    stag: u32,
    offset: u64,
}

pub(crate) fn open(job: &Job, settings: Settings) -> Outcome<Box<dyn Side>> {
    carry::take_core(job)?;
    let context = Context::with_settings(settings.of_context())?;
    let domain = context.allocate_protection_domain()?;
    let completions = context.create_completion_queue(job.connections * (DEPTH + 1))?;
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let (listener, length) = match job.role() {
        Role::Active => (None, 1),
        Role::Passive => {
            let local = resolve(job.local.as_deref().unwrap_or("127.0.0.1"), 0)?;
            (Some(context.listen(local, &settings.of_listener())?), job.connections * job.size)
        }
    };
    let inbox = domain.allocate(length, access)?;
    let queue_pairs = Vec::with_capacity(job.connections);
    Ok(Box::new(Streams { context, domain, completions, settings, listener, inbox, queue_pairs }))
}

impl Side for Streams {
    fn address(&self) -> String {
        let port = self.listener.as_ref().map(|listener| listener.local_address().port());
        let RemoteMemory { stag, offset } = self.inbox.remote(0);
        serde_json::to_string(&Address { port, stag: stag.0, offset }).expect("plain values become JSON")
    }

    fn run(&mut self, job: &Job, addresses: &[String]) -> Result<Measured, String> {
        self.measure(job, other(job, addresses)).map_err(|error| self.explain(error.as_ref()))
    }
}

impl Streams {
    fn measure(&mut self, job: &Job, peer: &str) -> Outcome<Measured> {
        let peer: Address = serde_json::from_str(peer)?;
        let memory = RemoteMemory { stag: Stag(peer.stag), offset: peer.offset };
        match peer.port {
            None => self.accept(job)?,
            Some(port) => self.connect(job, port)?,
        }
        match job.role() {
            Role::Passive => carry::serve(job, &mut Receiver { streams: self, memory, phase_at: job.size as u64 - 1 }),
            Role::Active => {
                let outbox = self.domain.allocate(job.size, Access::LOCAL_WRITE)?;
                let under_way = vec![0; job.connections];
                let sender = &mut Sender { streams: self, memory, outbox, filled: carry::NONE, under_way };
                let measured = carry::offer(job, sender)?;
                sender.drain()?;
                Ok(measured)
            }
        }
    }

    fn queue_pair(&self) -> Outcome<QueuePair> {
        let options = QueuePairOptions { send_depth: 2 * DEPTH as u32, receive_depth: 1 };
        Ok(self.domain.create_queue_pair(&self.completions, &options)?)
    }

    fn accept(&mut self, job: &Job) -> Outcome<()> {
        let deadline = Instant::now() + CONNECT_LIMIT;
        while self.queue_pairs.len() < job.connections {
            let listener = self.listener.as_ref().ok_or("the peer told no port")?;
            match listener.accept(Some(CHECK_INTERVAL)) {
                Ok(incoming) => {
                    let queue_pair = self.queue_pair()?;
                    incoming.accept(&queue_pair, &[])?;
                    self.queue_pairs.push(queue_pair);
                }
                Err(Error::TimedOut(_)) if Instant::now() < deadline => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.await_connected(0)
    }

    fn connect(&mut self, job: &Job, port: u16) -> Outcome<()> {
        let (remote, options) = (resolve(&job.host, port)?, self.settings.of_connection());
        while self.queue_pairs.len() < job.connections {
            let first = self.queue_pairs.len();
            // At a distance each takes two round trips.
            for _ in first..job.connections.min(first + AT_A_TIME) {
                let queue_pair = self.queue_pair()?;
                queue_pair.start_connect(remote, &options)?;
                self.queue_pairs.push(queue_pair);
            }
            self.await_connected(first)?;
        }
        Ok(())
    }

    /// Waits until all from this one on are connected.
    fn await_connected(&self, first: usize) -> Outcome<()> {
        for queue_pair in &self.queue_pairs[first..] {
            if queue_pair.state() == State::Connecting {
                queue_pair.wait_connected(Some(CONNECT_LIMIT))?;
            }
        }
        Ok(())
    }

    /// Takes what has completed, each with the number of its stream.
    fn take(&self, mut each: impl FnMut(u64)) -> Outcome<()> {
        let mut batch = Vec::new();
        self.completions.poll_into(&mut batch, BATCH);
        for completion in batch {
            if completion.status != Status::Success {
                return Err(format!("a {:?} failed: {}", completion.kind, completion.status).into());
            }
            each(completion.id);
        }
        Ok(())
    }

    fn check(&self) -> Outcome<()> {
        let has_ended = |queue_pair: &&QueuePair| queue_pair.state().has_ended();
        self.queue_pairs.iter().find(has_ended).map_or(Ok(()), |_| Err("a connection has ended".into()))
    }

    /// What went wrong, and why a connection ended if one did.
    fn explain(&self, error: &dyn std::error::Error) -> String {
        match self.queue_pairs.iter().find_map(QueuePair::error) {
            Some(why) => format!("{error}: {why}"),
            None => error.to_string(),
        }
    }
}

/// The server's streams.
struct Receiver<'a> {
    streams: &'a Streams,
    memory: RemoteMemory,
    /// The last byte of the first stream's place.
    phase_at: u64,
}

impl Carried for Receiver<'_> {
    type Error = Box<dyn std::error::Error>;

    fn tell(&mut self, phase: u8) -> Outcome<()> {
        let first = &self.streams.queue_pairs[0];
        first.post(WorkRequest::write_inline(&[phase], self.memory)?.unsignaled())?;
        while first.sends_under_way() > 0 {
            self.streams.context.progress();
            self.streams.check()?;
        }
        Ok(())
    }

    fn phase(&mut self) -> Outcome<u8> {
        self.streams.check()?;
        Ok(self.streams.inbox.load_u8(self.phase_at, Ordering::Acquire)?)
    }
}

/// The client's streams.
struct Sender<'a> {
    streams: &'a Streams,
    memory: RemoteMemory,
    /// What all messages are written from.
    outbox: MemoryRegion,
    /// What it is filled with.
    filled: u8,
    /// Messages of each stream.
    under_way: Vec<usize>,
}

impl Sender<'_> {
    fn take(&mut self) -> Outcome<()> {
        let under_way = &mut self.under_way;
        self.streams.take(|stream| under_way[stream as usize] -= 1)
    }
}

impl Offered for Sender<'_> {
    type Error = Box<dyn std::error::Error>;

    fn told(&mut self) -> Outcome<u8> {
        self.take()?;
        self.streams.check()?;
        Ok(self.streams.inbox.load_u8(0, Ordering::Acquire)?)
    }

    fn send(&mut self, stream: usize, phase: u8) -> Outcome<bool> {
        if self.under_way[stream] == DEPTH {
            self.take()?;
            if self.under_way[stream] == DEPTH {
                return Ok(false);
            }
        }
        if self.filled != phase {
            self.outbox.fill_with(|_| phase)?;
            self.filled = phase;
        }
        let target = self.memory.at(stream as u64 * self.outbox.length());
        let request = WorkRequest::write(self.outbox.slice(..)?, target).id(stream as u64);
        self.streams.queue_pairs[stream].post(request)?;
        self.under_way[stream] += 1;
        Ok(true)
    }

    fn drain(&mut self) -> Outcome<()> {
        while self.under_way.iter().any(|count| *count > 0) {
            self.take()?;
            self.streams.check()?;
        }
        Ok(())
    }
}
