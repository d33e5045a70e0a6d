//! A stream of messages in one direction.

use weft::verbs::{Access, Counters, MAX_INLINE, MemoryRegion, RemoteMemory, WorkRequest};

use super::super::super::measure::{Measured, Parts, Watch};
use super::super::super::plan::{Job, Operation, Role, Test};
use super::link::{Link, Outcome, Word};
use super::operation;

/// The most requests of one list.
const LONGEST_LIST: usize = 64;

pub(super) fn run(link: &mut Link, inbox: &MemoryRegion, target: RemoteMemory, job: &Job) -> Outcome<Measured> {
    match job.role {
        Role::Active => {
            let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
            let outbox = link.queue_pair().domain().allocate(job.size, access)?;
            Source::new(link, &outbox, target, job)?.pour(job)
        }
        Role::Passive => drain(link, inbox, job),
    }
}

/// Receives are posted again in batches of this many, and each batch is a credit.
fn batch(job: &Job) -> usize {
    (job.buffers() / 2).max(1)
}

struct Source<'a> {
    link: &'a mut Link,
    /// What is posted again and again.
    request: WorkRequest,
    /// Messages that may be under way at a time.
    window: u64,
    /// Messages in a list, the last of which is signaled.
    list: u64,
    /// Messages that a credit is worth. `None`: the receiver need not be ready.
    credit: Option<u64>,
    /// Messages posted so far.
    posted: u64,
}

impl<'a> Source<'a> {
    fn new(link: &'a mut Link, outbox: &MemoryRegion, target: RemoteMemory, job: &Job) -> Outcome<Self> {
        let inline = job.size <= MAX_INLINE;
        let message = if inline { vec![0x5a; job.size] } else { Vec::new() };
        let request = match operation(job) {
            Operation::Send if inline => WorkRequest::send_inline(&message)?,
            Operation::Send => WorkRequest::send(outbox.slice(..)?),
            Operation::Write if inline => WorkRequest::write_inline(&message, target)?,
            Operation::Write => WorkRequest::write(outbox.slice(..)?, target),
            Operation::Read => WorkRequest::read(outbox.slice(..)?, target),
        };
        let window = job.buffers() as u64;
        let credit = (operation(job) == Operation::Send).then(|| batch(job) as u64);
        let list = (window / 4).clamp(1, LONGEST_LIST as u64);
        Ok(Self { link, request, window, list, credit, posted: 0 })
    }

    fn pour(&mut self, job: &Job) -> Outcome<Measured> {
        self.send_many(job.warmup, &mut Parts::start(job.warmup))?;
        let before = self.link.counters();
        let watch = Watch::start();
        let mut parts = Parts::start(job.iterations);
        self.send_many(job.iterations, &mut parts)?;
        let seconds = watch.seconds();
        let value = match job.test {
            Test::Rate => job.iterations as f64 / seconds,
            _ => job.bytes() as f64 / 1e9 / seconds,
        };
        Ok(Measured {
            value: Some(value),
            // Of sends the receiver knows better.
            p99: self.credit.map_or_else(|| slow(parts, job), |_| None),
            cpu_s_per_gb: Some(watch.cpu_s_per_gb(job.bytes())),
            copies: Some(copies(&before, &self.link.counters(), job)),
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
            let requests = (1..=list).map(|at| {
                let request = self.request.clone();
                // The id of a signaled request says for how many it stands.
                if at == list { request.id(list) } else { request.unsignaled() }
            });
            self.link.queue_pair().post_list(requests)?;
            self.posted += list;
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
        value: None,
        p99: slow(parts, job),
        cpu_s_per_gb: Some(watch.cpu_s_per_gb(job.bytes())),
        copies: Some(copies(&before, &link.counters(), job)),
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
                link.repost(inbox, job.size, batch(job))?;
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
    let unit = if job.test == Test::Rate { 1.0 } else { 1e9 / job.size as f64 };
    parts.slow().map(|per_second| per_second / unit)
}

/// How often each byte of payload was copied here.
fn copies(before: &Counters, after: &Counters, job: &Job) -> f64 {
    let copied = |counters: &Counters| counters.sent_copied_bytes + counters.placed_copied_bytes;
    (copied(after) - copied(before)) as f64 / job.bytes() as f64
}
