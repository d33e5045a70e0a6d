//! A stream of messages in one direction.

use weft::verbs::{Access, Counters, MemoryRegion, RemoteMemory, WorkRequest};

use crate::contestants::weft::demands::{goes_inline, is_unordered, memory_slots, operation};
use crate::contestants::weft::link::{Link, Outcome, Word};
use crate::model::job::{Job, Kind, Operation, Role};
use crate::model::measure::{Figure, Measured, Parts, Watch};

/// The most requests of one list.
const LONGEST_LIST: usize = 64;

pub(crate) fn run(link: &mut Link, inbox: &MemoryRegion, target: RemoteMemory, job: &Job) -> Outcome<Measured> {
    match job.role() {
        // In both directions at once both sides do the same.
        Role::Passive if job.kind != Kind::Duplex => drain(link, inbox, job),
        _ => {
            let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
            let outbox = link.queue_pair().domain().allocate(memory_slots(job) * job.size, access)?;
            Source::new(link, &outbox, target, job)?.pour(job)
        }
    }
}

/// Receives are posted again in batches of this many, and each batch is a credit.
fn batch(job: &Job) -> usize {
    (job.buffers() / 2).max(1)
}

struct Source<'a> {
    link: &'a mut Link,
    outbox: &'a MemoryRegion,
    target: RemoteMemory,
    operation: Operation,
    /// What is posted when the payload is part of the request.
    message: Option<Vec<u8>>,
    /// Writes may be placed as they come.
    unordered: bool,
    size: usize,
    /// Messages follow each other through this many buffers.
    slots: u64,
    /// Messages that may be in flight at a time.
    window: u64,
    /// Messages in a list, the last of which is signaled.
    list: u64,
    /// Messages that a credit is worth. `None`: the receiver need not be ready.
    credit: Option<u64>,
    /// Messages posted so far.
    posted: u64,
}

impl<'a> Source<'a> {
    fn new(link: &'a mut Link, outbox: &'a MemoryRegion, target: RemoteMemory, job: &Job) -> Outcome<Self> {
        let window = job.buffers() as u64;
        let operation = operation(job);
        // What comes back has no payload to go with the request.
        let is_answered = matches!(operation, Operation::Read | Operation::Atomic);
        Ok(Self {
            link,
            outbox,
            target,
            operation,
            message: (goes_inline(job) && !is_answered).then(|| vec![0x5a; job.size]),
            unordered: is_unordered(job),
            size: job.size,
            slots: memory_slots(job) as u64,
            window,
            list: (window / 4).clamp(1, LONGEST_LIST as u64),
            credit: (operation == Operation::Send).then(|| batch(job) as u64),
            posted: 0,
        })
    }

    /// The request of the message at this position.
    fn request(&self, position: u64) -> Outcome<WorkRequest> {
        let at = position % self.slots * self.size as u64;
        let slice = || self.outbox.slice(at..at + self.size as u64);
        let target = self.target.at(at);
        let request = match (self.operation, &self.message) {
            (Operation::Send, Some(message)) => WorkRequest::send_inline(message)?,
            (Operation::Send, None) => WorkRequest::send(slice()?),
            (Operation::Write | Operation::Notify, Some(message)) => WorkRequest::write_inline(message, target)?,
            (Operation::Write | Operation::Notify, None) => WorkRequest::write(slice()?, target),
            (Operation::Read, _) => WorkRequest::read(slice()?, target),
            (Operation::Atomic, _) => WorkRequest::fetch_add(slice()?, target, 1),
        };
        Ok(if self.unordered { request.unordered() } else { request })
    }

    fn pour(&mut self, job: &Job) -> Outcome<Measured> {
        let first = Watch::start();
        self.send_many(job.warmup, &mut Parts::start(job.warmup))?;
        let before = self.link.counters();
        let watch = Watch::start();
        let mut parts = Parts::start(job.iterations);
        self.send_many(job.iterations, &mut parts)?;
        let (seconds, with_start) = (watch.seconds(), job.bytes_with_start() as f64 / 1e9 / first.seconds());
        let (ways, gigabytes) = (if job.kind == Kind::Duplex { 2.0 } else { 1.0 }, job.bytes() as f64 / 1e9);
        let value = if job.kind == Kind::Rate { job.iterations as f64 } else { ways * gigabytes } / seconds;
        Ok(Measured {
            value: Some(value),
            cpu_share: Some(watch.cpu_share()),
            // Of sends the receiver knows better.
            p99: self.credit.map_or_else(|| slow(parts, job), |_| None),
            cpu_s_per_gb: Some(watch.cpu_s_per_gb(job.bytes())),
            copies: Some(copies(&before, &self.link.counters(), job)),
            figures: [
                (Figure::WithStart, with_start),
                (Figure::ThroughKernel, through_kernel(&before, &self.link.counters(), job)),
            ]
            .into(),
            ..Measured::default()
        })
    }

