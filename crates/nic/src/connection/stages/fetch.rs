//! The first stages: payload comes into memory of the NIC, and markers between it.
//!
//! | task | states | from | to |
//! |---|---|---|---|
//! | [`weave`], the coupled DMA | idle (no segment), ready (a segment and a free block), busy (a piece), marker inserted, ... until the segment is complete | user memory | frames |
//! | [`fetch`], the decoupled SDMA | idle, ready, busy, done | user memory | runs of payload |
//! | [`Processing`] | copy partial segment, insert marker, ... until the segment is complete | runs of payload | frames |

use std::collections::VecDeque;

use weft_base::Digest;
use weft_memory::{MemoryError, Registry};
use weft_mpa::{Source, Weaver};

use super::Protocol;
use super::block::{Belt, Block, FRAMES_PER_BLOCK, Laid};
use super::job::Job;

/// Fetches payload straight to where it stands in the stream: one block of frames, or less if there is not so much. Returns whether there was
/// anything.
pub(super) fn weave(protocol: &mut Protocol, belt: &Belt, registry: &Registry) -> Result<bool, MemoryError> {
    one_block(protocol, belt, registry, Job::weave, Job::is_woven)
}

/// Fetches payload in one run: one block of it, or less. Returns whether there was anything.
pub(super) fn fetch(protocol: &mut Protocol, runs: &Belt, registry: &Registry) -> Result<bool, MemoryError> {
    one_block(protocol, runs, registry, Job::fetch, Job::is_fetched)
}

fn one_block(
    protocol: &mut Protocol,
    belt: &Belt,
    registry: &Registry,
    work: impl Fn(&mut Job, &Registry, &mut [u8]) -> Result<usize, MemoryError>,
    is_done: impl Fn(&Job) -> bool,
) -> Result<bool, MemoryError> {
    if protocol.is_broken() || !protocol.has_job() {
        return Ok(false);
    }
    let Some(mut block) = belt.take_free() else { return Ok(false) };
    while !block.is_full() {
        let Some(mut job) = protocol.take_job() else { break };
        if job.is_new() {
            if job.check(registry).is_err() {
                block.begin(Laid { layout: None, payload: 0 });
                protocol.cancel(&job);
                continue;
            }
            block.begin(job.laid());
        }
        match work(&mut job, registry, block.room()) {
            Ok(count) => block.fill(count),
            Err(error) => {
                belt.give_back(block);
                protocol.give_up();
                return Err(error);
            }
        }
        if !is_done(&job) {
            protocol.put_back(job);
        }
    }
    belt.push(block);
    Ok(true)
}

/// Works the markers in.
pub(super) struct Processing {
    /// The frame that is being written.
    weaver: Option<Weaver>,
    /// Bytes of its ULPDU that have been used.
    used: usize,
    /// The run of payload that it comes from, and the frames that begin there.
    run: Option<Block>,
    frames: VecDeque<Laid>,
}

impl Default for Processing {
    fn default() -> Self {
        Self { weaver: None, used: 0, run: None, frames: VecDeque::with_capacity(FRAMES_PER_BLOCK) }
    }
}

impl Processing {
    /// Writes one block of frames from the runs that are there, or less. Returns whether there was anything.
    pub(super) fn process(&mut self, runs: &Belt, belt: &Belt) -> bool {
        if !self.is_ready(runs) {
            return false;
        }
        let Some(mut block) = belt.take_free() else { return false };
        while !block.is_full() && self.next_run(runs) {
            self.step(&mut block);
        }
        belt.push(block);
        true
    }

    /// Whether there is something to work on.
    pub(super) fn is_ready(&self, runs: &Belt) -> bool {
        self.has_work() || runs.has_full()
    }

    /// Makes sure that there is a run with something in it.
    fn next_run(&mut self, runs: &Belt) -> bool {
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
        bytes || !self.frames.is_empty() || self.weaver.as_ref().is_some_and(|weaver| weaver.reach(self.used) > 0)
    }

    /// Copies a partial segment, or begins the next one.
    fn step(&mut self, block: &mut Block) {
        let Some(weaver) = &mut self.weaver else {
            let Some(frame) = self.frames.pop_front() else { return };
            block.begin(frame);
            self.weaver = frame.layout.as_ref().map(Weaver::new);
            self.used = 0;
            return;
        };
        let Some(run) = &mut self.run else { return };
        let reach = weaver.reach(self.used + run.left().len()).min(block.room().len());
        let mut source = Run { run, used: &mut self.used };
        let Ok(count) = weaver.weave(&[], &mut source, &mut block.room()[..reach]);
        block.fill(count);
        if weaver.is_done() {
            self.weaver = None;
        }
    }

    pub(super) fn clear(&mut self, runs: &Belt) {
        self.weaver = None;
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
