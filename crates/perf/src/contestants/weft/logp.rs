//! Messages both ways on one queue pair, for the parameters of LogP.

use weft::verbs::{Access, MemoryRegion, WorkRequest};

use crate::contestants::logp::{self, Exchange, SHORT};
use crate::contestants::weft::demands::goes_inline;
use crate::contestants::weft::link::{Broken, Link, Outcome};
use crate::model::job::Job;
use crate::model::measure::Measured;

pub(crate) fn run(link: &mut Link, inbox: &MemoryRegion, job: &Job) -> Outcome<Measured> {
    let outbox = link.queue_pair().domain().allocate(job.size, Access::LOCAL_WRITE)?;
    let inline = |size| goes_inline(&Job { size, ..job.clone() });
    let inline = [inline(SHORT), inline(job.size)];
    logp::run(job, &mut Messages { link, inbox, outbox, message: vec![0x5a; job.size], inline })
}

struct Messages<'a> {
    link: &'a mut Link,
    inbox: &'a MemoryRegion,
    outbox: MemoryRegion,
    /// What is sent as part of a request.
    message: Vec<u8>,
    /// Whether a short message is part of its request, and whether one of the job's size is.
    inline: [bool; 2],
}

impl Exchange for Messages<'_> {
    type Error = Broken;

    fn send(&mut self, bytes: usize) -> Outcome<()> {
        let request = if self.inline[usize::from(bytes > SHORT)] {
            WorkRequest::send_inline(&self.message[..bytes])?
        } else {
            WorkRequest::send(self.outbox.slice(..bytes as u64)?)
        };
        Ok(self.link.queue_pair().post(request.unsignaled())?)
    }

    fn receive(&mut self, _: usize) -> Outcome<()> {
        while self.link.received == 0 {
            self.link.turn()?;
        }
        self.link.received -= 1;
        self.link.repost(self.inbox, 1)
    }

    fn settle(&mut self) -> Outcome<()> {
        self.link.flush()
    }
}
