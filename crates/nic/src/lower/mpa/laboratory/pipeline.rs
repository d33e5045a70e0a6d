//! The tasks of the way out, and whose turn it is.

use std::sync::Arc;

use weft_base::Port;
use weft_lock::{Mutex, Rank};
use weft_memory::MemoryError;

use super::super::staging::Pool;
use super::block::BlockRing;
use super::checksum::Checksum;
use super::fetch::{self, Processing};
use super::sending::Sending;
use super::stage::Stage;
use crate::lower::{Io, SendError, StreamSink};
use crate::settings::laboratory::{Coupling, Split};

/// The way out of a connection whose NIC does part of its host's work.
pub(super) struct Pipeline {
    stage: Arc<Mutex<Stage>>,
    first: First,
    /// Woven frames with holes for their CRCs.
    block_ring: Arc<BlockRing>,
    checksum: Checksum,
    sending: Sending,
}

/// Which stage weaves.
enum First {
    /// The NIC, in one task.
    Coupled,
    /// The NIC, in two.
    Decoupled { runs: Box<BlockRing>, processing: Box<Processing> },
    /// The caller; the NIC where it is not there.
    Assisted,
}

/// Whose turn it is.
enum Turn {
    Fetch,
    Process,
    Sum,
    Send,
}

impl From<MemoryError> for SendError {
    fn from(_: MemoryError) -> Self {
        Self::Memory
    }
}

impl Pipeline {
    /// The pipeline of a split.
    pub(super) fn new(split: Split, stage: Stage) -> Self {
        let first = match split {
            Split::Host | Split::Offload(Coupling::Coupled) => First::Coupled,
            Split::Offload(Coupling::Decoupled) => {
                First::Decoupled { runs: Box::default(), processing: Box::default() }
            }
            Split::Assist => First::Assisted,
        };
        Self {
            stage: Arc::new(Mutex::new(Rank::Stage, stage)),
            first,
            block_ring: Arc::default(),
            checksum: Checksum::default(),
            sending: Sending::default(),
        }
    }

    pub(super) fn stage(&self) -> &Arc<Mutex<Stage>> {
        &self.stage
    }

    /// The ring between the first stage and the next.
    pub(super) fn block_ring(&self) -> &Arc<BlockRing> {
        &self.block_ring
    }

    /// Whether finished blocks wait for the port.
    pub(super) fn is_empty(&self) -> bool {
        self.sending.is_empty() && !self.block_ring.has_full()
    }

    /// Lets the tasks work until the port takes no more or nothing is left. Returns whether anything was done.
    pub(super) fn run<P: Port, A: StreamSink>(
        &mut self,
        above: &mut A,
        port: &mut P,
        io: &mut Io<'_, impl AsMut<Pool>>,
    ) -> Result<bool, SendError> {
        self.block_ring.answer();
        let mut stage = self.stage.lock();
        if stage.is_broken() {
            return Err(SendError::Memory);
        }
        stage.follow_path(port);
        drop(stage);
        let mut progress = false;
        let mut port_is_full = false;
        while let Some(turn) = self.choose(above, port_is_full) {
            match turn {
                Turn::Fetch => self.fetch(above, io)?,
                Turn::Process => {
                    if let First::Decoupled { runs, processing } = &mut self.first {
                        processing.process(runs, &self.block_ring);
                    }
                }
                Turn::Sum => {
                    if let Some(mut block) = self.block_ring.pop() {
                        self.checksum.pass(&mut block, &mut self.sending.frames, io.counters);
                        self.sending.add(block);
                    }
                }
                Turn::Send => {
                    let (taken, frames) = self.sending.send(port, &self.block_ring)?;
                    port_is_full = taken == 0 && !self.sending.is_empty();
                    if frames > 0 {
                        above.stream().handle_sent(frames);
                    }
                    io.counters.sends += 1;
                    io.counters.sent_wire_bytes += taken as u64;
                    progress |= taken > 0;
                    continue;
                }
            }
            progress = true;
        }
        Ok(progress)
    }

    /// Polls the rings. What is furthest on its way goes first once it is worth a call; before that, what can still be
    /// added to it.
    fn choose<A: StreamSink>(&self, above: &mut A, port_is_full: bool) -> Option<Turn> {
        if self.sending.has_enough() && !port_is_full {
            return Some(Turn::Send);
        }
        if self.block_ring.has_full() {
            return Some(Turn::Sum);
        }
        let (has_room, waits) = (self.block_ring.has_free(), !self.sending.is_empty());
        let turn = match &self.first {
            First::Decoupled { runs, processing } if has_room && processing.is_ready(runs) => Some(Turn::Process),
            First::Decoupled { runs, .. } if runs.has_free() && self.stage.lock().has_job(&above.stream()) => {
                Some(Turn::Fetch)
            }
            First::Coupled if has_room && self.stage.lock().has_job(&above.stream()) => Some(Turn::Fetch),
            // The caller's turn, unless it is not there: then nothing of it is on the way.
            First::Assisted if has_room && !waits && self.stage.lock().has_job(&above.stream()) => Some(Turn::Fetch),
            _ => None,
        };
        turn.or_else(|| (waits && !port_is_full).then_some(Turn::Send))
    }

    fn fetch<A: StreamSink>(&mut self, above: &mut A, io: &mut Io<'_, impl AsMut<Pool>>) -> Result<(), MemoryError> {
        let mut stage = self.stage.lock();
        let mut stream = above.stream();
        match &self.first {
            First::Decoupled { runs, .. } => fetch::fetch(&mut stage, &mut stream, runs, io.registry)?,
            First::Coupled | First::Assisted => {
                fetch::insert_markers(&mut stage, &mut stream, &self.block_ring, io.registry)?
            }
        };
        Ok(())
    }

    /// Throws away what has not been sent.
    pub(super) fn clear(&mut self) {
        if let First::Decoupled { runs, processing } = &mut self.first {
            processing.clear(runs);
            runs.clear();
        }
        self.checksum.clear();
        self.sending.clear(&self.block_ring);
        self.block_ring.clear();
    }
}