    /// Sends this many messages, and waits until the peer says that it has them.
    fn send_many(&mut self, count: u64, parts: &mut Parts) -> Outcome<()> {
        let (start, end) = (self.posted, self.posted + count);
        while self.posted < end {
            let list = self.list.min(end - self.posted);
            if self.room() < list {
                self.link.turn()?;
                parts.reach(self.link.completed - start);
                continue;
            }
            self.post(list)?;
        }
        if self.credit.is_none() {
            while self.link.completed < end {
                self.link.turn()?;
                parts.reach(self.link.completed - start);
            }
            self.link.say(Word::Done)?;
        }
        self.link.await_done()
    }

    /// Posts this many as a list.
    fn post(&mut self, list: u64) -> Outcome<()> {
        let mut failed = None;
        let requests = (1..=list).map_while(|at| match self.request(self.posted + at - 1) {
            // The id of a signaled request says how many requests it completes.
            Ok(request) => Some(if at == list { request.id(list) } else { request.unsignaled() }),
            Err(broken) => {
                failed = Some(broken);
                None
            }
        });
        self.link.queue_pair().post_list(requests)?;
        self.posted += list;
        failed.map_or(Ok(()), Err)
    }

    /// How many messages may be posted now.
    fn room(&self) -> u64 {
        let under_way = self.posted - self.link.completed;
        let unanswered = self.credit.map_or(0, |credit| self.posted - credit * self.link.credits);
        self.window - under_way.max(unanswered)
    }
}

fn drain(link: &mut Link, inbox: &MemoryRegion, job: &Job) -> Outcome<Measured> {
    take_many(link, inbox, job, job.warmup, &mut Parts::start(job.warmup))?;
    let before = link.counters();
    let watch = Watch::start();
    let mut parts = Parts::start(job.iterations);
    take_many(link, inbox, job, job.iterations, &mut parts)?;
    Ok(Measured {
        p99: slow(parts, job),
        cpu_share: Some(watch.cpu_share()),
        cpu_s_per_gb: Some(watch.cpu_s_per_gb(job.bytes())),
        copies: Some(copies(&before, &link.counters(), job)),
        figures: [(Figure::ThroughKernel, through_kernel(&before, &link.counters(), job))].into(),
        ..Measured::default()
    })
}

/// Takes this many messages, and says so.
fn take_many(link: &mut Link, inbox: &MemoryRegion, job: &Job, count: u64, parts: &mut Parts) -> Outcome<()> {
    if operation(job) == Operation::Send {
        let mut done = 0;
        while done < count {
            link.turn()?;
            done += std::mem::take(&mut link.received);
            parts.reach(done);
            if link.filled.len() >= batch(job) {
                link.repost(inbox, batch(job))?;
                link.say(Word::Credit)?;
            }
        }
    } else {
        link.await_done()?;
    }
    link.say(Word::Done)?;
    link.flush()
}

fn slow(parts: Parts, job: &Job) -> Option<f64> {
    let unit = if job.kind == Kind::Rate { 1.0 } else { 1e9 / job.size as f64 };
    parts.slow().map(|per_second| per_second / unit)
}

/// How often each byte of payload was copied here.
fn copies(before: &Counters, after: &Counters, job: &Job) -> f64 {
    let copied = |counters: &Counters| counters.sent_copied_bytes + counters.placed_copied_bytes;
    (copied(after) - copied(before)) as f64 / job.bytes() as f64
}

/// How often each byte of payload went through a call of the kernel that copies it here. The rings of shared memory are
/// none; what a peer has lent the kernel copies once, at the side that takes it.
fn through_kernel(before: &Counters, after: &Counters, job: &Job) -> f64 {
    let bytes = |counters: &Counters| match counters.shared_memory_connections {
        0 => counters.sent_wire_bytes + counters.received_wire_bytes,
        _ => counters.placed_borrowed_bytes,
    };
    (bytes(after) - bytes(before)) as f64 / job.bytes() as f64
}
