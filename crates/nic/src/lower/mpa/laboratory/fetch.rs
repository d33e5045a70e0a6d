//! The first stages: payload comes into memory of the NIC, and markers between it.
//!
//! | task | states | from | to |
//! |---|---|---|---|
//! | [`insert_markers`], the coupled DMA | idle (no segment), ready (a segment and a free block), busy (a piece), marker inserted, ... until the segment is complete | user memory | frames |
//! | [`fetch`], the decoupled SDMA | idle, ready, busy, done | user memory | runs of payload |
//! | [`Processing`] | copy partial segment, insert marker, ... until the segment is complete | runs of payload | frames |

use std::collections::VecDeque;

use weft_base::Digest;
use weft_memory::{MemoryError, Registry};
use weft_mpa::{MarkerInserter, Source};
use weft_rdmap::Stream;

use super::block::{Block, BlockRing, FRAMES_PER_BLOCK, FrameRecord};
use super::job::Job;
use super::stage::Stage;

/// Fetches payload straight to its place in the stream: one block of frames, or less if there is less. Returns whether
/// there was anything.
pub(super) fn insert_markers(
    stage: &mut Stage,
    stream: &mut Stream,
    block_ring: &BlockRing,
    registry: &Registry,
) -> Result<bool, MemoryError> {
    one_block((stage, stream), block_ring, registry, Job::insert_markers, Job::is_woven)
}

/// Fetches payload in one run: one block of it, or less. Returns whether there was anything.
pub(super) fn fetch(
    stage: &mut Stage,
    stream: &mut Stream,
    runs: &BlockRing,
    registry: &Registry,
) -> Result<bool, MemoryError> {
    one_block((stage, stream), runs, registry, Job::fetch, Job::is_fetched)
}

fn one_block(
    (stage, stream): (&mut Stage, &mut Stream),
    block_ring: &BlockRing,
    registry: &Registry,
    work: impl Fn(&mut Job, &Registry, &mut [u8]) -> Result<usize, MemoryError>,
    is_done: impl Fn(&Job) -> bool,
) -> Result<bool, MemoryError> {
    if stage.is_broken() || !stage.has_job(stream) {
        return Ok(false);
    }
    let Some(mut block) = block_ring.take_free() else { return Ok(false) };
    while !block.is_full() {
        let Some(mut job) = stage.take_job(stream) else { break };
        if job.is_new() {
            if job.check(registry).is_err() {
                block.begin(FrameRecord { layout: None, payload: 0 });
                stage.cancel(&job, stream);
                continue;
            }
            block.begin(job.laid());
        }
        match work(&mut job, registry, block.room()) {
            Ok(count) => block.fill(count),
            Err(error) => {
                block_ring.give_back(block);
                stage.give_up();
                return Err(error);
            }
        }
        if !is_done(&job) {
            stage.put_back(job);
        }
    }
    block_ring.push(block);
    Ok(true)
}

/// Works the markers in.
pub(super) struct Processing {
    /// The frame that is being written.
    marker_inserter: Option<MarkerInserter>,
    /// Bytes of its ULPDU that have been used.
    used: usize,
    /// The run of payload that it comes from, and the frames that begin there.
    run: Option<Block>,
    frames: VecDeque<FrameRecord>,
}

impl Default for Processing {
    fn default() -> Self {
        Self { marker_inserter: None, used: 0, run: None, frames: VecDeque::with_capacity(FRAMES_PER_BLOCK) }
    }
}

impl Processing {
    /// Writes one block of frames from the runs that are there, or less. Returns whether there was anything.
    pub(super) fn process(&mut self, runs: &BlockRing, block_ring: &BlockRing) -> bool {
        if !self.is_ready(runs) {
            return false;
        }
        let Some(mut block) = block_ring.take_free() else { return false };
        while !block.is_full() && self.next_run(runs) {
            self.step(&mut block);
        }
        block_ring.push(block);
        true
    }

    /// Whether there is something to work on.
    pub(super) fn is_ready(&self, runs: &BlockRing) -> bool {
        self.has_work() || runs.has_full()
    }

    /// Makes sure that there is a run with something in it.
    fn next_run(&mut self, runs: &BlockRing) -> bool {
        while !self.has_work() {
            if let Some(run) = self.run.take() {
                runs.give_back(run);
            }
            let Some(mut run) = runs.pop() else { return false };
            self.frames.extend(run.parts().0);
            self.run = Some(run);
        }
        true
    }

    /// Whether the present run is good for something: bytes, the beginning of a frame, or the end of one.
    fn has_work(&self) -> bool {
        let bytes = self.run.as_ref().is_some_and(|run| !run.left().is_empty());
        bytes
            || !self.frames.is_empty()
            || self.marker_inserter.as_ref().is_some_and(|marker_inserter| marker_inserter.reach(self.used) > 0)
    }

    /// Copies a partial segment, or begins the next one.
    fn step(&mut self, block: &mut Block) {
        let Some(marker_inserter) = &mut self.marker_inserter else {
            let Some(frame) = self.frames.pop_front() else { return };
            block.begin(frame);
            self.marker_inserter = frame.layout.as_ref().map(MarkerInserter::new);
            self.used = 0;
            return;
        };
        let Some(run) = &mut self.run else { return };
        let reach = marker_inserter.reach(self.used + run.left().len()).min(block.room().len());
        let mut source = Run { run, used: &mut self.used };
        let Ok(count) = marker_inserter.insert_markers(&[], &mut source, &mut block.room()[..reach]);
        block.fill(count);
        if marker_inserter.is_done() {
            self.marker_inserter = None;
        }
    }

    pub(super) fn clear(&mut self, runs: &BlockRing) {
        self.marker_inserter = None;
        self.frames.clear();
        if let Some(run) = self.run.take() {
            runs.give_back(run);
        }
    }
}

struct Run<'a> {
    run: &'a mut Block,
    used: &'a mut usize,
}

impl Source for Run<'_> {
    type Error = core::convert::Infallible;

    fn copy<D: Digest>(&mut self, out: &mut [u8], digest: &mut D) -> Result<(), Self::Error> {
        let mut from = self.run.left();
        let Ok(()) = from.copy(out, digest);
        self.run.take(out.len());
        *self.used += out.len();
        Ok(())
    }
}
