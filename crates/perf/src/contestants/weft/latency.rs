//! Ping-pong, and reads one by one.

use std::sync::atomic::Ordering;

use weft::verbs::{Access, MemoryRegion, RemoteMemory, WorkRequest};

use crate::contestants::weft::demands::{goes_inline, operation, takes_receives};
use crate::contestants::weft::link::{Link, Outcome, Word};
use crate::model::job::{Job, Kind, Operation, Role};
use crate::model::measure::{Measured, RoundTrips, Watch};

pub(crate) fn run(link: &mut Link, inbox: &MemoryRegion, target: RemoteMemory, job: &Job) -> Outcome<Measured> {
    let outbox = link.queue_pair().domain().allocate(job.size, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    let operation = operation(job);
    let mut rally = Rally {
        link,
        inbox,
        outbox: &outbox,
        target,
        operation,
        inline: goes_inline(job),
        message: vec![0x5a; job.size],
    };
    let watch = Watch::start();
    let measured = match (operation, job.role()) {
        // Both hit first, and then wait.
        (_, _) if job.kind == Kind::PingPing => rally.ping(job),
        (Operation::Read, Role::Passive) => rally.serve(),
        (Operation::Read, Role::Active) => rally.read(job),
        (_, Role::Active) => rally.ping(job),
        (_, Role::Passive) => rally.pong(job),
    }?;
    Ok(Measured { cpu_share: Some(watch.cpu_share()), ..measured })
}

struct Rally<'a> {
    link: &'a mut Link,
    inbox: &'a MemoryRegion,
    outbox: &'a MemoryRegion,
    target: RemoteMemory,
    operation: Operation,
    /// Whether the message is part of the request.
    inline: bool,
    /// What is sent then.
    message: Vec<u8>,
}

impl Rally<'_> {
    fn ping(&mut self, job: &Job) -> Outcome<Measured> {
        let mut trips = RoundTrips::new(job.warmup, job.iterations);
        for turn in 0..job.warmup + job.iterations {
            self.hit(turn)?;
            self.wait(turn)?;
            trips.lap();
        }
        self.link.flush()?;
        Ok(trips.finish(job.share_of_round_trip()))
    }

    fn pong(&mut self, job: &Job) -> Outcome<Measured> {
        for turn in 0..job.warmup + job.iterations {
            self.wait(turn)?;
            self.hit(turn)?;
        }
        self.link.flush()?;
        Ok(Measured::default())
    }

    /// Sends the message of a turn.
    fn hit(&mut self, turn: u64) -> Outcome<()> {
        let last = self.message.len() - 1;
        let request = match (self.operation, self.inline) {
            (Operation::Send, true) => WorkRequest::send_inline(&self.message)?,
            (Operation::Send, false) => WorkRequest::send(self.outbox.slice(..)?),
            (Operation::Notify, true) => WorkRequest::write_inline(&self.message, self.target)?.notify(),
            (Operation::Notify, false) => WorkRequest::write(self.outbox.slice(..)?, self.target).notify(),
            (_, true) => {
                self.message[last] = mark(turn);
                WorkRequest::write_inline(&self.message, self.target)?
            }
            (_, false) => {
                // The last write has arrived, since it was answered.
                self.outbox.store_u8(last as u64, mark(turn), Ordering::Relaxed)?;
                WorkRequest::write(self.outbox.slice(..)?, self.target)
            }
        };
        Ok(self.link.queue_pair().post(request.unsignaled())?)
    }

    /// Waits for the message of a turn. A receive is posted again before the reply.
    fn wait(&mut self, turn: u64) -> Outcome<()> {
        if takes_receives(self.operation) {
            while self.link.received == 0 {
                self.link.turn()?;
            }
            self.link.received -= 1;
            return self.link.repost(self.inbox, 1);
        }
        let last = self.message.len() as u64 - 1;
        while self.inbox.load_u8(last, Ordering::Acquire)? != mark(turn) {
            self.link.progress()?;
        }
        Ok(())
    }

    fn read(&mut self, job: &Job) -> Outcome<Measured> {
        let mut trips = RoundTrips::new(job.warmup, job.iterations);
        for turn in 1..=job.warmup + job.iterations {
            self.link.queue_pair().post(WorkRequest::read(self.outbox.slice(..)?, self.target).id(1))?;
            while self.link.completed < turn {
                self.link.turn()?;
            }
            trips.lap();
        }
        self.link.say(Word::Done)?;
        self.link.flush()?;
        Ok(trips.finish(job.share_of_round_trip()))
    }

    /// Lets itself be read.
    fn serve(&mut self) -> Outcome<Measured> {
        self.link.await_done()?;
        Ok(Measured::default())
    }
}

/// The last byte of the message of a turn: unlike that of the turns around it, and never what memory begins with.
fn mark(turn: u64) -> u8 {
    (turn % 255) as u8 + 1
}
