//! Reads from a server whose application computes: its NIC answers them, whatever the application does.

use std::sync::atomic::Ordering;

use weft::verbs::{Access, MemoryRegion, RemoteMemory, WorkRequest};

use crate::contestants::fetch;
use crate::contestants::weft::demands::flag_at;
use crate::contestants::weft::link::{Link, Outcome, Word};
use crate::contestants::weft::settings::Settings;
use crate::host::work::Work;
use crate::model::job::{Job, Role};
use crate::model::measure::Measured;

pub(crate) fn run(link: &mut Link, memory: &MemoryRegion, target: RemoteMemory, job: &Job) -> Outcome<Measured> {
    match job.role() {
        Role::Active => read(link, target, job),
        Role::Passive => serve(link, memory, job).map(|()| Measured::default()),
    }
}

fn read(link: &mut Link, target: RemoteMemory, job: &Job) -> Outcome<Measured> {
    let inbox = link.queue_pair().domain().allocate(job.size, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
    let mut posted = 0;
    let measured = fetch::measure(job, || -> Outcome<()> {
        link.queue_pair().post(WorkRequest::read(inbox.slice(..)?, target).id(1))?;
        posted += 1;
        while link.completed < posted {
            link.turn()?;
        }
        Ok(())
    })?;
    let over = WorkRequest::write_inline(&1_u64.to_ne_bytes(), target.at(flag_at(job) as u64))?;
    link.queue_pair().post(over.unsignaled())?;
    link.say(Word::Done)?;
    link.flush()?;
    Ok(measured)
}

/// The application of the server: it computes all the time, and learns from its memory that all is over. One that
/// answers at once has nothing else to do, and waits. A NIC without a thread of its own works when it calls in: after
/// each computation.
fn serve(link: &mut Link, memory: &MemoryRegion, job: &Job) -> Outcome<()> {
    if job.computation_us == 0 {
        return link.await_done();
    }
    let calls_in = !Settings::of(job).is_ok_and(|settings| settings.is_automatic());
    let work = Work::calibrate();
    while memory.load_u64(flag_at(job) as u64, Ordering::Acquire)? == 0 {
        link.compute(&work, job.computation_us.into())?;
        if calls_in {
            link.poll()?;
        }
    }
    Ok(())
}
