//! The tasks of the way out, and whose turn it is.

use std::sync::Arc;

use weft_base::{Port, PortError};
use weft_memory::MemoryError;

use super::super::Context;
use super::block::BlockRing;
use super::checksum::Checksum;
use super::fetch::{self, Processing};
use super::protocol::Core;
use super::sending::Sending;
use crate::settings::{Coupling, Split};

/// The way out of a connection whose NIC does part of its host's work.
pub(in crate::connection) struct Pipeline {
    first: First,
    /// Woven frames with holes for their CRCs.
    block_ring: Arc<BlockRing>,
    checksum: Checksum,
    sending: Sending,
}

/// Who weaves.
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

/// What went wrong in a pipeline.
pub(in crate::connection) enum Broken {
    /// The port.
    Port(PortError),
    /// Memory went away under a frame of which a part may have been sent.
    Memory,
}

impl From<PortError> for Broken {
    fn from(error: PortError) -> Self {
        Self::Port(error)
    }
}

impl From<MemoryError> for Broken {
    fn from(_: MemoryError) -> Self {
        Self::Memory
    }
}

impl Pipeline {
    /// The pipeline of a split; `None` where there is none.
    pub(in crate::connection) fn of(split: Split) -> Option<Self> {
        let first = match split {
            Split::Host => return None,
            Split::Offload(Coupling::Coupled) => First::Coupled,
            Split::Offload(Coupling::Decoupled) => {
                First::Decoupled { runs: Box::default(), processing: Box::default() }
            }
            Split::Assist => First::Assisted,
        };
        Some(Self { first, block_ring: Arc::default(), checksum: Checksum::default(), sending: Sending::default() })
    }

    /// What stands between the first stage and the next.
    pub(super) fn block_ring(&self) -> &Arc<BlockRing> {
        &self.block_ring
    }

    /// Whether finished blocks wait for the port.
    pub(in crate::connection) fn is_empty(&self) -> bool {
        self.sending.is_empty() && !self.block_ring.has_full()
    }

    /// Lets the tasks work until the port takes no more or nothing is left. Returns whether anything was done.
    pub(in crate::connection) fn run<P: Port>(
        &mut self,
        core: &mut Core,
        port: &mut P,
        cx: &mut Context<'_>,
    ) -> Result<bool, Broken> {
        self.block_ring.answer();
        let mut protocol = core.hold();
        if protocol.is_broken() {
            return Err(Broken::Memory);
        }
        protocol.follow_path(port);
        drop(protocol);
        let mut progress = false;
        let mut port_is_full = false;
        while let Some(turn) = self.choose(core, port_is_full) {
            match turn {
                Turn::Fetch => self.fetch(core, cx)?,
                Turn::Process => {
                    if let First::Decoupled { runs, processing } = &mut self.first {
                        processing.process(runs, &self.block_ring);
                    }
                }
                Turn::Sum => {
                    if let Some(mut block) = self.block_ring.pop() {
                        self.checksum.pass(&mut block, &mut self.sending.frames, cx.counters);
                        self.sending.add(block);
                    }
                }
                Turn::Send => {
                    let (taken, frames) = self.sending.send(port, &self.block_ring)?;
                    port_is_full = taken == 0 && !self.sending.is_empty();
                    if frames > 0 {
                        core.hold().stream.handle_sent(frames);
                    }
                    cx.counters.sends += 1;
                    cx.counters.sent_wire_bytes += taken as u64;
                    progress |= taken > 0;
                    continue;
                }
            }
            progress = true;
        }
        Ok(progress)
    }

    /// Looks at the belts. What is furthest on its way goes first once it is worth a call; before that, what can still be added to it.
    fn choose(&self, core: &mut Core, port_is_full: bool) -> Option<Turn> {
        if self.sending.has_enough() && !port_is_full {
            return Some(Turn::Send);
        }
        if self.block_ring.has_full() {
            return Some(Turn::Sum);
        }
        let (has_room, waits) = (self.block_ring.has_free(), !self.sending.is_empty());
        let turn = match &self.first {
            First::Decoupled { runs, processing } if has_room && processing.is_ready(runs) => Some(Turn::Process),
            First::Decoupled { runs, .. } if runs.has_free() && core.hold().has_job() => Some(Turn::Fetch),
            First::Coupled if has_room && core.hold().has_job() => Some(Turn::Fetch),
            // The caller's turn, unless it is not there: then nothing of it is on the way.
            First::Assisted if has_room && !waits && core.hold().has_job() => Some(Turn::Fetch),
            _ => None,
        };
        turn.or_else(|| (waits && !port_is_full).then_some(Turn::Send))
    }

    fn fetch(&mut self, core: &mut Core, cx: &mut Context<'_>) -> Result<(), MemoryError> {
        let mut protocol = core.hold();
        match &self.first {
            First::Decoupled { runs, .. } => fetch::fetch(&mut protocol, runs, cx.registry)?,
            First::Coupled | First::Assisted => fetch::insert_markers(&mut protocol, &self.block_ring, cx.registry)?,
        };
        Ok(())
    }

    /// Throws away what has not been sent.
    pub(in crate::connection) fn clear(&mut self) {
        if let First::Decoupled { runs, processing } = &mut self.first {
            processing.clear(runs);
            runs.clear();
        }
        self.checksum.clear();
        self.sending.clear(&self.block_ring);
        self.block_ring.clear();
    }
}
