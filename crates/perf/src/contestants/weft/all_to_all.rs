//! Many processes, all connected with each other, each of which sends a message to each other one, round by round.
//!
//! A process begins its next round when it has all messages of this one. So a peer is at most one round ahead, and two
//! receives for each connection are enough.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use weft::verbs::{
    Access, CompletionKind, CompletionQueue, Context, Error, Listener, MemoryRegion, ProtectionDomain, QueuePair,
    QueuePairOptions, State, Status, WorkRequest,
};

use crate::contestants::weft::demands::{CONNECT_LIMIT, resolve};
use crate::contestants::weft::settings::Settings;
use crate::model::contestant::Side;
use crate::model::job::{Job, Wait};
use crate::model::measure::{Figure, Measured, Watch, shared_clock};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// Connections that a process begins at a time: fewer than a listener lets wait.
const AT_A_TIME: usize = 8;
/// The longest sleep while connections come about.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);
/// The longest sleep while messages are expected.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long after the last message the quiet begins.
const SETTLE: Duration = Duration::from_millis(300);
/// Receives of each connection.
const RECEIVES: u64 = 2;

struct Member {
    domain: ProtectionDomain,
    completions: CompletionQueue,
    settings: Settings,
    listener: Listener,
    /// Two slots for each other process.
    inbox: MemoryRegion,
    outbox: MemoryRegion,
    /// By rank; none for this process itself.
    peers: Vec<Option<QueuePair>>,
    /// Messages of each.
    received: Vec<u64>,
    /// The round that is in progress.
    round: u64,
    /// Others whose message of this round is not here yet. (A message of the next one may be here before another's of
    /// this one.)
    missing: usize,
    sent: u64,
}

pub(crate) fn open(job: &Job, settings: Settings) -> Outcome<Box<dyn Side>> {
    let context = Context::with_settings(settings.of_context())?;
    let domain = context.allocate_protection_domain()?;
    let completions = context.create_completion_queue(job.ranks * 4 * RECEIVES as usize)?;
    let local = resolve(job.local.as_deref().unwrap_or("127.0.0.1"), 0)?;
    let listener = context.listen(local, &settings.of_listener())?;
    let inbox = domain.allocate(job.ranks * RECEIVES as usize * job.size, Access::LOCAL_WRITE)?;
    let outbox = domain.allocate(job.size, Access::LOCAL_WRITE)?;
    let peers = (0..job.ranks).map(|_| None).collect();
    Ok(Box::new(Member {
        domain,
        completions,
        settings,
        listener,
        inbox,
        outbox,
        peers,
        received: vec![0; job.ranks],
        round: 0,
        missing: 0,
        sent: 0,
    }))
}

impl Side for Member {
    fn address(&self) -> String {
        self.listener.local_address().to_string()
    }

    fn run(&mut self, job: &Job, addresses: &[String]) -> Result<Measured, String> {
        self.measure(job, addresses).map_err(|error| self.check().err().unwrap_or(error).to_string())
    }
}

impl Member {
    fn measure(&mut self, job: &Job, addresses: &[String]) -> Outcome<Measured> {
        let addresses = addresses.iter().map(|address| address.parse()).collect::<Result<Vec<SocketAddr>, _>>()?;
        self.connect(job, &addresses)?;
        // A rank that has all messages of a round knows that every rank has begun it.
        for round in 0..job.warmup {
            self.round(job, round)?;
        }
        let began = shared_clock();
        for round in job.warmup..job.warmup + job.iterations {
            self.round(job, round)?;
        }
        let ended = shared_clock();
        self.flush(job)?;
        thread::sleep(SETTLE);
        let watch = Watch::start();
        thread::sleep(Duration::from_millis(job.quiet_ms));
        let figures = [(Figure::Began, began), (Figure::Ended, ended), (Figure::QuietCpu, watch.cpu_share())];
        let megabytes = (job.bytes() * (job.ranks as u64 - 1)) as f64 / 1e6;
        Ok(Measured { value: Some(megabytes), figures: figures.into(), ..Measured::default() })
    }

