//! Slices of a field by RDMA writes: into one of a few places at the side that draws, which says when it has read one.

use weft::verbs::{Access, MemoryRegion, RemoteMemory, WorkRequest};

use crate::contestants::isosurface::{Field, Mismatch, RING, Slices, draw_all, pieces, send_all, volume};
use crate::contestants::weft::link::{Broken, Link, Outcome, Word};
use crate::model::job::{Job, Role};
use crate::model::measure::{Measured, Watch};

pub(crate) fn run(link: &mut Link, inbox: &MemoryRegion, target: RemoteMemory, job: &Job) -> Outcome<Measured> {
    match job.role() {
        Role::Passive => {
            let watch = Watch::start();
            let measured = draw_all(job, &mut Inbox { link, inbox, read: 0 })?;
            Ok(Measured { cpu_share: Some(watch.cpu_share()), ..measured })
        }
        Role::Active => Outbox::new(link, target, job)?.send(job),
    }
}

/// Slices as the peer writes them.
struct Inbox<'a> {
    link: &'a mut Link,
    inbox: &'a MemoryRegion,
    /// Slices that were read.
    read: u64,
}

impl Slices for Inbox<'_> {
    type Error = Broken;

    /// The word comes after the writes of its slice.
    fn next(&mut self, slice: &mut [u8]) -> Outcome<()> {
        while self.link.credits == 0 {
            self.link.turn()?;
        }
        self.link.credits -= 1;
        self.inbox.read(place(self.read, slice.len()), slice)?;
        self.read += 1;
        self.link.say(Word::Credit)
    }

    fn drawn(&mut self) -> Outcome<()> {
        self.link.say(Word::Done)?;
        self.link.flush()
    }
}

impl From<Mismatch> for Broken {
    fn from(Mismatch(words): Mismatch) -> Self {
        Self::new(words)
    }
}

/// Where a slice is among those that are in flight or unread.
fn place(slice: u64, bytes: usize) -> u64 {
    slice % RING as u64 * bytes as u64
}

struct Outbox<'a> {
    link: &'a mut Link,
    target: RemoteMemory,
    /// All slices, one after the other.
    field: MemoryRegion,
    slice_bytes: usize,
    slices: usize,
    /// Bytes of a write.
    piece: usize,
    /// Writes that may be in flight at a time.
    window: u64,
    posted: u64,
    /// Slices that were sent.
    sent: u64,
}

impl<'a> Outbox<'a> {
    fn new(link: &'a mut Link, target: RemoteMemory, job: &Job) -> Outcome<Self> {
        let volume = volume(job).map_err(Broken::new)?;
        let (slice_bytes, slices) = (volume.slice_bytes(), volume.slices);
        let region = link.queue_pair().domain().allocate(slices * slice_bytes, Access::LOCAL_WRITE)?;
        let (field, mut slice) = (Field::new(&volume), vec![0; slice_bytes]);
        for z in 0..slices {
            field.fill(z, &mut slice);
            region.write((z * slice_bytes) as u64, &slice)?;
        }
        let (piece, window) = (job.size, job.buffers() as u64);
        Ok(Self { link, target, field: region, slice_bytes, slices, piece, window, posted: 0, sent: 0 })
    }

    fn send(&mut self, job: &Job) -> Outcome<Measured> {
        let watch = Watch::start();
        let measured = send_all(job, || self.pass())?;
        self.link.flush()?;
        Ok(Measured { cpu_share: Some(watch.cpu_share()), ..measured })
    }

    fn pass(&mut self) -> Outcome<()> {
        for z in 0..self.slices {
            while self.sent == self.link.credits + RING as u64 {
                self.link.turn()?;
            }
            let to = self.target.at(place(self.sent, self.slice_bytes));
            for piece in pieces(self.slice_bytes, self.piece) {
                while self.posted - self.link.completed == self.window {
                    self.link.turn()?;
                }
                let at = (z * self.slice_bytes) as u64;
                let payload = self.field.slice(at + piece.start as u64..at + piece.end as u64)?;
                self.link.queue_pair().post(WorkRequest::write(payload, to.at(piece.start as u64)).id(1))?;
                self.posted += 1;
            }
            self.link.say(Word::Credit)?;
            self.sent += 1;
        }
        self.link.await_done()
    }
}
