//! Reads from a server whose application computes: its NIC answers them, whatever the application does.

use weft::verbs::{Access, RemoteMemory, WorkRequest};

use crate::contestants::fetch;
use crate::contestants::weft::link::{Link, Outcome, Word};
use crate::host::work::Work;
use crate::model::job::{Job, Role};
use crate::model::measure::Measured;

pub(crate) fn run(link: &mut Link, target: RemoteMemory, job: &Job) -> Outcome<Measured> {
    match job.role() {
        Role::Active => read(link, target, job),
        Role::Passive => serve(link, job).map(|()| Measured::default()),
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
    link.say(Word::Done)?;
    link.flush()?;
    Ok(measured)
}

/// The application of the server: it computes all the time, and calls in as rarely as it would answer; one that answers
/// at once has nothing else to do, and waits.
fn serve(link: &mut Link, job: &Job) -> Outcome<()> {
    if job.computation_us == 0 {
        return link.await_done();
    }
    let work = Work::calibrate();
    while !link.is_done() {
        link.compute(&work, job.computation_us.into())?;
        link.poll()?;
    }
    Ok(())
}
