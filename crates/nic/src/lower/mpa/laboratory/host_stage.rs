//! The caller's stage of [`Split::Assist`](crate::laboratory::Split::Assist).

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use weft_lock::Mutex;
use weft_memory::Registry;
use weft_rdmap::Stream;

use super::block::BlockRing;
use super::fetch;
use super::stage::Stage;
use crate::queues::queue_pair::QueuePair;
use crate::queues::queue_pair::laboratory::CallerStage;

/// What a calling thread needs to segment messages and to insert markers itself, beside the NIC's thread that sums up
/// and sends.
pub(super) struct HostStage {
    pub(super) stage: Arc<Mutex<Stage>>,
    pub(super) stream: Arc<Mutex<Stream>>,
    pub(super) block_ring: Arc<BlockRing>,
    /// There was more to mark than the block ring has room for.
    pub(super) unfinished: AtomicBool,
}

impl CallerStage for HostStage {
    fn is_unfinished(&self) -> bool {
        self.unfinished.load(Ordering::Relaxed)
    }

    /// When memory goes away in the middle of a frame, the NIC's thread finds the stage broken, and ends the stream.
    fn work(&self, queue_pair: &QueuePair, registry: &Registry) -> bool {
        let mut stage = self.stage.lock();
        let mut stream = self.stream.lock();
        let mut any = queue_pair.move_posted(&mut stream, registry);
        while let Ok(true) = fetch::insert_markers(&mut stage, &mut stream, &self.block_ring, registry) {
            any = true;
        }
        any |= stage.is_broken();
        self.unfinished.store(stage.has_job(&stream) && !stage.is_broken(), Ordering::Relaxed);
        drop((stage, stream));
        any && self.block_ring.ring()
    }
}
