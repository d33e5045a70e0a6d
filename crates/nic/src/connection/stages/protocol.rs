//! What lays out a stream, whichever thread does so.

use core::ops::{Deref, DerefMut};
use std::sync::Arc;

use weft_base::Port;
use weft_lock::{Mutex, MutexGuard};
use weft_memory::Registry;
use weft_mpa::Framer;
use weft_rdmap::{State, Stream};
use weft_wire::terminate::TerminateCode;

use super::job::Job;
use crate::queues::queue_pair::QueuePair;

/// Asking costs a system call, and paths change rarely.
const ASK_PATH_EVERY_FRAMES: u32 = 4096;

/// RDMAP and DDP, and where in the stream the next frame begins.
pub(crate) struct Protocol {
    pub(in crate::connection) stream: Stream,
    pub(in crate::connection) framer: Framer,
    large_fpdus: bool,
    pub(in crate::connection) max_ulpdu: u32,
    /// Frames laid out since the path was last asked for its packet size.
    pub(in crate::connection) frames_since_asked: u32,
    /// A segment that the first stage has begun with.
    job: Option<Job>,
    /// Memory went away under a frame of which a part has gone on.
    broken: bool,
}

impl Protocol {
    pub(in crate::connection) fn new(stream: Stream, framer: Framer, large_fpdus: bool, segment_size: u32) -> Self {
        let max_ulpdu = framer.max_ulpdu(segment_size, large_fpdus);
        Self { stream, framer, large_fpdus, max_ulpdu, frames_since_asked: 0, job: None, broken: false }
    }

    /// Hands what was posted to the stream. Returns whether there was anything.
    pub(in crate::connection) fn take_posted(&mut self, queue_pair: &QueuePair, registry: &Registry) -> bool {
        let stream = &mut self.stream;
        let mut took = false;
        let mut refused = None;
        queue_pair.drain(|request| {
            took = true;
            if stream.state() != State::Established {
                refused.get_or_insert_with(Vec::new).push(request);
            } else if let Err(error) = stream.post(request) {
                // The queue pair has made the same checks, so this can't be.
                panic!("a request that was admitted is refused: {error}");
            }
        });
        for request in refused.into_iter().flatten() {
            queue_pair.flush_send(registry, &request);
        }
        took
    }

    /// FPDUs follow the path's packet size, which may change (RFC 5044 section 4.5).
    pub(in crate::connection) fn follow_path<P: Port>(&mut self, port: &P) {
        if self.frames_since_asked >= ASK_PATH_EVERY_FRAMES {
            self.frames_since_asked = 0;
            self.max_ulpdu = self.framer.max_ulpdu(port.segment_size(), self.large_fpdus);
        }
    }

    /// Whether there is a segment for the first stage.
    pub(super) fn has_job(&self) -> bool {
        self.job.is_some() || self.stream.can_transmit()
    }

    /// The segment that the first stage works on, or the next one.
    pub(super) fn take_job(&mut self) -> Option<Job> {
        if let Some(job) = self.job.take() {
            return Some(job);
        }
        let segment = self.stream.poll_transmit(self.max_ulpdu)?;
        self.frames_since_asked += 1;
        Some(Job::new(&segment, &mut self.framer))
    }

    /// The first stage goes on with this segment later.
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

    /// Remote access to the source of a read response has just been ended by another thread. The frame is as if it had never been; a Terminate takes
    /// its place.
    pub(super) fn cancel(&mut self, job: &Job) {
        self.framer = job.before().clone();
        self.stream.fail(TerminateCode::ProtectionInvalidStag);
    }
}

/// The protocol of a connection: the engine's own, or shared with the calling threads that assist.
pub(in crate::connection) enum Core {
    Own(Box<Protocol>),
    Shared(Arc<Mutex<Protocol>>),
}

impl Core {
    #[inline]
    pub(in crate::connection) fn hold(&mut self) -> Holding<'_> {
        match self {
            Self::Own(protocol) => Holding::Own(protocol),
            Self::Shared(protocol) => Holding::Shared(protocol.lock()),
        }
    }
}

/// A protocol, held.
pub(in crate::connection) enum Holding<'a> {
    Own(&'a mut Protocol),
    Shared(MutexGuard<'a, Protocol>),
}

impl Deref for Holding<'_> {
    type Target = Protocol;

    #[inline]
    fn deref(&self) -> &Protocol {
        match self {
            Self::Own(protocol) => protocol,
            Self::Shared(protocol) => protocol,
        }
    }
}

impl DerefMut for Holding<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Protocol {
        match self {
            Self::Own(protocol) => protocol,
            Self::Shared(protocol) => protocol,
        }
    }
}
