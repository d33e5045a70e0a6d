//! Computation beside writes, sends and reads.
//!
//! A transfer is over when its bytes are in the target's memory. A read tells that itself; behind a write or a send
//! goes a read of one byte, whose answer cannot come before. The target learns from a word in its memory that all is
//! over, so that it need not call in.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use weft::verbs::{Access, MemoryRegion, RemoteMemory, WorkRequest};

use crate::contestants::overlap::{CALLS_IN_EVERY_US, Insertion, Ratio, Search, Transfer};
use crate::contestants::weft::demands::{flag_at, operation};
use crate::contestants::weft::link::{Broken, Link, Outcome};
use crate::host::work::Work;
use crate::model::job::{Job, Kind, Operation, Role, Target};
use crate::model::measure::{Measured, Watch};

/// How often a target that sleeps checks whether all is over.
const NAP: Duration = Duration::from_millis(5);

pub(crate) fn run(link: &mut Link, inbox: &MemoryRegion, target: RemoteMemory, job: &Job) -> Outcome<Measured> {
    if job.role() == Role::Passive {
        return serve(link, inbox, job);
    }
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let outbox = link.queue_pair().domain().allocate(job.size, access)?;
    let proof = link.queue_pair().domain().allocate(1, access)?;
    let mut initiator = Initiator {
        link,
        outbox: &outbox,
        proof: &proof,
        target,
        operation: operation(job),
        flag: flag_at(job),
        posted: 0,
    };
    match job.kind {
        Kind::Overlap => Search::new(job).run(&mut initiator),
        Kind::Ratio => Ratio::new(job).run(&mut initiator),
        _ => Insertion::new(job).run(&mut initiator),
    }
}

struct Initiator<'a> {
    link: &'a mut Link,
    outbox: &'a MemoryRegion,
    /// The byte that is read to know that what went before it is there.
    proof: &'a MemoryRegion,
    target: RemoteMemory,
    operation: Operation,
    flag: usize,
    posted: u64,
}

impl Transfer for Initiator<'_> {
    type Error = Broken;

    fn post(&mut self) -> Outcome<()> {
        let payload = self.outbox.slice(..)?;
        let transfer = match self.operation {
            Operation::Read | Operation::Atomic => WorkRequest::read(payload, self.target).id(1),
            Operation::Write | Operation::Notify => WorkRequest::write(payload, self.target).unsignaled(),
            Operation::Send => WorkRequest::send(payload).unsignaled(),
        };
        let proof = match self.operation {
            Operation::Read | Operation::Atomic => None,
            _ => Some(WorkRequest::read(self.proof.slice(..)?, self.target).id(1)),
        };
        self.posted += 1;
        Ok(self.link.queue_pair().post_list([Some(transfer), proof].into_iter().flatten())?)
    }

    fn poll(&mut self) -> Outcome<()> {
        self.link.poll()
    }

    fn under_way(&self) -> u64 {
        self.posted - self.link.completed
    }

    fn finish(&mut self, most: u64) -> Outcome<()> {
        while self.under_way() > most {
            self.link.turn()?;
        }
        Ok(())
    }

    fn wait_blocking(&mut self, block: bool) {
        self.link.wait_blocking(block);
    }

    fn is_summoned(&self) -> bool {
        self.link.is_summoned()
    }

    fn answer_summons(&mut self) -> Outcome<()> {
        self.link.answer_summons()
    }

    fn end(&mut self) -> Outcome<()> {
        let word = WorkRequest::write_inline(&(self.posted + 1).to_ne_bytes(), self.target.at(self.flag as u64))?;
        self.link.queue_pair().post(word.unsignaled())?;
        self.link.flush()
    }
}

/// The target: obeys commands until all is over.
fn serve(link: &mut Link, inbox: &MemoryRegion, job: &Job) -> Outcome<Measured> {
    let work = Work::calibrate();
    let watch = Watch::start();
    let count = || inbox.load_u64(flag_at(job) as u64, Ordering::Acquire);
    while count()? == 0 {
        match job.target {
            Target::Silent => thread::sleep(NAP),
            Target::Computing => {
                link.compute(&work, CALLS_IN_EVERY_US)?;
                call_in(link, inbox)?;
            }
            Target::Polling => call_in(link, inbox)?,
        }
    }
    let bytes = (count()? - 1) * job.size as u64;
    // What computes or spins uses a whole core for that.
    let cpu = (job.target == Target::Silent).then(|| watch.cpu_s_per_gb(bytes));
    Ok(Measured { cpu_s_per_gb: cpu, ..Measured::default() })
}

fn call_in(link: &mut Link, inbox: &MemoryRegion) -> Outcome<()> {
    link.poll()?;
    link.received = 0;
    link.repost(inbox, usize::MAX)
}