    /// Connects to all lower ranks, the next lower first, and accepts all higher ones. So no rank gets all connections
    /// at once.
    fn connect(&mut self, job: &Job, addresses: &[SocketAddr]) -> Outcome<()> {
        let deadline = Instant::now() + CONNECT_LIMIT;
        let mut to_begin: Vec<usize> = (0..job.rank).collect();
        let mut to_come = job.ranks - 1 - job.rank;
        let mut begun = Vec::with_capacity(AT_A_TIME);
        while to_come > 0 || !to_begin.is_empty() || !begun.is_empty() {
            if Instant::now() > deadline {
                return Err(format!("not all processes were connected within {CONNECT_LIMIT:?}").into());
            }
            while begun.len() < AT_A_TIME {
                let Some(rank) = to_begin.pop() else { break };
                begun.push(self.begin(job, rank, addresses[rank])?);
            }
            // The wait for incoming connections also drives those that were begun.
            match self.listener.accept(Some(CHECK_INTERVAL)) {
                Ok(incoming) => {
                    let rank = rank_of(&incoming.info().private_data, job)?;
                    let queue_pair = self.queue_pair(job, rank)?;
                    incoming.accept(&queue_pair, &[])?;
                    self.peers[rank] = Some(queue_pair);
                    to_come -= 1;
                }
                Err(Error::TimedOut(_)) => {}
                Err(error) => return Err(error.into()),
            }
            for rank in std::mem::take(&mut begun) {
                if !self.stands(rank)? {
                    begun.push(rank);
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, job: &Job, rank: usize, address: SocketAddr) -> Outcome<usize> {
        let queue_pair = self.queue_pair(job, rank)?;
        let mut options = self.settings.of_connection();
        options.private_data = (job.rank as u32).to_be_bytes().to_vec();
        queue_pair.start_connect(address, &options)?;
        self.peers[rank] = Some(queue_pair);
        Ok(rank)
    }

    /// Whether a connection that was begun is established.
    fn stands(&self, rank: usize) -> Outcome<bool> {
        let Some(queue_pair) = &self.peers[rank] else { return Ok(false) };
        match (queue_pair.state(), queue_pair.error()) {
            (State::Connecting, _) => Ok(false),
            (_, Some(error)) => Err(format!("cannot connect to process {rank}: {error}").into()),
            _ => Ok(true),
        }
    }

    fn queue_pair(&self, job: &Job, rank: usize) -> Outcome<QueuePair> {
        let options = QueuePairOptions { send_depth: 2 * RECEIVES as u32, receive_depth: RECEIVES as u32 };
        let queue_pair = self.domain.create_queue_pair(&self.completions, &options)?;
        for slot in 0..RECEIVES {
            self.expect(job, &queue_pair, rank as u64 * RECEIVES + slot)?;
        }
        Ok(queue_pair)
    }

    fn expect(&self, job: &Job, queue_pair: &QueuePair, slot: u64) -> Outcome<()> {
        let start = slot * job.size as u64;
        Ok(queue_pair.post_receive(slot, &[self.inbox.slice(start..start + job.size as u64)?])?)
    }

    /// Sends a message to each other process, each time to another one first, and waits for one of each.
    fn round(&mut self, job: &Job, round: u64) -> Outcome<()> {
        let others = job.ranks as u64 - 1;
        self.round = round;
        let here = self.received.iter().filter(|count| **count > round).count();
        self.missing = others as usize - here;
        for step in 1..job.ranks {
            let rank = (job.rank + step) % job.ranks;
            // No more in flight than the queues hold.
            while self.sent + others < round * others + step as u64 {
                self.turn(job)?;
            }
            if let Some(queue_pair) = &self.peers[rank] {
                queue_pair.post(WorkRequest::send(self.outbox.slice(..)?))?;
            }
        }
        while self.missing > 0 {
            self.turn(job)?;
        }
        Ok(())
    }

    /// Waits until everything has gone out.
    fn flush(&mut self, job: &Job) -> Outcome<()> {
        while self.sent < (job.warmup + job.iterations) * (job.ranks as u64 - 1) {
            self.turn(job)?;
        }
        Ok(())
    }

    fn turn(&mut self, job: &Job) -> Outcome<()> {
        let completion = match job.wait {
            Wait::Spin => self.completions.poll(),
            Wait::Block => self.completions.wait(Some(PATIENCE)),
        };
        let Some(completion) = completion else { return self.check() };
        if completion.status != Status::Success {
            return Err(format!("a {:?} failed: {}", completion.kind, completion.status).into());
        }
        if completion.kind != CompletionKind::Receive {
            self.sent += 1;
            return Ok(());
        }
        let rank = (completion.id / RECEIVES) as usize;
        self.received[rank] += 1;
        if self.received[rank] == self.round + 1 {
            self.missing -= 1;
        }
        let queue_pair = self.peers[rank].as_ref().ok_or("a message came from nobody")?;
        self.expect(job, queue_pair, completion.id)
    }

    /// Whether a rank is gone, so that what is waited for never comes.
    fn check(&self) -> Outcome<()> {
        for (rank, peer) in self.peers.iter().enumerate() {
            let Some(queue_pair) = peer.as_ref().filter(|peer| peer.state().has_ended()) else { continue };
            let why = queue_pair.error().map_or_else(|| "it was closed".into(), |error| error.to_string());
            return Err(format!("the connection to process {rank} has ended: {why}").into());
        }
        Ok(())
    }
}

fn rank_of(private_data: &[u8], job: &Job) -> Outcome<usize> {
    let bytes: [u8; 4] = private_data.try_into().map_err(|_| "somebody else has connected")?;
    let rank = u32::from_be_bytes(bytes) as usize;
    if rank <= job.rank || rank >= job.ranks {
        return Err(format!("process {rank} has connected, which should not").into());
    }
    Ok(rank)
}
