//! What lays out frames stage by stage, whichever thread does so.

use weft_base::Port;
use weft_mpa::Framer;
use weft_rdmap::Stream;
use weft_wire::terminate::TerminateCode;

use super::super::send::PathSize;
use super::job::Job;

/// Where in the stream of bytes the next frame begins, and the segment that the first stage works on. Its lock is taken
/// before that of the stream.
pub(super) struct Stage {
    framer: Framer,
    path: PathSize,
    /// A segment that the first stage has begun with.
    job: Option<Job>,
    /// Memory went away under a frame of which a part has gone on.
    broken: bool,
}

impl Stage {
    pub(super) fn new(framer: Framer, large_fpdus: bool, segment_size: u32) -> Self {
        let path = PathSize::new(&framer, large_fpdus, segment_size);
        Self { framer, path, job: None, broken: false }
    }

    /// FPDUs follow the path's packet size.
    pub(super) fn follow_path<P: Port>(&mut self, port: &P) {
        self.path.follow(&self.framer, port);
    }

    /// Whether there is a segment for the first stage.
    pub(super) fn has_job(&self, stream: &Stream) -> bool {
        self.job.is_some() || stream.can_transmit()
    }

    /// The segment that the first stage works on, or the next one.
    pub(super) fn take_job(&mut self, stream: &mut Stream) -> Option<Job> {
        if let Some(job) = self.job.take() {
            return Some(job);
        }
        let segment = stream.poll_transmit(self.path.next_ulpdu(&self.framer))?;
        self.path.count_frame();
        Some(Job::new(&segment, &mut self.framer))
    }

    /// The first stage continues this segment later.
    pub(super) fn put_back(&mut self, job: Job) {
        self.job = Some(job);
    }

    /// The memory of a segment went away when a part of it had gone on: the stream can't be continued.
    pub(super) fn give_up(&mut self) {
        self.broken = true;
    }

    /// Whether the stream can't be continued.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Remote access to the source of a read response has just been ended by another thread. The frame is taken back; a
    /// Terminate takes its place.
    pub(super) fn cancel(&mut self, job: &Job, stream: &mut Stream) {
        self.framer = job.before().clone();
        stream.fail(TerminateCode::ProtectionInvalidStag);
    }
}
